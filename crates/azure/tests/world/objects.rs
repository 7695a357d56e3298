//! One space of a server, and helpers that create objects in it and wait for them.

use anyhow::Context as _;
use insula_azure::table;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::eventually;

/// One space, with the rights of its administrator.
#[derive(Clone)]
pub struct Space {
    pub client: Client,
}

/// Returns `Ready` of an object as status, severity, reason and message.
pub fn ready(object: &Value) -> Option<[&str; 4]> {
    let mut all = object["status"]["conditions"].as_array()?.iter();
    let found = all.find(|condition| condition["type"] == "Ready")?;
    let text = |name: &str| found[name].as_str().unwrap_or_default();
    Some([
        text("status"),
        text("severity"),
        text("reason"),
        text("message"),
    ])
}

impl Space {
    /// Returns the objects of a kind in a namespace, or in all if it is empty.
    pub fn api(&self, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = match table::find(group, kind) {
            Some(known) => ApiResource::from_gvk_with_plural(&gvk, known.plural()),
            None => ApiResource::from_gvk(&gvk),
        };
        match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }
    }

    /// Creates an object.
    pub async fn create(&self, object: &Value) -> anyhow::Result<Value> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let api = self.api(&version, &kind, &text(&object["metadata"]["namespace"]));
        let new: DynamicObject = serde_json::from_value(object.clone())?;
        let made = api.create(&PostParams::default(), &new).await;
        let made = made.with_context(|| format!("{object}"))?;
        Ok(serde_json::to_value(made)?)
    }

    /// Creates a namespace.
    pub async fn namespace(&self, name: &str) -> anyhow::Result<()> {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.create(&object).await.map(drop)
    }

    /// Creates a Secret with these texts.
    pub async fn secret(
        &self,
        namespace: &str,
        name: &str,
        texts: &[(&str, &str)],
    ) -> anyhow::Result<()> {
        let texts: serde_json::Map<_, _> = texts
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).into()))
            .collect();
        let object = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace}, "stringData": texts,
        });
        self.create(&object).await.map(drop)
    }

    /// Returns an object, if it exists.
    pub async fn find<T: serde::de::DeserializeOwned>(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<Option<T>> {
        let found = self.api(api_version, kind, namespace).get_opt(name).await?;
        let found = found.map(|found| serde_json::from_value(serde_json::to_value(found)?));
        Ok(found.transpose()?)
    }

    /// Returns an object as it was created, with everything that was added to it.
    pub async fn read(&self, object: &Value) -> anyhow::Result<Option<Value>> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        self.find(
            &text(&object["apiVersion"]),
            &text(&object["kind"]),
            &text(&metadata["namespace"]),
            &text(&metadata["name"]),
        )
        .await
    }

    /// Waits until an object has `Ready` with this status and reason.
    pub async fn await_ready(
        &self,
        object: &Value,
        status: &str,
        reason: &str,
    ) -> anyhow::Result<Value> {
        let mut last = None;
        let found = eventually(reason, async || {
            let found = self.read(object).await?;
            last.clone_from(&found);
            Ok(found
                .filter(|found| ready(found).is_some_and(|is| is[0] == status && is[2] == reason)))
        })
        .await;
        found.with_context(|| format!("{:?}", last.as_ref().and_then(ready)))
    }

    /// Waits until an object does not exist.
    pub async fn await_gone(&self, object: &Value) -> anyhow::Result<()> {
        eventually("gone", async || {
            Ok(self.read(object).await?.is_none().then_some(()))
        })
        .await
    }

    /// Deletes an object.
    pub async fn delete(&self, object: &Value) -> anyhow::Result<()> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let namespace = text(&metadata["namespace"]);
        let api = self.api(
            &text(&object["apiVersion"]),
            &text(&object["kind"]),
            &namespace,
        );
        api.delete(&text(&metadata["name"]), &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// Applies a merge patch.
    pub async fn patch(&self, object: &Value, patch: Value) -> anyhow::Result<()> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let namespace = text(&metadata["namespace"]);
        let api = self.api(
            &text(&object["apiVersion"]),
            &text(&object["kind"]),
            &namespace,
        );
        let patch = Patch::Merge(patch);
        api.patch(&text(&metadata["name"]), &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Applies a merge patch to the status.
    pub async fn patch_status(&self, object: &Value, status: Value) -> anyhow::Result<()> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let namespace = text(&metadata["namespace"]);
        let api = self.api(
            &text(&object["apiVersion"]),
            &text(&object["kind"]),
            &namespace,
        );
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(&text(&metadata["name"]), &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Returns the notes of the events of a namespace with a reason.
    pub async fn events(&self, namespace: &str, reason: &str) -> anyhow::Result<Vec<String>> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let listed = events.list(&ListParams::default()).await?.items.into_iter();
        let listed = listed.filter(|event| event.reason.as_deref() == Some(reason));
        Ok(listed.filter_map(|event| event.note).collect())
    }
}
