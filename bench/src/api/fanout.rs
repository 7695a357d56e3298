//! What watches cost: a write that concerns none of them, a neighbour, an event, and memory.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use h2::RecvStream;
use http::{Method, StatusCode};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep_until, timeout};

use super::client::{Client, Sender};
use super::kubeconfig::Kubeconfig;
use super::load::{WAIT_TIMEOUT, all};
use super::objects;
use super::server::{Program, Server};
use super::subject::{Stopwatch, Subject};
use super::watches::{self, Load};
use crate::figures::{Figures, Quantiles};
use crate::report::progress;

#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The numbers of watches on names that are not written; the first is what others are
    /// compared to.
    pub others: [usize; 4],
    /// The writes for each of these numbers.
    pub writes: usize,
    /// How long the neighbour is measured.
    pub window: Duration,
    /// The watches that get every event.
    pub watchers: usize,
    pub events: usize,
}

/// The tenants.
const NOISY: &str = "noisy";
const QUIET: &str = "quiet";
/// The paths are those inside a tenant.
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The default of a tenant is 10,000 watches and 2,000 requests a second.
const LIMITS: &str = "watches=20000,requestsPerSecond=none";
/// The maximum number of watches on a connection.
const WATCHES_EACH: usize = 100;
/// How many watches are opened at once.
const OPENED_AT_ONCE: usize = 200;
/// The writes per second beside which the neighbour is measured, and its own gets.
const WRITES_PER_SECOND: u32 = 50;
const GETS_PER_SECOND: u32 = 100;
/// The timeout until a new tenant has its namespace.
const READY: Duration = Duration::from_secs(30);
/// How long the server has to return the memory of closed watches.
const RETURN_TIME: Duration = Duration::from_secs(12);

/// The figures of a number of watches on other names.
pub fn prefix(watches: usize) -> String {
    format!("fanout {watches} others")
}

/// An object that is written, one write after the other.
struct Writer {
    _client: Client,
    sender: Sender,
    path: String,
    version: u64,
}

/// Open watches.
struct Watches {
    _client: Client,
    readers: JoinSet<()>,
}

pub async fn measure(program: &Program, size: Size) -> Result<Figures> {
    let program = Program {
        more: ["--tenant-limits-default", LIMITS]
            .map(OsString::from)
            .into(),
        ..program.clone()
    };
    let server = program.start()?;
    let noisy = tenant(&server, NOISY).await?;
    let quiet = tenant(&server, QUIET).await?;
    let mut writer = Writer::new(&noisy).await?;
    let neighbour = Writer::new(&quiet).await?;
    let mut figures = Figures::default();
    for watches in size.others {
        progress(&format!("writes beside {watches} watches on other names"));
        server.subject.wait_until_idle().await?;
        let before = server.subject.resident()?;
        let open = Watches::open(&noisy, watches).await?;
        server.subject.wait_until_idle().await?;
        let held = server.subject.resident()? - before;
        let written = writer.measure(&noisy, size.writes).await?;
        let (gets, back);
        (gets, back) = beside(&neighbour, writer, size.window).await?;
        writer = back;
        let resident = server.subject.resident()?;
        open.close().await;
        tokio::time::sleep(RETURN_TIME).await;
        let kept = server.subject.resident()? - before;
        let of = Figures::default()
            .with("write cpu", written)
            .times("get", gets)
            .with("held", held / watches as f64)
            .with("resident", resident)
            .with("kept", kept.max(0.0) / watches as f64);
        figures = figures.and(of.under(&prefix(watches)));
    }
    for writers in [1, 8] {
        let load = Load {
            writers,
            watchers: size.watchers,
            events: size.events,
        };
        let delivered = watches::measure_load(&noisy, MAPS, load).await?;
        figures = figures.and(delivered.under(&format!("fanout {writers} writers")));
    }
    server.stop()?;
    Ok(compare(figures, size))
}

/// Adds what the largest number of watches costs beside the smallest.
fn compare(figures: Figures, size: Size) -> Figures {
    let [few, .., many] = size.others;
    let ratio = |figure: &str| {
        let few = figures.get(&format!("{} {figure}", prefix(few)))?;
        let many = figures.get(&format!("{} {figure}", prefix(many)))?;
        (few > 0.0).then(|| many / few)
    };
    let of_many = |figure: &str| figures.get(&format!("{} {figure}", prefix(many)));
    let (write, get) = (ratio("write cpu"), ratio("get p99"));
    let (held, kept) = (of_many("held"), of_many("kept"));
    figures
        .maybe("fanout write ratio", write)
        .maybe("fanout neighbour ratio", get)
        .maybe("fanout held", held)
        .maybe("fanout kept", kept)
}

/// Creates a tenant, and returns the server as its administrator sees it.
async fn tenant(server: &Server, name: &str) -> Result<Subject> {
    let admin = server.subject.connect(1).await?;
    let body = Some(objects::tenant(name));
    let created = admin.call(Method::POST, "/api/v1/tenants", body).await?;
    created.expect(StatusCode::CREATED)?;
    let kubeconfig = server.kubeconfig_text_of(name, "admin", &[])?;
    let subject = Subject {
        kubeconfig: Kubeconfig::parse(&kubeconfig)?,
        pids: server.subject.pids.clone(),
    };
    let client = subject.connect(1).await?;
    let until = Instant::now() + READY;
    while client.get("/api/v1/namespaces/default").await?.status != StatusCode::OK {
        ensure!(Instant::now() < until, "{name} does not become ready");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(subject)
}

impl Writer {
    async fn new(subject: &Subject) -> Result<Self> {
        let client = subject.connect(1).await?;
        let body = Some(objects::configmap(0, None, "-"));
        let created = client.call(Method::POST, MAPS, body).await?;
        created.expect(StatusCode::CREATED)?;
        Ok(Self {
            sender: client.sender(0)?,
            path: format!("{MAPS}/{}", objects::name(0)),
            version: created.version()?,
            _client: client,
        })
    }

    async fn write(&mut self, n: usize) -> Result<()> {
        let body = objects::configmap(0, Some(self.version), &format!("write-{n:08}"));
        let request = self.sender.prepare(Method::PUT, &self.path, Some(body))?;
        let answer = self.sender.send(request).await?;
        answer.expect(StatusCode::OK)?;
        self.version = answer.version()?;
        Ok(())
    }

    /// Returns the CPU time of a write.
    async fn measure(&mut self, subject: &Subject, writes: usize) -> Result<f64> {
        let watch = Stopwatch::start(subject).await?;
        for n in 0..writes {
            timeout(WAIT_TIMEOUT, self.write(n))
                .await
                .context("the server hangs")??;
        }
        Ok(watch.stop(vec![Duration::ZERO; writes]).await?.each())
    }
}

/// Measures gets of a neighbour at a steady rate, while a writer writes at a steady rate. Returns
/// the writer.
async fn beside(
    neighbour: &Writer,
    mut writer: Writer,
    window: Duration,
) -> Result<(Quantiles, Writer)> {
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    let writing: JoinHandle<Result<Writer>> = tokio::spawn(async move {
        let start = tokio::time::Instant::now();
        for n in 0.. {
            if ends.load(Ordering::Relaxed) {
                break;
            }
            sleep_until(start + Duration::from_secs(1) / WRITES_PER_SECOND * n).await;
            writer.write(n as usize).await?;
        }
        Ok(writer)
    });
    let count = (window.as_secs_f64() * f64::from(GETS_PER_SECOND)) as u32;
    let start = tokio::time::Instant::now();
    let mut sent = JoinSet::new();
    for n in 0..count.max(1) {
        let due = start + Duration::from_secs(1) / GETS_PER_SECOND * n;
        sleep_until(due).await;
        // Timers are late by up to a millisecond, more than a get takes.
        let begun = Instant::now();
        let (sender, path) = (neighbour.sender.clone(), neighbour.path.clone());
        sent.spawn(async move {
            let request = sender.prepare(Method::GET, &path, None)?;
            sender.send(request).await?.expect(StatusCode::OK)?;
            Ok(vec![begun.elapsed()])
        });
    }
    let times = timeout(WAIT_TIMEOUT, all(sent))
        .await
        .context("the server hangs")??;
    is_over.store(true, Ordering::Relaxed);
    Ok((Quantiles::of(times), writing.await??))
}

impl Watches {
    /// Opens watches, each on the name of an object that does not exist.
    async fn open(subject: &Subject, count: usize) -> Result<Self> {
        let client = subject.connect(count.div_ceil(WATCHES_EACH)).await?;
        let mut readers = JoinSet::new();
        for begin in (0..count).step_by(OPENED_AT_ONCE) {
            let mut opening = JoinSet::new();
            for n in begin..count.min(begin + OPENED_AT_ONCE) {
                let selector = format!("fieldSelector=metadata.name%3Dother-{n}");
                let path = format!("{MAPS}?watch=true&resourceVersion=0&{selector}");
                let sender = client.sender(n)?;
                let request = sender.prepare(Method::GET, &path, None)?;
                opening.spawn(async move { Ok(vec![sender.open(request).await?]) });
            }
            let opened = timeout(WAIT_TIMEOUT / 10, all(opening)).await;
            for (status, stream) in opened.context("watches are not answered")?? {
                ensure!(status == StatusCode::OK, "a watch is answered {status}");
                readers.spawn(read(stream));
            }
        }
        Ok(Self {
            _client: client,
            readers,
        })
    }

    async fn close(mut self) {
        self.readers.shutdown().await;
    }
}

/// Reads a watch until it ends.
async fn read(mut stream: RecvStream) {
    while let Ok(Some(_)) = super::client::chunk(&mut stream).await {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_number_of_watches_is_compared_to_the_smallest() {
        let size = Size {
            others: [1, 10, 50, 100],
            writes: 1,
            window: Duration::ZERO,
            watchers: 1,
            events: 1,
        };
        let of = |watches: usize, cpu: f64, p99: f64| {
            let of = Figures::default()
                .with("write cpu", cpu)
                .with("get p99", p99);
            of.with("held", 8192.0).under(&prefix(watches))
        };
        let figures = of(1, 2.0, 1.0).and(of(10, 9.0, 9.0)).and(of(100, 3.0, 4.0));
        let found = compare(figures, size);
        assert_eq!(found.get("fanout write ratio"), Some(1.5));
        assert_eq!(found.get("fanout neighbour ratio"), Some(4.0));
        assert_eq!(found.get("fanout held"), Some(8192.0));
        assert_eq!(found.get("fanout kept"), None);
    }
}
