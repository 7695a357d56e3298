//! The cluster and user: kubectl's flags.

use std::os::unix::fs::PermissionsExt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::scene::{Scene, datum, decoded, good, stderr};

/// Writes the CA of a server to a file.
fn authority(scene: &Scene) -> String {
    let kubeconfig = std::fs::read_to_string(scene.admin()).unwrap();
    let kubeconfig: Value = serde_saphyr::from_str(&kubeconfig).unwrap();
    let data = &kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"];
    let pem = BASE64_STANDARD.decode(data.as_str().unwrap()).unwrap();
    let file = scene.at("ca.pem");
    std::fs::write(&file, pem).unwrap();
    file.to_str().unwrap().to_owned()
}

fn write(scene: &Scene, name: &str, text: &str) -> String {
    let file = scene.at(name);
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn r11_kubeconfig_context_selects_the_cluster() {
    let (one, two) = (Scene::deployed(), Scene::deployed());
    one.succeed(&["create", "tenant", "first"]);
    two.succeed(&["create", "tenant", "second"]);
    let read = |scene: &Scene| std::fs::read_to_string(scene.admin()).unwrap();
    let named = |text: String, name: &str| {
        text.replace("name: insula", &format!("name: {name}"))
            .replace("cluster: insula", &format!("cluster: {name}"))
            .replace("name: admin", &format!("name: {name}"))
            .replace("user: admin", &format!("user: {name}"))
            .replace(
                "current-context: insula",
                &format!("current-context: {name}"),
            )
    };
    let files = [
        write(&one, "one.kubeconfig", &named(read(&one), "one")),
        write(&one, "two.kubeconfig", &named(read(&two), "two")),
    ];
    let list = |arguments: &[&str]| {
        let mut command = one.subctl(&["list", "tenants", "-o", "name"]);
        command.args(arguments);
        command.env("KUBECONFIG", files.join(":"));
        good(&command.output().unwrap())
    };
    let (first, second) = (
        "tenant.submariner.io/first\n",
        "tenant.submariner.io/second\n",
    );
    assert_eq!(list(&[]), first, "the first file's context");
    assert_eq!(list(&["--context", "two"]), second);
    assert_eq!(list(&["--kubeconfig", &files[1]]), second);
    assert_eq!(
        list(&["--cluster", "two", "--user", "two"]),
        second,
        "the flags win over the context"
    );
    // Without any flag, the file that `insula serve` wrote here.
    assert_eq!(two.succeed(&["list", "tenants", "-o", "name"]), second);
    for (wrong, message) in [
        (
            ["--context", "x"],
            "error: the kubeconfig has no context \"x\"\n",
        ),
        (
            ["--cluster", "x"],
            "error: the kubeconfig has no cluster \"x\"\n",
        ),
        (["--user", "x"], "error: the kubeconfig has no user \"x\"\n"),
    ] {
        let actual = one.fail(&[&["list", "tenants"][..], &wrong].concat());
        assert_eq!(actual, message);
    }
}

#[test]
fn server_token_and_ca_flags_suffice() {
    let scene = Scene::deployed();
    scene.succeed(&["create", "tenant", "acme"]);
    let token = datum(
        &decoded(&scene.at("broker-info.subm"))["ClientToken"],
        "token",
    );
    let ca = authority(&scene);
    std::fs::remove_file(scene.admin()).unwrap();
    let nowhere = scene.fail(&["list", "tenants"]);
    assert!(
        nowhere.starts_with("error: no kubeconfig found"),
        "{nowhere}"
    );
    let reached = "is forbidden: User \
                   \"system:serviceaccount:submariner-broker-acme:submariner-k8s-broker-admin\"";
    let port = scene.url.rsplit(':').next().unwrap();
    let other = format!("https://localhost:{port}");
    for (arguments, expected) in [
        (&["--certificate-authority", &ca][..], reached),
        (&["--insecure-skip-tls-verify"], reached),
        (
            &[],
            "cannot list tenants: tls: failed to verify certificate: \
             x509: certificate signed by unknown authority",
        ),
        (
            &[
                "--certificate-authority",
                &ca,
                "--tls-server-name",
                "other.example",
            ],
            "cannot list tenants: tls: failed to verify certificate: \
             x509: certificate is valid for ",
        ),
        (
            &[
                "--certificate-authority",
                &ca,
                "--tls-server-name",
                "localhost",
            ],
            reached,
        ),
        (
            &["--certificate-authority", &ca, "--server", &other],
            reached,
        ),
    ] {
        let mut asked = vec!["list", "tenants", "--token", &token];
        asked.extend_from_slice(arguments);
        if !arguments.contains(&"--server") {
            asked.extend(["--server", &scene.url]);
        }
        let message = scene.fail(&asked);
        assert!(message.contains(expected), "{arguments:?}: {message}");
        assert!(
            !message.contains(&token),
            "nothing prints a secret: {message}"
        );
    }
}

#[test]
fn impersonation_flags_are_sent() {
    let scene = Scene::deployed();
    let message = scene.fail(&["list", "tenants", "--as", "eve", "--as-group", "dev"]);
    assert!(message.contains("is forbidden: User \"eve\""), "{message}");
    let masters = [
        "list",
        "tenants",
        "--as",
        "eve",
        "--as-group",
        "system:masters",
    ];
    let listed = scene.succeed(&masters);
    assert_eq!(listed, "NAME   STATUS   NAMESPACE   CREATED\n");
}

#[test]
fn exec_plugins_provide_credentials() {
    let scene = Scene::deployed();
    scene.succeed(&["create", "tenant", "acme"]);
    let token = datum(
        &decoded(&scene.at("broker-info.subm"))["ClientToken"],
        "token",
    );
    let credential = format!(
        "{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\
         \"status\":{{\"token\":\"{token}\"}}}}"
    );
    let script = write(
        &scene,
        "login",
        &format!("#!/bin/sh\necho '{credential}'\n"),
    );
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    let ca = authority(&scene);
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: '{}', certificate-authority: {ca}}}}}]\n\
         users: [{{name: u, user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, \
         command: {script}, interactiveMode: Never}}}}}}]\n",
        scene.url
    );
    let kubeconfig = write(&scene, "exec.kubeconfig", &text);
    let message = scene.fail(&["list", "tenants", "--kubeconfig", &kubeconfig]);
    assert!(
        message.contains("User \"system:serviceaccount:submariner-broker-acme:"),
        "{message}"
    );
}

#[test]
fn kubeconfig_errors_do_not_quote_its_content() {
    let scene = Scene::start_with(&[]);
    let bad = write(&scene, "bad", "apiVersion: v1\nusers: [{name: s3cret\n");
    let message = scene.fail(&["list", "tenants", "--kubeconfig", &bad]);
    assert!(
        message.starts_with(&format!("error: cannot read {bad}: not a kubeconfig")),
        "{message}"
    );
    assert!(!message.contains("s3cret"), "{message}");
    let missing = scene.fail(&["list", "tenants", "--kubeconfig", "missing"]);
    assert!(
        missing.starts_with("error: cannot read missing: No such file"),
        "{missing}"
    );
    let empty = write(&scene, "empty", "apiVersion: v1\nkind: Config\n");
    assert_eq!(
        scene.fail(&["list", "tenants", "--kubeconfig", &empty]),
        "error: the kubeconfig has no current context\nhint: choose one with --context\n"
    );
    let unreachable = ["list", "tenants", "--server", "https://127.0.0.1:1"];
    let output = scene.subctl(&unreachable).output().unwrap();
    let message = stderr(&output);
    assert!(
        message.starts_with("error: cannot list tenants: Connection refused"),
        "{message}"
    );
    assert!(
        message.ends_with("\nhint: is the server running, and is this its address?\n"),
        "{message}"
    );
}
