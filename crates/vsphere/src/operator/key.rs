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
        Ok(Self { kind, space, namespace, name })
    }
}
