//! The operators of a cluster, as far as the caller may see them: their Deployments, and what they
//! wrote on objects.

use std::collections::BTreeMap;
use std::fmt;

use kube::Client;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::api::{List, Metadata, status_code};
use super::release::{AZURE_SERVICE_OPERATOR, INSULA, INSULA_MANIFESTS, NAME_LABEL, Release};
use super::{Definition, Error};
use crate::names::{
    LAST_RECONCILED_VERSION, OPERATOR_NAMESPACE, OPERATOR_NAMESPACE_V2, SYSTEM_OPERATOR,
};

/// An operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantOperator {
    /// Its namespace.
    pub namespace: String,
    /// How it was found.
    pub found: Found,
    /// Its release, if it is known.
    pub release: Option<Release>,
    /// Whether it serves webhooks only.
    pub is_webhook_only: bool,
}

/// How an operator was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It has this Deployment.
    Deployment(String),
    /// It reconciled this number of objects.
    Objects(u64),
    /// It reconciled objects of a tenant of an Insula.
    TenantObjects {
        /// The tenant.
        tenant: String,
        /// The number of objects.
        count: u64,
    },
}

/// All operators that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operators {
    /// The operators, in the order of namespaces.
    pub all: Vec<TenantOperator>,
    /// What the caller may not list: there may be further operators.
    pub not_listed: Vec<String>,
}

impl fmt::Display for TenantOperator {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.is_webhook_only {
            true => "webhooks",
            false => "operator",
        };
        write!(out, "{role} in namespace {} ", self.namespace)?;
        if let Found::TenantObjects { tenant, .. } = &self.found {
            write!(out, "of objects of tenant {tenant} ")?;
        }
        match &self.release {
            Some(release) => write!(out, "({release})"),
            None => write!(out, "(release not known)"),
        }
    }
}

/// A Deployment, as far as it says what it runs.
#[derive(Deserialize)]
struct Deployment {
    metadata: Metadata,
    spec: DeploymentSpec,
}

#[derive(Deserialize)]
struct DeploymentSpec {
    replicas: Option<i32>,
    template: Template,
}

#[derive(Deserialize)]
struct Template {
    #[serde(default)]
    metadata: Metadata,
    spec: PodSpec,
}

#[derive(Deserialize)]
struct PodSpec {
    #[serde(default)]
    containers: Vec<Container>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Container {
    image: String,
    env: Vec<Variable>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    value: Option<String>,
}

/// An object with its metadata only.
#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

/// The operators that objects name, by their namespaces and the tenants of the objects.
type SeenOperators = BTreeMap<(String, Option<String>), Seen>;

/// What the objects say about an operator.
#[derive(Default)]
struct Seen {
    objects: u64,
    newest: Option<Release>,
}

impl Operators {
    /// Finds the operators: by their Deployments, and by the annotations of objects of these
    /// definitions. A Deployment says more than objects do.
    ///
    /// # Errors
    ///
    /// If a list fails for another reason than missing rights.
    pub async fn find(client: &Client, definitions: &[Definition]) -> Result<Self, Error> {
        let mut found = Self::default();
        found.add_deployments(client).await?;
        let mut seen = SeenOperators::new();
        for definition in definitions {
            let list = List::of_metadata(definition.objects_path());
            let see = |object: Object| note(&mut seen, &object.metadata);
            let listed = list.each(client, see).await;
            found.allow_forbidden(definition.name(), listed)?;
        }
        found.add_seen(seen);
        Ok(found)
    }

    /// Adds operators with a Deployment that is not scaled to zero.
    async fn add_deployments(&mut self, client: &Client) -> Result<(), Error> {
        let names = [INSULA, INSULA_MANIFESTS, AZURE_SERVICE_OPERATOR].join(",");
        let selector = format!("{NAME_LABEL} in ({names})");
        let selector = utf8_percent_encode(&selector, NON_ALPHANUMERIC);
        let path = format!("/apis/apps/v1/deployments?labelSelector={selector}");
        let mut all = Vec::new();
        let see = |deployment: Deployment| {
            if deployment.spec.replicas != Some(0) {
                all.push(deployment.operator());
            }
        };
        let listed = List::new(path).each(client, see).await;
        self.allow_forbidden("deployments.apps", listed)?;
        self.all.extend(all);
        Ok(())
    }

    /// Adds operators without a known Deployment, which run elsewhere.
    ///
    /// A tenant may run an operator of its own in a namespace of the same name, and can write any
    /// release on its objects: these count for the system's operator only if they say the same.
    fn add_seen(&mut self, seen: SeenOperators) {
        for ((namespace, tenant), seen) in seen {
            let is_known = |known: &TenantOperator| {
                let is_same = tenant.is_none() || known.release == seen.newest;
                known.namespace == namespace && !known.is_webhook_only && is_same
            };
            if self.all.iter().any(is_known) {
                continue;
            }
            let count = seen.objects;
            self.all.push(TenantOperator {
                namespace,
                found: match tenant {
                    Some(tenant) => Found::TenantObjects { tenant, count },
                    None => Found::Objects(count),
                },
                release: seen.newest,
                is_webhook_only: false,
            });
        }
        self.all
            .sort_by(|one, other| one.namespace.cmp(&other.namespace));
    }

    fn allow_forbidden(
        &mut self,
        what: &str,
        listed: Result<(), kube::Error>,
    ) -> Result<(), Error> {
        match listed {
            Err(error) if status_code(&error) == Some(403) => {
                self.not_listed.push(what.to_owned());
                Ok(())
            }
            // The kind was removed meanwhile.
            Err(error) if status_code(&error) == Some(404) => Ok(()),
            other => other.map_err(|error| Error::new(format!("list {what}"), error)),
        }
    }
}

impl Deployment {
    fn operator(self) -> TenantOperator {
        let Template { metadata, spec } = self.spec.template;
        let name = self.metadata.labels.get(NAME_LABEL);
        let pod_labels = || {
            // The name on the Deployment says which product it is.
            let mut labels = metadata.labels.clone();
            labels.extend(name.map(|name| (NAME_LABEL.to_owned(), name.clone())));
            labels
        };
        let release = Release::of_labels(&self.metadata.labels)
            .or_else(|| Release::of_labels(&pod_labels()))
            .or_else(|| spec.containers.iter().find_map(Container::release));
        TenantOperator {
            is_webhook_only: spec.containers.iter().any(Container::is_webhook_only),
            namespace: self.metadata.namespace.unwrap_or_default(),
            found: Found::Deployment(self.metadata.name),
            release,
        }
    }
}

impl Container {
    /// Returns the release that the tag of an operator's image says.
    fn release(&self) -> Option<Release> {
        let image = self.image.split('@').next()?;
        let (_, tag) = image.rsplit_once(':')?;
        tag.parse().ok()
    }

    fn is_webhook_only(&self) -> bool {
        let value = |name: &str| {
            let variable = self.env.iter().find(|it| it.name == name);
            variable.and_then(|it| it.value.as_deref())
        };
        let mode = value("AZURE_OPERATOR_MODE");
        let only = value("AZURE_WEBHOOK_ONLY");
        mode.is_some_and(|mode| mode.eq_ignore_ascii_case("webhooks"))
            || only.is_some_and(|only| matches!(only, "1" | "t" | "T" | "true" | "TRUE" | "True"))
    }
}

/// Notes the operator of an object.
fn note(seen: &mut SeenOperators, metadata: &Metadata) {
    let names = [OPERATOR_NAMESPACE, OPERATOR_NAMESPACE_V2].into_iter();
    let mut values = names.filter_map(|name| metadata.annotations.get(name));
    let Some(namespace) = values.find(|value| !value.is_empty()) else {
        return;
    };
    // The system's operator has another name in the spaces of tenants.
    let of_system = namespace.strip_prefix(SYSTEM_OPERATOR);
    let namespace = of_system.unwrap_or(namespace).to_owned();
    let key = (namespace, metadata.tenant.clone());
    let entry = seen.entry(key).or_default();
    entry.objects += 1;
    // An operator reconciles its objects one after the other: its release is the newest one.
    let release = metadata.labels.get(LAST_RECONCILED_VERSION);
    let release = release.and_then(|text| text.parse().ok());
    entry.newest = entry.newest.take().max(release);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(labels: Value, pod: Value, image: &str, env: Value) -> TenantOperator {
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": "manager", "namespace": "acme-system", "labels": labels},
            "spec": {"template": {
                "metadata": {"labels": pod},
                "spec": {"containers": [{"image": image, "env": env}]},
            }},
        }))
        .unwrap();
        deployment.operator()
    }

    #[test]
    fn release_is_that_of_the_labels_else_of_the_image() {
        let version = json!({"app.kubernetes.io/version": "v2.19.0"});
        for (labels, pod, image, expected) in [
            (version.clone(), json!({}), "aso:v2.18.0", Some("v2.19.0")),
            (json!({}), version, "aso:v2.18.0", Some("v2.19.0")),
            (
                json!({}),
                json!({}),
                "h:5000/aso:v2.18.0@sha256:0",
                Some("v2.18.0"),
            ),
            (json!({}), json!({}), "h:5000/aso", None),
        ] {
            let found = deployment(labels, pod, image, json!([]));
            let release = found.release.map(|release| release.to_string());
            assert_eq!(release.as_deref(), expected);
            assert_eq!(found.found, Found::Deployment("manager".to_owned()));
        }
    }

    #[test]
    fn webhooks_are_told_from_operators_by_their_mode() {
        for (name, value, expected) in [
            ("AZURE_OPERATOR_MODE", "webhooks", true),
            ("AZURE_OPERATOR_MODE", "watchers", false),
            ("AZURE_WEBHOOK_ONLY", "1", true),
            ("AZURE_WEBHOOK_ONLY", "false", false),
        ] {
            let env = json!([{"name": name, "value": value}, {"name": "POD_NAMESPACE"}]);
            let found = deployment(json!({}), json!({}), "x", env);
            assert_eq!(found.is_webhook_only, expected, "{name}={value}");
        }
    }

    #[test]
    fn operator_of_objects_has_the_newest_release_that_they_name() {
        let mut seen = BTreeMap::new();
        for version in ["v2.19.0", "v2.20.0", "v2.18.0"] {
            let metadata = serde_json::from_value(json!({
                "name": "a",
                "annotations": {OPERATOR_NAMESPACE_V2: "acme-system"},
                "labels": {LAST_RECONCILED_VERSION: version},
            }));
            note(&mut seen, &metadata.unwrap());
        }
        note(&mut seen, &Metadata::default());
        let mut operators = Operators::default();
        operators.add_seen(seen);
        let expected = "operator in namespace acme-system (v2.20.0)";
        assert_eq!(operators.all.len(), 1);
        assert_eq!(operators.all[0].to_string(), expected);
        assert_eq!(operators.all[0].found, Found::Objects(3));
    }

    #[test]
    fn tenant_cannot_make_the_operator_of_others_look_newer_or_older() {
        let object = |tenant: Option<&str>, version: &str| {
            let metadata = serde_json::from_value(json!({
                "name": "a",
                "tenant": tenant,
                "annotations": {OPERATOR_NAMESPACE_V2: "acme-system"},
                "labels": {LAST_RECONCILED_VERSION: version},
            }));
            metadata.unwrap()
        };
        let mut seen = BTreeMap::new();
        for (tenant, version) in [
            (None, "v2.19.0"),
            (Some("blue"), "v2.19.0"),
            (Some("green"), "v2.20.0"),
            (Some("red"), "v2.18.0"),
        ] {
            note(&mut seen, &object(tenant, version));
        }
        let mut operators = Operators::default();
        operators.add_seen(seen);
        let found: Vec<_> = operators.all.iter().map(ToString::to_string).collect();
        let expected = [
            "operator in namespace acme-system (v2.19.0)",
            "operator in namespace acme-system of objects of tenant green (v2.20.0)",
            "operator in namespace acme-system of objects of tenant red (v2.18.0)",
        ];
        assert_eq!(found, expected);
    }
}
