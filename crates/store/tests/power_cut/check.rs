//! Opens what a power cut has left, and compares it with what callers had received.

use std::ops::Bound::{Excluded, Included};
use std::path::Path;

use insula_store::embedded::Embedded;
use insula_store::laws::concurrency::read_log;
use insula_store::{At, KeyRange, Outcome, Revision, Store, Transaction};

use super::run::{ACKNOWLEDGED, FLOOR, Run, options};

/// What callers had received before the power cut.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acknowledged {
    pub revision: Revision,
    pub floor: Revision,
}

impl Acknowledged {
    pub fn of(marks: &[u64]) -> Self {
        let mut acknowledged = Self::default();
        for mark in marks {
            let number = Revision::new(mark & !(ACKNOWLEDGED | FLOOR));
            if mark & FLOOR != 0 {
                acknowledged.floor = acknowledged.floor.max(number);
            } else {
                acknowledged.revision = acknowledged.revision.max(number);
            }
        }
        acknowledged
    }
}

/// Returns the first violation.
pub async fn check(folder: &Path, run: &Run, acknowledged: Acknowledged) -> Result<(), String> {
    let opened = Embedded::open(folder, options()).await;
    let store = opened.map_err(|error| format!("it does not open: {error}"))?;
    let result = check_store(&store, run, acknowledged).await;
    store.close().await;
    let head = result?;
    // Recovered and later data must be there the next time too.
    let opened = Embedded::open(folder, options()).await;
    let store = opened.map_err(|error| format!("it does not open again: {error}"))?;
    let again = store.revision().await.map_err(|error| error.to_string())?;
    store.close().await;
    if again != head {
        return Err(format!("it was at {head} and opens again at {again}"));
    }
    Ok(())
}

async fn check_store(
    store: &Embedded,
    run: &Run,
    acknowledged: Acknowledged,
) -> Result<Revision, String> {
    let unreadable = |error: insula_store::Error| format!("it cannot be read: {error}");
    let page = store
        .range(&KeyRange::all(), At::Latest, None)
        .await
        .map_err(unreadable)?;
    let head = page.revision;
    if head < acknowledged.revision {
        return Err(format!(
            "the store is at {head}; revision {} was acknowledged",
            acknowledged.revision
        ));
    }
    if page.entries != run.state_at(head) {
        return Err(format!("at {head} it does not hold what was written"));
    }
    let floor = store.statistics().floor;
    if floor < acknowledged.floor {
        return Err(format!(
            "the floor is {floor}; it was {}",
            acknowledged.floor
        ));
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
