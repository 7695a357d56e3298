//! Health endpoints of an operator: `/healthz`, `/livez`, `/readyz`, and `/metrics` in the
//! Prometheus text format.

use std::convert::Infallible;
use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tracing::{debug, info};

use crate::retry::Outcome;

/// The health and the metrics of an operator.
#[derive(Debug, Default)]
pub struct Health {
    ready: AtomicBool,
    leader: AtomicBool,
    objects: AtomicUsize,
    waiting: AtomicUsize,
    working: AtomicUsize,
    counts: [AtomicU64; RESULTS.len()],
    /// The total duration of all reconciliations in nanoseconds.
    spent: AtomicU64,
    extra_metrics: ExtraMetrics,
}

/// Metrics of other components.
#[derive(Default)]
struct ExtraMetrics(Mutex<Vec<Arc<dyn Fn() -> String + Send + Sync>>>);

impl fmt::Debug for ExtraMetrics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Further")
    }
}

/// The values of the `result` label.
const RESULTS: [&str; 6] = [
    "settled",
    "repaired",
    "progressed",
    "waits",
    "failed",
    "gone",
];

impl Health {
    /// Sets whether the operator can work or stands by.
    pub(crate) fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// Sets whether it is the leader.
    pub(crate) fn set_leader(&self, leader: bool) {
        self.leader.store(leader, Ordering::Relaxed);
    }

    /// Returns whether the operator can work or stands by.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Returns whether it is the leader.
    pub fn is_leader(&self) -> bool {
        self.leader.load(Ordering::Relaxed)
    }

    /// Records the numbers of objects, queued objects and running reconciliations.
    pub(crate) fn observe(&self, objects: usize, waiting: usize, working: usize) {
        self.objects.store(objects, Ordering::Relaxed);
        self.waiting.store(waiting, Ordering::Relaxed);
        self.working.store(working, Ordering::Relaxed);
    }

    /// Records the end of a reconciliation.
    pub(crate) fn count(&self, outcome: Outcome, took: Duration) {
        let result = match outcome {
            Outcome::Settled(_) => 0,
            Outcome::Repaired => 1,
            Outcome::Progressed => 2,
            Outcome::Waits(_) => 3,
            Outcome::Failed(_) => 4,
            Outcome::Gone => 5,
        };
        self.counts[result].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.spent.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Adds a source of metrics in the Prometheus text format. It is called on every scrape.
    pub fn add_metrics(&self, figures: impl Fn() -> String + Send + Sync + 'static) {
        let mut extra_metrics = self
            .extra_metrics
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        extra_metrics.push(Arc::new(figures));
    }

    /// Returns all metrics in the Prometheus text format.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        let counts = self
            .counts
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed));
        write_header(
            &mut text,
            "reconciles_total",
            "counter",
            "Work on objects, by what became of it.",
        );
        for (result, count) in RESULTS.iter().zip(counts) {
            write_sample(
                &mut text,
                &format!("reconciles_total{{result=\"{result}\"}}"),
                count,
            );
        }
        write_header(
            &mut text,
            "reconcile_seconds",
            "summary",
            "How long work on an object took.",
        );
        let spent = Duration::from_nanos(self.spent.load(Ordering::Relaxed));
        write_sample(&mut text, "reconcile_seconds_sum", spent.as_secs_f64());
        write_sample(
            &mut text,
            "reconcile_seconds_count",
            counts.iter().sum::<u64>(),
        );
        for (name, help, value) in [
            ("objects", "Objects that there are.", &self.objects),
            (
                "queued",
                "Objects that wait to be worked on.",
                &self.waiting,
            ),
            ("in_flight", "Objects that are worked on.", &self.working),
        ] {
            write_header(&mut text, name, "gauge", help);
            write_sample(&mut text, name, value.load(Ordering::Relaxed));
        }
        write_header(
            &mut text,
            "leader",
            "gauge",
            "Whether it is this one's turn to work.",
        );
        write_sample(&mut text, "leader", u8::from(self.is_leader()));
        // Sources may take locks of their own, so this lock is released first.
        let extra_metrics = self.extra_metrics.0.lock();
        let extra_metrics = extra_metrics
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for figures in extra_metrics {
            text.push_str(&figures());
        }
        text
    }

    fn answer(&self, method: &Method, path: &str) -> (StatusCode, String) {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return (StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned());
        }
        match path {
            "/healthz" | "/livez" => (StatusCode::OK, "ok\n".to_owned()),
            "/readyz" if self.is_ready() => (StatusCode::OK, "ok\n".to_owned()),
            "/readyz" => {
                let text = "waits until it can work\n".to_owned();
                (StatusCode::SERVICE_UNAVAILABLE, text)
            }
            "/metrics" => (StatusCode::OK, self.metrics()),
            _ => (StatusCode::NOT_FOUND, "not found\n".to_owned()),
        }
    }
}

/// The health address could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct CannotListen {
    address: SocketAddr,
    source: std::io::Error,
}

/// Binds the health address, so that a failure is reported at start-up.
///
/// # Errors
///
/// If the address cannot be bound.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, CannotListen> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|source| CannotListen { address, source })
}

/// The maximum number of concurrent connections; further ones wait.
const MAX_CONNECTIONS: usize = 32;
/// The timeout for reading a request's headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves health requests until the future is dropped.
pub async fn serve(listener: TcpListener, health: Arc<Health>) {
    if let Ok(address) = listener.local_addr() {
        info!(%address, "health endpoint started");
    }
    let seats = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok(seat) = Arc::clone(&seats).acquire_owned().await else {
            return;
        };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let health = Arc::clone(&health);
                connections.spawn(async move {
                    serve_connection(stream, health).await;
                    drop(seat);
                });
            }
            // The error is temporary, such as too many open files.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn serve_connection(stream: TcpStream, health: Arc<Health>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let health = Arc::clone(&health);
        async move { Ok::<_, Infallible>(respond(&health, &request)) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        debug!(%error, "health connection closed");
    }
}

fn respond(health: &Health, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (status, text) = health.answer(request.method(), request.uri().path());
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    let plain = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

fn write_header(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "# HELP insula_operator_{name} {help}\n# TYPE insula_operator_{name} {kind}\n"
    );
}

fn write_sample(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = writeln!(text, "insula_operator_{name} {value}");
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::retry::Class;

    #[test]
    fn metrics_list_every_value() {
        let health = Health::default();
        health.set_leader(true);
        health.observe(3, 2, 1);
        health.count(Outcome::Settled(Duration::ZERO), Duration::from_millis(250));
        health.count(
            Outcome::Failed(Class::Transient),
            Duration::from_millis(500),
        );
        let text = health.metrics();
        let lines: Vec<_> = text
            .lines()
            .filter(|write_sample| !write_sample.starts_with('#'))
            .collect();
        assert_eq!(
            lines,
            [
                "insula_operator_reconciles_total{result=\"settled\"} 1",
                "insula_operator_reconciles_total{result=\"repaired\"} 0",
                "insula_operator_reconciles_total{result=\"progressed\"} 0",
                "insula_operator_reconciles_total{result=\"waits\"} 0",
                "insula_operator_reconciles_total{result=\"failed\"} 1",
                "insula_operator_reconciles_total{result=\"gone\"} 0",
                "insula_operator_reconcile_seconds_sum 0.75",
                "insula_operator_reconcile_seconds_count 2",
                "insula_operator_objects 3",
                "insula_operator_queued 2",
                "insula_operator_in_flight 1",
                "insula_operator_leader 1",
            ]
        );
    }

    #[test]
    fn added_metrics_are_read_on_every_scrape() {
        let health = Arc::new(Health::default());
        let own = health.metrics();
        let asked = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&asked);
        health.add_metrics(move || format!("sessions {}\n", count.fetch_add(1, Ordering::Relaxed)));
        // A source that adds another source must not deadlock.
        let (inner, again) = (Arc::downgrade(&health), AtomicBool::new(false));
        health.add_metrics(move || {
            if let (Some(health), false) = (inner.upgrade(), again.swap(true, Ordering::Relaxed)) {
                health.add_metrics(|| "late 1\n".to_owned());
            }
            String::new()
        });
        assert_eq!(health.metrics(), format!("{own}sessions 0\n"));
        assert_eq!(health.metrics(), format!("{own}sessions 1\nlate 1\n"));
    }

    #[tokio::test]
    async fn health_endpoints_respond() {
        let listener = listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let health = Arc::new(Health::default());
        let served = tokio::spawn(serve(listener, Arc::clone(&health)));
        for (ready, path, status, text) in [
            (false, "/healthz", "200 OK", "ok\n"),
            (false, "/livez", "200 OK", "ok\n"),
            (
                false,
                "/readyz",
                "503 Service Unavailable",
                "waits until it can work\n",
            ),
            (true, "/readyz", "200 OK", "ok\n"),
            (true, "/", "404 Not Found", "not found\n"),
        ] {
            health.set_ready(ready);
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}\r\n")),
                "{answer}"
            );
            assert!(answer.ends_with(&format!("\r\n\r\n{text}")), "{answer}");
        }
        served.abort();
    }
}
