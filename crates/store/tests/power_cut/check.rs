//! Opens what a power cut has left, and holds it against what callers were told.

use std::ops::Bound::{Excluded, Included};
use std::path::Path;

use insula_store::embedded::Embedded;
use insula_store::laws::concurrency::read_log;
use insula_store::{At, KeyRange, Outcome, Revision, Store, Transaction};

use super::run::{FLOOR, Run, TOLD, options};

/// What callers had been told when the power went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    pub revision: Revision,
    pub floor: Revision,
}

impl Told {
    pub fn of(marks: &[u64]) -> Self {
        let mut told = Self::default();
        for mark in marks {
            let number = Revision::new(mark & !(TOLD | FLOOR));
            if mark & FLOOR != 0 {
                told.floor = told.floor.max(number);
            } else {
                told.revision = told.revision.max(number);
            }
        }
        told
    }
}

/// Says what promise is broken, if any.
pub async fn check(folder: &Path, run: &Run, told: Told) -> Result<(), String> {
    let opened = Embedded::open(folder, options()).await;
    let store = opened.map_err(|error| format!("it does not open: {error}"))?;
    let result = check_store(&store, run, told).await;
    store.close().await;
    let head = result?;
    // What was recovered, and what came after, is there the next time too.
    let opened = Embedded::open(folder, options()).await;
    let store = opened.map_err(|error| format!("it does not open again: {error}"))?;
    let again = store.revision().await.map_err(|error| error.to_string())?;
    store.close().await;
    if again != head {
        return Err(format!("it was at {head} and opens again at {again}"));
    }
    Ok(())
}

async fn check_store(store: &Embedded, run: &Run, told: Told) -> Result<Revision, String> {
    let unreadable = |error: insula_store::Error| format!("it cannot be read: {error}");
    let page = store
        .range(&KeyRange::all(), At::Latest, None)
        .await
        .map_err(unreadable)?;
    let head = page.revision;
    if head < told.revision {
        return Err(format!(
            "it is at {head}; somebody was told of {}",
            told.revision
        ));
    }
    if page.entries != run.state_at(head) {
        return Err(format!("at {head} it does not hold what was written"));
    }
    let floor = store.statistics().floor;
    if floor < told.floor {
        return Err(format!("the floor is {floor}; it was {}", told.floor));
    }
    let watch = store.watch(KeyRange::all(), floor).await;
    let log = read_log(&mut *watch.map_err(unreadable)?, head).await;
    if floor > head {
        return Err(format!("it is at {head}, below its floor {floor}"));
    }
    let expected = run.log.range((Excluded(floor), Included(head)));
    if !expected.eq(log.iter().map(|(revision, changes)| (revision, changes))) {
        return Err(format!(
            "the history from {floor} to {head} is not what happened"
        ));
    }
    let put = Transaction::new().put("/cut/after", "x");
    match store.commit(put).await {
        Ok(Outcome::Committed(revision)) if revision == head.next() => Ok(revision),
        other => Err(format!("at {head} it cannot be written: {other:?}")),
    }
}
