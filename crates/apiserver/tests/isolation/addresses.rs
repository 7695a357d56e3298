//! Addressing: no name, path, token or revision leads from one space into another.

use std::time::{Duration, Instant};

use http::Method;
use insula_kinds::kinds;
use insula_testkit::server::{TestServer, definition};
use serde_json::json;

use super::principals::{RBAC, bind, create, server_with, user};
use super::samples::api;
use super::{MAPS, named, names};

#[tokio::test]
async fn i01_invalid_tenant_names_are_not_routed() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (system, one) = (server.system().await?, server.tenant("t1").await?);
    let other = server.tenant("t2").await?;
    for client in [&system, &one, &other] {
        create(client, MAPS, named("canary")).await?;
    }
    let before = server.keys().await?;
    let long = "x".repeat(64);
    for (name, in_path) in [
        ("..", ".."),
        ("..", "%2e%2e"),
        ("..", "%252e%252e"),
        (".", "."),
        (".", "%2E"),
        ("a/../t2", "a/../t2"),
        ("a/../t2", "a%2F..%2Ft2"),
        ("t2/", "t2%2F"),
        ("/", "%2F"),
        ("\u{0}", "%00"),
        ("t2\u{0}", "t2%00"),
        ("\u{2024}\u{2024}", "%E2%80%A4%E2%80%A4"),
        ("\u{ff0e}", "%EF%BC%8E"),
        ("t2.", "t2."),
        ("t2 ", "t2%20"),
        (" t2", "%20t2"),
        ("T2", "T2"),
        ("*", "*"),
        ("all", "all"),
        ("", ""),
        (&long, &long),
        // Names that are already taken by something other than a tenant.
        ("system", "kube-system"),
        ("kube-system", "kube-system"),
        ("default", "default"),
    ] {
        let refused = system.post("/api/v1/tenants", &named(name)).await?;
        let code = refused.status;
        assert!(
            [400, 409, 422].contains(&code),
            "{name:?}: {}",
            refused.text()
        );
        for path in [
            format!("/tenants/{in_path}/api/v1/configmaps"),
            format!("/tenants/{in_path}{MAPS}/canary"),
            format!("/api/v1/tenants/{in_path}/namespaces/default/configmaps/canary"),
            format!("/api/v1/watch/tenants/{in_path}/namespaces/default/configmaps/canary"),
        ] {
            for client in [&one, &system] {
                let answer = client.get(&path).await?;
                let known = [400, 403, 404, 405].contains(&answer.status);
                assert!(known, "{path}: {} {}", answer.status, answer.text());
                assert!(
                    !answer.text().contains("\"uid\""),
                    "{path}: {}",
                    answer.text()
                );
            }
        }
        let path = format!("/tenants/{in_path}{MAPS}");
        let refused = system.post(&path, &named("x")).await?;
        assert!(
            [400, 404, 405].contains(&refused.status),
            "{path}: {}",
            refused.text()
        );
    }
    assert_eq!(server.keys().await?, before);
    Ok(())
}

/// As `kubectl get --raw` sends it, which appends its path to the server's URL.
#[tokio::test]
async fn i01_path_below_the_own_prefix_that_names_another_space_is_refused_as_without_it()
-> anyhow::Result<()> {
    let server = server_with(&[], true).await?;
    let (system, one) = (server.system().await?, server.tenant("t1").await?);
    let other = server.tenant("t2").await?;
    let foos = definition("ex.io", "foos", "Foo", json!({"type": "object"}));
    for client in [&one, &other] {
        create(client, MAPS, named("canary")).await?;
        client.define(&foos).await?;
    }
    for space in ["t2", "ghost", "system", "all"] {
        for (method, path) in [
            ("GET", format!("/api/v1/tenants/{space}/pods")),
            ("GET", format!("/api/v1/watch/tenants/{space}/configmaps")),
            ("GET", format!("/apis/ex.io/v1/tenants/{space}/foos")),
            ("GET", format!("/apis/none.io/v1/tenants/{space}/nones")),
            (
                "GET",
                format!("/api/v1/tenants/{space}/namespaces/default/configmaps/canary"),
            ),
            (
                "POST",
                format!("/api/v1/tenants/{space}/namespaces/default/configmaps"),
            ),
            (
                "POST",
                format!("/apis/ex.io/v1/tenants/{space}/namespaces/default/foos"),
            ),
            (
                "DELETE",
                format!("/api/v1/tenants/{space}/namespaces/default/configmaps/canary"),
            ),
        ] {
            let is_one = path.ends_with("canary") || method == "POST";
            if space == "all" && is_one {
                continue;
            }
            let method: Method = method.parse()?;
            let plain = one.send(method.clone(), &path, &[], "{}").await?;
            let below = format!("/tenants/t1{path}");
            let prefixed = one.send(method.clone(), &below, &[], "{}").await?;
            assert_eq!(plain.status, 403, "{method} {path}: {}", plain.text());
            assert_eq!(prefixed.text(), plain.text(), "{method} {path}");
            assert_eq!(prefixed.status, plain.status, "{method} {path}");
            // Callers that may enter both spaces learn that there is no such path.
            let contradiction = system.send(method.clone(), &below, &[], "{}").await?;
            assert_eq!(
                contradiction.status,
                404,
                "{method} {path}: {}",
                contradiction.text()
            );
        }
    }
    for client in [&one, &system] {
        let path = "/tenants/t1/apis/ex.io/v1/tenants/t1/foos";
        assert_eq!(client.get(path).await?.status, 200);
    }
    let left = other.get(&format!("{MAPS}/canary")).await?;
    assert_eq!(left.status, 200);
    Ok(())
}

#[tokio::test]
async fn i02_watch_selectors_cannot_reach_another_space() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    create(&other, MAPS, named("canary")).await?;
    let marked = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                  &allowWatchBookmarks=true";
    for selector in [
        "metadata.name%3D..%2Ft2%2Fdefault%2Fcanary",
        "metadata.name%3Dcanary",
        "metadata.namespace%3D..%2Ft2%2Fdefault",
        "metadata.namespace%3D%2F",
        "metadata.tenant%3Dt2",
        "metadata.tenant%3D..%2Ft2",
    ] {
        for path in [MAPS, "/api/v1/configmaps", "/tenants/t1/api/v1/configmaps"] {
            let path = format!("{path}?{marked}&fieldSelector={selector}");
            let mut watch = one.watch(&path).await?;
            // The initial events end with the bookmark: no object may come before it.
            let first = watch.next().await?.unwrap_or_default();
            assert_eq!(first["type"], "BOOKMARK", "{selector}: {first}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn i06_resource_scope_and_path_scope_must_match() -> anyhow::Result<()> {
    let server = server_with(&["t1/alice"], false).await?;
    let admin = server.tenant("t1").await?;
    let alice = server.client("t1/alice").await?;
    // The listing of one namespace holds everything; the other namespaces hold nothing.
    bind(
        &admin,
        Some("default"),
        "alice",
        "cluster-admin",
        user("alice"),
    )
    .await?;
    let methods = [Method::GET, Method::PUT, Method::PATCH, Method::DELETE];
    for (_, kind) in kinds().iter() {
        let (api, resource) = (api(kind), &kind.resource);
        let wrong = match kind.namespaced() {
            true => format!("{api}/{resource}/x"),
            false => format!("{api}/namespaces/default/{resource}/x"),
        };
        for method in &methods {
            for path in [wrong.clone(), format!("/tenants/t1{wrong}")] {
                let answer = admin.send(method.clone(), &path, &[], "{").await?;
                // `namespaces/x/status` and similar paths are routes of their own.
                let known = [404, 403].contains(&answer.status);
                assert!(
                    known,
                    "{method} {path}: {} {}",
                    answer.status,
                    answer.text()
                );
                let answer = alice.send(method.clone(), &path, &[], "{").await?;
                assert!([403, 404].contains(&answer.status), "{method} {path}");
            }
        }
    }
    let volume = json!({"metadata": {"name": "pv"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/tmp"},
    }});
    create(&admin, "/api/v1/persistentvolumes", volume).await?;
    for path in [
        "/api/v1/namespaces/default/persistentvolumes",
        "/api/v1/namespaces/default/persistentvolumes/pv",
    ] {
        assert_eq!(admin.get(path).await?.status, 404, "{path}");
        assert!(
            [403, 404].contains(&alice.get(path).await?.status),
            "{path}"
        );
    }
    assert_eq!(alice.get("/api/v1/persistentvolumes/pv").await?.status, 403);
    Ok(())
}

/// Revisions are counted once for the whole server, so a tenant's resource versions grow with every
/// write. How far back a tenant can read must still depend on its own writes only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i08_writes_of_other_tenants_do_not_expire_a_tenants_revisions() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    for name in ["a", "b", "c"] {
        create(&one, MAPS, named(name)).await?;
    }
    let page = one.get(&format!("{MAPS}?limit=1")).await?.json();
    let token = page["metadata"]["continue"].as_str().unwrap_or("");
    let revision = page["metadata"]["resourceVersion"].as_str().unwrap_or("");
    // More writes than an event log holds.
    let loud = json!({"metadata": {"generateName": "loud-"}});
    for _ in 0..12 {
        let writes = (0..100).map(|_| create(&other, MAPS, loud.clone()));
        futures_util::future::try_join_all(writes).await?;
    }
    let rest = one.get(&format!("{MAPS}?continue={token}")).await?;
    assert_eq!(names(&rest.json()), ["b", "c"]);
    let now = one.get(&format!("{MAPS}?limit=1")).await?.json();
    assert_eq!(now["metadata"]["remainingItemCount"], 2, "{now}");
    assert_eq!(page["metadata"]["remainingItemCount"], 2, "{page}");
    create(&one, MAPS, named("d")).await?;
    let path = format!("{MAPS}?watch=true&resourceVersion={revision}");
    let mut watch = one.watch(&path).await?;
    let event = watch.next().await?.unwrap_or_default();
    assert_eq!(event["object"]["metadata"]["name"], "d", "{event}");
    Ok(())
}

#[tokio::test]
async fn i09_owner_references_do_not_cross_spaces() -> anyhow::Result<()> {
    let server = server_with(&[], true).await?;
    let (one, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let victim = create(&other, MAPS, named("x")).await?;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x",
        "uid": victim["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true});
    let mut owned = named("x");
    owned["metadata"]["ownerReferences"] = json!([owner]);
    owned["metadata"]["finalizers"] = json!(["x.io/y"]);
    create(&one, MAPS, owned).await?;
    // The owner does not exist in its own space: the dependent is deleted and waits for its
    // finalizer.
    let path = format!("{MAPS}/x");
    let begun = Instant::now();
    loop {
        let found = one.get(&path).await?.json();
        if found["metadata"]["deletionTimestamp"].is_string() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{found}");
        tokio::task::yield_now().await;
    }
    assert_eq!(other.get(&path).await?.json(), victim);
    // Deleting the owner in the other space does not wait for dependents outside that space.
    let options = json!({"propagationPolicy": "Foreground"}).to_string();
    let headers = [("content-type", "application/json")];
    let gone = other.send(Method::DELETE, &path, &headers, options).await?;
    assert_eq!(gone.status, 200, "{}", gone.text());
    other.until_gone(&path).await?;
    let left = one.get(&path).await?.json();
    assert_eq!(left["metadata"]["finalizers"], json!(["x.io/y"]));
    Ok(())
}

#[tokio::test]
async fn i10_setting_an_owner_requires_delete_permission() -> anyhow::Result<()> {
    let server = server_with(&["t1/alice"], false).await?;
    let admin = server.tenant("t1").await?;
    let alice = server.client("t1/alice").await?;
    let role = json!({"metadata": {"name": "some"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"],
         "verbs": ["create", "get", "update", "patch"]},
    ]});
    create(&admin, &format!("{RBAC}/clusterroles"), role).await?;
    bind(&admin, None, "some", "some", user("alice")).await?;
    let owner = create(&admin, MAPS, named("owner")).await?;
    let mut reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
        "uid": owner["metadata"]["uid"]});
    create(&alice, MAPS, named("x")).await?;
    let patch = json!({"metadata": {"ownerReferences": [reference]}});
    let refused = alice.patch(&format!("{MAPS}/x"), "merge", &patch).await?;
    assert_eq!(refused.status, 403, "{}", refused.text());
    reference["blockOwnerDeletion"] = true.into();
    let mut object = named("y");
    object["metadata"]["ownerReferences"] = json!([reference]);
    let refused = alice.post(MAPS, &object).await?;
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert_eq!(admin.post(MAPS, &object).await?.status, 201);
    Ok(())
}
