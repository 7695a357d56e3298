use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use http::{Method, Request, StatusCode};

use super::*;
use crate::codec::body::Body;
use crate::pipeline::audit::backend::Encoded;
use crate::pipeline::audit::{Policy, Sink, Truncation};

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A disk that blocks until the test drops the other end.
struct Blocked(std::sync::mpsc::Receiver<()>, Kept);

impl Write for Blocked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.recv().ok();
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

type Ended = (&'static str, u64);

async fn ok(record: Record<'_>) {
    let answer = Answer::new(StatusCode::OK, Body::empty());
    drop(record.answered(Ok(answer)).await);
}

async fn fails(record: Record<'_>) {
    drop(record.answered(Err(StatusError::timeout())).await);
}

async fn unauthorized(record: Record<'_>) {
    drop(record.answered(Err(StatusError::unauthorized())).await);
}

async fn leaves(record: Record<'_>) {
    drop(record);
}

async fn panics(record: Record<'_>) {
    let fails = AssertUnwindSafe(move || {
        let _record = record;
        panic!("a panic that the test expects");
    });
    catch_unwind(fails).unwrap_err();
}

/// Returns stages and codes of the events of a request that ends like this.
async fn events(
    policy: Option<&str>,
    path: &str,
    end: impl AsyncFnOnce(Record<'_>),
) -> Vec<(String, Option<u64>)> {
    let kept = Kept::default();
    let sink = Sink::to(kept.clone()).unwrap();
    let policy = policy.map(|policy| Policy::parse(policy).unwrap());
    let audit = Arc::new(Audit::new(policy).with_log(sink, None));
    let (parts, ()) = Request::builder().uri(path).body(()).unwrap().into_parts();
    let route =
        crate::pipeline::route::route(&Method::GET, parts.uri.path(), path.contains("watch"));
    let (id, peer) = (HeaderValue::from_static("a"), Peer::default());
    end(Record::begin(Some(&audit), &id, &peer, &parts, &route).await).await;
    audit.close().await;
    stages(&kept)
}

/// Returns stages and codes of written events.
fn stages(kept: &Kept) -> Vec<(String, Option<u64>)> {
    let text = kept.0.lock().unwrap().clone();
    let lines = text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let event = |line: &[u8]| {
        let event: serde_json::Value = serde_json::from_slice(line).unwrap();
        let stage = event["stage"].as_str().unwrap().to_owned();
        (stage, event["responseStatus"]["code"].as_u64())
    };
    lines.map(event).collect()
}

fn expected(events: &[Ended]) -> Vec<(String, Option<u64>)> {
    let owned = |(stage, code): &Ended| ((*stage).to_owned(), Some(*code));
    events.iter().map(owned).collect()
}

const PODS: &str = "/api/v1/pods";
const WATCH: &str = "/api/v1/pods?watch=1";

#[tokio::test]
async fn every_request_has_one_event_however_it_ends() {
    let once = |stage, code| expected(&[(stage, code)]);
    assert_eq!(events(None, PODS, ok).await, once("ResponseComplete", 200));
    assert_eq!(
        events(None, PODS, fails).await,
        once("ResponseComplete", 504)
    );
    assert_eq!(
        events(None, PODS, leaves).await,
        once("ResponseComplete", 499)
    );
    assert_eq!(events(None, PODS, panics).await, once("Panic", 500));
    assert_eq!(events(None, WATCH, ok).await, once("ResponseStarted", 200));
    assert_eq!(
        events(None, WATCH, fails).await,
        once("ResponseComplete", 504)
    );
}

#[tokio::test]
async fn policy_decides_the_stages() {
    let policy = |more: &str| {
        format!(
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n\
             - {{level: None, nonResourceURLs: [/metrics]}}\n- {{level: Metadata{more}}}\n"
        )
    };
    let all = policy("");
    let all = Some(all.as_str());
    let both = |code| expected(&[("ResponseStarted", code), ("ResponseComplete", code)]);
    let last = |code| expected(&[("ResponseComplete", code)]);
    assert_eq!(events(all, PODS, ok).await, last(200));
    assert_eq!(events(all, WATCH, ok).await, both(200));
    assert_eq!(events(all, WATCH, fails).await, both(504));
    let log = "/api/v1/namespaces/n/pods/p/log";
    assert_eq!(events(all, log, fails).await, both(504));
    assert_eq!(
        events(all, PODS, unauthorized).await,
        expected(&[("ResponseStarted", 401)])
    );
    assert_eq!(events(all, "/metrics", fails).await, []);
    assert_eq!(events(all, "/metrics", leaves).await, []);
    let fewer = policy(", omitStages: [ResponseStarted, Panic]");
    let fewer = Some(fewer.as_str());
    assert_eq!(events(fewer, WATCH, ok).await, last(200));
    assert_eq!(events(fewer, PODS, panics).await, []);
    let fewest = policy(", omitStages: [ResponseStarted, ResponseComplete]");
    assert_eq!(events(Some(&fewest), WATCH, ok).await, []);
}

#[tokio::test]
async fn event_is_written_if_the_client_leaves_while_it_waits_for_room() {
    let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Request}]\n";
    for (path, expected) in [
        (PODS, expected(&[("ResponseComplete", 200)])),
        // The first event waits, so that the second is not the real one.
        (
            WATCH,
            expected(&[("ResponseStarted", 200), ("ResponseComplete", 499)]),
        ),
    ] {
        let (kept, (go, blocked)) = (Kept::default(), std::sync::mpsc::channel());
        let sink = Sink::to(Blocked(blocked, kept.clone())).unwrap();
        let policy = Policy::parse(text).unwrap();
        let audit = Arc::new(Audit::new(Some(policy)).with_log(sink, None));
        let agent = "x".repeat(100 << 10);
        let request = Request::builder().uri(path).header("user-agent", "a");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let route = crate::pipeline::route::route(&Method::GET, parts.uri.path(), path == WATCH);
        let (id, peer) = (HeaderValue::from_static("a"), Peer::default());
        let mut record = Record::begin(Some(&audit), &id, &peer, &parts, &route).await;
        record.note(|notes| {
            notes.responded = body::capture(
                Media::Json,
                format!("\"{agent}\"").as_bytes(),
                ObjectKind::default(),
                false,
            );
        });
        // The thread holds the first, and the second fills the queue.
        audit.push(&Encoded::whole(vec![b'\n'; 5 << 20]));
        audit.room().await;
        audit.push(&Encoded::whole(vec![b'\n'; 5 << 20]));
        {
            let answer = Answer::new(StatusCode::OK, Body::empty());
            let mut answered = std::pin::pin!(record.answered(Ok(answer)));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(answered.as_mut().poll(&mut context).is_pending());
        }
        drop(go);
        audit.close().await;
        assert_eq!(stages(&kept), expected, "{path}");
    }
}

#[tokio::test]
async fn event_that_is_too_large_in_any_form_is_written_nevertheless() {
    let kept = Kept::default();
    let truncation = Truncation {
        max_event_bytes: 10,
        max_batch_bytes: 10,
    };
    let sink = Sink::to(kept.clone()).unwrap();
    let audit = Arc::new(Audit::new(None).with_log(sink, Some(truncation)));
    let (parts, ()) = Request::get(PODS).body(()).unwrap().into_parts();
    let route = crate::pipeline::route::route(&Method::GET, PODS, false);
    let (id, peer) = (HeaderValue::from_static("a"), Peer::default());
    ok(Record::begin(Some(&audit), &id, &peer, &parts, &route).await).await;
    audit.close().await;
    assert_eq!(stages(&kept), expected(&[("ResponseComplete", 200)]));
    assert_eq!(audit.stats().oversized, 1);
}
