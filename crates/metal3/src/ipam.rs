//! Address pools: their custom resources, and which address a claim gets.
//!
//! | module | content |
//! |---|---|
//! | [`kinds`] | pools, claims and addresses of Metal3 |
//! | [`contract`] | claims and addresses of Cluster API, for pools of any provider |
//! | [`range`] | the addresses of one entry of a pool |
//! | [`used`] | a set of addresses that finds free ones fast |
//! | [`allocate`] | which address a claim gets |
//! | [`name`] | the names of address objects |

pub mod allocate;
pub mod contract;
pub mod kinds;
pub mod name;
pub mod range;
pub mod used;
