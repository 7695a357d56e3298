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
            an_empty_store_has_a_revision_and_nothing_else,
            a_created_key_is_there_as_it_was_written,
            creating_an_existing_key_conflicts_and_shows_it,
            an_update_needs_the_revision_of_what_it_replaces,
            a_removed_key_is_gone_and_can_be_created_anew,
            a_check_on_a_missing_key_conflicts_with_nothing_found,
            the_first_check_that_fails_is_named,
            a_transaction_changes_all_of_its_keys_or_none,
            the_keys_of_a_transaction_share_its_revision,
            what_changes_nothing_takes_no_revision,
            checks_and_changes_of_different_keys_go_together,
            unchecked_changes_happen_whatever_was_there,
            transactions_outside_the_contract_are_refused_and_change_nothing,
            the_largest_transaction_is_taken,
        );
        $crate::store_laws!(@ $fresh, ranges:
            entries_come_in_the_order_of_their_bytes,
            a_range_is_half_open,
            a_limit_says_whether_there_is_more,
            pages_at_one_revision_show_one_state,
            an_old_revision_shows_what_was_then,
            a_revision_that_has_not_happened_cannot_be_read,
            an_empty_range_is_empty,
            any_bytes_are_keys_and_values,
        );
        $crate::store_laws!(@ $fresh, watches:
            changes_come_in_order_as_they_happen,
            a_watch_from_the_past_goes_on_into_the_present_without_gap_or_repeat,
            a_watch_tells_its_own_range_only,
            the_changes_of_a_transaction_come_together,
            what_changed_nothing_is_not_told,
            a_watch_from_the_future_is_silent_until_then,
            progress_tells_a_quiet_watcher_how_far_it_is,
            progress_is_never_ahead_of_changes,
            a_slow_watcher_misses_nothing,
            a_step_that_is_given_up_loses_nothing,
            each_of_many_watchers_is_told_its_own,
            a_list_and_a_watch_from_its_revision_make_the_whole,
        );
        $crate::store_laws!(@ $fresh, compaction:
            below_the_floor_nothing_can_be_read,
            at_and_above_the_floor_everything_is_as_it_was,
            the_floor_never_goes_down,
            a_floor_that_has_not_happened_is_refused,
            a_watch_from_below_the_floor_is_told_so,
            a_watch_from_the_floor_is_complete,
            keys_that_never_change_survive_every_compaction,
            compaction_changes_neither_state_nor_revision,
        );
        $crate::store_laws!(@ $fresh, concurrency:
            of_many_who_create_one_key_one_succeeds,
            counters_lose_no_increment,
            reads_are_as_new_as_what_was_acknowledged,
            a_concurrent_history_holds_together,
        );
        $crate::store_laws!(@ $fresh, model:
            random_operations_are_answered_as_by_the_model,
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
