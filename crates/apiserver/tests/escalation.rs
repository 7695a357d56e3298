//! Privilege escalation: users cannot grant permissions they do not have.

use insula_access::{CertificateRequest, Subject};
use insula_testkit::server::{
    CLUSTER_BINDINGS, CLUSTER_ROLES, Client, TestServer, bindings, roles, rule,
};
use serde_json::{Value, json};

/// Users without permissions of their own.
const PEOPLE: &str = "alice,alice,7,\"dev,qa,tenant:t1\"\n\
                      root,root,9,\"ops,tenant:system\"\n\
                      ops,operator,9,\"ops,tenant:system\"\n";

const RBAC: &str = "rbac.authorization.k8s.io";

/// Permission to write roles and bindings, and none that a role could grant.
fn rbac_writer_rules() -> Value {
    rule(
        "get,list,create,update,patch",
        RBAC,
        "roles,rolebindings,clusterroles,clusterrolebindings",
    )
}

/// A server, an administrator of its tenant, and alice, who may write roles and bindings and has
/// these further permissions.
async fn alice_with(rules: &[Value]) -> anyhow::Result<(TestServer, Client, Client)> {
    let server = TestServer::with_tokens(PEOPLE).await?;
    let admin = server.tenant("t1").await?;
    let mut all = vec![rbac_writer_rules()];
    all.extend_from_slice(rules);
    admin.grant("hers", "User:alice", &all).await?;
    let alice = server.client("alice").await?;
    Ok((server, admin, alice))
}

fn role(name: &str, rules: &[Value]) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, kind: &str, role: &str) -> Value {
    json!({"metadata": {"name": name}, "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": [{"kind": "User", "apiGroup": RBAC, "name": "bob"}]})
}

fn named(verbs: &str, groups: &str, resources: &str, names: &[&str]) -> Value {
    let mut rule = rule(verbs, groups, resources);
    rule["resourceNames"] = json!(names);
    rule
}

fn non_resource_rule(urls: &[&str]) -> Value {
    json!({"verbs": ["get"], "nonResourceURLs": urls})
}

const MISSING_PERMISSIONS: &str = "user \"alice\" (groups=[\"dev\" \"qa\" \"system:authenticated\"]) is \
                       attempting to grant RBAC permissions not currently held:\n";

#[tokio::test]
async fn creating_a_role_needs_all_its_permissions() -> anyhow::Result<()> {
    let hers = [
        rule("get,list", "", "pods,configmaps"),
        rule("*", "apps", "*/scale"),
        rule("delete", "*", "*"),
        named("get", "", "secrets", &["mine"]),
        non_resource_rule(&["/foo/*", "/logs"]),
    ];
    let (_server, _admin, alice) = alice_with(&hers).await?;
    for (rules, lacking) in [
        (vec![], ""),
        (vec![rule("get", "", "pods")], ""),
        (vec![rule("list,get", "", "configmaps,pods")], ""),
        (
            vec![rule("delete", "apps,nosuch.io", "deployments,x/y")],
            "",
        ),
        (vec![rule("get", "apps", "deployments/scale")], ""),
        (vec![named("get", "", "secrets", &["mine"])], ""),
        (vec![named("get", "", "pods", &["any", "other"])], ""),
        (vec![non_resource_rule(&["/foo/x", "/foo/*", "/logs"])], ""),
        (
            vec![rule("get,watch", "", "pods")],
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["watch"]}"#,
        ),
        (
            vec![rule("*", "", "pods")],
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["*"]}"#,
        ),
        (
            vec![rule("get", "*", "pods")],
            r#"{APIGroups:["*"], Resources:["pods"], Verbs:["get"]}"#,
        ),
        (
            vec![rule("get", "", "pods/log")],
            r#"{APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}"#,
        ),
        (
            vec![named("get", "", "secrets", &["mine", "yours"])],
            r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["yours"], Verbs:["get"]}"#,
        ),
        (
            vec![rule("get", "", "secrets")],
            r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#,
        ),
        (
            vec![non_resource_rule(&["/bar", "/foo"])],
            "{NonResourceURLs:[\"/bar\"], Verbs:[\"get\"]}\n\
             {NonResourceURLs:[\"/foo\"], Verbs:[\"get\"]}",
        ),
        (
            vec![
                rule("update,get", "", "pods,nodes"),
                rule("get", "batch", "jobs"),
            ],
            "{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"update\" \"get\"]}\n\
             {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"update\"]}\n\
             {APIGroups:[\"batch\"], Resources:[\"jobs\"], Verbs:[\"get\"]}",
        ),
    ] {
        let of_paths = rules.iter().any(|rule| rule["nonResourceURLs"].is_array());
        for (path, resource) in [
            (CLUSTER_ROLES.to_owned(), "clusterroles"),
            (roles("default"), "roles"),
        ] {
            if of_paths && resource == "roles" {
                continue;
            }
            let wanted = role("r", &rules);
            let created = alice.post(&format!("{path}?dryRun=All"), &wanted).await?;
            if lacking.is_empty() {
                assert_eq!(created.status, 201, "{rules:?}: {}", created.text());
                continue;
            }
            assert_eq!(created.status, 403, "{rules:?}: {}", created.text());
            let text = created.json();
            assert_eq!(
                text["message"],
                format!("{resource}.{RBAC} \"r\" is forbidden: {MISSING_PERMISSIONS}{lacking}")
            );
            assert_eq!(
                text["details"],
                json!({"name": "r", "group": RBAC, "kind": resource})
            );
        }
    }
    Ok(())
}

/// Covers every verb that can change a role.
#[tokio::test]
async fn no_verb_adds_permissions_that_the_caller_lacks() -> anyhow::Result<()> {
    let (_server, admin, alice) = alice_with(&[rule("get", "", "pods")]).await?;
    for path in [CLUSTER_ROLES.to_owned(), roles("default")] {
        let own = role("own", &[rule("get", "", "pods")]);
        assert_eq!(alice.post(&path, &own).await?.status, 201);
        let more = [rule("get", "", "pods"), rule("get", "", "secrets")];
        let object = format!("{path}/own");
        let greedy = role("own", &more);
        let answer = alice.put(&object, &greedy).await?;
        assert_eq!(answer.status, 403, "{}", answer.text());
        for (format, patch) in [
            ("merge", json!({"rules": more})),
            ("strategic-merge", json!({"rules": more})),
            (
                "json",
                json!([{"op": "add", "path": "/rules/-", "value": more[1]}]),
            ),
            (
                "json",
                json!([{"op": "replace", "path": "/rules/0/resources/0", "value": "*"}]),
            ),
        ] {
            let answer = alice.patch(&object, format, &patch).await?;
            assert_eq!(answer.status, 403, "{format}: {}", answer.text());
            let dry = format!("{object}?dryRun=All");
            assert_eq!(alice.patch(&dry, format, &patch).await?.status, 403);
        }
        // A PUT that creates the role, for the kinds where that is possible.
        let answer = alice
            .put(&format!("{path}/absent"), &role("absent", &more))
            .await?;
        assert_eq!(answer.status, 403, "{}", answer.text());
        assert_eq!(admin.get(&format!("{path}/absent")).await?.status, 404);
        let still = admin.get(&object).await?.json();
        assert_eq!(still["rules"], json!([rule("get", "", "pods")]));
        // Removing a rule needs no permission.
        let answer = alice
            .patch(&object, "merge", &json!({"rules": null}))
            .await?;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    Ok(())
}

#[tokio::test]
async fn changes_outside_the_rules_need_no_permissions() -> anyhow::Result<()> {
    let (_server, admin, alice) = alice_with(&[]).await?;
    for (path, bound) in [
        (CLUSTER_ROLES.to_owned(), CLUSTER_BINDINGS.to_owned()),
        (roles("default"), bindings("default")),
    ] {
        let kind = match path.contains("cluster") {
            true => "ClusterRole",
            false => "Role",
        };
        let theirs = role("theirs", &[rule("*", "*", "*")]);
        assert_eq!(admin.post(&path, &theirs).await?.status, 201);
        let gives = binding("theirs", kind, "theirs");
        assert_eq!(admin.post(&bound, &gives).await?.status, 201);
        for object in [format!("{path}/theirs"), format!("{bound}/theirs")] {
            let note = json!({"metadata": {"annotations": {"a": "b"}}});
            let answer = alice.patch(&object, "merge", &note).await?;
            assert_eq!(answer.status, 200, "{object}: {}", answer.text());
            let mut same = alice.get(&object).await?.json();
            same["metadata"]["annotations"]["a"] = "c".into();
            let answer = alice.put(&object, &same).await?;
            assert_eq!(answer.status, 200, "{object}: {}", answer.text());
        }
        // Changing the subjects does need the permissions.
        let also = json!({"subjects": [{"kind": "User", "name": "alice", "apiGroup": RBAC}]});
        let answer = alice
            .patch(&format!("{bound}/theirs"), "merge", &also)
            .await?;
        assert_eq!(answer.status, 403, "{}", answer.text());
    }
    Ok(())
}

/// Aggregation selects roles by label, so setting a label grants permissions like a rule.
#[tokio::test]
async fn labels_cannot_add_permissions_to_an_aggregated_role() -> anyhow::Result<()> {
    let (_server, admin, alice) = alice_with(&[rule("get", "", "configmaps")]).await?;
    // Alice has the permissions of `view` and tries to gain all others.
    admin.bind("sees", "User:alice", "view").await?;
    let all = role("all", &[rule("*", "*", "*")]);
    assert_eq!(admin.post(CLUSTER_ROLES, &all).await?.status, 201);
    let label = "rbac.authorization.k8s.io/aggregate-to-view";
    let secrets = "/api/v1/namespaces/default/secrets";
    let labelled = json!({"metadata": {"labels": {label: "true"}}});
    for name in [
        "all",
        "cluster-admin",
        "admin-role",
        "system:aggregate-to-edit",
    ] {
        let object = format!("{CLUSTER_ROLES}/{name}");
        for format in ["merge", "strategic-merge"] {
            let answer = alice.patch(&object, format, &labelled).await?;
            assert_eq!(answer.status, 403, "{name}: {}", answer.text());
            let text = answer.message();
            assert!(text.contains("not currently held"), "{text}");
        }
        let mut whole = alice.get(&object).await?.json();
        whole["metadata"]["labels"][label] = "true".into();
        let answer = alice.put(&object, &whole).await?;
        assert_eq!(answer.status, 403, "{name}: {}", answer.text());
    }
    assert_eq!(alice.get(secrets).await?.status, 403);
    // Alice may add permissions that she has, and an administrator any.
    let own = role("own", &[rule("get", "", "configmaps")]);
    assert_eq!(alice.post(CLUSTER_ROLES, &own).await?.status, 201);
    let own = format!("{CLUSTER_ROLES}/own");
    assert_eq!(alice.patch(&own, "merge", &labelled).await?.status, 200);
    // She may label a role that holds only her own permissions.
    let lost = role("lost", &[rule("*", "*", "*")]);
    assert_eq!(admin.post(CLUSTER_ROLES, &lost).await?.status, 201);
    let less = json!({"metadata": {"labels": {label: "true"}},
        "rules": [rule("get", "", "configmaps")]});
    let lost = format!("{CLUSTER_ROLES}/lost");
    assert_eq!(alice.patch(&lost, "merge", &less).await?.status, 200);
    let all = format!("{CLUSTER_ROLES}/all");
    assert_eq!(admin.patch(&all, "merge", &labelled).await?.status, 200);
    assert_eq!(alice.get(secrets).await?.status, 200);
    // Removing the label changes the permissions of other users, which needs the permissions too.
    let bare = json!({"metadata": {"labels": null}});
    assert_eq!(admin.patch(&all, "merge", &bare).await?.status, 200);
    assert_eq!(alice.get(secrets).await?.status, 403);
    Ok(())
}

/// An aggregated role grants the aggregated rules, whatever its own `rules` field says.
#[tokio::test]
async fn labelling_an_aggregated_role_needs_its_aggregated_permissions() -> anyhow::Result<()> {
    let (_server, admin, alice) = alice_with(&[]).await?;
    admin.bind("sees", "User:alice", "view").await?;
    let mut part = role("part", &[rule("*", "*", "*")]);
    part["metadata"]["labels"] = json!({"x": "y"});
    assert_eq!(admin.post(CLUSTER_ROLES, &part).await?.status, 201);
    let mut whole = role("whole", &[]);
    whole["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]});
    assert_eq!(admin.post(CLUSTER_ROLES, &whole).await?.status, 201);
    let labelled = json!({"metadata": {"labels":
        {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}});
    let object = format!("{CLUSTER_ROLES}/whole");
    let answer = alice.patch(&object, "merge", &labelled).await?;
    assert_eq!(answer.status, 403, "{}", answer.text());
    let secrets = "/api/v1/namespaces/default/secrets";
    assert_eq!(alice.get(secrets).await?.status, 403);
    assert_eq!(admin.patch(&object, "merge", &labelled).await?.status, 200);
    assert_eq!(alice.get(secrets).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn creating_an_aggregated_role_needs_all_permissions() -> anyhow::Result<()> {
    let (_server, admin, alice) = alice_with(&[rule("get", "*", "*")]).await?;
    let gathers = json!({"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]});
    let mut wanted = role("agg", &[]);
    wanted["aggregationRule"] = gathers.clone();
    let refused = "clusterroles.rbac.authorization.k8s.io \"agg\" is forbidden: must have \
                   cluster-admin privileges to use the aggregationRule";
    let answer = alice.post(CLUSTER_ROLES, &wanted).await?;
    assert_eq!((answer.status, answer.message()), (403, refused.to_owned()));
    let plain = role("agg", &[]);
    assert_eq!(alice.post(CLUSTER_ROLES, &plain).await?.status, 201);
    let object = format!("{CLUSTER_ROLES}/agg");
    let patch = json!({"aggregationRule": gathers});
    let answer = alice.patch(&object, "merge", &patch).await?;
    assert_eq!((answer.status, answer.message()), (403, refused.to_owned()));
    assert_eq!(admin.patch(&object, "merge", &patch).await?.status, 200);
    let none = json!({"aggregationRule": null});
    let answer = alice.patch(&object, "merge", &none).await?;
    assert_eq!((answer.status, answer.message()), (403, refused.to_owned()));
    // The aggregated rules are written into the role and count like any others.
    let rules = json!({"rules": [rule("delete", "", "pods")]});
    let answer = alice.patch(&object, "merge", &rules).await?;
    assert_eq!(answer.status, 403, "{}", answer.text());
    admin.bind("all", "User:alice", "cluster-admin").await?;
    assert_eq!(alice.patch(&object, "merge", &none).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn escalate_permission_allows_writing_any_named_role() -> anyhow::Result<()> {
    let hers = [
        named("escalate", RBAC, "clusterroles", &["free"]),
        named("escalate", RBAC, "roles", &["free"]),
    ];
    let (_server, _admin, alice) = alice_with(&hers).await?;
    let all = [rule("*", "*", "*")];
    for path in [CLUSTER_ROLES.to_owned(), roles("default")] {
        for (name, code) in [("free", 201), ("bound", 403)] {
            let answer = alice.post(&path, &role(name, &all)).await?;
            assert_eq!(answer.status, code, "{path} {name}: {}", answer.text());
        }
        let more = json!({"rules": [rule("get", "", "pods")]});
        let object = format!("{path}/free");
        assert_eq!(alice.patch(&object, "merge", &more).await?.status, 200);
    }
    // `escalate` on roles does not include `bind`.
    let gives = binding("b", "ClusterRole", "free");
    assert_eq!(alice.post(CLUSTER_BINDINGS, &gives).await?.status, 403);
    Ok(())
}

#[tokio::test]
async fn creating_a_binding_needs_the_roles_permissions_or_bind() -> anyhow::Result<()> {
    let hers = [
        rule("get", "", "pods"),
        named("bind", RBAC, "clusterroles", &["admin", "lost"]),
        named("bind", RBAC, "roles", &["r-any"]),
    ];
    let (server, admin, alice) = alice_with(&hers).await?;
    for (path, name, rules) in [
        (roles("default"), "r-pods", rule("get", "", "pods")),
        (roles("default"), "r-any", rule("*", "*", "*")),
        (roles("default"), "r-all", rule("*", "*", "*")),
        (CLUSTER_ROLES.to_owned(), "c-pods", rule("get", "", "pods")),
        (CLUSTER_ROLES.to_owned(), "c-all", rule("*", "*", "*")),
    ] {
        assert_eq!(admin.post(&path, &role(name, &[rules])).await?.status, 201);
    }
    let lacking =
        format!("{MISSING_PERMISSIONS}{{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}}");
    let forbidden = |of: &str| format!("{of}.{RBAC} \"b\" is forbidden: {lacking}");
    let missing = |of: &str, name: &str| format!("{of}.{RBAC} \"{name}\" not found");
    for (cluster, kind, name, code, message) in [
        (false, "Role", "r-pods", 201, String::new()),
        (false, "Role", "r-any", 201, String::new()),
        (false, "Role", "r-all", 403, forbidden("rolebindings")),
        (
            false,
            "Role",
            "nosuch",
            404,
            missing("rolebindings", "nosuch"),
        ),
        (false, "ClusterRole", "c-pods", 201, String::new()),
        (
            false,
            "ClusterRole",
            "c-all",
            403,
            forbidden("rolebindings"),
        ),
        (false, "ClusterRole", "admin", 201, String::new()),
        (false, "ClusterRole", "cluster-admin", 403, String::new()),
        (true, "ClusterRole", "c-pods", 201, String::new()),
        (
            true,
            "ClusterRole",
            "c-all",
            403,
            forbidden("clusterrolebindings"),
        ),
        (
            true,
            "ClusterRole",
            "nosuch",
            404,
            missing("clusterrolebindings", "nosuch"),
        ),
        (true, "ClusterRole", "admin", 201, String::new()),
        // `bind` on a name is enough even before the role exists.
        (true, "ClusterRole", "lost", 201, String::new()),
        (true, "ClusterRole", "edit", 403, String::new()),
    ] {
        let path = match cluster {
            true => CLUSTER_BINDINGS.to_owned(),
            false => bindings("default"),
        };
        let dry = format!("{path}?dryRun=All");
        let answer = alice.post(&dry, &binding("b", kind, name)).await?;
        assert_eq!(answer.status, code, "{path} {name}: {}", answer.text());
        if !message.is_empty() {
            assert_eq!(answer.message(), message);
        }
        // Nor by a PUT that creates the binding.
        if code != 201 {
            let answer = alice
                .put(&format!("{path}/b"), &binding("b", kind, name))
                .await?;
            assert_eq!(answer.status, code, "{path} {name}: {}", answer.text());
        }
    }
    // `system:masters` may bind missing roles, in every space.
    let system = server.system().await?;
    for path in [
        CLUSTER_BINDINGS.to_owned(),
        CLUSTER_BINDINGS.replace("/v1/", "/v1/tenants/t1/"),
    ] {
        let answer = system
            .post(&path, &binding("dangles", "ClusterRole", "nosuch"))
            .await?;
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    Ok(())
}

#[tokio::test]
async fn namespaced_permissions_can_be_granted_in_that_namespace_only() -> anyhow::Result<()> {
    let server = TestServer::with_tokens(PEOPLE).await?;
    let admin = server.tenant("t1").await?;
    let alice = server.client("alice").await?;
    admin
        .grant("writes", "User:alice", &[rbac_writer_rules()])
        .await?;
    admin
        .grant_in("default", "pods", "User:alice", &[rule("get", "", "pods")])
        .await?;
    let wanted = role("r", &[rule("get", "", "pods")]);
    for (path, code) in [
        (roles("default"), 201),
        (roles("kube-public"), 403),
        (CLUSTER_ROLES.to_owned(), 403),
    ] {
        let answer = alice.post(&path, &wanted).await?;
        assert_eq!(answer.status, code, "{path}: {}", answer.text());
    }
    let pods = role("c-pods", &[rule("get", "", "pods")]);
    assert_eq!(admin.post(CLUSTER_ROLES, &pods).await?.status, 201);
    for (path, code) in [
        (bindings("default"), 201),
        (bindings("kube-public"), 403),
        (CLUSTER_BINDINGS.to_owned(), 403),
    ] {
        let answer = alice
            .post(&path, &binding("b", "ClusterRole", "c-pods"))
            .await?;
        assert_eq!(answer.status, code, "{path}: {}", answer.text());
    }
    Ok(())
}

/// A system user with few permissions has as few in every tenant.
#[tokio::test]
async fn system_users_can_grant_in_a_tenant_only_their_own_permissions() -> anyhow::Result<()> {
    let server = TestServer::with_tokens(PEOPLE).await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let root = server.client("root").await?;
    let rights = [rbac_writer_rules(), rule("get", "", "pods")];
    system.grant("support", "Group:ops", &rights).await?;
    // Bindings of the tenant to a user of that name do not apply to the system user.
    tenant.bind("root", "User:root", "cluster-admin").await?;
    tenant.bind("ops", "Group:ops", "cluster-admin").await?;
    let inside = |path: &str| path.replace("/v1/", "/v1/tenants/t1/");
    for path in [
        CLUSTER_ROLES.to_owned(),
        roles("default"),
        inside(CLUSTER_ROLES),
        inside(&roles("default")),
    ] {
        for (rules, code) in [
            (rule("get", "", "pods"), 201),
            (rule("get", "", "secrets"), 403),
        ] {
            let wanted = role(&format!("r{code}"), &[rules]);
            let answer = root.post(&path, &wanted).await?;
            assert_eq!(answer.status, code, "{path}: {}", answer.text());
        }
    }
    for path in [
        CLUSTER_BINDINGS.to_owned(),
        bindings("default"),
        inside(CLUSTER_BINDINGS),
        inside(&bindings("default")),
    ] {
        for (name, code) in [("r201", 201), ("cluster-admin", 403), ("nosuch", 404)] {
            let gives = binding(&format!("b-{name}"), "ClusterRole", name);
            let answer = root.post(&path, &gives).await?;
            assert_eq!(answer.status, code, "{path} {name}: {}", answer.text());
        }
    }
    // In a tenant, the tenant's own role of that name counts.
    let all = role("r", &[rule("*", "*", "*")]);
    assert_eq!(tenant.post(CLUSTER_ROLES, &all).await?.status, 201);
    let little = role("r", &[rule("get", "", "pods")]);
    assert_eq!(system.post(CLUSTER_ROLES, &little).await?.status, 201);
    let gives = binding("b", "ClusterRole", "r");
    let there = root.post(&inside(CLUSTER_BINDINGS), &gives).await?;
    assert_eq!(there.status, 403, "{}", there.text());
    let here = root.post(CLUSTER_BINDINGS, &gives).await?;
    assert_eq!(here.status, 201, "{}", here.text());
    Ok(())
}

#[tokio::test]
async fn setting_owners_needs_delete_and_finalizer_permissions() -> anyhow::Result<()> {
    let hers = [rule("get,create,update,patch", "", "configmaps,pods")];
    let (_server, admin, alice) = alice_with(&hers).await?;
    let maps = "/api/v1/namespaces/default/configmaps";
    let owner = |name: &str, uid: &str, blocks: bool| {
        json!({"apiVersion": "v1", "kind": "Secret", "name": name, "uid": uid,
            "blockOwnerDeletion": blocks})
    };
    let owned =
        |name: &str, owners: Value| json!({"metadata": {"name": name, "ownerReferences": owners}});
    let cannot_delete = "cannot set an ownerRef on a resource you can't delete";
    let cannot_hold = "cannot set blockOwnerDeletion if an ownerReference refers to a resource \
                       you can't set finalizers on";
    let reported = |name: &str, why: &str| format!("configmaps \"{name}\" is forbidden: {why}");
    // A creator may set an owner, but not `blockOwnerDeletion`.
    let plain = owned("plain", json!([owner("o", "1", false)]));
    assert_eq!(alice.post(maps, &plain).await?.status, 201);
    let holds = owned("holds", json!([owner("o", "1", true)]));
    let answer = alice.post(maps, &holds).await?;
    assert_eq!(
        (answer.status, answer.message()),
        (403, reported("holds", cannot_hold))
    );
    // An unknown kind might be defined later.
    let mut unknown = owner("o", "1", true);
    unknown["apiVersion"] = "nosuch.io/v1".into();
    let answer = alice.post(maps, &owned("x", json!([unknown]))).await?;
    assert_eq!(answer.status, 403, "{}", answer.text());
    let text = answer.message();
    assert!(text.contains("blockOwnerDeletion"), "{text}");
    // Changing the owner later allows the object to be deleted, so it needs delete permission.
    let object = format!("{maps}/plain");
    let more = json!({"metadata": {"ownerReferences": [owner("o", "1", false),
        owner("p", "2", false)]}});
    for (format, patch) in [
        ("merge", more.clone()),
        ("merge", json!({"metadata": {"ownerReferences": null}})),
        (
            "json",
            json!([{"op": "remove", "path": "/metadata/ownerReferences/0"}]),
        ),
    ] {
        let answer = alice.patch(&object, format, &patch).await?;
        assert_eq!(
            (answer.status, answer.message()),
            (403, reported("plain", cannot_delete)),
            "{patch}"
        );
    }
    let data = json!({"data": {"a": "b"}});
    assert_eq!(alice.patch(&object, "merge", &data).await?.status, 200);
    let role = format!("{CLUSTER_ROLES}/hers");
    let add = |rule: Value| json!([{"op": "add", "path": "/rules/-", "value": rule}]);
    let deleting = add(rule("delete", "", "configmaps"));
    assert_eq!(admin.patch(&role, "json", &deleting).await?.status, 200);
    assert_eq!(alice.patch(&object, "merge", &more).await?.status, 200);
    let hold = json!({"metadata": {"ownerReferences": [owner("o", "1", true)]}});
    let answer = alice.patch(&object, "merge", &hold).await?;
    assert_eq!(
        (answer.status, answer.message()),
        (403, reported("plain", cannot_hold))
    );
    let holding = add(named("update", "", "secrets/finalizers", &["o"]));
    assert_eq!(admin.patch(&role, "json", &holding).await?.status, 200);
    assert_eq!(alice.patch(&object, "merge", &hold).await?.status, 200);
    // An unchanged `blockOwnerDeletion` needs no permission again; a second owner needs its own.
    let both = json!({"metadata": {"ownerReferences": [owner("o", "1", true),
        owner("p", "2", true)]}});
    assert_eq!(alice.patch(&object, "merge", &both).await?.status, 403);
    Ok(())
}

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn request(name: &str, signer: &str, subject: &Subject) -> anyhow::Result<Value> {
    let key = rcgen::KeyPair::generate()?;
    let pem = CertificateRequest::create_pem(subject, &key)?;
    let engine = base64::engine::general_purpose::STANDARD;
    let pem = base64::Engine::encode(&engine, pem);
    Ok(
        json!({"metadata": {"name": name}, "spec": {"request": pem, "signerName": signer,
        "usages": ["client auth"]}}),
    )
}

fn of(user: &str, groups: &[&str]) -> Subject {
    Subject {
        user: user.to_owned(),
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
        tenant: None,
        tenant_uid: None,
    }
}

#[tokio::test]
async fn approve_and_sign_permissions_are_per_signer() -> anyhow::Result<()> {
    let requests = "certificatesigningrequests/approval,certificatesigningrequests/status";
    let group = "certificates.k8s.io";
    let hers = [rule("get,update,patch", group, requests)];
    let (_server, admin, alice) = alice_with(&hers).await?;
    let wanted = request("r", "example.com/foo", &of("x", &[]))?;
    assert_eq!(admin.post(REQUESTS, &wanted).await?.status, 201);
    let condition = |of: &str, why: &str| json!({"status": {"conditions": [{"type": of, "status": "True", "reason": why}]}});
    let refused = |verb: &str| {
        format!(
            "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not \
             permitted to {verb} requests with signerName \"example.com/foo\""
        )
    };
    let (approval, status) = (
        format!("{REQUESTS}/r/approval"),
        format!("{REQUESTS}/r/status"),
    );
    // Every decision, and the Failed condition of a signer.
    for (path, patch, verb) in [
        (&approval, condition("Approved", "a"), "approve"),
        (&approval, condition("Denied", "a"), "approve"),
        (&approval, condition("Other", "a"), "approve"),
        (&status, condition("Failed", "a"), "sign"),
    ] {
        let answer = alice.patch(path, "merge", &patch).await?;
        assert_eq!(
            (answer.status, answer.message()),
            (403, refused(verb)),
            "{patch}"
        );
    }
    let role = format!("{CLUSTER_ROLES}/hers");
    let add = |verb: &str, name: &str| {
        let value = named(verb, group, "signers", &[name]);
        json!([{"op": "add", "path": "/rules/-", "value": value}])
    };
    for (verb, name, code) in [
        ("approve", "example.com", 403),
        ("approve", "other.com/*", 403),
        ("approve", "example.com/fo", 403),
        ("sign", "example.com/foo", 403),
        ("approve", "example.com/*", 200),
    ] {
        let answer = admin.patch(&role, "json", &add(verb, name)).await?;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer = alice
            .patch(&approval, "merge", &condition("Approved", "ok"))
            .await?;
        assert_eq!(answer.status, code, "{verb} {name}: {}", answer.text());
    }
    // The permission to sign was granted by one of these.
    let answer = alice
        .patch(
            &status,
            "json",
            &json!([{"op": "add", "path": "/status/conditions/-",
                "value": {"type": "Failed", "status": "True", "reason": "no"}}]),
        )
        .await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    Ok(())
}

/// Applies to every caller: no certificate grants `system:masters`.
#[tokio::test]
async fn certificate_requests_for_system_masters_are_refused() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let clients = [server.system().await?, server.tenant("t1").await?];
    let signer = "kubernetes.io/kube-apiserver-client";
    for client in clients {
        let wanted = request("r", signer, &of("x", &["dev", "system:masters"]))?;
        let answer = client.post(REQUESTS, &wanted).await?;
        assert_eq!(answer.status, 403, "{}", answer.text());
        assert_eq!(
            answer.message(),
            "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: use of \
             kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
        );
        for (name, signer, groups) in [
            ("a", signer, ["dev", "system:masters2"]),
            ("b", "example.com/own", ["dev", "system:masters"]),
        ] {
            let wanted = request(name, signer, &of("x", &groups))?;
            let answer = client.post(REQUESTS, &wanted).await?;
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
    }
    Ok(())
}
