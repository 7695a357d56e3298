//! The configuration: Kubernetes' `EncryptionConfiguration`.

mod resources;

use std::collections::HashSet;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use zeroize::Zeroizing;

use self::resources::ResourcePattern;
use crate::cipher::generate_key;
use crate::{Error, Result};

/// A configuration that can be used.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which resources are sealed.
    pub rules: Rules,
    /// The providers that unwrap root keys. The first one wraps them.
    pub providers: Vec<ProviderConfig>,
}

/// A provider in the configuration.
#[derive(Clone)]
pub enum ProviderConfig {
    /// A key in the file itself.
    Local {
        /// The key's name.
        name: String,
        /// The secret.
        secret: Zeroizing<Vec<u8>>,
    },
    /// A KMS v2 plugin.
    Kms {
        /// The plugin's name.
        name: String,
        /// The socket, `unix:///path`.
        endpoint: String,
        /// How long a call may take.
        timeout: Duration,
    },
}

/// Which resources are sealed: the first entry with a matching pattern decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    patterns: Vec<ResourcePattern>,
    seals: bool,
}

impl Rules {
    /// Whether objects of a resource are sealed when they are written.
    pub fn seal(&self, group: &str, resource: &str) -> bool {
        let matching = self.0.iter().find(|rule| {
            let mut patterns = rule.patterns.iter();
            patterns.any(|pattern| pattern.matches(group, resource))
        });
        matching.is_some_and(|rule| rule.seals)
    }

    /// Whether any resource is sealed.
    pub fn seal_any(&self) -> bool {
        self.0.iter().any(|rule| rule.seals)
    }

    /// Returns a text that differs for rules that differ.
    pub fn digest(&self) -> String {
        let digest = digest(&SHA256, format!("{:?}", self.0).as_bytes());
        let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
        hex.collect()
    }
}

impl std::fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local { name, .. } => write!(f, "aesgcm:{name}"),
            Self::Kms { name, endpoint, .. } => write!(f, "kms:{name} at {endpoint}"),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EncryptionConfiguration {
    api_version: String,
    kind: String,
    resources: Vec<ResourceConfiguration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResourceConfiguration {
    resources: Vec<String>,
    providers: Vec<ProviderConfiguration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderConfiguration {
    aesgcm: Option<AesGcm>,
    identity: Option<Identity>,
    kms: Option<Kms>,
    aescbc: Option<serde::de::IgnoredAny>,
    secretbox: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AesGcm {
    keys: Vec<Key>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    name: String,
    secret: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Kms {
    #[serde(default)]
    api_version: String,
    name: String,
    endpoint: String,
    #[serde(default = "default_timeout")]
    timeout: String,
    /// Kubernetes allows the field in v1 only.
    cachesize: Option<serde::de::IgnoredAny>,
}

fn default_timeout() -> String {
    "3s".to_owned()
}

/// What one entry of `providers` means.
enum Provider {
    Keys(Vec<ProviderConfig>),
    Identity,
}

const API_VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "EncryptionConfiguration";

impl Config {
    /// Reads a configuration from YAML or JSON.
    pub fn parse(text: &str) -> Result<Self> {
        let parsed: EncryptionConfiguration =
            serde_saphyr::from_str(text).map_err(|error| invalid(position(&error)))?;
        if parsed.api_version != API_VERSION || parsed.kind != KIND {
            let found = format!("{} {}", parsed.api_version, parsed.kind);
            return Err(invalid(format!(
                "it is `{found}`, not `{API_VERSION} {KIND}`"
            )));
        }
        if parsed.resources.is_empty() {
            return Err(invalid("`resources` is empty"));
        }
        let mut config = Self {
            rules: Rules::default(),
            providers: Vec::new(),
        };
        let mut primary = None;
        for (index, entry) in parsed.resources.into_iter().enumerate() {
            let at = format!("resources[{index}]");
            let patterns = resources::parse(&entry.resources)
                .map_err(|error| invalid(format!("{at}: {error}")))?;
            let providers = entry.providers.into_iter().map(provider);
            let providers: Result<Vec<_>, String> = providers.collect();
            let providers = providers.map_err(|error| invalid(format!("{at}: {error}")))?;
            let Some(first) = providers.first() else {
                return Err(invalid(format!("{at}: `providers` is empty")));
            };
            let seals = match first {
                Provider::Identity => false,
                Provider::Keys(keys) => {
                    // A space has one data key for all its resources, so one provider wraps it.
                    let first = keys.first().map(|key| format!("{key:?}"));
                    let common = primary.get_or_insert_with(|| first.clone());
                    if *common != first {
                        return Err(invalid(format!(
                            "{at}: the first provider that is not `identity` must be the same for all resources"
                        )));
                    }
                    true
                }
            };
            config.rules.0.push(Rule { patterns, seals });
            for provider in providers {
                if let Provider::Keys(keys) = provider {
                    config.add(keys, &at)?;
                }
            }
        }
        config.put_first(primary.flatten());
        Ok(config)
    }

    /// Adds keys that other entries may have named before.
    fn add(&mut self, keys: Vec<ProviderConfig>, at: &str) -> Result<()> {
        for key in keys {
            let mut known = self.providers.iter();
            match known.find(|known| known.has_name_of(&key)) {
                None => self.providers.push(key),
                Some(known) if known.is_same(&key) => {}
                // Records name the provider that wrapped a root key.
                Some(_) => {
                    return Err(invalid(format!(
                        "{at}: there are two different {} of one name",
                        key.kind()
                    )));
                }
            }
        }
        Ok(())
    }

    /// Puts the provider that wraps first: an entry before it may only read with others.
    fn put_first(&mut self, primary: Option<String>) {
        let first = self
            .providers
            .iter()
            .position(|key| Some(format!("{key:?}")) == primary);
        if let Some(first) = first {
            self.providers[..=first].rotate_right(1);
        }
    }
}

impl ProviderConfig {
    fn has_name_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Local { name: a, .. }, Self::Local { name: b, .. })
            | (Self::Kms { name: a, .. }, Self::Kms { name: b, .. }) => a == b,
            _ => false,
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Local { .. } => "aesgcm keys",
            Self::Kms { .. } => "kms plugins",
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Local { secret: a, .. }, Self::Local { secret: b, .. }) => a == b,
            (
                Self::Kms {
                    endpoint, timeout, ..
                },
                Self::Kms {
                    endpoint: other_endpoint,
                    timeout: other_timeout,
                    ..
                },
            ) => (endpoint, timeout) == (other_endpoint, other_timeout),
            _ => false,
        }
    }
}

fn provider(given: ProviderConfiguration) -> Result<Provider, String> {
    let ProviderConfiguration {
        aesgcm,
        identity,
        kms,
        aescbc,
        secretbox,
    } = given;
    for (name, is_given) in [
        ("aescbc", aescbc.is_some()),
        ("secretbox", secretbox.is_some()),
    ] {
        if is_given {
            return Err(format!(
                "the provider `{name}` is not supported; use `aesgcm` or `kms`"
            ));
        }
    }
    match (aesgcm, identity, kms) {
        (Some(given), None, None) => keys(given).map(Provider::Keys),
        (None, Some(Identity {}), None) => Ok(Provider::Identity),
        (None, None, Some(given)) => plugin(given).map(|kms| Provider::Keys(vec![kms])),
        _ => Err(
            "each entry of `providers` has exactly one of `aesgcm`, `kms` and `identity`".into(),
        ),
    }
}

fn keys(given: AesGcm) -> Result<Vec<ProviderConfig>, String> {
    let mut names = HashSet::new();
    let mut keys = Vec::new();
    for (index, Key { name, secret }) in given.keys.into_iter().enumerate() {
        let secret = Zeroizing::new(secret);
        // By its index: a secret may have been written in the place of the name.
        let at = format!("aesgcm: keys[{index}]");
        if name.is_empty() || !names.insert(name.clone()) {
            return Err(format!("{at}: the name is empty or used twice"));
        }
        let secret = STANDARD.decode(secret.trim());
        let secret = secret.map_err(|_| format!("{at}: the secret is not base64"))?;
        if ![16, 24, 32].contains(&secret.len()) {
            let found = secret.len();
            return Err(format!(
                "{at}: the secret has {found} bytes; 16, 24 or 32 are allowed"
            ));
        }
        let secret = Zeroizing::new(secret);
        keys.push(ProviderConfig::Local { name, secret });
    }
    match keys.is_empty() {
        true => Err("aesgcm: `keys` is empty".to_owned()),
        false => Ok(keys),
    }
}

fn plugin(given: Kms) -> Result<ProviderConfig, String> {
    if given.api_version != "v2" {
        return Err("kms: only `apiVersion: v2` is supported".to_owned());
    }
    if given.cachesize.is_some() {
        return Err("kms: `cachesize` is not allowed with `apiVersion: v2`".to_owned());
    }
    let path = given.endpoint.strip_prefix("unix://");
    let timeout = insula_gotext::duration::parse(&given.timeout)
        .and_then(|nanoseconds| u64::try_from(nanoseconds).ok())
        .filter(|nanoseconds| *nanoseconds > 0);
    let Some(timeout) = timeout.map(Duration::from_nanos) else {
        return Err("kms: `timeout` is a duration above zero, such as 3s".to_owned());
    };
    if given.name.is_empty() || given.name.contains(':') {
        return Err("kms: `name` is empty or contains a colon".to_owned());
    }
    if path.is_none_or(str::is_empty) {
        return Err("kms: `endpoint` is unix:///PATH".to_owned());
    }
    Ok(ProviderConfig::Kms {
        name: given.name,
        endpoint: given.endpoint,
        timeout,
    })
}

/// Generates the secret of a key, in base64.
pub fn generate_secret() -> Result<Zeroizing<String>> {
    Ok(Zeroizing::new(STANDARD.encode(generate_key()?.as_slice())))
}

fn invalid(problem: impl Into<String>) -> Error {
    Error::Config(problem.into())
}

/// Says where the text cannot be read, and not why: the parser's message quotes the text, which
/// contains secrets.
fn position(error: &serde_saphyr::Error) -> String {
    let problem = "a field is unknown, missing or of another type, or the text is no YAML";
    match error.location() {
        Some(at) => format!("line {} column {}: {problem}", at.line(), at.column()),
        None => problem.to_owned(),
    }
}

#[cfg(test)]
mod tests;
