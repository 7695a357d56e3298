//! apply --server-side: ownership and conflicts.

use insula_e2e::kubectl::Kubectl;
use insula_e2e::two_tenants::TwoTenants;

const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "TENANT/web:1"}]}
"#;

fn web(tenant: &Kubectl, replicas: u32) -> Kubectl {
    let text = WEB
        .replace("TENANT", tenant.name())
        .replace("REPLICAS", &replicas.to_string());
    tenant.given(&text)
}

/// The managers of an object with their operations.
fn managers(tenant: &Kubectl, of: &str) -> Vec<String> {
    let each = "{range .metadata.managedFields[*]}{.manager} {.operation} {.subresource}|{end}";
    let said = tenant.get(&format!("get {of} -o jsonpath='{each}'"));
    let mut all: Vec<String> = said
        .split('|')
        .map(|one| one.trim().to_owned())
        .filter(|one| !one.is_empty())
        .collect();
    all.sort();
    all
}

#[test]
fn managers_share_equal_fields_and_conflict_on_others() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let apply = "apply --server-side -f -";
        let done = "deployment.apps/web serverside-applied";
        web(tenant, 2).prints(
            &format!("{apply} --dry-run=server"),
            &format!("{done} (server dry run)"),
        );
        tenant.prints("get deploy -o name", "");
        web(tenant, 2).prints(apply, done);
        let version = tenant.get("get deploy web -o jsonpath={.metadata.resourceVersion}");
        web(tenant, 2).prints(apply, done);
        tenant.prints(
            "get deploy web -o jsonpath={.metadata.resourceVersion}",
            &version,
        );
        web(tenant, 2).prints(&format!("{apply} --field-manager=other"), done);
        web(tenant, 3).refuses(
            &format!("{apply} --field-manager=third"),
            "Apply failed with 2 conflicts: conflicts with \"kubectl\":\n- .spec.replicas\n\
             conflicts with \"other\":\n- .spec.replicas",
        );
        tenant.prints("get deploy web -o jsonpath={.spec.replicas}", "2");
        web(tenant, 3).prints(
            &format!("{apply} --field-manager=third --force-conflicts"),
            done,
        );
        tenant.prints("get deploy web -o jsonpath={.spec.replicas}", "3");
        assert_eq!(
            managers(tenant, "deploy web"),
            ["kubectl Apply", "other Apply", "third Apply"]
        );
        tenant.shows(
            "get deploy web -o yaml --show-managed-fields",
            &["f:spec:", "f:replicas: {}"],
        );
        let plain = tenant.get("get deploy web -o yaml");
        assert!(!plain.contains("managedFields"), "{plain}");
    });
    two_tenants.sees_both("/apis/apps/v1/tenants/all/deployments");
}

#[test]
fn client_side_apply_migrates_to_server_side() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        web(tenant, 2).prints("apply -f -", "deployment.apps/web created");
        assert_eq!(
            managers(tenant, "deploy web"),
            ["kubectl-client-side-apply Update"]
        );
        let diff = web(tenant, 4).run("diff --server-side -f -");
        assert_eq!(diff.code, Some(1), "{diff}");
        assert!(
            diff.out.contains("-  replicas: 2") && diff.out.contains("+  replicas: 4"),
            "{diff}"
        );
        web(tenant, 4).prints(
            "apply --server-side -f -",
            "deployment.apps/web serverside-applied",
        );
        tenant.prints("get deploy web -o jsonpath={.spec.replicas}", "4");
        let owners = managers(tenant, "deploy web");
        assert!(owners.contains(&"kubectl Apply".to_owned()), "{owners:?}");
        assert!(
            !owners.iter().any(|owner| owner.contains("client-side")),
            "{owners:?}"
        );
        // Back to client-side apply: the manifest is the whole truth.
        web(tenant, 5).prints("apply -f -", "deployment.apps/web configured");
        tenant.prints("get deploy web -o jsonpath={.spec.replicas}", "5");
    });
}

#[test]
fn removed_fields_are_deleted_unless_shared() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let map = |data: &str| {
            tenant.given(&format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {data}\n"
            ))
        };
        let apply = "apply --server-side -f - --field-manager=";
        map("{a: '1', b: '2', c: '3'}").get(&format!("{apply}one"));
        map("{b: '2'}").get(&format!("{apply}two"));
        map("{a: '1'}").get(&format!("{apply}one"));
        tenant.prints("get cm m -o jsonpath={.data}", r#"{"a":"1","b":"2"}"#);
        let wrong =
            tenant.given("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndate: {}\n");
        wrong.refuses(
            "apply --server-side -f - --validate=false",
            "field not declared in schema",
        );
    });
}
