//! Rewriting of values after a change of the configuration, in the background.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use insula_core::Revision;
use insula_store::{At, Entry, KeyRange, Outcome, Store, Transaction};
use tokio::time::{interval, sleep};

use crate::config::Rules;
use crate::encrypted_store::Resolver;
use crate::envelope::is_sealed;
use crate::key_storage::REWRITE;
use crate::record::{self, RewriteRecord};
use crate::{EncryptedStore, Result};

/// The entries that are read at once.
const PAGE: NonZeroUsize = NonZeroUsize::new(500).expect("not zero");
/// The pause after each rewritten value: at most 500 a second, so that requests come first.
const PAUSE: Duration = Duration::from_millis(2);
/// How often keys are looked after.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(10);
/// Providers are asked for their current key every so many intervals: once a minute, as in
/// kube-apiserver.
const ROTATE_INTERVALS: u32 = 6;
/// Data keys without a tenant are looked for every so many intervals.
const ORPHAN_INTERVALS: u32 = 60;

/// How often commits under older rules are looked for.
const DRAIN_INTERVAL: Duration = Duration::from_millis(50);
/// The longest pause before values are tried again that could not be rewritten.
const MAX_PAUSE: Duration = Duration::from_secs(600);
/// When values are scanned again where several servers share the store: by then each of them has
/// read the changed configuration, and its older commits have ended.
const REPEAT_AFTER: Duration = Duration::from_secs(300);

/// The next step of rewriting.
enum Step {
    /// All values are as the rules say.
    Done,
    /// The values are scanned again, but not yet.
    Wait,
    /// The values are scanned, and the record is written afterwards.
    Rewrite(RewriteRecord),
}

impl EncryptedStore {
    /// Looks after keys and values until it is dropped: rewrites values after a change of the
    /// configuration, and destroys the keys of deleted tenants that could not be destroyed at once.
    pub async fn run(self: Arc<Self>) {
        // Apart from each other: rewriting takes as long as the store is large.
        tokio::join!(self.look_after_keys(), self.look_after_values());
    }

    async fn look_after_keys(&self) {
        let mut upkeep = interval(UPKEEP_INTERVAL);
        for tick in (1..=ORPHAN_INTERVALS).cycle() {
            upkeep.tick().await;
            self.retry_destructions().await;
            // A KMS may have a new key, and may be away: serving goes on.
            if tick % ROTATE_INTERVALS == 0
                && let Err(error) = self.rotate().await
            {
                tracing::warn!(%error, "rotation of root keys failed");
            }
            let is_due = self.sweep_due.swap(false, Ordering::AcqRel);
            if (is_due || tick == ORPHAN_INTERVALS)
                && let Err(error) = self.destroy_orphans().await
            {
                tracing::warn!(%error, "search for unused data keys failed");
            }
        }
    }

    async fn look_after_values(&self) {
        let mut pause = UPKEEP_INTERVAL;
        loop {
            // The resolver is set, the configuration was changed, or something was left.
            tokio::select! {
                () = self.changed.notified() => pause = UPKEEP_INTERVAL,
                () = sleep(pause) => {}
            }
            let Some(resolver) = self.resolver().cloned() else {
                continue;
            };
            if let Err(error) = self.rewrite(&*resolver).await {
                tracing::warn!(%error, "rewriting of values failed");
            }
            pause = match self.stats().failed_rewrites {
                0 => UPKEEP_INTERVAL,
                _ => (pause * 2).min(MAX_PAUSE),
            };
        }
    }

    /// Rewrites the values that are sealed and should not be, and the other way round, unless that
    /// was done for the current rules. Values under destroyed keys are removed. Values that cannot
    /// be rewritten are counted and left.
    ///
    /// A value is written only if it did not change since it was read, and with the same content, so
    /// nothing is lost whenever this stops; it starts again from the first key.
    pub async fn rewrite(&self, resolver: &dyn Resolver) -> Result<()> {
        let rules = self.rules();
        let storage = self.ring.storage();
        let found = storage.get(REWRITE).await?;
        let done: Option<RewriteRecord> = match &found {
            Some((found, _)) => Some(record::decode(&storage.place(REWRITE), found)?),
            None => None,
        };
        let next = match self.next_step(&rules, done) {
            Step::Done => {
                self.counters.set_rewrite_pending(false);
                return Ok(());
            }
            Step::Wait => {
                self.counters.set_rewrite_pending(true);
                return Ok(());
            }
            Step::Rewrite(next) => next,
        };
        self.counters.set_rewrite_pending(true);
        // Their values may still come in behind the scan.
        while self.has_commits_under_older_rules() {
            sleep(DRAIN_INTERVAL).await;
        }
        tracing::info!("rewriting of values started");
        let (rewritten, failed) = self.rewrite_all(resolver, &rules).await?;
        self.counters.set_failed_rewrites(failed);
        // A change of the rules in the meantime starts it again.
        if self.rules() != rules {
            self.changed.notify_one();
            return Ok(());
        }
        tracing::info!(values = rewritten, failed, "values rewritten");
        if failed > 0 {
            return Ok(());
        }
        let expected = found.map(|(_, version)| version);
        let is_last = next.is_repeated;
        let record = record::encode(&next)?;
        if storage.put(REWRITE, &record, expected, None).await? && is_last {
            self.counters.set_rewrite_pending(false);
        }
        Ok(())
    }

    /// Returns what is left to do for the rules. Where several servers share the store, another one
    /// may still write by older rules when the first scan ends, so there is a second one.
    fn next_step(&self, rules: &Rules, done: Option<RewriteRecord>) -> Step {
        let digest = rules.digest();
        let is_shared = self.ring.storage().is_shared();
        let now = record::now();
        let next = |is_repeated| {
            Step::Rewrite(RewriteRecord {
                rules: digest.clone(),
                is_repeated,
                ended: now,
            })
        };
        match done.filter(|done| done.rules == digest) {
            None => next(!is_shared),
            Some(done) if done.is_repeated || !is_shared => Step::Done,
            Some(done) if now < done.ended + REPEAT_AFTER.as_secs() => Step::Wait,
            Some(_) => next(true),
        }
    }

    /// Returns the number of rewritten values, and of those that could not be.
    async fn rewrite_all(&self, resolver: &dyn Resolver, rules: &Rules) -> Result<(u64, u64)> {
        let everything = KeyRange::prefix(self.layout.everything().into_bytes());
        let mut rest = everything.clone();
        let (mut count, mut failed) = (0, 0);
        loop {
            let page = self.inner.range(&rest, At::Latest, Some(PAGE)).await?;
            for entry in &page.entries {
                match self.rewrite_entry(resolver, rules, entry).await {
                    Ok(false) => {}
                    Ok(true) => {
                        count += 1;
                        self.counters.count_rewritten(1);
                        sleep(PAUSE).await;
                    }
                    Err(error) => {
                        let key = entry.key.escape_ascii();
                        tracing::error!(%key, %error, "rewriting of a value failed");
                        failed += 1;
                    }
                }
            }
            match page.entries.last() {
                Some(last) if page.more => rest = everything.after(&last.key),
                _ => return Ok((count, failed)),
            }
        }
    }

    /// Rewrites one value if it has to be. Returns whether it was.
    async fn rewrite_entry(
        &self,
        resolver: &dyn Resolver,
        rules: &Rules,
        stored: &Entry,
    ) -> Result<bool> {
        let Some(location) = resolver.locate(&stored.key) else {
            return Ok(false);
        };
        let sealed = is_sealed(&stored.value);
        let wanted = rules.seal(location.group, location.resource);
        let key = &stored.key;
        let at = stored.modified;
        let Some(value) = self.ring.open_value(key, &stored.value).await? else {
            return self.remove_dead(key, at).await;
        };
        if sealed == wanted {
            return Ok(false);
        }
        let update = Transaction::update(key.clone(), at, value);
        // After a conflict the newer value was written by the current rules.
        Ok(matches!(self.commit(update).await?, Outcome::Committed(_)))
    }

    async fn remove_dead(&self, key: &insula_store::Key, at: Revision) -> Result<bool> {
        let removal = Transaction::remove(key.clone(), at);
        Ok(matches!(
            self.inner.commit(removal).await?,
            Outcome::Committed(_)
        ))
    }
}
