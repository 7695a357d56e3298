//! The controllers of a real Kubernetes, beside a real kube-apiserver.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use insula_testkit::peer;
use tempfile::TempDir;

use crate::kube_apiserver::{KubeApiserver, TOKEN};

/// As pinned in `tools/peers/kube-apiserver/go.mod`.
const NAME: &str = "kube-controller-manager-1.36.4";

/// The controllers for tokens, service accounts, root CAs, aggregated roles, namespaces and garbage
/// collection. Without nodes, the others have nothing to do.
const CONTROLLERS: &str = "serviceaccount-token-controller,serviceaccount-controller,\
                     root-ca-certificate-publisher-controller,\
                     clusterrole-aggregation-controller,namespace-controller,\
                     garbage-collector-controller";

/// A kube-controller-manager, which is killed on drop.
pub struct KubeControllerManager {
    process: Child,
    _folder: TempDir,
}

impl KubeControllerManager {
    /// Finds the program. If it is not installed, reports that the test is skipped.
    pub fn find() -> Option<PathBuf> {
        let found = peer::installed("INSULA_KUBE_CONTROLLER_MANAGER", NAME);
        if found.is_none() {
            peer::skipped("kube-controller-manager is not installed (run make peers)");
        }
        found
    }

    /// Starts it beside a server, as that server's administrator.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn start(program: &Path, server: &KubeApiserver) -> anyhow::Result<Self> {
        let folder = TempDir::with_prefix("insula-kube-controller-manager-")?;
        let kubeconfig = folder.path().join("kubeconfig");
        let (address, authority) = (server.address(), server.authority());
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: c, cluster: {{server: 'https://{address}', certificate-authority: '{}'}}}}]\n\
             users: [{{name: u, user: {{token: '{TOKEN}'}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
            authority.display(),
        );
        std::fs::write(&kubeconfig, text)?;
        let with = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let process = Command::new(program)
            .args([
                with("kubeconfig", &kubeconfig),
                with("root-ca-file", &authority),
                with("service-account-private-key-file", &server.token_key()),
                format!("--controllers={CONTROLLERS}"),
                "--leader-elect=false".to_owned(),
                // It only acts as a client here and serves no port.
                "--secure-port=0".to_owned(),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.path().join("log"))?)
            .spawn()
            .context("cannot start kube-controller-manager")?;
        Ok(Self {
            process,
            _folder: folder,
        })
    }
}

impl Drop for KubeControllerManager {
    fn drop(&mut self) {
        // Both calls fail only if the process has already exited.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
