//! Cluster API's Metal3 provider for many tenants, each with the hosts that its credentials reach.
//!
//! | module | content |
//! |---|---|
//! | [`kinds`] | the custom resources: clusters, machines, data, remediations, and the hosts |
//! | [`ipam`] | address pools: their custom resources, and which address a claim gets |
//! | [`crds`] | the CustomResourceDefinitions |
//! | [`versions`], [`webhooks`] | the conversion between their versions, validation, and the webhooks for both |
//! | [`roles`], [`manifests`] | RBAC roles, and the objects to install |
//! | [`kubeconfig`] | what a Secret that `identityRef` names contains |
//! | [`hosts`] | which host a machine gets, and which states a host has |
//! | [`pool`] | the hosts that a credential reaches: client, watch, rights |
//! | [`data`] | the contents of metadata and network data Secrets |
//! | [`operator`] | the reconcilers that bring hosts in line with the custom resources |
//! | [`inspect`] | how to ask which credential an object gets |
//! | `relocation` | the rules for moves of clusters to another API server |
//! | [`names`] | groups, labels, annotations, finalizers and other well-known names |

pub mod crds;
pub mod data;
pub mod hosts;
pub mod inspect;
pub mod ipam;
pub mod kinds;
pub mod kubeconfig;
pub mod manifests;
pub mod names;
pub mod operator;
pub mod pool;
mod relocation;
pub mod roles;
pub mod versions;
pub mod webhooks;
