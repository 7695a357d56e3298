//! The webhook server of an operator in a pod, with the rights of its manifests.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_operator::webhook::certificate::SecretCertificates;
use insula_operator::webhook::{self, CertificateSource, Certificates, Injection, Options};
use insula_testkit::server::DEFINITIONS;
use insula_vsphere::{crds, webhooks};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::scene::Scene;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Returns a client of the operator's service account.
async fn account(scene: &Scene) -> anyhow::Result<Client> {
    let path = "/api/v1/namespaces/capv-system/serviceaccounts/capv-manager/token";
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = scene.system.post(path, &request).await?.json();
    let ca = STANDARD.encode(scene.server.authority().certificate_pem());
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {
            "server": scene.server.url(), "certificate-authority-data": ca,
        }}],
        "users": [{"name": "test", "user": {"token": token["status"]["token"]}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }))?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(Client::try_from(config)?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_of_the_manifests_suffice_for_a_certificate_and_its_bundle() -> anyhow::Result<()> {
    let scene = Scene::for_deployment("i").await?;
    let client = account(&scene).await?;
    let service = webhooks::service();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let certificates = SecretCertificates::new(
        &client,
        &service.namespace,
        webhooks::CERTIFICATE_SECRET,
        service.dns_names(),
    );
    let options = Options {
        listener,
        router: Arc::new(webhooks::router()),
        certificates: Arc::new(Certificates::default()),
        source: CertificateSource::Secret(Box::new(certificates)),
        injection: Some(Injection::new(&client, service, webhooks::targets())),
        settings: webhook::Settings::default(),
    };
    let mut server = JoinSet::new();
    server.spawn(webhook::run(options, std::future::pending()));
    let begun = Instant::now();
    for definition in crds::all() {
        let path = format!("{DEFINITIONS}/{}", definition.name_any());
        let bundle = loop {
            let found = scene.system.get(&path).await?.json();
            let config = &found["spec"]["conversion"]["webhook"]["clientConfig"];
            if let Some(bundle) = config["caBundle"].as_str() {
                break bundle.to_owned();
            }
            assert!(begun.elapsed() < TIMEOUT, "{path} has no CA bundle");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let secret = webhooks::CERTIFICATE_SECRET;
        let secret = format!("/api/v1/namespaces/capv-system/secrets/{secret}");
        let secret = scene.system.get(&secret).await?.json();
        assert_eq!(secret["data"]["ca.crt"], bundle, "{path}");
    }
    Ok(())
}
