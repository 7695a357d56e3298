//! Floods before authentication: they cost clients of other addresses, and open connections,
//! nothing that those notice.

use std::sync::Arc;
use std::time::Duration;

use insula_testkit::server::{Client, TestServer};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::connections::{connections, read_until_closed};
use super::{MAPS, TIMEOUT, await_metric, metric, start};

const DISPLACED: &str = "insula_connections_ended_total{reason=\"displaced\"}";

/// The last bytes of loopback addresses.
const QUIET: u8 = 1;
const NOISY: u8 = 2;

/// A handshake and a request, which must succeed.
async fn get_on_new_connection(server: &TestServer, source: u8) -> anyhow::Result<()> {
    let stream = server.connect_from(source).await?;
    get_over(server, stream).await
}

async fn get_over(server: &TestServer, stream: TcpStream) -> anyhow::Result<()> {
    let stream = server.handshake(stream, "h2").await?;
    let client = Client::over(stream, "t1").await?;
    assert_eq!(client.get(MAPS).await?.status, 200);
    Ok(())
}

/// A ClientHello, as bytes.
fn client_hello() -> anyhow::Result<Vec<u8>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from("localhost")?;
    let mut bytes = Vec::new();
    ClientConnection::new(Arc::new(config), name)?.write_tls(&mut bytes)?;
    Ok(bytes)
}

#[tokio::test]
async fn silent_connections_of_an_address_displace_only_its_own() -> anyhow::Result<()> {
    let server = start(connections(|limits| limits.handshakes = 8)).await?;
    server.tenant("t1").await?;
    // From its first request on, this connection is in no group that is displaced.
    let system = server.system().await?;
    assert_eq!(metric(&system, DISPLACED).await?, 0);
    let slow = server.connect_from(QUIET).await?;
    let mut flood = Vec::new();
    for _ in 0..40 {
        flood.push(server.connect_from(NOISY).await?);
    }
    // Eight are left, and one of them is the slow client's.
    await_metric(&system, DISPLACED, 33).await?;
    for stream in &mut flood[..33] {
        read_until_closed(stream).await?;
    }
    get_over(&server, slow).await
}

#[tokio::test]
async fn unfinished_handshakes_of_an_address_displace_only_its_own() -> anyhow::Result<()> {
    let server = start(connections(|limits| limits.handshakes = 8)).await?;
    server.tenant("t1").await?;
    let hello = client_hello()?;
    let mut flood = Vec::new();
    for _ in 0..10 {
        let slow = server.connect_from(QUIET).await?;
        for _ in 0..20 {
            let mut stream = server.connect_from(NOISY).await?;
            // It may have been displaced already.
            stream.write_all(&hello).await.ok();
            flood.push(stream);
        }
        get_over(&server, slow).await?;
    }
    Ok(())
}

#[tokio::test]
async fn unauthenticated_connections_of_an_address_displace_only_its_own() -> anyhow::Result<()> {
    let server = start(connections(|limits| limits.unauthenticated = 8)).await?;
    server.tenant("t1").await?;
    // From its first request on, this connection is in no group that is displaced.
    let system = server.system().await?;
    assert_eq!(metric(&system, DISPLACED).await?, 0);
    let slow = server.connect_from(QUIET).await?;
    let slow = server.handshake(slow, "h2").await?;
    let mut flood = Vec::new();
    for _ in 0..40 {
        let stream = server.connect_from(NOISY).await?;
        flood.push(server.handshake(stream, "h2").await?);
    }
    await_metric(&system, DISPLACED, 33).await?;
    let client = Client::over(slow, "t1").await?;
    assert_eq!(client.get(MAPS).await?.status, 200);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handshake_flood_fails_no_client_of_another_address() -> anyhow::Result<()> {
    let server = Arc::new(start(connections(|limits| limits.handshakes = 16)).await?);
    let established = server.tenant("t1").await?;
    let mut flood = tokio::task::JoinSet::new();
    for worker in 0..64 {
        let server = Arc::clone(&server);
        let hello = client_hello()?;
        flood.spawn(async move {
            let mut held = std::collections::VecDeque::new();
            loop {
                let Ok(mut stream) = server.connect_from(NOISY + worker % 4).await else {
                    tokio::task::yield_now().await;
                    continue;
                };
                match worker % 3 {
                    0 => drop(server.handshake(stream, "h2").await),
                    1 => {
                        stream.write_all(&hello).await.ok();
                        held.push_back(stream);
                    }
                    _ => held.push_back(stream),
                }
                if held.len() > 8 {
                    held.pop_front();
                }
                tokio::task::yield_now().await;
            }
        });
    }
    let quiet = async {
        for _ in 0..30 {
            get_on_new_connection(&server, QUIET).await?;
            assert_eq!(established.get(MAPS).await?.status, 200);
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(Duration::from_secs(60), quiet).await??;
    flood.shutdown().await;
    Ok(())
}

/// A restart of the server makes all nodes behind one address reconnect at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_behind_one_address_reconnect_at_once() -> anyhow::Result<()> {
    let server = Arc::new(start(connections(|limits| limits.handshakes = 64)).await?);
    server.tenant("t1").await?;
    let mut nodes = tokio::task::JoinSet::new();
    for number in 0..500_u64 {
        let server = Arc::clone(&server);
        nodes.spawn(async move {
            // As client-go does: after a failure, it waits for about a second.
            let mut attempts = 1;
            while get_on_new_connection(&server, NOISY).await.is_err() {
                attempts += 1;
                tokio::time::sleep(Duration::from_millis(500 + number)).await;
            }
            attempts
        });
    }
    let all = async {
        let mut attempts = 0;
        while let Some(node) = nodes.join_next().await {
            attempts += node?;
        }
        anyhow::Ok(attempts)
    };
    let attempts: u32 = tokio::time::timeout(3 * TIMEOUT, all).await??;
    assert!(attempts >= 500, "{attempts}");
    let system = server.system().await?;
    // The flood is over: nothing waits any more.
    await_metric(&system, "insula_handshakes_waiting", 0).await?;
    assert!(metric(&system, "insula_handshakes_total{rate=\"over\"}").await? > 0);
    Ok(())
}
