//! Whether the operators can be moved to a release, and what holds them back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceConversion;
use kube::Client;

use super::api::status_code;
use super::release::Fit;
use super::{Definition, Error, Operators, Release, TenantOperator, definitions};
use crate::crds;
use crate::operator::ServedKinds;

/// A question about an upgrade.
#[derive(Clone, Debug)]
pub struct Question {
    /// The release to move to.
    pub to: Release,
    /// The namespace of the only operator to move; none for all.
    pub namespace: Option<String>,
}

/// The answer to the question.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The operators that were found.
    pub operators: Operators,
    /// What holds the upgrade back: it is possible if there is nothing.
    pub held_back: Vec<HeldBack>,
    /// The installed definitions with versions that those of this program lack, such as
    /// definitions of Azure Service Operator: they must not be replaced.
    pub wider: Vec<String>,
}

impl Answer {
    /// Returns the names of the definitions that must not be replaced, if there are any.
    pub fn wider(&self) -> Option<String> {
        (!self.wider.is_empty()).then(|| several(&self.wider))
    }
}

/// What holds an upgrade back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldBack {
    /// No definition is installed.
    NoDefinitions,
    /// There is no operator in the namespace.
    NoOperator(String),
    /// A definition does not serve the version that the release needs.
    Lacks {
        /// The name of the definition.
        definition: String,
        /// The version that is needed.
        needed: String,
        /// The versions that are served.
        served: Vec<String>,
    },
    /// Definitions are of an older release.
    Older {
        /// Their release.
        release: Release,
        /// Their names.
        definitions: Vec<String>,
    },
    /// The releases of these definitions are not known.
    NotKnown(Vec<String>),
    /// Webhooks are of an older release, or of one that is not known.
    Webhooks(TenantOperator),
    /// The definition cannot be replaced while objects are stored in a version that the new one
    /// does not have.
    Stored {
        /// The name of the definition.
        definition: String,
        /// The version.
        version: String,
    },
    /// The definition cannot be replaced while an operator may need a version that the new one
    /// does not have.
    Needed {
        /// The name of the definition.
        definition: String,
        /// The version.
        version: String,
        /// The operator.
        operator: TenantOperator,
    },
}

impl fmt::Display for HeldBack {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDefinitions => out.write_str("definitions: none is installed"),
            Self::NoOperator(namespace) => write!(out, "namespace {namespace}: has no operator"),
            Self::Lacks {
                definition,
                needed,
                served,
            } => write!(
                out,
                "{definition}: version {needed} is needed, and the cluster serves {}",
                served.join(", ")
            ),
            Self::Older {
                release,
                definitions,
            } => write!(
                out,
                "{}: of the older release {release}",
                several(definitions)
            ),
            Self::NotKnown(definitions) => {
                write!(out, "{}: the release is not known", several(definitions))
            }
            Self::Webhooks(webhooks) => write!(out, "{webhooks}: must be moved first"),
            Self::Stored {
                definition,
                version,
            } => write!(
                out,
                "{definition}: cannot be replaced, objects may be stored in version {version}"
            ),
            Self::Needed {
                definition,
                version,
                operator,
            } => write!(
                out,
                "{definition}: cannot be replaced, {operator} may need version {version}"
            ),
        }
    }
}

/// Returns the first of some names, with the number of the others.
fn several(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    }
}

impl HeldBack {
    /// Returns what can be done about it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NoDefinitions | Self::Lacks { .. } | Self::Older { .. } => {
                "apply the definitions of the release first, then move the operators"
            }
            Self::NotKnown(_) => {
                "run this command of the release in question, which knows what it needs"
            }
            Self::NoOperator(_) => "name the namespace in which an operator runs",
            Self::Webhooks(_) => "move the webhooks with the definitions, before the operators",
            Self::Stored { .. } => {
                "run `insula operator azure storage migrate`, then `... storage trim`"
            }
            Self::Needed { .. } => "move these operators first, to a release in between",
        }
    }
}

/// Finds out whether an upgrade is possible.
///
/// # Errors
///
/// If the API server does not answer.
pub async fn check(client: &Client, question: &Question) -> Result<Answer, Error> {
    let installed = match definitions::installed(client, &[]).await {
        Err(Error::Request { source, .. }) if status_code(&source) == Some(403) => {
            return check_discovery(client, question).await;
        }
        other => other?,
    };
    let operators = Operators::find(client, &installed).await?;
    let held_back = held_back(question, &installed, &operators);
    Ok(Answer {
        operators,
        held_back,
        wider: wider(&installed),
    })
}

/// Returns the definitions with versions that those of this program lack.
fn wider(installed: &[Definition]) -> Vec<String> {
    let shipped = shipped_versions();
    let wider = installed.iter().filter(|definition| {
        let versions = shipped.get(definition.name());
        versions.is_some_and(|it| definition.versions().any(|name| !it.contains(name)))
    });
    wider.map(|it| it.name().to_owned()).collect()
}

/// Compares with what discovery says: a tenant has no right to definitions.
async fn check_discovery(client: &Client, question: &Question) -> Result<Answer, Error> {
    let served = ServedKinds::discover(client).await;
    let served = served.map_err(|error| Error::new("ask which kinds there are", error))?;
    let mut operators = Operators::find(client, &[]).await?;
    let names = "customresourcedefinitions.apiextensions.k8s.io".to_owned();
    operators.not_listed.push(names.clone());
    let mut held_back = Vec::new();
    if question.to == Release::own() {
        held_back.extend(served.outdated().into_iter().map(|of| HeldBack::Lacks {
            definition: of.definition,
            needed: of.needed,
            served: of.served,
        }));
    } else {
        held_back.push(HeldBack::NotKnown(vec![names]));
    }
    if served.is_empty() {
        held_back.push(HeldBack::NoDefinitions);
    }
    held_back.extend(older_webhooks(question, &operators));
    Ok(Answer {
        operators,
        held_back,
        wider: Vec::new(),
    })
}

fn held_back(
    question: &Question,
    installed: &[Definition],
    operators: &Operators,
) -> Vec<HeldBack> {
    let mut held_back = Vec::new();
    if installed.is_empty() {
        held_back.push(HeldBack::NoDefinitions);
    }
    if let Some(namespace) = &question.namespace
        && !operators.all.iter().any(|it| it.namespace == *namespace)
        && operators.not_listed.is_empty()
    {
        held_back.push(HeldBack::NoOperator(namespace.clone()));
    }
    held_back.extend(unfit(question, installed));
    held_back.extend(older_webhooks(question, operators));
    let outdated: BTreeSet<_> = held_back.iter().filter_map(lacking).collect();
    let outdated = installed.iter().filter(|it| outdated.contains(it.name()));
    let outdated: Vec<_> = outdated.cloned().collect();
    held_back.extend(not_replaceable(question, &outdated, operators));
    held_back
}

fn lacking(held_back: &HeldBack) -> Option<&str> {
    match held_back {
        HeldBack::Lacks { definition, .. } => Some(definition),
        _ => None,
    }
}

/// Returns the definitions that the release does not run with.
fn unfit(question: &Question, installed: &[Definition]) -> Vec<HeldBack> {
    let mut unfit = Vec::new();
    let mut older = BTreeMap::<Release, Vec<String>>::new();
    let mut not_known = Vec::new();
    for definition in installed {
        let name = definition.name().to_owned();
        match question.to.runs_with(definition) {
            Fit::Fits => {}
            Fit::Lacks(needed) => unfit.push(HeldBack::Lacks {
                definition: name,
                needed,
                served: definition.served_versions().map(str::to_owned).collect(),
            }),
            Fit::Older(release) => older.entry(release).or_default().push(name),
            Fit::NotKnown => not_known.push(name),
        }
    }
    unfit.extend(
        older
            .into_iter()
            .map(|(release, definitions)| HeldBack::Older {
                release,
                definitions,
            }),
    );
    if !not_known.is_empty() {
        unfit.push(HeldBack::NotKnown(not_known));
    }
    unfit
}

/// Returns the webhooks that have to be moved before operators are.
fn older_webhooks(question: &Question, operators: &Operators) -> Vec<HeldBack> {
    let webhooks = operators.all.iter().filter(|it| it.is_webhook_only);
    let older = webhooks.filter(|webhooks| {
        let release = webhooks.release.as_ref();
        release.and_then(|it| it.is_older_than(&question.to)) != Some(false)
    });
    // The question may be about the webhooks themselves.
    let older = older.filter(|it| question.namespace.as_ref() != Some(&it.namespace));
    older.cloned().map(HeldBack::Webhooks).collect()
}

/// Returns what keeps definitions from being replaced by those of this program.
fn not_replaceable(
    question: &Question,
    outdated: &[Definition],
    operators: &Operators,
) -> Vec<HeldBack> {
    if question.to != Release::own() || outdated.is_empty() {
        return Vec::new();
    }
    let shipped = shipped_versions();
    let mut found = Vec::new();
    for definition in outdated {
        let Some(versions) = shipped.get(definition.name()) else {
            continue;
        };
        let removed = definition.versions().filter(|it| !versions.contains(*it));
        for version in removed {
            let (definition, name) = (definition, definition.name().to_owned());
            let version = version.to_owned();
            if definition.stored_versions().contains(&version) {
                let definition = name.clone();
                let version = version.clone();
                found.push(HeldBack::Stored {
                    definition,
                    version,
                });
            }
            let users = operators.all.iter().filter(|operator| {
                !operator.is_webhook_only && may_need(operator, definition, &version)
            });
            found.extend(users.map(|operator| HeldBack::Needed {
                definition: name.clone(),
                version: version.clone(),
                operator: operator.clone(),
            }));
        }
    }
    found
}

/// Returns whether an operator may read and write a version: operators do so in the version that
/// was stored at the time of their release.
pub(super) fn may_need(operator: &TenantOperator, definition: &Definition, version: &str) -> bool {
    let release = operator.release.as_ref();
    match release.and_then(|release| release.needed_version(definition)) {
        Some(needed) => needed == version,
        // A release that the table does not describe used a version for storage.
        None => {
            let knows = release.and_then(|it| it.knows_storage_of(definition));
            version.ends_with("storage") && knows != Some(true)
        }
    }
}

/// Returns the versions of the definitions of this program.
fn shipped_versions() -> BTreeMap<String, BTreeSet<String>> {
    let shipped = crds::all(&CustomResourceConversion::default());
    let shipped = shipped.into_iter().map(|definition| {
        let versions = definition.spec.versions.into_iter().map(|it| it.name);
        (
            definition.metadata.name.unwrap_or_default(),
            versions.collect(),
        )
    });
    shipped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;
    use crate::upgrade::definitions::sample;
    use crate::upgrade::operators::Found;

    const OLD: &str = "v1api20240301storage";

    fn operator(namespace: &str, release: &str) -> TenantOperator {
        TenantOperator {
            namespace: namespace.to_owned(),
            found: Found::Deployment("manager".to_owned()),
            release: release.parse().ok(),
            is_webhook_only: false,
        }
    }

    fn question(to: &str) -> Question {
        Question {
            to: to.parse().unwrap(),
            namespace: None,
        }
    }

    fn own() -> Question {
        question(&Release::own().to_string())
    }

    fn lines(
        question: &Question,
        installed: &[Definition],
        all: Vec<TenantOperator>,
    ) -> Vec<String> {
        let operators = Operators {
            all,
            not_listed: Vec::new(),
        };
        let held_back = held_back(question, installed, &operators);
        held_back.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn r19_upgrade_beyond_the_definitions_is_held_back() {
        let kind = table::find("network.azure.com", "VirtualNetwork").unwrap();
        let current = sample(kind, &["v20250301", kind.storage_version()], &[]);
        assert_eq!(lines(&own(), &[current], Vec::new()), [""; 0]);
        let older = sample(kind, &["v1api20240301", OLD], &[]);
        let expected = "virtualnetworks.network.azure.com: version v20250301storage is needed, \
                        and the cluster serves v1api20240301, v1api20240301storage";
        assert_eq!(lines(&own(), &[older], Vec::new()), [expected]);
        assert_eq!(
            lines(&own(), &[], Vec::new()),
            ["definitions: none is installed"]
        );
    }

    #[test]
    fn definitions_with_stored_objects_or_older_operators_are_not_replaced() {
        let kind = table::find("network.azure.com", "VirtualNetwork").unwrap();
        let older = sample(kind, &["v1api20240301", OLD], &[OLD]);
        let lines = lines(&own(), &[older], vec![operator("acme", "v2.10.0")]);
        assert_eq!(lines.len(), 3);
        let name = "virtualnetworks.network.azure.com: cannot be replaced, ";
        assert_eq!(
            lines[1..],
            [
                format!("{name}objects may be stored in version {OLD}"),
                format!("{name}operator in namespace acme (v2.10.0) may need version {OLD}"),
            ]
        );
    }

    #[test]
    fn definitions_with_more_versions_than_those_of_the_program_are_named() {
        let kind = table::find("network.azure.com", "VirtualNetwork").unwrap();
        let shipped = sample(kind, &["v20250301", kind.storage_version()], &[]);
        let released = sample(kind, &[OLD, "v20250301", kind.storage_version()], &[]);
        // The program has no definition of it.
        let other = table::find("batch.azure.com", "BatchAccount").unwrap();
        let other = sample(other, &["v1"], &[]);
        assert_eq!(wider(&[shipped, other.clone()]), [""; 0]);
        assert_eq!(
            wider(&[released, other]),
            ["virtualnetworks.network.azure.com"]
        );
    }

    #[test]
    fn webhooks_are_moved_before_operators() {
        let kind = table::find("network.azure.com", "VirtualNetwork").unwrap();
        let current = [sample(kind, &[kind.storage_version()], &[])];
        let webhooks = |release: &str| TenantOperator {
            is_webhook_only: true,
            ..operator("azureoperator-system", release)
        };
        let to = question("v2.20.0");
        assert_eq!(lines(&to, &current, vec![webhooks("v2.20.0")]), [""; 0]);
        let held_back = lines(&to, &current, vec![webhooks("v2.19.0")]);
        let expected = "webhooks in namespace azureoperator-system (v2.19.0): must be moved first";
        assert_eq!(held_back, [expected]);
    }

    #[test]
    fn release_that_is_not_described_is_not_known_to_run() {
        let kind = table::find("network.azure.com", "VirtualNetwork").unwrap();
        let current = [sample(kind, &[kind.storage_version()], &[])];
        let expected = "virtualnetworks.network.azure.com: the release is not known";
        assert_eq!(
            lines(&question("v2.99.0"), &current, Vec::new()),
            [expected]
        );
        let elsewhere = Question {
            namespace: Some("nowhere".to_owned()),
            ..own()
        };
        let expected = "namespace nowhere: has no operator";
        assert_eq!(lines(&elsewhere, &current, Vec::new()), [expected]);
    }
}
