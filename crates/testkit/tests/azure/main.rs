//! The fake Azure over its transport: tokens, faults and the process.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod faults;
mod imds;
mod process;
mod tokens;

use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use insula_testkit::azure::FakeAzure;
use insula_tls::Trust;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const TENANT: &str = "11111111-1111-1111-1111-111111111111";
const CLIENT: &str = "22222222-2222-2222-2222-222222222222";
const SUBSCRIPTION: &str = "33333333-3333-3333-3333-333333333333";
const SECRET: &str = "a secret & more";
const GROUP: &str = "/subscriptions/33333333-3333-3333-3333-333333333333/resourceGroups/green";

/// An answer.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The number of an error of Entra ID; null if there is none.
    fn entra_error(&self) -> Value {
        self.json()["error_codes"][0].clone()
    }
}

/// A fake Azure with one subscription and one client that may use it.
async fn azure() -> FakeAzure {
    let azure = FakeAzure::start().await.unwrap();
    azure.add_secret(TENANT, CLIENT, SECRET);
    azure.add_subscription(SUBSCRIPTION, TENANT, &[CLIENT]);
    azure
}

async fn arm(
    azure: &FakeAzure,
    token: &str,
    method: Method,
    path: &str,
    body: &Value,
) -> anyhow::Result<Answer> {
    let url = format!("{}{path}?api-version=2020-06-01", azure.arm_endpoint());
    let bearer = format!("Bearer {token}");
    let headers = [(AUTHORIZATION.as_str(), bearer.as_str())];
    send(azure.ca_pem(), method, &url, &headers, body.to_string()).await
}

async fn put_group(azure: &FakeAzure) -> anyhow::Result<Answer> {
    let token = azure.token(TENANT, CLIENT);
    arm(
        azure,
        &token,
        Method::PUT,
        GROUP,
        &json!({"location": "westus2"}),
    )
    .await
}

/// Sends a request on a connection of its own.
async fn send(
    ca: &str,
    method: Method,
    url: &str,
    headers: &[(&str, &str)],
    body: String,
) -> anyhow::Result<Answer> {
    let url: Uri = url.parse()?;
    let authority = url.authority().context("a host")?.clone();
    let stream = TcpStream::connect(authority.as_str()).await?;
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, authority.as_str());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::from(body))?;
    if url.scheme_str() == Some("http") {
        return exchange(stream, request).await;
    }
    let roots = insula_tls::roots(&Trust::Authorities(ca.to_owned()))?;
    let config = insula_tls::client_config(roots)?;
    let name = ServerName::try_from(authority.host().to_owned())?;
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?;
    exchange(stream, request).await
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<Answer> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move { drop(connection.await) });
    let (head, body) = sender.send_request(request).await?.into_parts();
    Ok(Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        body: body.collect().await?.to_bytes(),
    })
}
