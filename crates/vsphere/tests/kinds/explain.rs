//! Explanations of credentials for callers with few rights and with many.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_operator::provider::explain::{self, CredentialReport, Error, Inspect};
use insula_operator::provider::users::{self, Users};
use insula_testkit::server::{Client, TestServer, bindings, subject};
use insula_vsphere::inspect::VSphere;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::scene::{Scene, object, path};

const CLUSTER: &str = "VSphereCluster";

async fn report(
    client: &kube::Client,
    kind: &'static str,
    namespace: &str,
    name: &str,
) -> Result<CredentialReport, Error> {
    explain::report(client, &VSphere, kind, namespace, name).await
}

async fn list_users(client: &kube::Client, name: &str) -> Result<Users, Error> {
    let identities = VSphere.identities().expect("it has identities");
    users::list(client, &VSphere, identities, name).await
}

async fn connect(server: &TestServer, token: &str) -> anyhow::Result<kube::Client> {
    let ca = STANDARD.encode(server.authority().certificate_pem());
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {
            "server": server.url(), "certificate-authority-data": ca,
        }}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }))?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(kube::Client::try_from(config)?)
}

async fn post(client: &Client, path: &str, object: &Value) -> anyhow::Result<()> {
    let made = client.post(path, object).await?;
    anyhow::ensure!(made.status == 201, "{path}: {}", made.text());
    Ok(())
}

/// Asserts that a text equals its golden file; `UPDATE_GOLDEN=1` writes the file.
fn is_as_reviewed(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let file = folder.join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&file, text).unwrap();
    }
    let reviewed = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(text, reviewed, "{name}");
}

/// Returns the path of a namespaced kind in a namespace other than `default`.
fn within(plural: &str, namespace: &str) -> String {
    path(plural).replace("/default/", &format!("/{namespace}/"))
}

/// Creates two teams, one of which may use the shared account, and their clusters.
async fn create_teams(client: &Client) -> anyhow::Result<()> {
    for (name, labels) in [("red", json!({"team": "a"})), ("grey", json!({}))] {
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        post(client, "/api/v1/namespaces", &namespace).await?;
    }
    let secret = |name: &str| json!({"metadata": {"name": name}, "stringData": {"username": "u", "password": "hunter2"}});
    post(
        client,
        "/api/v1/namespaces/capv-system/secrets",
        &secret("s"),
    )
    .await?;
    post(client, "/api/v1/namespaces/red/secrets", &secret("own")).await?;
    let identities = "vsphereclusteridentities";
    for (name, more) in [
        ("shared", json!([{"address": "v.example"}])),
        ("open", json!(null)),
    ] {
        let mut spec = json!({"secretName": "s", "allowedNamespaces": {"selector": {"matchLabels": {"team": "a"}}}});
        if !more.is_null() {
            spec["allowedServers"] = more;
        }
        post(client, &path(identities), &object(identities, name, &spec)).await?;
        let status = json!({"status": {"ready": true}});
        let one = format!("{}/{name}/status", path(identities));
        client.patch(&one, "merge", &status).await?;
    }
    let identity = |name: &str| json!({"kind": "VSphereClusterIdentity", "name": name});
    for (namespace, name, server, reference) in [
        ("red", "prod", "v.example", identity("shared")),
        ("red", "open", "v.example", identity("open")),
        ("red", "evil", "evil.example", identity("shared")),
        ("red", "typo", "v.example", identity("nope")),
        (
            "red",
            "own",
            "v.example",
            json!({"kind": "Secret", "name": "own"}),
        ),
        ("red", "none", "v.example", json!(null)),
        ("grey", "prod", "v.example", identity("shared")),
    ] {
        let plural = "vsphereclusters";
        let spec = json!({"server": server, "identityRef": reference});
        post(
            client,
            &within(plural, namespace),
            &object(plural, name, &spec),
        )
        .await?;
    }
    let zone =
        json!({"server": "v.example", "failureDomain": "f", "identityRef": identity("shared")});
    let zones = "vspheredeploymentzones";
    post(client, &path(zones), &object(zones, "z", &zone)).await?;
    let stray = json!({"template": "t", "network": {"devices": []}});
    let machines = "vspheremachines";
    post(
        client,
        &within(machines, "red"),
        &object(machines, "stray", &stray),
    )
    .await
}

#[tokio::test]
async fn cr1_explain_shows_an_administrator_every_step() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    create_teams(&scene.acme).await?;
    let client = connect(&scene.server, "acme").await?;
    let mut transcript = String::new();
    for (kind, namespace, name, granted) in [
        (CLUSTER, "red", "prod", true),
        (CLUSTER, "red", "open", true),
        (CLUSTER, "red", "evil", false),
        (CLUSTER, "red", "typo", false),
        (CLUSTER, "red", "own", true),
        (CLUSTER, "red", "none", true),
        (CLUSTER, "grey", "prod", false),
        ("VSphereDeploymentZone", "", "z", true),
        ("VSphereMachine", "red", "stray", false),
    ] {
        let found = report(&client, kind, namespace, name).await?;
        assert_eq!(found.is_granted(), granted, "{found}");
        transcript += &format!("{found}\n");
    }
    assert!(!transcript.contains("hunter2"), "{transcript}");
    is_as_reviewed("explain-administrator.txt", &transcript);
    let missing = report(&client, CLUSTER, "red", "gone").await;
    assert_eq!(
        missing.unwrap_err().to_string(),
        "there is no VSphereCluster red/gone"
    );
    Ok(())
}

#[tokio::test]
async fn s2_explain_shows_a_team_what_it_may_not_read() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    create_teams(&scene.acme).await?;
    scene
        .acme
        .bind("viewers", "User:dev", "capv-viewer")
        .await?;
    let binding = json!({
        "metadata": {"name": "dev"},
        "subjects": [subject("User:dev")],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "capv-workload-cluster-operator"},
    });
    post(&scene.acme, &bindings("red"), &binding).await?;
    let client = connect(&scene.server, "acme-dev").await?;
    let mut transcript = String::new();
    let mut ask = async |namespace: &str, granted: bool| {
        let found = report(&client, CLUSTER, namespace, "prod").await?;
        assert_eq!(found.is_granted(), granted, "{found}");
        transcript += &format!("{found}\n");
        anyhow::Ok(())
    };
    ask("red", true).await?;
    // The operator's condition overrides the explanation.
    let condition = json!({"type": "VCenterAvailable", "status": "False", "reason": "SecretNotAvailable",
        "message": "its Secret is not there", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let one = format!("{}/prod/status", within("vsphereclusters", "red"));
    let status = json!({"status": {"conditions": [condition]}});
    scene.acme.patch(&one, "merge", &status).await?;
    ask("red", false).await?;
    // Not even the labels of another team's namespace are readable.
    ask("grey", false).await?;
    is_as_reviewed("explain-team.txt", &transcript);
    let found = list_users(&client, "shared").await?;
    assert_eq!(found.not_read, ["Namespaces"]);
    assert_eq!(found.users.len(), 4);
    Ok(())
}

#[tokio::test]
async fn c8_users_of_an_identity_and_allowed_namespaces_are_listed() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    create_teams(&scene.acme).await?;
    let client = connect(&scene.server, "acme").await?;
    let found = list_users(&client, "shared").await?;
    let users: Vec<_> = found
        .users
        .iter()
        .map(|user| {
            let namespace = user.namespace.as_deref().unwrap_or("-");
            format!("{} {namespace} {} {}", user.kind, user.name, user.available)
        })
        .collect();
    let expected = [
        "VSphereCluster red evil false",
        "VSphereCluster red prod false",
        "VSphereDeploymentZone - z false",
    ];
    assert_eq!(users, expected);
    let refused: Vec<_> = found.refused.iter().map(|user| &*user.name).collect();
    assert_eq!(refused, ["prod"]);
    assert_eq!(found.refused[0].namespace.as_deref(), Some("grey"));
    assert_eq!(found.allowed_namespaces, ["red"]);
    assert_eq!((found.trouble, found.not_read), (None, vec![]));
    // Objects of the same names in another space do not matter.
    let system = connect(&scene.server, "system").await?;
    let missing = list_users(&system, "shared").await.unwrap_err();
    assert_eq!(
        missing.to_string(),
        "there is no VSphereClusterIdentity shared"
    );
    Ok(())
}
