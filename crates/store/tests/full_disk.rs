//! A full disk: what is acknowledged stays, deletions work, and what is deleted makes room again.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use insula_store::embedded::{Embedded, Options};
use insula_store::{At, DiskSpace, Error, Key, KeyRange, Outcome, Result, Store, Transaction};
use insula_testkit::disk::Disk;
use tokio::time::timeout;

const OPTIONS: Options = Options {
    segment_bytes: 0,
    memory_bytes: 256 << 10,
    cache_bytes: 64 << 10,
};
const CAPACITY: u64 = 32 << 20;
const VALUE: usize = 16 << 10;
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A store in a folder, and its acknowledged writes.
struct Subject {
    store: Embedded,
    folder: std::path::PathBuf,
    acknowledged: BTreeMap<Key, Bytes>,
    created: usize,
}

impl Subject {
    async fn open(folder: &Path) -> Self {
        Self {
            store: Embedded::open(folder, OPTIONS).await.unwrap(),
            folder: folder.to_path_buf(),
            acknowledged: BTreeMap::new(),
            created: 0,
        }
    }

    async fn commit(&self, transaction: Transaction) -> Result<()> {
        let outcome = timeout(WAIT_TIMEOUT, self.store.commit(transaction)).await;
        match outcome.unwrap()? {
            Outcome::Committed(_) => Ok(()),
            other => panic!("{other:?}"),
        }
    }

    async fn put(&mut self, key: &Key, bytes: usize) -> Result<()> {
        let value = Bytes::from(vec![self.created as u8; bytes]);
        let put = Transaction::new().put(key.clone(), value.clone());
        self.commit(put).await?;
        self.acknowledged.insert(key.clone(), value);
        Ok(())
    }

    async fn create(&mut self) -> Result<()> {
        self.created += 1;
        let key = Key::from(format!("/full/{:05}", self.created));
        self.put(&key, VALUE).await
    }

    async fn delete(&mut self, key: &Key) -> Result<()> {
        self.commit(Transaction::new().delete(key.clone())).await?;
        self.acknowledged.remove(key);
        Ok(())
    }

    /// Creates keys until that is refused, and returns how many were created.
    async fn fill(&mut self) -> usize {
        for count in 0..4000 {
            match self.create().await {
                Ok(()) => {}
                Err(Error::Full(_)) => return count,
                Err(error) => panic!("{error:?}"),
            }
        }
        panic!("the store takes more than the disk has");
    }

    /// Deletes all keys but every tenth, and moves the floor past that.
    async fn delete_most(&mut self) {
        let keys: Vec<Key> = self.acknowledged.keys().cloned().collect();
        for (n, key) in keys.iter().enumerate() {
            if n % 10 != 0 {
                self.delete(key).await.unwrap();
            }
        }
        self.compact().await;
    }

    async fn compact(&self) {
        let head = self.store.revision().await.unwrap();
        self.store.compact(head).await.unwrap();
    }

    /// Creates so many keys, and waits for room in between: it comes back in steps.
    async fn create_in_time(&mut self, count: usize) {
        let begun = Instant::now();
        for done in 0..count {
            while let Err(error) = self.create().await {
                assert!(matches!(error, Error::Full(_)), "{error:?}");
                let space = self.store.disk_space();
                let in_time = begun.elapsed() < WAIT_TIMEOUT;
                assert!(in_time, "{done} of {count}: {space:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    async fn check(&self) {
        let all = KeyRange::all();
        let page = self.store.range(&all, At::Latest, None).await.unwrap();
        let entries = page.entries.into_iter();
        let found: BTreeMap<_, _> = entries.map(|entry| (entry.key, entry.value)).collect();
        assert!(found == self.acknowledged, "not what was acknowledged");
    }

    async fn reopen(self) -> Self {
        self.store.close().await;
        let begun = Instant::now();
        loop {
            match Embedded::open(&self.folder, OPTIONS).await {
                Ok(store) => return Self { store, ..self },
                // A process that another test starts has the lock until it runs its program.
                Err(Error::Locked(_)) if begun.elapsed() < WAIT_TIMEOUT => {
                    tokio::task::yield_now().await;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    fn space(&self) -> DiskSpace {
        self.store.disk_space().unwrap()
    }
}

async fn start(capacity: u64) -> Option<(Disk, Subject)> {
    let disk = Disk::mount()?;
    disk.set_capacity(capacity);
    let subject = Subject::open(&disk.path().join("store")).await;
    Some((disk, subject))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn room_for_flushes_and_merges_is_kept_from_growing_writes() {
    let Some((disk, mut subject)) = start(CAPACITY).await else {
        return;
    };
    let created = subject.fill().await;
    assert!(created > 200, "only {created} keys of 16 KiB fit");
    assert!(disk.free() > 4 << 20, "{} bytes are left", disk.free());
    let space = subject.space();
    assert!(space.is_low && space.refused_writes > 0, "{space:?}");
    assert!(space.reserved_bytes > 4 << 20, "{space:?}");

    let key = Key::from("/full/00001");
    subject.put(&key, VALUE).await.unwrap();
    subject.put(&key, VALUE + 1000).await.unwrap();
    let grown = subject.put(&key, VALUE * 2).await.unwrap_err();
    assert!(matches!(grown, Error::Full(_)), "{grown:?}");
    let marked = Transaction::new().put(key.clone(), vec![1; VALUE * 2]);
    subject.commit(marked.releasing()).await.unwrap();
    subject.delete(&key).await.unwrap();
    // A failed check is reported as such.
    let taken = Transaction::create("/full/00002", "x");
    let outcome = subject.store.commit(taken).await;
    assert!(matches!(outcome, Ok(Outcome::Conflict(_))), "{outcome:?}");
    subject.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletions_at_the_limit_make_room_for_writes_again() {
    let Some((_disk, mut subject)) = start(CAPACITY).await else {
        return;
    };
    let first = subject.fill().await;
    for _ in 0..3 {
        subject.delete_most().await;
        subject.create_in_time(first / 2).await;
        subject.fill().await;
        subject.check().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_opens_at_the_limit_and_recovers() {
    let Some((disk, mut subject)) = start(CAPACITY).await else {
        return;
    };
    let first = subject.fill().await;
    // Another program takes the rest: not one byte is left.
    disk.full_after(0);
    let mut subject = subject.reopen().await;
    subject.check().await;
    let refused = subject.create().await.unwrap_err();
    assert!(matches!(refused, Error::Full(_)), "{refused:?}");
    let key = subject.acknowledged.keys().next().unwrap().clone();
    subject.delete(&key).await.unwrap();
    // It gives back what the store needs to recover, and no more.
    disk.set_capacity(CAPACITY);
    let mut subject = subject.reopen().await;
    subject.check().await;
    subject.delete_most().await;
    let mut subject = subject.reopen().await;
    subject.create_in_time(first / 2).await;
    subject.check().await;
}

/// The limit does not show in the free space, so that files are cut off at every possible place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_wherever_the_disk_is_full() {
    for step in 0..40 {
        let Some(disk) = Disk::mount() else { return };
        let mut subject = Subject::open(&disk.path().join("store")).await;
        for _ in 0..20 {
            subject.create().await.unwrap();
        }
        disk.hide_limit();
        disk.full_after(step * 137 * 1024);
        subject.fill().await;
        subject.check().await;
        let mut subject = subject.reopen().await;
        subject.check().await;
        disk.heal();
        subject.create_in_time(1).await;
        let subject = subject.reopen().await;
        subject.check().await;
    }
}

/// Unfinished tables would take the room that is left, one more with each attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_flushes_leave_no_files() {
    let Some((disk, mut subject)) = start(u64::MAX).await else {
        return;
    };
    subject.create().await.unwrap();
    disk.hide_limit();
    disk.full_after(200 << 10);
    subject.fill().await;
    let tables = || disk.path().join("store/tables/tables").read_dir().unwrap();
    // Several attempts, one of which may be under way.
    let mut most = 0;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        most = most.max(tables().count());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(most <= 4, "{most} files");
    subject.check().await;
}

/// The same on a file system of the kernel, which gives out its last block: a small tmpfs that this
/// test mounts for itself in a namespace of its own.
#[test]
fn deletions_make_room_on_a_real_file_system() {
    let program = std::env::current_exe().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
        .arg("mount -t tmpfs -o size=40m none \"$FULL_DISK\" || exit 77; exec \"$@\"")
        .arg("sh")
        .arg(program)
        .args(["--exact", "--ignored", "on_a_small_file_system"])
        .env("FULL_DISK", folder.path());
    let output = match command.output() {
        Ok(output) if output.status.code() != Some(77) && ran(&output) => output,
        other => {
            let _ = writeln!(std::io::stderr(), "SKIPPED: no tmpfs here ({other:?})");
            return;
        }
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

/// Whether the namespace could be created, and the test was run in it.
fn ran(output: &std::process::Output) -> bool {
    String::from_utf8_lossy(&output.stdout).contains("running 1 test")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs in a namespace, see above"]
async fn on_a_small_file_system() {
    let folder = std::path::PathBuf::from(std::env::var("FULL_DISK").unwrap());
    let mut subject = Subject::open(&folder.join("store")).await;
    let first = subject.fill().await;
    subject.delete_most().await;
    subject.create_in_time(first / 2).await;
    // Another program takes all that is left.
    let ballast = folder.join("ballast");
    let error = std::fs::write(&ballast, vec![1; 64 << 20]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    let mut subject = subject.reopen().await;
    subject.check().await;
    let key = subject.acknowledged.keys().next().unwrap().clone();
    subject.delete(&key).await.unwrap();
    std::fs::remove_file(&ballast).unwrap();
    subject.create_in_time(1).await;
    let subject = subject.reopen().await;
    subject.check().await;
}
