//! --as and --as-group, inside a tenant and by the system.

use insula_e2e::two_tenants::{TENANTS, TwoTenants};

use crate::users::{Users, cannot_list, not_of};

const RESERVED: &str = "names that begin with \"system:\" or \"tenant:\" are the server's to give";

const ROBOT: &str = "system:serviceaccount:shop:robot";

#[test]
fn administrators_can_impersonate_users_of_their_tenant() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        Users::create(&two_tenants, tenant);
        tenant.get(&format!("create configmap of-{} -n shop", tenant.name()));
        let space = format!("Extra: insula.dev/tenant [{}]", tenant.name());
        for (person, user, groups) in [
            ("--as=dora", "dora", "[system:authenticated]"),
            (
                "--as=dora --as-group=devs",
                "dora",
                "[devs system:authenticated]",
            ),
            (
                "--as=system:serviceaccount:shop:robot",
                ROBOT,
                "[system:serviceaccounts system:serviceaccounts:shop system:authenticated]",
            ),
        ] {
            let (user, groups) = (format!("Username {user}"), format!("Groups {groups}"));
            tenant.shows(&format!("auth whoami {person}"), &[&user, &groups, &space]);
        }
        tenant.may_not("create pods -n shop --as=dora");
        tenant.may("create pods -n shop --as=dora --as-group=devs");
        tenant.may_not("create pods --as=dora --as-group=devs");
        tenant.may(&format!("list pods -n shop --as={ROBOT}"));
        tenant.may_not(&format!("create pods -n shop --as={ROBOT}"));
        tenant.refuses(
            "get cm -n shop --as=dora",
            &cannot_list("dora", "configmaps", "shop"),
        );
        tenant.prints(
            &format!("get cm -n shop -o name --as={ROBOT}"),
            &format!("configmap/of-{}", tenant.name()),
        );
    });
}

#[test]
fn impersonation_cannot_exceed_the_space() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let Users { dora, nora, robot } = Users::create(&two_tenants, tenant);
        for (who, user) in [(&dora, "dora"), (&nora, "nora"), (&robot, ROBOT)] {
            who.refuses(
                "get --raw /api/v1/namespaces/shop/pods --as=admin",
                &format!(
                    "users \"admin\" is forbidden: User \"{user}\" cannot impersonate resource \
                     \"users\" in API group \"\" at the cluster scope"
                ),
            );
        }
        let [one, other] = TENANTS;
        for (line, what) in [
            (
                "--as=x --as-group=system:masters",
                "groups \"system:masters\"",
            ),
            (
                "--as=x --as-group=tenant:system",
                "groups \"tenant:system\"",
            ),
            (
                &format!("--as=x --as-group=tenant:{one}"),
                &format!("groups \"tenant:{one}\""),
            ),
            (
                &format!("--as=x --as-group=tenant:{other}"),
                &format!("groups \"tenant:{other}\""),
            ),
            ("--as=system:admin", "users \"system:admin\""),
            (
                "--as=system:kube-controller-manager",
                "users \"system:kube-controller-manager\"",
            ),
        ] {
            let said = tenant
                .run(&format!("get --raw /api/v1/pods {line}"))
                .fails();
            for text in [what, "cannot impersonate", RESERVED] {
                assert!(said.contains(text), "{line}: no {text:?} in {said}");
            }
        }
        // One user may impersonate exactly one other.
        tenant.get(
            "create clusterrole double --verb=impersonate --resource=users --resource-name=dora",
        );
        tenant.get("create clusterrolebinding double --clusterrole=double --user=nora");
        nora.shows("auth whoami --as=dora", &["Username dora"]);
        for line in [
            "--as=admin",
            "--as=dora --as-group=devs",
            &format!("--as={ROBOT}"),
        ] {
            nora.refuses(&format!("get --raw /api {line}"), "cannot impersonate");
        }
    });
}

#[test]
fn system_can_impersonate_a_tenants_user_in_that_tenant_only() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        Users::create(&two_tenants, tenant);
        tenant.get(&format!("create configmap of-{} -n shop", tenant.name()));
    });
    let system = &two_tenants.system;
    for (name, other) in [(TENANTS[0], TENANTS[1]), (TENANTS[1], TENANTS[0])] {
        let dora = format!("--as=dora --as-group=devs --as-group=tenant:{name}");
        let space = format!("Extra: insula.dev/tenant [{name}]");
        system.shows(
            &format!("auth whoami {dora}"),
            &[
                "Username dora",
                "Groups [devs system:authenticated]",
                &space,
            ],
        );
        system.may(&format!("create pods -n shop {dora}"));
        system.may_not(&format!("create pods {dora}"));
        let own = format!("configmap/of-{name}");
        system.prints(&format!("get cm -n shop -o name {dora}"), &own);
        system.refuses(
            &format!("get cm {dora}"),
            &cannot_list("dora", "configmaps", "default"),
        );
        // Neither the system nor the other tenant is accessible any more.
        let neighbour = format!("/api/v1/tenants/{other}/namespaces/shop/configmaps");
        system.refuses(
            &format!("get --raw {neighbour} {dora}"),
            &not_of(other, "dora", "configmaps"),
        );
        for path in ["/api/v1/tenants", "/api/v1/tenants/all/configmaps"] {
            system.refuses(&format!("get --raw {path} {dora}"), "(Forbidden)");
        }
        let admin = format!("--as=admin --as-group=tenant:{name}");
        system.may(&format!("'*' '*' -A {admin}"));
        system.may_not(&format!("get tenants {admin}"));
    }
    // Without a tenant it is the system's own dora, who has no permissions.
    system.shows(
        "auth whoami --as=dora --as-group=devs",
        &["Username dora", "Extra: insula.dev/tenant [system]"],
    );
    system.may_not("list configmaps -n shop --as=dora --as-group=devs");
    let nobody = "get --raw /api/v1/configmaps --as=dora --as-group=tenant:nowhere";
    system.refuses(nobody, "(Forbidden)");
}
