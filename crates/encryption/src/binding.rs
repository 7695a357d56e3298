//! The bond between keys and the store beside them.
//!
//! Keys without a tenant in the store are destroyed when the store is opened. That must not happen
//! with a store that lacks the tenants because it is another one: an empty folder where a volume is
//! not mounted, or a backup from before the tenants were created. So the store has a random ID, and
//! the keys' folder a record with this ID and a revision that the store had reached.

use std::collections::BTreeSet;
use std::sync::Arc;

use insula_core::{Layout, Revision};
use insula_store::{Store, Transaction};
use tokio::sync::Mutex;

use crate::cipher::generate_key;
use crate::key_storage::{DATA_KEYS, KeyStorage, STORE, Version};
use crate::record::{self, StoreIdRecord, StoreRecord};
use crate::{DataKeyId, Error, Result};

/// The record that names the store of the keys. Keys that are kept in the store itself have none.
pub struct StoreBinding {
    storage: Arc<dyn KeyStorage>,
    state: Mutex<State>,
}

enum State {
    /// The keys are in the store.
    NotNeeded,
    /// The keys have no store yet, or the operator accepts the one that is there.
    Unbound {
        store_id: String,
        replaces: Option<Version>,
    },
    Bound {
        record: StoreRecord,
        version: Version,
    },
}

impl StoreBinding {
    /// Checks that the keys belong to the store. Nothing is changed if they do not.
    pub async fn open(
        store: &dyn Store,
        storage: Arc<dyn KeyStorage>,
        layout: &Layout,
    ) -> Result<Self> {
        let state = match storage.is_in_store() {
            true => State::NotNeeded,
            false => open_state(store, &*storage, layout).await?,
        };
        Ok(Self {
            storage,
            state: Mutex::new(state),
        })
    }

    /// Whether the keys have no store until [`bind`](Self::bind).
    pub async fn is_unbound(&self) -> bool {
        matches!(&*self.state.lock().await, State::Unbound { .. })
    }

    /// Binds the keys to the store, except those that it has no tenants for: they may belong to the
    /// store of before, and are kept.
    pub async fn bind(&self, revision: Revision, kept: BTreeSet<DataKeyId>) -> Result<()> {
        let mut state = self.state.lock().await;
        let State::Unbound { store_id, replaces } = &*state else {
            return Ok(());
        };
        let record = StoreRecord {
            store_id: Some(store_id.clone()),
            revision: revision.get(),
            kept: kept.iter().map(ToString::to_string).collect(),
        };
        if !kept.is_empty() {
            let count = kept.len();
            tracing::warn!(data_keys = count, "data keys of another store kept");
        }
        *state = self.write(record, *replaces).await?;
        Ok(())
    }

    /// Returns the keys that are never destroyed for the lack of a tenant.
    pub async fn kept(&self) -> BTreeSet<String> {
        match &*self.state.lock().await {
            State::Bound { record, .. } => record.kept.clone(),
            State::NotNeeded | State::Unbound { .. } => BTreeSet::new(),
        }
    }

    /// Records that the store has reached a revision: no state before it is accepted any more. A
    /// failure leaves the older revision, which accepts more.
    pub async fn raise(&self, revision: Revision) {
        let mut state = self.state.lock().await;
        let State::Bound { record, version } = &*state else {
            return;
        };
        if record.revision >= revision.get() {
            return;
        }
        let raised = StoreRecord {
            revision: revision.get(),
            ..record.clone()
        };
        match self.write(raised, Some(*version)).await {
            Ok(raised) => *state = raised,
            Err(error) => tracing::warn!(%error, "revision of the store not recorded"),
        }
    }

    async fn write(&self, record: StoreRecord, expected: Option<Version>) -> Result<State> {
        let encoded = record::encode(&record)?;
        let changed = || {
            let place = self.storage.place(STORE);
            Error::Storage(format!("{place} was changed by another process"))
        };
        if !self.storage.put(STORE, &encoded, expected, None).await? {
            return Err(changed());
        }
        let (_, version) = self.storage.get(STORE).await?.ok_or_else(changed)?;
        Ok(State::Bound { record, version })
    }
}

async fn open_state(store: &dyn Store, storage: &dyn KeyStorage, layout: &Layout) -> Result<State> {
    let place = storage.place(STORE);
    let refused = |detail: String| Error::OtherStore {
        record: place.clone(),
        detail,
    };
    let Some((found, version)) = storage.get(STORE).await? else {
        if !storage.list(DATA_KEYS).await?.is_empty() {
            return Err(refused("the record is missing".to_owned()));
        }
        let store_id = create_id(store, layout).await?;
        let replaces = None;
        return Ok(State::Unbound { store_id, replaces });
    };
    let record: StoreRecord = record::decode(&place, &found)?;
    let Some(expected) = &record.store_id else {
        let store_id = create_id(store, layout).await?;
        let replaces = Some(version);
        return Ok(State::Unbound { store_id, replaces });
    };
    let revision = store.revision().await?.get();
    match find_id(store, layout).await? {
        None => Err(refused(
            "the store is empty or was never encrypted".to_owned(),
        )),
        Some(id) if id != *expected => Err(refused(format!(
            "the store has the ID {id}, and the keys belong to {expected}"
        ))),
        Some(_) if revision < record.revision => Err(refused(format!(
            "the store is at revision {revision} and was at {} before: it is an older copy",
            record.revision
        ))),
        Some(_) => Ok(State::Bound { record, version }),
    }
}

async fn find_id(store: &dyn Store, layout: &Layout) -> Result<Option<String>> {
    let key = layout.encryption_record(STORE);
    let Some(entry) = store.get(&key.clone().into()).await? else {
        return Ok(None);
    };
    let record: StoreIdRecord = record::decode(&key, &entry.value)?;
    Ok(Some(record.store_id))
}

/// Gives the store a new ID. One that it had is replaced: a copy that is accepted and the store that
/// it was copied from are different from now on.
async fn create_id(store: &dyn Store, layout: &Layout) -> Result<String> {
    let random = generate_key()?;
    let hex = random[..16].iter().map(|byte| format!("{byte:02x}"));
    let store_id: String = hex.collect();
    let record = record::encode(&StoreIdRecord {
        store_id: store_id.clone(),
    })?;
    let key = layout.encryption_record(STORE);
    store.commit(Transaction::new().put(key, record)).await?;
    Ok(store_id)
}
