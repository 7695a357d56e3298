//! Lists and events in every format: JSON, protobuf, CBOR, metadata only, Table.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::{Buf, Bytes, BytesMut};
use h2::RecvStream;
use http::{Method, StatusCode};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::{Answer, Client, Sender, chunk};
use super::load::{Shape, WAIT_TIMEOUT, all, load};
use super::objects;
use super::subject::{Measured, Stopwatch, Subject};
use super::writes::Objects;
use crate::figures::Figures;
use crate::report::progress;

/// A format that clients accept.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// The name of its figures.
    pub name: &'static str,
    accept: &'static str,
}

const JSON: Format = Format {
    name: "JSON",
    accept: "application/json",
};
const PROTOBUF: Format = Format {
    name: "protobuf",
    accept: "application/vnd.kubernetes.protobuf",
};
const CBOR: Format = Format {
    name: "CBOR",
    accept: "application/cbor",
};
const METADATA: Format = Format {
    name: "metadata, JSON",
    accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
};
const METADATA_PROTOBUF: Format = Format {
    name: "metadata, protobuf",
    accept: "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
};
const TABLE: Format = Format {
    name: "Table",
    accept: "application/json;as=Table;g=meta.k8s.io;v=v1",
};
const YAML: Format = Format {
    name: "YAML",
    accept: "application/yaml",
};
/// JSON with line breaks is asked for in the query.
const PRETTY: Format = Format {
    name: "pretty JSON",
    accept: "application/json;pretty=1",
};

/// The formats of lists, of lists of large Secrets, of events, and of slow readers.
pub const LISTS: [Format; 7] = [
    JSON,
    PROTOBUF,
    CBOR,
    METADATA,
    METADATA_PROTOBUF,
    TABLE,
    YAML,
];
pub const SECRETS: [Format; 3] = [METADATA, METADATA_PROTOBUF, TABLE];
pub const EVENTS: [Format; 4] = [JSON, PROTOBUF, CBOR, TABLE];
pub const READERS: [Format; 5] = [JSON, PROTOBUF, CBOR, PRETTY, TABLE];

/// The length of a Secret's value in JSON.
const SECRET: usize = 1 << 20;
/// How often each format has its turn of events.
const EVENT_ROUNDS: usize = 5;
/// The time in which the server sends slow readers all that it will.
const SETTLE: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of objects in a list.
    pub objects: usize,
    pub lists: usize,
    pub secrets: usize,
    pub watchers: usize,
    pub events: usize,
    /// The number of slow readers, and of objects in their lists.
    pub readers: usize,
    pub read_objects: usize,
}

/// The name of the figures of lists in a format.
pub fn list_name(format: Format) -> String {
    format!("list as {}", format.name)
}

/// The name of the figures of lists of Secrets in a format.
pub fn secrets_name(format: Format) -> String {
    format!("Secrets as {}", format.name)
}

pub async fn measure(subject: &Subject, size: Size) -> Result<Figures> {
    let client = subject.connect(Shape::REQUESTS.connections).await?;
    let mut figures = Figures::default();
    fill(subject, &client, "formats", size.objects).await?;
    let collection = objects::collection("formats");
    for format in LISTS {
        progress(&list_name(format));
        let measured = list(subject, &client, &collection, format, size.lists).await?;
        figures = figures.and(measured.figures(&list_name(format)));
    }
    let secrets = secrets(subject, &client, size.secrets).await?;
    for format in SECRETS {
        progress(&secrets_name(format));
        let measured = list(subject, &client, &secrets, format, size.lists).await?;
        figures = figures.and(measured.figures(&secrets_name(format)));
    }
    figures = figures.and(events(subject, &client, size).await?);
    fill(subject, &client, "readers", size.read_objects).await?;
    for format in READERS {
        progress(&format!("slow readers of {}", format.name));
        let grown = slow_readers(subject, format, size.readers).await?;
        figures = figures.with(&format!("readers of {} grown", format.name), grown);
    }
    Ok(figures)
}

async fn fill(subject: &Subject, client: &Client, namespace: &str, count: usize) -> Result<()> {
    progress(&format!("filling with {count} objects"));
    subject.namespace(client, namespace).await?;
    let mut objects = Objects {
        subject,
        client,
        collection: &objects::collection(namespace),
        versions: vec![],
    };
    objects.create(count).await?;
    Ok(())
}

async fn list(
    subject: &Subject,
    client: &Client,
    path: &str,
    format: Format,
    count: usize,
) -> Result<Measured> {
    let requests = (0..count).map(|_| client.prepare_accepting(path, format.accept));
    let requests: Result<Vec<_>> = requests.collect();
    let judge = |answer: &Answer| answer.expect(StatusCode::OK);
    let loaded = load(subject, client, Shape::LISTS, requests?, judge).await?;
    Ok(loaded.measured)
}

/// Creates large Secrets, and returns the path of their collection.
async fn secrets(subject: &Subject, client: &Client, count: usize) -> Result<String> {
    subject.namespace(client, "secrets").await?;
    let path = "/api/v1/namespaces/secrets/secrets";
    for n in 0..count {
        let value = "QUJD".repeat(SECRET / 4 - n);
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"{}"}},"data":{{"a":"{value}"}}}}"#,
            objects::name(n)
        );
        let answer = client.call(Method::POST, path, Some(body.into())).await?;
        answer.expect(StatusCode::CREATED)?;
    }
    Ok(path.to_owned())
}

/// Measures what an event costs for each watcher, without the writes. The formats take turns, so
/// that a slow moment of the machine is in all of them.
async fn events(subject: &Subject, client: &Client, size: Size) -> Result<Figures> {
    let mut changed = Changed::create(client, subject).await?;
    let mut alone = Duration::ZERO;
    let mut spent = EVENTS.map(|_| Duration::ZERO);
    for round in 0..EVENT_ROUNDS {
        progress(&format!("events, round {} of {EVENT_ROUNDS}", round + 1));
        let watch = Stopwatch::start(subject).await?;
        changed.write(size.events).await?;
        alone += watch.stop(vec![Duration::ZERO; size.events]).await?.cpu;
        for (format, spent) in EVENTS.into_iter().zip(&mut spent) {
            *spent += delivery(subject, &mut changed, format, size).await?;
        }
    }
    let delivered = (EVENT_ROUNDS * size.events * size.watchers).max(1) as f64;
    let mut figures = Figures::default();
    for (format, spent) in EVENTS.into_iter().zip(spent) {
        let net = spent.saturating_sub(alone).as_secs_f64();
        figures = figures.with(&format!("event as {}", format.name), net / delivered);
    }
    let of = |name: &str| figures.get(&format!("event as {name}")).unwrap_or(0.0);
    let ratio = of(PROTOBUF.name) / of(JSON.name).max(f64::MIN_POSITIVE);
    Ok(figures.with("event ratio", ratio))
}

/// Returns the CPU time of changes and of their delivery to watchers.
async fn delivery(
    subject: &Subject,
    changed: &mut Changed<'_>,
    format: Format,
    size: Size,
) -> Result<Duration> {
    let watchers = subject.connect(size.watchers.min(10)).await?;
    let since = format!(
        "{}?watch=true&resourceVersion={}",
        changed.collection, changed.version
    );
    let mut seeing = JoinSet::new();
    for user in 0..size.watchers {
        let sender = watchers.sender(user)?;
        let stream = open(&sender, &since, format).await?;
        seeing.spawn(see(stream, format, size.events));
    }
    let watch = Stopwatch::start(subject).await?;
    changed.write(size.events).await?;
    let seen = timeout(WAIT_TIMEOUT, all(seeing));
    seen.await.context("events do not arrive")??;
    Ok(watch.stop(vec![Duration::ZERO; size.events]).await?.cpu)
}

/// The object that is changed for events.
struct Changed<'a> {
    client: &'a Client,
    collection: String,
    version: u64,
}

impl<'a> Changed<'a> {
    async fn create(client: &'a Client, subject: &Subject) -> Result<Self> {
        let collection = objects::collection("watched");
        subject.namespace(client, "watched").await?;
        let body = Some(objects::configmap(0, None, "-"));
        let created = client.call(Method::POST, &collection, body).await?;
        created.expect(StatusCode::CREATED)?;
        Ok(Self {
            client,
            collection,
            version: created.version()?,
        })
    }

    /// Changes the object a number of times.
    async fn write(&mut self, count: usize) -> Result<()> {
        let path = format!("{}/{}", self.collection, objects::name(0));
        for n in 0..count {
            let body = objects::configmap(0, Some(self.version), &format!("event-{n:08}"));
            let answer = self.client.call(Method::PUT, &path, Some(body)).await?;
            answer.expect(StatusCode::OK)?;
            self.version = answer.version()?;
        }
        Ok(())
    }
}

async fn open(sender: &Sender, path: &str, format: Format) -> Result<RecvStream> {
    let (status, stream) = sender
        .open(sender.prepare_accepting(path, format.accept)?)
        .await?;
    ensure!(status == StatusCode::OK, "{path} is answered {status}");
    Ok(stream)
}

/// Reads a watch until it has had a number of events. The watch is then closed.
async fn see(mut stream: RecvStream, format: Format, events: usize) -> Result<Vec<()>> {
    let mut frames = Frames::default();
    let mut seen = 0;
    while seen < events {
        let Some(chunk) = chunk(&mut stream).await? else {
            bail!("a watch ended after {seen} events");
        };
        seen += match format.name {
            name if name == PROTOBUF.name => frames.count_messages(&chunk),
            name if name == CBOR.name => frames.count_items(&chunk),
            _ => memchr::memchr_iter(b'\n', &chunk).count(),
        };
    }
    Ok(vec![()])
}

/// How every event of a CBOR watch begins: tagged, with two members, of which one is `type`.
const ITEM: &[u8] = b"\xd9\xd9\xf7\xa2Dtype";

/// The bytes of a protobuf watch that belong to an unfinished frame, or of a CBOR watch that may
/// belong to the beginning of an event.
#[derive(Default)]
struct Frames(BytesMut);

impl Frames {
    /// Returns how many frames end in this chunk. Each begins with its length in four bytes.
    fn count_messages(&mut self, chunk: &Bytes) -> usize {
        self.0.extend_from_slice(chunk);
        let mut count = 0;
        while let Some(length) = self.0.first_chunk::<4>() {
            let end = 4 + u32::from_be_bytes(*length) as usize;
            if self.0.len() < end {
                break;
            }
            self.0.advance(end);
            count += 1;
        }
        count
    }

    /// Returns how many events begin in this chunk.
    fn count_items(&mut self, chunk: &Bytes) -> usize {
        self.0.extend_from_slice(chunk);
        let count = memchr::memmem::find_iter(&self.0, ITEM).count();
        let kept = self.0.len().min(ITEM.len() - 1);
        self.0.advance(self.0.len() - kept);
        count
    }
}

/// Returns how much the memory grows with clients that request a list and read nothing of it
/// beyond their first window.
async fn slow_readers(subject: &Subject, format: Format, readers: usize) -> Result<f64> {
    let clients = Arc::new(subject.connect(readers).await?);
    subject.wait_until_idle().await?;
    let before = subject.resident()?;
    let path = objects::collection("readers");
    let mut streams = Vec::with_capacity(readers);
    for user in 0..readers {
        streams.push(open(&clients.sender(user)?, &path, format).await?);
    }
    tokio::time::sleep(SETTLE).await;
    let grown = subject.resident()? - before;
    drop(streams);
    Ok(grown.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_across_chunks() {
        let mut frames = Frames::default();
        let counts = [&b"\0\0\0\x02a"[..], b"b\0\0", b"\0\0\0\0\0\x01c\0"];
        let counts = counts.map(|chunk| frames.count_messages(&Bytes::copy_from_slice(chunk)));
        assert_eq!(counts, [0, 1, 2]);
        let mut frames = Frames::default();
        let counts = [
            &b"\xd9\xd9\xf7\xa2Dt"[..],
            b"ypeEADDED",
            b"\xd9\xd9\xf7\xa0\xd9\xd9\xf7\xa2Dtype",
            b"E",
        ];
        let counts = counts.map(|chunk| frames.count_items(&Bytes::copy_from_slice(chunk)));
        assert_eq!(counts, [0, 1, 1, 0]);
    }
}
