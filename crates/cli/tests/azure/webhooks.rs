//! Webhooks without an operator.

use std::collections::BTreeSet;
use std::net::TcpListener;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use insula_azure::table;
use insula_testkit::azure::FakeAzure;
use serde_json::{Value, json};

use crate::process::Process;
use crate::scene::{Admission, Scene};
use crate::tls_client::TlsClient;

const NAMESPACE: &str = "azureoperator-system";
const GROUP: &str = "resources.azure.com";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/\
                          resourcegroups.resources.azure.com";
const CONFIGURATION: &str = "/apis/admissionregistration.k8s.io/v1/\
                             mutatingwebhookconfigurations/azureoperator-resources.azure.com-mwh";
const SECRET: &str = "11111111-hidden-secret";

/// Creates a credential that a webhook must not use, and a resource in the stored version, which
/// nothing converts.
async fn create_resource(scene: &Scene, azure: &FakeAzure) {
    azure.add_secret("contoso", "red", SECRET);
    azure.add_subscription("sub", "contoso", &["red"]);
    let mut texts: serde_json::Map<_, _> = azure
        .settings()
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect();
    for (key, value) in [
        ("AZURE_SUBSCRIPTION_ID", "sub"),
        ("AZURE_TENANT_ID", "contoso"),
        ("AZURE_CLIENT_ID", "red"),
        ("AZURE_CLIENT_SECRET", SECRET),
    ] {
        texts.insert(key.to_owned(), value.into());
    }
    for (namespace, name) in [
        ("a1", "aso-credential"),
        (NAMESPACE, "azureoperatorsettings"),
    ] {
        let path = format!("/api/v1/namespaces/{namespace}/secrets");
        let secret = json!({"metadata": {"name": name}, "stringData": texts});
        assert_eq!(scene.system.post(&path, &secret).await.unwrap().status, 201);
    }
    let version = table::find(GROUP, "ResourceGroup")
        .unwrap()
        .storage_version();
    let path = format!("/apis/{GROUP}/{version}/namespaces/a1/resourcegroups");
    let mut group = group();
    group["apiVersion"] = format!("{GROUP}/{version}").into();
    let made = scene.system.post(&path, &group).await.unwrap();
    assert_eq!(made.status, 201, "{}", made.text());
}

fn group() -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1api20200601"), "kind": "ResourceGroup",
        "metadata": {"name": "g", "namespace": "a1"}, "spec": {"location": "westeurope"},
    })
}

fn admission_review(object: &Value) -> Value {
    let kind = json!({"group": GROUP, "version": "v1api20200601", "kind": "ResourceGroup"});
    let resource =
        json!({"group": GROUP, "version": "v1api20200601", "resource": "resourcegroups"});
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u1", "kind": kind, "resource": resource, "requestKind": kind,
            "requestResource": resource, "name": "g", "namespace": "a1", "operation": "CREATE",
            "userInfo": {"username": "dora"}, "object": object, "oldObject": null, "dryRun": false,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    })
}

/// Calls the three sorts of webhooks as an API server does.
async fn assert_answers(client: &TlsClient) {
    let mutate = "/mutate-resources-azure-com-v1api20200601-resourcegroup";
    let answer = client.post(mutate, &admission_review(&group())).await;
    let response = &answer["response"];
    assert_eq!(
        (&response["uid"], &response["allowed"]),
        (&json!("u1"), &json!(true))
    );
    let patch = BASE64_STANDARD
        .decode(response["patch"].as_str().unwrap())
        .unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    assert_eq!(
        patch,
        json!([{"op": "add", "path": "/spec/azureName", "value": "g"}])
    );

    let mut invalid = group();
    invalid["spec"]["operatorSpec"] =
        json!({"configMapExpressions": [{"name": "c", "key": "k", "value": "self."}]});
    let validate = "/validate-resources-azure-com-v1api20200601-resourcegroup";
    let answer = client.post(validate, &admission_review(&invalid)).await;
    let response = &answer["response"];
    assert_eq!(response["allowed"], false, "{answer}");
    assert_eq!(response["status"]["code"], 422, "{answer}");
    let answer = client.post(validate, &admission_review(&group())).await;
    assert_eq!(answer["response"]["allowed"], true, "{answer}");

    let desired = format!("{GROUP}/v1api20200601storage");
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u2", "desiredAPIVersion": desired, "objects": [group()]},
    });
    let answer = client.post("/convert", &review).await;
    let response = &answer["response"];
    assert_eq!(response["uid"], "u2");
    assert_eq!(response["result"]["status"], "Success", "{answer}");
    let converted = &response["convertedObjects"][0];
    assert_eq!(converted["apiVersion"], desired.as_str());
    assert_eq!(
        converted["spec"],
        json!({"location": "westeurope", "originalVersion": "v1api20200601"})
    );
}

#[tokio::test]
async fn r11_webhooks_need_a_namespace_only_and_watch_definitions_only() {
    let scene = Scene::installed(Admission::With).await;
    let azure = FakeAzure::start().await.unwrap();
    create_resource(&scene, &azure).await;
    let kubeconfig = scene.account(NAMESPACE).await;
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let environment = [("POD_NAMESPACE", NAMESPACE), ("AZURE_WEBHOOK_ONLY", "1")];
    let address = free.to_string();
    let webhooks = Process::start(&kubeconfig, &["--webhook-addr", &address], &environment);
    let bundle = async || {
        let found = scene.system.get(DEFINITION).await.unwrap().json();
        let config = &found["spec"]["conversion"]["webhook"]["clientConfig"];
        config["caBundle"].as_str().map(str::to_owned)
    };
    let has_bundle = async || bundle().await.is_some();
    webhooks
        .until("the definition has the CA bundle", has_bundle)
        .await;
    let bundle = bundle().await.unwrap();
    let has_bundle = async || {
        let found = scene.system.get(CONFIGURATION).await.unwrap().json();
        let bundles = found["webhooks"].as_array().unwrap();
        let has_bundle = |it: &Value| it["clientConfig"]["caBundle"] == bundle.as_str();
        bundles.iter().all(has_bundle)
    };
    webhooks
        .until("the configuration has the same CA bundle", has_bundle)
        .await;
    let client = TlsClient {
        address: free,
        name: "azureoperator-webhook-service.azureoperator-system.svc",
        bundle,
    };
    assert_answers(&client).await;

    let requests = scene.requests(NAMESPACE);
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
    // The only Secret that it reads is the one with its certificate.
    let of_secrets = requests.iter().filter(|it| it.resource == "secrets");
    for request in of_secrets {
        assert_eq!(request.namespace, NAMESPACE);
        let expected = ["webhook-server-cert", ""];
        assert!(expected.contains(&&*request.name), "{request:?}");
        let verbs = ["get", "create", "update"];
        assert!(verbs.contains(&&*request.verb), "{request:?}");
    }
    let log = webhooks.log();
    assert!(log.contains("mode=webhooks target-namespaces="), "{log}");
    assert!(log.contains("credential=none"), "{log}");
    assert_eq!(webhooks.stop(), Some(0));
    assert!(azure.token_requests().is_empty());
    assert!(azure.requests().is_empty());
}
