//! What is told beside the status: an event when a tenant's phase or its reason changes.

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
    let events: Api<Event> = Api::namespaced(context.client.clone(), AXON);
    let event = event(context, tenant, now);
    let told = events.create(&PostParams::default(), &event).await;
    if let Err(error) = told.map_err(Error::when("tell an event")) {
        debug!(tenant = tenant.name_any(), %error, "an event was not told");
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
