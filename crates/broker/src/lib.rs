//! Submariner brokers for many tenants.
//!
//! A *broker* is a namespace through which the clusters of a ClusterSet exchange information.
//! A *tenant* is a ClusterSet whose broker is one of many on the same cluster: the operator
//! creates its namespace and the objects in it, and the tenant's administrator needs no
//! permission outside of it.
//!
//! | module | content |
//! |---|---|
//! | [`names`] | names of objects, labels and annotations |
//! | [`tenant`], [`broker`] | the kinds |
//! | [`roles`] | the rules of every role |
//! | [`crds`] | their definitions |
//! | [`quota`] | the quota of a tenant's namespace |
//! | [`manifests`] | builders of Kubernetes objects |
//! | [`cluster_id`] | the ID of a cluster in its ClusterSet |
//! | [`mode`] | whether a cluster has brokers of many tenants |
//! | [`connect`] | connections to a broker |
//! | [`deploy`] | deployment of the operator and of brokers |
//! | [`token`] | service account tokens |
//! | [`tenants`] | tenant management |
//! | [`info`] | the file `broker-info.subm` |
//! | [`psk`], [`component`] | parts of that file |
//! | [`cidr`], [`globalnet`] | address ranges and their allocation |
//! | [`join`] | joining of a cluster to a broker |
//! | [`diagnose`] | checks of a broker and its clusters |
//! | [`unjoin`] | removal of a cluster from its ClusterSet |
//! | [`columns`] | terminal tables of untrusted text |
//! | [`show`] | listing of the brokers of a cluster |
//! | [`recover`] | recovery of a lost broker info file |
//! | [`operator`] | the operator that provisions tenants |
//! | [`report`] | progress reports |
//! | [`error`] | errors with hints |

pub mod broker;
pub mod cidr;
pub mod cluster_id;
pub mod columns;
pub mod component;
pub mod connect;
pub mod crds;
pub mod deploy;
pub mod diagnose;
pub mod error;
pub mod globalnet;
mod go_json;
pub mod info;
pub mod join;
mod lookup;
pub mod manifests;
pub mod mode;
pub mod names;
pub mod operator;
pub mod psk;
pub mod quota;
pub mod recover;
pub mod roles;
pub mod show;
pub mod tenant;
pub mod tenants;
pub mod token;
mod transient;
pub mod unjoin;

pub use error::Error;
pub use insula_operator::report;
