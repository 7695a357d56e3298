//! A real Kubernetes with the Metal3 operator beside it, and what a site with hosts has.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use insula_testkit::peer;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::cluster_api::{ClusterApi, free_port, write_certificate};
use crate::command::Running;
use crate::insula::{Insula, binary, root};
use crate::kube_apiserver::KubeApiserver;
use crate::kubectl::Kubectl;

/// As pinned in `tools/peers/bare-metal-operator/go.mod`.
const VERSION: &str = "0.13.2";
/// As pinned in `tools/peers/metal3-provider/go.mod`.
const PROVIDER_VERSION: &str = "1.13.2";

/// The programs of others that clusters on bare metal need: Cluster API's controllers, and Metal3's
/// own Bare Metal Operator, which simulates hosts.
pub struct Programs {
    api: ClusterApi,
    operator: PathBuf,
    definitions: PathBuf,
}

impl Programs {
    /// Finds the installations. If one is missing, reports that the test is skipped.
    pub fn find() -> Option<Self> {
        let api = ClusterApi::find()?;
        let name = |what: &str| format!("bare-metal-{what}-{VERSION}");
        let operator = peer::installed("INSULA_BARE_METAL_OPERATOR", &name("operator"));
        let definitions = peer::installed_folder("INSULA_BARE_METAL_CRDS", &name("crds"));
        let (Some(operator), Some(definitions)) = (operator, definitions) else {
            peer::skipped("the Bare Metal Operator is not installed (run make peers)");
            return None;
        };
        Some(Self {
            api,
            operator,
            definitions,
        })
    }

    /// The environment variables that `tools/peers/install` prints, with their values.
    pub fn variables(&self) -> [(&'static str, &Path); 4] {
        [
            ("INSULA_CLUSTER_API", self.api.core()),
            ("INSULA_CLUSTER_API_CRDS", self.api.definitions()),
            ("INSULA_BARE_METAL_OPERATOR", &self.operator),
            ("INSULA_BARE_METAL_CRDS", &self.definitions),
        ]
    }

    /// Starts the controllers of Cluster API and a Bare Metal Operator on the management cluster,
    /// and a Bare Metal Operator on every other server.
    pub fn start(&self, management: &Path, others: &[&Path]) -> Running {
        let mut command = Command::new(root().join("docs/metal3/controllers"));
        command
            .args(others)
            .env("KUBECONFIG", management)
            .envs(self.variables());
        Running::start("docs/metal3/controllers".to_owned(), &mut command, "")
    }
}

/// Metal3's own provider of Cluster API.
pub struct OtherProvider {
    program: PathBuf,
    definitions: PathBuf,
}

impl OtherProvider {
    /// Finds the installation. If there is none, reports that the test is skipped.
    pub fn find() -> Option<Self> {
        let name = |what: &str| format!("metal3-provider{what}-{PROVIDER_VERSION}");
        let program = peer::installed("INSULA_METAL3_PROVIDER", &name(""));
        let definitions = peer::installed_folder("INSULA_METAL3_PROVIDER_CRDS", &name("-crds"));
        let (Some(program), Some(definitions)) = (program, definitions) else {
            peer::skipped("Metal3's own provider is not installed (run make peers)");
            return None;
        };
        Some(Self {
            program,
            definitions,
        })
    }

    /// The directory of its CRDs.
    pub fn definitions(&self) -> &Path {
        &self.definitions
    }

    /// Starts it without its webhooks, which no test calls.
    ///
    /// # Errors
    ///
    /// If it cannot be prepared.
    pub fn start(&self, folder: &Path, kubeconfig: &Path) -> anyhow::Result<Running> {
        write_certificate(folder)?;
        let mut command = Command::new(&self.program);
        command
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--webhook-cert-dir={}", folder.display()))
            .arg(format!("--webhook-port={}", free_port()?))
            .arg(format!("--health-addr=127.0.0.1:{}", free_port()?))
            .arg(format!("--diagnostics-address=127.0.0.1:{}", free_port()?))
            .args(["--insecure-diagnostics", "--leader-elect=false"])
            .args(
                ["StorageVersionMigration", "CleanupManagedFields"]
                    .map(|phase| format!("--skip-crd-migration-phases={phase}")),
            )
            .env("POD_NAMESPACE", "capm3-system");
        let line = "Metal3's own provider".to_owned();
        Ok(Running::start(line, &mut command, ""))
    }
}

/// Whether tests run on a real Kubernetes.
pub fn on_kubernetes() -> bool {
    std::env::var("INSULA_METAL3_CLUSTER").as_deref() == Ok("kubernetes")
}

/// A real Kubernetes with the operator as a process beside it, and an Insula as another server. All
/// are stopped on drop.
pub struct Kubernetes {
    // Dropped before the server that it uses.
    _operator: Running,
    _server: KubeApiserver,
    other: Insula,
    kubeconfig: PathBuf,
    // Forwards the calls of webhooks.
    _runtime: Runtime,
}

impl Kubernetes {
    /// Starts it, with the administrator's kubeconfig in a file. Returns `None` and reports the skip
    /// if a required program is not installed.
    ///
    /// # Panics
    ///
    /// If a program does not start.
    pub fn start(folder: &Path, kubectl: &Path, kubeconfig: &Path) -> Option<Self> {
        let runtime = Runtime::new().expect("threads can be started");
        let webhooks = free_address();
        let server = runtime.block_on(KubeApiserver::start_with_services_at(webhooks))?;
        std::fs::write(kubeconfig, server.kubeconfig()).expect("the folder is writable");
        serve_webhooks(&Kubectl::new("admin", kubectl, kubeconfig, folder));
        let mut operator = Command::new(binary());
        operator
            .args(["operator", "metal3", "--allow-address", "127.0.0.1"])
            .arg(format!("--webhook-addr={webhooks}"))
            .arg(format!("--kubeconfig={}", kubeconfig.display()));
        Some(Self {
            _operator: Running::start("insula operator metal3".to_owned(), &mut operator, ""),
            _server: server,
            other: Insula::start(&folder.join("other"), &[]),
            kubeconfig: kubeconfig.to_owned(),
            _runtime: runtime,
        })
    }

    /// The kubeconfig of the administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The other server.
    pub fn other(&self) -> &Insula {
        &self.other
    }
}

/// Creates the Service of the webhooks, which the manifests have only with a Deployment.
fn serve_webhooks(kubectl: &Kubectl) {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "capm3-system"},
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "capm3-webhook-service", "namespace": "capm3-system"},
        "spec": {"ports": [{"port": 443}]},
    });
    for object in [namespace, service] {
        kubectl.given(&object.to_string()).get("apply -f -");
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listener = listener.expect("a port is free");
    listener.local_addr().expect("it listens")
}
