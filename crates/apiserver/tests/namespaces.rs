//! Namespaces as in Kubernetes: names, labels, finalizers and deletion.

use crate::fixtures::named;
use insula_testkit::server::{Client, TestServer};
use serde_json::{Value, json};

const NAMESPACES: &str = "/api/v1/namespaces";
const LABEL: &str = "kubernetes.io/metadata.name";

async fn create_namespace(client: &Client, namespace: Value) -> Value {
    let answer = client.post(NAMESPACES, &namespace).await;
    let answer = answer.expect("it answers");
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()
}

/// A system and a tenant client: both get the same responses.
async fn clients(server: &TestServer) -> [Client; 2] {
    [
        server.system().await.expect("it lets them in"),
        server.tenant("t1").await.expect("it lets them in"),
    ]
}

#[tokio::test]
async fn new_namespaces_are_active_with_the_kubernetes_finalizer() {
    let server = TestServer::start().await.unwrap();
    for client in clients(&server).await {
        let sent = json!({
            "metadata": {"name": "n1", "labels": {LABEL: "other", "a": "b"}},
            "spec": {"finalizers": ["ex.io/mine"]},
            "status": {"phase": "Terminating", "conditions": [{"type": "X", "status": "True"}]},
        });
        let namespace = create_namespace(&client, sent).await;
        assert_eq!(namespace["status"], json!({"phase": "Active"}));
        assert_eq!(
            namespace["metadata"]["labels"],
            json!({LABEL: "n1", "a": "b"})
        );
        assert_eq!(
            namespace["spec"]["finalizers"],
            json!(["ex.io/mine", "kubernetes"])
        );
        let generated =
            create_namespace(&client, json!({"metadata": {"generateName": "made-"}})).await;
        assert_eq!(
            generated["metadata"]["labels"][LABEL],
            generated["metadata"]["name"]
        );
        let twice = json!({"metadata": {"name": "n2"}, "spec": {"finalizers": ["kubernetes"]}});
        assert_eq!(
            create_namespace(&client, twice).await["spec"]["finalizers"],
            json!(["kubernetes"])
        );
    }
}

#[tokio::test]
async fn namespace_names_have_no_dots() {
    let server = TestServer::start().await.unwrap();
    for client in clients(&server).await {
        let refused = client.post(NAMESPACES, &named("a.b")).await.unwrap();
        assert_eq!(refused.status, 422);
        assert_eq!(
            refused.message(),
            "Namespace \"a.b\" is invalid: metadata.name: Invalid value: \"a.b\": must not \
             contain dots"
        );
    }
}

#[tokio::test]
async fn metadata_name_label_cannot_be_removed() {
    let server = TestServer::start().await.unwrap();
    for client in clients(&server).await {
        let mut namespace = create_namespace(&client, named("n1")).await;
        let path = format!("{NAMESPACES}/n1");
        namespace["metadata"]["labels"] = json!({LABEL: "other"});
        let put = client.put(&path, &namespace).await.unwrap();
        assert_eq!(
            put.json()["metadata"]["labels"],
            json!({LABEL: "n1"}),
            "{}",
            put.text()
        );
        for (format, patch) in [
            ("merge", json!({"metadata": {"labels": null}})),
            ("merge", json!({"metadata": {"labels": {LABEL: "x"}}})),
            (
                "strategic-merge",
                json!({"metadata": {"labels": {LABEL: null}}}),
            ),
            (
                "json",
                json!([{"op": "remove", "path": "/metadata/labels"}]),
            ),
        ] {
            let patched = client.patch(&path, format, &patch).await.unwrap();
            assert_eq!(patched.status, 200, "{}", patched.text());
            assert_eq!(
                patched.json()["metadata"]["labels"],
                json!({LABEL: "n1"}),
                "{patch}"
            );
        }
        let status = format!("{path}/status");
        let patched = client
            .patch(&status, "merge", &json!({"metadata": {"labels": null}}))
            .await
            .unwrap();
        assert_eq!(
            patched.json()["metadata"]["labels"][LABEL],
            "n1",
            "{}",
            patched.text()
        );
    }
}

#[tokio::test]
async fn only_finalize_changes_spec_finalizers() {
    let server = TestServer::start().await.unwrap();
    for client in clients(&server).await {
        let mut namespace = create_namespace(&client, named("n1")).await;
        let path = format!("{NAMESPACES}/n1");
        namespace["spec"]["finalizers"] = json!(["ex.io/mine"]);
        let put = client.put(&path, &namespace).await.unwrap();
        assert_eq!(
            put.json()["spec"]["finalizers"],
            json!(["kubernetes"]),
            "{}",
            put.text()
        );
        let finalize = format!("{path}/finalize");
        let asked = client.get(&finalize).await.unwrap();
        assert_eq!(asked.status, 405, "{}", asked.text());
        let wrong = json!({
            "metadata": {"name": "n1"},
            "spec": {"finalizers": ["kubernetes", "noslash"]},
        });
        let refused = client.put(&finalize, &wrong).await.unwrap();
        assert_eq!(refused.status, 422, "{}", refused.text());
        assert_eq!(
            refused.message(),
            "Namespace \"n1\" is invalid: spec.finalizers[1]: Invalid value: \"noslash\": name is \
             neither a standard finalizer name nor is it fully qualified"
        );
        let right = json!({
            "metadata": {"name": "n1"},
            "spec": {"finalizers": ["ex.io/mine", "kubernetes"]},
        });
        let finalized = client.put(&finalize, &right).await.unwrap();
        assert_eq!(finalized.status, 200, "{}", finalized.text());
        let finalizers = &finalized.json()["spec"]["finalizers"];
        assert_eq!(*finalizers, json!(["ex.io/mine", "kubernetes"]));
        assert_eq!(finalized.json()["kind"], "Namespace");
    }
}

#[tokio::test]
async fn namespace_is_removed_with_its_last_spec_finalizer() {
    let server = TestServer::start().await.unwrap();
    for client in clients(&server).await {
        create_namespace(&client, named("n1")).await;
        let path = format!("{NAMESPACES}/n1");
        let deleted = client.delete(&path).await.unwrap();
        assert_eq!(deleted.status, 200, "{}", deleted.text());
        let marked = deleted.json();
        assert_eq!(marked["kind"], "Namespace");
        assert_eq!(marked["status"]["phase"], "Terminating");
        assert!(marked["metadata"]["deletionTimestamp"].is_string());
        assert_eq!(
            marked["metadata"]["deletionGracePeriodSeconds"],
            Value::Null
        );
        let again = client.delete(&path).await.unwrap();
        assert_eq!((again.status, again.json()), (200, marked.clone()));
        let taken = client.post(NAMESPACES, &named("n1")).await.unwrap();
        assert_eq!(taken.status, 409);
        assert_eq!(
            taken.message(),
            "object is being deleted: namespaces \"n1\" already exists"
        );
        assert_eq!(taken.json()["reason"], "AlreadyExists");
        let last = json!({"metadata": {"name": "n1"}, "spec": {"finalizers": []}});
        let finalized = client
            .put(&format!("{path}/finalize"), &last)
            .await
            .unwrap();
        assert_eq!(finalized.status, 200, "{}", finalized.text());
        assert_eq!(finalized.json()["kind"], "Namespace");
        assert_eq!(
            finalized.json()["metadata"]["uid"],
            marked["metadata"]["uid"]
        );
        assert_eq!(client.get(&path).await.unwrap().status, 404);
    }
}

#[tokio::test]
async fn metadata_finalizers_also_delay_removal() {
    let server = TestServer::start().await.unwrap();
    for client in clients(&server).await {
        create_namespace(
            &client,
            json!({"metadata": {"name": "n1", "finalizers": ["ex.io/x"]}}),
        )
        .await;
        let path = format!("{NAMESPACES}/n1");
        client.delete(&path).await.unwrap();
        let last = json!({
            "metadata": {"name": "n1", "finalizers": ["ex.io/x"]},
            "spec": {"finalizers": []},
        });
        let finalized = client
            .put(&format!("{path}/finalize"), &last)
            .await
            .unwrap();
        assert_eq!(finalized.status, 200, "{}", finalized.text());
        assert_eq!(client.get(&path).await.unwrap().status, 200);
        let patch = json!({"metadata": {"finalizers": null}});
        assert_eq!(
            client.patch(&path, "merge", &patch).await.unwrap().status,
            200
        );
        assert_eq!(client.get(&path).await.unwrap().status, 404);
    }
}

#[tokio::test]
async fn namespace_without_finalizers_is_removed_at_once() {
    let server = TestServer::start().await.unwrap();
    for client in clients(&server).await {
        create_namespace(&client, named("n1")).await;
        let path = format!("{NAMESPACES}/n1");
        let none = json!({"metadata": {"name": "n1"}, "spec": {"finalizers": []}});
        let finalized = client
            .put(&format!("{path}/finalize"), &none)
            .await
            .unwrap();
        assert_eq!(finalized.status, 200, "{}", finalized.text());
        assert_eq!(
            client.get(&path).await.unwrap().status,
            200,
            "it must not be deleted"
        );
        let deleted = client.delete(&path).await.unwrap();
        assert_eq!(deleted.status, 200, "{}", deleted.text());
        assert_eq!(client.get(&path).await.unwrap().status, 404);
    }
}

#[tokio::test]
async fn dry_run_delete_changes_nothing() {
    let server = TestServer::start().await.unwrap();
    for client in clients(&server).await {
        create_namespace(&client, named("n1")).await;
        let path = format!("{NAMESPACES}/n1");
        let shown = client.delete(&format!("{path}?dryRun=All")).await.unwrap();
        assert_eq!(
            shown.json()["status"]["phase"],
            "Terminating",
            "{}",
            shown.text()
        );
        let is = client.get(&path).await.unwrap().json();
        assert_eq!(is["status"]["phase"], "Active");
        assert_eq!(is["metadata"]["deletionTimestamp"], Value::Null);
    }
}

#[tokio::test]
async fn namespaces_have_no_delete_collection() {
    let server = TestServer::start().await.unwrap();
    for client in clients(&server).await {
        let refused = client.delete(NAMESPACES).await.unwrap();
        assert_eq!(refused.status, 405, "{}", refused.text());
        assert_eq!(
            refused.message(),
            "the server does not allow this method on the requested resource"
        );
    }
}

#[tokio::test]
async fn phase_follows_the_deletion_timestamp() {
    let server = TestServer::start().await.unwrap();
    for client in clients(&server).await {
        create_namespace(&client, named("n1")).await;
        let status = format!("{NAMESPACES}/n1/status");
        let patch = json!({"status": {"phase": "Bogus"}});
        let refused = client.patch(&status, "merge", &patch).await.unwrap();
        assert_eq!(refused.status, 422);
        assert_eq!(
            refused.message(),
            "Namespace \"n1\" is invalid: status.Phase: Invalid value: \"Bogus\": may only be \
             'Active' if `deletionTimestamp` is empty"
        );
        client.delete(&format!("{NAMESPACES}/n1")).await.unwrap();
        let patch = json!({"status": {"phase": "Active"}});
        let refused = client.patch(&status, "merge", &patch).await.unwrap();
        assert_eq!(refused.status, 422);
        assert_eq!(
            refused.message(),
            "Namespace \"n1\" is invalid: status.Phase: Invalid value: \"Active\": may only be \
             'Terminating' if `deletionTimestamp` is not empty"
        );
    }
}
