//! Cluster API's vSphere provider for many tenants, each with credentials of its own.
//!
//! | module | content |
//! |---|---|
//! | [`kinds`] | the custom resources: identities, clusters, machines, zones |
//! | [`capi`] | the parts of Cluster API's own kinds that the operator uses |
//! | [`crds`] | the CustomResourceDefinitions |
//! | [`roles`], [`policy`] | RBAC roles and admission policies |
//! | [`manifests`] | the objects to install on a management cluster |
//! | [`vcenter`] | a vCenter, over SOAP: sessions, inventory, virtual machines, tasks |
//! | [`operator`] | the reconcilers that bring vCenters in line with the custom resources |
//! | [`explain`], [`users`] | which credential an object gets, and which objects use an identity |
//! | [`names`] | group, labels, finalizers and other well-known names |

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
