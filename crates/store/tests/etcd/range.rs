//! Pages, unreadable revisions, and empty ranges.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

use insula_store::{At, Entry, Error, KeyRange, Page, Revision, Store, Transaction};

use super::{committed, fresh, within};

const MIB: usize = 1 << 20;

fn keys(page: &Page) -> Vec<String> {
    let key = |entry: &Entry| entry.key.escape_ascii().to_string();
    page.entries.iter().map(key).collect()
}

#[tokio::test]
async fn range_larger_than_any_answer_is_read_completely() {
    let Some((_server, store)) = fresh().await else {
        return;
    };
    let names: Vec<String> = (10..34).map(|number| format!("k{number}")).collect();
    for (name, fill) in names.iter().zip(b'a'..) {
        let value = vec![fill; MIB];
        committed(&store, Transaction::create(name.clone(), value)).await;
    }
    let page = within(store.range(&KeyRange::all(), At::Latest, None))
        .await
        .unwrap();
    assert_eq!(keys(&page), names);
    for (entry, fill) in page.entries.iter().zip(b'a'..) {
        assert!(entry.value.len() == MIB && entry.value.iter().all(|byte| *byte == fill));
    }
    assert_eq!(page.revision, store.revision().await.unwrap());
    assert!(!page.more);

    let limit = NonZeroUsize::new(20);
    let page = within(store.range(&KeyRange::all(), At::Latest, limit))
        .await
        .unwrap();
    assert_eq!(keys(&page), names[..20]);
    assert!(page.more);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_share_one_revision_and_survive_compaction() {
    let Some((_server, store)) = fresh().await else {
        return;
    };
    let fill = |part: usize| {
        let names = (0..100).map(move |number| format!("m{part}{number:02}"));
        names.fold(Transaction::new(), |all, name| {
            all.put(name, vec![0; 8 << 10])
        })
    };
    for part in 0..10 {
        committed(&store, fill(part)).await;
    }
    let done = AtomicBool::new(false);
    // The first and the last key of the range always change together.
    let write = async {
        for count in 0_u32.. {
            if done.load(Ordering::Relaxed) {
                break;
            }
            let value = count.to_be_bytes().to_vec();
            let both = Transaction::new().put("a", value.clone()).put("z", value);
            let revision = committed(&store, both).await;
            within(store.compact(revision)).await.unwrap();
        }
    };
    let read = async {
        for _ in 0..20 {
            let page = within(store.range(&KeyRange::all(), At::Latest, None))
                .await
                .unwrap();
            let value = |key: &str| {
                let entry = page.entries.iter().find(|entry| entry.key == key)?;
                Some(entry.value.clone())
            };
            assert_eq!(value("a"), value("z"));
            assert!(page.entries.len() == 1000 || page.entries.len() == 1002);
        }
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(write, read);
}

#[tokio::test]
async fn unreadable_revision_is_reported_with_a_readable_one() {
    let Some((_server, store)) = fresh().await else {
        return;
    };
    let first = committed(&store, Transaction::new().put("k", "1")).await;
    let second = committed(&store, Transaction::new().put("k", "2")).await;
    let third = committed(&store, Transaction::new().put("k", "3")).await;
    let at = async |revision| {
        let range = KeyRange::all();
        within(store.range(&range, At::Revision(revision), None)).await
    };
    assert_eq!(at(first).await.unwrap().entries[0].value, "1");
    assert_eq!(at(Revision::ZERO).await.unwrap().entries, []);
    store.compact(second).await.unwrap();
    let compacted = Err(Error::Compacted { floor: second });
    assert_eq!(at(first).await, compacted);
    assert_eq!(at(Revision::ZERO).await, compacted);
    assert_eq!(at(second).await.unwrap().entries[0].value, "2");
    let future = Err(Error::Future { current: third });
    assert_eq!(at(third.next()).await, future);
    assert_eq!(at(Revision::new(u64::MAX)).await, future);
}

#[tokio::test]
async fn compaction_is_monotonic_and_bounded() {
    let Some((_server, store)) = fresh().await else {
        return;
    };
    let first = committed(&store, Transaction::new().put("k", "1")).await;
    let second = committed(&store, Transaction::new().put("k", "2")).await;
    store.compact(Revision::ZERO).await.unwrap();
    store.compact(second).await.unwrap();
    store.compact(second).await.unwrap();
    store.compact(first).await.unwrap();
    let future = Err(Error::Future { current: second });
    assert_eq!(store.compact(second.next()).await, future);
    assert_eq!(store.compact(Revision::new(u64::MAX)).await, future);
}

#[tokio::test]
async fn empty_range_is_empty_at_the_requested_revision() {
    let Some((_server, store)) = fresh().await else {
        return;
    };
    let first = committed(&store, Transaction::new().put("k", "1")).await;
    let second = committed(&store, Transaction::new().put("k", "2")).await;
    for range in [
        KeyRange::between("b", "a"),
        KeyRange::between("", "\0"),
        KeyRange::single(""),
    ] {
        for (at, revision) in [(At::Latest, second), (At::Revision(first), first)] {
            let page = within(store.range(&range, at, None)).await.unwrap();
            let nothing = Page {
                entries: vec![],
                revision,
                more: false,
            };
            assert_eq!(page, nothing, "{range:?}");
        }
        let future = store.range(&range, At::Revision(second.next()), None).await;
        assert_eq!(future, Err(Error::Future { current: second }));
    }
}
