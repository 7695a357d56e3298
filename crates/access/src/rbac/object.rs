//! Roles and bindings as stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::binding::{Binding, RoleKind, StoredSubject};
use super::rule::{Rule, RuleList, list};
use super::selector::{Labels, Selector};

/// The kinds of objects in a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RbacKind {
    /// Rules for one namespace.
    Role,
    /// Rules for one namespace or for the whole space, depending on the binding.
    ClusterRole,
    /// Grants a role in one namespace.
    RoleBinding,
    /// Grants a role in the whole space.
    ClusterRoleBinding,
}

/// A role or a binding.
#[derive(Clone, Debug)]
pub struct RbacObject {
    pub(super) namespace: Option<Box<str>>,
    pub(super) name: Box<str>,
    pub(super) content: Content,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    Role(RuleList),
    ClusterRole(ClusterRole),
    Binding(Arc<Binding>),
}

/// The content of a ClusterRole.
#[derive(Clone, Debug)]
pub(super) struct ClusterRole {
    pub labels: Labels,
    pub source: Source,
}

/// The origin of a cluster role's rules.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Own(RuleList),
    /// The rules of all roles that any of these selectors matches. The stored rules are
    /// ignored: they are the result of an earlier aggregation.
    Aggregated(Box<[Selector]>),
}

impl RbacKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [
        Self::Role,
        Self::ClusterRole,
        Self::RoleBinding,
        Self::ClusterRoleBinding,
    ];

    /// The resource name, as in paths.
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Role => "roles",
            Self::ClusterRole => "clusterroles",
            Self::RoleBinding => "rolebindings",
            Self::ClusterRoleBinding => "clusterrolebindings",
        }
    }

    /// The kind's name, as in objects.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Role => "Role",
            Self::ClusterRole => "ClusterRole",
            Self::RoleBinding => "RoleBinding",
            Self::ClusterRoleBinding => "ClusterRoleBinding",
        }
    }

    /// Reports whether its objects are namespaced.
    pub const fn is_namespaced(self) -> bool {
        matches!(self, Self::Role | Self::RoleBinding)
    }
}

impl RbacObject {
    /// Parses an object as stored.
    ///
    /// Only fields that matter for authorization are read. An object that cannot be parsed
    /// grants nothing: the caller has to remove an older version from its policy.
    pub fn parse(kind: RbacKind, json: &[u8]) -> Result<Self, ObjectError> {
        let stored: Stored = serde_json::from_slice(json)?;
        let named = |text: &Option<Box<str>>| text.clone().filter(|text| !text.is_empty());
        let name = named(&stored.metadata.name).ok_or(ObjectError::NoName)?;
        let namespace = match kind.is_namespaced() {
            false => None,
            true => Some(named(&stored.metadata.namespace).ok_or(ObjectError::NoNamespace)?),
        };
        let content = match kind {
            RbacKind::Role => Content::Role(stored.rules()),
            RbacKind::ClusterRole => Content::ClusterRole(stored.cluster_role()),
            RbacKind::RoleBinding | RbacKind::ClusterRoleBinding => {
                Content::Binding(Arc::new(stored.binding(namespace.clone(), name.clone())))
            }
        };
        Ok(Self {
            namespace,
            name,
            content,
        })
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The object's namespace.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The object's kind.
    pub fn kind(&self) -> RbacKind {
        match (&self.content, &self.namespace) {
            (Content::Role(_), _) => RbacKind::Role,
            (Content::ClusterRole(_), _) => RbacKind::ClusterRole,
            (Content::Binding(_), Some(_)) => RbacKind::RoleBinding,
            (Content::Binding(_), None) => RbacKind::ClusterRoleBinding,
        }
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

/// Estimated memory use of rules, in bytes.
pub(super) fn rules_weight(rules: &[Arc<Rule>]) -> usize {
    rules.iter().map(|rule| rule.weight() + 24).sum()
}

/// Why a stored object is not a valid role or binding.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// It is not JSON of the expected shape.
    #[error("the object is not a role or binding")]
    Json(#[from] serde_json::Error),
    /// It has no name.
    #[error("the object has no name")]
    NoName,
    /// A namespaced object has no namespace.
    #[error("the object has no namespace")]
    NoNamespace,
}

/// The fields of a stored object that matter for authorization.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Stored {
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

impl Stored {
    fn rules(self) -> RuleList {
        self.rules.into_iter().map(Arc::new).collect()
    }

    fn cluster_role(mut self) -> ClusterRole {
        ClusterRole {
            labels: self.metadata.labels.take().unwrap_or_default(),
            source: match self.aggregation_rule.take() {
                None => Source::Own(self.rules()),
                Some(rule) => Source::Aggregated(rule.cluster_role_selectors.into()),
            },
        }
    }

    fn binding(self, namespace: Option<Box<str>>, name: Box<str>) -> Binding {
        let subjects = self.subjects.into_iter();
        let subjects = subjects.filter_map(|subject| subject.read(namespace.as_deref()));
        Binding {
            subjects: subjects.collect(),
            role_kind: RoleKind::from(self.role_ref.kind),
            role: self.role_ref.name,
            namespace,
            name,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(kind: RbacKind, object: &Value) -> Result<RbacObject, ObjectError> {
        RbacObject::parse(kind, object.to_string().as_bytes())
    }

    #[test]
    fn object_location_follows_its_kind_and_metadata() {
        let metadata = json!({"metadata": {"name": "n", "namespace": "ns", "uid": "1"}});
        for kind in RbacKind::ALL {
            let object = parse(kind, &metadata).unwrap();
            assert_eq!(object.kind(), kind);
            assert_eq!(object.name(), "n");
            let namespace = kind.is_namespaced().then_some("ns");
            assert_eq!(object.namespace(), namespace, "{kind:?}");
        }
    }

    #[test]
    fn invalid_object_is_rejected_as_a_whole() {
        let rules = |rules: Value| json!({"metadata": {"name": "n"}, "rules": rules});
        for (kind, object, error) in [
            (RbacKind::ClusterRole, json!({}), "the object has no name"),
            (
                RbacKind::ClusterRole,
                json!({"metadata": {"name": ""}}),
                "the object has no name",
            ),
            (
                RbacKind::Role,
                json!({"metadata": {"name": "n"}}),
                "the object has no namespace",
            ),
            (
                RbacKind::RoleBinding,
                json!({"metadata": {"name": "n", "namespace": ""}}),
                "the object has no namespace",
            ),
            (
                RbacKind::ClusterRole,
                json!("n"),
                "the object is not a role or binding",
            ),
            (
                RbacKind::ClusterRole,
                rules(json!([{"verbs": [1]}])),
                "the object is not a role or binding",
            ),
            (
                RbacKind::ClusterRole,
                rules(json!([{"verbs": "get"}])),
                "the object is not a role or binding",
            ),
        ] {
            let found = parse(kind, &object).unwrap_err();
            assert_eq!(found.to_string(), error, "{object}");
        }
        for absent in [json!(null), json!([])] {
            assert!(parse(RbacKind::ClusterRole, &rules(absent)).is_ok());
        }
    }
}
