//! Rotation of the keys that sign tokens.

use std::time::{Duration, Instant};

use insula_apiserver::pipeline::service_account::{SigningKey, SigningKeys};
use insula_testkit::server::{Client, TestServer};
use rcgen::KeyPair;
use serde_json::json;

use super::{
    SECRETS, claims, create, kept_claims, key_id, review, robot, sign, token, unauthenticated,
    whoami,
};

const TIMEOUT: Duration = Duration::from_secs(30);

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn key(pair: &KeyPair, signs_from: i64, until: Option<i64>) -> anyhow::Result<SigningKey> {
    Ok(SigningKey::new(pair.serialized_der(), signs_from, until)?)
}

/// Puts keys into use, as after `insula keys rotate`.
fn replace(server: &TestServer, keys: Vec<SigningKey>) -> anyhow::Result<()> {
    server
        .accounts()
        .issuer
        .keys()
        .replace(SigningKeys::new(keys)?);
    Ok(())
}

async fn published(client: &Client) -> anyhow::Result<Vec<String>> {
    let keys = client.get("/openid/v1/jwks").await?.json();
    let keys = keys["keys"].as_array().cloned().unwrap_or_default();
    let id = |key: &serde_json::Value| key["kid"].as_str().unwrap_or_default().to_owned();
    Ok(keys.iter().map(id).collect())
}

#[tokio::test]
async fn tokens_of_both_keys_are_valid_until_the_grace_period_ends() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let anonymous = server.client("").await?;
    robot(&client).await?;
    let (old, new) = (KeyPair::generate()?, KeyPair::generate()?);
    replace(&server, vec![key(&old, 0, None)?])?;
    let first = token(&client, json!({})).await?;
    let old_id = key_id(&first);
    assert_eq!(published(&anonymous).await?, std::slice::from_ref(&old_id));
    let (signs, ends) = (now() + 2, now() + 5);
    replace(
        &server,
        vec![key(&old, 0, Some(ends))?, key(&new, signs, None)?],
    )?;
    // Published at once, before it signs.
    let both = published(&anonymous).await?;
    assert_eq!((both.len(), &both[0]), (2, &old_id));
    let new_id = both[1].clone();
    let begun = Instant::now();
    let second = loop {
        let before = now();
        let issued = token(&client, json!({})).await?;
        let after = now();
        match key_id(&issued) == new_id {
            true => {
                assert!(after >= signs, "it signed {} s too early", signs - after);
                break issued;
            }
            false => assert!(before < signs, "it still signed with the old key"),
        }
        assert!(begun.elapsed() < TIMEOUT, "the new key does not sign");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(whoami(&server, &first).await?.0, 201, "within the grace");
    assert_eq!(whoami(&server, &second).await?.0, 201);
    loop {
        let before = now();
        if whoami(&server, &first).await?.0 == 401 {
            break;
        }
        assert!(before < ends, "the old key still verifies, from the cache");
        assert!(begun.elapsed() < TIMEOUT);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(now() >= ends);
    assert_eq!(
        review(&client, &first, &[]).await?,
        unauthenticated("invalid bearer token")
    );
    assert_eq!(whoami(&server, &second).await?.0, 201);
    assert_eq!(published(&anonymous).await?, [new_id]);
    Ok(())
}

#[tokio::test]
async fn withdrawn_key_is_rejected_at_once_and_selected_by_id_only() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let uid = robot(&client).await?["metadata"]["uid"].clone();
    let (old, new) = (KeyPair::generate()?, KeyPair::generate()?);
    replace(&server, vec![key(&old, 0, None)?])?;
    let bound = token(&client, json!({})).await?;
    let kept = sign(
        &server,
        &kept_claims(&uid, &claims(&bound)["kubernetes.io"]["tenantUid"]),
    );
    let secret = json!({"metadata": {"name": "kept"}, "stringData": {"token": kept}});
    create(&client, SECRETS, secret).await?;
    for token in [&bound, &kept] {
        assert_eq!(whoami(&server, token).await?.0, 201);
    }
    replace(&server, vec![key(&new, 0, None)?])?;
    for token in [&bound, &kept] {
        assert_eq!(whoami(&server, token).await?.0, 401, "cached before");
    }
    let fresh = token(&client, json!({})).await?;
    assert_eq!(whoami(&server, &fresh).await?.0, 201);
    // A header that names the new key does not make the old one's signature valid.
    let (_, rest) = bound.split_once('.').unwrap_or_default();
    let (header, _) = fresh.split_once('.').unwrap_or_default();
    assert_eq!(whoami(&server, &format!("{header}.{rest}")).await?.0, 401);
    // Keys that come back verify again.
    replace(&server, vec![key(&old, 0, None)?, key(&new, 1, None)?])?;
    for token in [&bound, &kept, &fresh] {
        assert_eq!(whoami(&server, token).await?.0, 201);
    }
    Ok(())
}
