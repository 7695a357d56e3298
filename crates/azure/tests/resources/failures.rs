//! Requests that Azure refuses, and operations that fail.

use std::time::Duration;

use insula_testkit::azure::Fault;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::scene::{GROUP, Scene, between, cluster, group, id, identity, network};
use crate::world::eventually;

/// A fault of all PUTs of a resource group.
fn put_of(name: &str) -> Fault {
    Fault::arm("PUT", &format!("/subscriptions/*/resourceGroups/{name}"))
}

fn id_of(name: &str) -> String {
    format!("/subscriptions/sub-red/resourceGroups/{name}")
}

/// Waits for a number of PUTs with a deadline that the slowest backoff fits in.
async fn await_puts(scene: &Scene, name: &str, times: usize) -> anyhow::Result<()> {
    eventually(&format!("{times} PUTs of {name}"), async || {
        Ok((scene.azure.puts(&id_of(name)) >= times).then_some(()))
    })
    .await
}

#[tokio::test]
async fn fatal_error_waits_for_a_change_of_the_object() -> anyhow::Result<()> {
    let mut scene = Scene::start().await?;
    let shop = group("shop");
    scene
        .azure
        .inflict(put_of("shop").error(400, "LocationRequired", "no location"));
    scene.create(&shop).await?;
    let message = scene.problem(&shop, "Error", "LocationRequired").await?;
    assert!(
        message.starts_with("LocationRequired: no location"),
        "{message}"
    );
    scene.poke(&shop, "a").await?;
    assert_eq!(scene.azure.puts(GROUP), 1);
    scene.restart(&[]).await?;
    scene.poke(&shop, "b").await?;
    assert_eq!(scene.azure.puts(GROUP), 1);
    scene.azure.clear_faults();
    scene
        .patch(&shop, json!({"spec": {"tags": {"a": "b"}}}))
        .await?;
    scene.await_ready(&shop, "True", "Succeeded").await?;
    assert_eq!(scene.azure.puts(GROUP), 2);
    Ok(())
}

#[tokio::test]
async fn very_slow_error_waits_for_the_sync_period_or_a_change() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let shop = group("shop");
    for (number, code) in ["ScopeLocked", "UnlistedCode"].into_iter().enumerate() {
        let status = [409, 400][number];
        scene.azure.inflict(put_of(code).error(status, code, "no"));
        let object = group(code.to_lowercase().as_str());
        scene.create(&object).await?;
        scene.problem(&object, "Warning", code).await?;
    }
    scene
        .azure
        .inflict(put_of("shop").error(400, "BadRequest", "no"));
    scene.create(&shop).await?;
    scene.problem(&shop, "Warning", "BadRequest").await?;
    scene.poke(&shop, "a").await?;
    for name in ["shop", "scopelocked", "unlistedcode"] {
        assert_eq!(scene.azure.puts(&id_of(name)), 1, "{name}");
    }
    scene.azure.clear_faults();
    scene
        .patch(&shop, json!({"spec": {"tags": {"a": "b"}}}))
        .await?;
    scene.await_ready(&shop, "True", "Succeeded").await?;
    Ok(())
}

#[tokio::test]
async fn other_errors_are_retried_with_a_backoff_and_never_in_a_hot_loop() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let cases = [
        ("conflict", 409, "Conflict", "Conflict"),
        ("denied", 403, "AuthorizationFailed", "AuthorizationFailed"),
        ("unlisted", 409, "SomethingElse", "SomethingElse"),
        ("anonymous", 409, "", "Failed"),
    ];
    for (name, status, code, reason) in cases {
        scene
            .azure
            .inflict(put_of(name).times(2).error(status, code, "try again"));
        let object = group(name);
        scene.create(&object).await?;
        let message = scene.problem(&object, "Warning", reason).await?;
        assert!(message.contains("try again"), "{message}");
    }
    for (name, ..) in cases {
        scene.await_ready(&group(name), "True", "Succeeded").await?;
        let sent = scene.azure.requests_for("PUT", &id_of(name));
        assert_eq!(sent.len(), 3, "{name}");
        assert!(
            between(&sent[0], &sent[1]) >= Duration::from_secs(1),
            "{name}"
        );
        assert!(
            between(&sent[1], &sent[2]) >= Duration::from_secs(2),
            "{name}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn page_of_a_gateway_reset_and_lost_response_are_retried_without_a_second_resource()
-> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    for (name, fault) in [
        ("page", put_of("page").times(1).html(503)),
        ("reset", put_of("reset").times(1).reset()),
        ("lost", put_of("lost").times(1).lose_response()),
    ] {
        scene.azure.inflict(fault);
        scene.create(&group(name)).await?;
    }
    let lost = id("Microsoft.ManagedIdentity/userAssignedIdentities/web");
    scene
        .azure
        .inflict(Fault::arm("PUT", &lost).times(1).lose_response());
    scene.make(&identity("web")).await?;
    assert_eq!(scene.azure.puts(&lost), 2);
    for name in ["page", "reset", "lost"] {
        scene.await_ready(&group(name), "True", "Succeeded").await?;
        assert_eq!(scene.azure.puts(&id_of(name)), 2, "{name}");
    }
    assert_eq!(scene.azure.resource_ids().len(), 5);
    Ok(())
}

#[tokio::test]
async fn request_without_an_answer_does_not_delay_other_resources() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.azure.inflict(put_of("slow").hang());
    scene.create(&group("slow")).await?;
    await_puts(&scene, "slow", 1).await?;
    scene.make(&group("other")).await?;
    assert_eq!(scene.azure.puts(&id_of("slow")), 1);
    scene.azure.clear_faults();
    scene
        .await_ready(&group("slow"), "True", "Succeeded")
        .await?;
    Ok(())
}

#[tokio::test]
async fn refused_token_is_replaced_once() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    let tokens = scene.azure.token_requests().len();
    scene.azure.revoke_tokens();
    scene
        .patch(&group("shop"), json!({"spec": {"tags": {"a": "b"}}}))
        .await?;
    scene.azure.await_puts(GROUP, 3).await?;
    scene
        .await_ready(&group("shop"), "True", "Succeeded")
        .await?;
    let statuses = scene.azure.requests_for("PUT", GROUP);
    let statuses: Vec<_> = statuses.iter().filter_map(|call| call.status).collect();
    assert_eq!(statuses, [201, 401, 200]);
    assert_eq!(scene.azure.token_requests().len(), tokens + 1);
    // A token that is refused again is not replaced in a loop.
    scene.azure.inflict(put_of("refused").expired_token());
    scene.create(&group("refused")).await?;
    scene
        .problem(&group("refused"), "Warning", "ExpiredAuthenticationToken")
        .await?;
    assert_eq!(scene.azure.puts(&id_of("refused")), 2);
    Ok(())
}

#[tokio::test]
async fn operation_that_fails_is_reported_and_begun_again() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    let net = network("net");
    let of_net = id("Microsoft.Network/virtualNetworks/net");
    scene.azure.fail_next_operation(
        "Microsoft.Network/virtualNetworks",
        "AllocationFailed",
        "no capacity",
    );
    scene.create(&net).await?;
    let message = scene.problem(&net, "Warning", "AllocationFailed").await?;
    assert!(
        message.starts_with("AllocationFailed: no capacity"),
        "{message}"
    );
    scene.await_ready(&net, "True", "Succeeded").await?;
    assert_eq!(scene.azure.puts(&of_net), 2);
    // A fatal one is not begun again.
    scene.azure.fail_next_operation(
        "Microsoft.ContainerService/managedClusters",
        "K8sVersionNotSupported",
        "too old",
    );
    let old = cluster("old");
    scene.create(&old).await?;
    scene
        .problem(&old, "Error", "K8sVersionNotSupported")
        .await?;
    scene.poke(&old, "a").await?;
    assert_eq!(
        scene
            .azure
            .puts(&id("Microsoft.ContainerService/managedClusters/old")),
        1
    );
    Ok(())
}

#[tokio::test]
async fn read_that_fails_after_an_operation_is_retried_with_a_backoff() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    let of_net = id("Microsoft.Network/virtualNetworks/net");
    let failure = json!({"error": {"code": "InternalServerError", "message": "oops"}});
    scene.azure.inflict(
        Fault::arm("GET", &of_net)
            .nth(2)
            .respond(500, failure.clone()),
    );
    scene
        .azure
        .inflict(Fault::arm("GET", &of_net).nth(3).respond(500, failure));
    let net = network("net");
    scene.create(&net).await?;
    scene
        .problem(&net, "Warning", "InternalServerError")
        .await?;
    scene.await_ready(&net, "True", "Succeeded").await?;
    let reads = scene.azure.requests_for("GET", &of_net);
    assert_eq!(reads.len(), 4);
    assert!(between(&reads[1], &reads[2]) >= Duration::from_secs(1));
    assert!(between(&reads[2], &reads[3]) >= Duration::from_secs(2));
    assert_eq!(scene.azure.puts(&of_net), 1);
    Ok(())
}

#[tokio::test]
async fn polls_that_fail_continue_the_operation() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    let poll = "/subscriptions/*/locations/*";
    scene
        .azure
        .inflict(Fault::arm("GET", poll).times(1).reset());
    scene
        .azure
        .inflict(Fault::arm("GET", poll).times(1).html(502));
    scene
        .azure
        .inflict(Fault::arm("GET", poll).times(1).throttle(1));
    scene.make(&network("net")).await?;
    assert_eq!(
        scene
            .azure
            .puts(&id("Microsoft.Network/virtualNetworks/net")),
        1
    );
    Ok(())
}

#[tokio::test]
async fn forgotten_operation_is_begun_again() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    scene
        .azure
        .set_manner("Microsoft.Network/virtualNetworks", |manner| {
            (manner.polls, manner.retry_after) = (Some(1), Some(2));
        });
    let net = network("net");
    scene.create(&net).await?;
    scene.await_ready(&net, "False", "Reconciling").await?;
    scene.azure.forget_operations();
    scene.await_ready(&net, "True", "Succeeded").await?;
    assert_eq!(
        scene
            .azure
            .puts(&id("Microsoft.Network/virtualNetworks/net")),
        2
    );
    Ok(())
}

#[tokio::test]
async fn missing_provider_is_registered() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    scene
        .azure
        .unregister_provider("sub-red", "Microsoft.Network");
    let net = network("net");
    scene.create(&net).await?;
    scene
        .problem(&net, "Warning", "MissingSubscriptionRegistration")
        .await?;
    scene.await_ready(&net, "True", "Succeeded").await?;
    let registrations = scene.azure.requests();
    let registrations = registrations
        .iter()
        .filter(|call| call.path.ends_with("/register"));
    let registrations: Vec<_> = registrations
        .map(|call| (&*call.method, &*call.path))
        .collect();
    let path = "/subscriptions/sub-red/providers/Microsoft.Network/register";
    assert_eq!(registrations, [("POST", path)]);
    Ok(())
}

#[tokio::test]
async fn credential_of_another_subscription_is_an_error_without_requests() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    scene.team("blue");
    let requests = scene.azure.requests().len();
    let values: Vec<(&str, String)> = crate::world::credential("blue").into();
    let values: serde_json::Map<String, Value> = values
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "aso-credential", "namespace": "red"},
    });
    scene.patch(&secret, json!({"stringData": values})).await?;
    let shop = group("shop");
    scene
        .patch(&shop, json!({"spec": {"tags": {"a": "b"}}}))
        .await?;
    let message = scene
        .problem(&shop, "Error", "SubscriptionMismatch")
        .await?;
    assert_eq!(
        message,
        format!(
            "SubscriptionID \"sub-red\" for \"{GROUP}\" resource does not match with Client \
             Credential: \"sub-blue\""
        )
    );
    assert_eq!(scene.azure.requests().len(), requests);
    // A deletion does not go to the other subscription either.
    scene.delete(&shop).await?;
    scene
        .problem(&shop, "Error", "SubscriptionMismatch")
        .await?;
    assert_eq!(scene.azure.requests().len(), requests);
    Ok(())
}

#[tokio::test]
async fn storm_of_429_is_waited_out_and_shared_by_namespaces() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.namespace_of("blue", "red").await?;
    let left = "x-ms-ratelimit-remaining-subscription-writes";
    scene
        .azure
        .inflict(Fault::arm("PUT", "*").throttle(5).header(left, "0"));
    let objects: Vec<Value> = (0..12)
        .map(|number| {
            let mut object = group(&format!("g{number}"));
            if number >= 9 {
                object["metadata"]["namespace"] = "blue".into();
            }
            object
        })
        .collect();
    for object in &objects {
        scene.create(object).await?;
    }
    scene.azure.clear_faults();
    for object in &objects {
        scene.await_ready(object, "True", "Succeeded").await?;
    }
    let mut sent = scene.azure.requests();
    sent.retain(|call| call.method == "PUT");
    let is = |status: u16| {
        let calls = sent.iter().filter(move |call| call.status == Some(status));
        calls.collect::<Vec<_>>()
    };
    let (throttled, mut done) = (is(429), is(201));
    // Few of the twelve: the others wait after the first one was refused.
    assert!((1..=8).contains(&throttled.len()), "{}", throttled.len());
    assert_eq!((done.len(), sent.len()), (12, 12 + throttled.len()));
    done.sort_by_key(|call| call.at);
    for call in &done {
        let waited = between(throttled[0], call);
        assert!(waited >= Duration::from_secs(5), "{waited:?}");
    }
    // The namespace with few resources, which came last, does not wait for the other one.
    let is_blue = |path: &str| ["/g9", "/g10", "/g11"].iter().any(|it| path.ends_with(it));
    let early = done[..6].iter().filter(|call| is_blue(&call.path)).count();
    assert!(
        early >= 2,
        "{:?}",
        done.iter().map(|call| &call.path).collect::<Vec<_>>()
    );
    Ok(())
}

#[tokio::test]
async fn object_with_too_many_references_reads_none_of_them() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    let mut cluster = cluster("wide");
    let identity = |n: usize| {
        json!({"reference": {
            "group": "managedidentity.azure.com", "kind": "UserAssignedIdentity",
            "name": format!("i{n}"),
        }})
    };
    let identities: Vec<_> = (0..257).map(identity).collect();
    cluster["spec"]["identity"] =
        json!({"type": "UserAssigned", "userAssignedIdentities": identities});
    let expected = "spec: it refers to more than 256 other objects and keys";
    let refused = format!("{:#}", scene.create(&cluster).await.unwrap_err());
    assert!(refused.contains(expected), "{refused}");
    // One that is older than the rule, or that no webhook has seen.
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(scene.client.clone());
    let (all, every) = (ListParams::default(), DeleteParams::default());
    webhooks.delete_collection(&every, &all).await?;
    eventually("creation", async || {
        Ok(scene.create(&cluster).await.is_ok().then_some(()))
    })
    .await?;
    let message = scene.problem(&cluster, "Error", "Failed").await?;
    assert_eq!(message, expected);
    let read = scene.log.events()?.into_iter().filter(|event| {
        let of = &event["objectRef"];
        of["resource"] == "userassignedidentities" && event["verb"] == "get"
    });
    assert_eq!(read.count(), 0);
    Ok(())
}
