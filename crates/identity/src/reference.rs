//! References to credentials.

/// A reference to a credential. It has no namespace: a Secret is in the object's own, an
/// identity is cluster-scoped.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reference {
    /// A Secret in the namespace of the object.
    Secret(String),
    /// An identity, for all namespaces that it allows.
    Identity(String),
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
