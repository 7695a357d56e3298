//! The objects to install on a management cluster.

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

use crate::names::{ACCOUNT, NAMESPACE};
use crate::policy::{self, Reach};
use crate::{crds, roles};

/// The name of the operator's own roles and bindings.
const MANAGER: &str = "capv-manager";
/// The Secret with credentials for clusters that name no identity. It may be missing.
pub(crate) const CREDENTIALS: &str = "capv-manager-bootstrap-credentials";
/// The path at which the operator reads them.
pub const CREDENTIALS_FILE: &str = "/etc/capv/credentials.yaml";

const NAME: (&str, &str) = ("app.kubernetes.io/name", "insula-vsphere");
const RBAC: &str = "rbac.authorization.k8s.io";
/// The port of the health endpoints.
const HEALTH_PORT: u16 = 8080;

/// How the operator is deployed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The image to run. Without one, no Deployment is created.
    pub image: Option<String>,
    /// Whether it also works in all tenants' spaces of an Insula.
    pub tenants: bool,
}

/// Returns all objects, in the order in which they are created.
pub fn manifests(settings: &Settings) -> Vec<Value> {
    let reach = match settings.tenants {
        true => Reach::Tenants,
        false => Reach::Space,
    };
    let definitions = match settings.tenants {
        true => crds::published(),
        false => crds::all(),
    };
    let mut objects = vec![namespace()];
    objects.extend(definitions.iter().map(definition));
    objects.extend(policy::policies(reach));
    objects.extend(user_roles());
    objects.extend(operator_objects(settings.tenants));
    if let Some(image) = &settings.image {
        objects.push(deployment(image, settings.tenants));
    }
    objects
}

/// Returns the objects that a tenant's space needs in addition: kinds and policies are published
/// to it, and the operator runs in the system's space.
pub fn tenant_manifests() -> Vec<Value> {
    let mut objects = vec![namespace()];
    objects.extend(user_roles());
    objects
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(NAMESPACE)})
}

fn definition(
    definition: &k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
) -> Value {
    // Every object of Kubernetes can be represented as JSON.
    serde_json::to_value(definition).unwrap_or_default()
}

/// Returns the roles for users. The viewer's rights are part of the role `view`. The workload
/// role is not part of `edit`, because clusters without an identity use the operator's account.
fn user_roles() -> Vec<Value> {
    vec![
        cluster_role(roles::PROVIDER, roles::provider(), None),
        cluster_role(roles::MANAGER, roles::manager(), None),
        cluster_role(roles::WORKLOAD, roles::workload(), None),
        cluster_role(roles::VIEWER, roles::viewer(), Some("view")),
        cluster_role(roles::IDENTITY_VIEWER, roles::identity_viewer(), None),
    ]
}

fn operator_objects(tenants: bool) -> Vec<Value> {
    let mut rules = roles::operator();
    if tenants {
        rules.extend(roles::operator_for_tenants());
    }
    let subjects = json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]);
    let bound = |kind: &str| json!({"apiGroup": RBAC, "kind": kind, "name": MANAGER});
    let here = |name: &str| {
        let mut metadata = metadata(name);
        metadata["namespace"] = NAMESPACE.into();
        metadata
    };
    let version = format!("{RBAC}/v1");
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": here(ACCOUNT)}),
        cluster_role(MANAGER, rules, None),
        json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": metadata(MANAGER),
            "roleRef": bound("ClusterRole"), "subjects": subjects}),
        json!({"apiVersion": version, "kind": "Role", "metadata": here(MANAGER),
            "rules": roles::operator_in_own_namespace()}),
        json!({"apiVersion": version, "kind": "RoleBinding", "metadata": here(MANAGER),
            "roleRef": bound("Role"), "subjects": subjects}),
    ]
}

fn cluster_role(name: &str, rules: Vec<PolicyRule>, aggregate_to: Option<&str>) -> Value {
    let mut metadata = metadata(name);
    if let Some(aggregate_to) = aggregate_to {
        metadata["labels"][format!("{RBAC}/aggregate-to-{aggregate_to}")] = "true".into();
    }
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": rules,
    })
}

/// Returns the operator's Deployment. The Lease ensures that only one replica is active, also
/// during a rollout.
fn deployment(image: &str, tenants: bool) -> Value {
    let labels = json!({ NAME.0: NAME.1 });
    let mut metadata = metadata("capv-controller-manager");
    metadata["namespace"] = NAMESPACE.into();
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": ACCOUNT,
                    "securityContext": {
                        "runAsNonRoot": true,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [container(image, tenants)],
                    // Optional: the Secret may be created later.
                    "volumes": [{
                        "name": "credentials",
                        "secret": {"secretName": CREDENTIALS, "optional": true},
                    }],
                },
            },
        },
    })
}

fn container(image: &str, tenants: bool) -> Value {
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "health"}});
    let mut arguments = vec![
        "operator".to_owned(),
        "vsphere".to_owned(),
        "--leader-elect".to_owned(),
    ];
    arguments.extend(["--health-addr".to_owned(), format!("0.0.0.0:{HEALTH_PORT}")]);
    if tenants {
        arguments.push("--tenants".to_owned());
    }
    json!({
        "name": "manager",
        "image": image,
        "args": arguments,
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [{"name": "health", "containerPort": HEALTH_PORT}],
        "livenessProbe": probe("/livez"),
        "readinessProbe": probe("/readyz"),
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {
            "requests": {"cpu": "50m", "memory": "96Mi"},
            "limits": {"memory": "256Mi"},
        },
        // The directory is mounted, not the file: only then do changes of the Secret arrive.
        "volumeMounts": [{"name": "credentials", "mountPath": "/etc/capv", "readOnly": true}],
    })
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "labels": {NAME.0: NAME.1}})
}
