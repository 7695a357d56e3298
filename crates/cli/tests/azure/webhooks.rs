//! Webhooks without an operator.

use std::collections::BTreeSet;
use std::net::TcpListener;

use serde_json::Value;

use crate::process::Process;
use crate::scene::{Admission, Scene};

#[tokio::test]
async fn r11_webhooks_need_a_namespace_only_and_watch_definitions_only() {
    let scene = Scene::installed(Admission::With).await;
    let kubeconfig = scene.account("azureoperator-system").await;
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let environment = [
        ("POD_NAMESPACE", "azureoperator-system"),
        ("AZURE_WEBHOOK_ONLY", "1"),
    ];
    let address = free.to_string();
    let webhooks = Process::start(&kubeconfig, &["--webhook-addr", &address], &environment);
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/\
                resourcegroups.resources.azure.com";
    let has_bundle = async || {
        let found = scene.system.get(path).await.unwrap().json();
        let conversion = &found["spec"]["conversion"]["webhook"];
        conversion["clientConfig"]["caBundle"].is_string()
    };
    webhooks
        .until("the definition has the CA bundle", has_bundle)
        .await;
    let configuration = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/\
                         azureoperator-resources.azure.com-mwh";
    let has_bundle = async || {
        let found = scene.system.get(configuration).await.unwrap().json();
        let bundles = found["webhooks"].as_array().unwrap();
        let has_bundle = |it: &Value| it["clientConfig"]["caBundle"].is_string();
        bundles.iter().all(has_bundle)
    };
    webhooks
        .until("the configuration has the CA bundle", has_bundle)
        .await;
    assert!(tokio::net::TcpStream::connect(free).await.is_ok());

    let requests = scene.requests("azureoperator-system");
    let forbidden: Vec<_> = requests.iter().filter(|it| it.code == 403).collect();
    assert!(forbidden.is_empty(), "{forbidden:?}");
    let resources: BTreeSet<_> = requests.iter().map(|it| it.resource.as_str()).collect();
    assert_eq!(
        resources,
        BTreeSet::from([
            "customresourcedefinitions",
            "mutatingwebhookconfigurations",
            "secrets",
            "validatingwebhookconfigurations",
        ])
    );
    let of_secrets = requests.iter().filter(|it| it.resource == "secrets");
    for request in of_secrets {
        assert_eq!(request.namespace, "azureoperator-system");
        assert!(
            ["get", "create", "update"].contains(&&*request.verb),
            "{request:?}"
        );
    }
    let log = webhooks.log();
    assert!(log.contains("mode=webhooks target-namespaces="), "{log}");
    assert_eq!(webhooks.stop(), Some(0));
}
