//! The data directory of `insula serve`: only its owner may use anything in it.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use insula_testkit::permissions::{assert_private, tree};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const INSULA: &str = env!("CARGO_BIN_EXE_insula");

/// A command under the umask of most login shells.
fn insula() -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 022 && exec \"$@\"", "sh", INSULA]);
    shell.env_remove("RUST_LOG");
    shell
}

/// Starts a server with an audit log in the data directory, creates a tenant, and stops it.
fn serve_and_stop(data: &Path, tenant: &str) {
    let mut server = insula()
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(data)
        .arg("--audit-log-path")
        .arg(data.join("audit.log"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut announced = String::new();
    let mut lines = BufReader::new(server.stdout.take().unwrap());
    lines.read_line(&mut announced).unwrap();
    assert!(announced.starts_with("insula ready "), "{announced}");
    assert_private(data);
    let created = insula()
        .args(["tenant", "create", tenant, "--kubeconfig"])
        .arg(data.join("admin.kubeconfig"))
        .output()
        .unwrap();
    assert!(created.status.success(), "{created:?}");
    let pid = Pid::from_raw(server.id().try_into().unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0));
    assert_private(data);
}

fn loosen(folder: &Path) {
    for (path, _) in tree(folder).unwrap() {
        let loose = if path.is_dir() { 0o777 } else { 0o644 };
        std::fs::set_permissions(&path, Permissions::from_mode(loose)).unwrap();
    }
}

#[test]
fn only_the_owner_may_use_the_data_directory() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    serve_and_stop(&data, "acme");
    let found = tree(&data).unwrap();
    for name in ["store/format", "pki/ca.key", "audit.log"] {
        let there = found.iter().any(|(path, _)| *path == data.join(name));
        assert!(there, "{name} is missing: {found:?}");
    }
}

#[test]
fn start_restricts_a_data_directory_that_others_could_use() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    serve_and_stop(&data, "acme");
    loosen(&data);
    serve_and_stop(&data, "globex");
}
