//! Credentials of objects, for all operators, and the sessions that are opened with them. The
//! crate knows no provider.
//!
//! | module | is |
//! |---|---|
//! | [`decide`] | the pure decision which credential an object gets, or why none |
//! | [`explain`] | the same decision, described step by step |
//! | [`reference`] | references to credentials |
//! | [`shape`] | the contents of Secrets: what is needed, and which server they name |
//! | [`allowed`] | the namespaces and tenants that may use an identity |
//! | [`endpoint`] | endpoints that a credential may be sent to, and accepted certificates |
//! | [`credential`] | granted credentials, with redacted contents |
//! | [`claim`] | holds on Secrets: owner references and the finalizer |
//! | [`users`] | summaries of an identity's users |
//! | [`session`] | a pool of shared sessions |
//! | [`reason`] | stable reasons for refusals and failures |

pub mod allowed;
pub mod claim;
pub mod credential;
pub mod decide;
pub mod endpoint;
pub mod explain;
pub mod reason;
pub mod reference;
pub mod session;
pub mod shape;
pub mod users;
