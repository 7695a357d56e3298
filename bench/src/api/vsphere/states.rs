//! The states of clusters.

use anyhow::Result;
use serde_json::Value;

use super::super::client::Client;
use super::super::object_states::{ObjectStates, condition};

const CLUSTERS: &str = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/vsphereclusters";

/// The latest state of every cluster.
#[derive(Clone)]
pub struct ClusterStates(ObjectStates<Newest>);

/// The latest state of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Newest {
    /// Whether its vCenter is available.
    available: bool,
    /// The stamp of the last reconciled change.
    looked_at: Option<String>,
}

impl ClusterStates {
    /// Starts the watch.
    pub async fn watch(client: &Client) -> Result<Self> {
        Ok(Self(ObjectStates::watch(client, CLUSTERS, newest).await?))
    }

    /// Waits until a number of clusters are available.
    pub async fn available(&mut self, count: usize) -> Result<()> {
        let all = self.0.wait_until(|newest| {
            let available = newest.values().filter(|cluster| cluster.available);
            available.count() >= count
        });
        all.await
    }

    /// Waits until a change of a cluster was reconciled.
    pub async fn looked_at(&mut self, name: &str, stamp: &str) -> Result<()> {
        let looked_at = self.0.wait_until(|newest| {
            let cluster = newest.get(name);
            cluster.is_some_and(|cluster| cluster.looked_at.as_deref() == Some(stamp))
        });
        looked_at.await
    }
}

/// Returns the state of a cluster.
fn newest(cluster: &Value) -> Newest {
    let condition = condition(cluster, "VCenterAvailable");
    let current = condition.is_some_and(|condition| {
        let generation = &cluster["metadata"]["generation"];
        generation.is_number() && condition["observedGeneration"] == *generation
    });
    let stamp = cluster["spec"]["controlPlaneEndpoint"]["host"].as_str();
    Newest {
        available: condition.is_some_and(|condition| condition["status"] == "True"),
        looked_at: stamp.filter(|_| current).map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_change_is_looked_at_once_the_condition_is_of_its_generation() {
        let cluster = |observed: i64, status: &str| {
            let condition = json!({
                "type": "VCenterAvailable", "status": status, "observedGeneration": observed,
            });
            json!({
                "metadata": {"name": "c1", "generation": 3},
                "spec": {"controlPlaneEndpoint": {"host": "before-0", "port": 6443}},
                "status": {"conditions": [condition]},
            })
        };
        for (observed, status, available, looked_at) in [
            (2, "True", true, None),
            (3, "True", true, Some("before-0")),
            (3, "False", false, Some("before-0")),
        ] {
            let expected = Newest {
                available,
                looked_at: looked_at.map(str::to_owned),
            };
            assert_eq!(newest(&cluster(observed, status)), expected);
        }
    }
}
