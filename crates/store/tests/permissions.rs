//! File permissions: only the owner of the process may use anything of a store.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use insula_store::embedded::{Embedded, Options};
use insula_store::{Key, Outcome, Revision, Store, Transaction};
use insula_testkit::permissions::{assert_private, tree};
use nix::sys::stat::{Mode, umask};

const OPTIONS: Options = Options {
    segment_bytes: 0,
    memory_bytes: 256 << 10,
    cache_bytes: 64 << 10,
};

/// Fills several memories and log segments, compacts, and waits until the history is removed.
async fn write_and_compact(store: &Embedded) {
    let mut last = Revision::ZERO;
    for n in 0..400 {
        let key = Key::from(format!("/permissions/{:02}", n % 20));
        let put = Transaction::new().put(key, vec![n as u8; 16 << 10]);
        let Outcome::Committed(revision) = store.commit(put).await.unwrap() else {
            panic!("not committed")
        };
        last = revision;
    }
    store.compact(last).await.unwrap();
    let begun = Instant::now();
    while store.statistics().swept < last {
        assert!(begun.elapsed() < Duration::from_secs(30), "never swept");
        tokio::task::yield_now().await;
    }
}

/// The umask is that of most login shells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_owner_may_use_anything_of_a_store() {
    umask(Mode::from_bits_truncate(0o022));
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let store = Embedded::open(data.join("store"), OPTIONS).await.unwrap();
    write_and_compact(&store).await;
    assert_private(&data.join("store/log"));
    store.close().await;
    assert_private(&data);
    let found = tree(&data).unwrap();
    assert!(found.len() > 8, "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opening_restricts_what_others_could_use() {
    umask(Mode::from_bits_truncate(0o022));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Embedded::open(&path, OPTIONS).await.unwrap();
    write_and_compact(&store).await;
    store.close().await;
    for (path, _) in tree(&path).unwrap() {
        let loose = if path.is_dir() { 0o755 } else { 0o664 };
        std::fs::set_permissions(&path, Permissions::from_mode(loose)).unwrap();
    }
    let store = Embedded::open(&path, OPTIONS).await.unwrap();
    assert_private(&path);
    assert_eq!(store.revision().await, Ok(Revision::new(401)));
    write_and_compact(&store).await;
    store.close().await;
    assert_private(&path);
}
