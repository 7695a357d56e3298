//! Writes of an object, and its deletion: only differences, and only if the object is the one that
//! was read.

use std::fmt::Debug;

use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::object::HasStatus;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// An object with a status that is being changed.
#[derive(Clone, Debug)]
pub struct StatusChange<K> {
    /// The objects of its kind and namespace.
    pub api: Api<K>,
    /// The object as it is stored.
    pub stored: K,
    /// The object with its new status.
    pub object: K,
}

impl<K> StatusChange<K>
where
    K: Resource + HasStatus + Clone + Debug + Serialize + DeserializeOwned,
{
    /// Returns an object without changes.
    pub fn new(api: Api<K>, object: K) -> Self {
        Self {
            api,
            stored: object.clone(),
            object,
        }
    }

    /// Writes the differences of the status.
    ///
    /// # Errors
    ///
    /// If the API server refuses the patch, for example because the object has changed.
    pub async fn commit(&mut self) -> Result<(), kube::Error> {
        if let Some(stored) = status(&self.api, &self.stored, &self.object).await? {
            self.object = stored.clone();
            self.stored = stored;
        }
        Ok(())
    }

    /// Takes over a newly stored object, and keeps the status that is not written yet.
    pub fn adopt(&mut self, stored: K) {
        let status = self.object.status_mut().take();
        self.object = stored.clone();
        *self.object.status_mut() = status;
        self.stored = stored;
    }

    /// Writes fields of the spec or the metadata, if the object has not changed since it was read.
    ///
    /// # Errors
    ///
    /// If the API server refuses the patch, for example because the object has changed.
    pub async fn patch(&mut self, fields: Value) -> Result<(), kube::Error> {
        let stored = patch(&self.api, &self.stored, fields).await?;
        self.adopt(stored);
        Ok(())
    }

    /// Adds a finalizer.
    ///
    /// # Errors
    ///
    /// If the API server refuses the patch.
    pub async fn add_finalizer(&mut self, finalizer: &str) -> Result<(), kube::Error> {
        let stored = add_finalizer(&self.api, &self.stored, finalizer).await?;
        self.adopt(stored);
        Ok(())
    }

    /// Removes a finalizer.
    ///
    /// # Errors
    ///
    /// If the API server refuses the patch.
    pub async fn remove_finalizer(&self, finalizer: &str) -> Result<(), kube::Error> {
        remove_finalizer(&self.api, &self.stored, finalizer).await
    }
}

/// Writes the differences of the status. Returns the stored object if there were any.
///
/// # Errors
///
/// If the API server refuses the patch, for example because the object has changed.
pub async fn status<K>(api: &Api<K>, before: &K, after: &K) -> Result<Option<K>, kube::Error>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let status_of = |object: &K| -> Result<Value, kube::Error> {
        let object = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
        Ok(object.get("status").cloned().unwrap_or_else(|| json!({})))
    };
    let Some(status) = difference(&status_of(before)?, &status_of(after)?) else {
        return Ok(None);
    };
    let patch = json!({"metadata": as_seen(before), "status": status});
    let parameters = PatchParams::default();
    api.patch_status(&before.name_any(), &parameters, &Patch::Merge(patch))
        .await
        .map(Some)
}

/// Adds a finalizer to an object.
///
/// # Errors
///
/// If the API server refuses the patch.
pub async fn add_finalizer<K>(api: &Api<K>, object: &K, finalizer: &str) -> Result<K, kube::Error>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    if has_finalizer(object, finalizer) {
        return Ok(object.clone());
    }
    let mut finalizers = object.finalizers().to_vec();
    finalizers.push(finalizer.to_owned());
    metadata(api, object, json!({"finalizers": finalizers})).await
}

/// Removes a finalizer; an object that no longer exists is no error.
///
/// # Errors
///
/// If the API server refuses the patch.
pub async fn remove_finalizer<K>(
    api: &Api<K>,
    object: &K,
    finalizer: &str,
) -> Result<(), kube::Error>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    if !has_finalizer(object, finalizer) {
        return Ok(());
    }
    let mut finalizers = object.finalizers().to_vec();
    finalizers.retain(|held| held != finalizer);
    match metadata(api, object, json!({"finalizers": finalizers})).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        done => done.map(drop),
    }
}

/// Returns whether an object has this finalizer.
pub fn has_finalizer<K: Resource>(object: &K, finalizer: &str) -> bool {
    object.finalizers().iter().any(|held| held == finalizer)
}

/// Writes fields of the metadata, if the object has not changed since it was read.
///
/// # Errors
///
/// If the API server refuses the patch, for example because the object has changed.
pub async fn metadata<K>(api: &Api<K>, object: &K, fields: Value) -> Result<K, kube::Error>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    patch(api, object, json!({"metadata": fields})).await
}

/// Writes fields of the spec or the metadata, if the object has not changed since it was read.
///
/// # Errors
///
/// If the API server refuses the patch, for example because the object has changed.
pub async fn patch<K>(api: &Api<K>, object: &K, mut fields: Value) -> Result<K, kube::Error>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    for (name, value) in [
        ("uid", object.uid()),
        ("resourceVersion", object.resource_version()),
    ] {
        fields["metadata"][name] = value.into();
    }
    let parameters = PatchParams::default();
    api.patch(&object.name_any(), &parameters, &Patch::Merge(fields))
        .await
}

/// Deletes exactly this object; one that no longer exists is no error.
///
/// # Errors
///
/// If the API server refuses the request, for example because another object has the name.
pub async fn delete<K>(api: &Api<K>, object: &K) -> Result<(), kube::Error>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let preconditions = Preconditions {
        uid: object.uid(),
        resource_version: None,
    };
    let parameters = DeleteParams::default().preconditions(preconditions);
    match api.delete(&object.name_any(), &parameters).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        done => done.map(drop),
    }
}

/// The preconditions of a patch: the UID and resourceVersion that were read.
fn as_seen<K: Resource>(object: &K) -> Value {
    json!({"uid": object.uid(), "resourceVersion": object.resource_version()})
}

/// Returns the merge patch from one value to the other; none if they are equal. Lists are
/// replaced as a whole. The recursion is as deep as the objects.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return Some(after.clone());
    };
    let mut patch = Map::new();
    for (name, value) in after {
        let change = match before.get(name) {
            Some(there) => difference(there, value),
            None => Some(value.clone()),
        };
        patch.extend(change.map(|change| (name.clone(), change)));
    }
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    patch.extend(gone.map(|name| (name.clone(), Value::Null)));
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_differences_are_patched() {
        for (before, after, expected) in [
            (json!({}), json!({}), None),
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!({}), json!({"a": 1}), Some(json!({"a": 1}))),
            (json!({"a": 1}), json!({}), Some(json!({"a": null}))),
            (
                json!({"a": {"b": 1, "c": 2}, "d": 3}),
                json!({"a": {"b": 1, "c": 4}, "d": 3}),
                Some(json!({"a": {"c": 4}})),
            ),
            (
                json!({"list": [1, 2]}),
                json!({"list": [2]}),
                Some(json!({"list": [2]})),
            ),
            (json!({"a": {}}), json!({"a": 1}), Some(json!({"a": 1}))),
        ] {
            assert_eq!(difference(&before, &after), expected, "{before} {after}");
        }
    }
}
