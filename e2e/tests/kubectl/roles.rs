//! Roles and bindings: auth reconcile, escalation checks, and watches that end with their binding.

use std::time::{Duration, Instant};

use insula_e2e::two_tenants::TwoTenants;

use crate::users::{Users, cannot_list};

/// A revoked watch ends within seconds; other tests load the machine meanwhile.
const REVOCATION_TIMEOUT: Duration = Duration::from_secs(15);

const ROBOT: &str = "system:serviceaccount:shop:robot";

const RBAC: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: writer, namespace: shop}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: writer, namespace: shop}
subjects: [{kind: User, name: nora, apiGroup: rbac.authorization.k8s.io}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: writer}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: looker}
rules: [{apiGroups: [""], resources: [namespaces], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: looker}
subjects: [{kind: User, name: nora, apiGroup: rbac.authorization.k8s.io}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: looker}
"#;

#[test]
fn roles_and_bindings_can_be_reconciled() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let nora = Users::create(&two_tenants, tenant).nora;
        nora.may_not("create configmaps -n shop");
        let all = [
            "role.rbac.authorization.k8s.io/writer",
            "rolebinding.rbac.authorization.k8s.io/writer",
            "clusterrole.rbac.authorization.k8s.io/looker",
            "clusterrolebinding.rbac.authorization.k8s.io/looker",
        ];
        let reconciled = all.map(|name| format!("{name} reconciled")).join("\n");
        tenant
            .given(RBAC)
            .prints("auth reconcile -f -", &reconciled);
        nora.may("create configmaps -n shop");
        nora.shows("get namespaces", &["shop Active"]);
        // No changes, then more rules, then fewer.
        tenant
            .given(RBAC)
            .prints("auth reconcile -f -", &reconciled);
        let versions = "get role/writer rolebinding/writer -n shop \
                        -o jsonpath='{.items[*].metadata.resourceVersion}'";
        let before = tenant.get(versions);
        tenant.given(RBAC).get("auth reconcile -f -");
        tenant.prints(versions, &before);
        let more = RBAC
            .replace("[get, create]", "[list]")
            .replace("nora", "nick");
        tenant.given(&more).get("auth reconcile -f -");
        tenant.prints(
            "get role writer -n shop -o jsonpath='{.rules[*].verbs}'",
            r#"["get","create"] ["list"]"#,
        );
        tenant.prints(
            "get rolebinding writer -n shop -o jsonpath='{.subjects[*].name}'",
            "nora nick",
        );
        let exactly = "--remove-extra-permissions --remove-extra-subjects";
        tenant
            .given(&more)
            .get(&format!("auth reconcile -f - {exactly}"));
        tenant.prints(
            "get role writer -n shop -o jsonpath='{.rules[*].verbs}'",
            r#"["list"]"#,
        );
        tenant.may("list configmaps -n shop --as=nick");
        nora.may_not("create configmaps -n shop");
        nora.refuses(
            "get namespaces",
            "User \"nora\" cannot list resource \"namespaces\"",
        );
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/tenants/all/rolebindings";
    two_tenants.sees_both(path);
}

#[test]
fn users_cannot_grant_permissions_they_lack() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let Users { dora, nora, robot } = Users::create(&two_tenants, tenant);
        // The role only: kubectl 1.36 crashes when a binding is refused.
        let (role, _) = RBAC.split_once("---").expect("there is more");
        for who in [&dora, &robot] {
            let user = if who.name().ends_with("dora") {
                "dora"
            } else {
                ROBOT
            };
            who.given(role).refuses(
                "auth reconcile -f -",
                &format!("User \"{user}\" cannot get resource \"roles\""),
            );
            who.refuses(
                "create rolebinding mine --clusterrole=admin --user=dora -n shop",
                &format!(
                    "rolebindings.rbac.authorization.k8s.io is forbidden: User \"{user}\" cannot \
                     create resource \"rolebindings\" in API group \
                     \"rbac.authorization.k8s.io\" in the namespace \"shop\""
                ),
            );
        }
        tenant.get("create rolebinding nora --clusterrole=admin --user=nora -n shop");
        let attempt = |what: &str| {
            format!(
                "{what} is forbidden: user \"nora\" (groups=[\"system:authenticated\"]) is \
                 attempting to grant RBAC permissions not currently held:\n"
            )
        };
        nora.refuses(
            "create role big --verb=get --resource=csidrivers -n shop",
            &(attempt("roles.rbac.authorization.k8s.io \"big\"")
                + r#"{APIGroups:["storage.k8s.io"], Resources:["csidrivers"], Verbs:["get"]}"#),
        );
        nora.refuses(
            "create rolebinding big --clusterrole=cluster-admin --user=nora -n shop",
            &(attempt("rolebindings.rbac.authorization.k8s.io \"big\"")
                + r#"{APIGroups:["*"], Resources:["*"], Verbs:["*"]}"#),
        );
        let more = role.replace("resources: [configmaps]", "resources: [nodes]");
        nora.given(&more).refuses(
            "auth reconcile -f -",
            &(attempt("roles.rbac.authorization.k8s.io \"writer\"")
                + r#"{APIGroups:[""], Resources:["nodes"], Verbs:["get" "create"]}"#),
        );
        nora.refuses(
            "create clusterrolebinding big --clusterrole=view --user=nora",
            "clusterrolebindings.rbac.authorization.k8s.io is forbidden: User \"nora\" cannot \
             create resource \"clusterrolebindings\"",
        );
        // She may grant permissions that she has.
        nora.prints(
            "create role small --verb=get --resource=configmaps -n shop",
            "role.rbac.authorization.k8s.io/small created",
        );
        nora.prints(
            "create rolebinding small --role=small --user=nick -n shop",
            "rolebinding.rbac.authorization.k8s.io/small created",
        );
        tenant.may("get configmaps -n shop --as=nick");
        // She may also bind roles for which she has `bind`, without having their permissions.
        let auditor = "rolebinding auditor --clusterrole=auditor --user=nick -n shop";
        tenant.get("create clusterrole auditor --verb=list --resource=csidrivers");
        nora.refuses(&format!("create {auditor}"), "not currently held");
        tenant.get(
            "create role binder --verb=bind --resource=clusterroles.rbac.authorization.k8s.io \
             --resource-name=auditor -n shop",
        );
        tenant.get("create rolebinding binder --role=binder --user=nora -n shop");
        nora.get(&format!("create {auditor}"));
        // Default roles exist in every space.
        tenant.refuses(
            "delete clusterrole view",
            "clusterroles.rbac.authorization.k8s.io \"view\" is forbidden: every space has it",
        );
    });
}

#[test]
fn watch_ends_with_its_binding() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let Users { dora, robot, .. } = Users::create(&two_tenants, tenant);
        tenant.get("create configmap first -n shop");
        let mut watches = [(&dora, "dora"), (&robot, ROBOT)].map(|(who, user)| {
            let mut watch = who.start("get configmaps -n shop --watch");
            watch.await_line("first");
            (watch, user)
        });
        // The watch is open and stays open while other users lose their permissions.
        tenant.get("create configmap second -n shop");
        tenant.get("create rolebinding other --clusterrole=view --user=nora -n shop");
        tenant.get("delete rolebinding other -n shop");
        for (watch, _) in &mut watches {
            watch.await_line("second");
        }
        tenant.get("delete rolebinding devs robot -n shop");
        let revoked = Instant::now();
        for (mut watch, user) in watches {
            // Until then nothing is delivered, not even the object created after the revocation.
            tenant.get(&format!("create configmap after-{} -n shop", user.len()));
            let end = watch.await_line("Forbidden");
            let why =
                cannot_list(user, "configmaps", "shop").replace("cannot list", "cannot watch");
            assert!(end.contains(&why), "{end}");
            let said = watch.finish();
            assert!(revoked.elapsed() < REVOCATION_TIMEOUT, "{said}");
            assert!(!said.out.contains("after-"), "{said}");
        }
    });
}
