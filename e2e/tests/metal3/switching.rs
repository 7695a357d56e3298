//! A cluster that Metal3's own provider has made, and that is taken over as docs/metal3.md says.
//! Always on Insula.

use std::path::Path;
use std::process::Command;

use insula_e2e::command::Running;
use insula_e2e::insula::{Insula, binary, root};
use insula_e2e::kubectl::Kubectl;
use insula_e2e::metal3::{OtherProvider, Programs};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::objects::{HOSTS, cluster, path_of};
use crate::site::{apply, insula};

#[test]
fn cluster_of_metal3s_own_provider_is_taken_over() {
    let (Some(program), Some(programs), Some(provider)) =
        (Kubectl::find(), Programs::find(), OtherProvider::find())
    else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let server = Insula::start(&data, &[]);
    let kubeconfig = server.kubeconfig();
    let kubectl = Kubectl::new("admin", &program, &kubeconfig, folder.path());
    install_provider(&kubectl, &programs, &provider);
    let _controllers = programs.start(&kubeconfig, &[]);
    let mut running = provider.start(folder.path(), &kubeconfig).unwrap();

    let hosts = std::fs::read_to_string(root().join("docs/metal3/depot.yaml")).unwrap();
    kubectl
        .given(&hosts.replace("depot", "red"))
        .get("apply -f -");
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    let workload = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {
            "name": "prod-kubeconfig", "namespace": "red",
            "labels": {"cluster.x-k8s.io/cluster-name": "prod"},
        },
        "stringData": {"value": text},
    });
    apply(&kubectl, &[workload]);
    apply(&kubectl, &cluster(None, 1));
    let id = kubectl.await_output(
        "-n red get machines -o jsonpath={.items[*].spec.providerID}",
        |out| !out.is_empty(),
    );
    let [_, host, machine] = path_of(&id);
    let uid = kubectl.get("-n red get baremetalhosts -o jsonpath={.items[*].metadata.uid}");
    let labels = json!({"metal3.io/uuid": uid});
    apply(
        &kubectl,
        &[json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": machine, "labels": labels},
            "spec": {"providerID": id},
        })],
    );
    let owner = "-n red get baremetalhosts -o jsonpath={..ownerReferences[*].kind}";
    assert_eq!(kubectl.get(owner), "Metal3Machine");
    running.end();
    let before = lasting(&kubectl);

    let address = server.address().to_owned();
    server.stop();
    let flags = ["--operators=metal3", "--metal3-allow-address=127.0.0.1"];
    let _server = Insula::start_at(&address, &data, &flags);
    switch(&program, &kubeconfig, folder.path());
    assert_eq!(lasting(&kubectl), before);
    assert_eq!(kubectl.get(owner), "");

    kubectl.get("-n red delete machinedeployment own --wait=false");
    let available = format!("{host}:available:\n");
    kubectl.await_output(&format!("-n red {HOSTS}"), |out| out == available);
    let kinds = "-n red get metal3machines,metal3dataclaims,metal3datas -o name";
    kubectl.await_output(kinds, str::is_empty);
    let left = kubectl.get("-n red get baremetalhosts -o jsonpath={.items[*].metadata.uid}");
    assert_eq!(left, uid);
}

/// Installs the kinds of Cluster API, of hosts, and of Metal3's own provider.
fn install_provider(kubectl: &Kubectl, programs: &Programs, provider: &OtherProvider) {
    let [_, (_, api), _, (_, bare_metal)] = programs.variables();
    let definitions = provider.definitions().display();
    let (api, bare_metal) = (api.display(), bare_metal.display());
    kubectl.get(&format!("apply --server-side -f {api} -f {bare_metal}"));
    let line = format!("apply --server-side --field-manager=clusterctl -f {definitions}");
    kubectl.get(&line);
    // What clusterctl adds, without which Cluster API does not find the kinds.
    kubectl.get(&format!(
        "label -f {definitions} cluster.x-k8s.io/provider=infrastructure-metal3 \
         cluster.x-k8s.io/v1beta1=v1beta1 cluster.x-k8s.io/v1beta2=v1beta2"
    ));
    // The kinds of addresses come from a provider of their own, and have the same shape.
    let own = insula("operator metal3 crds");
    let pools = own
        .split("---\n")
        .filter(|it| it.contains("group: ipam.metal3.io"));
    let pools = pools.collect::<Vec<_>>().join("---\n");
    kubectl
        .given(&pools)
        .get("apply --server-side --field-manager=clusterctl -f -");
    kubectl.get("create namespace capm3-system");
}

/// Runs the commands of the documentation, except those for clusterctl, which is not used here.
fn switch(kubectl: &Path, kubeconfig: &Path, folder: &Path) {
    let page = std::fs::read_to_string(root().join("docs/metal3.md")).unwrap();
    let (_, section) = page
        .split_once("## Switching from Metal3's own provider")
        .unwrap();
    let block = section.split("```\n").nth(1).unwrap();
    let commands = block
        .lines()
        .filter(|line| !line.starts_with("clusterctl "));
    let commands: Vec<_> = commands.collect();
    assert_eq!(block.lines().count(), commands.len() + 1, "{block}");
    let script = format!("set -euo pipefail\n{}", commands.join("\n"));
    let programs = [binary(), kubectl].map(|it| it.parent().unwrap().display().to_string());
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("bash");
    command
        .arg("-c")
        .arg(&script)
        .current_dir(folder)
        .env("HOME", folder)
        .env("KUBECONFIG", kubeconfig)
        .env("PATH", format!("{}:{path}", programs.join(":")));
    Running::start(script, &mut command, "").finish().succeeds();
}

/// Returns everything of the cluster that must stay the same.
fn lasting(kubectl: &Kubectl) -> Value {
    let read = |kind: &str| -> Vec<Value> {
        let list = kubectl.get(&format!("-n red get {kind} -o json"));
        let mut list: Value = serde_json::from_str(&list).unwrap();
        serde_json::from_value(list["items"].take()).unwrap()
    };
    let hosts = read("baremetalhosts");
    let hosts = hosts.iter().map(|host| {
        let status = &host["status"];
        let (provisioning, history) = (&status["provisioning"], &status["operationHistory"]);
        json!([
            host["metadata"]["uid"],
            host["spec"],
            provisioning,
            history["provision"]
        ])
    });
    let secrets = read("secrets");
    let secrets = secrets
        .iter()
        .map(|it| json!([it["metadata"]["uid"], it["data"]]));
    let others = read("metal3machines,metal3datas,metal3dataclaims");
    let others = others.iter().map(|it| {
        let metadata = &it["metadata"];
        json!([
            it["kind"],
            metadata["uid"],
            metadata["finalizers"],
            it["spec"]
        ])
    });
    hosts.chain(secrets).chain(others).collect()
}
