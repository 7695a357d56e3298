//! `deploy broker`, with current and deprecated command lines.

use serde_json::Value;

use crate::scene::{Scene, decoded, good, stderr, stdout};

const DROPPED: [&str; 10] = [
    "--repository=quay.io/x",
    "--version=0.19",
    "--image-override=a=b",
    "--operator-debug",
    "--http-proxy=a",
    "--https-proxy=a",
    "--no-proxy=a",
    "--service-discovery",
    "--components=connectivity,service-discovery",
    "--default-globalnet-cluster-size=8192",
];

#[test]
fn r7_existing_command_lines_keep_working() {
    let scene = Scene::start_with(&[]);
    let arguments = [&["deploy-broker", "-n", "foo"][..], &DROPPED].concat();
    let output = scene.subctl(&arguments).output().unwrap();
    assert_eq!(good(&output), "");
    let message = stderr(&output);
    for flag in DROPPED[..7]
        .iter()
        .map(|flag| flag.split('=').next().unwrap())
    {
        let warned = format!(" ⚠ {flag} does nothing: no operator is deployed with a broker\n");
        assert!(message.contains(&warned), "{message}");
    }
    assert!(
        message.contains(" ⚠ --service-discovery is deprecated"),
        "{message}"
    );
    let info = decoded(&scene.at("broker-info.subm"));
    assert_eq!(info["namespace"], "foo");
    assert_eq!(
        info["Components"],
        serde_json::json!(["connectivity", "service-discovery"])
    );
    scene.succeed(&["deploy", "broker", "--broker-namespace", "bar"]);
    let info = decoded(&scene.at("broker-info.subm"));
    assert_eq!(info["namespace"], "bar");
    scene.succeed(&["deploy", "broker", "-n", "baz", "--service-discovery=false"]);
    let info = decoded(&scene.at("broker-info.subm"));
    assert_eq!(info["Components"], serde_json::json!(["connectivity"]));
    assert_eq!(info["ServiceDiscovery"], false);
}

#[test]
fn r54_r55_tenant_file_suffices_with_either_flag() {
    let scene = Scene::deployed();
    scene.succeed(&["create", "tenant", "acme"]);
    // Only the file has the server's URL.
    std::fs::rename(scene.admin(), scene.at("away")).unwrap();
    let deploy = |more: &[&str]| {
        let arguments = [&["deploy", "broker"][..], more].concat();
        scene.subctl(&arguments).output().unwrap()
    };
    let file = "broker-info.subm";
    let first = deploy(&["--broker-info-from", file]);
    assert_eq!(good(&first), "");
    assert!(!stderr(&first).contains('⚠'), "{}", stderr(&first));
    let psk = || decoded(&scene.at(file))["IPSecPSK"].clone();
    let generated = psk();
    assert_ne!(generated, Value::Null);
    let again = deploy(&["--ipsec-psk-from", file]);
    good(&again);
    let deprecated = " ⚠ --ipsec-psk-from is deprecated: use --broker-info-from\n";
    assert!(stderr(&again).contains(deprecated), "{}", stderr(&again));
    assert_eq!(psk(), generated, "it is kept");
    good(&deploy(&[
        "--broker-info-from",
        file,
        "--ipsec-psk-from",
        file,
    ]));
    let other = ["--broker-info-from", file, "--ipsec-psk-from", "other.subm"];
    let refused = deploy(&other);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(stdout(&refused), "");
    let message = "error: --broker-info-from and --ipsec-psk-from name different files\n";
    assert!(stderr(&refused).contains(message), "{}", stderr(&refused));
    assert_eq!(psk(), generated);
}

#[test]
fn invalid_settings_are_reported_before_any_request() {
    let scene = Scene::start_with(&[]);
    for (arguments, message) in [
        (
            &["--components", "x"][..],
            "error: invalid components parameter: unknown component: x\n",
        ),
        (
            &["--globalnet", "--globalnet-cidr-range", "127.0.0.0/8"],
            "error: invalid GlobalCIDR configuration: ",
        ),
        (
            &["--globalnet", "--globalnet-cluster-size", "0"],
            "error: invalid GlobalCIDR configuration: cluster size must be > 0\n",
        ),
        (
            &["--clusterset-ip-cidr-range", "nonsense"],
            "error: invalid ClustersetIP configuration: ",
        ),
        (&["--broker-info-from", "missing"], "error: "),
    ] {
        let actual = scene.fail(&[&["deploy", "broker"][..], arguments].concat());
        assert!(actual.starts_with(message), "{actual}");
    }
    assert!(!scene.at("broker-info.subm").exists());
}
