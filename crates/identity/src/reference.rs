//! What an object says about whose credentials it uses.

/// A reference to credentials. It has no namespace: a Secret is in the object's own, an
/// identity is in none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reference {
    /// A Secret in the namespace of the object.
    Secret(String),
    /// An identity, which is for all namespaces that it allows.
    Identity(String),
}

/// What decides whose credentials an object gets. The first that is there decides alone: what
/// is missing or not allowed there is an error, never a step to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// What the object itself says.
    pub own: Option<Reference>,
    /// What its parent says, and which that is, as in `Metal3Cluster team-a/prod`.
    pub parent: Option<(String, Reference)>,
    /// The name of the Secret that is its namespace's credential if it is there.
    pub namespace: Option<String>,
    /// Whether it may use what the operator itself was given.
    pub operator: bool,
}
