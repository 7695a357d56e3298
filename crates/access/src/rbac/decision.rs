//! The outcome of an authorization check.

use std::fmt::{self, Display, Formatter};

use super::attributes::User;
use super::binding::Binding;
use insula_gotext::quote::Quoted;

/// The outcome of an authorization check.
#[derive(Clone, Debug)]
pub struct Decision<'a>(pub(super) Verdict<'a>);

#[derive(Clone, Debug)]
pub(super) enum Verdict<'a> {
    /// The user is in `system:masters`.
    Master,
    Granted {
        binding: &'a Binding,
        user: User<'a>,
    },
    NoOpinion(Unresolved),
}

/// The reason in Kubernetes' wording, formatted on demand. It may be empty.
#[derive(Clone, Copy, Debug)]
pub struct Reason<'a>(&'a Verdict<'a>);

/// Roles that the user is bound to but that do not exist. They grant nothing, and are
/// reported so that a dangling reference can be found.
///
/// Displayed without duplicates, in brackets if there are several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unresolved(pub(super) Vec<UnresolvedRole>);

/// A role that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnresolvedRole {
    /// The namespace has no such role.
    #[error("role.rbac.authorization.k8s.io {} not found", Quoted(.0))]
    NoRole(Box<str>),
    /// The space has no such cluster role.
    #[error("clusterrole.rbac.authorization.k8s.io {} not found", Quoted(.0))]
    NoClusterRole(Box<str>),
    /// The reference has an unknown kind.
    #[error("unsupported role reference kind: {}", Quoted(.0))]
    Kind(Box<str>),
}

impl Decision<'_> {
    /// Reports whether the request is allowed. `false` is no denial: another authorizer may
    /// still allow the request.
    pub const fn is_allowed(&self) -> bool {
        !matches!(self.0, Verdict::NoOpinion(_))
    }

    /// The reason for the decision.
    pub const fn reason(&self) -> Reason<'_> {
        Reason(&self.0)
    }
}

impl Reason<'_> {
    /// Reports whether there is no reason to display.
    pub fn is_empty(&self) -> bool {
        match self.0 {
            Verdict::Master => true,
            Verdict::Granted { .. } => false,
            Verdict::NoOpinion(unresolved) => unresolved.is_empty(),
        }
    }
}

impl Display for Reason<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Verdict::Granted { binding, user } => {
                f.write_str("RBAC: allowed by ")?;
                binding.describe(*user, f)
            }
            Verdict::NoOpinion(unresolved) if !unresolved.is_empty() => {
                write!(f, "RBAC: {unresolved}")
            }
            Verdict::Master | Verdict::NoOpinion(_) => Ok(()),
        }
    }
}

impl Unresolved {
    /// Reports whether every referenced role exists.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the missing roles, one per binding and in their order.
    pub fn iter(&self) -> impl Iterator<Item = &UnresolvedRole> {
        self.0.iter()
    }
}

impl Display for Unresolved {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut said: Vec<&UnresolvedRole> = Vec::new();
        for role in &self.0 {
            if !said.contains(&role) {
                said.push(role);
            }
        }
        if let [only] = said[..] {
            return only.fmt(f);
        }
        for (place, role) in said.iter().enumerate() {
            f.write_str(if place == 0 { "[" } else { ", " })?;
            role.fmt(f)?;
        }
        f.write_str(if said.is_empty() { "" } else { "]" })
    }
}
