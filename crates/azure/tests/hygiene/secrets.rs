//! Secrets, tokens and signed URLs are in no object, event, log or metric.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use insula_testkit::azure::Fault;
use serde_json::{Value, json};

use crate::recording::{Recorded, Recorder};
use crate::scene::{NAMESPACE, OPERATOR, account, group, network, server};
use crate::world::{Log, Running, World, secret_of};

/// The text of a request without what may have secrets: bodies of Secrets, and the annotation for
/// signed URLs.
fn shown(request: &Recorded) -> String {
    if request.path.contains("/secrets") {
        return request.path.clone();
    }
    let mut body: Value = serde_json::from_str(&request.body).unwrap_or_default();
    if let Some(Value::Object(annotations)) = body.pointer_mut("/metadata/annotations") {
        annotations.remove("serviceoperator.azure.com/poller-resume-token");
    }
    format!("{} {} {body}", request.path, request.query)
}

#[tokio::test]
async fn secrets_and_signed_urls_are_in_no_object_event_log_or_metric() -> anyhow::Result<()> {
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(log.clone());
    let world = World::start().await?;
    world.team("red");
    world.namespace_of(NAMESPACE, "red").await?;
    world.namespace(OPERATOR).await?;
    world
        .secret(NAMESPACE, "database", &[("password", "pa55-word")])
        .await?;
    let (recorder, operator) = (Recorder::default(), world.operator(OPERATOR, &[])?);
    let health = Arc::clone(&operator.shell.health);
    let _running = Running::new(recorder.client(&world.client), operator);
    // Failures of all sorts: of ARM, of an operation, of polls, of the token service.
    let token = world.azure.token("contoso", "red");
    world.azure.fail_next_operation(
        "Microsoft.Network/virtualNetworks",
        "AllocationFailed",
        "no capacity",
    );
    let poll = "/subscriptions/*/locations/*";
    world
        .azure
        .inflict(Fault::arm("GET", poll).times(1).reset());
    world
        .azure
        .inflict(Fault::arm("GET", poll).times(1).expired_token());
    world
        .azure
        .inflict(Fault::arm("DELETE", "*/net").times(1).html(500));
    world.azure.inflict(Fault::entra().times(1).html(500));
    // A server that repeats what it was sent.
    let database = Fault::arm("PUT", "*/flexibleServers/orders-db").times(1);
    world
        .azure
        .inflict(database.error(409, "Conflict", "not allowed: pa55-word"));
    let mut shopdata = account("shopdata");
    shopdata["spec"]["operatorSpec"]["secrets"]["key1"] = json!({"name": "keys", "key": "one"});
    let objects = [group("shop"), network("net"), server("orders-db"), shopdata];
    for object in &objects {
        world.create(object).await?;
    }
    for object in &objects {
        world.await_ready(object, "True", "Succeeded").await?;
    }
    let keys: Option<Value> = world.find("v1", "Secret", NAMESPACE, "keys").await?;
    let key = keys.unwrap()["data"]["one"].as_str().unwrap().to_owned();
    let raw = String::from_utf8(BASE64_STANDARD.decode(&key)?)?;
    world.delete(&objects[1]).await?;
    world.await_gone(&objects[1]).await?;
    let requests = recorder.requests();
    let written: Vec<_> = requests.iter().map(shown).collect();
    let metrics = health.metrics();
    assert!(metrics.contains("insula_"), "{metrics}");
    let texts = [written.join("\n"), log.text(), metrics];
    assert!(texts[1].contains("resource sent to Azure"));
    assert!(texts[0].contains("not allowed: ****"));
    // All tokens begin with the same header.
    let (begin, _) = token.split_once('.').unwrap();
    for secret in [
        secret_of("red").as_str(),
        "pa55-word",
        &key,
        &raw,
        begin,
        "MIIMII",
        "&s=",
        "&h=",
    ] {
        for (text, of) in texts.iter().zip(["object", "log", "metric"]) {
            let line = text.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{secret} in {of}");
        }
    }
    // The annotation has them while an operation is in progress, and not afterwards.
    let is_token = |request: &&Recorded| request.body.contains("MIIMII");
    assert!(requests.iter().filter(is_token).count() >= 3);
    let stored = world.read(&objects[2]).await?.unwrap();
    let annotations = &stored["metadata"]["annotations"];
    let resume = &annotations["serviceoperator.azure.com/poller-resume-token"];
    assert_eq!(*resume, Value::Null);
    Ok(())
}
