//! A DNS service with two accounts.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The service. Records are kept with the token that wrote them.
#[derive(Clone, Default)]
pub struct FakeDns {
    records: Arc<Mutex<BTreeMap<String, (String, String)>>>,
}

impl FakeDns {
    /// Starts it; returns its address and its certificate, in DER.
    pub async fn start(&self) -> anyhow::Result<(String, Vec<u8>)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der());
        let key = key.map_err(anyhow::Error::msg)?;
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)?;
        let tls = TlsAcceptor::from(Arc::new(config));
        let dns = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (dns, tls) = (dns.clone(), tls.clone());
                let service = service_fn(move |request| {
                    let dns = dns.clone();
                    async move { Ok::<_, Infallible>(dns.answer(request).await) }
                });
                tokio::spawn(async move {
                    let builder = Builder::new(TokioExecutor::new());
                    if let Ok(stream) = tls.accept(stream).await {
                        let served = builder.serve_connection(TokioIo::new(stream), service);
                        served.await.ok();
                    }
                });
            }
        });
        Ok((address, certificate.to_vec()))
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let token = request.headers()["authorization"].to_str();
        let token = token.unwrap_or_default().replace("Bearer ", "");
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let body = request.into_body().collect().await;
        let body = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned());
        let name = path.strip_prefix("/records/").unwrap_or_default();
        let mut records = self.records.lock().expect("no panic");
        let status = match token.as_str() {
            "red" | "blue" => StatusCode::OK,
            _ => StatusCode::UNAUTHORIZED,
        };
        if status.is_success() && method == Method::PUT {
            records.insert(name.to_owned(), (token, body.unwrap_or_default()));
        } else if status.is_success() && method == Method::DELETE {
            records.remove(name);
        }
        let mut response = Response::default();
        *response.status_mut() = status;
        response
    }

    /// Returns all records as `NAME=ADDRESS by TOKEN`.
    pub fn records(&self) -> Vec<String> {
        let records = self.records.lock().expect("no panic");
        let records = records.iter();
        records
            .map(|(name, (token, address))| format!("{name}={address} by {token}"))
            .collect()
    }
}
