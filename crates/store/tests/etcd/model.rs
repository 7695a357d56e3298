//! The engine beside the model: the same operations, the same answers.

use std::num::NonZeroUsize;

use insula_store::memory::Memory;
use insula_store::{At, Expect, KeyRange, Outcome, Revision, Store, Transaction};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::{fresh, within};

/// What is done to both. Revisions are counted back from the newest, so that past and
/// future ones occur.
#[derive(Clone, Debug)]
enum Operation {
    Commit {
        /// A key, and how far back it is expected to have been changed; or not there.
        checks: Vec<(u8, Option<i64>)>,
        /// A key and its value; or its deletion.
        changes: Vec<(u8, Option<u8>)>,
    },
    Range {
        start: u8,
        end: u8,
        back: Option<i64>,
        limit: Option<usize>,
    },
    Compact {
        back: i64,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    let key = || 0..6_u8;
    let back = || -2..12_i64;
    let check = (key(), option::of(back()));
    let change = (key(), option::weighted(0.7, any::<u8>()));
    let (checks, changes) = (vec(check, 0..2), vec(change, 0..4));
    let limit = option::of(1..4_usize);
    prop_oneof![
        12 => (checks, changes).prop_map(|(checks, changes)| Operation::Commit { checks, changes }),
        6 => (key(), key(), option::of(back()), limit).prop_map(|(start, end, back, limit)| {
            Operation::Range { start, end, back, limit }
        }),
        1 => back().prop_map(|back| Operation::Compact { back }),
    ]
}

fn key(number: u8) -> String {
    format!("k{number}")
}

fn revision(head: Revision, back: i64) -> Revision {
    Revision::new(head.get().saturating_add_signed(-back))
}

/// Does it and describes what came of it.
async fn perform(store: &impl Store, operation: &Operation, head: Revision) -> String {
    match operation {
        Operation::Commit { checks, changes } => {
            let mut transaction = Transaction::new();
            for (number, back) in checks {
                let expect = back.map_or(Expect::Absent, |back| Expect::At(revision(head, back)));
                transaction = transaction.check(key(*number), expect);
            }
            for (number, value) in changes {
                transaction = match value {
                    Some(value) => transaction.put(key(*number), vec![*value]),
                    None => transaction.delete(key(*number)),
                };
            }
            format!("{:?}", within(store.commit(transaction)).await)
        }
        Operation::Range {
            start,
            end,
            back,
            limit,
        } => {
            let range = KeyRange::between(key(*start), key(*end));
            let at = back.map_or(At::Latest, |back| At::Revision(revision(head, back)));
            let limit = limit.and_then(NonZeroUsize::new);
            format!("{:?}", within(store.range(&range, at, limit)).await)
        }
        Operation::Compact { back } => {
            let floor = revision(head, *back);
            format!("{:?}", within(store.compact(floor)).await)
        }
    }
}

#[tokio::test]
async fn the_engine_answers_as_the_model_does() {
    let Some((_server, store)) = fresh().await else {
        return;
    };
    let model = Memory::new();
    // So that the floor can be told from there being none.
    let first = Transaction::create("first", "v");
    let outcome = Ok(Outcome::Committed(Revision::new(2)));
    assert_eq!(store.commit(first.clone()).await, outcome);
    assert_eq!(model.commit(first).await, outcome);

    let mut runner = TestRunner::deterministic();
    for step in 0..1500 {
        let operation = operation().new_tree(&mut runner).unwrap().current();
        let head = model.revision().await.unwrap();
        assert_eq!(store.revision().await, Ok(head));
        let expected = perform(&model, &operation, head).await;
        let found = perform(&store, &operation, head).await;
        assert_eq!(found, expected, "step {step}: {operation:?} at {head}");
    }

    // The history after the floor is the same, too.
    let all = KeyRange::all();
    let head = model.revision().await.unwrap();
    let mut floor = head;
    while model
        .range(&all, At::Revision(floor.previous()), None)
        .await
        .is_ok()
    {
        floor = floor.previous();
    }
    let mut expected = model.watch(all.clone(), floor).await.unwrap();
    let mut found = store.watch(all, floor).await.unwrap();
    expected.request_progress().await.unwrap();
    found.request_progress().await.unwrap();
    loop {
        let item = within(expected.next()).await;
        assert_eq!(within(found.next()).await, item);
        if matches!(item, Ok(insula_store::WatchItem::Progress(_))) {
            break;
        }
    }
}
