//! The attributes of a path that is not served. The caller must be authorized for it before
//! it learns that it gets a 404.

use http::Method;
use insula_access::rbac::ResourceAttributes;
use insula_core::{Space, Spaces, Verb};

use super::{ResourcePath, Shape, check, segments, tenants_have};
use crate::registry::apis::Apis;
use crate::status::{Result, StatusError};

/// A request for a path that is not served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unserved {
    /// The spaces that the path names, if any: those behind the version rather than a server
    /// prefix, so that a path that names two is refused as a request for the other one.
    pub named: Option<Spaces>,
    /// Whether the server prefix names another space than the rest of the path.
    pub is_contradictory: bool,
    /// The objects that the path would name; `None` if it is no resource path.
    pub objects: Option<Objects>,
}

/// Objects of an unknown resource, or of an unserved version or subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

impl Objects {
    /// Returns the path of custom objects, if the space serves the resource.
    pub fn defined(&self, apis: &Apis, named: Option<&Spaces>) -> Option<Result<ResourcePath>> {
        let kind = apis.find(&self.group, &self.version, &self.resource)?;
        let path = Verb::parse(self.verb).map(|verb| ResourcePath {
            kind,
            verb,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            subresource: self.subresource.clone(),
        });
        let path = path.ok_or_else(StatusError::method_not_allowed);
        Some(path.and_then(|path| check(&path, named).map(|()| path)))
    }

    /// Returns the version in the path.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the RBAC attributes.
    pub fn attributes(&self) -> ResourceAttributes<'_> {
        ResourceAttributes {
            verb: self.verb,
            group: &self.group,
            resource: &self.resource,
            subresource: self.subresource.as_deref(),
            namespace: self.namespace.as_deref(),
            name: self.name.as_deref(),
        }
    }
}

/// Parses a request for a path that is not served.
pub fn unserved(method: &Method, path: &str, watch: bool) -> Unserved {
    let Ok(segments) = segments(path) else {
        return Unserved::default();
    };
    let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    let (prefix, rest) = match segments.as_slice() {
        ["tenants", tenant, rest @ ..] => (Space::parse(tenant).ok(), rest),
        rest => (None, rest),
    };
    let prefix = prefix.map(Spaces::One);
    let (named, objects) = match rest {
        ["api", version, rest @ ..] => objects(method, "", version, rest, watch),
        ["apis", group, version, rest @ ..] => objects(method, group, version, rest, watch),
        _ => None,
    }
    .unzip();
    let named = named.flatten();
    Unserved {
        is_contradictory: prefix.is_some() && named.is_some() && prefix != named,
        named: named.or(prefix),
        objects,
    }
}

fn objects(
    method: &Method,
    group: &str,
    version: &str,
    segments: &[&str],
    watch: bool,
) -> Option<(Option<Spaces>, Objects)> {
    let (segments, watch) = match segments {
        ["watch", rest @ ..] if !rest.is_empty() => (rest, true),
        rest => (rest, watch),
    };
    let below_tenants = |name: &str| tenants_have(group, version, name);
    let shape = Shape::read(group, segments, &below_tenants).ok()?;
    let own = |text: Option<&str>| text.map(str::to_owned);
    let is_namespace = group.is_empty() && shape.resource == "namespaces";
    let objects = Objects {
        verb: verb(method, shape.name.is_some(), watch),
        group: group.to_owned(),
        version: version.to_owned(),
        resource: shape.resource.to_owned(),
        subresource: own(shape.subresource),
        namespace: own(shape.namespace.or(shape.name.filter(|_| is_namespace))),
        name: own(shape.name),
    };
    Some((shape.named, objects))
}

/// Returns the verb of a method, on one object or on a collection.
fn verb(method: &Method, named: bool, watch: bool) -> &'static str {
    match (method.as_str(), named) {
        ("GET" | "HEAD", _) if watch => "watch",
        ("GET" | "HEAD", true) => "get",
        ("GET" | "HEAD", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => "",
    }
}
