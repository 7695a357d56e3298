//! What was decided, and why.

use std::fmt::{self, Display, Formatter};

use super::act::Who;
use super::binding::Binding;
use super::quote::Quoted;

/// What a policy says about an act.
#[derive(Clone, Debug)]
pub struct Decision<'a>(pub(super) Verdict<'a>);

#[derive(Clone, Debug)]
pub(super) enum Verdict<'a> {
    /// The caller is one of those who may do everything.
    Master,
    Granted {
        binding: &'a Binding,
        who: Who<'a>,
    },
    NoOpinion(Unresolved),
}

/// Why, as Kubernetes says it. It is put together when it is printed, and may be empty.
#[derive(Clone, Copy, Debug)]
pub struct Reason<'a>(&'a Verdict<'a>);

/// The roles that the caller is bound to and that are not there. They give nothing; the
/// caller is told, who would look for the mistake elsewhere.
///
/// Printed, each is said once; several stand in brackets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unresolved(pub(super) Vec<UnresolvedRole>);

/// A role that is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnresolvedRole {
    /// There is no such role in the namespace.
    #[error("role.rbac.authorization.k8s.io {} not found", Quoted(.0))]
    NoRole(Box<str>),
    /// There is no such role in the space.
    #[error("clusterrole.rbac.authorization.k8s.io {} not found", Quoted(.0))]
    NoClusterRole(Box<str>),
    /// There are no roles of this kind.
    #[error("unsupported role reference kind: {}", Quoted(.0))]
    Kind(Box<str>),
}

impl Decision<'_> {
    /// Whether the act is allowed. What is not allowed is not forbidden either: somebody
    /// else may still allow it.
    pub const fn is_allowed(&self) -> bool {
        !matches!(self.0, Verdict::NoOpinion(_))
    }

    /// Why.
    pub const fn reason(&self) -> Reason<'_> {
        Reason(&self.0)
    }
}

impl Reason<'_> {
    /// Whether there is nothing to say.
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
            Verdict::Granted { binding, who } => {
                f.write_str("RBAC: allowed by ")?;
                binding.describe(*who, f)
            }
            Verdict::NoOpinion(unresolved) if !unresolved.is_empty() => {
                write!(f, "RBAC: {unresolved}")
            }
            Verdict::Master | Verdict::NoOpinion(_) => Ok(()),
        }
    }
}

impl Unresolved {
    /// Whether every role was there.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One for each binding, in the order of the bindings.
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
