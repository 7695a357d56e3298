//! The token endpoint.

use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use insula_testkit::azure::{EXCHANGE_AUDIENCE, FakeAzure, Proof};
use insula_testkit::oidc::{Behaviour, FakeProvider};
use insula_testkit::peer;
use insula_testkit::server::TestServer;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ring::digest;
use ring::signature::{RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};

use crate::{Answer, CLIENT, GROUP, SECRET, TENANT, arm, azure, send};

const SUBJECT: &str = "system:serviceaccount:green:aso-workload";

/// Requests a token with these fields besides the usual ones.
async fn request(azure: &FakeAzure, tenant: &str, client: &str, fields: &[(&str, &str)]) -> Answer {
    let scope = format!("{}/.default", azure.audience());
    let usual = [
        ("client_id", client),
        ("grant_type", "client_credentials"),
        ("scope", &scope),
    ];
    let all = usual
        .iter()
        .filter(|(name, _)| !fields.iter().any(|(chosen, _)| chosen == name));
    let all = all
        .chain(fields)
        .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)));
    let form = all.collect::<Vec<_>>().join("&");
    let url = format!("{}{tenant}/oauth2/v2.0/token", azure.authority_host());
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    send(azure.ca_pem(), Method::POST, &url, &headers, form)
        .await
        .unwrap()
}

async fn assert_with(azure: &FakeAzure, client: &str, assertion: &str) -> Answer {
    let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
    let fields = [
        ("client_assertion_type", kind),
        ("client_assertion", assertion),
    ];
    request(azure, TENANT, client, &fields).await
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

#[tokio::test]
async fn token_of_a_secret_is_accepted_and_its_client_recorded() {
    let azure = azure().await;
    let answer = request(&azure, TENANT, CLIENT, &[("client_secret", SECRET)]).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["expires_in"], 3599);
    let token = answer.json()["access_token"].as_str().unwrap().to_owned();
    let body = json!({"location": "westus2"});
    let created = arm(&azure, &token, Method::PUT, GROUP, &body)
        .await
        .unwrap();
    assert_eq!(created.status, 201);
    let calls = azure.requests_by(CLIENT);
    let caller = calls[0].caller.clone().unwrap();
    assert_eq!(
        (caller.tenant.as_str(), &caller.proof),
        (TENANT, &Proof::Secret)
    );
    assert_eq!((calls[0].status, &calls[0].body), (Some(201), &body));
    assert_eq!(
        (
            azure.puts(&GROUP.to_uppercase()),
            azure.requests_by("other").len()
        ),
        (1, 0)
    );
    assert_eq!(azure.creator(GROUP), Some(caller));
    assert_eq!(azure.token_requests()[0].error, None);
}

#[tokio::test]
async fn wrong_requests_have_the_numbers_of_entra() {
    let azure = azure().await;
    azure.add_secret(TENANT, CLIENT, "old");
    azure.expire_secret(TENANT, CLIENT, "old");
    let good: (&str, &str) = ("client_secret", SECRET);
    let elsewhere = ("scope", "https://graph.microsoft.com//.default");
    for (tenant, client, fields, status, number) in [
        (
            TENANT,
            CLIENT,
            vec![("client_secret", "wrong")],
            401,
            7_000_215,
        ),
        (
            TENANT,
            CLIENT,
            vec![("client_secret", "old")],
            401,
            7_000_222,
        ),
        (TENANT, CLIENT, vec![], 401, 7_000_218),
        (TENANT, "nobody", vec![good], 400, 700_016),
        ("nowhere", CLIENT, vec![good], 400, 90_002),
        (TENANT, CLIENT, vec![good, ("scope", "x")], 400, 70_011),
        (TENANT, CLIENT, vec![good, elsewhere], 400, 500_011),
        (
            TENANT,
            CLIENT,
            vec![good, ("grant_type", "password")],
            400,
            70_003,
        ),
    ] {
        let answer = request(&azure, tenant, client, &fields).await;
        assert_eq!(
            (answer.status, answer.entra_error()),
            (status, json!(number)),
            "{fields:?}"
        );
        let description = answer.json()["error_description"].to_string();
        assert!(
            description.contains(&format!("AADSTS{number}: ")),
            "{description}"
        );
        assert_eq!(azure.token_requests().last().unwrap().error, Some(number));
    }
}

#[tokio::test]
async fn federated_assertion_is_verified_with_the_keys_of_its_issuer() {
    let azure = azure().await;
    let provider = FakeProvider::start(Behaviour::Good).await.unwrap();
    let assertion = |changes: Value| {
        let mut claims = json!({"aud": EXCHANGE_AUDIENCE, "sub": SUBJECT});
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        provider.token(now(), &claims).unwrap()
    };
    let good = assertion(json!({}));
    let number = |answer: Answer| answer.entra_error();
    assert_eq!(number(assert_with(&azure, CLIENT, &good).await), 70_021);
    azure.add_federated_credential(TENANT, CLIENT, provider.url(), SUBJECT);
    // The CA of the issuer is not trusted yet.
    assert_eq!(number(assert_with(&azure, CLIENT, &good).await), 50_166);
    azure.trust_issuers(provider.ca_pem());
    let answer = assert_with(&azure, CLIENT, &good).await;
    assert_eq!(answer.status, 200);
    for (changes, expected) in [
        (json!({"iss": "https://other.test"}), 700_211),
        (
            json!({"sub": "system:serviceaccount:red:aso-workload"}),
            700_213,
        ),
        (json!({"aud": "insula"}), 700_212),
        (json!({"exp": now() - 600}), 700_024),
        (json!({"iat": now() + 600}), 700_024),
    ] {
        let answer = assert_with(&azure, CLIENT, &assertion(changes.clone())).await;
        assert_eq!(number(answer), expected, "{changes}");
    }
    provider.rotate().unwrap();
    assert_eq!(number(assert_with(&azure, CLIENT, &good).await), 50_013);
    assert_eq!(number(assert_with(&azure, CLIENT, "a.b.c").await), 50_027);
    let token = answer.json()["access_token"].as_str().unwrap().to_owned();
    arm(&azure, &token, Method::GET, GROUP, &Value::Null)
        .await
        .unwrap();
    let proof = azure.requests_by(CLIENT)[0].caller.clone().unwrap().proof;
    let issuer = provider.url().to_owned();
    let subject = SUBJECT.to_owned();
    assert_eq!(proof, Proof::Federated { issuer, subject });
}

#[tokio::test]
async fn service_account_of_one_tenant_is_not_that_of_another() {
    let azure = azure().await;
    let server = TestServer::start().await.unwrap();
    azure.trust_issuers(server.authority().certificate_pem());
    azure.reach_issuers("https://insula.test", &server.url());
    let mut assertions = Vec::new();
    for tenant in ["t1", "t2"] {
        let client = server.tenant(tenant).await.unwrap();
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        let account = json!({"metadata": {"name": "aso-workload"}});
        client.post(accounts, &account).await.unwrap();
        let path = format!("{accounts}/aso-workload/token");
        let request = json!({"spec": {"audiences": [EXCHANGE_AUDIENCE]}});
        let token = client.post(&path, &request).await.unwrap().json();
        assertions.push(token["status"]["token"].as_str().unwrap().to_owned());
    }
    let tenant = server.system().await.unwrap();
    let tenant = tenant.get("/api/v1/tenants/t1").await.unwrap().json();
    let uid = tenant["metadata"]["uid"].as_str().unwrap();
    let issuer = format!("https://insula.test/tenants/t1/issuers/{uid}");
    let subject = "system:serviceaccount:default:aso-workload";
    azure.add_federated_credential(TENANT, CLIENT, &issuer, subject);
    let answer = assert_with(&azure, CLIENT, &assertions[0]).await;
    assert_eq!(answer.status, 200, "{}", answer.json());
    let answer = assert_with(&azure, CLIENT, &assertions[1]).await;
    assert_eq!(answer.entra_error(), 700_211);
    let subject = subject.to_owned();
    let proof = azure.token_requests()[0].proof.clone();
    assert_eq!(proof, Proof::Federated { issuer, subject });
}

#[tokio::test]
async fn identity_made_in_arm_gets_tokens_with_its_federated_credential() {
    let azure = azure().await;
    let provider = FakeProvider::start(Behaviour::Good).await.unwrap();
    azure.trust_issuers(provider.ca_pem());
    let token = azure.token(TENANT, CLIENT);
    let put = async |path: &str, body: Value| {
        let answer = arm(&azure, &token, Method::PUT, path, &body).await.unwrap();
        assert_eq!(answer.status, 201, "{:?}", answer.json());
        answer.json()["properties"].clone()
    };
    put(GROUP, json!({"location": "westus2"})).await;
    let identity = format!("{GROUP}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i");
    let properties = put(&identity, json!({"location": "westus2"})).await;
    let client = properties["clientId"].as_str().unwrap();
    let assertion = json!({"aud": EXCHANGE_AUDIENCE, "sub": SUBJECT});
    let assertion = provider.token(now(), &assertion).unwrap();
    assert_eq!(
        assert_with(&azure, client, &assertion).await.entra_error(),
        70_021
    );
    let credential = format!("{identity}/federatedIdentityCredentials/f");
    let body =
        json!({"issuer": provider.url(), "subject": SUBJECT, "audiences": [EXCHANGE_AUDIENCE]});
    put(&credential, json!({"properties": body})).await;
    let answer = assert_with(&azure, client, &assertion).await;
    assert_eq!(answer.status, 200);
    let own = answer.json()["access_token"].as_str().unwrap().to_owned();
    let read = async || {
        arm(&azure, &own, Method::GET, GROUP, &Value::Null)
            .await
            .unwrap()
            .status
    };
    assert_eq!(read().await, 403);
    let role = format!("{GROUP}/providers/Microsoft.Authorization/roleAssignments/r");
    put(
        &role,
        json!({"properties": {"principalId": properties["principalId"]}}),
    )
    .await;
    assert_eq!(read().await, 200);
}

/// An RSA key and its certificate, made by openssl.
struct Signing {
    key: RsaKeyPair,
    pem: String,
    der: Vec<u8>,
}

impl Signing {
    fn generate() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (key, certificate) = (folder.path().join("key"), folder.path().join("certificate"));
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-subj",
                "/CN=green",
                "-keyout",
            ])
            .arg(&key)
            .arg("-out")
            .arg(&certificate)
            .output();
        if !made.is_ok_and(|made| made.status.success()) {
            peer::skipped("openssl is not installed");
            return None;
        }
        let pem = std::fs::read_to_string(&certificate).unwrap();
        let key = PrivatePkcs8KeyDer::from_pem_file(&key).unwrap();
        Some(Self {
            key: RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).unwrap(),
            der: CertificateDer::from_pem_slice(pem.as_bytes())
                .unwrap()
                .to_vec(),
            pem,
        })
    }

    fn thumbprint(&self, algorithm: &'static digest::Algorithm) -> String {
        URL_SAFE_NO_PAD.encode(digest::digest(algorithm, &self.der))
    }

    fn sign(&self, encoding: &'static dyn RsaEncoding, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(header), part(claims));
        let mut signature = vec![0; self.key.public().modulus_len()];
        let random = ring::rand::SystemRandom::new();
        self.key
            .sign(encoding, &random, message.as_bytes(), &mut signature)
            .unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

#[tokio::test]
async fn assertion_is_verified_with_the_certificate_of_the_application() {
    let (Some(signing), Some(other)) = (Signing::generate(), Signing::generate()) else {
        return;
    };
    let azure = azure().await;
    let audience = format!("{}{TENANT}/oauth2/v2.0/token", azure.authority_host());
    let claims = json!({
        "aud": audience, "iss": CLIENT, "sub": CLIENT, "jti": "1",
        "nbf": now() - 10, "iat": now() - 10, "exp": now() + 300,
    });
    let sha256 = signing.thumbprint(&digest::SHA256);
    let header = json!({"alg": "PS256", "typ": "JWT", "x5t#S256": sha256});
    let good = signing.sign(&RSA_PSS_SHA256, &header, &claims);
    assert_eq!(
        assert_with(&azure, CLIENT, &good).await.entra_error(),
        700_027
    );
    azure.add_certificate(TENANT, CLIENT, &signing.pem).unwrap();
    assert_eq!(assert_with(&azure, CLIENT, &good).await.status, 200);
    assert_eq!(
        azure.token_requests().last().unwrap().proof,
        Proof::Certificate
    );
    let sha1 = signing.thumbprint(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    let legacy = json!({"alg": "RS256", "typ": "JWT", "x5t": sha1, "kid": "any"});
    let legacy = signing.sign(&RSA_PKCS1_SHA256, &legacy, &claims);
    assert_eq!(assert_with(&azure, CLIENT, &legacy).await.status, 200);
    let forged = other.sign(&RSA_PSS_SHA256, &header, &claims);
    assert_eq!(
        assert_with(&azure, CLIENT, &forged).await.entra_error(),
        700_027
    );
    for (name, value, expected) in [
        ("aud", json!("https://elsewhere.test"), 700_023),
        ("sub", json!("another"), 700_021),
        ("exp", json!(now() - 600), 700_024),
    ] {
        let mut changed = claims.clone();
        changed[name] = value;
        let assertion = signing.sign(&RSA_PSS_SHA256, &header, &changed);
        let answer = assert_with(&azure, CLIENT, &assertion).await;
        assert_eq!(answer.entra_error(), expected, "{name}");
    }
}

#[tokio::test]
async fn token_expires_and_can_be_revoked() {
    let azure = azure().await;
    azure.set_token_lifetime(Duration::from_secs(60));
    let code = async |token: &str| {
        let answer = arm(&azure, token, Method::GET, GROUP, &Value::Null)
            .await
            .unwrap();
        (answer.status, answer.json()["error"]["code"].clone())
    };
    let token = azure.token(TENANT, CLIENT);
    assert_eq!(code(&token).await, (404, json!("ResourceGroupNotFound")));
    azure.advance_clock(Duration::from_secs(61));
    assert_eq!(
        code(&token).await,
        (401, json!("ExpiredAuthenticationToken"))
    );
    assert_eq!(azure.requests().last().unwrap().caller, None);
    let token = azure.token(TENANT, CLIENT);
    assert_eq!(code(&token).await.0, 404);
    azure.revoke_tokens();
    assert_eq!(
        code(&token).await,
        (401, json!("InvalidAuthenticationToken"))
    );
    let url = format!("{}{GROUP}?api-version=2020-06-01", azure.arm_endpoint());
    let anonymous = send(azure.ca_pem(), Method::GET, &url, &[], String::new())
        .await
        .unwrap();
    assert_eq!(
        (anonymous.status, &anonymous.json()["error"]["code"]),
        (401, &json!("AuthenticationFailed"))
    );
}

#[tokio::test]
async fn tenants_of_auxiliary_tokens_are_recorded() {
    let azure = azure().await;
    azure.add_application("other", "helper");
    let bearer = format!("Bearer {}", azure.token(TENANT, CLIENT));
    let auxiliary = format!("Bearer {}, Bearer unknown", azure.token("other", "helper"));
    let headers = [
        ("authorization", bearer.as_str()),
        ("x-ms-authorization-auxiliary", auxiliary.as_str()),
    ];
    let url = format!("{}{GROUP}?api-version=2020-06-01", azure.arm_endpoint());
    let answer = send(azure.ca_pem(), Method::GET, &url, &headers, String::new());
    assert_eq!(answer.await.unwrap().status, 404);
    assert_eq!(azure.requests()[0].auxiliary_tenants, ["other"]);
}
