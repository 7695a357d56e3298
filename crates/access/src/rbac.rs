//! What a principal may do inside a space: roles, bindings, and the decision.
//!
//! A [`Policy`] holds the roles and bindings of one space, above the built-in ones that all
//! spaces share ([`bootstrap`]), and decides whether somebody ([`Who`]) may do something
//! ([`Act`]). Nothing forbids: what no rule allows, nobody may.
//!
//! [`cover`] is the other half: who makes a role or binds one gives away only what they
//! have.
//!
//! Nothing here reads a clock, a store or a request. Objects come in by [`Policy::put`] and
//! go by [`Policy::remove`].

mod act;
mod aggregate;
mod binding;
pub mod bootstrap;
pub mod cover;
mod decision;
mod index;
mod layer;
mod object;
mod policy;
mod quote;
mod rule;
mod selector;

pub use act::{Act, Reach, ResourceAct, Who};
pub use binding::RoleRef;
pub use decision::{Decision, Reason, Unresolved, UnresolvedRole};
pub use object::{ObjectError, RbacKind, RbacObject};
pub use policy::{Policy, Rules};
pub use rule::Rule;
