//! `insula tenant` from the user's point of view, against a minimal server.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod fake;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fake::{Fake, TOKEN};
use insula_access::Subject;
use insula_core::Space;
use serde_json::{Value, json};

fn tenant(kubeconfig: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_insula"))
        .arg("tenant")
        .args(arguments)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env_remove("RUST_LOG")
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns stdout; the command must succeed.
fn succeed(kubeconfig: &Path, arguments: &[&str]) -> String {
    let output = tenant(kubeconfig, arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

/// Returns stderr; the command must fail without output.
fn fail(kubeconfig: &Path, arguments: &[&str]) -> String {
    let output = tenant(kubeconfig, arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(stdout(&output), "");
    stderr(&output)
}

/// Returns the certificate of a kubeconfig's only user.
fn holder(kubeconfig: &str) -> Subject {
    let config: Value = serde_saphyr::from_str(kubeconfig).unwrap();
    let data = &config["users"][0]["user"]["client-certificate-data"];
    let pem = BASE64_STANDARD.decode(data.as_str().unwrap()).unwrap();
    Subject::read(str::from_utf8(&pem).unwrap()).unwrap()
}

#[test]
fn created_tenant_is_awaited_and_printed() {
    let fake = Fake::start();
    let admin = fake.kubeconfig();
    assert_eq!(succeed(&admin, &["create", "t1"]), "t1\n");
    let seen = ["root POST /api/v1/tenants", "root GET /api/v1/tenants/t1"];
    assert_eq!(fake.seen(), seen);
    assert_eq!(
        fail(&admin, &["create", "t1"]),
        "error: cannot create tenant t1: tenants \"t1\" already exists\n"
    );
}

#[test]
fn create_writes_a_kubeconfig_for_the_admin() {
    let fake = Fake::start();
    let file = fake.folder.path().join("t1.kubeconfig");
    let arguments = ["create", "t1", "--kubeconfig-out", file.to_str().unwrap()];
    assert_eq!(succeed(&fake.kubeconfig(), &arguments), "t1\n");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let subject = holder(&fake::read(&file));
    assert_eq!(subject.user, "admin");
    assert_eq!(subject.tenant, Some(Space::parse("t1").unwrap()));
    assert!(subject.tenant_uid.is_some(), "it ends with the tenant");
}

#[test]
fn tenants_are_shown_in_every_format() {
    let fake = Fake::start();
    let admin = fake.kubeconfig();
    fake.add_tenant("a", json!({ "phase": "Active" }));
    let condition = json!({ "type": "Ready", "status": "True" });
    fake.add_tenant("b", json!({ "phase": "Active", "conditions": [condition] }));
    fake.add_tenant("c", json!({ "phase": "Terminating" }));
    assert_eq!(
        succeed(&admin, &["list", "-o", "name"]),
        "tenant/a\ntenant/b\ntenant/c\n"
    );
    let pages = fake.seen();
    assert_eq!(pages.len(), 3, "{pages:?}");
    assert_eq!(pages[1], "root GET /api/v1/tenants?limit=500&continue=a%3D");
    let table = succeed(&admin, &["list"]);
    let lines: Vec<Vec<_>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["NAME", "STATUS", "AGE"]);
    assert_eq!(lines[3][..2], ["c", "Terminating"]);
    let wide = succeed(&admin, &["get", "b", "-o", "wide"]);
    assert!(wide.ends_with("   Ready=True\n"), "{wide}");
    let json: Value = serde_json::from_str(&succeed(&admin, &["get", "a", "-o", "json"])).unwrap();
    let yaml: Value =
        serde_saphyr::from_str(&succeed(&admin, &["get", "a", "-o", "yaml"])).unwrap();
    assert_eq!(json, yaml);
    assert_eq!(json["metadata"]["uid"], "uid-a");
    assert_eq!(
        fail(&admin, &["get", "d"]),
        "error: cannot get tenant d: tenants \"d\" not found\n"
    );
}

#[test]
fn kubeconfig_is_signed_for_the_tenant_and_the_request_deleted() {
    let fake = Fake::start();
    let admin = fake.kubeconfig();
    fake.conflicts(2);
    let groups = ["--group", "dev", "--group", "ops", "--group", "qa"];
    let arguments = [
        &["kubeconfig", "t1", "--user", "eve", "--expires", "1h"][..],
        &groups,
    ]
    .concat();
    let kubeconfig = succeed(&admin, &arguments);
    let subject = holder(&kubeconfig);
    assert_eq!(subject.user, "eve");
    assert_eq!(subject.groups, ["dev", "ops", "qa"]);
    assert_eq!(subject.tenant, Some(Space::parse("t1").unwrap()));
    assert!(subject.tenant_uid.is_some(), "it ends with the tenant");
    let config: Value = serde_saphyr::from_str(&kubeconfig).unwrap();
    let server = format!("https://{}/tenants/t1", fake.address);
    assert_eq!(config["clusters"][0]["cluster"]["server"], server);
    assert_eq!(config["current-context"], "eve@t1");
    let last = fake.seen().pop().unwrap();
    assert!(
        last.starts_with("root DELETE /apis/certificates.k8s.io/v1/tenants/t1/"),
        "{last}"
    );
    // The certificate is valid for authentication.
    let file = fake.folder.path().join("eve");
    std::fs::write(&file, kubeconfig).unwrap();
    fake.add_tenant("t1", json!({}));
    succeed(&file, &["get", "t1"]);
    assert_eq!(fake.seen(), ["eve GET /tenants/t1/api/v1/tenants/t1"]);
}

/// Returns the names of a kubeconfig's only cluster, user and context.
fn names(config: &Value) -> [String; 3] {
    let context = &config["contexts"][0];
    assert_eq!(context["context"]["cluster"], config["clusters"][0]["name"]);
    assert_eq!(context["context"]["user"], config["users"][0]["name"]);
    let name = |entry: &Value| entry["name"].as_str().unwrap().to_owned();
    [&config["clusters"][0], &config["users"][0], context].map(name)
}

#[test]
fn names_in_kubeconfigs_are_those_of_one_tenant_of_one_server() {
    let fake = Fake::start();
    let admin = fake.kubeconfig();
    let place = fake.address;
    for (arguments, user, context) in [
        (&["kubeconfig", "t1"][..], "admin", "t1"),
        (&["kubeconfig", "t1", "--user", "eve"], "eve", "eve@t1"),
        (
            &["kubeconfig", "t1", "--context-name", "mine"],
            "admin",
            "mine",
        ),
    ] {
        let config = succeed(&admin, arguments);
        let config: Value = serde_saphyr::from_str(&config).unwrap();
        let cluster = format!("t1@{place}");
        let expected = [&cluster, &format!("{user}@{cluster}"), context];
        assert_eq!(names(&config), expected, "{arguments:?}");
        assert_eq!(config["current-context"], context);
    }
}

#[test]
fn expiration_is_told_and_kept_in_the_kubeconfig() {
    let fake = Fake::start();
    let admin = fake.kubeconfig();
    let file = fake.folder.path().join("t1.kubeconfig");
    let out = file.to_str().unwrap();
    for (arguments, left) in [
        (&["kubeconfig", "t1"][..], "24h"),
        (&["kubeconfig", "t1", "--expires", "90m"], "90m"),
        (
            &["create", "t1", "--kubeconfig-out", out, "--expires", "8h"],
            "8h",
        ),
    ] {
        let output = tenant(&admin, arguments);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let config = match arguments[0] {
            "create" => fake::read(&file),
            _ => stdout(&output),
        };
        let config: Value = serde_saphyr::from_str(&config).unwrap();
        let kept = &config["users"][0]["user"]["extensions"][0];
        assert_eq!(kept["name"], "insula.dev/credential");
        let expires = kept["extension"]["expires"].as_str().unwrap();
        assert_eq!(
            stderr(&output),
            format!("the credential of user admin expires {expires}, in {left}\n")
        );
        let expires: jiff::Timestamp = expires.parse().unwrap();
        let seconds = expires.duration_since(jiff::Timestamp::now()).as_secs();
        let expected = match left {
            "24h" => 24 * 3600,
            "90m" => 90 * 60,
            _ => 8 * 3600,
        };
        assert!((expected - 60..=expected).contains(&seconds), "{seconds}");
    }
    let output = tenant(&admin, &["create", "t2", "--expires", "8h"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(stderr(&output).contains("--kubeconfig-out"), "{output:?}");
}

#[test]
fn merge_adds_a_context_to_the_users_own_file_and_renews_it() {
    let fake = Fake::start();
    let admin = fake.kubeconfig();
    let own = fake.folder.path().join("home/.kube/config");
    let merged = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_insula"))
            .args(["tenant", "kubeconfig"])
            .args(arguments)
            .arg("--kubeconfig")
            .arg(&admin)
            .env("HOME", fake.folder.path().join("home"))
            .env_remove("KUBECONFIG")
            .output()
            .unwrap();
        (stdout(&output), stderr(&output))
    };
    let config = || -> Value { serde_saphyr::from_str(&fake::read(&own)).unwrap() };
    let path = own.display();
    let (out, err) = merged(&["t1", "--merge"]);
    assert_eq!(out, "t1\n", "{err}");
    let now = format!("t1 is now the current context of {path}: kubectl get namespaces\n");
    assert!(err.starts_with(&now), "{err}");
    assert!(err.contains("expires "), "{err}");
    assert_eq!(own.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let (out, err) = merged(&["t2", "--merge"]);
    assert_eq!(out, "t2\n", "{err}");
    let hint = format!(
        "t2 is a context of {path}, whose current context is still t1: \
         kubectl --context t2 get namespaces\n"
    );
    assert!(err.starts_with(&hint), "{err}");
    let first = config();
    assert_eq!(first["current-context"], "t1");
    assert_eq!(first["contexts"].as_array().unwrap().len(), 2);
    let (_, err) = merged(&["t1", "--merge", "--expires", "1h"]);
    assert!(err.starts_with("t1, the current context of "), "{err}");
    let renewed = config();
    assert_eq!(renewed["contexts"], first["contexts"]);
    assert_eq!(renewed["clusters"], first["clusters"]);
    assert_eq!(renewed["users"][1], first["users"][1]);
    assert_ne!(renewed["users"][0], first["users"][0]);
    // A file that is named, with a context of the same name that is for another server.
    let other = fake.folder.path().join("other");
    let text = "clusters: [{name: c, cluster: {server: 'https://elsewhere'}}]\n\
                contexts: [{name: t1, context: {cluster: c, user: u}}]\n";
    std::fs::write(&other, text).unwrap();
    let merge = format!("--merge={}", other.display());
    let (out, err) = merged(&["t1", &merge]);
    assert_eq!(out, "");
    assert_eq!(
        err,
        format!(
            "error: cannot add a context to {}: its context \"t1\" is for https://elsewhere\n\
             hint: name another context with --context-name, or replace this one with \
             --overwrite\n",
            other.display()
        )
    );
    assert_eq!(fake::read(&other), text);
    assert_eq!(
        merged(&["t1", &merge, "--context-name", "mine"]).0,
        "mine\n"
    );
    assert_eq!(merged(&["t1", &merge, "--overwrite"]).0, "t1\n");
    let used = tenant(&own, &["get", "t1", "-o", "name", "--context", "t2"]);
    assert_eq!(used.status.code(), Some(1), "{used:?}");
    assert_eq!(
        fake.seen().pop().unwrap(),
        "admin GET /tenants/t2/api/v1/tenants/t1"
    );
}

#[test]
fn certificate_for_another_user_is_refused() {
    let fake = Fake::start();
    fake.lead_astray("t1");
    let message = fail(&fake.kubeconfig(), &["kubeconfig", "t1"]);
    assert!(
        message.contains("signed a certificate for another user"),
        "{message}"
    );
}

#[test]
fn delete_waits_until_the_tenant_is_gone() {
    let fake = Fake::start();
    let admin = fake.kubeconfig();
    fake.add_tenant("t1", json!({ "phase": "Active" }));
    fake.remains("t1", 2);
    assert_eq!(succeed(&admin, &["delete", "t1"]), "");
    fail(&admin, &["get", "t1"]);
    assert_eq!(
        fail(&admin, &["delete", "t1"]),
        "error: cannot delete tenant t1: tenants \"t1\" not found\n"
    );
    fake.add_tenant("t2", json!({ "phase": "Active" }));
    fake.remains("t2", usize::MAX);
    let message = fail(&admin, &["delete", "t2", "--timeout", "2s"]);
    let expected = "waiting for tenant t2 to be gone (ContentRemaining: 3 pods are left)\n\
         error: tenant t2 is not gone after 2s (ContentRemaining: 3 pods are left)\n\
         hint: the deletion continues";
    assert!(message.starts_with(expected), "{message}");
}

#[test]
fn connection_follows_the_kubeconfig() {
    let fake = Fake::start();
    fake.add_tenant("a", json!({}));
    let here = format!("https://{}", fake.address);
    let (token, trust) = (format!("{{token: {TOKEN}}}"), fake.trust());
    let proxied = format!("{here}/proxy/");
    let file = fake.write_kubeconfig("proxied", &proxied, &trust, &token);
    succeed(&file, &["get", "a"]);
    assert_eq!(fake.seen(), ["bearer GET /proxy/api/v1/tenants/a"]);
    for (trust, good) in [
        (format!("{trust}, tls-server-name: fake.example"), true),
        (format!("{trust}, tls-server-name: other.example"), false),
        ("insecure-skip-tls-verify: true".to_owned(), true),
        ("extensions: []".to_owned(), false),
    ] {
        let file = fake.write_kubeconfig("x", &here, &trust, &token);
        let output = tenant(&file, &["get", "a"]);
        assert_eq!(output.status.success(), good, "{trust}: {output:?}");
        if !good {
            let message = stderr(&output);
            assert!(
                message.contains("cannot set up TLS with 127.0.0.1:"),
                "{message}"
            );
            assert!(
                message.contains("\nhint: is the kubeconfig the one"),
                "{message}"
            );
        }
    }
}

/// Writes a credential plugin and returns the user of a kubeconfig that runs it. The plugin is
/// named relative to the kubeconfig.
fn plugin(fake: &Fake, script: &str) -> String {
    let file = fake.folder.path().join("login");
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o700)).unwrap();
    "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, \
     interactiveMode: Never, installHint: install login first}}"
        .to_owned()
}

#[test]
fn exec_plugin_provides_the_credential() {
    let fake = Fake::start();
    fake.add_tenant("a", json!({}));
    let here = format!("https://{}", fake.address);
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": { "token": TOKEN },
    });
    let user = plugin(&fake, &format!("echo '{credential}'"));
    let file = fake.write_kubeconfig("exec", &here, &fake.trust(), &user);
    assert_eq!(succeed(&file, &["list", "-o", "name"]), "tenant/a\n");
    assert_eq!(fake.seen(), ["bearer GET /api/v1/tenants?limit=500"]);
}

#[test]
fn exec_plugin_failure_is_explained_without_its_output() {
    let fake = Fake::start();
    let here = format!("https://{}", fake.address);
    let cannot = format!("error: cannot set up a connection with {here}: the credential plugin");
    for (script, expected) in [
        (
            "echo s3cret; echo expired >&2; exit 3",
            "failed: exit status: 3: expired\n",
        ),
        ("echo '[s3cret'", "printed no ExecCredential\n"),
    ] {
        let user = plugin(&fake, script);
        let file = fake.write_kubeconfig("exec", &here, &fake.trust(), &user);
        let message = fail(&file, &["list"]);
        let command = fake.folder.path().join("./login");
        assert_eq!(message, format!("{cannot} {command:?} {expected}"));
    }
    std::fs::remove_file(fake.folder.path().join("login")).unwrap();
    let message = fail(&fake.folder.path().join("exec"), &["list"]);
    assert!(message.starts_with(&cannot), "{message}");
    assert!(
        message.ends_with(
            "cannot be run: No such file or directory (os error 2)\nhint: install login first\n"
        ),
        "{message}"
    );
}

#[test]
fn plugin_of_a_kubeconfig_in_the_current_folder_is_not_run() {
    let fake = Fake::start();
    let here = format!("https://{}", fake.address);
    let user = plugin(&fake, "touch ran");
    let file = fake.write_kubeconfig("exec", &here, &fake.trust(), &user);
    let folder = fake.folder.path().join("insula-data");
    std::fs::create_dir(&folder).unwrap();
    std::fs::rename(file, folder.join("admin.kubeconfig")).unwrap();
    std::fs::rename(fake.folder.path().join("login"), folder.join("login")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_insula"))
        .args(["tenant", "list"])
        .current_dir(fake.folder.path())
        .env_remove("KUBECONFIG")
        .output()
        .unwrap();
    assert_eq!(
        stderr(&output),
        "error: insula-data/admin.kubeconfig uses a credential plugin, which is not run from the \
         current folder\nhint: pass the file with --kubeconfig if you trust it\n"
    );
    assert!(!fake.folder.path().join("ran").exists(), "it was not run");
}

#[test]
fn kubeconfigs_in_the_variable_are_merged() {
    let fake = Fake::start();
    fake.add_tenant("a", json!({}));
    let here = format!("https://{}", fake.address);
    let token = format!("{{token: {TOKEN}}}");
    let second = fake.write_kubeconfig("second", &here, &fake.trust(), &token);
    let first = fake.folder.path().join("first");
    std::fs::write(
        &first,
        "apiVersion: v1\nkind: Config\ncurrent-context: \"\"\n",
    )
    .unwrap();
    let missing = fake.folder.path().join("missing");
    let output = Command::new(env!("CARGO_BIN_EXE_insula"))
        .args(["tenant", "list", "-o", "name"])
        .env(
            "KUBECONFIG",
            std::env::join_paths([missing, first, second]).unwrap(),
        )
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "tenant/a\n", "{}", stderr(&output));
}

#[test]
fn token_file_wins_over_the_token() {
    let fake = Fake::start();
    fake.add_tenant("a", json!({}));
    let here = format!("https://{}", fake.address);
    let user = "{token: s3cret, tokenFile: token}";
    let file = fake.write_kubeconfig("x", &here, &fake.trust(), user);
    let path = fake.folder.path().join("token");
    assert_eq!(
        fail(&file, &["list"]),
        format!(
            "error: cannot read {} of the kubeconfig: No such file or directory (os error 2)\n",
            path.display()
        )
    );
    for token in [TOKEN.to_owned(), format!("{TOKEN}\n")] {
        std::fs::write(&path, token).unwrap();
        succeed(&file, &["get", "a"]);
    }
}

#[test]
fn proxy_of_the_environment_is_used_except_for_loopback_addresses() {
    let fake = Fake::start();
    fake.add_tenant("a", json!({}));
    let proxied = |kubeconfig: &Path| {
        Command::new(env!("CARGO_BIN_EXE_insula"))
            .args(["tenant", "list", "-o", "name", "--kubeconfig"])
            .arg(kubeconfig)
            .env("HTTPS_PROXY", "http://127.0.0.1:1")
            .env("NO_PROXY", "excluded.example")
            .output()
            .unwrap()
    };
    assert_eq!(stdout(&proxied(&fake.kubeconfig())), "tenant/a\n");
    // A connection to this name can only be attempted through the proxy.
    for (host, is_proxied) in [("remote.invalid", true), ("excluded.example", false)] {
        let server = format!("https://{host}:6443");
        let file = fake.write_kubeconfig("remote", &server, &fake.trust(), "{}");
        let message = stderr(&proxied(&file));
        assert_eq!(
            message.contains("Connection refused"),
            is_proxied,
            "{message}"
        );
    }
}

#[test]
fn errors_have_hints_and_no_secrets() {
    let fake = Fake::start();
    let here = format!("https://{}", fake.address);
    let wrong = fake.write_kubeconfig("wrong", &here, &fake.trust(), "{token: s3cret}");
    let message = fail(&wrong, &["list"]);
    assert!(
        message.starts_with("error: cannot list tenants: Unauthorized\nhint: "),
        "{message}"
    );
    assert!(!message.contains("s3cret"), "{message}");
    // A certificate of another server's CA.
    let other = Fake::start();
    let stranger = fake::read(&other.kubeconfig());
    let stranger = stranger.replace(&other.trust(), &fake.trust());
    let stranger = stranger.replace(&other.address.to_string(), &fake.address.to_string());
    let file = other.folder.path().join("stranger");
    std::fs::write(&file, stranger).unwrap();
    let message = fail(&file, &["list"]);
    assert!(
        message.contains("cannot set up TLS with 127.0.0.1:"),
        "{message}"
    );
    assert!(
        message.contains("\nhint: is the kubeconfig the one"),
        "{message}"
    );
    let unreachable = "https://127.0.0.1:1";
    let unreachable = fake.write_kubeconfig("unreachable", unreachable, &fake.trust(), "{}");
    let message = fail(&unreachable, &["list"]);
    assert!(
        message.starts_with("error: cannot list tenants: cannot reach 127.0.0.1:1: "),
        "{message}"
    );
    assert!(
        message.ends_with("\nhint: is the server running?\n"),
        "{message}"
    );
    let message = fail(&fake.folder.path().join("missing"), &["list"]);
    assert!(message.contains("No such file"), "{message}");
}
