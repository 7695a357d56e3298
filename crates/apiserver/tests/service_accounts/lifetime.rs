//! The lifetime of a token.

use std::time::{Duration, Instant};

use insula_testkit::server::TestServer;
use serde_json::{Value, json};

use super::{
    ACCOUNTS, PODS, SECRETS, bound_to, claims, create, delete, pod, review, robot, sign, token,
    unauthenticated, whoami,
};

#[tokio::test]
async fn tokens_end_with_their_account_or_bound_object() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (system, client) = (server.system().await?, server.tenant("t1").await?);
    robot(&system).await?;
    let old = robot(&client).await?["metadata"]["uid"].clone();
    let free = token(&client, json!({})).await?;
    let invalidated = "[invalid bearer token, service account token has been invalidated]";
    let secret = json!({"metadata": {"name": "s"}});
    let node = json!({"metadata": {"name": "n"}});
    for (client, kind, name, path, object) in [
        (&client, "Secret", "s", SECRETS, secret),
        (&client, "Pod", "p", PODS, pod()),
        (&client, "Node", "n", "/api/v1/nodes", node.clone()),
        (&system, "Node", "n", "/api/v1/nodes", node),
    ] {
        create(client, path, object.clone()).await?;
        let bound = token(client, bound_to(kind, name)).await?;
        assert_eq!(whoami(&server, &bound).await?.0, 201, "{kind}");
        delete(client, &format!("{path}/{name}?gracePeriodSeconds=0")).await?;
        assert_eq!(whoami(&server, &bound).await?.0, 401, "{kind}");
        let status = review(client, &bound, &[]).await?;
        assert_eq!(status, unauthenticated(invalidated), "{kind}");
        create(client, path, object).await?;
        assert_eq!(
            whoami(&server, &bound).await?.0,
            401,
            "another {kind} of its name"
        );
    }
    assert_eq!(whoami(&server, &free).await?.0, 201);
    // A terminating object invalidates its tokens too.
    let hold = json!({"metadata": {"finalizers": ["x.io/y"]}});
    let path = format!("{ACCOUNTS}/robot");
    assert_eq!(client.patch(&path, "merge", &hold).await?.status, 200);
    delete(&client, &path).await?;
    let message = |why: &str| unauthenticated(&format!("[invalid bearer token, {why}]"));
    assert_eq!(whoami(&server, &free).await?.0, 401);
    let deleted = message("service account default/robot has been deleted");
    assert_eq!(review(&client, &free, &[]).await?, deleted);
    let free_it = json!({"metadata": {"finalizers": null}});
    assert_eq!(client.patch(&path, "merge", &free_it).await?.status, 200);
    assert_eq!(whoami(&server, &free).await?.0, 401);
    let missing = message("serviceaccounts \"robot\" not found");
    assert_eq!(review(&client, &free, &[]).await?, missing);
    let new = robot(&client).await?["metadata"]["uid"].clone();
    assert_eq!(whoami(&server, &free).await?.0, 401);
    let text = |uid: &Value| uid.as_str().unwrap_or_default().to_owned();
    let other = format!(
        "service account UID ({}) does not match claim ({})",
        text(&new),
        text(&old)
    );
    assert_eq!(review(&client, &free, &[]).await?, message(&other));
    assert_eq!(
        whoami(&server, &token(&client, json!({})).await?).await?.0,
        201
    );
    Ok(())
}

#[tokio::test]
async fn recreated_tenant_refuses_tokens_of_its_predecessor() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, client) = (server.system().await?, server.tenant("t1").await?);
    robot(&client).await?;
    let (old, certain) = (token(&client, json!({})).await?, system.clone());
    assert_eq!(whoami(&server, &old).await?.0, 201);
    delete(&certain, "/api/v1/tenants/t1").await?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while system.get("/api/v1/tenants/t1").await?.status != 404 {
        anyhow::ensure!(Instant::now() < deadline, "the tenant does not go");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(whoami(&server, &old).await?.0, 401);
    let again = server.tenant("t1").await?;
    robot(&again).await?;
    assert_eq!(whoami(&server, &old).await?.0, 401);
    let new = token(&again, json!({})).await?;
    assert_eq!(whoami(&server, &new).await?.0, 201);
    // Even if an account could have the same UID, the tenant's UID differs.
    let mut mixed = claims(&new);
    mixed["kubernetes.io"]["tenantUid"] = claims(&old)["kubernetes.io"]["tenantUid"].clone();
    assert_eq!(whoami(&server, &sign(&server, &mixed)).await?.0, 401);
    Ok(())
}
