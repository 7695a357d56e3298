//! Logins of all sorts of accounts, against servers of the test.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use insula_identity::credential::{Hidden, Source};
use insula_identity::session::{Concurrency, Sessions, Settings, Unavailable};
use insula_identity::shape::Shape;
use serde_json::{Value, json};

use super::*;
use crate::arm::client::user_agent;
use crate::arm::id::ResourceId;
use crate::arm::test_server::{self, Received, Reply, Server};
use crate::entra::assertion::{Assertion, AssertionError};
use crate::entra::shape::{
    ADDITIONAL_TENANTS, AUDIENCE, AUTH_MODE, AUTHORITY, AccountShape, CERTIFICATE,
    CERTIFICATE_PASSWORD, CLIENT_ID, CLIENT_SECRET, RESOURCE_MANAGER, SUBSCRIPTION_ID, TENANT_ID,
};
use crate::entra::{AssertionFor as For, Cloud};

const TIMEOUT: Duration = Duration::from_secs(20);
const SECRET: &str = "s3cret+value&=%";
const CLIENT_CERTIFICATE: &[u8] = include_bytes!("../../entra/certificate/data/aes256.p12");

/// Assertions with the namespace of the account as subject.
struct Subjects;

impl Assertions for Subjects {
    fn assertion<'a>(
        &'a self,
        account: &'a For,
    ) -> BoxFuture<'a, Result<Assertion, AssertionError>> {
        let subject = match &account.source {
            Source::Secret { namespace, .. } => format!("system:serviceaccount:{namespace}:aso"),
            _ => "operator".to_owned(),
        };
        let claims = json!({"iss": "https://issuer", "sub": subject, "aud": "api://x"});
        let claims = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
        Box::pin(async move { Assertion::new(&format!("e30.{claims}.c2ln")) })
    }
}

fn token(text: &str) -> Reply {
    let body = json!({"token_type": "Bearer", "expires_in": 3599, "access_token": text});
    test_server::json(200, body)
}

/// Answers with a token that names the tenant in the path.
fn authority(_: usize, request: &Received) -> Reply {
    let tenant = request.line.rsplit("/oauth2").nth(1).unwrap_or_default();
    token(&format!(
        "token-of-{}",
        tenant.rsplit('/').next().unwrap_or_default()
    ))
}

fn subscriptions(servers: &[&Server], metadata: &BaseUrl) -> Subscriptions {
    Subscriptions {
        clients: Server::clients(servers),
        assertions: Arc::new(Subjects),
        metadata_service: metadata.clone(),
        user_agent: user_agent("").unwrap(),
        cleartext: Cleartext::Loopback,
        observer: Arc::new(()),
        request_timeout: TIMEOUT,
        token_timeout: TIMEOUT,
    }
}

/// Returns the credential of a namespace with these values and endpoints.
fn credential(authority: &str, arm: &BaseUrl, values: &[(&str, &[u8])]) -> Credential {
    let shape = AccountShape {
        cloud: Cloud::custom(
            authority,
            &arm.to_string(),
            "https://aud/",
            Cleartext::Loopback,
        )
        .unwrap(),
        may_name_endpoints: true,
        managed_identities: crate::entra::shape::ManagedIdentities::Any,
        shares_own_token: false,
        cleartext: Cleartext::Loopback,
    };
    let (arm, ids) = (arm.to_string(), [SUBSCRIPTION_ID, TENANT_ID, CLIENT_ID]);
    let endpoints = [
        (RESOURCE_MANAGER, arm.as_str()),
        (AUDIENCE, "https://aud/"),
        (AUTHORITY, authority),
    ];
    let endpoints = endpoints.map(|(key, value)| (key.to_owned(), Hidden::new(value)));
    let ids = ids.map(|key| {
        (
            key.to_owned(),
            Hidden::new(key.to_lowercase().replace('_', "-")),
        )
    });
    let values = values
        .iter()
        .map(|(key, value)| ((*key).to_owned(), Hidden::new(*value)));
    let data: BTreeMap<_, _> = endpoints.into_iter().chain(ids).chain(values).collect();
    let content = shape.read(&data, None).unwrap();
    let carried = content.carried.unwrap();
    Credential {
        source: Source::Secret {
            namespace: "team-a".to_owned(),
            name: "aso-credential".to_owned(),
            uid: "1".to_owned(),
            part: None,
        },
        scope: carried.scope,
        ..Credential::of_operator(content.values, carried.endpoint)
    }
}

async fn log_in(
    subscriptions: &Subscriptions,
    credential: &Credential,
) -> Result<Session, LoginError> {
    let key = Key::of(Some(Arc::from("space")), credential);
    subscriptions.log_in(&key, credential).await
}

#[tokio::test]
async fn client_secret_is_exchanged_for_a_token_of_each_tenant() {
    let sts = Server::start_tls(authority).await;
    let arm = Server::start_tls(|_, _| test_server::json(200, json!({}))).await;
    let subscriptions = subscriptions(&[&sts, &arm], &arm.url);
    let values = [
        (CLIENT_SECRET, SECRET.as_bytes()),
        (ADDITIONAL_TENANTS, b"t-2"),
    ];
    let credential = credential(&sts.url.to_string(), &arm.url, &values);
    let session = log_in(&subscriptions, &credential).await.unwrap();
    assert_eq!(session.subscription(), "azure-subscription-id");
    let id = ResourceId::of_subscription(session.subscription()).unwrap();
    session.client().get(&id, "1").await.unwrap();
    let request = arm.requests().remove(0);
    assert_eq!(
        request.header("authorization"),
        Some("Bearer token-of-azure-tenant-id")
    );
    assert_eq!(
        request.header("x-ms-authorization-auxiliary"),
        Some("Bearer token-of-t-2")
    );
    assert!(subscriptions.is_alive(&session).await.unwrap());
    let mut requests = sts.requests();
    requests.sort_by(|a, b| a.line.cmp(&b.line));
    let lines: Vec<_> = requests
        .iter()
        .map(|request| request.line.as_str())
        .collect();
    let expected = [
        "POST /azure-tenant-id/oauth2/v2.0/token",
        "POST /t-2/oauth2/v2.0/token",
    ];
    assert_eq!(lines, expected);
    for request in requests {
        let content_type = request.header("content-type");
        assert_eq!(content_type, Some("application/x-www-form-urlencoded"));
        let field = |name| request.field(name).unwrap();
        assert_eq!(field("grant_type"), "client_credentials");
        assert_eq!(field("client_id"), "azure-client-id");
        assert_eq!(field("scope"), "https://aud//.default");
        assert_eq!(field("client_secret"), SECRET);
    }
    let shown = format!("{session:?}");
    assert!(
        !shown.contains("token-of") && !shown.contains("s3cret"),
        "{shown}"
    );
}

#[tokio::test]
async fn certificate_signs_an_assertion_for_the_token_endpoint() {
    let sts = Server::start(authority).await;
    let subscriptions = subscriptions(&[&sts], &sts.url);
    let adfs = format!("{}/adfs", sts.url);
    let values = [
        (CERTIFICATE, CLIENT_CERTIFICATE),
        (CERTIFICATE_PASSWORD, b"insula"),
    ];
    let credential = credential(&adfs, &sts.url, &values);
    log_in(&subscriptions, &credential).await.unwrap();
    let request = sts.requests().remove(0);
    assert_eq!(request.line, "POST /adfs/azure-tenant-id/oauth2/v2.0/token");
    let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
    assert_eq!(
        request.field("client_assertion_type").as_deref(),
        Some(kind)
    );
    assert_eq!(request.field("client_secret"), None);
    let assertion = request.field("client_assertion").unwrap();
    let claims = assertion.split('.').nth(1).unwrap();
    let claims: Value =
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    assert_eq!(
        claims["aud"],
        format!("{adfs}/azure-tenant-id/oauth2/v2.0/token")
    );
    assert_eq!(claims["sub"], "azure-client-id");
}

#[tokio::test]
async fn unusable_certificate_is_an_invalid_credential() {
    let sts = Server::start(authority).await;
    let subscriptions = subscriptions(&[&sts], &sts.url);
    let encoded = BASE64_STANDARD.encode(CLIENT_CERTIFICATE);
    for (password, is_accepted) in [("insula", true), ("wrong", false)] {
        let values = [
            (CERTIFICATE, encoded.as_bytes()),
            (CERTIFICATE_PASSWORD, password.as_bytes()),
        ];
        let credential = credential(&sts.url.to_string(), &sts.url, &values);
        let session = log_in(&subscriptions, &credential).await;
        let expected = is_accepted.then_some(()).ok_or(LoginError {
            reason: Reason::InvalidCredentials,
            message: "AZURE_CLIENT_CERTIFICATE cannot be used: \
                      AZURE_CLIENT_CERTIFICATE_PASSWORD does not fit"
                .to_owned(),
            answered: true,
        });
        assert_eq!(session.map(drop), expected);
    }
}

#[tokio::test]
async fn workload_identity_uses_the_assertion_of_the_accounts_namespace() {
    let refused = json!({
        "error": "invalid_client", "error_codes": [700_213], "trace_id": "t-1",
        "error_description": "AADSTS700213: No matching federated identity record found.\r\n\
                              Trace ID: t-1\r\nTimestamp: now",
    });
    let sts = Server::start(move |count, request| match count {
        0 => authority(count, request),
        _ => test_server::json(401, refused.clone()),
    })
    .await;
    let subscriptions = subscriptions(&[&sts], &sts.url);
    let credential = credential(&sts.url.to_string(), &sts.url, &[]);
    log_in(&subscriptions, &credential).await.unwrap();
    let assertion = sts.requests()[0].field("client_assertion").unwrap();
    let claims = Assertion::new(&assertion).unwrap().claims().unwrap();
    assert_eq!(claims.subject, "system:serviceaccount:team-a:aso");
    let error = log_in(&subscriptions, &credential).await.unwrap_err();
    let message = "Entra ID refuses the account: AADSTS700213: No matching federated identity \
                   record found.; the identity needs a federated credential with issuer \
                   \"https://issuer\", subject \"system:serviceaccount:team-a:aso\" and audience \
                   \"api://x\" (trace t-1)";
    assert_eq!(
        (error.message.as_str(), error.reason),
        (message, Reason::InvalidCredentials)
    );
}

#[tokio::test]
async fn refusals_have_hints_and_no_secrets() {
    for (code, hint) in [
        (7_000_215, "AZURE_CLIENT_SECRET is wrong"),
        (7_000_222, "AZURE_CLIENT_SECRET has expired"),
        (700_016, "AZURE_CLIENT_ID is unknown in AZURE_TENANT_ID"),
        (90_002, "AZURE_TENANT_ID is unknown"),
        (70_021, "needs a federated credential"),
        (700_211, "needs a federated credential"),
        (700_024, "compare the clocks"),
        (700_027, "not among the certificates"),
        (50_000, "AADSTS50000: refused for ****"),
    ] {
        let sts = Server::start(move |_, _| {
            let description = format!("AADSTS{code}: refused for {SECRET} Trace ID: x");
            let body = json!({"error": "invalid_client", "error_description": description});
            test_server::json(400, body)
        })
        .await;
        let subscriptions = subscriptions(&[&sts], &sts.url);
        let values = [(CLIENT_SECRET, SECRET.as_bytes())];
        let credential = credential(&sts.url.to_string(), &sts.url, &values);
        let error = log_in(&subscriptions, &credential).await.unwrap_err();
        assert!(error.message.contains(hint), "{}", error.message);
        assert!(!error.message.contains("s3cret"), "{}", error.message);
        assert_eq!(
            (error.reason, error.answered),
            (Reason::InvalidCredentials, true)
        );
    }
}

#[tokio::test]
async fn failing_authority_delays_its_account_only() {
    let silent = Server::start(|_, _| Reply::Hang).await;
    let overloaded = Server::start(|_, _| Reply::Http(503, String::new(), "<html>".into())).await;
    let busy =
        Server::start(|_, _| test_server::json(400, json!({"error": "temporarily_unavailable"})))
            .await;
    let empty = Server::start(|_, _| test_server::json(200, json!({}))).await;
    let untrusted = Server::start_tls(authority).await;
    let short = Duration::from_millis(300);
    for (server, token_timeout, why) in [
        (&silent, short, "no answer within 0.3 s"),
        (&overloaded, TIMEOUT, "it answers HTTP 503"),
        (&busy, TIMEOUT, "it answers HTTP 400"),
        (&empty, TIMEOUT, "its answer has no token"),
        (&untrusted, TIMEOUT, "its certificate is not trusted"),
    ] {
        let subscriptions = Subscriptions {
            token_timeout,
            ..subscriptions(&[], &server.url)
        };
        let values = [(CLIENT_SECRET, SECRET.as_bytes())];
        let credential = credential(&server.url.to_string(), &server.url, &values);
        let error = log_in(&subscriptions, &credential).await.unwrap_err();
        assert!(error.message.contains(why), "{}", error.message);
        // ARM is not to blame.
        assert_eq!((error.reason, error.answered), (Reason::Unreachable, true));
    }
}

#[tokio::test]
async fn managed_identity_is_asked_for_at_the_metadata_service() {
    let imds = Server::start(|count, _| match count {
        0 => Reply::Http(404, String::new(), String::new()),
        1 => Reply::Http(429, String::new(), String::new()),
        2 => {
            let body = json!({"access_token": "of-machine", "expires_in": "3599",
                "expires_on": "1586984735", "token_type": "Bearer"});
            test_server::json(200, body)
        }
        _ => test_server::json(
            400,
            json!({"error": "invalid_request",
            "error_description": "Identity not found"}),
        ),
    })
    .await;
    let arm = Server::start(|_, _| test_server::json(200, json!({}))).await;
    let subscriptions = subscriptions(&[], &imds.url);
    let values = [(AUTH_MODE, b"podidentity".as_slice())];
    let credential = credential("https://login.example", &arm.url, &values);
    // The machine is the operator's: no tenant may act as it.
    let refused = log_in(&subscriptions, &credential).await.unwrap_err();
    assert_eq!(
        (refused.message.as_str(), refused.reason),
        (
            "managed identities of the operator's machine may not be used",
            Reason::InvalidCredentials
        )
    );
    assert_eq!(imds.requests().len(), 0);
    let key = Key::of(None, &credential);
    let session = subscriptions.log_in(&key, &credential).await.unwrap();
    let id = ResourceId::of_subscription(session.subscription()).unwrap();
    session.client().get(&id, "1").await.unwrap();
    assert_eq!(
        arm.requests()[0].header("authorization"),
        Some("Bearer of-machine")
    );
    let requests = imds.requests();
    assert_eq!(requests.len(), 3);
    let line = "GET /metadata/identity/oauth2/token?api-version=2018-02-01\
                &resource=https%3A%2F%2Faud%2F&client_id=azure%2Dclient%2Did";
    assert_eq!(requests[2].line, line);
    assert_eq!(requests[2].header("metadata"), Some("true"));
    let refused = subscriptions.log_in(&key, &credential).await.unwrap_err();
    let message = "Entra ID refuses the account: Identity not found; assign the identity to the \
                   machine that the operator runs on";
    assert_eq!(
        (refused.message.as_str(), refused.reason),
        (message, Reason::InvalidCredentials)
    );
}

#[tokio::test]
async fn endpoint_without_tls_needs_the_setting() {
    let sts = Server::start(authority).await;
    let strict = Subscriptions {
        cleartext: Cleartext::Refused,
        ..subscriptions(&[&sts], &sts.url)
    };
    let values = [(CLIENT_SECRET, SECRET.as_bytes())];
    let credential = credential(&sts.url.to_string(), &sts.url, &values);
    let error = log_in(&strict, &credential).await.unwrap_err();
    assert_eq!(error.message, "the credential is not an Azure account");
    assert_eq!(sts.requests().len(), 0);
}

#[tokio::test]
async fn credential_goes_to_the_decided_endpoint_only() {
    let sts = Server::start(authority).await;
    let subscriptions = subscriptions(&[&sts], &sts.url);
    let values = [(CLIENT_SECRET, SECRET.as_bytes())];
    let mut credential = credential(&sts.url.to_string(), &sts.url, &values);
    credential.endpoint = insula_identity::endpoint::Endpoint::parse("arm.example", 443).unwrap();
    let error = log_in(&subscriptions, &credential).await.unwrap_err();
    assert_eq!(
        error.message,
        "the credential is for another endpoint of ARM"
    );
    assert_eq!(sts.requests().len(), 0);
}

#[tokio::test]
async fn expired_session_is_renewed_or_dead() {
    let sts = Server::start(|count, _| match count {
        // Too short to be used.
        0 => test_server::json(200, json!({"access_token": "a", "expires_in": 1})),
        1 => test_server::json(200, json!({"access_token": "b", "expires_in": 1})),
        _ => test_server::json(
            401,
            json!({"error": "invalid_client", "error_codes": [7_000_222]}),
        ),
    })
    .await;
    let subscriptions = subscriptions(&[&sts], &sts.url);
    let values = [(CLIENT_SECRET, SECRET.as_bytes())];
    let credential = credential(&sts.url.to_string(), &sts.url, &values);
    let session = log_in(&subscriptions, &credential).await.unwrap();
    assert_eq!(subscriptions.is_alive(&session).await, Ok(true));
    assert_eq!(subscriptions.is_alive(&session).await, Ok(false));
    subscriptions.log_out(&session).await;
    assert_eq!(sts.requests().len(), 3);
}

/// Waits for the session of a requester in a pool.
async fn wait(
    sessions: &Arc<Sessions<Subscriptions>>,
    requester: usize,
    credential: &Credential,
) -> Result<String, LoginError> {
    let (name, mut wakeups) = (Arc::from(requester.to_string()), sessions.wakeups());
    loop {
        let key = Key::of(Some(Arc::from("space")), credential);
        match sessions.get(&name, key, credential) {
            Ok(held) => return Ok(held.subscription().to_owned()),
            Err(Unavailable::Failed { error, .. }) => return Err(error),
            // A wakeup of any requester will do.
            Err(Unavailable::Wait) => {
                let woken = tokio::time::timeout(TIMEOUT, wakeups.next()).await;
                assert!(woken.unwrap().is_some());
            }
        }
    }
}

#[tokio::test]
async fn pool_requests_one_token_for_each_credential() {
    let sts = Server::start(authority).await;
    let silent = Server::start(|_, _| Reply::Hang).await;
    let connector = Subscriptions {
        token_timeout: Duration::from_secs(2),
        ..subscriptions(&[], &sts.url)
    };
    let settings = Settings {
        request_timeout: TIMEOUT,
        check_after: TIMEOUT,
        lifetime: Duration::from_secs(3600),
        refused_backoff: TIMEOUT,
        unreachable_backoff: (TIMEOUT, TIMEOUT),
        concurrency: Concurrency::of_one_endpoint(16),
    };
    let sessions = Sessions::new(connector, settings);
    // An account with a silent authority is at the same ARM.
    let values = [(CLIENT_SECRET, b"silent".as_slice())];
    let dead = credential(&silent.url.to_string(), &sts.url, &values);
    let error = wait(&sessions, 1000, &dead).await.unwrap_err();
    assert!(error.message.contains("no answer within 2 s"), "{error}");
    for requester in 0..50 {
        let secret = format!("secret-{}", requester % 5);
        let values = [(CLIENT_SECRET, secret.as_bytes())];
        let credential = credential(&sts.url.to_string(), &sts.url, &values);
        let subscription = wait(&sessions, requester, &credential).await.unwrap();
        assert_eq!(subscription, "azure-subscription-id");
    }
    assert_eq!(sts.requests().len(), 5);
    sessions.close().await;
}
