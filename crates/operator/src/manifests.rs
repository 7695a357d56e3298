//! The Kubernetes objects of an operator: account, roles and Deployment.

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

use crate::roles::RBAC;
use crate::webhook::WebhookService;

/// The port of the health endpoints.
const HEALTH_PORT: u16 = 8080;

/// An operator that is installed.
#[derive(Clone, Copy, Debug)]
pub struct Operator<'a> {
    /// The value of the label `app.kubernetes.io/name` of all its objects.
    pub app: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its ServiceAccount.
    pub account: &'a str,
    /// The name of its roles and bindings.
    pub role: &'a str,
}

/// The Deployment of an operator.
#[derive(Clone, Debug)]
pub struct Deployment<'a> {
    /// Its name.
    pub name: &'a str,
    /// The image.
    pub image: &'a str,
    /// The arguments of the program, without those for leader election and health.
    pub arguments: Vec<String>,
    /// The name of the container.
    pub container: &'a str,
    /// CPU and memory that are requested.
    pub requests: (&'a str, &'a str),
    /// Secrets that are mounted: name and directory. They may be missing.
    pub mounted_secrets: &'a [(&'a str, &'a str)],
    /// The port of its webhooks, if it has any.
    pub webhook_port: Option<u16>,
}

impl Operator<'_> {
    /// Returns its namespace.
    pub fn namespace(&self) -> Value {
        let metadata = self.metadata(self.namespace);
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    }

    /// Returns its account, with these rules in all namespaces and these in its own.
    pub fn account_with_roles(&self, rules: &[PolicyRule], own_rules: &[PolicyRule]) -> Vec<Value> {
        let subject = json!({
            "kind": "ServiceAccount", "name": self.account, "namespace": self.namespace,
        });
        let reference = |kind: &str| json!({"apiGroup": RBAC, "kind": kind, "name": self.role});
        let version = format!("{RBAC}/v1");
        vec![
            json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": self.own_metadata(self.account),
            }),
            self.cluster_role(self.role, rules, None),
            json!({
                "apiVersion": version, "kind": "ClusterRoleBinding",
                "metadata": self.metadata(self.role),
                "roleRef": reference("ClusterRole"), "subjects": [subject],
            }),
            json!({
                "apiVersion": version, "kind": "Role",
                "metadata": self.own_metadata(self.role), "rules": own_rules,
            }),
            json!({
                "apiVersion": version, "kind": "RoleBinding",
                "metadata": self.own_metadata(self.role),
                "roleRef": reference("Role"), "subjects": [subject],
            }),
        ]
    }

    /// Returns a ClusterRole, which may be part of a default role such as `view`.
    pub fn cluster_role(
        &self,
        name: &str,
        rules: &[PolicyRule],
        aggregate_to: Option<&str>,
    ) -> Value {
        let mut metadata = self.metadata(name);
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

    /// Returns its Deployment. The Lease ensures that only one replica is active, also during a
    /// rollout.
    pub fn deployment(&self, deployment: &Deployment<'_>) -> Value {
        let labels = json!({ APP_LABEL: self.app });
        let volumes = deployment.mounted_secrets.iter().map(
            |(name, _)| json!({"name": name, "secret": {"secretName": name, "optional": true}}),
        );
        let mut pod = json!({
            "serviceAccountName": self.account,
            "securityContext": {
                "runAsNonRoot": true,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [deployment.container()],
        });
        if !deployment.mounted_secrets.is_empty() {
            pod["volumes"] = volumes.collect();
        }
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": self.own_metadata(deployment.name),
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        })
    }

    /// Returns the Service of its webhooks.
    pub fn webhook_service(&self, service: &WebhookService) -> Value {
        let mut manifest = service.manifest(&[(APP_LABEL, self.app)]);
        manifest["metadata"]["labels"] = json!({ APP_LABEL: self.app });
        manifest
    }

    /// Returns metadata of a cluster-scoped object.
    pub fn metadata(&self, name: &str) -> Value {
        json!({"name": name, "labels": {APP_LABEL: self.app}})
    }

    /// Returns metadata of an object in its namespace.
    pub fn own_metadata(&self, name: &str) -> Value {
        let mut metadata = self.metadata(name);
        metadata["namespace"] = self.namespace.into();
        metadata
    }
}

const APP_LABEL: &str = "app.kubernetes.io/name";

impl Deployment<'_> {
    fn container(&self) -> Value {
        let probe = |path: &str| json!({"httpGet": {"path": path, "port": "health"}});
        let mut arguments = self.arguments.clone();
        arguments.push("--leader-elect".to_owned());
        arguments.extend(["--health-addr".to_owned(), format!("0.0.0.0:{HEALTH_PORT}")]);
        let mut ports = vec![json!({"name": "health", "containerPort": HEALTH_PORT})];
        if let Some(port) = self.webhook_port {
            arguments.extend(["--webhook-addr".to_owned(), format!("0.0.0.0:{port}")]);
            ports.push(json!({"name": "webhooks", "containerPort": port}));
        }
        let (cpu, memory) = self.requests;
        let mut container = json!({
            "name": self.container,
            "image": self.image,
            "args": arguments,
            "env": [{
                "name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
            }],
            "ports": ports,
            "livenessProbe": probe("/livez"),
            "readinessProbe": probe("/readyz"),
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            },
            "resources": {
                "requests": {"cpu": cpu, "memory": memory},
                "limits": {"memory": "256Mi"},
            },
        });
        if !self.mounted_secrets.is_empty() {
            // A directory is mounted, not a file: only then do changes of the Secret arrive.
            let mounts = self.mounted_secrets.iter().map(
                |(name, directory)| json!({"name": name, "mountPath": directory, "readOnly": true}),
            );
            container["volumeMounts"] = mounts.collect();
        }
        container
    }
}
