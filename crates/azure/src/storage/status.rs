//! Which definitions are migrated.

use kube::Client;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::record::{Phase, Record, Records};
use crate::upgrade::api::{List, Part};
use crate::upgrade::{Definition, Error};

/// A definition with its migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionStatus {
    /// The name of the definition.
    pub definition: String,
    /// The version that objects are stored in.
    pub storage_version: String,
    /// The versions that objects may be stored in.
    pub stored_versions: Vec<String>,
    /// The number of objects.
    pub objects: u64,
    /// The state of the migration.
    pub state: State,
}

/// The state of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Objects are stored in the storage version only, and the definition says so.
    Trimmed,
    /// All objects are stored in the storage version. The definition names older versions still.
    Complete,
    /// A migration is at this position.
    Incomplete(Phase, u64),
    /// No migration is recorded since the definition was changed last.
    NotKnown,
}

impl State {
    /// Returns the state of a definition with this record.
    pub fn of(definition: &Definition, record: Option<&Record>) -> Self {
        let record = record.filter(|record| record.is_of(definition));
        match record.map(|record| (record.phase, record.done)) {
            _ if definition.is_trimmed() => Self::Trimmed,
            Some((Phase::Complete, _)) => Self::Complete,
            Some((phase, done)) => Self::Incomplete(phase, done),
            None => Self::NotKnown,
        }
    }
}

/// Returns the status of these definitions.
///
/// # Errors
///
/// If the API server does not answer.
pub async fn status(
    client: &Client,
    records: &Records,
    definitions: &[Definition],
) -> Result<Vec<DefinitionStatus>, Error> {
    let records = records.read().await?;
    let mut statuses = Vec::new();
    for definition in definitions {
        statuses.push(DefinitionStatus {
            definition: definition.name().to_owned(),
            storage_version: definition.storage_version().to_owned(),
            stored_versions: definition.stored_versions().to_vec(),
            objects: count(client, definition).await?,
            state: State::of(definition, records.get(definition.name())),
        });
    }
    Ok(statuses)
}

/// Any object.
#[derive(Deserialize)]
struct Object {
    #[serde(rename = "metadata")]
    _metadata: IgnoredAny,
}

/// Counts the objects of a definition: from the first page if the server tells how many remain.
pub(super) async fn count(client: &Client, definition: &Definition) -> Result<u64, Error> {
    let failed = |error| Error::new(format!("list {}", definition.name()), error);
    let list = List {
        part: Part::Metadata,
        ..List::new(definition.objects_path())
    };
    let first = list.page::<Object>(client, None).await.map_err(failed)?;
    let remaining = first.metadata.remaining_item_count;
    if first.next().is_none() || remaining.is_some() {
        let remaining = remaining.and_then(|remaining| u64::try_from(remaining).ok());
        return Ok(first.items.len() as u64 + remaining.unwrap_or_default());
    }
    let mut all = 0;
    let listed = list.each(client, |_: Object| all += 1).await;
    listed.map(|()| all).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;
    use crate::upgrade::definitions::sample;

    #[test]
    fn state_is_not_known_without_a_record_of_this_generation() {
        let kind = table::find("network.azure.com", "VirtualNetwork").unwrap();
        let definition = sample(kind, &["a", "b"], &["a", "b"]);
        assert_eq!(State::of(&definition, None), State::NotKnown);
        let mut record = Record::new(&definition);
        record.done = 7;
        let expected = State::Incomplete(Phase::Rewriting, 7);
        assert_eq!(State::of(&definition, Some(&record)), expected);
        record.begin(Phase::Complete);
        assert_eq!(State::of(&definition, Some(&record)), State::Complete);
        let mut changed = definition.clone();
        changed.metadata.generation += 1;
        assert_eq!(State::of(&changed, Some(&record)), State::NotKnown);
        let trimmed = sample(kind, &["a", "b"], &["b"]);
        assert_eq!(State::of(&trimmed, None), State::Trimmed);
    }
}
