//! The laws of a store, as tests that every engine passes.
//!
//! Each law is one function over a fresh store; its name states the law. An engine runs them all
//! with [`store_laws!`](crate::store_laws):
//!
//! ```text
//! insula_store::store_laws!(fresh_store);
//! ```
//!
//! where `async fn fresh_store() -> Option<(Arc<dyn Store>, Guard)>` returns a store for exclusive
//! use, and a guard that must live as long as it; `None`, after reporting it, where the engine
//! cannot run.

#![expect(missing_docs, reason = "a law's name is what it states")]
#![expect(clippy::unwrap_used, reason = "laws are tests")]

pub mod commits;
pub mod compaction;
pub mod concurrency;
pub mod history;
pub mod model;
pub mod ranges;
pub mod watches;

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use crate::{At, Entry, Key, KeyRange, Outcome, Revision, Store, Transaction, Watch, WatchItem};

/// How long a law waits for an item before it fails.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs every law on the stores that `$fresh` creates, one test each.
#[macro_export]
macro_rules! store_laws {
    ($fresh:ident) => {
        $crate::store_laws!(@ $fresh, commits:
            empty_store_has_only_a_revision,
            created_key_is_read_back,
            creating_an_existing_key_conflicts_and_returns_it,
            update_requires_the_current_revision,
            deleted_key_is_gone_and_can_be_created_again,
            check_on_a_missing_key_conflicts_without_an_entry,
            first_failed_check_is_reported,
            transaction_changes_all_keys_or_none,
            keys_of_a_transaction_share_its_revision,
            commit_without_effect_takes_no_revision,
            checks_and_changes_may_concern_different_keys,
            unchecked_changes_always_apply,
            invalid_transactions_are_refused_without_effect,
            largest_transaction_is_accepted,
        );
        $crate::store_laws!(@ $fresh, ranges:
            entries_are_in_byte_order,
            range_is_half_open,
            limit_reports_whether_there_is_more,
            pages_at_one_revision_show_one_state,
            old_revision_shows_the_old_state,
            future_revision_cannot_be_read,
            empty_range_has_no_entries,
            keys_and_values_are_arbitrary_bytes,
        );
        $crate::store_laws!(@ $fresh, watches:
            changes_are_delivered_in_order,
            watch_from_the_past_continues_without_gap_or_repeat,
            watch_delivers_only_its_range,
            changes_of_a_transaction_are_delivered_together,
            commit_without_effect_is_not_delivered,
            watch_from_a_future_revision_is_silent_until_then,
            progress_reports_the_position_of_a_quiet_watcher,
            progress_is_never_ahead_of_changes,
            slow_watcher_misses_nothing,
            cancelled_next_loses_nothing,
            each_of_many_watchers_gets_its_own_changes,
            list_and_watch_from_its_revision_are_complete,
        );
        $crate::store_laws!(@ $fresh, compaction:
            below_the_floor_nothing_can_be_read,
            state_at_and_above_the_floor_is_unchanged,
            floor_never_decreases,
            future_floor_is_refused,
            watch_from_below_the_floor_is_compacted,
            watch_from_the_floor_is_complete,
            keys_that_never_change_survive_every_compaction,
            compaction_changes_neither_state_nor_revision,
        );
        $crate::store_laws!(@ $fresh, concurrency:
            one_of_many_concurrent_creates_succeeds,
            counters_lose_no_increment,
            reads_show_every_acknowledged_commit,
            concurrent_history_is_consistent,
        );
        $crate::store_laws!(@ $fresh, model:
            random_operations_match_the_model,
        );
    };
    (@ $fresh:ident, $module:ident: $($law:ident),+ $(,)?) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $law() {
                    if let Some((store, guard)) = super::$fresh().await {
                        $crate::laws::$module::$law(store).await;
                        drop(guard);
                    }
                }
            )+
        }
    };
}

/// A key under the laws' prefix.
fn key(name: &str) -> Key {
    Bytes::from(format!("/laws/{name}"))
}

fn value(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn everything() -> KeyRange {
    KeyRange::prefix(key(""))
}

async fn commit(store: &dyn Store, transaction: Transaction) -> Revision {
    match store.commit(transaction).await.expect("commit") {
        Outcome::Committed(revision) => revision,
        other => panic!("not committed: {other:?}"),
    }
}

async fn put(store: &dyn Store, name: &str, text: &str) -> Revision {
    commit(store, Transaction::new().put(key(name), value(text))).await
}

async fn delete(store: &dyn Store, name: &str) -> Revision {
    commit(store, Transaction::new().delete(key(name))).await
}

async fn list(store: &dyn Store, at: At) -> Vec<Entry> {
    let page = store.range(&everything(), at, None).await.expect("range");
    assert!(!page.more, "nothing was left out");
    page.entries
}

fn entry(name: &str, text: &str, created: Revision, modified: Revision) -> Entry {
    Entry {
        key: key(name),
        value: value(text),
        created,
        modified,
    }
}

async fn next(watch: &mut dyn Watch) -> WatchItem {
    let item = timeout(WAIT_TIMEOUT, watch.next()).await;
    item.expect("the watch tells in time").expect("watch")
}

/// Returns the next changes and skips progress.
async fn next_changes(watch: &mut dyn Watch) -> (Revision, Vec<crate::Changed>) {
    loop {
        if let WatchItem::Changes { revision, changes } = next(watch).await {
            return (revision, changes);
        }
    }
}
