//! Compares an engine with the model on the same operations.

use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;

use super::key;
use crate::memory::Memory;
use crate::{
    At, Conflict, Entry, Error, Expect, KeyRange, Outcome, Page, Result, Revision, Store,
    Transaction,
};

/// Pseudo-random numbers, the same for the same seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator with this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }
}

const KEYS: u64 = 9;
const STEPS: usize = 600;

/// One step of a random run.
#[derive(Clone, Debug)]
enum Step {
    Commit(Transaction),
    Range(KeyRange, At, Option<NonZeroUsize>),
    Compact(Revision),
}

pub async fn random_operations_match_the_model(store: Arc<dyn Store>) {
    for seed in 0..4 {
        let model = Memory::new();
        run(&*store, &model, seed).await;
    }
}

/// Compares a store with a new model.
async fn run(store: &dyn Store, model: &Memory, seed: u64) {
    clear(store).await;
    let mut rng = Rng::new(seed);
    // The model begins at its own revision: answers are compared after this shift.
    let model_start = model.revision().await.unwrap();
    let start = store.revision().await.unwrap();
    let shift = start.get() - model_start.get();
    // The store's history may begin earlier than the model's.
    store.compact(start).await.unwrap();
    model.compact(model_start).await.unwrap();
    for step in 0..STEPS {
        let head = model.revision().await.unwrap();
        let step_taken = random_step(&mut rng, head);
        let context = format!("seed {seed}, step {step}: {step_taken:?}");
        match step_taken {
            Step::Commit(transaction) => {
                let expected = model.commit(transaction.clone()).await;
                let found = store.commit(shift_checks(&transaction, shift)).await;
                assert_eq!(found, shift_outcome(expected, shift), "{context}");
            }
            Step::Range(range, at, limit) => {
                let expected = model.range(&range, at, limit).await;
                let found = store.range(&range, shift_at(at, shift), limit).await;
                assert_eq!(found, shift_page(expected, shift), "{context}");
            }
            Step::Compact(floor) => {
                let expected = model.compact(floor).await;
                let found = store.compact(add(floor, shift)).await;
                assert_eq!(found, shift_error(expected, shift), "{context}");
            }
        }
    }
}

async fn clear(store: &dyn Store) {
    let page = store
        .range(&KeyRange::all(), At::Latest, None)
        .await
        .unwrap();
    for entry in page.entries {
        store
            .commit(Transaction::new().delete(entry.key))
            .await
            .unwrap();
    }
}

fn random_step(rng: &mut Rng, head: Revision) -> Step {
    match rng.below(20) {
        0..=12 => Step::Commit(random_transaction(rng, head)),
        13..=18 => {
            let range = match rng.below(4) {
                0 => KeyRange::all(),
                1 => KeyRange::single(random_key(rng)),
                2 => KeyRange::between(random_key(rng), random_key(rng)),
                _ => KeyRange::prefix(key("")).after(&random_key(rng)),
            };
            let at = match rng.below(3) {
                0 => At::Latest,
                _ => At::Revision(near(rng, head)),
            };
            let limit = NonZeroUsize::new(usize::try_from(rng.below(4)).unwrap_or(0));
            Step::Range(range, at, limit)
        }
        _ => Step::Compact(Revision::new(
            head.get().saturating_sub(rng.below(30)).max(1),
        )),
    }
}

fn random_transaction(rng: &mut Rng, head: Revision) -> Transaction {
    let mut transaction = Transaction::new();
    for _ in 0..rng.below(3) {
        let expect = match rng.below(3) {
            0 => Expect::Absent,
            _ => Expect::At(near(rng, head)),
        };
        transaction = transaction.check(random_key(rng), expect);
    }
    for _ in 0..rng.below(4) {
        let key = random_key(rng);
        transaction = match rng.below(4) {
            0 => transaction.delete(key),
            _ => transaction.put(key, Bytes::from(rng.below(1000).to_string())),
        };
    }
    transaction
}

fn random_key(rng: &mut Rng) -> Bytes {
    key(&rng.below(KEYS).to_string())
}

/// A revision around the current one: mostly shortly before, sometimes after.
fn near(rng: &mut Rng, head: Revision) -> Revision {
    Revision::new((head.get() + 2).saturating_sub(rng.below(40)).max(1))
}

fn add(revision: Revision, shift: u64) -> Revision {
    Revision::new(revision.get() + shift)
}

fn shift_checks(transaction: &Transaction, shift: u64) -> Transaction {
    let mut shifted = Transaction::new();
    for check in transaction.checks() {
        let expect = match check.expect {
            Expect::Absent => Expect::Absent,
            Expect::At(revision) => Expect::At(add(revision, shift)),
        };
        shifted = shifted.check(check.key.clone(), expect);
    }
    for change in transaction.changes() {
        shifted = match change.clone() {
            crate::Change::Put { key, value } => shifted.put(key, value),
            crate::Change::Delete { key } => shifted.delete(key),
        };
    }
    shifted
}

fn shift_at(at: At, shift: u64) -> At {
    match at {
        At::Latest => At::Latest,
        At::Revision(revision) => At::Revision(add(revision, shift)),
    }
}

fn shift_entry(entry: Entry, shift: u64) -> Entry {
    Entry {
        created: add(entry.created, shift),
        modified: add(entry.modified, shift),
        ..entry
    }
}

fn shift_error<T>(result: Result<T>, shift: u64) -> Result<T> {
    result.map_err(|error| match error {
        Error::Compacted { floor } => Error::Compacted {
            floor: add(floor, shift),
        },
        Error::Future { current } => Error::Future {
            current: add(current, shift),
        },
        other => other,
    })
}

fn shift_outcome(outcome: Result<Outcome>, shift: u64) -> Result<Outcome> {
    let shifted = |outcome| match outcome {
        Outcome::Committed(revision) => Outcome::Committed(add(revision, shift)),
        Outcome::Unchanged(revision) => Outcome::Unchanged(add(revision, shift)),
        Outcome::Conflict(conflict) => Outcome::Conflict(Conflict {
            found: conflict.found.map(|entry| shift_entry(entry, shift)),
            revision: add(conflict.revision, shift),
            ..conflict
        }),
    };
    shift_error(outcome, shift).map(shifted)
}

fn shift_page(page: Result<Page>, shift: u64) -> Result<Page> {
    shift_error(page, shift).map(|page| Page {
        entries: page
            .entries
            .into_iter()
            .map(|entry| shift_entry(entry, shift))
            .collect(),
        revision: add(page.revision, shift),
        more: page.more,
    })
}
