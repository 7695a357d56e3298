use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const INFRA: &str = "infrastructure.cluster.x-k8s.io";
const ALL: Selection<'static> = Selection {
    namespace: "a",
    cluster: None,
};

fn node(group: &str, kind: &str, namespace: &str, name: &str, owners: &[&str]) -> Node {
    Node {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        name: name.to_owned(),
        uid: format!("{kind}/{namespace}/{name}"),
        owners: owners.iter().map(|&owner| owner.to_owned()).collect(),
        root: group == CAPI && kind == "Cluster",
        ..Node::default()
    }
}

fn cluster(namespace: &str, name: &str) -> Node {
    node(CAPI, "Cluster", namespace, name, &[])
}

fn infra(namespace: &str, name: &str, identity: &str) -> Node {
    let owner = format!("Cluster/{namespace}/{name}");
    let mut made = node(INFRA, "VSphereCluster", namespace, name, &[&owner]);
    made.identity = (!identity.is_empty()).then(|| IdentityRef {
        kind: "VSphereClusterIdentity".to_owned(),
        name: identity.to_owned(),
    });
    made
}

fn identity(name: &str) -> Node {
    let mut made = node(INFRA, "VSphereClusterIdentity", "", name, &[]);
    made.secret = Some(format!("{name}-login"));
    made
}

fn secret(namespace: &str, name: &str, owners: &[&str]) -> Node {
    node("", "Secret", namespace, name, owners)
}

fn class(name: &str) -> Node {
    let mut made = node(CAPI, "ClusterClass", "a", name, &[]);
    made.root = true;
    made
}

/// Returns the planned steps as texts, in order.
fn planned(nodes: &[Node], selection: Selection<'_>) -> Vec<String> {
    let steps = plan(nodes, selection).expect("a plan");
    steps
        .iter()
        .map(|step| format!("{:?} {}", step.disposition, nodes[step.at]))
        .collect()
}

#[test]
fn cluster_moves_with_its_dependents_after_their_owners() {
    let nodes = [
        secret("a", "login", &["VSphereCluster/a/c"]),
        node(INFRA, "VSphereMachine", "a", "m", &["Machine/a/m"]),
        node(CAPI, "Machine", "a", "m", &["Cluster/a/c"]),
        infra("a", "c", ""),
        cluster("a", "c"),
        secret("a", "other", &[]),
    ];
    let expected = [
        "Move Cluster a/c",
        "Move Machine a/m",
        "Move VSphereCluster a/c",
        "Move Secret a/login",
        "Move VSphereMachine a/m",
    ];
    assert_eq!(planned(&nodes, ALL), expected);
}

#[test]
fn o13_only_referenced_identities_are_copied_with_their_secrets() {
    let nodes = [
        cluster("a", "c"),
        infra("a", "c", "mine"),
        identity("mine"),
        identity("theirs"),
        secret(
            "capv-system",
            "mine-owned",
            &["VSphereClusterIdentity//mine"],
        ),
        secret("capv-system", "mine-login", &[]),
        secret("capv-system", "theirs-login", &[]),
        secret("capv-system", "x", &["VSphereClusterIdentity//theirs"]),
        cluster("b", "c"),
        infra("b", "c", "theirs"),
    ];
    let expected = [
        "Move Cluster a/c",
        "Copy VSphereClusterIdentity mine",
        "Move VSphereCluster a/c",
        "Copy Secret capv-system/mine-owned",
        "Copy Secret capv-system/mine-login",
    ];
    assert_eq!(planned(&nodes, ALL), expected);
}

#[test]
fn o13_secret_in_the_clusters_namespace_never_belongs_to_an_identity() {
    let nodes = [
        cluster("a", "c"),
        infra("a", "c", "mine"),
        identity("mine"),
        secret("a", "mine-login", &[]),
        secret("capv-system", "mine-login", &[]),
    ];
    let expected = [
        "Move Cluster a/c",
        "Copy VSphereClusterIdentity mine",
        "Move VSphereCluster a/c",
        "Copy Secret capv-system/mine-login",
    ];
    assert_eq!(planned(&nodes, ALL), expected);
}

#[test]
fn used_secrets_are_copied_unless_they_move() {
    let mut user = infra("a", "c", "");
    user.used_secrets = ["shared", "owned", "missing"].map(str::to_owned).to_vec();
    let nodes = [
        cluster("a", "c"),
        user,
        secret("a", "shared", &[]),
        secret("a", "owned", &["VSphereCluster/a/c"]),
        secret("a", "unrelated", &[]),
        secret("b", "shared", &[]),
    ];
    let expected = [
        "Move Cluster a/c",
        "Copy Secret a/shared",
        "Move VSphereCluster a/c",
        "Move Secret a/owned",
    ];
    assert_eq!(planned(&nodes, ALL), expected);
}

#[test]
fn o13_owner_references_across_namespaces_are_ignored() {
    let nodes = [
        cluster("a", "c"),
        secret("b", "s", &["Cluster/a/c"]),
        node(INFRA, "VSphereClusterIdentity", "", "i", &["Cluster/a/c"]),
        secret("b", "c-kubeconfig", &[]),
    ];
    assert_eq!(planned(&nodes, ALL), ["Move Cluster a/c"]);
}

#[test]
fn secret_belongs_to_a_cluster_by_name_only_without_owners() {
    let nodes = [
        cluster("a", "c"),
        secret("a", "c-ca", &[]),
        secret("a", "c-apiserver-etcd-client", &[]),
        secret("a", "c-kubeconfig", &["somebody"]),
        secret("a", "c-d-ca", &[]),
        secret("a", "-ca", &[]),
        secret("a", "ca", &[]),
        secret("a", "c-other", &[]),
    ];
    let expected = [
        "Move Cluster a/c",
        "Move Secret a/c-ca",
        "Move Secret a/c-apiserver-etcd-client",
    ];
    assert_eq!(planned(&nodes, ALL), expected);
}

#[test]
fn moving_one_cluster_copies_shared_classes_and_leaves_the_others() {
    let (mut one, mut other) = (cluster("a", "one"), cluster("a", "other"));
    one.class = Some("k".to_owned());
    other.class = Some("k".to_owned());
    let nodes = [
        class("k"),
        class("unused"),
        node(INFRA, "Template", "a", "t", &["ClusterClass/a/k"]),
        one,
        other,
        secret("a", "one-ca", &[]),
        secret("a", "other-ca", &[]),
    ];
    let only = Selection {
        cluster: Some("one"),
        ..ALL
    };
    let expected = [
        "Copy ClusterClass a/k",
        "Copy Template a/t",
        "Move Cluster a/one",
        "Move Secret a/one-ca",
    ];
    assert_eq!(planned(&nodes, only), expected);
    let all = planned(&nodes, ALL);
    assert_eq!(all.len(), 7);
    assert!(all.iter().all(|line| line.starts_with("Move")), "{all:?}");
}

#[test]
fn secret_owned_by_two_clusters_prevents_moving_one() {
    let nodes = [
        cluster("a", "one"),
        cluster("a", "other"),
        secret("a", "s", &["Cluster/a/one", "Cluster/a/other"]),
    ];
    let only = Selection {
        cluster: Some("one"),
        ..ALL
    };
    let pair = ("Secret a/s".to_owned(), "Cluster a/other".to_owned());
    assert_eq!(plan(&nodes, only), Err(PlanError::Shared(vec![pair])));
    assert_eq!(planned(&nodes, ALL).len(), 3);
}

#[test]
fn owner_cycle_is_an_error() {
    let nodes = [
        cluster("a", "c"),
        secret("a", "x", &["Secret/a/y", "Cluster/a/c"]),
        secret("a", "y", &["Secret/a/x"]),
    ];
    let circle = ["Secret a/x".to_owned(), "Secret a/y".to_owned()];
    assert_eq!(plan(&nodes, ALL), Err(PlanError::Cycle(circle.to_vec())));
}

/// Generates Clusters, Machines, Secrets and identities in two namespaces and the provider's.
/// Owners have smaller indexes, but may be in any namespace.
fn world() -> impl Strategy<Value = Vec<Node>> {
    let one = (
        0..5_usize,
        0..3_usize,
        prop::collection::vec(0..20_usize, 0..3),
        0..3_usize,
    );
    prop::collection::vec(one, 1..20).prop_map(|seeds| {
        let numbered = seeds.into_iter().enumerate();
        let made = numbered.map(|(at, (kind, place, owners, named))| {
            let namespace = ["a", "b", "capv-system"][place];
            let owners = owners.iter().filter(|&&owner| owner < at);
            let mut made = match kind {
                0 => cluster(namespace, &at.to_string()),
                1 => node(CAPI, "Machine", namespace, &at.to_string(), &[]),
                2 => secret(namespace, &at.to_string(), &[]),
                3 => infra(namespace, &at.to_string(), &named.to_string()),
                _ => identity(&(at % 3).to_string()),
            };
            made.uid = at.to_string();
            made.owners = owners.map(ToString::to_string).collect();
            made
        });
        made.collect()
    })
}

fn dispositions(nodes: &[Node], steps: &[Step]) -> BTreeMap<usize, (usize, Disposition)> {
    assert_eq!(nodes.len().min(steps.len()), steps.len());
    let numbered = steps.iter().enumerate();
    numbered
        .map(|(order, step)| (step.at, (order, step.disposition)))
        .collect()
}

proptest! {
    #[test]
    fn any_plan_is_complete_ordered_and_limited_to_the_namespace(
        nodes in world(),
        only in prop::option::of(0..20_usize),
    ) {
        let only = only.map(|only| only.to_string());
        let selection = Selection { namespace: "a", cluster: only.as_deref() };
        let Ok(steps) = plan(&nodes, selection) else {
            // Two clusters share an object, and only one of them is moved.
            prop_assert!(only.is_some());
            return Ok(());
        };
        let dispositions = dispositions(&nodes, &steps);
        prop_assert_eq!(dispositions.len(), steps.len(), "twice in it");
        let graph = OwnerGraph::of(&nodes, ALL);
        for (&at, &(order, disposition)) in &dispositions {
            let node = &nodes[at];
            // Objects of other namespaces are there because an identity is referenced.
            if node.namespace.as_deref() != Some("a") {
                prop_assert_eq!(disposition, Disposition::Copy);
                let by_identity = |parent: &usize| {
                    dispositions.contains_key(parent) && nodes[*parent].namespace != Some("a".to_owned())
                };
                let named = nodes.iter().enumerate().any(|(other, by)| {
                    dispositions.contains_key(&other) && names_identity(by, node)
                });
                prop_assert!(named || graph.parents[at].iter().any(by_identity), "{}", node);
            }
            // Dependents are part of the plan, and stay if their owner stays.
            for child in &graph.children[at] {
                let Some(&(later, below)) = dispositions.get(child) else {
                    return Err(TestCaseError::fail(format!("{} was left", nodes[*child])));
                };
                prop_assert!(order < later, "{} goes before its owner", nodes[*child]);
                prop_assert!(disposition == Disposition::Move || below == Disposition::Copy);
            }
        }
        // Everything that was selected is part of the plan.
        for (at, node) in nodes.iter().enumerate() {
            let meant = only.as_ref().is_none_or(|only| *only == node.name);
            if node.is_cluster() && node.namespace.as_deref() == Some("a") && meant {
                prop_assert!(dispositions.contains_key(&at));
            }
        }
    }
}

/// Returns an object of a provider's own group, which hosts and pools are like.
fn device(kind: &str, name: &str, owners: &[&str]) -> Node {
    let mut made = node("devices.example", kind, "a", name, owners);
    made.follows_clusters = true;
    made
}

fn needs(mut by: Node, (kind, name): (&'static str, &str), sharing: Sharing) -> Node {
    by.needs.push(Needed {
        group: "devices.example",
        kind,
        name: name.to_owned(),
        sharing,
    });
    by
}

const ONE: Selection<'static> = Selection {
    namespace: "a",
    cluster: Some("c"),
};

#[test]
fn needed_objects_move_with_their_dependents_after_the_clusters() {
    let machine = node(INFRA, "Machine", "a", "m", &["Cluster/a/c"]);
    let nodes = [
        device("Host", "h", &[]),
        device("Host", "free", &[]),
        secret("a", "h-login", &["Host/a/h"]),
        needs(machine, ("Host", "h"), Sharing::Refused),
        cluster("a", "c"),
    ];
    let expected = [
        "Move Cluster a/c",
        "Move Host a/h",
        "Move Machine a/m",
        "Move Secret a/h-login",
    ];
    assert_eq!(planned(&nodes, ONE), expected);
}

#[test]
fn object_that_another_cluster_needs_too_is_copied_or_prevents_the_move() {
    let of = |name: &str, sharing| {
        let owner = format!("Cluster/a/{name}");
        let claim = node(INFRA, "Claim", "a", name, &[&owner]);
        needs(claim, ("Pool", "p"), sharing)
    };
    let nodes = |sharing| {
        let claims = [of("c", sharing), of("d", sharing)];
        let [one, other] = claims;
        [
            device("Pool", "p", &[]),
            one,
            other,
            cluster("a", "c"),
            cluster("a", "d"),
        ]
    };
    let refused = plan(&nodes(Sharing::Refused), ONE);
    let pair = ("Pool a/p".to_owned(), "Claim a/d".to_owned());
    assert_eq!(refused, Err(PlanError::Needed(vec![pair])));
    let error = Error::from(refused.unwrap_err());
    let text = "not everything can be moved:\n  Pool a/p is also used by Claim a/d, which is not \
                moved";
    assert_eq!(error.to_string(), text);
    let copied = planned(&nodes(Sharing::Copied), ONE);
    assert!(copied.contains(&"Copy Pool a/p".to_owned()), "{copied:?}");
    let all = planned(&nodes(Sharing::Refused), ALL);
    assert!(all.contains(&"Move Pool a/p".to_owned()), "{all:?}");
}

#[test]
fn object_that_stays_keeps_its_dependents() {
    let root = |mut node: Node| {
        node.root = true;
        node
    };
    let mut staying = root(device("Host", "used", &[]));
    staying.stays = true;
    let nodes = [
        cluster("a", "c"),
        staying,
        root(device("Host", "free", &[])),
        root(device("Hardware", "used", &["Host/a/used"])),
        root(device("Hardware", "free", &["Host/a/free"])),
        // A Secret of both is copied.
        secret("a", "login", &["Host/a/used", "Host/a/free"]),
    ];
    let expected = [
        "Move Cluster a/c",
        "Move Host a/free",
        "Move Hardware a/free",
        "Copy Secret a/login",
    ];
    assert_eq!(planned(&nodes, ALL), expected);
}
