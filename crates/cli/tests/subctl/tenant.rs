//! `create`, `get`, `list` and `delete tenant`.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::Value;

use crate::scene::{Scene, datum, decoded, free_port, good, stderr, stdout, until};

#[test]
fn r10_tenant_is_created_shown_and_deleted() {
    let scene = Scene::deployed();
    let created = scene
        .subctl(&["create", "tenant", "acme"])
        .output()
        .unwrap();
    assert_eq!(good(&created), "acme\n", "the ID and nothing else");
    let message = stderr(&created);
    assert!(message.contains(" ✓ Created tenant acme\n"), "{message}");
    assert!(
        message.contains(" • Provisioning tenant acme  ...\n"),
        "{message}"
    );
    assert!(
        message.contains(" ✓ Tenant acme is provisioned\n"),
        "{message}"
    );
    assert!(
        message.ends_with(" ✓ Saved broker info to file \"broker-info.subm\"\n"),
        "{message}"
    );
    assert!(!message.contains('\x1b'), "plain lines without a terminal");

    let file = scene.at("broker-info.subm");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let info = decoded(&file);
    let namespace = "submariner-broker-acme";
    assert_eq!(info["brokerURL"], scene.url);
    assert_eq!(info["namespace"], namespace);
    assert_eq!(datum(&info["ClientToken"], "namespace"), namespace);
    assert_eq!(info["IPSecPSK"], Value::Null);
    assert_eq!(info.get("Components"), None);
    let token = datum(&info["ClientToken"], "token");
    assert!(!message.contains(&token), "nothing prints a secret");

    for verb in ["tenant", "tenants"] {
        let table = scene.succeed(&["get", verb, "acme"]);
        let lines: Vec<Vec<_>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[0], ["NAME", "STATUS", "NAMESPACE", "CREATED"]);
        assert_eq!(lines[1][..3], ["acme", "Provisioned", namespace]);
        let listed = scene.succeed(&["list", verb, "-o", "name"]);
        assert_eq!(listed, "tenant.submariner.io/acme\n");
    }
    let json = scene.succeed(&["get", "tenant", "acme", "-o", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["status"]["phase"], "Provisioned");
    assert_eq!(json["kind"], "Tenant");

    let deleted = scene
        .subctl(&["delete", "tenant", "acme"])
        .output()
        .unwrap();
    assert_eq!(good(&deleted), "");
    assert!(stderr(&deleted).ends_with(" ✓ Tenant acme is deleted\n"));
    assert_eq!(
        scene.fail(&["get", "tenant", "acme"]),
        "error: there is no tenant acme\n\
         hint: `subctl list tenants` lists the existing tenants\n"
    );
}

#[test]
fn r20_r40_r41_generated_ids_and_files_are_unique() {
    let scene = Scene::deployed();
    let first = scene.succeed(&["create", "tenant"]);
    let second = scene.succeed(&["create", "tenant", ""]);
    assert_ne!(first, second);
    let is_sign = |sign: char| sign.is_ascii_digit() || ('a'..='f').contains(&sign) || sign == '-';
    for id in [first.trim_end(), second.trim_end()] {
        assert_eq!((id.len(), &id[14..15]), (36, "4"), "{id}");
        assert!(id.chars().all(is_sign), "{id}");
    }
    let names = || -> Vec<String> {
        let entries = scene.folder.path().read_dir().unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.contains(".subm")).collect();
        names.sort();
        names
    };
    let kept = names();
    assert_eq!(kept.len(), 2, "the one before is kept: {kept:?}");
    assert_eq!(kept[0], "broker-info.subm");
    assert!(kept[1].starts_with("broker-info.subm.20"), "{kept:?}");
    let old = decoded(&scene.at(&kept[1]));
    assert_eq!(
        old["namespace"],
        format!("submariner-broker-{}", first.trim_end())
    );
    scene.succeed(&["create", "tenant", "acme", "--unique-file"]);
    let unique: Vec<_> = names()
        .into_iter()
        .filter(|name| !kept.contains(name))
        .collect();
    assert_eq!(unique.len(), 1, "{unique:?}");
    assert!(unique[0].starts_with("broker-info-acme-20"), "{unique:?}");
    assert!(unique[0].ends_with(".subm"), "{unique:?}");
}

#[test]
fn r21_id_is_printed_before_the_wait() {
    // There is no operator.
    let scene = Scene::start_with(&[]);
    scene.succeed(&["deploy", "axon-cp", "--without-deployment", "--no-wait"]);
    let created = ["create", "tenant", "acme", "--timeout", "1s"];
    let output = scene.subctl(&created).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "acme\n");
    let message = stderr(&output);
    let expected = " ✗ Provisioning tenant acme\n\
                    error: provisioning tenant acme takes longer than 1s\n\
                    hint: is the operator running?";
    assert!(message.contains(expected), "{message}");
    assert!(!scene.at("broker-info.subm").exists());

    let refused = scene.fail(&["create", "tenant", "acme"]);
    assert!(
        refused.starts_with("error: tenant acme exists already\nhint: "),
        "{refused}"
    );
    let pending = scene.subctl(&["get", "tenant", "acme", "--generate_subm"]);
    let mut pending = pending;
    let pending = pending.output().unwrap();
    assert_eq!(pending.status.code(), Some(1));
    assert!(stderr(&pending).contains("error: tenant acme is Pending, not Provisioned\n"));
    assert!(!scene.at("broker-info.subm").exists());
    // Without an operator there is no finalizer.
    scene.succeed(&["delete", "tenant", "acme"]);
    let waited = [
        "deploy",
        "axon-cp",
        "--without-deployment",
        "--timeout",
        "1s",
    ];
    let message = scene.fail(&waited);
    assert!(
        message.contains("error: no Axon operator is running after 1s"),
        "{message}"
    );
}

#[test]
fn unwritable_file_is_reported_before_anything_is_created() {
    let scene = Scene::deployed();
    std::fs::write(scene.at("file"), "").unwrap();
    for (file, why) in [
        ("missing/x.subm", "No such file or directory (os error 2)"),
        ("file/x.subm", "its parent is not a folder"),
        ("insula-data", "it is a folder"),
    ] {
        let actual = scene.fail(&["create", "tenant", "acme", "--output-file", file]);
        let expected =
            format!("error: cannot write {file:?}: {why}\nhint: choose another --output-file\n");
        assert_eq!(actual, expected);
    }
    assert_eq!(scene.succeed(&["list", "tenants", "-o", "name"]), "");
}

#[test]
fn wait_survives_a_server_restart() {
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let scene = Scene::start_at(&listen, &[]);
    scene.succeed(&["deploy", "axon-cp", "--without-deployment", "--no-wait"]);
    let waiting = scene
        .subctl(&["create", "tenant", "acme"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("it is created", || {
        let listed = scene.subctl(&["list", "tenants", "-o", "name"]).output();
        stdout(&listed.unwrap()) == "tenant.submariner.io/acme\n"
    });
    let scene = scene.restart(&listen, &["--operators", "broker"]);
    let waited = waiting.wait_with_output().unwrap();
    assert_eq!(good(&waited), "acme\n");
    assert!(scene.at("broker-info.subm").exists());
}

#[test]
fn r51_file_is_written_again_with_the_same_or_a_rotated_token() {
    let scene = Scene::deployed();
    scene.succeed(&["create", "tenant", "acme"]);
    let token = |name: &str| datum(&decoded(&scene.at(name))["ClientToken"], "token");
    let first = token("broker-info.subm");
    let again = |more: &[&str]| {
        let arguments = ["get", "tenant", "acme", "--output-file", "again.subm"];
        scene.succeed(&[&arguments[..], more].concat());
    };
    again(&[
        "--generate_subm",
        "--broker-url",
        "https://broker.example:6443/",
    ]);
    assert_eq!(token("again.subm"), first);
    let url = &decoded(&scene.at("again.subm"))["brokerURL"];
    assert_eq!(url, "https://broker.example:6443");
    again(&["--generate-subm", "--rotate-token"]);
    let second = token("again.subm");
    assert_ne!(second, first);
    let as_holder = |token: &str| {
        let arguments = ["get", "tenant", "acme", "--token", token];
        scene.fail(&arguments)
    };
    assert!(
        as_holder(&first).contains("Unauthorized"),
        "it is worth nothing"
    );
    let message = as_holder(&second);
    assert!(message.contains("is forbidden: User"), "{message}");
    assert!(!message.contains(&second), "nothing prints a secret");
}

#[test]
fn tenant_with_a_space_is_created_with_a_flag() {
    let scene = Scene::deployed();
    scene.succeed(&["create", "tenant", "acme", "--isolation", "space"]);
    let info = decoded(&scene.at("broker-info.subm"));
    assert_eq!(info["brokerURL"], scene.url);
    assert_eq!(info["namespace"], "submariner-broker-acme");
    let wide = scene.succeed(&["list", "tenants", "-o", "wide"]);
    assert!(
        wide.contains("   Space       submariner-broker-acme   "),
        "{wide}"
    );
    scene.succeed(&["get", "tenant", "acme", "--generate-subm", "--rotate-token"]);
    let next = decoded(&scene.at("broker-info.subm"));
    assert_ne!(
        next["ClientToken"]["data"]["token"],
        info["ClientToken"]["data"]["token"]
    );
    scene.succeed(&["delete", "tenant", "acme"]);
    assert_eq!(scene.succeed(&["list", "tenants", "-o", "name"]), "");
}

#[test]
fn r16_axon_admin_manages_tenants_and_nothing_else() {
    let scene = Scene::start();
    let deploy = ["deploy", "axon-cp", "--without-deployment", "--spaces"];
    scene.succeed(&[&deploy[..], &["--axon-admin", "user:eve"]].concat());
    let eve = ["--as", "eve"];
    let as_eve = |arguments: &[&str]| scene.succeed(&[arguments, &eve].concat());
    as_eve(&["create", "tenant", "acme"]);
    let rotate = ["get", "tenant", "acme", "--generate_subm", "--rotate-token"];
    let rotated = scene.subctl(&[&rotate[..], &eve].concat()).output();
    let rotated = rotated.unwrap();
    good(&rotated);
    let message = stderr(&rotated);
    assert!(!message.contains("could not be looked at"), "{message}");
    assert_eq!(
        as_eve(&["list", "tenants", "-o", "name"]),
        "tenant.submariner.io/acme\n"
    );
    as_eve(&["delete", "tenant", "acme"]);
    let message = scene.fail(&["deploy", "axon-cp", "--as", "eve"]);
    assert!(message.contains("error: missing permissions:"), "{message}");
    let message = scene.fail(&["show", "brokers", "--as", "eve"]);
    assert!(message.contains("is forbidden: User \"eve\""), "{message}");
    // A space has administrators of its own.
    let spaced = [
        "create",
        "tenant",
        "b",
        "--isolation",
        "space",
        "--as",
        "eve",
    ];
    let output = scene.subctl(&spaced).output().unwrap();
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(1), "b\n")
    );
    let hint = "error: the token of tenant b is in its space submariner-broker-b, which this user may not enter: no file is written\n\
                hint: an administrator of the system writes the file: \
                `subctl get tenant b --generate_subm`\n";
    assert!(stderr(&output).ends_with(hint), "{}", stderr(&output));
    scene.succeed(&["get", "tenant", "b", "--generate_subm"]);
    as_eve(&["delete", "tenant", "b"]);
}

#[test]
fn usage_errors_exit_with_2_and_failures_with_1() {
    let scene = Scene::start_with(&[]);
    let long = "a".repeat(46);
    for wrong in [
        &["create", "tenant", "A"][..],
        &["create", "tenant", "a_b"],
        &["create", "tenant", &long],
        &["create", "tenant", "a", "--isolation", "none"],
        &["create", "tenant", "a", "--admin", "eve"],
        &["create", "tenant", "a", "--broker-url", "http://a"],
        &["create", "tenant", "a", "--timeout", "soon"],
        &["create"],
        &["get", "tenant"],
        &["get", "tenant", "a", "--rotate-token"],
        &["delete", "tenant"],
        &["list", "tenants", "-o", "xml"],
        &["list", "tenants", "--as-group", "g"],
        &["list", "tenants", "--server", "nowhere"],
        &["deploy", "axon-cp", "--axon-admin", "eve"],
        &["deploy", "axon-cp", "-o", "yaml"],
        &["nonsense"],
        &[],
    ] {
        let output = scene.subctl(wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
        assert_eq!(stdout(&output), "");
    }
    for command in [
        &["create", "tenant", "a"][..],
        &["get", "tenant", "a"],
        &["list", "tenants"],
        &["delete", "tenant", "a"],
    ] {
        assert_eq!(
            scene.fail(command),
            "error: this cluster has no tenants.submariner.io\n\
             hint: an administrator of the cluster runs `subctl deploy axon-cp` first\n"
        );
    }
}

#[test]
fn closed_stdout_is_not_an_error() {
    let scene = Scene::start_with(&[]);
    let mut child = scene
        .subctl(&["deploy", "axon-cp", "--dry-run"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
