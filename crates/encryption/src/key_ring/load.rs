//! Loading of data keys from their records.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::{DATA_KEY, DataKey, KeyRing, data_key_name};
use crate::cipher::Cipher;
use crate::record::{self, DataKeyRecord};
use crate::{DataKeyId, Error, Result};

/// A load that callers wait for: the data key once it ended, which is `None` without a record.
pub(super) type Load = watch::Receiver<Option<Result<Option<DataKey>>>>;

impl KeyRing {
    /// Loads a data key in a task of its own, and once for all callers. A cancelled caller does not
    /// cancel the load: a watch is cancelled again and again, perhaps faster than a KMS answers.
    pub(super) async fn load_once(self: &Arc<Self>, id: &DataKeyId) -> Result<Option<DataKey>> {
        let mut load = self.start_load(id);
        let loaded = load.wait_for(Option::is_some).await;
        match loaded.ok().and_then(|loaded| loaded.clone()) {
            Some(loaded) => loaded,
            None => {
                self.loads().remove(id);
                let place = self.place(id.as_str());
                Err(Error::Storage(format!("reading of {place} was aborted")))
            }
        }
    }

    fn start_load(self: &Arc<Self>, id: &DataKeyId) -> Load {
        let mut loads = self.loads();
        if let Some(load) = loads.get(id) {
            return load.clone();
        }
        let (ended, load) = watch::channel(None);
        loads.insert(id.clone(), load.clone());
        let (ring, id) = (Arc::clone(self), id.clone());
        tokio::spawn(async move {
            let loaded = ring.load(&id).await;
            // Before the callers know: a caller that comes back starts another load.
            ring.loads().remove(&id);
            ended.send_replace(Some(loaded));
        });
        load
    }

    fn loads(&self) -> MutexGuard<'_, HashMap<DataKeyId, Load>> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn load(&self, id: &DataKeyId) -> Result<Option<DataKey>> {
        let name = data_key_name(id);
        let Some((found, _)) = self.storage.get(&name).await? else {
            return Ok(None);
        };
        let data_key = match record::decode(&self.storage.place(&name), &found)? {
            DataKeyRecord::Destroyed { .. } => DataKey::Destroyed,
            DataKeyRecord::Active {
                root_key,
                ciphertext,
                ..
            } => {
                let secret = self.unwrap_data_key(id, &root_key, &ciphertext).await?;
                DataKey::Active(Arc::new(Cipher::new(DATA_KEY, &secret)))
            }
        };
        Ok(Some(self.remember(id, data_key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_storage::FolderStorage;

    #[test]
    fn destroyed_key_stays_destroyed() {
        let folder = tempfile::tempdir().unwrap();
        let storage = FolderStorage::open(folder.path().to_owned()).unwrap();
        let ring = KeyRing::new(Arc::new(storage), Vec::new());
        let id = DataKeyId::tenant("u").unwrap();
        let active = || DataKey::Active(Arc::new(Cipher::new(DATA_KEY, &[1; 32])));
        assert!(matches!(ring.remember(&id, active()), DataKey::Active(_)));
        ring.note_record("u", b"{\"state\":\"destroyed\",\"destroyed\":1}");
        // A load that read the record before it was replaced.
        assert!(matches!(ring.remember(&id, active()), DataKey::Destroyed));
        assert!(matches!(ring.cached("u"), Some(DataKey::Destroyed)));
    }
}
