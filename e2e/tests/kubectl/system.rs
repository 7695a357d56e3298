//! Resources of the system only: nodes and tenants.

use insula_e2e::two_tenants::TwoTenants;

const NODE: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: worker-1, labels: {node-role.kubernetes.io/worker: ""}}
spec: {podCIDR: 10.1.0.0/24}
"#;

/// A pod that is already scheduled.
const ON_NODE: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: guest}
spec: {nodeName: worker-1, containers: [{name: c, image: x}]}
"#;

#[test]
fn nodes_belong_to_the_system() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    let system = &two_tenants.system;
    system
        .given(NODE)
        .prints("apply -f -", "node/worker-1 created");
    system.shows(
        "get nodes",
        &["NAME STATUS ROLES AGE VERSION", "worker-1 Unknown worker"],
    );
    system.shows(
        "describe node worker-1",
        &[
            "Roles: worker",
            "Taints: node.kubernetes.io/not-ready:NoSchedule",
            "PodCIDR: 10.1.0.0/24",
        ],
    );
    system.prints("cordon worker-1", "node/worker-1 cordoned");
    system.prints(
        "get node worker-1 -o jsonpath={.spec.unschedulable}",
        "true",
    );
    system.prints("uncordon worker-1", "node/worker-1 uncordoned");
    system.prints(
        "taint node worker-1 only=these:NoExecute",
        "node/worker-1 tainted",
    );
    system.prints(
        "get node worker-1 -o jsonpath='{.spec.taints[?(@.key==\"only\")].effect}'",
        "NoExecute",
    );
    system.prints("taint node worker-1 only-", "node/worker-1 untainted");
    system
        .given(ON_NODE)
        .prints("create -f -", "pod/guest created");
    let said = system.run("drain worker-1");
    assert!(said.err.contains("declare no controller"), "{said}");
    system.shows(
        "drain worker-1 --force --grace-period=0 --timeout=20s",
        &[
            "evicting pod default/guest",
            "pod/guest evicted",
            "node/worker-1 drained",
        ],
    );
    system.refuses("get pod guest", "pods \"guest\" not found");
    system.get("uncordon worker-1");
    system.refuses("top node", "Metrics API not available");
    system.get("cluster-info dump --output-directory=dump --namespaces=default");
    assert!(system.folder().join("dump/nodes.json").is_file());
    system.shows(
        "auth whoami",
        &["Username kubernetes-admin", "system:masters", "[system]"],
    );
    system.shows("delete node worker-1", &["node \"worker-1\" deleted"]);
}

#[test]
fn tenants_can_be_managed_as_objects() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    let system = &two_tenants.system;
    system.shows(
        "get tenants",
        &[
            "NAME STATUS AGE",
            "acme Active",
            "globex Active",
            "system Active",
        ],
    );
    system.prints(
        "get te -o name",
        "tenant/acme\ntenant/globex\ntenant/system",
    );
    let tenant = "apiVersion: v1\nkind: Tenant\nmetadata:\n  name: initech\n";
    system
        .given(tenant)
        .prints("create -f -", "tenant/initech created");
    system
        .given(tenant)
        .refuses("create -f -", "tenants \"initech\" already exists");
    system.shows(
        "describe tenant initech",
        &["Name: initech", "Phase: Active"],
    );
    system.refuses("delete tenant system", "this tenant may not be deleted");
    for (line, name) in [
        ("acme", "a tenant has this name already"),
        ("default", "already exists"),
    ] {
        system.refuses(&format!("create namespace {line}"), name);
    }
    system.get("create namespace shared");
    let taken = tenant.replace("initech", "shared");
    system.given(&taken).refuses(
        "create -f -",
        "a namespace of the system space has this name",
    );
    for name in ["all", "Upper"] {
        let wrong = tenant.replace("initech", name);
        system
            .given(&wrong)
            .refuses("create -f -", "metadata.name: Invalid value");
    }
    // kubectl waits until nothing is left.
    system.shows("delete tenant initech", &["tenant \"initech\" deleted"]);
    system.refuses("get tenant initech", "tenants \"initech\" not found");
    let resources = system.get("api-resources -o name");
    for name in ["nodes", "tenants", "namespaces"] {
        assert!(resources.lines().any(|found| found == name), "{resources}");
    }
}
