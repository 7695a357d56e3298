//! The state of clusters, as a watch reports it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use h2::RecvStream;
use http::{Method, StatusCode};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::super::client::{Client, chunk};
use super::super::watches::Lines;

/// Limits the time until all clusters are available.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(300);

const CLUSTERS: &str = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/vsphereclusters";

/// The latest state of every cluster.
#[derive(Clone)]
pub struct ClusterStates {
    newest: watch::Receiver<HashMap<String, Newest>>,
    /// The task that reads the watch, which ends with this value.
    _watching: Arc<JoinSet<()>>,
}

/// The latest state of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Newest {
    /// Whether its vCenter is available.
    available: bool,
    /// The stamp of the last reconciled change.
    looked_at: Option<String>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: serde_json::Value,
}

impl ClusterStates {
    /// Starts the watch.
    pub async fn watch(client: &Client) -> Result<Self> {
        let sender = client.sender(0)?;
        let request = sender.prepare(Method::GET, &format!("{CLUSTERS}?watch=true"), None)?;
        let (status, stream) = sender.open(request).await?;
        ensure!(status == StatusCode::OK, "a watch is answered {status}");
        let (send, newest) = watch::channel(HashMap::new());
        let mut watching = JoinSet::new();
        watching.spawn(async move {
            // Dropping the sender ends the waiters.
            let _ = listen(stream, &send).await;
        });
        Ok(Self {
            newest,
            _watching: Arc::new(watching),
        })
    }

    /// Waits until a number of clusters are available.
    pub async fn available(&mut self, count: usize) -> Result<()> {
        let all = self.newest.wait_for(|newest| {
            let available = newest.values().filter(|cluster| cluster.available);
            available.count() >= count
        });
        let all = tokio::time::timeout(WAIT_TIMEOUT, all).await;
        all.context("not all clusters are available")?
            .context("the watch ended")?;
        Ok(())
    }

    /// Waits until a change of a cluster was reconciled.
    pub async fn looked_at(&mut self, name: &str, stamp: &str) -> Result<()> {
        let looked_at = self.newest.wait_for(|newest| {
            let cluster = newest.get(name);
            cluster.is_some_and(|cluster| cluster.looked_at.as_deref() == Some(stamp))
        });
        looked_at.await.context("the watch ended")?;
        Ok(())
    }
}

/// Waits until a kind is served.
pub async fn established(client: &Client, name: &str) -> Result<()> {
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}/status");
    let begun = Instant::now();
    loop {
        let (status, mut stream) = {
            let sender = client.sender(0)?;
            sender
                .open(sender.prepare(Method::GET, &path, None)?)
                .await?
        };
        ensure!(status == StatusCode::OK, "{name} is answered {status}");
        let mut body = Vec::new();
        while let Some(chunk) = chunk(&mut stream).await? {
            body.extend_from_slice(&chunk);
        }
        let definition: serde_json::Value = serde_json::from_slice(&body)?;
        if condition(&definition, "Established")
            .is_some_and(|condition| condition["status"] == "True")
        {
            return Ok(());
        }
        ensure!(begun.elapsed() < WAIT_TIMEOUT, "{name} is not served");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn listen(
    mut stream: RecvStream,
    newest: &watch::Sender<HashMap<String, Newest>>,
) -> Result<()> {
    let mut lines = Lines::default();
    while let Some(chunk) = chunk(&mut stream).await? {
        lines.take(chunk, |line| {
            if let Some((name, heard)) = read(line)? {
                newest.send_modify(|newest| drop(newest.insert(name, heard)));
            }
            Ok(())
        })?;
    }
    bail!("the watch ended")
}

/// Returns the name and state of the cluster in a line, or `None` for a bookmark.
fn read(line: &[u8]) -> Result<Option<(String, Newest)>> {
    let Event { kind, object } = serde_json::from_slice(line)?;
    ensure!(kind != "ERROR", "a watch failed: {object}");
    let Some(name) = object["metadata"]["name"].as_str() else {
        return Ok(None);
    };
    let condition = condition(&object, "VCenterAvailable");
    let current = condition.is_some_and(|condition| {
        let generation = &object["metadata"]["generation"];
        generation.is_number() && condition["observedGeneration"] == *generation
    });
    let stamp = object["spec"]["controlPlaneEndpoint"]["host"].as_str();
    let heard = Newest {
        available: condition.is_some_and(|condition| condition["status"] == "True"),
        looked_at: stamp.filter(|_| current).map(str::to_owned),
    };
    Ok(Some((name.to_owned(), heard)))
}

fn condition<'a>(object: &'a serde_json::Value, kind: &str) -> Option<&'a serde_json::Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_change_is_looked_at_once_the_condition_is_of_its_generation() {
        let event = |observed: i64, status: &str| {
            let condition = json!({
                "type": "VCenterAvailable", "status": status, "observedGeneration": observed,
            });
            let object = json!({
                "metadata": {"name": "c1", "generation": 3},
                "spec": {"controlPlaneEndpoint": {"host": "before-0", "port": 6443}},
                "status": {"conditions": [condition]},
            });
            json!({"type": "MODIFIED", "object": object}).to_string()
        };
        for (observed, status, available, looked_at) in [
            (2, "True", true, None),
            (3, "True", true, Some("before-0")),
            (3, "False", false, Some("before-0")),
        ] {
            let (name, heard) = read(event(observed, status).as_bytes()).unwrap().unwrap();
            let wanted = Newest {
                available,
                looked_at: looked_at.map(str::to_owned),
            };
            assert_eq!((name.as_str(), heard), ("c1", wanted));
        }
        let bookmark = br#"{"type":"BOOKMARK","object":{"metadata":{}}}"#;
        assert_eq!(read(bookmark).unwrap(), None);
        let failed = read(br#"{"type":"ERROR","object":{"code":410}}"#).unwrap_err();
        assert!(failed.to_string().contains("410"));
    }
}
