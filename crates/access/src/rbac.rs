//! Role-based access control inside one space.
//!
//! A [`Policy`] holds the roles and bindings of a space, layered over the built-in ones that
//! all spaces share ([`bootstrap`]). It decides whether a user ([`User`]) may perform a request
//! ([`Attributes`]). Rules only allow; a request that no rule allows is not permitted.
//!
//! [`escalation`] is the escalation check: a user who creates or binds a role may only grant
//! permissions that they hold themselves.
//!
//! This module reads no clock, no store and no request. Objects are added by [`Policy::put`]
//! and removed by [`Policy::remove`].
mod aggregate;
mod attributes;
mod binding;
pub mod bootstrap;
mod decision;
pub mod escalation;
mod index;
mod layer;
mod object;
mod policy;
mod rule;
mod selector;

pub use attributes::{Attributes, Reach, ResourceAttributes, User};
pub use binding::RoleRef;
pub use decision::{Decision, Reason, Unresolved, UnresolvedRole};
pub use object::{ObjectError, RbacKind, RbacObject};
pub use policy::{Policy, Rules};
pub use rule::Rule;
