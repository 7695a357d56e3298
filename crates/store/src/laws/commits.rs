//! Laws of commits.

use std::sync::Arc;

use bytes::Bytes;

use super::{commit, delete, entry, everything, key, list, put, value};
use crate::{At, Conflict, Error, Expect, Outcome, Revision, Store, Transaction};

type Subject = Arc<dyn Store>;

async fn conflict(store: &dyn Store, transaction: Transaction) -> Conflict {
    match store.commit(transaction).await.expect("commit") {
        Outcome::Conflict(conflict) => conflict,
        other => panic!("no conflict: {other:?}"),
    }
}

pub async fn empty_store_has_only_a_revision(store: Subject) {
    let revision = store.revision().await.expect("revision");
    assert!(revision > Revision::ZERO, "zero is before every state");
    let page = store.range(&everything(), At::Latest, None).await.unwrap();
    assert_eq!((page.entries, page.revision), (vec![], revision));
    assert_eq!(store.get(&key("a")).await, Ok(None));
}

pub async fn created_key_is_read_back(store: Subject) {
    let before = store.revision().await.unwrap();
    let revision = commit(&*store, Transaction::create(key("a"), value("1"))).await;
    assert!(revision > before);
    let expected = entry("a", "1", revision, revision);
    assert_eq!(store.get(&key("a")).await, Ok(Some(expected.clone())));
    assert_eq!(list(&*store, At::Latest).await, [expected]);
    assert_eq!(store.revision().await, Ok(revision));
}

pub async fn creating_an_existing_key_conflicts_and_returns_it(store: Subject) {
    let created = put(&*store, "a", "1").await;
    let refused = conflict(&*store, Transaction::create(key("a"), value("2"))).await;
    let found = entry("a", "1", created, created);
    assert_eq!(refused.check, 0);
    assert_eq!(refused.found, Some(found.clone()));
    assert_eq!(refused.revision, created);
    assert_eq!(list(&*store, At::Latest).await, [found]);
    assert_eq!(store.revision().await, Ok(created), "nothing happened");
}

pub async fn update_requires_the_current_revision(store: Subject) {
    let created = put(&*store, "a", "1").await;
    let update = |at, text| Transaction::update(key("a"), at, value(text));
    let updated = commit(&*store, update(created, "2")).await;
    assert!(updated > created);
    let stale = conflict(&*store, update(created, "3")).await;
    let current = entry("a", "2", created, updated);
    assert_eq!(stale.found, Some(current.clone()));
    let ahead = conflict(&*store, update(updated.next(), "3")).await;
    assert_eq!(ahead.found, Some(current.clone()));
    assert_eq!(store.get(&key("a")).await, Ok(Some(current)));
}

pub async fn deleted_key_is_gone_and_can_be_created_again(store: Subject) {
    let created = put(&*store, "a", "1").await;
    let stale = Transaction::remove(key("a"), created.previous());
    let found = entry("a", "1", created, created);
    assert_eq!(conflict(&*store, stale).await.found, Some(found));
    let removed = commit(&*store, Transaction::remove(key("a"), created)).await;
    assert!(removed > created);
    assert_eq!(store.get(&key("a")).await, Ok(None));
    let again = commit(&*store, Transaction::create(key("a"), value("2"))).await;
    let expected = entry("a", "2", again, again);
    assert_eq!(store.get(&key("a")).await, Ok(Some(expected)));
}

pub async fn check_on_a_missing_key_conflicts_without_an_entry(store: Subject) {
    let revision = put(&*store, "other", "1").await;
    let update = Transaction::update(key("a"), revision, value("1"));
    let refused = conflict(&*store, update).await;
    assert_eq!((refused.check, refused.found), (0, None));
    let gone = delete(&*store, "other").await;
    let update = Transaction::update(key("other"), revision, value("1"));
    let refused = conflict(&*store, update).await;
    assert_eq!((refused.found, refused.revision), (None, gone));
}

pub async fn first_failed_check_is_reported(store: Subject) {
    let a = put(&*store, "a", "1").await;
    let b = put(&*store, "b", "2").await;
    let transaction = Transaction::new()
        .check(key("a"), Expect::At(a))
        .check(key("c"), Expect::Absent)
        .check(key("b"), Expect::Absent)
        .check(key("a"), Expect::Absent)
        .put(key("d"), value("3"));
    let refused = conflict(&*store, transaction).await;
    assert_eq!(refused.check, 2);
    assert_eq!(refused.found, Some(entry("b", "2", b, b)));
}

pub async fn transaction_changes_all_keys_or_none(store: Subject) {
    let a = put(&*store, "a", "1").await;
    let both = |at| {
        Transaction::new()
            .check(key("a"), Expect::At(at))
            .check(key("z"), Expect::Absent)
            .put(key("b"), value("2"))
            .delete(key("a"))
            .put(key("z"), value("3"))
    };
    conflict(&*store, both(a.previous())).await;
    assert_eq!(list(&*store, At::Latest).await, [entry("a", "1", a, a)]);
    let revision = commit(&*store, both(a)).await;
    let expected = [
        entry("b", "2", revision, revision),
        entry("z", "3", revision, revision),
    ];
    assert_eq!(list(&*store, At::Latest).await, expected);
}

pub async fn keys_of_a_transaction_share_its_revision(store: Subject) {
    let names: Vec<String> = (0..20).map(|n| format!("{n:02}")).collect();
    let transaction = names.iter().fold(Transaction::new(), |transaction, name| {
        transaction
            .check(key(name), Expect::Absent)
            .put(key(name), value(name))
    });
    let before = store.revision().await.unwrap();
    let revision = commit(&*store, transaction).await;
    assert_eq!(revision, before.next(), "one revision for all of them");
    let expected: Vec<_> = names
        .iter()
        .map(|name| entry(name, name, revision, revision))
        .collect();
    assert_eq!(list(&*store, At::Latest).await, expected);
}

pub async fn commit_without_effect_takes_no_revision(store: Subject) {
    let revision = put(&*store, "a", "1").await;
    let unchanged = Ok(Outcome::Unchanged(revision));
    let absent = Transaction::new().delete(key("b")).delete(key("c"));
    assert_eq!(store.commit(absent).await, unchanged);
    let checked = Transaction::new().check(key("a"), Expect::At(revision));
    assert_eq!(store.commit(checked).await, unchanged);
    assert_eq!(store.commit(Transaction::new()).await, unchanged);
    assert_eq!(store.revision().await, Ok(revision));
    // The same value again is a change: the store does not compare values.
    assert_eq!(put(&*store, "a", "1").await, revision.next());
}

pub async fn checks_and_changes_may_concern_different_keys(store: Subject) {
    let guard = put(&*store, "guard", "open").await;
    let guarded = |name: &str, at| {
        Transaction::new()
            .check(key("guard"), Expect::At(at))
            .put(key(name), value("in"))
    };
    commit(&*store, guarded("a", guard)).await;
    let moved = put(&*store, "guard", "shut").await;
    let refused = conflict(&*store, guarded("b", guard)).await;
    assert_eq!(refused.found, Some(entry("guard", "shut", guard, moved)));
    assert_eq!(store.get(&key("b")).await, Ok(None));
}

pub async fn unchecked_changes_always_apply(store: Subject) {
    let first = put(&*store, "a", "1").await;
    let second = put(&*store, "a", "2").await;
    let expected = entry("a", "2", first, second);
    assert_eq!(store.get(&key("a")).await, Ok(Some(expected)));
    let mixed = Transaction::new()
        .delete(key("missing"))
        .delete(key("a"))
        .put(key("b"), value("3"));
    let third = commit(&*store, mixed).await;
    assert_eq!(
        list(&*store, At::Latest).await,
        [entry("b", "3", third, third)]
    );
}

pub async fn invalid_transactions_are_refused_without_effect(store: Subject) {
    let revision = put(&*store, "a", "1").await;
    let many = (0..=Transaction::MAX_OPERATIONS).fold(Transaction::new(), |t, n| {
        t.put(key(&n.to_string()), value("x"))
    });
    let long = Bytes::from(vec![b'k'; Transaction::MAX_KEY_BYTES + 1]);
    let invalid = [
        Transaction::new()
            .put(key("b"), value("1"))
            .delete(key("b")),
        Transaction::new().put(Bytes::new(), value("1")),
        Transaction::new().check(Bytes::new(), Expect::Absent),
        Transaction::new().put(long, value("1")),
        many,
    ];
    for transaction in invalid {
        let refused = store.commit(transaction).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }
    let huge = Bytes::from(vec![0; Transaction::MAX_BYTES]);
    let refused = store.commit(Transaction::new().put(key("h"), huge)).await;
    let expected = Error::TooLarge {
        bytes: Transaction::MAX_BYTES + key("h").len(),
        limit: Transaction::MAX_BYTES,
    };
    assert_eq!(refused, Err(expected));
    let left = list(&*store, At::Latest).await;
    assert_eq!(left, [entry("a", "1", revision, revision)]);
    assert_eq!(store.revision().await, Ok(revision));
}

pub async fn largest_transaction_is_accepted(store: Subject) {
    let room = Transaction::MAX_BYTES - key("h").len();
    let value = Bytes::from((0..room).map(|n| n as u8).collect::<Vec<_>>());
    commit(&*store, Transaction::new().put(key("h"), value.clone())).await;
    let found = store.get(&key("h")).await.unwrap().unwrap();
    assert_eq!(found.value, value);
    let names: Vec<_> = (0..Transaction::MAX_OPERATIONS)
        .map(|n| format!("{n:04}"))
        .collect();
    let most = names.iter().fold(Transaction::new(), |transaction, name| {
        transaction
            .check(key(name), Expect::Absent)
            .put(key(name), Bytes::from_static(b"x"))
    });
    let revision = commit(&*store, most).await;
    let entries = list(&*store, At::Revision(revision)).await;
    assert_eq!(entries.len(), Transaction::MAX_OPERATIONS + 1);
}
