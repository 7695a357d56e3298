//! Which host a machine gets, and which states a host has.
//!
//! | module | content |
//! |---|---|
//! | [`selector`] | which labels a host must have |
//! | [`consumer`] | the object that uses a host |
//! | [`choose`] | which of several hosts a machine gets |
//! | [`claim`] | what makes a host that of a machine |
//! | [`proof`] | what proves that a host belongs to a machine, also after a move |
//! | [`provision`] | what a host is to run |
//! | [`release`] | what makes a host free again, and when it is |
//! | [`restart`] | the restart of a host by annotations |
//! | [`pause`] | annotations for moves to another management cluster |
//! | [`addresses`] | the addresses of a machine on its host |
//! | [`labels`] | labels of a host that become labels of its node |
//! | [`node`] | the node of a machine in its cluster |
//! | [`patch`] | changes of a host as a patch |
//!
//! The functions have no I/O: they change a copy of a host, and [`patch::between`] returns the
//! patch to send.

pub mod addresses;
pub mod choose;
pub mod claim;
pub mod consumer;
pub mod labels;
pub mod node;
pub mod patch;
pub mod pause;
pub mod proof;
pub mod provision;
pub mod release;
pub mod restart;
pub mod selector;
#[cfg(test)]
mod tests;
