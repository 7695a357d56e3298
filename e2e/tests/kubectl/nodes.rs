//! Commands about nodes: every space has its own.

use insula_e2e::kubectl::Kubectl;
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
fn every_space_has_nodes_of_its_own() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(manage_node);
    manage_node(&two_tenants.system);
}

fn manage_node(space: &Kubectl) {
    space.prints("get nodes -o name", "");
    space
        .given(NODE)
        .prints("apply -f -", "node/worker-1 created");
    space.shows(
        "get nodes",
        &["NAME STATUS ROLES AGE VERSION", "worker-1 Unknown worker"],
    );
    space.shows(
        "describe node worker-1",
        &[
            "Roles: worker",
            "Taints: node.kubernetes.io/not-ready:NoSchedule",
            "PodCIDR: 10.1.0.0/24",
        ],
    );
    space.prints("cordon worker-1", "node/worker-1 cordoned");
    space.prints(
        "get node worker-1 -o jsonpath={.spec.unschedulable}",
        "true",
    );
    space.prints("uncordon worker-1", "node/worker-1 uncordoned");
    space.prints(
        "taint node worker-1 only=these:NoExecute",
        "node/worker-1 tainted",
    );
    space.prints(
        "get node worker-1 -o jsonpath='{.spec.taints[?(@.key==\"only\")].effect}'",
        "NoExecute",
    );
    space.prints("taint node worker-1 only-", "node/worker-1 untainted");
    space
        .given(ON_NODE)
        .prints("create -f -", "pod/guest created");
    let said = space.run("drain worker-1");
    assert!(said.err.contains("declare no controller"), "{said}");
    space.shows(
        "drain worker-1 --force --grace-period=0 --timeout=20s",
        &[
            "evicting pod default/guest",
            "pod/guest evicted",
            "node/worker-1 drained",
        ],
    );
    space.refuses("get pod guest", "pods \"guest\" not found");
    space.get("uncordon worker-1");
    space.refuses("top node", "Metrics API not available");
    space.get("cluster-info dump --output-directory=dump --namespaces=default");
    assert!(space.folder().join("dump/nodes.json").is_file());
    space.shows("delete node worker-1", &["node \"worker-1\" deleted"]);
}
