//! References to credentials.

/// A reference to a credential. It has no namespace: a Secret is in the object's own, an
/// identity is cluster-scoped.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reference {
    /// A Secret in the namespace of the object.
    Secret {
        /// The name.
        name: String,
        /// The part of its contents that is used, such as a context of a kubeconfig.
        part: Option<String>,
    },
    /// An identity, for all namespaces that it allows.
    Identity(String),
}

impl Reference {
    /// Returns a reference to a whole Secret.
    pub fn secret(name: impl Into<String>) -> Self {
        let (name, part) = (name.into(), None);
        Self::Secret { name, part }
    }
}

/// The level at which a credential was chosen, from narrow to wide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// The object's own reference.
    Object,
    /// The reference of its parent.
    Parent,
    /// The default Secret of its namespace.
    Namespace,
    /// The operator's static credentials.
    #[default]
    Operator,
}

/// The references that may decide which credential an object gets. The first one that is set
/// decides alone: if it is missing or not allowed, that is an error and no fallback is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialReferences {
    /// The object's own reference.
    pub own: Option<Reference>,
    /// The parent's reference and name, such as `Metal3Cluster team-a/prod`.
    pub parent: Option<(String, Reference)>,
    /// The name of the namespace's default Secret, which is used if it exists.
    pub namespace: Option<String>,
    /// Whether the object may use the operator's static credentials.
    pub operator: bool,
}
