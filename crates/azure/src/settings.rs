//! The settings of an operator, as environment variables and the settings Secret have them.
//!
//! ```
//! use std::collections::BTreeMap;
//! use insula_azure::settings::Settings;
//!
//! let values = [("POD_NAMESPACE", "acme-system"), ("AZURE_TARGET_NAMESPACES", "a, b")];
//! let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
//! let parsed = Settings::parse(&BTreeMap::from(values)).unwrap();
//! assert_eq!(parsed.settings.target_namespaces.to_string(), "a,b");
//! ```

pub mod cloud;
pub mod credential;
mod duration;
pub mod namespaces;
mod read;
mod reader;
mod summary;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use insula_identity::credential::Hidden;

pub use cloud::Cloud;
pub use credential::{CredentialMode, GlobalCredential, Proof, WorkloadIdentityMode};
pub use namespaces::TargetNamespaces;
pub use reader::Problem;

use crate::names::{SETTINGS_SECRET, SETTINGS_SECRET_V2};
use reader::Reader;

const POD_NAMESPACE: &str = "POD_NAMESPACE";

/// The names of the settings Secret in the operator's namespace. If both exist, the first is used.
pub const SECRET_NAMES: [&str; 2] = [SETTINGS_SECRET, SETTINGS_SECRET_V2];

/// The settings of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The operator's namespace.
    pub pod_namespace: String,
    /// Whether the operator reconciles objects, serves webhooks, or both.
    pub mode: Mode,
    /// The namespaces that are watched.
    pub target_namespaces: TargetNamespaces,
    /// The operator's own credential.
    pub credential: Option<GlobalCredential>,
    /// Which scopes of credentials are used.
    pub credential_mode: CredentialMode,
    /// The service account with the token that is sent for workload identities of tenants.
    pub workload_identity_mode: WorkloadIdentityMode,
    /// The endpoints of the operator's cloud.
    pub cloud: Cloud,
    /// Whether credentials may name endpoints of their own.
    pub multiple_clouds: bool,
    /// The address of the instance metadata service.
    pub metadata_endpoint: String,
    /// The interval between two writes of an unchanged resource; none means never.
    pub sync_period: Option<Duration>,
    /// How many objects of a kind are reconciled at the same time.
    pub concurrent_reconciles: usize,
    /// The limit of reconciliations.
    pub rate_limit: Option<RateLimit>,
    /// The policy of objects that have none, in namespaces that have none.
    pub default_policy: ReconcilePolicy,
    /// What follows the operator's name in the `User-Agent` header.
    pub user_agent_suffix: Option<String>,
    /// The least version of TLS that servers of the operator accept.
    pub min_tls_version: TlsVersion,
}

/// What an operator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reconciles objects.
    Watchers,
    /// Serves webhooks.
    Webhooks,
    /// Both.
    WatchersAndWebhooks,
}

/// What the operator does with a resource in Azure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcilePolicy {
    /// Creates, updates and deletes it.
    Manage,
    /// Reads it.
    Skip,
    /// Creates and updates it.
    DetachOnDelete,
}

/// The limit of reconciliations per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// How many are allowed per second.
    pub per_second: f64,
    /// How many are allowed at once.
    pub bucket_size: u32,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// Settings, with what the administrator should know about them.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The settings.
    pub settings: Settings,
    /// Values that are ignored or read as another one.
    pub warnings: Vec<String>,
}

/// All problems of some settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct InvalidSettings(pub Vec<Problem>);

impl fmt::Display for InvalidSettings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        write!(out, "invalid settings: {}", problems.join("; "))
    }
}

const MODES: &[(&str, Mode)] = &[
    ("watchers", Mode::Watchers),
    ("webhooks", Mode::Webhooks),
    ("watchers-and-webhooks", Mode::WatchersAndWebhooks),
];

const POLICIES: &[(&str, ReconcilePolicy)] = &[
    ("manage", ReconcilePolicy::Manage),
    ("skip", ReconcilePolicy::Skip),
    ("detach-on-delete", ReconcilePolicy::DetachOnDelete),
];

const TLS_VERSIONS: &[(&str, TlsVersion)] = &[
    ("VersionTLS12", TlsVersion::Tls12),
    ("VersionTLS13", TlsVersion::Tls13),
];

impl Mode {
    /// Returns whether objects are reconciled.
    pub const fn has_watchers(self) -> bool {
        !matches!(self, Self::Webhooks)
    }

    /// Returns whether webhooks are served.
    pub const fn has_webhooks(self) -> bool {
        !matches!(self, Self::Watchers)
    }
}

impl ReconcilePolicy {
    /// Returns the policy of this name, as annotations have it.
    pub fn named(name: &str) -> Option<Self> {
        let mut policies = POLICIES.iter();
        policies.find(|it| it.0 == name).map(|(_, policy)| *policy)
    }
}

/// Returns the settings of the environment and of the settings Secret.
///
/// The Secret wins: variables that a Deployment took from it are older. The operator's namespace
/// is never taken from it.
///
/// # Errors
///
/// If a known setting in the Secret is not a text.
pub fn merge(
    environment: impl IntoIterator<Item = (String, String)>,
    secret: &BTreeMap<String, Hidden>,
) -> Result<BTreeMap<String, String>, InvalidSettings> {
    let mut values: BTreeMap<_, _> = environment.into_iter().collect();
    let mut problems = Vec::new();
    for (name, value) in secret.iter().filter(|(name, _)| *name != POD_NAMESPACE) {
        match value.text() {
            Some(text) => {
                values.insert(name.clone(), text.to_owned());
            }
            None => problems.push(Problem {
                variable: name.clone(),
                value: None,
                message: "expected a text in UTF-8".to_owned(),
            }),
        }
    }
    match problems.is_empty() {
        true => Ok(values),
        false => Err(InvalidSettings(problems)),
    }
}

impl Settings {
    /// Parses the values of settings by name. Other names are ignored.
    ///
    /// # Errors
    ///
    /// If settings are missing, illegal or contradict each other: all of them at once.
    pub fn parse(values: &BTreeMap<String, String>) -> Result<Parsed, InvalidSettings> {
        let mut reader = Reader::new(values);
        let settings = read::read(&mut reader);
        match reader.problems.is_empty() {
            true => Ok(Parsed {
                settings,
                warnings: reader.warnings,
            }),
            false => Err(InvalidSettings(reader.problems)),
        }
    }
}

#[cfg(test)]
mod tests;
