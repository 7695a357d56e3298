//! OpenID Connect tokens, with well-behaved and misbehaving providers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::{FutureExt, join_all};
use insula_access::jwt::{self, Algorithm, Signer};
use insula_access::oidc::{self, Settings};
use insula_apiserver::pipeline::oidc::{Error, Pace, Provider, SetupError};
use insula_core::{Proof, Space, TenantBinding};
use insula_testkit::oidc::{Behaviour, FakeProvider, Hits};
use insula_tls::Trust;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const NOW: i64 = 1_700_000_000;

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Nothing is fetched in the background.
const SLOW_PACE: Pace = Pace {
    every: Duration::from_secs(3600),
    retry: Duration::from_secs(3600),
    apart: Duration::ZERO,
    timeout: TIMEOUT,
};

/// All intervals are short.
const FAST_PACE: Pace = Pace {
    every: Duration::from_millis(50),
    retry: Duration::from_millis(50),
    apart: Duration::from_millis(50),
    timeout: TIMEOUT,
};

/// An authenticator that trusts a fake provider, and the task that fetches its keys.
struct Authenticator {
    provider: Arc<Provider>,
    task: JoinHandle<()>,
}

impl Authenticator {
    fn start(fake: &FakeProvider, pace: Pace) -> Result<Self> {
        let trust = Trust::Authorities(fake.ca_pem().to_owned());
        let settings = Settings {
            groups_claim: Some("groups".to_owned()),
            ..Settings::new(fake.url(), "insula")
        };
        Self::start_with(settings, pace, &trust)
    }

    fn start_with(settings: Settings, pace: Pace, trust: &Trust) -> Result<Self> {
        let provider = Provider::with_pace(settings, trust, pace)?;
        let running = Arc::clone(&provider);
        let task = tokio::spawn(async move { match running.run().await {} });
        Ok(Self { provider, task })
    }

    /// Starts an authenticator and waits for the first keys.
    async fn ready(fake: &FakeProvider, pace: Pace) -> Result<Self> {
        let authenticator = Self::start(fake, pace)?;
        let ready = tokio::time::timeout(TIMEOUT, authenticator.provider.ready()).await;
        ready.context("the keys were not fetched in time")?;
        Ok(authenticator)
    }

    async fn authenticate(&self, token: &str) -> Result<String, Error> {
        let credential = self.provider.authenticate(token, NOW).await;
        credential.map(|credential| credential.user.clone())
    }

    /// Waits until a token is accepted.
    async fn until_accepted(&self, token: &str) -> Result<()> {
        let accepted = async {
            while self.authenticate(token).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        let accepted = tokio::time::timeout(TIMEOUT, accepted).await;
        accepted.context("the token was not accepted in time")
    }
}

impl Drop for Authenticator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn refused(error: jwt::Error) -> Result<String, Error> {
    Err(Error::Refused(oidc::Error::Token(error)))
}

fn unknown_key() -> Result<String, Error> {
    refused(jwt::Error::UnknownKey)
}

fn untrusted_signer() -> Result<Signer> {
    let key = rcgen::KeyPair::generate()?;
    Ok(Signer::new(key.serialized_der())?)
}

/// A token with this header and signature.
fn forged_token(
    fake: &FakeProvider,
    header: &Value,
    sign: impl Fn(&str) -> Vec<u8>,
) -> Result<String> {
    let good = fake.token(NOW, &json!({}))?;
    let claims = good.split('.').nth(1).context("it has claims")?;
    let message = format!("{}.{claims}", URL_SAFE_NO_PAD.encode(header.to_string()));
    let signature = URL_SAFE_NO_PAD.encode(sign(&message));
    Ok(format!("{message}.{signature}"))
}

#[tokio::test]
async fn valid_tokens_are_verified_once() -> Result<()> {
    let fake = FakeProvider::start(Behaviour::Good).await?;
    let authenticator = Authenticator::ready(&fake, SLOW_PACE).await?;
    let claims = json!({"groups": ["dev", "tenant:t1"], "jti": "J1"});
    let token = fake.token(NOW, &claims)?;
    let credential = authenticator.provider.authenticate(&token, NOW).await?;
    assert_eq!(credential.user, format!("{}#alice", fake.url()));
    assert_eq!(credential.groups, ["dev"]);
    assert_eq!(credential.tenant, Space::parse("t1").ok());
    assert_eq!(credential.tenant_binding, TenantBinding::At(NOW - 60));
    assert_eq!(credential.proof, Proof::Oidc);
    let id = &credential.extra["authentication.kubernetes.io/credential-id"];
    assert_eq!(id, &["JTI=J1"]);
    let again = authenticator.provider.authenticate(&token, NOW).await?;
    assert!(Arc::ptr_eq(&credential, &again));
    // Expiry is checked even for tokens that were verified before.
    let late = authenticator
        .provider
        .authenticate(&token, NOW + 3661)
        .await;
    let expired = oidc::Error::Time(jwt::TimeError::Expired(NOW + 3600));
    assert_eq!(late, Err(Error::Refused(expired)));
    let hits = fake.hits();
    assert_eq!((hits.discovery, hits.keys), (1, 1));
    Ok(())
}

#[tokio::test]
async fn provider_requests_carry_no_token() -> Result<()> {
    let fake = FakeProvider::start(Behaviour::Good).await?;
    let _trusting = Authenticator::ready(&fake, SLOW_PACE).await?;
    let headers = fake.headers();
    let mut names: Vec<&str> = headers.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept", "host", "user-agent"]);
    assert_eq!(headers["host"], fake.address().to_string().as_str());
    Ok(())
}

#[tokio::test]
async fn tokens_of_other_issuers_or_audiences_are_refused_without_a_fetch() -> Result<()> {
    let fake = FakeProvider::start(Behaviour::Good).await?;
    let authenticator = Authenticator::ready(&fake, SLOW_PACE).await?;
    let audience = oidc::Error::Audience {
        expected: "insula".to_owned(),
        found: vec!["other".to_owned()],
    };
    for (claims, expected) in [
        (json!({"iss": "https://other.test"}), oidc::Error::Issuer),
        (
            json!({"iss": format!("{}/", fake.url())}),
            oidc::Error::Issuer,
        ),
        (
            json!({"iss": "kubernetes/serviceaccount"}),
            oidc::Error::Issuer,
        ),
        (json!({"aud": "other"}), audience),
        (
            json!({"exp": NOW - 61}),
            jwt::TimeError::Expired(NOW - 61).into(),
        ),
        (
            json!({"nbf": NOW + 61}),
            jwt::TimeError::NotYetValid(NOW + 61).into(),
        ),
        (
            json!({"iat": NOW + 61}),
            jwt::TimeError::IssuedInFuture(NOW + 61).into(),
        ),
        (
            json!({"groups": ["tenant:"]}),
            insula_access::TenantError::InvalidName(insula_core::NotATenantName).into(),
        ),
    ] {
        let found = authenticator.authenticate(&fake.token(NOW, &claims)?).await;
        assert_eq!(found, Err(Error::Refused(expected)), "{claims}");
    }
    // The issuer is checked before the signature.
    let token = untrusted_signer()?.sign(&json!({"iss": "https://other.test"}))?;
    let foreign = Err(Error::Refused(oidc::Error::Issuer));
    assert_eq!(authenticator.authenticate(&token).await, foreign);
    for (claims, edge) in [("exp", NOW - 60), ("nbf", NOW + 60), ("iat", NOW + 60)] {
        let found = authenticator
            .authenticate(&fake.token(NOW, &json!({claims: edge}))?)
            .await;
        assert_eq!(found, Ok(format!("{}#alice", fake.url())), "{claims}");
    }
    assert_eq!(fake.hits().keys, 1);
    Ok(())
}

#[tokio::test]
async fn forged_tokens_are_refused() -> Result<()> {
    let fake = FakeProvider::start(Behaviour::Good).await?;
    let authenticator = Authenticator::ready(&fake, SLOW_PACE).await?;
    let signer = fake.signer();
    let kid = signer.public().id().context("it has an id")?;
    let jwk = json!(signer.public().to_jwk());
    let hmac = |secret: String| {
        move |message: &str| {
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
            ring::hmac::sign(&key, message.as_bytes()).as_ref().to_vec()
        }
    };
    let secret = hmac(jwk.to_string());
    let (with, nothing) = (
        |alg: &str, kid: &str| json!({"alg": alg, "kid": kid}),
        |_: &str| Vec::new(),
    );
    for (token, expected) in [
        (
            forged_token(&fake, &with("none", kid), nothing)?,
            jwt::Error::Algorithm,
        ),
        (
            forged_token(&fake, &with("HS256", kid), secret)?,
            jwt::Error::Algorithm,
        ),
        (
            forged_token(&fake, &with("ES256", kid), nothing)?,
            jwt::Error::Signature,
        ),
        (
            forged_token(&fake, &with("ES256", kid), |_| vec![0; 64])?,
            jwt::Error::Signature,
        ),
        (
            forged_token(&fake, &with("RS256", kid), |_| vec![1; 256])?,
            jwt::Error::Mismatch,
        ),
        (
            forged_token(&fake, &with("ES256", "../../etc/passwd"), nothing)?,
            jwt::Error::KeyId,
        ),
        (
            forged_token(&fake, &with("ES256", "https://evil.test"), nothing)?,
            jwt::Error::KeyId,
        ),
        ("alice".to_owned(), jwt::Error::Parts),
        (String::new(), jwt::Error::Parts),
    ] {
        assert_eq!(
            authenticator.authenticate(&token).await,
            refused(expected),
            "{token}"
        );
    }
    assert_eq!(fake.hits().keys, 1, "none of them was worth a question");
    // Signed by another key that claims the provider's key ID.
    let claims = json!({
        "iss": fake.url(), "aud": "insula", "sub": "root", "iat": NOW, "exp": NOW + 60,
    });
    let token = untrusted_signer()?.sign(&claims)?;
    assert_eq!(authenticator.authenticate(&token).await, unknown_key());
    assert_eq!(fake.hits().keys, 2, "it could have been a newer key");
    Ok(())
}

#[tokio::test]
async fn unconfigured_algorithms_are_refused() -> Result<()> {
    let fake = FakeProvider::start(Behaviour::Good).await?;
    let trust = Trust::Authorities(fake.ca_pem().to_owned());
    let settings = Settings {
        algorithms: vec![Algorithm::Rs256, Algorithm::Es384],
        ..Settings::new(fake.url(), "insula")
    };
    let authenticator = Authenticator::start_with(settings, SLOW_PACE, &trust)?;
    let found = authenticator
        .authenticate(&fake.token(NOW, &json!({}))?)
        .await;
    let expected = oidc::Error::Algorithm(Algorithm::Es256);
    assert_eq!(found, Err(Error::Refused(expected)));
    Ok(())
}

#[tokio::test]
async fn unknown_key_ids_trigger_a_fetch_and_withdrawn_keys_are_dropped() -> Result<()> {
    let fake = FakeProvider::start(Behaviour::Good).await?;
    let authenticator = Authenticator::ready(&fake, SLOW_PACE).await?;
    let old = fake.token(NOW, &json!({"sub": "old"}))?;
    let alice = |name: &str| Ok(format!("{}#{name}", fake.url()));
    assert_eq!(authenticator.authenticate(&old).await, alice("old"));
    for round in 1..=3 {
        fake.rotate()?;
        let new = fake.token(NOW, &json!({"sub": "new"}))?;
        assert_eq!(authenticator.authenticate(&new).await, alice("new"));
        assert_eq!(fake.hits().keys, 1 + round);
    }
    // The token was accepted before the key was withdrawn.
    assert_eq!(authenticator.authenticate(&old).await, unknown_key());
    Ok(())
}

#[tokio::test]
async fn concurrent_requests_share_a_fetch() -> Result<()> {
    let fake = FakeProvider::start(Behaviour::Good).await?;
    let authenticator = Authenticator::ready(&fake, SLOW_PACE).await?;
    fake.rotate()?;
    let claims = |number| json!({"sub": format!("user-{number}")});
    let tokens: Result<Vec<_>> = (0..50)
        .map(|number| fake.token(NOW, &claims(number)))
        .collect();
    let tokens = tokens?;
    let found = join_all(tokens.iter().map(|token| authenticator.authenticate(token))).await;
    for (number, found) in found.into_iter().enumerate() {
        assert_eq!(found, Ok(format!("{}#user-{number}", fake.url())));
    }
    assert_eq!(fake.hits().keys, 2);
    Ok(())
}

#[tokio::test]
async fn fetches_for_unknown_keys_are_rate_limited() -> Result<()> {
    let fake = FakeProvider::start(Behaviour::Good).await?;
    let pace = Pace {
        apart: Duration::from_secs(3600),
        ..SLOW_PACE
    };
    let authenticator = Authenticator::ready(&fake, pace).await?;
    for number in 0..500 {
        let header = json!({"alg": "ES256", "kid": format!("forged-{number}")});
        let token = forged_token(&fake, &header, |_| vec![1; 64])?;
        assert_eq!(authenticator.authenticate(&token).await, unknown_key());
    }
    // No further fetch happens within a whole fetch interval.
    let other = FakeProvider::start(Behaviour::Good).await?;
    Authenticator::ready(&other, SLOW_PACE).await?;
    let asked = Hits {
        connections: 2,
        discovery: 1,
        keys: 1,
    };
    assert_eq!(fake.hits(), asked);
    // Valid tokens are unaffected.
    let good = fake.token(NOW, &json!({"sub": "bob"}))?;
    assert_eq!(
        authenticator.authenticate(&good).await,
        Ok(format!("{}#bob", fake.url()))
    );
    Ok(())
}

#[tokio::test]
async fn rate_limited_fetches_happen_after_the_interval() -> Result<()> {
    let fake = FakeProvider::start(Behaviour::Good).await?;
    let pace = Pace {
        apart: Duration::from_millis(300),
        ..SLOW_PACE
    };
    let authenticator = Authenticator::ready(&fake, pace).await?;
    fake.rotate()?;
    let token = fake.token(NOW, &json!({}))?;
    // A single request, even a refused one, is enough to trigger the fetch.
    authenticator.authenticate(&token).await.ok();
    fake.asked(|hits| hits.keys == 2).await?;
    authenticator.until_accepted(&token).await?;
    assert_eq!(fake.hits().keys, 2);
    Ok(())
}

#[tokio::test]
async fn cancelled_requests_do_not_interrupt_a_fetch() -> Result<()> {
    let fake = FakeProvider::start(Behaviour::Good).await?;
    let authenticator = Authenticator::ready(&fake, SLOW_PACE).await?;
    fake.rotate()?;
    let token = fake.token(NOW, &json!({}))?;
    {
        let mut asking = std::pin::pin!(authenticator.authenticate(&token));
        let once = asking.as_mut().now_or_never();
        assert_eq!(once, None);
    }
    fake.asked(|hits| hits.keys == 2).await?;
    authenticator.until_accepted(&token).await?;
    assert_eq!(fake.hits().keys, 2);
    Ok(())
}

#[tokio::test]
async fn tokens_are_refused_until_the_first_keys_arrive() -> Result<()> {
    for manner in [
        Behaviour::Down,
        Behaviour::Failing,
        Behaviour::Redirecting,
        Behaviour::RedirectingKeys,
        Behaviour::Huge,
        Behaviour::Impostor,
        Behaviour::PlainKeys,
        Behaviour::Html,
    ] {
        let fake = FakeProvider::start(manner).await?;
        let authenticator = Authenticator::start(&fake, FAST_PACE)?;
        let token = fake.token(NOW, &json!({}))?;
        let not_ready = Error::NotReady(fake.url().to_owned());
        // An attempt makes at most two connections: two attempts have failed.
        fake.asked(|hits| hits.connections > 4).await?;
        let found = authenticator.authenticate(&token).await;
        assert_eq!(found, Err(not_ready), "{manner:?}");
        fake.set_behaviour(Behaviour::Good);
        let accepted = authenticator.until_accepted(&token).await;
        accepted.with_context(|| format!("{manner:?}"))?;
    }
    Ok(())
}

#[tokio::test]
async fn last_keys_stay_valid_while_the_provider_fails() -> Result<()> {
    let mut fake = FakeProvider::start(Behaviour::Good).await?;
    let authenticator = Authenticator::ready(&fake, FAST_PACE).await?;
    let user = |name: &str| Ok(format!("{}#{name}", fake.url()));
    for manner in [
        Behaviour::Down,
        Behaviour::Failing,
        Behaviour::Huge,
        Behaviour::Impostor,
        Behaviour::Html,
    ] {
        fake.set_behaviour(manner);
        let before = fake.hits().connections;
        // One fetch that started before, and one that started after.
        fake.asked(|hits| hits.connections > before + 4).await?;
        let name = format!("{manner:?}");
        let token = fake.token(NOW, &json!({"sub": name}))?;
        assert_eq!(authenticator.authenticate(&token).await, user(&name));
    }
    let token = fake.token(NOW, &json!({"sub": "late"}))?;
    let expected = user("late");
    let untrusted_signer = untrusted_signer()?.sign(&json!({"iss": fake.url()}))?;
    fake.stop().await;
    assert_eq!(authenticator.authenticate(&token).await, expected);
    assert_eq!(
        authenticator.authenticate(&untrusted_signer).await,
        unknown_key()
    );
    Ok(())
}

#[tokio::test]
async fn withdrawn_keys_are_dropped_by_the_periodic_fetch() -> Result<()> {
    let fake = FakeProvider::start(Behaviour::Good).await?;
    let authenticator = Authenticator::ready(&fake, FAST_PACE).await?;
    let token = fake.token(NOW, &json!({}))?;
    fake.set_behaviour(Behaviour::Keyless);
    let forgotten = async {
        while authenticator.authenticate(&token).await != unknown_key() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, forgotten).await?;
    Ok(())
}

#[tokio::test]
async fn hanging_provider_requests_time_out_and_are_retried() -> Result<()> {
    let fake = FakeProvider::start(Behaviour::Silent).await?;
    let pace = Pace {
        timeout: Duration::from_millis(200),
        ..FAST_PACE
    };
    let authenticator = Authenticator::start(&fake, pace)?;
    fake.asked(|hits| hits.discovery > 1).await?;
    let token = fake.token(NOW, &json!({}))?;
    let not_ready = Error::NotReady(fake.url().to_owned());
    assert_eq!(authenticator.authenticate(&token).await, Err(not_ready));
    fake.set_behaviour(Behaviour::Good);
    authenticator.until_accepted(&token).await
}

#[tokio::test]
async fn waiting_for_keys_times_out() -> Result<()> {
    let fake = FakeProvider::start(Behaviour::Good).await?;
    let pace = Pace {
        timeout: Duration::from_millis(500),
        ..SLOW_PACE
    };
    let authenticator = Authenticator::ready(&fake, pace).await?;
    fake.set_behaviour(Behaviour::Silent);
    let token = untrusted_signer()?.sign(&json!({"iss": fake.url()}))?;
    let found = tokio::time::timeout(TIMEOUT, authenticator.authenticate(&token)).await?;
    assert_eq!(found, unknown_key());
    // Also when the fetch task has stopped because the server shuts down.
    authenticator.task.abort();
    let found = tokio::time::timeout(TIMEOUT, authenticator.authenticate(&token)).await?;
    assert_eq!(found, unknown_key());
    Ok(())
}

#[tokio::test]
async fn only_the_configured_ca_is_trusted() -> Result<()> {
    let fake = FakeProvider::start(Behaviour::Good).await?;
    let other = FakeProvider::start(Behaviour::Good).await?;
    let token = fake.token(NOW, &json!({}))?;
    for trust in [Trust::Authorities(other.ca_pem().to_owned()), Trust::System] {
        let settings = Settings::new(fake.url(), "insula");
        let authenticator = Authenticator::start_with(settings, FAST_PACE, &trust)?;
        let before = fake.hits().connections;
        fake.asked(|hits| hits.connections > before + 1).await?;
        let not_ready = Error::NotReady(fake.url().to_owned());
        assert_eq!(authenticator.authenticate(&token).await, Err(not_ready));
    }
    assert_eq!(fake.hits().discovery, 0, "no request was sent");
    Ok(())
}

#[tokio::test]
async fn invalid_provider_settings_are_refused() {
    for (url, trust, expected) in [
        (
            "http://issuer.test",
            Trust::System,
            "the issuer must be an https URL without user, query and fragment",
        ),
        (
            "https://issuer.test",
            Trust::Authorities(String::new()),
            "the OpenID provider's CA is not a certificate in PEM",
        ),
    ] {
        let created = Provider::new(Settings::new(url, "insula"), &trust);
        let error: SetupError = created.err().unwrap();
        assert_eq!(error.to_string(), expected);
    }
}
