//! Clusters and machines of a team, as users and Cluster API create them.

use insula_metal3::kinds::machine::Metal3MachineTemplate;
use kube::Api;
use serde_json::{Value, json};

use super::Space;

const CAPI: &str = "cluster.x-k8s.io/v1beta2";
const OURS: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

impl Space {
    /// Creates a Cluster and a Metal3Cluster with this spec, which has an endpoint unless it says
    /// otherwise.
    pub async fn cluster(&self, namespace: &str, name: &str, spec: Value) -> anyhow::Result<()> {
        let mut whole = json!({"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}});
        merge(&mut whole, spec);
        let metadata = json!({"name": name, "namespace": namespace});
        self.put(&json!({
            "apiVersion": OURS, "kind": "Metal3Cluster", "metadata": metadata, "spec": whole,
        }))
        .await?;
        self.put(&json!({
            "apiVersion": CAPI, "kind": "Cluster",
            "metadata": {
                "name": name, "namespace": namespace, "finalizers": ["cluster.cluster.x-k8s.io"],
            },
            "spec": {"infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Cluster",
                "name": name,
            }},
        }))
        .await?;
        Ok(())
    }

    /// Creates a template for machines with this spec, which has an image unless it says otherwise.
    pub async fn template(&self, namespace: &str, name: &str, spec: Value) -> anyhow::Result<()> {
        let mut whole = json!({"image": {
            "url": "http://images.test/node.qcow2", "checksum": "sum", "checksumType": "sha256",
            "diskFormat": "qcow2",
        }});
        merge(&mut whole, spec);
        let metadata = json!({"name": name, "namespace": namespace});
        self.put(&json!({
            "apiVersion": OURS, "kind": "Metal3MachineTemplate", "metadata": metadata,
            "spec": {"template": {"spec": whole}},
        }))
        .await?;
        Ok(())
    }

    /// Creates a Machine of a cluster with bootstrap data, and a Metal3Machine of the same name
    /// from a template.
    pub async fn machine(
        &self,
        namespace: &str,
        cluster: &str,
        name: &str,
        template: &str,
    ) -> anyhow::Result<()> {
        self.machine_with(namespace, cluster, name, template, json!({}))
            .await
    }

    /// The same, with a merge patch of the Machine.
    pub async fn machine_with(
        &self,
        namespace: &str,
        cluster: &str,
        name: &str,
        template: &str,
        change: Value,
    ) -> anyhow::Result<()> {
        let labels = json!({"cluster.x-k8s.io/cluster-name": cluster});
        let bootstrap = format!("{name}-bootstrap");
        self.put(&json!({
            "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": {"name": bootstrap, "namespace": namespace, "labels": labels},
            "stringData": {"value": bootstrap_data(namespace, name), "format": "cloud-config"},
        }))
        .await?;
        self.clone_template(namespace, template, name, &labels)
            .await?;
        let mut machine = json!({
            "apiVersion": CAPI, "kind": "Machine",
            "metadata": {
                "name": name, "namespace": namespace, "labels": labels,
                "finalizers": ["machine.cluster.x-k8s.io"],
            },
            "spec": {
                "clusterName": cluster,
                "bootstrap": {"dataSecretName": bootstrap},
                "infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Machine",
                    "name": name,
                },
            },
        });
        merge(&mut machine, change);
        self.put(&machine).await?;
        Ok(())
    }

    /// Creates a Metal3Machine from a template, as a MachineSet does.
    async fn clone_template(
        &self,
        namespace: &str,
        template: &str,
        name: &str,
        labels: &Value,
    ) -> anyhow::Result<()> {
        let templates: Api<Metal3MachineTemplate> = self.api(namespace);
        let found = templates.get(template).await?;
        let annotations = json!({
            "cluster.x-k8s.io/cloned-from-name": template,
            "cluster.x-k8s.io/cloned-from-groupkind":
                "Metal3MachineTemplate.infrastructure.cluster.x-k8s.io",
        });
        self.put(&json!({
            "apiVersion": OURS, "kind": "Metal3Machine",
            "metadata": {
                "name": name, "namespace": namespace, "labels": labels,
                "annotations": annotations,
            },
            "spec": found.spec.template.spec,
        }))
        .await?;
        Ok(())
    }
}

/// Returns the bootstrap data of a machine.
pub fn bootstrap_data(namespace: &str, name: &str) -> String {
    format!("#cloud-config\n# {namespace}/{name}\n")
}

/// Merges one object into the other.
pub fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
