//! Records in the store itself, for several servers over one etcd.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use insula_core::{Layout, Revision};
use insula_store::{At, Expect, KeyRange, Outcome, Store, Transaction};

use super::{DATA_KEYS, KeyStorage, Listed, Version};
use crate::Result;

/// Records below a prefix of the store that no object has.
pub struct StoreStorage {
    store: Arc<dyn Store>,
    layout: Layout,
    is_shared: bool,
}

/// The records that are read at once.
const PAGE: NonZeroUsize = NonZeroUsize::new(1_000).expect("not zero");

impl StoreStorage {
    /// Records in `store`, which must not be the encrypted one, and which other servers may share.
    pub fn new(store: Arc<dyn Store>, layout: Layout, is_shared: bool) -> Self {
        Self {
            store,
            layout,
            is_shared,
        }
    }

    /// Whether a store contains data keys. Without one nothing is sealed.
    pub async fn contains_keys(store: &dyn Store, layout: &Layout) -> Result<bool> {
        let range = KeyRange::prefix(layout.encryption_record(DATA_KEYS).into_bytes());
        let page = store
            .range(&range, At::Latest, NonZeroUsize::new(1))
            .await?;
        Ok(!page.entries.is_empty())
    }

    fn key(&self, name: &str) -> Vec<u8> {
        self.layout.encryption_record(name).into_bytes()
    }

    async fn commit(&self, transaction: Transaction) -> Result<bool> {
        let outcome = self.store.commit(transaction).await?;
        Ok(!matches!(outcome, Outcome::Conflict(_)))
    }
}

fn at(version: Version) -> Expect {
    Expect::At(Revision::new(version.0))
}

#[async_trait]
impl KeyStorage for StoreStorage {
    async fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        let prefix = self.key(prefix);
        let mut rest = KeyRange::prefix(prefix.clone());
        let mut all = Vec::new();
        loop {
            let page = self.store.range(&rest, At::Latest, Some(PAGE)).await?;
            all.extend(page.entries.iter().filter_map(|entry| {
                let name = entry.key.strip_prefix(&prefix[..])?;
                Some(Listed {
                    name: String::from_utf8(name.to_vec()).ok()?,
                    record: entry.value.to_vec(),
                    version: Version(entry.modified.get()),
                })
            }));
            match page.entries.last() {
                Some(last) if page.more => rest = rest.after(&last.key),
                _ => return Ok(all),
            }
        }
    }

    async fn get(&self, name: &str) -> Result<Option<(Vec<u8>, Version)>> {
        let entry = self.store.get(&self.key(name).into()).await?;
        Ok(entry.map(|entry| (entry.value.to_vec(), Version(entry.modified.get()))))
    }

    async fn put(
        &self,
        name: &str,
        record: &[u8],
        expected: Option<Version>,
        guard: Option<(&str, Version)>,
    ) -> Result<bool> {
        let key = self.key(name);
        let mut put = Transaction::new()
            .check(key.clone(), expected.map_or(Expect::Absent, at))
            .put(key, record.to_vec());
        if let Some((name, version)) = guard {
            put = put.check(self.key(name), at(version));
        }
        self.commit(put).await
    }

    async fn remove(&self, name: &str, expected: Version) -> Result<bool> {
        let key = self.key(name);
        let removal = Transaction::new().check(key.clone(), at(expected));
        self.commit(removal.delete(key)).await
    }

    fn place(&self, name: &str) -> String {
        self.layout.encryption_record(name)
    }

    fn is_in_store(&self) -> bool {
        true
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }
}
