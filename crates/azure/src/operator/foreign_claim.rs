//! Namespaces that an operator of all namespaces leaves to operators with target namespaces.
//!
//! Such an operator has a Lease in each of its namespaces (see `namespace_claim`). Its credential
//! may be narrower than that of the operator of all namespaces, so that one does not take objects
//! there. The Lease counts until it has not been renewed in time, also after its holder has
//! released it: an operator that is restarted keeps its namespaces. Objects that the operator of all
//! namespaces accepted before the Lease was created stay with it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use insula_operator::key::Space;
use insula_operator::read::get_named;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt};
use tokio::time::Instant;

use super::object::Object;
use crate::names::{CLAIM_LEASE, FINALIZER, OPERATOR_NAMESPACE_V2};

/// How long the claim on a namespace is remembered for objects that have a finalizer. It is read
/// anew before any object is accepted.
const MAX_AGE: Duration = Duration::from_secs(30);
/// The maximum number of namespaces that are remembered.
const MAX_REMEMBERED: usize = 10_000;
/// How much later than the end of a claim an object is reconciled again.
const MARGIN: Duration = Duration::from_millis(200);

/// The claim of another operator on a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ForeignClaim {
    /// The namespace of the other operator.
    operator: String,
    /// When its Lease was created, by the clock of the API server.
    created: Option<Timestamp>,
    /// The version of the Lease, which changes when it is renewed.
    version: Option<String>,
    /// How long it counts after it was renewed.
    valid: Duration,
}

/// An operator that an object belongs to because of its namespace.
#[derive(Debug)]
pub(super) struct OtherOperator {
    pub name: String,
    /// When to look again, because its claim may have ended.
    pub look_after: Duration,
}

/// The claims of other operators, as they were read last.
#[derive(Debug, Default)]
pub(super) struct ForeignClaims(Mutex<HashMap<(Space, String), Known>>);

#[derive(Clone, Debug)]
struct Known {
    read: Instant,
    /// The claim, and since when it is known in this version: clocks of two machines are not
    /// compared.
    claim: Option<(ForeignClaim, Instant)>,
}

impl Known {
    /// Returns the claim if it has not ended, and how long it lasts if it is not renewed.
    fn at(self, now: Instant) -> Option<(ForeignClaim, Duration)> {
        let (claim, since) = self.claim?;
        let left = claim.valid.checked_sub(now - since)?;
        Some((claim, left))
    }
}

impl ForeignClaims {
    /// Returns the other operator that an object belongs to because of its namespace. Everything
    /// that users can write into the object's metadata counts only for an object that is older
    /// than the claim.
    ///
    /// # Errors
    ///
    /// If the request fails.
    pub(super) async fn operator_of(
        &self,
        object: &Object<'_>,
        own: &str,
        is_own: bool,
    ) -> Result<Option<OtherOperator>, kube::Error> {
        let is_accepted = is_own && object.has_finalizer(FINALIZER);
        let max_age = if is_accepted { MAX_AGE } else { Duration::ZERO };
        let known = self.read(object, max_age).await?;
        let claim = known.at(Instant::now());
        let Some((claim, left)) = claim.filter(|(claim, _)| claim.operator != own) else {
            return Ok(None);
        };
        let created = object.metadata().creation_timestamp.as_ref();
        let is_older = is_before(created.map(|time| time.0), claim.created);
        Ok((!is_accepted || !is_older).then(|| OtherOperator {
            name: claim.operator,
            look_after: left + MARGIN,
        }))
    }

    async fn read(&self, object: &Object<'_>, max_age: Duration) -> Result<Known, kube::Error> {
        let of = object.of;
        let namespace = of.key.namespace_or_empty();
        let place = (of.key.space.clone(), namespace.to_owned());
        let before = self.known().get(&place).cloned();
        let now = Instant::now();
        if let Some(known) = before.as_ref().filter(|known| now - known.read < max_age) {
            return Ok(known.clone());
        }
        // The account that the operator may act as in the namespace has no right to Leases.
        let leases: Api<Lease> = Api::namespaced(of.client(), namespace);
        let found = get_named(&leases, CLAIM_LEASE).await?;
        let before = before.and_then(|before| before.claim);
        let claim = found.as_ref().and_then(claim_of).map(|claim| match before {
            Some((before, since)) if before == claim => (claim, since),
            _ => (claim, now),
        });
        let known = Known { read: now, claim };
        let mut all = self.known();
        if all.len() >= MAX_REMEMBERED {
            all.clear();
        }
        all.insert(place, known.clone());
        Ok(known)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(Space, String), Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the claim that a Lease is, also if its holder has released it.
fn claim_of(lease: &Lease) -> Option<ForeignClaim> {
    let holder = lease.spec.as_ref();
    let holder = holder.and_then(|spec| spec.holder_identity.as_ref());
    let last = lease.annotations().get(OPERATOR_NAMESPACE_V2);
    let operator = holder.filter(|holder| !holder.is_empty()).or(last)?;
    let seconds = lease
        .spec
        .as_ref()
        .and_then(|spec| spec.lease_duration_seconds);
    let seconds = u64::try_from(seconds.unwrap_or(1)).unwrap_or(1);
    (!operator.is_empty()).then(|| ForeignClaim {
        operator: operator.clone(),
        created: lease.creation_timestamp().map(|time| time.0),
        version: lease.resource_version(),
        valid: Duration::from_secs(seconds),
    })
}

/// Returns whether an object existed when a claim was created. Timestamps have whole seconds.
fn is_before(object: Option<Timestamp>, claim: Option<Timestamp>) -> bool {
    object
        .zip(claim)
        .is_some_and(|(object, claim)| object <= claim)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lease_is_a_claim_of_its_holder_or_the_last_one() {
        for (holder, last, expected) in [
            (json!("a"), json!("a"), Some("a")),
            (json!("b"), json!("a"), Some("b")),
            (json!(""), json!("a"), Some("a")),
            (json!(""), json!(null), None),
            (json!(null), json!(""), None),
        ] {
            let mut lease = json!({
                "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {}},
                "spec": {"holderIdentity": holder},
            });
            if let Some(last) = last.as_str() {
                lease["metadata"]["annotations"][OPERATOR_NAMESPACE_V2] = last.into();
            }
            let claim = claim_of(&serde_json::from_value(lease).unwrap());
            let claim = claim.map(|claim| (claim.operator, claim.created.unwrap().to_string()));
            let expected =
                expected.map(|name| (name.to_owned(), "2026-01-01T00:00:00Z".to_owned()));
            assert_eq!(claim, expected, "{holder} {last}");
        }
    }

    #[test]
    fn claim_ends_when_its_lease_is_not_renewed_in_time() {
        let lease = json!({
            "metadata": {}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 60},
        });
        let claim = claim_of(&serde_json::from_value(lease).unwrap()).unwrap();
        let begin = Instant::now();
        let known = Known {
            read: begin,
            claim: Some((claim, begin)),
        };
        for (after, left) in [(0, Some(60)), (59, Some(1)), (60, Some(0)), (61, None)] {
            let at = begin + Duration::from_secs(after);
            let found = known.clone().at(at).map(|(_, left)| left.as_secs());
            assert_eq!(found, left, "{after}");
        }
    }

    #[test]
    fn object_without_a_time_is_not_older_than_a_claim() {
        let at = |second| Timestamp::from_second(second).ok();
        for (object, claim, expected) in [
            (at(1), at(2), true),
            (at(2), at(2), true),
            (at(3), at(2), false),
            (None, at(2), false),
            (at(1), None, false),
        ] {
            assert_eq!(is_before(object, claim), expected, "{object:?} {claim:?}");
        }
    }
}
