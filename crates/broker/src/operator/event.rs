//! Events about changes of a tenant's phase or reason.

use std::time::Instant;

use insula_operator::event::{self, NewEvent, Reporter};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};
use tracing::debug;

use super::context::Context;
use crate::error::Error;
use crate::names::{AXON, MANAGED_BY};
use crate::tenant::{Phase, Tenant, TenantStatus};

/// Emits an event if phase or reason changed. Errors are only logged: nothing depends on
/// events.
pub(super) async fn emit(context: &Context, before: Option<&TenantStatus>, tenant: &Tenant) {
    let Some(now) = &tenant.status else { return };
    if before.is_some_and(|before| is_same(before, now)) {
        return;
    }
    if !context
        .event_rate_limit
        .admit(&tenant.name_any(), Instant::now())
    {
        return;
    }
    let events: Api<Event> = Api::namespaced(context.client.clone(), AXON);
    let event = event(context, tenant, now);
    let emitted = events.create(&PostParams::default(), &event).await;
    if let Err(error) = emitted.map_err(Error::when("create an event")) {
        debug!(tenant = tenant.name_any(), %error, "event creation failed");
    }
}

/// Returns whether it would be the same event.
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
    let emitted = NewEvent {
        warning: status.phase == Some(Phase::Failed),
        reason: reason(status).unwrap_or_default(),
        note: note.unwrap_or_else(|| "all prerequisites of the broker are in place".to_owned()),
    };
    let regarding = ObjectReference {
        namespace: Some(AXON.to_owned()),
        ..tenant.object_ref(&())
    };
    let reporter = Reporter {
        controller: &format!("submariner.io/{AXON}"),
        instance: &context.identity,
    };
    let mut event = event::event(regarding, emitted, reporter);
    let (label, manager) = MANAGED_BY;
    event.metadata.labels = Some([(label.to_owned(), manager.to_owned())].into());
    event
}
