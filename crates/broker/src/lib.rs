//! Submariner brokers for many tenants.
//!
//! A *broker* is a namespace through which the clusters of a ClusterSet find each other. A
//! *tenant* is a ClusterSet whose broker is one of many on the same cluster: the operator
//! makes its namespace and what is in it, and the tenant's administrator needs no right
//! beyond it.
//!
//! | module | is |
//! |---|---|
//! | [`names`] | what everything is called |
//! | [`tenant`], [`broker`] | the kinds |
//! | [`roles`] | who may what |
//! | [`crds`] | their definitions |
//! | [`manifests`] | what is put on a cluster, as data |
//! | [`mode`] | whether a broker is one of many |
//! | [`connect`] | how it is reached |
//! | [`deploy`] | how the operator, or a broker, is put there |
//! | [`token`] | tokens of service accounts |
//! | [`tenants`] | what those who manage tenants do |
//! | [`info`] | the file `broker-info.subm` |
//! | [`psk`], [`component`] | what is in it |
//! | [`cidr`], [`globalnet`] | addresses, and who has which |
//! | [`join`] | a cluster joins a broker |
//! | [`columns`] | what others wrote, as it is shown |
//! | [`show`] | the brokers of a cluster, as they are shown |
//! | [`recover`] | a file that was lost, written anew |
//! | [`operator`] | what gives every Tenant what its broker needs |
//! | [`report`] | how whoever asked for something is told how it goes |
//! | [`error`] | why something was not done, and what to do about it |

pub mod broker;
pub mod cidr;
pub mod columns;
pub mod component;
pub mod connect;
pub mod crds;
pub mod deploy;
pub mod error;
pub mod globalnet;
pub mod info;
pub mod join;
mod lookup;
pub mod manifests;
pub mod mode;
pub mod names;
pub mod operator;
mod passing;
pub mod psk;
pub mod recover;
pub mod roles;
pub mod show;
pub mod tenant;
pub mod tenants;
pub mod token;

pub use error::Error;
pub use insula_operator::report;
