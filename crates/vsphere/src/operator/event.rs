//! What is told beside the conditions: events.

use std::fmt::Debug;
use std::time::Instant;

use insula_operator::event::{self, Teller, Told};
use k8s_openapi::api::events::v1::Event;
use kube::api::PostParams;
use kube::{Api, Resource};
use tracing::debug;

use super::context::Context;
use super::key::Key;
use crate::names::{ACCOUNT, GROUP};

/// Tells something about an object. Nobody depends on it, so that nothing is done about it if
/// it cannot be told.
pub(super) async fn tell<K>(context: &Context, key: &Key, object: &K, told: Told<'_>)
where
    K: Resource<DynamicType = ()> + Debug,
{
    if !context.ration.admit(&key.to_string(), Instant::now()) {
        return;
    }
    let teller = Teller {
        controller: &format!("{GROUP}/{ACCOUNT}"),
        instance: &context.instance,
    };
    let event = event::event(object.object_ref(&()), told, teller);
    let namespace = event.metadata.namespace.clone().unwrap_or_default();
    let events: Api<Event> = Api::namespaced(context.client(key.space.as_deref()), &namespace);
    if let Err(error) = events.create(&PostParams::default(), &event).await {
        debug!(%key, %error, "an event was not told");
    }
}
