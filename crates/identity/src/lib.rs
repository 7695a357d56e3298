//! Whose credentials an object gets, for all operators, and the sessions that are opened
//! with them. It knows no provider.
//!
//! | module | is |
//! |---|---|
//! | [`decide`] | pure: from what an object says and what there is to a credential, or why none |
//! | [`explain`] | the same, told step by step to whoever asks why |
//! | [`reference`] | what an object says about whose credentials it uses |
//! | [`allowed`] | which namespaces may use an identity |
//! | [`endpoint`] | where a credential may be sent, and whom to believe there |
//! | [`credential`] | what was granted; it never shows what it holds |
//! | [`claim`] | who holds a Secret: owner references and the finalizer |
//! | [`users`] | who uses an identity |
//! | [`session`] | sessions: one login for many, checked on use, closed when nobody uses them |
//! | [`reason`] | why not, in words that never change their meaning |

pub mod allowed;
pub mod claim;
pub mod credential;
pub mod decide;
pub mod endpoint;
pub mod explain;
pub mod reason;
pub mod reference;
pub mod session;
pub mod users;
