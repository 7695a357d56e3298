//! Claims on target namespaces: a Lease in each names the operator that is configured for it.
//!
//! Which of several such operators reconciles an object is decided by the object alone. The Lease
//! shows at the start of an operator that another one is configured for the same namespace, before
//! both have touched any object. Only rights in the namespace are needed. An operator of all
//! namespaces leaves a namespace with a Lease alone (see `foreign_claim`).

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use insula_operator::event::{NewEvent, Reporter, event};
use insula_operator::lease::Times;
use insula_operator::provider::Provider;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

use super::Azure;
use crate::names::{CLAIM_LEASE, OPERATOR_NAMESPACE_V2};

/// How much longer than the Lease of the leader a claim is valid: nothing waits for it, and there
/// may be many namespaces.
const FACTOR: u32 = 4;
/// The timeout of the release of all claims.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// The claims of an operator on its target namespaces.
pub(super) struct NamespaceClaims {
    pub client: Client,
    /// The operator's namespace.
    pub operator: String,
    /// The name of this instance, for events.
    pub instance: String,
    /// None for an operator of all namespaces.
    pub namespaces: BTreeSet<String>,
    pub times: Times,
}

/// The Lease of another operator, and since when it has not changed.
#[derive(Debug, Default)]
struct Seen(Option<(LeaseSpec, Instant)>);

/// Who holds a claim.
#[derive(Debug, PartialEq, Eq)]
enum Holder {
    Own,
    Other(String),
}

impl NamespaceClaims {
    /// Claims all namespaces, and renews the claims until it is dropped.
    pub(super) async fn keep(&self) {
        join_all(self.namespaces.iter().map(|one| self.keep_one(one))).await;
        // An operator of all namespaces claims none.
        if let Err(error) = self.report_all().await {
            debug!(%error, "claims on namespaces not read");
        }
        std::future::pending::<()>().await;
    }

    /// Releases all claims, so that the next operator of a namespace reports no overlap.
    pub(super) async fn release(&self) {
        let released = join_all(self.namespaces.iter().map(|one| self.release_one(one)));
        if timeout(RELEASE_TIMEOUT, released).await.is_err() {
            debug!("claims on namespaces not released in time");
        }
    }

    async fn keep_one(&self, namespace: &str) {
        let (mut seen, mut reported, mut has_failed) = (Seen::default(), None, false);
        loop {
            match self.claim(namespace, &mut seen).await {
                Ok(Holder::Own) => reported = None,
                Ok(Holder::Other(other)) if reported.as_ref() != Some(&other) => {
                    self.report(namespace, &other).await;
                    reported = Some(other);
                }
                Ok(Holder::Other(_)) => {}
                Err(error) if has_failed => debug!(namespace, %error, "namespace not claimed"),
                // Objects are reconciled without it too.
                Err(error) => {
                    warn!(namespace, %error, "namespace not claimed");
                    has_failed = true;
                }
            }
            sleep(self.times.renew * FACTOR).await;
        }
    }

    /// Claims a namespace, or renews the claim. One that another operator has not renewed in time
    /// counts as free; clocks of two machines are not compared.
    async fn claim(&self, namespace: &str, seen: &mut Seen) -> Result<Holder, kube::Error> {
        let leases = self.leases(namespace);
        let found = leases.get_opt(CLAIM_LEASE).await?;
        let spec = found.as_ref().and_then(|lease| lease.spec.as_ref());
        if let Some(other) = spec.and_then(|spec| seen.other(spec, &self.operator, Instant::now()))
        {
            return Ok(Holder::Other(other));
        }
        let lease = self.lease(found, &self.operator);
        let parameters = PostParams::default();
        let written = match lease.resource_version() {
            None => leases.create(&parameters, &lease).await,
            Some(_) => leases.replace(CLAIM_LEASE, &parameters, &lease).await,
        };
        // Another instance, or another operator, was faster: the next round shows it.
        match written {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Holder::Own),
            written => written.map(|_| Holder::Own),
        }
    }

    /// Reports the namespaces that this operator leaves to others.
    async fn report_all(&self) -> Result<(), kube::Error> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let listed = namespaces.list_metadata(&ListParams::default()).await?;
        for namespace in listed.items {
            let namespace = namespace.name_any();
            let lease = self.leases(&namespace).get_opt(CLAIM_LEASE).await?;
            let other = holder(lease.as_ref().and_then(|lease| lease.spec.as_ref()));
            if let Some(other) = other.filter(|other| *other != self.operator) {
                self.report(&namespace, other).await;
            }
        }
        Ok(())
    }

    async fn release_one(&self, namespace: &str) {
        let leases = self.leases(namespace);
        let released = async {
            let found = leases.get_opt(CLAIM_LEASE).await?;
            let is_own = |lease: &Lease| holder(lease.spec.as_ref()) == Some(&self.operator);
            let Some(found) = found.filter(is_own) else {
                return Ok(());
            };
            let lease = self.lease(Some(found), "");
            let parameters = PostParams::default();
            leases.replace(CLAIM_LEASE, &parameters, &lease).await?;
            Ok::<_, kube::Error>(())
        };
        match released.await {
            Ok(()) => info!(namespace, "namespace released"),
            Err(error) => debug!(namespace, %error, "namespace not released"),
        }
    }

    /// Reports an operator that is configured for a namespace too.
    async fn report(&self, namespace: &str, other: &str) {
        warn!(
            namespace,
            other, "namespace is a target of another operator"
        );
        let leases = self.leases(namespace);
        let Ok(Some(lease)) = leases.get_opt(CLAIM_LEASE).await else {
            return;
        };
        let note = NewEvent {
            warning: true,
            reason: "Overlap",
            note: overlap(&self.operator, other),
        };
        let reporter = Reporter {
            controller: Azure::NAMES.controller,
            instance: &self.instance,
        };
        let event = event(lease.object_ref(&()), note, reporter);
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        if let Err(error) = events.create(&PostParams::default(), &event).await {
            debug!(namespace, %error, "event not recorded");
        }
    }

    fn leases(&self, namespace: &str) -> Api<Lease> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Returns the Lease with a holder, renewed now.
    fn lease(&self, found: Option<Lease>, holder: &str) -> Lease {
        let mut lease = found.unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(CLAIM_LEASE.to_owned()),
                ..ObjectMeta::default()
            },
            ..Lease::default()
        });
        // It stays when the claim is released: the operator may be restarted.
        let operator = (OPERATOR_NAMESPACE_V2.to_owned(), self.operator.clone());
        lease.annotations_mut().extend([operator]);
        let now = MicroTime(Timestamp::now());
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(holder) {
            spec.holder_identity = Some(holder.to_owned());
            spec.acquire_time = Some(now.clone());
        }
        spec.renew_time = Some(now);
        let seconds = (self.times.duration * FACTOR).as_secs().max(1);
        spec.lease_duration_seconds = Some(i32::try_from(seconds).unwrap_or(i32::MAX));
        lease
    }
}

impl Seen {
    /// Returns the other operator that holds a Lease, unless it has expired.
    fn other(&mut self, spec: &LeaseSpec, own: &str, now: Instant) -> Option<String> {
        let other = holder(Some(spec)).filter(|holder| *holder != own)?;
        let since = match &self.0 {
            Some((seen, since)) if seen == spec => *since,
            _ => {
                self.0 = Some((spec.clone(), now));
                now
            }
        };
        let seconds = spec.lease_duration_seconds.unwrap_or(1);
        let valid = Duration::from_secs(u64::try_from(seconds).unwrap_or(1));
        (now - since <= valid).then(|| other.to_owned())
    }
}

fn holder(spec: Option<&LeaseSpec>) -> Option<&str> {
    let holder = spec?.holder_identity.as_deref()?;
    (!holder.is_empty()).then_some(holder)
}

/// Returns the message about two operators that are configured for one namespace.
fn overlap(own: &str, other: &str) -> String {
    format!("Operators in {own:?} and {other:?} are both configured to manage this namespace")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(holder: &str, renewed: i64) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(60),
            renew_time: Timestamp::from_second(renewed).ok().map(MicroTime),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn claim_of_another_operator_counts_until_it_is_not_renewed_in_time() {
        let (mut seen, begin) = (Seen::default(), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        for (holder, renewed, at, expected) in [
            ("a", 0, 0, None),
            ("", 0, 0, None),
            ("b", 0, 0, Some("b")),
            ("b", 0, 60, Some("b")),
            ("b", 50, 61, Some("b")),
            ("b", 50, 121, Some("b")),
            ("b", 50, 122, None),
            ("c", 50, 122, Some("c")),
        ] {
            let found = seen.other(&spec(holder, renewed), "a", after(at));
            assert_eq!(found.as_deref(), expected, "{holder} {renewed} at {at}");
        }
    }
}
