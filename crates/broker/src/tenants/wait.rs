//! Waiting for the operator.

use std::time::Duration;

use kube::ResourceExt;
use tokio::time::Instant;

use super::{Tenants, is_missing, message, phase};
use crate::error::Error;
use crate::names::TenantId;
use crate::report::Report;
use crate::tenant::{Phase, Tenant};
use crate::transient::is_transient;

/// Polls with increasing intervals until a deadline.
pub struct Wait {
    timeout: Duration,
    deadline: Instant,
    pause: Duration,
    reported: String,
}

/// The first and the maximum interval: responsive for fast operations, sparing for slow ones.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(40);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(1);

impl Wait {
    /// Starts a wait.
    pub fn with_timeout(timeout: Duration) -> Self {
        Self {
            timeout,
            deadline: Instant::now() + timeout,
            pause: MIN_POLL_INTERVAL,
            reported: String::new(),
        }
    }

    /// Reports progress if it changed, and sleeps.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] after the deadline.
    pub async fn pause(&mut self, what: &str, why: &str, report: &dyn Report) -> Result<(), Error> {
        let said = match why {
            "" => what.to_owned(),
            why => format!("{what}: {why}"),
        };
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::TimedOut {
                what: uncapitalized(what),
                after: self.timeout,
                why: (!why.is_empty()).then(|| why.to_owned()),
            });
        }
        if said != self.reported {
            report.begin(&said);
            self.reported = said;
        }
        tokio::time::sleep(self.pause.min(left)).await;
        self.pause = self.pause.mul_f32(1.5).min(MAX_POLL_INTERVAL);
        Ok(())
    }
}

/// Lowers the first letter, for the middle of a sentence.
fn uncapitalized(text: &str) -> String {
    let mut signs = text.chars();
    let first = signs.next().map(|sign| sign.to_ascii_lowercase());
    first.into_iter().chain(signs).collect()
}

/// Waits until the created tenant is provisioned or has failed.
pub async fn until_provisioned(
    tenants: &Tenants,
    created: &Tenant,
    timeout: Duration,
    report: &dyn Report,
) -> Result<Tenant, Error> {
    let id = id(created)?;
    let what = format!("Provisioning tenant {id}");
    let mut wait = Wait::with_timeout(timeout);
    let mut tenant = created.clone();
    loop {
        if let Some(end) = evaluate(created, &tenant, &id) {
            end?;
            report.done(&format!("Tenant {id} is provisioned"));
            return Ok(tenant);
        }
        let why = message(&tenant).unwrap_or_default().to_owned();
        wait.pause(&what, &why, report).await?;
        match tenants.api.get(id.as_str()).await {
            Ok(now) => tenant = now,
            Err(kube::Error::Api(status)) if is_missing(&status, &id) => {
                return Err(Error::TenantGone(id));
            }
            Err(error) if is_transient(&error) => {}
            Err(error) => {
                return Err(tenants.map_error(error, &id, format!("wait for tenant {id}")));
            }
        }
    }
}

/// Returns the result once the wait is over. A status counts only if it is about the created
/// object and its generation, not about an earlier or later object of the same name.
fn evaluate(created: &Tenant, now: &Tenant, id: &TenantId) -> Option<Result<(), Error>> {
    if now.uid() != created.uid() || now.metadata.deletion_timestamp.is_some() {
        return Some(Err(Error::TenantGone(id.clone())));
    }
    let status = now.status.as_ref()?;
    if status.observed_generation < created.metadata.generation {
        return None;
    }
    match status.phase? {
        Phase::Provisioned => Some(Ok(())),
        Phase::Failed => Some(Err(Error::TenantFailed {
            id: id.clone(),
            message: message(now)
                .unwrap_or("the operator reported no reason")
                .to_owned(),
        })),
        Phase::Provisioning | Phase::Deleting => None,
    }
}

/// Returns the ID of an existing tenant.
pub fn id(tenant: &Tenant) -> Result<TenantId, Error> {
    let name = tenant.name_any();
    name.parse()
        .map_err(|why| Error::invalid(format!("tenant {name:?}: {why}")))
}

/// Returns the ID of a provisioned tenant.
pub fn require_provisioned(tenant: &Tenant) -> Result<TenantId, Error> {
    let id = id(tenant)?;
    match phase(tenant) {
        "Provisioned" => Ok(id),
        phase => Err(Error::NotProvisioned {
            id,
            phase: phase.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::tenant::{TenantSpec, TenantStatus};

    fn tenant(uid: &str, generation: i64) -> Tenant {
        let mut tenant = Tenant::new("acme", TenantSpec::default());
        tenant.metadata.uid = Some(uid.to_owned());
        tenant.metadata.generation = Some(generation);
        tenant
    }

    fn with(uid: &str, observed: Option<i64>, phase: Option<Phase>) -> Tenant {
        let mut tenant = tenant(uid, 1);
        tenant.status = Some(TenantStatus {
            phase,
            observed_generation: observed,
            message: Some("it says so".to_owned()),
            ..TenantStatus::default()
        });
        tenant
    }

    #[test]
    fn status_of_another_object_or_generation_is_ignored() {
        let mut going = with("u", Some(1), Some(Phase::Provisioned));
        going.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        let failed = "tenant acme could not be provisioned: it says so";
        let gone = "tenant acme was deleted while it was waited for";
        for (now, expected) in [
            (tenant("u", 1), None),
            (with("u", Some(1), None), None),
            (with("u", None, Some(Phase::Provisioned)), None),
            (with("u", Some(0), Some(Phase::Provisioned)), None),
            (with("u", Some(0), Some(Phase::Failed)), None),
            (with("u", Some(1), Some(Phase::Provisioning)), None),
            (with("u", Some(1), Some(Phase::Provisioned)), Some("")),
            (with("u", Some(2), Some(Phase::Provisioned)), Some("")),
            (with("u", Some(1), Some(Phase::Failed)), Some(failed)),
            (with("other", Some(1), Some(Phase::Provisioned)), Some(gone)),
            (going, Some(gone)),
        ] {
            let id = "acme".parse().unwrap();
            let judged = evaluate(&tenant("u", 1), &now, &id);
            let said =
                judged.map(|end| end.map_or_else(|error| error.to_string(), |()| String::new()));
            assert_eq!(said.as_deref(), expected, "{now:?}");
        }
    }

    #[test]
    fn file_requires_a_provisioned_tenant() {
        for (phase, expected) in [
            (Some(Phase::Provisioned), "acme"),
            (None, "tenant acme is Pending, not Provisioned"),
            (
                Some(Phase::Failed),
                "tenant acme is Failed, not Provisioned",
            ),
            (
                Some(Phase::Provisioning),
                "tenant acme is Provisioning, not Provisioned",
            ),
        ] {
            let judged = require_provisioned(&with("u", Some(1), phase));
            let said = judged.map_or_else(|error| error.to_string(), |id| id.to_string());
            assert_eq!(said, expected);
        }
    }
}
