//! Whether a version can be removed from the definitions, and what needs it.

use std::fmt;

use kube::Client;
use serde::Deserialize;

use super::api::{List, Metadata};
use super::check::may_need;
use super::{Definition, Error, Operators, TenantOperator, definitions};

/// The number of objects that are named.
const MAX_NAMED: usize = 3;

/// What is known about the removal of a version.
#[derive(Clone, Debug)]
pub struct Removal {
    /// The names of the definitions that have the version.
    pub definitions: Vec<String>,
    /// What needs it: the version can be removed if there is nothing.
    pub blockers: Vec<Blocker>,
    /// What the caller may not list, so that it is not known whether operators need the version.
    pub not_listed: Vec<String>,
}

/// What needs a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The name of the definition.
    pub definition: String,
    /// The reason.
    pub reason: Reason,
}

/// Why a version is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// New objects are stored in it.
    IsStorageVersion(String),
    /// Objects may be stored in it.
    Stored(String),
    /// Users wrote objects in it.
    Written {
        /// The number of objects.
        count: u64,
        /// The names of the first ones.
        objects: Vec<String>,
    },
    /// An operator reads and writes it, or may do so.
    Operator(TenantOperator),
}

impl fmt::Display for Blocker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: ", self.definition)?;
        match &self.reason {
            Reason::IsStorageVersion(version) => {
                write!(out, "version {version} is the storage version")
            }
            Reason::Stored(version) => write!(
                out,
                "objects may be stored in version {version} (status.storedVersions has it)"
            ),
            Reason::Written { count, objects } => {
                let names = objects.join(", ");
                let more = match *count > objects.len() as u64 {
                    true => ", ...",
                    false => "",
                };
                write!(out, "objects were written in it: {count} ({names}{more})")
            }
            Reason::Operator(operator) => write!(out, "{operator} may need it"),
        }
    }
}

impl Reason {
    /// Returns what can be done about it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::IsStorageVersion(_) => "apply definitions with a newer storage version first",
            Self::Stored(_) => {
                "run `insula operator azure storage migrate`, then `... storage trim`"
            }
            Self::Written { .. } => "apply these objects again in a newer version",
            Self::Operator(_) => "move the operators to a newer release first",
        }
    }
}

/// An object with the version in which a user wrote it.
#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    original_version: Option<String>,
}

/// Finds out whether a version can be removed from the definitions with these names, or from all.
/// An API version is removed together with the version that objects written in it were stored in.
///
/// # Errors
///
/// If the API server does not answer.
pub async fn can_remove(
    client: &Client,
    version: &str,
    names: &[String],
) -> Result<Removal, Error> {
    let removed = removed_versions(version);
    let mut concerned = definitions::installed(client, names).await?;
    concerned.retain(|definition| removed.iter().any(|version| definition.has(version)));
    let operators = Operators::find(client, &concerned).await?;
    let mut removal = Removal {
        definitions: concerned.iter().map(|it| it.name().to_owned()).collect(),
        blockers: Vec::new(),
        not_listed: operators.not_listed.clone(),
    };
    for definition in &concerned {
        let mut reasons = version_reasons(definition, &removed);
        reasons.extend(written(client, definition, &removed).await?);
        let users = operators.all.iter().filter(|it| !it.is_webhook_only);
        let users = users.filter(|operator| {
            let mut needed = removed.iter().filter(|version| definition.has(version));
            needed.any(|version| may_need(operator, definition, version))
        });
        reasons.extend(users.cloned().map(Reason::Operator));
        removal
            .blockers
            .extend(reasons.into_iter().map(|reason| Blocker {
                definition: definition.name().to_owned(),
                reason,
            }));
    }
    Ok(removal)
}

/// Returns the versions that are removed: that of a name, and the one that its objects were stored
/// in.
fn removed_versions(version: &str) -> Vec<String> {
    let storage = format!("{version}storage");
    match version.ends_with("storage") {
        true => vec![version.to_owned()],
        false => vec![version.to_owned(), storage],
    }
}

fn version_reasons(definition: &Definition, removed: &[String]) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for version in removed {
        if definition.storage_version() == version {
            reasons.push(Reason::IsStorageVersion(version.clone()));
        } else if definition.stored_versions().contains(version) {
            reasons.push(Reason::Stored(version.clone()));
        }
    }
    reasons
}

/// Returns the objects that users wrote in one of the versions.
async fn written(
    client: &Client,
    definition: &Definition,
    removed: &[String],
) -> Result<Option<Reason>, Error> {
    let (mut count, mut objects) = (0, Vec::new());
    let see = |object: Object| {
        let original = object.spec.original_version;
        if original.is_some_and(|original| removed.contains(&original)) {
            count += 1;
            if objects.len() < MAX_NAMED {
                objects.push(object.metadata.full_name());
            }
        }
    };
    let listed = List::new(definition.objects_path()).each(client, see).await;
    listed.map_err(|error| Error::new(format!("list {}", definition.name()), error))?;
    Ok((count > 0).then_some(Reason::Written { count, objects }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;
    use crate::upgrade::definitions::sample;

    #[test]
    fn api_version_is_removed_with_its_storage_version() {
        let both = ["v1api20240301", "v1api20240301storage"];
        assert_eq!(removed_versions("v1api20240301"), both);
        assert_eq!(removed_versions(both[1]), [both[1]]);
    }

    #[test]
    fn r20_stored_versions_block_a_removal() {
        let kind = table::find("network.azure.com", "VirtualNetwork").unwrap();
        let definition = sample(kind, &["a", "astorage", "b", "bstorage"], &["astorage"]);
        let reasons = version_reasons(&definition, &removed_versions("a"));
        assert_eq!(reasons, [Reason::Stored("astorage".to_owned())]);
        let reasons = version_reasons(&definition, &removed_versions("b"));
        assert_eq!(reasons, [Reason::IsStorageVersion("bstorage".to_owned())]);
    }

    #[test]
    fn blocker_is_one_line() {
        let blocker = Blocker {
            definition: "d".to_owned(),
            reason: Reason::Written {
                count: 4,
                objects: vec!["a/b".to_owned(), "a/c".to_owned(), "a/d".to_owned()],
            },
        };
        let expected = "d: objects were written in it: 4 (a/b, a/c, a/d, ...)";
        assert_eq!(blocker.to_string(), expected);
    }
}
