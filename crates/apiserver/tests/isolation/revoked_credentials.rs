//! Revoked credentials: the next request is not authenticated, and open watches end.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use insula_access::certificate::{fingerprint, seconds, twin};
use insula_access::jwt;
use insula_access::oidc::Settings;
use insula_apiserver::pipeline::oidc::Provider;
use insula_core::{CREDENTIAL_ID, TenantName};
use insula_store::memory::Memory;
use insula_testkit::oidc::{Behaviour, FakeProvider};
use insula_testkit::server::{Answer, Client, Lines, Setup, TestServer};
use insula_tls::Trust;
use serde_json::{Value, json};

use super::principals::{bind, create, service_account, service_account_token, subject, user};
use super::{MAPS, named, until};

const REVOCATIONS: &str = "/apis/access.insula.dev/v1/credentialrevocations";
const IN_T1: &str = "/apis/access.insula.dev/v1/tenants/t1/credentialrevocations";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// Users with static tokens, the same names in two tenants and in the system.
const TOKENS: &str = "\
t1/alice,alice,7,\"tenant:t1\"
t2/alice,alice,7,\"tenant:t2\"
t1/eve,eve,8,\"tenant:t1\"
system/alice,alice,9,\"system:masters,tenant:system\"
";

fn revocation(spec: Value) -> Value {
    json!({"metadata": {"generateName": "r-"}, "spec": spec})
}

/// Revokes and returns the path of the revocation.
async fn revoke(client: &Client, path: &str, spec: Value) -> Result<String> {
    let created = create(client, path, revocation(spec)).await?;
    let name = created["metadata"]["name"].as_str().unwrap_or_default();
    Ok(format!("{path}/{name}"))
}

/// Starts a server with tenants and users that may read everything in them.
async fn start(setup: Setup) -> Result<TestServer> {
    let setup = Setup {
        tokens: TOKENS.to_owned(),
        ..setup
    };
    let server = TestServer::start_with(setup).await?;
    for tenant in ["t1", "t2"] {
        let admin = server.tenant(tenant).await?;
        for name in ["alice", "eve", "olga", "carl"] {
            bind(&admin, None, name, "cluster-admin", user(name)).await?;
        }
        let robot = service_account("default", "robot");
        bind(&admin, None, "robot", "cluster-admin", robot).await?;
    }
    Ok(server)
}

#[track_caller]
fn assert_unauthorized(answer: &Answer, what: &str) {
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    });
    assert_eq!((answer.status, answer.json()), (401, expected), "{what}");
}

/// Asserts that a watch ends with 401.
async fn assert_ends(mut watch: Lines, what: &str) -> Result<()> {
    let events = tokio::time::timeout(Duration::from_secs(5), watch.rest()).await;
    let events = events.context("the watch goes on")??;
    let last = events.last().cloned().unwrap_or_default();
    let found = (&last["type"], &last["object"]["code"]);
    assert_eq!(found, (&json!("ERROR"), &json!(401)), "{what}: {events:?}");
    Ok(())
}

async fn review(client: &Client, token: &str) -> Result<Value> {
    let answer = client
        .post(REVIEWS, &json!({"spec": {"token": token}}))
        .await?;
    Ok(answer.json()["status"].clone())
}

/// A credential of a user, and how it is revoked.
struct Sample {
    what: &'static str,
    token: Option<String>,
    client: Client,
    spec: Value,
}

async fn with_token(
    server: &TestServer,
    what: &'static str,
    token: String,
    id: &str,
) -> Result<Sample> {
    Ok(Sample {
        what,
        client: server.client(&token).await?,
        spec: json!({"token": id}),
        token: Some(token),
    })
}

async fn certificate(server: &TestServer, tenant: &str) -> Result<Sample> {
    let identity = server.identity(&subject("carl", &[], tenant)?).await?;
    let id = fingerprint(&identity.certificate);
    Ok(Sample {
        what: "certificate",
        token: None,
        client: server.client_with_identity(identity, "").await?,
        spec: json!({"certificate": id}),
    })
}

/// One credential of each kind, in a tenant.
async fn samples(server: &TestServer, fake: &FakeProvider, tenant: &str) -> Result<Vec<Sample>> {
    let admin = server.tenant(tenant).await?;
    let account = service_account_token(&admin, "default", "robot").await?;
    let who = server.client(&account).await?.post(WHO, &json!({})).await?;
    let extra = who.json()["status"]["userInfo"]["extra"][CREDENTIAL_ID][0].clone();
    let jti = extra.as_str().unwrap_or_default().replace("JTI=", "");
    let fixed = format!("{tenant}/alice");
    let tokens = server.trust().get();
    let fixed_id = tokens.tokens.as_ref().and_then(|tokens| tokens.id(&fixed));
    let now = seconds(SystemTime::now());
    let claims = |jti: Value| json!({"sub": "olga", "org": tenant, "iat": now, "jti": jti});
    let named = fake.token(now, &claims(format!("J-{tenant}").into()))?;
    let nameless = fake.token(now, &claims("".into()))?;
    let digest = jwt::digest_id(&nameless);
    Ok(vec![
        certificate(server, tenant).await?,
        with_token(server, "service account", account, &jti).await?,
        with_token(server, "static token", fixed, &fixed_id.unwrap_or_default()).await?,
        with_token(server, "OpenID token", named, &format!("J-{tenant}")).await?,
        with_token(server, "OpenID token without ID", nameless, &digest).await?,
    ])
}

#[tokio::test]
async fn revoked_credential_is_refused_at_the_next_request_and_its_watches_end() -> Result<()> {
    let fake = FakeProvider::start(Behaviour::Good).await?;
    let settings = Settings {
        tenant_claim: Some("org".to_owned()),
        username_prefix: Some("-".to_owned()),
        ..Settings::new(fake.url(), "insula")
    };
    let provider = Provider::new(settings, &Trust::Authorities(fake.ca_pem().to_owned()))?;
    let setup = Setup {
        provider: Some(Arc::clone(&provider)),
        ..Setup::default()
    };
    let server = start(setup).await?;
    provider.ready().await;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let neighbours = samples(&server, &fake, "t2").await?;
    for (by, path) in [(&system, IN_T1), (&tenant, REVOCATIONS)] {
        for sample in samples(&server, &fake, "t1").await? {
            let Sample { what, client, .. } = &sample;
            assert_eq!(client.get(MAPS).await?.status, 200, "{what}");
            let watch = client.watch(&format!("{MAPS}?watch=true")).await?;
            assert_eq!(watch.status, 200, "{what}");
            let revoked = revoke(by, path, sample.spec.clone()).await?;
            // On the same connection, for whatever is asked.
            for path in [MAPS, "/api", "/version/no", REVOCATIONS] {
                assert_unauthorized(&client.get(path).await?, what);
            }
            assert_ends(watch, what).await?;
            if let Some(token) = &sample.token {
                let status = review(&tenant, token).await?;
                let expected = json!({
                    "user": {},
                    "error": "[invalid bearer token, the token has been revoked]",
                });
                assert_eq!(status, expected, "{what}");
                let elsewhere = review(&server.client("t2").await?, token).await?;
                assert_eq!(elsewhere["error"], "invalid bearer token", "{what}");
            }
            // The same users of another tenant are others.
            for neighbour in &neighbours {
                let answer = neighbour.client.get(MAPS).await?;
                assert_eq!(answer.status, 200, "{what} {}", neighbour.what);
            }
            assert_eq!(by.delete(&revoked).await?.status, 200);
            assert_eq!(client.get(MAPS).await?.status, 200, "{what} restored");
        }
    }
    Ok(())
}

#[tokio::test]
async fn revoked_certificate_is_refused_with_the_other_form_of_its_signature() -> Result<()> {
    let server = start(Setup::default()).await?;
    let tenant = server.tenant("t1").await?;
    let first = server.identity(&subject("carl", &[], "t1")?).await?;
    let mut second = first.clone();
    let other = twin(&first.certificate).context("it is no ECDSA certificate")?;
    second.certificate = other.into();
    let fingerprints = [&first, &second].map(|one| fingerprint(&one.certificate));
    assert_ne!(fingerprints[0], fingerprints[1]);
    let mut clients = Vec::new();
    for identity in [first, second] {
        clients.push(server.client_with_identity(identity, "").await?);
    }
    for id in fingerprints {
        for client in &clients {
            assert_eq!(client.get(MAPS).await?.status, 200);
        }
        let revoked = revoke(&tenant, REVOCATIONS, json!({"certificate": id})).await?;
        for client in &clients {
            assert_unauthorized(&client.get(MAPS).await?, "one of the two forms");
        }
        assert_eq!(tenant.delete(&revoked).await?.status, 200);
    }
    Ok(())
}

#[tokio::test]
async fn revoking_a_user_denies_every_credential_of_that_name_also_later_ones() -> Result<()> {
    let server = start(Setup::default()).await?;
    let tenant = server.tenant("t1").await?;
    let alice = subject("alice", &[], "t1")?;
    let earlier = server.client_with_certificate(&alice, "").await?;
    let fixed = server.client("t1/alice").await?;
    let revoked = revoke(&tenant, REVOCATIONS, json!({"user": "alice"})).await?;
    let later = server.client_with_certificate(&alice, "").await?;
    for client in [&earlier, &fixed, &later] {
        assert_unauthorized(&client.get(MAPS).await?, "alice of t1");
    }
    for other in ["t1/eve", "t2/alice", "system/alice"] {
        let answer = server.client(other).await?.get(MAPS).await?;
        assert_eq!(answer.status, 200, "{other}");
    }
    // An account is a user, too.
    let token = service_account_token(&tenant, "default", "robot").await?;
    let robot = server.client(&token).await?;
    assert_eq!(robot.get(MAPS).await?.status, 200);
    let account = json!({"user": "system:serviceaccount:default:robot"});
    revoke(&tenant, REVOCATIONS, account).await?;
    assert_unauthorized(&robot.get(MAPS).await?, "robot");
    assert_eq!(tenant.delete(&revoked).await?.status, 200);
    for client in [&earlier, &fixed, &later] {
        assert_eq!(client.get(MAPS).await?.status, 200);
    }
    Ok(())
}

#[tokio::test]
async fn revocation_by_time_of_issue_spares_later_credentials() -> Result<()> {
    let server = start(Setup::default()).await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let carl = certificate(&server, "t1").await?.client;
    let token = service_account_token(&tenant, "default", "robot").await?;
    let robot = server.client(&token).await?;
    let fixed = server.client("t1/alice").await?;
    let at = |offset: i64| {
        let time = jiff::Timestamp::from_second(seconds(SystemTime::now()) + offset);
        time.map(|time| time.to_string())
    };
    for (spec, expected) in [
        // A static token says nothing about its age, so it counts as older.
        (json!({"issuedBefore": at(-60)?}), [200, 200, 401]),
        (json!({"issuedBefore": at(60)?}), [401, 401, 401]),
        (
            json!({"user": "carl", "issuedBefore": at(-60)?}),
            [200, 200, 200],
        ),
        (
            json!({"user": "carl", "issuedBefore": at(60)?}),
            [401, 200, 200],
        ),
    ] {
        let revoked = revoke(&system, IN_T1, spec.clone()).await?;
        let mut found = Vec::new();
        for client in [&carl, &robot, &fixed] {
            found.push(client.get(MAPS).await?.status);
        }
        assert_eq!(found, expected, "{spec}");
        assert_eq!(system.delete(&revoked).await?.status, 200);
    }
    Ok(())
}

#[tokio::test]
async fn tenant_cannot_undo_what_the_system_revoked() -> Result<()> {
    let server = start(Setup::default()).await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let theirs = revoke(
        &system,
        IN_T1,
        json!({"user": "eve", "authority": "Tenant"}),
    )
    .await?;
    let stored = system.get(&theirs).await?.json();
    assert_eq!(
        stored["spec"],
        json!({"user": "eve", "authority": "System"})
    );
    let name = stored["metadata"]["name"].as_str().unwrap_or_default();
    let seen = format!("{REVOCATIONS}/{name}");
    assert_eq!(tenant.get(&seen).await?.status, 200, "it is no secret");
    let patch = json!({"spec": {"reason": "none"}});
    for refused in [
        tenant.delete(&seen).await?,
        tenant.delete(REVOCATIONS).await?,
        tenant.patch(&seen, "merge", &patch).await?,
    ] {
        assert_eq!(refused.status, 403, "{}", refused.text());
        let why = "only a user of the system may change or delete it";
        assert!(refused.message().contains(why), "{}", refused.text());
    }
    assert_unauthorized(&server.client("t1/eve").await?.get(MAPS).await?, "eve");
    // Its own revocations are its own, and whatever it claims, they are not the system's.
    let own = json!({"user": "alice", "authority": "System"});
    let own = revoke(&tenant, REVOCATIONS, own).await?;
    assert_eq!(
        tenant.get(&own).await?.json()["spec"]["authority"],
        "Tenant"
    );
    assert_eq!(tenant.patch(&own, "merge", &patch).await?.status, 200);
    assert_eq!(tenant.delete(&own).await?.status, 200);
    assert_eq!(system.patch(&theirs, "merge", &patch).await?.status, 200);
    assert_eq!(system.delete(&theirs).await?.status, 200);
    assert_eq!(server.client("t1/eve").await?.get(MAPS).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn neither_quota_nor_webhook_of_a_tenant_prevents_a_revocation() -> Result<()> {
    let server = start(Setup::default()).await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let hook = json!({"metadata": {"name": "no"}, "webhooks": [{
        "name": "no.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://no.invalid/"}, "failurePolicy": "Fail",
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"],
                   "operations": ["*"]}],
    }]});
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    create(&tenant, hooks, hook).await?;
    assert_eq!(tenant.post(MAPS, &named("x")).await?.status, 500);
    let quota = json!({"spec": {"quota": {"objects": 1}}});
    let limited = system.patch("/api/v1/tenants/t1", "merge", &quota).await?;
    assert_eq!(limited.status, 200, "{}", limited.text());
    let eve = server.client("t1/eve").await?;
    let revoked = revoke(&system, IN_T1, json!({"user": "eve"})).await?;
    assert_unauthorized(&eve.get(MAPS).await?, "eve");
    assert_eq!(system.delete(&revoked).await?.status, 200);
    // The tenant's own revocations count against its quota.
    let own = tenant
        .post(REVOCATIONS, &revocation(json!({"user": "eve"})))
        .await?;
    assert_eq!(own.status, 403, "{}", own.text());
    assert!(own.message().contains("quota"), "{}", own.text());
    Ok(())
}

#[tokio::test]
async fn caller_does_not_revoke_its_own_credential_by_accident() -> Result<()> {
    let server = start(Setup::default()).await?;
    let alice = server.client("t1/alice").await?;
    let far = "2100-01-01T00:00:00Z";
    for spec in [json!({"user": "alice"}), json!({"issuedBefore": far})] {
        let refused = alice.post(REVOCATIONS, &revocation(spec)).await?;
        assert_eq!(refused.status, 403, "{}", refused.text());
        let why = "it would revoke the credential of this very request";
        assert!(refused.message().contains(why), "{}", refused.text());
    }
    assert_eq!(alice.get(MAPS).await?.status, 200);
    // Alice of the system is another one.
    let system = server.client("system/alice").await?;
    let revoked = revoke(&system, IN_T1, json!({"user": "alice"})).await?;
    assert_eq!(system.delete(&revoked).await?.status, 200);
    let mut intended = revocation(json!({"user": "alice"}));
    let annotation = json!({"access.insula.dev/allow-own-credential": "true"});
    intended["metadata"]["annotations"] = annotation;
    create(&alice, REVOCATIONS, intended).await?;
    assert_unauthorized(&alice.get(MAPS).await?, "alice");
    Ok(())
}

#[tokio::test]
async fn impersonation_depends_on_the_credential_of_the_impersonator() -> Result<()> {
    let server = start(Setup::default()).await?;
    let system = server.system().await?;
    let as_dora = [
        ("impersonate-user", "carl"),
        ("impersonate-group", "tenant:t1"),
    ];
    let operator = server.client("system/alice").await?;
    let path = format!("{MAPS}?watch=true");
    // Impersonation uses no credential of the impersonated user.
    let revoked = revoke(&system, IN_T1, json!({"user": "carl"})).await?;
    let watch = operator.watch_with(&path, &as_dora).await?;
    assert_eq!(watch.status, 200);
    // The impersonator's home is not the space that is watched.
    revoke(&system, REVOCATIONS, json!({"user": "alice"})).await?;
    assert_ends(watch, "impersonated").await?;
    assert_unauthorized(&operator.get(MAPS).await?, "the impersonator");
    assert_eq!(
        server.client("t1/alice").await?.get(MAPS).await?.status,
        200
    );
    assert_eq!(system.delete(&revoked).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn revocations_end_with_their_tenant() -> Result<()> {
    let server = start(Setup::with_controllers()).await?;
    let system = server.system().await?;
    revoke(&system, IN_T1, json!({"user": "alice"})).await?;
    revoke(
        &system,
        IN_T1,
        json!({"issuedBefore": "2100-01-01T00:00:00Z"}),
    )
    .await?;
    assert_unauthorized(&server.client("t1/eve").await?.get(MAPS).await?, "eve");
    let tenant = TenantName::parse("t1")?;
    let path = format!("/api/v1/tenants/{tenant}");
    assert!(matches!(system.delete(&path).await?.status, 200 | 202));
    until(&system, &path, |answer| answer.status == 404).await?;
    create(&system, "/api/v1/tenants", named("t1")).await?;
    let alice = server.client("t1/alice").await?;
    let who = alice.post(WHO, &json!({})).await?;
    assert_eq!(who.status, 201, "{}", who.text());
    let listed = system.get(IN_T1).await?.json();
    assert_eq!(listed["items"], json!([]));
    Ok(())
}

#[tokio::test]
async fn revoked_user_stays_out_while_the_tenant_is_deleted() -> Result<()> {
    let server = start(Setup::with_controllers()).await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    revoke(&system, IN_T1, json!({"user": "alice"})).await?;
    let mut held = named("held");
    held["metadata"]["finalizers"] = json!(["example.com/wait"]);
    create(&tenant, MAPS, held).await?;
    let path = "/api/v1/tenants/t1";
    assert!(matches!(system.delete(path).await?.status, 200 | 202));
    // Everything that does not wait for a finalizer is deleted before the conditions are written.
    let is_held = |answer: &Answer| answer.json()["status"]["conditions"].is_array();
    until(&system, path, is_held).await?;
    let (alice, eve) = (
        server.client("t1/alice").await?,
        server.client("t1/eve").await?,
    );
    assert_eq!(
        eve.get(MAPS).await?.status,
        200,
        "the rights are still there"
    );
    assert_unauthorized(&alice.get(MAPS).await?, "alice");
    let released = json!({"metadata": {"finalizers": null}});
    eve.patch(&format!("{MAPS}/held"), "merge", &released)
        .await?;
    until(&system, path, |answer| answer.status == 404).await?;
    Ok(())
}

#[tokio::test]
async fn revocation_survives_a_restart_and_reaches_the_other_servers_of_a_store() -> Result<()> {
    let store = Arc::new(Memory::new());
    let setup = || Setup {
        tokens: TOKENS.to_owned(),
        ..Setup::default()
    };
    let mut first = TestServer::start_on_store(store.clone(), setup()).await?;
    let second = TestServer::start_on_store(store.clone(), setup()).await?;
    let tenant = first.tenant("t1").await?;
    bind(&tenant, None, "eve", "cluster-admin", user("eve")).await?;
    let there = second.client("t1/eve").await?;
    until(&there, MAPS, |answer| answer.status == 200).await?;
    let watch = there.watch(&format!("{MAPS}?watch=true")).await?;
    revoke(&tenant, REVOCATIONS, json!({"user": "eve"})).await?;
    assert_ends(watch, "at the second server").await?;
    assert_unauthorized(&there.get(MAPS).await?, "at the second server");
    first.stop().await;
    let third = TestServer::start_on_store(store, setup()).await?;
    let restarted = third.client("t1/eve").await?;
    assert_unauthorized(&restarted.get(MAPS).await?, "after a restart");
    Ok(())
}

#[tokio::test]
async fn users_of_a_tenant_cannot_make_a_revocation_large() -> Result<()> {
    let server = start(Setup::default()).await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let large = json!({"metadata": {"annotations": {"a": "x".repeat(4096)}}});
    let mut object = revocation(json!({"user": "eve"}));
    object["metadata"]["annotations"] = large["metadata"]["annotations"].clone();
    let refused = tenant.post(REVOCATIONS, &object).await?;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let own = revoke(&tenant, REVOCATIONS, json!({"user": "eve"})).await?;
    let refused = tenant.patch(&own, "merge", &large).await?;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let why = "larger than 4096 bytes";
    assert!(refused.message().contains(why), "{}", refused.text());
    create(&system, IN_T1, object).await?;
    assert_unauthorized(&server.client("t1/eve").await?.get(MAPS).await?, "eve");
    Ok(())
}

#[tokio::test]
async fn users_of_a_tenant_cannot_make_the_list_long() -> Result<()> {
    let server = start(Setup::default()).await?;
    let tenant = server.tenant("t1").await?;
    for number in 0..1000 {
        revoke(&tenant, REVOCATIONS, json!({"user": format!("u-{number}")})).await?;
    }
    let refused = tenant
        .post(REVOCATIONS, &revocation(json!({"user": "eve"})))
        .await?;
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(
        refused.message().contains("1000 revocations"),
        "{}",
        refused.text()
    );
    let system = server.system().await?;
    revoke(&system, IN_T1, json!({"user": "eve"})).await?;
    assert_unauthorized(&server.client("t1/eve").await?.get(MAPS).await?, "eve");
    Ok(())
}
