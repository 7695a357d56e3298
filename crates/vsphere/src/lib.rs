//! Cluster API's vSphere provider for many tenants, each with credentials of its own.
//!
//! | module | content |
//! |---|---|
//! | [`kinds`] | the custom resources: identities, clusters, machines, zones |
//! | [`crds`] | the CustomResourceDefinitions |
//! | [`versions`], [`webhooks`] | the conversion between their versions, and its webhook |
//! | [`roles`], [`policy`] | RBAC roles and admission policies |
//! | [`manifests`] | the objects to install on a management cluster |
//! | [`vcenter`] | a vCenter, over SOAP: sessions, inventory, virtual machines, tasks |
//! | [`operator`] | the reconcilers that bring vCenters in line with the custom resources |
//! | [`inspect`] | how to ask which credential an object gets |
//! | `relocation` | the rules for moves of clusters to another API server |
//! | [`names`] | group, labels, finalizers and other well-known names |

pub mod crds;
pub mod inspect;
pub mod kinds;
pub mod manifests;
pub mod names;
pub mod operator;
pub mod policy;
mod relocation;
pub mod roles;
pub mod vcenter;
pub mod versions;
pub mod webhooks;
