use serde_json::json;

use super::*;

fn error_text<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn r73_invalid_globalnet_settings_are_refused() {
    for (range, size, problem) in [
        ("x", 1, "\"x\" is not an address range such as 242.0.0.0/8"),
        ("0.0.0.0/8", 1, "0.0.0.0/8 can't be unspecified"),
        ("127.0.0.0/8", 1, "127.0.0.0/8 can't be in loopback range"),
        (
            "169.254.0.0/16",
            1,
            "169.254.0.0/16 can't be in link-local range",
        ),
        (
            "224.0.0.0/24",
            1,
            "224.0.0.0/24 can't be in link-local multicast range",
        ),
        ("fd00::/8", 1, "fd00::/8 is not IPv4"),
        ("242.0.0.0/8", 0, "cluster size must be > 0"),
        (
            "242.0.0.0/16",
            32769,
            "cluster size 32769, should be <= 32768",
        ),
        ("242.0.0.0/32", 1, "cluster size 1, should be <= 0"),
        (
            "1.0.0.0/0",
            u32::MAX,
            "cluster size 4294967295, should be <= 2147483648",
        ),
    ] {
        let refused = error_text(Globalnet::validate(true, range, size));
        assert_eq!(
            refused,
            format!("invalid GlobalCIDR configuration: {problem}")
        );
        assert_eq!(
            Globalnet::validate(false, range, size).unwrap(),
            Globalnet::disabled()
        );
    }
    for (range, size, rounded) in [
        ("242.0.0.0/8", 65536, 65536),
        ("242.0.0.0/8", 65535, 65536),
        ("242.0.0.0/8", 8193, 16384),
        ("242.0.0.0/16", 32768, 32768),
        ("242.0.0.0/31", 1, 1),
        ("1.0.0.0/0", 1 << 31, 1 << 31),
    ] {
        let valid = Globalnet::validate(true, range, size).unwrap();
        assert_eq!(
            (valid.range.to_string().as_str(), valid.cluster_size),
            (range, rounded)
        );
    }
}

#[test]
fn r74_clusterset_ip_range_is_always_validated() {
    for enabled in [true, false] {
        let refused = error_text(ClustersetIp::validate(enabled, "127.0.0.0/8"));
        assert_eq!(
            refused,
            "invalid ClustersetIP configuration: 127.0.0.0/8 can't be in loopback range"
        );
        let valid = ClustersetIp::validate(enabled, "243.0.0.0/8").unwrap();
        assert_eq!(valid.enabled, enabled);
    }
}

#[test]
fn r73_globalnet_config_map_matches_submariners() {
    let on = Globalnet::validate(true, "242.0.0.0/8", 60000).unwrap();
    assert_eq!(
        serde_json::to_value(on.config_map("n")).unwrap(),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "submariner-globalnet-info", "namespace": "n",
                "labels": {"component": "submariner-globalnet"},
            },
            "data": {
                "globalnetEnabled": "true",
                "globalnetCidrRange": "\"242.0.0.0/8\"",
                "globalnetClusterSize": "65536",
            },
        })
    );
    let disabled = Globalnet::disabled().config_map("n");
    let only = BTreeMap::from([("globalnetEnabled".to_owned(), "false".to_owned())]);
    assert_eq!(disabled.data, Some(only));
    assert_eq!(Globalnet::read(&on.config_map("n")).unwrap(), on);
    assert_eq!(Globalnet::read(&disabled).unwrap(), Globalnet::disabled());
}

#[test]
fn r74_clusterset_ip_config_map_matches_submariners() {
    let made = ClustersetIp::disabled().config_map("n");
    assert_eq!(
        serde_json::to_value(&made).unwrap(),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "submariner-clustersetip-info", "namespace": "n"},
            "data": {
                "clustersetIPEnabled": "false",
                "clustersetIPCidrRange": "\"243.0.0.0/8\"",
                "clustersetIPClusterSize": "0",
            },
        })
    );
    assert_eq!(ClustersetIp::read(&made).unwrap(), ClustersetIp::disabled());
    assert_eq!(ClustersetIp::cluster_size(&made).unwrap(), 4096);
}

fn map(data: &[(&str, &str)]) -> ConfigMap {
    let data = data.iter().map(|&(key, value)| (key, value.to_owned()));
    config_map(GLOBALNET_INFO, "n", data.collect())
}

#[test]
fn config_maps_are_read_as_users_write_them() {
    let plain = map(&[
        ("globalnetEnabled", "true\n"),
        ("globalnetCidrRange", "242.0.0.0/8"),
    ]);
    let read = Globalnet::read(&plain).unwrap();
    assert_eq!(
        (read.range.to_string().as_str(), read.cluster_size),
        ("242.0.0.0/8", 65536)
    );
    let ignored = map(&[
        ("globalnetEnabled", "false"),
        ("globalnetCidrRange", "rubbish"),
        ("globalnetClusterSize", "rubbish"),
    ]);
    assert_eq!(Globalnet::read(&ignored).unwrap(), Globalnet::disabled());
    let before = "the ConfigMap submariner-globalnet-info of the broker cannot be used: ";
    for (data, problem) in [
        (
            &[("globalnetEnabled", "true")][..],
            "invalid GlobalnetCidrRange: \"\" is not an address range such as 242.0.0.0/8",
        ),
        (
            &[
                ("globalnetEnabled", "true"),
                ("globalnetCidrRange", "\"127.0.0.0/8\""),
            ],
            "invalid GlobalnetCidrRange: 127.0.0.0/8 can't be in loopback range",
        ),
        (
            &[
                ("globalnetEnabled", "true"),
                ("globalnetCidrRange", "\"242.0.0.0/8\""),
                ("globalnetClusterSize", "many"),
            ],
            "globalnetClusterSize is not a number",
        ),
        (
            &[("globalnetEnabled", "yes")],
            "globalnetEnabled must be true or false",
        ),
    ] {
        assert_eq!(
            error_text(Globalnet::read(&map(data))),
            format!("{before}{problem}")
        );
    }
}

#[test]
fn allocations_are_written_as_go_writes_them() {
    let mut found = Globalnet::validate(true, "242.0.0.0/8", 65536)
        .unwrap()
        .config_map("n");
    let mut allocations = Allocations::read(&found).unwrap();
    let range = "242.0.0.0/8".parse().unwrap();
    for cluster in ["west", "east"] {
        allocations
            .allocate(cluster, &range, &AllocationRequest::Size(65536))
            .unwrap();
    }
    allocations.write(&mut found);
    assert_eq!(
        found.data.as_ref().unwrap()["clusterinfo"],
        "[\n\t{\n\t\t\"cluster_id\": \"west\",\n\t\t\"global_cidr\": [\n\t\t\t\"242.0.0.0/16\"\n\t\t]\n\t},\n\t{\n\t\t\"cluster_id\": \"east\",\n\t\t\"global_cidr\": [\n\t\t\t\"242.1.0.0/16\"\n\t\t]\n\t}\n]"
    );
    assert_eq!(Allocations::read(&found).unwrap(), allocations);
    assert_eq!(found.data.as_ref().unwrap()["globalnetEnabled"], "true");
}

#[test]
fn go_allocations_round_trip_byte_for_byte() {
    let recorded = include_str!("../../tests/data/go-clusterinfo.json");
    let mut found = map(&[("clusterinfo", recorded)]);
    let allocations = Allocations::read(&found).unwrap();
    assert_eq!(allocations.of("e<a>&st"), Some("242.1.0.0/16"));
    assert_eq!(allocations.of("none"), None);
    found.data = None;
    allocations.write(&mut found);
    assert_eq!(found.data.unwrap()["clusterinfo"], recorded);
}

#[test]
fn allocation_is_kept_and_never_overlaps_another() {
    let range = "242.0.0.0/8".parse().unwrap();
    let mut allocations = Allocations::default();
    let wish = AllocationRequest::Range("10.0.0.0/16".parse().unwrap());
    let given = allocations.allocate("east", &range, &wish).unwrap();
    assert_eq!(
        (given.range.as_str(), given.existing),
        ("10.0.0.0/16", false)
    );
    let again = allocations
        .allocate("east", &range, &AllocationRequest::Size(4))
        .unwrap();
    assert_eq!(
        (again.range.as_str(), again.existing),
        ("10.0.0.0/16", true)
    );
    let wish = AllocationRequest::Range("10.0.3.0/24".parse().unwrap());
    assert_eq!(
        error_text(allocations.allocate("west", &range, &wish)),
        "invalid CIDR \"10.0.3.0/24\" overlaps with cluster \"east\""
    );
    let wish = AllocationRequest::Range("127.0.0.0/8".parse().unwrap());
    assert_eq!(
        error_text(allocations.allocate("west", &range, &wish)),
        "invalid CIDR \"127.0.0.0/8\": 127.0.0.0/8 can't be in loopback range"
    );
    let wish = AllocationRequest::Range("fd00::/64".parse().unwrap());
    assert_eq!(
        error_text(allocations.allocate("west", &range, &wish)),
        "invalid CIDR \"fd00::/64\": fd00::/64 is not IPv4"
    );
}

#[test]
fn invalid_allocations_are_never_taken_for_empty() {
    let before = "the ConfigMap submariner-globalnet-info of the broker cannot be used: ";
    for wrong in ["{", "{}", "[1]", "[{}]", "\"x\""] {
        let refused = error_text(Allocations::read(&map(&[("clusterinfo", wrong)])));
        assert_eq!(
            refused,
            format!("{before}clusterinfo is not a list of clusters")
        );
    }
    for empty in ["", " ", "[]", "null"] {
        let read = Allocations::read(&map(&[("clusterinfo", empty)])).unwrap();
        assert_eq!(read, Allocations::default());
    }
    let odd = r#"[{"cluster_id":"a","global_cidr":null},{"cluster_id":"b","global_cidr":["?"]}]"#;
    let mut read = Allocations::read(&map(&[("clusterinfo", odd)])).unwrap();
    let range = "242.0.0.0/8".parse().unwrap();
    assert_eq!(
        error_text(read.allocate("a", &range, &AllocationRequest::Size(4))),
        "the broker has invalid addresses for cluster \"b\": \"?\" is not an address range such as 242.0.0.0/8"
    );
    let validate =
        |allocations: &Allocations, cluster| error_text(allocations.validate(cluster, "m"));
    assert_eq!(
        validate(&read, "a"),
        "the ConfigMap m of the broker cannot be used: of cluster \"b\": \"?\" is not an address range such as 242.0.0.0/8"
    );
    let deep = "[".repeat(1 << 20);
    assert!(Allocations::read(&map(&[("clusterinfo", &deep)])).is_err());
}

#[test]
fn existing_allocation_is_validated() {
    let before = "the ConfigMap m of the broker cannot be used: of cluster \"a\": ";
    for (range, problem) in [
        ("?", "\"?\" is not an address range such as 242.0.0.0/8"),
        ("127.0.0.0/8", "127.0.0.0/8 can't be in loopback range"),
        ("fd00::/64", "fd00::/64 is not IPv4"),
        (
            "242.0.0.0/16\n",
            "\"242.0.0.0/16\\n\" is not an address range such as 242.0.0.0/8",
        ),
    ] {
        let entry = |cluster: &str, range: &str| Allocation {
            cluster_id: cluster.to_owned(),
            global_cidr: vec![range.to_owned()],
        };
        let clusters = vec![entry("b", "242.1.0.0/16"), entry("a", range)];
        let allocations = Allocations { clusters };
        assert_eq!(
            error_text(allocations.validate("a", "m")),
            format!("{before}{problem}")
        );
        allocations.validate("b", "m").unwrap();
    }
}
