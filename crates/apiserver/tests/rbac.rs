//! RBAC inside a space: roles, bindings and the messages of refusals.

use http::Method;
use insula_testkit::server::{
    Answer, CLUSTER_BINDINGS, CLUSTER_ROLES, Client, TestServer, bindings, roles, rule,
};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Users of the tenant `t1` without permissions, and one of the system.
const USERS: &str = "alice,alice,7,\"dev,tenant:t1\"\n\
                      bob,bob,8,\"qa,tenant:t1\"\n\
                      root,root,9,\"ops,tenant:system\"\n";

/// A server, the administrator of its tenant, and alice.
async fn start() -> anyhow::Result<(TestServer, Client, Client)> {
    let server = TestServer::with_tokens(USERS).await?;
    let admin = server.tenant("t1").await?;
    let alice = server.client("alice").await?;
    Ok((server, admin, alice))
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}

/// Sends the request of a table row, such as `POST /path`.
async fn send(client: &Client, row: &str) -> anyhow::Result<Answer> {
    let (method, path) = row.split_once(' ').unwrap_or(("GET", row));
    let body = match method {
        "POST" => map("new").to_string(),
        "PUT" => map(name_of(path)).to_string(),
        "PATCH" => json!({"metadata": {"annotations": {"a": "b"}}}).to_string(),
        _ => String::new(),
    };
    let content_type = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let headers = [("content-type", content_type)];
    client
        .send(method.parse::<Method>()?, path, &headers, body)
        .await
}

fn name_of(path: &str) -> &str {
    let path = path.split('?').next().unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

/// Asserts the status code of every row.
async fn expect(client: &Client, rows: &[(&str, u16)]) -> anyhow::Result<()> {
    for (row, code) in rows {
        let answer = send(client, row).await?;
        assert_eq!(answer.status, *code, "{row}: {}", answer.text());
    }
    Ok(())
}

#[tokio::test]
async fn users_without_bindings_can_discover_and_review_themselves() -> anyhow::Result<()> {
    let (_server, _admin, alice) = start().await?;
    for path in [
        "/version",
        "/healthz",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/apis/apps/v1",
        "/tenants/t1/api/v1",
    ] {
        assert_eq!(alice.get(path).await?.status, 200, "{path}");
    }
    for (path, question) in [
        ("authentication.k8s.io/v1/selfsubjectreviews", json!({})),
        (
            "authorization.k8s.io/v1/selfsubjectaccessreviews",
            json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}),
        ),
        (
            "authorization.k8s.io/v1/selfsubjectrulesreviews",
            json!({"spec": {"namespace": "default"}}),
        ),
    ] {
        let answer = alice.post(&format!("/apis/{path}"), &question).await?;
        assert_eq!(answer.status, 201, "{path}: {}", answer.text());
    }
    expect(
        &alice,
        &[
            ("GET /", 403),
            ("GET /metrics", 403),
            ("GET /api/v1/pods", 403),
            ("GET /api/v1/namespaces", 403),
            ("GET /api/v1/namespaces/default", 403),
            (
                "POST /apis/authorization.k8s.io/v1/subjectaccessreviews",
                403,
            ),
            ("POST /apis/authentication.k8s.io/v1/tokenreviews", 403),
            (&format!("GET {CLUSTER_ROLES}"), 403),
            (&format!("POST {MAPS}"), 403),
        ],
    )
    .await
}

#[tokio::test]
async fn refusals_name_user_verb_resource_and_scope() -> anyhow::Result<()> {
    let (server, admin, alice) = start().await?;
    let forbidden = |message: &str, details: Value| {
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": "Forbidden", "details": details, "code": 403})
    };
    for (row, message, details) in [
        (
            "GET /api/v1/namespaces/default/pods",
            r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default""#,
            json!({"kind": "pods"}),
        ),
        (
            "GET /api/v1/pods",
            r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" at the cluster scope"#,
            json!({"kind": "pods"}),
        ),
        (
            "GET /api/v1/pods?watch=1",
            r#"pods is forbidden: User "alice" cannot watch resource "pods" in API group "" at the cluster scope"#,
            json!({"kind": "pods"}),
        ),
        (
            "GET /apis/apps/v1/namespaces/default/deployments/d/scale",
            r#"deployments.apps "d" is forbidden: User "alice" cannot get resource "deployments/scale" in API group "apps" in the namespace "default""#,
            json!({"name": "d", "group": "apps", "kind": "deployments"}),
        ),
        (
            "GET /api/v1/namespaces/kube-system",
            r#"namespaces "kube-system" is forbidden: User "alice" cannot get resource "namespaces" in API group "" in the namespace "kube-system""#,
            json!({"name": "kube-system", "kind": "namespaces"}),
        ),
        (
            "POST /api/v1/namespaces",
            r#"namespaces is forbidden: User "alice" cannot create resource "namespaces" in API group "" at the cluster scope"#,
            json!({"kind": "namespaces"}),
        ),
        (
            "DELETE /api/v1/namespaces/default/configmaps",
            r#"configmaps is forbidden: User "alice" cannot deletecollection resource "configmaps" in API group "" in the namespace "default""#,
            json!({"kind": "configmaps"}),
        ),
        (
            "PATCH /api/v1/namespaces/default/configmaps/m",
            r#"configmaps "m" is forbidden: User "alice" cannot patch resource "configmaps" in API group "" in the namespace "default""#,
            json!({"name": "m", "kind": "configmaps"}),
        ),
        (
            "GET /api/v1/namespaces/default/pods?fieldSelector=metadata.name%3Dp",
            r#"pods "p" is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default""#,
            json!({"name": "p", "kind": "pods"}),
        ),
        (
            "GET /metrics",
            r#"forbidden: User "alice" cannot get path "/metrics""#,
            json!({}),
        ),
        (
            "POST /foo",
            r#"forbidden: User "alice" cannot post path "/foo""#,
            json!({}),
        ),
    ] {
        let answer = send(&alice, row).await?;
        assert_eq!(answer.status, 403, "{row}");
        assert_eq!(answer.json(), forbidden(message, details), "{row}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{row}");
    }
    // A user with the permission is answered.
    assert_eq!(admin.get("/api/v1/pods").await?.status, 200);
    // System users are shown the space they addressed.
    let root = server.client("root").await?;
    let answer = root
        .get("/api/v1/tenants/t1/namespaces/default/pods")
        .await?;
    assert_eq!(
        answer.message(),
        r#"pods is forbidden: User "root" cannot list resource "pods" in API group "" in the tenant "t1""#
    );
    Ok(())
}

/// Only authorized callers learn that a resource is not served.
#[tokio::test]
async fn unserved_resources_are_forbidden_before_not_found() -> anyhow::Result<()> {
    let (server, admin, alice) = start().await?;
    let root = server.client("root").await?;
    for (row, message, found) in [
        (
            "GET /apis/nosuch.io/v1/things",
            r#"things.nosuch.io is forbidden: User "alice" cannot list resource "things" in API group "nosuch.io" at the cluster scope"#,
            404,
        ),
        (
            "GET /apis/nosuch.io/v1/namespaces/default/things/x",
            r#"things.nosuch.io "x" is forbidden: User "alice" cannot get resource "things" in API group "nosuch.io" in the namespace "default""#,
            404,
        ),
        (
            "POST /api/v1/namespaces/default/nosuch",
            r#"nosuch is forbidden: User "alice" cannot create resource "nosuch" in API group "" in the namespace "default""#,
            404,
        ),
        (
            "GET /api/v1/namespaces/default/pods/p/nosuch",
            r#"pods "p" is forbidden: User "alice" cannot get resource "pods/nosuch" in API group "" in the namespace "default""#,
            404,
        ),
        (
            "PUT /api/v1/pods",
            r#"pods is forbidden: User "alice" cannot update resource "pods" in API group "" at the cluster scope"#,
            405,
        ),
        (
            "GET /nosuch",
            r#"forbidden: User "alice" cannot get path "/nosuch""#,
            404,
        ),
    ] {
        let answer = send(&alice, row).await?;
        assert_eq!(answer.status, 403, "{row}: {}", answer.text());
        assert_eq!(answer.message(), message, "{row}");
        let answer = send(&admin, row).await?;
        assert_eq!(answer.status, found, "{row}: {}", answer.text());
    }
    // Everything that discovery covers may be read by all users.
    for path in ["/apis/nosuch.io", "/apis/nosuch.io/v1", "/api/v2"] {
        assert_eq!(alice.get(path).await?.status, 404, "{path}");
    }
    // Tenant users learn nothing of other spaces; system users see what they are allowed to.
    for (client, path, code, reported) in [
        (
            &admin,
            "/api/v1/tenants/t2/nosuch",
            403,
            r#"in the tenant "t2""#,
        ),
        (
            &admin,
            "/api/v1/tenants/system/nosuch",
            403,
            r#"in the tenant "system""#,
        ),
        (&admin, "/api/v1/tenants/all/nosuch", 403, "in all tenants"),
        (
            &admin,
            "/tenants/t2/api/v1/nosuch",
            403,
            r#"in the tenant "t2""#,
        ),
        (&admin, "/tenants/t2/nosuch", 403, "cannot get path"),
        (
            &root,
            "/api/v1/tenants/t1/nosuch",
            403,
            r#"in the tenant "t1""#,
        ),
    ] {
        let answer = client.get(path).await?;
        assert_eq!(answer.status, code, "{path}: {}", answer.text());
        assert!(answer.message().contains(reported), "{}", answer.message());
    }
    Ok(())
}

#[tokio::test]
async fn bindings_take_effect_on_the_next_request() -> anyhow::Result<()> {
    let (server, admin, alice) = start().await?;
    let bob = server.client("bob").await?;
    for round in 0..20 {
        assert_eq!(alice.get(MAPS).await?.status, 403, "{round}");
        admin
            .grant_in(
                "default",
                "r",
                "User:alice",
                &[rule("list", "", "configmaps")],
            )
            .await?;
        assert_eq!(alice.get(MAPS).await?.status, 200, "{round}");
        assert_eq!(bob.get(MAPS).await?.status, 403, "{round}");
        // Added subjects gain the permission, removed subjects lose it.
        let binding = format!("{}/r", bindings("default"));
        let subjects = json!({"subjects": [{"kind": "Group", "name": "qa"}]});
        let changed = admin.patch(&binding, "merge", &subjects).await?;
        assert_eq!(changed.status, 200, "{}", changed.text());
        assert_eq!(alice.get(MAPS).await?.status, 403, "{round}");
        assert_eq!(bob.get(MAPS).await?.status, 200, "{round}");
        // A changed role no longer grants its former permissions.
        let role = format!("{}/r", roles("default"));
        let rules = json!({"rules": [rule("list", "", "secrets")]});
        let changed = admin.patch(&role, "merge", &rules).await?;
        assert_eq!(changed.status, 200, "{}", changed.text());
        assert_eq!(bob.get(MAPS).await?.status, 403, "{round}");
        assert_eq!(
            bob.get("/api/v1/namespaces/default/secrets").await?.status,
            200
        );
        assert_eq!(admin.delete(&binding).await?.status, 200);
        assert_eq!(
            bob.get("/api/v1/namespaces/default/secrets").await?.status,
            403
        );
        assert_eq!(admin.delete(&role).await?.status, 200);
    }
    Ok(())
}

#[tokio::test]
async fn permissions_are_limited_to_the_bindings_scope() -> anyhow::Result<()> {
    let (_server, admin, alice) = start().await?;
    for name in ["one", "other"] {
        let namespace = json!({"metadata": {"name": name}});
        assert_eq!(
            admin.post("/api/v1/namespaces", &namespace).await?.status,
            201
        );
    }
    // A Role and a ClusterRole, each bound in one namespace.
    let maps = [rule("get,list,create", "", "configmaps")];
    admin.grant_in("one", "r", "User:alice", &maps).await?;
    let role = json!({"metadata": {"name": "c"}, "rules": [
        rule("list", "", "secrets,persistentvolumes,namespaces"),
        rule("get", "", "namespaces"),
        {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
    ]});
    assert_eq!(admin.post(CLUSTER_ROLES, &role).await?.status, 201);
    let binding = json!({"metadata": {"name": "c"},
        "subjects": [{"kind": "Group", "name": "dev"}],
        "roleRef": {"kind": "ClusterRole", "name": "c"}});
    let answer = admin.post(&bindings("one"), &binding).await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    expect(
        &alice,
        &[
            ("GET /api/v1/namespaces/one/configmaps", 200),
            ("GET /api/v1/namespaces/one/configmaps/nosuch", 404),
            ("POST /api/v1/namespaces/one/configmaps", 201),
            ("GET /api/v1/namespaces/other/configmaps", 403),
            ("GET /api/v1/configmaps", 403),
            ("GET /api/v1/namespaces/one/secrets", 200),
            ("GET /api/v1/namespaces/other/secrets", 403),
            ("GET /api/v1/secrets", 403),
            // Cluster-scoped resources are not covered, except the namespace itself.
            ("GET /api/v1/persistentvolumes", 403),
            ("GET /api/v1/namespaces", 403),
            ("GET /api/v1/namespaces/one", 200),
            ("GET /api/v1/namespaces/other", 403),
            ("DELETE /api/v1/namespaces/one", 403),
            // Non-resource paths are granted in the whole space or not at all.
            ("GET /metrics", 403),
        ],
    )
    .await?;
    admin.bind("everywhere", "User:alice", "c").await?;
    expect(
        &alice,
        &[
            ("GET /api/v1/namespaces/other/secrets", 200),
            ("GET /api/v1/secrets", 200),
            ("GET /api/v1/persistentvolumes", 200),
            ("GET /api/v1/namespaces", 200),
            ("GET /api/v1/namespaces/other", 200),
            ("GET /metrics", 404),
            ("GET /api/v1/configmaps", 403),
        ],
    )
    .await
}

#[tokio::test]
async fn service_accounts_have_permissions_of_their_name_and_groups() -> anyhow::Result<()> {
    let (server, admin, _alice) = start().await?;
    let account = json!({"metadata": {"name": "robot"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(admin.post(accounts, &account).await?.status, 201);
    let token = admin
        .post(&format!("{accounts}/robot/token"), &json!({}))
        .await?;
    let token = token.json()["status"]["token"]
        .as_str()
        .unwrap_or("")
        .to_owned();
    let robot = server.client(&token).await?;
    for (name, to, path) in [
        ("a", "ServiceAccount:default/robot", "configmaps"),
        ("b", "User:system:serviceaccount:default:robot", "secrets"),
        ("c", "Group:system:serviceaccounts", "pods"),
        ("d", "Group:system:serviceaccounts:default", "services"),
        ("e", "Group:system:authenticated", "endpoints"),
    ] {
        let path_of = format!("/api/v1/namespaces/default/{path}");
        let refused = robot.get(&path_of).await?;
        assert_eq!(
            refused.message(),
            format!(
                "{path} is forbidden: User \"system:serviceaccount:default:robot\" cannot list \
                 resource \"{path}\" in API group \"\" in the namespace \"default\""
            )
        );
        admin
            .grant_in("default", name, to, &[rule("list", "", path)])
            .await?;
        assert_eq!(robot.get(&path_of).await?.status, 200, "{to}");
    }
    for (name, to, path) in [
        ("f", "ServiceAccount:kube-system/robot", "events"),
        ("g", "ServiceAccount:default/robots", "events"),
        ("h", "User:robot", "events"),
        ("i", "Group:system:serviceaccounts:kube-system", "events"),
        ("j", "Group:system:masters", "events"),
        ("k", "User:*", "events"),
    ] {
        admin.grant(name, to, &[rule("*", "*", path)]).await?;
        let answer = robot.get("/api/v1/namespaces/default/events").await?;
        assert_eq!(answer.status, 403, "{to}");
    }
    Ok(())
}

#[tokio::test]
async fn resource_names_allow_named_objects_only() -> anyhow::Result<()> {
    let (_server, admin, alice) = start().await?;
    for name in ["mine", "theirs"] {
        assert_eq!(admin.post(MAPS, &map(name)).await?.status, 201);
    }
    let mut named = rule("*", "", "configmaps");
    named["resourceNames"] = json!(["mine", "later"]);
    admin
        .grant_in("default", "named", "User:alice", &[named])
        .await?;
    let at = |rest: &str| format!("{MAPS}{rest}");
    for (method, rest, code) in [
        ("GET", "/mine", 200),
        ("GET", "/theirs", 403),
        ("GET", "", 403),
        ("GET", "?fieldSelector=metadata.name%3Dmine", 200),
        ("GET", "?fieldSelector=metadata.name%3D%3Dmine", 200),
        ("GET", "?fieldSelector=metadata.name%3Dtheirs", 403),
        ("GET", "?fieldSelector=metadata.name!%3Dtheirs", 403),
        ("GET", "?labelSelector=name%3Dmine", 403),
        // A request for two names matches neither rule.
        (
            "GET",
            "?fieldSelector=metadata.name%3Dmine,metadata.namespace%3Ddefault",
            200,
        ),
        ("PATCH", "/mine", 200),
        ("PUT", "/mine", 200),
        ("PATCH", "/theirs", 403),
        ("PUT", "/theirs", 403),
        ("POST", "", 403),
        ("DELETE", "", 403),
        ("DELETE", "?fieldSelector=metadata.name%3Dtheirs", 403),
        ("DELETE", "/theirs", 403),
        ("DELETE", "?fieldSelector=metadata.name%3Dmine", 200),
        ("GET", "/mine", 404),
        ("GET", "/theirs", 403),
    ] {
        let answer = send(&alice, &format!("{method} {}", at(rest))).await?;
        assert_eq!(answer.status, code, "{method} {rest}: {}", answer.text());
    }
    // Only the named object was deleted, and only the named object is shown.
    assert_eq!(admin.get(&at("/theirs")).await?.status, 200);
    let listed = alice
        .get(&at("?fieldSelector=metadata.name%3Dlater"))
        .await?;
    assert_eq!(listed.json()["items"], json!([]));
    Ok(())
}

#[tokio::test]
async fn conflicting_names_cannot_bypass_resource_names() -> anyhow::Result<()> {
    let (_server, admin, alice) = start().await?;
    for name in ["mine", "theirs"] {
        assert_eq!(admin.post(MAPS, &map(name)).await?.status, 201);
    }
    let mut named = rule("*", "", "configmaps");
    named["resourceNames"] = json!(["mine"]);
    admin
        .grant_in("default", "named", "User:alice", &[named])
        .await?;
    for query in [
        "fieldSelector=metadata.name%3Dmine,metadata.name%3Dtheirs",
        "fieldSelector=metadata.name%3Dtheirs,metadata.name%3Dmine",
        "fieldSelector=metadata.name%3Dmine&fieldSelector=metadata.name%3Dtheirs",
        "fieldSelector=metadata.name%3Dtheirs&fieldSelector=metadata.name%3Dmine",
        "fieldSelector=&fieldSelector=metadata.name%3Dmine",
        "fieldSelector=metadata.name%3Dmine&watch=0",
    ] {
        let answer = alice.get(&format!("{MAPS}?{query}")).await?;
        let shown = answer.json()["items"].to_string();
        assert!(!shown.contains("theirs"), "{query}: {shown}");
        assert!(
            matches!(answer.status, 200 | 400 | 403),
            "{query}: {}",
            answer.status
        );
    }
    Ok(())
}

#[tokio::test]
async fn watch_of_one_name_is_allowed_by_resource_names() -> anyhow::Result<()> {
    let (_server, admin, alice) = start().await?;
    let mut named = rule("watch", "", "configmaps");
    named["resourceNames"] = json!(["mine"]);
    admin
        .grant_in("default", "named", "User:alice", &[named])
        .await?;
    for path in [
        format!("{MAPS}?watch=1&fieldSelector=metadata.name%3Dmine"),
        "/api/v1/watch/namespaces/default/configmaps/mine".to_owned(),
    ] {
        let mut watch = alice.watch(&path).await?;
        assert_eq!(watch.status, 200, "{path}");
        for round in 0..3 {
            // Other users' permissions change in the meantime.
            let name = format!("other{round}");
            admin
                .grant(&name, "User:bob", &[rule("get", "", "pods")])
                .await?;
            assert_eq!(admin.post(MAPS, &map("theirs")).await?.status, 201);
            assert_eq!(admin.post(MAPS, &map("mine")).await?.status, 201);
            for map in ["theirs", "mine"] {
                let gone = admin.delete(&format!("{MAPS}/{map}")).await?;
                assert_eq!(gone.status, 200);
            }
            for change in ["ADDED", "DELETED"] {
                let event = watch.next().await?.unwrap_or_default();
                assert_eq!(event["type"], change, "{path}: {event}");
                assert_eq!(event["object"]["metadata"]["name"], "mine");
            }
            for path in [CLUSTER_BINDINGS, CLUSTER_ROLES] {
                let gone = admin.delete(&format!("{path}/{name}")).await?;
                assert_eq!(gone.status, 200);
            }
        }
        // The watch ends when its own permission is revoked.
        let binding = format!("{}/named", bindings("default"));
        let anonymous = admin
            .patch(&binding, "merge", &json!({"subjects": []}))
            .await?;
        assert_eq!(anonymous.status, 200);
        let last = watch.next().await?.unwrap_or_default();
        assert_eq!(last["type"], "ERROR", "{last}");
        assert_eq!(last["object"]["code"], 403, "{last}");
        assert_eq!(watch.next().await?, None);
        let again = json!({"subjects": [{"kind": "User", "name": "alice"}]});
        assert_eq!(admin.patch(&binding, "merge", &again).await?.status, 200);
    }
    Ok(())
}

#[tokio::test]
async fn subresources_need_their_own_rules() -> anyhow::Result<()> {
    let (_server, admin, alice) = start().await?;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(admin.post(pods, &pod).await?.status, 201);
    let apps = "/apis/apps/v1/namespaces/default";
    let deployment = json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let answer = admin
        .post(&format!("{apps}/deployments"), &deployment)
        .await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    for (resources, groups, rows) in [
        (
            "pods",
            "",
            vec![
                ("pods/p", true),
                ("pods/p/status", false),
                ("pods/p/log", false),
            ],
        ),
        (
            "pods/status",
            "",
            vec![
                ("pods/p", false),
                ("pods/p/status", true),
                ("pods/p/log", false),
            ],
        ),
        // Not a wildcard.
        (
            "pods/*",
            "",
            vec![("pods/p", false), ("pods/p/status", false)],
        ),
        (
            "*/status",
            "*",
            vec![
                ("pods/p", false),
                ("pods/p/status", true),
                ("deployments/d/status", true),
                ("deployments/d/scale", false),
            ],
        ),
        (
            "*/scale",
            "apps",
            vec![
                ("deployments/d/scale", true),
                ("deployments/d", false),
                ("deployments/d/status", false),
                ("pods/p/status", false),
            ],
        ),
        (
            "*",
            "apps",
            vec![
                ("deployments/d", true),
                ("deployments/d/scale", true),
                ("pods/p", false),
            ],
        ),
        (
            "*",
            "*",
            vec![
                ("pods/p", true),
                ("pods/p/status", true),
                ("deployments/d/scale", true),
            ],
        ),
        ("deployments", "", vec![("deployments/d", false)]),
        ("deployments", "*", vec![("deployments/d", true)]),
    ] {
        let rules = [rule("get", groups, resources)];
        admin.grant_in("default", "r", "User:alice", &rules).await?;
        for (path, allowed) in rows {
            let below = match path.starts_with("pods") {
                true => "/api/v1/namespaces/default",
                false => apps,
            };
            let answer = alice.get(&format!("{below}/{path}")).await?;
            assert_eq!(
                answer.status != 403,
                allowed,
                "{resources} {groups}: {path}: {}",
                answer.text()
            );
        }
        for kind in [bindings("default"), roles("default")] {
            assert_eq!(admin.delete(&format!("{kind}/r")).await?.status, 200);
        }
    }
    Ok(())
}

#[tokio::test]
async fn non_resource_paths_match_exactly_or_by_prefix() -> anyhow::Result<()> {
    let (server, admin, alice) = start().await?;
    // Metrics are served to system users only; a tenant gets 404.
    let root = server.client("root").await?;
    assert_eq!(root.get("/metrics").await?.status, 403);
    let system = server.system().await?;
    let rules = [json!({"verbs": ["get"], "nonResourceURLs": ["/metrics"]})];
    system.grant("metrics", "Group:ops", &rules).await?;
    assert_eq!(root.get("/metrics").await?.status, 200);
    for (verbs, url, rows) in [
        (
            "get",
            "/metrics",
            vec![
                ("GET /metrics", 404),
                ("GET /metrics/", 403),
                ("GET /", 403),
            ],
        ),
        (
            "*",
            "/foo/*",
            vec![
                ("GET /foo/x", 404),
                ("POST /foo/x/y", 404),
                ("GET /foo", 403),
                ("GET /food", 403),
            ],
        ),
        (
            "get",
            "/foo*",
            vec![
                ("GET /foo/x", 404),
                ("GET /foo", 404),
                ("GET /food", 404),
                ("POST /foo", 403),
                ("GET /bar", 403),
            ],
        ),
        ("get", "*", vec![("GET /bar", 404), ("GET /", 200)]),
        // Rules for paths do not cover resources.
        (
            "*",
            "*",
            vec![("GET /api/v1/pods", 403), ("GET /metrics", 404)],
        ),
        (
            "*",
            "/api/*",
            vec![("GET /api/v1/pods", 403), ("GET /metrics", 403)],
        ),
    ] {
        let rules = [json!({"verbs": [verbs], "nonResourceURLs": [url]})];
        admin.grant("paths", "User:alice", &rules).await?;
        for (row, code) in rows {
            let answer = send(&alice, row).await?;
            assert_eq!(answer.status, code, "{url}: {row}: {}", answer.text());
        }
        for kind in [CLUSTER_BINDINGS, CLUSTER_ROLES] {
            assert_eq!(admin.delete(&format!("{kind}/paths")).await?.status, 200);
        }
    }
    Ok(())
}

#[tokio::test]
async fn creating_by_put_needs_create_permission() -> anyhow::Result<()> {
    let (_server, admin, alice) = start().await?;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = json!({"metadata": {"name": "l"}, "spec": {}});
    admin
        .grant_in(
            "default",
            "r",
            "User:alice",
            &[rule("update,get,patch", "coordination.k8s.io", "leases")],
        )
        .await?;
    let answer = alice.put(&format!("{leases}/l"), &lease).await?;
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert_eq!(
        answer.message(),
        "leases.coordination.k8s.io \"l\" is forbidden: User \"alice\" cannot create resource \
         \"leases\" in API group \"coordination.k8s.io\" in the namespace \"default\""
    );
    assert_eq!(alice.get(&format!("{leases}/l")).await?.status, 404);
    let more = json!({"rules": [rule("update,create", "coordination.k8s.io", "leases")]});
    let role = format!("{}/r", roles("default"));
    assert_eq!(admin.patch(&role, "merge", &more).await?.status, 200);
    let answer = alice.put(&format!("{leases}/l"), &lease).await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    // Update permission is needed as well.
    let less = json!({"rules": [rule("create", "coordination.k8s.io", "leases")]});
    assert_eq!(admin.patch(&role, "merge", &less).await?.status, 200);
    let answer = alice.put(&format!("{leases}/l"), &lease).await?;
    assert_eq!(answer.status, 403);
    Ok(())
}

#[tokio::test]
async fn refusals_name_missing_roles() -> anyhow::Result<()> {
    let (server, admin, alice) = start().await?;
    // The binding is created by a user who may bind missing roles.
    let system = server.system().await?;
    let to = |kind: &str, role: &str| {
        json!({"metadata": {"name": role}, "subjects": [{"kind": "User", "name": "alice"}],
            "roleRef": {"kind": kind, "name": role}})
    };
    let inside = |path: &str| path.replace("/v1/", "/v1/tenants/t1/");
    for (path, binding) in [
        (bindings("default"), to("Role", "gone")),
        (CLUSTER_BINDINGS.to_owned(), to("ClusterRole", "lost")),
    ] {
        let answer = system.post(&inside(&path), &binding).await?;
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    for (path, why) in [
        (
            "/api/v1/pods",
            "at the cluster scope: RBAC: clusterrole.rbac.authorization.k8s.io \"lost\" not found",
        ),
        (
            "/api/v1/namespaces/default/pods",
            "in the namespace \"default\": RBAC: [clusterrole.rbac.authorization.k8s.io \
             \"lost\" not found, role.rbac.authorization.k8s.io \"gone\" not found]",
        ),
        (
            "/nosuch",
            "cannot get path \"/nosuch\": RBAC: clusterrole.rbac.authorization.k8s.io \"lost\" \
             not found",
        ),
    ] {
        let message = alice.get(path).await?.message();
        assert!(message.ends_with(why), "{message}");
    }
    // Users that the binding does not name do not see the hint.
    let bob = server.client("bob").await?.get("/api/v1/pods").await?;
    assert!(
        bob.message().ends_with("at the cluster scope"),
        "{}",
        bob.message()
    );
    // Once the role exists, the binding takes effect.
    let role = json!({"metadata": {"name": "gone"}, "rules": [rule("list", "", "pods")]});
    assert_eq!(admin.post(&roles("default"), &role).await?.status, 201);
    let path = "/api/v1/namespaces/default/pods";
    assert_eq!(alice.get(path).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn bindings_do_not_apply_to_equal_names_in_other_spaces() -> anyhow::Result<()> {
    let start = "a1,alice,1,\"dev,tenant:t1\"\na2,alice,2,\"dev,tenant:t2\"\n\
                  a0,alice,3,\"dev,tenant:system\"\n";
    let server = TestServer::with_tokens(start).await?;
    let (one, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    let everything = [rule("*", "*", "*")];
    let everywhere = |path: &str| path.replace("/v1/", "/v1/tenants/t1/");
    let clients = ["a1", "a2", "a0"];
    let mut alices = Vec::new();
    for token in clients {
        alices.push(server.client(token).await?);
    }
    let maps = [
        everywhere(MAPS),
        MAPS.replace("/v1/", "/v1/tenants/t2/"),
        MAPS.replace("/v1/", "/v1/tenants/system/"),
    ];
    let expect = async |wanted: [[u16; 3]; 3], when: &str| -> anyhow::Result<()> {
        for ((alice, codes), token) in alices.iter().zip(wanted).zip(clients) {
            for (path, code) in maps.iter().zip(codes) {
                let answer = alice.get(path).await?;
                assert_eq!(answer.status, code, "{when}: {token} {path}");
            }
        }
        Ok(())
    };
    expect([[403; 3]; 3], "no user has any permission").await?;
    for group in ["User:alice", "Group:dev"] {
        let name = group.replace(':', "-").to_lowercase();
        one.grant(&name, group, &everything).await?;
    }
    expect(
        [[200, 403, 403], [403; 3], [403; 3]],
        "the first tenant's has",
    )
    .await?;
    other.grant("all", "User:alice", &everything).await?;
    expect(
        [[200, 403, 403], [403, 200, 403], [403; 3]],
        "both tenants' have",
    )
    .await?;
    // A binding in one namespace of the system grants nothing in a tenant's namespace.
    system
        .grant_in("default", "here", "User:alice", &everything)
        .await?;
    expect(
        [[200, 403, 403], [403, 200, 403], [403, 403, 200]],
        "the system's has a namespace",
    )
    .await?;
    system.grant("all", "User:alice", &everything).await?;
    expect(
        [[200, 403, 403], [403, 200, 403], [200, 200, 200]],
        "the system's has everything",
    )
    .await
}
