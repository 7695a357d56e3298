//! Rotation: all data keys under the root key of the first provider.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use super::{
    KeyRing, MAX_ATTEMPTS, Providers, ROOT_KEY, RootKey, data_key_name, provider_of, root_key_id,
    root_key_name, wrap_data_key,
};
use crate::cipher::{Cipher, generate_key};
use crate::key_storage::DATA_KEYS;
use crate::provider::{KeyProvider, WrappedKey};
use crate::record::{self, DataKeyRecord, RootKeyRecord};
use crate::{DataKeyId, Error, Result};

/// A provider key that is still needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootKeyStatus {
    /// The ID of the root key that the provider key wraps.
    pub id: String,
    /// The provider's name.
    pub provider: String,
    /// The ID of the provider's key.
    pub key_id: String,
    /// Whether new data keys are wrapped with the root key.
    pub is_active: bool,
    /// The number of data keys that are wrapped with it.
    pub data_keys: usize,
}

impl KeyRing {
    /// Replaces the providers, if the new ones can unwrap every root key. Returns the old ones.
    pub async fn replace_providers(&self, providers: Providers) -> Result<Providers> {
        for root_key in self.root_keys().await? {
            if provider_of(&providers, &root_key.record.wrapped).is_none() {
                return Err(self.provider_key_missing(&root_key));
            }
        }
        Ok(self.set_providers(providers))
    }

    /// Replaces the providers by those of a configuration that was in use before.
    pub fn restore_providers(&self, providers: Providers) {
        self.set_providers(providers);
    }

    fn set_providers(&self, providers: Providers) -> Providers {
        let current = self.providers.write();
        let mut current = current.unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut current, providers)
    }

    /// Unwraps every root key, so that data keys can be read without asking a provider.
    pub async fn load_root_keys(&self) -> Result<()> {
        for root_key in self.root_keys().await? {
            self.root_cipher(&root_key).await?;
        }
        Ok(())
    }

    /// Wraps all data keys with the root key of `provider`, and removes other root keys. Returns
    /// whether anything changed. A server has one rotation at a time.
    ///
    /// It may be interrupted anywhere, and other servers may create data keys meanwhile. A root key
    /// is retired before its data keys are listed, and whether it is retired is checked in the write
    /// that creates a data key: so none is created under a root key that is then removed.
    pub async fn rotate(&self, provider: &dyn KeyProvider) -> Result<bool> {
        let mut changed = false;
        for _ in 0..MAX_ATTEMPTS {
            let key_id = provider.key_id().await?;
            let id = root_key_id(provider.name(), &key_id);
            let (current, activated) = self.activate(provider, &id).await?;
            changed |= activated;
            // Also if another server activated it: the provider may be away when it is needed.
            self.root_cipher(&current).await?;
            let others = self.retire_others(&current.id).await?;
            if others.is_empty() {
                return Ok(changed);
            }
            changed = true;
            let rewrapped = self.rewrap_all(&current).await?;
            tracing::info!(
                root_key = current.id,
                data_keys = rewrapped,
                "data keys rewrapped"
            );
            if self.remove_unused(&current.id).await? {
                return Ok(true);
            }
        }
        Err(self.contended("root-keys"))
    }

    /// Returns the provider keys that are in use.
    pub async fn root_key_status(&self) -> Result<Vec<RootKeyStatus>> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (_, record) in self.data_keys().await? {
            if let DataKeyRecord::Active { root_key, .. } = record {
                *counts.entry(root_key).or_default() += 1;
            }
        }
        let all = self
            .root_keys()
            .await?
            .into_iter()
            .map(|root_key| RootKeyStatus {
                provider: root_key.record.wrapped.provider,
                key_id: root_key.record.wrapped.key_id,
                is_active: !root_key.record.retired,
                data_keys: counts.get(&root_key.id).copied().unwrap_or(0),
                id: root_key.id,
            });
        Ok(all.collect())
    }

    /// Returns all data keys with their records.
    pub async fn data_keys(&self) -> Result<Vec<(DataKeyId, DataKeyRecord)>> {
        let mut all = Vec::new();
        for listed in self.storage.list(DATA_KEYS).await? {
            if let Some(id) = DataKeyId::parse(&listed.name) {
                let record = record::decode(&self.place(&listed.name), &listed.record)?;
                all.push((id, record));
            }
        }
        Ok(all)
    }

    /// Returns the root key of the provider's key, and whether it had to be created or taken back
    /// from retirement.
    async fn activate(&self, provider: &dyn KeyProvider, id: &str) -> Result<(RootKey, bool)> {
        let mut id = id.to_owned();
        for _ in 0..MAX_ATTEMPTS {
            let (record, expected, cipher) = match self.root_key(&id).await? {
                Some(found) if !found.record.retired => return Ok((found, false)),
                Some(found) => {
                    let record = RootKeyRecord {
                        retired: false,
                        ..found.record
                    };
                    (record, Some(found.version), None)
                }
                None => {
                    let (wrapped, cipher) = generate_root_key(provider).await?;
                    // The provider may have changed its key since it was asked for the ID.
                    id = root_key_id(&wrapped.provider, &wrapped.key_id);
                    let record = RootKeyRecord {
                        wrapped,
                        retired: false,
                        created: record::now(),
                    };
                    (record, None, Some(cipher))
                }
            };
            let name = root_key_name(&id);
            let encoded = record::encode(&record)?;
            if self.storage.put(&name, &encoded, expected, None).await? {
                // In memory at once: the next data key must not need the provider again.
                if let Some(cipher) = cipher {
                    self.remember_root_key(&id, &record.wrapped, &cipher);
                }
                let provider = record.wrapped.provider;
                tracing::info!(root_key = id, provider, "root key activated");
                let found = self.root_key(&id).await?;
                let found = found.ok_or_else(|| self.contended(&name))?;
                return Ok((found, true));
            }
        }
        Err(self.contended(&root_key_name(&id)))
    }

    /// Retires all root keys but one, and returns them.
    async fn retire_others(&self, current: &str) -> Result<Vec<RootKey>> {
        let mut others = self.root_keys().await?;
        others.retain(|root_key| root_key.id != current);
        for root_key in &others {
            if root_key.record.retired {
                continue;
            }
            let record = RootKeyRecord {
                retired: true,
                ..root_key.record.clone()
            };
            let name = root_key_name(&root_key.id);
            // If another server was faster, the attempt is repeated as a whole.
            self.storage
                .put(
                    &name,
                    &record::encode(&record)?,
                    Some(root_key.version),
                    None,
                )
                .await?;
        }
        Ok(others)
    }

    /// Wraps every data key with the current root key. Returns how many were not.
    async fn rewrap_all(&self, current: &RootKey) -> Result<usize> {
        let cipher = self.root_cipher(current).await?;
        let mut count = 0;
        for (id, record) in self.data_keys().await? {
            if matches!(&record, DataKeyRecord::Active { root_key, .. } if *root_key != current.id)
            {
                count += 1;
                self.rewrap(&id, current, &cipher).await?;
            }
        }
        Ok(count)
    }

    async fn rewrap(&self, id: &DataKeyId, current: &RootKey, cipher: &Cipher) -> Result<()> {
        let name = data_key_name(id);
        // Again: it may have been destroyed since it was listed.
        let Some((found, version)) = self.storage.get(&name).await? else {
            return Ok(());
        };
        let DataKeyRecord::Active {
            root_key,
            ciphertext,
            created,
        } = record::decode(&self.storage.place(&name), &found)?
        else {
            return Ok(());
        };
        let secret = self.unwrap_data_key(id, &root_key, &ciphertext).await?;
        let rewrapped = wrap_data_key(cipher, id, &secret, &current.id, created)?;
        let current_name = root_key_name(&current.id);
        let guard = Some((&*current_name, current.version));
        // If it is not written, its old root key stays in use and the attempt is repeated.
        self.storage
            .put(&name, &record::encode(&rewrapped)?, Some(version), guard)
            .await?;
        Ok(())
    }

    /// Removes the retired root keys. Returns `false` if data keys still need one.
    async fn remove_unused(&self, current: &str) -> Result<bool> {
        // Before the data keys: a server that activates one of these meanwhile changes its version.
        let mut retired = self.root_keys().await?;
        retired.retain(|root_key| root_key.id != current);
        let data_keys = self.data_keys().await?;
        for root_key in retired {
            let is_used = data_keys.iter().any(|(_, record)| {
                matches!(record, DataKeyRecord::Active { root_key: used, .. } if *used == root_key.id)
            });
            if is_used || !root_key.record.retired {
                return Ok(false);
            }
            let name = root_key_name(&root_key.id);
            if !self.storage.remove(&name, root_key.version).await? {
                return Ok(false);
            }
            self.forget_root_key(&root_key.id);
            tracing::info!(
                root_key = root_key.id,
                provider = root_key.record.wrapped.provider,
                "root key removed"
            );
        }
        Ok(true)
    }
}

/// Generates a root key, and has it wrapped by the provider. A key that the provider does not return
/// would be lost with this process, so it is unwrapped at once.
async fn generate_root_key(provider: &dyn KeyProvider) -> Result<(WrappedKey, Arc<Cipher>)> {
    let secret = generate_key()?;
    let wrapped = provider.wrap(&*secret).await?;
    let returned = provider.unwrap(&wrapped).await?;
    if returned[..] != secret[..] {
        return Err(Error::Provider {
            provider: provider.name().to_owned(),
            reason: "it does not unwrap the key that it wrapped".to_owned(),
        });
    }
    Ok((wrapped, Arc::new(Cipher::new(ROOT_KEY, &*secret))))
}
