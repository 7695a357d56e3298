//! Goals, roles and compatibility: R1 to R10.

use insula_e2e::command::Said;

use crate::cluster::{AXON, Cluster, Operator, TENANTS, classic, shared};
use crate::content::{at, names, namespace, one, snapshot};
use crate::fixture::{Tenant, await_phase, tenant};
use crate::subm::{Subm, mode};
use crate::user::FILE;
use crate::wait::until;

/// The exact contents of a classic broker's namespace; the server generates the name of the
/// token's Secret.
const CLASSIC: [&str; 10] = [
    "brokers/submariner-broker",
    "configmaps/submariner-clustersetip-info",
    "configmaps/submariner-globalnet-info",
    "rolebindings/submariner-k8s-broker-admin",
    "rolebindings/submariner-k8s-broker-client-submariner-k8s-broker-cluster",
    "roles/submariner-k8s-broker-admin",
    "roles/submariner-k8s-broker-cluster",
    "secrets/submariner-k8s-broker-admin-token-",
    "serviceaccounts/submariner-k8s-broker-admin",
    "serviceaccounts/submariner-k8s-broker-client",
];

/// Removes the generated suffix of names.
fn without_generated_suffix(names: Vec<String>) -> Vec<String> {
    let cut = |name: String| match name.split_once("-token-") {
        Some((before, _)) => format!("{before}-token-"),
        None => name,
    };
    names.into_iter().map(cut).collect()
}

#[test]
fn r1_all_objects_of_a_broker_are_in_the_given_namespace() {
    let Some(cluster) = classic() else { return };
    let (admin, root) = (cluster.admin(), cluster.root());
    for (flag, name) in [("-n", "r1-short"), ("--namespace", "r1-long")] {
        admin.does(&format!("deploy broker {flag} {name}"));
        assert_eq!(without_generated_suffix(names(&root, name)), CLASSIC);
        assert_eq!(admin.reads(FILE).namespace(), Some(name));
        assert_eq!(admin.reads(FILE).token_namespace(), name);
    }
}

#[test]
fn r2_default_namespace_is_submariner_k8s_broker() {
    let Some(cluster) = classic() else { return };
    let (admin, root) = (cluster.admin(), cluster.root());
    admin.does("deploy broker");
    assert_eq!(
        without_generated_suffix(names(&root, "submariner-k8s-broker")),
        CLASSIC
    );
    assert_eq!(admin.reads(FILE).namespace(), Some("submariner-k8s-broker"));
}

#[test]
fn r3_clustersets_coexist_without_touching_each_other() {
    let Some(cluster) = shared() else { return };
    let root = cluster.root();
    cluster.admin().does("deploy broker -n r3-classic");
    let mut seen = vec![("r3-classic".to_owned(), snapshot(&root, "r3-classic"))];
    for id in ["r3-a", "r3-b", "r3-c"] {
        let tenant = Tenant::create(&cluster, id);
        tenant.deploy_broker("--globalnet");
        for (name, before) in &seen {
            assert_eq!(&snapshot(&root, name), before, "{name} after {id}");
        }
        let now = snapshot(&root, &tenant.namespace);
        for own in [
            "brokers/submariner-broker",
            "configmaps/submariner-globalnet-info",
            "serviceaccounts/submariner-k8s-broker-admin",
        ] {
            assert!(now.contains_key(own), "{own} of {id}: {now:?}");
        }
        seen.push((tenant.namespace, now));
    }
}

#[test]
fn r5_clusterset_admin_deploys_a_broker_with_only_the_file() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create(&cluster, "r5");
    let file = tenant.deploy_broker("");
    assert_eq!(file.namespace(), Some("submariner-broker-r5"));
    let broker = one(&tenant.namespace, "brokers", "submariner-broker");
    let broker = tenant.api(&cluster).get(&broker);
    assert_eq!(
        broker["spec"]["components"],
        serde_json::json!(["connectivity", "service-discovery"])
    );
}

#[test]
fn r6_classic_broker_is_unchanged_without_axon() {
    let Some(cluster) = classic() else { return };
    let (admin, root) = (cluster.admin(), cluster.root());
    admin.does("deploy broker -n r6");
    assert_eq!(without_generated_suffix(names(&root, "r6")), CLASSIC);
    assert_eq!(
        Subm::keys(&admin.path(FILE)),
        [
            "brokerURL",
            "ClientToken",
            "IPSecPSK",
            "ServiceDiscovery",
            "Components",
            "CustomDomains",
            "namespace"
        ]
    );
    let file = admin.reads(FILE);
    assert_eq!(file.url(), cluster.url());
    assert_eq!(
        file.0["Components"],
        serde_json::json!(["connectivity", "service-discovery"])
    );
    assert_eq!(file.0["ServiceDiscovery"], true);
    assert_eq!(file.0["CustomDomains"], serde_json::Value::Null);
    assert_eq!(
        file.0["ClientToken"]["type"],
        "kubernetes.io/service-account-token"
    );
    assert_eq!(mode(&admin.path(FILE)), 0o600);
    // The rules are Submariner's own, and not wider.
    let role = root.get(&one("r6", "roles", "submariner-k8s-broker-admin"));
    let rules = role["rules"].to_string();
    assert!(!rules.contains("\"roles\""), "{rules}");
    assert!(!rules.contains("\"namespaces\""), "{rules}");
    assert_eq!(
        root.find(TENANTS),
        None,
        "tenants are not installed without Axon"
    );
}

#[test]
fn r7_existing_files_and_command_lines_keep_working() {
    let Some(cluster) = classic() else { return };
    let (admin, root) = (cluster.admin(), cluster.root());
    admin.does(
        "deploy-broker --namespace r7 --components service-discovery,connectivity \
         --custom-domains a.example,b.example --repository r --version v --operator-debug",
    );
    let first = admin.reads(FILE);
    // Files of existing versions have no namespace.
    first.without(&["namespace"]).write(&admin.path("old.subm"));
    let joining = cluster.workload("r7");
    let join = format!(
        "join old.subm --clusterid r7 --kubeconfig '{}'",
        joining.kubeconfig()
    );
    admin.does(&join);
    assert!(
        root.names(&at("r7", "serviceaccounts"))
            .contains(&"cluster-r7".to_owned())
    );
    admin.does("deploy-broker --ipsec-psk-from old.subm");
    assert_eq!(admin.reads(FILE).psk(), first.psk());
    // The token in the file names its namespace.
    assert_eq!(admin.reads(FILE).namespace(), Some("r7"));
}

#[test]
fn r8_classic_broker_is_not_touched_by_axon_or_its_tenants() {
    let Some(cluster) = Cluster::bare(Operator::Inside) else {
        return;
    };
    let (admin, root) = (cluster.admin(), cluster.root());
    admin.does("deploy broker");
    let before = snapshot(&root, "submariner-k8s-broker");
    let namespace_before = root.get(&namespace("submariner-k8s-broker"));
    admin.does("deploy axon-cp --without-deployment --no-wait");
    if crate::cluster::is_kubernetes() {
        cluster.start_operator();
    }
    let tenant = Tenant::create(&cluster, "r8");
    tenant.deploy_broker("");
    admin.does("delete tenant r8");
    assert_eq!(snapshot(&root, "submariner-k8s-broker"), before);
    assert_eq!(
        root.get(&namespace("submariner-k8s-broker")),
        namespace_before
    );
}

#[test]
fn r9_second_operator_takes_over_when_the_first_is_killed() {
    let Some(cluster) = Cluster::with_axon(Operator::Apart) else {
        return;
    };
    let root = cluster.root();
    let lease = "/apis/coordination.k8s.io/v1/namespaces/axon-operator/leases/axon-operator";
    let holder = |api: &crate::api::Api| api.get(lease)["spec"]["holderIdentity"].clone();
    let first = holder(&root);
    let second = cluster.operator();
    root.create(TENANTS, &tenant("r9-one"));
    await_phase(&root, "r9-one", "Provisioned");
    assert_eq!(holder(&root), first);
    cluster.kill_operator();
    root.create(TENANTS, &tenant("r9-two"));
    await_phase(&root, "r9-two", "Provisioned");
    assert_ne!(holder(&root), first);
    cluster.journal.note(&second.kill());
}

#[test]
fn r9_second_deployment_of_axon_changes_nothing() {
    let Some(cluster) = shared() else { return };
    let (admin, root) = (cluster.admin(), cluster.root());
    let before = snapshot(&root, "axon-operator");
    let uid = root.get(AXON)["metadata"]["uid"].clone();
    let spaces = if crate::cluster::is_kubernetes() {
        ""
    } else {
        "--spaces"
    };
    admin.does(&format!(
        "deploy axon-cp --without-deployment --axon-admin user:axel {spaces}"
    ));
    assert_eq!(snapshot(&root, "axon-operator"), before);
    assert_eq!(root.get(AXON)["metadata"]["uid"], uid);
}

#[test]
fn r10_every_command_exists_and_has_help() {
    let Some(cluster) = classic() else { return };
    let somebody = cluster.nobody();
    for command in [
        "",
        "deploy",
        "deploy axon-cp",
        "deploy broker",
        "deploy-broker",
        "create",
        "create tenant",
        "create tenants",
        "get tenant",
        "get tenants",
        "list tenants",
        "list tenant",
        "delete tenant",
        "delete tenants",
        "join",
        "show",
        "show brokers",
        "recover-broker-info",
    ] {
        let said: Said = somebody.subctl(&format!("{command} --help"));
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said}");
        assert!(said.out.contains("Usage: subctl"), "{said}");
    }
    somebody.misuses("", "Usage: subctl");
    somebody.misuses("create", "Usage: subctl create");
    somebody.misuses("create cluster", "cluster");
    somebody.misuses("get tenant", "ID");
    somebody.misuses("delete tenant", "ID");
    somebody.misuses("deploy broker --no-such-flag", "--no-such-flag");
    let version = until("it says its version", || {
        Some(somebody.subctl("--version").succeeds())
    });
    assert!(version.starts_with("subctl "), "{version}");
}
