//! The status and scale subresources.

use insula_testkit::server::{Client, TestServer};
use serde_json::{Value, json};

use super::samples::{create, foo_path, foos_with_all};
use super::{FOOS, foo, foos};

async fn start_with_subresources(server: &TestServer) -> anyhow::Result<Client> {
    let client = server.tenant("t1").await?;
    client.define(&foos_with_all()).await?;
    Ok(client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_is_written_separately() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = start_with_subresources(&server).await?;
    let mut sent = foo("a", json!({"replicas": 1}));
    sent["status"] = json!({"phase": "x"});
    let created = create(&client, FOOS, &sent).await?;
    assert_eq!(created["status"], Value::Null);
    let status = format!("{}/status", foo_path("a"));
    let patched = client
        .patch(&foo_path("a"), "merge", &json!({"status": {"phase": "x"}}))
        .await?;
    assert_eq!(
        patched.json(),
        created,
        "the object's own path leaves the status alone"
    );
    let mut whole = created.clone();
    whole["status"] = json!({"phase": "y"});
    whole["spec"] = json!({"size": 99});
    whole["metadata"]["labels"] = json!({"a": "b"});
    whole["metadata"]["annotations"] = json!({"a": "b"});
    whole["metadata"]["finalizers"] = json!(["ex.io/f"]);
    let put = client.put(&status, &whole).await?;
    assert_eq!(put.status, 200, "{}", put.text());
    let mut expected = created.clone();
    expected["status"] = json!({"phase": "y"});
    for changed in ["resourceVersion", "managedFields"] {
        expected["metadata"][changed] = put.json()["metadata"][changed].clone();
    }
    assert_eq!(put.json(), expected);
    assert_eq!(client.get(&status).await?.json(), expected);
    let patch =
        json!({"status": {"more": 1}, "spec": {"size": 7}, "metadata": {"labels": {"q": "r"}}});
    let patched = client.patch(&status, "merge", &patch).await?.json();
    assert_eq!(patched["status"], json!({"phase": "y", "more": 1}));
    assert_eq!(patched["spec"], created["spec"]);
    assert_eq!(patched["metadata"]["labels"], Value::Null);
    assert_eq!(patched["metadata"]["generation"], 1);
    for (method, code) in [("POST", 405), ("DELETE", 405)] {
        let answer = client.send(method.parse()?, &status, &[], "").await?;
        assert_eq!(answer.status, code, "{method}");
    }
    let mut old = created;
    old["status"] = json!({"phase": "z"});
    assert_eq!(client.put(&status, &old).await?.status, 409);
    Ok(())
}

/// A status update is not refused for invalid fields outside the status.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_update_validates_the_status_only() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let mut definition = foos_with_all();
    let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["status"] = json!({"type": "object", "properties": {
        "n": {"type": "integer"}, "replicas": {"type": "integer"}, "selector": {"type": "string"},
    }});
    client.define(&definition).await?;
    create(&client, FOOS, &foo("a", json!({}))).await?;
    // The changed schema requires a field that the spec lacks.
    let path = format!("{}/foos.ex.io", insula_testkit::server::DEFINITIONS);
    let require = json!([{
        "op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/required",
        "value": ["color"],
    }]);
    assert_eq!(client.patch(&path, "json", &require).await?.status, 200);
    let status = format!("{}/status", foo_path("a"));
    let patched = client
        .patch(&status, "merge", &json!({"status": {"n": 1}}))
        .await?;
    assert_eq!(patched.status, 200, "{}", patched.text());
    let refused = client
        .patch(&status, "merge", &json!({"status": {"n": "x"}}))
        .await?;
    assert_eq!(refused.status, 422);
    assert_eq!(
        refused.message(),
        "Foo.ex.io \"a\" is invalid: status.n: Invalid value: \"string\": n in body must be of \
         type integer: \"string\""
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undeclared_subresources_are_not_served() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    client.define(&foos()).await?;
    create(&client, FOOS, &foo("a", json!({}))).await?;
    for below in ["status", "scale", "finalize", "log", "exec", "proxy", "x"] {
        for method in ["GET", "PUT", "PATCH", "POST", "DELETE"] {
            let path = format!("{}/{below}", foo_path("a"));
            let answer = client.send(method.parse()?, &path, &[], "{}").await?;
            assert_eq!(answer.status, 404, "{method} {below}: {}", answer.text());
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scale_can_be_read_and_written() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = start_with_subresources(&server).await?;
    let created = create(&client, FOOS, &foo("a", json!({"replicas": 2}))).await?;
    let status = json!({"status": {"replicas": 1, "selector": "a=b"}});
    let with_status = client
        .patch(&format!("{}/status", foo_path("a")), "merge", &status)
        .await?;
    assert_eq!(with_status.status, 200, "{}", with_status.text());
    let scale = format!("{}/scale", foo_path("a"));
    let read = client.get(&scale).await?.json();
    assert_eq!(
        read,
        json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {
                "name": "a", "namespace": "default",
                "uid": created["metadata"]["uid"],
                "resourceVersion": with_status.json()["metadata"]["resourceVersion"],
                "creationTimestamp": created["metadata"]["creationTimestamp"],
            },
            "spec": {"replicas": 2},
            "status": {"replicas": 1, "selector": "a=b"},
        })
    );
    // A resourceVersion is optional, and checked if present.
    let put = client
        .put(&scale, &json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 5}}))
        .await?;
    assert_eq!(put.status, 200, "{}", put.text());
    assert_eq!(put.json()["spec"], json!({"replicas": 5}));
    assert_eq!(client.put(&scale, &read).await?.status, 409);
    let patched = client
        .patch(&scale, "merge", &json!({"spec": {"replicas": 6}}))
        .await?;
    assert_eq!(
        patched.json()["spec"],
        json!({"replicas": 6}),
        "{}",
        patched.text()
    );
    let object = client.get(&foo_path("a")).await?.json();
    assert_eq!(object["spec"]["replicas"], 6);
    assert_eq!(object["metadata"]["generation"], 3);
    // Only the replica count of a scale is applied.
    let more = json!({"spec": {"replicas": 7}, "status": {"replicas": 9}, "metadata": {"labels": {"x": "y"}}});
    assert_eq!(client.patch(&scale, "merge", &more).await?.status, 200);
    let object = client.get(&foo_path("a")).await?.json();
    assert_eq!(object["status"]["replicas"], 1);
    assert_eq!(object["metadata"]["labels"], Value::Null);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_scales_are_refused() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = start_with_subresources(&server).await?;
    create(&client, FOOS, &foo("none", json!({}))).await?;
    create(&client, FOOS, &foo("a", json!({"replicas": 2}))).await?;
    let scale = |name: &str| format!("{}/scale", foo_path(name));
    let missing = client.get(&scale("none")).await?;
    assert_eq!(missing.status, 500);
    assert_eq!(
        missing.message(),
        "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist"
    );
    assert_eq!(
        client.get(&scale("b")).await?.message(),
        "foos.ex.io \"b\" not found"
    );
    let without_status = client.get(&scale("a")).await?.json();
    assert_eq!(without_status["status"], json!({"replicas": 0}));
    let strategic = client
        .patch(
            &scale("a"),
            "strategic-merge",
            &json!({"spec": {"replicas": 3}}),
        )
        .await?;
    assert_eq!(strategic.status, 415);
    assert_eq!(
        strategic.message(),
        "the body of the request was in an unknown format - accepted media types include: \
         application/json-patch+json, application/merge-patch+json, \
         application/apply-patch+yaml, application/apply-patch+cbor"
    );
    assert_eq!(client.get(&scale("a")).await?.json()["spec"]["replicas"], 2);
    let negative = client
        .patch(&scale("a"), "merge", &json!({"spec": {"replicas": -5}}))
        .await?;
    assert_eq!(negative.status, 422);
    assert_eq!(
        negative.message(),
        "Foo.ex.io \"a\" is invalid: .spec.replicas: Invalid value: -5: should be a non-negative \
         integer"
    );
    let negative = client
        .post(FOOS, &foo("c", json!({"replicas": -5})))
        .await?;
    assert_eq!(
        negative.message(),
        "Foo.ex.io \"c\" is invalid: .spec.replicas: Invalid value: -5: should be a non-negative \
         integer"
    );
    let other = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "b"}, "spec": {"replicas": 1}});
    let refused = client.put(&scale("a"), &other).await?;
    assert_eq!(
        (refused.status, refused.message()),
        (
            400,
            "the name of the object (b) does not match the name on the URL (a)".to_owned()
        )
    );
    let mut wrong = other;
    wrong["metadata"]["name"] = "a".into();
    wrong["kind"] = "Foo".into();
    assert_eq!(client.put(&scale("a"), &wrong).await?.status, 400);
    Ok(())
}
