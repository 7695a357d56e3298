//! Many watchers of one namespace, each of which receives every change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use http::{Method, StatusCode};
use memchr::memmem;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::{Client, Sender, chunk};
use super::load::{WAIT_TIMEOUT, all};
use super::objects;
use super::subject::{Measured, Stopwatch, Subject};
use crate::figures::Figures;
use crate::report::progress;

/// The number of writers unless a measurement needs another, and so the maximum number of changes
/// in flight: more would measure the server's queues.
const WRITERS: usize = 8;
/// The maximum number of watches on a connection: servers may allow only a hundred streams.
const WATCHERS_EACH: usize = 50;
/// The minimum number of writes to measure their CPU time, since one costs less than a tick.
const WRITES: usize = 2_000;
/// The number of the first object that is written: others of the collection have smaller ones.
const FIRST_OBJECT: usize = 900_000;
/// The common prefix of the values that are written.
const STAMP: &[u8] = b"\"stamp\":\"event-";

/// Numbers of writers, each with an object of its own, of watchers and of changes.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub writers: usize,
    pub watchers: usize,
    pub events: usize,
}

/// The time of each write, and the number of watchers that have seen it.
struct Events {
    begun: Instant,
    watchers: usize,
    writers: usize,
    /// Nanoseconds since the start.
    written: Vec<AtomicU64>,
    seen: Vec<AtomicUsize>,
    on_their_way: Semaphore,
}

/// The bytes of a watch, split into lines.
#[derive(Default)]
pub struct Lines(BytesMut);

/// The result of a watcher: the delays it saw, and its stream, which stays open.
type Watched = (Vec<Duration>, RecvStream);

/// Measures a number of changes with a number of watchers of a collection.
pub async fn measure(
    subject: &Subject,
    collection: &str,
    watchers: usize,
    events: usize,
) -> Result<Figures> {
    let load = Load {
        writers: WRITERS,
        watchers,
        events,
    };
    measure_load(subject, collection, load).await
}

/// The same with a number of writers.
pub async fn measure_load(subject: &Subject, collection: &str, load: Load) -> Result<Figures> {
    let Load {
        writers,
        watchers,
        events,
    } = load;
    progress(&format!(
        "{events} changes by {writers} writers to {watchers} watchers"
    ));
    let client = subject.connect(1).await?;
    let mut versions = create(&client, collection, writers).await?;
    let writes = events.max(WRITES.min(events * 5));
    let alone = Events::new(writes, 0, writers);
    let watch = Stopwatch::start(subject).await?;
    write(&client, collection, &mut versions, &alone).await?;
    let alone = watch.stop(vec![Duration::ZERO; writes]).await?;

    let delivered = Events::new(events, watchers, writers);
    let others = subject.connect(connections(watchers)).await?;
    let mut watching = open(&others, collection, &delivered).await?;
    subject.wait_until_idle().await?;
    let idle = subject.resident()?;
    let watch = Stopwatch::start(subject).await?;
    write(&client, collection, &mut versions, &delivered).await?;
    let (times, streams) = collect(&mut watching).await?;
    let measured = watch.stop(times).await?;
    let figures = figures(&measured, &alone, events)
        .with("idle resident", idle)
        .with("resident", subject.resident()?);
    drop(streams);
    remove(&client, collection, writers).await?;
    Ok(figures)
}

/// Returns the CPU time per delivered event, with and without that of the writes.
fn figures(delivered: &Measured, alone: &Measured, events: usize) -> Figures {
    let writes = alone.each() * events as f64;
    let net = (delivered.cpu.as_secs_f64() - writes).max(0.0) / delivered.count.max(1) as f64;
    delivered
        .figures("delivered")
        .with("delivered net", net)
        .with("write cpu", alone.each())
}

/// Returns the number of connections: ten to twenty, and at most one for each watcher.
fn connections(watchers: usize) -> usize {
    (watchers / WATCHERS_EACH).clamp(10, 20).min(watchers)
}

impl Events {
    fn new(count: usize, watchers: usize, writers: usize) -> Arc<Self> {
        Arc::new(Self {
            begun: Instant::now(),
            watchers,
            writers,
            written: (0..count).map(|_| AtomicU64::new(0)).collect(),
            seen: (0..count).map(|_| AtomicUsize::new(0)).collect(),
            on_their_way: Semaphore::new(writers),
        })
    }

    fn is_written(&self, event: usize) {
        let nanos = self.begun.elapsed().as_nanos() as u64;
        self.written[event].store(nanos, Ordering::Relaxed);
    }

    /// Counts one more watcher that has seen the event, and returns the delay.
    fn is_seen(&self, event: usize) -> Result<Duration> {
        let seen = self.seen.get(event).context("an event that is not ours")?;
        if seen.fetch_add(1, Ordering::Relaxed) + 1 == self.watchers {
            self.on_their_way.add_permits(1);
        }
        let written = Duration::from_nanos(self.written[event].load(Ordering::Relaxed));
        Ok(self.begun.elapsed().saturating_sub(written))
    }
}

impl Lines {
    /// Calls a function with each line that ends in this chunk, without its terminator.
    pub fn take(&mut self, chunk: Bytes, mut line: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut rest: &[u8] = &chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            if self.0.is_empty() {
                line(&rest[..end])?;
            } else {
                self.0.extend_from_slice(&rest[..end]);
                line(&self.0)?;
                self.0.clear();
            }
            rest = &rest[end + 1..];
        }
        self.0.extend_from_slice(rest);
        Ok(())
    }
}

/// Creates the objects that are changed, and returns their resource versions.
async fn create(client: &Client, collection: &str, writers: usize) -> Result<Vec<u64>> {
    let mut versions = vec![];
    for n in 0..writers {
        let body = Some(objects::configmap(FIRST_OBJECT + n, None, "-"));
        let answer = client.call(Method::POST, collection, body).await?;
        answer.expect(StatusCode::CREATED)?;
        versions.push(answer.version()?);
    }
    Ok(versions)
}

async fn remove(client: &Client, collection: &str, writers: usize) -> Result<()> {
    for n in 0..writers {
        let path = format!("{collection}/{}", objects::name(FIRST_OBJECT + n));
        let answer = client.call(Method::DELETE, &path, None).await?;
        answer.expect(StatusCode::OK)?;
    }
    Ok(())
}

/// Starts the watchers. All watches are open when this returns.
async fn open(
    client: &Client,
    collection: &str,
    events: &Arc<Events>,
) -> Result<JoinSet<Result<Watched>>> {
    let now = client.get(&format!("{collection}?limit=1")).await?;
    now.expect(StatusCode::OK)?;
    let version = now.version()?;
    let path = format!("{collection}?watch=true&resourceVersion={version}");
    let mut opening = JoinSet::new();
    for user in 0..events.watchers {
        let sender = client.sender(user)?;
        let request = sender.prepare(Method::GET, &path, None)?;
        opening.spawn(async move { Ok(vec![sender.open(request).await?]) });
    }
    let opened = timeout(WAIT_TIMEOUT / 10, all(opening))
        .await
        .context("a watch is not answered before its first event")??;
    let mut watching = JoinSet::new();
    for (status, stream) in opened {
        ensure!(status == StatusCode::OK, "a watch is answered {status}");
        watching.spawn(see(stream, Arc::clone(events)));
    }
    Ok(watching)
}

/// Reads a watch until all events are seen.
async fn see(mut stream: RecvStream, events: Arc<Events>) -> Result<Watched> {
    let mut times = Vec::with_capacity(events.seen.len());
    let mut lines = Lines::default();
    while times.len() < events.seen.len() {
        let Some(chunk) = chunk(&mut stream).await? else {
            bail!("a watch ended after {} events", times.len());
        };
        lines.take(chunk, |line| {
            if let Some(event) = event(line)? {
                times.push(events.is_seen(event)?);
            }
            Ok(())
        })?;
    }
    Ok((times, stream))
}

async fn collect(
    watching: &mut JoinSet<Result<Watched>>,
) -> Result<(Vec<Duration>, Vec<RecvStream>)> {
    let (mut times, mut streams) = (vec![], vec![]);
    while let Some(done) = timeout(WAIT_TIMEOUT, watching.join_next())
        .await
        .context("events do not arrive")?
    {
        let (seen, stream) = done??;
        times.extend(seen);
        streams.push(stream);
    }
    Ok((times, streams))
}

/// Returns the number of the event in a line, or `None` for a bookmark.
fn event(line: &[u8]) -> Result<Option<usize>> {
    ensure!(
        !line.starts_with(b"{\"type\":\"ERROR\""),
        "a watch failed: {}",
        String::from_utf8_lossy(line)
    );
    let Some(mark) = memmem::find(line, STAMP) else {
        return Ok(None);
    };
    let rest = line.get(mark + STAMP.len()..).unwrap_or_default();
    let number = &rest[..memchr::memchr(b'"', rest).context("a line that was cut off")?];
    Ok(Some(std::str::from_utf8(number)?.parse()?))
}

/// Writes all events, each writer to its own object.
async fn write(
    client: &Client,
    collection: &str,
    versions: &mut [u64],
    events: &Arc<Events>,
) -> Result<()> {
    let mut writers = JoinSet::new();
    for (writer, version) in versions.iter().enumerate() {
        let path = format!("{collection}/{}", objects::name(FIRST_OBJECT + writer));
        let (sender, events) = (client.sender(writer)?, Arc::clone(events));
        writers.spawn(write_one(sender, path, writer, *version, events));
    }
    for (writer, version) in timeout(WAIT_TIMEOUT, all(writers))
        .await
        .context("the server hangs")??
    {
        versions[writer] = version;
    }
    Ok(())
}

/// Writes the events of one writer, and returns the last resource version.
async fn write_one(
    sender: Sender,
    path: String,
    writer: usize,
    mut version: u64,
    events: Arc<Events>,
) -> Result<Vec<(usize, u64)>> {
    for event in (writer..events.written.len()).step_by(events.writers) {
        let number = FIRST_OBJECT + writer;
        let body = objects::configmap(number, Some(version), &format!("event-{event:08}"));
        let request = sender.prepare(Method::PUT, &path, Some(body))?;
        // Released by the last watcher that sees it.
        events.on_their_way.acquire().await?.forget();
        events.is_written(event);
        let answer = sender.send(request).await?;
        answer.expect(StatusCode::OK)?;
        version = answer.version()?;
        if events.watchers == 0 {
            events.on_their_way.add_permits(1);
        }
    }
    Ok(vec![(writer, version)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Quantiles;
    use crate::report::Unit;

    #[test]
    fn lines_are_found_across_chunks() {
        let mut lines = Lines::default();
        let mut found = vec![];
        for chunk in ["{\"a\"", ":1}\n{\"b\":2}\n{", "", "\"c\":3}", "\n"] {
            let chunk = Bytes::from_static(chunk.as_bytes());
            let keep = |line: &[u8]| {
                found.push(String::from_utf8(line.to_vec())?);
                Ok(())
            };
            lines.take(chunk, keep).unwrap();
        }
        assert_eq!(found, ["{\"a\":1}", "{\"b\":2}", "{\"c\":3}"]);
    }

    #[test]
    fn a_line_tells_of_its_event_a_bookmark_of_none_and_an_error_fails() {
        let change = br#"{"type":"MODIFIED","object":{"data":{"stamp":"event-00000012"}}}"#;
        assert_eq!(event(change).unwrap(), Some(12));
        let bookmark = br#"{"type":"BOOKMARK","object":{"metadata":{}}}"#;
        assert_eq!(event(bookmark).unwrap(), None);
        let error = event(br#"{"type":"ERROR","object":{"code":410}}"#).unwrap_err();
        assert!(error.to_string().contains("410"));
    }

    #[test]
    fn cost_of_writes_is_separate() {
        let measured = |count, millis| Measured {
            count,
            wall: Duration::from_secs(1),
            quiet: Duration::from_secs(1),
            cpu: Duration::from_millis(millis),
            caller: Duration::ZERO,
            times: Quantiles::of(vec![]),
        };
        let figures = figures(&measured(20_000, 160), &measured(2_000, 200), 200);
        let found = ["write cpu", "delivered cpu", "delivered net"]
            .map(|name| Unit::Time.format(figures.get(name).unwrap()));
        assert_eq!(found, ["100 us", "8.0 us", "7.0 us"]);
    }
}
