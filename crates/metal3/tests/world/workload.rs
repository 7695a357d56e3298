//! An API server with the nodes of workload clusters.

use insula_testkit::server::{Client as Plain, Setup, TestServer};
use serde_json::{Value, json};

use super::{Entry, kubeconfig};

/// An API server with nodes.
pub struct Workload {
    pub server: TestServer,
    pub plain: Plain,
}

impl Workload {
    pub async fn start() -> anyhow::Result<Self> {
        let server = TestServer::start_with(Setup::with_controllers()).await?;
        let plain = server.system().await?;
        Ok(Self { server, plain })
    }

    /// Returns the kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> Value {
        kubeconfig(&self.server, &[Entry::new("admin", "system", "default")])
    }

    /// Creates a node with these labels.
    pub async fn node(&self, name: &str, labels: Value) -> anyhow::Result<()> {
        let node = json!({"metadata": {"name": name, "labels": labels}});
        let made = self.plain.post("/api/v1/nodes", &node).await?;
        anyhow::ensure!(made.status == 201, "{}", made.text());
        Ok(())
    }

    /// Returns a node.
    pub async fn get_node(&self, name: &str) -> anyhow::Result<Value> {
        Ok(self
            .plain
            .get(&format!("/api/v1/nodes/{name}"))
            .await?
            .json())
    }
}
