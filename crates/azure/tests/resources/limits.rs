//! Rate limits of applications, and of a subscription that several applications use.

use std::time::Duration;

use insula_testkit::azure::Fault;
use serde_json::{Value, json};

use crate::scene::{Scene, between, group};
use crate::world::{TENANT, credential, secret_of};

const SUBSCRIPTION: &str = "sub-shared";
const NO_WRITES_LEFT: &str = "x-ms-ratelimit-remaining-subscription-global-writes";

fn id_of(name: &str) -> String {
    format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/{name}")
}

fn in_namespace(namespace: &str, name: &str) -> Value {
    let mut object = group(name);
    object["metadata"]["namespace"] = namespace.into();
    object
}

fn skipped(namespace: &str, name: &str) -> Value {
    let mut object = in_namespace(namespace, name);
    object["metadata"]["annotations"] =
        json!({"serviceoperator.azure.com/reconcile-policy": "skip"});
    object
}

/// Creates a namespace with an application of its own, for the subscription that all share.
async fn namespace_with_application(scene: &Scene, name: &str) -> anyhow::Result<()> {
    scene.azure.add_secret(TENANT, name, &secret_of(name));
    let mut values = credential(name);
    values[0].1 = SUBSCRIPTION.to_owned();
    let texts: Vec<_> = values.iter().map(|(k, v)| (*k, v.as_str())).collect();
    scene.namespace(name).await?;
    scene.secret(name, "aso-credential", &texts).await
}

#[tokio::test]
async fn limit_of_a_subscription_is_that_of_all_applications_that_it_accepts() -> anyhow::Result<()>
{
    let scene = Scene::start().await?;
    scene
        .azure
        .add_subscription(SUBSCRIPTION, TENANT, &["one", "two"]);
    for name in ["one", "two", "stranger"] {
        namespace_with_application(&scene, name).await?;
    }
    scene.make(&in_namespace("one", "first")).await?;
    // What the subscription says to an application that it does not accept is not about others.
    let refusal = Fault::arm("PUT", "*").times(1).throttle(600);
    scene
        .azure
        .inflict(refusal.of_client("stranger").header(NO_WRITES_LEFT, "0"));
    let forged = in_namespace("stranger", "forged");
    scene.create(&forged).await?;
    scene
        .await_ready(&forged, "False", "TooManyRequests")
        .await?;
    scene.make(&in_namespace("two", "second")).await?;
    // A read that is refused delays reads of the application, and no writes.
    let refusal = Fault::arm("GET", &id_of("read")).times(1).throttle(600);
    scene.azure.inflict(refusal);
    let read = skipped("one", "read");
    scene.create(&read).await?;
    scene.await_ready(&read, "False", "TooManyRequests").await?;
    scene.create(&skipped("one", "unread")).await?;
    scene.make(&in_namespace("one", "third")).await?;
    assert_eq!(scene.azure.requests_for("GET", &id_of("unread")).len(), 0);
    let read = skipped("two", "read-by-another");
    scene.create(&read).await?;
    scene
        .await_ready(&read, "False", "AzureResourceNotFound")
        .await?;
    // A subscription without requests left delays all applications.
    let refusal = Fault::arm("PUT", &id_of("fourth")).times(1).throttle(5);
    scene.azure.inflict(refusal.header(NO_WRITES_LEFT, "0"));
    let fourth = in_namespace("one", "fourth");
    scene.create(&fourth).await?;
    scene.azure.await_puts(&id_of("fourth"), 1).await?;
    scene
        .await_ready(&fourth, "False", "TooManyRequests")
        .await?;
    scene.make(&in_namespace("two", "fifth")).await?;
    let refused = scene.azure.requests_for("PUT", &id_of("fourth"));
    assert_eq!(refused[0].status, Some(429));
    let sent = scene.azure.requests_for("PUT", &id_of("fifth"));
    let waited = between(&refused[0], &sent[0]);
    assert!(waited >= Duration::from_secs(5), "{waited:?}");
    scene.await_ready(&fourth, "True", "Succeeded").await?;
    Ok(())
}
