//! Roles and bindings, as a policy takes them.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use serde::Deserialize;

use super::act::Who;
use super::decision::UnresolvedRole;
use super::quote::Quoted;
use super::rule::{Rule, RuleList, list};
use super::selector::{Labels, Selector};

/// The kinds that a policy is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RbacKind {
    /// Rules for one namespace.
    Role,
    /// Rules for any namespace, or for all.
    ClusterRole,
    /// Who has a role in a namespace.
    RoleBinding,
    /// Who has a role everywhere.
    ClusterRoleBinding,
}

/// A role or a binding.
#[derive(Clone, Debug)]
pub struct RbacObject {
    pub(super) namespace: Option<Box<str>>,
    pub(super) name: Box<str>,
    pub(super) content: Content,
}

/// Which role a binding gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleRef<'a> {
    /// One of the space.
    ClusterRole(&'a str),
    /// One of a namespace.
    Role {
        /// The namespace, which is that of the binding.
        namespace: &'a str,
        /// The role.
        name: &'a str,
    },
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    Role(RuleList),
    ClusterRole(ClusterRole),
    Binding(Arc<Binding>),
}

/// A role of the space.
#[derive(Clone, Debug)]
pub(super) struct ClusterRole {
    pub labels: Labels,
    pub source: Source,
}

/// Where the rules of a role come from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Own(RuleList),
    /// From the roles that any of these selects. Rules of its own do not count: they are
    /// what was found there at some time.
    Aggregated(Box<[Selector]>),
}

/// Who has which role.
#[derive(Debug)]
pub(super) struct Binding {
    /// The namespace that it is in, and to which it is limited.
    pub namespace: Option<Box<str>>,
    pub name: Box<str>,
    pub role_kind: RoleKind,
    pub role: Box<str>,
    pub subjects: Box<[Subject]>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RoleKind {
    ClusterRole,
    Role,
    Other(Box<str>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    User(Box<str>),
    Group(Box<str>),
    ServiceAccount { namespace: Box<str>, name: Box<str> },
}

impl RbacKind {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Role,
        Self::ClusterRole,
        Self::RoleBinding,
        Self::ClusterRoleBinding,
    ];

    /// The kind behind a resource of the group `rbac.authorization.k8s.io`.
    pub fn from_resource(resource: &str) -> Option<Self> {
        let mut kinds = Self::ALL.into_iter();
        kinds.find(|kind| kind.resource() == resource)
    }

    /// What it is called in paths.
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Role => "roles",
            Self::ClusterRole => "clusterroles",
            Self::RoleBinding => "rolebindings",
            Self::ClusterRoleBinding => "clusterrolebindings",
        }
    }

    /// What it is called in objects.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Role => "Role",
            Self::ClusterRole => "ClusterRole",
            Self::RoleBinding => "RoleBinding",
            Self::ClusterRoleBinding => "ClusterRoleBinding",
        }
    }

    /// Whether its objects are in namespaces.
    pub const fn is_namespaced(self) -> bool {
        matches!(self, Self::Role | Self::RoleBinding)
    }
}

impl RbacObject {
    /// Reads an object as it is stored.
    ///
    /// Only what decides is looked at. An object that cannot be read gives nothing: whoever
    /// holds an older version of it in a policy has to remove that.
    pub fn parse(kind: RbacKind, json: &[u8]) -> Result<Self, ObjectError> {
        let stored: Stored = serde_json::from_slice(json)?;
        Self::from_stored(kind, stored)
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace that it is in.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// What it is.
    pub fn kind(&self) -> RbacKind {
        match (&self.content, &self.namespace) {
            (Content::Role(_), _) => RbacKind::Role,
            (Content::ClusterRole(_), _) => RbacKind::ClusterRole,
            (Content::Binding(_), Some(_)) => RbacKind::RoleBinding,
            (Content::Binding(_), None) => RbacKind::ClusterRoleBinding,
        }
    }

    pub(super) fn from_stored(kind: RbacKind, stored: Stored) -> Result<Self, ObjectError> {
        let metadata = stored.metadata;
        let name = metadata.name.filter(|name| !name.is_empty());
        let name = name.ok_or(ObjectError::NoName)?;
        let namespace = match kind.is_namespaced() {
            false => None,
            true => {
                let namespace = metadata.namespace.filter(|name| !name.is_empty());
                Some(namespace.ok_or(ObjectError::NoNamespace)?)
            }
        };
        let rules = || stored.rules.into_iter().map(Arc::new).collect();
        let content = match kind {
            RbacKind::Role => Content::Role(rules()),
            RbacKind::ClusterRole => Content::ClusterRole(ClusterRole {
                labels: metadata.labels.unwrap_or_default(),
                source: match stored.aggregation_rule {
                    None => Source::Own(rules()),
                    Some(rule) => Source::Aggregated(rule.cluster_role_selectors.into()),
                },
            }),
            RbacKind::RoleBinding | RbacKind::ClusterRoleBinding => {
                let namespace = namespace.as_deref();
                let subjects = stored.subjects.into_iter();
                let subjects = subjects.filter_map(|subject| subject.read(namespace));
                Content::Binding(Arc::new(Binding {
                    namespace: namespace.map(Into::into),
                    name: name.clone(),
                    role_kind: RoleKind::from(stored.role_ref.kind),
                    role: stored.role_ref.name,
                    subjects: subjects.collect(),
                }))
            }
        };
        Ok(Self {
            namespace,
            name,
            content,
        })
    }
}

impl ClusterRole {
    pub fn weight(&self) -> usize {
        let labels = self.labels.iter();
        let labels = labels.map(|(key, value)| key.len() + value.len() + 48);
        let source = match &self.source {
            Source::Own(rules) => rules_weight(rules),
            Source::Aggregated(selectors) => selectors.iter().map(Selector::weight).sum(),
        };
        size_of::<Self>() + labels.sum::<usize>() + source
    }
}

impl Binding {
    /// The role that it gives, if such a role can be.
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

    /// What is said of it when the role is not there.
    pub fn unresolved(&self) -> UnresolvedRole {
        match &self.role_kind {
            RoleKind::ClusterRole => UnresolvedRole::NoClusterRole(self.role.clone()),
            RoleKind::Role => UnresolvedRole::NoRole(self.role.clone()),
            RoleKind::Other(kind) => UnresolvedRole::Kind(kind.clone()),
        }
    }

    /// Says it as Kubernetes does, with the first of its subjects that is the caller.
    pub fn describe(&self, who: Who<'_>, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            None => write!(f, "ClusterRoleBinding {}", Quoted(&self.name))?,
            Some(namespace) => {
                let name = format!("{}/{namespace}", self.name);
                write!(f, "RoleBinding {}", Quoted(&name))?;
            }
        }
        write!(f, " of {} {}", self.role_kind, Quoted(&self.role))?;
        match self.subjects.iter().find(|subject| subject.is(who)) {
            Some(subject) => write!(f, " to {subject}"),
            None => Ok(()),
        }
    }

    pub fn weight(&self) -> usize {
        // Each subject is there once in the list and once in the index.
        let subjects = self
            .subjects
            .iter()
            .map(|subject| 2 * subject.weight() + 64);
        size_of::<Self>() + self.name.len() + self.role.len() + subjects.sum::<usize>()
    }
}

impl Subject {
    /// Whether the caller is meant.
    pub fn is(&self, who: Who<'_>) -> bool {
        match self {
            Self::User(name) => **name == *who.user,
            Self::Group(name) => who.groups.iter().any(|group| **group == **name),
            Self::ServiceAccount { namespace, name } => who
                .user
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

/// What a service account's user name begins with.
pub(super) const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// About how many bytes rules take.
pub(super) fn rules_weight(rules: &[Arc<Rule>]) -> usize {
    rules.iter().map(|rule| rule.weight() + 24).sum()
}

/// A stored object is no role or binding.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// It is no JSON of that shape.
    #[error("the object is not one of roles and bindings")]
    Json(#[from] serde_json::Error),
    /// It has no name.
    #[error("the object has no name")]
    NoName,
    /// It has to be in a namespace and is in none.
    #[error("the object has no namespace")]
    NoNamespace,
}

/// What of a stored object decides.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Stored {
    metadata: Metadata,
    #[serde(deserialize_with = "list")]
    rules: Vec<Rule>,
    aggregation_rule: Option<AggregationRule>,
    role_ref: StoredRoleRef,
    #[serde(deserialize_with = "list")]
    subjects: Vec<StoredSubject>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: Option<Box<str>>,
    namespace: Option<Box<str>>,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AggregationRule {
    #[serde(deserialize_with = "list")]
    cluster_role_selectors: Vec<Selector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StoredRoleRef {
    kind: Box<str>,
    name: Box<str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StoredSubject {
    kind: Box<str>,
    name: Box<str>,
    namespace: Option<Box<str>>,
}

impl StoredSubject {
    /// A service account without a namespace is in that of the binding; without that it is
    /// nobody, like a subject of a kind that nobody knows.
    fn read(self, namespace: Option<&str>) -> Option<Subject> {
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
