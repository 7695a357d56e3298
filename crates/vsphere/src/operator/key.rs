//! The keys of the work queue: kind, space, namespace and name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The kinds that are reconciled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    Identity,
    Cluster,
    Zone,
    Machine,
    Vm,
    /// A Secret that an identity or a cluster has claimed.
    Secret,
}

/// An object. As text, `Cluster acme team-a prod`: the parts contain no spaces, and a missing
/// part is `-`, which is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub kind: Kind,
    /// The space, if it is not the operator's own.
    pub space: Option<Arc<str>>,
    /// None for cluster-scoped objects.
    pub namespace: Option<String>,
    pub name: String,
}

impl Key {
    /// Returns the key of a namespaced object.
    pub fn namespaced(kind: Kind, space: Option<Arc<str>>, namespace: &str, name: &str) -> Self {
        let (namespace, name) = (Some(namespace.to_owned()), name.to_owned());
        Self {
            kind,
            space,
            namespace,
            name,
        }
    }

    /// Returns the key of a cluster-scoped object.
    pub fn cluster_scoped(kind: Kind, space: Option<Arc<str>>, name: &str) -> Self {
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
        write!(out, "{:?} {space} {namespace} {}", self.kind, self.name)
    }
}

impl FromStr for Key {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.split(' ');
        let kind = match words.next().ok_or(())? {
            "Identity" => Kind::Identity,
            "Cluster" => Kind::Cluster,
            "Zone" => Kind::Zone,
            "Machine" => Kind::Machine,
            "Vm" => Kind::Vm,
            "Secret" => Kind::Secret,
            _ => return Err(()),
        };
        let given = |word: &str| (word != "-").then(|| word.to_owned());
        let space = words.next().and_then(given).map(Arc::from);
        let namespace = words.next().and_then(given);
        let name = words.next().ok_or(())?.to_owned();
        Ok(Self {
            kind,
            space,
            namespace,
            name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_round_trips_as_text() {
        for text in [
            "Identity - - vsphere",
            "Identity acme - vsphere",
            "Cluster - team-a prod",
            "Cluster acme team-a prod",
            "Zone acme - east",
            "Machine - a b",
            "Vm t a b",
            "Secret - capv-system s",
        ] {
            let key: Key = text.parse().unwrap();
            assert_eq!(key.to_string(), text);
        }
        for text in ["", "Cluster", "Cluster - team-a", "Pod - a b"] {
            assert_eq!(text.parse::<Key>(), Err(()), "{text}");
        }
    }
}
