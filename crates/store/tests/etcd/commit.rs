//! The meaning of a commit's answer: conflicts, a full etcd, an etcd that dies meanwhile.

use insula_store::etcd::wire::etcdserverpb::RangeRequest;
use insula_store::etcd::wire::etcdserverpb::kv_client::KvClient;
use insula_store::etcd::{Etcd, Options};
use insula_store::{Conflict, Entry, Error, Expect, Outcome, Revision, Store, Transaction};
use insula_testkit::etcd::{EtcdServer, Settings};
use std::time::Duration;
use tokio::task::JoinSet;
use tonic::transport::Endpoint;

use super::fake::{Answer, FakeEtcd};
use super::{committed, connect_to, fresh, within};

#[tokio::test]
async fn keys_and_values_are_the_same_bytes_in_etcd() {
    let Some((server, store)) = fresh().await else {
        return;
    };
    let (key, value) = (&b"/registry/\xff\x00k"[..], &b"\x00\xfe{}"[..]);
    let created = committed(&store, Transaction::create(key, value)).await;
    let modified = committed(&store, Transaction::update(key, created, value)).await;

    let endpoint = Endpoint::from_shared(server.endpoint()).unwrap();
    let mut raw = KvClient::new(endpoint.connect().await.unwrap());
    let everything = RangeRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        ..RangeRequest::default()
    };
    let found = raw.range(everything).await.unwrap().into_inner().kvs;
    let [kv] = &found[..] else {
        panic!("one key is expected: {found:?}");
    };
    assert_eq!((&kv.key[..], &kv.value[..]), (key, value));
    let revisions = [created, modified].map(|revision| i64::try_from(revision.get()).unwrap());
    assert_eq!([kv.create_revision, kv.mod_revision], revisions);
}

#[tokio::test]
async fn conflict_names_the_first_failed_check_and_the_entry() {
    let Some((_server, store)) = fresh().await else {
        return;
    };
    let revision = committed(&store, Transaction::create("k", "v")).await;
    let entry = Entry {
        key: "k".into(),
        value: "v".into(),
        created: revision,
        modified: revision,
    };
    let never = Revision::new(u64::MAX);
    for (expect, key, found) in [
        (Expect::Absent, "k", Some(entry.clone())),
        (Expect::At(revision.previous()), "k", Some(entry.clone())),
        (Expect::At(never), "k", Some(entry)),
        (Expect::At(revision), "absent", None),
        (Expect::At(Revision::ZERO), "absent", None),
        (Expect::At(never), "absent", None),
    ] {
        let transaction = Transaction::new()
            .check("k", Expect::At(revision))
            .check(key, expect)
            .check("other", Expect::At(revision))
            .put("new", "v");
        let conflict = Conflict {
            check: 1,
            found,
            revision,
        };
        let outcome = store.commit(transaction).await;
        assert_eq!(outcome, Ok(Outcome::Conflict(conflict)), "{expect:?}");
    }
    // To etcd the revision of a missing key is zero; in the contract it has none.
    let absent_at_zero = Transaction::new()
        .check("absent", Expect::At(Revision::ZERO))
        .put("absent", "v");
    let conflict = Conflict {
        check: 0,
        found: None,
        revision,
    };
    let outcome = store.commit(absent_at_zero).await;
    assert_eq!(outcome, Ok(Outcome::Conflict(conflict)));
    assert_eq!(store.revision().await, Ok(revision));
}

#[tokio::test]
async fn largest_transaction_is_accepted_and_its_conflict_reported() {
    let Some((_server, store)) = fresh().await else {
        return;
    };
    let key = |number: usize| format!("{number:0width$}", width = Transaction::MAX_KEY_BYTES);
    let most = Transaction::MAX_OPERATIONS;
    let checks = |last: Expect| {
        let all = (0..most).fold(Transaction::new(), |all, number| {
            all.check(
                key(number),
                if number + 1 < most {
                    Expect::Absent
                } else {
                    last
                },
            )
        });
        let rest = Transaction::MAX_BYTES - (most + 1) * Transaction::MAX_KEY_BYTES;
        all.put(key(most), vec![7; rest])
    };
    let revision = committed(&store, checks(Expect::Absent)).await;
    let outcome = within(store.commit(checks(Expect::At(revision)))).await;
    let conflict = Conflict {
        check: most - 1,
        found: None,
        revision,
    };
    assert_eq!(outcome, Ok(Outcome::Conflict(conflict)));
    let one_more = checks(Expect::Absent).put("k", "v");
    let limit = Transaction::MAX_BYTES;
    let bytes = limit + 2;
    assert_eq!(
        store.commit(one_more).await,
        Err(Error::TooLarge { bytes, limit })
    );
}

#[tokio::test]
async fn transaction_without_effect_is_reported_as_unchanged() {
    let Some((_server, store)) = fresh().await else {
        return;
    };
    let revision = committed(&store, Transaction::create("k", "v")).await;
    let unchanged = Ok(Outcome::Unchanged(revision));
    assert_eq!(store.commit(Transaction::new()).await, unchanged);
    let checks = Transaction::new().check("k", Expect::At(revision));
    assert_eq!(store.commit(checks).await, unchanged);
    assert_eq!(
        store.commit(Transaction::new().delete("absent")).await,
        unchanged
    );
    let one = Transaction::new().delete("absent").delete("k");
    assert_eq!(
        store.commit(one).await,
        Ok(Outcome::Committed(revision.next()))
    );
}

async fn small() -> Option<(EtcdServer, Etcd)> {
    let server = EtcdServer::start_with(Settings {
        quota_bytes: Some(4 << 20),
        ..Settings::default()
    })?;
    let store = connect_to(&server).await;
    Some((server, store))
}

#[tokio::test]
async fn full_etcd_refuses_puts_but_serves_reads_and_deletions() {
    let Some((server, store)) = small().await else {
        return;
    };
    let value = vec![7; 256 << 10];
    let mut last = None;
    let error = loop {
        let number = last.map_or(0, |(number, _)| number + 1);
        let create = Transaction::create(format!("k{number}"), value.clone());
        match within(store.commit(create)).await {
            Ok(Outcome::Committed(revision)) => last = Some((number, revision)),
            Ok(other) => panic!("not committed: {other:?}"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Full(_)), "{error:?}");
    let (number, revision) = last.expect("some fit");
    let key = format!("k{number}");
    let found = store.get(&key.clone().into()).await.unwrap().unwrap();
    assert_eq!((found.modified, found.value.len()), (revision, value.len()));
    // A client that has not seen any of the writes so far.
    let store = connect_to(&server).await;
    for put in [
        Transaction::create("small", "v"),
        Transaction::update(key.clone(), revision, "v"),
        Transaction::new().put("small", "v"),
    ] {
        let refused = within(store.commit(put)).await;
        assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    }
    assert_eq!(store.revision().await, Ok(revision));
    committed(&store, Transaction::remove(key, revision)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_refused_as_full_was_not_written() {
    let Some((_server, store)) = small().await else {
        return;
    };
    let mut writers = JoinSet::new();
    for writer in 0..16 {
        let store = store.clone();
        writers.spawn(async move {
            for number in 0.. {
                let key = format!("{writer}/{number}");
                let create = Transaction::create(key.clone(), vec![7; 32 << 10]);
                if let Err(error) = within(store.commit(create)).await {
                    return (key, error);
                }
            }
            unreachable!("an etcd of 4 MiB is full at some time");
        });
    }
    for (key, error) in writers.join_all().await {
        match error {
            Error::Full(_) => assert_eq!(store.get(&key.into()).await, Ok(None)),
            Error::Indeterminate(_) => {}
            other => panic!("neither full nor in doubt: {other:?}"),
        }
    }
}

/// The results of the keys that a writer created, one after the other.
async fn create_until_refused(store: Etcd, writer: usize) -> Vec<(String, Result<Outcome, Error>)> {
    let mut outcomes = Vec::new();
    for number in 0.. {
        let key = format!("{writer}/{number}");
        let outcome = within(store.commit(Transaction::create(key.clone(), "v"))).await;
        let refused = matches!(outcome, Err(Error::Unavailable(_)));
        outcomes.push((key, outcome));
        if refused {
            break;
        }
    }
    outcomes
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_result_is_correct_when_etcd_dies() {
    let Some(mut server) = EtcdServer::start() else {
        return;
    };
    let mut options = Options::new([server.endpoint()]);
    options.timeout = Duration::from_secs(1);
    let store = Etcd::connect(options).await.unwrap();
    let mut watch = store
        .watch(insula_store::KeyRange::all(), Revision::ZERO)
        .await
        .unwrap();
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        writers.spawn(create_until_refused(store.clone(), writer));
    }
    // In the middle of the writes.
    for _ in 0..100 {
        within(watch.next()).await.unwrap();
    }
    server.kill();
    let outcomes = writers.join_all().await;
    server.restart();

    let mut acknowledged = 0;
    for (key, outcome) in outcomes.into_iter().flatten() {
        let found = within(store.get(&key.clone().into())).await.unwrap();
        let found = found.map(|entry| entry.modified);
        match outcome {
            Ok(Outcome::Committed(revision)) => {
                assert_eq!(found, Some(revision), "{key}");
                acknowledged += 1;
            }
            Err(Error::Unavailable(_)) => assert_eq!(found, None, "{key}"),
            Err(Error::Indeterminate(_)) => {}
            other => panic!("{key}: {other:?}"),
        }
    }
    assert!(acknowledged >= 90, "{acknowledged}");
}

#[tokio::test]
async fn indeterminate_commit_is_reported_and_never_sent_again() {
    for (answer, reads) in [
        (Answer::Hangup, 2),
        (Answer::Silence, 1),
        (Answer::Status(14, "etcdserver: no leader"), 2),
        (Answer::Status(14, "etcdserver: request timed out"), 2),
        (Answer::Status(2, "anything"), 2),
    ] {
        let etcd = FakeEtcd::start("3.6.16", answer).await;
        let mut options = Options::new([etcd.endpoint(), etcd.endpoint()]);
        options.timeout = Duration::from_millis(500);
        let store = Etcd::connect(options).await.unwrap();
        let outcome = within(store.commit(Transaction::create("k", "v"))).await;
        assert!(
            matches!(outcome, Err(Error::Indeterminate(_))),
            "{answer:?}: {outcome:?}"
        );
        assert_eq!(etcd.count("/etcdserverpb.KV/Txn"), 1, "{answer:?}");
        // Reads may be repeated, and are.
        let read = within(store.revision()).await;
        assert!(
            matches!(read, Err(Error::Unavailable(_))),
            "{answer:?}: {read:?}"
        );
        let count = etcd.count("/etcdserverpb.KV/Range");
        assert!(count >= reads, "{answer:?}: {count}");
    }
}

#[tokio::test]
async fn refused_commit_changed_nothing() {
    let limit = Transaction::MAX_BYTES;
    let denied = "etcdserver: permission denied";
    for (answer, expected) in [
        (Answer::Status(7, denied), Error::Unavailable(denied.into())),
        (
            Answer::Status(3, "etcdserver: request is too large"),
            Error::TooLarge { bytes: 0, limit },
        ),
    ] {
        let etcd = FakeEtcd::start("3.6.16", answer).await;
        let store = Etcd::connect(Options::new([etcd.endpoint()]))
            .await
            .unwrap();
        let error = within(store.commit(Transaction::create("k", "v"))).await;
        let error = match error {
            Err(Error::TooLarge { limit, .. }) => Error::TooLarge { bytes: 0, limit },
            other => other.unwrap_err(),
        };
        assert_eq!(error, expected);
        assert_eq!(etcd.count("/etcdserverpb.KV/Txn"), 1);
    }
}
