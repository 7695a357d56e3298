//! Token requests, and verification of tokens by third parties.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use insula_access::jwt::{KeySet, Signed};
use insula_testkit::server::TestServer;
use serde_json::{Value, json};

use super::{
    ISSUER, PODS, SECRETS, TOKEN, bound_to, claims, create, issuer_of, pod, review, robot, token,
    unauthenticated, whoami,
};

#[tokio::test]
async fn tokens_are_valid_for_the_requested_audience() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    robot(&client).await?;
    let issuer = issuer_of(&server, "t1").await?;
    let issuer = issuer.as_str();
    let own = token(&client, json!({})).await?;
    let vault = token(&client, json!({"audiences": ["vault"]})).await?;
    let both = token(&client, json!({"audiences": ["vault", ISSUER]})).await?;
    let mut codes = Vec::new();
    for token in [&own, &vault, &both] {
        codes.push(whoami(&server, token).await?.0);
    }
    assert_eq!(codes, [201, 401, 201]);
    let known = |audiences: &[&str]| Ok(json!(audiences));
    let not = |is: &str, wanted: &str| {
        Err(format!(
            "[invalid bearer token, token audiences [{is}] is invalid for the target audiences \
             [{wanted}]]"
        ))
    };
    for (token, audiences, expected) in [
        (&own, &[][..], known(&[issuer])),
        (&own, &[issuer], known(&[issuer])),
        (&own, &["zzz", issuer], known(&[issuer])),
        (&own, &["zzz"], not(&format!("{issuer:?}"), "\"zzz\"")),
        (
            &own,
            &[ISSUER],
            not(&format!("{issuer:?}"), &format!("{ISSUER:?}")),
        ),
        (&vault, &["vault", "zzz"], known(&["vault"])),
        (
            &vault,
            &[],
            not("\"vault\"", &format!("{issuer:?} {ISSUER:?}")),
        ),
        (&vault, &["a", "b"], not("\"vault\"", "\"a\" \"b\"")),
        (&both, &[], known(&[ISSUER])),
        (&both, &[ISSUER, "vault"], known(&["vault", ISSUER])),
    ] {
        let status = review(&client, token, audiences).await?;
        match expected {
            Err(why) => assert_eq!(status, unauthenticated(&why), "{audiences:?}"),
            Ok(audiences) => {
                assert_eq!(status["authenticated"], true, "{status}");
                assert_eq!(status["audiences"], audiences);
                let name = "system:serviceaccount:default:robot";
                assert_eq!(status["user"]["username"], name);
            }
        }
    }
    // A token of the static token file is for this server.
    let status = review(&client, "t1", &[]).await?;
    assert_eq!(status["audiences"], json!([issuer, ISSUER]));
    let status = review(&client, "t1", &["zzz"]).await?;
    assert_eq!(status, unauthenticated("invalid bearer token"));
    Ok(())
}

#[tokio::test]
async fn token_requests_are_authorized_and_limited() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
    robot(&one).await?;
    let theirs = create(&two, SECRETS, json!({"metadata": {"name": "s"}})).await?;
    // A service account has no permissions, not even to request its own tokens.
    let holder = server.client(&token(&one, json!({})).await?).await?;
    for path in [TOKEN, &TOKEN.replace("robot", "default")] {
        let answer = holder.post(path, &json!({})).await?;
        assert_eq!(answer.status, 403, "{}", answer.text());
    }
    // Objects of other spaces cannot be bound to.
    let secret = |uid: &Value| {
        json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "s",
            "uid": uid}}})
    };
    let bound = secret(&theirs["metadata"]["uid"]);
    let answer = one.post(TOKEN, &bound).await?;
    assert_eq!(
        (answer.status, answer.message()),
        (404, "secrets \"s\" not found".to_owned())
    );
    let own = create(&one, SECRETS, json!({"metadata": {"name": "s"}})).await?;
    let answer = one.post(TOKEN, &bound).await?;
    let uid = theirs["metadata"]["uid"].as_str().unwrap_or_default();
    let why = format!(
        "Operation cannot be fulfilled on Secret \"s\": the UID in the bound object reference \
         ({uid}) does not match the UID in record. The object might have been deleted and then \
         recreated"
    );
    assert_eq!((answer.status, answer.message()), (409, why));
    let bound = secret(&own["metadata"]["uid"]);
    assert_eq!(one.post(TOKEN, &bound).await?.status, 201);
    // More than a year is capped to a year.
    let long = json!({"spec": {"expirationSeconds": 4_294_967_296_i64}});
    let answer = one.post(TOKEN, &long).await?;
    assert_eq!(answer.status, 201);
    assert_eq!(
        answer.header("warning"),
        "299 - \"requested expiration of 4294967296 seconds shortened to 31536000 seconds\""
    );
    let message = claims(
        answer.json()["status"]["token"]
            .as_str()
            .unwrap_or_default(),
    );
    let seconds = |name: &str| message[name].as_i64().unwrap_or_default();
    assert_eq!(seconds("exp") - seconds("iat"), 31_536_000);
    for (asked, why) in [
        (599, "599: may not specify a duration less than 10 minutes"),
        (-1, "-1: may not specify a duration less than 10 minutes"),
        (
            4_294_967_297_i64,
            "4294967297: may not specify a duration larger than 2^32 seconds",
        ),
    ] {
        let answer = one
            .post(TOKEN, &json!({"spec": {"expirationSeconds": asked}}))
            .await?;
        let start = "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds";
        let expected = format!("{start}: Invalid value: {why}");
        assert_eq!((answer.status, answer.message()), (422, expected));
    }
    // A pod's token must be for the pod's account.
    let mut other = pod();
    other["spec"]["serviceAccountName"] = "default".into();
    create(&one, PODS, other).await?;
    let answer = one
        .post(TOKEN, &json!({"spec": bound_to("Pod", "p")}))
        .await?;
    let why = "cannot bind token for serviceaccount \"robot\" to pod running with different \
               serviceaccount name.";
    assert_eq!((answer.status, answer.message()), (400, why.to_owned()));
    Ok(())
}

#[tokio::test]
async fn tokens_can_be_verified_with_published_keys() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    for (client, cached) in [
        (server.tenant("t1").await?, "private"),
        (server.system().await?, "public"),
    ] {
        robot(&client).await?;
        let issuer = match cached {
            "private" => issuer_of(&server, "t1").await?,
            _ => ISSUER.to_owned(),
        };
        let token = token(&client, json!({"audiences": ["vault"]})).await?;
        let own = create(&client, TOKEN, json!({})).await?["status"]["token"].clone();
        let holder = server.client(own.as_str().unwrap_or_default()).await?;
        let found = holder.get("/.well-known/openid-configuration").await?;
        assert_eq!(found.status, 200, "{}", found.text());
        assert_eq!(found.header("content-type"), "application/json");
        let caching = format!("{cached}, max-age=3600");
        assert_eq!(found.header("cache-control"), caching);
        // Exactly as Kubernetes formats it.
        let expected = format!(
            "{{\"issuer\":\"{issuer}\",\"jwks_uri\":\"{}/openid/v1/jwks\",\
             \"response_types_supported\":[\"id_token\"],\
             \"subject_types_supported\":[\"public\"],\
             \"id_token_signing_alg_values_supported\":[\"ES256\"]}}",
            issuer.replace(ISSUER, &server.url())
        );
        assert_eq!(found.text(), expected);
        let keys = holder.get("/openid/v1/jwks").await?;
        assert_eq!(keys.status, 200);
        assert_eq!(keys.header("content-type"), "application/jwk-set+json");
        assert_eq!(keys.header("cache-control"), "public, max-age=3600");
        let public = server.token_key();
        let published = &keys.json()["keys"][0];
        assert_eq!(
            *published,
            json!({"use": "sig", "kty": "EC", "crv": "P-256", "alg": "ES256",
                "kid": published["kid"],
                "x": URL_SAFE_NO_PAD.encode(&public[1..33]),
                "y": URL_SAFE_NO_PAD.encode(&public[33..])})
        );
        assert_eq!(keys.json()["keys"].as_array().map(Vec::len), Some(1));
        let keys = KeySet::from_jwks(&keys.body)?;
        let signed = Signed::parse(&token)?;
        assert_eq!(signed.key_id(), published["kid"].as_str());
        let verified = signed.verify(&keys)?;
        assert_eq!(verified.audiences()?, ["vault"]);
        assert_eq!(
            verified.text("sub"),
            Some("system:serviceaccount:default:robot")
        );
        // Verifying a token needs no credential.
        let anonymous = server.client("").await?;
        let below = issuer.strip_prefix(ISSUER).unwrap_or_default();
        for path in ["/.well-known/openid-configuration", "/openid/v1/jwks"] {
            let public = format!("{below}{path}");
            let (known, unknown) = (holder.get(path).await?, anonymous.get(&public).await?);
            assert_eq!((unknown.status, unknown.body), (200, known.body), "{path}");
        }
    }
    Ok(())
}
