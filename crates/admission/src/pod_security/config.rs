//! The configuration of PodSecurity: defaults for all namespaces, and exemptions.

use insula_kinds::text;
use insula_kinds::{FieldError, Value};
use serde::Deserialize;

use super::labels::Policy;
use super::level::{Level, LevelVersion, Version};

/// PodSecurity as it is configured for all spaces: `PodSecurityConfiguration` of
/// `pod-security.admission.config.k8s.io`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSecurity {
    /// The policy of namespaces without labels.
    pub defaults: Policy,
    /// What is not evaluated.
    pub exemptions: Exemptions,
}

/// Requests and pods that are not evaluated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Exemptions {
    /// Users; their requests are not evaluated.
    pub usernames: Vec<String>,
    /// The namespaces in which nothing is evaluated.
    pub namespaces: Vec<String>,
    /// The runtime classes of pods that are not evaluated.
    pub runtime_classes: Vec<String>,
}

/// A configuration, or the file that contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// The configuration.
    Inline(Box<PodSecurity>),
    /// The path in an `AdmissionConfiguration`, relative to its own file.
    File(String),
}

/// The error of a configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It is of another kind.
    #[error(
        "expected PodSecurityConfiguration of pod-security.admission.config.k8s.io/v1 or \
         AdmissionConfiguration of apiserver.config.k8s.io/v1, got {kind:?} of {api_version:?}"
    )]
    Kind {
        /// The kind.
        kind: String,
        /// The group and version.
        api_version: String,
    },
    /// It does not have the form of its kind.
    #[error(transparent)]
    Form(#[from] serde_json::Error),
    /// It configures other plugins only, or this one twice, or not at all.
    #[error("{0}")]
    Plugin(&'static str),
    /// A value is not allowed.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<FieldError>),
}

const GROUP: &str = "pod-security.admission.config.k8s.io";
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];
const PLUGIN: &str = "PodSecurity";

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ConfigFile {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default)]
    defaults: Defaults,
    #[serde(default)]
    exemptions: Exemptions,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Defaults {
    enforce: String,
    enforce_version: String,
    audit: String,
    audit_version: String,
    warn: String,
    warn_version: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct AdmissionFile {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default)]
    plugins: Vec<Plugin>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Plugin {
    name: String,
    #[serde(default)]
    path: String,
    configuration: Option<Value>,
}

impl PodSecurity {
    /// Reads a `PodSecurityConfiguration`, or the one in an `AdmissionConfiguration`. Unlike in
    /// Kubernetes, fields that are not known are errors: a misspelt default would allow everything.
    ///
    /// # Errors
    ///
    /// If the configuration is of another kind, or has a field or value that is not allowed.
    pub fn read(config: Value) -> Result<ConfigSource, ConfigError> {
        match kind_of(&config) {
            (group, version, "PodSecurityConfiguration")
                if group == GROUP && VERSIONS.contains(&version) =>
            {
                let file: ConfigFile = serde_json::from_value(config)?;
                let read = Self::validated(file).map_err(ConfigError::Invalid)?;
                Ok(ConfigSource::Inline(Box::new(read)))
            }
            ("apiserver.config.k8s.io", "v1", "AdmissionConfiguration") => {
                Self::of_plugin(find_plugin(config)?)
            }
            (.., kind) => Err(ConfigError::Kind {
                kind: kind.to_owned(),
                api_version: config["apiVersion"].as_str().unwrap_or_default().to_owned(),
            }),
        }
    }

    fn of_plugin(plugin: Plugin) -> Result<ConfigSource, ConfigError> {
        match plugin.configuration {
            None if plugin.path.is_empty() => {
                let why = "the plugin PodSecurity has neither a configuration nor a path";
                Err(ConfigError::Plugin(why))
            }
            None => Ok(ConfigSource::File(plugin.path)),
            Some(config) if kind_of(&config).2 == "AdmissionConfiguration" => {
                let why = "the configuration of a plugin is no AdmissionConfiguration";
                Err(ConfigError::Plugin(why))
            }
            Some(config) => Self::read(config),
        }
    }

    fn validated(file: ConfigFile) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let defaults = file.defaults;
        let policy = Policy {
            enforce: read_mode(
                "enforce",
                &defaults.enforce,
                &defaults.enforce_version,
                &mut errors,
            ),
            warn: read_mode("warn", &defaults.warn, &defaults.warn_version, &mut errors),
            audit: read_mode(
                "audit",
                &defaults.audit,
                &defaults.audit_version,
                &mut errors,
            ),
        };
        file.exemptions.validate(&mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Self {
            defaults: policy,
            exemptions: file.exemptions,
        })
    }
}

impl Exemptions {
    pub(super) fn has_namespace(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|exempt| exempt == namespace)
    }

    pub(super) fn has_user(&self, username: &str) -> bool {
        self.usernames.iter().any(|exempt| exempt == username)
    }

    pub(super) fn has_runtime_class(&self, class: Option<&str>) -> bool {
        let exempt = &self.runtime_classes;
        class.is_some_and(|class| exempt.iter().any(|exempt| exempt == class))
    }

    fn validate(&self, errors: &mut Vec<FieldError>) {
        validate_list("namespaces", &self.namespaces, text::dns_label, errors);
        validate_list(
            "runtimeClasses",
            &self.runtime_classes,
            text::dns_subdomain,
            errors,
        );
        let username = |name: &str| match name {
            "" => vec!["username must not be empty".to_owned()],
            _ => Vec::new(),
        };
        validate_list("usernames", &self.usernames, username, errors);
    }
}

/// Reads the level and version of a mode; what is absent is `privileged` and `latest`.
fn read_mode(mode: &str, level: &str, version: &str, errors: &mut Vec<FieldError>) -> LevelVersion {
    let mut read = LevelVersion::PRIVILEGED;
    if !level.is_empty() {
        match Level::parse(level) {
            Ok(level) => read.level = level,
            Err(why) => errors.push(FieldError::invalid_text(
                format!("defaults.{mode}"),
                level,
                why,
            )),
        }
    }
    if !version.is_empty() {
        match Version::parse(version) {
            Ok(version) => read.version = version,
            Err(why) => errors.push(FieldError::invalid_text(
                format!("defaults.{mode}-version"),
                version,
                why,
            )),
        }
    }
    read
}

fn validate_list(
    list: &str,
    values: &[String],
    validate: impl Fn(&str) -> Vec<String>,
    errors: &mut Vec<FieldError>,
) {
    for (index, value) in values.iter().enumerate() {
        let field = format!("exemptions.{list}[{index}]");
        let wrong = validate(value);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid_text(field, value, &wrong.join(", ")));
        } else if values[..index].contains(value) {
            errors.push(FieldError::duplicate(field, &value.as_str().into()));
        }
    }
}

/// The group, version and kind of a configuration.
fn kind_of(config: &Value) -> (&str, &str, &str) {
    let text = |member: &str| config[member].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or_default();
    (group, version, text("kind"))
}

fn find_plugin(config: Value) -> Result<Plugin, ConfigError> {
    let file: AdmissionFile = serde_json::from_value(config)?;
    let mut plugins = file.plugins.into_iter();
    let found = plugins.find(|plugin| plugin.name == PLUGIN);
    let found = found.ok_or(ConfigError::Plugin("it does not configure PodSecurity"))?;
    match plugins.any(|plugin| plugin.name == PLUGIN) {
        true => Err(ConfigError::Plugin("it configures PodSecurity twice")),
        false => Ok(found),
    }
}
