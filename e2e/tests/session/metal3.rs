//! Clusters on bare metal: separate pools of hosts, a common one, hosts of another server, and hosts
//! next to the machines, with Cluster API's own controllers and Metal3's own Bare Metal Operator.

use std::io::Write;
use std::path::Path;

use insula_e2e::command::Running;
use insula_e2e::insula::binary;
use insula_e2e::kubectl::Kubectl;
use insula_e2e::metal3::{Kubernetes, Programs, on_kubernetes};

use crate::shell::{
    Expect, LineResult, blocks, check_lines, prints, run_lines, section, set_up, shell,
    write_program,
};

/// Commands of the platform engineer.
const PLATFORM: [Expect; 7] = [
    prints(&[]),
    prints(&[]),
    prints(&["metal3machines.infrastructure.cluster.x-k8s.io created"]),
    prints(&["depot"]),
    prints(&["clusters.cluster.x-k8s.io serverside-applied"]),
    prints(&["baremetalhosts.metal3.io serverside-applied"]),
    prints(&[]),
];

/// Commands of the administrator of hosts.
const HOSTS: [Expect; 7] = [
    prints(&["namespace/pool-red created", "common-2 created"]),
    prints(&["depot-1 created"]),
    prints(&["serviceaccount/capm3-host-access created"]),
    prints(&["rolebinding.rbac.authorization.k8s.io/capm3-host-access created"]),
    prints(&[]),
    prints(&[]),
    prints(&["red-1 condition met", "common-2 condition met"]),
];

/// Commands of the teams.
const TEAMS: [Expect; 14] = [
    Expect {
        code: 0,
        says: &[
            "namespace/red created",
            "machinedeployment.cluster.x-k8s.io/depot created",
        ],
        refused: &["Warning: spec.identityRef: once it is used, the provider cannot be downgraded"],
    },
    prints(&["secret/hosts created"]),
    prints(&["secret/hosts created"]),
    prints(&["secret/common-hosts created"]),
    prints(&["secret/common-hosts created"]),
    prints(&["secret/depot-hosts created"]),
    prints(&["prod condition met"]),
    prints(&["prod condition met"]),
    prints(&["red-1 condition met"]),
    prints(&["blue-1 condition met"]),
    prints(&["common-1 condition met", "common-2 condition met"]),
    prints(&["TEAM", "red", "blue"]),
    prints(&["depot-1 condition met"]),
    prints(&["credential: Secret hosts, for 127.0.0.1", "in pool-red"]),
];

/// Commands with a kubeconfig that does not fit.
const WRONG: [Expect; 8] = [
    prints(&[]),
    prints(&["secret/hosts created"]),
    prints(&["prod condition met"]),
    prints(&["IdentityForbidden", "baremetalhosts", "pool-blue"]),
    prints(&["secret \"hosts\" deleted"]),
    Expect {
        code: 1,
        says: &["(IdentitySecretNotFound)", "hint: "],
        refused: &["error: Metal3Cluster grey/prod gets no credential"],
    },
    prints(&["secret/hosts created"]),
    prints(&["prod condition met"]),
];

/// Commands without any kubeconfig.
const SOLO: [Expect; 4] = [
    prints(&["solo-1 created"]),
    prints(&["solo-1 condition met"]),
    prints(&["bmc", "user-data"]),
    prints(&[]),
];

#[test]
fn documented_metal3_session_works() {
    let (Some(kubectl), Some(programs)) = (Kubectl::find(), Programs::find()) else {
        return;
    };
    let section = section("Metal3");
    let [serve, parts @ ..] = &blocks(&section)[..] else {
        panic!("the section has parts");
    };
    let folder = tempfile::tempdir().unwrap();
    set_up(folder.path(), &kubectl);
    write_install(folder.path(), &programs);
    let Some(_cluster) = Cluster::start(folder.path(), &kubectl, serve) else {
        return;
    };
    let lines: Vec<&str> = parts.iter().flat_map(|part| part.lines()).collect();
    let all = PLATFORM.iter().chain(&HOSTS).chain(&TEAMS);
    let all: Vec<&Expect> = all.chain(&WRONG).chain(&SOLO).collect();
    let ended = run_lines(folder.path(), &lines);
    let _logs = LogsOnFailure(folder.path());
    check_lines(&lines, &all, &ended);
    for (line, LineResult { out, .. }) in lines.iter().zip(&ended) {
        assert!(!out.contains("calvin"), "a password from {line}:\n{out}");
        // Service account tokens are JSON Web Tokens.
        assert!(!out.contains("eyJ"), "a token from {line}:\n{out}");
    }
}

/// Prints what explains a failure, before the folder is removed: the conditions that the last line
/// left behind, and the log of the controllers.
struct LogsOnFailure<'a>(&'a Path);

impl Drop for LogsOnFailure<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let script = "export KUBECONFIG=insula-data/admin.kubeconfig\n\
                kubectl get metal3clusters,metal3machines -A -o yaml\n\
                kubectl get events -A\n\
                tail -n 60 controllers.log";
            let said = shell(self.0, script).finish_while_printing();
            // A failure to print it must not hide the other one.
            writeln!(std::io::stderr(), "{said}").ok();
        }
    }
}

/// The cluster that the session runs on: Insula as in the README or, with
/// `INSULA_METAL3_CLUSTER=kubernetes`, a real Kubernetes with the operator beside it; then the other
/// server is an Insula. It is stopped on drop.
enum Cluster {
    Insula(#[expect(dead_code, reason = "it is only kept running")] Running),
    Kubernetes(#[expect(dead_code, reason = "it is only kept running")] Box<Kubernetes>),
}

impl Cluster {
    /// Returns `None` and reports the skip if a required program is not installed.
    fn start(folder: &Path, kubectl: &Path, serve: &str) -> Option<Self> {
        if !on_kubernetes() {
            let mut running = shell(folder, &format!("exec {serve}"));
            running.await_line("insula ready ");
            return Some(Self::Insula(running));
        }
        let [data, release] = ["insula-data", "target/release"].map(|it| folder.join(it));
        for folder in [&data, &release] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let kubernetes = Kubernetes::start(folder, kubectl, &data.join("admin.kubeconfig"))?;
        // Tenants are those of the other server.
        let text = format!(
            "#!/bin/sh\n[ \"$1\" = tenant ] && export KUBECONFIG={}\nexec {} \"$@\"\n",
            kubernetes.other().kubeconfig().display(),
            binary().display(),
        );
        write_program(&release.join("insula"), &text);
        Some(Self::Kubernetes(Box::new(kubernetes)))
    }
}

/// Writes a script that prints where the programs of others are.
fn write_install(folder: &Path, programs: &Programs) {
    let install = folder.join("tools/peers/install");
    std::fs::create_dir_all(install.parent().unwrap()).unwrap();
    let variables = programs.variables();
    let variables = variables.map(|(name, path)| format!("echo {name}={}\n", path.display()));
    write_program(&install, &format!("#!/bin/sh\n{}", variables.concat()));
}
