//! Versions that only a webhook can convert.

use insula_apiserver::egress;
use insula_testkit::server::{Client, DEFINITIONS, Setup, TestServer};
use insula_testkit::webhook::{FakeWebhook, ReceivedRequest, Reply};
use serde_json::{Value, json};

use super::samples::{create, foo_path, names};
use super::{FOOS, foo, foos};

const V2: &str = "/apis/ex.io/v2/namespaces/default/foos";

/// Computes a webhook's response.
type Script = Box<dyn Fn(&ReceivedRequest) -> Reply + Send + Sync>;

/// `v1` has a color, `v2` a hue; both default another field.
fn definition(webhook: &FakeWebhook) -> Value {
    let mut definition = foos();
    let first = definition["spec"]["versions"][0].clone();
    let versions = [("v1", "color"), ("v2", "hue")].map(|(name, field)| {
        let mut version = first.clone();
        version["name"] = name.into();
        version["storage"] = (name == "v1").into();
        let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"];
        spec["properties"] = json!({"size": {"type": "integer", "default": 3}});
        spec["properties"][field] = json!({"type": "string", "maxLength": 5});
        version
    });
    definition["spec"]["versions"] = json!(versions);
    definition["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": webhook.client_config("/convert"),
        },
    });
    definition
}

/// The converted objects of a conversion review; `change` is applied to each.
fn convert_objects(heard: &ReceivedRequest, change: impl Fn(&mut Value)) -> Vec<Value> {
    let wanted = &heard.body["request"]["desiredAPIVersion"];
    let objects = heard.body["request"]["objects"].as_array();
    let convert_objects = objects.into_iter().flatten().map(|object| {
        let mut object = object.clone();
        let (from, to) = match wanted == "ex.io/v2" {
            true => ("color", "hue"),
            false => ("hue", "color"),
        };
        object["apiVersion"] = wanted.clone();
        if let Some(spec) = object["spec"].as_object_mut()
            && let Some(value) = spec.remove(from)
        {
            spec.insert(to.to_owned(), value);
        }
        change(&mut object);
        object
    });
    convert_objects.collect()
}

fn success(objects: &[Value]) -> Reply {
    Reply::Response(json!({"convertedObjects": objects, "result": {"status": "Success"}}))
}

fn convert_correctly(heard: &ReceivedRequest) -> Reply {
    success(&convert_objects(heard, |_| {}))
}

async fn started() -> anyhow::Result<(TestServer, FakeWebhook, Client)> {
    let webhook = FakeWebhook::start(Reply::Allow).await?;
    webhook.script(convert_correctly);
    let egress = egress::Settings {
        allow: vec![
            "127.0.0.0/8"
                .parse()
                .map_err(|error| anyhow::anyhow!("{error:?}"))?,
        ],
        ..egress::Settings::default()
    };
    let setup = Setup {
        egress,
        ..Setup::with_controllers()
    };
    let server = TestServer::start_with(setup).await?;
    let client = server.tenant("t1").await?;
    client.define(&definition(&webhook)).await?;
    Ok((server, webhook, client))
}

fn foo2(name: &str, spec: Value) -> Value {
    let mut object = foo(name, spec);
    object["apiVersion"] = "ex.io/v2".into();
    object
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_converted_by_the_webhook_in_both_directions() -> anyhow::Result<()> {
    let (server, webhook, client) = started().await?;
    let created = create(&client, FOOS, &foo("a", json!({"color": "red"}))).await?;
    assert_eq!(webhook.calls(), 0, "it is stored as it was written");
    let read = client.get(&format!("{V2}/a")).await?.json();
    assert_eq!(read["apiVersion"], "ex.io/v2");
    assert_eq!(read["spec"], json!({"hue": "red", "size": 3}));
    assert_eq!(read["metadata"], created["metadata"]);
    let heard = &webhook.requests()[0];
    assert_eq!(heard.path, "/convert?timeout=30s");
    assert_eq!(heard.body["apiVersion"], "apiextensions.k8s.io/v1");
    assert_eq!(heard.body["kind"], "ConversionReview");
    assert_eq!(heard.body["request"]["desiredAPIVersion"], "ex.io/v2");
    assert_eq!(heard.body["request"]["objects"], json!([created]));
    assert!(heard.body["request"]["uid"].is_string());
    // Written in the other version, it is stored in the storage version.
    let written = create(&client, V2, &foo2("b", json!({"hue": "blue"}))).await?;
    assert_eq!(written["spec"], json!({"hue": "blue", "size": 3}));
    assert_eq!(
        client.get(&foo_path("b")).await?.json()["spec"],
        json!({"color": "blue", "size": 3})
    );
    let store = server.registry().store();
    let range = insula_store::KeyRange::prefix(b"/registry/ex.io/foos/t1/default/b".to_vec());
    let found = store.range(&range, insula_store::At::Latest, None).await?;
    let kept: Value = serde_json::from_slice(&found.entries[0].value)?;
    assert_eq!(
        (&kept["apiVersion"], &kept["spec"]),
        (&json!("ex.io/v1"), &json!({"color": "blue", "size": 3}))
    );
    let patched = client
        .patch(
            &format!("{V2}/a"),
            "merge",
            &json!({"spec": {"hue": "green"}}),
        )
        .await?;
    assert_eq!(
        patched.json()["spec"],
        json!({"hue": "green", "size": 3}),
        "{}",
        patched.text()
    );
    assert_eq!(patched.json()["metadata"]["generation"], 2);
    assert_eq!(
        client.get(&foo_path("a")).await?.json()["spec"]["color"],
        "green"
    );
    let mut whole = client.get(&format!("{V2}/a")).await?.json();
    whole["spec"]["hue"] = "black".into();
    let put = client.put(&format!("{V2}/a"), &whole).await?;
    assert_eq!(put.json()["spec"]["hue"], "black", "{}", put.text());
    // Validated in the version of the request.
    let refused = client
        .patch(
            &format!("{V2}/a"),
            "merge",
            &json!({"spec": {"hue": "long one"}}),
        )
        .await?;
    assert_eq!(
        refused.message(),
        "Foo.ex.io \"a\" is invalid: spec.hue: Too long: may not be more than 5 bytes"
    );
    assert_eq!(client.delete(&format!("{V2}/a")).await?.status, 200);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_and_watches_use_the_requested_version() -> anyhow::Result<()> {
    let (_server, webhook, client) = started().await?;
    for name in ["a", "b", "c"] {
        create(&client, FOOS, &foo(name, json!({"color": name}))).await?;
    }
    let mut watch = client
        .watch(&format!("{V2}?watch=true&resourceVersion=0"))
        .await?;
    for name in ["a", "b", "c"] {
        let event = watch.next().await?.unwrap_or_default();
        assert_eq!(event["object"]["spec"]["hue"], name, "{event}");
        assert_eq!(event["object"]["apiVersion"], "ex.io/v2");
    }
    let list = client.get(V2).await?.json();
    assert_eq!(names(&list), ["a", "b", "c"]);
    assert_eq!(list["items"][1]["spec"], json!({"hue": "b", "size": 3}));
    assert!(webhook.calls() <= 3, "{}", webhook.calls());
    // Objects already stored in the requested version are not sent to the webhook.
    let path = format!("{DEFINITIONS}/foos.ex.io");
    let moved = client
        .patch(
            &path,
            "json",
            &json!([
                {"op": "replace", "path": "/spec/versions/0/storage", "value": false},
                {"op": "replace", "path": "/spec/versions/1/storage", "value": true},
            ]),
        )
        .await?;
    assert_eq!(moved.status, 200, "{}", moved.text());
    create(&client, V2, &foo2("d", json!({"hue": "d"}))).await?;
    let before = webhook.calls();
    let list = client.get(V2).await?.json();
    assert_eq!(names(&list), ["a", "b", "c", "d"]);
    for item in list["items"].as_array().into_iter().flatten() {
        assert_eq!(item["spec"]["hue"], item["metadata"]["name"]);
    }
    let asked = webhook.requests()[before..].to_vec();
    let asked: Vec<usize> = asked
        .iter()
        .map(|heard| {
            heard.body["request"]["objects"]
                .as_array()
                .map_or(0, Vec::len)
        })
        .collect();
    assert_eq!(asked, [3], "all of them at once, and only those");
    // A watch keeps the definition that was current when it started, and ends with it.
    assert_eq!(watch.next().await?, None);
    let chosen = client
        .get(&format!("{V2}?fieldSelector=metadata.name%3Dc"))
        .await?
        .json();
    assert_eq!(names(&chosen), ["c"]);
    let table = client
        .accept(V2, "application/json;as=Table;v=v1;g=meta.k8s.io")
        .await?
        .json();
    assert_eq!(table["rows"].as_array().map_or(0, Vec::len), 4);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_can_change_only_labels_and_annotations_of_the_metadata() -> anyhow::Result<()> {
    let (_server, webhook, client) = started().await?;
    let mut sent = foo("a", json!({"color": "red"}));
    sent["metadata"]["finalizers"] = json!(["ex.io/hold"]);
    let created = create(&client, FOOS, &sent).await?;
    webhook.script(|heard| {
        success(&convert_objects(heard, |object| {
            let metadata = &mut object["metadata"];
            metadata["labels"] = json!({"by": "webhook"});
            metadata["annotations"] = json!({"by": "webhook"});
            metadata["finalizers"] = json!(["ex.io/other"]);
            metadata["generation"] = 99.into();
            metadata["resourceVersion"] = "1".into();
            metadata["creationTimestamp"] = "1999-01-01T00:00:00Z".into();
            metadata["ownerReferences"] = json!([]);
            metadata["tenant"] = "t2".into();
            metadata["selfLink"] = "/elsewhere".into();
            object["spec"]["unknown"] = 1.into();
        }))
    });
    let read = client.get(&format!("{V2}/a")).await?.json();
    let mut expected = created["metadata"].clone();
    expected["labels"] = json!({"by": "webhook"});
    expected["annotations"] = json!({"by": "webhook"});
    assert_eq!(read["metadata"], expected);
    assert_eq!(
        read["spec"],
        json!({"hue": "red", "size": 3}),
        "what it adds is pruned"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_errors_are_reported() -> anyhow::Result<()> {
    let (_server, webhook, client) = started().await?;
    create(&client, FOOS, &foo("a", json!({"color": "red"}))).await?;
    let one = format!("{V2}/a");
    let review = |change: fn(&mut Value)| {
        move |heard: &ReceivedRequest| success(&convert_objects(heard, change))
    };
    let failure =
        |result: Value| Reply::Response(json!({"convertedObjects": [], "result": result}));
    let cases: Vec<(Script, &str)> = vec![
        (
            Box::new(move |_| failure(json!({"status": "Failure", "message": "cannot do it"}))),
            "failed: cannot do it",
        ),
        (
            Box::new(move |_| failure(json!({"status": "Failure"}))),
            "failed: response.result.status was 'Failure', not 'Success'",
        ),
        (
            Box::new(move |_| failure(json!({}))),
            "failed: response.result.status was '', not 'Success'",
        ),
        (Box::new(|_| success(&[])), "returned 0 objects, expected 1"),
        (
            Box::new(review(|object| object["apiVersion"] = "bad.io/v1".into())),
            "returned invalid object at index 0: invalid groupVersion (expected ex.io/v2, \
             received bad.io/v1)",
        ),
        (
            Box::new(review(|object| object["kind"] = "Bar".into())),
            "returned invalid object at index 0: invalid kind (expected Foo, received Bar)",
        ),
        (
            Box::new(review(|object| object["metadata"]["name"] = "zz".into())),
            "returned invalid object: must have the same name: a != zz",
        ),
        (
            Box::new(review(|object| {
                object["metadata"]["namespace"] = "zz".into()
            })),
            "returned invalid object: must have the same namespace: default != zz",
        ),
        (
            Box::new(|_| Reply::Code(500)),
            "failed: an error on the server (\"unknown\") has prevented the request from succeeding",
        ),
    ];
    for (script, why) in cases {
        webhook.script(script);
        let refused = client.get(&one).await?;
        assert_eq!(refused.status, 500, "{why}: {}", refused.text());
        let wanted = format!("conversion webhook for ex.io/v1, Kind=Foo {why}");
        assert_eq!(refused.message(), wanted);
        assert_eq!(refused.json()["reason"], Value::Null);
        // Requests that need the webhook fail too; others succeed.
        assert_eq!(client.get(V2).await?.message(), wanted);
        assert_eq!(
            client
                .patch(&one, "merge", &json!({"spec": {"size": 4}}))
                .await?
                .status,
            500
        );
        assert_eq!(client.get(FOOS).await?.status, 200);
    }
    webhook.answer(Reply::Response(
        json!({"uid": "x", "convertedObjects": [], "result": {"status": "Success"}}),
    ));
    let refused = client.get(&one).await?.message();
    assert!(
        refused.starts_with(
            "conversion webhook for ex.io/v1, Kind=Foo failed: expected response.uid=\""
        ),
        "{refused}"
    );
    assert!(refused.ends_with("\", got \"x\""), "{refused}");
    for bad in [
        json!(null),
        json!([]),
        json!({}),
        json!({"kind": "ConversionReview"}),
        json!("x"),
    ] {
        webhook.answer(Reply::Json(bad.clone()));
        let refused = client.get(&one).await?;
        assert_eq!(refused.status, 500, "{bad}: {}", refused.text());
        assert!(
            refused
                .message()
                .starts_with("conversion webhook for ex.io/v1, Kind=Foo failed: "),
            "{bad}"
        );
    }
    // Values that are not objects.
    for bad in [
        json!([1]),
        json!([null]),
        json!(["x"]),
        json!([[]]),
        json!([{}]),
        json!({"a": 1}),
    ] {
        let reply = json!({"convertedObjects": bad, "result": {"status": "Success"}});
        webhook.answer(Reply::Response(reply));
        let refused = client.get(&one).await?;
        assert_eq!(refused.status, 500, "{bad}: {}", refused.text());
    }
    // Nothing was stored.
    webhook.script(convert_correctly);
    let read = client.get(&one).await?.json();
    assert_eq!(read["spec"], json!({"hue": "red", "size": 3}));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unavailable_webhook_affects_its_version_only() -> anyhow::Result<()> {
    let (server, mut webhook, client) = started().await?;
    create(&client, FOOS, &foo("a", json!({"color": "red"}))).await?;
    create(&client, FOOS, &foo("seen", json!({"color": "red"}))).await?;
    assert_eq!(client.get(&format!("{V2}/seen")).await?.status, 200);
    let url = webhook.url("/convert");
    let at_address = webhook.address();
    webhook.stop().await;
    // A pooled connection may fail first.
    client.get(&format!("{V2}/a")).await?;
    let refused = client.get(&format!("{V2}/a")).await?;
    assert_eq!(refused.status, 500);
    assert_eq!(
        refused.message(),
        format!(
            "conversion webhook for ex.io/v1, Kind=Foo failed: Post \"{url}?timeout=30s\": dial \
             tcp {at_address}: connect: connection refused"
        )
    );
    let refused = client.post(V2, &foo2("b", json!({}))).await?;
    assert_eq!(refused.status, 500, "{}", refused.text());
    assert!(
        refused
            .message()
            .starts_with("conversion webhook for ex.io/v2, Kind=Foo failed: "),
        "{}",
        refused.text()
    );
    assert_eq!(client.get(&foo_path("b")).await?.status, 404);
    // Cached results are still served, and the storage version needs no webhook.
    assert_eq!(client.get(&format!("{V2}/seen")).await?.status, 200);
    assert_eq!(client.get(&foo_path("a")).await?.status, 200);
    assert_eq!(
        client
            .patch(&foo_path("a"), "merge", &json!({"spec": {"size": 4}}))
            .await?
            .status,
        200
    );
    // A watch that cannot convert an event ends, or does not start.
    let lines = client
        .watch(&format!("{V2}?watch=true&resourceVersion=0"))
        .await?;
    let text = lines.whole().await?.text();
    assert!(text.contains("conversion webhook for ex.io/v1"), "{text}");
    // A deletion that returns the object fails; one that does not return it succeeds.
    let refused = client.delete(V2).await?;
    assert_eq!(refused.status, 500, "{}", refused.text());
    assert_eq!(names(&client.get(FOOS).await?.json()), ["a", "seen"]);
    let gone = client.delete(&format!("{V2}/a")).await?;
    assert_eq!(gone.status, 200, "{}", gone.text());
    // Objects and the tenant can be deleted without the webhook.
    let system = server.system().await?;
    assert_eq!(client.delete(&foo_path("seen")).await?.status, 200);
    assert_eq!(
        client
            .delete(&format!("{DEFINITIONS}/foos.ex.io"))
            .await?
            .status,
        200
    );
    client
        .until_gone(&format!("{DEFINITIONS}/foos.ex.io"))
        .await?;
    assert_eq!(system.delete("/api/v1/tenants/t1").await?.status, 200);
    system.until_gone("/api/v1/tenants/t1").await?;
    Ok(())
}
