//! The Deployments of operators and of the webhooks.

use insula_operator::manifests::{Deployment, Operator};
use serde_json::{Value, json};

use super::tenant::{ManagedIdentity, Tenant};
use super::{DEPLOYMENT, Operators, Settings};
use crate::entra::assertion::{AUDIENCE, TOKEN_FILE};
use crate::names::{RELEASE, SETTINGS_SECRET, VERSION_LABEL};
use crate::webhooks;

/// The settings that pods get from the Secret with the settings, if it has them.
const FROM_SECRET: &[&str] = &[
    "AZURE_TARGET_NAMESPACES",
    "AZURE_SUBSCRIPTION_ID",
    "AZURE_TENANT_ID",
    "AZURE_CLIENT_ID",
    "AZURE_CLIENT_SECRET",
    "AZURE_CLIENT_CERTIFICATE",
    "AZURE_CLIENT_CERTIFICATE_PASSWORD",
    "AZURE_USE_MI",
    "USE_WORKLOAD_IDENTITY_AUTH",
    "AZURE_WORKLOAD_IDENTITY_AUTH_MODE",
    "AZURE_OPERATOR_AUTH_SOURCE_MODE",
    "AZURE_ADDITIONAL_TENANTS",
    "AZURE_CLOUD_ENV",
    "AZURE_AUTHORITY_HOST",
    "AZURE_RESOURCE_MANAGER_ENDPOINT",
    "AZURE_RESOURCE_MANAGER_AUDIENCE",
    "ALLOW_MULTI_ENV_MANAGEMENT",
    "AZURE_SYNC_PERIOD",
    "MAX_CONCURRENT_RECONCILES",
    "RATE_LIMIT_MODE",
    "RATE_LIMIT_QPS",
    "RATE_LIMIT_BUCKET_SIZE",
    "DEFAULT_RECONCILE_POLICY",
    "AZURE_USER_AGENT_SUFFIX",
    "TLS_MIN_VERSION",
];

/// The label that assigns an identity to a pod, and its value.
pub(super) const IDENTITY_LABEL: (&str, &str) = ("aadpodidbinding", "aso_manager_binding");
/// How long a token of the service account is valid.
const TOKEN_SECONDS: u32 = 3600;
const TOKEN_VOLUME: &str = "azure-identity";

/// Returns the Deployment of the cluster: an operator, or webhooks only.
pub(super) fn of_cluster(operator: &Operator<'_>, image: &str, settings: &Settings) -> Value {
    let mut arguments = vec!["operator".to_owned(), "azure".to_owned()];
    if settings.service.name != webhooks::SERVICE {
        let name = settings.service.name.clone();
        arguments.extend(["--webhook-service".to_owned(), name]);
    }
    let tenants = settings.operators == Operators::AllSpaces;
    arguments.extend(tenants.then(|| "--tenants".to_owned()));
    let port = settings.service.target_port;
    let mut deployment = base(operator, image, arguments, Some(port));
    match settings.operators {
        Operators::PerTenant => {
            webhooks_only(&mut deployment);
        }
        Operators::Global | Operators::AllSpaces => {
            let mode = value("AZURE_OPERATOR_MODE", "watchers-and-webhooks");
            let env = own_names().into_iter().chain([mode]);
            container(&mut deployment)["env"] = env.chain(from_secret(&[])).collect();
            mount_token(&mut deployment);
        }
    }
    deployment
}

/// Returns the Deployment of a tenant's operator.
pub(super) fn of_tenant(operator: &Operator<'_>, tenant: &Tenant) -> Value {
    let arguments = ["operator", "azure"].map(str::to_owned).to_vec();
    let mut deployment = base(operator, &tenant.image, arguments, None);
    let mut given = vec![
        value("AZURE_OPERATOR_MODE", "watchers"),
        value("AZURE_TARGET_NAMESPACES", &tenant.namespaces.join(",")),
    ];
    if let Some(ManagedIdentity { client_id, .. }) = &tenant.managed_identity {
        given.push(value("AZURE_USE_MI", "1"));
        given.push(value("AZURE_CLIENT_ID", client_id));
        let (label, value) = IDENTITY_LABEL;
        deployment["spec"]["template"]["metadata"]["labels"][label] = value.into();
    }
    let names: Vec<_> = given.iter().map(|one| one["name"].clone()).collect();
    let env = own_names().into_iter().chain(given);
    container(&mut deployment)["env"] = env.chain(from_secret(&names)).collect();
    mount_token(&mut deployment);
    deployment
}

fn base(
    operator: &Operator<'_>,
    image: &str,
    arguments: Vec<String>,
    webhook_port: Option<u16>,
) -> Value {
    let mut deployment = operator.deployment(&Deployment {
        name: DEPLOYMENT,
        image,
        arguments,
        container: "manager",
        requests: ("50m", "64Mi"),
        mounted_secrets: &[],
        webhook_port,
    });
    deployment["metadata"]["labels"][VERSION_LABEL] = RELEASE.into();
    deployment
}

/// Makes a Deployment one that serves webhooks and nothing else: every replica does, without a
/// Lease, and it is ready when it has a certificate.
fn webhooks_only(deployment: &mut Value) {
    deployment["spec"]["replicas"] = 2.into();
    let container = container(deployment);
    container["env"] = json!([own_namespace(), value("AZURE_WEBHOOK_ONLY", "1")]);
    container["readinessProbe"] = json!({
        "httpGet": {"path": "/healthz", "port": "webhooks", "scheme": "HTTPS"},
    });
    if let Some(arguments) = container["args"].as_array_mut() {
        arguments.retain(|argument| argument != "--leader-elect");
    }
}

/// Mounts the token of the service account that Entra ID exchanges.
fn mount_token(deployment: &mut Value) {
    let path = std::path::Path::new(TOKEN_FILE);
    let (folder, file) = (path.parent(), path.file_name());
    let folder = folder.map(|it| it.display().to_string());
    let file = file.map(|it| it.display().to_string());
    container(deployment)["volumeMounts"] = json!([
        {"name": TOKEN_VOLUME, "mountPath": folder, "readOnly": true},
    ]);
    let token = json!({
        "path": file, "audience": AUDIENCE, "expirationSeconds": TOKEN_SECONDS,
    });
    deployment["spec"]["template"]["spec"]["volumes"] = json!([{
        "name": TOKEN_VOLUME,
        "projected": {"sources": [{"serviceAccountToken": token}]},
    }]);
}

fn container(deployment: &mut Value) -> &mut Value {
    &mut deployment["spec"]["template"]["spec"]["containers"][0]
}

fn own_names() -> [Value; 2] {
    let pod = json!({
        "name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
    });
    [pod, own_namespace()]
}

fn own_namespace() -> Value {
    json!({
        "name": "POD_NAMESPACE",
        "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
    })
}

fn value(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}

/// Returns the settings that the Secret may have, without those that have a value.
fn from_secret(given: &[Value]) -> impl Iterator<Item = Value> {
    let names = FROM_SECRET.iter().filter(|name| {
        let mut given = given.iter();
        !given.any(|given| given == **name)
    });
    names.map(|name| {
        let key = json!({"name": SETTINGS_SECRET, "key": name, "optional": true});
        json!({"name": name, "valueFrom": {"secretKeyRef": key}})
    })
}
