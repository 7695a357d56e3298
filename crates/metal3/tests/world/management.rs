//! A management cluster.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use anyhow::Context as _;
use insula_apiserver::egress::{self, InProcessServices};
use insula_metal3::names::{ACCOUNT, NAMESPACE};
use insula_metal3::{manifests, webhooks};
use insula_testkit::capi;
use insula_testkit::server::{Audit, AuditLog, Client as Plain, Setup, TestServer};
use kube::Client;
use serde_json::{Value, json};

use super::core_driver::CoreDriver;
use super::host_side::token;
use super::requests::{Request, requests};
use super::{Space, Workload, client};

const CAPI: &str = "cluster.x-k8s.io/v1beta2";
const OURS: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
/// The namespaces of the teams.
const TEAMS: [&str; 2] = ["team-a", "team-b"];

/// A management cluster: the kinds and webhooks of the operator, and what Cluster API does.
pub struct Management {
    pub server: TestServer,
    /// A client of the administrator.
    pub plain: Plain,
    /// A client with exactly the operator's rights.
    pub operator: Client,
    pub core: CoreDriver,
    space: Space,
    log: AuditLog,
}

impl Deref for Management {
    type Target = Space;

    fn deref(&self) -> &Space {
        &self.space
    }
}

impl Management {
    /// Starts one, with the operator's webhooks in the same process as `insula serve` has them.
    pub async fn start() -> anyhow::Result<Self> {
        let log = AuditLog::default();
        let server = TestServer::start_with(Setup {
            audit: Some(Audit::Memory(log.clone())),
            tokens: "core,cluster-api,2,\"system:masters,tenant:system\"\n".to_owned(),
            egress: egress::Settings {
                in_process: webhook_services(),
                ..egress::Settings::default()
            },
            ..Setup::with_controllers()
        })
        .await?;
        let plain = server.system().await?;
        let settings = manifests::Settings {
            tenants: true,
            ..manifests::Settings::default()
        };
        plain.install(&manifests::manifests(&settings)).await?;
        plain.install(&capi::all_definitions()).await?;
        for name in TEAMS {
            let namespace = json!({"metadata": {"name": name}});
            let made = plain.post("/api/v1/namespaces", &namespace).await?;
            anyhow::ensure!(made.status == 201, "{}", made.text());
        }
        let operator = token(&plain, NAMESPACE, ACCOUNT).await?;
        let operator = client(&server, &operator).await?;
        let core = CoreDriver::start(server.client("core").await?);
        let space = Space {
            client: client(&server, "system").await?,
        };
        Ok(Self {
            server,
            plain,
            operator,
            core,
            space,
            log,
        })
    }

    /// Returns all requests that the server has received.
    pub fn requests(&self) -> anyhow::Result<Vec<Request>> {
        requests(&self.log)
    }

    /// Creates a Cluster and a Metal3Cluster with this spec, which has an endpoint unless it says
    /// otherwise.
    pub async fn cluster(&self, namespace: &str, name: &str, spec: Value) -> anyhow::Result<()> {
        let mut whole = json!({"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}});
        merge(&mut whole, spec);
        let metadata = json!({"name": name, "namespace": namespace});
        self.put(&json!({
            "apiVersion": OURS, "kind": "Metal3Cluster", "metadata": metadata, "spec": whole,
        }))
        .await?;
        self.put(&json!({
            "apiVersion": CAPI, "kind": "Cluster",
            "metadata": {
                "name": name, "namespace": namespace, "finalizers": ["cluster.cluster.x-k8s.io"],
            },
            "spec": {"infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Cluster",
                "name": name,
            }},
        }))
        .await?;
        Ok(())
    }

    /// Creates a template for machines with this spec, which has an image unless it says otherwise.
    pub async fn template(&self, namespace: &str, name: &str, spec: Value) -> anyhow::Result<()> {
        let mut whole = json!({"image": {
            "url": "http://images.test/node.qcow2", "checksum": "sum", "checksumType": "sha256",
            "diskFormat": "qcow2",
        }});
        merge(&mut whole, spec);
        let metadata = json!({"name": name, "namespace": namespace});
        self.put(&json!({
            "apiVersion": OURS, "kind": "Metal3MachineTemplate", "metadata": metadata,
            "spec": {"template": {"spec": whole}},
        }))
        .await?;
        Ok(())
    }

    /// Creates a Machine of a cluster with bootstrap data, and a Metal3Machine of the same name
    /// from a template.
    pub async fn machine(
        &self,
        namespace: &str,
        cluster: &str,
        name: &str,
        template: &str,
    ) -> anyhow::Result<()> {
        self.machine_with(namespace, cluster, name, template, json!({}))
            .await
    }

    /// The same, with a merge patch of the Machine.
    pub async fn machine_with(
        &self,
        namespace: &str,
        cluster: &str,
        name: &str,
        template: &str,
        change: Value,
    ) -> anyhow::Result<()> {
        let labels = json!({"cluster.x-k8s.io/cluster-name": cluster});
        let bootstrap = format!("{name}-bootstrap");
        self.put(&json!({
            "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": {"name": bootstrap, "namespace": namespace, "labels": labels},
            "stringData": {"value": bootstrap_data(namespace, name), "format": "cloud-config"},
        }))
        .await?;
        self.clone_template(namespace, template, name, &labels)
            .await?;
        let mut machine = json!({
            "apiVersion": CAPI, "kind": "Machine",
            "metadata": {
                "name": name, "namespace": namespace, "labels": labels,
                "finalizers": ["machine.cluster.x-k8s.io"],
            },
            "spec": {
                "clusterName": cluster,
                "bootstrap": {"dataSecretName": bootstrap},
                "infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Machine",
                    "name": name,
                },
            },
        });
        merge(&mut machine, change);
        self.put(&machine).await?;
        Ok(())
    }

    /// Creates a Metal3Machine from a template, as a MachineSet does.
    async fn clone_template(
        &self,
        namespace: &str,
        template: &str,
        name: &str,
        labels: &Value,
    ) -> anyhow::Result<()> {
        let templates = format!("/apis/{OURS}/namespaces/{namespace}/metal3machinetemplates");
        let found = self.plain.get(&format!("{templates}/{template}")).await?;
        anyhow::ensure!(found.status == 200, "{}", found.text());
        let found = found.json();
        let annotations = json!({
            "cluster.x-k8s.io/cloned-from-name": template,
            "cluster.x-k8s.io/cloned-from-groupkind":
                "Metal3MachineTemplate.infrastructure.cluster.x-k8s.io",
        });
        self.put(&json!({
            "apiVersion": OURS, "kind": "Metal3Machine",
            "metadata": {
                "name": name, "namespace": namespace, "labels": labels,
                "annotations": annotations,
            },
            "spec": found["spec"]["template"]["spec"],
        }))
        .await?;
        Ok(())
    }

    /// Creates the kubeconfig of a workload cluster, and lets Machines refer to its nodes.
    pub async fn workload(
        &self,
        namespace: &str,
        cluster: &str,
        workload: &Workload,
    ) -> anyhow::Result<()> {
        let name = format!("{cluster}-kubeconfig");
        let text = workload.kubeconfig().to_string();
        self.secret(namespace, &name, &[("value", &text)]).await?;
        self.core.use_workload(workload.plain.clone());
        Ok(())
    }
}

/// Returns the bootstrap data of a machine.
pub fn bootstrap_data(namespace: &str, name: &str) -> String {
    format!("#cloud-config\n# {namespace}/{name}\n")
}

fn webhook_services() -> InProcessServices {
    let router = Arc::new(webhooks::router());
    let service = webhooks::service();
    let mut services = InProcessServices::default();
    services.register(
        &service.namespace,
        &service.name,
        Arc::new(move |request| {
            let router = Arc::clone(&router);
            Box::pin(async move { router.handle(request, None).await })
        }),
    );
    services
}

/// Merges one object into the other.
pub fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
