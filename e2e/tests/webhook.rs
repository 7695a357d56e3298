//! The webhook server of operators, called by a real kube-apiserver.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use insula_e2e::kube_apiserver::KubeApiserver;
use insula_operator::webhook::certificate::SecretCertificates;
use insula_operator::webhook::injection::Target;
use insula_operator::webhook::manifest::{AdmissionWebhook, injection_rules, secret_rules};
use insula_operator::webhook::{
    AdmissionResponse, CertificateSource, Certificates, Injection, Options, Router, Settings,
    WebhookService, run,
};
use insula_testkit::server::{Answer, Client, DEFINITIONS, definition};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const SECRET: &str = "certificate";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const BUNDLE: &str = "/webhooks/0/clientConfig/caBundle";
const CONVERSION_BUNDLE: &str = "/spec/conversion/webhook/clientConfig/caBundle";
const V1: &str = "/apis/ex.io/v1/namespaces/default/widgets";
const V2: &str = "/apis/ex.io/v2/namespaces/default/widgets";

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
/// How long the test waits for what must happen.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The Service of the operator. The objects here name URLs.
fn service() -> WebhookService {
    WebhookService::new("default", "widgets")
}

fn router() -> Router {
    Router::new()
        .validating("/validate", |request| async move {
            let object = request.object.unwrap_or_default();
            match object["spec"]["color"] == "beige" {
                true => AdmissionResponse::deny_with(422, "Invalid", "beige is not a color")
                    .with_warning("spec.color: use red"),
                false => AdmissionResponse::allow(),
            }
        })
        .conversion("/convert", |mut object, desired| {
            let (from, to) = match desired {
                "ex.io/v2" => ("color", "hue"),
                _ => ("hue", "color"),
            };
            let spec = object["spec"].as_object_mut().ok_or("there is no spec")?;
            if let Some(value) = spec.remove(from) {
                spec.insert(to.to_owned(), value);
            }
            object["apiVersion"] = desired.into();
            Ok(object)
        })
}

fn targets() -> Vec<Target> {
    vec![
        Target::Validating("widgets".to_owned()),
        Target::Definition("widgets.ex.io".to_owned()),
    ]
}

/// The definition and the configuration, which call this address.
fn objects(address: SocketAddr) -> [(&'static str, Value); 2] {
    let service = service();
    let url = |path: &str| json!({"url": format!("https://{address}{path}")});
    let mut widgets = definition("ex.io", "widgets", "Widget", json!({"type": "object"}));
    let first = widgets["spec"]["versions"][0].clone();
    let versions = [("v1", "color"), ("v2", "hue")].map(|(name, field)| {
        let mut version = first.clone();
        version["name"] = name.into();
        version["storage"] = (name == "v1").into();
        let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"];
        spec["properties"][field] = json!({"type": "string"});
        version
    });
    widgets["spec"]["versions"] = json!(versions);
    widgets["spec"]["names"]["singular"] = "widget".into();
    widgets["spec"]["names"]["listKind"] = "WidgetList".into();
    widgets["spec"]["conversion"] = json!(service.conversion("/convert"));
    widgets["spec"]["conversion"]["webhook"]["clientConfig"] = url("/convert");
    let webhook = AdmissionWebhook {
        name: "w.ex.io",
        path: "/validate",
        group: "ex.io",
        versions: &["v1"],
        resources: &["widgets"],
        operations: &["CREATE", "UPDATE"],
        required: true,
    };
    let mut configuration = service.validating("widgets", &[webhook]);
    configuration["webhooks"][0]["clientConfig"] = url("/validate");
    [(DEFINITIONS, widgets), (VALIDATING, configuration)]
}

/// Replicas of an operator with exactly the permissions of its manifests.
struct Operator {
    client: kube::Client,
    now: Arc<Mutex<SystemTime>>,
    replicas: JoinSet<()>,
}

impl Operator {
    fn source(&self) -> CertificateSource {
        let now = Arc::clone(&self.now);
        CertificateSource::Secret(Box::new(SecretCertificates::with_clock(
            &self.client,
            "default",
            SECRET,
            vec!["127.0.0.1".to_owned()],
            Arc::new(move || *now.lock().unwrap()),
        )))
    }

    async fn replica(&mut self) -> anyhow::Result<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let options = Options {
            listener,
            router: Arc::new(router()),
            certificates: Arc::new(Certificates::default()),
            source: self.source(),
            injection: Some(Injection::new(&self.client, service(), targets())),
            settings: Settings::default(),
        };
        self.replicas.spawn(async move {
            run(options, std::future::pending()).await.unwrap();
        });
        Ok(address)
    }
}

/// Reads `path` until the object satisfies `wanted`.
async fn until(
    client: &Client,
    path: &str,
    wanted: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value> {
    let begun = Instant::now();
    loop {
        let found = client.get(path).await?.json();
        if wanted(&found) {
            return Ok(found);
        }
        anyhow::ensure!(begun.elapsed() < WAIT_TIMEOUT, "{path}: {found}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until both objects have a bundle of so many CAs, which is that of the Secret.
async fn injected(client: &Client, authorities: usize) -> anyhow::Result<Value> {
    let path = format!("{SECRETS}/{SECRET}");
    let secret = until(client, &path, |secret| {
        let bundle: k8s_openapi::ByteString =
            serde_json::from_value(secret["data"]["ca.crt"].clone()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bundle.0).into_owned();
        text.matches("BEGIN CERTIFICATE").count() == authorities
    });
    let bundle = secret.await?["data"]["ca.crt"].clone();
    for (path, pointer) in [
        (format!("{VALIDATING}/widgets"), BUNDLE),
        (format!("{DEFINITIONS}/widgets.ex.io"), CONVERSION_BUNDLE),
    ] {
        let wanted = |object: &Value| object.pointer(pointer) == Some(&bundle);
        until(client, &path, wanted).await?;
    }
    Ok(bundle)
}

async fn post(client: &Client, name: &str, color: &str) -> anyhow::Result<Answer> {
    let widget = json!({
        "apiVersion": "ex.io/v1", "kind": "Widget",
        "metadata": {"name": name}, "spec": {"color": color},
    });
    client.post(V1, &widget).await
}

/// Calls both webhooks.
async fn call(client: &Client, name: &str) -> anyhow::Result<()> {
    let created = post(client, name, "red").await?;
    anyhow::ensure!(created.status == 201, "{}", created.text());
    let read = client.get(&format!("{V2}/{name}")).await?;
    anyhow::ensure!(
        read.json()["spec"] == json!({"hue": "red"}),
        "{}",
        read.text()
    );
    let refused = post(client, &format!("{name}-beige"), "beige").await?;
    let denial = "admission webhook \"w.ex.io\" denied the request: beige is not a color";
    anyhow::ensure!(refused.message() == denial, "{}", refused.text());
    assert_eq!(refused.status, 422);
    assert_eq!(refused.header("warning"), "299 - \"spec.color: use red\"");
    Ok(())
}

/// Calls both webhooks until they answer: kube-apiserver takes up configurations and definitions
/// with a delay.
async fn call_eventually(client: &Client, name: &str) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut attempt = 0;
    while let Err(error) = call(client, &format!("{name}{attempt}")).await {
        anyhow::ensure!(begun.elapsed() < WAIT_TIMEOUT, "{error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        attempt += 1;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kube_apiserver_calls_webhooks_through_a_rotation() -> anyhow::Result<()> {
    let users = "operator,operator,7,\"operators\"\n";
    let Some(server) = KubeApiserver::start_with(users).await else {
        return Ok(());
    };
    let admin = server.client().await?;
    let rules = |rules: Vec<_>| -> Vec<Value> { rules.iter().map(|rule| json!(rule)).collect() };
    admin
        .grant_in(
            "default",
            "operator",
            "User:operator",
            &rules(secret_rules(SECRET)),
        )
        .await?;
    let injection = rules(injection_rules(&targets()));
    admin.grant("operator", "User:operator", &injection).await?;
    let mut config = kube::Config::new(format!("https://{}", server.address()).parse()?);
    let ca = std::fs::read(server.authority())?;
    let ca = rustls::pki_types::pem::PemObject::from_pem_slice(&ca);
    let ca: rustls::pki_types::CertificateDer<'static> =
        ca.map_err(|_| anyhow::anyhow!("no CA"))?;
    config.root_cert = Some(vec![ca.to_vec()]);
    config.auth_info = serde_json::from_value(json!({"token": "operator"}))?;
    // kube-apiserver verifies with the real time: the last certificates are valid now.
    let real = SystemTime::now();
    let mut operator = Operator {
        client: kube::Client::try_from(config)?,
        now: Arc::new(Mutex::new(real - DAY * 247)),
        replicas: JoinSet::new(),
    };
    operator.source().refresh(&Certificates::default()).await?;
    *operator.now.lock().unwrap() = real - DAY * 61;
    let (one, _) = (operator.replica().await?, operator.replica().await?);
    for (path, object) in objects(one) {
        let created = admin.post(path, &object).await?;
        assert_eq!(created.status, 201, "{}", created.text());
    }
    let first = injected(&admin, 1).await?;
    call_eventually(&admin, "a").await?;
    // A bundle that another client removed is repaired.
    let path = format!("{VALIDATING}/widgets");
    let removal = json!([{"op": "remove", "path": BUNDLE}]);
    assert_eq!(admin.patch(&path, "json", &removal).await?.status, 200);
    until(&admin, &path, |object| {
        object.pointer(BUNDLE) == Some(&first)
    })
    .await?;
    call_eventually(&admin, "repaired").await?;
    // The new CA is published, and signs a day later. No call fails.
    let wake = |value: &str| json!({"metadata": {"labels": {"wake": value}}});
    *operator.now.lock().unwrap() = real - HOUR * 25;
    assert_eq!(
        admin.patch(&path, "merge", &wake("publish")).await?.status,
        200
    );
    let second = injected(&admin, 2).await?;
    assert_ne!(first, second);
    call(&admin, "b").await?;
    let secret = format!("{SECRETS}/{SECRET}");
    let before = admin.get(&secret).await?.json();
    *operator.now.lock().unwrap() = real - HOUR;
    assert_eq!(
        admin.patch(&path, "merge", &wake("sign")).await?.status,
        200
    );
    until(&admin, &secret, |secret| {
        secret["data"]["tls.crt"] != before["data"]["tls.crt"]
    })
    .await?;
    for number in 0..20 {
        call(&admin, &format!("c{number}")).await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
