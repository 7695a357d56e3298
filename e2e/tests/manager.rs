//! A manager of controllers that knows nothing of Insula, in two tenants at the same time:
//! leader election, webhooks, objects that it owns, a status, events and a finalizer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use insula_e2e::kubectl::Kubectl;
use insula_e2e::manager::{Manager, definition};
use insula_e2e::scene::Scene;
use serde_json::json;

/// Tenants' webhooks may be on loopback, where those of this test are.
const EGRESS: [&str; 2] = ["--webhook-allow", "127.0.0.0/8"];

#[test]
fn a_manager_reconciles_in_two_tenants_at_once() {
    let Some(program) = Manager::find() else {
        return;
    };
    let Some(scene) = Scene::start_with(&EGRESS) else {
        return;
    };
    scene.both(|tenant| {
        define(tenant);
        let kubeconfig = scene.folder().join(format!("{}.kubeconfig", tenant.name()));
        let start = |name: &str| Manager::start(&program, &kubeconfig, &tenant.folder().join(name));
        let mut first = start("first");
        first.await_lead();
        let mut second = start("second");
        hook(tenant, &first);
        reconciled(tenant);
        judged(tenant);
        // The other takes over where the first was.
        hook(tenant, &second);
        first.kill();
        second.await_lead();
        updated(tenant);
        let holder = "get lease site-manager -o jsonpath={.spec.leaseTransitions}";
        tenant.prints(holder, "1");
        removed(tenant);
    });
    // Each has its own, under the same names.
    scene.sees_both("/apis/coordination.k8s.io/v1/tenants/all/leases");
}

fn define(tenant: &Kubectl) {
    tenant.given(&definition()).prints(
        "apply -f -",
        "customresourcedefinition.apiextensions.k8s.io/sites.peers.insula.dev created",
    );
    tenant.get("wait --for=condition=Established crd/sites.peers.insula.dev");
}

/// Tells the tenant's server where the webhooks of this manager are.
fn hook(tenant: &Kubectl, manager: &Manager) {
    let ca = STANDARD.encode(&manager.ca);
    let rules = json!([{
        "apiGroups": ["peers.insula.dev"], "apiVersions": ["v1"], "resources": ["sites"],
        "operations": ["CREATE", "UPDATE"],
    }]);
    for (kind, path) in [
        ("MutatingWebhookConfiguration", "mutate"),
        ("ValidatingWebhookConfiguration", "validate"),
    ] {
        let url = format!("{}/{path}-peers-insula-dev-v1-site", manager.url);
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": "sites"},
            "webhooks": [{
                "name": "sites.peers.insula.dev", "sideEffects": "None", "rules": rules,
                "admissionReviewVersions": ["v1"], "clientConfig": {"url": url, "caBundle": ca},
            }],
        });
        tenant.given(&configuration.to_string()).get("apply -f -");
    }
}

fn site(message: &str, replicas: u32) -> String {
    let site = json!({
        "apiVersion": "peers.insula.dev/v1", "kind": "Site", "metadata": {"name": "home"},
        "spec": {"message": message, "replicas": replicas},
    });
    site.to_string()
}

fn reconciled(tenant: &Kubectl) {
    let name = tenant.name();
    let made = tenant.given(&site(name, 2));
    made.prints("apply -f -", "site.peers.insula.dev/home created");
    tenant.get("wait --for=condition=Ready site/home");
    tenant.prints("get site home -o jsonpath={.spec.image}", "site:latest");
    tenant.prints("get site home -o jsonpath={.status.page}", "home-page");
    tenant.prints("get cm home-page -o jsonpath={.data.message}", name);
    let owner = "{.metadata.ownerReferences[0].kind}/{.metadata.ownerReferences[0].name}";
    for object in ["cm home-page", "deploy home"] {
        tenant.prints(&format!("get {object} -o jsonpath={owner}"), "Site/home");
    }
    tenant.prints("get deploy home -o jsonpath={.spec.replicas}", "2");
    let mut events = tenant.start("get events --watch --field-selector=reason=PageWritten -o name");
    events.await_line("event/home");
}

fn judged(tenant: &Kubectl) {
    let why = "a site has at most 10 replicas, not 11";
    tenant.given(&site("x", 11)).refuses("apply -f -", why);
    let said = tenant
        .given(&site("", 2))
        .run("apply --dry-run=server -f -");
    let warned = "Warning: a site without a message says nothing";
    assert!(said.err.contains(warned), "{said}");
}

fn updated(tenant: &Kubectl) {
    tenant.given(&site("again", 3)).get("apply -f -");
    tenant.get("wait --for=jsonpath={.spec.replicas}=3 deploy/home");
    tenant.get("wait --for=jsonpath={.status.observedGeneration}=2 site/home");
    tenant.prints("get cm home-page -o jsonpath={.data.message}", "again");
    // What somebody else does to what it owns is undone.
    tenant.get("patch cm home-page --type=merge -p '{\"data\":{\"message\":\"broken\"}}'");
    tenant.get("wait --for=jsonpath={.data.message}=again cm/home-page");
}

fn removed(tenant: &Kubectl) {
    tenant.get("delete site home");
    tenant.prints("get cm home-farewell -o jsonpath={.data.last}", "again");
}
