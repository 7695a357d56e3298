//! What is worked on, as the queue knows it: kind, space, namespace and name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The kinds that are worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    Identity,
    Cluster,
    Zone,
    Machine,
    Vm,
    /// A Secret that an identity or a cluster holds.
    Secret,
}

/// An object. As text, `Cluster acme team-a prod`: none of them can have a space in it, and
/// what is not there is `-`, which is no name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub kind: Kind,
    /// The space, if it is not the operator's own.
    pub space: Option<Arc<str>>,
    /// None for what is cluster-scoped.
    pub namespace: Option<String>,
    pub name: String,
}

impl Key {
    /// Something in a namespace.
    pub fn namespaced(kind: Kind, space: Option<Arc<str>>, namespace: &str, name: &str) -> Self {
        let (namespace, name) = (Some(namespace.to_owned()), name.to_owned());
        Self {
            kind,
            space,
            namespace,
            name,
        }
    }

    /// Something that is in none.
    pub fn cluster_scoped(kind: Kind, space: Option<Arc<str>>, name: &str) -> Self {
        Self {
            kind,
            space,
            namespace: None,
            name: name.to_owned(),
        }
    }

    /// As the queue and the sessions know it.
    pub fn text(&self) -> Arc<str> {
        self.to_string().into()
    }

    /// The namespace; empty for what is in none.
    pub fn place(&self) -> &str {
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
    fn a_key_is_read_as_it_was_written() {
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
