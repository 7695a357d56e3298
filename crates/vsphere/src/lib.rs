//! Clusters on vSphere, for many tenants, each with the credentials that are theirs.
//!
//! | module | is |
//! |---|---|
//! | [`kinds`] | what users write: identities, clusters, machines, zones |
//! | [`capi`] | the little that has to be known of Cluster API's own kinds |
//! | [`crds`] | the definitions of the kinds |
//! | [`roles`], [`policy`] | who may what, and what nobody may |
//! | [`manifests`] | what is put on a cluster, as data |
//! | [`vcenter`] | a vCenter, over SOAP: sessions, inventory, virtual machines, tasks |
//! | [`operator`] | what brings the one to be in the other |
//! | [`explain`], [`users`] | whose credentials an object gets, and who uses an identity |
//! | [`names`] | names that others rely on |

pub mod capi;
pub mod crds;
pub mod explain;
pub mod kinds;
pub mod manifests;
pub mod names;
pub mod operator;
pub mod policy;
pub mod roles;
pub mod users;
pub mod vcenter;
