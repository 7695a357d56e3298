//! Tenant isolation, and how the system accesses tenants.

use insula_e2e::two_tenants::{TENANTS, TwoTenants};

#[test]
fn system_accesses_a_space_by_path() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        tenant.get(&format!(
            "create configmap note --from-literal=of={}",
            tenant.name()
        ));
        tenant.get("create namespace team");
    });
    let system = &two_tenants.system;
    system.prints("get cm -o name", "");
    for name in TENANTS {
        let prefix = format!("--server {}/tenants/{name}", two_tenants.server.url());
        system.prints(
            &format!("{prefix} get cm note -o jsonpath={{.data.of}}"),
            name,
        );
        system.shows(&format!("{prefix} get ns"), &["default", "team"]);
        system.prints(
            &format!("{prefix} label cm note seen=yes"),
            "configmap/note labeled",
        );
        let raw = system.get(&format!(
            "get --raw /api/v1/tenants/{name}/namespaces/default/configmaps/note"
        ));
        assert!(raw.contains(&format!("\"of\":\"{name}\"")), "{raw}");
    }
    for path in [
        "namespaces",
        "configmaps",
        "serviceaccounts",
        "namespaces/default/configmaps",
    ] {
        two_tenants.sees_both(&format!("/api/v1/tenants/all/{path}"));
    }
    let missing = format!("--server {}/tenants/missing", two_tenants.server.url());
    system.refuses(&format!("{missing} create ns x"), "");
}

#[test]
fn tenants_see_neither_each_other_nor_the_system() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    let url = two_tenants.server.url().to_owned();
    two_tenants.system.get("create configmap secret-plan");
    two_tenants.both(|tenant| {
        let neighbour = TENANTS.into_iter().find(|name| *name != tenant.name()).unwrap();
        tenant.get("create configmap note");
        for other in [neighbour, "system", "missing"] {
            tenant.refuses(
                &format!("get --raw /api/v1/tenants/{other}/configmaps"),
                &format!("cannot list resource \"configmaps\" in API group \"\" in the tenant \"{other}\""),
            );
            tenant.refuses(&format!("--server {url}/tenants/{other} get cm"), "Forbidden");
        }
        tenant.refuses("get --raw /api/v1/tenants/all/configmaps", "in all tenants");
        tenant.refuses("get --raw /api/v1/tenants", "Forbidden");
        tenant.refuses(&format!("get --raw /api/v1/tenants/{neighbour}"), "Forbidden");
        tenant.refuses("get --raw /tenants/system/api/v1/nodes", "Forbidden");
        tenant.prints("get cm -A -o name", "configmap/note");
        let own = format!("--server {url}/tenants/{}", tenant.name());
        tenant.prints(&format!("{own} get cm -o name"), "configmap/note");
    });
}

#[test]
fn deleted_tenants_name_can_be_reused() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        tenant.get("create namespace team");
        tenant.get("create configmap note -n team");
    });
    let [one, other] = &two_tenants.tenants;
    assert_eq!(two_tenants.server.run("tenant delete acme").succeeds(), "");
    one.refuses("get --raw /api/v1/configmaps", "Forbidden");
    other.prints("get cm -A -o name", "configmap/note");
    two_tenants
        .system
        .refuses("get tenant acme", "tenants \"acme\" not found");
    assert_eq!(
        two_tenants.server.run("tenant create acme").succeeds(),
        "acme\n"
    );
    let space = format!("--server {}/tenants/acme", two_tenants.server.url());
    two_tenants
        .system
        .prints(&format!("{space} get cm -A -o name"), "");
}

#[test]
fn deletion_reports_what_blocks_it() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    let [one, other] = &two_tenants.tenants;
    one.get("create configmap held");
    one.get(r#"patch cm held -p '{"metadata":{"finalizers":["example.com/hold"]}}'"#);
    let said = two_tenants
        .server
        .run("tenant delete acme --timeout 1s")
        .fails();
    for text in [
        "tenant acme is not gone after 1s",
        "example.com/hold",
        "configmaps",
        "hint:",
    ] {
        assert!(said.contains(text), "no {text:?} in {said}");
    }
    two_tenants.system.prints(
        "get tenant acme -o jsonpath='{.status.phase} {.status.conditions[?(@.type==\"TenantFinalizersRemaining\")].reason}'",
        "Terminating SomeFinalizersRemain",
    );
    one.refuses("create configmap late", "because it is being terminated");
    other.prints("create configmap late", "configmap/late created");
    one.prints(
        r#"patch cm held --type=merge -p '{"metadata":{"finalizers":null}}'"#,
        "configmap/held patched",
    );
    two_tenants
        .system
        .get("wait --for=delete tenant/acme --timeout=30s");
}
