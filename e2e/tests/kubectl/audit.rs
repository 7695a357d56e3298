//! The audit log: every request once, without request bodies.

use insula_e2e::two_tenants::TwoTenants;
use serde_json::{Value, json};

use crate::users::Users;

const ROBOT: &str = "system:serviceaccount:shop:robot";

#[test]
fn every_request_is_audited_once() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let arguments = ["--audit-log-path", log.to_str().unwrap()];
    let Some(two_tenants) = TwoTenants::start_with(&arguments) else {
        return;
    };
    // A raw request is a single request, identified by its limit parameter.
    two_tenants.both(|tenant| {
        let Users { dora, robot, .. } = Users::create(&two_tenants, tenant);
        dora.get("get --raw /api/v1/namespaces/shop/configmaps?limit=1");
        for (who, line) in [
            (&robot, "/api/v1/namespaces/shop/secrets?limit=2"),
            (&robot, "/api/v1/tenants/all/pods?limit=3"),
            (tenant, "/api/v1/pods?limit=4 --as=dora"),
            (&dora, "/api/v1/pods?limit=5 --as=admin"),
        ] {
            who.refuses(&format!("get --raw {line}"), "(Forbidden)");
        }
    });
    two_tenants.tenants[0].refuses(
        "get --raw /api/v1/tenants/globex/pods?limit=6",
        "(Forbidden)",
    );
    two_tenants
        .system
        .get("get --raw /api/v1/tenants/globex/pods?limit=7");
    let unknown = two_tenants.bearer("unknown", "made-up");
    unknown.refuses("get --raw /api/v1/pods?limit=8", "Unauthorized");
    // Queued events are written on shutdown.
    two_tenants.server.stop().succeeds();
    let text = std::fs::read_to_string(&log).unwrap();
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut ids: Vec<&str> = events
        .iter()
        .filter_map(|event| event["auditID"].as_str())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), events.len(), "two events of one request");
    let mut expected = vec![
        expected_event(6, "admin", "acme", "globex", "forbid"),
        expected_event(7, "kubernetes-admin", "system", "globex", "allow"),
        expected_event(8, "", "", "", ""),
    ];
    for tenant in ["acme", "globex"] {
        expected.extend([
            expected_event(1, "dora", tenant, tenant, "allow"),
            expected_event(2, ROBOT, tenant, tenant, "forbid"),
            expected_event(3, ROBOT, tenant, "all", "forbid"),
            expected_event(4, "admin as dora", tenant, tenant, "forbid"),
            // The impersonated user's space is recorded, although the impersonation is refused.
            expected_event(5, "dora", tenant, "", "forbid"),
        ]);
    }
    let mut found: Vec<Value> = events.iter().filter_map(summary).collect();
    for list in [&mut found, &mut expected] {
        list.sort_by_key(Value::to_string);
    }
    assert_eq!(found, expected);
}

/// The expected summary of an event: request, user, the user's tenant, the addressed space and the
/// decision.
fn expected_event(limit: u32, who: &str, tenant: &str, space: &str, decision: &str) -> Value {
    json!([limit.to_string(), who, tenant, space, decision])
}

/// The summary of an event, if the request has a single-digit limit; kubectl's own requests have
/// others.
fn summary(event: &Value) -> Option<Value> {
    let uri = event["requestURI"].as_str()?;
    let limit = uri.split_once("?limit=").map(|(_, limit)| limit);
    let limit = limit.filter(|limit| limit.len() == 1)?;
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let note = |name: &str| text(&event["annotations"][name]);
    let other = text(&event["impersonatedUser"]["username"]);
    let user = text(&event["user"]["username"]);
    let who = match other.as_str() {
        "" => user,
        other => format!("{user} as {other}"),
    };
    let (tenant, space) = (note("insula.dev/tenant"), note("insula.dev/space"));
    let decision = note("authorization.k8s.io/decision");
    Some(json!([limit, who, tenant, space, decision]))
}

#[test]
fn audit_log_contains_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let arguments = ["--audit-log-path", log.to_str().unwrap()];
    let Some(two_tenants) = TwoTenants::start_with(&arguments) else {
        return;
    };
    two_tenants.both(|tenant| {
        let Users { dora, robot, .. } = Users::create(&two_tenants, tenant);
        dora.get("create secret generic s --from-literal=password=sw0rdf1sh -n shop");
        dora.shows("get secret s -n shop -o yaml", &["password: c3cwcmRmMXNo"]);
        dora.get("delete secret s -n shop");
        robot.get("get configmaps -n shop");
    });
    let unknown = two_tenants.bearer("unknown", "made-up");
    unknown.refuses("get --raw /api/v1/pods", "Unauthorized");
    // The service accounts' tokens in their files.
    let tokens = ["acme-robot", "globex-robot"].map(|name| {
        let kubeconfig = two_tenants.folder().join(name).join("kubeconfig");
        let text = std::fs::read_to_string(kubeconfig).unwrap();
        let token = text.split("token: '").nth(1).unwrap();
        token.split('\'').next().unwrap().to_owned()
    });
    two_tenants.server.stop().succeeds();
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("/api/v1/namespaces/shop/secrets/s"), "{text}");
    let parts = tokens.iter().flat_map(|token| token.split('.').skip(1));
    let others = [
        "sw0rdf1sh",
        "c3cwcmRmMXNo",
        "made-up",
        "PRIVATE KEY",
        "Bearer",
    ];
    for secret in parts.chain(others) {
        assert!(!text.contains(secret), "{secret} is in the audit log");
    }
}
