//! Laws of ranges.

use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;

use super::{commit, delete, entry, everything, key, list, put};
use crate::{At, Entry, Error, Key, KeyRange, Store, Transaction};

type Subject = Arc<dyn Store>;

async fn keys(store: &dyn Store, range: KeyRange) -> Vec<Key> {
    let page = store.range(&range, At::Latest, None).await.unwrap();
    page.entries.into_iter().map(|entry| entry.key).collect()
}

pub async fn entries_are_in_byte_order(store: Subject) {
    for name in ["b", "a/b", "a", "a0", "B", "a-b", "é"] {
        put(&*store, name, name).await;
    }
    let expected = ["B", "a", "a-b", "a/b", "a0", "b", "é"].map(key);
    assert_eq!(keys(&*store, everything()).await, expected);
}

pub async fn range_is_half_open(store: Subject) {
    for name in ["a", "b", "b1", "c", "d"] {
        put(&*store, name, name).await;
    }
    let between = |from, to| KeyRange::between(key(from), key(to));
    assert_eq!(
        keys(&*store, between("b", "d")).await,
        ["b", "b1", "c"].map(key)
    );
    assert_eq!(keys(&*store, between("b0", "c")).await, ["b1"].map(key));
    assert_eq!(keys(&*store, KeyRange::single(key("b"))).await, [key("b")]);
    assert_eq!(
        keys(&*store, KeyRange::prefix(key("b"))).await,
        ["b", "b1"].map(key)
    );
    let rest = KeyRange::prefix(key("")).after(&key("b1"));
    assert_eq!(keys(&*store, rest).await, ["c", "d"].map(key));
    assert_eq!(keys(&*store, KeyRange::all()).await.len(), 5);
}

pub async fn limit_reports_whether_there_is_more(store: Subject) {
    for name in ["a", "b", "c"] {
        put(&*store, name, name).await;
    }
    for (limit, found, more) in [(1, 1, true), (2, 2, true), (3, 3, false), (9, 3, false)] {
        let limit = NonZeroUsize::new(limit);
        let page = store.range(&everything(), At::Latest, limit).await.unwrap();
        assert_eq!((page.entries.len(), page.more), (found, more), "{limit:?}");
        assert_eq!(page.entries[0].key, key("a"));
    }
}

pub async fn pages_at_one_revision_show_one_state(store: Subject) {
    for n in 0..25 {
        put(&*store, &format!("{n:02}"), "old").await;
    }
    let mut range = everything();
    let first = store
        .range(&range, At::Latest, NonZeroUsize::new(10))
        .await
        .unwrap();
    let revision = first.revision;
    let mut found: Vec<Entry> = first.entries;
    for n in 0..25 {
        put(&*store, &format!("{n:02}"), "new").await;
        delete(&*store, &format!("{:02}", 24 - n)).await;
        put(&*store, &format!("{n:02}x"), "new").await;
    }
    let mut more = first.more;
    while more {
        range = range.after(&found.last().unwrap().key);
        let at = At::Revision(revision);
        let page = store
            .range(&range, at, NonZeroUsize::new(10))
            .await
            .unwrap();
        assert_eq!(page.revision, revision);
        found.extend(page.entries);
        more = page.more;
    }
    let names: Vec<_> = (0..25).map(|n| key(&format!("{n:02}"))).collect();
    assert_eq!(
        found
            .iter()
            .map(|entry| entry.key.clone())
            .collect::<Vec<_>>(),
        names
    );
    assert!(found.iter().all(|entry| entry.value == "old"));
}

pub async fn old_revision_shows_the_old_state(store: Subject) {
    let empty = store.revision().await.unwrap();
    let a = put(&*store, "a", "1").await;
    let b = put(&*store, "b", "1").await;
    let a2 = put(&*store, "a", "2").await;
    let gone = delete(&*store, "a").await;
    let back = put(&*store, "a", "3").await;
    let at_b = entry("b", "1", b, b);
    let history = [
        (empty, vec![]),
        (a, vec![entry("a", "1", a, a)]),
        (b, vec![entry("a", "1", a, a), at_b.clone()]),
        (a2, vec![entry("a", "2", a, a2), at_b.clone()]),
        (gone, vec![at_b.clone()]),
        (back, vec![entry("a", "3", back, back), at_b]),
    ];
    for (revision, expected) in history {
        let found = list(&*store, At::Revision(revision)).await;
        assert_eq!(found, expected, "at {revision}");
        let single = KeyRange::single(key("a"));
        let page = store
            .range(&single, At::Revision(revision), None)
            .await
            .unwrap();
        let only_a: Vec<_> = expected
            .into_iter()
            .filter(|entry| entry.key == key("a"))
            .collect();
        assert_eq!((page.entries, page.revision), (only_a, revision));
    }
}

pub async fn future_revision_cannot_be_read(store: Subject) {
    let current = put(&*store, "a", "1").await;
    let read = store
        .range(&everything(), At::Revision(current.next()), None)
        .await;
    assert_eq!(read, Err(Error::Future { current }));
}

pub async fn empty_range_has_no_entries(store: Subject) {
    let revision = put(&*store, "a", "1").await;
    let range = KeyRange::between(key("b"), key("a"));
    for at in [At::Latest, At::Revision(revision)] {
        let page = store.range(&range, at, None).await.unwrap();
        assert_eq!(
            (page.entries, page.revision, page.more),
            (vec![], revision, false)
        );
    }
    let range = KeyRange::between(key("a"), key("a"));
    let page = store.range(&range, At::Latest, None).await.unwrap();
    assert_eq!(page.entries, []);
}

pub async fn keys_and_values_are_arbitrary_bytes(store: Subject) {
    let names: [&[u8]; 8] = [
        b"\x00",
        b"\x00\x00",
        b"\x00\x01",
        b"\x00\xff",
        b"\x01",
        b"a\x00b",
        b"\xff",
        b"\xff\xff",
    ];
    for name in names.iter().rev() {
        let value = [*name, name].concat();
        commit(
            &*store,
            Transaction::new().put(Bytes::from_static(name), value),
        )
        .await;
    }
    commit(&*store, Transaction::new().put(key("empty"), Bytes::new())).await;
    let page = store
        .range(&KeyRange::all(), At::Latest, None)
        .await
        .unwrap();
    let mut expected: Vec<(Key, Bytes)> = names
        .iter()
        .map(|name| {
            (
                Bytes::from_static(name),
                Bytes::from([*name, name].concat()),
            )
        })
        .collect();
    expected.push((key("empty"), Bytes::new()));
    expected.sort();
    let found: Vec<_> = page
        .entries
        .into_iter()
        .map(|entry| (entry.key, entry.value))
        .collect();
    assert_eq!(found, expected);
    for name in names {
        let found = store.get(&Bytes::from_static(name)).await.unwrap().unwrap();
        assert_eq!(found.value, [name, name].concat());
    }
    let range = KeyRange::prefix(Bytes::from_static(b"\x00"));
    assert_eq!(keys(&*store, range).await.len(), 4);
    let range = KeyRange::prefix(Bytes::from_static(b"\xff"));
    assert_eq!(keys(&*store, range).await.len(), 2);
}
