//! Webhooks of operators in the server's process: only the system's configurations reach them.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use insula_apiserver::egress::{InProcessServices, Settings};
use insula_core::Space;
use insula_testkit::server::{Client, Setup, TestServer, definition, loopback};
use insula_testkit::webhook::{FakeWebhook, Reply};
use serde_json::{Value, json};

use super::MAPS;

const NAMESPACE: &str = "operators";
const SERVICE: &str = "webhooks";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1";

/// The calls of the handler: kind of the review, and space of the object.
type Calls = Arc<Mutex<Vec<(String, Option<String>)>>>;

/// A server with a handler that denies all reviews and records its calls.
async fn server() -> anyhow::Result<(TestServer, Calls)> {
    let calls = Calls::default();
    let record = Arc::clone(&calls);
    let mut services = InProcessServices::default();
    services.register(
        NAMESPACE,
        SERVICE,
        Arc::new(move |request| {
            let review: Value = serde_json::from_slice(request.body()).unwrap_or_default();
            let space = request.extensions().get::<Space>();
            let kind = review["kind"].as_str().unwrap_or_default().to_owned();
            if let Ok(mut calls) = record.lock() {
                calls.push((kind, space.map(ToString::to_string)));
            }
            let denial = json!({
                "uid": review["request"]["uid"], "allowed": false,
                "status": {"code": 403, "message": "secret of the operator"},
                "result": {"status": "Failure", "message": "secret of the operator"},
            });
            let answer = json!({
                "apiVersion": review["apiVersion"], "kind": review["kind"], "response": denial,
            });
            let response = http::Response::new(Bytes::from(answer.to_string()));
            Box::pin(async { response })
        }),
    );
    let setup = Setup {
        egress: Settings {
            in_process: services,
            ..loopback()
        },
        ..Setup::with_controllers()
    };
    Ok((TestServer::start_with(setup).await?, calls))
}

fn service_config() -> Value {
    json!({"service": {"namespace": NAMESPACE, "name": SERVICE, "path": "/x"}})
}

async fn configure(client: &Client, kind: &str, config: Value, admits: &str) -> anyhow::Result<()> {
    let path = format!("{HOOKS}/{kind}webhookconfigurations");
    let annotations = json!({"multi-tenancy.k8s.io/admit-tenants": admits});
    let configuration = json!({
        "metadata": {"name": "c", "annotations": annotations},
        "webhooks": [{
            "name": "w.ex.io",
            "clientConfig": config,
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                "operations": ["CREATE"],
            }],
            "namespaceSelector": {
                "matchLabels": {"kubernetes.io/metadata.name": "default"},
            },
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    });
    let created = client.post(&path, &configuration).await?;
    anyhow::ensure!(created.status == 201, "{}", created.text());
    Ok(())
}

/// A definition with two versions that this webhook converts.
fn foos(config: &Value) -> Value {
    let mut foos = definition("ex.io", "foos", "Foo", json!({"type": "object"}));
    let mut second = foos["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    let first = foos["spec"]["versions"][0].clone();
    foos["spec"]["versions"] = json!([first, second]);
    foos["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": config},
    });
    foos
}

fn map() -> Value {
    json!({"metadata": {"generateName": "m"}})
}

/// Creates a `Foo` in version 1 and returns the message of reading it in version 2.
async fn convert(client: &Client) -> anyhow::Result<String> {
    let object = json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "a"}});
    let created = client
        .post("/apis/ex.io/v1/namespaces/default/foos", &object)
        .await?;
    anyhow::ensure!(created.status == 201, "{}", created.text());
    let read = client
        .get("/apis/ex.io/v2/namespaces/default/foos/a")
        .await?;
    anyhow::ensure!(read.status == 500, "{}", read.text());
    Ok(read.message())
}

fn calls_of(calls: &Calls) -> Vec<(String, Option<String>)> {
    calls
        .lock()
        .map_or_else(|_| Vec::new(), |calls| calls.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i35_a_tenants_webhook_never_reaches_an_operator_in_process() -> anyhow::Result<()> {
    let (server, calls) = server().await?;
    let tenant = server.tenant("t1").await?;
    for kind in ["validating", "mutating"] {
        configure(&tenant, kind, service_config(), "true").await?;
    }
    tenant.define(&foos(&service_config())).await?;
    // The tenant has no such service.
    let missing = format!("service \"{SERVICE}\" not found");
    let refused = tenant.post(MAPS, &map()).await?;
    assert_eq!(refused.status, 500, "{}", refused.text());
    assert!(refused.message().contains(&missing), "{}", refused.text());
    let message = convert(&tenant).await?;
    assert!(message.contains(&missing), "{message}");
    // It creates one, with every sort of backend: its own server is called.
    let own = FakeWebhook::named(
        &[&format!("{SERVICE}.{NAMESPACE}.svc")],
        Reply::Deny(json!({"message": "own"})),
    )
    .await?;
    let namespace = json!({"metadata": {"name": NAMESPACE}});
    assert_eq!(
        tenant.post("/api/v1/namespaces", &namespace).await?.status,
        201
    );
    let services = format!("/api/v1/namespaces/{NAMESPACE}/services");
    let port = own.address().port();
    let service = json!({
        "metadata": {"name": SERVICE},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1", "ports": [{"port": port}]},
    });
    let created = tenant.post(&services, &service).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    let mut config = service_config();
    config["service"]["port"] = port.into();
    config["caBundle"] = own.client_config("/")["caBundle"].clone();
    let webhooks = json!({"webhooks": [{"name": "w.ex.io", "clientConfig": config}]});
    for kind in ["validating", "mutating"] {
        let path = format!("{HOOKS}/{kind}webhookconfigurations/c");
        let patched = tenant.patch(&path, "strategic-merge", &webhooks).await?;
        assert_eq!(patched.status, 200, "{}", patched.text());
    }
    let refused = tenant.post(MAPS, &map()).await?;
    let denied = "admission webhook \"w.ex.io\" denied the request: own";
    assert_eq!(refused.message(), denied);
    assert_eq!(own.calls(), 1);
    // Nor is the name of the service an address.
    let url = json!({"url": format!("https://{SERVICE}.{NAMESPACE}.svc/x")});
    let other = server.tenant("t2").await?;
    configure(&other, "validating", url, "true").await?;
    let refused = other.post(MAPS, &map()).await?;
    assert!(
        refused.message().contains("no such host"),
        "{}",
        refused.text()
    );
    assert_eq!(calls_of(&calls), []);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i35_the_systems_webhooks_reach_an_operator_in_process() -> anyhow::Result<()> {
    let (server, calls) = server().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    configure(&system, "validating", service_config(), "false").await?;
    let denied = "admission webhook \"w.ex.io\" denied the request: secret of the operator";
    assert_eq!(system.post(MAPS, &map()).await?.message(), denied);
    // Without the annotation, tenants' writes are none of its business.
    assert_eq!(tenant.post(MAPS, &map()).await?.status, 201);
    configure(&system, "mutating", service_config(), "true").await?;
    assert_eq!(tenant.post(MAPS, &map()).await?.message(), denied);
    // A tenant's own definition of that name is its own; the system's is the operator's.
    let mut published = foos(&service_config());
    published["metadata"]["annotations"] = json!({"multi-tenancy.k8s.io/published": "true"});
    system.define(&published).await?;
    let message = convert(&tenant).await?;
    assert!(message.contains("secret of the operator"), "{message}");
    let other = server.tenant("t2").await?;
    other.define(&foos(&service_config())).await?;
    let message = convert(&other).await?;
    assert!(message.contains("not found"), "{message}");
    let review = |kind: &str, space: Option<&str>| (kind.to_owned(), space.map(str::to_owned));
    assert_eq!(
        calls_of(&calls),
        [
            review("AdmissionReview", Some("system")),
            review("AdmissionReview", Some("t1")),
            review("ConversionReview", None),
        ]
    );
    Ok(())
}
