//! The rules of a policy, compiled.

use insula_access::rbac::ResourceAttributes;
use insula_core::{Principal, SYSTEM, TenantName};

use super::RequestAudit;

/// The facts about a request that rules match.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The authenticated user, not an impersonated one. `None` if authentication failed.
    pub user: Option<&'a Principal>,
    /// The verb, or the method in lower case.
    pub verb: &'a str,
    /// The target.
    pub requested: Requested<'a>,
}

/// The target of a request.
#[derive(Clone, Copy, Debug)]
pub enum Requested<'a> {
    /// Objects.
    Resource(ResourceAttributes<'a>),
    /// A path that is no resource, without the prefix of a space.
    Path(&'a str),
}

/// A rule.
#[derive(Debug)]
pub struct Rule {
    /// What is recorded of the requests that it matches.
    pub audit: RequestAudit,
    pub users: Names,
    /// Groups of the user, without those that name a tenant.
    pub groups: Names,
    /// The spaces that the user may belong to: groups `tenant:NAME`.
    pub tenants: Names,
    pub verbs: Names,
    pub scope: Scope,
}

/// The targets of a rule.
#[derive(Debug)]
pub enum Scope {
    /// All requests.
    Any,
    /// Requests for objects.
    Resources {
        /// The namespaces; the empty one stands for objects without a namespace.
        namespaces: Names,
        /// The resources, all of them if empty.
        resources: Vec<GroupResources>,
    },
    /// Requests for other paths.
    Paths(Vec<PathPattern>),
}

/// Resources of a group.
#[derive(Debug)]
pub struct GroupResources {
    /// `None` is every group.
    pub group: Option<Box<str>>,
    /// Empty is every resource and subresource, of whatever name.
    pub resources: Vec<ResourcePattern>,
    pub names: Names,
}

/// A resource with its subresource.
#[derive(Debug, PartialEq, Eq)]
pub enum ResourcePattern {
    /// `*`.
    Any,
    /// `pods`, or `pods/log`.
    Exact(Box<str>, Option<Box<str>>),
    /// `*/scale`.
    Subresource(Box<str>),
    /// `pods/*`: the resource and all its subresources.
    Whole(Box<str>),
}

/// A path, or the beginning of paths.
#[derive(Debug, PartialEq, Eq)]
pub enum PathPattern {
    /// This path.
    Exact(Box<str>),
    /// Paths that begin like this.
    Prefix(Box<str>),
}

/// A sorted list of names. The empty list stands for every name.
#[derive(Debug, Default)]
pub struct Names(Box<[Box<str>]>);

/// The prefix of groups that name the tenant of a user, as in a token file.
pub const TENANT_GROUP: &str = "tenant:";

impl Rule {
    /// Whether the rule matches a request.
    pub fn matches(&self, request: &Attributes<'_>) -> bool {
        self.matches_user(request.user)
            && self.verbs.allow(request.verb)
            && self.scope.matches(&request.requested)
    }

    fn matches_user(&self, user: Option<&Principal>) -> bool {
        if self.users.is_empty() && self.groups.is_empty() && self.tenants.is_empty() {
            return true;
        }
        let Some(user) = user else {
            return false;
        };
        let any_group = self.groups.is_empty() && self.tenants.is_empty();
        // A group that is called `tenant:NAME` makes no member of that tenant.
        let is_member = |group: &String| self.groups.has(group);
        let home = user.home.tenant().map_or(SYSTEM, TenantName::as_str);
        self.users.allow(&user.user)
            && (any_group || user.groups.iter().any(is_member) || self.tenants.has(home))
    }
}

impl Scope {
    fn matches(&self, requested: &Requested<'_>) -> bool {
        match (self, requested) {
            (Self::Any, _) => true,
            (
                Self::Resources {
                    namespaces,
                    resources,
                },
                Requested::Resource(of),
            ) => {
                namespaces.allow(of.namespace.unwrap_or(""))
                    && (resources.is_empty() || resources.iter().any(|one| one.matches(of)))
            }
            (Self::Paths(paths), Requested::Path(path)) => {
                paths.iter().any(|pattern| pattern.matches(path))
            }
            _ => false,
        }
    }
}

impl GroupResources {
    fn matches(&self, of: &ResourceAttributes<'_>) -> bool {
        let group = self.group.as_deref().unwrap_or(of.group);
        if group != of.group {
            return false;
        }
        let matches = |pattern: &ResourcePattern| pattern.matches(of.resource, of.subresource);
        self.resources.is_empty()
            || (self.names.allow(of.name.unwrap_or("")) && self.resources.iter().any(matches))
    }
}

impl ResourcePattern {
    /// Parses `pods`, `pods/log`, `pods/*`, `*/log` or `*`.
    pub fn parse(text: &str) -> Self {
        match text.split_once('/') {
            None if text == "*" => Self::Any,
            None => Self::Exact(text.into(), None),
            Some(("*", subresource)) => Self::Subresource(subresource.into()),
            Some((resource, "*")) => Self::Whole(resource.into()),
            Some((resource, subresource)) => Self::Exact(resource.into(), Some(subresource.into())),
        }
    }

    fn matches(&self, resource: &str, subresource: Option<&str>) -> bool {
        let subresource = subresource.filter(|name| !name.is_empty());
        match self {
            Self::Any => true,
            Self::Exact(only, part) => **only == *resource && part.as_deref() == subresource,
            Self::Subresource(part) => Some(&**part) == subresource,
            Self::Whole(only) => **only == *resource,
        }
    }
}

impl PathPattern {
    /// Parses a path, which is a prefix if it ends in `*`.
    pub fn parse(text: &str) -> Self {
        match text.ends_with('*') {
            true => Self::Prefix(text.trim_end_matches('*').into()),
            false => Self::Exact(text.into()),
        }
    }

    fn matches(&self, path: &str) -> bool {
        match self {
            Self::Exact(only) => **only == *path,
            Self::Prefix(prefix) => path.starts_with(&**prefix),
        }
    }
}

impl Names {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn has(&self, name: &str) -> bool {
        self.0.binary_search_by(|one| (**one).cmp(name)).is_ok()
    }

    fn allow(&self, name: &str) -> bool {
        self.is_empty() || self.has(name)
    }
}

impl<S: Into<Box<str>>> FromIterator<S> for Names {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        let mut names: Vec<Box<str>> = names.into_iter().map(Into::into).collect();
        names.sort_unstable();
        names.dedup();
        Self(names.into())
    }
}
