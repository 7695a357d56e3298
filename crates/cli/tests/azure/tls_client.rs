//! A client of webhooks, which verifies them with the CA bundle that API servers get.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use insula_tls::{Trust, client_config, roots};
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The webhooks of a Service.
pub struct TlsClient {
    pub address: SocketAddr,
    /// The name that API servers verify.
    pub name: &'static str,
    /// The `caBundle` of a configuration or definition.
    pub bundle: String,
}

impl TlsClient {
    /// Posts a review, and returns the answer.
    pub async fn post(&self, path: &str, review: &Value) -> Value {
        let bundle = BASE64_STANDARD.decode(&self.bundle).unwrap();
        let bundle = String::from_utf8(bundle).unwrap();
        let config = client_config(roots(&Trust::Authorities(bundle)).unwrap()).unwrap();
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from(self.name).unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect(name, stream).await.unwrap();
        let (host, body) = (self.name, review.to_string());
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
        serde_json::from_str(body).unwrap()
    }
}
