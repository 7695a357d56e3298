use std::net::{Ipv4Addr, SocketAddr};
use std::time::SystemTime;

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use insula_tls::{Trust, client_config, roots};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::webhook::AdmissionResponse;
use crate::webhook::certificate::test_material;

/// A server on loopback. Dropping it stops the server.
struct Running {
    address: SocketAddr,
    ca: String,
    certificates: Arc<Certificates>,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<()>,
}

impl Running {
    async fn start(router: Router, settings: Settings) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let certificates = Arc::new(Certificates::default());
        let (stop, stopped) = oneshot::channel::<()>();
        let (shared, router) = (Arc::clone(&certificates), Arc::new(router));
        let served = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            let served = serve(listener, shared, router, settings, stopped);
            served.await.expect("it serves");
        });
        let mut running = Self {
            address,
            ca: String::new(),
            certificates,
            stop: Some(stop),
            served,
        };
        running.rotate();
        running
    }

    /// Replaces the certificate and its CA.
    fn rotate(&mut self) {
        let (ca, certificate, key) = test_material(&["127.0.0.1"]);
        let replaced = self
            .certificates
            .replace(&certificate, &key, SystemTime::now());
        replaced.expect("a certificate");
        self.ca = ca;
    }

    async fn dial(&self, protocol: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let roots = roots(&Trust::Authorities(self.ca.clone())).expect("a CA");
        let mut config = client_config(roots).expect("a configuration");
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from(self.address.ip().to_string()).expect("a name");
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, stream).await
    }

    /// Sends text on a connection of its own and returns all that is answered.
    async fn send(&self, text: &str) -> String {
        let mut stream = self.dial("http/1.1").await.expect("a connection");
        stream.write_all(text.as_bytes()).await.expect("it is sent");
        read_to_end(&mut stream).await
    }

    async fn post(&self, path: &str, body: &str) -> String {
        self.send(&request(path, body)).await
    }
}

async fn read_to_end(stream: &mut TlsStream<TcpStream>) -> String {
    let mut answer = Vec::new();
    // A server that refuses a body may close the connection while it arrives.
    let read = timeout(WAIT_TIMEOUT, stream.read_to_end(&mut answer)).await;
    read.expect("the connection ends").ok();
    String::from_utf8(answer).expect("text")
}

/// How long a test waits for what must happen.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

fn request(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn review() -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "operation": "CREATE", "name": "a",
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        },
    })
}

fn router() -> Router {
    Router::new()
        .validating("/allow", |_| async { AdmissionResponse::allow() })
        .validating("/panic", |_| async { panic!("this is about panics") })
        .validating("/hang", |_| std::future::pending())
}

const ALLOWED: &str = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"allowed":true,"uid":"u"}}"#;

#[tokio::test]
async fn both_protocols_are_served_and_panics_fail_their_request_only() {
    let server = Running::start(router(), Settings::default()).await;
    let answer = server
        .post("/allow?timeout=10s", &review().to_string())
        .await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(
        answer.contains("content-type: application/json\r\n"),
        "{answer}"
    );
    assert!(answer.ends_with(&format!("\r\n\r\n{ALLOWED}")), "{answer}");
    let stream = server.dial("h2").await.expect("a connection");
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.expect("HTTP/2");
    let driver = tokio::spawn(connection);
    for (path, status, body) in [
        ("/panic", 500, "the handler panicked\n"),
        ("/allow", 200, ALLOWED),
        ("/none", 404, "no webhook has this path\n"),
    ] {
        let request = Request::post(format!("https://x{path}"))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(review().to_string())))
            .expect("a request");
        let response = sender.send_request(request).await.expect("a response");
        assert_eq!(response.version(), Version::HTTP_2);
        assert_eq!(response.status(), status, "{path}");
        let found = response
            .into_body()
            .collect()
            .await
            .expect("a body")
            .to_bytes();
        assert_eq!(found, body, "{path}");
    }
    driver.abort();
}

#[tokio::test]
async fn certificate_is_replaced_without_a_restart() {
    let mut server = Running::start(router(), Settings::default()).await;
    let mut open = server.dial("http/1.1").await.expect("a connection");
    let old = server.ca.clone();
    server.rotate();
    let answer = server.post("/allow", &review().to_string()).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let new = std::mem::replace(&mut server.ca, old);
    let refused = server.dial("http/1.1").await;
    let refused = refused
        .expect_err("the old CA did not issue it")
        .to_string();
    assert!(refused.contains("invalid peer certificate"), "{refused}");
    server.ca = new;
    // Open connections go on.
    let text = request("/allow", &review().to_string());
    open.write_all(text.as_bytes()).await.expect("it is sent");
    let answer = read_to_end(&mut open).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

#[tokio::test]
async fn handshakes_fail_without_a_certificate() {
    let certificates = Arc::new(Certificates::default());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a listener");
    let address = listener.local_addr().expect("an address");
    let never = std::future::pending();
    let served = serve(
        listener,
        certificates,
        Arc::new(router()),
        Settings::default(),
        never,
    );
    let served = tokio::spawn(served);
    let (ca, ..) = test_material(&["127.0.0.1"]);
    let config = client_config(roots(&Trust::Authorities(ca)).expect("a CA"));
    let connector = TlsConnector::from(Arc::new(config.expect("a configuration")));
    let stream = TcpStream::connect(address).await.expect("a connection");
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let refused = connector.connect(name, stream).await;
    assert!(refused.is_err());
    served.abort();
}

/// Limits of bodies that a test can reach.
fn small() -> Settings {
    Settings {
        max_body_bytes: 1000,
        max_buffered_bytes: 1500,
        ..Settings::default()
    }
}

#[tokio::test]
async fn large_bodies_are_refused() {
    let server = Running::start(router(), small()).await;
    let long = format!("\"{}\"", "x".repeat(1000));
    let answer = server.post("/allow", &long).await;
    assert!(
        answer.starts_with("HTTP/1.1 413 Payload Too Large\r\n"),
        "{answer}"
    );
    assert!(
        answer.ends_with("\r\n\r\nthe body is larger than 1000 bytes\n"),
        "{answer}"
    );
    // The same without a declared length.
    let head = "POST /allow HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
                content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("1f4\r\n{}\r\n", "x".repeat(500));
    let answer = server.send(&format!("{head}{}", chunk.repeat(3))).await;
    assert!(
        answer.starts_with("HTTP/1.1 413 Payload Too Large\r\n"),
        "{answer}"
    );
}

#[tokio::test]
async fn bodies_together_are_bounded() {
    let settings = Settings {
        body_timeout: WAIT_TIMEOUT * 2,
        ..small()
    };
    let server = Running::start(router(), settings).await;
    let head = "POST /allow HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
                content-type: application/json\r\ncontent-length: 900\r\n\r\n";
    let mut slow = server.dial("http/1.1").await.expect("a connection");
    let part = format!("{head}{}", "x".repeat(899));
    slow.write_all(part.as_bytes()).await.expect("it is sent");
    let full = format!("{head}{}", "x".repeat(900));
    // The first body is counted as soon as the server has read it.
    let refused = async {
        loop {
            let answer = server.send(&full).await;
            if answer.starts_with("HTTP/1.1 503") {
                return answer;
            }
        }
    };
    let refused = timeout(WAIT_TIMEOUT, refused).await.expect("it is refused");
    assert!(
        refused.ends_with("too many bodies are being read\n"),
        "{refused}"
    );
    // What a request held is given back when it ends.
    drop(slow);
    let accepted = async { while !server.send(&full).await.starts_with("HTTP/1.1 400") {} };
    timeout(WAIT_TIMEOUT, accepted)
        .await
        .expect("there is room again");
}

/// A timeout that a test waits for.
const SHORT_TIMEOUT: Duration = Duration::from_millis(500);

#[tokio::test]
async fn slow_bodies_and_handlers_are_cut_off() {
    let body = review().to_string();
    let settings = Settings {
        body_timeout: SHORT_TIMEOUT,
        ..Settings::default()
    };
    let server = Running::start(router(), settings).await;
    let text = request("/allow", &body);
    let answer = server.send(&text[..text.len() - 1]).await;
    assert!(
        answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"),
        "{answer}"
    );
    assert!(
        answer.ends_with("the body did not arrive in time\n"),
        "{answer}"
    );
    let settings = Settings {
        handler_timeout: SHORT_TIMEOUT,
        ..Settings::default()
    };
    let server = Running::start(router(), settings).await;
    let answer = server.post("/hang", &body).await;
    assert!(
        answer.starts_with("HTTP/1.1 504 Gateway Timeout\r\n"),
        "{answer}"
    );
    assert!(
        answer.ends_with("the handler did not respond in time\n"),
        "{answer}"
    );
}

#[tokio::test]
async fn connections_without_requests_are_closed() {
    let settings = Settings {
        header_timeout: Duration::from_secs(2),
        ..Settings::default()
    };
    let server = Running::start(router(), settings).await;
    // Headers that do not arrive, over either protocol, and no request at all.
    let silent = [
        ("http/1.1", "POST /allow HTTP/1.1\r\nhost"),
        ("h2", "PRI * HTTP/2.0\r\n"),
        ("h2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"),
        ("http/1.1", ""),
    ];
    let silent = silent.map(|(protocol, text)| {
        let server = &server;
        async move {
            let mut stream = server.dial(protocol).await.expect("a connection");
            stream.write_all(text.as_bytes()).await.expect("it is sent");
            let ended = timeout(WAIT_TIMEOUT, stream.read_to_end(&mut Vec::new())).await;
            ended.expect("the connection is closed").ok();
        }
    });
    // A handshake that does not begin.
    let unshaken = async {
        let mut stream = TcpStream::connect(server.address)
            .await
            .expect("a connection");
        let ended = timeout(WAIT_TIMEOUT, stream.read_to_end(&mut Vec::new())).await;
        ended.expect("the connection is closed").ok();
    };
    tokio::join!(futures_util::future::join_all(silent), unshaken);
    // A connection that is kept after a request.
    let settings = Settings {
        idle_timeout: SHORT_TIMEOUT,
        ..Settings::default()
    };
    let server = Running::start(router(), settings).await;
    let mut stream = server.dial("http/1.1").await.expect("a connection");
    let text = request("/allow", &review().to_string()).replace("connection: close\r\n", "");
    stream.write_all(text.as_bytes()).await.expect("it is sent");
    let answer = read_to_end(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

#[tokio::test]
async fn older_versions_of_tls_can_be_refused() {
    for (tls13_only, accepted) in [(false, true), (true, false)] {
        let settings = Settings {
            tls13_only,
            ..Settings::default()
        };
        let server = Running::start(router(), settings).await;
        let roots = roots(&Trust::Authorities(server.ca.clone())).expect("a CA");
        let config =
            rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_protocol_versions(&[&TLS12])
                .expect("a version")
                .with_root_certificates(roots.into_anchors())
                .with_no_client_auth();
        let stream = TcpStream::connect(server.address)
            .await
            .expect("a connection");
        let name = ServerName::from(server.address.ip());
        let connector = TlsConnector::from(Arc::new(config));
        let connected = connector.connect(name, stream).await;
        assert_eq!(connected.is_ok(), accepted, "{tls13_only}");
    }
}

#[tokio::test]
async fn connections_and_requests_beyond_the_limits_wait() {
    let release = Arc::new(Notify::new());
    let running = Arc::new(tokio::sync::watch::Sender::new((0_usize, 0_usize)));
    let (notify, count) = (Arc::clone(&release), Arc::clone(&running));
    let router = router().validating("/wait", move |_| {
        let (notify, count) = (Arc::clone(&notify), Arc::clone(&count));
        async move {
            count.send_modify(|(now, most)| {
                *now += 1;
                *most = (*most).max(*now);
            });
            notify.notified().await;
            count.send_modify(|(now, _)| *now -= 1);
            AdmissionResponse::allow()
        }
    });
    let settings = Settings {
        max_connections: 3,
        max_requests: 2,
        ..Settings::default()
    };
    let server = Arc::new(Running::start(router, settings).await);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let server = Arc::clone(&server);
        calls.spawn(async move { server.post("/wait", &review().to_string()).await });
    }
    let mut seen = running.subscribe();
    let reached = seen.wait_for(|(now, _)| *now == 2);
    timeout(WAIT_TIMEOUT, reached)
        .await
        .expect("in time")
        .expect("it runs");
    for _ in 0..6 {
        release.notify_one();
        let answer = timeout(WAIT_TIMEOUT, calls.join_next())
            .await
            .expect("in time");
        let answer = answer.expect("a call").expect("no panic");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
    assert_eq!(*running.borrow(), (0, 2));
}

#[tokio::test]
async fn shutdown_lets_requests_end() {
    let release = Arc::new(Notify::new());
    let started = Arc::new(Notify::new());
    let (wait, begun) = (Arc::clone(&release), Arc::clone(&started));
    let router = Router::new().validating("/wait", move |_| {
        let (wait, begun) = (Arc::clone(&wait), Arc::clone(&begun));
        async move {
            begun.notify_one();
            wait.notified().await;
            AdmissionResponse::allow()
        }
    });
    let mut server = Running::start(router, Settings::default()).await;
    let mut idle = server.dial("http/1.1").await.expect("a connection");
    let mut stream = server.dial("http/1.1").await.expect("a connection");
    let text = request("/wait", &review().to_string());
    stream.write_all(text.as_bytes()).await.expect("it is sent");
    started.notified().await;
    server
        .stop
        .take()
        .expect("it runs")
        .send(())
        .expect("it runs");
    let ended = timeout(WAIT_TIMEOUT, idle.read_to_end(&mut Vec::new())).await;
    ended.expect("idle connections are closed").ok();
    assert!(!server.served.is_finished());
    release.notify_one();
    let answer = read_to_end(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    timeout(WAIT_TIMEOUT, &mut server.served)
        .await
        .expect("it ends")
        .expect("no panic");
    assert!(TcpStream::connect(server.address).await.is_err());
}
