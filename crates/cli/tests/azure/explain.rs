//! `insula identity explain` for objects of Azure.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use insula_azure::table;
use serde_json::json;

use crate::process::output;
use crate::scene::{Admission, Scene};

#[tokio::test]
async fn credential_of_an_object_is_explained() {
    let scene = Scene::installed(Admission::Without).await;
    let kind = table::find("resources.azure.com", "ResourceGroup").unwrap();
    let version = format!("resources.azure.com/{}", kind.storage_version());
    let path = format!("/apis/{version}/namespaces/a1/resourcegroups");
    for (name, annotations) in [
        ("of-namespace", json!({})),
        (
            "of-object",
            json!({"serviceoperator.azure.com/credential-from": "own"}),
        ),
        (
            "narrow",
            json!({"azure.insula.dev/credential-scope": "resource"}),
        ),
    ] {
        let object = json!({
            "apiVersion": version, "kind": "ResourceGroup",
            "metadata": {"name": name, "annotations": annotations}, "spec": {},
        });
        let made = scene.system.post(&path, &object).await.unwrap();
        assert_eq!(made.status, 201, "{}", made.text());
    }
    let value = |text: &str| BASE64_STANDARD.encode(text);
    let secret = json!({"metadata": {"name": "aso-credential"}, "data": {
        "AZURE_SUBSCRIPTION_ID": value("s"), "AZURE_TENANT_ID": value("t"),
        "AZURE_CLIENT_ID": value("c"), "AZURE_CLIENT_SECRET": value("hidden"),
    }});
    let secrets = "/api/v1/namespaces/a1/secrets";
    scene.system.post(secrets, &secret).await.unwrap();
    let kubeconfig = scene.kubeconfig("system");
    for (object, code, expected) in [
        ("resourcegroup/of-namespace", 0, "aso-credential"),
        (
            "resourcegroup.resources.azure.com/of-namespace",
            0,
            "aso-credential",
        ),
        ("resourcegroup/of-object", 1, "(SecretNotAvailable)"),
        ("resourcegroup/narrow", 1, "no credential: "),
        (
            "resourcegroup/missing",
            1,
            "there is no ResourceGroup a1/missing",
        ),
        (
            "disk/x",
            1,
            "there is no kind disks.compute.azure.com on this server",
        ),
    ] {
        let arguments = ["identity", "explain", object, "-n", "a1"];
        let output = output(&kubeconfig, &arguments, &[]).await;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(output.status.code(), Some(code), "{object}: {text}");
        assert!(text.contains(expected), "{object}: {text}");
        assert!(!text.contains("hidden"), "{text}");
    }
    // The operator's settings decide which of them count, where the caller may read them.
    let settings = "/api/v1/namespaces/azureoperator-system/secrets";
    let object = "resourcegroup/of-object";
    for (mode, line, reason) in [
        (None, "serves webhooks only", "(SecretNotAvailable)"),
        (
            Some("resource"),
            "credential mode: resource",
            "(SecretNotAvailable)",
        ),
        (
            Some("namespace"),
            "credential mode: namespace (Secret azureoperator-system/azureoperatorsettings)",
            "(NoCredentials)",
        ),
    ] {
        if let Some(mode) = mode {
            let name = format!("{settings}/azureoperatorsettings");
            scene.system.delete(&name).await.unwrap();
            let secret = json!({"metadata": {"name": "azureoperatorsettings"}, "data": {
                "AZURE_OPERATOR_AUTH_SOURCE_MODE": value(mode),
            }});
            let made = scene.system.post(settings, &secret).await.unwrap();
            assert_eq!(made.status, 201, "{}", made.text());
        }
        let arguments = ["identity", "explain", object, "-n", "a1"];
        let output = output(&kubeconfig, &arguments, &[]).await;
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(line), "{mode:?}: {text}");
        assert!(text.contains(reason), "{mode:?}: {text}");
    }
}
