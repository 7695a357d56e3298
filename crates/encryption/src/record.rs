//! What is kept about keys.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::provider::WrappedKey;
use crate::{Error, Result};

/// A root key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RootKeyRecord {
    /// The key, wrapped by a provider.
    #[serde(flatten)]
    pub wrapped: WrappedKey,
    /// Whether data keys may still be wrapped with it. A retired root key is removed once no data
    /// key needs it.
    #[serde(default)]
    pub retired: bool,
    /// When it was created, in seconds since 1970.
    pub created: u64,
}

/// A data key, or the mark that it was destroyed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum DataKeyRecord {
    /// The key is in use.
    #[serde(rename_all = "camelCase")]
    Active {
        /// The ID of the root key that it is wrapped with.
        root_key: String,
        /// The wrapped key.
        #[serde(with = "base64_bytes")]
        ciphertext: Vec<u8>,
        /// When it was created, in seconds since 1970.
        created: u64,
    },
    /// The key was destroyed with its tenant.
    #[serde(rename_all = "camelCase")]
    Destroyed {
        /// When, in seconds since 1970.
        destroyed: u64,
    },
}

/// The store that keys beside it belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreRecord {
    /// The ID of the store; `None` if the next start may use any store.
    pub store_id: Option<String>,
    /// A revision that the store has reached.
    pub revision: u64,
    /// Data keys without a tenant in this store that are kept for the store of before.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub kept: BTreeSet<String>,
}

/// The ID of a store, in the store itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreIdRecord {
    /// Random, in hexadecimal digits.
    pub store_id: String,
}

/// The state of rewriting values after a change of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RewriteRecord {
    /// The digest of the rules that all values were last rewritten for.
    pub rules: String,
    /// Whether no server can have written by older rules since.
    #[serde(default)]
    pub is_repeated: bool,
    /// When it was written, in seconds since 1970.
    #[serde(default)]
    pub ended: u64,
}

/// Encodes a record.
pub fn encode<T: Serialize>(record: &T) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec(record).map_err(|error| Error::Storage(error.to_string()))?;
    text.push(b'\n');
    Ok(text)
}

/// Decodes a record, which is called `name` in errors.
pub fn decode<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| Error::Damaged {
        record: name.to_owned(),
        detail: error.to_string(),
    })
}

/// The time in seconds since 1970.
pub fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// Bytes as base64.
pub mod base64_bytes {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(text).map_err(serde::de::Error::custom)
    }
}

/// A map of bytes, as base64.
pub mod base64_values {
    use std::collections::BTreeMap;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    type Map<T> = BTreeMap<String, T>;

    pub fn serialize<S: Serializer>(map: &Map<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(map.iter().map(|(key, value)| (key, STANDARD.encode(value))))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Map<Vec<u8>>, D::Error> {
        let map = Map::<String>::deserialize(from)?;
        let decode = |(key, text): (String, String)| Ok((key, STANDARD.decode(text)?));
        let decoded: Result<_, base64::DecodeError> = map.into_iter().map(decode).collect();
        decoded.map_err(serde::de::Error::custom)
    }
}
