//! Upgrades: whether operators and definitions can be moved to another release, and which
//! operators and objects hold them back.
//!
//! | module | content |
//! |---|---|
//! | [`check`] | whether the operators can be moved to a release |
//! | [`removal`] | whether a version can be removed from the definitions |
//! | [`definitions`] | the installed definitions |
//! | [`operators`] | the operators, from Deployments and from objects |
//! | [`held_secrets`] | Secrets that an operator held and that are released after it |
//! | [`release`] | releases, and which definitions they run with |
//! | `api` | requests that all of this consists of |

pub(crate) mod api;
pub mod check;
pub mod definitions;
pub mod held_secrets;
pub mod operators;
pub mod release;
pub mod removal;

pub use api::Error;
pub use definitions::Definition;
pub use operators::{Operators, TenantOperator};
pub use release::Release;
