//! Admission of custom resources: defaults and validation, the same for every kind.
//!
//! Each kind and version has a path and a webhook of its own, with the names that Azure Service
//! Operator has for them.

mod defaults;
mod validation;

use std::collections::BTreeMap;
use std::sync::Arc;

use insula_operator::webhook::injection::Target;
use insula_operator::webhook::manifest::AdmissionWebhook;
use insula_operator::webhook::{AdmissionRequest, AdmissionResponse, Router, WebhookService};
use serde_json::{Value, json};

use crate::mapping::export::Expressions;
use crate::names::SYSTEM_NAMESPACE;
use crate::table::Kind;

/// The Service of the webhooks.
pub const SERVICE: &str = "azureoperator-webhook-service";
/// The Secret with the serving certificate.
pub const CERTIFICATE_SECRET: &str = "webhook-server-cert";

/// Annotation that extends a configuration of the system to all tenants of an Insula.
const ADMIT_TENANTS: &str = "multi-tenancy.k8s.io/admit-tenants";

/// The operations that are reviewed.
const OPERATIONS: &[&str] = &["CREATE", "UPDATE"];

/// An evaluator of CEL expressions that handlers share.
pub type SharedExpressions = Arc<dyn Expressions + Send + Sync>;

/// Which objects are reviewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Those of the configuration's own space.
    Space,
    /// Also those of all tenants of an Insula.
    Tenants,
}

/// A kind with the names of the versions in which objects are reviewed.
#[derive(Clone, Debug)]
pub struct Reviewed {
    /// The kind.
    pub kind: Arc<Kind>,
    /// The names of versions.
    pub versions: Vec<String>,
}

impl Reviewed {
    /// Returns a kind with all its API versions and their twins.
    pub fn all(kind: &Kind) -> Self {
        let versions = kind.versions().iter();
        let names = versions.flat_map(|version| version.names().collect::<Vec<_>>());
        Self {
            kind: Arc::new(kind.clone()),
            versions: names.filter(|name| !name.ends_with("storage")).collect(),
        }
    }
}

/// Returns the Service in the usual namespace.
pub fn service() -> WebhookService {
    WebhookService::new(SYSTEM_NAMESPACE, SERVICE)
}

/// Adds the admission of kinds to a router. Expressions are validated if there is an evaluator.
pub fn route(
    router: Router,
    kinds: &[Reviewed],
    expressions: Option<&SharedExpressions>,
) -> Router {
    let pairs = kinds
        .iter()
        .flat_map(|it| it.versions.iter().map(move |version| (it, version)));
    pairs.fold(router, |router, (reviewed, version)| {
        let mutated = Arc::clone(&reviewed.kind);
        let validated = Arc::clone(&reviewed.kind);
        let expressions = expressions.cloned();
        router
            .mutating(&path("mutate", &mutated, version), move |request| {
                let response = mutate(&mutated, &request);
                async move { response }
            })
            .validating(&path("validate", &validated, version), move |request| {
                let response = validate(&validated, &request, expressions.as_deref());
                async move { response }
            })
    })
}

/// Sets the defaults of an object.
pub fn mutate(kind: &Kind, request: &AdmissionRequest) -> AdmissionResponse {
    let Some(object) = &request.object else {
        return AdmissionResponse::allow();
    };
    let is_deleted = object["metadata"]["deletionTimestamp"].is_string();
    let name = defaults::azure_name(kind, object, &request.namespace);
    match name.filter(|_| !is_deleted) {
        None => AdmissionResponse::allow(),
        Some(name) => {
            let mut after = object.clone();
            if !after["spec"].is_object() {
                after["spec"] = json!({});
            }
            after["spec"]["azureName"] = name.into();
            AdmissionResponse::allow_changed(request, &after)
        }
    }
}

/// Validates an object.
pub fn validate(
    kind: &Kind,
    request: &AdmissionRequest,
    expressions: Option<&(dyn Expressions + Send + Sync)>,
) -> AdmissionResponse {
    let Some(version) = kind.version(&request.kind.version) else {
        let version = &request.kind.version;
        return AdmissionResponse::deny(format!("{} has no version {version:?}", kind.kind()));
    };
    let expressions = expressions.map(|it| it as &dyn Expressions);
    let problems = validation::problems(kind, version, request, expressions);
    match problems.is_empty() {
        true => AdmissionResponse::allow(),
        false => AdmissionResponse::deny_with(422, "Invalid", problems.join("; ")),
    }
}

/// Returns the configurations for kinds: one of each type for each group.
pub fn configurations(service: &WebhookService, kinds: &[Reviewed], reach: Reach) -> Vec<Value> {
    let mut objects = Vec::new();
    for (group, kinds) in by_group(kinds) {
        let mutating = webhooks("mutate", "default", &kinds);
        let mutating: Vec<_> = mutating.iter().map(Webhook::borrow).collect();
        objects.push(service.mutating(&mutating_name(group), &mutating));
        let validating = webhooks("validate", "validate", &kinds);
        let validating: Vec<_> = validating.iter().map(Webhook::borrow).collect();
        objects.push(service.validating(&validating_name(group), &validating));
    }
    if reach == Reach::Tenants {
        for object in &mut objects {
            object["metadata"]["annotations"][ADMIT_TENANTS] = "true".into();
        }
    }
    objects
}

/// Returns the configurations that need the CA bundle of the webhooks. The definitions, which
/// need it for conversion, are not among them.
pub fn targets(kinds: &[Reviewed]) -> Vec<Target> {
    let groups = by_group(kinds).into_keys();
    let targets = groups.flat_map(|group| {
        [
            Target::Mutating(mutating_name(group)),
            Target::Validating(validating_name(group)),
        ]
    });
    targets.collect()
}

fn mutating_name(group: &str) -> String {
    format!("azureoperator-{group}-mwh")
}

fn validating_name(group: &str) -> String {
    format!("azureoperator-{group}-vwh")
}

fn by_group(kinds: &[Reviewed]) -> BTreeMap<&str, Vec<&Reviewed>> {
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for reviewed in kinds.iter().filter(|it| !it.versions.is_empty()) {
        groups
            .entry(reviewed.kind.group())
            .or_default()
            .push(reviewed);
    }
    groups
}

/// Returns the path of a handler.
fn path(verb: &str, kind: &Kind, version: &str) -> String {
    let group = kind.group().replace('.', "-");
    let name = kind.kind().to_ascii_lowercase();
    format!("/{verb}-{group}-{version}-{name}")
}

/// A webhook of one kind and version.
struct Webhook<'a> {
    name: String,
    path: String,
    group: &'a str,
    version: [&'a str; 1],
    resource: [&'a str; 1],
}

fn webhooks<'a>(verb: &str, prefix: &str, kinds: &[&'a Reviewed]) -> Vec<Webhook<'a>> {
    let of = |reviewed: &'a Reviewed, version: &'a String| {
        let kind = &reviewed.kind;
        let (group, plural) = (kind.group(), kind.plural());
        Webhook {
            name: format!("{prefix}.{version}.{plural}.{group}"),
            path: path(verb, kind, version),
            group,
            version: [version],
            resource: [plural],
        }
    };
    let pairs = kinds
        .iter()
        .flat_map(|it| it.versions.iter().map(move |version| (*it, version)));
    pairs.map(|(kind, version)| of(kind, version)).collect()
}

impl Webhook<'_> {
    fn borrow(&self) -> AdmissionWebhook<'_> {
        AdmissionWebhook {
            name: &self.name,
            path: &self.path,
            group: self.group,
            versions: &self.version,
            resources: &self.resource,
            operations: OPERATIONS,
            required: true,
        }
    }
}

#[cfg(test)]
mod tests;
