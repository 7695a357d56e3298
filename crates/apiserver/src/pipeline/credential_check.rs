//! Whether the credential of a request is still accepted while the request is handled.
//!
//! A client may withhold the body of an authorized request, and a webhook of its tenant the
//! answer, until the credential is revoked. So it is checked again before the request has an
//! effect.

use std::fmt;
use std::sync::Arc;

use insula_core::Principal;

use crate::pipeline::revocation::is_revoked;
use crate::pipeline::service_account::account_exists;
use crate::pipeline::trust::CurrentTrust;
use crate::registry::Registry;
use crate::request::context::CredentialState;
use crate::status::{Result, StatusError};

/// The credential that a request was authenticated with, to be checked again.
pub struct CredentialCheck {
    registry: Arc<Registry>,
    /// What certificates and static tokens are verified with.
    trust: Arc<CurrentTrust>,
    principal: Arc<Principal>,
}

impl CredentialCheck {
    /// Creates the check of the credential behind a principal.
    pub fn new(
        registry: &Arc<Registry>,
        trust: &Arc<CurrentTrust>,
        principal: &Arc<Principal>,
    ) -> Self {
        Self {
            registry: Arc::clone(registry),
            trust: Arc::clone(trust),
            principal: Arc::clone(principal),
        }
    }
}

#[async_trait::async_trait]
impl CredentialState for CredentialCheck {
    async fn check(&self) -> Result<()> {
        self.registry.await_own_writes().await;
        self.check_cached()
    }

    fn check_cached(&self) -> Result<()> {
        let (registry, principal) = (&self.registry, &self.principal);
        let is_accepted = self.trust.still_accepts(principal)
            && !is_revoked(registry, principal)
            && account_exists(registry, principal.authenticated());
        match is_accepted {
            true => Ok(()),
            false => Err(StatusError::unauthorized()),
        }
    }
}

impl fmt::Debug for CredentialCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialCheck")
            .field("principal", &self.principal)
            .finish_non_exhaustive()
    }
}
