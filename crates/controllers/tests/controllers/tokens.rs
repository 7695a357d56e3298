//! Service account token Secrets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use insula_store::Store;
use insula_store::memory::Memory;
use insula_testkit::server::{Answer, Client, Setup, TestServer};
use serde_json::{Value, json};

use super::{create, servers, until, until_gone};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const WHOAMI: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn secret(name: &str, account: &str) -> Value {
    json!({
        "metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": account}},
        "type": "kubernetes.io/service-account-token",
    })
}

async fn account(client: &Client, name: &str) -> anyhow::Result<Value> {
    create(client, ACCOUNTS, json!({"metadata": {"name": name}})).await
}

fn decoded(secret: &Value, key: &str) -> String {
    let text = secret["data"][key].as_str().unwrap_or_default();
    String::from_utf8(STANDARD.decode(text).unwrap_or_default()).unwrap_or_default()
}

/// Waits until the Secret has a token, and returns it.
async fn filled(client: &Client, name: &str) -> anyhow::Result<Value> {
    let path = format!("{SECRETS}/{name}");
    let has = |secret: &Value| !decoded(secret, "token").is_empty();
    let found = until(client, &path, |answer| has(&answer.json())).await?;
    Ok(found.json())
}

/// The claims of a token, without verification.
fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap_or_default();
    let part = URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
    serde_json::from_slice(&part).unwrap_or_default()
}

async fn whoami(server: &TestServer, token: &str) -> anyhow::Result<(u16, Value)> {
    let answer = server.client(token).await?.post(WHOAMI, &json!({})).await?;
    Ok((answer.status, answer.json()["status"]["userInfo"].clone()))
}

#[tokio::test]
async fn token_of_a_secret_is_recorded_before_its_first_use() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    account(&tenant, "robot").await?;
    create(&tenant, SECRETS, secret("robot-token", "robot")).await?;
    let token = decoded(&filled(&tenant, "robot-token").await?, "token");
    let id = insula_access::jwt::digest_id(&token);
    let recorded = |answer: &Answer| {
        let credentials = answer.json()["credentials"].clone();
        let credentials = credentials.as_array().cloned().unwrap_or_default();
        credentials.into_iter().find(|one| one["id"] == *id)
    };
    let path = "/apis/access.insula.dev/v1/tenantaccesses/t1";
    let answer = until(&system, path, |answer| recorded(answer).is_some()).await?;
    let found = recorded(&answer).unwrap_or_default();
    assert_eq!(found["user"], "system:serviceaccount:default:robot");
    assert_eq!(found["lastUsed"], Value::Null);
    assert!(found["issued"].is_string(), "{found}");
    Ok(())
}

#[tokio::test]
async fn token_secret_gets_a_valid_token() -> anyhow::Result<()> {
    for server in servers().await? {
        let system = server.system().await?;
        for (client, space) in [
            (server.tenant("t1").await?, "t1"),
            (system.clone(), "system"),
        ] {
            let uid = account(&client, "robot").await?["metadata"]["uid"].clone();
            create(&client, SECRETS, secret("kept", "robot")).await?;
            let found = filled(&client, "kept").await?;
            let annotations = &found["metadata"]["annotations"];
            assert_eq!(annotations["kubernetes.io/service-account.uid"], uid);
            assert_eq!(
                decoded(&found, "ca.crt"),
                server.authority().certificate_pem()
            );
            assert_eq!(decoded(&found, "namespace"), "default");
            let token = decoded(&found, "token");
            let mut expected = json!({
                "iss": "kubernetes/serviceaccount",
                "sub": "system:serviceaccount:default:robot",
                "kubernetes.io/serviceaccount/namespace": "default",
                "kubernetes.io/serviceaccount/secret.name": "kept",
                "kubernetes.io/serviceaccount/service-account.name": "robot",
                "kubernetes.io/serviceaccount/service-account.uid": uid,
            });
            if space != "system" {
                let tenant = system.get("/api/v1/tenants/t1").await?.json();
                expected["kubernetes.io/serviceaccount/tenant"] = space.into();
                expected["kubernetes.io/serviceaccount/tenant.uid"] =
                    tenant["metadata"]["uid"].clone();
            }
            assert_eq!(claims(&token), expected);
            let (status, user) = whoami(&server, &token).await?;
            assert_eq!(status, 201);
            assert_eq!(
                user,
                json!({
                    "username": "system:serviceaccount:default:robot", "uid": uid,
                    "groups": ["system:serviceaccounts", "system:serviceaccounts:default",
                        "system:authenticated"],
                    "extra": {"insula.dev/tenant": [space]},
                })
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn wrong_data_is_repaired_and_the_token_is_kept() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    account(&client, "robot").await?;
    create(&client, SECRETS, secret("kept", "robot")).await?;
    let whole = filled(&client, "kept").await?;
    let path = format!("{SECRETS}/kept");
    for broken in [
        json!({"ca.crt": null}),
        json!({"ca.crt": STANDARD.encode("another")}),
        json!({"namespace": null, "ca.crt": ""}),
        json!({"namespace": STANDARD.encode("elsewhere")}),
    ] {
        let patched = client
            .patch(&path, "merge", &json!({"data": broken}))
            .await?;
        assert_eq!(patched.status, 200, "{}", patched.text());
        let is_whole = |secret: Value| secret["data"] == whole["data"];
        until(&client, &path, |answer| is_whole(answer.json())).await?;
    }
    // Without its annotation too; and nothing else in it changes.
    let uid = json!({"metadata": {"annotations": {"kubernetes.io/service-account.uid": null}},
        "data": {"more": STANDARD.encode("mine")}});
    assert_eq!(client.patch(&path, "merge", &uid).await?.status, 200);
    let annotated = until(&client, &path, |answer| {
        answer.json()["metadata"]["annotations"] == whole["metadata"]["annotations"]
    })
    .await?;
    assert_eq!(decoded(&annotated.json(), "more"), "mine");
    // A removed token is replaced, an existing one stays, whatever its content.
    let without = json!({"data": {"token": null}});
    assert_eq!(client.patch(&path, "merge", &without).await?.status, 200);
    let again = decoded(&filled(&client, "kept").await?, "token");
    assert_eq!(claims(&again), claims(&decoded(&whole, "token")));
    assert_eq!(whoami(&server, &again).await?.0, 201);
    let own = json!({"data": {"token": STANDARD.encode("own"), "namespace": null}});
    assert_eq!(client.patch(&path, "merge", &own).await?.status, 200);
    let kept = until(&client, &path, |answer| {
        decoded(&answer.json(), "namespace") == "default"
    })
    .await?;
    assert_eq!(decoded(&kept.json(), "token"), "own");
    // A token that no Secret holds is not accepted.
    assert_eq!(whoami(&server, &again).await?.0, 401);
    Ok(())
}

#[tokio::test]
async fn secret_of_a_missing_or_replaced_account_is_deleted() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (client, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let theirs = account(&other, "robot").await?["metadata"]["uid"].clone();
    for (name, account) in [("missing", "robot"), ("odd", "a/b"), ("path", "../default")] {
        create(&client, SECRETS, secret(name, account)).await?;
        until_gone(&client, &format!("{SECRETS}/{name}")).await?;
    }
    account(&client, "robot").await?;
    let mut foreign = secret("foreign", "robot");
    foreign["metadata"]["annotations"]["kubernetes.io/service-account.uid"] = theirs;
    create(&client, SECRETS, foreign).await?;
    until_gone(&client, &format!("{SECRETS}/foreign")).await?;
    // Secrets of other types are left alone.
    let mut plain = secret("plain", "missing");
    plain["type"] = "Opaque".into();
    create(&client, SECRETS, plain).await?;
    create(&client, SECRETS, secret("later", "robot")).await?;
    filled(&client, "later").await?;
    let plain = client.get(&format!("{SECRETS}/plain")).await?.json();
    assert_eq!(plain["data"], Value::Null, "{plain}");
    Ok(())
}

#[tokio::test]
async fn tokens_are_deleted_with_their_account_and_not_inherited() -> anyhow::Result<()> {
    for server in servers().await? {
        let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
        let mut tokens = Vec::new();
        for client in [&one, &two] {
            for name in ["robot", "other"] {
                account(client, name).await?;
                create(client, SECRETS, secret(&format!("of-{name}"), name)).await?;
                tokens.push(decoded(
                    &filled(client, &format!("of-{name}")).await?,
                    "token",
                ));
            }
        }
        let deleted = one.delete(&format!("{ACCOUNTS}/robot")).await?;
        assert_eq!(deleted.status, 200);
        assert_eq!(whoami(&server, &tokens[0]).await?.0, 401, "at once");
        until_gone(&one, &format!("{SECRETS}/of-robot")).await?;
        account(&one, "robot").await?;
        // When this one is filled, everything before it was processed.
        create(&one, SECRETS, secret("again", "robot")).await?;
        let again = decoded(&filled(&one, "again").await?, "token");
        let secrets = [
            (&one, "of-robot", 404),
            (&one, "of-other", 200),
            (&two, "of-robot", 200),
        ];
        for (client, name, code) in secrets {
            let found = client.get(&format!("{SECRETS}/{name}")).await?;
            assert_eq!(found.status, code, "{name}");
        }
        tokens.push(again);
        let mut codes = Vec::new();
        for token in &tokens {
            codes.push(whoami(&server, token).await?.0);
        }
        assert_eq!(codes, [401, 201, 201, 201, 201]);
        // The same name in two spaces is two accounts.
        let homes = [(2, "t2"), (4, "t1")];
        for (at, home) in homes {
            let (_, user) = whoami(&server, &tokens[at]).await?;
            assert_eq!(user["username"], "system:serviceaccount:default:robot");
            assert_eq!(user["extra"], json!({"insula.dev/tenant": [home]}));
        }
    }
    Ok(())
}

#[tokio::test]
async fn deleting_the_secret_revokes_its_token() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    account(&client, "robot").await?;
    create(&client, SECRETS, secret("kept", "robot")).await?;
    let token = decoded(&filled(&client, "kept").await?, "token");
    assert_eq!(whoami(&server, &token).await?.0, 201);
    let deleted = client.delete(&format!("{SECRETS}/kept")).await?;
    assert_eq!(deleted.status, 200);
    assert_eq!(whoami(&server, &token).await?.0, 401);
    // Another Secret of the same name has another token.
    create(&client, SECRETS, secret("kept", "robot")).await?;
    let other = decoded(&filled(&client, "kept").await?, "token");
    assert_eq!(whoami(&server, &token).await?.0, 401);
    assert_eq!(whoami(&server, &other).await?.0, 201);
    // A Secret that is labelled as invalid is not accepted.
    let mark = json!({"metadata": {"labels":
        {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}}});
    let path = format!("{SECRETS}/kept");
    assert_eq!(client.patch(&path, "merge", &mark).await?.status, 200);
    assert_eq!(whoami(&server, &other).await?.0, 401);
    Ok(())
}

fn today() -> String {
    let now = jiff::Timestamp::now().to_string();
    now.split('T').next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn secret_records_the_day_of_last_use() -> anyhow::Result<()> {
    for server in servers().await? {
        for client in [server.tenant("t1").await?, server.system().await?] {
            account(&client, "robot").await?;
            create(&client, SECRETS, secret("kept", "robot")).await?;
            let whole = filled(&client, "kept").await?;
            let label = |secret: &Value| {
                let labels = &secret["metadata"]["labels"];
                labels["kubernetes.io/legacy-token-last-used"].clone()
            };
            assert_eq!(label(&whole), Value::Null);
            let (path, token) = (format!("{SECRETS}/kept"), decoded(&whole, "token"));
            let day = today();
            assert_eq!(whoami(&server, &token).await?.0, 201);
            let used = until(&client, &path, |answer| !label(&answer.json()).is_null()).await?;
            let reported = label(&used.json());
            assert!(reported == day || reported == today(), "{reported}");
            assert_eq!(used.json()["data"], whole["data"]);
            // Once a day is enough; an older day is updated.
            let revision = used.json()["metadata"]["resourceVersion"].clone();
            let revision = revision.as_str().unwrap_or_default().to_owned();
            let watched = format!("{SECRETS}?watch=true&resourceVersion={revision}");
            let mut watch = client.watch(&watched).await?;
            assert_eq!(whoami(&server, &token).await?.0, 201);
            assert!(watch.is_quiet_for(Duration::from_millis(300)).await);
            let old = json!({"metadata": {"labels":
                {"kubernetes.io/legacy-token-last-used": "2020-02-02"}}});
            assert_eq!(client.patch(&path, "merge", &old).await?.status, 200);
            assert_eq!(whoami(&server, &token).await?.0, 201);
            until(&client, &path, |answer| label(&answer.json()) == reported).await?;
            // The ConfigMap says since when uses are recorded.
            let tracking = client
                .get(
                    "/api/v1/namespaces/kube-system/configmaps/\
                     kube-apiserver-legacy-service-account-token-tracking",
                )
                .await?;
            assert_eq!(
                tracking.json()["data"],
                json!({"since": reported}),
                "{}",
                tracking.text()
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn deleted_secret_is_removed_from_its_account() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    account(&client, "robot").await?;
    account(&client, "other").await?;
    for name in ["kept", "gone"] {
        create(&client, SECRETS, secret(name, "robot")).await?;
        filled(&client, name).await?;
    }
    let list = json!({"secrets": [{"name": "kept"}, {"name": "gone"}, {"name": "never"}]});
    let robot = format!("{ACCOUNTS}/robot");
    assert_eq!(client.patch(&robot, "merge", &list).await?.status, 200);
    assert_eq!(client.delete(&format!("{SECRETS}/gone")).await?.status, 200);
    let left = json!([{"name": "kept"}, {"name": "never"}]);
    until(&client, &robot, |answer| answer.json()["secrets"] == left).await?;
    // Nor does the controller add any to the list.
    let other = client.get(&format!("{ACCOUNTS}/other")).await?.json();
    assert_eq!(other["secrets"], Value::Null);
    Ok(())
}

#[tokio::test]
async fn token_secret_requires_an_account_and_has_an_immutable_type() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let without_account =
        json!({"metadata": {"name": "x"}, "type": "kubernetes.io/service-account-token"});
    let refused = client.post(SECRETS, &without_account).await?;
    assert_eq!(refused.status, 422);
    assert_eq!(
        refused.message(),
        "Secret \"x\" is invalid: metadata.annotations[kubernetes.io/service-account.name]: \
         Required value"
    );
    account(&client, "robot").await?;
    create(&client, SECRETS, secret("kept", "robot")).await?;
    let opaque = json!({"type": "Opaque"});
    let refused = client
        .patch(&format!("{SECRETS}/kept"), "merge", &opaque)
        .await?;
    assert_eq!(refused.status, 422);
    assert_eq!(
        refused.message(),
        "Secret \"kept\" is invalid: type: Invalid value: \"Opaque\": field is immutable"
    );
    Ok(())
}

#[tokio::test]
async fn secret_that_cannot_be_filled_does_not_block_others() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    account(&client, "robot").await?;
    let mut immutable = secret("immutable", "robot");
    immutable["immutable"] = true.into();
    create(&client, SECRETS, immutable).await?;
    let mut full = secret("full", "robot");
    full["data"] = json!({"a": STANDARD.encode(vec![b'a'; 1 << 20])});
    create(&client, SECRETS, full).await?;
    create(&client, SECRETS, secret("later", "robot")).await?;
    filled(&client, "later").await?;
    for name in ["immutable", "full"] {
        let found = client.get(&format!("{SECRETS}/{name}")).await?.json();
        assert_eq!(found["data"]["token"], Value::Null, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn changes_while_no_controller_ran_are_processed_at_the_start() -> anyhow::Result<()> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let server = TestServer::start_on_store(Arc::clone(&store), Setup::with_controllers()).await?;
    let client = server.tenant("t1").await?;
    for name in ["stays", "goes"] {
        account(&client, name).await?;
        create(&client, SECRETS, secret(name, name)).await?;
        filled(&client, name).await?;
    }
    let mut server = server;
    server.stop().await;
    let mut without = TestServer::start_on_store(Arc::clone(&store), Setup::default()).await?;
    let client = without.tenant("t1").await?;
    assert_eq!(
        client.delete(&format!("{ACCOUNTS}/goes")).await?.status,
        200
    );
    create(&client, SECRETS, secret("new", "stays")).await?;
    without.stop().await;
    let server = TestServer::start_on_store(store, Setup::with_controllers()).await?;
    let client = server.tenant("t1").await?;
    filled(&client, "new").await?;
    until_gone(&client, &format!("{SECRETS}/goes")).await?;
    // This server has another CA.
    let pem = server.authority().certificate_pem();
    until(&client, &format!("{SECRETS}/stays"), |answer| {
        decoded(&answer.json(), "ca.crt") == pem
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn servers_with_different_cas_write_at_most_once_a_second() -> anyhow::Result<()> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    // Each has its own CA, which is a configuration error.
    let one = TestServer::start_on_store(Arc::clone(&store), Setup::with_controllers()).await?;
    let _two = TestServer::start_on_store(store, Setup::with_controllers()).await?;
    let client = one.tenant("t1").await?;
    account(&client, "robot").await?;
    create(&client, SECRETS, secret("kept", "robot")).await?;
    let kept = filled(&client, "kept").await?;
    let revision = kept["metadata"]["resourceVersion"].as_str();
    let since = revision.unwrap_or_default();
    let path = format!("{SECRETS}?watch=true&resourceVersion={since}");
    let mut watch = client.watch(&path).await?;
    let begun = Instant::now();
    // The first write of each server is immediate.
    for _ in 0..6 {
        let event = watch.next().await?.unwrap_or_default();
        assert_eq!(event["type"], "MODIFIED", "{event}");
    }
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(1900), "{took:?}");
    Ok(())
}
