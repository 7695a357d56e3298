//! An example of a provider: records of a DNS service, for many tenants, each with the account
//! that is theirs.
//!
//! A provider is made of its kinds, a client for its servers, and one reconciler per kind. The
//! shell in `insula-operator` does the rest: watches, retries, leader election, the choice of the
//! credential and its bounds, sessions, holds on Secrets, events, and all tenants of an Insula.
//!
//! | module | is |
//! |---|---|
//! | [`kinds`] | `DnsRecord`, and `DnsAccount` for accounts that namespaces or tenants share |
//! | [`service`] | the client of the DNS service |
//! | [`provider`] | the reconciler of records |
//! | [`install`] | the objects to install |

pub mod install;
pub mod kinds;
pub mod provider;
pub mod service;
