//! The operator inside of `insula serve`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http::Request;
use insula_azure::manifests::{Operators, Settings, manifests};
use insula_azure::table;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A server that is stopped when this value is dropped.
struct Serving {
    child: Child,
    folder: tempfile::TempDir,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Serving {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = folder.path().join("settings");
        std::fs::write(&settings, "# settings\nAZURE_SYNC_PERIOD=never\n").unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_insula"))
            .args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"])
            .args(["--operators", "azure", "--azure-settings-file"])
            .arg(settings)
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut message = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut message).unwrap();
        assert!(message.starts_with("insula ready "), "{message}");
        Self { child, folder }
    }

    fn admin(&self) -> PathBuf {
        self.folder.path().join("data/admin.kubeconfig")
    }

    /// Runs `insula` as the administrator, and returns stdout.
    fn insula(&self, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_insula"))
            .args(arguments)
            .arg("--kubeconfig")
            .arg(self.admin())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}

async fn post(client: &Client, path: &str, object: &Value) -> Result<Value, kube::Error> {
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(object.to_string().into_bytes()).unwrap();
    client.request(request).await
}

async fn get(client: &Client, path: &str) -> Result<Value, kube::Error> {
    client
        .request(Request::get(path).body(Vec::new()).unwrap())
        .await
}

/// Returns the path of an object's collection.
fn collection(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let root = if version.contains('/') { "apis" } else { "api" };
    let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("/{root}/{version}/namespaces/{namespace}/{plural}"),
        None => format!("/{root}/{version}/{plural}"),
    }
}

/// Waits for an object that is as expected.
async fn until(client: &Client, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let found = get(client, path).await;
        match &found {
            Ok(found) if is_so(found) => return found.clone(),
            _ => assert!(begun.elapsed() < TIMEOUT, "{path}: {found:?}"),
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn r22_operator_in_the_server_converts_reviews_and_reconciles_objects_of_tenants() {
    let serving = Serving::start();
    let system = client(&serving.admin()).await;
    let objects = manifests(&Settings {
        operators: Operators::AllSpaces,
        ..Settings::default()
    });
    for object in &objects {
        post(&system, &collection(object), object).await.unwrap();
    }
    serving.insula(&["tenant", "create", "acme"]);
    let kubeconfig = serving.folder.path().join("acme");
    let content = serving.insula(&["tenant", "kubeconfig", "acme"]);
    std::fs::write(&kubeconfig, content).unwrap();
    let acme = client(&kubeconfig).await;

    let kind = table::find("resources.azure.com", "ResourceGroup").unwrap();
    let stored = kind.storage_version();
    let written = stored.strip_suffix("storage").unwrap();
    let path = |version: &str| {
        format!("/apis/resources.azure.com/{version}/namespaces/default/resourcegroups")
    };
    let group = |spec: Value| {
        json!({
            "apiVersion": format!("resources.azure.com/{written}"), "kind": "ResourceGroup",
            "metadata": {"name": "g"}, "spec": spec,
        })
    };
    until(&acme, &path(written), |_| true).await;
    // Only the webhook knows CEL.
    let exports = json!({"configMapExpressions": [{"name": "c", "key": "k", "value": "self."}]});
    let invalid = group(json!({"location": "westeurope", "operatorSpec": exports}));
    let refused = post(&acme, &path(written), &invalid).await.unwrap_err();
    assert!(
        refused.to_string().contains("denied the request"),
        "{refused}"
    );
    let valid = group(json!({"location": "westeurope"}));
    let made = post(&acme, &path(written), &valid).await.unwrap();
    assert_eq!(made["spec"]["azureName"], "g", "defaults are set");
    let one = format!("{}/g", path(stored));
    let has_ready = |found: &Value| found["status"]["conditions"][0]["type"].is_string();
    let found = until(&acme, &one, has_ready).await;
    assert_eq!(found["spec"]["originalVersion"], written, "it is converted");
    let ready = &found["status"]["conditions"][0];
    assert_eq!(
        (&ready["type"], &ready["status"]),
        (&json!("Ready"), &json!("False"))
    );
    // Without a Secret in its namespace, no other credential is used.
    assert_eq!(ready["reason"], "NoCredentials", "{ready}");
}
