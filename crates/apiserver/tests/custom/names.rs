//! The lifecycle of a definition: accepted names, conditions and deletion.

use std::time::{Duration, Instant};

use insula_testkit::server::{Client, DEFINITIONS, TestServer, definition};
use serde_json::{Value, json};

use super::samples::{create, foo_path, foos_with_all};
use super::{FOOS, foo, foos};

fn condition<'a>(definition: &'a Value, kind: &str) -> &'a Value {
    let all = definition["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let mut all = all.filter(|one| one["type"] == kind);
    all.next().unwrap_or(&Value::Null)
}

fn status_and_reason(definition: &Value, kind: &str) -> Value {
    let found = condition(definition, kind);
    json!([found["status"], found["reason"], found["message"]])
}

/// Waits until the condition has this status and reason.
async fn await_condition(
    client: &Client,
    name: &str,
    kind: &str,
    wanted: &Value,
) -> anyhow::Result<Value> {
    let begun = Instant::now();
    loop {
        let found = client.get(&format!("{DEFINITIONS}/{name}")).await?.json();
        if &status_and_reason(&found, kind) == wanted {
            return Ok(found);
        }
        anyhow::ensure!(begun.elapsed() < Duration::from_secs(20), "{found}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_become_names_accepted_then_established() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let created = client.post(DEFINITIONS, &foos()).await?.json();
    assert_eq!(
        created["status"],
        json!({
            "conditions": null, "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": ["v1"],
        })
    );
    assert_eq!(created["spec"]["names"]["singular"], "foo");
    assert_eq!(created["spec"]["names"]["listKind"], "FooList");
    assert_eq!(created["spec"]["conversion"], json!({"strategy": "None"}));
    let found = client
        .until_defined("foos.ex.io", "Established", "True")
        .await?;
    let accepted =
        json!({"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"});
    assert_eq!(found["status"]["acceptedNames"], accepted);
    assert_eq!(
        status_and_reason(&found, "NamesAccepted"),
        json!(["True", "NoConflicts", "no conflicts found"])
    );
    assert_eq!(
        status_and_reason(&found, "Established"),
        json!([
            "True",
            "InitialNamesAccepted",
            "the initial names have been accepted"
        ])
    );
    assert_eq!(found["metadata"]["generation"], 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicting_names_wait_until_the_first_definition_is_deleted() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (client, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let mut first = foos();
    first["spec"]["names"]["shortNames"] = json!(["fo"]);
    client.define(&first).await?;
    let mut second = definition("ex.io", "bars", "Foo", json!({"type": "object"}));
    second["spec"]["names"]["singular"] = "bar".into();
    second["spec"]["names"]["shortNames"] = json!(["fo", "ba"]);
    second["spec"]["names"]["categories"] = json!(["all"]);
    assert_eq!(client.post(DEFINITIONS, &second).await?.status, 201);
    let conflict = json!(["False", "ListKindConflict", "\"FooList\" is already in use"]);
    let found = await_condition(&client, "bars.ex.io", "NamesAccepted", &conflict).await?;
    assert_eq!(
        status_and_reason(&found, "Established"),
        json!(["False", "NotAccepted", "not all names are accepted"])
    );
    assert_eq!(
        found["status"]["acceptedNames"],
        json!({"plural": "bars", "singular": "bar", "kind": "", "categories": ["all"]})
    );
    let bars = FOOS.replace("foos", "bars");
    assert_eq!(client.get(&bars).await?.status, 404);
    // Other spaces and other groups have separate names.
    other.define(&second).await?;
    client
        .define(&definition(
            "ex.com",
            "foos",
            "Foo",
            json!({"type": "object"}),
        ))
        .await?;
    assert_eq!(
        client
            .delete(&format!("{DEFINITIONS}/foos.ex.io"))
            .await?
            .status,
        200
    );
    let found = client
        .until_defined("bars.ex.io", "Established", "True")
        .await?;
    assert_eq!(
        found["status"]["acceptedNames"]["shortNames"],
        json!(["fo", "ba"])
    );
    assert_eq!(client.get(&bars).await?.status, 200);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_names_are_accepted_again() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    client.define(&foos()).await?;
    client
        .define(&definition(
            "ex.io",
            "bars",
            "Bar",
            json!({"type": "object"}),
        ))
        .await?;
    let path = format!("{DEFINITIONS}/bars.ex.io");
    client
        .patch(
            &path,
            "merge",
            &json!({"spec": {"names": {"shortNames": ["foo"]}}}),
        )
        .await?;
    let conflict = json!(["False", "ShortNamesConflict", "\"foo\" is already in use"]);
    let found = await_condition(&client, "bars.ex.io", "NamesAccepted", &conflict).await?;
    // A served kind stays served.
    assert_eq!(condition(&found, "Established")["status"], "True");
    assert_eq!(client.get(&FOOS.replace("foos", "bars")).await?.status, 200);
    client
        .patch(
            &path,
            "merge",
            &json!({"spec": {"names": {"shortNames": ["br"]}}}),
        )
        .await?;
    let fine = json!(["True", "NoConflicts", "no conflicts found"]);
    let found = await_condition(&client, "bars.ex.io", "NamesAccepted", &fine).await?;
    assert_eq!(
        found["status"]["acceptedNames"]["shortNames"],
        json!(["br"])
    );
    let resources = client.get("/apis/ex.io/v1").await?.json();
    let bars = resources["resources"].as_array().into_iter().flatten();
    let bars = bars
        .filter(|one| one["name"] == "bars")
        .map(|one| one["shortNames"].clone());
    assert_eq!(bars.collect::<Vec<_>>(), [json!(["br"])]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminating_definition_waits_for_its_objects_and_accepts_no_new_ones() -> anyhow::Result<()>
{
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    client.define(&foos_with_all()).await?;
    let mut held = foo("held", json!({"replicas": 1}));
    held["metadata"]["finalizers"] = json!(["ex.io/hold"]);
    create(&client, FOOS, &held).await?;
    create(&client, FOOS, &foo("free", json!({}))).await?;
    let mut watch = client
        .watch(&format!("{FOOS}?watch=true&resourceVersion=0"))
        .await?;
    // A transient condition is only seen by a watch.
    let mut definitions = client.watch(&format!("{DEFINITIONS}?watch=true")).await?;
    let path = format!("{DEFINITIONS}/foos.ex.io");
    let deleted = client.delete(&path).await?;
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    let deleted = deleted.json();
    assert_eq!(deleted["kind"], "CustomResourceDefinition", "{deleted}");
    assert_eq!(
        deleted["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    assert_eq!(
        status_and_reason(&deleted, "Terminating"),
        json!([
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        ])
    );
    let refused = client.post(FOOS, &foo("more", json!({}))).await?;
    assert_eq!(refused.status, 403);
    assert_eq!(
        refused.message(),
        "foos.ex.io \"more\" is forbidden: create not allowed while custom resource definition is \
         terminating"
    );
    let progress = json!([
        "True",
        "InstanceDeletionCheck",
        "could not confirm zero CustomResources remaining: some have finalizers and wait for them"
    ]);
    loop {
        let event = definitions.next().await?;
        let event = event.ok_or_else(|| anyhow::anyhow!("the watch ended"))?;
        if status_and_reason(&event["object"], "Terminating") == progress {
            break;
        }
    }
    client.until_gone(&foo_path("free")).await?;
    // All other requests still succeed.
    assert_eq!(
        super::samples::names(&client.get(FOOS).await?.json()),
        ["held"]
    );
    assert_eq!(
        client
            .get(&format!("{}/scale", foo_path("held")))
            .await?
            .status,
        200
    );
    let patched = client
        .patch(&foo_path("held"), "merge", &json!({"spec": {"size": 4}}))
        .await?;
    assert_eq!(patched.status, 200, "{}", patched.text());
    let resources = client.get("/apis/ex.io/v1").await?.json();
    assert_eq!(
        resources["resources"][0]["verbs"],
        json!(["delete", "deletecollection", "get", "list", "watch"]),
        "{resources}"
    );
    let again = client.delete(&path).await?;
    assert_eq!(again.status, 200, "{}", again.text());
    let freed = json!({"metadata": {"finalizers": null}});
    assert_eq!(
        client
            .patch(&foo_path("held"), "merge", &freed)
            .await?
            .status,
        200
    );
    client.until_gone(&path).await?;
    assert_eq!(client.get(FOOS).await?.status, 404);
    assert_eq!(client.get("/apis/ex.io").await?.status, 404);
    let events = watch.rest().await?;
    let reported: Vec<Value> = events
        .iter()
        .map(|event| json!([event["type"], event["object"]["metadata"]["name"]]))
        .collect();
    // After the last object the watch ends, without an error.
    assert_eq!(reported.last(), Some(&json!(["DELETED", "held"])));
    let keys = server.keys().await?;
    let left: Vec<_> = keys.iter().filter(|key| key.contains("foos")).collect();
    assert_eq!(left, Vec::<&String>::new());
    // A new definition of the name starts without objects.
    client.define(&foos()).await?;
    assert_eq!(
        super::samples::names(&client.get(FOOS).await?.json()),
        Vec::<&str>::new()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unserved_definition_is_deleted_at_once() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    client.define(&foos()).await?;
    create(&client, FOOS, &foo("a", json!({}))).await?;
    let second = definition("ex.io", "bars", "Foo", json!({"type": "object"}));
    client.post(DEFINITIONS, &second).await?;
    client
        .until_defined("bars.ex.io", "NamesAccepted", "False")
        .await?;
    client.delete(&format!("{DEFINITIONS}/bars.ex.io")).await?;
    client
        .until_gone(&format!("{DEFINITIONS}/bars.ex.io"))
        .await?;
    assert_eq!(client.get(&foo_path("a")).await?.status, 200);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_conversion_ca_bundles_are_not_established() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let mut definition = foos();
    let client_config = json!({"url": "https://ex.io/convert", "caBundle": "bm90IGEgY2VydA=="});
    definition["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client_config},
    });
    assert_eq!(client.post(DEFINITIONS, &definition).await?.status, 201);
    let invalid = json!([
        "False",
        "InvalidCABundle",
        "The conversion webhook CABundle is invalid"
    ]);
    await_condition(&client, "foos.ex.io", "Established", &invalid).await?;
    assert_eq!(client.get(FOOS).await?.status, 404);
    let patch = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": null}}}}});
    let path = format!("{DEFINITIONS}/foos.ex.io");
    assert_eq!(client.patch(&path, "merge", &patch).await?.status, 200);
    client
        .until_defined("foos.ex.io", "Established", "True")
        .await?;
    assert_eq!(client.get(FOOS).await?.status, 200);
    // On an established definition, an invalid bundle is refused.
    let patch = json!({"spec": {"conversion": {"webhook": {"clientConfig": client_config}}}});
    let refused = client.patch(&path, "merge", &patch).await?;
    assert_eq!(refused.status, 422, "{}", refused.text());
    Ok(())
}
