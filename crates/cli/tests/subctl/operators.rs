//! Operators in the server process and as processes of their own.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use insula_access::{Authority, Validity};
use serde_json::Value;

use crate::scene::{Scene, free_port, good, stderr, stop, until};

const OPERATOR: &str = "system:serviceaccount:axon-operator:axon-operator";

/// The operator's requests in the audit log.
fn asked(log: &Path) -> Vec<Value> {
    asked_by(log, OPERATOR)
}

/// The requests of a user.
fn asked_by(log: &Path, user: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    // The last line may be incomplete.
    let events = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let by_user = |event: &Value| event["user"]["username"] == user;
    events.filter(by_user).collect()
}

fn shown(log: &Path) -> BTreeSet<String> {
    let key = "authentication.kubernetes.io/credential-id";
    let shown = |event: Value| event["user"]["extra"][key][0].as_str().map(str::to_owned);
    asked(log).into_iter().filter_map(shown).collect()
}

#[test]
fn in_process_operator_has_only_granted_permissions() {
    let scene = Scene::start_with(&["--operators", "broker", "--audit-log-path", "audit"]);
    let log = scene.at("audit");
    until("it looks for what it serves", || asked(&log).len() >= 2);
    for event in asked(&log) {
        let code = event["responseStatus"]["code"].as_u64().unwrap();
        assert!(code == 403 || code == 404, "{event}");
        assert!(event["verb"] == "list" || event["verb"] == "get", "{event}");
        assert_eq!(
            event["user"]["groups"],
            serde_json::json!([
                "system:serviceaccounts",
                "system:serviceaccounts:axon-operator",
                "system:authenticated"
            ])
        );
    }
    scene.succeed(&["deploy", "axon-cp", "--without-deployment"]);
    scene.succeed(&["create", "tenant", "acme"]);
    // Permission for spaces was not granted.
    let refused = ["create", "tenant", "b", "--isolation", "space"];
    let output = scene.subctl(&refused).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = stderr(&output);
    assert!(
        message.contains("error: the operator may not create spaces: "),
        "{message}"
    );
    assert_eq!(scene.stop(), Some(0), "it ends on a stop signal");
}

#[test]
fn in_process_vsphere_operator_has_no_permissions_until_granted() {
    let scene = Scene::start_with(&[
        "--operators",
        "broker,vsphere",
        "--vsphere-allowed-server",
        "vcenter.example",
        "--audit-log-path",
        "audit",
    ]);
    let (log, user) = (
        scene.at("audit"),
        "system:serviceaccount:capv-system:capv-manager",
    );
    until("it looks for what it serves", || {
        asked_by(&log, user).len() >= 2
    });
    for event in asked_by(&log, user) {
        let code = event["responseStatus"]["code"].as_u64().unwrap();
        assert!(code == 403 || code == 404, "{event}");
        assert!(event["verb"] == "list" || event["verb"] == "get", "{event}");
    }
    assert!(!asked(&log).is_empty(), "the other one works beside it");
    assert_eq!(scene.stop(), Some(0), "it ends on a stop signal");
}

#[test]
fn operator_certificate_is_renewed_before_it_expires() {
    let short = ["--certificates-last", "6s", "--audit-log-path", "audit"];
    let scene = Scene::start_with(&[&["--operators", "broker"][..], &short].concat());
    let log = scene.at("audit");
    until("it is renewed twice", || shown(&log).len() >= 3);
    // The administrator's certificate is as short-lived, and renewed too.
    scene.succeed(&["deploy", "axon-cp", "--without-deployment"]);
    scene.succeed(&["create", "tenant", "acme"]);
    let refused = |event: &Value| event["responseStatus"]["code"] == 401;
    assert!(!asked(&log).iter().any(refused));
}

/// Writes a certificate of another CA and its key to the files of a server.
fn show(folder: &Path, name: &str) {
    let validity = Validity::starting(SystemTime::now(), Duration::from_secs(3600));
    let ca = Authority::generate("other", validity).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = ca.issue_server(&[name.to_owned()], &key, validity);
    let chain = [&certificate.unwrap(), ca.certificate_pem()].concat();
    // Atomically, as programs that renew certificates do.
    for (file, text) in [("key.pem", key.serialize_pem()), ("chain.pem", chain)] {
        std::fs::write(folder.join("next"), text).unwrap();
        std::fs::rename(folder.join("next"), folder.join(file)).unwrap();
    }
}

#[test]
fn operator_follows_changes_of_the_server_certificate() {
    let folder = tempfile::tempdir().unwrap();
    show(folder.path(), "api.example");
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let scene = Scene::start_with(&[
        "--operators",
        "broker",
        "--audit-log-path",
        "audit",
        "--certificates-last",
        "6s",
        "--advertise-url",
        "https://api.example:6443",
        "--tls-cert-file",
        &file("chain.pem"),
        "--tls-private-key-file",
        &file("key.pem"),
    ]);
    let log = scene.at("audit");
    until("it is let in", || !asked(&log).is_empty());
    // A certificate of another CA, which the operator does not trust yet.
    show(folder.path(), "api.example");
    let before = shown(&log).len();
    until("it is let in again and again", || {
        shown(&log).len() >= before + 3
    });
}

#[test]
fn separate_operator_process_provisions_tenants() {
    let scene = Scene::start_with(&[]);
    scene.succeed(&["deploy", "axon-cp", "--without-deployment", "--no-wait"]);
    let health = format!("127.0.0.1:{}", free_port());
    let start = || {
        let mut command = scene.insula(&["operator", "broker", "--health-addr", &health]);
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut first = start();
    scene.succeed(&["create", "tenant", "acme"]);
    let metrics = ask(&health, "/metrics");
    assert!(metrics.contains("insula_operator_leader 1\n"), "{metrics}");
    assert!(ask(&health, "/readyz").ends_with("ok\n"));
    // An address in use is refused.
    let second = start().wait_with_output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let message = stderr(&second);
    assert!(
        message.starts_with(&format!("error: cannot listen on {health}: ")),
        "{message}"
    );
    assert_eq!(stop(&mut first), Some(0));
    // The next operator takes over at once, because the previous one released the lease.
    let mut third = start();
    scene.succeed(&["delete", "tenant", "acme"]);
    assert_eq!(stop(&mut third), Some(0));
}

#[test]
fn broker_operator_manifests_are_printed() {
    let scene = Scene::start_with(&[]);
    let printed = |arguments: &[&str]| good(&scene.insula(arguments).output().unwrap());
    let kinds = |text: &str| -> Vec<String> {
        let documents = text.split("---\n").filter(|text| !text.is_empty());
        let read = |text| serde_saphyr::from_str::<Value>(text).unwrap();
        let kind = |object: Value| object["kind"].as_str().unwrap().to_owned();
        documents.map(read).map(kind).collect()
    };
    let crds = kinds(&printed(&["operator", "broker", "crds"]));
    assert_eq!(crds, ["CustomResourceDefinition"; 6]);
    let all = printed(&["operator", "broker", "manifests", "--spaces"]);
    assert_eq!(kinds(&all).last().map(String::as_str), Some("Deployment"));
    let dry = scene.succeed(&["deploy", "axon-cp", "--dry-run", "-o", "yaml", "--spaces"]);
    assert_eq!(dry, all, "both print the same");
    let json = scene.succeed(&["deploy", "axon-cp", "--dry-run", "-o", "json", "--spaces"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["items"].as_array().unwrap().len(), kinds(&all).len());
    let message = scene.fail(&["list", "tenants"]);
    assert!(
        message.contains("this cluster has no tenants"),
        "nothing was changed"
    );
}

#[test]
fn vsphere_operator_manifests_are_printed() {
    let scene = Scene::start_with(&[]);
    let printed = |arguments: &[&str]| -> Vec<Value> {
        let text = good(&scene.insula(arguments).output().unwrap());
        let documents = text.split("---\n").filter(|text| text.contains("kind:"));
        documents
            .map(|text| serde_saphyr::from_str(text).unwrap())
            .collect()
    };
    let counted = |objects: &[Value]| {
        let mut counts = std::collections::BTreeMap::new();
        for object in objects {
            *counts
                .entry(object["kind"].as_str().unwrap().to_owned())
                .or_insert(0) += 1;
        }
        let counts: Vec<_> = counts
            .iter()
            .map(|(kind, count)| format!("{kind} {count}"))
            .collect();
        counts.join(", ")
    };
    let crds = printed(&["operator", "vsphere", "crds"]);
    assert_eq!(counted(&crds), "CustomResourceDefinition 8");
    let all = printed(&["operator", "vsphere", "manifests"]);
    assert_eq!(
        counted(&all),
        "ClusterRole 7, ClusterRoleBinding 1, CustomResourceDefinition 8, Deployment 1, \
         Namespace 1, Role 1, RoleBinding 1, Service 1, ServiceAccount 1, \
         ValidatingAdmissionPolicy 3, ValidatingAdmissionPolicyBinding 3"
    );
    let arguments = &all.last().unwrap()["spec"]["template"]["spec"]["containers"][0]["args"];
    assert_eq!(
        arguments.to_string(),
        r#"["operator","vsphere","--leader-elect","--health-addr","0.0.0.0:8080","--webhook-addr","0.0.0.0:9443"]"#
    );
    let without = ["operator", "vsphere", "manifests", "--without-deployment"];
    assert_eq!(
        counted(&printed(&without)),
        "ClusterRole 7, ClusterRoleBinding 1, CustomResourceDefinition 8, Namespace 1, Role 1, \
         RoleBinding 1, ServiceAccount 1, ValidatingAdmissionPolicy 3, \
         ValidatingAdmissionPolicyBinding 3"
    );
    let published = "multi-tenancy.k8s.io/published";
    let is_published =
        |object: &&Value| object["metadata"]["annotations"][published].as_str() == Some("true");
    assert_eq!(all.iter().filter(is_published).count(), 0);
    let everywhere = printed(&["operator", "vsphere", "manifests", "--tenants"]);
    assert_eq!(everywhere.iter().filter(is_published).count(), 8);
    let tenant = printed(&["operator", "vsphere", "manifests", "--tenant", "acme"]);
    assert_eq!(counted(&tenant), "ClusterRole 6, Namespace 1");
}

#[test]
fn unknown_operator_is_a_usage_error() {
    let scene = Scene::start_with(&[]);
    for (arguments, message) in [
        (
            &["serve", "--operators", "nope"][..],
            "[possible values: azure, broker, metal3, vsphere]",
        ),
        (&["operator"], "  broker   Provision the tenants"),
        (&["operator", "nope"], "unrecognized subcommand 'nope'"),
        (
            &["operator", "azure", "manifests", "--tenant", "acme"],
            "--namespaces",
        ),
        (
            &["operator", "azure", "manifests", "--namespaces", "A"],
            "expected at most 63 lower-case letters, digits and hyphens",
        ),
        (
            &["operator", "vsphere", "--mode", "webhooks"],
            "webhooks convert versions only, see --webhook-addr: `watchers` is the only mode",
        ),
        (
            &["operator", "vsphere", "--allowed-server", "https://v"],
            "\"https://v\" is no host, and no host with a port",
        ),
        (
            &["operator", "vsphere", "--static-credentials-tenants", "a"],
            "--tenants",
        ),
        (
            &["operator", "vsphere", "manifests", "--tenant", "A b"],
            "invalid value 'A b' for '--tenant <NAME>'",
        ),
        (
            &["identity", "explain", "pod/x"],
            "expected a kind and a name such as vspherecluster/prod; kinds are metal3cluster, metal3machine, vspherecluster, vspheremachine, vspherevm, vspheredeploymentzone and those of Azure such as resourcegroup or server.sql.azure.com",
        ),
        (
            &["identity", "users", "shared"],
            "expected a kind and a name such as vsphereclusteridentity/shared; kinds are vsphereclusteridentity",
        ),
    ] {
        let output = scene.insula(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains(message), "{output:?}");
    }
}

/// Sends a plain HTTP request.
fn ask(address: &str, path: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}
