//! Replaced CAs and static tokens: what was taken away is refused at the next request, on open
//! connections too, and ends open watches.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use insula_access::{Authority, Validity};
use insula_testkit::server::{Identity, Lines, Setup, TestServer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::MAPS;
use super::principals::{bind, subject, user};

const ALICE: &str = "a-1,alice,7,\"tenant:t1\"\n";
const BOB: &str = "b-1,bob,8,\"tenant:t1\"\n";

async fn start() -> Result<TestServer> {
    let setup = Setup {
        tokens: ALICE.to_owned(),
        ..Setup::default()
    };
    let server = TestServer::start_with(setup).await?;
    let tenant = server.tenant("t1").await?;
    for name in ["alice", "bob", "carl"] {
        bind(&tenant, None, name, "view", user(name)).await?;
    }
    Ok(server)
}

async fn ends_with(mut watch: Lines, code: Option<u64>) -> Result<()> {
    let events = tokio::time::timeout(Duration::from_secs(6), watch.rest()).await;
    let events = events.context("the watch goes on")??;
    let last = events
        .last()
        .and_then(|last| last["object"]["code"].as_u64());
    assert_eq!(last, code, "{events:?}");
    Ok(())
}

fn authority() -> Result<(Authority, CertificateDer<'static>)> {
    let day = Validity::starting(SystemTime::now(), Duration::from_secs(86_400));
    let authority = Authority::generate("another", day)?;
    let ca = CertificateDer::from_pem_slice(authority.certificate_pem().as_bytes())?;
    Ok((authority, ca))
}

/// A certificate for carl of t1, for so long.
fn identity(authority: &Authority, length: Duration) -> Result<Identity> {
    let key = rcgen::KeyPair::generate()?;
    // From now on: the tenant existed already.
    let now = SystemTime::now();
    let validity = Validity {
        from: now,
        until: now + length,
    };
    let pem = authority.issue_client(&subject("carl", &[], "t1")?, &key, validity)?;
    Ok(Identity {
        certificate: CertificateDer::from_pem_slice(pem.as_bytes())?,
        key: PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())?,
    })
}

#[tokio::test]
async fn removed_line_of_the_token_file_is_refused_and_its_watches_end() -> Result<()> {
    let server = start().await?;
    let (alice, bob) = (server.client("a-1").await?, server.client("b-1").await?);
    assert_eq!(bob.get(MAPS).await?.status, 401);
    let mut kept = alice.watch(&format!("{MAPS}?watch=true")).await?;
    server.replace_tokens(&format!("{ALICE}{BOB}"))?;
    assert_eq!(bob.get(MAPS).await?.status, 200, "a new line");
    assert!(kept.is_quiet_for(Duration::from_millis(200)).await);
    server.replace_tokens(BOB)?;
    assert_eq!(alice.get(MAPS).await?.status, 401, "a removed line");
    ends_with(kept, Some(401)).await?;
    assert_eq!(bob.get(MAPS).await?.status, 200);
    // A line with other groups is another credential.
    let watch = bob.watch(&format!("{MAPS}?watch=true")).await?;
    server.replace_tokens("b-1,bob,8,\"tenant:t2\"\n")?;
    assert_eq!(bob.get(MAPS).await?.status, 403);
    ends_with(watch, Some(401)).await
}

#[tokio::test]
async fn certificate_of_a_removed_ca_is_refused_on_open_connections() -> Result<()> {
    let server = start().await?;
    let own = CertificateDer::from_pem_slice(server.authority().certificate_pem().as_bytes())?;
    let (authority, ca) = authority()?;
    let hour = Duration::from_secs(3600);
    // An untrusted certificate, until its CA is trusted: on the same connection.
    let carl = server
        .client_with_identity(identity(&authority, hour)?, "")
        .await?;
    assert_eq!(carl.get(MAPS).await?.status, 401);
    server.trust().replace_clients(&[own.clone(), ca.clone()])?;
    assert_eq!(carl.get(MAPS).await?.status, 200);
    let again = server
        .client_with_identity(identity(&authority, hour)?, "")
        .await?;
    assert_eq!(again.get(MAPS).await?.status, 200);
    let watch = carl.watch(&format!("{MAPS}?watch=true")).await?;
    assert_eq!(watch.status, 200);
    let unusable = CertificateDer::from(b"nonsense".to_vec());
    assert!(server.trust().replace_clients(&[unusable]).is_err());
    assert_eq!(carl.get(MAPS).await?.status, 200, "the old CAs stay");
    server.trust().replace_clients(&[own])?;
    for client in [&carl, &again] {
        assert_eq!(client.get(MAPS).await?.status, 401);
    }
    ends_with(watch, Some(401)).await?;
    let carl = subject("carl", &[], "t1")?;
    let own = server.client_with_certificate(&carl, "").await?;
    assert_eq!(own.get(MAPS).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn watch_ends_when_its_certificate_expires() -> Result<()> {
    let server = start().await?;
    let soon = identity(server.authority(), Duration::from_secs(3))?;
    let carl = server.client_with_identity(soon, "").await?;
    let path = format!("{MAPS}?watch=true&timeoutSeconds=600");
    let watch = carl.watch(&path).await?;
    assert_eq!(watch.status, 200);
    ends_with(watch, None).await?;
    assert_eq!(carl.get(MAPS).await?.status, 401);
    Ok(())
}
