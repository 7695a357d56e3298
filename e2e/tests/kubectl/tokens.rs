//! create token: permissions, audience and lifetime of service account tokens.

use insula_e2e::two_tenants::{TENANTS, TwoTenants};

use crate::users::{Users, not_of};

const ROBOT: &str = "system:serviceaccount:shop:robot";

#[test]
fn token_creation_is_authorized_and_honours_the_audience() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let Users { dora, nora, robot } = Users::create(&two_tenants, tenant);
        let name = |of: &str| format!("{}-{of}", tenant.name());
        // A namespace editor can create tokens of its service accounts.
        let made = dora.get("create token robot -n shop --duration=20m");
        let made = two_tenants.bearer(&name("made"), made.trim());
        let user = format!("Username {ROBOT}");
        let space = format!("Extra: insula.dev/tenant [{}]", tenant.name());
        made.shows("auth whoami", &[&user, &space]);
        made.prints("get pods -n shop -o name", "");
        for (who, user) in [(&nora, "nora"), (&robot, ROBOT)] {
            who.refuses(
                "create token robot -n shop",
                &format!(
                    "failed to create token: serviceaccounts \"robot\" is forbidden: User \
                     \"{user}\" cannot create resource \"serviceaccounts/token\" in API group \
                     \"\" in the namespace \"shop\""
                ),
            );
        }
        dora.refuses(
            "create token missing -n shop",
            "failed to create token: serviceaccounts \"missing\" not found",
        );
        dora.refuses(
            "create token default",
            "User \"dora\" cannot create resource",
        );
        tenant.refuses(
            "create token robot -n shop --duration=9m",
            "spec.expirationSeconds: Invalid value: 540: may not specify a duration less than 10 \
             minutes",
        );
        // The token is for another audience than this server.
        let vault = tenant.get("create token robot -n shop --audience=vault");
        let vault = two_tenants.bearer(&name("vault"), vault.trim());
        vault.refuses("get --raw /api", "Unauthorized");
        for other in TENANTS {
            if other != tenant.name() {
                let path = format!("/api/v1/tenants/{other}/namespaces/shop/pods");
                robot.refuses(&format!("get --raw {path}"), &not_of(other, ROBOT, "pods"));
            }
        }
    });
}

#[test]
fn tokens_end_with_their_account_or_bound_object() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let robot = Users::create(&two_tenants, tenant).robot;
        let pods = "get --raw /api/v1/namespaces/shop/pods";
        tenant.get("create secret generic held -n shop");
        let bound = "--bound-object-kind=Secret --bound-object-name=held";
        let bound = tenant.get(&format!("create token robot -n shop {bound}"));
        let bound = two_tenants.bearer(&format!("{}-bound", tenant.name()), bound.trim());
        bound.shows(pods, &["PodList"]);
        tenant.get("delete secret held -n shop");
        bound.refuses(pods, "Unauthorized");
        tenant.get("create secret generic held -n shop");
        bound.refuses(pods, "Unauthorized");
        robot.shows(pods, &["PodList"]);
        // An account recreated under the same name is a different one.
        tenant.get("delete serviceaccount robot -n shop");
        robot.refuses(pods, "Unauthorized");
        tenant.get("create serviceaccount robot -n shop");
        robot.refuses(pods, "Unauthorized");
        let fresh = tenant.get("create token robot -n shop");
        let fresh = two_tenants.bearer(&format!("{}-fresh", tenant.name()), fresh.trim());
        fresh.shows(pods, &["PodList"]);
    });
}
