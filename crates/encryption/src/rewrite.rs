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

impl EncryptedStore {
    /// Looks after keys and values until it is dropped: rewrites values after a change of the
    /// configuration, and destroys the keys of deleted tenants that could not be destroyed at once.
    pub async fn run(self: Arc<Self>) {
        let mut upkeep = interval(UPKEEP_INTERVAL);
        for tick in (1..=ORPHAN_INTERVALS).cycle() {
            tokio::select! {
                () = self.changed.notified() => {}
                _ = upkeep.tick() => {}
            }
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
            if let Some(resolver) = self.resolver().cloned()
                && let Err(error) = self.rewrite(&*resolver).await
            {
                tracing::warn!(%error, "rewriting of values failed");
            }
        }
    }

    /// Rewrites the values that are sealed and should not be, and the other way round, unless that
    /// was done for the current rules. Values under destroyed keys are removed.
    ///
    /// A value is written only if it did not change since it was read, and with the same content, so
    /// nothing is lost whenever this stops; it starts again from the first key.
    pub async fn rewrite(&self, resolver: &dyn Resolver) -> Result<()> {
        let rules = self.rules();
        let wanted = RewriteRecord {
            rules: rules.digest(),
        };
        let storage = self.ring.storage();
        let found = storage.get(REWRITE).await?;
        if let Some((found, _)) = &found {
            let done: RewriteRecord = record::decode(&storage.place(REWRITE), found)?;
            if done == wanted {
                self.counters.set_rewrite_pending(false);
                return Ok(());
            }
        }
        self.counters.set_rewrite_pending(true);
        tracing::info!("rewriting of values started");
        let rewritten = self.rewrite_all(resolver, &rules).await?;
        // A change of the rules in the meantime starts it again.
        if self.rules() != rules {
            self.changed.notify_one();
            return Ok(());
        }
        let expected = found.map(|(_, version)| version);
        let record = record::encode(&wanted)?;
        if storage.put(REWRITE, &record, expected, None).await? {
            self.counters.set_rewrite_pending(false);
            tracing::info!(values = rewritten, "rewriting of values finished");
        }
        Ok(())
    }

    async fn rewrite_all(&self, resolver: &dyn Resolver, rules: &Rules) -> Result<u64> {
        let everything = KeyRange::prefix(self.layout.everything().into_bytes());
        let mut rest = everything.clone();
        let mut count = 0;
        loop {
            let page = self.inner.range(&rest, At::Latest, Some(PAGE)).await?;
            for entry in &page.entries {
                if self.rewrite_entry(resolver, rules, entry).await? {
                    count += 1;
                    self.counters.count_rewritten(1);
                    sleep(PAUSE).await;
                }
            }
            match page.entries.last() {
                Some(last) if page.more => rest = everything.after(&last.key),
                _ => return Ok(count),
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
