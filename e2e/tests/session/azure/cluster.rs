//! The cluster that the session runs on.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use insula_e2e::command::Running;
use insula_e2e::insula::binary;
use insula_e2e::kube_apiserver::KubeApiserver;
use tokio::runtime::Runtime;

use crate::shell::{shell, write_program};

/// Insula as in the README or, with `INSULA_AZURE_CLUSTER=kubernetes`, a real Kubernetes with the
/// operator beside it. It is stopped on drop.
pub struct Cluster {
    // Dropped before the server that it uses.
    _running: Running,
    _kubernetes: Option<(KubeApiserver, Runtime)>,
}

impl Cluster {
    /// Starts it by the README's lines. Returns `None` and reports the skip if a required program
    /// is not installed.
    pub fn start(folder: &Path, serve: &str) -> Option<Self> {
        let (before, serve) = serve.trim().rsplit_once('\n').unwrap();
        if is_kubernetes() {
            return Self::start_kubernetes(folder, before);
        }
        shell(folder, before).finish().succeeds();
        let mut running = shell(folder, &format!("exec {serve}"));
        running.await_line("insula ready ");
        Some(Self {
            _running: running,
            _kubernetes: None,
        })
    }

    fn start_kubernetes(folder: &Path, before: &str) -> Option<Self> {
        // Tenants are namespaces here.
        let before = before.replace("NAMESPACES=default", "NAMESPACES=red,blue");
        shell(folder, &before).finish().succeeds();
        Self::on_kubernetes(folder, "watchers-and-webhooks", "--ca-file azure-ca.pem")
    }

    /// Starts a Kubernetes with the webhooks of the operator, which get no settings. Returns `None`
    /// and reports the skip if a required program is not installed.
    pub fn start_with_webhooks_alone(folder: &Path) -> Option<Self> {
        std::fs::write(folder.join("operator.env"), "AZURE_WEBHOOK_ONLY=1\n").unwrap();
        Self::on_kubernetes(folder, "webhooks", "")
    }

    /// Starts a Kubernetes, and the operator in a mode as soon as it is installed there.
    fn on_kubernetes(folder: &Path, mode: &str, flags: &str) -> Option<Self> {
        let runtime = Runtime::new().unwrap();
        let webhooks = free_address();
        let kubernetes = runtime.block_on(KubeApiserver::start_with_services_at(webhooks))?;
        let [data, release] = ["insula-data", "target/release"].map(|it| folder.join(it));
        for folder in [&data, &release] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(data.join("admin.kubeconfig"), kubernetes.kubeconfig()).unwrap();
        let (insula, script) = (binary().display(), include_str!("insula.sh"));
        let script = format!("#!/bin/sh\ninsula={insula}\n{script}");
        write_program(&release.join("insula"), &script);
        Some(Self {
            _running: start_operator(folder, mode, flags, webhooks),
            _kubernetes: Some((kubernetes, runtime)),
        })
    }
}

/// Starts the operator with the account of its Deployment, as soon as there is one: no kubelet runs
/// here.
fn start_operator(folder: &Path, mode: &str, flags: &str, webhooks: SocketAddr) -> Running {
    let script = format!(
        "export PATH=$PWD/target/release:$PATH KUBECONFIG=insula-data/admin.kubeconfig\n\
         set -a; . ./operator.env; set +a\n\
         export AZURE_OPERATOR_MODE={mode}\n\
         exec >operator.log 2>&1\n\
         until kubectl get deployments -n azureoperator-system | grep azureoperator; do\n\
         sleep 0.2\n\
         done\n\
         exec docs/azure/operator azureoperator {flags} --webhook-addr {webhooks}\n"
    );
    shell(folder, &script)
}

/// Whether sessions run on a real Kubernetes.
pub fn is_kubernetes() -> bool {
    std::env::var("INSULA_AZURE_CLUSTER").as_deref() == Ok("kubernetes")
}

/// An address that was free a moment ago.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap()
}
