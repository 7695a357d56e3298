//! Detection of a running operator: as a pod, a process, or in the server.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Api, Client};
use tokio::time::Instant;

use crate::error::Error;
use crate::names::AXON;
use crate::report::Report;
use crate::transient::TransientErrors;

/// The poll interval.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The default lease duration in seconds.
const DEFAULT_LEASE_SECONDS: i32 = 15;

/// Waits until an operator holds and renews the lease.
///
/// # Errors
///
/// Any error of the server; [`Error::NoOperator`] on timeout.
pub async fn wait_for_operator(
    client: &Client,
    timeout: Duration,
    report: &dyn Report,
) -> Result<(), Error> {
    report.begin("Waiting for the Axon operator");
    let leases: Api<Lease> = Api::namespaced(client.clone(), AXON);
    let deadline = Instant::now() + timeout;
    let mut first: Option<LeaseSpec> = None;
    let mut transient = TransientErrors::default();
    loop {
        match leases.get_opt(AXON).await {
            Ok(lease) => {
                transient.reset();
                let spec = lease.and_then(|lease| lease.spec).unwrap_or_default();
                if let Some(holder) = holder(&spec, first.as_ref(), Timestamp::now()) {
                    report.done(&format!("The Axon operator is running ({holder})"));
                    return Ok(());
                }
                first.get_or_insert(spec);
            }
            Err(error) if transient.tolerate(&error) => {}
            Err(error) => return Err(Error::when(format!("read lease {AXON}"))(error)),
        }
        if Instant::now() >= deadline {
            return Err(Error::NoOperator {
                after: timeout,
                detail: deployment(client).await,
            });
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns the holder of a lease that was renewed since the first look, or within its duration
/// by the local clock.
fn holder<'a>(lease: &'a LeaseSpec, first: Option<&LeaseSpec>, now: Timestamp) -> Option<&'a str> {
    let holder = lease.holder_identity.as_deref();
    let holder = holder.filter(|holder| !holder.is_empty())?;
    let renewed = lease.renew_time.as_ref()?;
    let since = first.is_some_and(|first| first.renew_time.as_ref() != Some(renewed));
    let lasts = lease
        .lease_duration_seconds
        .unwrap_or(DEFAULT_LEASE_SECONDS);
    let age = now.as_second() - renewed.0.as_second();
    (since || (0..=i64::from(lasts)).contains(&age)).then_some(holder)
}

/// Describes the state of the operator's Deployment.
async fn deployment(client: &Client) -> String {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), AXON);
    let Ok(found) = deployments.get_opt(AXON).await else {
        return "its Deployment cannot be read".to_owned();
    };
    let Some(found) = found else {
        return "it has no Deployment".to_owned();
    };
    let conditions = found.status.and_then(|status| status.conditions);
    let conditions = conditions.unwrap_or_default().into_iter();
    let detail: Vec<_> = conditions
        .map(|condition| {
            let (type_, status) = (condition.type_, condition.status);
            match condition.message {
                Some(message) => format!("{type_}={status}: {message}"),
                None => format!("{type_}={status}"),
            }
        })
        .collect();
    match detail.is_empty() {
        true => "no controller in this cluster has processed its Deployment".to_owned(),
        false => format!("its Deployment reports {}", detail.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    #[test]
    fn lease_is_held_if_renewed_recently_or_during_the_wait() {
        let now = Timestamp::from_second(1_000).unwrap();
        let lease = |holder: &str, renewed: Option<i64>| LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(10),
            renew_time: renewed.map(|second| MicroTime(Timestamp::from_second(second).unwrap())),
            ..LeaseSpec::default()
        };
        let none = LeaseSpec::default();
        for (found, first, held) in [
            (&none, None, None),
            (&none, Some(&none), None),
            (&lease("a", None), None, None),
            (&lease("", Some(999)), None, None),
            (&lease("a", Some(990)), None, Some("a")),
            (&lease("a", Some(989)), None, None),
            // A clock ahead of ours proves nothing about the age.
            (&lease("a", Some(1_001)), None, None),
            (
                &lease("a", Some(1_001)),
                Some(&lease("a", Some(1_000))),
                Some("a"),
            ),
            (&lease("a", Some(500)), Some(&lease("a", Some(500))), None),
            (
                &lease("a", Some(501)),
                Some(&lease("a", Some(500))),
                Some("a"),
            ),
            (&lease("a", Some(501)), Some(&none), Some("a")),
        ] {
            assert_eq!(holder(found, first, now), held, "{found:?} {first:?}");
        }
    }
}
