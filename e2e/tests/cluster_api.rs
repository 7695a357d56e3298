//! Cluster API's own programs against Insula: its controllers with the vSphere operator, and moving
//! clusters.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::path::Path;

use insula_e2e::cluster_api::ClusterApi;
use insula_e2e::insula::Insula;
use insula_e2e::kubectl::Kubectl;
use insula_testkit::vcsim::VcSim;
use insula_vsphere::crds;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A server with the CRDs of Cluster API and Insula, as after `clusterctl init`.
struct ManagementCluster {
    server: Insula,
    kubectl: Kubectl,
}

impl ManagementCluster {
    /// A server with the CRDs of Cluster API.
    fn start(api: &ClusterApi, program: &Path, folder: &Path, name: &str, flags: &[&str]) -> Self {
        let home = folder.join(name);
        std::fs::create_dir_all(&home).unwrap();
        let server = Insula::start(&home.join("data"), flags);
        let kubectl = Kubectl::new(name, program, &server.kubeconfig(), &home);
        let definitions = api.definitions().display();
        kubectl.get(&format!("apply --server-side -f {definitions}"));
        Self { server, kubectl }
    }

    fn new(api: &ClusterApi, program: &Path, folder: &Path, name: &str) -> Self {
        let side = Self::start(api, program, folder, name, &[]);
        let kubectl = &side.kubectl;
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
            apply(kubectl, &provider(namespace, name, kind));
        }
        side
    }

    /// A field of an object, or an empty string if it is missing.
    fn read(&self, namespace: &str, object: &str, path: &str) -> String {
        self.kubectl.get(&field(namespace, object, path))
    }

    fn await_field(&self, namespace: &str, object: &str, path: &str, expected: &str) {
        let line = field(namespace, object, path);
        self.kubectl.await_output(&line, |found| found == expected);
    }

    /// Waits until a field has a value, and returns it.
    fn await_some(&self, namespace: &str, object: &str, path: &str) -> String {
        let line = field(namespace, object, path);
        self.kubectl.await_output(&line, |found| !found.is_empty())
    }

    fn status(&self, namespace: &str, object: &str, status: &Value) {
        let patch = json!({"status": status});
        self.kubectl.get(&format!(
            "-n {namespace} patch {object} --subresource=status --type=merge -p '{patch}'"
        ));
    }
}

/// The command that prints a field of an object, or nothing if it is missing.
fn field(namespace: &str, object: &str, path: &str) -> String {
    format!("-n {namespace} get {object} --ignore-not-found -o jsonpath={{{path}}}")
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

const INFRA: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
/// The thumbprint of the certificate that is built into vcsim.
const THUMBPRINT: &str = "52:6C:4E:88:1D:78:AE:12:1C:F3:BB:6C:5B:F4:E2:82:86:A7:08:AF";

/// Creates a cluster on a vCenter, with an account of its own.
fn vsphere_cluster(kubectl: &Kubectl, vcenter: &VcSim) {
    kubectl.get("create namespace red");
    kubectl.get(
        "-n red create secret generic account \
         --from-literal=username=red --from-literal=password=sesame",
    );
    let reference = json!({
        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "VSphereCluster", "name": "c",
    });
    apply(
        kubectl,
        &json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "c", "namespace": "red"},
            "spec": {"infrastructureRef": reference},
        }),
    );
    apply(
        kubectl,
        &json!({
            "apiVersion": INFRA, "kind": "VSphereCluster",
            "metadata": {"name": "c", "namespace": "red"},
            "spec": {
                "server": vcenter.address(), "thumbprint": THUMBPRINT,
                "identityRef": {"kind": "Secret", "name": "account"},
                "controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443},
            },
        }),
    );
}

/// Creates a machine of the cluster. No bootstrap provider runs, so the Machine names a Secret with
/// its bootstrap data, as Cluster API allows.
fn vsphere_machine(kubectl: &Kubectl, name: &str, labels: &Value) {
    let data = format!("{name}-data");
    kubectl.get(&format!(
        "-n red create secret generic {data} --from-literal=value=#cloud-config \
         --from-literal=format=cloud-config"
    ));
    let metadata = json!({"name": name, "namespace": "red", "labels": labels});
    let reference = json!({
        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "VSphereMachine", "name": name,
    });
    apply(
        kubectl,
        &json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": metadata,
            "spec": {
                "clusterName": "c", "bootstrap": {"dataSecretName": data},
                "infrastructureRef": reference,
            },
        }),
    );
    apply(
        kubectl,
        &json!({
            "apiVersion": INFRA, "kind": "VSphereMachine", "metadata": metadata,
            "spec": {
                "template": "DC0_C0_RP0_VM0", "resourcePool": "DC0_C0/Resources",
                "network": {"devices": [{"networkName": "VM Network", "dhcp4": true}]},
            },
        }),
    );
}

/// Does what the guest of a virtual machine does: reports an address to its vCenter.
async fn report_address(vcenter: &VcSim, id: &str, address: &str) {
    let request = format!(
        "<ReconfigVM_Task xmlns=\"urn:vim25\"><_this type=\"VirtualMachine\">{id}</_this><spec>\
         <extraConfig xsi:type=\"OptionValue\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\">\
         <key>SET.guest.ipAddress</key><value xsi:type=\"xsd:string\" \
         xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\">{address}</value>\
         </extraConfig></spec></ReconfigVM_Task>"
    );
    vcenter.ask(&request).await.unwrap();
}

/// Whether a vCenter has a virtual machine with this BIOS UUID.
async fn has_vm(vcenter: &VcSim, uuid: &str) -> bool {
    let request = format!(
        "<FindByUuid xmlns=\"urn:vim25\"><_this type=\"SearchIndex\">SearchIndex</_this>\
         <uuid>{uuid}</uuid><vmSearch>true</vmSearch></FindByUuid>"
    );
    let answer = vcenter.ask(&request).await.unwrap();
    answer.contains("<returnval")
}

#[test]
fn clusters_live_from_nothing_to_nothing_with_cluster_apis_own_controllers() {
    let (Some(api), Some(program)) = (ClusterApi::find(), Kubectl::find()) else {
        return;
    };
    let Some(vcenter) = VcSim::start("red", "sesame") else {
        return;
    };
    let (folder, runtime) = (TempDir::new().unwrap(), Runtime::new().unwrap());
    let flags = ["--operators=vsphere", "--vsphere-allow-address=127.0.0.1"];
    let side = ManagementCluster::start(&api, &program, folder.path(), "system", &flags);
    let manifests = side
        .server
        .run("operator vsphere manifests --without-deployment");
    let manifests = manifests.succeeds();
    side.kubectl.given(&manifests).get("apply -f -");
    let core = api.start_core(&side.server.kubeconfig()).unwrap();

    vsphere_cluster(&side.kubectl, &vcenter);
    let machines = [
        ("c-0", json!({"cluster.x-k8s.io/control-plane": ""})),
        ("c-1", json!({})),
    ];
    for (name, labels) in &machines {
        vsphere_machine(&side.kubectl, name, labels);
    }
    side.await_field("red", "cluster/c", ".status.phase", "Provisioned");
    let host = side.read("red", "cluster/c", ".spec.controlPlaneEndpoint.host");
    assert_eq!(host, "10.0.0.1");
    let mut uuids = Vec::new();
    for (number, (name, _)) in machines.iter().enumerate() {
        let vm = format!("vspherevm/{name}");
        let id = side.await_some("red", &vm, ".status.vmRef");
        let address = format!("10.0.0.{}", 40 + number);
        let id = id.trim_start_matches("VirtualMachine:");
        runtime.block_on(report_address(&vcenter, id, &address));

        let machine = format!("machine/{name}");
        side.await_field("red", &machine, ".status.phase", "Provisioned");
        let uuid = side.read("red", &vm, ".spec.biosUUID");
        let id = side.read("red", &machine, ".spec.providerID");
        assert_eq!(id, format!("vsphere://{uuid}"));
        let addresses = ".status.addresses[?(@.type==\"ExternalIP\")].address";
        assert_eq!(side.read("red", &machine, addresses), address);
        assert!(runtime.block_on(has_vm(&vcenter, &uuid)), "{name}");
        uuids.push(uuid);
    }

    side.kubectl.get("-n red delete cluster c --wait=false");
    let kinds = "clusters,machines,vsphereclusters,vspheremachines,vspherevms,secrets/account";
    for kind in kinds.split(',') {
        side.await_field("red", kind, "..metadata.name", "");
    }
    for uuid in &uuids {
        assert!(!runtime.block_on(has_vm(&vcenter, uuid)), "{uuid}");
    }
    let log = core.log();
    assert!(!log.contains("panic"), "{log}");
}
