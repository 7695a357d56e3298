//! Routing: from a path to its target, without looking at any space.

mod unserved;

use std::borrow::Cow;

use http::Method;
use insula_core::{ALL, Space, Spaces, Verb};
use insula_kinds::{Kind, kinds};
use percent_encoding::percent_decode_str;

pub use self::unserved::{Objects, Unserved, unserved};
use crate::registry::resource::Resource;
use crate::request::negotiate::Asked;
use crate::status::{Result, StatusError};

/// The route of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The spaces that the path names, if it names any.
    pub named: Option<Spaces>,
    /// The target in these spaces.
    pub target: Target,
}

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Objects.
    Resource(ResourcePath),
    /// A document of the server.
    Document(Document),
}

/// The path of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourcePath {
    /// The resource.
    pub kind: Resource,
    /// The verb.
    pub verb: Verb,
    /// The namespace in the path.
    pub namespace: Option<String>,
    /// The name in the path.
    pub name: Option<String>,
    /// The subresource in the path.
    pub subresource: Option<String>,
}

/// A document of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    /// `/api`.
    Api,
    /// `/apis`.
    Apis,
    /// `/apis/{group}`.
    Group(String),
    /// `/api/v1` or `/apis/{group}/{version}`.
    Resources {
        /// The group.
        group: String,
        /// The version.
        version: String,
    },
    /// `/openapi/v2`.
    OpenApiV2,
    /// `/openapi/v3`.
    OpenApiV3,
    /// `/openapi/v3/{path}`.
    OpenApiV3Part(String),
    /// `/version`.
    Version,
    /// `/healthz`, `/livez`, `/readyz`, and `/readyz/{check}`.
    Health {
        /// The path's first part.
        endpoint: Health,
        /// The check that the path names.
        check: Option<String>,
    },
    /// `/metrics`.
    Metrics,
    /// `/.well-known/openid-configuration`: the issuer of the space's service account tokens.
    Issuer,
    /// `/openid/v1/jwks`: the keys of service account tokens.
    Keys,
    /// `/issuers/{uid}/.well-known/openid-configuration`: the issuer of a tenant's tokens.
    TenantIssuer {
        /// The UID of the tenant.
        uid: String,
    },
    /// `/issuers/{uid}/openid/v1/jwks`: the keys of a tenant's tokens.
    TenantKeys {
        /// The UID of the tenant.
        uid: String,
    },
    /// `/audit`: the audit events of the space.
    AuditEvents,
    /// `/`.
    Index,
}

/// An endpoint of health checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// `/healthz`.
    Healthz,
    /// `/livez`.
    Livez,
    /// `/readyz`.
    Readyz,
}

impl Document {
    /// The paths of all documents. Below those of health are the single checks.
    pub const PATHS: [&'static str; 19] = [
        "/",
        "/api",
        "/apis",
        "/apis/{group}",
        "/api/v1",
        "/apis/{group}/{version}",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/{path}",
        "/version",
        "/healthz",
        "/livez",
        "/readyz",
        "/metrics",
        "/.well-known/openid-configuration",
        "/openid/v1/jwks",
        "/issuers/{uid}/.well-known/openid-configuration",
        "/issuers/{uid}/openid/v1/jwks",
        "/audit",
    ];

    /// Whether the document is public: probes have no credentials, and neither have third
    /// parties that verify tokens. The issuer of a space is public in the system space only: a
    /// tenant's contains its UID, and is public below that UID.
    pub const fn is_open(&self) -> bool {
        matches!(
            self,
            Self::Health { .. }
                | Self::Version
                | Self::Keys
                | Self::TenantIssuer { .. }
                | Self::TenantKeys { .. }
        )
    }

    /// Whether the document exists while its tenant does.
    pub const fn depends_on_tenant(&self) -> bool {
        matches!(self, Self::TenantIssuer { .. } | Self::TenantKeys { .. })
    }

    /// Whether the document contains the schemas of kinds.
    pub const fn has_schemas(&self) -> bool {
        matches!(
            self,
            Self::OpenApiV2 | Self::OpenApiV3 | Self::OpenApiV3Part(_)
        )
    }
}

impl Target {
    /// Returns the path of the requested objects, if the target is objects.
    pub const fn path(&self) -> Option<&ResourcePath> {
        match self {
            Self::Resource(path) => Some(path),
            Self::Document(_) => None,
        }
    }
}

impl ResourcePath {
    /// Returns the kind's entry in the table.
    pub fn of(&self) -> &Kind {
        &self.kind
    }

    /// Returns the sort of response, for content negotiation.
    pub fn asked(&self) -> Asked {
        if self.kind.custom().is_some() {
            return Asked::Customs;
        }
        let tabled = match self.subresource.as_deref() {
            None => !self.kind.columns.is_empty(),
            Some("scale") => true,
            // Kubernetes has no table for the status of these.
            Some("status") => !matches!(
                self.kind.kind.as_str(),
                "APIService" | "CustomResourceDefinition" | "ResourceClaim"
            ),
            Some(_) => false,
        };
        match tabled {
            true => Asked::Objects,
            false => Asked::Untabled,
        }
    }
}

/// Parses method, path and query into a route.
pub fn route(method: &Method, path: &str, watch: bool) -> Result<Route> {
    let decoded = segments(path)?;
    let segments: Vec<&str> = decoded.iter().map(AsRef::as_ref).collect();
    match segments.as_slice() {
        ["tenants", tenant, rest @ ..] => {
            let prefix = Space::parse(tenant).map_err(|_| StatusError::no_such_path())?;
            let below = inside_space(method, rest, watch)?;
            inside(below, prefix)
        }
        rest => inside_space(method, rest, watch),
    }
}

/// Splits a path into segments. A trailing slash is allowed, an empty segment is not: if it
/// were skipped, `/namespaces//pods` would be the namespace `pods`.
fn segments(path: &str) -> Result<Vec<Cow<'_, str>>> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Ok(Vec::new());
    }
    path.split('/').map(decode).collect()
}

/// Adds the space of a server prefix to a route, which must not name another space.
fn inside(route: Route, prefix: Space) -> Result<Route> {
    match &route.named {
        None => {}
        Some(Spaces::One(named)) if *named == prefix => {}
        Some(_) => return Err(StatusError::no_such_resource()),
    }
    Ok(Route {
        named: Some(Spaces::One(prefix)),
        ..route
    })
}

/// Returns the path as it is routed, however the client spells it: decoded, and without a slash
/// at its end. A path that cannot be routed is returned as it is.
pub fn canonical_path(path: &str) -> Cow<'_, str> {
    let Ok(segments) = segments(path) else {
        return Cow::Borrowed(path);
    };
    Cow::Owned(format!("/{}", segments.join("/")))
}

/// Returns the path without a server prefix, as roles name it.
pub fn below_prefix(path: &str) -> &str {
    let Some((_, rest)) = path
        .strip_prefix("/tenants/")
        .map(|rest| rest.split_once('/').unwrap_or((rest, "")))
    else {
        return path;
    };
    match rest {
        "" => "/",
        rest => &path[path.len() - rest.len() - 1..],
    }
}

fn inside_space(method: &Method, segments: &[&str], watch: bool) -> Result<Route> {
    let document = match segments {
        [] => Document::Index,
        ["api"] => Document::Api,
        ["apis"] => Document::Apis,
        ["apis", group] => Document::Group((*group).to_owned()),
        ["api", "v1"] => resources("", "v1")?,
        ["apis", group, version] => resources(group, version)?,
        ["openapi", "v2"] => Document::OpenApiV2,
        ["openapi", "v3"] => Document::OpenApiV3,
        ["openapi", "v3", rest @ ..] => Document::OpenApiV3Part(rest.join("/")),
        ["version"] => Document::Version,
        ["healthz", check @ ..] => health(Health::Healthz, check),
        ["livez", check @ ..] => health(Health::Livez, check),
        ["readyz", check @ ..] => health(Health::Readyz, check),
        ["metrics"] => Document::Metrics,
        ["audit"] => Document::AuditEvents,
        [".well-known", "openid-configuration"] => Document::Issuer,
        ["openid", "v1", "jwks"] => Document::Keys,
        ["issuers", uid, ".well-known", "openid-configuration"] => Document::TenantIssuer {
            uid: (*uid).to_owned(),
        },
        ["issuers", uid, "openid", "v1", "jwks"] => Document::TenantKeys {
            uid: (*uid).to_owned(),
        },
        ["api", "v1", rest @ ..] => return resource(method, "", "v1", rest, watch),
        ["apis", group, version, rest @ ..] => {
            return resource(method, group, version, rest, watch);
        }
        ["api", _, ..] => return Err(no_such_version("")),
        _ => return Err(StatusError::no_such_path()),
    };
    if method != Method::GET && method != Method::HEAD {
        return Err(StatusError::method_not_allowed());
    }
    Ok(Route {
        named: None,
        target: Target::Document(document),
    })
}

fn health(endpoint: Health, check: &[&str]) -> Document {
    Document::Health {
        endpoint,
        check: (!check.is_empty()).then(|| check.join("/")),
    }
}

fn resources(group: &str, version: &str) -> Result<Document> {
    if !kinds().serves(group, version) && !is_custom(group) {
        return Err(no_such_version(group));
    }
    Ok(Document::Resources {
        group: group.to_owned(),
        version: version.to_owned(),
    })
}

/// Returns the error of an unknown version. It differs for built-in groups.
fn no_such_version(group: &str) -> StatusError {
    match kinds().has_group(group) {
        true => StatusError::no_such_resource(),
        false => StatusError::no_such_path(),
    }
}

fn resource(
    method: &Method,
    group: &str,
    version: &str,
    segments: &[&str],
    watch: bool,
) -> Result<Route> {
    if !kinds().serves(group, version) {
        return Err(no_such_version(group));
    }
    let (segments, legacy_watch) = match segments {
        ["watch", rest @ ..] if !rest.is_empty() => (rest, true),
        rest => (rest, false),
    };
    let below_tenants = |name: &str| tenants_have(group, version, name);
    let shape = Shape::read(group, segments, &below_tenants)?;
    let kind = kinds()
        .find(group, version, shape.resource)
        .ok_or_else(StatusError::no_such_resource)?;
    let verb = match legacy_watch {
        true if method != Method::GET => return Err(StatusError::method_not_allowed()),
        true => Verb::Watch,
        false => verb(method, shape.name.is_some(), watch)?,
    };
    let path = ResourcePath {
        kind: kind.into(),
        verb,
        namespace: shape.namespace.map(str::to_owned),
        name: shape.name.map(str::to_owned),
        subresource: shape.subresource.map(str::to_owned),
    };
    check(&path, shape.named.as_ref())?;
    Ok(Route {
        named: shape.named,
        target: Target::Resource(path),
    })
}

/// Whether the group may have custom resources, which depend on the space.
fn is_custom(group: &str) -> bool {
    group.contains('.')
}

/// Whether the group has a resource `tenants` with this subresource. A custom resource may
/// have any custom subresource.
fn tenants_have(group: &str, version: &str, subresource: &str) -> bool {
    if is_custom(group) && !kinds().serves(group, version) {
        return matches!(subresource, "status" | "scale");
    }
    let tenants = kinds().find(group, version, "tenants");
    let tenants = tenants.map(|kind| kinds().get(kind));
    tenants.is_some_and(|kind| kind.subresource(subresource).is_some())
}

/// The parsed segments after group and version, regardless of the known kinds.
#[derive(Debug, PartialEq, Eq)]
struct Shape<'a> {
    named: Option<Spaces>,
    namespace: Option<&'a str>,
    resource: &'a str,
    name: Option<&'a str>,
    subresource: Option<&'a str>,
}

impl<'a> Shape<'a> {
    /// Parses the segments. `below_tenants` returns whether the group has a resource `tenants`
    /// with a subresource.
    fn read(
        group: &str,
        segments: &[&'a str],
        below_tenants: &dyn Fn(&str) -> bool,
    ) -> Result<Self> {
        let (named, segments) = take_space(segments, below_tenants)?;
        let (namespace, segments) = take_namespace(group, segments);
        let (resource, name, subresource) = match segments {
            [resource] => (*resource, None, None),
            [resource, name] => (*resource, Some(*name), None),
            [resource, name, subresource] => (*resource, Some(*name), Some(*subresource)),
            _ => return Err(StatusError::no_such_resource()),
        };
        Ok(Self {
            named,
            namespace,
            resource,
            name,
            subresource,
        })
    }
}

/// Takes `tenants/{t}/…`, which names a space unless it is a path of the resource `tenants`.
fn take_space<'a, 'b>(
    segments: &'b [&'a str],
    below_tenants: &dyn Fn(&str) -> bool,
) -> Result<(Option<Spaces>, &'b [&'a str])> {
    let ["tenants", tenant, rest @ ..] = segments else {
        return Ok((None, segments));
    };
    let is_object = match rest {
        [] => true,
        [subresource] => below_tenants(subresource),
        _ => false,
    };
    if is_object {
        return Ok((None, segments));
    }
    if *tenant == ALL {
        return Ok((Some(Spaces::All), rest));
    }
    let space = Space::parse(tenant).map_err(|_| StatusError::no_such_resource())?;
    Ok((Some(Spaces::One(space)), rest))
}

/// Takes `namespaces/{n}/…`, which names a namespace unless it is the namespace's own path.
fn take_namespace<'a, 'b>(
    group: &str,
    segments: &'b [&'a str],
) -> (Option<&'a str>, &'b [&'a str]) {
    match segments {
        ["namespaces", _, "status" | "finalize"] if group.is_empty() => (None, segments),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(namespace), rest),
        _ => (None, segments),
    }
}

fn verb(method: &Method, named: bool, watch: bool) -> Result<Verb> {
    Ok(match (method.as_str(), named) {
        ("GET", true) => Verb::Get,
        ("GET", false) if watch => Verb::Watch,
        ("GET", false) => Verb::List,
        ("POST", _) => Verb::Create,
        ("PUT", true) => Verb::Update,
        ("PATCH", true) => Verb::Patch,
        ("DELETE", true) => Verb::Delete,
        ("DELETE", false) => Verb::DeleteCollection,
        _ => return Err(StatusError::method_not_allowed()),
    })
}

/// Fails if the kind does not serve the path and verb.
fn check(path: &ResourcePath, named: Option<&Spaces>) -> Result<()> {
    let kind = path.of();
    if path.namespace.is_some() && !kind.namespaced() {
        return Err(StatusError::no_such_resource());
    }
    let needs_namespace = kind.namespaced()
        && path.namespace.is_none()
        && (path.name.is_some() || !matches!(path.verb, Verb::List | Verb::Watch));
    // Custom resources are only served at paths of their scope, whatever the method is.
    if needs_namespace && (path.name.is_some() || path.kind.is_custom()) {
        return Err(StatusError::no_such_resource());
    }
    let verb = path.verb.as_str();
    let served = match &path.subresource {
        Some(name) => {
            let found = kind
                .subresource(name)
                .ok_or_else(StatusError::no_such_resource)?;
            found.verbs.iter().any(|can| can == verb)
        }
        None => kind.supports(verb) && (path.verb != Verb::Create || path.name.is_none()),
    };
    if needs_namespace || !served {
        return Err(StatusError::method_not_allowed());
    }
    // Names are unique in one space only.
    let of_many = matches!(path.verb, Verb::List | Verb::Watch) && path.name.is_none();
    if named == Some(&Spaces::All) && !of_many {
        return Err(StatusError::method_not_allowed());
    }
    Ok(())
}

/// Decodes a segment. One that contains a slash once decoded is rejected.
fn decode(segment: &str) -> Result<Cow<'_, str>> {
    if segment.is_empty() {
        return Err(StatusError::no_such_path());
    }
    let decoded = percent_decode_str(segment).decode_utf8();
    let decoded = decoded.map_err(|_| StatusError::bad_request("the path is not UTF-8"))?;
    if decoded.contains('/') || decoded == "." || decoded == ".." {
        return Err(StatusError::no_such_resource());
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Custom resources depend on the space, so only the grammar is tested: here a group has
    /// its own `tenants`, with a status and a scale.
    #[test]
    fn resource_of_another_group_may_be_named_tenants() {
        let below = |name: &str| matches!(name, "status" | "scale");
        let t1 = Some(Spaces::One(Space::parse("t1").unwrap()));
        let shape = |named: &Option<Spaces>, namespace, name, subresource| Shape {
            named: named.clone(),
            namespace,
            resource: "tenants",
            name,
            subresource,
        };
        let none = None;
        for (path, expected) in [
            (
                "namespaces/axon-operator/tenants/x",
                shape(&none, Some("axon-operator"), Some("x"), None),
            ),
            (
                "namespaces/axon-operator/tenants",
                shape(&none, Some("axon-operator"), None, None),
            ),
            (
                "namespaces/axon-operator/tenants/x/status",
                shape(&none, Some("axon-operator"), Some("x"), Some("status")),
            ),
            ("tenants", shape(&none, None, None, None)),
            ("tenants/x", shape(&none, None, Some("x"), None)),
            (
                "tenants/x/status",
                shape(&none, None, Some("x"), Some("status")),
            ),
            (
                "tenants/x/scale",
                shape(&none, None, Some("x"), Some("scale")),
            ),
            ("tenants/t1/tenants", shape(&t1, None, None, None)),
            ("tenants/t1/tenants/x", shape(&t1, None, Some("x"), None)),
            (
                "tenants/t1/tenants/x/scale",
                shape(&t1, None, Some("x"), Some("scale")),
            ),
            (
                "tenants/t1/namespaces/axon-operator/tenants/x",
                shape(&t1, Some("axon-operator"), Some("x"), None),
            ),
            (
                "tenants/all/tenants",
                shape(&Some(Spaces::All), None, None, None),
            ),
        ] {
            let segments: Vec<&str> = path.split('/').collect();
            let found = Shape::read("submariner.io", &segments, &below);
            assert_eq!(found, Ok(expected), "{path}");
        }
    }
}
