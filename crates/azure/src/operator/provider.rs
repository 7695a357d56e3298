//! What the shell of the operator has to know about Azure.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use insula_identity::credential::Source;
use insula_identity::reason::Reason;
use insula_identity::shape::{Shape, Texts};
use insula_operator::key::{GroupKind, Key, Space};
use insula_operator::provider::{IdentityKind, Names, Provider, WatchedKind};
use insula_operator::retry::Outcome;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use tokio::time::Instant;

use super::Reconciliation;
use super::credentials::Terms;
use super::foreign_claim::ForeignClaims;
use super::original_version::OriginalVersions;
use super::ownership::Owners;
use super::pacing::Pacing;
use super::rate_limit::ReconcileLimit;
use super::reconcile;
use super::served::ServedKinds;
use crate::arm::Subscriptions;
use crate::arm::throttle::Throttle;
use crate::entra::shape::{CLIENT_ID, SUBSCRIPTION_ID, TENANT_ID};
use crate::names::{LEASE, OWNER_NAME};
use crate::settings::ReconcilePolicy;
use crate::webhooks::SharedExpressions;

/// The owner of requests to a subscription: a tenant's space, or a namespace of the operator's own
/// space. Tenants share a limit, whatever the number of their namespaces.
pub(super) type RequestOwner = (Space, String);

/// The rate limits in sight.
pub(super) type SharedThrottle = Mutex<Throttle<RequestOwner, Arc<str>>>;

/// The provider.
pub struct Azure {
    /// The operator's namespace.
    pub(super) namespace: String,
    /// The claims of other operators on namespaces; none for an operator with target namespaces.
    pub(super) foreign_claims: Option<ForeignClaims>,
    pub(super) served: Arc<ServedKinds>,
    pub(super) terms: Terms,
    pub(super) default_policy: ReconcilePolicy,
    pub(super) pacing: Pacing,
    pub(super) rate_limit: ReconcileLimit,
    pub(super) originals: OriginalVersions,
    pub(super) owners: Owners,
    pub(super) throttle: Arc<SharedThrottle>,
    pub(super) expressions: SharedExpressions,
}

impl Azure {
    pub(super) fn throttle(&self) -> MutexGuard<'_, Throttle<RequestOwner, Arc<str>>> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets an object that does not exist any more.
    pub(super) fn forget(&self, key: &Key) {
        let name = key.text();
        self.pacing.forget(&name);
        self.originals.forget(&name);
        self.owners.observe(key, None);
    }
}

impl Provider for Azure {
    type Connector = Subscriptions;

    const NAMES: &'static Names = &Names {
        controller: "azure.microsoft.com/operator",
        lease: LEASE,
        watch_label: "azure.microsoft.com/watch-filter",
        pause_annotation: "azure.microsoft.com/paused",
        member_label: OWNER_NAME,
        api_version: "azure.microsoft.com/v1",
        // Credentials are held by a finalizer that all their users share.
        claimant_kinds: &[],
        claimants: &[],
        secret_finalizer: "azure.microsoft.com/credential",
    };
    /// What every Secret with a credential has; the settings of the operator say the rest.
    const SHAPE: &'static dyn Shape = &Texts {
        required: &[SUBSCRIPTION_ID, TENANT_ID, CLIENT_ID],
        optional: &[],
    };
    const IDENTITIES: Option<&'static IdentityKind> = None;
    const GUARDS_WRITES: bool = true;

    fn kinds(&self) -> Vec<WatchedKind> {
        let mut kinds = self.served.watched();
        kinds.push(WatchedKind::dependency::<ConfigMap>());
        kinds
    }

    fn watches_started(&self, kinds: &[GroupKind]) {
        let now = Instant::now();
        self.owners.watches_started(kinds, now);
        self.pacing.term_started(now);
    }

    fn watch_listed(&self, watch: usize) {
        self.owners.watch_listed(watch);
    }

    fn watch_forbidden(&self, watch: usize) {
        self.owners.watch_forbidden(watch);
    }

    fn object_observed(&self, key: &Key, metadata: Option<&ObjectMeta>) {
        self.owners.observe(key, metadata);
    }

    fn login_hint(source: &Source, reason: Reason) -> Option<&'static str> {
        let is_refused = reason == Reason::InvalidCredentials;
        match source {
            Source::Secret { .. } if is_refused => Some("correct the Secret"),
            Source::Operator if is_refused => {
                Some("the operator's administrator corrects its settings")
            }
            _ => None,
        }
    }

    async fn reconcile(of: &Reconciliation<'_>) -> Result<Outcome, kube::Error> {
        reconcile::reconcile(of).await
    }
}
