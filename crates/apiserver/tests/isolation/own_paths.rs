//! A tenant's own paths show nothing of another tenant.

use insula_testkit::server::{Answer, TestServer};
use serde_json::{Value, json};

use super::create_all_kinds;
use super::routes::{NamespacedName, Operation};

#[tokio::test]
async fn i18_system_only_kinds_are_hidden_from_tenants() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let mut only = Vec::new();
    for operation in Operation::all()
        .iter()
        .filter(|operation| operation.kind.system_only)
    {
        only.push((
            operation.kind.group.as_str(),
            operation.kind.resource.as_str(),
        ));
        let object = |name| NamespacedName {
            namespace: "default",
            name,
        };
        let own = operation.relative_paths(object("x")).into_iter();
        let own = own.chain(operation.relative_paths(object("system")));
        for path in own.chain(operation.all_spellings("t1", object("x"))) {
            let refused = operation.send(&tenant, &path).await?;
            assert_eq!(refused.status, 403, "{path}: {}", refused.text());
            assert!(refused.message().ends_with("in the tenant \"t1\""));
        }
        // The kind does not exist in a tenant's space for any caller.
        let absent = operation
            .send(&system, &operation.full_paths("t1", object("x"))[0])
            .await?;
        let why = "the server could not find the requested resource";
        assert_eq!((absent.status, absent.message().as_str()), (404, why));
    }
    only.dedup();
    let tenants = [("", "tenants"), ("access.insula.dev", "tenantaccesses")];
    assert_eq!(only, tenants);
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for (path, accept) in [
        ("/api", aggregated),
        ("/apis", aggregated),
        ("/api/v1", "application/json"),
        ("/apis/access.insula.dev/v1", "application/json"),
        ("/openapi/v2", "application/json"),
    ] {
        let (all, some) = (
            system.accept(path, accept).await?,
            tenant.accept(path, accept).await?,
        );
        assert_eq!((all.status, some.status), (200, 200), "{path}");
        let of_tenant = system.accept(&format!("/tenants/t1{path}"), accept).await?;
        assert_eq!(of_tenant.body, some.body, "{path}: one space, one answer");
        for (_, resource) in &only {
            let named = [
                format!("\"name\":\"{resource}\""),
                format!("\"resource\":\"{resource}\""),
                format!("/{resource}/{{name}}"),
            ];
            let shows = |answer: &Answer| named.iter().any(|name| answer.text().contains(name));
            assert!(!shows(&some), "{path} {resource}");
        }
        assert_ne!(all.body, some.body, "{path}");
    }
    let list = tenant.get("/api/v1").await?.json();
    let names: Vec<&str> = list["resources"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|resource| resource["name"].as_str())
        .collect();
    assert!(names.contains(&"namespaces") && names.contains(&"persistentvolumeclaims"));
    assert!(!names.iter().any(|name| name.starts_with("tenants")));
    Ok(())
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().into_iter().flatten();
    let names = items.filter_map(|item| item["metadata"]["name"].as_str());
    names.map(str::to_owned).collect()
}

#[tokio::test]
async fn own_paths_never_lead_to_another_tenants_objects() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    let own: Vec<String> = server.keys().await?;
    let created = create_all_kinds(&other, false).await?;
    create_all_kinds(&system, true).await?;
    let all = insula_store::KeyRange::all();
    let store = server.registry().store();
    let snapshot = store.range(&all, insula_store::At::Latest, None).await?;
    let foreign: Vec<_> = snapshot
        .entries
        .into_iter()
        .filter(|entry| !own.contains(&String::from_utf8_lossy(&entry.key).into_owned()))
        .collect();
    for (kind, path) in &created {
        let (collection, name) = path.rsplit_once('/').expect("a path");
        for query in ["", "?resourceVersion=0", "?limit=1"] {
            let list = one.get(&format!("{collection}{query}")).await?;
            assert_eq!(list.status, 200, "{collection}: {}", list.text());
            let found = names(&list.json());
            assert!(
                !found.iter().any(|found| found == name),
                "{path}: {found:?}"
            );
            assert!(!list.text().contains("\"t2\""), "{path}");
        }
        let missing = one.get(path).await?;
        let why = format!("{} \"{name}\" not found", kind.qualified_resource());
        assert_eq!((missing.status, missing.message()), (404, why));
        let patch = json!({"metadata": {"labels": {"by": "t1"}}});
        assert_eq!(
            one.patch(path, "merge", &patch).await?.status,
            404,
            "{path}"
        );
        assert_eq!(one.delete(path).await?.status, 404, "{path}");
        // Deleting its last role would cost the caller every permission.
        if kind.supports("deletecollection") && !kind.resource.starts_with("clusterrole") {
            let gone = one.delete(collection).await?;
            assert_eq!(gone.status, 200, "{collection}: {}", gone.text());
            assert!(!gone.text().contains("\"t2\""), "{collection}");
        }
        assert_eq!(other.get(path).await?.status, 200, "{path}");
    }
    // Byte for byte the same objects at the same revisions as before.
    for entry in foreign {
        let now = store.get(&entry.key).await?;
        assert_eq!(now.as_ref(), Some(&entry));
    }
    Ok(())
}

#[tokio::test]
async fn watches_deliver_no_events_of_other_tenants() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    let path = "/api/v1/namespaces/default/configmaps";
    let start = server.registry().store().revision().await?;
    let watches = [
        format!("{path}?watch=true"),
        format!("{path}?watch=true&allowWatchBookmarks=true"),
        format!("/api/v1/configmaps?watch=true&resourceVersion={start}"),
        "/api/v1/watch/tenants/t1/configmaps".to_owned(),
        "/tenants/t1/api/v1/configmaps?watch=1&fieldSelector=metadata.name%21%3Dnone".to_owned(),
    ];
    let mut open = Vec::new();
    for watch in &watches {
        open.push(one.watch(watch).await?);
    }
    for client in [&other, &system] {
        for number in 0..200 {
            let name = format!("theirs-{number}");
            let created = client
                .post(path, &json!({"metadata": {"name": name}}))
                .await?;
            assert_eq!(created.status, 201);
            let named = format!("{path}/{name}");
            let patch = json!({"data": {"a": "b"}});
            assert_eq!(client.patch(&named, "merge", &patch).await?.status, 200);
            if number % 2 == 0 {
                assert_eq!(client.delete(&named).await?.status, 200);
            }
        }
    }
    // A watch that starts now, in the middle of the other tenants' history.
    let since = format!("{path}?watch=true&resourceVersion={start}");
    open.push(one.watch(&since).await?);
    one.post(path, &json!({"metadata": {"name": "mine"}}))
        .await?;
    for mut watch in open {
        let event = watch.next().await?.unwrap_or_default();
        let found = (&event["type"], &event["object"]["metadata"]["name"]);
        assert_eq!(found, (&json!("ADDED"), &json!("mine")), "{event}");
    }
    // A bookmark carries a revision and nothing else.
    let marked = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                  &allowWatchBookmarks=true";
    let mut watch = one.watch(&format!("{path}?{marked}")).await?;
    let first = watch.next().await?.unwrap_or_default();
    assert_eq!(first["object"]["metadata"]["name"], "mine");
    let mark = watch.next().await?.unwrap_or_default();
    assert_eq!(mark["type"], "BOOKMARK");
    let members: Vec<&String> = mark["object"]["metadata"]
        .as_object()
        .into_iter()
        .flat_map(|metadata| metadata.keys())
        .collect();
    assert_eq!(members, ["annotations", "resourceVersion"], "{mark}");
    Ok(())
}
