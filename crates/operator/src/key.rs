//! The keys of objects: kind, space, namespace and name.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use kube::Resource;
use kube::api::ApiResource;

/// A tenant's space; none for the operator's own.
pub type Space = Option<Arc<str>>;

/// A kind and its group. As text `VSphereCluster.infrastructure.cluster.x-k8s.io`; kinds of the
/// core group have no suffix.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    /// The kind.
    pub kind: Cow<'static, str>,
    /// The group.
    pub group: Cow<'static, str>,
}

impl GroupKind {
    /// Returns the kind of a type.
    pub fn of<K: Resource<DynamicType = ()>>() -> Self {
        Self {
            kind: K::kind(&()),
            group: K::group(&()),
        }
    }

    /// Returns the kind of a resource.
    pub fn of_resource(resource: &ApiResource) -> Self {
        Self {
            kind: resource.kind.clone().into(),
            group: resource.group.clone().into(),
        }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_ref() {
            "" => out.write_str(&self.kind),
            group => write!(out, "{}.{group}", self.kind),
        }
    }
}

/// An object. As text, `VSphereCluster.example.com acme team-a prod`: the parts contain no
/// spaces, and a missing part is `-`, which is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The kind.
    pub kind: GroupKind,
    /// The space.
    pub space: Space,
    /// The namespace; none for cluster-scoped objects.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl Key {
    /// Returns the key of a namespaced object.
    pub fn namespaced(kind: GroupKind, space: Space, namespace: &str, name: &str) -> Self {
        let (namespace, name) = (Some(namespace.to_owned()), name.to_owned());
        Self {
            kind,
            space,
            namespace,
            name,
        }
    }

    /// Returns the key of a cluster-scoped object.
    pub fn cluster_scoped(kind: GroupKind, space: Space, name: &str) -> Self {
        Self {
            kind,
            space,
            namespace: None,
            name: name.to_owned(),
        }
    }

    /// Returns the key as text, for the queue and the sessions.
    pub fn text(&self) -> Arc<str> {
        self.to_string().into()
    }

    /// Returns the namespace; empty for cluster-scoped objects.
    pub fn namespace_or_empty(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (space, namespace) = (self.space.as_deref(), self.namespace.as_deref());
        let (space, namespace) = (space.unwrap_or("-"), namespace.unwrap_or("-"));
        write!(out, "{} {space} {namespace} {}", self.kind, self.name)
    }
}

/// A text that is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a key: kind, space, namespace and name")]
pub struct InvalidKey;

impl FromStr for Key {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let words: Vec<&str> = text.split(' ').collect();
        let [kind, space, namespace, name] = words[..] else {
            return Err(InvalidKey);
        };
        let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
        if kind.is_empty() || name.is_empty() {
            return Err(InvalidKey);
        }
        let given = |word: &str| (word != "-").then(|| word.to_owned());
        Ok(Self {
            kind: GroupKind {
                kind: kind.to_owned().into(),
                group: group.to_owned().into(),
            },
            space: given(space).map(Arc::from),
            namespace: given(namespace),
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;
    use k8s_openapi::api::rbac::v1::Role;

    use super::*;

    #[test]
    fn key_round_trips_as_text() {
        for text in [
            "Secret - capv-system s",
            "Namespace acme - team-a",
            "Zone.infra.example.com acme - east",
            "Machine.infra.example.com - a b",
        ] {
            let key: Key = text.parse().unwrap();
            assert_eq!(key.to_string(), text);
        }
        for text in ["", "Secret", "Secret - a", "Secret - a b c", " - a b"] {
            assert_eq!(text.parse::<Key>(), Err(InvalidKey), "{text}");
        }
    }

    #[test]
    fn kind_has_its_group_as_suffix() {
        assert_eq!(GroupKind::of::<Secret>().to_string(), "Secret");
        let role = GroupKind::of::<Role>();
        assert_eq!(role.to_string(), "Role.rbac.authorization.k8s.io");
        let resource = ApiResource::erase::<Role>(&());
        assert_eq!(GroupKind::of_resource(&resource), role);
    }
}
