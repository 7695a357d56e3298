//! What is asked, and by whom.

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act<'a> {
    /// Something with objects.
    Resource(ResourceAct<'a>),
    /// Something with a path that is no object's, such as `/healthz`.
    Path {
        /// The method, in lower case.
        verb: &'a str,
        /// The path, which begins with `/`.
        path: &'a str,
    },
}

/// What somebody wants to do with objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceAct<'a> {
    /// The verb: `get`, `list`, and others that only authorization knows, such as `bind`.
    pub verb: &'a str,
    /// The API group; the core group is empty.
    pub group: &'a str,
    /// The resource, in plural.
    pub resource: &'a str,
    /// The part of the object.
    pub subresource: Option<&'a str>,
    /// The namespace, or all of them and what is in none.
    pub namespace: Option<&'a str>,
    /// The object, if one is named.
    pub name: Option<&'a str>,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who<'a> {
    /// The user's name.
    pub user: &'a str,
    /// The user's groups.
    pub groups: &'a [String],
}

/// How far a policy reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Into the space whose policy it is: what is bound in the cluster counts, and what is
    /// bound in the namespace that the act is about.
    Home,
    /// Into another space, or into all of them: only what is bound in the cluster counts.
    /// A namespace here and one of the same name there are two.
    Elsewhere,
}

impl<'a> Act<'a> {
    /// The namespace that it is about.
    pub fn namespace(&self) -> Option<&'a str> {
        match self {
            Self::Resource(act) => act.namespace.filter(|namespace| !namespace.is_empty()),
            Self::Path { .. } => None,
        }
    }
}
