//! Forged tokens.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use insula_testkit::server::TestServer;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

use super::{
    ISSUER, SECRETS, claims, create, delete, kept_claims, review, robot, sign, token,
    unauthenticated, whoami,
};

#[tokio::test]
async fn tokens_with_invalid_claims_are_refused() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    robot(&one).await?;
    let theirs = robot(&two).await?["metadata"]["uid"].clone();
    let of_system = robot(&system).await?["metadata"]["uid"].clone();
    let good = claims(&token(&one, json!({})).await?);
    let now = good["iat"].as_i64().unwrap_or_default();
    // Tokens signed by the test are accepted: only the changes below make the difference.
    assert_eq!(whoami(&server, &sign(&server, &good)).await?.0, 201);
    let own = "kubernetes.io";
    let with = |edit: &dyn Fn(&mut Value)| {
        let mut edited = good.clone();
        edit(&mut edited);
        edited
    };
    let fine = [
        with(&|all| all["exp"] = (now - 30).into()),
        with(&|all| all["nbf"] = (now + 30).into()),
        with(&|all| all["aud"] = ISSUER.into()),
    ];
    for claims in fine {
        let (status, _) = whoami(&server, &sign(&server, &claims)).await?;
        assert_eq!(status, 201, "{claims}");
    }
    let without = |all: &mut Value, name: &str| {
        all.as_object_mut().and_then(|all| all.remove(name));
    };
    for (why, claims) in [
        ("expired", with(&|all| all["exp"] = (now - 90).into())),
        ("early", with(&|all| all["nbf"] = (now + 120).into())),
        (
            "from the future",
            with(&|all| all["iat"] = (now + 120).into()),
        ),
        ("for ever", with(&|all| without(all, "exp"))),
        (
            "times as text",
            with(&|all| all["exp"] = "9999999999".into()),
        ),
        ("without audience", with(&|all| all["aud"] = json!([]))),
        ("audience missing", with(&|all| without(all, "aud"))),
        ("for others", with(&|all| all["aud"] = json!(["vault"]))),
        (
            "from elsewhere",
            with(&|all| all["iss"] = "https://elsewhere".into()),
        ),
        ("issuer missing", with(&|all| without(all, "iss"))),
        (
            "from a kept one",
            with(&|all| all["iss"] = "kubernetes/serviceaccount".into()),
        ),
        ("of another user", with(&|all| all["sub"] = "admin".into())),
        (
            "of another name",
            with(&|all| {
                all["sub"] = "system:serviceaccount:default:default".into();
            }),
        ),
        (
            "of another account",
            with(&|all| {
                all["sub"] = "system:serviceaccount:default:default".into();
                all[own]["serviceaccount"]["name"] = "default".into();
            }),
        ),
        ("of no account", with(&|all| without(all, own))),
        (
            "without a uid",
            with(&|all| all[own]["serviceaccount"]["uid"] = "".into()),
        ),
        (
            "of another uid",
            with(&|all| {
                all[own]["serviceaccount"]["uid"] = theirs.clone();
            }),
        ),
        (
            "of another tenant",
            with(&|all| all[own]["tenant"] = "t2".into()),
        ),
        (
            "of another tenant's account",
            with(&|all| {
                all[own]["tenant"] = "t2".into();
                all[own]["serviceaccount"]["uid"] = theirs.clone();
            }),
        ),
        (
            "of a former tenant",
            with(&|all| {
                all[own]["tenantUid"] = "11111111-1111-4111-8111-111111111111".into();
            }),
        ),
        (
            "of no certain tenant",
            with(&|all| without(&mut all[own], "tenantUid")),
        ),
        (
            "of a tenant that is not there",
            with(&|all| all[own]["tenant"] = "ghost".into()),
        ),
        (
            "of the system, called so",
            with(&|all| {
                all[own]["tenant"] = "system".into();
                all[own]["serviceaccount"]["uid"] = of_system.clone();
            }),
        ),
        (
            "of a tenant that is no text",
            with(&|all| {
                all[own]["tenant"] = json!(["t1"]);
                all[own]["serviceaccount"]["uid"] = of_system.clone();
            }),
        ),
        (
            "of a tenant without a name",
            with(&|all| {
                all[own]["tenant"] = "".into();
                all[own]["serviceaccount"]["uid"] = of_system.clone();
            }),
        ),
        (
            "of the system by silence",
            with(&|all| without(&mut all[own], "tenant")),
        ),
        (
            "bound to nothing",
            with(&|all| all[own]["pod"] = json!({"name": "p", "uid": "u"})),
        ),
        (
            "bound to what it does not say",
            with(&|all| all[own]["pod"] = json!({})),
        ),
    ] {
        let (status, user) = whoami(&server, &sign(&server, &claims)).await?;
        assert_eq!((status, user), (401, Value::Null), "{why}: {claims}");
    }
    Ok(())
}

/// A token with any header and signature.
fn forged_token(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(header), part(claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

#[tokio::test]
async fn tokens_with_invalid_signatures_are_refused() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    robot(&client).await?;
    let good = token(&client, json!({})).await?;
    let text = claims(&good);
    let jwks = client.get("/openid/v1/jwks").await?;
    let kid = jwks.json()["keys"][0]["kid"].clone();
    let public = URL_SAFE_NO_PAD.encode(server.token_key());
    let mut forgeries: Vec<(&str, String)> = vec![
        (
            "none",
            forged_token(&json!({"alg": "none"}), &text, |_| Vec::new()),
        ),
        (
            "None",
            forged_token(&json!({"alg": "None", "kid": kid}), &text, |_| Vec::new()),
        ),
        (
            "no algorithm",
            forged_token(&json!({"kid": kid}), &text, |_| Vec::new()),
        ),
        (
            "no signature",
            forged_token(&json!({"alg": "ES256", "kid": kid}), &text, |_| Vec::new()),
        ),
        (
            "zeros",
            forged_token(&json!({"alg": "ES256", "kid": kid}), &text, |_| vec![0; 64]),
        ),
    ];
    // Public values used as secrets.
    for secret in [server.token_key(), public.as_bytes(), &jwks.body, b""] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let sign = |message: &[u8]| hmac::sign(&key, message).as_ref().to_vec();
        for kid in [
            kid.clone(),
            json!("../../../../dev/null"),
            json!("/dev/null"),
            json!(null),
        ] {
            let header = json!({"alg": "HS256", "kid": kid});
            forgeries.push(("HS256", forged_token(&header, &text, sign)));
        }
    }
    // A key in the token's own header is ignored.
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("there is randomness");
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).expect("made above");
    let sign = |message: &[u8]| {
        let signature = pair.sign(&random, message).expect("there is randomness");
        signature.as_ref().to_vec()
    };
    let point = pair.public_key().as_ref();
    let jwk = json!({"kty": "EC", "crv": "P-256", "kid": kid, "alg": "ES256", "use": "sig",
        "x": URL_SAFE_NO_PAD.encode(&point[1..33]), "y": URL_SAFE_NO_PAD.encode(&point[33..])});
    for header in [
        json!({"alg": "ES256", "kid": kid}),
        json!({"alg": "ES256"}),
        json!({"alg": "ES256", "kid": kid, "jwk": jwk}),
        json!({"alg": "ES256", "jwk": jwk, "crit": ["jwk"]}),
        json!({"alg": "ES256", "kid": kid, "jku": "https://elsewhere/keys"}),
        json!({"alg": "ES256", "kid": "../../../etc/insula/other.key"}),
    ] {
        forgeries.push(("another key", forged_token(&header, &text, sign)));
    }
    // A valid signature of another payload.
    let (message, signature) = good.rsplit_once('.').unwrap_or_default();
    let (header, _) = message.split_once('.').unwrap_or_default();
    for (member, value) in [
        ("tenant", "t2"),
        ("tenantUid", "x"),
        ("namespace", "kube-system"),
    ] {
        let mut edited = text.clone();
        edited["kubernetes.io"][member] = value.into();
        let edited = URL_SAFE_NO_PAD.encode(edited.to_string());
        forgeries.push(("edited", format!("{header}.{edited}.{signature}")));
    }
    forgeries.push(("padded", format!("{good}=")));
    forgeries.push(("cut", good[..good.len() - 1].to_owned()));
    forgeries.push(("four parts", format!("{good}.{signature}")));
    forgeries.push(("two parts", message.to_owned()));
    assert_eq!(whoami(&server, &good).await?.0, 201);
    for (why, token) in forgeries {
        let (status, user) = whoami(&server, &token).await?;
        assert_eq!((status, user), (401, Value::Null), "{why}: {token}");
        let expected = unauthenticated("invalid bearer token");
        assert_eq!(review(&client, &token, &[]).await?, expected, "{why}");
    }
    Ok(())
}

#[tokio::test]
async fn secret_tokens_are_valid_while_their_secret_holds_them() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let uid = robot(&one).await?["metadata"]["uid"].clone();
    let theirs = robot(&two).await?["metadata"]["uid"].clone();
    let tenant = &claims(&token(&one, json!({})).await?)["kubernetes.io"]["tenantUid"];
    let other = &claims(&token(&two, json!({})).await?)["kubernetes.io"]["tenantUid"];
    let own = |member: &str| format!("kubernetes.io/serviceaccount/{member}");
    let good = kept_claims(&uid, tenant);
    let path = format!("{SECRETS}/kept");
    let put = |token: String| json!({"data": {"token": STANDARD.encode(token)}});
    let genuine = sign(&server, &good);
    for client in [&one, &two] {
        let mut secret = put(genuine.clone());
        secret["metadata"] = json!({"name": "kept"});
        create(client, SECRETS, secret).await?;
    }
    let (status, user) = whoami(&server, &genuine).await?;
    assert_eq!(status, 201);
    assert_eq!(user["extra"], json!({"insula.dev/tenant": ["t1"]}));
    // Each of these is stored in the Secret that it names, in both spaces, and is still refused.
    for (why, changes) in [
        (
            "another's account",
            vec![("service-account.uid", theirs.clone())],
        ),
        (
            "another name",
            vec![("service-account.name", json!("default"))],
        ),
        (
            "another namespace",
            vec![("namespace", json!("kube-system"))],
        ),
        ("another secret", vec![("secret.name", json!("other"))]),
        ("no secret", vec![("secret.name", json!(""))]),
        ("a tenant that was", vec![("tenant.uid", json!("x"))]),
        ("no certain tenant", vec![("tenant.uid", json!(""))]),
        (
            "another tenant",
            vec![("tenant", json!("t2")), ("tenant.uid", other.clone())],
        ),
        (
            "an account of another tenant",
            vec![
                ("tenant", json!("t2")),
                ("service-account.uid", theirs.clone()),
            ],
        ),
        ("the system", vec![("tenant", json!("system"))]),
        ("empty tenant", vec![("tenant", json!(""))]),
        ("no text", vec![("tenant", json!(1))]),
    ] {
        let mut edited = good.clone();
        for (member, value) in changes {
            edited[own(member)] = value;
        }
        let token = sign(&server, &edited);
        for client in [&one, &two] {
            let patched = client.patch(&path, "merge", &put(token.clone())).await?;
            assert_eq!(patched.status, 200, "{why}");
        }
        let (status, user) = whoami(&server, &token).await?;
        assert_eq!((status, user), (401, Value::Null), "{why}: {edited}");
        assert_eq!(whoami(&server, &genuine).await?.0, 401, "it is not held");
    }
    // The token is valid again, and then held only by a Secret of the same name elsewhere.
    for client in [&one, &two] {
        client.patch(&path, "merge", &put(genuine.clone())).await?;
    }
    assert_eq!(whoami(&server, &genuine).await?.0, 201);
    delete(&one, &path).await?;
    assert_eq!(whoami(&server, &genuine).await?.0, 401);
    Ok(())
}
