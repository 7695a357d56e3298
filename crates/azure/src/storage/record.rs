//! The recorded progress of migrations.
//!
//! The ConfigMap has a key for each definition. Concurrent migrations of one definition do not
//! disturb each other: whatever position is recorded, the objects before it are rewritten.

use std::collections::BTreeMap;

use kube::Client;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::upgrade::api::{self, status_code};
use crate::upgrade::{Definition, Error};

/// The name of the ConfigMap.
pub const NAME: &str = "azure-storage-migration";

/// The phase of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// All objects are written.
    Rewriting,
    /// Objects that have not changed since are written once more: the server must find nothing to
    /// change.
    Verifying,
    /// All objects are stored in the storage version.
    Complete,
}

/// The progress of the migration of one definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The UID of the definition.
    uid: String,
    /// The generation of the definition. Each change of the storage version has another one.
    generation: i64,
    /// The storage version that the migration is to.
    storage_version: String,
    /// Whether the objects are those of all tenants. A record without it says nothing about them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    all_tenants: bool,
    /// The phase.
    pub phase: Phase,
    /// The position in the list of objects; none is its beginning.
    #[serde(default, rename = "continue", skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The resource version of the list when the migration began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The number of objects before the position.
    #[serde(default)]
    pub done: u64,
}

impl Record {
    /// Returns the record of a migration that begins.
    pub fn new(definition: &Definition) -> Self {
        Self {
            uid: definition.metadata.uid.clone(),
            generation: definition.metadata.generation,
            storage_version: definition.storage_version().to_owned(),
            all_tenants: definition.is_published(),
            phase: Phase::Rewriting,
            token: None,
            since: None,
            done: 0,
        }
    }

    /// Returns whether the record is of the definition as it is now. After a change it is not
    /// known in which version objects were stored meanwhile.
    pub fn is_of(&self, definition: &Definition) -> bool {
        self.uid == definition.metadata.uid
            && self.generation == definition.metadata.generation
            && self.storage_version == definition.storage_version()
            // Annotations have no generation.
            && self.all_tenants == definition.is_published()
    }

    /// Begins the next phase.
    pub fn begin(&mut self, phase: Phase) {
        self.phase = phase;
        self.token = None;
        self.done = 0;
    }
}

/// The records of all definitions.
#[derive(Clone)]
pub struct Records {
    client: Client,
    namespace: String,
}

#[derive(Default, Deserialize)]
struct ConfigMap {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

impl Records {
    /// Returns the records in a namespace.
    pub fn new(client: Client, namespace: impl Into<String>) -> Self {
        Self {
            client,
            namespace: namespace.into(),
        }
    }

    /// Reads all records. Those that are not understood count as missing.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub async fn read(&self) -> Result<BTreeMap<String, Record>, Error> {
        let read: Result<ConfigMap, _> = api::get(&self.client, &self.path()).await;
        let found = match read {
            Err(error) if status_code(&error) == Some(404) => ConfigMap::default(),
            other => other.map_err(|error| self.error("read", error))?,
        };
        let records = found.data.into_iter().filter_map(|(name, text)| {
            let record = serde_json::from_str(&text).ok()?;
            Some((name, record))
        });
        Ok(records.collect())
    }

    /// Writes the record of a definition.
    pub(super) async fn write(&self, definition: &str, record: &Record) -> Result<(), Error> {
        let text = serde_json::to_string(record).unwrap_or_default();
        let patch = json!({"data": {definition: text}});
        let mut written: Result<Value, _> = api::merge(&self.client, &self.path(), &patch).await;
        if is_missing(&written) {
            let path = format!("/api/v1/namespaces/{}/configmaps", self.namespace);
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME},
            });
            let created: Result<Value, _> = api::post(&self.client, &path, &object).await;
            match created {
                // Another migration has created it.
                Err(error) if status_code(&error) == Some(409) => {}
                other => drop(other.map_err(|error| self.error("create", error))?),
            }
            written = api::merge(&self.client, &self.path(), &patch).await;
        }
        written
            .map(drop)
            .map_err(|error| self.error("write", error))
    }

    fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps/{NAME}", self.namespace)
    }

    fn error(&self, attempted: &str, error: kube::Error) -> Error {
        Error::new(
            format!("{attempted} ConfigMap {}/{NAME}", self.namespace),
            error,
        )
    }
}

fn is_missing(written: &Result<Value, kube::Error>) -> bool {
    let error = written.as_ref().err();
    error.and_then(status_code) == Some(404)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::PUBLISHED;
    use crate::table;
    use crate::upgrade::definitions::sample;

    #[test]
    fn record_is_of_one_generation_of_the_definition() {
        let kind = table::find("network.azure.com", "VirtualNetwork").unwrap();
        let definition = sample(kind, &["a", "b"], &["a", "b"]);
        let record = Record::new(&definition);
        assert!(record.is_of(&definition));
        let mut changed = definition.clone();
        changed.metadata.generation += 1;
        assert!(!record.is_of(&changed));
        let mut another = definition.clone();
        another.metadata.uid = "other".to_owned();
        assert!(!record.is_of(&another));
        assert!(!record.is_of(&sample(kind, &["a", "c"], &["a"])));
        let mut published = definition.clone();
        let annotations = &mut published.metadata.annotations;
        annotations.insert(PUBLISHED.to_owned(), "true".to_owned());
        assert!(!record.is_of(&published));
        assert!(Record::new(&published).is_of(&published));
    }

    #[test]
    fn record_is_text_that_people_can_read() {
        let kind = table::find("network.azure.com", "VirtualNetwork").unwrap();
        let mut record = Record::new(&sample(kind, &["a", "b"], &["a"]));
        record.token = Some("t".to_owned());
        record.done = 500;
        let text = serde_json::to_string(&record).unwrap();
        let expected = r#"{"uid":"u","generation":1,"storageVersion":"b","phase":"rewriting","continue":"t","done":500}"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }
}
