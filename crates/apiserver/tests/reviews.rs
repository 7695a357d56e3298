//! Questions that are answered and not kept.

use insula_testkit::server::{Client, TestServer};
use serde_json::{Value, json};

const AUTHENTICATION: &str = "/apis/authentication.k8s.io/v1";
const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";

async fn ask(client: &Client, path: &str, question: Value) -> anyhow::Result<Value> {
    let answer = client.post(path, &question).await?;
    anyhow::ensure!(answer.status == 201, "{}", answer.text());
    Ok(answer.json())
}

#[tokio::test]
async fn whoami_says_user_groups_and_tenant() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let path = format!("{AUTHENTICATION}/selfsubjectreviews");
    let tenant = server.tenant("t1").await?;
    let review = ask(&tenant, &path, json!({})).await?;
    assert_eq!(review["kind"], "SelfSubjectReview");
    assert!(review["metadata"]["creationTimestamp"].is_string());
    assert_eq!(
        review["status"]["userInfo"],
        json!({"username": "admin", "uid": "1",
            "groups": ["system:authenticated"],
            "extra": {"insula.dev/tenant": ["t1"]}})
    );
    let system = server.system().await?;
    let review = ask(&system, &path, json!({})).await?;
    let info = &review["status"]["userInfo"];
    assert_eq!(info["username"], "admin");
    assert_eq!(info["extra"], json!({"insula.dev/tenant": ["system"]}));
    Ok(())
}

#[tokio::test]
async fn what_a_caller_may_do_is_answered() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    let path = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    let may = |resource: &str| json!({"spec": {"resourceAttributes": {"verb": "get", "resource": resource}}});
    let review = ask(&tenant, &path, may("pods")).await?;
    assert_eq!(
        review,
        json!({"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
            "metadata": {}, "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
            "status": {"allowed": true, "reason": "RBAC: allowed by ClusterRoleBinding \
                \"admin-role-binding\" of ClusterRole \"admin-role\" to User \"admin\""}})
    );
    let review = ask(&tenant, &path, may("tenants")).await?;
    assert_eq!(review["status"]["allowed"], false);
    let review = ask(&server.system().await?, &path, may("tenants")).await?;
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
async fn a_token_is_known_in_its_own_space_only() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let path = format!("{AUTHENTICATION}/tokenreviews");
    let review = |token: &str| json!({"spec": {"token": token}});
    let known = ask(&one, &path, review("t1")).await?;
    assert_eq!(known["status"]["authenticated"], true);
    assert_eq!(known["status"]["user"]["username"], "admin");
    assert_eq!(known["spec"]["token"], "t1");
    for (client, token) in [(&other, "t1"), (&one, "system"), (&one, "nonsense")] {
        let unknown = ask(client, &path, review(token)).await?;
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
async fn the_rules_of_a_caller_are_those_of_its_space() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    let path = format!("{AUTHORIZATION}/selfsubjectrulesreviews");
    let review = ask(&tenant, &path, json!({"spec": {"namespace": "default"}})).await?;
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
async fn a_review_is_not_kept_and_cannot_be_read() -> anyhow::Result<()> {
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
    let review = ask(&tenant, &local, question).await?;
    assert_eq!(review["status"]["allowed"], false);
    // A client leaves the namespace to the path.
    let question = json!({"spec": {"user": "bob",
        "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}});
    let answer = tenant.post(&local, &question).await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let elsewhere = json!({"metadata": {"namespace": "kube-system"}, "spec": {"user": "bob",
        "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "kube-system"}}});
    assert_eq!(tenant.post(&local, &elsewhere).await?.status, 400);
    Ok(())
}
