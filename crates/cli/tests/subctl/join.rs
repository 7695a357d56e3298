//! `join`, `show brokers` and `recover-broker-info`: from tenants to joined clusters.

use crate::scene::{Scene, datum, decoded, good, stderr};

/// A cluster: a tenant of the same server.
fn cluster(scene: &Scene, name: &str) -> String {
    let file = format!("{name}.kubeconfig");
    let arguments = ["tenant", "create", name, "--kubeconfig-out", &file];
    good(&scene.insula(&arguments).output().unwrap());
    file
}

/// Creates a tenant with its broker; its file has the tenant's name.
fn broker(scene: &Scene, id: &str, more: &[&str]) -> String {
    let file = format!("{id}.subm");
    scene.succeed(&["create", "tenant", id, "--output-file", &file]);
    let deploy = [
        "deploy",
        "broker",
        "--broker-info-from",
        &file,
        "--output-file",
        &file,
    ];
    scene.succeed(&[&deploy[..], more].concat());
    file
}

#[test]
fn two_tenants_join_two_clusters_with_the_same_names() {
    let scene = Scene::deployed();
    for tenant in ["acme", "globex"] {
        let file = broker(&scene, tenant, &["--globalnet"]);
        for (id, global) in [("east", "242.0.0.0/16"), ("west", "242.1.0.0/16")] {
            let kubeconfig = cluster(&scene, &format!("{tenant}-{id}"));
            let arguments = [
                "join",
                &file,
                "--kubeconfig",
                &kubeconfig,
                "--clusterid",
                id,
            ];
            let joined = scene.subctl(&arguments).output().unwrap();
            assert_eq!(good(&joined), "");
            let message = stderr(&joined);
            let first = format!(" ✓ {file} indicates broker is at {}\n", scene.url);
            assert!(message.starts_with(&first), "{message}");
            assert!(message.contains(global), "{message}");
            let last = format!(
                " ✓ Cluster {id} has joined the ClusterSet of submariner-broker-{tenant}\n"
            );
            assert!(message.ends_with(&last), "{message}");
            let token = datum(&decoded(&scene.at(&file))["ClientToken"], "token");
            assert!(!message.contains(&token), "nothing prints a secret");
        }
        let member = format!("{tenant}-east.kubeconfig");
        let recover = ["recover-broker-info", "--kubeconfig", &member];
        scene.succeed(&[&recover[..], &["--output-file", "again.subm"]].concat());
        assert_eq!(decoded(&scene.at("again.subm")), decoded(&scene.at(&file)));
    }
    let shown = scene.succeed(&["show", "brokers"]);
    let namespaces: Vec<_> = shown
        .lines()
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    let expected = [
        "NAMESPACE",
        "submariner-broker-acme",
        "submariner-broker-globex",
    ];
    assert_eq!(namespaces, expected);
    let one = scene.succeed(&["show", "brokers", "-n", "submariner-broker-globex"]);
    assert_eq!(one.lines().count(), 2);
}

#[test]
fn cluster_id_defaults_to_the_kubeconfig_and_old_flags_warn() {
    let scene = Scene::deployed();
    let file = broker(&scene, "acme", &[]);
    let kubeconfig = cluster(&scene, "east");
    let old = [
        "--label-gateway=false",
        "--pod-debug",
        "--nattport=4500",
        "--health-check=false",
        "--globalnet=false",
        "--natt=false",
        "--cable-driver=wireguard",
    ];
    let arguments = [&["join", &file, "--kubeconfig", &kubeconfig][..], &old].concat();
    let joined = scene.subctl(&arguments).output().unwrap();
    good(&joined);
    let message = stderr(&joined);
    for flag in [
        "--label-gateway",
        "--pod-debug",
        "--nattport",
        "--health-check",
    ] {
        let noted = format!(
            " ⚠ {flag} is ignored: Submariner's operator is not deployed by this command\n"
        );
        assert!(message.contains(&noted), "{message}");
    }
    for flag in ["--globalnet", "--natt ", "--cable-driver"] {
        assert!(!message.contains(&format!("⚠ {flag}")), "{message}");
    }
    // The cluster's name in kubeconfigs of `insula tenant create`, as an ID.
    let place = scene
        .url
        .trim_start_matches("https://")
        .replace(['.', ':'], "-");
    let named =
        format!(" ✓ Cluster east-{place} has joined the ClusterSet of submariner-broker-acme\n");
    assert!(message.ends_with(&named), "{message}");
}

#[test]
fn r78_incomplete_file_cannot_join() {
    let scene = Scene::deployed();
    scene.succeed(&["create", "tenant", "acme"]);
    let kubeconfig = cluster(&scene, "east");
    let join = ["join", "broker-info.subm", "--clusterid", "east"];
    let actual = scene.fail(&[&join[..], &["--kubeconfig", &kubeconfig]].concat());
    assert_eq!(
        actual,
        "error: \"broker-info.subm\" is not complete: it has no components\n\
         hint: run `subctl deploy broker` first, with --broker-info-from\n"
    );
    std::fs::write(scene.at("x.subm"), "nonsense!").unwrap();
    let actual = scene.fail(&["join", "x.subm", "--clusterid", "east"]);
    assert!(actual.contains("x.subm"), "{actual}");
    let missing = scene.fail(&["join", "missing.subm", "--clusterid", "east"]);
    assert!(missing.contains("missing.subm"), "{missing}");
}

#[test]
fn cluster_without_brokers_shows_none() {
    let scene = Scene::start_with(&[]);
    assert_eq!(scene.succeed(&["show", "brokers"]), "No brokers found\n");
}
