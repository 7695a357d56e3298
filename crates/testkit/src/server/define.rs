//! Custom kinds of tests.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::{Value, json};

use super::Client;

/// The path of CustomResourceDefinitions.
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// How long a definition may take to be served, or removed.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// A definition of one namespaced version, `v1`, with this schema of `spec`.
pub fn definition(group: &str, plural: &str, kind: &str, spec: Value) -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": spec,
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

impl Client {
    /// Creates a definition and waits until it is served.
    pub async fn define(&self, definition: &Value) -> anyhow::Result<Value> {
        let created = self.post(DEFINITIONS, definition).await?;
        ensure!(created.status == 201, "{}", created.text());
        let name = created.json()["metadata"]["name"].to_string();
        self.until_defined(name.trim_matches('"'), "Established", "True")
            .await
    }

    /// Creates the objects of a manifest in order, and waits until definitions are served.
    pub async fn install(&self, objects: &[Value]) -> anyhow::Result<()> {
        for object in objects {
            let made = self.post(&collection(object), object).await?;
            ensure!(made.status == 201, "{object}: {}", made.text());
        }
        let definitions = objects.iter();
        for definition in definitions.filter(|it| it["kind"] == "CustomResourceDefinition") {
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            self.until_defined(name, "Established", "True").await?;
        }
        Ok(())
    }

    /// Waits until a definition has a condition.
    pub async fn until_defined(
        &self,
        name: &str,
        condition: &str,
        status: &str,
    ) -> anyhow::Result<Value> {
        let begun = Instant::now();
        loop {
            let found = self.get(&format!("{DEFINITIONS}/{name}")).await?.json();
            let conditions = found["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            if conditions.any(|one| one["type"] == condition && one["status"] == status) {
                return Ok(found);
            }
            ensure!(begun.elapsed() < WAIT_TIMEOUT, "{name}: {found}");
            tokio::task::yield_now().await;
        }
    }

    /// Waits until a path is not found.
    pub async fn until_gone(&self, path: &str) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let found = self.get(path).await?;
            if found.status == 404 {
                return Ok(());
            }
            ensure!(begun.elapsed() < WAIT_TIMEOUT, "{path}: {}", found.text());
            tokio::task::yield_now().await;
        }
    }
}

/// Returns the path of the collection that an object belongs to.
fn collection(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let root = match version.contains('/') {
        true => format!("/apis/{version}"),
        false => format!("/api/{version}"),
    };
    let namespace = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("/namespaces/{namespace}"),
        None => String::new(),
    };
    let kind = text(&object["kind"]).to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    };
    format!("{root}{namespace}/{plural}")
}
