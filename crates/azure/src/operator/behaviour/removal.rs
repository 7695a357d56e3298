//! What some kinds need besides a DELETE, or with it.

use tracing::info;

use super::{Current, find};
use crate::arm::client::Operated;
use crate::arm::{RequestFailure, ResourceId};
use crate::operator::access::Azure;
use crate::operator::object::Object;
use crate::table::Behaviour;

/// The action that cancels a subscription.
const CANCEL: &str = "providers/Microsoft.Subscription/cancel";
/// States of a subscription that does not have to be cancelled any more.
const CANCELLED: [&str; 2] = ["Disabled", "Deleted"];

/// Begins the deletion of a resource as the behaviours of its kind ask for.
///
/// # Errors
///
/// If Azure does not accept a request.
pub(in crate::operator) async fn delete(
    object: &Object<'_>,
    azure: &Azure,
    id: &ResourceId,
) -> Result<Operated, RequestFailure> {
    let (client, version) = (azure.session.client(), object.version.api_version());
    for behaviour in object.kind.behaviours() {
        match behaviour {
            Behaviour::CancelSubscription { path, api } => {
                // Azure knows the subscription; a status can be written by users.
                let subscription = Current::new(object, azure, id).state(path).await?;
                if let Some(subscription) = subscription.filter(|it| !it.is_empty()) {
                    cancel(object, azure, &subscription, api).await?;
                }
            }
            Behaviour::DeleteWith { query, if_match } => {
                let query = query.iter().map(|(name, value)| (&**name, &**value));
                return client.delete_with(id, &version, query, if_match).await;
            }
            _ => {}
        }
    }
    client.delete(id, &version).await
}

/// Cancels a subscription. That is no error for one that was cancelled before, so that a deletion
/// that failed afterwards can be continued.
async fn cancel(
    object: &Object<'_>,
    azure: &Azure,
    subscription: &str,
    api: &str,
) -> Result<(), RequestFailure> {
    let Ok(id) = ResourceId::of_subscription(subscription) else {
        let why = "the id of a subscription is not one";
        return Err(RequestFailure::InvalidAnswer(why));
    };
    let refused = match azure.session.client().post(&id, CANCEL, api, None).await {
        Ok(_) => {
            info!(key = %object.of.key, subscription, "subscription cancelled");
            return Ok(());
        }
        Err(failure) if failure.arm_error().is_some() => failure,
        Err(failure) => return Err(failure),
    };
    let state = match find(azure, &id, api).await {
        Ok(Some(found)) => found["state"].as_str().unwrap_or_default().to_owned(),
        Ok(None) => return Ok(()),
        Err(_) => return Err(refused),
    };
    match CANCELLED.contains(&state.as_str()) {
        true => Ok(()),
        false => Err(refused),
    }
}
