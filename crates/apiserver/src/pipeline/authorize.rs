//! Authorization: first whether the principal may enter the space, then RBAC inside it.
//!
//! A principal has the rights that its home space grants. There all bindings count. In other
//! spaces, a system principal has the rights of the system's ClusterRoleBindings; a tenant's
//! bindings for the same user name do not apply to it. A node of the home space also has the rights
//! of [`NodeRequest`].

use std::ops::Deref;
use std::sync::Arc;

use insula_access::may_enter;
use insula_access::rbac::{Attributes, Policy, Reach, ResourceAttributes, User};
use insula_core::{Principal, Revision, Space, Spaces, Verb, node_name};
use insula_kinds::selector::FieldSelector;

use crate::pipeline::node_authorizer::{NodeRequest, selected_node};
use crate::pipeline::policy;
use crate::pipeline::revocation;
use crate::pipeline::route::{ResourcePath, below_prefix};
use crate::pipeline::service_account;
use crate::registry::{Address, Registry, no_such_tenant};
use crate::request::context::RequestContext;
use crate::request::query::Query;
use crate::status::{Result, StatusError};
use insula_cache::{Derived, SpaceState};
use insula_kinds::core_kind;

/// An authorized request for objects.
///
/// Only [`authorize`] creates one, and every handler takes one, so that no request is handled
/// without authorization.
#[derive(Clone, Debug)]
pub struct Granted {
    principal: Arc<Principal>,
    spaces: Spaces,
    path: ResourcePath,
    /// The requested name: from the path, or from the field selector of a list.
    name: Option<String>,
    /// The node of the pods that the field selector of a list chooses.
    selected_node: Option<String>,
    reason: String,
    /// The revision of the rights that the request was authorized with.
    rights: Revision,
}

/// The caller of an operation: what it was granted, and the context of its request.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// What was granted.
    pub granted: &'a Granted,
    /// The context of the request.
    pub context: &'a RequestContext,
}

impl Deref for Caller<'_> {
    type Target = Granted;

    fn deref(&self) -> &Granted {
        self.granted
    }
}

/// The decision of an authorization, and its reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessDecision {
    /// Whether the action is allowed.
    pub allowed: bool,
    /// The binding that allows the action, or the reason of the denial; often empty.
    pub reason: String,
}

impl Granted {
    /// Returns the caller's principal.
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// Returns the requested spaces.
    pub const fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// Returns the requested space. Routes of writes and of single objects have one.
    pub fn space(&self) -> Result<&Space> {
        match &self.spaces {
            Spaces::One(space) => Ok(space),
            Spaces::All => Err(StatusError::method_not_allowed()),
        }
    }

    /// Returns the address of the object that the path names.
    pub fn address(&self) -> Result<Address> {
        Ok(Address {
            kind: self.path.kind.storage(),
            space: self.space()?.clone(),
            namespace: self.path.namespace.clone(),
            name: self.path.name.clone().unwrap_or_default(),
        })
    }

    /// Returns the requested path.
    pub const fn path(&self) -> &ResourcePath {
        &self.path
    }

    /// Whether the caller gets the object of the tenant that it belongs to.
    pub fn is_own_tenant(&self) -> bool {
        let attributes = attributes(&self.path, self.name.as_deref());
        is_own_tenant(&self.principal, &self.spaces, &attributes)
    }

    /// Returns the reason of the authorization.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Whether the caller may do another action in the same spaces.
    pub async fn is_allowed(
        &self,
        registry: &Registry,
        attributes: ResourceAttributes<'_>,
    ) -> Result<bool> {
        let attributes = Attributes::Resource(attributes);
        let decision = decide(registry, &self.principal, &self.spaces, &attributes).await?;
        Ok(decision.allowed)
    }

    /// Fails unless the caller may do another action in the same spaces.
    pub async fn require(&self, registry: &Registry, also: ResourceAttributes<'_>) -> Result<()> {
        let attributes = Attributes::Resource(also);
        let decision = decide(registry, &self.principal, &self.spaces, &attributes).await?;
        if decision.allowed {
            return Ok(());
        }
        let scope = scope(&self.principal, &self.spaces, also.namespace);
        Err(StatusError::forbidden(
            &self.principal,
            &also,
            &scope,
            &decision.reason,
        ))
    }

    /// Authorizes the request again if rights of its home space have changed since.
    pub fn recheck_if_changed(&self, registry: &Registry) -> Result<()> {
        let is_unchanged = rights_revision(registry, &self.principal) == self.rights;
        match is_unchanged && !self.depends_on_objects() {
            true => Ok(()),
            false => self.recheck(registry),
        }
    }

    /// Whether the right may end without a change of roles: a node may read what the pods on it
    /// refer to. It may always list its pods, which the selection keeps to those on it.
    pub fn depends_on_objects(&self) -> bool {
        self.principal.node().is_some() && self.selected_node.is_none()
    }

    /// Authorizes the request again, because rights may be revoked while a watch is open.
    pub fn recheck(&self, registry: &Registry) -> Result<()> {
        let (principal, spaces) = (&self.principal, &self.spaces);
        let holder = principal.authenticated();
        if !service_account::account_exists(registry, holder)
            || revocation::is_revoked(registry, principal)
        {
            return Err(StatusError::unauthorized());
        }
        let asked = attributes(&self.path, self.name.as_deref());
        let state = registry.cache().space_state(&principal.home);
        let decision = state.map_or_else(AccessDecision::default, |state| {
            let attributes = Attributes::Resource(asked);
            let node = self.selected_node.as_deref();
            evaluate(registry, &state, principal, spaces, &attributes, node)
        });
        if decision.allowed {
            return Ok(());
        }
        let scope = scope(principal, spaces, asked.namespace);
        Err(StatusError::forbidden(
            principal,
            &asked,
            &scope,
            &decision.reason,
        ))
    }
}

/// Authorizes a request for objects.
///
/// A tenant learns nothing about other spaces: a missing space and another tenant's space
/// have the same error.
pub async fn authorize(
    registry: &Registry,
    principal: Arc<Principal>,
    spaces: Spaces,
    path: ResourcePath,
    query: &Query,
) -> Result<Granted> {
    let name = requested_name(&path, query);
    let attributes = attributes(&path, name.as_deref());
    let system_only = path.of().system_only;
    let own_tenant = is_own_tenant(&principal, &spaces, &attributes);
    // A tenant's roles cannot grant system-only resources, except that its users see their quota.
    if system_only && !principal.is_system() && !own_tenant {
        return Err(StatusError::forbidden(
            &principal,
            &attributes,
            &tenant_scope(&spaces),
            "",
        ));
    }
    // Before the rights are evaluated: a change in between is found when they are compared.
    let rights = rights_revision(registry, &principal);
    let selected_node = selected_node(&path, query);
    let node = selected_node.as_deref();
    let reason = permit_selected(registry, &principal, &spaces, &attributes, node).await?;
    require_space(registry, &spaces).await?;
    if system_only && matches!(spaces, Spaces::One(Space::Tenant(_))) && !own_tenant {
        return Err(StatusError::no_such_resource());
    }
    Ok(Granted {
        principal,
        spaces,
        path,
        name,
        selected_node,
        reason,
        rights,
    })
}

/// Returns the revision of the last change to the rights of a principal's home space.
fn rights_revision(registry: &Registry, principal: &Principal) -> Revision {
    let state = registry.cache().space_state(&principal.home);
    state.map_or(Revision::ZERO, |state| state.revision_of(Derived::Access))
}

/// Whether the action is to get the object of the principal's own tenant, in its own space.
pub fn is_own_tenant(
    principal: &Principal,
    spaces: &Spaces,
    attributes: &ResourceAttributes<'_>,
) -> bool {
    let Space::Tenant(tenant) = &principal.home else {
        return false;
    };
    matches!(spaces, Spaces::One(space) if *space == principal.home)
        && (attributes.verb, attributes.group, attributes.resource) == ("get", "", "tenants")
        && (attributes.subresource, attributes.name) == (None, Some(tenant.as_str()))
}

/// Checks whether the principal may do an action in these spaces, whether or not the target
/// exists, and returns the reason.
pub async fn permit(
    registry: &Registry,
    principal: &Principal,
    spaces: &Spaces,
    attributes: &ResourceAttributes<'_>,
) -> Result<String> {
    permit_selected(registry, principal, spaces, attributes, None).await
}

async fn permit_selected(
    registry: &Registry,
    principal: &Principal,
    spaces: &Spaces,
    attributes: &ResourceAttributes<'_>,
    selected_node: Option<&str>,
) -> Result<String> {
    if !may_enter_spaces(registry, principal, spaces).await? {
        return Err(StatusError::forbidden(
            principal,
            attributes,
            &tenant_scope(spaces),
            "",
        ));
    }
    let decision = decide_selected(
        registry,
        principal,
        spaces,
        &Attributes::Resource(*attributes),
        selected_node,
    )
    .await?;
    if !decision.allowed {
        let scope = scope(principal, spaces, attributes.namespace);
        return Err(StatusError::forbidden(
            principal,
            attributes,
            &scope,
            &decision.reason,
        ));
    }
    Ok(decision.reason)
}

/// Authorizes a request for a non-resource path of a space. Roles name the path without the
/// server prefix.
pub async fn authorize_path(
    registry: &Registry,
    principal: &Principal,
    space: &Space,
    verb: &str,
    path: &str,
) -> Result<String> {
    let spaces = Spaces::One(space.clone());
    let within = may_enter_space(registry, principal, space).await?;
    let below = below_prefix(path);
    let attributes = Attributes::NonResource { verb, path: below };
    let decision = match within {
        true => decide(registry, principal, &spaces, &attributes).await?,
        false => AccessDecision::default(),
    };
    if !decision.allowed {
        return Err(StatusError::forbidden_path(
            principal,
            verb,
            path,
            &decision.reason,
        ));
    }
    require_space(registry, &spaces).await?;
    Ok(decision.reason)
}

/// Authorizes reading the issuer of a space. Every token of the space names it, so principals of
/// the space need no role; others need the right to the path.
pub async fn authorize_issuer(
    registry: &Registry,
    principal: &Principal,
    space: &Space,
    path: &str,
) -> Result<String> {
    if principal.home == *space && may_enter_space(registry, principal, space).await? {
        require_space(registry, &Spaces::One(space.clone())).await?;
        return Ok("the issuer of the principal's own space".to_owned());
    }
    authorize_path(registry, principal, space, "get", path).await
}

/// Decides whether the principal may do an action in these spaces. Every change that this
/// server acknowledged before is taken into account.
pub async fn decide(
    registry: &Registry,
    principal: &Principal,
    spaces: &Spaces,
    attributes: &Attributes<'_>,
) -> Result<AccessDecision> {
    decide_selected(registry, principal, spaces, attributes, None).await
}

/// Like [`decide`], for a request whose field selector chooses the pods of a node.
async fn decide_selected(
    registry: &Registry,
    principal: &Principal,
    spaces: &Spaces,
    attributes: &Attributes<'_>,
    selected_node: Option<&str>,
) -> Result<AccessDecision> {
    registry.await_own_writes().await;
    let state = registry.find_space(&principal.home).await?;
    Ok(state.map_or_else(AccessDecision::default, |state| {
        evaluate(
            registry,
            &state,
            principal,
            spaces,
            attributes,
            selected_node,
        )
    }))
}

/// Like [`decide`], from the cache and without waiting.
pub fn decide_cached(
    registry: &Registry,
    principal: &Principal,
    spaces: &Spaces,
    attributes: &Attributes<'_>,
) -> AccessDecision {
    let state = registry.cache().space_state(&principal.home);
    state.map_or_else(AccessDecision::default, |state| {
        evaluate(registry, &state, principal, spaces, attributes, None)
    })
}

/// Decides from the cache whether a user of the space may do an action in it.
pub fn decide_within(
    registry: &Registry,
    space: &Space,
    who: User<'_>,
    attributes: &Attributes<'_>,
) -> AccessDecision {
    let state = registry.cache().space_state(space);
    let by_roles = state.map_or_else(AccessDecision::default, |state| {
        by_roles(registry, &state, space, who, attributes, Reach::Home)
    });
    match node_name(who.name, who.groups) {
        Some(node) => add_rights_of_node(registry, space, node, attributes, None, by_roles),
        None => by_roles,
    }
}

/// Decides by the roles and bindings of a space.
fn by_roles(
    registry: &Registry,
    state: &Arc<SpaceState>,
    space: &Space,
    who: User<'_>,
    attributes: &Attributes<'_>,
    reach: Reach,
) -> AccessDecision {
    policy::ask(registry.cache(), state, space, |policy| {
        let decision = policy.decide(who, attributes, reach);
        AccessDecision {
            allowed: decision.is_allowed(),
            reason: decision.reason().to_string(),
        }
    })
}

/// Evaluates `question` against the policy of the principal's home space, and its reach in
/// these spaces.
pub async fn ask<R: Default>(
    registry: &Registry,
    principal: &Principal,
    spaces: &Spaces,
    question: impl FnOnce(&Policy, Reach) -> R,
) -> Result<R> {
    registry.await_own_writes().await;
    let Some(state) = registry.find_space(&principal.home).await? else {
        return Ok(R::default());
    };
    let reach = reach(principal, spaces);
    Ok(policy::ask(
        registry.cache(),
        &state,
        &principal.home,
        |policy| question(policy, reach),
    ))
}

fn evaluate(
    registry: &Registry,
    state: &Arc<SpaceState>,
    principal: &Principal,
    spaces: &Spaces,
    attributes: &Attributes<'_>,
    selected_node: Option<&str>,
) -> AccessDecision {
    if !may_enter(principal, spaces) || !is_bound(principal, state) {
        return AccessDecision::default();
    }
    let (space, who, reach) = (&principal.home, who(principal), reach(principal, spaces));
    let by_roles = by_roles(registry, state, space, who, attributes, reach);
    match (reach, principal.node()) {
        (Reach::Home, Some(node)) => {
            add_rights_of_node(registry, space, node, attributes, selected_node, by_roles)
        }
        _ => by_roles,
    }
}

/// Decides as the authorizer of nodes what roles do not allow. A denial has both reasons.
fn add_rights_of_node(
    registry: &Registry,
    space: &Space,
    node: &str,
    attributes: &Attributes<'_>,
    selected_node: Option<&str>,
    by_roles: AccessDecision,
) -> AccessDecision {
    let Attributes::Resource(attributes) = attributes else {
        return by_roles;
    };
    if by_roles.allowed {
        return by_roles;
    }
    let request = NodeRequest {
        registry,
        space,
        node,
        attributes,
        selected_node,
    };
    let reason = match request.decide() {
        Ok(()) => None,
        Err(reason) if by_roles.reason.is_empty() => Some(reason),
        Err(reason) if reason.is_empty() => Some(by_roles.reason),
        Err(reason) => Some(format!("{reason}\n{}", by_roles.reason)),
    };
    AccessDecision {
        allowed: reason.is_none(),
        reason: reason.unwrap_or_default(),
    }
}

/// Returns the principal as the user of a policy.
pub fn who(principal: &Principal) -> User<'_> {
    User {
        name: &principal.user,
        groups: &principal.groups,
    }
}

/// Returns how far the rights of a principal's home space reach in these spaces.
fn reach(principal: &Principal, spaces: &Spaces) -> Reach {
    match spaces {
        Spaces::One(space) if *space == principal.home => Reach::Home,
        _ => Reach::Elsewhere,
    }
}

/// Whether the principal may enter all of these spaces.
async fn may_enter_spaces(
    registry: &Registry,
    principal: &Principal,
    spaces: &Spaces,
) -> Result<bool> {
    match spaces {
        Spaces::One(space) => may_enter_space(registry, principal, space).await,
        Spaces::All => Ok(may_enter(principal, spaces)),
    }
}

/// Whether the principal may enter the space, and belongs to its current tenant.
pub async fn may_enter_space(
    registry: &Registry,
    principal: &Principal,
    space: &Space,
) -> Result<bool> {
    if !may_enter(principal, &Spaces::One(space.clone())) {
        return Ok(false);
    }
    if principal.is_system() {
        return Ok(true);
    }
    let state = registry.find_space(space).await?;
    Ok(state.is_some_and(|state| is_bound(principal, &state)))
}

/// Whether the principal belongs to this tenant, not to a former one of the same name.
fn is_bound(principal: &Principal, state: &SpaceState) -> bool {
    principal.is_system() || principal.tenant_binding.holds(&state.uid, state.created)
}

/// Fails if a space does not exist. Called after authorization, so that other callers do not
/// learn it.
async fn require_space(registry: &Registry, spaces: &Spaces) -> Result<()> {
    if let Spaces::One(space) = spaces
        && let Some(tenant) = space.tenant()
        && registry.find_space(space).await?.is_none()
    {
        return Err(no_such_tenant(tenant.as_str()));
    }
    Ok(())
}

/// Returns the RBAC attributes of a request. A namespace counts as inside itself.
pub fn attributes<'a>(path: &'a ResourcePath, name: Option<&'a str>) -> ResourceAttributes<'a> {
    let kind = path.of();
    let namespace = match path.kind.is(core_kind("namespaces")) {
        true => path.name.as_deref(),
        false => path.namespace.as_deref(),
    };
    ResourceAttributes {
        verb: path.verb.as_str(),
        group: &kind.group,
        resource: &kind.resource,
        subresource: path.subresource.as_deref(),
        namespace,
        name,
    }
}

/// Returns the requested name: from the path, or from the field selector of a list. Rules with
/// `resourceNames` match it.
pub fn requested_name(path: &ResourcePath, query: &Query) -> Option<String> {
    if path.name.is_some() {
        return path.name.clone();
    }
    let of_many = matches!(path.verb, Verb::List | Verb::Watch | Verb::DeleteCollection);
    let text = query.get("fieldSelector").filter(|_| of_many)?;
    let fields = FieldSelector::parse(path.of(), text).ok()?;
    fields.name().map(str::to_owned)
}

fn scope(principal: &Principal, spaces: &Spaces, namespace: Option<&str>) -> String {
    match (reach(principal, spaces), namespace) {
        (Reach::Elsewhere, _) => tenant_scope(spaces),
        (Reach::Home, Some(namespace)) => format!("in the namespace \"{namespace}\""),
        (Reach::Home, None) => "at the cluster scope".to_owned(),
    }
}

fn tenant_scope(spaces: &Spaces) -> String {
    match spaces {
        Spaces::All => "in all tenants".to_owned(),
        Spaces::One(space) => format!("in the tenant \"{space}\""),
    }
}
