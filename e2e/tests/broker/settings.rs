//! The settings of a broker: R72 to R74, and invalid ones.

use serde_json::json;

use crate::cluster::shared;
use crate::content::{namespace, one, snapshot};
use crate::fixture::Tenant;
use crate::user::FILE;

const GLOBALNET: &str = "submariner-globalnet-info";
const CLUSTERSET: &str = "submariner-clustersetip-info";

#[test]
fn r72_components_are_sorted_and_domains_written_as_given() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create(&cluster, "r72");
    let both = json!(["connectivity", "service-discovery"]);
    for (flags, components, discovery, domains) in [
        ("", both.clone(), true, json!(null)),
        (
            "--components service-discovery,connectivity",
            both.clone(),
            true,
            json!(null),
        ),
        (
            "--components connectivity",
            json!(["connectivity"]),
            false,
            json!(null),
        ),
        (
            "--components service-discovery --custom-domains b.example,a.example",
            json!(["service-discovery"]),
            true,
            json!(["b.example", "a.example"]),
        ),
        (
            "--components connectivity --components service-discovery",
            both,
            true,
            json!(null),
        ),
    ] {
        let file = tenant.deploy_broker(flags);
        assert_eq!(file.0["Components"], components, "{flags}");
        assert_eq!(file.0["ServiceDiscovery"], discovery, "{flags}");
        assert_eq!(file.0["CustomDomains"], domains, "{flags}");
    }
}

#[test]
fn r72_r73_invalid_settings_are_refused_before_anything_is_written() {
    let Some(cluster) = shared() else { return };
    let (tenant, root) = (Tenant::create(&cluster, "r73-refused"), cluster.root());
    let before = snapshot(&root, &tenant.namespace);
    let file = std::fs::read(tenant.admin.path(FILE)).unwrap();
    for (flags, why) in [
        ("--components nonsense", "unknown component"),
        ("--components ''", "component"),
        ("--globalnet --globalnet-cidr-range nonsense", "GlobalCIDR"),
        ("--globalnet --globalnet-cidr-range 127.0.0.0/8", "loopback"),
        (
            "--globalnet --globalnet-cidr-range 169.254.0.0/16",
            "link-local",
        ),
        (
            "--globalnet --globalnet-cidr-range 224.0.0.0/24",
            "multicast",
        ),
        (
            "--globalnet --globalnet-cidr-range 0.0.0.0/8",
            "unspecified",
        ),
        (
            "--globalnet --globalnet-cluster-size 0",
            "cluster size must be > 0",
        ),
        (
            "--globalnet --globalnet-cidr-range 242.0.0.0/16 --globalnet-cluster-size 40000",
            "cluster size 40000, should be <= 32768",
        ),
        ("--clusterset-ip-cidr-range 127.0.0.0/8", "loopback"),
    ] {
        let line = format!("deploy broker --broker-info-from {FILE} {flags}");
        let said = tenant.admin.subctl(&line);
        assert!(matches!(said.code, Some(1 | 2)), "{said}");
        assert!(said.err.contains(why), "not {why:?}: {said}");
    }
    assert_eq!(snapshot(&root, &tenant.namespace), before);
    assert_eq!(std::fs::read(tenant.admin.path(FILE)).unwrap(), file);
    // Unused settings are not validated.
    tenant.deploy_broker("--globalnet-cidr-range 127.0.0.0/8");
}

#[test]
fn r73_globalnet_settings_are_stored_once_and_a_different_request_warns() {
    let Some(cluster) = shared() else { return };
    let (tenant, root) = (Tenant::create(&cluster, "r73"), cluster.root());
    let path = one(&tenant.namespace, "configmaps", GLOBALNET);
    tenant.deploy_broker(
        "--globalnet --globalnet-cidr-range 242.0.0.0/8 --globalnet-cluster-size 5000",
    );
    let map = root.get(&path);
    assert_eq!(
        map["metadata"]["labels"],
        json!({"component": "submariner-globalnet"})
    );
    assert_eq!(
        map["data"],
        json!({"globalnetEnabled": "true", "globalnetCidrRange": "\"242.0.0.0/8\"",
               "globalnetClusterSize": "8192"})
    );
    let broker = root.get(&one(&tenant.namespace, "brokers", "submariner-broker"));
    assert_eq!(broker["spec"]["globalnetEnabled"], true);
    assert_eq!(broker["spec"]["globalnetCIDRRange"], "242.0.0.0/8");
    let line = format!(
        "deploy broker --broker-info-from {FILE} --globalnet --globalnet-cidr-range 244.0.0.0/8"
    );
    let said = tenant.admin.subctl(&line);
    assert_eq!(said.code, Some(0), "{said}");
    assert!(
        said.err.contains("242.0.0.0/8"),
        "what is in force is told: {said}"
    );
    assert_eq!(root.get(&path), map);
    // An existing invalid ConfigMap is an error.
    root.merge(
        &path,
        &json!({"data": {"globalnetCidrRange": "\"127.0.0.0/8\""}}),
    );
    tenant.admin.fails(
        &format!("deploy broker --broker-info-from {FILE} --globalnet"),
        &["GlobalnetCidrRange"],
    );
}

#[test]
fn r73_disabled_globalnet_is_stored() {
    let Some(cluster) = shared() else { return };
    let (tenant, root) = (Tenant::create(&cluster, "r73-off"), cluster.root());
    tenant.deploy_broker("");
    let map = root.get(&one(&tenant.namespace, "configmaps", GLOBALNET));
    assert_eq!(map["data"], json!({"globalnetEnabled": "false"}));
}

#[test]
fn r74_clusterset_ip_settings_are_stored() {
    let Some(cluster) = shared() else { return };
    let root = cluster.root();
    for (id, flags, enabled, range) in [
        ("r74-off", "", "false", "\"243.0.0.0/8\""),
        (
            "r74-on",
            "--enable-clusterset-ip --clusterset-ip-cidr-range 10.9.0.0/16",
            "true",
            "\"10.9.0.0/16\"",
        ),
    ] {
        let tenant = Tenant::create(&cluster, id);
        tenant.deploy_broker(flags);
        let map = root.get(&one(&tenant.namespace, "configmaps", CLUSTERSET));
        assert_eq!(map["metadata"].get("labels"), None, "{id}");
        assert_eq!(
            map["data"],
            json!({"clustersetIPEnabled": enabled, "clustersetIPCidrRange": range,
                   "clustersetIPClusterSize": "0"}),
            "{id}"
        );
    }
    assert_eq!(root.find(&namespace("submariner-operator")), None);
}
