//! Calls to a plugin on Kubernetes' own server library, `tools/peers/kms`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use insula_kms::{ErrorKind, KmsPlugin, Status};
use insula_testkit::peer;

/// Generous: the first call waits until the process listens.
const TIMEOUT: Duration = Duration::from_secs(30);
const DATA_KEY: &[u8] = b"0123456789abcdef0123456789abcdef";

fn find() -> Option<PathBuf> {
    let found = peer::installed("INSULA_KMS", "kms-0.36.4-1");
    if found.is_none() {
        peer::skipped("the KMS plugin is not installed (tools/peers/install)");
    }
    found
}

/// A plugin's process, which ends with the test.
struct Plugin(Child);

impl Plugin {
    fn start(program: &Path, listen: &str, more: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(["--listen", listen]).args(more);
        Self(
            command
                .spawn()
                .expect("the plugin is installed, so it starts"),
        )
    }

    /// Kills the process, which leaves its socket behind.
    fn kill(&mut self) {
        self.0.kill().expect("the process is ours");
        self.0.wait().expect("the process is ours");
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        // The test may have killed it already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn upstream_plugin_is_called_across_a_kill_and_a_rotation() {
    let Some(program) = find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let listen = socket.to_str().unwrap();
    let client = KmsPlugin::new("upstream", &format!("unix://{listen}"), TIMEOUT).unwrap();

    let mut plugin = Plugin::start(&program, listen, &[]);
    let status = Status {
        version: "v2".to_owned(),
        healthz: "ok".to_owned(),
        key_id: "key-1".to_owned(),
    };
    assert_eq!(client.status().await.unwrap(), status);
    let old = client.encrypt("uid-1", DATA_KEY).await.unwrap();
    assert_eq!(old.key_id, "key-1");
    assert_eq!(old.annotations["scheme.kms.insula.test"], b"aes-256-gcm");
    assert_eq!(client.decrypt("uid-2", &old).await.unwrap(), DATA_KEY);

    plugin.kill();
    std::fs::remove_file(&socket).unwrap();
    let _plugin = Plugin::start(&program, listen, &["--key", "key-2"]);
    assert_eq!(client.status().await.unwrap().key_id, "key-2");
    let new = client.encrypt("uid-3", DATA_KEY).await.unwrap();
    assert_eq!(new.key_id, "key-2");
    assert_eq!(client.decrypt("uid-4", &old).await.unwrap(), DATA_KEY);
}

#[tokio::test]
async fn upstream_plugin_on_an_abstract_socket_reports_its_health_and_refusals() {
    let Some(program) = find() else { return };
    let name = format!("@insula-kms-upstream-{}", std::process::id());
    let _plugin = Plugin::start(&program, &name, &["--healthz", "the HSM is sealed"]);
    let client = KmsPlugin::new("upstream", &format!("unix:///{name}"), TIMEOUT).unwrap();
    let unhealthy = client.status().await.unwrap_err();
    let kind = ErrorKind::Unhealthy("the HSM is sealed".to_owned());
    assert_eq!(unhealthy.kind(), &kind);

    let refused = client.encrypt("", DATA_KEY).await.unwrap_err();
    let kind = ErrorKind::Refused("the request has no UID".to_owned());
    assert_eq!(refused.kind(), &kind);
}
