//! Resources of the system only: tenants.

use insula_e2e::two_tenants::TwoTenants;

#[test]
fn tenants_can_be_managed_as_objects() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    let system = &two_tenants.system;
    system.shows(
        "get tenants",
        &[
            "NAME STATUS AGE",
            "acme Active",
            "globex Active",
            "system Active",
        ],
    );
    system.prints(
        "get te -o name",
        "tenant/acme\ntenant/globex\ntenant/system",
    );
    let tenant = "apiVersion: v1\nkind: Tenant\nmetadata:\n  name: initech\n";
    system
        .given(tenant)
        .prints("create -f -", "tenant/initech created");
    system
        .given(tenant)
        .refuses("create -f -", "tenants \"initech\" already exists");
    system.shows(
        "describe tenant initech",
        &["Name: initech", "Phase: Active"],
    );
    system.refuses("delete tenant system", "this tenant may not be deleted");
    for (line, name) in [
        ("acme", "a tenant has this name already"),
        ("default", "already exists"),
    ] {
        system.refuses(&format!("create namespace {line}"), name);
    }
    system.get("create namespace shared");
    let taken = tenant.replace("initech", "shared");
    system.given(&taken).refuses(
        "create -f -",
        "a namespace of the system space has this name",
    );
    for name in ["all", "Upper"] {
        let wrong = tenant.replace("initech", name);
        system
            .given(&wrong)
            .refuses("create -f -", "metadata.name: Invalid value");
    }
    // kubectl waits until nothing is left.
    system.shows("delete tenant initech", &["tenant \"initech\" deleted"]);
    system.refuses("get tenant initech", "tenants \"initech\" not found");
    system.shows(
        "auth whoami",
        &["Username kubernetes-admin", "system:masters", "[system]"],
    );
    let resources = system.get("api-resources -o name");
    for name in ["nodes", "tenants", "namespaces"] {
        assert!(resources.lines().any(|found| found == name), "{resources}");
    }
}
