//! Removes the versions from `status.storedVersions` that no object is stored in any more.

use std::fmt;

use kube::Client;
use serde_json::{Value, json};

use super::record::{Record, Records};
use super::status::State;
use crate::upgrade::api::{self, status_code};
use crate::upgrade::{Definition, Error, Operators, TenantOperator};

/// What became of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trimmed {
    /// The name of the definition.
    pub definition: String,
    /// The storage version, which alone remains.
    pub storage_version: String,
    /// The result.
    pub result: TrimResult,
}

/// What became of the stored versions of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrimResult {
    /// There was nothing to remove.
    WasTrimmed,
    /// These versions were removed, or would be.
    Removed(Vec<String>),
    /// Nothing was removed.
    Refused(Refusal),
}

/// Why stored versions are not removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not all objects are rewritten.
    NotMigrated,
    /// An operator does not know the storage version, or it is not known whether it does.
    Operator(TenantOperator),
    /// Operators may exist that the caller may not list.
    OperatorsNotKnown(Vec<String>),
    /// The definition was changed meanwhile.
    Changed,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMigrated => out.write_str("not all objects are known to be migrated"),
            Self::Operator(operator) => {
                write!(out, "{operator} is not known to use the storage version")
            }
            Self::OperatorsNotKnown(what) => {
                write!(
                    out,
                    "operators are not known: you may not list {}",
                    what.join(", ")
                )
            }
            Self::Changed => out.write_str("the definition was changed meanwhile"),
        }
    }
}

impl Refusal {
    /// Returns what can be done about it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NotMigrated | Self::Changed => "run `insula operator azure storage migrate`",
            Self::Operator(_) => "move the operators to the release of the definitions first",
            Self::OperatorsNotKnown(_) => {
                "use a kubeconfig with rights to Deployments and objects of all namespaces"
            }
        }
    }
}

/// Removes older versions from the stored versions of these definitions, if all objects are
/// rewritten and all operators use the storage version. A dry run changes nothing.
///
/// # Errors
///
/// If the API server does not answer.
pub async fn trim(
    client: &Client,
    records: &Records,
    definitions: &[Definition],
    dry_run: bool,
) -> Result<Vec<Trimmed>, Error> {
    let records = records.read().await?;
    let operators = Operators::find(client, definitions).await?;
    let mut trimmed = Vec::new();
    for definition in definitions {
        let record = records.get(definition.name());
        let result = match refusal(definition, record, &operators) {
            _ if definition.is_trimmed() => TrimResult::WasTrimmed,
            Some(refusal) => TrimResult::Refused(refusal),
            None if dry_run => TrimResult::Removed(older_versions(definition)),
            None => write(client, definition).await?,
        };
        trimmed.push(Trimmed {
            definition: definition.name().to_owned(),
            storage_version: definition.storage_version().to_owned(),
            result,
        });
    }
    Ok(trimmed)
}

fn refusal(
    definition: &Definition,
    record: Option<&Record>,
    operators: &Operators,
) -> Option<Refusal> {
    if State::of(definition, record) != State::Complete {
        return Some(Refusal::NotMigrated);
    }
    let uses_storage = |operator: &&TenantOperator| {
        let release = operator.release.as_ref();
        release.and_then(|it| it.knows_storage_of(definition)) == Some(true)
    };
    let other = operators.all.iter().find(|it| !uses_storage(it));
    if let Some(operator) = other {
        return Some(Refusal::Operator(operator.clone()));
    }
    let not_listed = &operators.not_listed;
    (!not_listed.is_empty()).then(|| Refusal::OperatorsNotKnown(not_listed.clone()))
}

fn older_versions(definition: &Definition) -> Vec<String> {
    let storage = definition.storage_version();
    let stored = definition.stored_versions().iter();
    stored.filter(|it| *it != storage).cloned().collect()
}

/// Writes the storage version as the only stored one. The resource version makes sure that it is
/// the storage version still.
async fn write(client: &Client, definition: &Definition) -> Result<TrimResult, Error> {
    let patch = json!({
        "metadata": {"resourceVersion": definition.metadata.resource_version},
        "status": {"storedVersions": [definition.storage_version()]},
    });
    let written: Result<Value, _> = api::merge(client, &definition.status_path(), &patch).await;
    match written {
        Ok(_) => Ok(TrimResult::Removed(older_versions(definition))),
        Err(error) if status_code(&error) == Some(409) => Ok(TrimResult::Refused(Refusal::Changed)),
        Err(error) => {
            let attempted = format!("write the stored versions of {}", definition.name());
            Err(Error::new(attempted, error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Phase;
    use crate::table;
    use crate::upgrade::Release;
    use crate::upgrade::definitions::sample;
    use crate::upgrade::operators::Found;

    fn operators(release: Option<Release>) -> Operators {
        let all = vec![TenantOperator {
            namespace: "acme".to_owned(),
            found: Found::Objects(1),
            release,
            is_webhook_only: false,
        }];
        Operators {
            all,
            not_listed: Vec::new(),
        }
    }

    #[test]
    fn versions_are_removed_only_after_a_complete_migration_and_with_current_operators() {
        let kind = table::find("network.azure.com", "VirtualNetwork").unwrap();
        let storage = kind.storage_version();
        let old = "v1api20240301storage";
        let definition = sample(kind, &[old, storage], &[old, storage]);
        let current = operators(Some(Release::own()));
        let not_migrated = Some(Refusal::NotMigrated);
        assert_eq!(refusal(&definition, None, &current), not_migrated);
        let mut record = Record::new(&definition);
        record.begin(Phase::Verifying);
        assert_eq!(refusal(&definition, Some(&record), &current), not_migrated);
        record.begin(Phase::Complete);
        assert_eq!(refusal(&definition, Some(&record), &current), None);
        assert_eq!(older_versions(&definition), [old]);
        for release in [None, "v2.10.0".parse().ok()] {
            let older = operators(release);
            let refused = refusal(&definition, Some(&record), &older);
            assert_eq!(refused, Some(Refusal::Operator(older.all[0].clone())));
        }
        let hidden = Operators {
            not_listed: vec!["deployments.apps".to_owned()],
            ..current
        };
        let refused = refusal(&definition, Some(&record), &hidden);
        assert!(matches!(refused, Some(Refusal::OperatorsNotKnown(_))));
    }
}
