//! Cluster API's own programs: `clusterctl` and the core controllers.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use insula_testkit::peer;
use tempfile::TempDir;

use crate::command::{Running, Said, words};

/// As pinned in `tools/peers/cluster-api/go.mod`.
const VERSION: &str = "1.14.2";

/// The programs and manifests of Cluster API that tests need.
pub struct ClusterApi {
    clusterctl: PathBuf,
    core: PathBuf,
    definitions: PathBuf,
}

impl ClusterApi {
    /// Finds the installation. If there is none, reports that the test is skipped.
    pub fn find() -> Option<Self> {
        let name = |program: &str| format!("{program}-{VERSION}");
        let found = || {
            Some(Self {
                clusterctl: peer::installed("INSULA_CLUSTERCTL", &name("clusterctl"))?,
                core: peer::installed("INSULA_CLUSTER_API", &name("cluster-api"))?,
                definitions: peer::installed_folder(
                    "INSULA_CLUSTER_API_CRDS",
                    &name("cluster-api-crds"),
                )?,
            })
        };
        let found = found();
        if found.is_none() {
            peer::skipped("Cluster API is not installed (run make peers)");
        }
        found
    }

    /// The program of the core controllers.
    pub fn core(&self) -> &Path {
        &self.core
    }

    /// The directory of its CRDs.
    pub fn definitions(&self) -> &Path {
        &self.definitions
    }

    /// Runs `clusterctl` with its state in `home` and without network access to releases.
    #[track_caller]
    pub fn clusterctl(&self, home: &Path, line: &str) -> Said {
        let mut command = Command::new(&self.clusterctl);
        command
            .args(words(line))
            .env("HOME", home)
            .env("XDG_CONFIG_HOME", home)
            .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
            .env("GOPROXY", "off");
        Running::start(format!("clusterctl {line}"), &mut command, "").finish()
    }

    /// Starts the core controllers without their webhooks, which no test calls.
    ///
    /// # Errors
    ///
    /// If they do not start.
    pub fn start_core(&self, kubeconfig: &Path) -> anyhow::Result<Core> {
        let folder = TempDir::with_prefix("insula-cluster-api-")?;
        write_certificate(folder.path())?;
        let process = Command::new(&self.core)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--webhook-cert-dir")
            .arg(folder.path())
            .args([
                format!("--webhook-port={}", free_port()?),
                format!("--health-addr=127.0.0.1:{}", free_port()?),
                format!("--diagnostics-address=127.0.0.1:{}", free_port()?),
                "--insecure-diagnostics".to_owned(),
                "--leader-elect=false".to_owned(),
                "--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields"
                    .to_owned(),
            ])
            .env("POD_NAMESPACE", "capi-system")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.path().join("log"))?)
            .spawn()
            .context("cannot start the core of Cluster API")?;
        Ok(Core { process, folder })
    }
}

/// The running core controllers, which are killed on drop.
pub struct Core {
    process: Child,
    folder: TempDir,
}

impl Core {
    /// The log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // Both calls fail only if the process has already exited.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Writes the webhook serving certificate, without which controllers do not start.
pub(crate) fn write_certificate(folder: &Path) -> anyhow::Result<()> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    fs::write(folder.join("tls.crt"), made.cert.pem())?;
    fs::write(folder.join("tls.key"), made.signing_key.serialize_pem())?;
    Ok(())
}

pub(crate) fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}
