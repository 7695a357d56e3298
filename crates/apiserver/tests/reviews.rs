//! Authentication and authorization reviews, which are answered and not stored.

use insula_testkit::server::{CLUSTER_BINDINGS, Client, TestServer, rule};
use serde_json::{Value, json};

const AUTHENTICATION: &str = "/apis/authentication.k8s.io/v1";
const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";

async fn post_review(client: &Client, path: &str, question: Value) -> anyhow::Result<Value> {
    let answer = client.post(path, &question).await?;
    anyhow::ensure!(answer.status == 201, "{}", answer.text());
    Ok(answer.json())
}

#[tokio::test]
async fn self_subject_review_reports_user_groups_and_tenant() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let path = format!("{AUTHENTICATION}/selfsubjectreviews");
    let tenant = server.tenant("t1").await?;
    let review = post_review(&tenant, &path, json!({})).await?;
    assert_eq!(review["kind"], "SelfSubjectReview");
    assert!(review["metadata"]["creationTimestamp"].is_string());
    assert_eq!(
        review["status"]["userInfo"],
        json!({"username": "admin", "uid": "1",
            "groups": ["system:authenticated"],
            "extra": {"insula.dev/tenant": ["t1"]}})
    );
    let system = server.system().await?;
    let review = post_review(&system, &path, json!({})).await?;
    let info = &review["status"]["userInfo"];
    assert_eq!(info["username"], "admin");
    assert_eq!(info["extra"], json!({"insula.dev/tenant": ["system"]}));
    Ok(())
}

#[tokio::test]
async fn self_subject_access_review_reports_permissions() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    let path = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    let may = |resource: &str| json!({"spec": {"resourceAttributes": {"verb": "get", "resource": resource}}});
    let review = post_review(&tenant, &path, may("pods")).await?;
    assert_eq!(
        review,
        json!({"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
            "metadata": {}, "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
            "status": {"allowed": true, "reason": "RBAC: allowed by ClusterRoleBinding \
                \"admin-role-binding\" of ClusterRole \"admin-role\" to User \"admin\""}})
    );
    let review = post_review(&tenant, &path, may("tenants")).await?;
    assert_eq!(review["status"]["allowed"], false);
    let review = post_review(&server.system().await?, &path, may("tenants")).await?;
    assert_eq!(review["status"]["allowed"], true);
    let answer = tenant.post(&path, &json!({"spec": {}})).await?;
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert_eq!(
        answer.message(),
        ".authorization.k8s.io \"\" is invalid: \
         spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or \
         resourceAttributes must be specified"
    );
    Ok(())
}

#[tokio::test]
async fn token_review_knows_tokens_of_its_own_space_only() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let path = format!("{AUTHENTICATION}/tokenreviews");
    let review = |token: &str| json!({"spec": {"token": token}});
    let known = post_review(&one, &path, review("t1")).await?;
    assert_eq!(known["status"]["authenticated"], true);
    assert_eq!(known["status"]["user"]["username"], "admin");
    assert_eq!(known["spec"]["token"], "t1");
    for (client, token) in [(&other, "t1"), (&one, "system"), (&one, "nonsense")] {
        let unknown = post_review(client, &path, review(token)).await?;
        assert_eq!(
            unknown["status"],
            json!({"user": {}, "error": "invalid bearer token"}),
            "{token}"
        );
    }
    let answer = one.post(&path, &json!({"spec": {}})).await?;
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.message(),
        "token is required for TokenReview in authentication"
    );
    Ok(())
}

#[tokio::test]
async fn rules_review_reports_the_rules_of_the_callers_space() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    let path = format!("{AUTHORIZATION}/selfsubjectrulesreviews");
    let review = post_review(&tenant, &path, json!({"spec": {"namespace": "default"}})).await?;
    assert_eq!(review["status"]["incomplete"], false);
    assert_eq!(
        review["status"]["resourceRules"],
        json!([
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
                "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]},
            {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"],
                "resources": ["selfsubjectreviews"]},
        ])
    );
    assert_eq!(review["spec"], json!({}));
    Ok(())
}

#[tokio::test]
async fn reviews_are_not_stored() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    for path in [
        format!("{AUTHENTICATION}/tokenreviews"),
        format!("{AUTHORIZATION}/subjectaccessreviews"),
    ] {
        assert_eq!(tenant.get(&path).await?.status, 405, "{path}");
    }
    let local = format!("{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews");
    let question = json!({"metadata": {"namespace": "default"}, "spec": {"user": "bob",
        "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}});
    let review = post_review(&tenant, &local, question).await?;
    assert_eq!(review["status"]["allowed"], false);
    // The client leaves the namespace to the path.
    let question = json!({"spec": {"user": "bob",
        "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}});
    let answer = tenant.post(&local, &question).await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let elsewhere = json!({"metadata": {"namespace": "kube-system"}, "spec": {"user": "bob",
        "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "kube-system"}}});
    assert_eq!(tenant.post(&local, &elsewhere).await?.status, 400);
    Ok(())
}

const USERS: &str = "alice,alice,7,\"dev,tenant:t1\"\n\
                      root,root,9,\"ops,tenant:system\"\n";

fn inside(path: &str, tenant: &str) -> String {
    path.replace("/v1/", &format!("/v1/tenants/{tenant}/"))
}

fn allowed_by(binding: &str, role: &str, subject: &str) -> Value {
    json!({"allowed": true, "reason": format!("RBAC: allowed by {binding} of {role} to {subject}")})
}

#[tokio::test]
async fn subject_access_review_uses_the_stated_identity_only() -> anyhow::Result<()> {
    let server = TestServer::with_tokens(USERS).await?;
    let admin = server.tenant("t1").await?;
    admin
        .grant("pods", "User:alice", &[rule("get,list", "", "pods")])
        .await?;
    let dev = [rule("*", "apps", "deployments/scale")];
    admin.grant_in("default", "dev", "Group:dev", &dev).await?;
    admin
        .grant(
            "robot",
            "ServiceAccount:default/robot",
            &[json!({"verbs": ["get"], "nonResourceURLs": ["/metrics"]})],
        )
        .await?;
    let by_user = allowed_by(
        "ClusterRoleBinding \"pods\"",
        "ClusterRole \"pods\"",
        "User \"alice\"",
    );
    let by_group = allowed_by(
        "RoleBinding \"dev/default\"",
        "Role \"dev\"",
        "Group \"dev\"",
    );
    let by_account = allowed_by(
        "ClusterRoleBinding \"robot\"",
        "ClusterRole \"robot\"",
        "ServiceAccount \"robot/default\"",
    );
    let no = json!({"allowed": false});
    let pods = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    let scale = json!({"verb": "patch", "group": "apps", "resource": "deployments",
        "subresource": "scale", "namespace": "default", "name": "d", "version": "*"});
    let metrics = json!({"path": "/metrics", "verb": "get"});
    let path = format!("{AUTHORIZATION}/subjectaccessreviews");
    for (who, what, attributes, status) in [
        (
            json!({"user": "alice"}),
            "resourceAttributes",
            &pods,
            &by_user,
        ),
        // Only the stated user and groups count: no implied groups and none of the caller's
        // permissions.
        (json!({"user": "alice"}), "resourceAttributes", &scale, &no),
        (
            json!({"user": "alice", "groups": ["dev"]}),
            "resourceAttributes",
            &scale,
            &by_group,
        ),
        (
            json!({"groups": ["dev"]}),
            "resourceAttributes",
            &scale,
            &by_group,
        ),
        (json!({"groups": ["dev"]}), "resourceAttributes", &pods, &no),
        (json!({"user": "bob"}), "resourceAttributes", &pods, &no),
        (
            json!({"user": "system:serviceaccount:default:robot"}),
            "nonResourceAttributes",
            &metrics,
            &by_account,
        ),
        (
            json!({"user": "system:serviceaccount:default:robots"}),
            "nonResourceAttributes",
            &metrics,
            &no,
        ),
        (
            json!({"user": "admin"}),
            "nonResourceAttributes",
            &metrics,
            &allowed_by(
                "ClusterRoleBinding \"admin-role-binding\"",
                "ClusterRole \"admin-role\"",
                "User \"admin\"",
            ),
        ),
    ] {
        let mut spec = who.clone();
        spec[what] = attributes.clone();
        let review = post_review(&admin, &path, json!({"spec": spec})).await?;
        assert_eq!(review["status"], *status, "{spec}");
        assert_eq!(review["spec"], spec);
    }
    // Users without permission to review others can review themselves.
    let alice = server.client("alice").await?;
    let question = json!({"spec": {"user": "alice", "resourceAttributes": pods}});
    assert_eq!(alice.post(&path, &question).await?.status, 403);
    let own = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    let review = post_review(&alice, &own, json!({"spec": {"resourceAttributes": pods}})).await?;
    assert_eq!(review["status"], by_user);
    let review = post_review(&alice, &own, json!({"spec": {"resourceAttributes": scale}})).await?;
    assert_eq!(review["status"], by_group);
    Ok(())
}

#[tokio::test]
async fn denials_name_dangling_bindings() -> anyhow::Result<()> {
    let server = TestServer::with_tokens(USERS).await?;
    let admin = server.tenant("t1").await?;
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole",
        "name": "gone"}, "subjects": [{"kind": "User", "name": "alice"}]});
    let system = server.system().await?;
    let created = system
        .post(&inside(CLUSTER_BINDINGS, "t1"), &binding)
        .await?;
    assert_eq!(created.status, 201, "{}", created.text());
    let path = format!("{AUTHORIZATION}/subjectaccessreviews");
    let question = json!({"spec": {"user": "alice",
        "resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let review = post_review(&admin, &path, question).await?;
    let why = "clusterrole.rbac.authorization.k8s.io \"gone\" not found";
    assert_eq!(review["status"]["allowed"], false);
    assert_eq!(review["status"]["reason"], format!("RBAC: {why}"));
    let path = format!("{AUTHORIZATION}/selfsubjectrulesreviews");
    let alice = server.client("alice").await?;
    let review = post_review(&alice, &path, json!({"spec": {"namespace": "default"}})).await?;
    assert_eq!(review["status"]["evaluationError"], why);
    assert_eq!(review["status"]["incomplete"], false);
    Ok(())
}

#[tokio::test]
async fn invalid_reviews_are_refused_with_kubernetes_messages() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let admin = server.tenant("t1").await?;
    let pods = json!({"verb": "get", "resource": "pods"});
    let path = json!({"path": "/x", "verb": "get"});
    let nothing = "spec.resourceAttributes: Invalid value: null: exactly one of \
                   nonResourceAttributes or resourceAttributes must be specified";
    let anonymous =
        "spec.user: Invalid value: \"\": at least one of user or group must be specified";
    let local = "namespaces/default/localsubjectaccessreviews";
    for (review, spec, code, message) in [
        ("selfsubjectaccessreviews", json!({}), 422, nothing),
        (
            "selfsubjectaccessreviews",
            json!({"resourceAttributes": pods, "nonResourceAttributes": path}),
            422,
            "cannot be specified in combination with resourceAttributes",
        ),
        (
            "subjectaccessreviews",
            json!({"resourceAttributes": pods}),
            422,
            anonymous,
        ),
        ("subjectaccessreviews", json!({"user": "x"}), 422, nothing),
        (
            "subjectaccessreviews",
            json!({"user": "x", "resourceAttributes": pods, "nonResourceAttributes": path}),
            422,
            "cannot be specified in combination with resourceAttributes",
        ),
        (
            local,
            json!({"user": "x", "resourceAttributes":
                {"verb": "get", "resource": "pods", "namespace": "other"}}),
            422,
            "must match metadata.namespace",
        ),
        (
            local,
            json!({"user": "x", "nonResourceAttributes": path}),
            422,
            "spec.nonResourceAttributes",
        ),
        (
            "selfsubjectaccessreviews",
            json!({"resourceAttributes": {"verb": "list", "resource": "pods",
                "fieldSelector": {"rawSelector": "a=b", "requirements":
                    [{"key": "a", "operator": "In", "values": ["b"]}]}}}),
            422,
            "may not specified at the same time as requirements",
        ),
        (
            "selfsubjectrulesreviews",
            json!({}),
            400,
            "no namespace on request",
        ),
        (
            "selfsubjectrulesreviews",
            json!({"namespace": ""}),
            400,
            "no namespace on request",
        ),
    ] {
        let question = json!({"spec": spec});
        let answer = admin
            .post(&format!("{AUTHORIZATION}/{review}"), &question)
            .await?;
        assert_eq!(answer.status, code, "{spec}: {}", answer.text());
        assert!(answer.message().contains(message), "{}", answer.message());
    }
    // Fields that RBAC ignores are returned unchanged.
    let spec = json!({"resourceAttributes": {"verb": "list", "resource": "pods",
        "version": "v7", "labelSelector": {"rawSelector": "a in (b)"}}});
    let path = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    let review = post_review(&admin, &path, json!({"spec": spec})).await?;
    assert_eq!(review["spec"], spec);
    assert_eq!(review["status"]["allowed"], true);
    Ok(())
}

#[tokio::test]
async fn rules_review_is_complete_for_masters_and_ordinary_users() -> anyhow::Result<()> {
    let server = TestServer::with_tokens(USERS).await?;
    let (admin, alice) = (server.tenant("t1").await?, server.client("alice").await?);
    let path = format!("{AUTHORIZATION}/selfsubjectrulesreviews");
    let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    let every_path = json!({"verbs": ["*"], "nonResourceURLs": ["*"]});
    let system = server.system().await?;
    for at in [path.clone(), inside(&path, "t1")] {
        let review = post_review(&system, &at, json!({"spec": {"namespace": "default"}})).await?;
        assert_eq!(review["status"]["resourceRules"][0], everything, "{at}");
        assert_eq!(review["status"]["nonResourceRules"][0], every_path, "{at}");
    }
    let mut named = rule("get", "", "secrets");
    named["resourceNames"] = json!(["mine"]);
    admin
        .grant_in("default", "b", "User:alice", &[named.clone()])
        .await?;
    admin
        .grant("z", "User:alice", &[rule("list", "", "pods")])
        .await?;
    let rules = async |namespace: &str| -> anyhow::Result<Vec<Value>> {
        let question = json!({"spec": {"namespace": namespace}});
        let review = post_review(&alice, &path, question).await?;
        let rules = review["status"]["resourceRules"].as_array().cloned();
        // The rules of all users come first, ordered by the names of their bindings.
        Ok(rules.unwrap_or_default().into_iter().skip(2).collect())
    };
    assert_eq!(rules("default").await?, [rule("list", "", "pods"), named]);
    assert_eq!(rules("kube-system").await?, [rule("list", "", "pods")]);
    assert_eq!(rules("nosuch").await?, [rule("list", "", "pods")]);
    Ok(())
}

/// In a tenant's path, a subject review is about the tenant's users, and a self review about the
/// caller.
#[tokio::test]
async fn system_users_can_review_tenant_users() -> anyhow::Result<()> {
    let server = TestServer::with_tokens(USERS).await?;
    let (system, admin) = (server.system().await?, server.tenant("t1").await?);
    admin
        .grant("pods", "User:alice", &[rule("get", "", "pods")])
        .await?;
    admin.bind("root", "User:root", "cluster-admin").await?;
    let asks = [
        rule("create", "authorization.k8s.io", "subjectaccessreviews"),
        rule("get", "", "configmaps"),
    ];
    system.grant("asks", "User:root", &asks).await?;
    system
        .grant_in(
            "default",
            "here",
            "User:root",
            &[rule("get", "", "secrets")],
        )
        .await?;
    let root = server.client("root").await?;
    let of = |user: &str, groups: Value, resource: &str| {
        json!({"spec": {"user": user, "groups": groups, "resourceAttributes":
            {"verb": "get", "resource": resource, "namespace": "default"}}})
    };
    let others = format!("{AUTHORIZATION}/subjectaccessreviews");
    for (tenant, user, groups, resource, allowed) in [
        ("t1", "alice", json!([]), "pods", true),
        ("t1", "alice", json!([]), "configmaps", false),
        // The tenant's root, not the system's.
        ("t1", "root", json!([]), "secrets", true),
        ("system", "root", json!([]), "configmaps", true),
        ("system", "root", json!([]), "secrets", true),
        ("system", "root", json!([]), "pods", false),
        ("system", "alice", json!([]), "pods", false),
        ("system", "x", json!(["system:masters"]), "pods", true),
        // `system:masters` has no effect in a tenant.
        ("t1", "x", json!(["system:masters"]), "pods", false),
    ] {
        let path = inside(&others, tenant);
        let review = post_review(&root, &path, of(user, groups, resource)).await?;
        assert_eq!(
            review["status"]["allowed"], allowed,
            "{tenant} {user} {resource}"
        );
    }
    // A binding in one namespace of the system does not apply to the namespace of the same name in
    // a tenant.
    let own = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    for (tenant, resource, allowed) in [
        ("system", "secrets", true),
        ("t1", "secrets", false),
        ("t1", "configmaps", true),
        ("t1", "pods", false),
    ] {
        let question = json!({"spec": {"resourceAttributes":
            {"verb": "get", "resource": resource, "namespace": "default"}}});
        let review = post_review(&root, &inside(&own, tenant), question).await?;
        assert_eq!(review["status"]["allowed"], allowed, "{tenant} {resource}");
    }
    Ok(())
}

/// A tenant's reviews have the same result whether or not the objects exist in another space.
#[tokio::test]
async fn reviews_reveal_nothing_of_other_spaces() -> anyhow::Result<()> {
    let server = TestServer::with_tokens(USERS).await?;
    let (one, other) = (server.tenant("t2").await?, server.tenant("t1").await?);
    let system = server.system().await?;
    let everything = [rule("*", "*", "*")];
    let spec = |user: &str, groups: &[&str], resource: &str| {
        json!({"spec": {"user": user, "groups": groups,
            "resourceAttributes": {"verb": "get", "resource": resource}}})
    };
    let questions = [
        spec("alice", &["dev"], "pods"),
        spec("root", &["ops"], "pods"),
        spec("x", &["tenant:t1"], "pods"),
        spec("x", &["tenant:system", "system:masters"], "pods"),
        spec(
            "system:serviceaccount:default:robot",
            &["system:serviceaccounts"],
            "pods",
        ),
        spec("root", &["ops"], "tenants"),
        spec("root", &["ops"], "nodes"),
    ];
    let path = format!("{AUTHORIZATION}/subjectaccessreviews");
    let local = format!("{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews");
    let answers = async || -> anyhow::Result<Vec<Value>> {
        let mut answers = Vec::new();
        for question in &questions {
            let review = post_review(&one, &path, question.clone()).await?;
            assert_eq!(review["status"]["allowed"], false, "{question}");
            answers.push(review["status"].clone());
            let mut question = question.clone();
            question["spec"]["resourceAttributes"]["namespace"] = "default".into();
            answers.push(post_review(&one, &local, question).await?["status"].clone());
        }
        Ok(answers)
    };
    let before = answers().await?;
    other.grant("alice", "User:alice", &everything).await?;
    other.grant("dev", "Group:dev", &everything).await?;
    other
        .grant("robots", "Group:system:serviceaccounts", &everything)
        .await?;
    system.grant("ops", "Group:ops", &everything).await?;
    assert_eq!(answers().await?, before);
    for tenant in ["t1", "system", "ghost", "all"] {
        for review in [
            "subjectaccessreviews",
            "selfsubjectaccessreviews",
            "selfsubjectrulesreviews",
        ] {
            let path = inside(&format!("{AUTHORIZATION}/{review}"), tenant);
            let answer = one.post(&path, &questions[0]).await?;
            assert_eq!(answer.status, 403, "{path}: {}", answer.text());
        }
        let path = inside(&format!("{AUTHENTICATION}/tokenreviews"), tenant);
        let question = json!({"spec": {"token": "alice"}});
        assert_eq!(one.post(&path, &question).await?.status, 403, "{path}");
    }
    Ok(())
}

/// A token of another space is reported like an unknown one, in every state.
#[tokio::test]
async fn tokens_of_another_space_are_unknown_in_every_state() -> anyhow::Result<()> {
    let server = TestServer::with_tokens(USERS).await?;
    let (one, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"metadata": {"name": "robot"}});
    assert_eq!(one.post(accounts, &account).await?.status, 201);
    let token = one
        .post(&format!("{accounts}/robot/token"), &json!({}))
        .await?;
    let token = token.json()["status"]["token"]
        .as_str()
        .unwrap_or("")
        .to_owned();
    let path = format!("{AUTHENTICATION}/tokenreviews");
    let reviewed = async |client: &Client, token: &str, audiences: &[&str]| {
        let question = json!({"spec": {"token": token, "audiences": audiences}});
        anyhow::Ok(post_review(client, &path, question).await?["status"].clone())
    };
    let anonymous = json!({"user": {}, "error": "invalid bearer token"});
    let known = reviewed(&one, &token, &[]).await?;
    assert_eq!(known["authenticated"], true, "{known}");
    let user = "system:serviceaccount:default:robot";
    assert_eq!(known["user"]["username"], user);
    assert_eq!(reviewed(&other, &token, &[]).await?, anonymous);
    // Tokens for another audience.
    let meant = reviewed(&one, &token, &["elsewhere"]).await?;
    let error = meant["error"].as_str().unwrap_or("");
    assert!(
        error.starts_with("[invalid bearer token, token audiences ["),
        "{meant}"
    );
    assert_eq!(reviewed(&other, &token, &["elsewhere"]).await?, anonymous);
    // Once the token is no longer valid.
    assert_eq!(one.delete(&format!("{accounts}/robot")).await?.status, 200);
    let gone = reviewed(&one, &token, &[]).await?;
    assert_ne!(gone, anonymous);
    assert!(gone["authenticated"].is_null(), "{gone}");
    assert_eq!(reviewed(&other, &token, &[]).await?, anonymous);
    // A token of no space, and a malformed one.
    let (head, _) = token.rsplit_once('.').unwrap_or_default();
    for token in ["stray", "nonsense", "root", &format!("{head}.AAAA")] {
        assert_eq!(reviewed(&one, token, &[]).await?, anonymous, "{token}");
    }
    Ok(())
}
