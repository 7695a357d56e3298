//! The settings of a process: its environment, and the settings Secret of its namespace, which is
//! watched.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};
use insula_identity::credential::Hidden;
use insula_operator::read::get_named;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use tracing::{debug, error, info, warn};

use crate::names::{SETTINGS_SECRET, SETTINGS_SECRET_V2};
use crate::settings::{self, InvalidSettings, Mode, Parsed, Settings};

/// The names of the Secret, the first one first.
const NAMES: [&str; 2] = [SETTINGS_SECRET, SETTINGS_SECRET_V2];

type Data = BTreeMap<String, Hidden>;

/// The source of the settings of a process.
pub struct SettingsSecret {
    secrets: Api<Secret>,
    metadata: Api<PartialObjectMeta<Secret>>,
    environment: BTreeMap<String, String>,
    /// Whether the Secret was there before.
    was_there: bool,
}

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub enum NotRead {
    /// Settings are invalid.
    #[error(transparent)]
    Invalid(#[from] InvalidSettings),
    /// The Secret cannot be read.
    #[error("cannot read the Secret {SETTINGS_SECRET}: {0}")]
    Secret(#[source] Box<kube::Error>),
}

/// Returns the settings of a process that serves webhooks only, which needs no Secret; none if the
/// environment asks for more than that.
pub fn webhooks_only(environment: &BTreeMap<String, String>) -> Option<Parsed> {
    let parsed = Settings::parse(environment).ok();
    parsed.filter(|parsed| parsed.settings.mode == Mode::Webhooks)
}

impl SettingsSecret {
    /// Reads the settings for the first time.
    ///
    /// # Errors
    ///
    /// If they are invalid, or the Secret cannot be read.
    pub async fn open(
        client: &Client,
        environment: BTreeMap<String, String>,
    ) -> Result<(Self, Parsed), NotRead> {
        let namespace = environment.get("POD_NAMESPACE").map(String::as_str);
        let Some(namespace) = namespace.filter(|name| !name.is_empty()) else {
            // The error says what is missing.
            let parsed = Settings::parse(&environment)?;
            let source = Self {
                secrets: Api::default_namespaced(client.clone()),
                metadata: Api::default_namespaced(client.clone()),
                environment,
                was_there: false,
            };
            return Ok((source, parsed));
        };
        let mut source = Self {
            secrets: Api::namespaced(client.clone(), namespace),
            metadata: Api::namespaced(client.clone(), namespace),
            environment,
            was_there: false,
        };
        let data = source.read().await;
        let data = data.map_err(|error| NotRead::Secret(Box::new(error)))?;
        source.was_there = data.is_some();
        let data = data.unwrap_or_default();
        let parsed = source.parse(&data)?;
        // What the pod took from the Secret does not outlive a change of the Secret.
        let is_from_secret = |name: &str, value: &str| {
            let of_secret = data.get(name).and_then(Hidden::text);
            of_secret == Some(value)
        };
        let own = std::mem::take(&mut source.environment).into_iter();
        let own = own.filter(|(name, value)| !is_from_secret(name, value));
        source.environment = own.collect();
        Ok((source, parsed))
    }

    /// Sends new settings whenever the Secret changes, as long as there is a receiver. If they are
    /// invalid, or the Secret is missing, that is reported, and those before stay in use: the
    /// defaults are more namespaces and wider credentials.
    pub async fn follow(mut self, settings: watch::Sender<Settings>) {
        let changes = NAMES.map(|name| {
            let config = Config::default().fields(&format!("metadata.name={name}"));
            let events = watcher(self.metadata.clone(), config).default_backoff();
            events.boxed()
        });
        let mut changes = stream::select_all(changes);
        while let Some(event) = changes.next().await {
            match event {
                Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone) => {
                    self.update(&settings).await;
                }
                Ok(Event::Init | Event::InitApply(_)) => {}
                Err(error) => debug!(%error, "watch of settings restarted"),
            }
            if settings.is_closed() {
                return;
            }
        }
    }

    async fn update(&mut self, settings: &watch::Sender<Settings>) {
        let data = match self.read().await {
            Ok(Some(data)) => data,
            Ok(None) => {
                if self.was_there {
                    error!(
                        secret = SETTINGS_SECRET,
                        "settings missing, former ones kept"
                    );
                }
                return;
            }
            Err(error) => {
                warn!(%error, "settings not read");
                return;
            }
        };
        self.was_there = true;
        match self.parse(&data) {
            Ok(parsed) => {
                let is_new = settings.send_if_modified(|current| {
                    let is_new = *current != parsed.settings;
                    *current = parsed.settings.clone();
                    is_new
                });
                if is_new {
                    info!(settings = %parsed.settings, "settings changed");
                    report(&parsed.warnings);
                }
            }
            Err(error) => error!(%error, "invalid settings ignored"),
        }
    }

    /// Reads the Secret, if there is one.
    async fn read(&self) -> Result<Option<Data>, kube::Error> {
        for name in NAMES {
            let found = match get_named(&self.secrets, name).await {
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    warn!(secret = name, why = status.message, "settings not readable");
                    None
                }
                found => found?,
            };
            if let Some(secret) = found {
                let data = secret.data.unwrap_or_default().into_iter();
                let data = data.map(|(key, value)| (key, Hidden::new(value.0)));
                return Ok(Some(data.collect()));
            }
        }
        Ok(None)
    }

    fn parse(&self, data: &Data) -> Result<Parsed, InvalidSettings> {
        let values = settings::merge(self.environment.clone(), data)?;
        Settings::parse(&values)
    }
}

/// Logs the settings that a process begins with, without secrets, and what the administrator should
/// know about them.
pub fn announce(parsed: &Parsed) {
    info!(settings = %parsed.settings, "settings read");
    report(&parsed.warnings);
}

/// Logs what the administrator should know about settings.
fn report(warnings: &[String]) {
    for warning in warnings {
        warn!(warning, "setting ignored");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn webhooks_need_their_namespace_and_nothing_else() {
        let names = ("POD_NAMESPACE", "azureoperator-system");
        for (pairs, expected) in [
            (&[names, ("AZURE_WEBHOOK_ONLY", "1")][..], true),
            (&[names, ("AZURE_OPERATOR_MODE", "webhooks")], true),
            (&[names], false),
            (&[names, ("AZURE_OPERATOR_MODE", "watchers")], false),
            (&[("AZURE_WEBHOOK_ONLY", "1")], false),
        ] {
            let found = webhooks_only(&environment(pairs));
            assert_eq!(found.is_some(), expected, "{pairs:?}");
        }
    }
}
