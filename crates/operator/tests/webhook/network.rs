//! Called over TLS, with the operator's own permissions.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use insula_operator::webhook::certificate::{CertificateFolder, Clock, SecretCertificates};
use insula_operator::webhook::injection::Target;
use insula_operator::webhook::manifest::{injection_rules, secret_rules};
use insula_operator::webhook::{
    CertificateSource, Certificates, Injection, Options, Settings, WebhookService, run,
};
use insula_testkit::server::{Client, DEFINITIONS, Setup, TestServer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::scene::{
    Calls, MUTATING, V1, V2, VALIDATING, configurations, create, kube_client, router, until,
    warnings, widget, widgets,
};

const SECRET: &str = "widget-certificate";
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// The CA bundle in a webhook configuration.
const BUNDLE: &str = "/webhooks/0/clientConfig/caBundle";
/// The CA bundle in a definition.
const CONVERSION_BUNDLE: &str = "/spec/conversion/webhook/clientConfig/caBundle";

fn targets() -> Vec<Target> {
    vec![
        Target::Validating("widgets".to_owned()),
        Target::Mutating("widgets".to_owned()),
        Target::Definition("widgets.ex.io".to_owned()),
        // An object that is never created.
        Target::Validating("later".to_owned()),
    ]
}

/// The Service of the operator. The objects of these tests name URLs.
fn service() -> WebhookService {
    WebhookService::new("default", "widgets")
}

/// The paths of the objects with a CA bundle, and where it is.
fn bundles() -> [(String, &'static str); 3] {
    [
        (format!("{VALIDATING}/widgets"), BUNDLE),
        (format!("{MUTATING}/widgets"), BUNDLE),
        (format!("{DEFINITIONS}/widgets.ex.io"), CONVERSION_BUNDLE),
    ]
}

/// A server, and replicas of an operator with exactly the permissions of its manifests.
struct Scene {
    server: TestServer,
    system: Client,
    now: Arc<Mutex<SystemTime>>,
    calls: Calls,
    replicas: JoinSet<()>,
}

impl Scene {
    async fn start(now: SystemTime) -> anyhow::Result<Self> {
        let server = TestServer::start_with(Setup {
            tokens: "operator,operator,7,\"tenant:system\"\n".to_owned(),
            ..Setup::with_controllers()
        })
        .await?;
        let system = server.system().await?;
        let rules =
            |rules: Vec<_>| -> Vec<Value> { rules.iter().map(|rule| json!(rule)).collect() };
        let (secret, injection) = (secret_rules(SECRET), injection_rules(&targets()));
        system
            .grant_in("default", "operator", "User:operator", &rules(secret))
            .await?;
        system
            .grant("operator", "User:operator", &rules(injection))
            .await?;
        Ok(Self {
            server,
            system,
            now: Arc::new(Mutex::new(now)),
            calls: Calls::default(),
            replicas: JoinSet::new(),
        })
    }

    fn clock(&self) -> Clock {
        let now = Arc::clone(&self.now);
        Arc::new(move || *now.lock().unwrap())
    }

    fn source(&self) -> anyhow::Result<CertificateSource> {
        let client = kube_client(&self.server, "operator")?;
        let names = vec!["127.0.0.1".to_owned()];
        let secret =
            SecretCertificates::with_clock(&client, "default", SECRET, names, self.clock());
        Ok(CertificateSource::Secret(Box::new(secret)))
    }

    /// Starts a replica with the certificate of the Secret.
    async fn replica(&mut self) -> anyhow::Result<SocketAddr> {
        let source = self.source()?;
        self.replica_with(source).await
    }

    async fn replica_with(&mut self, source: CertificateSource) -> anyhow::Result<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let client = kube_client(&self.server, "operator")?;
        let options = Options {
            listener,
            router: Arc::new(router(&self.calls)),
            certificates: Arc::new(Certificates::default()),
            source,
            injection: Some(Injection::new(&client, service(), targets())),
            settings: Settings::default(),
        };
        self.replicas.spawn(async move {
            run(options, std::future::pending()).await.unwrap();
        });
        Ok(address)
    }

    /// Installs the definition and the configurations, without a CA bundle.
    async fn install(&self, address: SocketAddr) -> anyhow::Result<()> {
        let url = |path: &str| json!({"url": format!("https://{address}{path}")});
        self.system.define(&widgets(Some(url("/convert")))).await?;
        let paths = ["/mutate", "/validate"];
        for ((at, mut configuration), path) in configurations().into_iter().zip(paths) {
            configuration["webhooks"][0]["clientConfig"] = url(path);
            create(&self.system, at, &configuration).await?;
        }
        Ok(())
    }

    /// Waits until all objects have the bundle of the Secret, and returns it.
    async fn until_injected(&self, authorities: usize) -> anyhow::Result<Value> {
        let path = format!("/api/v1/namespaces/default/secrets/{SECRET}");
        let secret = until(&self.system, &path, |secret| {
            let bundle = secret["data"]["ca.crt"].as_str().map(decode);
            let count = bundle.map(|bundle| bundle.matches("BEGIN CERTIFICATE").count());
            count == Some(authorities)
        });
        let bundle = secret.await?["data"]["ca.crt"].clone();
        self.until_bundle(&bundle).await?;
        Ok(bundle)
    }

    /// Waits until all objects have this bundle.
    async fn until_bundle(&self, bundle: &Value) -> anyhow::Result<()> {
        for (path, pointer) in bundles() {
            let wanted = |object: &Value| object.pointer(pointer) == Some(bundle);
            until(&self.system, &path, wanted).await?;
        }
        Ok(())
    }

    /// Wakes the replicas, which otherwise read the Secret every minute.
    async fn wake(&self, value: &str) -> anyhow::Result<()> {
        let path = format!("{VALIDATING}/widgets");
        let label = json!({"metadata": {"labels": {"wake": value}}});
        let patched = self.system.patch(&path, "merge", &label).await?;
        anyhow::ensure!(patched.status == 200, "{}", patched.text());
        Ok(())
    }

    /// Calls every webhook.
    async fn call(&self, name: &str) -> anyhow::Result<()> {
        let red = widget("v1", name, json!({"color": "red"}));
        let created = create(&self.system, V1, &red).await?;
        assert_eq!(created["spec"], json!({"color": "red", "size": 3}));
        let read = self.system.get(&format!("{V2}/{name}")).await?;
        assert_eq!(
            read.json()["spec"],
            json!({"hue": "red", "size": 3}),
            "{}",
            read.text()
        );
        let beige = widget("v1", "beige", json!({"color": "beige"}));
        let refused = self.system.post(V1, &beige).await?;
        assert_eq!(
            refused.message(),
            "admission webhook \"w.ex.io\" denied the request: beige is not a color"
        );
        assert_eq!(refused.status, 422);
        assert_eq!(warnings(&refused), ["299 - \"spec.color: use red\""]);
        Ok(())
    }
}

fn decode(base64: &str) -> String {
    let bytes: k8s_openapi::ByteString = serde_json::from_value(json!(base64)).unwrap();
    String::from_utf8(bytes.0).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_are_called_with_the_injected_ca_bundle() -> anyhow::Result<()> {
    let mut scene = Scene::start(SystemTime::now()).await?;
    let address = scene.replica().await?;
    scene.install(address).await?;
    scene.until_injected(1).await?;
    scene.call("a").await?;
    assert_eq!(
        scene.calls.take(),
        [
            "mutate default/a of unknown",
            "validate default/a of unknown",
            "convert a to ex.io/v2",
            "mutate default/beige of unknown",
            "validate default/beige of unknown",
        ]
    );
    // A bundle that another client changed or removed is repaired, and nothing else.
    for (path, pointer) in bundles() {
        let before = scene.system.get(&path).await?.json();
        for value in [
            json!({"op": "remove"}),
            json!({"op": "replace", "value": "Cg=="}),
        ] {
            let mut operation = value;
            operation["path"] = pointer.into();
            let label = json!({"op": "add", "path": "/metadata/labels", "value": {"a": "b"}});
            let patch = json!([operation, label]);
            let patched = scene.system.patch(&path, "json", &patch).await?;
            // Kubernetes refuses a bundle that is no PEM.
            assert!(matches!(patched.status, 200 | 422), "{}", patched.text());
            let wanted = |object: &Value| object.pointer(pointer) == before.pointer(pointer);
            let after = until(&scene.system, &path, wanted).await?;
            let mut expected = before.clone();
            let metadata = &mut expected["metadata"];
            for member in ["resourceVersion", "generation", "managedFields", "labels"] {
                metadata[member] = after["metadata"][member].clone();
            }
            let mut after = after;
            after["metadata"]["labels"] = expected["metadata"]["labels"].clone();
            assert_eq!(after, expected, "{path}");
        }
    }
    scene.call("b").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ca_is_rotated_under_calls_by_two_replicas() -> anyhow::Result<()> {
    // API servers verify with the real time: the certificates of the last steps are valid now.
    let real = SystemTime::now();
    let mut scene = Scene::start(real - DAY * 247).await?;
    let certificates = Certificates::default();
    scene.source()?.refresh(&certificates).await?;
    *scene.now.lock().unwrap() = real - DAY * 61;
    let (one, two) = (scene.replica().await?, scene.replica().await?);
    scene.install(one).await?;
    let first = scene.until_injected(1).await?;
    scene.call("a").await?;
    // The new CA is published.
    *scene.now.lock().unwrap() = real - HOUR * 25;
    scene.wake("publish").await?;
    let second = scene.until_injected(2).await?;
    assert!(decode(second.as_str().unwrap()).ends_with(&decode(first.as_str().unwrap())));
    scene.call("b").await?;
    let presented = |bundle: &Value, address| present(decode(bundle.as_str().unwrap()), address);
    assert!(presented(&first, one).await, "the old CA signed it");
    // It signs a day later, and API servers with the new bundle accept either certificate.
    *scene.now.lock().unwrap() = real - HOUR;
    scene.wake("sign").await?;
    for address in [one, two] {
        while presented(&first, address).await {
            assert!(
                presented(&second, address).await,
                "the new bundle accepts both"
            );
            scene.call("c").await?;
            let deleted = scene.system.delete(&format!("{V1}/c")).await?;
            assert_eq!(deleted.status, 200);
        }
        assert!(presented(&second, address).await, "the new CA signed it");
    }
    scene.call("d").await?;
    // The replicas did not fight: each object was changed once for each bundle.
    for (path, pointer) in bundles() {
        let found = scene.system.get(&path).await?.json();
        assert_eq!(found.pointer(pointer), Some(&second));
        assert_eq!(found["metadata"]["generation"], 3, "{path}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_reloaded_and_their_ca_is_injected() -> anyhow::Result<()> {
    let mut scene = Scene::start(SystemTime::now()).await?;
    let folder = tempfile::tempdir()?;
    let source = CertificateFolder::new(folder.path());
    let address = scene
        .replica_with(CertificateSource::Folder(source))
        .await?;
    scene.install(address).await?;
    // There are no files yet.
    let red = widget("v1", "early", json!({"color": "red"}));
    let refused = scene.system.post(V1, &red).await?;
    assert_eq!(refused.status, 500, "{}", refused.text());
    for name in ["a", "b"] {
        let bundle = write_certificate(&scene, folder.path()).await?;
        scene.wake(name).await?;
        scene.until_bundle(&bundle).await?;
        scene.call(name).await?;
    }
    Ok(())
}

/// Writes a new certificate into a folder and returns its CA bundle, encoded.
async fn write_certificate(scene: &Scene, folder: &Path) -> anyhow::Result<Value> {
    let path = format!("/api/v1/namespaces/default/secrets/{SECRET}");
    scene.system.delete(&path).await?;
    scene.source()?.refresh(&Certificates::default()).await?;
    let secret = scene.system.get(&path).await?.json();
    for name in ["tls.crt", "tls.key", "ca.crt"] {
        let text = decode(secret["data"][name].as_str().unwrap());
        std::fs::write(folder.join(name), text)?;
    }
    Ok(secret["data"]["ca.crt"].clone())
}

/// Returns whether a client with this CA bundle accepts the server's certificate.
async fn present(bundle: String, address: SocketAddr) -> bool {
    use insula_tls::{Trust, client_config, roots};
    let roots = roots(&Trust::Authorities(bundle)).unwrap();
    let config = client_config(roots).unwrap();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let name = rustls::pki_types::ServerName::from(address.ip());
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.is_ok()
}
