//! May they? The tenant's wall first, then what is allowed inside the space.

use std::sync::Arc;

use insula_access::may_enter;
use insula_core::{Principal, Space, Spaces};

use crate::registry::{Address, Registry, no_such_tenant};
use crate::route::ResourcePath;
use crate::status::{Refusal, Result};

/// A request for objects that may be carried out.
///
/// Only [`authorize`] makes one, and every handler asks for one: what is carried out was
/// authorized.
#[derive(Clone, Debug)]
pub struct Granted {
    principal: Arc<Principal>,
    spaces: Spaces,
    path: ResourcePath,
}

impl Granted {
    /// Who asks.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// In which spaces.
    pub const fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// In which space. Writes and reads of one object have one, by their routes.
    pub fn space(&self) -> Result<&Space> {
        match &self.spaces {
            Spaces::One(space) => Ok(space),
            Spaces::All => Err(Refusal::method_not_allowed()),
        }
    }

    /// The one object that the path names, as it is stored.
    pub fn address(&self) -> Result<Address> {
        Ok(Address {
            kind: self.path.of().storage(),
            space: self.space()?.clone(),
            namespace: self.path.namespace.clone(),
            name: self.path.name.clone().unwrap_or_default(),
        })
    }

    /// What is asked.
    pub const fn path(&self) -> &ResourcePath {
        &self.path
    }
}

/// Refuses what the principal may not do.
///
/// A tenant learns nothing here about other spaces: one that is missing is refused like
/// one that is somebody else's.
pub async fn authorize(
    registry: &Registry,
    principal: Arc<Principal>,
    spaces: Spaces,
    path: ResourcePath,
) -> Result<Granted> {
    let kind = path.of();
    let refuse = |scope: &str| {
        let (subresource, name) = (path.subresource.as_deref(), path.name.as_deref());
        Refusal::forbidden(&principal, path.verb, kind, subresource, name, scope)
    };
    if !may_enter(&principal, &spaces) {
        return Err(match &spaces {
            Spaces::All => refuse("in all tenants"),
            Spaces::One(space) => refuse(&format!("in the tenant \"{space}\"")),
        });
    }
    if let Spaces::One(Space::Tenant(tenant)) = &spaces {
        let exists = registry.find_tenant(tenant.as_str()).await?.is_some();
        if !exists && principal.is_system() {
            return Err(no_such_tenant(tenant.as_str()));
        }
        if !exists || (kind.system_only && !principal.is_system()) {
            return Err(refuse(&format!("in the tenant \"{tenant}\"")));
        }
        if kind.system_only {
            return Err(Refusal::no_such_resource());
        }
    }
    Ok(Granted {
        principal,
        spaces,
        path,
    })
}

/// Refuses who may not learn what a space serves.
pub async fn authorize_document(
    registry: &Registry,
    principal: &Principal,
    space: &Space,
    path: &str,
) -> Result<()> {
    let refused = || Refusal::forbidden_path(principal, path);
    if !may_enter(principal, &Spaces::One(space.clone())) {
        return Err(refused());
    }
    if let Some(tenant) = space.tenant()
        && registry.find_tenant(tenant.as_str()).await?.is_none()
    {
        return Err(match principal.is_system() {
            true => no_such_tenant(tenant.as_str()),
            false => refused(),
        });
    }
    Ok(())
}
