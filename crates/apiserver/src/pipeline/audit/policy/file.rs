//! The file of a policy: reading and validation.

use insula_kinds::text::dns_subdomain;
use insula_kinds::{FieldError, Value};
use serde::{Deserialize, Deserializer};

use super::rule::{GroupResources, Names, PathPattern, ResourcePattern, Rule, Scope, TENANT_GROUP};
use super::{Level, Policy, RequestAudit, Stage, Stages};

/// The error of a policy that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// It is not YAML or JSON.
    #[error("{0}")]
    Syntax(String),
    /// It is of another kind or version.
    #[error("unknown group version field {api_version}, Kind={kind} in policy")]
    Kind {
        /// The group and version.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// It does not have the form of a policy.
    #[error(transparent)]
    Form(#[from] serde_json::Error),
    /// Values are not allowed.
    #[error("{}", aggregate(.0))]
    Invalid(Vec<FieldError>),
    /// It records nothing at all.
    #[error("loaded illegal policy with 0 rules")]
    Empty,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PolicyFile {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: Value,
    #[serde(default, deserialize_with = "or_empty")]
    rules: Vec<RuleFile>,
    #[serde(default, deserialize_with = "or_empty")]
    omit_stages: Vec<String>,
    #[serde(default)]
    omit_managed_fields: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct RuleFile {
    level: String,
    #[serde(deserialize_with = "or_empty")]
    users: Vec<String>,
    #[serde(deserialize_with = "or_empty")]
    user_groups: Vec<String>,
    #[serde(deserialize_with = "or_empty")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "or_empty")]
    resources: Vec<ResourcesFile>,
    #[serde(deserialize_with = "or_empty")]
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "or_empty")]
    non_resource_urls: Vec<String>,
    #[serde(deserialize_with = "or_empty")]
    omit_stages: Vec<String>,
    omit_managed_fields: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ResourcesFile {
    group: String,
    #[serde(deserialize_with = "or_empty")]
    resources: Vec<String>,
    #[serde(deserialize_with = "or_empty")]
    resource_names: Vec<String>,
}

const API_VERSION: &str = "audit.k8s.io/v1";

/// Reads a list; `null` is an empty one, as in Go.
fn or_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl Policy {
    /// Reads a policy in YAML or JSON. Unlike in Kubernetes, fields that are not known are
    /// errors: a misspelt condition would make its rule match everything.
    ///
    /// # Errors
    ///
    /// If it is not a policy, or not a valid one.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let value: Value =
            serde_saphyr::from_str(text).map_err(|error| PolicyError::Syntax(error.to_string()))?;
        let member = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (member("apiVersion"), member("kind"));
        if api_version != API_VERSION || kind != "Policy" {
            return Err(PolicyError::Kind { api_version, kind });
        }
        let file: PolicyFile = serde_json::from_value(value)?;
        let errors = validate(&file);
        if !errors.is_empty() {
            return Err(PolicyError::Invalid(errors));
        }
        match file.rules.is_empty() {
            true => Err(PolicyError::Empty),
            false => Ok(compile(file)),
        }
    }
}

/// Several errors as Go's aggregates print them.
fn aggregate(errors: &[FieldError]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    }
}

fn validate(file: &PolicyFile) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_stages(&file.omit_stages, "omitStages", &mut errors);
    for (index, rule) in file.rules.iter().enumerate() {
        validate_rule(rule, &format!("rules[{index}]"), &mut errors);
    }
    errors
}

fn validate_rule(rule: &RuleFile, at: &str, errors: &mut Vec<FieldError>) {
    let names = Level::ALL.map(Level::as_str);
    if rule.level.is_empty() {
        errors.push(FieldError::required(format!("{at}.level"), ""));
    } else if Level::parse(&rule.level).is_none() {
        let level = Value::from(rule.level.as_str());
        errors.push(FieldError::not_supported(
            format!("{at}.level"),
            &level,
            &names,
        ));
    }
    let urls = format!("{at}.nonResourceURLs");
    for (index, url) in rule.non_resource_urls.iter().enumerate() {
        validate_url(url, &format!("{urls}[{index}]"), errors);
    }
    for resources in &rule.resources {
        validate_resources(resources, &format!("{at}.resources"), errors);
    }
    validate_stages(&rule.omit_stages, &format!("{at}.omitStages"), errors);
    let of_resources = !rule.resources.is_empty() || !rule.namespaces.is_empty();
    if !rule.non_resource_urls.is_empty() && of_resources {
        let value = Value::from(rule.non_resource_urls.clone());
        let detail = "rules cannot apply to both regular resources and non-resource URLs";
        errors.push(FieldError::invalid(urls, &value, detail));
    }
}

fn validate_url(url: &str, at: &str, errors: &mut Vec<FieldError>) {
    if url == "*" {
        return;
    }
    if !url.starts_with('/') {
        let detail = "non-resource URL rules must begin with a '/' character";
        errors.push(FieldError::invalid_text(at, url, detail));
    }
    let mut characters = url.chars();
    characters.next_back();
    if characters.any(|character| character == '*') {
        let detail = "non-resource URL wildcards '*' must be the final character of the rule";
        errors.push(FieldError::invalid_text(at, url, detail));
    }
}

fn validate_resources(of: &ResourcesFile, at: &str, errors: &mut Vec<FieldError>) {
    if !of.group.is_empty() && of.group != "*" {
        let messages = dns_subdomain(&of.group);
        if !messages.is_empty() {
            let detail = messages.join(",");
            errors.push(FieldError::invalid_text(
                format!("{at}.group"),
                &of.group,
                &detail,
            ));
        }
    }
    if !of.resource_names.is_empty() && of.resources.is_empty() {
        let value = Value::from(of.resource_names.clone());
        let detail = "using resourceNames requires at least one resource";
        errors.push(FieldError::invalid(
            format!("{at}.resourceNames"),
            &value,
            detail,
        ));
    }
}

fn validate_stages(stages: &[String], at: &str, errors: &mut Vec<FieldError>) {
    for (index, stage) in stages.iter().enumerate() {
        if Stage::parse(stage).is_none() {
            let allowed = Stage::ALL.map(Stage::as_str).join(",");
            let detail = format!("allowed stages are {allowed}");
            errors.push(FieldError::invalid_text(
                format!("{at}[{index}]"),
                stage,
                &detail,
            ));
        }
    }
}

fn compile(file: PolicyFile) -> Policy {
    let unmatched = RequestAudit {
        level: Level::None,
        omitted: stages(&file.omit_stages),
        omit_managed_fields: file.omit_managed_fields.unwrap_or_default(),
    };
    let rules = file.rules.into_iter();
    Policy {
        rules: rules.map(|rule| compile_rule(rule, unmatched)).collect(),
        unmatched,
    }
}

fn compile_rule(rule: RuleFile, of_policy: RequestAudit) -> Rule {
    let is_tenant = |group: &String| group.starts_with(TENANT_GROUP);
    let (tenants, groups): (Vec<_>, Vec<_>) = rule.user_groups.into_iter().partition(is_tenant);
    let tenants = tenants
        .iter()
        .filter_map(|group| group.strip_prefix(TENANT_GROUP));
    Rule {
        audit: RequestAudit {
            level: Level::parse(&rule.level).unwrap_or(Level::None),
            omitted: of_policy.omitted.union(stages(&rule.omit_stages)),
            omit_managed_fields: rule
                .omit_managed_fields
                .unwrap_or(of_policy.omit_managed_fields),
        },
        users: rule.users.into_iter().collect(),
        groups: groups.into_iter().collect(),
        tenants: tenants.collect(),
        verbs: rule.verbs.into_iter().collect(),
        scope: match (rule.resources.is_empty(), rule.non_resource_urls.is_empty()) {
            (true, true) if rule.namespaces.is_empty() => Scope::Any,
            (true, false) => {
                let paths = rule.non_resource_urls.iter();
                Scope::Paths(paths.map(|path| PathPattern::parse(path)).collect())
            }
            _ => Scope::Resources {
                namespaces: rule.namespaces.into_iter().collect(),
                resources: rule.resources.into_iter().map(compile_resources).collect(),
            },
        },
    }
}

fn compile_resources(of: ResourcesFile) -> GroupResources {
    let patterns = of.resources.iter();
    GroupResources {
        group: (of.group != "*").then(|| of.group.as_str().into()),
        resources: patterns.map(|one| ResourcePattern::parse(one)).collect(),
        names: of.resource_names.into_iter().collect::<Names>(),
    }
}

fn stages(names: &[String]) -> Stages {
    let stages = names.iter().filter_map(|name| Stage::parse(name));
    stages.fold(Stages::default(), Stages::with)
}
