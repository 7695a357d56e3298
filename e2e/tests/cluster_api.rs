//! Cluster API's own programs against Insula: its controllers, and moving clusters.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::path::Path;
use std::time::{Duration, Instant};

use insula_e2e::cluster_api::ClusterApi;
use insula_e2e::insula::Insula;
use insula_e2e::kubectl::Kubectl;
use insula_vsphere::crds;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A server with the CRDs of Cluster API and Insula, as after `clusterctl init`.
struct ManagementCluster {
    server: Insula,
    kubectl: Kubectl,
}

impl ManagementCluster {
    fn new(api: &ClusterApi, program: &Path, folder: &Path, name: &str) -> Self {
        let home = folder.join(name);
        std::fs::create_dir_all(&home).unwrap();
        let server = Insula::start(&home.join("data"), &[]);
        let kubectl = Kubectl::new(name, program, &server.kubeconfig(), &home);
        let definitions = api.definitions().display();
        kubectl.get(&format!("apply --server-side -f {definitions}"));
        for definition in crds::all() {
            let text = serde_json::to_string(&definition).unwrap();
            kubectl.given(&text).get("apply --server-side -f -");
        }
        kubectl.get("label customresourcedefinitions --all clusterctl.cluster.x-k8s.io=");
        for (namespace, name, kind) in [
            ("capi-system", "cluster-api", "CoreProvider"),
            ("capv-system", "vsphere", "InfrastructureProvider"),
        ] {
            kubectl.get(&format!("create namespace {namespace}"));
            apply(&kubectl, &provider(namespace, name, kind));
        }
        Self { server, kubectl }
    }

    /// A field of an object, or an empty string if it is missing.
    fn read(&self, namespace: &str, object: &str, path: &str) -> String {
        let line = format!("-n {namespace} get {object} --ignore-not-found -o jsonpath={{{path}}}");
        self.kubectl.get(&line)
    }

    fn await_field(&self, namespace: &str, object: &str, path: &str, expected: &str) {
        let begun = Instant::now();
        loop {
            let found = self.read(namespace, object, path);
            if found == expected {
                return;
            }
            assert!(begun.elapsed() < TIMEOUT, "{object} {path}: {found:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn status(&self, namespace: &str, object: &str, status: &Value) {
        let patch = json!({"status": status});
        self.kubectl.get(&format!(
            "-n {namespace} patch {object} --subresource=status --type=merge -p '{patch}'"
        ));
    }
}

fn provider(namespace: &str, name: &str, kind: &str) -> Value {
    let label = match kind {
        "CoreProvider" => name.to_owned(),
        _ => format!("infrastructure-{name}"),
    };
    json!({
        "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Provider",
        "metadata": {"name": label, "namespace": namespace, "labels": {
            "clusterctl.cluster.x-k8s.io": "",
            "clusterctl.cluster.x-k8s.io/core": "inventory",
            "cluster.x-k8s.io/provider": label,
        }},
        "providerName": name, "type": kind, "version": "v1.14.2",
    })
}

fn apply(kubectl: &Kubectl, object: &Value) {
    kubectl.given(&object.to_string()).get("apply -f -");
}

/// Creates an identity that the namespace `red` may use, and a cluster there that uses it.
fn cluster(side: &ManagementCluster) {
    let kubectl = &side.kubectl;
    kubectl.get("create namespace red");
    let infra = "infrastructure.cluster.x-k8s.io/v1beta2";
    apply(
        kubectl,
        &json!({
            "apiVersion": infra, "kind": "VSphereClusterIdentity", "metadata": {"name": "shared"},
            "spec": {
                "secretName": "shared-login",
                "allowedNamespaces": {"selector": {"matchLabels": {"kubernetes.io/metadata.name": "red"}}},
            },
        }),
    );
    let uid = side.read("default", "vsphereclusteridentity/shared", ".metadata.uid");
    apply(
        kubectl,
        &json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": "shared-login", "namespace": "capv-system",
                "finalizers": ["vspherecluster/infrastructure.cluster.x-k8s.io"],
                "ownerReferences": [{
                    "apiVersion": infra, "kind": "VSphereClusterIdentity", "name": "shared", "uid": uid,
                }],
            },
            "stringData": {"username": "u", "password": "p"},
        }),
    );
    apply(
        kubectl,
        &json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "c", "namespace": "red"},
            "spec": {
                "infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "VSphereCluster", "name": "c",
                },
                "controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443},
            },
        }),
    );
    apply(
        kubectl,
        &json!({
            "apiVersion": infra, "kind": "VSphereCluster",
            "metadata": {
                "name": "c", "namespace": "red",
                "finalizers": ["vspherecluster.infrastructure.cluster.x-k8s.io"],
            },
            "spec": {
                "server": "vcenter.test",
                "identityRef": {"kind": "VSphereClusterIdentity", "name": "shared"},
            },
        }),
    );
}

/// Sets the status that the control plane's controllers would set.
fn set_initialized(side: &ManagementCluster) {
    side.status(
        "red",
        "cluster/c",
        &json!({
            "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
            "conditions": [{
                "type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        }),
    );
}

/// The identity and its Secret exist at both ends, everything else only at the target.
fn assert_moved(source: &ManagementCluster, target: &ManagementCluster) {
    for object in ["cluster/c", "vspherecluster/c"] {
        assert_eq!(source.read("red", object, ".metadata.name"), "", "{object}");
        assert_eq!(
            target.read("red", object, ".metadata.name"),
            "c",
            "{object}"
        );
    }
    assert_eq!(target.read("red", "cluster/c", ".spec.paused"), "");
    for side in [source, target] {
        let identity = side.read("default", "vsphereclusteridentity/shared", ".metadata.uid");
        let secret = "secret/shared-login";
        let owner = side.read("capv-system", secret, ".metadata.ownerReferences[0].uid");
        assert_eq!(owner, identity);
        let password = side.read("capv-system", secret, ".data.password");
        assert_eq!(password, "cA==");
        let going = side.read("capv-system", secret, ".metadata.deletionTimestamp");
        assert_eq!(going, "");
    }
}

#[test]
fn fr4_m1_m2_m3_clusterctl_move_carries_the_identity_and_its_secret() {
    let (Some(api), Some(program)) = (ClusterApi::find(), Kubectl::find()) else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let source = ManagementCluster::new(&api, &program, folder.path(), "source");
    let target = ManagementCluster::new(&api, &program, folder.path(), "target");
    cluster(&source);
    let uid = source.read("red", "cluster/c", ".metadata.uid");
    let owned = json!({"metadata": {"ownerReferences": [{
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": uid,
    }]}});
    let line = format!("-n red patch vspherecluster/c --type=merge -p '{owned}'");
    source.kubectl.get(&line);
    set_initialized(&source);
    let (from, to) = (source.server.kubeconfig(), target.server.kubeconfig());
    let line = format!(
        "move -n red --kubeconfig {} --to-kubeconfig {}",
        from.display(),
        to.display(),
    );
    api.clusterctl(folder.path(), &line).succeeds();
    // clusterctl writes `false` where Insula leaves the field out.
    let paused = target.read("red", "cluster/c", ".spec.paused");
    assert!(["", "false"].contains(&paused.as_str()), "{paused}");
    target
        .kubectl
        .get("-n red patch cluster/c --type=merge -p '{\"spec\":{\"paused\":null}}'");
    assert_moved(&source, &target);
}

#[test]
fn t4_insula_move_works_with_cluster_apis_own_controllers() {
    let (Some(api), Some(program)) = (ClusterApi::find(), Kubectl::find()) else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let source = ManagementCluster::new(&api, &program, folder.path(), "source");
    let target = ManagementCluster::new(&api, &program, folder.path(), "target");
    let cores = [&source, &target].map(|side| api.start_core(&side.server.kubeconfig()).unwrap());
    cluster(&source);
    // The controllers find the infrastructure and wait for it.
    let owner = ".metadata.ownerReferences[0].kind";
    source.await_field("red", "vspherecluster/c", owner, "Cluster");
    let provisioned = json!({"initialization": {"provisioned": true}});
    source.status("red", "vspherecluster/c", &provisioned);
    let infrastructure = ".status.initialization.infrastructureProvisioned";
    source.await_field("red", "cluster/c", infrastructure, "true");
    set_initialized(&source);
    let to = target.server.kubeconfig();
    let line = format!("move -n red --to-kubeconfig {}", to.display());
    let said = source.server.run(&line).succeeds();
    let expected = "Cluster red/c (move)\n\
                    VSphereCluster red/c (move)\n\
                    VSphereClusterIdentity shared (copy, kept here)\n\
                    Secret capv-system/shared-login (copy, kept here)\n";
    assert_eq!(said, expected);
    assert_moved(&source, &target);
    // They continue at the target.
    target.status("red", "vspherecluster/c", &provisioned);
    target.await_field("red", "cluster/c", infrastructure, "true");
    let paused = ".status.conditions[?(@.type==\"Paused\")].status";
    target.await_field("red", "cluster/c", paused, "False");
    for core in &cores {
        let log = core.log();
        assert!(!log.contains("panic"), "{log}");
    }
}
