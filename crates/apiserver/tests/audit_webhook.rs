//! The webhook backend of the audit: batches, retries, and collectors that do not answer.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use insula_apiserver::egress::{Endpoint, EndpointSettings};
use insula_apiserver::pipeline::audit::{WebhookMode, WebhookSettings};
use insula_testkit::etcd::Certificates;
use insula_testkit::server::{Audit, AuditLog, TestServer};
use insula_tls::Trust;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(20);

/// What a collector does with its next calls; after that it takes them.
#[derive(Clone, Copy, Debug)]
enum Behaviour {
    Code(u16),
    Hang,
}

/// The nesting above which the collector refuses a list.
const MAX_COLLECTOR_DEPTH: usize = 1000;

/// Returns the nesting of JSON.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut max, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in json {
        match byte {
            _ if in_string => {
                in_string = escaped || *byte != b'"';
                escaped = !escaped && *byte == b'\\';
            }
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        max = max.max(depth);
    }
    max
}

/// A collector of events.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Calls>>);

#[derive(Default)]
struct Calls {
    behaviour: Option<(Behaviour, usize)>,
    /// Lists that contain this text are refused with 400.
    refused_text: Option<&'static str>,
    lists: Vec<Value>,
    paths: Vec<String>,
    /// The `Authorization` headers of calls that were taken.
    tokens: Vec<String>,
    count: usize,
}

impl Collector {
    /// Starts one, and returns its URL.
    async fn start(&self) -> anyhow::Result<String> {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let url = format!("http://{}/audit", listener.local_addr()?);
        let collector = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let collector = collector.clone();
                let service = service_fn(move |request| collector.clone().answer(request));
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(async move { connection.await.ok() });
            }
        });
        Ok(url)
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next calls end like this.
    fn next(&self, calls: usize, behaviour: Behaviour) {
        self.calls().behaviour = Some((behaviour, calls));
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let path = request.uri().to_string();
        let token = request.headers().get(http::header::AUTHORIZATION);
        let token = token
            .and_then(|token| token.to_str().ok())
            .map(str::to_owned);
        let body = request
            .into_body()
            .collect()
            .await
            .map(|body| body.to_bytes());
        let body = body.unwrap_or_default();
        let refused_text = self.calls().refused_text;
        let is_refused = refused_text
            .is_some_and(|text| String::from_utf8_lossy(&body).contains(text))
            || depth(&body) > MAX_COLLECTOR_DEPTH;
        let list: Value = serde_json::from_slice(&body).unwrap_or_default();
        let behaviour = match is_refused {
            true => Some(Behaviour::Code(400)),
            false => self.received(path, list),
        };
        let code = match behaviour {
            Some(Behaviour::Hang) => std::future::pending().await,
            Some(Behaviour::Code(code)) => code,
            None => {
                self.calls().tokens.extend(token);
                200
            }
        };
        let response = Response::builder().status(code).body(Full::default());
        Ok(response.unwrap_or_default())
    }

    fn received(&self, path: String, list: Value) -> Option<Behaviour> {
        let mut calls = self.calls();
        calls.count += 1;
        if let Some((behaviour, left)) = calls.behaviour
            && left > 0
        {
            calls.behaviour = Some((behaviour, left - 1));
            return Some(behaviour);
        }
        calls.lists.push(list);
        calls.paths.push(path);
        None
    }

    /// Every event that was taken.
    fn events(&self) -> Vec<Value> {
        let calls = self.calls();
        let items = |list: &Value| list["items"].as_array().cloned().unwrap_or_default();
        calls.lists.iter().flat_map(items).collect()
    }

    async fn until(&self, holds: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while !holds(self) {
            let count = self.calls().count;
            anyhow::ensure!(
                Instant::now() < deadline,
                "{count} calls, {:?}",
                self.events()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

/// Settings with short delays.
fn quick() -> WebhookSettings {
    WebhookSettings {
        max_wait: Duration::from_millis(20),
        initial_backoff: Duration::from_millis(10),
        ..WebhookSettings::default()
    }
}

async fn audited(
    collector: &Collector,
    settings: WebhookSettings,
) -> anyhow::Result<(TestServer, AuditLog)> {
    audited_by(collector, settings, "").await
}

async fn audited_by(
    collector: &Collector,
    settings: WebhookSettings,
    policy: &str,
) -> anyhow::Result<(TestServer, AuditLog)> {
    let (log, url) = (AuditLog::default(), collector.start().await?);
    let audit = Audit::Webhook(log.clone(), url, settings, policy.to_owned());
    Ok((TestServer::audited(audit).await?, log))
}

#[tokio::test]
async fn both_backends_get_the_same_events() -> anyhow::Result<()> {
    let collector = Collector::default();
    let (mut server, log) = audited(&collector, quick()).await?;
    let tenant = server.tenant("t1").await?;
    for _ in 0..20 {
        assert_eq!(tenant.get("/api").await?.status, 200);
    }
    server.stop().await;
    let mut logged = log.events()?;
    for event in &mut logged {
        // The list says it for all.
        let event = event.as_object_mut().expect("an object");
        assert_eq!(event.remove("kind"), Some("Event".into()));
        assert_eq!(event.remove("apiVersion"), Some("audit.k8s.io/v1".into()));
    }
    assert_eq!(logged.len(), 21);
    assert_eq!(collector.events(), logged);
    let calls = collector.0.lock().unwrap();
    for (list, path) in calls.lists.iter().zip(&calls.paths) {
        assert_eq!(list["kind"], "EventList");
        assert_eq!(list["apiVersion"], "audit.k8s.io/v1");
        assert_eq!(path, "/audit?timeout=30s");
    }
    Ok(())
}

#[tokio::test]
async fn events_are_sent_in_batches_and_the_rest_at_shutdown() -> anyhow::Result<()> {
    let collector = Collector::default();
    let settings = WebhookSettings {
        max_batch_events: 10,
        max_wait: Duration::from_secs(3600),
        ..quick()
    };
    let (mut server, _) = audited(&collector, settings).await?;
    let tenant = server.tenant("t1").await?;
    for _ in 0..24 {
        tenant.get("/api").await?;
    }
    let sizes = |collector: &Collector| -> Vec<usize> {
        let calls = collector.0.lock().unwrap();
        let size = |list: &Value| list["items"].as_array().map_or(0, Vec::len);
        calls.lists.iter().map(size).collect()
    };
    collector.until(|calls| sizes(calls).len() == 2).await?;
    assert_eq!(sizes(&collector), [10, 10]);
    server.stop().await;
    assert_eq!(sizes(&collector), [10, 10, 5]);
    Ok(())
}

#[tokio::test]
async fn failed_batches_are_sent_again() -> anyhow::Result<()> {
    for code in [500, 503, 429, 400] {
        let collector = Collector::default();
        collector.next(3, Behaviour::Code(code));
        let (mut server, log) = audited(&collector, quick()).await?;
        let tenant = server.tenant("t1").await?;
        tenant.get("/api").await?;
        collector.until(|calls| calls.events().len() == 2).await?;
        let metrics = server.system().await?.get("/metrics").await?.text();
        assert!(
            metrics.contains("\ninsula_audit_webhook_failed_total 0\n"),
            "{metrics}"
        );
        server.stop().await;
        let ids = |events: Vec<Value>| -> Vec<Value> {
            events
                .iter()
                .map(|event| event["auditID"].clone())
                .collect()
        };
        let (mut sent, mut logged) = (ids(collector.events()), ids(log.events()?));
        sent.sort_by_key(Value::to_string);
        logged.sort_by_key(Value::to_string);
        assert_eq!(sent, logged, "after {code}");
    }
    Ok(())
}

#[tokio::test]
async fn event_that_the_collector_refuses_loses_no_others() -> anyhow::Result<()> {
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Request}]\n";
    let deep = format!("{}{}", "[".repeat(1100), "]".repeat(1100));
    for (hidden, refused_text) in [(deep.as_str(), None), ("1", Some("refuse-me"))] {
        let collector = Collector::default();
        collector.calls().refused_text = refused_text;
        let settings = WebhookSettings {
            max_wait: Duration::from_secs(3600),
            ..quick()
        };
        let (mut server, _) = audited_by(&collector, settings, policy).await?;
        let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
        let path = "/api/v1/namespaces/default/configmaps";
        let map =
            format!(r#"{{"metadata":{{"name":"a"}},"data":{{"k":"refuse-me"}},"zz":{hidden}}}"#);
        let headers = [("content-type", "application/json")];
        let sent = one.send(http::Method::POST, path, &headers, map).await?;
        assert_eq!(sent.status, 201, "{sent:?}");
        let mut ids = vec![sent.header("audit-id").to_owned()];
        for _ in 0..20 {
            let answer = two.get(path).await?;
            ids.push(answer.header("audit-id").to_owned());
        }
        server.stop().await;
        let events = collector.events();
        for id in ids {
            let is_last = |event: &&Value| {
                event["auditID"] == id.as_str() && event["stage"] == "ResponseComplete"
            };
            let found = events.iter().filter(is_last).count();
            assert_eq!(found, 1, "{id} of {} events", events.len());
        }
    }
    Ok(())
}

#[tokio::test]
async fn dead_collector_delays_no_request_and_what_it_misses_is_counted() -> anyhow::Result<()> {
    let collector = Collector::default();
    collector.next(usize::MAX, Behaviour::Hang);
    let settings = WebhookSettings {
        max_batch_events: 1,
        buffer_events: 10,
        throttle: None,
        ..quick()
    };
    let (server, log) = audited(&collector, settings).await?;
    let tenant = server.tenant("t1").await?;
    let begin = Instant::now();
    for _ in 0..200 {
        assert_eq!(tenant.get("/api").await?.status, 200);
    }
    // The collector never answers: had a request waited for it, it would have taken 30 seconds.
    assert!(
        begin.elapsed() < Duration::from_secs(15),
        "{:?}",
        begin.elapsed()
    );
    let metrics = server.system().await?.get("/metrics").await?.text();
    let value = |name: &str| -> u64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse().ok())
            .unwrap_or(u64::MAX)
    };
    // Four on their way, ten in the buffer; 201 with the tenant's creation.
    assert_eq!(
        value("insula_audit_webhook_buffered_events"),
        10,
        "{metrics}"
    );
    assert_eq!(
        value("insula_audit_webhook_dropped_total"),
        201 - 14,
        "{metrics}"
    );
    let dropped = value("apiserver_audit_error_total{plugin=\"buffered\"}");
    assert_eq!(dropped, 201 - 14);
    assert_eq!(value("insula_audit_webhook_sent_total"), 0);
    // The log is written after the responses.
    while log.events()?.len() < 201 {
        anyhow::ensure!(
            begin.elapsed() < Duration::from_secs(30),
            "events are missing"
        );
        tokio::task::yield_now().await;
    }
    Ok(())
}

#[tokio::test]
async fn blocking_webhook_has_the_event_before_the_client_has_the_response() -> anyhow::Result<()> {
    let collector = Collector::default();
    let settings = WebhookSettings {
        mode: WebhookMode::Blocking,
        ..quick()
    };
    let (server, _) = audited(&collector, settings).await?;
    let tenant = server.tenant("t1").await?;
    for _ in 0..5 {
        let answer = tenant.get("/api").await?;
        let last = collector.events().pop().unwrap_or_default();
        assert_eq!(last["auditID"], answer.header("audit-id"));
    }
    // A failing collector does not fail the request.
    collector.next(usize::MAX, Behaviour::Code(500));
    assert_eq!(tenant.get("/api").await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn strict_webhook_refuses_requests_whose_first_event_is_not_taken() -> anyhow::Result<()> {
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
    for (mode, code) in [
        (WebhookMode::BlockingStrict, 500),
        (WebhookMode::Blocking, 201),
    ] {
        let collector = Collector::default();
        let settings = WebhookSettings {
            mode,
            initial_backoff: Duration::from_millis(1),
            ..quick()
        };
        let (server, _) = audited_by(&collector, settings, policy).await?;
        let tenant = server.tenant("t1").await?;
        collector.next(usize::MAX, Behaviour::Code(503));
        let map = serde_json::json!({"metadata": {"name": "a"}});
        let path = "/api/v1/namespaces/default/configmaps";
        let answer = tenant.post(path, &map).await?;
        assert_eq!(answer.status, code, "{mode:?}: {answer:?}");
        if code == 500 {
            assert!(
                answer.text().contains("failed to store audit event"),
                "{answer:?}"
            );
        }
        collector.next(0, Behaviour::Code(503));
        // What was refused was not done.
        let found = tenant.get(&format!("{path}/a")).await?.status;
        assert_eq!(found, if code == 500 { 404 } else { 200 }, "{mode:?}");
        let metrics = server.system().await?.get("/metrics").await?.text();
        let rejected = u8::from(code == 500);
        let line = format!("\napiserver_audit_requests_rejected_total {rejected}\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
    Ok(())
}

#[tokio::test]
async fn token_file_is_read_again_when_the_token_is_refused() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let token_file = folder.path().join("token");
    let collector = Collector::default();
    let endpoint = Endpoint::new(EndpointSettings {
        url: collector.start().await?.parse()?,
        trust: Trust::System,
        server_name: None,
        identity: None,
        authorization: Some(http::HeaderValue::from_static("Bearer old")),
        token_file: Some(token_file.clone()),
    })?;
    for (token, is_taken) in [("old", false), ("new\n", true)] {
        std::fs::write(&token_file, token)?;
        collector.next(1, Behaviour::Code(401));
        let posted = endpoint.post("{}".into(), TIMEOUT).await;
        assert_eq!(posted.is_ok(), is_taken, "{token}: {posted:?}");
    }
    let calls = collector.calls();
    assert_eq!(
        (calls.count, calls.tokens.as_slice()),
        (3, &["Bearer new".to_owned()][..])
    );
    Ok(())
}

/// Serves one call over TLS that requires a client certificate, and returns its head.
async fn serve_once(
    listener: TcpListener,
    certificates: &Certificates,
) -> anyhow::Result<tokio::task::JoinHandle<anyhow::Result<String>>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificates.ca.as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
        Arc::new(roots),
        Arc::clone(&provider),
    );
    let server = &certificates.server;
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier.build()?)
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(server.cert.as_bytes())?],
            PrivateKeyDer::from_pem_slice(server.key.as_bytes())?,
        )?;
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    Ok(tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        let mut stream = acceptor.accept(stream).await?;
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            anyhow::ensure!(stream.read_buf(&mut head).await? > 0, "the call was cut");
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .await?;
        stream.flush().await?;
        Ok(String::from_utf8_lossy(&head).into_owned())
    }))
}

#[tokio::test]
async fn collector_is_verified_and_gets_the_credentials() -> anyhow::Result<()> {
    let (certificates, other) = (Certificates::generate()?, Certificates::generate()?);
    for (ca, has_identity, error) in [
        (&certificates.ca, true, ""),
        (&other.ca, true, "certificate signed by unknown authority"),
        // In TLS 1.3 the refusal of a client comes with the response.
        (&certificates.ca, false, "EOF"),
    ] {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let url = format!("https://{}/events?x=1", listener.local_addr()?);
        let client = &certificates.client;
        let identity = (
            vec![CertificateDer::from_pem_slice(client.cert.as_bytes())?],
            PrivateKeyDer::from_pem_slice(client.key.as_bytes())?,
        );
        let endpoint = Endpoint::new(EndpointSettings {
            url: url.parse()?,
            trust: Trust::Authorities(ca.clone()),
            server_name: None,
            identity: has_identity.then_some(identity),
            authorization: Some(http::HeaderValue::from_static("Bearer t")),
            token_file: None,
        })?;
        let served = serve_once(listener, &certificates).await?;
        let posted = endpoint.post("{}".into(), TIMEOUT).await;
        let posted = posted.map_err(|error| error.to_string());
        match (posted, error) {
            (Ok(()), "") => {
                let head = served.await??;
                assert!(
                    head.starts_with("POST /events?x=1&timeout=20s HTTP/1.1\r\n"),
                    "{head}"
                );
                assert!(head.contains("\r\nauthorization: Bearer t\r\n"), "{head}");
            }
            (Err(why), "EOF") => assert_ne!(why, "deadline exceeded"),
            (Err(why), error) => assert!(!error.is_empty() && why.contains(error), "{why}"),
            (Ok(()), error) => anyhow::bail!("posted in spite of {error}"),
        }
    }
    Ok(())
}
