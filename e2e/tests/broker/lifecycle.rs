//! The complete path from an empty cluster to two joined clusters in each of two tenants.

use std::thread;

use http::Method;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Workload, shared};
use crate::content::{at, names, one};
use crate::fixture::{Tenant, hand_over};
use crate::user::FILE;

const OPERATOR: &str = "namespaces/submariner-operator";

/// The objects of a tenant with two joined clusters.
struct Joined {
    tenant: Tenant,
    members: [Workload; 2],
}

fn deploy_and_join(cluster: &Cluster, id: &str) -> Joined {
    let tenant = Tenant::create(cluster, id);
    let file = tenant.deploy_broker("--globalnet");
    assert_eq!(file.namespace(), Some(tenant.namespace.as_str()));
    let members = ["east", "west"].map(|member| {
        let joining = cluster.workload(&format!("{id}-{member}"));
        // The same names and addresses in both tenants.
        let cidrs = "--clustercidr 10.0.0.0/16 --servicecidr 100.0.0.0/16";
        tenant.join(&joining, member, cidrs);
        joining
    });
    Joined { tenant, members }
}

#[test]
fn two_tenants_deploy_and_join_concurrently() {
    let Some(cluster) = shared() else { return };
    let [one, other] = thread::scope(|scope| {
        let both = ["walk-a", "walk-b"].map(|id| {
            let cluster = &cluster;
            scope.spawn(move || deploy_and_join(cluster, id))
        });
        both.map(|joined| joined.join().unwrap())
    });
    for joined in [&one, &other] {
        has_both_members(&cluster, joined);
    }
    // A member's credential is valid for its own tenant only.
    for (own, foreign) in [(&one, &other), (&other, &one)] {
        let (own_space, foreign_space) = (&own.tenant.namespace, &foreign.tenant.namespace);
        for member in &own.members {
            let secret = member.get(&format!(
                "/api/v1/{OPERATOR}/secrets/submariner-broker-secret"
            ));
            let api = cluster.api(&decoded(&secret["data"]["token"]));
            assert_eq!(
                api.code(&Method::GET, &at(own_space, "clusters"), None),
                200
            );
            for kind in [
                "clusters",
                "endpoints",
                "secrets",
                "serviceimports",
                "brokers",
            ] {
                assert_eq!(
                    api.code(&Method::GET, &at(foreign_space, kind), None),
                    403,
                    "{kind}"
                );
            }
            assert_eq!(
                api.code(
                    &Method::POST,
                    &at(own_space, "rolebindings"),
                    Some(&json!({}))
                ),
                403
            );
        }
    }
}

#[track_caller]
fn has_both_members(cluster: &Cluster, joined: &Joined) {
    let (tenant, root) = (&joined.tenant, cluster.root());
    let here = tenant.namespace.as_str();
    let found = names(&root, here);
    for part in [
        "serviceaccounts/cluster-east",
        "serviceaccounts/cluster-west",
        "rolebindings/cluster-east-submariner-k8s-broker-cluster",
        "rolebindings/cluster-west-submariner-k8s-broker-cluster",
    ] {
        assert!(found.contains(&part.to_owned()), "{part}: {found:?}");
    }
    let file = tenant.admin.reads(FILE);
    for (member, (id, global)) in joined
        .members
        .iter()
        .zip([("east", "242.0.0.0/16"), ("west", "242.1.0.0/16")])
    {
        let submariner = format!("/apis/submariner.io/v1alpha1/{OPERATOR}/submariners/submariner");
        let spec = member.get(&submariner)["spec"].clone();
        assert_eq!(spec["clusterID"], id);
        assert_eq!(spec["brokerK8sRemoteNamespace"], here);
        assert_eq!(
            spec["brokerK8sApiServer"],
            cluster.url().trim_start_matches("https://")
        );
        assert_eq!(spec["globalCIDR"], global, "{spec}");
        assert_eq!(spec["clusterCIDR"], "10.0.0.0/16");
        let key = member.get(&format!("/api/v1/{OPERATOR}/secrets/submariner-ipsec-psk"));
        assert_eq!(key["data"]["psk"], file.0["IPSecPSK"]["data"]["psk"]);
    }
    let shown = cluster.admin().does("show brokers");
    assert!(shown.contains(here), "not cut off: {shown}");
}

fn decoded(value: &Value) -> String {
    use base64::Engine;
    let bytes = base64::prelude::BASE64_STANDARD.decode(value.as_str().unwrap());
    String::from_utf8(bytes.unwrap()).unwrap()
}

#[test]
fn joining_again_changes_nothing_and_a_taken_id_is_refused() {
    let Some(cluster) = shared() else { return };
    let (tenant, root) = (Tenant::create(&cluster, "again"), cluster.root());
    tenant.deploy_broker("--globalnet");
    let east = cluster.workload("again-east");
    tenant.join(&east, "east", "");
    let map = one(&tenant.namespace, "configmaps", "submariner-globalnet-info");
    let before = root.get(&map)["data"].clone();
    tenant.join(&east, "east", "");
    assert_eq!(root.get(&map)["data"], before);
    // Once its Cluster object is published, no other cluster can take the ID.
    let object = json!({"apiVersion": "submariner.io/v1", "kind": "Cluster", "metadata": {"name": "east"},
        "spec": {"cluster_id": "east", "cluster_cidr": [], "service_cidr": [], "global_cidr": []}});
    tenant
        .api(&cluster)
        .create(&at(&tenant.namespace, "clusters"), &object);
    let impostor = cluster.workload("again-impostor");
    let line = format!(
        "join {FILE} --clusterid east --kubeconfig '{}'",
        impostor.kubeconfig()
    );
    tenant.admin.fails(&line, &["east"]);
    assert_eq!(impostor.find(&format!("/api/v1/{OPERATOR}")), None);
}

#[test]
fn member_that_leaves_is_forgotten_by_the_broker() {
    let Some(cluster) = shared() else { return };
    let root = cluster.root();
    let tenant = Tenant::create_with(&cluster, "leave", "--deploy-broker --globalnet");
    let here = &tenant.namespace;
    let (east, west) = (
        cluster.workload("leave-east"),
        cluster.workload("leave-west"),
    );
    tenant.join(&east, "east", "");
    tenant.join(&west, "west", "");
    let diagnosed = tenant.admin.subctl(&format!("diagnose {FILE}"));
    assert_eq!(diagnosed.code, Some(1), "{diagnosed}");
    assert!(
        diagnosed
            .out
            .contains("joined and published nothing: east, west"),
        "{diagnosed}"
    );
    let line = format!("unjoin {FILE} --yes --kubeconfig '{}'", east.kubeconfig());
    tenant.admin.does(&line);
    assert_eq!(east.find(&format!("/api/v1/{OPERATOR}")), None);
    let accounts = root.names(&at(here, "serviceaccounts"));
    assert!(
        accounts.contains(&"cluster-west".to_owned()),
        "{accounts:?}"
    );
    assert!(
        !accounts.contains(&"cluster-east".to_owned()),
        "{accounts:?}"
    );
    let map = root.get(&one(here, "configmaps", "submariner-globalnet-info"));
    let info: Value = serde_json::from_str(map["data"]["clusterinfo"].as_str().unwrap()).unwrap();
    assert_eq!(
        info,
        json!([{"cluster_id": "west", "global_cidr": ["242.1.0.0/16"]}])
    );
    tenant.admin.does(&line);
    let gone = format!("unjoin {FILE} --yes --broker-only --clusterid west");
    tenant.admin.does(&gone);
    let diagnosed = tenant.admin.does(&format!("diagnose {FILE}"));
    assert!(diagnosed.contains("no cluster has joined"), "{diagnosed}");
    tenant.join(&east, "west", "");
}

#[test]
fn eight_concurrent_joins_get_eight_ranges() {
    let Some(cluster) = shared() else { return };
    let (tenant, root) = (Tenant::create(&cluster, "eight"), cluster.root());
    tenant.deploy_broker("--globalnet");
    thread::scope(|scope| {
        for number in 0..8 {
            let (cluster, tenant) = (&cluster, &tenant);
            scope.spawn(move || {
                let joining = cluster.workload(&format!("eight-{number}"));
                tenant.join(&joining, &format!("c{number}"), "");
            });
        }
    });
    let map = root.get(&one(
        &tenant.namespace,
        "configmaps",
        "submariner-globalnet-info",
    ));
    let info: Vec<Value> =
        serde_json::from_str(map["data"]["clusterinfo"].as_str().unwrap()).unwrap();
    let ranges: std::collections::BTreeSet<String> = info
        .iter()
        .map(|cluster| cluster["global_cidr"][0].to_string())
        .collect();
    assert_eq!((info.len(), ranges.len()), (8, 8), "{info:?}");
}

#[test]
fn lost_file_is_recovered_from_a_member_and_from_the_broker() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create(&cluster, "lost");
    let file = tenant.deploy_broker("--custom-domains a.example");
    let east = cluster.workload("lost-east");
    tenant.join(&east, "east", "");
    let somebody = cluster.nobody();
    somebody.does(&format!(
        "recover-broker-info --kubeconfig '{}'",
        east.kubeconfig()
    ));
    let found = somebody.reads(FILE);
    assert_eq!(found.url(), file.url());
    for field in [
        "IPSecPSK",
        "ServiceDiscovery",
        "Components",
        "CustomDomains",
        "namespace",
    ] {
        assert_eq!(found.0[field]["data"], file.0[field]["data"], "{field}");
    }
    assert_eq!(
        (found.token(), found.namespace()),
        (file.token(), file.namespace())
    );
    // The recovered file is valid for the next member.
    let next = cluster.nobody();
    hand_over(&somebody, &next);
    let west = cluster.workload("lost-west");
    next.does(&format!(
        "join {FILE} --clusterid west --kubeconfig '{}'",
        west.kubeconfig()
    ));
}

#[test]
fn show_brokers_lists_what_the_caller_may_read() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create(&cluster, "a-tenant-with-a-name-that-is-rather-long");
    tenant.deploy_broker("--globalnet --custom-domains a.example,b.example");
    let shown = cluster.admin().does("show brokers");
    let head = shown.lines().next().unwrap();
    for column in [
        "NAMESPACE",
        "NAME",
        "COMPONENTS",
        "GLOBALNET",
        "GLOBALNET CIDR",
        "DEFAULT GLOBALNET SIZE",
        "DEFAULT DOMAINS",
    ] {
        assert!(head.contains(column), "{column}: {head}");
    }
    let row = shown
        .lines()
        .find(|line| line.contains(&tenant.namespace))
        .unwrap();
    for text in [
        "submariner-broker",
        "connectivity, service-discovery",
        "yes",
        "242.0.0.0/8",
        "65536",
        "a.example, b.example",
    ] {
        assert!(row.contains(text), "{text}: {row}");
    }
    // A tenant may not list other namespaces, and is told so.
    let somebody = cluster.bearer(&tenant.file.token());
    let said = somebody.subctl("show brokers");
    assert_eq!(said.code, Some(1), "{said}");
    assert!(
        said.err.contains("brokers") && said.err.contains("hint: "),
        "{said}"
    );
}
