//! The objects to install: those of the cluster, and those of a tenant's operator.
//!
//! | part | applied by | objects |
//! |---|---|---|
//! | [`manifests`] | the administrator of the cluster, once | definitions, webhooks, the ClusterRole of operators |
//! | [`tenant_manifests`] | the administrator of the cluster or of the tenant | an operator for some namespaces, without any right outside of them |
//! | [`manifests`] with [`Operators::Global`] | the administrator of the cluster | both, for one operator in all namespaces |

mod deployment;
mod tenant;

use std::sync::Arc;

use insula_operator::manifests::Operator;
use insula_operator::roles::RBAC;
use insula_operator::webhook::WebhookService;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use serde_json::{Value, json};

pub use tenant::{ManagedIdentity, Tenant, tenant_manifests};

use crate::names::{RELEASE, VERSION_LABEL};
use crate::webhooks::{Reach, Reviewed};
use crate::{crds, roles, table, versions, webhooks};

/// The service account of operators, in their namespace.
pub const ACCOUNT: &str = "azureoperator-default";
/// The Deployment of operators and of the webhooks.
pub const DEPLOYMENT: &str = "azureoperator-controller-manager";
/// The label `app.kubernetes.io/name` of all objects.
const APP: &str = "azureoperator";

/// Annotation that publishes a definition to every tenant's space of an Insula.
pub(crate) const PUBLISHED: &str = "multi-tenancy.k8s.io/published";

/// How the part of the cluster is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The image to run. Without one, no Deployment is created: everything runs in the server.
    pub image: Option<String>,
    /// The operators that reconcile objects.
    pub operators: Operators,
    /// The kinds that webhooks review.
    pub kinds: ReviewedKinds,
    /// The Service of the webhooks, in the namespace of the operator.
    pub service: WebhookService,
    /// Whether definitions are left out, because those of Azure Service Operator stay.
    pub without_definitions: bool,
}

/// The operators that reconcile objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operators {
    /// One for each tenant, which is installed on its own: the cluster has webhooks only.
    PerTenant,
    /// One for all namespaces.
    Global,
    /// One for all namespaces and all tenants' spaces of an Insula.
    AllSpaces,
}

/// The kinds that webhooks review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewedKinds {
    /// Those with definitions of this operator.
    Own,
    /// All of the table, for clusters with definitions of Azure Service Operator.
    All,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            image: None,
            operators: Operators::PerTenant,
            kinds: ReviewedKinds::Own,
            service: webhooks::service(),
            without_definitions: false,
        }
    }
}

impl Operators {
    const fn is_global(self) -> bool {
        matches!(self, Self::Global | Self::AllSpaces)
    }
}

impl ReviewedKinds {
    /// Returns the kinds with their versions.
    pub fn list(self) -> Vec<Reviewed> {
        match self {
            Self::All => table::kinds().iter().map(Reviewed::all).collect(),
            Self::Own => {
                let definitions = crds::all(&webhooks::service().conversion(versions::PATH));
                definitions.iter().filter_map(reviewed).collect()
            }
        }
    }
}

/// Returns the kind of a definition with the versions that users write.
fn reviewed(definition: &CustomResourceDefinition) -> Option<Reviewed> {
    let spec = &definition.spec;
    let kind = table::find(&spec.group, &spec.names.kind)?;
    let versions = spec.versions.iter().filter(|version| !version.storage);
    Some(Reviewed {
        kind: Arc::new(kind.clone()),
        versions: versions.map(|version| version.name.clone()).collect(),
    })
}

/// Returns the definitions as they are installed.
pub fn definitions(settings: &Settings) -> Vec<CustomResourceDefinition> {
    let mut definitions = crds::all(&settings.service.conversion(versions::PATH));
    for definition in &mut definitions {
        let labels = [("app.kubernetes.io/name", APP), (VERSION_LABEL, RELEASE)];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
        definition.labels_mut().extend(labels);
    }
    if settings.operators == Operators::AllSpaces {
        for definition in &mut definitions {
            let published = (PUBLISHED.to_owned(), "true".to_owned());
            definition.annotations_mut().extend([published]);
        }
    }
    definitions
}

/// Returns the objects of the cluster, in the order in which they are created.
pub fn manifests(settings: &Settings) -> Vec<Value> {
    let operator = operator(&settings.service.namespace);
    let kinds = settings.kinds.list();
    let mut objects = vec![operator.namespace()];
    if !settings.without_definitions {
        // Every object of Kubernetes can be represented as JSON.
        let definitions = definitions(settings);
        let definitions = definitions.iter().map(serde_json::to_value);
        objects.extend(definitions.map(Result::unwrap_or_default));
    }
    objects.push(operator.cluster_role(roles::MANAGER, &roles::manager(), None));
    objects.push(account(&operator));
    objects.extend(rights(&operator, settings));
    if let Some(image) = &settings.image {
        objects.push(operator.webhook_service(&settings.service));
        objects.push(deployment::of_cluster(&operator, image, settings));
    }
    // After the program that answers them: it is asked about every later write.
    objects.extend(configurations(settings, &kinds));
    objects
}

fn operator(namespace: &str) -> Operator<'_> {
    Operator {
        app: APP,
        namespace,
        account: ACCOUNT,
        role: roles::OWN_NAMESPACE,
    }
}

fn configurations(settings: &Settings, kinds: &[Reviewed]) -> Vec<Value> {
    let reach = match settings.operators {
        Operators::AllSpaces => Reach::Tenants,
        Operators::Global | Operators::PerTenant => Reach::Space,
    };
    webhooks::configurations(&settings.service, kinds, reach)
}

/// Returns the rights of the operator of the cluster.
fn rights(operator: &Operator<'_>, settings: &Settings) -> Vec<Value> {
    // An operator in the server process has no certificate.
    let of_webhooks = match settings.image {
        Some(_) => roles::webhooks(),
        None => roles::definitions(),
    };
    let mut own = match settings.image {
        Some(_) => roles::webhooks_in_own_namespace(),
        None => Vec::new(),
    };
    let mut objects = vec![
        operator.cluster_role(roles::WEBHOOKS, &of_webhooks, None),
        cluster_role_binding(operator, roles::WEBHOOKS_BINDING, roles::WEBHOOKS),
    ];
    if settings.operators.is_global() {
        own.extend(roles::own_namespace());
        let all = roles::all_namespaces();
        objects.extend([
            operator.cluster_role(roles::ALL_NAMESPACES, &all, None),
            cluster_role_binding(
                operator,
                roles::ALL_NAMESPACES_BINDING,
                roles::ALL_NAMESPACES,
            ),
            cluster_role_binding(operator, roles::MANAGER_BINDING, roles::MANAGER),
        ]);
    }
    if !own.is_empty() {
        objects.extend(own_role(operator, &own));
    }
    objects
}

fn account(operator: &Operator<'_>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": operator.own_metadata(operator.account),
    })
}

/// Returns a Role in the operator's namespace, and its binding.
fn own_role(operator: &Operator<'_>, rules: &[PolicyRule]) -> [Value; 2] {
    let version = format!("{RBAC}/v1");
    let metadata = operator.own_metadata(operator.role);
    [
        json!({
            "apiVersion": version, "kind": "Role", "metadata": metadata, "rules": rules,
        }),
        json!({
            "apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": operator.role},
            "subjects": [subject(operator)],
        }),
    ]
}

fn cluster_role_binding(operator: &Operator<'_>, name: &str, role: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
        "metadata": operator.metadata(name),
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject(operator)],
    })
}

fn subject(operator: &Operator<'_>) -> Value {
    json!({
        "kind": "ServiceAccount", "name": operator.account, "namespace": operator.namespace,
    })
}

#[cfg(test)]
mod tests;
