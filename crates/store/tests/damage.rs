//! Damaged files are detected and refused, or harmless; they never lead to wrong data.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use insula_store::embedded::{Embedded, Options};
use insula_store::{
    At, Changed, Entry, Error, Key, KeyRange, Revision, Store, Transaction, WatchItem,
};
use tempfile::TempDir;

const OPTIONS: Options = Options {
    segment_bytes: 0,
    memory_bytes: 64 << 10,
    cache_bytes: 64 << 10,
};

/// A closed store with a few tables and log segments, and its content.
struct Intact {
    folder: TempDir,
    entries: Vec<Entry>,
    log: Vec<(Revision, Vec<Changed>)>,
    start: Revision,
}

async fn intact() -> Intact {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), OPTIONS).await.unwrap();
    let start = store.revision().await.unwrap();
    let mut watch = store.watch(KeyRange::all(), start).await.unwrap();
    let mut log = vec![];
    for n in 0..600_u32 {
        let key = Key::from(format!("/damage/{:03}", n % 150));
        let value = Bytes::from(format!("{n}-").repeat(1500));
        let change = Transaction::new().put(key, value);
        store.commit(change).await.unwrap();
        let WatchItem::Changes { revision, changes } = watch.next().await.unwrap() else {
            panic!("no changes")
        };
        log.push((revision, changes));
    }
    let page = store
        .range(&KeyRange::all(), At::Latest, None)
        .await
        .unwrap();
    drop(watch);
    store.close().await;
    Intact {
        folder,
        entries: page.entries,
        log,
        start,
    }
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The result of opening and reading a store with a damaged file.
#[derive(Debug, PartialEq, Eq)]
enum Examination {
    /// The error names the damaged file.
    Noticed(String),
    /// Everything is there.
    Harmless,
}

/// Opens the store and reads everything: each answer is correct, or reports damage.
async fn examine(folder: &Path, intact: &Intact) -> Examination {
    let store = match Embedded::open(folder, OPTIONS).await {
        Ok(store) => store,
        Err(error) => return detected(error),
    };
    let verdict = read_all(&store, intact).await;
    store.close().await;
    verdict
}

async fn read_all(store: &Embedded, intact: &Intact) -> Examination {
    match store.range(&KeyRange::all(), At::Latest, None).await {
        Ok(page) => assert!(page.entries == intact.entries, "wrong entries were shown"),
        Err(error) => return detected(error),
    }
    for entry in &intact.entries {
        match store.get(&entry.key).await {
            Ok(found) => assert!(found.as_ref() == Some(entry), "a wrong entry was shown"),
            Err(error) => return detected(error),
        }
    }
    let mut watch = store.watch(KeyRange::all(), intact.start).await.unwrap();
    for (revision, changes) in &intact.log {
        match watch.next().await {
            Ok(WatchItem::Changes {
                revision: delivered,
                changes: found,
            }) => {
                assert!(
                    (&delivered, &found) == (revision, changes),
                    "wrong history delivered"
                );
            }
            Ok(item) => panic!("{item:?}"),
            Err(error) => return detected(error),
        }
    }
    Examination::Harmless
}

fn detected(error: Error) -> Examination {
    match error {
        Error::Corrupt { file, detail } => {
            assert!(!detail.is_empty());
            Examination::Noticed(file.file_name().unwrap().to_string_lossy().into_owned())
        }
        other => panic!("damage is reported as {other:?}"),
    }
}

/// Damages one file of a copy and examines the copy.
async fn with_damage(intact: &Intact, file: &Path, damage: impl Fn(&mut Vec<u8>)) -> Examination {
    let copied = tempfile::tempdir().unwrap();
    copy(intact.folder.path(), copied.path());
    let target = copied
        .path()
        .join(file.strip_prefix(intact.folder.path()).unwrap());
    let mut bytes = fs::read(&target).unwrap();
    damage(&mut bytes);
    fs::write(&target, bytes).unwrap();
    examine(copied.path(), intact).await
}

fn is_lock(file: &Path) -> bool {
    file.ends_with("lock")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn intact_store_is_read_completely() {
    let intact = intact().await;
    let names = files(intact.folder.path());
    let count = |part: &str| {
        names
            .iter()
            .filter(|name| name.to_string_lossy().contains(part))
            .count()
    };
    assert!(count("/log/") >= 2, "several segments: {names:?}");
    assert!(count("/tables/tables/") >= 1, "tables: {names:?}");
    assert_eq!(
        examine(intact.folder.path(), &intact).await,
        Examination::Harmless
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flipped_bit_never_leads_to_wrong_data() {
    let intact = intact().await;
    let mut detected = 0;
    for file in files(intact.folder.path())
        .iter()
        .filter(|file| !is_lock(file))
    {
        let length = usize::try_from(fs::metadata(file).unwrap().len()).unwrap();
        // The beginning, where headers are; then everywhere.
        let everywhere = (0..12).map(|n| length * n / 12 + n * 7);
        for at in (0..64)
            .step_by(5)
            .chain(everywhere)
            .filter(|at| *at < length)
        {
            let verdict = with_damage(&intact, file, |bytes| bytes[at] ^= 1 << (at % 8)).await;
            detected += usize::from(verdict != Examination::Harmless);
        }
    }
    assert!(
        detected > 40,
        "most flips hit something that counts: {detected}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_frame_in_the_middle_of_the_log_is_refused_by_name() {
    let intact = intact().await;
    let logs: Vec<_> = files(&intact.folder.path().join("log"));
    let last_used = logs
        .iter()
        .rfind(|log| fs::read(log).unwrap()[64..].iter().any(|b| *b != 0));
    let last_used = last_used.unwrap();
    let verdict = with_damage(&intact, last_used, |bytes| bytes[200] ^= 1).await;
    let name = last_used
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    assert_eq!(verdict, Examination::Noticed(name));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncated_file_never_leads_to_wrong_data() {
    let intact = intact().await;
    for file in files(intact.folder.path())
        .iter()
        .filter(|file| !is_lock(file))
    {
        let length = usize::try_from(fs::metadata(file).unwrap().len()).unwrap();
        for keep in [0, length / 2, length.saturating_sub(1)] {
            let verdict = with_damage(&intact, file, |bytes| bytes.truncate(keep)).await;
            assert_ne!(
                verdict,
                Examination::Harmless,
                "{} cut to {keep}",
                file.display()
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_file_never_leads_to_wrong_data() {
    let intact = intact().await;
    for file in files(intact.folder.path())
        .iter()
        .filter(|file| !is_lock(file))
    {
        if file.ends_with("format") {
            // Without it there is no store: see the next test.
            continue;
        }
        let copied = tempfile::tempdir().unwrap();
        copy(intact.folder.path(), copied.path());
        let gone = file.strip_prefix(intact.folder.path()).unwrap();
        fs::remove_file(copied.path().join(gone)).unwrap();
        examine(copied.path(), &intact).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn newer_format_is_refused_and_left_unchanged() {
    let intact = intact().await;
    let format = intact.folder.path().join("format");
    fs::write(&format, "insula store, format 2\n").unwrap();
    let before = files(intact.folder.path());
    let refused = Embedded::open(intact.folder.path(), OPTIONS)
        .await
        .err()
        .unwrap();
    assert!(refused.to_string().contains("newer version"), "{refused}");
    assert_eq!(files(intact.folder.path()), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), OPTIONS).await.unwrap();
    let refused = Embedded::open(folder.path(), OPTIONS).await.err();
    assert_eq!(refused, Some(Error::Locked(folder.path().to_path_buf())));
    store
        .commit(Transaction::new().put("a", "1"))
        .await
        .unwrap();
    store.close().await;
    let store = Embedded::open(folder.path(), OPTIONS).await.unwrap();
    let found = store.get(&Key::from("a")).await.unwrap().unwrap();
    assert_eq!(found.value, "1");
}

/// As long as no table was written, the log is everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_log_is_not_mistaken_for_an_empty_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), OPTIONS).await.unwrap();
    store
        .commit(Transaction::new().put("a", "1"))
        .await
        .unwrap();
    let second = Path::new("log").join("0000000000000002.log");
    while !folder.path().join(&second).exists() {
        tokio::task::yield_now().await;
    }
    let copied = tempfile::tempdir().unwrap();
    copy(folder.path(), copied.path());
    store.close().await;
    let first = Path::new("log").join("0000000000000001.log");
    fs::remove_file(copied.path().join(first)).unwrap();
    let refused = Embedded::open(copied.path(), OPTIONS).await.err().unwrap();
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused:?}");
}

/// A refused store is left unchanged, for manual recovery.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_with_a_gap_is_refused_and_left_unchanged() {
    let intact = intact().await;
    let logs = files(&intact.folder.path().join("log"));
    assert!(logs.len() >= 3, "{logs:?}");
    fs::remove_file(&logs[1]).unwrap();
    let before = files(&intact.folder.path().join("log"));
    let refused = Embedded::open(intact.folder.path(), OPTIONS).await.err();
    assert!(
        matches!(refused, Some(Error::Corrupt { .. })),
        "{refused:?}"
    );
    assert_eq!(files(&intact.folder.path().join("log")), before);
}
