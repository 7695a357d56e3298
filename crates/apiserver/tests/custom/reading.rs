//! Reading custom objects.

use insula_testkit::server::{Client, DEFINITIONS, TestServer};
use serde_json::{Value, json};

use super::samples::{create, foo_path, foos_with_all, names, warnings};
use super::{FOOS, foo, foos};

/// Two objects of a kind with columns and selectable fields.
async fn two(server: &TestServer) -> anyhow::Result<Client> {
    let client = server.tenant("t1").await?;
    let mut definition = foos();
    let version = &mut definition["spec"]["versions"][0];
    version["selectableFields"] = json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]);
    version["additionalPrinterColumns"] = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "How large."},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    client.define(&definition).await?;
    create(&client, FOOS, &foo("a", json!({"color": "red"}))).await?;
    create(&client, FOOS, &foo("b", json!({"size": 5}))).await?;
    Ok(client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selectable_fields_of_the_version_can_be_selected() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = two(&server).await?;
    for (selector, chosen) in [
        ("spec.color%3Dred", vec!["a"]),
        ("spec.color!%3Dred", vec!["b"]),
        ("spec.color%3D", vec!["b"]),
        ("spec.size%3D3", vec!["a"]),
        ("spec.size%3D5,spec.color%3Dred", vec![]),
        ("metadata.name%3Db", vec!["b"]),
        ("metadata.namespace%3Ddefault", vec!["a", "b"]),
        ("metadata.namespace%3Dother", vec![]),
    ] {
        let found = client
            .get(&format!("{FOOS}?fieldSelector={selector}"))
            .await?;
        assert_eq!(names(&found.json()), chosen, "{selector}: {}", found.text());
    }
    for field in ["spec.other", "status.phase", "metadata.uid", "name", "spec"] {
        let refused = client
            .get(&format!("{FOOS}?fieldSelector={field}%3Dx"))
            .await?;
        assert_eq!(refused.status, 400, "{field}");
        assert_eq!(
            refused.message(),
            format!("field label not supported: {field}")
        );
    }
    let refused = client
        .delete(&format!("{FOOS}?fieldSelector=spec.other%3Dx"))
        .await?;
    assert_eq!(refused.status, 400);
    assert_eq!(names(&client.get(FOOS).await?.json()), ["a", "b"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_have_the_definitions_columns() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = two(&server).await?;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let found = client.accept(FOOS, table).await?.json();
    assert_eq!(found["kind"], "Table");
    let columns = found["columnDefinitions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let columns: Vec<Value> = columns
        .iter()
        .map(|column| json!([column["name"], column["type"], column["priority"]]))
        .collect();
    assert_eq!(
        json!(columns),
        json!([
            ["Name", "string", 0],
            ["Size", "integer", 0],
            ["Color", "string", 1],
            ["Age", "date", 0]
        ])
    );
    assert_eq!(found["columnDefinitions"][1]["description"], "How large.");
    assert_eq!(
        found["columnDefinitions"][2]["description"],
        "Custom resource definition column (in JSONPath format): .spec.color"
    );
    let cells = &found["rows"][0]["cells"];
    assert_eq!(
        json!([cells[0], cells[1], cells[2]]),
        json!(["a", 3, "red"])
    );
    assert_eq!(found["rows"][1]["cells"][2], Value::Null);
    assert_eq!(found["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(found["rows"][0]["object"]["spec"], Value::Null);
    let one = client
        .accept(&format!("{}?includeObject=Object", foo_path("a")), table)
        .await?
        .json();
    assert_eq!(
        one["rows"][0]["object"]["spec"],
        json!({"color": "red", "size": 3})
    );
    let mut watch = client
        .watch_as(&format!("{FOOS}?watch=true&resourceVersion=0"), table)
        .await?;
    let first = watch.next().await?.unwrap_or_default();
    assert_eq!(first["object"]["columnDefinitions"][1]["name"], "Size");
    let second = watch.next().await?.unwrap_or_default();
    assert_eq!(second["object"]["columnDefinitions"], Value::Null);
    assert_eq!(second["object"]["rows"][0]["cells"][1], 5);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_partial_metadata_is_served_in_protobuf() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = two(&server).await?;
    let part = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let list = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let found = client
        .accept(&foo_path("a"), &format!("application/json{part}"))
        .await?
        .json();
    assert_eq!(found["kind"], "PartialObjectMetadata");
    assert_eq!(found["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(
        (&found["metadata"]["name"], &found["spec"]),
        (&json!("a"), &Value::Null)
    );
    let found = client
        .accept(FOOS, &format!("application/json{list}"))
        .await?
        .json();
    assert_eq!(found["kind"], "PartialObjectMetadataList");
    assert_eq!(names(&found), ["a", "b"]);
    let proto = "application/vnd.kubernetes.protobuf";
    for (path, form) in [(foo_path("a"), part), (FOOS.to_owned(), list)] {
        let found = client.accept(&path, &format!("{proto}{form}")).await?;
        assert_eq!(found.status, 200, "{}", found.text());
        assert_eq!(found.header("content-type"), proto);
        assert_eq!(&found.body[..4], b"k8s\0");
    }
    // A client that prefers protobuf but accepts JSON gets JSON.
    let found = client
        .accept(&foo_path("a"), &format!("{proto},application/json"))
        .await?;
    assert_eq!(
        (found.status, found.header("content-type")),
        (200, "application/json")
    );
    let refused = client.accept(&foo_path("a"), proto).await?;
    assert_eq!(refused.status, 406, "{}", refused.text());
    let watch = format!("{FOOS}?watch=true&resourceVersion=0");
    let mut lines = client
        .watch_as(&watch, &format!("{proto};stream=watch{part},{proto}{part}"))
        .await?;
    assert_eq!(lines.status, 200);
    assert!(lines.frame().await?.is_some());
    let refused = client.watch_as(&watch, proto).await?;
    assert_eq!(refused.status, 406);
    let mut lines = client
        .watch_as(&watch, &format!("{proto},application/json"))
        .await?;
    assert_eq!(
        lines.next().await?.unwrap_or_default()["object"]["kind"],
        "Foo"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_can_be_paged_and_pretty_printed() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = two(&server).await?;
    let pretty = client
        .get(&format!("{}?pretty=true", foo_path("a")))
        .await?;
    assert!(
        pretty
            .text()
            .starts_with("{\n  \"kind\": \"Foo\",\n  \"apiVersion\": \"ex.io/v1\",\n"),
        "{}",
        pretty.text()
    );
    let page = client.get(&format!("{FOOS}?limit=1")).await?.json();
    assert_eq!(names(&page), ["a"]);
    assert_eq!(page["metadata"]["remainingItemCount"], 1);
    let token = page["metadata"]["continue"]
        .as_str()
        .unwrap_or("")
        .to_owned();
    let rest = client
        .get(&format!("{FOOS}?limit=1&continue={token}"))
        .await?
        .json();
    assert_eq!(names(&rest), ["b"]);
    // A continue token belongs to one list of one kind.
    client
        .define(&insula_testkit::server::definition(
            "ex.io",
            "bars",
            "Bar",
            json!({"type": "object"}),
        ))
        .await?;
    let other = FOOS.replace("foos", "bars");
    assert_eq!(
        client
            .get(&format!("{other}?continue={token}"))
            .await?
            .status,
        400
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_continues_at_its_revision_after_its_definition_was_created_anew() -> anyhow::Result<()>
{
    let server = TestServer::start_with_controllers().await?;
    let client = two(&server).await?;
    let page = client.get(&format!("{FOOS}?limit=1")).await?.json();
    assert_eq!(names(&page), ["a"]);
    let token = page["metadata"]["continue"].as_str().unwrap_or("");
    let definition = format!("{DEFINITIONS}/foos.ex.io");
    assert_eq!(client.delete(&definition).await?.status, 200);
    client.until_gone(&definition).await?;
    client.define(&foos()).await?;
    assert_eq!(names(&client.get(FOOS).await?.json()), [""; 0]);
    let path = format!("{FOOS}?limit=1&continue={token}");
    let rest = client.get(&path).await?;
    assert_eq!((rest.status, names(&rest.json())), (200, vec!["b"]));
    let revision = |list: &serde_json::Value| list["metadata"]["resourceVersion"].clone();
    assert_eq!(revision(&rest.json()), revision(&page));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_resume_from_a_list() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = two(&server).await?;
    let list = client.get(FOOS).await?.json();
    let at_revision = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or("")
        .to_owned();
    let path = format!("{FOOS}?watch=true&resourceVersion={at_revision}&allowWatchBookmarks=true");
    let mut watch = client.watch(&path).await?;
    let red = format!("{path}&fieldSelector=spec.color%3Dred");
    let mut red = client.watch(&red).await?;
    client
        .patch(&foo_path("a"), "merge", &json!({"spec": {"color": "blue"}}))
        .await?;
    client
        .patch(&foo_path("b"), "merge", &json!({"spec": {"color": "red"}}))
        .await?;
    client.delete(&foo_path("b")).await?;
    for (kind, name) in [("MODIFIED", "a"), ("MODIFIED", "b"), ("DELETED", "b")] {
        let event = watch.next().await?.unwrap_or_default();
        assert_eq!(
            (&event["type"], &event["object"]["metadata"]["name"]),
            (&json!(kind), &json!(name))
        );
        assert!(event["object"]["spec"]["size"].is_number(), "{event}");
    }
    for (kind, name) in [("DELETED", "a"), ("ADDED", "b"), ("DELETED", "b")] {
        let event = red.next().await?.unwrap_or_default();
        assert_eq!(
            (&event["type"], &event["object"]["metadata"]["name"]),
            (&json!(kind), &json!(name))
        );
    }
    let initial = format!(
        "{FOOS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut initial = client.watch(&initial).await?;
    assert_eq!(initial.next().await?.unwrap_or_default()["type"], "ADDED");
    let mark = initial.next().await?.unwrap_or_default();
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(mark["object"]["kind"], "Foo");
    assert_eq!(mark["object"]["apiVersion"], "ex.io/v1");
    assert_eq!(
        mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
    // By the deprecated watch path, and for one object.
    let legacy = FOOS.replace("/namespaces", "/watch/namespaces");
    let mut one = client
        .watch(&format!("{legacy}/a?resourceVersion=0"))
        .await?;
    assert_eq!(
        one.next().await?.unwrap_or_default()["object"]["metadata"]["name"],
        "a"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_can_be_served_deprecated_or_unserved() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let mut definition = foos_with_all();
    let first = definition["spec"]["versions"][0].clone();
    for (name, deprecated, warning, served) in [
        ("v1beta1", true, Value::Null, true),
        ("v1alpha1", true, json!("go \"away\""), true),
        ("v0", false, Value::Null, false),
    ] {
        let mut version = first.clone();
        version["name"] = name.into();
        version["storage"] = false.into();
        version["served"] = served.into();
        version["deprecated"] = deprecated.into();
        if !warning.is_null() {
            version["deprecationWarning"] = warning;
        }
        if let Some(all) = definition["spec"]["versions"].as_array_mut() {
            all.push(version);
        }
    }
    client.define(&definition).await?;
    create(&client, FOOS, &foo("a", json!({"replicas": 1}))).await?;
    for (version, reported) in [
        ("v1", vec![]),
        (
            "v1beta1",
            vec![r#"299 - "ex.io/v1beta1 Foo is deprecated; use ex.io/v1 Foo""#],
        ),
        ("v1alpha1", vec![r#"299 - "go \"away\"""#]),
    ] {
        let list = FOOS.replace("v1", version);
        let one = format!("{list}/a");
        let mut object = foo("b", json!({}));
        object["apiVersion"] = format!("ex.io/{version}").into();
        for answer in [
            client.get(&list).await?,
            client.get(&one).await?,
            client.get(&format!("{one}/scale")).await?,
            client.get(&format!("{one}/status")).await?,
            client
                .patch(
                    &one,
                    "merge",
                    &json!({"metadata": {"labels": {"a": version}}}),
                )
                .await?,
            client.post(&list, &object).await?,
            client.delete(&format!("{list}/b")).await?,
        ] {
            assert!(answer.status < 300, "{version}: {}", answer.text());
            assert_eq!(warnings(&answer), reported, "{version}: {}", answer.text());
        }
        let watch = client.watch(&format!("{list}?watch=true")).await?;
        let all = watch.headers.get_all("warning").iter().count();
        assert_eq!(all, reported.len(), "{version}");
        assert_eq!(
            client.get(&one).await?.json()["apiVersion"],
            format!("ex.io/{version}")
        );
    }
    for version in ["v0", "v2"] {
        let path = FOOS.replace("v1", version);
        let answer = client.get(&path).await?;
        assert_eq!(
            (answer.status, answer.text().trim()),
            (404, "404 page not found"),
            "{version}"
        );
        let answer = client.get(&format!("/apis/ex.io/{version}")).await?;
        assert_eq!(answer.status, 404, "{version}");
    }
    let group = client.get("/apis/ex.io").await?.json();
    let versions = group["versions"].as_array().cloned().unwrap_or_default();
    let versions: Vec<_> = versions.iter().map(|one| one["version"].clone()).collect();
    assert_eq!(json!(versions), json!(["v1", "v1beta1", "v1alpha1"]));
    assert_eq!(group["preferredVersion"]["version"], "v1");
    Ok(())
}
