//! The hooks that the cache calls while it applies changes.

use std::sync::{Arc, OnceLock};

use insula_admission::validate::GROUP;
use insula_cache::{Change, Derived, Event, SpaceState, Stored};
use insula_core::Space;
use insula_kinds::{KindId, Value, core_kind, kinds};
use memchr::memmem;

use crate::flow_control::{LimitTable, TenantLimits};
use crate::registry::access_kinds::revocations;
use crate::registry::built_in::BuiltIns;
use crate::registry::rbac_kinds::rbac_kind;
use crate::registry::tenant_fields::{self, TenantFieldsTable};

/// Maps kinds to the derived values that depend on them, provides built-in objects, and applies
/// what tenants' objects set.
#[derive(Debug)]
pub struct Hooks {
    /// The built-in objects.
    pub built_in: Arc<BuiltIns>,
    /// The limits of all spaces.
    pub limits: Arc<LimitTable>,
    /// Whether the spaces' objects are shown with the fields that name their tenant.
    pub tenant_fields: Arc<TenantFieldsTable>,
    /// Whether there is a default quota.
    pub limits_every_tenant: bool,
}

/// The resources that decide how requests are admitted.
const ADMISSION: [&str; 4] = [
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

/// The kinds of mutating and validating webhook configurations, of policies and of their
/// bindings, in this order.
pub fn admission_kinds() -> &'static [KindId; ADMISSION.len()] {
    static TABLE: OnceLock<[KindId; ADMISSION.len()]> = OnceLock::new();
    TABLE.get_or_init(|| {
        ADMISSION.map(|resource| {
            let kind = kinds().find(GROUP, "v1", resource);
            kind.expect("the table has the admission kinds")
        })
    })
}

impl insula_cache::Hooks for Hooks {
    fn invalidates(&self, kind: KindId, events: &[Arc<Event>]) -> Option<Derived> {
        if decides_access(kind, events) {
            return Some(Derived::Access);
        }
        if kind == revocations() {
            return Some(Derived::Revocations);
        }
        admission_kinds()
            .contains(&kind)
            .then_some(Derived::Admission)
    }

    fn shadowed(
        &self,
        kind: KindId,
        space: &Space,
        object: &Stored,
        state: &SpaceState,
    ) -> Option<Arc<Stored>> {
        self.built_in.shadowed(kind, space, object, state)
    }

    fn limits_every_tenant(&self) -> bool {
        self.limits_every_tenant
    }

    fn note_tenant(&self, space: &Space, tenant: Option<&Stored>) {
        let tenant = tenant
            .filter(|tenant| sets_something(tenant))
            .map(Stored::tree);
        let spec = tenant.as_ref().and_then(|tenant| tenant.get("spec"));
        let limits = spec.and_then(|spec| spec.get("limits"));
        let limits = limits.map_or_else(TenantLimits::default, TenantLimits::parse);
        self.limits.set(space, &limits);
        let fields = spec.and_then(|spec| spec.get(tenant_fields::FIELD));
        self.tenant_fields
            .set(space, fields.and_then(Value::as_str));
    }
}

/// Whether a tenant's object may set anything that is noted. Most set nothing, so the words are
/// searched before the object is parsed.
fn sets_something(tenant: &Stored) -> bool {
    let body = tenant.body();
    let words: [&[u8]; 2] = [br#""limits":{"#, br#""objectTenantFields":""#];
    words.iter().any(|word| memmem::find(&body, word).is_some())
}

/// Whether these changes can take a right away from a principal.
fn decides_access(kind: KindId, events: &[Arc<Event>]) -> bool {
    static ACCOUNTS: OnceLock<KindId> = OnceLock::new();
    let accounts = *ACCOUNTS.get_or_init(|| core_kind("serviceaccounts"));
    // A new service account has no tokens yet; deletion invalidates its tokens.
    let gone = |event: &Arc<Event>| match event.change {
        Change::Added => false,
        Change::Modified => event.object.is_terminating(),
        Change::Deleted => true,
    };
    rbac_kind(kind).is_some() || (kind == accounts && events.iter().any(gone))
}
