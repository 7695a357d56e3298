//! Clusters on vSphere: an account for two teams, another team's own, and none for a third.

use std::net::TcpListener;
use std::path::Path;

use insula_e2e::command::Running;
use insula_e2e::insula::root;
use insula_e2e::kube_apiserver::KubeApiserver;
use insula_e2e::kubectl::Kubectl;
use insula_testkit::vcsim::VcSim;
use tokio::runtime::Runtime;

use crate::shell::{
    Expect, LineResult, blocks, check_lines, prints, run_lines, section, set_up, shell,
};

/// Commands of the platform engineer.
const PLATFORM: [Expect; 8] = [
    prints(&[]),
    prints(&[]),
    prints(&[]),
    prints(&[]),
    prints(&[
        "vsphereclusters.infrastructure.cluster.x-k8s.io created",
        "namespace/capv-system created",
    ]),
    prints(&["secret/shared created"]),
    prints(&["vsphereclusteridentity.infrastructure.cluster.x-k8s.io/shared created"]),
    prints(&["shared condition met"]),
];

/// Commands of the teams.
const TEAMS: [Expect; 14] = [
    prints(&["namespace/grey created", "prod created"]),
    prints(&["secret/own created"]),
    prints(&["prod condition met"]),
    prints(&["prod condition met"]),
    prints(&["prod condition met"]),
    prints(&["prod condition met"]),
    prints(&["NamespaceNotAllowed", "Available"]),
    prints(&["VSphereClusterIdentity shared"]),
    Expect {
        code: 1,
        says: &["(NamespaceNotAllowed)", "hint: "],
        refused: &["error: VSphereCluster grey/prod gets no credential"],
    },
    prints(&["blue", "red", "grey"]),
    Expect {
        code: 1,
        says: &[],
        refused: &["(Forbidden)", "it is used by", "VSphereCluster blue/prod"],
    },
    prints(&["namespace/grey labeled"]),
    prints(&["prod condition met"]),
    prints(&[]),
];

#[test]
fn documented_vsphere_session_works() {
    let (Some(kubectl), Some(vcsim)) = (Kubectl::find(), VcSim::find()) else {
        return;
    };
    let [first, second] = [free_port(), free_port()];
    let on_free_ports = |text: &str| {
        let text = text.replace("8989", &first.to_string());
        text.replace("8990", &second.to_string())
    };
    let section = on_free_ports(&section("vSphere"));
    let [serve, platform, teams] = &blocks(&section)[..] else {
        panic!("the section has three parts");
    };
    let folder = tempfile::tempdir().unwrap();
    set_up(folder.path(), &kubectl);
    write_files(folder.path(), &vcsim, on_free_ports);
    let Some(_ground) = Cluster::start(folder.path(), serve) else {
        return;
    };
    let lines: Vec<&str> = platform.lines().chain(teams.lines()).collect();
    let all: Vec<&Expect> = PLATFORM.iter().chain(&TEAMS).collect();
    let ended = run_lines(folder.path(), &lines);
    check_lines(&lines, &all, &ended);
    for (line, LineResult { out, .. }) in lines.iter().zip(&ended) {
        let told = out.contains("sesame") || out.contains("mellon");
        assert!(!told, "a password from {line}:\n{out}");
    }
}

/// The cluster that the session runs on: Insula as in the README or, with
/// `INSULA_VSPHERE_CLUSTER=kubernetes`, a real Kubernetes with the operator beside it. It is
/// stopped on drop.
struct Cluster {
    // Dropped before the server that it uses.
    _running: Running,
    _kubernetes: Option<(KubeApiserver, Runtime)>,
}

impl Cluster {
    /// Returns `None` and reports the skip if a required program is not installed.
    fn start(folder: &Path, serve: &str) -> Option<Self> {
        if std::env::var("INSULA_VSPHERE_CLUSTER").as_deref() != Ok("kubernetes") {
            let mut running = shell(folder, &format!("exec {serve}"));
            running.await_line("insula ready ");
            return Some(Self {
                _running: running,
                _kubernetes: None,
            });
        }
        let runtime = Runtime::new().unwrap();
        let kubernetes = runtime.block_on(KubeApiserver::start())?;
        let kubeconfig = folder.join("insula-data/admin.kubeconfig");
        std::fs::create_dir_all(kubeconfig.parent().unwrap()).unwrap();
        std::fs::write(&kubeconfig, kubernetes.kubeconfig()).unwrap();
        let operator =
            "exec cargo run --release -- operator vsphere --allow-address 127.0.0.1 --kubeconfig";
        let running = shell(folder, &format!("{operator} {}", kubeconfig.display()));
        Some(Self {
            _running: running,
            _kubernetes: Some((kubernetes, runtime)),
        })
    }
}

/// Writes the files that the session uses: a script that prints the address of vcsim, and the
/// manifests from the documentation.
fn write_files(folder: &Path, vcsim: &Path, on_free_ports: impl Fn(&str) -> String) {
    let install = folder.join("tools/peers/install");
    std::fs::create_dir_all(install.parent().unwrap()).unwrap();
    let text = format!("#!/bin/sh\necho INSULA_VCSIM={}\n", vcsim.display());
    crate::shell::write_program(&install, &text);
    std::fs::remove_file(folder.join("docs")).unwrap();
    let pages = folder.join("docs/vsphere");
    std::fs::create_dir_all(&pages).unwrap();
    for page in ["identity.yaml", "teams.yaml"] {
        let text = std::fs::read_to_string(root().join("docs/vsphere").join(page)).unwrap();
        std::fs::write(pages.join(page), on_free_ports(&text)).unwrap();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}
