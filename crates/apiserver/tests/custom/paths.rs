//! Custom kinds named like built-in resources or path segments.

use insula_testkit::server::{Client, TestServer, definition};
use serde_json::{Value, json};

use super::foo;
use super::samples::{create, names};

/// A definition of `tenants.ex.io` with all subresources.
fn tenants(scope: &str) -> Value {
    let mut definition = super::samples::foos_with_all();
    definition["metadata"]["name"] = "tenants.ex.io".into();
    definition["spec"]["scope"] = scope.into();
    definition["spec"]["names"] = json!({"plural": "tenants", "kind": "Tenant"});
    definition
}

fn tenant(name: &str) -> Value {
    let mut object = foo(name, json!({"replicas": 2}));
    object["kind"] = "Tenant".into();
    object
}

/// Exercises every path of an object `x`, in each spelling of the space.
async fn exercise_all_paths(client: &Client, space: &str, below: &str) -> anyhow::Result<()> {
    let full = format!("/apis/ex.io/v1/tenants/{space}/{below}");
    for path in [
        format!("/apis/ex.io/v1/{below}"),
        full.clone(),
        format!("/tenants/{space}/apis/ex.io/v1/{below}"),
        format!("/tenants/{space}{full}"),
    ] {
        let list = client.get(&path).await?;
        assert_eq!(list.json()["kind"], "TenantList", "{path}: {}", list.text());
        assert_eq!(names(&list.json()), ["x"], "{path}");
        let read = client.get(&format!("{path}/x")).await?.json();
        assert_eq!(
            (&read["kind"], &read["apiVersion"]),
            (&json!("Tenant"), &json!("ex.io/v1")),
            "{path}"
        );
        assert_eq!(read["spec"]["replicas"], 2, "{path}: {read}");
        let status = client.get(&format!("{path}/x/status")).await?.json();
        assert_eq!(status, read, "{path}");
        let scale = client.get(&format!("{path}/x/scale")).await?.json();
        assert_eq!(scale["spec"], json!({"replicas": 2}), "{path}: {scale}");
        let patch = json!({"status": {"replicas": 1}});
        let patched = client
            .patch(&format!("{path}/x/status"), "merge", &patch)
            .await?;
        assert_eq!(patched.status, 200, "{path}: {}", patched.text());
        let patch = json!({"spec": {"replicas": 2}});
        let scaled = client
            .patch(&format!("{path}/x/scale"), "merge", &patch)
            .await?;
        assert_eq!(scaled.status, 200, "{path}: {}", scaled.text());
        let created = client.post(&path, &tenant("y")).await?;
        assert_eq!(created.status, 201, "{path}: {}", created.text());
        let gone = client.delete(&format!("{path}/y")).await?;
        assert_eq!(gone.status, 200, "{path}: {}", gone.text());
        let mut watch = client
            .watch(&format!("{path}?watch=true&resourceVersion=0"))
            .await?;
        let event = watch.next().await?.unwrap_or_default();
        assert_eq!(event["object"]["metadata"]["name"], "x", "{path}: {event}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn custom_kind_can_be_named_tenants_in_either_scope() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (one, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    one.define(&tenants("Cluster")).await?;
    other.define(&tenants("Namespaced")).await?;
    system.define(&tenants("Cluster")).await?;
    create(&one, "/apis/ex.io/v1/tenants", &tenant("x")).await?;
    create(
        &other,
        "/apis/ex.io/v1/namespaces/default/tenants",
        &tenant("x"),
    )
    .await?;
    create(&system, "/apis/ex.io/v1/tenants", &tenant("x")).await?;
    exercise_all_paths(&one, "t1", "tenants").await?;
    exercise_all_paths(&other, "t2", "namespaces/default/tenants").await?;
    exercise_all_paths(&system, "system", "tenants").await?;
    // Checklist line I-06: the scope of the path must match the scope of the kind.
    for (client, path) in [
        (&one, "/apis/ex.io/v1/namespaces/default/tenants"),
        (&one, "/apis/ex.io/v1/namespaces/default/tenants/x"),
        (&one, "/apis/ex.io/v1/namespaces/default/tenants/x/status"),
        (&other, "/apis/ex.io/v1/tenants/x"),
        (&other, "/apis/ex.io/v1/tenants/x/status"),
        (&other, "/apis/ex.io/v1/tenants/x/scale"),
    ] {
        for method in ["GET", "PUT", "PATCH", "DELETE"] {
            let answer = client.send(method.parse()?, path, &[], "{}").await?;
            let wanted = [404, 405];
            assert!(
                wanted.contains(&answer.status),
                "{method} {path}: {}",
                answer.text()
            );
        }
        assert_eq!(client.get(path).await?.status, 404, "{path}");
    }
    // Across all namespaces objects are only listed.
    for method in ["POST", "PATCH", "DELETE", "PUT"] {
        let path = "/apis/ex.io/v1/tenants";
        let answer = other.send(method.parse()?, path, &[], "{}").await?;
        assert_eq!(answer.status, 404, "{method}: {}", answer.text());
    }
    assert_eq!(
        names(&other.get("/apis/ex.io/v1/tenants").await?.json()),
        ["x"]
    );
    let keys = server.keys().await?;
    let mut keys: Vec<_> = keys
        .iter()
        .filter(|key| key.contains("/ex.io/tenants/"))
        .collect();
    keys.sort();
    assert_eq!(
        keys,
        [
            "/registry/ex.io/tenants/t1/x",
            "/registry/ex.io/tenants/t2/default/x",
            "/registry/ex.io/tenants/x",
        ]
    );
    // The built-in tenants are unaffected.
    let found = system.get("/api/v1/tenants").await?.json();
    assert_eq!(names(&found), ["system", "t1", "t2"]);
    assert_eq!(one.get("/api/v1/tenants").await?.status, 403);
    Ok(())
}

/// Built-in kinds with special rules, by resource and kind name.
const NAMESAKES: &[(&str, &str)] = &[
    ("bindings", "Binding"),
    ("clusterroles", "ClusterRole"),
    ("configmaps", "ConfigMap"),
    ("deployments", "Deployment"),
    ("events", "Event"),
    ("jobs", "Job"),
    ("limitranges", "LimitRange"),
    ("namespaces", "Namespace"),
    ("nodes", "Node"),
    ("pods", "Pod"),
    ("priorityclasses", "PriorityClass"),
    ("resourceslices", "ResourceSlice"),
    ("secrets", "Secret"),
    ("selfsubjectreviews", "SelfSubjectReview"),
    ("serviceaccounts", "ServiceAccount"),
    ("services", "Service"),
    ("statuses", "Status"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn custom_kinds_named_like_built_in_kinds_get_no_special_rules() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    for (plural, kind) in NAMESAKES {
        let mut definition = definition("ex.io", plural, kind, free.clone());
        let version = &mut definition["spec"]["versions"][0];
        version["subresources"] = json!({
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        });
        client.define(&definition).await?;
        let path = format!("/apis/ex.io/v1/namespaces/default/{plural}");
        let mut object = foo(
            "x",
            json!({"replicas": 1, "finalizers": ["f"], "stringData": {"a": "b"}}),
        );
        object["kind"] = (*kind).into();
        let created = client.post(&path, &object).await?;
        assert_eq!(created.status, 201, "{kind}: {}", created.text());
        let created = created.json();
        assert_eq!(created["spec"], object["spec"], "{kind}");
        assert_eq!(created["status"], Value::Null, "{kind}");
        assert_eq!(created["metadata"]["generation"], 1, "{kind}");
        assert_eq!(created["metadata"]["finalizers"], Value::Null, "{kind}");
        let one = format!("{path}/x");
        assert_eq!(client.get(&one).await?.json(), created, "{kind}");
        // Label and annotation changes do not increase the generation.
        let patch = json!({"metadata": {"annotations": {"a": "b"}, "labels": {"a": "b"}}});
        let patched = client.patch(&one, "merge", &patch).await?.json();
        assert_eq!(patched["metadata"]["generation"], 1, "{kind}");
        let patched = client
            .patch(&one, "merge", &json!({"spec": {"b": 1}}))
            .await?
            .json();
        assert_eq!(patched["metadata"]["generation"], 2, "{kind}");
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let shown = client.accept(&path, table).await?.json();
        let columns = shown["columnDefinitions"].as_array().map_or(0, Vec::len);
        assert_eq!(
            (columns, shown["columnDefinitions"][1]["name"].as_str()),
            (2, Some("Age")),
            "{kind}"
        );
        assert_eq!(shown["rows"][0]["cells"][0], "x", "{kind}");
        for field in ["spec.nodeName", "name", "status.phase", "type", "reason"] {
            let refused = client
                .get(&format!("{path}?fieldSelector={field}%3Dx"))
                .await?;
            assert_eq!(
                refused.message(),
                format!("field label not supported: {field}"),
                "{kind}"
            );
        }
        for below in [
            "binding", "eviction", "token", "log", "exec", "finalize", "approval",
        ] {
            let answer = client.post(&format!("{one}/{below}"), &json!({})).await?;
            assert_eq!(answer.status, 404, "{kind} {below}: {}", answer.text());
        }
        let mut nameless = object.clone();
        nameless["metadata"] = json!({});
        let refused = client.post(&path, &nameless).await?;
        assert_eq!(
            refused.message(),
            format!(
                "{kind}.ex.io \"\" is invalid: metadata.name: Required value: name or generateName is required"
            ),
        );
        let grace = client
            .delete(&format!("{one}?gracePeriodSeconds=100"))
            .await?;
        assert_eq!(grace.status, 200, "{kind}");
        assert_eq!(client.get(&one).await?.status, 404, "{kind}");
    }
    Ok(())
}

/// In a path, `namespaces` is a namespace, even if a custom kind has that name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn custom_kind_can_be_named_namespaces() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let mut definition = super::samples::foos_with_all();
    definition["metadata"]["name"] = "namespaces.ex.io".into();
    definition["spec"]["scope"] = "Cluster".into();
    definition["spec"]["names"] = json!({"plural": "namespaces", "kind": "Namespace"});
    client.define(&definition).await?;
    let mut object = foo("default", json!({"replicas": 1}));
    object["kind"] = "Namespace".into();
    create(&client, "/apis/ex.io/v1/namespaces", &object).await?;
    let read = client.get("/apis/ex.io/v1/namespaces/default").await?;
    assert_eq!(read.json()["kind"], "Namespace", "{}", read.text());
    // The custom object has no content to wait for, and deleting it touches nothing in the
    // namespace `default`.
    let map = json!({"metadata": {"name": "m"}});
    create(&client, "/api/v1/namespaces/default/configmaps", &map).await?;
    assert_eq!(
        client
            .delete("/apis/ex.io/v1/namespaces/default")
            .await?
            .status,
        200
    );
    assert_eq!(
        client
            .get("/apis/ex.io/v1/namespaces/default")
            .await?
            .status,
        404
    );
    assert_eq!(
        client
            .get("/api/v1/namespaces/default/configmaps/m")
            .await?
            .status,
        200
    );
    assert_eq!(client.get("/api/v1/namespaces/default").await?.status, 200);
    Ok(())
}
