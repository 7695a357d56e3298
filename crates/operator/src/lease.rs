//! Leader election: of several candidates, the holder of a Lease works.
//!
//! Clocks of two machines differ, so no clock is compared with another's. A candidate takes a
//! holder for alive while it sees the Lease change within its duration, counted from its own
//! observation; the holder counts from *before* it sent its last renewal. So the holder has
//! stopped before a candidate may start.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tracing::{debug, info, warn};

use crate::stop::Stop;

/// A candidate for a Lease.
#[derive(Clone, Debug)]
pub struct Candidate {
    leases: Api<Lease>,
    name: String,
    identity: String,
    times: Times,
}

/// The timing of leader election, with `renew < give_up < duration`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// How long candidates wait for a holder that does not renew, in whole seconds.
    pub duration: Duration,
    /// How often the holder renews.
    pub renew: Duration,
    /// When a holder that cannot renew stops working.
    pub give_up: Duration,
    /// How often candidates read the Lease.
    pub look: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew: Duration::from_secs(5),
            give_up: Duration::from_secs(10),
            look: Duration::from_secs(2),
        }
    }
}

/// A Lease that this candidate holds.
#[derive(Debug)]
struct Held {
    lease: Lease,
    /// The time before the request that created or renewed it was sent.
    since: Instant,
}

/// The Lease as a candidate last saw it, and when it first saw it so.
#[derive(Debug, Default)]
struct Sight(Option<(LeaseSpec, Instant)>);

/// How long a release may take: shutdown does not wait for it, and candidates do not need it.
const RELEASE: Duration = Duration::from_secs(2);

impl Candidate {
    /// A candidate for the Lease of that name. No two candidates have the same identity, not even
    /// the same program before and after a restart.
    pub fn new(client: Client, namespace: &str, name: &str, identity: &str, times: Times) -> Self {
        Self {
            leases: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity: identity.to_owned(),
            times,
        }
    }

    /// Works whenever it holds the Lease, until it is stopped. Work that is stopped may finish its
    /// current step; work is dropped at once when the Lease is lost.
    pub(crate) async fn lead<W: Future<Output = ()>>(
        &self,
        mut stop: Stop,
        tell: impl Fn(bool),
        work: impl Fn() -> W,
    ) {
        loop {
            let mut held = tokio::select! {
                held = self.acquire() => held,
                () = stop.stopped() => return,
            };
            info!(
                lease = self.name,
                identity = self.identity,
                "holds the lease"
            );
            tell(true);
            let finished = tokio::select! {
                () = work() => true,
                () = self.keep(&mut held) => false,
            };
            tell(false);
            if finished {
                return self.release(held).await;
            }
            warn!(lease = self.name, "lost the lease: work has stopped");
        }
    }

    /// Waits until it holds the Lease.
    async fn acquire(&self) -> Held {
        let mut sight = Sight::default();
        let mut told = false;
        loop {
            match timeout(self.times.give_up, self.claim(&mut sight)).await {
                Ok(Ok(Some(held))) => return held,
                Ok(Ok(None)) => {}
                Ok(Err(error)) if !told => {
                    told = true;
                    info!(lease = self.name, %error, "cannot get the lease yet");
                }
                Ok(Err(error)) => debug!(lease = self.name, %error, "cannot get the lease yet"),
                Err(_) => debug!(lease = self.name, "no answer about the lease"),
            }
            sleep(self.times.look).await;
        }
    }

    /// Takes the Lease if it is free.
    async fn claim(&self, sight: &mut Sight) -> kube::Result<Option<Held>> {
        let Some(found) = self.leases.get_opt(&self.name).await? else {
            let lease = self.ours(None);
            let since = Instant::now();
            let made = self.leases.create(&PostParams::default(), &lease).await;
            return taken(made, since);
        };
        if !sight.is_free(found.spec.as_ref(), &self.identity, Instant::now()) {
            return Ok(None);
        }
        let since = Instant::now();
        taken(self.write(&self.ours(Some(&found))).await, since)
    }

    /// Renews the Lease until that fails for too long.
    async fn keep(&self, held: &mut Held) {
        loop {
            sleep_until(held.since + self.times.renew).await;
            let deadline = held.since + self.times.give_up;
            match timeout_at(deadline, self.renew_until_done(held)).await {
                Ok(true) => {}
                Ok(false) | Err(_) => return,
            }
        }
    }

    /// Returns whether it was renewed; if not, another candidate holds it.
    async fn renew_until_done(&self, held: &mut Held) -> bool {
        loop {
            match self.renew(held).await {
                Ok(renewed) => return renewed,
                Err(error) => debug!(lease = self.name, %error, "cannot renew the lease"),
            }
            sleep(self.times.renew / 5).await;
        }
    }

    async fn renew(&self, held: &mut Held) -> kube::Result<bool> {
        let since = Instant::now();
        match self.write(&self.ours(Some(&held.lease))).await {
            Ok(lease) => *held = Held { lease, since },
            Err(error) if is_conflict(&error) => {
                // An earlier renewal without an answer, or another candidate.
                let Some(found) = self.leases.get_opt(&self.name).await? else {
                    return Ok(false);
                };
                if holder(found.spec.as_ref()) != Some(&self.identity) {
                    return Ok(false);
                }
                held.lease = found;
                return Err(error);
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Releases the Lease, so that the next candidate need not wait.
    async fn release(&self, held: Held) {
        let mut lease = held.lease;
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            spec.renew_time = Some(MicroTime(Timestamp::now()));
        }
        match timeout(RELEASE, self.write(&lease)).await {
            Ok(Ok(_)) => info!(lease = self.name, "released the lease"),
            Ok(Err(error)) => debug!(lease = self.name, %error, "did not release the lease"),
            Err(_) => debug!(lease = self.name, "did not release the lease in time"),
        }
    }

    async fn write(&self, lease: &Lease) -> kube::Result<Lease> {
        let parameters = PostParams::default();
        self.leases.replace(&self.name, &parameters, lease).await
    }

    /// The content of the Lease when this candidate renews it now.
    fn ours(&self, found: Option<&Lease>) -> Lease {
        let mut lease = found.cloned().unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                ..ObjectMeta::default()
            },
            ..Lease::default()
        });
        let now = MicroTime(Timestamp::now());
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.identity) {
            let before = spec.lease_transitions;
            spec.lease_transitions = Some(before.map_or(0, |count| count.saturating_add(1)));
            spec.acquire_time = Some(now.clone());
            spec.holder_identity = Some(self.identity.clone());
        }
        spec.renew_time = Some(now);
        let seconds = self.times.duration.as_secs().max(1);
        spec.lease_duration_seconds = Some(i32::try_from(seconds).unwrap_or(i32::MAX));
        lease
    }
}

impl Sight {
    /// Whether `identity` may take a Lease with this content.
    fn is_free(&mut self, spec: Option<&LeaseSpec>, identity: &str, now: Instant) -> bool {
        let Some(holder) = holder(spec).filter(|holder| *holder != identity) else {
            return true;
        };
        let Some(spec) = spec else { return true };
        match &self.0 {
            Some((seen, since)) if seen == spec => {
                let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(1)).unwrap_or(1);
                now.duration_since(*since) > Duration::from_secs(seconds)
            }
            _ => {
                debug!(holder, "the lease is held");
                self.0 = Some((spec.clone(), now));
                false
            }
        }
    }
}

fn holder(spec: Option<&LeaseSpec>) -> Option<&str> {
    let holder = spec?.holder_identity.as_deref()?;
    (!holder.is_empty()).then_some(holder)
}

/// Treats a conflict as a lost race with another candidate, not as an error.
fn taken(written: kube::Result<Lease>, since: Instant) -> kube::Result<Option<Held>> {
    match written {
        Ok(lease) => Ok(Some(Held { lease, since })),
        Err(error) if is_conflict(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn held_by(identity: &str, renewed: i64) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(identity.to_owned()),
            lease_duration_seconds: Some(15),
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_holder_is_alive_for_as_long_as_the_lease_is_seen_to_change() {
        let begin = Instant::now();
        let mut sight = Sight::default();
        // Seconds since observed, renewal time by the holder's clock (a day behind), whether free.
        for (second, renewed, free) in [
            (0, 100, false),
            (14, 100, false),
            (15, 100, false),
            (16, 105, false),
            (31, 105, false),
            (32, 105, true),
            (33, 110, false),
            (48, 110, false),
            (49, 110, true),
        ] {
            let spec = held_by("other", renewed);
            let now = begin + second * SECOND;
            assert_eq!(sight.is_free(Some(&spec), "me", now), free, "at {second}");
        }
    }

    #[test]
    fn what_nobody_holds_is_free_and_so_is_what_is_ours() {
        let now = Instant::now();
        let nobody = LeaseSpec {
            holder_identity: Some(String::new()),
            ..LeaseSpec::default()
        };
        for spec in [
            None,
            Some(LeaseSpec::default()),
            Some(nobody),
            Some(held_by("me", 1)),
        ] {
            assert!(
                Sight::default().is_free(spec.as_ref(), "me", now),
                "{spec:?}"
            );
        }
    }

    #[test]
    fn a_duration_that_makes_no_sense_is_a_second() {
        let begin = Instant::now();
        for duration in [None, Some(0), Some(-5)] {
            let mut sight = Sight::default();
            let spec = LeaseSpec {
                lease_duration_seconds: duration,
                ..held_by("other", 1)
            };
            assert!(!sight.is_free(Some(&spec), "me", begin));
            let free = sight.is_free(Some(&spec), "me", begin + 2 * SECOND);
            assert!(free, "{duration:?}");
        }
    }

    #[test]
    fn a_holder_stops_before_anybody_else_may_begin() {
        let Times {
            duration,
            renew,
            give_up,
            look,
        } = Times::default();
        assert!(renew < give_up && give_up < duration && look < duration);
    }
}
