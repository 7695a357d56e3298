//! A ClusterSet after its creation: `create tenant --deploy-broker`, `diagnose` and `unjoin`.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::scene::{Scene, decoded, good, stderr, stdout};

/// A cluster: a tenant of the same server.
fn cluster(scene: &Scene, name: &str) -> String {
    let file = format!("{name}.kubeconfig");
    let arguments = ["tenant", "create", name, "--kubeconfig-out", &file];
    good(&scene.insula(&arguments).output().unwrap());
    file
}

fn diagnosis(scene: &Scene, arguments: &[&str]) -> (Option<i32>, Value) {
    let arguments = [&["diagnose", "-o", "json"][..], arguments].concat();
    let output = scene.subctl(&arguments).output().unwrap();
    let report = serde_json::from_str(&stdout(&output)).unwrap();
    (output.status.code(), report)
}

#[test]
fn tenant_with_its_broker_is_diagnosed_and_left() {
    let scene = Scene::deployed();
    let create = ["create", "tenant", "acme", "--deploy-broker", "--globalnet"];
    assert_eq!(scene.succeed(&create), "acme\n");
    let file = decoded(&scene.at("broker-info.subm"));
    assert_eq!(file["namespace"], "submariner-broker-acme");
    assert_eq!(
        file["Components"],
        json!(["connectivity", "service-discovery"])
    );
    assert!(file["IPSecPSK"]["data"]["psk"].is_string());
    let shown = scene.succeed(&["show", "brokers"]);
    assert!(shown.contains("yes         242.0.0.0/8"), "{shown}");

    let (code, report) = diagnosis(&scene, &["broker-info.subm"]);
    assert_eq!((code, &report["ok"]), (Some(0), &json!(true)), "{report:#}");
    let east = cluster(&scene, "east");
    let context = ["broker-info.subm", "--kubeconfig", &east];
    let join = [&["join"][..], &context, &["--clusterid", "east"]].concat();
    scene.succeed(&join);
    let (code, report) = diagnosis(&scene, &[&context[..], &["--member"]].concat());
    assert_eq!((code, &report["ok"]), (Some(1), &json!(false)));
    let checks = report["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 12);
    assert_eq!(checks[5]["name"], "clusters");
    assert_eq!(checks[5]["result"], "failed");
    assert_eq!(checks[5]["message"], "joined and published nothing: east");
    assert_eq!(checks[11]["message"], "it has joined as east");
    let plain = scene
        .subctl(&["diagnose", "broker-info.subm"])
        .output()
        .unwrap();
    assert_eq!(plain.status.code(), Some(1));
    assert_eq!(stdout(&plain).lines().count(), 11);
    assert!(
        stdout(&plain)
            .contains("failed    clusters           joined and published nothing: east (hint: "),
        "{}",
        stdout(&plain)
    );
    assert_eq!(stderr(&plain), "error: 1 of 11 checks failed\n");

    let unjoin = [&["unjoin"][..], &context].concat();
    let asked = scene.subctl(&unjoin).stdin(Stdio::null()).output().unwrap();
    assert_eq!(asked.status.code(), Some(1));
    assert!(
        stderr(&asked).ends_with(
            "error: not confirmed: nothing was removed\nhint: --yes removes it without a question\n"
        ),
        "{}",
        stderr(&asked)
    );
    let confirmed = [&unjoin[..], &["--yes"]].concat();
    for last in [
        " ✓ Cluster east has left the ClusterSet of submariner-broker-acme\n",
        " ✓ The cluster is no member of the ClusterSet of submariner-broker-acme\n",
    ] {
        let left = scene.subctl(&confirmed).output().unwrap();
        assert_eq!(good(&left), "");
        assert!(stderr(&left).ends_with(last), "{}", stderr(&left));
    }
    let (code, report) = diagnosis(&scene, &["broker-info.subm"]);
    assert_eq!(code, Some(0));
    assert_eq!(report["checks"][5]["message"], "no cluster has joined");
    scene.succeed(&join);
}

#[test]
fn quota_and_broker_flags_of_create_tenant_are_validated() {
    let scene = Scene::deployed();
    let create = |more: &[&str]| {
        let arguments = [&["create", "tenant", "acme"][..], more].concat();
        scene.subctl(&arguments).output().unwrap()
    };
    for (more, problem) in [
        (
            &["--globalnet"][..],
            "--globalnet is about the broker: it needs --deploy-broker",
        ),
        (
            &["--custom-domains", "a.example"],
            "--custom-domains is about the broker: it needs --deploy-broker",
        ),
        (&["--quota", "pods=1"], "\"pods\" does not count objects"),
        (&["--quota", "count/secrets"], "is not NAME=NUMBER"),
    ] {
        let output = create(more);
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert!(stderr(&output).contains(problem), "{}", stderr(&output));
    }
    let output = create(&[
        "--deploy-broker",
        "--globalnet",
        "--globalnet-cidr-range",
        "x",
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(
        scene.succeed(&["list", "tenants", "-o", "name"]),
        "",
        "not created"
    );
    good(&create(&["--quota", "count/secrets=40,count/configmaps=8"]));
    let tenant = scene.succeed(&["get", "tenant", "acme", "-o", "json"]);
    let tenant: Value = serde_json::from_str(&tenant).unwrap();
    assert_eq!(
        tenant["spec"]["quota"],
        json!({"count/configmaps": 8, "count/secrets": 40})
    );
}

#[test]
fn tenant_with_a_space_is_refused_before_spaces_are_granted() {
    let scene = Scene::start();
    scene.succeed(&["deploy", "axon-cp", "--without-deployment"]);
    let create = ["create", "tenant", "acme", "--isolation", "space"];
    let refused = scene.fail(&create);
    assert!(
        refused.ends_with(
            "error: the operator may not create spaces: the tenant is not created\nhint: an administrator of the system runs `subctl deploy axon-cp --spaces` first; --isolation namespace needs no space\n"
        ),
        "{refused}"
    );
    scene.succeed(&["deploy", "axon-cp", "--without-deployment", "--spaces"]);
    let create = [&create[..], &["--deploy-broker"]].concat();
    assert_eq!(scene.succeed(&create), "acme\n");
    let shown = scene.succeed(&["show", "brokers"]);
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[0].ends_with("   SPACE"), "{shown}");
    assert!(lines[1].ends_with("   submariner-broker-acme"), "{shown}");
    assert_eq!(lines.len(), 2, "{shown}");
}

#[test]
fn version_is_printed_as_by_submariner() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_subctl"))
        .arg("version")
        .output();
    let expected = concat!("subctl version: v", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(good(&output.unwrap()), expected);
}
