//! Requests that were authorized before their credential is revoked, and go on after it: the
//! client withholds the body, or a webhook of its tenant withholds the answer.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use insula_testkit::server::{Client, Setup, TestServer, TlsStream, loopback};
use insula_testkit::webhook::{FakeWebhook, Reply};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::principals::{RBAC, bind, create, service_account, service_account_token, user};
use super::{MAPS, named};

const REVOCATIONS: &str = "/apis/access.insula.dev/v1/credentialrevocations";
const IN_T1: &str = "/apis/access.insula.dev/v1/tenants/t1/credentialrevocations";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

const TOKENS: &str = "\
t1/alice,alice,7,\"tenant:t1\"
system/root,root,9,\"system:masters,tenant:system\"
";

/// A request whose head was authorized, and whose body is yet to be sent.
struct Withheld {
    stream: TlsStream<TcpStream>,
    body: String,
}

impl Withheld {
    /// Sends the head, and waits until the server asks for the body.
    async fn send(
        server: &TestServer,
        token: &str,
        [method, path, more]: [&str; 3],
        body: &Value,
    ) -> Result<Self> {
        let mut stream = server.dial("http/1.1").await?;
        let body = body.to_string();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: insula.test\r\nAuthorization: Bearer {token}\r\n{more}\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\
             Expect: 100-continue\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        let mut asked = [0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
        stream.read_exact(&mut asked).await?;
        let asked = String::from_utf8_lossy(&asked);
        anyhow::ensure!(asked.starts_with("HTTP/1.1 100 "), "{asked}");
        Ok(Self { stream, body })
    }

    /// Sends the body, and returns the status code and the response.
    async fn finish(mut self) -> Result<(u16, String)> {
        self.stream.write_all(self.body.as_bytes()).await?;
        let mut answer = Vec::new();
        self.stream.read_to_end(&mut answer).await?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).context("no status")?.parse()?;
        Ok((status, answer))
    }
}

async fn start() -> Result<TestServer> {
    let server = TestServer::start_with(Setup {
        tokens: TOKENS.to_owned(),
        egress: loopback(),
        ..Setup::default()
    })
    .await?;
    let admin = server.tenant("t1").await?;
    bind(&admin, None, "alice", "cluster-admin", user("alice")).await?;
    let robot = service_account("default", "robot");
    bind(&admin, None, "robot", "cluster-admin", robot).await?;
    Ok(server)
}

/// Revokes a user, and returns the path of the revocation.
async fn revoke(by: &Client, path: &str, user: &str) -> Result<String> {
    let object = json!({"metadata": {"generateName": "r-"}, "spec": {"user": user}});
    let created = create(by, path, object).await?;
    let name = created["metadata"]["name"].as_str().unwrap_or_default();
    Ok(format!("{path}/{name}"))
}

/// Requests of every verb that takes a body.
fn requests() -> Vec<([String; 2], Value)> {
    let request = |method: &str, path: String, body| ([method.to_owned(), path], body);
    vec![
        request("DELETE", REVOCATIONS.to_owned(), json!({})),
        request(
            "POST",
            format!("{ACCOUNTS}/robot/token"),
            json!({"spec": {}}),
        ),
        request("POST", MAPS.to_owned(), named("late")),
        request("PUT", format!("{MAPS}/m"), named("m")),
        request("DELETE", format!("{MAPS}/m"), json!({})),
        request(
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews".to_owned(),
            json!({}),
        ),
    ]
}

#[tokio::test]
async fn body_that_arrives_after_the_revocation_is_refused() -> Result<()> {
    let server = start().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    service_account_token(&tenant, "default", "robot").await?;
    create(&tenant, MAPS, named("m")).await?;
    let mut withheld = Vec::new();
    for ([method, path], body) in requests() {
        let request = [method.as_str(), path.as_str(), ""];
        let open = Withheld::send(&server, "t1/alice", request, &body).await?;
        withheld.push((format!("{method} {path}"), open));
    }
    // The tenant's own revocation, which the first request would have deleted.
    let revoked = revoke(&tenant, REVOCATIONS, "alice").await?;
    for (what, open) in withheld {
        let (status, answer) = open.finish().await?;
        assert_eq!(status, 401, "{what}: {answer}");
    }
    assert_eq!(tenant.get(&revoked).await?.status, 200, "it is still there");
    assert_eq!(tenant.get(&format!("{MAPS}/late")).await?.status, 404);
    assert_eq!(tenant.get(&format!("{MAPS}/m")).await?.status, 200);
    assert_eq!(
        system
            .delete(&format!("{IN_T1}/{}", last(&revoked)))
            .await?
            .status,
        200
    );
    // A request that no revocation concerns goes on.
    let request = ["POST", MAPS, ""];
    let open = Withheld::send(&server, "t1/alice", request, &named("late")).await?;
    revoke(&tenant, REVOCATIONS, "mallory").await?;
    let (status, answer) = open.finish().await?;
    assert_eq!(status, 201, "{answer}");
    Ok(())
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

#[tokio::test]
async fn body_that_arrives_after_the_impersonator_was_revoked_is_refused() -> Result<()> {
    let server = start().await?;
    let system = server.system().await?;
    let more = "Impersonate-User: alice\r\nImpersonate-Group: tenant:t1\r\n";
    let request = ["POST", MAPS, more];
    let open = Withheld::send(&server, "system/root", request, &named("late")).await?;
    revoke(&system, REVOCATIONS, "root").await?;
    let (status, answer) = open.finish().await?;
    assert_eq!(status, 401, "{answer}");
    Ok(())
}

#[tokio::test]
async fn body_that_arrives_after_the_right_or_the_credential_is_gone_is_refused() -> Result<()> {
    let server = start().await?;
    let tenant = server.tenant("t1").await?;
    let robot = service_account_token(&tenant, "default", "robot").await?;
    let request = ["POST", MAPS, ""];
    let of_account = Withheld::send(&server, &robot, request, &named("late")).await?;
    let deleted = tenant.delete(&format!("{ACCOUNTS}/robot")).await?;
    assert_eq!(deleted.status, 200);
    let (status, answer) = of_account.finish().await?;
    assert_eq!(status, 401, "account deleted: {answer}");
    let unbound = Withheld::send(&server, "t1/alice", request, &named("late")).await?;
    let binding = format!("{RBAC}/clusterrolebindings/alice");
    assert_eq!(tenant.delete(&binding).await?.status, 200);
    let (status, answer) = unbound.finish().await?;
    assert_eq!(status, 403, "binding deleted: {answer}");
    bind(&tenant, None, "alice", "cluster-admin", user("alice")).await?;
    let removed = Withheld::send(&server, "t1/alice", request, &named("late")).await?;
    let others: String = TOKENS
        .lines()
        .skip(1)
        .map(|line| format!("{line}\n"))
        .collect();
    server.replace_tokens(&others)?;
    let (status, answer) = removed.finish().await?;
    assert_eq!(status, 401, "line of the token file removed: {answer}");
    Ok(())
}

#[tokio::test]
async fn request_that_a_webhook_delayed_past_the_revocation_is_refused() -> Result<()> {
    for kind in ["validating", "mutating"] {
        let server = start().await?;
        let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
        service_account_token(&tenant, "default", "robot").await?;
        create(&tenant, MAPS, named("m")).await?;
        let released = Arc::new(Notify::new());
        let webhook = FakeWebhook::start(Reply::AllowAfter(Arc::clone(&released))).await?;
        let rules = json!([{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
            "resources": ["configmaps", "serviceaccounts/token"],
        }]);
        let hook = json!({"metadata": {"name": "slow"}, "webhooks": [{
            "name": "slow.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": webhook.client_config("/"), "rules": rules, "failurePolicy": "Ignore",
        }]});
        let hooks = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations");
        create(&tenant, &hooks, hook).await?;
        for (number, [method, path]) in [
            ["POST", &format!("{ACCOUNTS}/robot/token")],
            ["POST", MAPS],
            ["DELETE", &format!("{MAPS}/m")],
        ]
        .into_iter()
        .enumerate()
        {
            let alice = server.client("t1/alice").await?;
            let (method, path) = (method.to_owned(), path.to_owned());
            let what = format!("{kind} {method} {path}");
            let answer = tokio::spawn(async move {
                match (method.as_str(), path.as_str()) {
                    ("DELETE", path) => alice.delete(path).await,
                    (_, MAPS) => alice.post(MAPS, &named("late")).await,
                    (_, path) => alice.post(path, &json!({"spec": {}})).await,
                }
            });
            webhook.called(number + 1).await?;
            let revoked = revoke(&system, IN_T1, "alice").await?;
            released.notify_one();
            let answer = answer.await??;
            assert_eq!(answer.status, 401, "{what}: {}", answer.text());
            assert_eq!(system.delete(&revoked).await?.status, 200);
        }
        assert_eq!(tenant.get(&format!("{MAPS}/late")).await?.status, 404);
        assert_eq!(tenant.get(&format!("{MAPS}/m")).await?.status, 200);
    }
    Ok(())
}

#[tokio::test]
async fn watch_over_websocket_ends_with_the_credential() -> Result<()> {
    let server = start().await?;
    let tenant = server.tenant("t1").await?;
    let mut stream = server.dial("http/1.1").await?;
    let head = format!(
        "GET {MAPS}?watch=true HTTP/1.1\r\nHost: insula.test\r\nAuthorization: Bearer t1/alice\r\n\
         Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut begun = [0; "HTTP/1.1 101 ".len()];
    stream.read_exact(&mut begun).await?;
    assert_eq!(&begun, b"HTTP/1.1 101 ");
    revoke(&tenant, REVOCATIONS, "alice").await?;
    // The server sends the error and then closes, without waiting for the client's answer.
    let mut rest = Vec::new();
    let read = stream.read_to_end(&mut rest);
    let read = tokio::time::timeout(Duration::from_secs(10), read).await?;
    // The connection may end without the closing message of TLS.
    drop(read);
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.contains("\"code\":401"), "{rest}");
    Ok(())
}
