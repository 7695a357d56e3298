//! What Cluster API's own controllers do for infrastructure objects: owner references, labels,
//! status, and deletion in order. Objects of paused Clusters are left alone.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use insula_testkit::server::Client as Plain;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const CAPI: &str = "cluster.x-k8s.io/v1beta2";
const OURS: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";
const INTERVAL: Duration = Duration::from_millis(25);

/// The controllers of Cluster API. Dropping them stops them.
pub struct CoreDriver {
    workload: Arc<Mutex<Option<Plain>>>,
    task: JoinHandle<()>,
}

impl CoreDriver {
    pub fn start(plain: Plain) -> Self {
        let workload = Arc::<Mutex<Option<Plain>>>::default();
        let driver = Driver {
            plain,
            workload: Arc::clone(&workload),
        };
        let task = tokio::spawn(async move {
            loop {
                let begun = Instant::now();
                // A conflict with another writer is resolved by the next round.
                if let Err(error) = driver.round().await {
                    tracing::debug!(%error, "round of Cluster API failed");
                }
                // Many clusters must not leave the server no time for anything else.
                sleep(INTERVAL.max(begun.elapsed() * 3)).await;
            }
        });
        Self { workload, task }
    }

    /// Looks for nodes there.
    pub fn use_workload(&self, plain: Plain) {
        let mut workload = self.workload.lock().unwrap_or_else(PoisonError::into_inner);
        *workload = Some(plain);
    }

    /// Stops them for good.
    pub fn stop(&self) {
        self.task.abort();
    }
}

impl Drop for CoreDriver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Driver {
    plain: Plain,
    workload: Arc<Mutex<Option<Plain>>>,
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

fn path(version: &str, plural: &str, object: &Value, name: &str) -> String {
    let namespace = text(object, "namespace");
    format!("/apis/{version}/namespaces/{namespace}/{plural}/{name}")
}

impl Driver {
    async fn round(&self) -> anyhow::Result<()> {
        let clusters = self.list("clusters").await?;
        let machines = self.list("machines").await?;
        for cluster in &clusters {
            if cluster["spec"]["paused"] != true {
                self.cluster(cluster, &machines).await?;
            }
        }
        let nodes = self.nodes().await?;
        for machine in &machines {
            let name = machine["spec"]["clusterName"].as_str();
            let is_paused = clusters.iter().any(|cluster| {
                Some(text(cluster, "name")) == name
                    && text(cluster, "namespace") == text(machine, "namespace")
                    && cluster["spec"]["paused"] == true
            });
            if !is_paused {
                self.machine(machine, &nodes).await?;
            }
        }
        Ok(())
    }

    async fn cluster(&self, cluster: &Value, machines: &[Value]) -> anyhow::Result<()> {
        let name = text(cluster, "name");
        let own = path(CAPI, "clusters", cluster, name);
        let Some(infrastructure) = cluster["spec"]["infrastructureRef"]["name"].as_str() else {
            return Ok(());
        };
        let infrastructure = path(OURS, "metal3clusters", cluster, infrastructure);
        let found = self.get(&infrastructure).await?;
        if cluster["metadata"]["deletionTimestamp"].is_string() {
            let mut left = machines.iter().filter(|machine| {
                machine["spec"]["clusterName"] == name
                    && text(machine, "namespace") == text(cluster, "namespace")
            });
            if left.clone().next().is_some() {
                for machine in left.by_ref() {
                    let machine = path(CAPI, "machines", machine, text(machine, "name"));
                    self.plain.delete(&machine).await?;
                }
                return Ok(());
            }
            return self.delete_after(&own, &infrastructure, found).await;
        }
        let Some(found) = found else {
            return Ok(());
        };
        self.adopt(&infrastructure, &found, ("Cluster", cluster), name)
            .await?;
        let mut status = json!({"conditions": mirrored(cluster, &found)});
        if found["status"]["initialization"]["provisioned"] == true {
            status["initialization"] = json!({"infrastructureProvisioned": true});
        }
        self.report(&own, cluster, status).await
    }

    async fn machine(&self, machine: &Value, nodes: &[Value]) -> anyhow::Result<()> {
        let name = text(machine, "name");
        let own = path(CAPI, "machines", machine, name);
        let Some(infrastructure) = machine["spec"]["infrastructureRef"]["name"].as_str() else {
            return Ok(());
        };
        let infrastructure = path(OURS, "metal3machines", machine, infrastructure);
        let found = self.get(&infrastructure).await?;
        if machine["metadata"]["deletionTimestamp"].is_string() {
            return self.delete_after(&own, &infrastructure, found).await;
        }
        let Some(found) = found else {
            return Ok(());
        };
        let cluster = machine["spec"]["clusterName"].as_str().unwrap_or_default();
        self.adopt(&infrastructure, &found, ("Machine", machine), cluster)
            .await?;
        let mut status = json!({"conditions": mirrored(machine, &found)});
        if found["status"]["initialization"]["provisioned"] == true {
            status["initialization"] = json!({"infrastructureProvisioned": true});
            let id = &found["spec"]["providerID"];
            if machine["spec"]["providerID"] != *id {
                let patch = json!({"spec": {"providerID": id}});
                self.plain.patch(&own, "merge", &patch).await?;
            }
            status["addresses"] = found["status"]["addresses"].clone();
            let mut nodes = nodes.iter();
            if let Some(node) = nodes.find(|node| node["spec"]["providerID"] == *id) {
                status["nodeRef"] = json!({"name": node["metadata"]["name"]});
            }
        }
        self.report(&own, machine, status).await
    }

    /// Sets the owner and the label of an infrastructure object.
    async fn adopt(
        &self,
        path: &str,
        object: &Value,
        (kind, owner): (&str, &Value),
        cluster: &str,
    ) -> anyhow::Result<()> {
        let uid = &owner["metadata"]["uid"];
        let owners = object["metadata"]["ownerReferences"].as_array();
        let is_owned = owners.is_some_and(|all| all.iter().any(|one| one["uid"] == *uid));
        let is_labelled = object["metadata"]["labels"][CLUSTER_LABEL] == cluster;
        if is_owned && is_labelled {
            return Ok(());
        }
        let patch = json!({"metadata": {
            "labels": {CLUSTER_LABEL: cluster},
            "ownerReferences": [{
                "apiVersion": CAPI, "kind": kind, "name": owner["metadata"]["name"], "uid": uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        }});
        let patched = self.plain.patch(path, "merge", &patch).await?;
        anyhow::ensure!(patched.status == 200, "{}", patched.text());
        Ok(())
    }

    /// Writes fields of the status that differ.
    async fn report(&self, path: &str, object: &Value, status: Value) -> anyhow::Result<()> {
        let fields = status.as_object().into_iter().flatten();
        let mut fields = fields.filter(|(_, value)| !value.is_null());
        if fields.all(|(name, value)| object["status"][name] == *value) {
            return Ok(());
        }
        let patch = json!({"status": status});
        let patched = self
            .plain
            .patch(&format!("{path}/status"), "merge", &patch)
            .await?;
        anyhow::ensure!(patched.status == 200, "{}", patched.text());
        Ok(())
    }

    /// Deletes the infrastructure, and then lets the object go.
    async fn delete_after(
        &self,
        own: &str,
        infrastructure: &str,
        found: Option<Value>,
    ) -> anyhow::Result<()> {
        match found {
            Some(found) if found["metadata"]["deletionTimestamp"].is_null() => {
                self.plain.delete(infrastructure).await?;
            }
            Some(_) => {}
            None => {
                let patch = json!({"metadata": {"finalizers": null}});
                self.plain.patch(own, "merge", &patch).await?;
            }
        }
        Ok(())
    }

    async fn nodes(&self) -> anyhow::Result<Vec<Value>> {
        let workload = {
            let workload = self.workload.lock();
            workload.unwrap_or_else(PoisonError::into_inner).clone()
        };
        let Some(workload) = workload else {
            return Ok(Vec::new());
        };
        let mut listed = workload.get("/api/v1/nodes").await?.json();
        Ok(serde_json::from_value(listed["items"].take()).unwrap_or_default())
    }

    async fn list(&self, plural: &str) -> anyhow::Result<Vec<Value>> {
        let listed = self.plain.get(&format!("/apis/{CAPI}/{plural}")).await?;
        anyhow::ensure!(listed.status == 200, "{}", listed.text());
        let mut listed = listed.json();
        Ok(serde_json::from_value(listed["items"].take())?)
    }

    async fn get(&self, path: &str) -> anyhow::Result<Option<Value>> {
        let found = self.plain.get(path).await?;
        Ok((found.status == 200).then(|| found.json()))
    }
}

/// Returns the conditions of an object with the condition `Ready` of its infrastructure.
fn mirrored(owner: &Value, infrastructure: &Value) -> Value {
    let conditions = infrastructure["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    match conditions.find(|condition| condition["type"] == "Ready") {
        Some(ready) => {
            let mut condition = ready.clone();
            condition["type"] = "InfrastructureReady".into();
            let all = owner["status"]["conditions"].as_array();
            let mut all = all.cloned().unwrap_or_default();
            all.retain(|one| one["type"] != condition["type"]);
            all.insert(0, condition);
            all.into()
        }
        None => Value::Null,
    }
}
