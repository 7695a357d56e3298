//! How an operator says how it is: `/healthz`, `/livez`, `/readyz`, and `/metrics` in the
//! text form of Prometheus.

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

/// How an operator is.
#[derive(Debug, Default)]
pub struct Health {
    ready: AtomicBool,
    leader: AtomicBool,
    objects: AtomicUsize,
    waiting: AtomicUsize,
    working: AtomicUsize,
    counts: [AtomicU64; RESULTS.len()],
    /// Of all work, in nanoseconds.
    spent: AtomicU64,
    further: Further,
}

/// What else has figures.
#[derive(Default)]
struct Further(Mutex<Vec<Arc<dyn Fn() -> String + Send + Sync>>>);

impl fmt::Debug for Further {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Further")
    }
}

/// What work can end with, as it is counted.
const RESULTS: [&str; 6] = [
    "settled",
    "repaired",
    "progressed",
    "waits",
    "failed",
    "gone",
];

impl Health {
    /// Whether it could work, or waits for its turn.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// Whether it is its turn.
    pub fn set_leader(&self, leader: bool) {
        self.leader.store(leader, Ordering::Relaxed);
    }

    /// Whether it could work, or waits for its turn.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Whether it is its turn.
    pub fn is_leader(&self) -> bool {
        self.leader.load(Ordering::Relaxed)
    }

    /// How many objects there are, wait, and are worked on.
    pub(crate) fn observe(&self, objects: usize, waiting: usize, working: usize) {
        self.objects.store(objects, Ordering::Relaxed);
        self.waiting.store(waiting, Ordering::Relaxed);
        self.working.store(working, Ordering::Relaxed);
    }

    /// Work has ended.
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

    /// Something else has figures too: their text, in the form of Prometheus, is asked for
    /// whenever somebody wants to see all of them.
    pub fn also(&self, figures: impl Fn() -> String + Send + Sync + 'static) {
        let mut further = self
            .further
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        further.push(Arc::new(figures));
    }

    /// All figures, in the text form of Prometheus.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        let counts = self
            .counts
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed));
        head(
            &mut text,
            "reconciles_total",
            "counter",
            "Work on objects, by what became of it.",
        );
        for (result, count) in RESULTS.iter().zip(counts) {
            line(
                &mut text,
                &format!("reconciles_total{{result=\"{result}\"}}"),
                count,
            );
        }
        head(
            &mut text,
            "reconcile_seconds",
            "summary",
            "How long work on an object took.",
        );
        let spent = Duration::from_nanos(self.spent.load(Ordering::Relaxed));
        line(&mut text, "reconcile_seconds_sum", spent.as_secs_f64());
        line(
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
            head(&mut text, name, "gauge", help);
            line(&mut text, name, value.load(Ordering::Relaxed));
        }
        head(
            &mut text,
            "leader",
            "gauge",
            "Whether it is this one's turn to work.",
        );
        line(&mut text, "leader", u8::from(self.is_leader()));
        // They may take locks of their own: this one is not held meanwhile.
        let further = self.further.0.lock();
        let further = further.unwrap_or_else(PoisonError::into_inner).clone();
        for figures in further {
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

/// Where it says so could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct CannotListen {
    address: SocketAddr,
    source: std::io::Error,
}

/// Listens, so that whoever starts an operator learns at once when it cannot.
///
/// # Errors
///
/// If the address is not to be had.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, CannotListen> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|source| CannotListen { address, source })
}

/// How many are answered at the same time: whoever asks more waits.
const CONNECTIONS: usize = 32;
/// How long whoever asks may take to say what.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers whoever asks, for as long as it is not dropped.
pub async fn serve(listener: TcpListener, health: Arc<Health>) {
    if let Ok(address) = listener.local_addr() {
        info!(%address, "says how it is");
    }
    let seats = Arc::new(Semaphore::new(CONNECTIONS));
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
                    converse(stream, health).await;
                    drop(seat);
                });
            }
            // Too many files are open, or the like: it passes.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn converse(stream: TcpStream, health: Arc<Health>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let health = Arc::clone(&health);
        async move { Ok::<_, Infallible>(respond(&health, &request)) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        debug!(%error, "whoever asked how it is went away");
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

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "# HELP insula_operator_{name} {help}\n# TYPE insula_operator_{name} {kind}\n"
    );
}

fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = writeln!(text, "insula_operator_{name} {value}");
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::retry::Class;

    #[test]
    fn every_figure_has_a_line() {
        let health = Health::default();
        health.set_leader(true);
        health.observe(3, 2, 1);
        health.count(Outcome::Settled(Duration::ZERO), Duration::from_millis(250));
        health.count(
            Outcome::Failed(Class::Transient),
            Duration::from_millis(500),
        );
        let text = health.metrics();
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
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
    fn figures_of_others_follow_as_they_are_when_they_are_asked_for() {
        let health = Arc::new(Health::default());
        let own = health.metrics();
        let asked = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&asked);
        health.also(move || format!("sessions {}\n", count.fetch_add(1, Ordering::Relaxed)));
        // One that adds another while it is asked keeps nobody waiting.
        let (inner, again) = (Arc::downgrade(&health), AtomicBool::new(false));
        health.also(move || {
            if let (Some(health), false) = (inner.upgrade(), again.swap(true, Ordering::Relaxed)) {
                health.also(|| "late 1\n".to_owned());
            }
            String::new()
        });
        assert_eq!(health.metrics(), format!("{own}sessions 0\n"));
        assert_eq!(health.metrics(), format!("{own}sessions 1\nlate 1\n"));
    }

    #[tokio::test]
    async fn whoever_asks_is_told() {
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
