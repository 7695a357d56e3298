//! A controller-runtime manager from `tools/peers/manager`: leader election, webhooks, and a
//! controller that owns objects.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use insula_e2e::command::Running;
use insula_e2e::insula::root;
use insula_e2e::kubectl::Kubectl;
use insula_e2e::two_tenants::TwoTenants;
use insula_testkit::peer;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(50);

/// The path of the manager. Its name contains a hash of its sources, which only the installer
/// knows.
fn find() -> Option<PathBuf> {
    let found = peer::installed("INSULA_MANAGER", "manager");
    if found.is_none() {
        peer::skipped("the manager is not installed (INSULA_MANAGER of tools/peers/install)");
    }
    found
}

/// Starts a manager process.
fn start(name: &str, program: &Path, kubeconfig: &Path, more: &[&str]) -> Running {
    let mut command = Command::new(program);
    command.args(more).env("KUBECONFIG", kubeconfig);
    Running::start(name.to_owned(), &mut command, "")
}

/// The manager's service account with exactly the permissions it needs in a tenant.
const RBAC: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: site-manager, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: site-manager}
rules:
- {apiGroups: [peers.example], resources: [sites], verbs: [get, list, watch, update, patch]}
- {apiGroups: [peers.example], resources: [sites/status], verbs: [get, update, patch]}
- {apiGroups: [peers.example], resources: [sites/finalizers], verbs: [update]}
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create, update, patch, delete]}
- {apiGroups: [apps], resources: [deployments], verbs: [get, list, watch, create, update, patch, delete]}
- {apiGroups: ["", events.k8s.io], resources: [events], verbs: [create, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: site-manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: site-manager}
subjects: [{kind: ServiceAccount, name: site-manager, namespace: default}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: site-manager-leads, namespace: default}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, list, watch, create, update, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: site-manager-leads, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: site-manager-leads}
subjects: [{kind: ServiceAccount, name: site-manager, namespace: default}]
"#;

/// Creates the manager's account in a tenant and returns its kubeconfig, with a server URL like
/// that in kubeconfigs of tenants.
fn account(two_tenants: &TwoTenants, tenant: &Kubectl) -> PathBuf {
    tenant.given(RBAC).get("apply -f -");
    let token = tenant.get("create token site-manager");
    let account = two_tenants.bearer(&format!("{}-manager", tenant.name()), token.trim());
    account.may_not("get secrets");
    let path = account.folder().join("kubeconfig");
    let url = two_tenants.server.url();
    let kubeconfig = std::fs::read_to_string(&path).expect("it was written");
    let prefixed = kubeconfig.replace(url, &format!("{url}/tenants/{}", tenant.name()));
    std::fs::write(&path, prefixed).expect("it was written");
    path
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it listens").port()
}

/// Writes a certificate for 127.0.0.1 and returns that of its CA.
fn write_certificate(folder: &Path) -> String {
    std::fs::create_dir(folder).expect("it is a new folder");
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let authority = ca.self_signed(&key).expect("a certificate");
    let issuer = Issuer::from_params(&ca, &key);
    let served = KeyPair::generate().expect("a key");
    let names = vec!["127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names).expect("a name");
    let certificate = certificate.signed_by(&served, &issuer);
    let certificate = certificate.expect("a certificate");
    let write = |name: &str, text: String| {
        std::fs::write(folder.join(name), text).expect("the folder is the test's");
    };
    write("tls.crt", certificate.pem());
    write("tls.key", served.serialize_pem());
    authority.pem()
}

/// The configuration of one of the manager's webhooks.
fn configuration(verb: &str, port: u16, ca: &str) -> String {
    let (kind, members) = match verb {
        "mutate" => ("MutatingWebhookConfiguration", "mutation"),
        _ => ("ValidatingWebhookConfiguration", "validation"),
    };
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "sites"},
        "webhooks": [{
            "name": format!("{members}.sites.peers.example"),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": {
                "url": format!("https://127.0.0.1:{port}/{verb}-peers-example-v1-site"),
                "caBundle": STANDARD.encode(ca),
            },
            "rules": [{
                "apiGroups": ["peers.example"], "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"], "resources": ["sites"],
            }],
        }],
    });
    configuration.to_string()
}

fn site(name: &str, message: &str, replicas: u32) -> String {
    let site = json!({
        "apiVersion": "peers.example/v1",
        "kind": "Site",
        "metadata": {"name": name},
        "spec": {"message": message, "replicas": replicas},
    });
    site.to_string()
}

fn object(tenant: &Kubectl, what: &str) -> Value {
    let text = tenant.get(&format!("get {what} -o json"));
    serde_json::from_str(&text).expect("kubectl prints JSON")
}

#[track_caller]
fn await_field(tenant: &Kubectl, what: &str, path: &str, value: &str) {
    tenant.get(&format!(
        "wait {what} --for=jsonpath='{path}'='{value}' --timeout=50s"
    ));
}

#[test]
fn manager_leads_admits_and_reconciles_in_two_tenants() {
    let Some(program) = find() else { return };
    let Some(two_tenants) = TwoTenants::start_with(&["--webhook-allow", "127.0.0.0/8"]) else {
        return;
    };
    two_tenants.both(|tenant| {
        let kubeconfig = account(&two_tenants, tenant);
        let definition = root().join("tools/peers/manager/crd.yaml");
        tenant.get(&format!("apply -f '{}'", definition.display()));
        tenant.get("wait crd sites.peers.example --for=condition=Established --timeout=30s");
        let certificates = tenant.folder().join("certificates");
        let ca = write_certificate(&certificates);
        let port = free_port();
        let flags = [
            format!("--cert-dir={}", certificates.display()),
            format!("--webhook-port={port}"),
        ];
        let flags = flags.each_ref().map(String::as_str);
        let mut first = start("first manager", &program, &kubeconfig, &flags);
        // Leadership and webhook readiness may come in either order.
        let said = [(); 2].map(|()| first.await_line("manager "));
        assert!(
            said.iter().any(|line| line == "manager leads\n"),
            "{said:?}"
        );
        for verb in ["mutate", "validate"] {
            tenant
                .given(&configuration(verb, port, &ca))
                .get("apply -f -");
        }
        // It waits for the lease as long as the first manager lives.
        let mut second = start("second manager", &program, &kubeconfig, &[]);
        check_admission(tenant);
        check_reconciliation(tenant);
        tenant.get("delete mutatingwebhookconfigurations,validatingwebhookconfigurations sites");
        let leader = object(tenant, "lease site-manager")["spec"]["holderIdentity"].clone();
        first.end();
        second.await_line("manager leads");
        let next = object(tenant, "lease site-manager")["spec"].clone();
        assert_ne!(next["holderIdentity"], leader);
        assert_eq!(next["leaseTransitions"], 1, "{next}");
        check_deletion(tenant);
    });
    let seen = two_tenants
        .sees_both("/api/v1/tenants/all/configmaps?fieldSelector=metadata.name%3Dshop-farewell");
    assert_eq!(seen.len(), 2);
}

/// kubectl prints the webhooks' messages.
fn check_admission(tenant: &Kubectl) {
    let name = tenant.name();
    tenant.given(&site("big", name, 11)).refuses(
        "create -f -",
        "admission webhook \"validation.sites.peers.example\" denied the request: \
         a site has at most 10 replicas, not 11",
    );
    let silent = tenant.given(&site("silent", "", 1)).run("create -f -");
    assert_eq!(
        silent.err,
        "Warning: a site without a message says nothing\n"
    );
    assert_eq!(silent.succeeds(), "site.peers.example/silent created\n");
    tenant.given(&site("shop", name, 2)).get("create -f -");
    tenant.prints("get site shop -o jsonpath='{.spec.image}'", "site:latest");
    tenant.refuses(
        "patch site shop --type=merge -p '{\"spec\":{\"replicas\":12}}'",
        "a site has at most 10 replicas, not 12",
    );
}

fn check_reconciliation(tenant: &Kubectl) {
    let name = tenant.name();
    await_field(tenant, "site shop", "{.status.observedGeneration}", "1");
    let site = object(tenant, "site shop");
    assert_eq!(site["status"]["conditions"][0]["message"], name);
    assert_eq!(
        site["metadata"]["finalizers"],
        json!(["peers.example/farewell"])
    );
    for (what, path, value) in [
        ("configmap shop-page", "/data/message", json!(name)),
        ("deployment shop", "/spec/replicas", json!(2)),
        (
            "deployment shop",
            "/spec/template/spec/containers/0/image",
            json!("site:latest"),
        ),
    ] {
        let owned = object(tenant, what);
        assert_eq!(owned.pointer(path), Some(&value), "{owned}");
        let owner = &owned["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], site["metadata"]["uid"], "{owned}");
    }
    // A changed spec, and an owned object deleted by a user.
    tenant.get("patch site shop --type=merge -p '{\"spec\":{\"message\":\"changed\"}}'");
    await_field(tenant, "configmap shop-page", "{.data.message}", "changed");
    let before = object(tenant, "deployment shop")["metadata"]["uid"].clone();
    tenant.get("delete deployment shop");
    let again = "get deployment shop --ignore-not-found -o jsonpath='{.metadata.uid}'";
    let begun = Instant::now();
    while tenant.get(again).is_empty() {
        assert!(
            begun.elapsed() < TIMEOUT,
            "the deployment does not come back"
        );
    }
    assert_ne!(object(tenant, "deployment shop")["metadata"]["uid"], before);
    let events = tenant.get("get events.events.k8s.io -o jsonpath='{.items[*].reason}'");
    assert!(events.contains("PageWritten"), "{events}");
}

/// The current leader handles the finalizer, and the owned objects are deleted.
fn check_deletion(tenant: &Kubectl) {
    tenant.shows(
        "delete site shop silent",
        &["\"shop\" deleted", "\"silent\" deleted"],
    );
    tenant.prints(
        "get configmap shop-farewell -o jsonpath='{.data.last}'",
        "changed",
    );
    for owned in ["configmap shop-page", "deployment shop"] {
        tenant.get(&format!("wait {owned} --for=delete --timeout=50s"));
    }
}
