//! Writes of objects without a change.

use std::num::NonZeroU32;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use kube::Client;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::upgrade::Definition;
use crate::upgrade::api::{self, Metadata, status_code};

/// Writes objects, several at a time and not more than a number per second.
pub(super) struct Writer {
    client: Client,
    concurrency: usize,
    pace: Option<Mutex<Interval>>,
}

/// The result of the writes of a page.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The number of objects that the server stored anew.
    pub stored: u64,
    /// The objects that could not be written.
    pub failed: Vec<NotWritten>,
}

/// An object that could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotWritten {
    /// The namespace, the name and, on an Insula, the tenant.
    pub object: String,
    /// The message of the API server.
    pub message: String,
}

/// The answer to a write.
#[derive(Deserialize)]
struct Answer {
    metadata: Metadata,
}

/// The result of one write.
enum Write {
    Stored,
    /// The server stored it in the storage version already.
    Current,
    Failed(NotWritten),
}

impl Writer {
    pub fn new(client: Client, concurrency: usize, rate: Option<NonZeroU32>) -> Self {
        let pace = rate.map(|rate| {
            let mut ticks = interval(Duration::from_secs(1) / rate.get());
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            Mutex::new(ticks)
        });
        Self {
            client,
            concurrency: concurrency.max(1),
            pace,
        }
    }

    /// Writes the objects of a page.
    pub async fn write(&self, definition: &Definition, objects: Vec<Value>) -> Written {
        let writes = stream::iter(objects).map(|object| self.write_one(definition, object));
        let mut writes = writes.buffer_unordered(self.concurrency);
        let mut written = Written::default();
        while let Some(write) = writes.next().await {
            match write {
                Write::Stored => written.stored += 1,
                Write::Current => {}
                Write::Failed(failed) => written.failed.push(failed),
            }
        }
        written
    }

    async fn write_one(&self, definition: &Definition, object: Value) -> Write {
        if let Some(pace) = &self.pace {
            pace.lock().await.tick().await;
        }
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let namespace = metadata["namespace"].as_str();
        let tenant = metadata["tenant"].as_str();
        let path = definition.object_path(tenant, namespace, name);
        let written: Result<Answer, _> = api::put(&self.client, &path, &object).await;
        match written {
            Ok(answer) if answer.metadata.resource_version == metadata["resourceVersion"] => {
                Write::Current
            }
            Ok(_) => Write::Stored,
            // Another client wrote or deleted the object: it is not stored as it was any more.
            Err(error) if matches!(status_code(&error), Some(404 | 409 | 410)) => Write::Stored,
            Err(error) => Write::Failed(NotWritten {
                object: api::full_name(tenant, namespace, name),
                message: match error {
                    kube::Error::Api(status) => status.message,
                    other => other.to_string(),
                },
            }),
        }
    }
}

/// Returns the objects that were not written since a resource version. Versions that are not
/// numbers are not compared.
pub(super) fn unchanged_since(objects: Vec<Value>, since: Option<&str>) -> Vec<Value> {
    let since: Option<u64> = since.and_then(|since| since.parse().ok());
    let is_later = |object: &Value| {
        let version = object["metadata"]["resourceVersion"].as_str();
        let version: Option<u64> = version.and_then(|version| version.parse().ok());
        version
            .zip(since)
            .is_some_and(|(version, since)| version > since)
    };
    let objects = objects.into_iter();
    objects.filter(|object| !is_later(object)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_compared_by_resource_version() {
        let object = |version: &str| json!({"metadata": {"resourceVersion": version}});
        let all = ["9", "10", "11", "x"].map(object);
        let unchanged = |since| unchanged_since(all.to_vec(), since);
        assert_eq!(unchanged(Some("10")), ["9", "10", "x"].map(object));
        assert_eq!(unchanged(Some("y")).len(), 4);
        assert_eq!(unchanged(None).len(), 4);
    }
}
