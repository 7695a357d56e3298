//! Damaged files: noticed and refused, or harmless; never wrong data.
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

/// A store with a few tables and log segments, closed; and what it holds.
struct Sound {
    folder: TempDir,
    entries: Vec<Entry>,
    log: Vec<(Revision, Vec<Changed>)>,
    start: Revision,
}

async fn sound() -> Sound {
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
    Sound {
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

/// What came of opening and reading a store whose files were touched.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It says which file is damaged.
    Noticed(String),
    /// Everything is there.
    Harmless,
}

/// Opens and reads everything: each answer is right, or says that something is damaged.
async fn examine(folder: &Path, sound: &Sound) -> Verdict {
    let store = match Embedded::open(folder, OPTIONS).await {
        Ok(store) => store,
        Err(error) => return noticed(error),
    };
    let verdict = read_all(&store, sound).await;
    store.close().await;
    verdict
}

async fn read_all(store: &Embedded, sound: &Sound) -> Verdict {
    match store.range(&KeyRange::all(), At::Latest, None).await {
        Ok(page) => assert!(page.entries == sound.entries, "wrong entries were shown"),
        Err(error) => return noticed(error),
    }
    for entry in &sound.entries {
        match store.get(&entry.key).await {
            Ok(found) => assert!(found.as_ref() == Some(entry), "a wrong entry was shown"),
            Err(error) => return noticed(error),
        }
    }
    let mut watch = store.watch(KeyRange::all(), sound.start).await.unwrap();
    for (revision, changes) in &sound.log {
        match watch.next().await {
            Ok(WatchItem::Changes {
                revision: told,
                changes: found,
            }) => {
                assert!(
                    (&told, &found) == (revision, changes),
                    "a wrong history was told"
                );
            }
            Ok(item) => panic!("{item:?}"),
            Err(error) => return noticed(error),
        }
    }
    Verdict::Harmless
}

fn noticed(error: Error) -> Verdict {
    match error {
        Error::Corrupt { file, detail } => {
            assert!(!detail.is_empty());
            Verdict::Noticed(file.file_name().unwrap().to_string_lossy().into_owned())
        }
        other => panic!("damage is reported as {other:?}"),
    }
}

/// Touches one file of a copy and examines that.
async fn with_damage(sound: &Sound, file: &Path, damage: impl Fn(&mut Vec<u8>)) -> Verdict {
    let copied = tempfile::tempdir().unwrap();
    copy(sound.folder.path(), copied.path());
    let target = copied
        .path()
        .join(file.strip_prefix(sound.folder.path()).unwrap());
    let mut bytes = fs::read(&target).unwrap();
    damage(&mut bytes);
    fs::write(&target, bytes).unwrap();
    examine(copied.path(), sound).await
}

fn is_lock(file: &Path) -> bool {
    file.ends_with("lock")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sound_store_is_harmless() {
    let sound = sound().await;
    let names = files(sound.folder.path());
    let count = |part: &str| {
        names
            .iter()
            .filter(|name| name.to_string_lossy().contains(part))
            .count()
    };
    assert!(count("/log/") >= 2, "several segments: {names:?}");
    assert!(count("/tables/tables/") >= 1, "tables: {names:?}");
    assert_eq!(
        examine(sound.folder.path(), &sound).await,
        Verdict::Harmless
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_never_shows_wrong_data() {
    let sound = sound().await;
    let mut noticed = 0;
    for file in files(sound.folder.path())
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
            let verdict = with_damage(&sound, file, |bytes| bytes[at] ^= 1 << (at % 8)).await;
            noticed += usize::from(verdict != Verdict::Harmless);
        }
    }
    assert!(
        noticed > 40,
        "most flips hit something that counts: {noticed}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_frame_in_the_middle_of_the_log_is_refused_by_name() {
    let sound = sound().await;
    let logs: Vec<_> = files(&sound.folder.path().join("log"));
    let last_used = logs
        .iter()
        .rfind(|log| fs::read(log).unwrap()[64..].iter().any(|b| *b != 0));
    let last_used = last_used.unwrap();
    let verdict = with_damage(&sound, last_used, |bytes| bytes[200] ^= 1).await;
    let name = last_used
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    assert_eq!(verdict, Verdict::Noticed(name));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_file_never_shows_wrong_data() {
    let sound = sound().await;
    for file in files(sound.folder.path())
        .iter()
        .filter(|file| !is_lock(file))
    {
        let length = usize::try_from(fs::metadata(file).unwrap().len()).unwrap();
        for keep in [0, length / 2, length.saturating_sub(1)] {
            let verdict = with_damage(&sound, file, |bytes| bytes.truncate(keep)).await;
            assert_ne!(
                verdict,
                Verdict::Harmless,
                "{} cut to {keep}",
                file.display()
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_file_never_shows_wrong_data() {
    let sound = sound().await;
    for file in files(sound.folder.path())
        .iter()
        .filter(|file| !is_lock(file))
    {
        if file.ends_with("format") {
            // Without it there is no store: see the next test.
            continue;
        }
        let copied = tempfile::tempdir().unwrap();
        copy(sound.folder.path(), copied.path());
        let gone = file.strip_prefix(sound.folder.path()).unwrap();
        fs::remove_file(copied.path().join(gone)).unwrap();
        examine(copied.path(), &sound).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_format_from_the_future_is_refused_and_left_alone() {
    let sound = sound().await;
    let format = sound.folder.path().join("format");
    fs::write(&format, "insula store, format 2\n").unwrap();
    let before = files(sound.folder.path());
    let refused = Embedded::open(sound.folder.path(), OPTIONS)
        .await
        .err()
        .unwrap();
    assert!(refused.to_string().contains("newer version"), "{refused}");
    assert_eq!(files(sound.folder.path()), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_is_open_is_refused() {
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

/// As long as no table was written, the log is all there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_log_is_not_taken_for_an_empty_store() {
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

/// What is refused is left as it was, for whoever is called to help.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_with_a_gap_is_refused_and_left_alone() {
    let sound = sound().await;
    let logs = files(&sound.folder.path().join("log"));
    assert!(logs.len() >= 3, "{logs:?}");
    fs::remove_file(&logs[1]).unwrap();
    let before = files(&sound.folder.path().join("log"));
    let refused = Embedded::open(sound.folder.path(), OPTIONS).await.err();
    assert!(
        matches!(refused, Some(Error::Corrupt { .. })),
        "{refused:?}"
    );
    assert_eq!(files(&sound.folder.path().join("log")), before);
}
