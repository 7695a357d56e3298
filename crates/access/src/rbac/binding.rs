//! Role bindings.

use std::fmt::{self, Display, Formatter};

use serde::Deserialize;

use super::attributes::User;
use super::decision::UnresolvedRole;
use insula_gotext::quote::Quoted;

/// The role that a binding refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleRef<'a> {
    /// A cluster role.
    ClusterRole(&'a str),
    /// A role of a namespace.
    Role {
        /// The namespace of the role and of the binding.
        namespace: &'a str,
        /// The role's name.
        name: &'a str,
    },
}

/// A RoleBinding or ClusterRoleBinding.
#[derive(Debug)]
pub struct Binding {
    /// The namespace of a RoleBinding, which also limits it.
    pub namespace: Option<Box<str>>,
    pub name: Box<str>,
    pub role_kind: RoleKind,
    pub role: Box<str>,
    pub subjects: Box<[Subject]>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoleKind {
    ClusterRole,
    Role,
    Other(Box<str>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    User(Box<str>),
    Group(Box<str>),
    ServiceAccount { namespace: Box<str>, name: Box<str> },
}

/// Prefix of service accounts' user names.
pub const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

impl Binding {
    /// The role that it grants, or `None` if the reference cannot be resolved at all.
    pub fn role_ref(&self) -> Option<RoleRef<'_>> {
        match (&self.role_kind, self.namespace.as_deref()) {
            (RoleKind::ClusterRole, _) => Some(RoleRef::ClusterRole(&self.role)),
            (RoleKind::Role, Some(namespace)) => Some(RoleRef::Role {
                namespace,
                name: &self.role,
            }),
            (RoleKind::Role, None) | (RoleKind::Other(_), _) => None,
        }
    }

    /// The error that is reported when the role does not exist.
    pub fn unresolved(&self) -> UnresolvedRole {
        match &self.role_kind {
            RoleKind::ClusterRole => UnresolvedRole::NoClusterRole(self.role.clone()),
            RoleKind::Role => UnresolvedRole::NoRole(self.role.clone()),
            RoleKind::Other(kind) => UnresolvedRole::Kind(kind.clone()),
        }
    }

    /// Describes the binding as Kubernetes does, with the first of its subjects that matches
    /// the user.
    pub fn describe(&self, user: User<'_>, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            None => write!(f, "ClusterRoleBinding {}", Quoted(&self.name))?,
            Some(namespace) => {
                let name = format!("{}/{namespace}", self.name);
                write!(f, "RoleBinding {}", Quoted(&name))?;
            }
        }
        write!(f, " of {} {}", self.role_kind, Quoted(&self.role))?;
        match self.subjects.iter().find(|subject| subject.is(user)) {
            Some(subject) => write!(f, " to {subject}"),
            None => Ok(()),
        }
    }

    pub fn weight(&self) -> usize {
        // Each subject is stored in the binding and again in the index.
        let subjects = self
            .subjects
            .iter()
            .map(|subject| 2 * subject.weight() + 64);
        size_of::<Self>() + self.name.len() + self.role.len() + subjects.sum::<usize>()
    }
}

impl Subject {
    /// Reports whether it refers to this user.
    pub fn is(&self, user: User<'_>) -> bool {
        match self {
            Self::User(name) => **name == *user.name,
            Self::Group(name) => user.groups.iter().any(|group| **group == **name),
            Self::ServiceAccount { namespace, name } => user
                .name
                .strip_prefix(SERVICE_ACCOUNT)
                .and_then(|rest| rest.strip_prefix(&**namespace))
                .and_then(|rest| rest.strip_prefix(':'))
                .is_some_and(|rest| *rest == **name),
        }
    }

    fn weight(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::User(name) | Self::Group(name) => name.len(),
                Self::ServiceAccount { namespace, name } => namespace.len() + name.len(),
            }
    }
}

impl Display for Subject {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "User {}", Quoted(name)),
            Self::Group(name) => write!(f, "Group {}", Quoted(name)),
            Self::ServiceAccount { namespace, name } => {
                write!(
                    f,
                    "ServiceAccount {}",
                    Quoted(&format!("{name}/{namespace}"))
                )
            }
        }
    }
}

impl Display for RoleKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClusterRole => "ClusterRole",
            Self::Role => "Role",
            Self::Other(kind) => kind,
        })
    }
}

impl From<Box<str>> for RoleKind {
    fn from(kind: Box<str>) -> Self {
        match &*kind {
            "ClusterRole" => Self::ClusterRole,
            "Role" => Self::Role,
            _ => Self::Other(kind),
        }
    }
}

/// A subject as stored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct StoredSubject {
    kind: Box<str>,
    name: Box<str>,
    namespace: Option<Box<str>>,
}

impl StoredSubject {
    /// Resolves the subject. A service account without a namespace takes that of the binding.
    /// Without either, or with an unknown kind, the subject matches no user.
    pub fn read(self, namespace: Option<&str>) -> Option<Subject> {
        match &*self.kind {
            "User" => Some(Subject::User(self.name)),
            "Group" => Some(Subject::Group(self.name)),
            "ServiceAccount" => {
                let own = self.namespace.filter(|own| !own.is_empty());
                let namespace = own.or_else(|| namespace.map(Into::into))?;
                let name = self.name;
                Some(Subject::ServiceAccount { namespace, name })
            }
            _ => None,
        }
    }
}
