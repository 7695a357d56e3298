//! A workload cluster of a version that does not act on the out-of-service taint: the node is
//! deleted instead.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_metal3::kinds::remediation::Metal3Remediation;
use insula_testkit::webhook::{FakeWebhook, ReceivedRequest, Reply};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::case::{Case, Mode, is_on};
use crate::world::eventually;

/// The name of the record of labels in the annotations of a remediation.
const LABELS: &str = "remediation.metal3.io/node-labels-backup";

/// An API server of Kubernetes 1.27 with nodes.
struct OlderCluster {
    server: FakeWebhook,
    nodes: Arc<Nodes>,
}

#[derive(Default)]
struct Nodes {
    nodes: Mutex<BTreeMap<String, Value>>,
}

impl Nodes {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Value>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, request: &ReceivedRequest) -> Reply {
        let path = request.path.split('?').next().unwrap_or_default();
        if path == "/version" {
            return Reply::Json(json!({
                "major": "1", "minor": "27+", "gitVersion": "v1.27.16", "gitCommit": "",
                "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "",
                "platform": "",
            }));
        }
        let mut all = self.all();
        let Some(name) = path.strip_prefix("/api/v1/nodes/") else {
            let items: Vec<_> = all.values().cloned().collect();
            return Reply::Json(json!({
                "apiVersion": "v1", "kind": "NodeList", "metadata": {}, "items": items,
            }));
        };
        let found = match request.method.as_str() {
            "DELETE" => all.remove(name),
            "PATCH" => all.get_mut(name).map(|node| {
                merge(node, &request.body);
                node.clone()
            }),
            _ => all.get(name).cloned(),
        };
        found.map_or_else(missing, Reply::Json)
    }
}

fn missing() -> Reply {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound",
        "code": 404, "message": "not found",
    });
    Reply::Text(404, status.to_string())
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

impl OlderCluster {
    async fn start() -> anyhow::Result<Self> {
        let server = FakeWebhook::start(Reply::Code(500)).await?;
        let nodes = Arc::<Nodes>::default();
        let answering = Arc::clone(&nodes);
        server.script(move |request| answering.answer(request));
        Ok(Self { server, nodes })
    }

    fn kubeconfig(&self) -> Value {
        let authority = STANDARD.encode(self.server.ca_pem());
        let cluster =
            json!({"server": self.server.url(""), "certificate-authority-data": authority});
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": cluster}],
            "users": [{"name": "a", "user": {"token": "t"}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        })
    }

    /// Creates a node, as its kubelet does.
    fn register(&self, name: &str, uid: &str, metadata: Value, provider_id: &Value) {
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": uid, "resourceVersion": "1"},
            "spec": {"providerID": provider_id},
        });
        merge(&mut node["metadata"], &metadata);
        self.nodes.all().insert(name.to_owned(), node);
    }

    fn node(&self, name: &str) -> Option<Value> {
        self.nodes.all().get(name).cloned()
    }
}

#[tokio::test]
async fn m08_node_of_an_older_cluster_is_deleted_and_restored() -> anyhow::Result<()> {
    let case = Case::with_machine(Mode::Identity).await?;
    let management = case.scene.management();
    let older = OlderCluster::start().await?;
    let id = case.scene.workload.get_node("n0").await?["spec"]["providerID"].clone();
    let metadata = json!({"labels": {"zone": "a", "kept": "yes"}, "annotations": {"x": "y"}});
    older.register("n0", "u-1", metadata, &id);
    let text = older.kubeconfig().to_string();
    management
        .replace_secret("team-a", "c-kubeconfig", &[("value", &text)])
        .await?;
    case.remediate("m0").await?;
    // The host is on again, and waits for the kubelet.
    let recorded = |one: &Metal3Remediation| one.annotations().contains_key(LABELS);
    let remediation = case.wait_for_phase("Waiting", recorded).await?;
    let labels = json!({"kept": "yes", "zone": "a"}).to_string();
    assert_eq!(remediation.annotations()[LABELS], labels);
    assert_eq!(older.node("n0"), None);
    case.wait_for_host("h0", is_on).await?;

    older.register("n0", "u-2", json!({"labels": {"zone": "b"}}), &id);
    case.touch().await?;
    let done = |one: &Metal3Remediation| one.finalizers().is_empty() && !recorded(one);
    case.wait_for_phase("Waiting", done).await?;
    let node = older.node("n0").unwrap();
    assert_eq!(
        node["metadata"]["labels"],
        json!({"zone": "b", "kept": "yes"})
    );
    assert_eq!(node["metadata"]["annotations"], json!({"x": "y"}));
    assert_eq!(node["metadata"]["uid"], "u-2");
    assert_eq!(node["spec"]["taints"], Value::Null);
    Ok(())
}

#[tokio::test]
async fn m08_workload_cluster_that_does_not_answer_is_no_obstacle() -> anyhow::Result<()> {
    let case = Case::with_machine(Mode::Identity).await?;
    let management = case.scene.management();
    let mut older = OlderCluster::start().await?;
    let text = older.kubeconfig().to_string();
    management
        .replace_secret("team-a", "c-kubeconfig", &[("value", &text)])
        .await?;
    older.server.stop().await;
    case.remediate("m0").await?;
    let key = case.host_key("h0");
    eventually(async || Ok((case.bare_metal().power(&key) == [true, false, true]).then_some(())))
        .await?;
    // The node may have to be restored when it answers again.
    let held = |one: &Metal3Remediation| !one.finalizers().is_empty();
    case.wait_for_phase("Waiting", held).await?;
    Ok(())
}
