//! The attributes of a request that authorization looks at.

/// The attributes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes<'a> {
    /// A request for objects.
    Resource(ResourceAttributes<'a>),
    /// A request for a path that is not an object's, such as `/healthz`.
    NonResource {
        /// The HTTP method, in lower case.
        verb: &'a str,
        /// The path, which begins with `/`.
        path: &'a str,
    },
}

/// The attributes of a request for objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceAttributes<'a> {
    /// The verb: `get`, `list`, or one that only authorization knows, such as `bind`.
    pub verb: &'a str,
    /// The API group; the core group is empty.
    pub group: &'a str,
    /// The resource's plural name.
    pub resource: &'a str,
    /// The subresource, if one is requested.
    pub subresource: Option<&'a str>,
    /// The namespace. `None` stands for all namespaces and for cluster-scoped objects.
    pub namespace: Option<&'a str>,
    /// The object's name, if the request has one.
    pub name: Option<&'a str>,
}

/// The user who makes the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User<'a> {
    /// The user's name.
    pub name: &'a str,
    /// The user's groups.
    pub groups: &'a [String],
}

/// The space of a request, relative to the space that the policy belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The policy's own space: cluster role bindings count, and the role bindings of the
    /// request's namespace.
    Home,
    /// Another space, or all of them: only cluster role bindings count, because namespaces of
    /// the same name in two spaces are unrelated.
    Elsewhere,
}

impl<'a> Attributes<'a> {
    /// The namespace of the request, if it has one.
    pub fn namespace(&self) -> Option<&'a str> {
        match self {
            Self::Resource(attributes) => attributes
                .namespace
                .filter(|namespace| !namespace.is_empty()),
            Self::NonResource { .. } => None,
        }
    }
}
