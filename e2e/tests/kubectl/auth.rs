//! auth whoami and auth can-i.

use insula_e2e::kubectl::{Kubectl, squeezed};
use insula_e2e::two_tenants::{TENANTS, TwoTenants};

use crate::users::{Users, cannot_list, not_of};

const ROBOT: &str = "system:serviceaccount:shop:robot";

/// Permissions of all authenticated users.
const ALL_USERS: [&str; 3] = [
    "selfsubjectaccessreviews.authorization.k8s.io [] [] [create]",
    "selfsubjectreviews.authentication.k8s.io [] [] [create]",
    "selfsubjectrulesreviews.authorization.k8s.io [] [] [create]",
];

#[test]
fn whoami_shows_user_groups_and_tenant() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let users = Users::create(&two_tenants, tenant);
        let accounts = "[system:serviceaccounts system:serviceaccounts:shop system:authenticated]";
        let space = format!("Extra: insula.dev/tenant [{}]", tenant.name());
        for (who, user, groups) in [
            (tenant, "admin", "[system:authenticated]"),
            (&users.dora, "dora", "[devs system:authenticated]"),
            (&users.nora, "nora", "[system:authenticated]"),
            (&users.robot, ROBOT, accounts),
        ] {
            let (user, groups) = (format!("Username {user}"), format!("Groups {groups}"));
            who.shows("auth whoami", &["ATTRIBUTE VALUE", &user, &groups, &space]);
        }
        let robot = users
            .robot
            .get("auth whoami -o jsonpath={.status.userInfo.uid}");
        tenant.prints("get sa robot -n shop -o jsonpath={.metadata.uid}", &robot);
    });
    two_tenants.system.shows(
        "auth whoami",
        &[
            "Username kubernetes-admin",
            "Extra: insula.dev/tenant [system]",
        ],
    );
}

#[test]
fn can_i_matches_actual_authorization() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let Users { dora, nora, robot } = Users::create(&two_tenants, tenant);
        for (who, yes, no) in [
            (
                tenant,
                &["'*' '*' -A", "get /metrics"][..],
                &["get tenants"][..],
            ),
            (
                &dora,
                &[
                    "create deployments -n shop",
                    "create deployments.apps/web -n shop",
                    "get pods --subresource=log -n shop",
                    "get /healthz",
                ],
                &[
                    "create deployments",
                    "create deployments -A",
                    "get secrets -n kube-system",
                    "create rolebindings -n shop",
                    "get namespaces",
                    "get /metrics",
                    "impersonate users",
                ],
            ),
            (
                &nora,
                &[
                    "create selfsubjectaccessreviews.authorization.k8s.io",
                    "get /api",
                ],
                &[
                    "list configmaps -n shop",
                    "list configmaps",
                    "get clusterroles",
                ],
            ),
            (
                &robot,
                &["list configmaps -n shop", "watch pods -n shop"],
                &[
                    "create configmaps -n shop",
                    "list configmaps",
                    "list configmaps -A",
                    "list secrets -n shop",
                ],
            ),
        ] {
            for what in yes {
                who.may(what);
            }
            for what in no {
                who.may_not(what);
            }
        }
        dora.prints(
            "create deployment web --image=x -n shop",
            "deployment.apps/web created",
        );
        robot.prints("get pods -n shop -o name", "");
        for (who, user) in [(&dora, "dora"), (&nora, "nora"), (&robot, ROBOT)] {
            who.refuses(
                "get configmaps",
                &cannot_list(user, "configmaps", "default"),
            );
            for other in [TENANTS[0], TENANTS[1], "none", "system"] {
                if other != tenant.name() {
                    let path = format!("/api/v1/tenants/{other}/namespaces/shop/pods");
                    who.refuses(&format!("get --raw {path}"), &not_of(other, user, "pods"));
                }
            }
        }
        nora.refuses("get pods -n shop", &cannot_list("nora", "pods", "shop"));
        robot.refuses(
            "get secrets -n shop",
            &cannot_list(ROBOT, "secrets", "shop"),
        );
        quiet(&dora, "get pods -n shop", Some(0));
        quiet(&nora, "get pods -n shop", Some(1));
    });
}

/// Asserts the exit code of `can-i --quiet`.
#[track_caller]
fn quiet(who: &Kubectl, what: &str, code: Option<i32>) {
    let said = who.run(&format!("auth can-i {what} --quiet"));
    assert_eq!((said.code, said.out.as_str()), (code, ""), "{said}");
}

#[test]
fn bindings_apply_at_once_and_in_their_own_space_only() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    let [ours, theirs] = two_tenants
        .tenants
        .each_ref()
        .map(|tenant| Users::create(&two_tenants, tenant));
    let [tenant, _] = &two_tenants.tenants;
    for (line, kind) in [
        (
            "rolebinding n --clusterrole=view --user=nora -n shop",
            "rolebinding n -n shop",
        ),
        (
            "clusterrolebinding n --clusterrole=view --user=nora",
            "clusterrolebinding n",
        ),
    ] {
        tenant.get(&format!("create {line}"));
        ours.nora.may("list pods -n shop");
        ours.nora.prints("get pods -n shop -o name", "");
        theirs.nora.may_not("list pods -n shop");
        theirs
            .nora
            .refuses("get pods -n shop", &cannot_list("nora", "pods", "shop"));
        tenant.get(&format!("delete {kind}"));
        ours.nora.may_not("list pods -n shop");
        ours.nora
            .refuses("get pods -n shop", &cannot_list("nora", "pods", "shop"));
    }
    // A user who joins the group needs a new certificate to have its permissions.
    let nora = two_tenants.user(tenant.name(), "nora2", &["devs", "others"]);
    nora.may("create pods -n shop");
    ours.nora.may_not("create pods -n shop");
    let said = two_tenants
        .server
        .run("tenant kubeconfig acme --user eve --group system:masters");
    assert_eq!(said.code, Some(2), "{said}");
    assert!(
        said.err
            .contains("groups that begin with `system:` are reserved"),
        "{said}"
    );
}

#[test]
fn can_i_lists_permissions() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let Users { dora, nora, robot } = Users::create(&two_tenants, tenant);
        let with = |more: &[&str]| -> Vec<String> {
            let mut lines: Vec<String> = ALL_USERS
                .iter()
                .chain(more)
                .map(ToString::to_string)
                .collect();
            lines.sort();
            lines
        };
        assert_eq!(listed(tenant, ""), with(&["*.* [] [] [*]"]));
        assert_eq!(listed(&nora, "-n shop"), with(&[]));
        assert_eq!(listed(&dora, "-n default"), with(&[]));
        assert_eq!(listed(&robot, ""), with(&[]));
        let read = [
            "configmaps [] [] [get list watch]",
            "pods [] [] [get list watch]",
        ];
        assert_eq!(listed(&robot, "-n shop"), with(&read));
        let rules = listed(&dora, "-n shop");
        for line in [
            "configmaps [] [] [create delete deletecollection patch update get list watch]",
            "deployments.apps [] [] [create delete deletecollection patch update get list watch]",
            "pods/log [] [] [get list watch]",
            "resourcequotas [] [] [get list watch]",
            "secrets [] [] [get list watch create delete deletecollection patch update]",
            "serviceaccounts/token [] [] [create]",
        ] {
            assert!(rules.iter().any(|found| found == line), "{line}: {rules:?}");
        }
        assert!(!rules.iter().any(|line| line.contains("rbac")), "{rules:?}");
        tenant.shows("auth can-i --list", &["[*] [] [*]", "[/healthz] [] [get]"]);
    });
}

/// The sorted resource rows of `can-i --list`.
#[track_caller]
fn listed(who: &Kubectl, more: &str) -> Vec<String> {
    let table = who.get(&format!("auth can-i --list {more}"));
    let mut lines = table.lines();
    let head = lines.next().map(squeezed);
    let names = "Resources Non-Resource URLs Resource Names Verbs";
    assert_eq!(head.as_deref(), Some(names), "{table}");
    let mut lines: Vec<String> = lines
        .filter(|line| !line.starts_with(' '))
        .map(squeezed)
        .collect();
    lines.sort();
    lines
}
