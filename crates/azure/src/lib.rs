//! Azure resources for many tenants: custom resources of Azure Service Operator, created in Azure
//! with the credential that each of them is entitled to.
//!
//! | module | content |
//! |---|---|
//! | [`table`] | what is known about each kind: its ARM type, versions, and fields with a rule of their own |
//! | [`mapping`] | custom resources to bodies of ARM requests, and responses to statuses |
//! | [`versions`] | the conversion between the versions of a kind |
//! | [`installed`] | the definitions of the server, for conversion |
//! | [`webhooks`] | admission of custom resources |
//! | [`arm`] | the client of Azure Resource Manager: ids, requests, long-running operations, errors |
//! | [`entra`] | tokens of Microsoft Entra ID and of managed identities |
//! | [`settings`] | the settings of an operator, as environment variables and Secrets have them |
//! | [`settings_secret`] | these settings, read and watched |
//! | [`operator`] | the reconciler of all kinds |
//! | [`crds`] | the definitions of the kinds that most people begin with |
//! | [`roles`], [`manifests`] | RBAC roles, and the objects to install |
//! | [`inspect`] | which credential an object gets, for `insula identity` |
//! | [`upgrade`] | whether operators and definitions can be moved to another release |
//! | [`storage`] | the migration of stored objects to the storage version |
//! | [`import`] | custom resources for resources that exist in Azure |
//! | [`names`] | groups, labels, annotations, finalizers and other well-known names |

pub mod arm;
pub mod crds;
pub mod entra;
pub mod import;
pub mod inspect;
pub mod installed;
pub mod manifests;
pub mod mapping;
pub mod names;
pub mod operator;
pub mod roles;
pub mod settings;
pub mod settings_secret;
pub mod storage;
pub mod table;
pub mod upgrade;
pub mod versions;
pub mod webhooks;
