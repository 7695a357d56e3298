//! A server on which the printed manifests are applied, and kubeconfigs of their accounts.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use insula_azure::manifests::{Operators, Settings, Tenant, manifests, tenant_manifests};
use insula_testkit::server::{Audit, AuditLog, Client, Setup, TestServer};
use serde_json::{Value, json};

pub struct Scene {
    pub folder: tempfile::TempDir,
    pub server: TestServer,
    pub system: Client,
    log: AuditLog,
    kubeconfigs: AtomicUsize,
}

/// What is applied besides definitions and roles.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// No webhook reviews objects: there is no network to reach one.
    Without,
    /// The configurations of webhooks.
    With,
}

impl Scene {
    /// A server without anything of Azure.
    pub async fn empty() -> Self {
        let log = AuditLog::default();
        let server = TestServer::start_with(Setup {
            audit: Some(Audit::Memory(log.clone())),
            ..Setup::with_controllers()
        });
        let server = server.await.unwrap();
        Self {
            folder: tempfile::tempdir().unwrap(),
            system: server.system().await.unwrap(),
            server,
            log,
            kubeconfigs: AtomicUsize::new(0),
        }
    }

    /// A server with the part of the cluster, and the operator of tenant acme for namespace a1.
    pub async fn installed(admission: Admission) -> Self {
        let scene = Self::empty().await;
        let namespaces = ["a1", "b1"].map(
            |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        );
        scene.system.install(&namespaces).await.unwrap();
        let mut cluster = manifests(&Settings {
            image: Some("insula".to_owned()),
            operators: Operators::PerTenant,
            ..Settings::default()
        });
        let is_webhook = |object: &Value| object["webhooks"].is_array();
        cluster.retain(|object| admission == Admission::With || !is_webhook(object));
        scene.system.install(&cluster).await.unwrap();
        let tenant = Tenant {
            name: "acme".to_owned(),
            namespaces: vec!["a1".to_owned()],
            image: "insula".to_owned(),
            managed_identity: None,
        };
        let tenant = tenant_manifests(&tenant);
        scene.system.install(&tenant).await.unwrap();
        scene
    }

    /// Writes the kubeconfig of the operator's account in a namespace.
    pub async fn account(&self, namespace: &str) -> PathBuf {
        let account = "serviceaccounts/azureoperator-default/token";
        let path = format!("/api/v1/namespaces/{namespace}/{account}");
        let request = json!({"spec": {"expirationSeconds": 3600}});
        let answer = self.system.post(&path, &request).await.unwrap().json();
        self.kubeconfig(answer["status"]["token"].as_str().unwrap())
    }

    /// Writes the kubeconfig of a token.
    pub fn kubeconfig(&self, token: &str) -> PathBuf {
        let ca = BASE64_STANDARD.encode(self.server.authority().certificate_pem());
        let content = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": self.server.url(), "certificate-authority-data": ca,
            }}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        let number = self.kubeconfigs.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.path().join(format!("kubeconfig-{number}"));
        std::fs::write(&path, content.to_string()).unwrap();
        path
    }

    /// Returns the requests of the operator's account in a namespace, with the code of the response.
    pub fn requests(&self, namespace: &str) -> Vec<Request> {
        let user = format!("system:serviceaccount:{namespace}:azureoperator-default");
        let text = self.log.text();
        // The last line may be incomplete.
        let events = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let events = events.filter(|event: &Value| event["user"]["username"] == user.as_str());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let requests = events.map(|event| Request {
            verb: text(&event["verb"]),
            resource: text(&event["objectRef"]["resource"]),
            namespace: text(&event["objectRef"]["namespace"]),
            name: text(&event["objectRef"]["name"]),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
        });
        requests.collect()
    }
}

/// A request in the audit log.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    pub verb: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub code: u64,
}
