//! NamespaceLifecycle, for tenants and definitions too: creates are rejected in a namespace,
//! tenant or definition that does not exist or is terminating.

use std::sync::Arc;

use insula_cache::{Stored, is_published};
use insula_core::SYSTEM;
use insula_kinds::{Kind, core_kind, kinds};
use insula_store::{Expect, Transaction};

use super::Admission;
use crate::registry::access_kinds::tenant_accesses;
use crate::registry::resource::Resource;
use crate::registry::{Address, Registry, apis, namespace_address, no_such_tenant, tenant_address};
use crate::status::{Result, StatusError};

/// Records what the create depends on, for its transaction.
pub async fn admit(admission: &mut Admission<'_>) -> Result<()> {
    let found = Lifecycle::check(admission.registry, admission.resource, admission.address).await?;
    admission.lifecycle = Some(found);
    Ok(())
}

/// The tenant, the namespace and the definition that a create depends on. They exist and are not
/// terminating; the transaction checks them again, because they may be deleted meanwhile.
#[derive(Debug)]
pub struct Lifecycle {
    tenant: Option<(Address, Arc<Stored>)>,
    namespace: Option<(Address, Arc<Stored>)>,
    definition: Option<Definition>,
}

/// Returns the tenant that an object is deleted with: that of its space or, for the record of a
/// tenant's credentials, that of its name.
fn tenant_of<'a>(kind: &Resource, address: &'a Address) -> Option<&'a str> {
    if let Some(tenant) = address.space.tenant() {
        return Some(tenant.as_str());
    }
    let is_tenants_record = kind.is(tenant_accesses()) && address.name != SYSTEM;
    is_tenants_record.then_some(address.name.as_str())
}

/// The definition of a custom object, and the space's own definition of that name, which must
/// not exist if the object's is published by the system.
#[derive(Debug)]
struct Definition {
    address: Address,
    found: Arc<Stored>,
    own: Option<Address>,
}

impl Lifecycle {
    /// Finds and checks them. An error is confirmed against fresh state: the cached namespace may
    /// have been replaced by another of the same name.
    pub async fn check(registry: &Registry, kind: &Resource, address: &Address) -> Result<Self> {
        match Self::try_check(registry, kind, address).await {
            Err(_) => {
                registry.catch_up().await?;
                Self::try_check(registry, kind, address).await
            }
            found => found,
        }
    }

    async fn try_check(registry: &Registry, kind: &Resource, address: &Address) -> Result<Self> {
        let mut lifecycle = Self {
            tenant: None,
            namespace: None,
            definition: Definition::find(registry, kind, address)?,
        };
        if let Some(name) = tenant_of(kind, address) {
            let found = registry.find_tenant(name).await?;
            let found = found.ok_or_else(|| no_such_tenant(name))?;
            if found.terminating {
                let why = format!(
                    "unable to create new content in tenant {name} because it is being terminated"
                );
                return Err(StatusError::not_allowed(kind, &address.name, &why));
            }
            lifecycle.tenant = Some((tenant_address(name), found.object));
        }
        if let Some(name) = &address.namespace {
            let namespace = namespace_address(&address.space, name);
            let found = registry.cached(&namespace);
            let missing = || StatusError::not_found(kinds().get(core_kind("namespaces")), name);
            let found = found.ok_or_else(missing)?;
            if found.is_terminating() {
                return Err(namespace_terminating(kind, &address.name, name));
            }
            lifecycle.namespace = Some((namespace, found));
        }
        Ok(lifecycle)
    }

    /// The namespace that the object is created in.
    pub fn namespace(&self) -> Option<&Arc<Stored>> {
        self.namespace.as_ref().map(|(_, found)| found)
    }

    /// Adds the checks to the transaction that creates the object.
    pub fn guard(&self, registry: &Registry, mut transaction: Transaction) -> Transaction {
        for (address, seen) in [&self.tenant, &self.namespace].into_iter().flatten() {
            let unchanged = Expect::At(seen.revision);
            transaction = transaction.check(registry.key(address), unchanged);
        }
        if let Some(definition) = &self.definition {
            let unchanged = Expect::At(definition.found.revision);
            transaction = transaction.check(registry.key(&definition.address), unchanged);
            if let Some(own) = &definition.own {
                transaction = transaction.check(registry.key(own), Expect::Absent);
            }
        }
        transaction
    }
}

impl Definition {
    /// Returns the definition that must not change while a custom object is created: one that
    /// is terminating, or no longer published, creates nothing.
    fn find(registry: &Registry, kind: &Resource, address: &Address) -> Result<Option<Self>> {
        let Some(custom) = kind.custom() else {
            return Ok(None);
        };
        let apis = registry.apis(&address.space);
        let offer = apis
            .as_ref()
            .and_then(|apis| apis.offer(&kind.group, &kind.resource));
        let offer = offer.ok_or_else(StatusError::no_such_path)?;
        if offer.terminating {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(StatusError::not_allowed(kind, &address.name, why));
        }
        if offer.defined.id() != custom.defined().id() {
            let why = "the definition of this kind has changed; please try again";
            return Err(StatusError::conflict(kind, &address.name, why));
        }
        let name = offer.name();
        let source = apis::definition_address(&offer.source, &name);
        let found = registry
            .cached(&source)
            .ok_or_else(StatusError::no_such_path)?;
        let is_shared = offer.source != address.space;
        // It may be newer than the API that was found. The transaction checks only that it does
        // not change any more.
        if found.is_terminating() || (is_shared && !is_published(&found)) {
            return Err(StatusError::no_such_path());
        }
        let own = is_shared.then(|| apis::definition_address(&address.space, &name));
        if own
            .as_ref()
            .is_some_and(|own| registry.cached(own).is_some())
        {
            let why = "this space has a definition of its own of this name, which will be served \
                       when no object of the published one is left";
            return Err(StatusError::not_allowed(kind, &address.name, why));
        }
        Ok(Some(Self {
            address: source,
            found,
            own,
        }))
    }
}

fn namespace_terminating(kind: &Kind, name: &str, namespace: &str) -> StatusError {
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let cause = format!("namespace {namespace} is being terminated");
    StatusError::not_allowed(kind, name, &why).cause(
        "NamespaceTerminating",
        &cause,
        "metadata.namespace",
    )
}
