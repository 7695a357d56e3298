//! Objects as table rows, as kubectl shows them.

use anyhow::Context;
use insula_apiserver::registry::Address;
use insula_core::Space;
use insula_kinds::{Kind, encode, kinds};
use insula_store::Transaction;
use insula_testkit::server::{Client, TestServer};
use serde_json::{Map, Value, json};

const COLUMNS: &str = include_str!("data/reads/tables.json");
const OBJECTS: &str = include_str!("../../kinds/tests/data/print/objects.json");
const SAMPLES: &str = include_str!("../../kinds/tests/data/print/samples.json");
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn create_map(client: &Client, name: &str) -> anyhow::Result<Value> {
    let object = json!({"metadata": {"name": name}, "data": {"k": "v"}});
    let created = client.post(MAPS, &object).await?;
    anyhow::ensure!(created.status == 201, "{}", created.text());
    Ok(created.json())
}

fn kind_of(object: &Value) -> Option<&'static Kind> {
    let api_version = object["apiVersion"].as_str()?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let id = kinds().find_by_kind(group, version, object["kind"].as_str()?)?;
    Some(kinds().get(id))
}

/// Writes a recorded object directly into the store, since it may not pass validation.
async fn store_object(
    server: &TestServer,
    kind: &'static Kind,
    object: &Value,
) -> anyhow::Result<String> {
    let mut object = object.as_object().cloned().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let address = Address {
        kind: kind.storage().into(),
        space: Space::System,
        namespace: kind.namespaced().then(|| "default".to_owned()),
        name: name.to_owned(),
    };
    object["metadata"]["uid"] = "4a71369c-c2f5-49e4-9405-f774d7ae75c9".into();
    let mut value = Vec::new();
    encode::json(
        kind.api_version(),
        &kind.kind,
        kind.type_id(),
        &object,
        &mut value,
    );
    let put = Transaction::new().put(server.registry().key(&address), value);
    server.registry().commit(put).await?;
    Ok(address.self_link())
}

#[tokio::test]
async fn columns_match_the_recording() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.system().await?;
    let recorded: Map<String, Value> = serde_json::from_str(COLUMNS)?;
    for (resource, wanted) in &recorded {
        let path = match resource.split('/').count() {
            2 => format!("/api/{resource}"),
            _ => format!("/apis/{resource}"),
        };
        let answer = client.accept(&path, TABLE).await?;
        assert_eq!(answer.status, 200, "{resource}: {}", answer.text());
        let mut table = answer.json();
        assert_eq!(
            (&table["kind"], &table["apiVersion"]),
            (&json!("Table"), &json!("meta.k8s.io/v1"))
        );
        for column in table["columnDefinitions"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            let described = column
                .as_object_mut()
                .and_then(|of| of.remove("description"));
            assert!(described.is_some_and(|text| text.is_string()), "{resource}");
        }
        assert_eq!(&table["columnDefinitions"], wanted, "{resource}");
    }
    assert_eq!(recorded.len(), 61);
    Ok(())
}

#[tokio::test]
async fn rows_match_the_recording() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.system().await?;
    let objects: Map<String, Value> = serde_json::from_str(OBJECTS)?;
    let samples: Map<String, Value> = serde_json::from_str(SAMPLES)?;
    let mut compared = 0;
    for (sample, wanted) in &samples {
        let object = &objects[sample];
        let kind = kind_of(object).with_context(|| format!("{sample} has no kind"))?;
        if !std::ptr::eq(kinds().get(kind.storage()), kind) {
            // Stored in another version, which has its own sample.
            continue;
        }
        let path = store_object(&server, kind, object).await?;
        let table = client.accept(&path, TABLE).await?.json();
        let columns = table["columnDefinitions"].as_array().into_iter().flatten();
        let cells = table["rows"][0]["cells"].as_array().into_iter().flatten();
        for (column, cell) in columns.zip(cells) {
            let column = column["name"].as_str().unwrap_or_default();
            // Columns with ages, which have changed since the recording.
            if !matches!(column, "Age" | "Last Seen" | "First Seen" | "Duration") {
                assert_eq!(cell, &wanted[column], "{sample} {column}");
                compared += 1;
            }
        }
    }
    assert!(compared > 150, "{compared}");
    Ok(())
}

#[tokio::test]
async fn include_object_selects_the_object_in_a_row() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let created = create_map(&client, "a").await?;
    let metadata = json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": created["metadata"],
    });
    for (query, wanted) in [
        ("", &metadata),
        ("?includeObject=", &metadata),
        ("?includeObject=Metadata", &metadata),
        ("?includeObject=None", &Value::Null),
        ("?includeObject=Object", &created),
    ] {
        for path in [format!("{MAPS}/a{query}"), format!("{MAPS}{query}")] {
            let answer = client.accept(&path, TABLE).await?;
            assert_eq!(answer.header("content-type"), "application/json");
            let table = answer.json();
            let rows = table["rows"].as_array().map_or(0, Vec::len);
            assert_eq!((rows, &table["rows"][0]["object"]), (1, wanted), "{path}");
            assert_eq!(table["rows"][0]["cells"][0], "a");
            assert_eq!(table["rows"][0]["cells"][1], 1);
            let revision = &created["metadata"]["resourceVersion"];
            assert_eq!(
                table["metadata"],
                json!({"resourceVersion": revision}),
                "{path}"
            );
        }
    }
    let refused = client
        .accept(&format!("{MAPS}?includeObject=Foo"), TABLE)
        .await?;
    let message = "Unable to convert to Table as requested: includeObject: Invalid value: \"Foo\": \
                   must be 'Metadata', 'Object', 'None', or empty";
    assert_eq!((refused.status, refused.message().as_str()), (400, message));
    // The parameter is ignored unless a table is requested.
    let plain = client.get(&format!("{MAPS}?includeObject=Foo")).await?;
    assert_eq!(plain.status, 200);
    Ok(())
}

#[tokio::test]
async fn v1beta1_tables_are_served() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    create_map(&client, "a").await?;
    let older = "application/json;as=Table;v=v1beta1;g=meta.k8s.io";
    let table = client.accept(MAPS, older).await?.json();
    assert_eq!(table["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!(
        table["rows"][0]["object"]["apiVersion"],
        "meta.k8s.io/v1beta1"
    );
    Ok(())
}

#[tokio::test]
async fn tables_can_be_paged() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    for name in ["a", "b", "c"] {
        create_map(&client, name).await?;
    }
    let first = client
        .accept(&format!("{MAPS}?limit=2"), TABLE)
        .await?
        .json();
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    let token = first["metadata"]["continue"].as_str().unwrap_or_default();
    let path = format!("{MAPS}?limit=2&continue={token}");
    let second = client.accept(&path, TABLE).await?.json();
    assert_eq!(second["rows"][0]["cells"][0], "c");
    assert_eq!(second["metadata"].get("continue"), None);
    let empty = client
        .accept("/api/v1/namespaces/nons/configmaps", TABLE)
        .await?;
    assert_eq!(empty.json()["rows"], json!([]));
    assert_eq!(
        empty.json()["columnDefinitions"].as_array().map(Vec::len),
        Some(3)
    );
    Ok(())
}

#[tokio::test]
async fn completed_pods_have_a_row_condition() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    assert_eq!(client.post(pods, &pod).await?.status, 201);
    let patch = json!({"status": {"phase": "Succeeded"}});
    let path = format!("{pods}/p/status");
    let patched = client.patch(&path, "merge", &patch).await?;
    assert_eq!(patched.status, 200, "{}", patched.text());
    let table = client.accept(pods, TABLE).await?.json();
    let wanted = json!([{
        "type": "Completed",
        "status": "True",
        "reason": "Succeeded",
        "message": "The pod has completed successfully.",
    }]);
    assert_eq!(table["rows"][0]["conditions"], wanted);
    assert_eq!(table["rows"][0]["cells"][2], "Succeeded");
    Ok(())
}

#[tokio::test]
async fn table_watch_sends_columns_once() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let a = create_map(&client, "a").await?;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                 &allowWatchBookmarks=true";
    let path = format!("{MAPS}?{query}");
    let mut watch = client.watch_as(&path, TABLE).await?;
    assert_eq!(watch.headers["content-type"], "application/json");
    let first = watch.next().await?.unwrap_or_default();
    assert_eq!(first["type"], "ADDED");
    assert_eq!(first["object"]["kind"], "Table");
    assert_eq!(
        first["object"]["columnDefinitions"]
            .as_array()
            .map(Vec::len),
        Some(3)
    );
    assert_eq!(
        first["object"]["rows"][0]["object"]["metadata"],
        a["metadata"]
    );
    let mark = watch.next().await?.unwrap_or_default();
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(mark["object"]["kind"], "Table");
    assert_eq!(mark["object"]["columnDefinitions"], Value::Null);
    let metadata = &mark["object"]["rows"][0]["object"]["metadata"];
    assert_eq!(
        metadata["annotations"],
        json!({"k8s.io/initial-events-end": "true"})
    );
    assert_eq!(
        metadata["resourceVersion"],
        a["metadata"]["resourceVersion"]
    );
    create_map(&client, "b").await?;
    client.delete(&format!("{MAPS}/b")).await?;
    for kind in ["ADDED", "DELETED"] {
        let event = watch.next().await?.unwrap_or_default();
        assert_eq!(event["type"], kind);
        assert_eq!(event["object"]["columnDefinitions"], Value::Null);
        assert_eq!(event["object"]["rows"][0]["cells"][0], "b");
    }
    Ok(())
}
