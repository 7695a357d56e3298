//! A tenant's operator: its rights, its settings, and definitions that are too old.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use insula_azure::table;
use insula_testkit::server::definition;
use serde_json::{Value, json};

use crate::process::{Process, output};
use crate::scene::{Admission, Scene};

const ENVIRONMENT: [(&str, &str); 3] = [
    ("POD_NAMESPACE", "acme-system"),
    ("AZURE_OPERATOR_MODE", "watchers"),
    ("AZURE_TARGET_NAMESPACES", "a1"),
];
const GROUP: &str = "resources.azure.com";
const SECRET: &str = "11111111-hidden-secret";

fn settings(pairs: &[(&str, &str)]) -> Value {
    let data = pairs.iter().map(|(key, value)| {
        let value = BASE64_STANDARD.encode(value);
        ((*key).to_owned(), Value::from(value))
    });
    let data: serde_json::Map<_, _> = data.collect();
    json!({"metadata": {"name": "azureoperatorsettings"}, "data": data})
}

/// Returns the path of resource groups in the version that is stored, which nothing converts.
fn groups(namespace: &str) -> String {
    let kind = table::find(GROUP, "ResourceGroup").unwrap();
    let version = kind.storage_version();
    format!("/apis/{GROUP}/{version}/namespaces/{namespace}/resourcegroups")
}

fn group() -> Value {
    let kind = table::find(GROUP, "ResourceGroup").unwrap();
    json!({
        "apiVersion": format!("{GROUP}/{}", kind.storage_version()), "kind": "ResourceGroup",
        "metadata": {"name": "g"}, "spec": {"location": "westeurope", "azureName": "g"},
    })
}

#[tokio::test]
async fn r13_tenants_operator_works_without_any_forbidden_request() {
    let scene = Scene::installed(Admission::Without).await;
    let kubeconfig = scene.account("acme-system").await;
    for namespace in ["a1", "b1"] {
        let made = scene
            .system
            .post(&groups(namespace), &group())
            .await
            .unwrap();
        assert_eq!(made.status, 201, "{}", made.text());
    }
    let operator = Process::start(&kubeconfig, &[], &ENVIRONMENT);
    let path = format!("{}/g", groups("a1"));
    let read = async || scene.system.get(&path).await.unwrap().json();
    let has_ready = async || read().await["status"]["conditions"][0]["type"].is_string();
    operator
        .until("the object has a condition", has_ready)
        .await;
    let found = read().await;
    let annotations = &found["metadata"]["annotations"];
    assert_eq!(
        annotations["azure.microsoft.com/operator-namespace"],
        "acme-system"
    );
    assert_eq!(
        found["status"]["conditions"][0]["status"], "False",
        "{found}"
    );
    let requests = scene.requests("acme-system");
    let forbidden: Vec<_> = requests.iter().filter(|it| it.code == 403).collect();
    assert!(forbidden.is_empty(), "{forbidden:?}");
    let namespaces: BTreeSet<_> = requests.iter().map(|it| it.namespace.as_str()).collect();
    assert_eq!(namespaces, BTreeSet::from(["", "a1", "acme-system"]));
    // Without a namespace there is discovery, and the question which rights there are.
    let wide = requests.iter().filter(|it| it.namespace.is_empty());
    let wide: BTreeSet<_> = wide.map(|it| it.resource.as_str()).collect();
    assert_eq!(wide, BTreeSet::from(["", "selfsubjectaccessreviews"]));
    let other = scene
        .system
        .get(&format!("{}/g", groups("b1")))
        .await
        .unwrap();
    assert_eq!(other.json()["metadata"]["annotations"], Value::Null);
    assert_eq!(operator.stop(), Some(0));
}

#[tokio::test]
async fn r02_operator_starts_anew_with_changed_settings_and_keeps_valid_ones() {
    let scene = Scene::installed(Admission::Without).await;
    let kubeconfig = scene.account("acme-system").await;
    let operator = Process::start(&kubeconfig, &[], &ENVIRONMENT);
    operator.until_logged("operator configured").await;
    assert!(
        operator.log().contains("credential=none"),
        "{}",
        operator.log()
    );
    let secrets = "/api/v1/namespaces/acme-system/secrets";
    let valid = [
        ("AZURE_SUBSCRIPTION_ID", "s"),
        ("AZURE_TENANT_ID", "t"),
        ("AZURE_CLIENT_ID", "c"),
        ("AZURE_CLIENT_SECRET", SECRET),
    ];
    scene.system.post(secrets, &settings(&valid)).await.unwrap();
    operator.until_logged("settings changed").await;
    operator
        .until_logged("credential=client-secret subscription=s")
        .await;
    let started = || operator.log().matches("operator configured").count();
    operator
        .until("it starts anew", async || started() == 2)
        .await;

    let path = format!("{secrets}/azureoperatorsettings");
    let invalid = settings(&[("AZURE_SYNC_PERIOD", "soon")]);
    scene.system.put(&path, &invalid).await.unwrap();
    operator.until_logged("invalid settings ignored").await;
    // A setting that is valid alone, and that the operator cannot run with.
    let refused = settings(&[("AZURE_AUTHORITY_HOST", "http://login.example")]);
    scene.system.put(&path, &refused).await.unwrap();
    let is_refused = || operator.log().matches("ERROR").count() >= 2;
    operator
        .until("they are refused", async || is_refused())
        .await;
    assert_eq!(started(), 2, "{}", operator.log());
    assert!(!operator.log().contains(SECRET));
    assert_eq!(operator.stop(), Some(0));
}

#[tokio::test]
async fn r18_operator_newer_than_the_definitions_exits_with_78() {
    let scene = Scene::empty().await;
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    for (plural, kind) in [
        ("resourcegroups", "ResourceGroup"),
        // One that no operator needs.
        ("others", "Other"),
    ] {
        let mut old = definition(GROUP, plural, kind, any.clone());
        old["spec"]["versions"][0]["name"] = "v1api20200601".into();
        scene.system.define(&old).await.unwrap();
    }
    let kubeconfig = scene.kubeconfig("system");
    let arguments = ["operator", "azure", "--leader-elect=false"];
    let started = Instant::now();
    let output = output(&kubeconfig, &arguments, &ENVIRONMENT).await;
    let took = started.elapsed();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(78), "{message}");
    assert!(took < Duration::from_secs(10), "{took:?}: {message}");
    let errors: Vec<_> = message
        .lines()
        .filter(|line| line.contains("needs version"))
        .collect();
    assert_eq!(errors.len(), 1, "{message}");
    let start = "error: resourcegroups.resources.azure.com: this operator needs version ";
    assert!(errors[0].starts_with(start), "{message}");
    assert!(
        errors[0].contains("the cluster serves v1api20200601"),
        "{message}"
    );
}

#[tokio::test]
async fn r12_contradictory_settings_fail_at_the_start() {
    let scene = Scene::empty().await;
    let kubeconfig = scene.kubeconfig("system");
    for (env, expected) in [
        (&[][..], "POD_NAMESPACE"),
        (
            &[
                ("POD_NAMESPACE", "n"),
                ("AZURE_WEBHOOK_ONLY", "1"),
                ("AZURE_OPERATOR_MODE", "watchers"),
            ],
            "contradicts it: set one of both",
        ),
        (
            &[("POD_NAMESPACE", "n"), ("AZURE_OPERATOR_MODE", "all")],
            "AZURE_OPERATOR_MODE",
        ),
    ] {
        let output = output(&kubeconfig, &["operator", "azure"], env).await;
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("error: invalid settings: "), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn r14_missing_role_binding_is_reported_and_its_creation_needs_no_restart() {
    let scene = Scene::installed(Admission::Without).await;
    let kubeconfig = scene.account("acme-system").await;
    let made = scene.system.post(&groups("b1"), &group()).await.unwrap();
    assert_eq!(made.status, 201, "{}", made.text());
    let mut environment = ENVIRONMENT;
    environment[2].1 = "a1,b1";
    let operator = Process::start(&kubeconfig, &[], &environment);
    operator
        .until_logged("namespace b1: the operator may not get namespaces")
        .await;
    let binding = "create RoleBinding azureoperator-manager-rolebinding to ClusterRole \
                   azureoperator-manager-role there";
    assert!(operator.log().contains(binding), "{}", operator.log());
    assert!(
        !operator.log().contains("namespace a1: "),
        "{}",
        operator.log()
    );
    let bindings = |namespace: &str| {
        let group = "/apis/rbac.authorization.k8s.io/v1";
        format!("{group}/namespaces/{namespace}/rolebindings")
    };
    let name = "azureoperator-manager-rolebinding";
    let known = scene
        .system
        .get(&format!("{}/{name}", bindings("a1")))
        .await
        .unwrap();
    let mut binding = known.json();
    binding["metadata"] = json!({"name": name});
    let made = scene.system.post(&bindings("b1"), &binding).await.unwrap();
    assert_eq!(made.status, 201, "{}", made.text());
    let path = format!("{}/g", groups("b1"));
    let has_ready = async || {
        let found = scene.system.get(&path).await.unwrap().json();
        found["status"]["conditions"][0]["type"].is_string()
    };
    operator
        .until("the object has a condition", has_ready)
        .await;
    assert_eq!(operator.stop(), Some(0));
}
