//! Pages of many objects, quiet and while they are written, and lists in pages that a watch
//! continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::{Method, StatusCode};
use insula_store::embedded::{Embedded, Options};
use insula_store::{Store, Transaction};
use memchr::memmem;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::client::{Client, Sender, chunk};
use super::load::{Shape, WAIT_TIMEOUT};
use super::server::{self, Program, Server};
use super::subject::Stopwatch;
use super::writes::Objects;
use super::{objects, tenants};
use crate::figures::{Figures, Quantiles};
use crate::report::progress;

/// The names of the numbers of objects, under which their figures are.
pub const STEPS: [&str; 3] = ["pages few", "pages some", "pages many"];
/// What is measured with each number of objects.
pub const READS: [&str; 4] = ["one", "all", "busy one", "busy all"];

/// The tenant with the objects, and how many others there are.
const TENANT: usize = 0;
const OTHER_TENANTS: usize = 100;
/// The number of objects of a page.
const LIMIT: usize = 500;
/// The number of lists in pages that a watch continues.
const TRIES: usize = 3;
const ALL: &str = "/api/v1/tenants/all/configmaps";

#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The numbers of objects.
    pub objects: [usize; 3],
    /// The most pages that are measured of each.
    pub pages: usize,
    /// The number of objects of lists that a watch continues.
    pub converging: usize,
    /// Writes a second beside the reads.
    pub writes: usize,
}

/// Measures each number of objects on a server of its own.
pub async fn measure(program: &Program, size: Size) -> Result<Figures> {
    let mut figures = Figures::default();
    for (name, objects) in STEPS.into_iter().zip(size.objects) {
        let server = filled(program, objects).await?;
        let measured = pages(&server, size, objects).await?;
        figures = figures.and(measured.with("objects", objects as f64).under(name));
        server.stop()?;
    }
    let server = filled(program, size.converging).await?;
    let measured = converge(&server, size).await?;
    server.stop()?;
    Ok(figures.and(measured.under("pages")))
}

fn collection() -> String {
    format!("{}/configmaps", tenants::namespace(TENANT))
}

/// Starts a server with so many objects in one tenant, and a few in others.
async fn filled(program: &Program, count: usize) -> Result<Server> {
    progress(&format!("filling a tenant with {count} objects"));
    let server = program.start()?;
    let client = server.subject.connect(Shape::REQUESTS.connections).await?;
    tenants::create(&server.subject, &client, 0, OTHER_TENANTS).await?;
    if program.store == server::Store::Embedded {
        drop(client);
        let fill = async |folder: &std::path::Path| fill(folder, count).await;
        return server.restart_after(program, fill).await;
    }
    let mut objects = Objects {
        subject: &server.subject,
        client: &client,
        collection: &collection(),
        versions: vec![],
    };
    objects.create(count).await?;
    Ok(server)
}

/// Puts objects into a store, past the server: a million take minutes otherwise.
pub async fn fill(folder: &std::path::Path, count: usize) -> Result<()> {
    let store = Embedded::open(folder.join("store"), Options::default()).await?;
    let tenant = tenants::name(TENANT);
    let each = Transaction::MAX_OPERATIONS;
    for start in (0..count).step_by(each) {
        let mut transaction = Transaction::new();
        for n in start..count.min(start + each) {
            let key = format!("/registry/configmaps/{tenant}/default/{}", objects::name(n));
            transaction = transaction.put(key, objects::small(n, &tenant));
        }
        store.commit(transaction).await?;
    }
    store.close().await;
    Ok(())
}

async fn pages(server: &Server, size: Size, objects: usize) -> Result<Figures> {
    let client = server.subject.connect(2).await?;
    let (reader, one) = (client.sender(0)?, collection());
    let mut figures = Figures::default();
    for (name, path) in [("one", one.as_str()), ("all", ALL)] {
        progress(&format!("pages of {objects} objects, {name}"));
        let watch = Stopwatch::start(&server.subject).await?;
        let times = pass(&reader, path, size.pages).await?;
        figures = figures.and(watch.stop(times).await?.figures(name));
    }
    let none = format!("{one}?labelSelector=bench%3Dnone");
    let mut times = vec![];
    for _ in 0..10 {
        let begun = Instant::now();
        reader
            .send(reader.prepare(Method::GET, &none, None)?)
            .await?
            .expect(StatusCode::OK)?;
        times.push(begun.elapsed());
    }
    figures = figures.times("selected none", Quantiles::of(times));
    let writer = Writer::start(server, size.writes, objects).await?;
    for (name, path) in [("busy one", one.as_str()), ("busy all", ALL)] {
        progress(&format!("pages of {objects} objects, {name}"));
        let begun = Instant::now();
        let mut times = vec![];
        // Some seconds at least, so that the rate of writes has an effect.
        while times.len() < size.pages || begun.elapsed() < Duration::from_secs(2) {
            times.extend(pass(&reader, path, size.pages).await?);
        }
        figures = figures.times(name, Quantiles::of(times));
    }
    let written = writer.stop().await?;
    Ok(figures.with("writes", written))
}

/// Reads a list from its first page on, at most so many pages.
async fn pass(sender: &Sender, path: &str, pages: usize) -> Result<Vec<Duration>> {
    let first = format!("{path}?limit={LIMIT}");
    let (mut times, mut next) = (vec![], Some(first.clone()));
    while let Some(asked) = next.take().filter(|_| times.len() < pages) {
        let request = sender.prepare(Method::GET, &asked, None)?;
        let begun = Instant::now();
        let answer = sender.send(request).await?;
        times.push(begun.elapsed());
        answer.expect(StatusCode::OK)?;
        next = answer
            .next_page()
            .map(|token| format!("{first}&continue={token}"));
    }
    Ok(times)
}

/// A client that changes objects of the tenant at a rate.
struct Writer {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicUsize>,
    begun: Instant,
    running: Vec<JoinHandle<Result<()>>>,
    _client: Client,
}

impl Writer {
    async fn start(server: &Server, rate: usize, objects: usize) -> Result<Self> {
        const WRITERS: usize = 8;
        let client = server.subject.connect(WRITERS).await?;
        let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let mut running = vec![];
        for number in 0..WRITERS {
            let sender = client.sender(number)?;
            let (stop, written) = (Arc::clone(&stop), Arc::<AtomicUsize>::clone(&written));
            let pause = Duration::from_secs_f64(WRITERS as f64 / rate.max(1) as f64);
            running.push(tokio::spawn(async move {
                let mut ticks = tokio::time::interval(pause);
                while !stop.load(Ordering::Relaxed) {
                    ticks.tick().await;
                    let n = written.fetch_add(1, Ordering::Relaxed);
                    // A step with no factor in common with the number of objects visits all.
                    let name = objects::name(n * 7_919 % objects);
                    let path = format!("{}/{name}", collection());
                    let body = Some(objects::patch(n));
                    let request = sender.prepare(Method::PATCH, &path, body)?;
                    sender.send(request).await?.expect(StatusCode::OK)?;
                }
                Ok(())
            }));
        }
        Ok(Self {
            stop,
            written,
            begun: Instant::now(),
            running,
            _client: client,
        })
    }

    /// Stops, and returns the number of writes a second.
    async fn stop(self) -> Result<f64> {
        self.stop.store(true, Ordering::Relaxed);
        let rate = self.written.load(Ordering::Relaxed) as f64 / self.begun.elapsed().as_secs_f64();
        for writer in self.running {
            writer.await??;
        }
        Ok(rate)
    }
}

/// Lists in pages and watches from there, as reflectors do, while objects are written.
async fn converge(server: &Server, size: Size) -> Result<Figures> {
    progress(&format!("lists of {} objects and watches", size.converging));
    let writer = Writer::start(server, size.writes, size.converging).await?;
    let client = server.subject.connect(1).await?;
    let (mut converged, mut times) = (0, vec![]);
    for number in 0..TRIES {
        let begun = Instant::now();
        let end = timeout(WAIT_TIMEOUT, list_and_watch(&client, number)).await;
        match end.context("the server hangs")? {
            Ok(()) => converged += 1,
            Err(error) => progress(&format!("a list did not converge: {error:#}")),
        }
        times.push(begun.elapsed());
    }
    let written = writer.stop().await?;
    Ok(Figures::default()
        .with("converged", f64::from(converged))
        .with("converging writes", written)
        .times("converging", Quantiles::of(times)))
}

async fn list_and_watch(client: &Client, number: usize) -> Result<()> {
    let (sender, path) = (client.sender(0)?, collection());
    let first = format!("{path}?limit={LIMIT}");
    let (mut next, mut revision) = (Some(first.clone()), 0);
    while let Some(asked) = next.take() {
        let answer = sender
            .send(sender.prepare(Method::GET, &asked, None)?)
            .await?;
        answer.expect(StatusCode::OK)?;
        revision = answer.version()?;
        next = answer
            .next_page()
            .map(|token| format!("{first}&continue={token}"));
    }
    let watched = format!("{path}?watch=1&resourceVersion={revision}");
    let (status, mut stream) = sender
        .open(sender.prepare(Method::GET, &watched, None)?)
        .await?;
    ensure!(status == StatusCode::OK, "the watch is answered {status}");
    let stamp = format!("converged-{number}");
    let body = format!("{{\"data\":{{\"stamp\":\"{stamp}\"}}}}");
    let last = format!("{path}/{}", objects::name(0));
    let answer = client.call(Method::PATCH, &last, Some(body.into())).await?;
    answer.expect(StatusCode::OK)?;
    // The end of the bytes before, in case a chunk ends within the words.
    let mut seen = Vec::new();
    loop {
        let bytes = chunk(&mut stream).await?.context("the watch has ended")?;
        seen.extend_from_slice(&bytes);
        ensure!(
            memmem::find(&seen, b"\"type\":\"ERROR\"").is_none(),
            "the watch failed"
        );
        if memmem::find(&seen, stamp.as_bytes()).is_some() {
            return Ok(());
        }
        seen.drain(..seen.len().saturating_sub(64));
    }
}
