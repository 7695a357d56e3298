//! Events about objects.

use std::fmt::Debug;
use std::time::Instant;

use insula_operator::event::{self, NewEvent, Reporter};
use k8s_openapi::api::events::v1::Event;
use kube::api::PostParams;
use kube::{Api, Resource};
use tracing::debug;

use super::context::Context;
use super::key::Key;
use crate::names::{ACCOUNT, GROUP};

/// Records an event about an object. A failure is only logged: no user depends on events.
pub(super) async fn record<K>(context: &Context, key: &Key, object: &K, note: NewEvent<'_>)
where
    K: Resource<DynamicType = ()> + Debug,
{
    if !context
        .event_rate_limit
        .admit(&key.to_string(), Instant::now())
    {
        return;
    }
    let reporter = Reporter {
        controller: &format!("{GROUP}/{ACCOUNT}"),
        instance: &context.instance,
    };
    let event = event::event(object.object_ref(&()), note, reporter);
    let namespace = event.metadata.namespace.clone().unwrap_or_default();
    let events: Api<Event> = Api::namespaced(context.client(key.space.as_deref()), &namespace);
    if let Err(error) = events.create(&PostParams::default(), &event).await {
        debug!(%key, %error, "event not recorded");
    }
}
