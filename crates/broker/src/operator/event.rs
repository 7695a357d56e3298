//! What is told beside the status: an event when a tenant's phase or its reason changes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Resource, ResourceExt};
use tracing::debug;

use super::run::Context;
use crate::error::Error;
use crate::names::{AXON, MANAGED_BY};
use crate::tenant::{Phase, Tenant, TenantStatus};

/// The longest that a server takes.
const LONGEST: usize = 1024;

/// Tells that a tenant is otherwise than before. Nobody depends on it, so that nothing is
/// done about it if it cannot be told.
pub(super) async fn tell(context: &Context, before: Option<&TenantStatus>, tenant: &Tenant) {
    let Some(now) = &tenant.status else { return };
    if before.is_some_and(|before| is_same(before, now)) {
        return;
    }
    if !context.ration.admit(&tenant.name_any(), Instant::now()) {
        return;
    }
    let events: Api<Event> = Api::namespaced(context.client.clone(), AXON);
    let event = event(context, tenant, now);
    let told = events.create(&PostParams::default(), &event).await;
    if let Err(error) = told.map_err(Error::when("tell an event")) {
        debug!(tenant = tenant.name_any(), %error, "an event was not told");
    }
}

/// How many events are told of each tenant: whoever makes one go to and fro does not fill the
/// server with them. What is so stands in its status.
#[derive(Debug, Default)]
pub(super) struct Ration {
    told: Mutex<HashMap<String, (Instant, u32)>>,
}

impl Ration {
    /// So many in this time.
    const MANY: u32 = 6;
    const WHILE: Duration = Duration::from_secs(60);

    /// Whether one more may be told of a tenant.
    fn admit(&self, tenant: &str, now: Instant) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |since: Instant| now.duration_since(since) >= Self::WHILE;
        if told.get(tenant).is_none_or(|(since, _)| is_over(*since)) {
            // Only those are kept of whom something was told just now.
            told.retain(|_, (since, _)| !is_over(*since));
            told.insert(tenant.to_owned(), (now, 0));
        }
        let Some((_, count)) = told.get_mut(tenant) else {
            return true;
        };
        *count = count.saturating_add(1);
        *count <= Self::MANY
    }
}

/// Whether it would be the same event.
fn is_same(before: &TenantStatus, now: &TenantStatus) -> bool {
    before.phase == now.phase && reason(before) == reason(now)
}

fn reason(status: &TenantStatus) -> Option<&str> {
    let conditions = status.conditions.as_ref()?;
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")?;
    Some(&ready.reason)
}

fn event(context: &Context, tenant: &Tenant, status: &TenantStatus) -> Event {
    let note = status.message.clone();
    let mut note = note.unwrap_or_else(|| "everything that the broker needs is there".to_owned());
    let end = note.floor_char_boundary(LONGEST);
    note.truncate(end);
    let kind = match status.phase {
        Some(Phase::Failed) => "Warning",
        _ => "Normal",
    };
    let (label, manager) = MANAGED_BY;
    Event {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", tenant.name_any())),
            namespace: Some(AXON.to_owned()),
            labels: Some([(label.to_owned(), manager.to_owned())].into()),
            ..ObjectMeta::default()
        },
        type_: Some(kind.to_owned()),
        reason: reason(status).map(str::to_owned),
        note: Some(note),
        action: Some("Reconcile".to_owned()),
        regarding: Some(ObjectReference {
            namespace: Some(AXON.to_owned()),
            ..tenant.object_ref(&())
        }),
        event_time: Some(MicroTime(Timestamp::now())),
        reporting_controller: Some(format!("submariner.io/{AXON}")),
        reporting_instance: Some(context.identity.chars().take(128).collect()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_tenant_a_few_events_are_told_in_a_minute_and_nothing_is_kept_for_ever() {
        let (ration, begin) = (Ration::default(), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        let admitted = (0..100).filter(|_| ration.admit("a", after(1))).count();
        assert_eq!(admitted, 6);
        assert!(ration.admit("b", after(2)), "another is not affected");
        assert!(!ration.admit("a", after(60)));
        assert!(ration.admit("a", after(61)));
        for number in 0..1000 {
            assert!(ration.admit(&number.to_string(), after(61)));
        }
        assert!(ration.admit("c", after(200)));
        let kept = ration.told.lock().unwrap().len();
        assert_eq!(kept, 1);
    }
}
