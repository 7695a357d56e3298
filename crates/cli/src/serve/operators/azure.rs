//! The Azure operator in the server process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use insula_azure::installed::Installed;
use insula_azure::manifests::{self, Settings as ManifestSettings};
use insula_azure::names::SYSTEM_NAMESPACE;
use insula_azure::operator::{self, NotStarted};
use insula_azure::settings::{Parsed, Settings};
use insula_azure::settings_secret;
use insula_azure::versions::Definitions;
use insula_azure::webhooks;
use insula_dialer::{AddressRules, Cidr};
use insula_operator::webhook::{Router, WebhookService};
use kube::Client;

use crate::certificate_file::{certificates, read};
use crate::failure::Failure;
use crate::operator::azure::{addresses, router};
use crate::process;

/// The setting for the scopes of credentials, and its value for tenants that do not know each
/// other.
const CREDENTIAL_MODE: (&str, &str) = ("AZURE_OPERATOR_AUTH_SOURCE_MODE", "namespace");
/// The delay before an operator that could not start is started again: definitions may be applied
/// meanwhile.
const START_INTERVAL: Duration = Duration::from_secs(30);

/// The arguments of `--operators azure`.
#[derive(clap::Args)]
pub struct AzureArgs {
    /// With --operators azure: file with the operator's settings as lines NAME=VALUE, as in the
    /// Secret azureoperatorsettings (default: none; credentials are those of each namespace)
    #[arg(
        id = "azure_settings_file",
        long = "azure-settings-file",
        value_name = "FILE"
    )]
    pub settings_file: Option<PathBuf>,

    /// With --operators azure: file with additional CAs of Azure endpoints, in PEM
    #[arg(id = "azure_ca_file", long = "azure-ca-file", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,

    /// With --operators azure: addresses around the server that endpoints in Secrets of namespaces
    /// may have
    #[arg(
        id = "azure_allow_addresses",
        long = "azure-allow-address",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    pub allow_addresses: Vec<Cidr>,

    /// With --operators azure: addresses that endpoints in Secrets of namespaces may not have;
    /// takes precedence
    #[arg(
        id = "azure_deny_addresses",
        long = "azure-deny-address",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    pub deny_addresses: Vec<Cidr>,
}

/// The settings of the Azure operator.
#[derive(Clone, Debug)]
pub struct AzureSettings {
    parsed: Parsed,
    addresses: AddressRules,
    authorities: Vec<Vec<u8>>,
    /// The definitions that the webhooks convert with.
    definitions: Arc<Definitions>,
}

impl AzureSettings {
    /// Builds the settings from the arguments.
    pub fn of(args: AzureArgs) -> Result<Self, Failure> {
        let file = args.settings_file.as_deref();
        let values = file.map_or(Ok(BTreeMap::new()), read_values)?;
        let parsed = with_defaults(values);
        let parsed = parsed.map_err(|error| {
            let attempted = "cannot use --azure-settings-file";
            Failure::new(attempted, error)
        })?;
        let authorities = args.ca_file.as_deref();
        let authorities = authorities.map_or(Ok(Vec::new()), certificates)?;
        Ok(Self {
            parsed,
            addresses: addresses(args.allow_addresses, args.deny_addresses),
            authorities: authorities.iter().map(|der| der.to_vec()).collect(),
            definitions: Arc::default(),
        })
    }

    /// Returns the webhooks, and the Service that configurations name. Until the definitions of
    /// the server are read, objects are converted with those that `manifests` prints.
    pub fn webhooks(&self) -> (WebhookService, Router) {
        for definition in manifests::definitions(&ManifestSettings::default()) {
            // Every object of Kubernetes can be represented as JSON.
            let definition = serde_json::to_value(definition).unwrap_or_default();
            if let Err(why) = self.definitions.insert(&definition) {
                tracing::error!(why, "definition ignored");
            }
        }
        (webhooks::service(), router(Arc::clone(&self.definitions)))
    }

    /// Runs the operator until the stop signal.
    pub async fn run(
        self,
        client: Client,
        service_account: Option<String>,
        stop: impl Future<Output = ()>,
    ) {
        settings_secret::announce(&self.parsed);
        let settings = self.parsed.settings;
        let installed = Installed::new(&client, Arc::clone(&self.definitions));
        let following = tokio::spawn(installed.follow());
        let mut stop = std::pin::pin!(stop);
        if !settings.mode.has_watchers() {
            stop.await;
            following.abort();
            return;
        }
        let mut operator = operator::Operator::new(process::name(), settings);
        operator.shell.tenants = true;
        operator.shell.service_account = service_account;
        operator.addresses = self.addresses;
        operator.authorities = self.authorities;
        let mut reported = None;
        loop {
            let ended = operator::run(client.clone(), operator.clone(), &mut stop).await;
            let Err(error) = ended else { break };
            let why = Some(explain(&error));
            if reported != why {
                tracing::error!(why = why.as_deref(), "Azure operator not started");
                reported = why;
            }
            let waited = tokio::time::timeout(START_INTERVAL, &mut stop).await;
            if waited.is_ok() {
                break;
            }
        }
        following.abort();
    }
}

/// Returns why the operator does not start, and what to do about it.
fn explain(error: &NotStarted) -> String {
    match error {
        NotStarted::Discovery(source) if is_forbidden(source) => format!(
            "it has no rights: apply what `insula operator azure manifests --tenants \
             --without-deployment` prints, it starts within {} seconds then",
            START_INTERVAL.as_secs()
        ),
        error => error.to_string(),
    }
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

/// Parses settings, with the namespace of the operator and the scope of credentials in a server
/// with tenants.
fn with_defaults(
    mut values: BTreeMap<String, String>,
) -> Result<Parsed, insula_azure::settings::InvalidSettings> {
    for (name, value) in [("POD_NAMESPACE", SYSTEM_NAMESPACE), CREDENTIAL_MODE] {
        let value = || value.to_owned();
        values.entry(name.to_owned()).or_insert_with(value);
    }
    Settings::parse(&values)
}

/// Reads a file with lines NAME=VALUE.
fn read_values(path: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let attempted = format!("cannot use {}", path.display());
    let content = String::from_utf8(read(path)?);
    let content = content.map_err(|_| Failure::new(&attempted, "it is not a text in UTF-8"))?;
    parse_values(&content).map_err(|why| Failure::new(&attempted, why))
}

/// Parses lines NAME=VALUE. Empty lines, and those that begin with `#`, are ignored. A message
/// never has the value.
fn parse_values(content: &str) -> Result<BTreeMap<String, String>, String> {
    let mut values = BTreeMap::new();
    for (index, line) in content.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let number = index + 1;
        let Some((name, value)) = line.split_once('=') else {
            return Err(format!("line {number}: expected NAME=VALUE"));
        };
        let name = name.trim().to_owned();
        if values
            .insert(name.clone(), value.trim().to_owned())
            .is_some()
        {
            return Err(format!("line {number}: {name} is there twice"));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use insula_azure::settings::{CredentialMode, Mode, WorkloadIdentityMode};

    use super::*;

    #[test]
    fn tenants_have_credentials_of_their_namespaces_unless_the_file_says_otherwise() {
        let parsed = with_defaults(BTreeMap::new()).unwrap().settings;
        assert_eq!(parsed.pod_namespace, "azureoperator-system");
        assert_eq!(parsed.credential_mode, CredentialMode::Namespace);
        assert_eq!(parsed.workload_identity_mode, WorkloadIdentityMode::Strict);
        assert_eq!(parsed.credential, None);
        let values = parse_values("# a comment\n\nAZURE_OPERATOR_AUTH_SOURCE_MODE = resource\n");
        let parsed = with_defaults(values.unwrap()).unwrap().settings;
        assert_eq!(parsed.credential_mode, CredentialMode::Resource);
    }

    #[test]
    fn either_setting_of_the_mode_may_be_in_the_file() {
        for (content, mode) in [
            ("", Mode::WatchersAndWebhooks),
            ("AZURE_WEBHOOK_ONLY=1", Mode::Webhooks),
            ("AZURE_OPERATOR_MODE=watchers", Mode::Watchers),
        ] {
            let parsed = with_defaults(parse_values(content).unwrap()).unwrap();
            assert_eq!(parsed.settings.mode, mode, "{content:?}");
        }
    }

    #[test]
    fn missing_rights_are_explained_by_the_manifests_to_apply() {
        let status = |code| kube::core::Status {
            code,
            ..kube::core::Status::failure("no", "No")
        };
        let failed = |code| NotStarted::Discovery(Box::new(kube::Error::Api(status(code).boxed())));
        let command = "`insula operator azure manifests --tenants --without-deployment`";
        assert!(
            explain(&failed(403)).contains(command),
            "{}",
            explain(&failed(403))
        );
        assert!(!explain(&failed(500)).contains(command));
    }

    #[test]
    fn invalid_line_is_reported_by_number_without_its_content() {
        for (content, expected) in [
            ("A=1\nhidden", "line 2: expected NAME=VALUE"),
            ("A=1\nA=hidden", "line 2: A is there twice"),
        ] {
            assert_eq!(parse_values(content), Err(expected.to_owned()));
        }
        let values = parse_values("A=b=c").unwrap();
        assert_eq!(values["A"], "b=c");
    }
}
