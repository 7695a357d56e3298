//! A manager of controllers, as controller-runtime makes them.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use insula_testkit::etcd::Certificates;
use insula_testkit::peer;

use crate::command::Running;
use crate::insula::root;

/// A manager's process. It is killed when this is dropped.
pub struct Manager {
    process: Running,
    /// What its webhooks are called under, without the path.
    pub url: String,
    /// Who signed what they show, in PEM.
    pub ca: String,
}

impl Manager {
    /// Where it is. If there is none, says that this test is skipped.
    pub fn find() -> Option<PathBuf> {
        // Its name says what it was built from, which only who builds it knows.
        let named = std::env::var_os("INSULA_MANAGER").map(PathBuf::from);
        let found = named.or_else(newest).filter(|path| path.is_file());
        if found.is_none() {
            peer::skipped("the manager is not installed (run tools/peers/install)");
        }
        found
    }

    /// Starts it with somebody's kubeconfig, and waits until its webhooks answer.
    ///
    /// # Panics
    ///
    /// If they do not.
    pub fn start(program: &Path, kubeconfig: &Path, folder: &Path) -> Self {
        let certificates = Certificates::generate().expect("a key is made");
        let write = |name: &str, text: &str| {
            std::fs::create_dir_all(folder)
                .and_then(|()| std::fs::write(folder.join(name), text))
                .expect("it is the test's folder");
        };
        write("tls.crt", &certificates.server.cert);
        write("tls.key", &certificates.server.key);
        let port = free_port();
        let mut command = Command::new(program);
        command
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--cert-dir={}", folder.display()))
            .arg(format!("--webhook-port={port}"));
        let line = format!("manager --webhook-port={port}");
        let mut process = Running::start(line, &mut command, "");
        process.await_line("manager hooks ");
        Self {
            process,
            url: format!("https://127.0.0.1:{port}"),
            ca: certificates.ca,
        }
    }

    /// Waits until it is the leader.
    ///
    /// # Panics
    ///
    /// If it does not become it.
    pub fn await_lead(&mut self) {
        self.process.await_line("manager leads");
    }

    /// Ends it at once, as a power cut would end its process.
    pub fn kill(&mut self) {
        self.process.end();
    }
}

/// The definition of the kind that it reconciles.
pub fn definition() -> String {
    let path = root().join("tools/peers/manager/crd.yaml");
    std::fs::read_to_string(path).expect("it is beside the manager")
}

/// The one that was built last.
fn newest() -> Option<PathBuf> {
    let entries = std::fs::read_dir(peer::folder()?).ok()?.flatten();
    let managers = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with("manager-")
    });
    let built = |entry: &std::fs::DirEntry| entry.metadata().ok()?.modified().ok();
    managers.max_by_key(built).map(|entry| entry.path())
}

/// One that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.expect("there are free ports").port()
}
