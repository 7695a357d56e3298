//! Cluster API, as infrastructure providers see it.
//!
//! | module | is |
//! |---|---|
//! | [`kinds`] | the fields of Cluster, Machine and MachineSet that providers use |
//! | [`contract`] | both contracts: labels of definitions, and how infrastructure is reported |
//! | [`v1beta1`] | conditions and failures of contract `v1beta1` |
//! | [`versions`] | rules that convert a status between both contracts |
//! | [`provider_id`] | the ID of a machine at its provider |
//! | [`naming`] | names of machines from a template |
//! | [`bootstrap`] | bootstrap data: when it can be expected, and what its Secret contains |
//! | [`owner`] | the Cluster or Machine that owns an object |
//! | [`owning_cluster`] | the Cluster that an object belongs to, and its infrastructure |
//! | [`paused`] | whether an object is paused |
//! | [`workload`] | clients of workload clusters |
//! | [`remediation`] | the request of an external remediation that a Machine is replaced |
//! | [`roles`] | RBAC rules for kinds of Cluster API |
//! | [`relocation`] | the rules of providers for moves of clusters |
//! | [`names`] | labels, annotations and other well-known names |

pub mod bootstrap;
pub mod contract;
pub mod kinds;
pub mod names;
pub mod naming;
pub mod owner;
pub mod owning_cluster;
pub mod paused;
pub mod provider_id;
pub mod relocation;
pub mod remediation;
pub mod roles;
pub mod v1beta1;
pub mod versions;
pub mod workload;

pub use contract::{Contract, Initialization};
pub use kinds::{Cluster, Machine, MachineSet};
pub use provider_id::ProviderId;
