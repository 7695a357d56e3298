//! Power cuts after a process died between a write and its sync.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use insula_store::embedded::{Embedded, Options};
use insula_store::{Error, Key, Outcome, Revision, Store, Transaction};
use insula_testkit::disk::{Disk, Errno, Image, Loss, Op, Rng, Times, Trace};
use tempfile::TempDir;

const STORE: &str = "store";
const SEGMENT: &str = "store/log/0000000000000001.log";
const OPTIONS: Options = Options {
    segment_bytes: 0,
    memory_bytes: 1 << 20,
    cache_bytes: 1 << 20,
};

async fn open(root: &Path) -> Embedded {
    Embedded::open(root.join(STORE), OPTIONS).await.unwrap()
}

/// What a process that dies now leaves, or what the disk holds after a power cut now.
fn image_of(disk: &Disk, loss: Loss) -> Image {
    let trace = disk.trace();
    trace.cut(trace.len(), loss, &mut Rng::new(1))
}

/// The folder of a process that died, on a disk where everything but its last write was synced. The
/// revision is that of this write.
async fn after_a_crash() -> Option<(Disk, Revision)> {
    let first = Disk::mount()?;
    let store = open(first.path()).await;
    let before = image_of(&first, Loss::Nothing);
    let created = store.commit(Transaction::create("key", "value")).await;
    let Outcome::Committed(revision) = created.unwrap() else {
        panic!("not committed");
    };
    let after = image_of(&first, Loss::Nothing);
    store.close().await;
    let second = Disk::mount()?;
    before.write_to(second.path()).unwrap();
    second.make_durable();
    let mut segment = OpenOptions::new();
    let segment = segment.write(true).open(second.path().join(SEGMENT));
    let bytes = after.read(SEGMENT).unwrap();
    segment.unwrap().write_all_at(&bytes, 0).unwrap();
    Some((second, revision))
}

/// Lays out what a power cut leaves of `disk` now, and opens it.
async fn cut(disk: &Disk) -> (Embedded, TempDir) {
    let image = image_of(disk, Loss::Everything);
    let folder = tempfile::tempdir().unwrap();
    image.write_to(folder.path()).unwrap();
    (open(folder.path()).await, folder)
}

/// A reader after a restart must not see data that a power cut can still undo.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn visible_data_after_a_crash_survives_a_power_cut() {
    let Some((disk, written)) = after_a_crash().await else {
        return;
    };
    let store = open(disk.path()).await;
    let key = Key::from_static(b"key");
    let recovered = store.get(&key).await.unwrap();
    assert_eq!(
        recovered.as_ref().map(|entry| entry.modified),
        Some(written)
    );
    let (survivor, folder) = cut(&disk).await;
    assert_eq!(survivor.revision().await.unwrap(), written);
    assert_eq!(survivor.get(&key).await.unwrap(), recovered);
    survivor.close().await;
    store.close().await;
    drop(folder);
}

/// A process that creates a store may die right after the last step, before that is durable. The
/// next process finds a complete store, so it must stay complete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_whose_creator_crashed_at_the_last_step_survives_a_power_cut() {
    let Some(disk) = Disk::mount() else { return };
    open(disk.path()).await.close().await;
    let [format, making] =
        ["format", "format.making"].map(|name| disk.path().join(STORE).join(name));
    fs::rename(&format, &making).unwrap();
    disk.make_durable();
    fs::rename(&making, &format).unwrap();

    let store = open(disk.path()).await;
    let created = store.commit(Transaction::create("key", "value")).await;
    assert_eq!(created, Ok(Outcome::Committed(Revision::new(2))));
    let (survivor, folder) = cut(&disk).await;
    assert_eq!(survivor.revision().await.unwrap(), Revision::new(2));
    survivor.close().await;
    store.close().await;
    drop(folder);
}

/// After a failed sync the kernel shows data that the disk may never have received, and a later
/// successful sync says nothing about it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn visible_data_after_a_failed_sync_survives_a_power_cut() {
    let Some(disk) = Disk::mount() else { return };
    let store = open(disk.path()).await;
    store
        .commit(Transaction::create("before", "1"))
        .await
        .unwrap();
    let is_log = |path: &Path| path.extension().is_some_and(|end| end == "log");
    disk.fail_sync(is_log, Errno::EIO, Times::Once);
    let in_doubt = store.commit(Transaction::create("in doubt", "2")).await;
    assert!(
        matches!(in_doubt, Err(Error::Indeterminate(_))),
        "{in_doubt:?}"
    );
    store.close().await;

    let store = open(disk.path()).await;
    let key = Key::from_static(b"in doubt");
    let recovered = store.get(&key).await.unwrap();
    let created = store.commit(Transaction::create("after", "3")).await;
    let Outcome::Committed(last) = created.unwrap() else {
        panic!("not committed")
    };
    let (survivor, folder) = cut(&disk).await;
    assert_eq!(survivor.revision().await, Ok(last));
    assert_eq!(survivor.get(&key).await.unwrap(), recovered);
    survivor.close().await;
    store.close().await;
    drop(folder);
}

/// A store in a new folder of a new folder includes the names of both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_in_a_new_folder_of_a_new_folder_survives_a_power_cut() {
    let Some(disk) = Disk::mount() else { return };
    let path = Path::new("var/lib").join(STORE);
    let store = Embedded::open(disk.path().join(&path), OPTIONS).await;
    let store = store.unwrap();
    let created = store.commit(Transaction::create("key", "value")).await;
    assert_eq!(created, Ok(Outcome::Committed(Revision::new(2))));
    assert!(image_of(&disk, Loss::Everything).holds(path.join("format")));
    store.close().await;
}

/// A process may die right after naming a new manifest, before that is durable. Opening the tables
/// relies on it, and removes the tables that it no longer names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_whose_manifest_was_named_right_before_a_crash_survive_a_power_cut() {
    let Some(first) = Disk::mount() else { return };
    let store = open(first.path()).await;
    for n in 0..120_u8 {
        let put = Transaction::new().put("key", vec![n; 256 << 10]);
        store.commit(put).await.unwrap();
    }
    store.close().await;
    let trace = first.trace();
    let at = named_before_a_removal(&trace).unwrap();
    let mut rng = Rng::new(1);
    let Some(second) = Disk::mount() else { return };
    let before = trace.cut(at, Loss::Nothing, &mut rng);
    before.write_to(second.path()).unwrap();
    second.make_durable();
    let tables = second.path().join(STORE).join("tables");
    let mut names = fs::read_dir(&tables).unwrap().map(|name| name.unwrap());
    let is_making = |name: &fs::DirEntry| name.file_name().to_string_lossy().starts_with(".tmp");
    let making = names.find(is_making).unwrap();
    fs::rename(making.path(), tables.join("current")).unwrap();

    let store = open(second.path()).await;
    let trace = second.trace();
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let image = trace.cut(trace.len(), Loss::Mixture, &mut rng);
        image.write_to(folder.path()).unwrap();
        open(folder.path()).await.close().await;
    }
    store.close().await;
}

/// Right before the manifest of a merge is named: after it, tables are removed.
fn named_before_a_removal(trace: &Trace) -> Option<usize> {
    let mut named = None;
    for (at, op) in trace.ops().iter().enumerate() {
        match op {
            Op::Rename { to, .. } if *to.name == *"current" => named = Some(at),
            Op::Unlink { place, .. } if is_number(&place.name) => return named,
            _ => {}
        }
    }
    None
}

fn is_number(name: &OsStr) -> bool {
    name.to_str()
        .is_some_and(|name| name.parse::<u64>().is_ok())
}
