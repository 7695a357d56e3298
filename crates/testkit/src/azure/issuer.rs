//! The published keys of other issuers, as Entra ID reads them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::header::{ACCEPT, HOST};
use http::{Request, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use insula_access::jwt::KeySet;
use insula_tls::Trust;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long an issuer may take to answer.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the keys that an issuer publishes at a URL, over HTTP or HTTPS.
pub(super) async fn fetch_keys(
    issuer: &str,
    location: &str,
    authorities: &str,
) -> anyhow::Result<KeySet> {
    let fetching = async {
        let base = location.trim_end_matches('/');
        let discovery = get(
            &format!("{base}/.well-known/openid-configuration"),
            authorities,
        )
        .await?;
        let discovery: Value = serde_json::from_slice(&discovery)?;
        ensure!(
            discovery["issuer"] == issuer,
            "the discovery document names another issuer"
        );
        let keys = discovery["jwks_uri"]
            .as_str()
            .context("the discovery document names keys")?;
        Ok(KeySet::from_jwks(&get(keys, authorities).await?)?)
    };
    tokio::time::timeout(FETCH_TIMEOUT, fetching).await?
}

async fn get(url: &str, authorities: &str) -> anyhow::Result<Bytes> {
    let url: Uri = url.parse()?;
    let host = url.host().context("the URL has a host")?.to_owned();
    let secure = url.scheme_str() == Some("https");
    let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let stream = TcpStream::connect((host.trim_matches(['[', ']']), port)).await?;
    if !secure {
        return exchange(&url, stream).await;
    }
    let trust = Trust::Authorities(authorities.to_owned());
    let config = insula_tls::client_config(insula_tls::roots(&trust)?)?;
    let name = ServerName::try_from(host)?;
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?;
    exchange(&url, stream).await
}

async fn exchange(
    url: &Uri,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> anyhow::Result<Bytes> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The connection ends with the sender.
    tokio::spawn(async move { drop(connection.await) });
    let authority = url.authority().context("the URL has a host")?.as_str();
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path).header(HOST, authority);
    let request = request
        .header(ACCEPT, "application/json")
        .body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    ensure!(
        response.status() == 200,
        "the issuer answered {}",
        response.status()
    );
    Ok(response.into_body().collect().await?.to_bytes())
}
