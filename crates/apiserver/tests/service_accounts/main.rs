//! Service accounts: their tokens, the identity they grant, and how long they are valid.

mod authorization;
#[path = "../support/fixtures.rs"]
#[expect(dead_code, reason = "other programs use the rest")]
mod fixtures;
mod forged;
mod identity;
mod issuers;
mod lifetime;
mod requests;
mod rotation;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fixtures::create;
use insula_testkit::server::{Client, TestServer};
use serde_json::{Value, json};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/robot/token";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const WHOAMI: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ISSUER: &str = "https://insula.test";

/// The issuer of the tenant's tokens.
async fn issuer_of(server: &TestServer, tenant: &str) -> anyhow::Result<String> {
    let path = format!("/api/v1/tenants/{tenant}");
    let found = server.system().await?.get(&path).await?.json();
    let uid = found["metadata"]["uid"].as_str().unwrap_or_default();
    anyhow::ensure!(!uid.is_empty(), "{found}");
    Ok(format!("{ISSUER}/tenants/{tenant}/issuers/{uid}"))
}

async fn delete(client: &Client, path: &str) -> anyhow::Result<()> {
    let deleted = client.delete(path).await?;
    anyhow::ensure!(deleted.status == 200, "{path}: {}", deleted.text());
    Ok(())
}

/// Creates the account `robot`.
async fn robot(client: &Client) -> anyhow::Result<Value> {
    create(client, ACCOUNTS, json!({"metadata": {"name": "robot"}})).await
}

async fn token(client: &Client, spec: Value) -> anyhow::Result<String> {
    let request = create(client, TOKEN, json!({"spec": spec})).await?;
    Ok(request["status"]["token"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

/// The claims of a token that the Secret `kept` of tenant `t1` stores for `robot`.
fn kept_claims(uid: &Value, tenant_uid: &Value) -> Value {
    let own = |member: &str| format!("kubernetes.io/serviceaccount/{member}");
    json!({
        "iss": "kubernetes/serviceaccount",
        "sub": "system:serviceaccount:default:robot",
        own("namespace"): "default",
        own("secret.name"): "kept",
        own("service-account.name"): "robot",
        own("service-account.uid"): uid,
        own("tenant"): "t1",
        own("tenant.uid"): tenant_uid,
    })
}

fn bound_to(kind: &str, name: &str) -> Value {
    json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}})
}

fn pod() -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "robot", "nodeName": "n",
        "containers": [{"name": "c", "image": "i"}]}})
}

fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap_or_default();
    let part = URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
    serde_json::from_slice(&part).unwrap_or_default()
}

/// The ID of the key that signed the token.
fn key_id(token: &str) -> String {
    let part = token.split('.').next().unwrap_or_default();
    let part = URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
    let header: Value = serde_json::from_slice(&part).unwrap_or_default();
    header["kid"].as_str().unwrap_or_default().to_owned()
}

/// The status code and the identity that the server reports for the token.
async fn whoami(server: &TestServer, token: &str) -> anyhow::Result<(u16, Value)> {
    let answer = server.client(token).await?.post(WHOAMI, &json!({})).await?;
    Ok((answer.status, answer.json()["status"]["userInfo"].clone()))
}

async fn review(client: &Client, token: &str, audiences: &[&str]) -> anyhow::Result<Value> {
    let review = json!({"spec": {"token": token, "audiences": audiences}});
    Ok(create(client, REVIEWS, review).await?["status"].clone())
}

fn unauthenticated(why: &str) -> Value {
    json!({"user": {}, "error": why})
}

/// Signs arbitrary claims with the server's own key.
fn sign(server: &TestServer, claims: &Value) -> String {
    server.accounts().issuer.sign(claims).unwrap_or_default()
}
