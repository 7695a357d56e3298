//! Existing objects while their definition changes.

use insula_testkit::server::{Client, DEFINITIONS, TestServer};
use serde_json::{Value, json};

use super::samples::{create, foo_path, warnings};
use super::{FOOS, foo, foos};

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.ex.io";
const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";

async fn redefine(client: &Client, patch: &Value) -> anyhow::Result<Value> {
    let changed = client.patch(DEFINITION, "json", patch).await?;
    anyhow::ensure!(changed.status == 200, "{}", changed.text());
    Ok(changed.json())
}

/// The stored value of an object.
async fn stored(server: &TestServer, key: &str) -> anyhow::Result<Value> {
    let all = insula_store::KeyRange::prefix(key.as_bytes().to_vec());
    let store = server.registry().store();
    let found = store.range(&all, insula_store::At::Latest, None).await?;
    let value = found.entries.first().map(|entry| entry.value.clone());
    Ok(serde_json::from_slice(&value.unwrap_or_default())?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defaults_and_pruning_apply_to_stored_objects_on_read() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    client.define(&foos()).await?;
    let created = create(&client, FOOS, &foo("a", json!({"color": "red"}))).await?;
    let watch = format!(
        "{FOOS}?watch=true&resourceVersion={}",
        created["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or("")
    );
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer", "default": 3},
        "shape": {"type": "string", "default": "round"},
    }});
    redefine(
        &client,
        &json!([{"op": "replace", "path": format!("{SCHEMA}/properties/spec"), "value": spec}]),
    )
    .await?;
    let shown = json!({"shape": "round", "size": 3});
    let read = client.get(&foo_path("a")).await?.json();
    assert_eq!(read["spec"], shown);
    assert_eq!(read["metadata"], created["metadata"], "nothing was written");
    assert_eq!(client.get(FOOS).await?.json()["items"][0]["spec"], shown);
    let events = client
        .get(&format!(
            "{FOOS}?watch=true&resourceVersion=0&timeoutSeconds=1"
        ))
        .await?;
    assert!(
        events
            .text()
            .contains(r#""spec":{"shape":"round","size":3}"#),
        "{}",
        events.text()
    );
    let kept = stored(&server, "/registry/ex.io/foos/t1/default/a").await?;
    assert_eq!(kept["spec"], json!({"color": "red", "size": 3}));
    // A client that knows objects from before the change has to list them again.
    let resumed = client.watch(&watch).await?.rest().await?;
    let codes: Vec<_> = resumed
        .iter()
        .map(|event| &event["object"]["code"])
        .collect();
    assert_eq!(codes, [410]);
    let list = client.get(FOOS).await?.json();
    let revision = list["metadata"]["resourceVersion"].as_str();
    let revision = revision.unwrap_or_default();
    let watch = format!("{FOOS}?watch=true&resourceVersion={revision}");
    let mut watch = client.watch(&watch).await?;
    let patched = client
        .patch(
            &foo_path("a"),
            "merge",
            &json!({"metadata": {"labels": {"a": "b"}}}),
        )
        .await?;
    assert_eq!(patched.json()["spec"], shown);
    assert_eq!(patched.json()["metadata"]["generation"], 1);
    let event = watch.next().await?.unwrap_or_default();
    assert_eq!(event["object"]["spec"], shown);
    // A pruned field is removed from the store by the next write.
    let kept = stored(&server, "/registry/ex.io/foos/t1/default/a").await?;
    assert_eq!(kept["spec"], shown);
    // It does not come back.
    redefine(&client, &json!([{"op": "add", "path": format!("{SCHEMA}/properties/spec/properties/color"), "value": {"type": "string"}}])).await?;
    assert_eq!(client.get(&foo_path("a")).await?.json()["spec"], shown);
    Ok(())
}

/// A definition with two versions, of which `storage` is the storage version.
fn two_versions(storage: &str) -> Value {
    let mut definition = foos();
    let first = definition["spec"]["versions"][0].clone();
    let versions = ["v1", "v2"].map(|name| {
        let mut version = first.clone();
        version["name"] = name.into();
        version["storage"] = (name == storage).into();
        let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        spec[name] = json!({"type": "string", "default": name});
        spec["common"] = json!({"type": "string"});
        version
    });
    definition["spec"]["versions"] = json!(versions);
    definition
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn storage_version_can_be_changed() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let defined = client.define(&two_versions("v1")).await?;
    assert_eq!(defined["status"]["storedVersions"], json!(["v1"]));
    create(&client, FOOS, &foo("old", json!({"common": "a"}))).await?;
    create(&client, FOOS, &foo("older", json!({"common": "a"}))).await?;
    let v2 = FOOS.replace("v1", "v2");
    let read = client.get(&format!("{v2}/old")).await?.json();
    assert_eq!(read["apiVersion"], "ex.io/v2");
    assert_eq!(read["spec"], json!({"common": "a", "size": 3}));
    let moved = redefine(
        &client,
        &json!([
            {"op": "replace", "path": "/spec/versions/0/storage", "value": false},
            {"op": "replace", "path": "/spec/versions/1/storage", "value": true},
        ]),
    )
    .await?;
    assert_eq!(moved["status"]["storedVersions"], json!(["v1", "v2"]));
    create(
        &client,
        FOOS,
        &foo("new", json!({"common": "b", "v1": "mine"})),
    )
    .await?;
    let kept = stored(&server, "/registry/ex.io/foos/t1/default/new").await?;
    assert_eq!(
        (&kept["apiVersion"], &kept["spec"]),
        (&json!("ex.io/v2"), &json!({"common": "b", "size": 3}))
    );
    let kept = stored(&server, "/registry/ex.io/foos/t1/default/old").await?;
    assert_eq!(kept["apiVersion"], "ex.io/v1");
    for (path, version) in [(FOOS, "v1"), (v2.as_str(), "v2")] {
        let list = client.get(path).await?.json();
        assert_eq!(super::samples::names(&list), ["new", "old", "older"]);
        assert_eq!(list["apiVersion"], format!("ex.io/{version}"));
        for item in list["items"].as_array().into_iter().flatten() {
            assert_eq!(item["apiVersion"], format!("ex.io/{version}"));
            // The defaults that count are those of the version in which an object is stored.
            let stored_as = match item["metadata"]["name"] == "new" {
                true => "v2",
                false => "v1",
            };
            let shown = if stored_as == version {
                json!(version)
            } else {
                Value::Null
            };
            assert_eq!(item["spec"][version], shown, "{item}");
        }
        let events = client
            .get(&format!(
                "{path}?watch=true&resourceVersion=0&timeoutSeconds=1"
            ))
            .await?;
        let reported = events
            .text()
            .matches(&format!(
                "\"kind\":\"Foo\",\"apiVersion\":\"ex.io/{version}\""
            ))
            .count();
        assert_eq!(reported, 3, "{}", events.text());
    }
    // A write in either version migrates the object to the storage version.
    for (path, name, version) in [
        (FOOS, "old", "ex.io/v1"),
        (v2.as_str(), "older", "ex.io/v2"),
    ] {
        let path = format!("{path}/{name}");
        let change = json!({"spec": {"common": "c"}});
        let patched = client.patch(&path, "merge", &change).await?;
        assert_eq!(patched.json()["apiVersion"], version, "{}", patched.text());
        let kept = stored(&server, &format!("/registry/ex.io/foos/t1/default/{name}")).await?;
        assert_eq!(kept["apiVersion"], "ex.io/v2");
        let link = kept["metadata"]["selfLink"].as_str().unwrap_or_default();
        assert!(link.starts_with("/apis/ex.io/v2/"), "{link}");
    }
    // A version in `storedVersions` cannot be removed.
    let drop_v1 = json!([{"op": "remove", "path": "/spec/versions/0"}]);
    let refused = client.patch(DEFINITION, "json", &drop_v1).await?;
    assert_eq!(refused.status, 422);
    assert_eq!(
        refused.message(),
        "CustomResourceDefinition.apiextensions.k8s.io \"foos.ex.io\" is invalid: \
         status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was \
         previously a storage version, and must remain in spec.versions until a storage migration \
         ensures no data remains persisted in v1 and removes v1 from status.storedVersions"
    );
    let status = format!("{DEFINITION}/status");
    let trimmed = client
        .patch(
            &status,
            "merge",
            &json!({"status": {"storedVersions": ["v2"]}}),
        )
        .await?;
    assert_eq!(trimmed.status, 200, "{}", trimmed.text());
    redefine(&client, &drop_v1).await?;
    assert_eq!(client.get(FOOS).await?.status, 404);
    let list = client.get(&v2).await?.json();
    assert_eq!(super::samples::names(&list), ["new", "old", "older"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defaults_on_read_are_those_of_the_stored_version() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let mut definition = two_versions("v2");
    let versions = definition["spec"]["versions"].as_array_mut();
    for version in versions.into_iter().flatten() {
        // Both versions know all fields, and differ in their defaults.
        let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        for name in ["v1", "v2"] {
            if spec[name].is_null() {
                spec[name] = json!({"type": "string"});
            }
        }
    }
    client.define(&definition).await?;
    let shown = json!({"size": 3, "v1": "v1", "v2": "v2"});
    let created = create(&client, FOOS, &foo("a", json!({}))).await?;
    assert_eq!(created["spec"], shown);
    let v2 = format!("{}/a", FOOS.replace("v1", "v2"));
    assert_eq!(client.get(&v2).await?.json()["spec"], shown);
    // Those of the request are stored, those of the storage version are only shown.
    let kept = stored(&server, "/registry/ex.io/foos/t1/default/a").await?;
    assert_eq!(kept["spec"], json!({"size": 3, "v1": "v1"}));
    let default_of = |version: usize| {
        format!(
            "/spec/versions/{version}/schema/openAPIV3Schema/properties/spec/properties/common/default"
        )
    };
    redefine(
        &client,
        &json!([{"op": "add", "path": default_of(1), "value": "c"}]),
    )
    .await?;
    let with_common = json!({"common": "c", "size": 3, "v1": "v1", "v2": "v2"});
    for path in [&foo_path("a"), &v2] {
        assert_eq!(client.get(path).await?.json()["spec"], with_common);
    }
    // A default that moved out of the storage version is not shown any more.
    redefine(
        &client,
        &json!([
            {"op": "remove", "path": default_of(1)},
            {"op": "add", "path": default_of(0), "value": "c"},
        ]),
    )
    .await?;
    for path in [&foo_path("a"), &v2] {
        assert_eq!(client.get(path).await?.json()["spec"], shown);
    }
    let list = client.get(FOOS).await?.json();
    assert_eq!(list["items"][0]["spec"], shown);
    // A write in the other version stores it.
    let change = json!({"metadata": {"labels": {"a": "b"}}});
    let patched = client.patch(&foo_path("a"), "merge", &change).await?;
    assert_eq!(patched.json()["spec"], with_common);
    assert_eq!(client.get(&v2).await?.json()["spec"], with_common);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unserved_storage_version_still_stores_objects() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    client.define(&two_versions("v1")).await?;
    create(&client, FOOS, &foo("a", json!({"common": "x"}))).await?;
    let mut watch = client
        .watch(&format!("{FOOS}?watch=true&resourceVersion=0"))
        .await?;
    assert_eq!(watch.next().await?.unwrap_or_default()["type"], "ADDED");
    redefine(
        &client,
        &json!([{"op": "replace", "path": "/spec/versions/0/served", "value": false}]),
    )
    .await?;
    assert_eq!(client.get(FOOS).await?.status, 404);
    let v2 = FOOS.replace("v1", "v2");
    let read = client.get(&format!("{v2}/a")).await?.json();
    assert_eq!(read["spec"], json!({"common": "x", "size": 3}));
    let patched = client
        .patch(
            &format!("{v2}/a"),
            "merge",
            &json!({"spec": {"common": "y"}}),
        )
        .await?;
    assert_eq!(patched.status, 200, "{}", patched.text());
    let kept = stored(&server, "/registry/ex.io/foos/t1/default/a").await?;
    assert_eq!(kept["apiVersion"], "ex.io/v1");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn validation_is_ratcheted() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let mut definition = foos();
    let spec =
        &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"] = json!({
        "a": {"type": "string"}, "b": {"type": "string"},
        "set": {"type": "array", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {
                "k": {"type": "string"}, "v": {"type": "string"}}}},
    });
    client.define(&definition).await?;
    let bad = json!({
        "a": "long enough", "set": ["x", "yy"],
        "map": [{"k": "1", "v": "bad"}, {"k": "2", "v": "ok"}],
    });
    create(&client, FOOS, &foo("x", bad)).await?;
    let tighter = json!({"type": "object", "required": ["fresh"], "properties": {
        "a": {"type": "string", "maxLength": 3}, "b": {"type": "string"},
        "fresh": {"type": "string"},
        "set": {"type": "array", "items": {"type": "string", "maxLength": 1}},
        "map": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {
                "k": {"type": "string"}, "v": {"type": "string", "maxLength": 2}}}},
    }});
    redefine(
        &client,
        &json!([{"op": "replace", "path": format!("{SCHEMA}/properties/spec"), "value": tighter}]),
    )
    .await?;
    let labelled = client
        .patch(
            &foo_path("x"),
            "merge",
            &json!({"metadata": {"labels": {"l": "m"}}}),
        )
        .await?;
    assert_eq!(labelled.status, 200, "{}", labelled.text());
    assert_eq!(warnings(&labelled), Vec::<String>::new());
    // The changed schema requires a field that the objects lack.
    let refused = client
        .patch(&foo_path("x"), "merge", &json!({"spec": {"b": "c"}}))
        .await?;
    assert_eq!(
        refused.message(),
        "Foo.ex.io \"x\" is invalid: spec.fresh: Required value"
    );
    // Unchanged values are not validated, in properties and in maps by key.
    let moved =
        json!({"spec": {"fresh": "f", "map": [{"k": "2", "v": "ok"}, {"k": "1", "v": "bad"}]}});
    let changed = client.patch(&foo_path("x"), "merge", &moved).await?;
    assert_eq!(changed.status, 200, "{}", changed.text());
    for (patch, why) in [
        (
            json!({"spec": {"a": "other"}}),
            "spec.a: Too long: may not be more than 3 bytes",
        ),
        (
            json!({"spec": {"map": [{"k": "1", "v": "bad!"}]}}),
            "spec.map[0].v: Too long: may not be more than 2 bytes",
        ),
        (
            json!({"spec": {"map": [{"k": "3", "v": "bad"}]}}),
            "spec.map[0].v: Too long: may not be more than 2 bytes",
        ),
        (
            json!({"spec": {"set": ["x", "yy", "z"]}}),
            "spec.set[1]: Too long: may not be more than 1 byte",
        ),
    ] {
        let refused = client.patch(&foo_path("x"), "merge", &patch).await?;
        assert_eq!(refused.status, 422, "{patch}: {}", refused.text());
        assert_eq!(
            refused.message(),
            format!("Foo.ex.io \"x\" is invalid: {why}"),
            "{patch}"
        );
    }
    // New objects get no exemption.
    let refused = client
        .post(FOOS, &foo("y", json!({"a": "long enough", "fresh": "f"})))
        .await?;
    assert_eq!(refused.status, 422);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identifying_fields_of_a_definition_are_immutable() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let defined = client.define(&foos()).await?;
    assert_eq!(defined["metadata"]["generation"], 1);
    for (path, value, field) in [
        ("/spec/scope", "Cluster", "spec.scope"),
        ("/spec/names/kind", "Bar", "spec.names.kind"),
        ("/spec/group", "ex.com", "spec.group"),
        ("/spec/names/plural", "bars", "spec.names.plural"),
    ] {
        let patch = json!([{"op": "replace", "path": path, "value": value}]);
        let refused = client.patch(DEFINITION, "json", &patch).await?;
        assert_eq!(refused.status, 422, "{path}: {}", refused.text());
        let why = format!("{field}: Invalid value: \"{value}\": field is immutable");
        assert!(refused.message().contains(&why), "{}", refused.message());
    }
    let patch = json!([{"op": "add", "path": "/spec/names/shortNames", "value": ["fo"]}]);
    let changed = redefine(&client, &patch).await?;
    assert_eq!(changed["metadata"]["generation"], 2);
    let all = client.get(DEFINITIONS).await?.json();
    assert_eq!(super::samples::names(&all), ["foos.ex.io"]);
    Ok(())
}
