//! Disk faults while the store runs: full, failing, slow.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use insula_store::embedded::{Embedded, Options};
use insula_store::{
    At, Error, Key, KeyRange, Outcome, Result, Revision, Store, Transaction, WatchItem,
};
use insula_testkit::disk::{Disk, Errno, Loss, Rng, Times};
use tokio::time::timeout;

const OPTIONS: Options = Options {
    segment_bytes: 0,
    memory_bytes: 256 << 10,
    cache_bytes: 64 << 10,
};
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A store on its own disk, and its acknowledged writes.
struct Subject {
    store: Embedded,
    acknowledged: BTreeMap<Key, Bytes>,
    written: usize,
    disk: Disk,
}

impl Subject {
    async fn start() -> Option<Self> {
        let disk = Disk::mount()?;
        let store = Embedded::open(disk.path().join("store"), OPTIONS)
            .await
            .unwrap();
        Some(Self {
            store,
            acknowledged: BTreeMap::new(),
            written: 0,
            disk,
        })
    }

    /// Writes 16 KiB to one of fifty keys.
    async fn write(&mut self) -> Result<Revision> {
        self.written += 1;
        let key = Key::from(format!("/faults/{:02}", self.written % 50));
        let value = Bytes::from(vec![self.written as u8; 16 << 10]);
        let put = Transaction::new().put(key.clone(), value.clone());
        let outcome = timeout(WAIT_TIMEOUT, self.store.commit(put))
            .await
            .unwrap()?;
        let Outcome::Committed(revision) = outcome else {
            panic!("{outcome:?}")
        };
        self.acknowledged.insert(key, value);
        Ok(revision)
    }

    /// Writes until that is refused, and returns the error.
    async fn write_until_refused(&mut self) -> Error {
        for _ in 0..2000 {
            if let Err(error) = self.write().await {
                return error;
            }
        }
        panic!("the store takes more than the disk has");
    }

    /// Checks that every acknowledged write can be read.
    async fn check(&self) {
        let page = self
            .store
            .range(&KeyRange::all(), At::Latest, None)
            .await
            .unwrap();
        let found = page
            .entries
            .into_iter()
            .map(|entry| (entry.key, entry.value));
        assert!(
            found.collect::<BTreeMap<_, _>>() == self.acknowledged,
            "not what was acknowledged"
        );
        for (key, value) in &self.acknowledged {
            let found = self.store.get(key).await.unwrap().unwrap();
            assert!(found.value == value, "not what was acknowledged");
        }
    }

    async fn reopen(self) -> Self {
        self.store.close().await;
        let store = Embedded::open(self.disk.path().join("store"), OPTIONS)
            .await
            .unwrap();
        Self { store, ..self }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_disk_refuses_writes_until_there_is_space() {
    let Some(mut subject) = Subject::start().await else {
        return;
    };
    for _ in 0..20 {
        subject.write().await.unwrap();
    }
    for round in 0..3 {
        let start = subject.store.revision().await.unwrap();
        let mut watch = subject.store.watch(KeyRange::all(), start).await.unwrap();
        // The store is not warned: files cannot grow.
        subject.disk.hide_limit();
        subject.disk.full_after(1 << 20);
        let refused = subject.write_until_refused().await;
        assert!(
            matches!(refused, Error::Full(_)),
            "round {round}: {refused:?}"
        );
        // A finished table may free its log: space for a few more writes.
        let again = subject.write_until_refused().await;
        assert!(matches!(again, Error::Full(_)), "round {round}: {again:?}");
        subject.check().await;
        let head = subject.store.revision().await.unwrap();
        let mut delivered = start;
        while delivered < head {
            let WatchItem::Changes { revision, .. } = watch.next().await.unwrap() else {
                panic!("no changes")
            };
            assert_eq!(revision, delivered.next(), "watches go on");
            delivered = revision;
        }
        subject.disk.heal();
        let begun = Instant::now();
        while let Err(error) = subject.write().await {
            assert!(matches!(error, Error::Full(_)), "{error:?}");
            assert!(begun.elapsed() < WAIT_TIMEOUT, "there is room: {error:?}");
            tokio::task::yield_now().await;
        }
        subject.check().await;
    }
    let subject = subject.reopen().await;
    subject.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_sync_makes_the_store_read_only_until_reopened() {
    let Some(mut subject) = Subject::start().await else {
        return;
    };
    for _ in 0..30 {
        subject.write().await.unwrap();
    }
    let head = subject.store.revision().await.unwrap();
    let mut watch = subject.store.watch(KeyRange::all(), head).await.unwrap();
    let is_log = |path: &Path| path.extension().is_some_and(|end| end == "log");
    subject.disk.fail_sync(is_log, Errno::EIO, Times::Once);
    let in_doubt = subject.write().await.unwrap_err();
    assert!(matches!(in_doubt, Error::Indeterminate(_)), "{in_doubt:?}");
    // The disk works again, but its state is unknown: no second attempt.
    for _ in 0..3 {
        let refused = subject.write().await.unwrap_err();
        assert!(
            matches!(&refused, Error::Unavailable(why) if why.contains("opened again")),
            "{refused:?}"
        );
    }
    assert_eq!(subject.store.revision().await, Ok(head), "not readable");
    subject.check().await;
    watch.request_progress().await.unwrap();
    assert_eq!(
        watch.next().await,
        Ok(WatchItem::Progress(head)),
        "not watched"
    );
    drop(watch);

    // Whatever the disk kept of it, the acknowledged writes are there.
    for seed in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let mut rng = Rng::new(seed);
        let trace = subject.disk.trace();
        let image = trace.cut(trace.len(), Loss::pick(&mut rng), &mut rng);
        image.write_to(folder.path()).unwrap();
        let store = Embedded::open(folder.path().join("store"), OPTIONS)
            .await
            .unwrap();
        let again = store.revision().await.unwrap();
        assert!(
            again == head || again == head.next(),
            "{again} after {head}"
        );
        let page = store
            .range(&KeyRange::all(), At::Revision(head), None)
            .await
            .unwrap();
        let found = page
            .entries
            .into_iter()
            .map(|entry| (entry.key, entry.value));
        assert!(found.collect::<BTreeMap<_, _>>() == subject.acknowledged);
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_table_flush_stops_writers_in_time_and_is_retried() {
    let Some(mut subject) = Subject::start().await else {
        return;
    };
    let is_table = |path: &Path| path.starts_with("store/tables");
    subject.disk.fail_sync(is_table, Errno::EIO, Times::Always);
    let refused = subject.write_until_refused().await;
    assert!(
        matches!(&refused, Error::Unavailable(why) if why.contains("tables")),
        "{refused:?}"
    );
    let memory = OPTIONS.memory_bytes as usize;
    let unwritten = subject.written * (16 << 10);
    assert!(unwritten < 8 * memory, "memory is bounded: {unwritten}");
    subject.check().await;
    subject.disk.heal();
    let begun = Instant::now();
    while subject.write().await.is_err() {
        assert!(begun.elapsed() < WAIT_TIMEOUT, "the disk is well again");
        tokio::task::yield_now().await;
    }
    for _ in 0..200 {
        subject.write().await.unwrap();
    }
    let subject = subject.reopen().await;
    subject.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_disk_does_not_delay_readers() {
    let Some(mut subject) = Subject::start().await else {
        return;
    };
    let written = subject.write().await.unwrap();
    let is_log = |path: &Path| path.extension().is_some_and(|end| end == "log");
    subject.disk.slow_sync(is_log, Duration::from_secs(2));
    let store = subject.store.clone();
    let begun = Instant::now();
    let write = tokio::spawn(async move { store.commit(Transaction::new().put("b", "2")).await });
    let mut reads = 0;
    while begun.elapsed() < Duration::from_secs(1) {
        let page = subject
            .store
            .range(&KeyRange::all(), At::Latest, None)
            .await
            .unwrap();
        assert_eq!(page.revision, written, "what is not durable is not shown");
        reads += 1;
    }
    assert!(reads > 50, "{reads} reads in a second");
    let outcome = write.await.unwrap();
    assert_eq!(outcome, Ok(Outcome::Committed(written.next())));
    assert!(
        begun.elapsed() >= Duration::from_secs(2),
        "it waited for the disk"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_with_a_failed_sync_is_indeterminate() {
    let Some(mut subject) = Subject::start().await else {
        return;
    };
    let mut floor = Revision::ZERO;
    for _ in 0..3 {
        floor = subject.write().await.unwrap();
    }
    let is_log = |path: &Path| path.extension().is_some_and(|end| end == "log");
    subject.disk.fail_sync(is_log, Errno::EIO, Times::Once);
    let in_doubt = subject.store.compact(floor).await;
    let subject = subject.reopen().await;
    let after = subject.store.statistics().floor;
    assert!(
        after < floor || matches!(in_doubt, Err(Error::Indeterminate(_))),
        "the floor is {after}, and the caller got {in_doubt:?}"
    );
}

/// Writers wait only for the log, as long as memory lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_table_flush_does_not_delay_writers() {
    let Some(mut subject) = Subject::start().await else {
        return;
    };
    let slow = Duration::from_secs(3);
    let is_table = |path: &Path| path.starts_with("store/tables");
    subject.disk.slow_sync(is_table, slow);
    // Two memories are sealed meanwhile, and a third is being filled.
    let memory = usize::try_from(OPTIONS.memory_bytes).unwrap();
    let begun = Instant::now();
    while subject.written * (16 << 10) < memory * 5 / 2 {
        subject.write().await.unwrap();
    }
    assert!(begun.elapsed() < slow, "waited for {:?}", begun.elapsed());
    subject.check().await;
    subject.disk.heal();
}
