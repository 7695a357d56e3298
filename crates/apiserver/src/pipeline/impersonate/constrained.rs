//! Constrained impersonation: impersonation for certain actions only.
//!
//! Plain impersonation grants everything that the impersonated principal may do. Constrained
//! impersonation needs two rights: `impersonate:{mode}` on the parts of the identity, and
//! `impersonate-on:{mode}:{verb}` on the requested action. The modes are those of Kubernetes,
//! without those for nodes.

use http::request::Parts;
use insula_access::rbac::{Attributes, ResourceAttributes};
use insula_core::{MASTERS, Principal, RESERVED_PREFIX, Spaces};

use super::{AUTHENTICATION, Wanted};
use crate::pipeline::authorize::{attributes, decide, requested_name};
use crate::pipeline::locate::locate;
use crate::pipeline::route::{Objects, Route, Unserved, below_prefix, unserved};
use crate::pipeline::service_account::AccountName;
use crate::registry::Registry;
use crate::request::query::Query;
use crate::status::Result;

/// The request of an impersonating caller.
#[derive(Clone, Copy, Debug)]
pub struct ImpersonatedRequest<'a> {
    /// The head of the request.
    pub parts: &'a Parts,
    /// The query parameters.
    pub query: &'a Query,
    /// The route, or the error if the path is not served.
    pub route: &'a Result<Route>,
}

/// Returns the verb by which the caller may impersonate `principal` for this request, if any.
pub async fn permits(
    registry: &Registry,
    caller: &Principal,
    wanted: &Wanted,
    principal: &Principal,
    request: ImpersonatedRequest<'_>,
) -> Result<Option<&'static str>> {
    let Some(Mode { name, verb }) = mode(wanted) else {
        return Ok(None);
    };
    let home = Spaces::One(caller.home.clone());
    for part in wanted.parts() {
        let attributes = Attributes::Resource(ResourceAttributes {
            verb,
            group: AUTHENTICATION,
            ..part.attributes
        });
        let theirs = part.reserved && !caller.is_system();
        if theirs || !decide(registry, caller, &home, &attributes).await?.allowed {
            return Ok(None);
        }
    }
    let may = may_do(registry, caller, principal, name, request).await?;
    Ok(may.then_some(verb))
}

/// A mode of constrained impersonation.
struct Mode {
    name: &'static str,
    /// The verb that must be allowed on each part of the identity.
    verb: &'static str,
}

const ACCOUNT: Mode = Mode {
    name: "serviceaccount",
    verb: "impersonate:serviceaccount",
};

const USER: Mode = Mode {
    name: "user-info",
    verb: "impersonate:user-info",
};

/// Returns the mode of an identity. A service account cannot be given other groups or extras;
/// `system:masters` cannot be impersonated.
fn mode(wanted: &Wanted) -> Option<Mode> {
    let plain = wanted.uid.is_none() && wanted.groups.is_empty() && wanted.extra.is_empty();
    if AccountName::parse(&wanted.user).is_some() {
        return plain.then_some(ACCOUNT);
    }
    let is_node = wanted.user.starts_with(&format!("{RESERVED_PREFIX}node:"));
    let refused = |group: &String| group.is_empty() || group == MASTERS;
    (!is_node && !wanted.groups.iter().any(refused)).then_some(USER)
}

/// Whether the caller may do the requested action as `principal`.
async fn may_do(
    registry: &Registry,
    caller: &Principal,
    principal: &Principal,
    mode: &str,
    request: ImpersonatedRequest<'_>,
) -> Result<bool> {
    let (method, path) = (&request.parts.method, request.parts.uri.path());
    let on = |verb: &str| format!("impersonate-on:{mode}:{verb}");
    let nothing = match request.route {
        Ok(_) => Unserved::default(),
        Err(_) => unserved(method, path, request.query.flag("watch")),
    };
    let (named, objects) = match request.route {
        Ok(route) => (&route.named, route.target.path()),
        Err(_) => (&nothing.named, None),
    };
    let name = objects.and_then(|path| requested_name(path, request.query));
    let objects = objects.map(|path| attributes(path, name.as_deref()));
    let objects = objects.or_else(|| nothing.objects.as_ref().map(Objects::attributes));
    let verb = match objects {
        Some(objects) => on(objects.verb),
        None => on(&method.as_str().to_ascii_lowercase()),
    };
    let about = match objects {
        Some(objects) => Attributes::Resource(ResourceAttributes {
            verb: &verb,
            ..objects
        }),
        None => Attributes::NonResource {
            verb: &verb,
            path: below_prefix(path),
        },
    };
    let spaces = locate(principal, named.clone());
    Ok(decide(registry, caller, &spaces, &about).await?.allowed)
}
