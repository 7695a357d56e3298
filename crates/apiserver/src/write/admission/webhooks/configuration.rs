//! The compiled webhooks and policies of a space.
//!
//! They are derived from the space's configuration objects on use, if those changed since, and
//! dropped when unused.

use std::fmt;
use std::sync::Arc;

use insula_admission::policy::Policies;
use insula_admission::review::Mode;
use insula_admission::webhook::Webhooks;
use insula_core::Space;
use insula_kinds::Object;

use crate::flow_control::cpu_bound::run_blocking;
use crate::registry::Registry;
use crate::registry::hooks::admission_kinds;
use insula_cache::{Cache, Derived};

/// The webhooks and policies of a space.
pub struct AdmissionConfiguration {
    mutating: Webhooks,
    validating: Webhooks,
    policies: Policies,
}

impl AdmissionConfiguration {
    /// Returns the mutating or the validating webhooks.
    pub const fn webhooks(&self, mode: Mode) -> &Webhooks {
        match mode {
            Mode::Mutating => &self.mutating,
            Mode::Validating => &self.validating,
        }
    }

    /// Returns the policies.
    pub const fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Whether the space has neither webhooks nor policies.
    pub fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty() && self.policies.is_empty()
    }

    fn of(cache: &Cache, space: &Space) -> Self {
        let mut configuration = Self {
            mutating: Webhooks::default(),
            validating: Webhooks::default(),
            policies: Policies::default(),
        };
        let [mutating, validating, policies, bindings] = *admission_kinds();
        let each = |kind, put: &mut dyn FnMut(&Object)| {
            let found = cache.find(kind, space);
            let found = found.map(|found| found.snapshot("", None).objects);
            for configuration in found.unwrap_or_default() {
                put(&configuration.tree());
            }
        };
        each(mutating, &mut |object| configuration.mutating.put(object));
        each(validating, &mut |object| {
            configuration.validating.put(object)
        });
        each(policies, &mut |object| {
            configuration.policies.put_policy(object)
        });
        each(bindings, &mut |object| {
            configuration.policies.put_binding(object)
        });
        configuration
    }
}

impl Registry {
    /// Returns the webhooks and policies of a space; `None` if the space does not exist.
    pub fn admission(&self, space: &Space) -> Option<Arc<AdmissionConfiguration>> {
        let state = self.cache().space_state(space)?;
        if let Some(found) = self.cache().derived(&state, Derived::Admission, Arc::clone) {
            return Some(found);
        }
        // Compiling expressions takes long, and other readers wait meanwhile.
        let configuration = run_blocking(|| {
            let derive = |_: Option<Box<Arc<AdmissionConfiguration>>>, _| {
                Box::new(Arc::new(AdmissionConfiguration::of(self.cache(), space)))
            };
            self.cache()
                .derive(&state, Derived::Admission, derive, Arc::clone)
        });
        Some(configuration)
    }
}

impl fmt::Debug for AdmissionConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Configured").finish_non_exhaustive()
    }
}
