//! create token: permissions, audience and lifetime of service account tokens.

use insula_e2e::scene::{Scene, TENANTS};

use crate::cast::{Cast, not_of};

const ROBOT: &str = "system:serviceaccount:shop:robot";

#[test]
fn tokens_are_made_by_who_may_and_are_for_whom_they_say() {
    let Some(scene) = Scene::start() else { return };
    scene.both(|tenant| {
        let Cast { dora, nora, robot } = Cast::enter(&scene, tenant);
        let name = |of: &str| format!("{}-{of}", tenant.name());
        // A namespace editor can create tokens of its service accounts.
        let made = dora.get("create token robot -n shop --duration=20m");
        let made = scene.bearer(&name("made"), made.trim());
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
            "create token nobody -n shop",
            "failed to create token: serviceaccounts \"nobody\" not found",
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
        let vault = scene.bearer(&name("vault"), vault.trim());
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
fn a_token_ends_with_its_account_and_with_what_it_is_bound_to() {
    let Some(scene) = Scene::start() else { return };
    scene.both(|tenant| {
        let robot = Cast::enter(&scene, tenant).robot;
        let pods = "get --raw /api/v1/namespaces/shop/pods";
        tenant.get("create secret generic held -n shop");
        let bound = "--bound-object-kind=Secret --bound-object-name=held";
        let bound = tenant.get(&format!("create token robot -n shop {bound}"));
        let bound = scene.bearer(&format!("{}-bound", tenant.name()), bound.trim());
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
        let fresh = scene.bearer(&format!("{}-fresh", tenant.name()), fresh.trim());
        fresh.shows(pods, &["PodList"]);
    });
}
