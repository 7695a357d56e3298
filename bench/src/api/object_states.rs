//! The states of the objects of a kind, as a watch reports them.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use h2::RecvStream;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::client::{Client, chunk};
use super::load::WAIT_TIMEOUT;
use super::watches::Lines;

/// The latest state of every object, by name.
#[derive(Clone)]
pub struct ObjectStates<T> {
    newest: watch::Receiver<HashMap<String, T>>,
    /// The task that reads the watch, which ends with this value.
    _watching: Arc<JoinSet<()>>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}

impl<T: Send + Sync + 'static> ObjectStates<T> {
    /// Starts a watch of a collection; `state` extracts the state from an object.
    pub async fn watch(client: &Client, path: &str, state: fn(&Value) -> T) -> Result<Self> {
        let sender = client.sender(0)?;
        let request = sender.prepare(Method::GET, &format!("{path}?watch=true"), None)?;
        let (status, stream) = sender.open(request).await?;
        ensure!(status == StatusCode::OK, "a watch is answered {status}");
        let (send, newest) = watch::channel(HashMap::new());
        let mut watching = JoinSet::new();
        watching.spawn(async move {
            // Dropping the sender ends the waiters.
            let _ = listen(stream, &send, state).await;
        });
        Ok(Self {
            newest,
            _watching: Arc::new(watching),
        })
    }

    /// Waits until a predicate holds for the states of all objects.
    pub async fn wait_until(&mut self, is_so: impl Fn(&HashMap<String, T>) -> bool) -> Result<()> {
        let waited = self.newest.wait_for(|newest| is_so(newest));
        let waited = tokio::time::timeout(WAIT_TIMEOUT, waited).await;
        waited.context("not all objects are in the expected state")??;
        Ok(())
    }

    /// Applies a function to the states of all objects.
    pub fn read<R>(&self, of: impl Fn(&HashMap<String, T>) -> R) -> R {
        of(&self.newest.borrow())
    }
}

async fn listen<T>(
    mut stream: RecvStream,
    newest: &watch::Sender<HashMap<String, T>>,
    state: fn(&Value) -> T,
) -> Result<()> {
    let mut lines = Lines::default();
    while let Some(chunk) = chunk(&mut stream).await? {
        lines.take(chunk, |line| {
            if let Some((name, object)) = object(line)? {
                newest.send_modify(|newest| drop(newest.insert(name, state(&object))));
            }
            Ok(())
        })?;
    }
    bail!("the watch ended")
}

/// Returns the object of an event with its name, or `None` for a bookmark.
fn object(line: &[u8]) -> Result<Option<(String, Value)>> {
    let Event { kind, object } = serde_json::from_slice(line)?;
    ensure!(kind != "ERROR", "a watch failed: {object}");
    let name = object["metadata"]["name"].as_str().map(str::to_owned);
    Ok(name.map(|name| (name, object)))
}

/// Returns the condition of that type.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bookmarks_are_skipped_and_errors_end_the_watch() {
        let (name, added) = object(br#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#)
            .unwrap()
            .unwrap();
        assert_eq!(
            (name.as_str(), &added["metadata"]["name"]),
            ("a", &"a".into())
        );
        let bookmark = br#"{"type":"BOOKMARK","object":{"metadata":{}}}"#;
        assert_eq!(object(bookmark).unwrap(), None);
        let failed = object(br#"{"type":"ERROR","object":{"code":410}}"#).unwrap_err();
        assert!(failed.to_string().contains("410"));
    }
}
