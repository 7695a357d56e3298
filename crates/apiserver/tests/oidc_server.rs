//! A server that trusts an OpenID Connect provider: what its tokens grant and what they do not.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use insula_access::jwt::Signer;
use insula_access::oidc::Settings;
use insula_access::{Authority, Subject, Validity};
use insula_apiserver::pipeline::oidc::{Pace, Provider};
use insula_core::Space;
use insula_testkit::oidc::{Behaviour, FakeProvider};
use insula_testkit::server::{Answer, Client, Engine, Identity, Setup, TestServer};
use insula_tls::Trust;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Keys are fetched at startup and when an unknown key ID appears.
const SLOW_PACE: Pace = Pace {
    every: Duration::from_secs(3600),
    retry: Duration::from_millis(50),
    apart: Duration::ZERO,
    timeout: TIMEOUT,
};

/// A fake provider and a server that trusts it.
struct Fixture {
    fake: FakeProvider,
    server: TestServer,
    provider: Arc<Provider>,
}

impl Fixture {
    async fn start() -> Result<Self> {
        Self::start_with(Setup::default()).await
    }

    async fn start_with(setup: Setup) -> Result<Self> {
        Self::start_on(Behaviour::Good, setup, |_| {})
            .await?
            .ready()
            .await
    }

    async fn start_configured(configure: impl FnOnce(&mut Settings)) -> Result<Self> {
        let setup = Setup {
            default_tenant: Some(Space::System),
            ..Setup::default()
        };
        Self::start_on(Behaviour::Good, setup, configure)
            .await?
            .ready()
            .await
    }

    async fn ready(self) -> Result<Self> {
        let fixture = self;
        let ready = tokio::time::timeout(TIMEOUT, fixture.provider.ready()).await;
        ready.context("the keys were not fetched in time")?;
        Ok(fixture)
    }

    async fn start_on(
        manner: Behaviour,
        setup: Setup,
        configure: impl FnOnce(&mut Settings),
    ) -> Result<Self> {
        let fake = FakeProvider::start(manner).await?;
        let mut settings = Settings {
            groups_claim: Some("groups".to_owned()),
            tenant_claim: Some("org".to_owned()),
            username_prefix: Some("-".to_owned()),
            ..Settings::new(fake.url(), "insula")
        };
        configure(&mut settings);
        let trust = Trust::Authorities(fake.ca_pem().to_owned());
        let provider = Provider::with_pace(settings, &trust, SLOW_PACE)?;
        let setup = Setup {
            provider: Some(Arc::clone(&provider)),
            ..setup
        };
        let server = TestServer::start_on(Engine::Memory, setup).await?;
        Ok(Self {
            fake,
            server: server.context("memory is always there")?,
            provider,
        })
    }

    /// A token that is valid from now on.
    fn token(&self, extra: &Value) -> Result<String> {
        let mut claims = json!({"iat": now()});
        for (name, value) in extra.as_object().into_iter().flatten() {
            claims[name] = value.clone();
        }
        self.fake.token(now(), &claims)
    }

    /// A client with such a token.
    async fn client_with(&self, claims: &Value) -> Result<Client> {
        self.server.client(&self.token(claims)?).await
    }

    /// The result of a token review in the space of this client.
    async fn review(&self, of: &Client, token: &str, audiences: &[&str]) -> Result<Value> {
        let question = json!({"spec": {"token": token, "audiences": audiences}});
        let answer = of.post(REVIEWS, &question).await?;
        anyhow::ensure!(answer.status == 201, "{}", answer.text());
        Ok(answer.json()["status"].clone())
    }
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// The user, groups and tenant that the server reports.
async fn whoami(client: &Client) -> Result<Value> {
    let answer = client.post(WHO, &json!({})).await?;
    anyhow::ensure!(answer.status == 201, "{}", answer.text());
    let user = &answer.json()["status"]["userInfo"];
    let tenant = &user["extra"]["insula.dev/tenant"][0];
    Ok(json!([user["username"], user["groups"], tenant]))
}

/// Binds a role in the space of this client.
async fn bind(by: &Client, name: &str, role: &str, subject: Value) -> Result<()> {
    let binding = json!({"metadata": {"name": name}, "subjects": [subject],
        "roleRef": {"kind": "ClusterRole", "name": role}});
    let created = by.post(BINDINGS, &binding).await?;
    anyhow::ensure!(created.status == 201, "{}", created.text());
    Ok(())
}

fn status_and_message(answer: &Answer) -> (u16, String) {
    (answer.status, answer.message())
}

fn unauthorized() -> (u16, String) {
    (401, "Unauthorized".to_owned())
}

#[tokio::test]
async fn tenant_claim_determines_the_space() -> Result<()> {
    let fixture = Fixture::start().await?;
    fixture.server.tenant("t1").await?;
    let everybody = "system:authenticated";
    for (claims, groups, home) in [
        (json!({"org": "t1"}), json!([everybody]), "t1"),
        (json!({"org": "tenant:t1"}), json!([everybody]), "t1"),
        (
            json!({"org": "t1", "groups": ["tenant:t1", "ops"]}),
            json!(["ops", everybody]),
            "t1",
        ),
        // Users may create groups at the provider; only the claim names the tenant.
        (
            json!({"org": "t1", "groups": ["tenant:t2", "tenant:system", "tenant:", "ops"]}),
            json!(["ops", everybody]),
            "t1",
        ),
        // The provider cannot assign the server's own groups to a tenant's user.
        (
            json!({"org": "t1", "groups":
                ["system:masters", "dev", "system:nodes", "system:authenticated"]}),
            json!(["dev", everybody]),
            "t1",
        ),
        (
            json!({"org": "system", "groups": ["system:masters"]}),
            json!(["system:masters", everybody]),
            "system",
        ),
    ] {
        let found = whoami(&fixture.client_with(&claims).await?).await?;
        assert_eq!(found, json!(["alice", groups, home]), "{claims}");
    }
    for groups in [&["dev"][..], &["tenant:t1"], &["tenant:system"]] {
        let stray = fixture.client_with(&json!({"groups": groups})).await?;
        let refused = stray.post(WHO, &json!({})).await?;
        assert_eq!(refused.status, 403);
        let why = "the credential names no tenant";
        assert!(refused.message().contains(why), "{}", refused.text());
    }
    for claims in [
        json!({"org": "T1"}),
        json!({"org": ["t1"]}),
        json!({"org": ""}),
        json!({"org": "all"}),
    ] {
        let anonymous = fixture.client_with(&claims).await?.get("/api").await?;
        assert_eq!(status_and_message(&anonymous), unauthorized(), "{claims}");
    }
    Ok(())
}

#[tokio::test]
async fn group_names_the_tenant_without_a_tenant_claim() -> Result<()> {
    let fixture = Fixture::start_configured(|settings| settings.tenant_claim = None).await?;
    fixture.server.tenant("t1").await?;
    let claims = json!({"org": "t2", "groups": ["dev", "tenant:t1"]});
    let found = whoami(&fixture.client_with(&claims).await?).await?;
    assert_eq!(
        found,
        json!(["alice", ["dev", "system:authenticated"], "t1"])
    );
    let both = json!({"groups": ["tenant:t1", "tenant:t2"]});
    let refused = fixture.client_with(&both).await?.get("/api").await?;
    assert_eq!(status_and_message(&refused), unauthorized());
    Ok(())
}

#[tokio::test]
async fn provider_for_tenants_only_reaches_no_other_space() -> Result<()> {
    let fixture = Fixture::start_configured(|settings| settings.tenants_only = true).await?;
    let one = fixture.server.tenant("t1").await?;
    let found = whoami(&fixture.client_with(&json!({"org": "t1"})).await?).await?;
    assert_eq!(found, json!(["alice", ["system:authenticated"], "t1"]));
    for claims in [
        json!({}),
        json!({"org": "system"}),
        json!({"org": "tenant:system", "groups": ["system:masters"]}),
        json!({"groups": ["tenant:t1"]}),
        json!({"groups": ["tenant:system", "system:masters"]}),
    ] {
        let refused = fixture.client_with(&claims).await?.get("/api").await?;
        assert_eq!(status_and_message(&refused), unauthorized(), "{claims}");
        let why = "[invalid bearer token, oidc: the token names no tenant, and the provider is \
                   for tenants only]";
        let reviewed = fixture.review(&one, &fixture.token(&claims)?, &[]).await?;
        assert_eq!(reviewed, json!({"user": {}, "error": why}), "{claims}");
    }
    Ok(())
}

#[tokio::test]
async fn tokens_without_a_tenant_belong_to_the_default_tenant() -> Result<()> {
    for (default, groups) in [
        ("home", json!(["dev", "system:authenticated"])),
        (
            "system",
            json!(["dev", "system:masters", "system:authenticated"]),
        ),
    ] {
        let setup = Setup {
            default_tenant: Some(Space::parse(default)?),
            ..Setup::default()
        };
        let fixture = Fixture::start_with(setup).await?;
        let claims = json!({"groups": ["dev", "system:masters"]});
        let found = whoami(&fixture.client_with(&claims).await?).await?;
        assert_eq!(found, json!(["alice", groups, default]));
        fixture.server.tenant("t1").await?;
        let found = whoami(&fixture.client_with(&json!({"org": "t1"})).await?).await?;
        assert_eq!(found, json!(["alice", ["system:authenticated"], "t1"]));
    }
    Ok(())
}

#[tokio::test]
async fn bindings_apply_to_the_users_name_and_groups_in_its_tenant() -> Result<()> {
    let fixture = Fixture::start().await?;
    let (one, _) = (
        fixture.server.tenant("t1").await?,
        fixture.server.tenant("t2").await?,
    );
    let group = json!({"kind": "Group", "name": "dev"});
    bind(&one, "by-group", "view", group).await?;
    bind(
        &one,
        "by-name",
        "edit",
        json!({"kind": "User", "name": "bob"}),
    )
    .await?;
    let note = json!({"metadata": {"name": "note"}});
    for (claims, reads, writes) in [
        (json!({"org": "t1", "groups": ["dev"]}), 200, 403),
        (json!({"org": "t1", "groups": "dev"}), 200, 403),
        (json!({"org": "t1", "sub": "bob"}), 200, 201),
        (json!({"org": "t1", "sub": "Bob"}), 403, 403),
        (json!({"org": "t1", "groups": ["devs"]}), 403, 403),
        // The same names have no permissions in another tenant.
        (json!({"org": "t2", "groups": ["dev"]}), 403, 403),
        (json!({"org": "t2", "sub": "bob"}), 403, 403),
    ] {
        let client_with = fixture.client_with(&claims).await?;
        assert_eq!(client_with.get(MAPS).await?.status, reads, "{claims}");
        assert_eq!(
            client_with.post(MAPS, &note).await?.status,
            writes,
            "{claims}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn tokens_are_refused_in_every_other_space() -> Result<()> {
    let fixture = Fixture::start().await?;
    let one = fixture.server.tenant("t1").await?;
    fixture.server.tenant("t2").await?;
    let user = json!({"kind": "User", "name": "alice"});
    bind(&one, "alice", "cluster-admin", user).await?;
    let alice = fixture.client_with(&json!({"org": "t1"})).await?;
    assert_eq!(alice.get(MAPS).await?.status, 200);
    for (path, place) in [
        ("/api/v1/tenants/t2/pods", "in the tenant \"t2\""),
        ("/api/v1/tenants/nowhere/pods", "in the tenant \"nowhere\""),
        ("/api/v1/tenants/system/pods", "in the tenant \"system\""),
        ("/api/v1/tenants/all/pods", "in all tenants"),
        ("/tenants/t2/api/v1/pods", "in the tenant \"t2\""),
    ] {
        let why = format!(
            "pods is forbidden: User \"alice\" cannot list resource \"pods\" in API group \"\" \
             {place}"
        );
        assert_eq!(
            status_and_message(&alice.get(path).await?),
            (403, why),
            "{path}"
        );
    }
    // A tenant that does not exist is refused like any other.
    let ghost = fixture.client_with(&json!({"org": "nowhere"})).await?;
    assert_eq!(ghost.get("/api").await?.status, 403);
    assert_eq!(ghost.get("/api/v1/pods").await?.status, 403);
    Ok(())
}

#[tokio::test]
async fn tokens_issued_before_the_tenant_was_created_are_refused() -> Result<()> {
    let fixture = Fixture::start_with(Setup::with_controllers()).await?;
    let one = fixture.server.tenant("t1").await?;
    let masters = json!({"kind": "User", "name": "alice"});
    bind(&one, "alice", "cluster-admin", masters.clone()).await?;
    let early = fixture.token(&json!({"org": "t1", "iat": now() - 60}))?;
    let good = fixture.token(&json!({"org": "t1"}))?;
    let issued = now();
    for (token, code) in [(&early, 403), (&good, 200)] {
        let client_with = fixture.server.client(token).await?;
        assert_eq!(client_with.get(MAPS).await?.status, code);
        assert_eq!(client_with.get("/api").await?.status, code);
    }
    let invalid = json!({"user": {}, "error": "invalid bearer token"});
    assert_eq!(fixture.review(&one, &early, &[]).await?, invalid);
    let review = fixture.review(&one, &good, &[]).await?;
    assert_eq!(review["authenticated"], true);
    // Another tenant of the name is created, at least a second after the token was issued.
    let system = fixture.server.system().await?;
    system.delete("/api/v1/tenants/t1").await?;
    let deadline = Instant::now() + TIMEOUT;
    while system.get("/api/v1/tenants/t1").await?.status != 404 || now() <= issued {
        anyhow::ensure!(Instant::now() < deadline, "the tenant is not gone in time");
        tokio::task::yield_now().await;
    }
    let one = fixture.server.tenant("t1").await?;
    bind(&one, "alice", "cluster-admin", masters).await?;
    let old = fixture.server.client(&good).await?;
    for path in [MAPS, "/api"] {
        assert_eq!(old.get(path).await?.status, 403, "{path}");
    }
    assert_eq!(fixture.review(&one, &good, &[]).await?, invalid);
    let fresh = fixture.client_with(&json!({"org": "t1"})).await?;
    assert_eq!(fresh.get(MAPS).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn token_reviews_succeed_in_the_tokens_own_space_only() -> Result<()> {
    let fixture = Fixture::start().await?;
    let (one, other) = (
        fixture.server.tenant("t1").await?,
        fixture.server.tenant("t2").await?,
    );
    let system = fixture.server.system().await?;
    let token = fixture.token(&json!({"org": "t1", "groups": ["dev"], "jti": "J1"}))?;
    let ours = "https://insula.test";
    let tenant = system.get("/api/v1/tenants/t1").await?.json();
    let uid = tenant["metadata"]["uid"].as_str().unwrap_or_default();
    let tenants = &format!("{ours}/tenants/t1/issuers/{uid}");
    let known = |audiences: &[&str]| {
        json!({
            "authenticated": true,
            "user": {"username": "alice", "groups": ["dev", "system:authenticated"],
                "extra": {"authentication.kubernetes.io/credential-id": ["JTI=J1"],
                    "insula.dev/tenant": ["t1"]}},
            "audiences": audiences,
        })
    };
    for (audiences, expected) in [
        (&[][..], &[tenants, ours][..]),
        (&[ours], &[ours]),
        (&[tenants], &[tenants]),
        (&["other", ours], &[ours]),
    ] {
        let found = fixture.review(&one, &token, audiences).await?;
        assert_eq!(found, known(expected), "{audiences:?}");
    }
    let invalid = json!({"user": {}, "error": "invalid bearer token"});
    for (of, audiences) in [
        (&one, &["other"][..]),
        // The provider's audience differs from the audience of this server's own tokens.
        (&one, &["insula"]),
        (&other, &[]),
        (&system, &[]),
    ] {
        let found = fixture.review(of, &token, audiences).await?;
        assert_eq!(found, invalid, "{audiences:?}");
    }
    let expired = fixture.token(&json!({"org": "t1", "exp": now() - 61}))?;
    let found = fixture.review(&one, &expired, &[]).await?;
    assert_eq!(found["user"], json!({}));
    let why = found["error"].as_str().unwrap_or("");
    assert!(why.starts_with("[invalid bearer token, oidc: "), "{found}");
    Ok(())
}

#[tokio::test]
async fn tokens_not_issued_for_this_server_are_refused() -> Result<()> {
    let fixture = Fixture::start().await?;
    fixture.server.tenant("t1").await?;
    let key = rcgen::KeyPair::generate()?;
    let stranger = Signer::new(key.serialized_der())?;
    let claims = json!({"iss": fixture.fake.url(), "aud": "insula", "sub": "alice", "org": "t1",
        "iat": now(), "exp": now() + 60});
    let good = fixture.token(&json!({"org": "t1"}))?;
    let (message, signature) = good.rsplit_once('.').context("it is signed")?;
    let other = fixture.token(&json!({"org": "system", "groups": ["system:masters"]}))?;
    let (foreign, _) = other.rsplit_once('.').context("it is signed")?;
    for token in [
        stranger.sign(&claims)?,
        format!("{message}."),
        message.to_owned(),
        format!("{foreign}.{signature}"),
        format!("{good}x"),
        fixture.token(&json!({"org": "t1", "aud": "other"}))?,
        fixture.token(&json!({"org": "t1", "exp": now() - 61}))?,
        fixture.token(&json!({"org": "t1", "iat": now() + 120}))?,
        // User names and issuers that look like those of service accounts.
        fixture.token(&json!({"org": "t1", "sub": "system:serviceaccount:default:default"}))?,
        fixture.token(&json!({"org": "t1", "sub": "system:admin"}))?,
        fixture.token(&json!({"org": "t1", "iss": "https://insula.test"}))?,
        "alice".to_owned(),
    ] {
        let answer = fixture.server.client(&token).await?.get("/api").await?;
        assert_eq!(status_and_message(&answer), unauthorized(), "{token}");
    }
    let answer = fixture.server.client(&good).await?.get("/api").await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    Ok(())
}

#[tokio::test]
async fn valid_certificates_take_precedence_and_invalid_ones_are_ignored() -> Result<()> {
    let fixture = Fixture::start().await?;
    fixture.server.tenant("t1").await?;
    let good = fixture.token(&json!({"org": "t1"}))?;
    let subject = Subject {
        user: "carol".to_owned(),
        groups: Vec::new(),
        tenant: Some(Space::parse("t1")?),
        tenant_uid: None,
    };
    let everybody = json!(["system:authenticated"]);
    let both = fixture
        .server
        .client_with_certificate(&subject, &good)
        .await?;
    assert_eq!(whoami(&both).await?, json!(["carol", everybody, "t1"]));
    // A certificate of an untrusted CA.
    let validity = Validity::starting(SystemTime::now(), Duration::from_secs(3600));
    let authority = Authority::generate("insula test", validity)?;
    let key = rcgen::KeyPair::generate()?;
    let issued = authority.issue_client(&subject, &key, validity)?;
    let ca = fixture.server.authority().certificate_pem();
    let ca = CertificateDer::from_pem_slice(ca.as_bytes())?;
    for (token, expected) in [(&*good, Some("alice")), ("", None), ("made-up", None)] {
        let identity = Identity {
            certificate: CertificateDer::from_pem_slice(issued.as_bytes())?,
            key: PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())?,
        };
        let address = fixture.server.address();
        let client = Client::connect_as(address, &ca, Some(identity), token).await?;
        match expected {
            Some(user) => assert_eq!(whoami(&client).await?, json!([user, everybody, "t1"])),
            None => assert_eq!(
                status_and_message(&client.get("/api").await?),
                unauthorized()
            ),
        }
    }
    Ok(())
}

#[tokio::test]
async fn keys_can_be_rotated_while_serving() -> Result<()> {
    let fixture = Fixture::start().await?;
    fixture.server.tenant("t1").await?;
    let mut before = fixture.token(&json!({"org": "t1", "sub": "s0"}))?;
    for round in 1..=3 {
        // On a connection that stays open: authentication happens per request.
        let client_with = fixture.server.client(&before).await?;
        assert_eq!(client_with.get("/api").await?.status, 200);
        fixture.fake.rotate()?;
        let user = format!("s{round}");
        let next = fixture.token(&json!({"org": "t1", "sub": user}))?;
        let found = whoami(&fixture.server.client(&next).await?).await?;
        assert_eq!(found, json!([user, ["system:authenticated"], "t1"]));
        assert_eq!(
            status_and_message(&client_with.get("/api").await?),
            unauthorized()
        );
        before = next;
    }
    // The last keys stay valid while the provider is down.
    fixture.fake.set_behaviour(Behaviour::Down);
    let client_with = fixture.server.client(&before).await?;
    assert_eq!(client_with.get("/api").await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn missing_keys_do_not_affect_other_authenticators() -> Result<()> {
    let fixture = Fixture::start_on(Behaviour::Down, Setup::default(), |_| {}).await?;
    let one = fixture.server.tenant("t1").await?;
    let client_with = fixture.client_with(&json!({"org": "t1"})).await?;
    assert_eq!(
        status_and_message(&client_with.get("/api").await?),
        unauthorized()
    );
    assert_eq!(one.get(MAPS).await?.status, 200);
    fixture.fake.set_behaviour(Behaviour::Good);
    let ready = tokio::time::timeout(TIMEOUT, fixture.provider.ready()).await;
    ready.context("the keys were not fetched in time")?;
    assert_eq!(client_with.get("/api").await?.status, 200);
    Ok(())
}
