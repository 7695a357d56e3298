//! The keys in use: root keys, which providers wrap, and data keys, which root keys wrap.

mod load;
mod rotate;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use insula_store::Key;
use ring::digest::{SHA256, digest};
use zeroize::Zeroizing;

use self::load::Load;
pub use self::rotate::RootKeyStatus;
use crate::cipher::{Cipher, KEY_BYTES, NotAuthentic, generate_key};
use crate::envelope::Envelope;
use crate::key_storage::{DATA_KEYS, KeyStorage, ROOT_KEYS, Version};
use crate::provider::{KeyProvider, WrappedKey};
use crate::record::{self, DataKeyRecord, RootKeyRecord};
use crate::{DataKeyId, Error, Result};

/// Root keys and data keys, in memory once they were needed.
///
/// Every write of a record names the version that it replaces, so tasks and servers may write at the
/// same time, and a cancelled call may leave any prefix of its writes.
pub struct KeyRing {
    storage: Arc<dyn KeyStorage>,
    providers: RwLock<Providers>,
    root_keys: RwLock<HashMap<String, UnwrappedRootKey>>,
    data_keys: RwLock<HashMap<DataKeyId, DataKey>>,
    /// The data keys that are being loaded.
    loads: Mutex<HashMap<DataKeyId, Load>>,
}

/// The providers of a configuration, in its order.
pub type Providers = Arc<[Arc<dyn KeyProvider>]>;

/// A data key in memory.
#[derive(Clone, Debug)]
pub enum DataKey {
    /// It seals and opens values.
    Active(Arc<Cipher>),
    /// Its values are gone.
    Destroyed,
}

/// A root key in memory. The wrapped key belongs to it: after a rotation there and back, another
/// root key has the same ID.
#[derive(Clone)]
struct UnwrappedRootKey {
    wrapped: Vec<u8>,
    cipher: Arc<Cipher>,
}

/// A root key with its record.
struct RootKey {
    id: String,
    record: RootKeyRecord,
    version: Version,
}

/// The purposes of ciphers, see [`Cipher::new`].
const ROOT_KEY: &str = "insula root key v1";
const DATA_KEY: &str = "insula data key v1";

/// How often a write is repeated that another server got ahead of.
const MAX_ATTEMPTS: usize = 20;

impl KeyRing {
    /// A ring over records, with the providers of a configuration.
    pub fn new(storage: Arc<dyn KeyStorage>, providers: Vec<Arc<dyn KeyProvider>>) -> Self {
        Self {
            storage,
            providers: RwLock::new(providers.into()),
            root_keys: RwLock::default(),
            data_keys: RwLock::default(),
            loads: Mutex::default(),
        }
    }

    /// The records.
    pub fn storage(&self) -> &Arc<dyn KeyStorage> {
        &self.storage
    }

    /// Returns a data key that is in memory.
    pub fn cached(&self, id: &str) -> Option<DataKey> {
        let data_keys = self.data_keys.read();
        let data_keys = data_keys.unwrap_or_else(PoisonError::into_inner);
        data_keys.get(id).cloned()
    }

    /// Returns a data key that values are sealed with.
    pub async fn find(self: &Arc<Self>, id: &str) -> Result<DataKey> {
        if let Some(found) = self.cached(id) {
            return Ok(found);
        }
        let Some(id) = DataKeyId::parse(id) else {
            return Err(Error::Damaged {
                record: self.place(id),
                detail: "a value names a data key that cannot exist".to_owned(),
            });
        };
        match self.load_once(&id).await? {
            Some(found) => Ok(found),
            None => Err(Error::DataKeyMissing {
                record: self.place(id.as_str()),
                id,
            }),
        }
    }

    /// Returns the value of a key as it was written; `None` if its data key was destroyed.
    pub async fn open_value(self: &Arc<Self>, key: &Key, value: &Bytes) -> Result<Option<Bytes>> {
        let Some(envelope) = Envelope::parse(value) else {
            return Ok(Some(value.clone()));
        };
        let damaged = |error: NotAuthentic| Error::Damaged {
            record: key.escape_ascii().to_string(),
            detail: error.to_string(),
        };
        let envelope = envelope.map_err(damaged)?;
        match self.find(envelope.id).await? {
            DataKey::Destroyed => Ok(None),
            DataKey::Active(data_key) => envelope.open(&data_key, key).map(Some).map_err(damaged),
        }
    }

    /// Returns the data key to seal values with, and whether it is new. A missing one is created,
    /// durably.
    pub async fn find_or_create(&self, id: &DataKeyId) -> Result<(Arc<Cipher>, bool)> {
        let (found, created) = match self.cached(id.as_str()) {
            Some(found) => (found, false),
            None => self.create(id).await?,
        };
        match found {
            DataKey::Active(data_key) => Ok((data_key, created)),
            DataKey::Destroyed => Err(Error::Destroyed(id.clone())),
        }
    }

    /// Notes a record of a data key that another server may have written. An active one says nothing
    /// new about a key in memory: rotation wraps the same key again.
    pub fn note_record(&self, id: &str, record: &[u8]) {
        let destroyed = matches!(
            record::decode(id, record),
            Ok(DataKeyRecord::Destroyed { .. })
        );
        if let (true, Some(id)) = (destroyed, DataKeyId::parse(id)) {
            self.remember(&id, DataKey::Destroyed);
        }
    }

    /// Destroys a data key. What it sealed can never be opened again. Returns whether there was one.
    pub async fn destroy(&self, id: &DataKeyId) -> Result<bool> {
        let name = data_key_name(id);
        for _ in 0..MAX_ATTEMPTS {
            let Some((found, version)) = self.storage.get(&name).await? else {
                return Ok(false);
            };
            let found: DataKeyRecord = record::decode(&self.storage.place(&name), &found)?;
            if let DataKeyRecord::Active { .. } = found {
                let destroyed = record::now();
                let tombstone = record::encode(&DataKeyRecord::Destroyed { destroyed })?;
                let put = self.storage.put(&name, &tombstone, Some(version), None);
                if !put.await? {
                    continue;
                }
            }
            self.remember(id, DataKey::Destroyed);
            return Ok(true);
        }
        Err(self.contended(&name))
    }

    async fn create(&self, id: &DataKeyId) -> Result<(DataKey, bool)> {
        let name = data_key_name(id);
        for _ in 0..MAX_ATTEMPTS {
            // Also: another task or server created it in the meantime.
            if let Some(found) = self.load(id).await? {
                return Ok((found, false));
            }
            let root_key = self.active_root_key().await?;
            let cipher = self.root_cipher(&root_key).await?;
            let secret = generate_key()?;
            let created = record::now();
            let wrapped = wrap_data_key(&cipher, id, &*secret, &root_key.id, created)?;
            let guard_name = root_key_name(&root_key.id);
            let guard = Some((&*guard_name, root_key.version));
            // The guard fails if the root key is being retired: then the next one is used.
            let encoded = record::encode(&wrapped)?;
            if self.storage.put(&name, &encoded, None, guard).await? {
                let data_key = DataKey::Active(Arc::new(Cipher::new(DATA_KEY, &*secret)));
                let data_key = self.remember(id, data_key);
                tracing::info!(data_key = %id, "data key created");
                return Ok((data_key, true));
            }
        }
        Err(self.contended(&name))
    }

    /// Keeps a data key in memory, and returns what is in memory now: a destroyed key stays
    /// destroyed, also if its record was read before.
    fn remember(&self, id: &DataKeyId, data_key: DataKey) -> DataKey {
        let data_keys = self.data_keys.write();
        let mut data_keys = data_keys.unwrap_or_else(PoisonError::into_inner);
        let known = data_keys
            .entry(id.clone())
            .or_insert_with(|| data_key.clone());
        if matches!(data_key, DataKey::Destroyed) {
            *known = DataKey::Destroyed;
        }
        known.clone()
    }

    async fn unwrap_data_key(
        &self,
        id: &DataKeyId,
        root_key: &str,
        ciphertext: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>> {
        let damaged = || Error::Damaged {
            record: self.place(id.as_str()),
            detail: format!("it was not wrapped with the root key {root_key} for this data key"),
        };
        // If the root key in memory does not fit, its record is read: another server may have
        // rotated there and back.
        if let Some(cached) = self.cached_root_key(root_key)
            && let Ok(secret) = cached.cipher.open(id.as_str().as_bytes(), ciphertext)
        {
            return Ok(Zeroizing::new(secret));
        }
        let found = self.root_key(root_key).await?.ok_or_else(damaged)?;
        let cipher = self.root_cipher(&found).await?;
        let secret = cipher.open(id.as_str().as_bytes(), ciphertext);
        Ok(Zeroizing::new(secret.map_err(|_| damaged())?))
    }

    /// Returns the root key that new data keys are wrapped with.
    async fn active_root_key(&self) -> Result<RootKey> {
        let all = self.root_keys().await?;
        let active = all.into_iter().find(|root_key| !root_key.record.retired);
        active.ok_or_else(|| {
            Error::Config("there is no root key: the configuration seals nothing".into())
        })
    }

    async fn root_keys(&self) -> Result<Vec<RootKey>> {
        let mut all = Vec::new();
        for listed in self.storage.list(ROOT_KEYS).await? {
            let place = self.storage.place(&root_key_name(&listed.name));
            all.push(RootKey {
                record: record::decode(&place, &listed.record)?,
                id: listed.name,
                version: listed.version,
            });
        }
        Ok(all)
    }

    async fn root_key(&self, id: &str) -> Result<Option<RootKey>> {
        let name = root_key_name(id);
        let Some((found, version)) = self.storage.get(&name).await? else {
            return Ok(None);
        };
        Ok(Some(RootKey {
            id: id.to_owned(),
            record: record::decode(&self.storage.place(&name), &found)?,
            version,
        }))
    }

    /// Returns a root key, unwrapped by its provider if it is not in memory.
    async fn root_cipher(&self, root_key: &RootKey) -> Result<Arc<Cipher>> {
        let wrapped = &root_key.record.wrapped;
        if let Some(cached) = self.cached_root_key(&root_key.id)
            && cached.wrapped == wrapped.ciphertext
        {
            return Ok(cached.cipher);
        }
        let provider = provider_of(&self.providers(), wrapped);
        let provider = provider.ok_or_else(|| self.provider_key_missing(root_key))?;
        let damaged = |detail: String| Error::Damaged {
            record: self.storage.place(&root_key_name(&root_key.id)),
            detail,
        };
        let secret = match provider.unwrap(wrapped).await {
            // The provider does not know the name of the record.
            Err(Error::Damaged { detail, .. }) => return Err(damaged(detail)),
            unwrapped => unwrapped?,
        };
        if secret.len() != KEY_BYTES {
            let (name, length) = (provider.name(), secret.len());
            return Err(damaged(format!(
                "{name} unwrapped {length} bytes, and a root key has {KEY_BYTES}"
            )));
        }
        let cipher = Arc::new(Cipher::new(ROOT_KEY, &secret));
        self.remember_root_key(&root_key.id, wrapped, &cipher);
        Ok(cipher)
    }

    fn remember_root_key(&self, id: &str, wrapped: &WrappedKey, cipher: &Arc<Cipher>) {
        let unwrapped = UnwrappedRootKey {
            wrapped: wrapped.ciphertext.clone(),
            cipher: Arc::clone(cipher),
        };
        let root_keys = self.root_keys.write();
        root_keys
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id.to_owned(), unwrapped);
    }

    fn provider_key_missing(&self, root_key: &RootKey) -> Error {
        let WrappedKey {
            provider, key_id, ..
        } = &root_key.record.wrapped;
        Error::ProviderKeyMissing {
            record: self.storage.place(&root_key_name(&root_key.id)),
            provider: format!("{provider} (key ID {key_id})"),
        }
    }

    fn providers(&self) -> Providers {
        let providers = self.providers.read();
        Arc::clone(&providers.unwrap_or_else(PoisonError::into_inner))
    }

    fn cached_root_key(&self, id: &str) -> Option<UnwrappedRootKey> {
        let root_keys = self.root_keys.read();
        let root_keys = root_keys.unwrap_or_else(PoisonError::into_inner);
        root_keys.get(id).cloned()
    }

    fn forget_root_key(&self, id: &str) {
        let root_keys = self.root_keys.write();
        root_keys.unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    fn place(&self, id: &str) -> String {
        self.storage.place(&format!("{DATA_KEYS}{id}"))
    }

    fn contended(&self, name: &str) -> Error {
        let place = self.storage.place(name);
        Error::Storage(format!("{place} is being written by other servers"))
    }
}

fn provider_of(
    providers: &[Arc<dyn KeyProvider>],
    wrapped: &WrappedKey,
) -> Option<Arc<dyn KeyProvider>> {
    let found = providers.iter().find(|provider| provider.unwraps(wrapped));
    found.map(Arc::clone)
}

fn wrap_data_key(
    root_key: &Cipher,
    id: &DataKeyId,
    secret: &[u8],
    root_key_id: &str,
    created: u64,
) -> Result<DataKeyRecord> {
    let mut ciphertext = Vec::new();
    root_key.seal(id.as_str().as_bytes(), secret, &mut ciphertext)?;
    Ok(DataKeyRecord::Active {
        root_key: root_key_id.to_owned(),
        ciphertext,
        created,
    })
}

/// The ID of the root key that is wrapped with a provider's key. Servers that rotate at the same
/// time choose the same one.
fn root_key_id(provider: &str, key_id: &str) -> String {
    let digest = digest(&SHA256, format!("{provider}\n{key_id}").as_bytes());
    let hex = digest.as_ref()[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"));
    hex.collect()
}

fn data_key_name(id: &DataKeyId) -> String {
    format!("{DATA_KEYS}{id}")
}

fn root_key_name(id: &str) -> String {
    format!("{ROOT_KEYS}{id}")
}
