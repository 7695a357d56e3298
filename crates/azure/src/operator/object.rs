//! The custom resource that is reconciled, and its writes.

use insula_operator::commit;
use insula_operator::event::NewEvent;
use insula_operator::read::get_named;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, ResourceExt};
use serde_json::{Map, Value, json};

use super::Reconciliation;
use super::ownership::Record;
use super::pacing::Subject;
use super::policy::Annotations;
use super::ready::{self, Problem, Stored};
use super::served::ServedKind;
use crate::arm::ResourceId;
use crate::names::{POLLER_RESUME_ID, POLLER_RESUME_TOKEN, RECONCILED_INPUTS, RESOURCE_ID};
use crate::table::{Kind, Version};

/// The status of a resource, as a custom resource has it.
pub(super) type Status = Map<String, Value>;

/// A custom resource, in the version in which a user wrote it.
pub(super) struct Object<'a> {
    pub of: &'a Reconciliation<'a>,
    pub kind: &'static Kind,
    pub version: &'static Version,
    /// The annotations of its namespace.
    pub of_namespace: Annotations,
    resource: ApiResource,
    api: Api<DynamicObject>,
    stored: DynamicObject,
    value: Value,
    /// Fields of the metadata that the next write includes.
    unwritten: Option<Value>,
}

impl<'a> Object<'a> {
    /// Reads the object of a reconciliation; none if it does not exist, or its kind is not served
    /// any more.
    pub(super) async fn load(of: &'a Reconciliation<'a>) -> Result<Option<Self>, kube::Error> {
        let Some(served) = of.context.provider.served.of_key(&of.key.kind) else {
            return Ok(None);
        };
        let Some((resource, api, stored)) = read(of, served).await? else {
            return Ok(None);
        };
        let Some(version) = served.kind.version(&resource.version) else {
            return Ok(None);
        };
        let namespace: Option<Namespace> =
            of.read_cluster_scoped(of.key.namespace_or_empty()).await?;
        let object = Self {
            of,
            kind: served.kind,
            version,
            of_namespace: namespace
                .and_then(|namespace| namespace.metadata.annotations)
                .unwrap_or_default(),
            resource,
            api,
            value: as_value(&stored),
            stored,
            unwritten: None,
        };
        of.note_read(&object.stored.resource_version().unwrap_or_default());
        object.remember();
        Ok(Some(object))
    }

    /// Returns the whole object as JSON.
    pub(super) fn value(&self) -> &Value {
        &self.value
    }

    pub(super) fn metadata(&self) -> &kube::api::ObjectMeta {
        &self.stored.metadata
    }

    pub(super) fn annotations(&self) -> &Annotations {
        self.stored.annotations()
    }

    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        let value = self.annotations().get(name)?;
        (!value.is_empty()).then_some(value)
    }

    pub(super) fn generation(&self) -> i64 {
        self.stored.metadata.generation.unwrap_or_default()
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.stored.metadata.deletion_timestamp.is_some()
    }

    pub(super) fn has_finalizer(&self, finalizer: &str) -> bool {
        commit::has_finalizer(&self.stored, finalizer)
    }

    /// Returns the ARM id that was fixed when the object was claimed. Users can edit annotations: the
    /// id of a resource of another type is none of this object.
    pub(super) fn arm_id(&self) -> Option<ResourceId> {
        let id: ResourceId = self.annotation(RESOURCE_ID)?.parse().ok()?;
        let is_own = id
            .resource_type()
            .eq_ignore_ascii_case(self.kind.arm_type());
        is_own.then_some(id)
    }

    /// Returns `Ready` as it is stored.
    pub(super) fn ready(&self) -> Option<Stored<'_>> {
        Stored::of(&self.value["status"])
    }

    /// Returns a reference to the object as an owner of others.
    pub(super) fn as_owner(&self) -> Value {
        json!({
            "apiVersion": self.resource.api_version, "kind": self.resource.kind,
            "name": self.of.key.name, "uid": self.stored.uid(),
        })
    }

    /// Includes fields of the metadata in the next write, whatever it is about.
    pub(super) fn write_with_next(&mut self, fields: Value) {
        self.unwritten = Some(fields);
    }

    /// Writes what waits for the next write.
    pub(super) async fn flush(&mut self) -> Result<(), kube::Error> {
        self.annotate(json!({})).await
    }

    /// Writes fields of the metadata, if the object has not changed since it was read.
    pub(super) async fn patch_metadata(&mut self, fields: Value) -> Result<(), kube::Error> {
        let written = commit::metadata(&self.api, &self.stored, fields).await?;
        self.adopt(written);
        Ok(())
    }

    /// Writes those of the annotations that differ; null removes one.
    pub(super) async fn annotate(&mut self, annotations: Value) -> Result<(), kube::Error> {
        let known = self.annotations();
        let differ = annotations.as_object().into_iter().flatten();
        let differ =
            differ.filter(|(name, value)| known.get(*name).map(String::as_str) != value.as_str());
        let differ: Map<_, _> = differ.map(|(k, v)| (k.clone(), v.clone())).collect();
        if differ.is_empty() && self.unwritten.is_none() {
            return Ok(());
        }
        let mut fields = self.unwritten.take().unwrap_or_else(|| json!({}));
        for (name, value) in differ {
            fields["annotations"][name] = value;
        }
        self.patch_metadata(fields).await
    }

    /// Removes the operation in progress.
    pub(super) async fn clear_operation(&mut self) -> Result<(), kube::Error> {
        self.annotate(json!({POLLER_RESUME_TOKEN: null, POLLER_RESUME_ID: null}))
            .await
    }

    /// Removes the operation in progress, and records the inputs that Azure has accepted, and the
    /// resource if it was accepted just now.
    pub(super) async fn conclude_operation(
        &mut self,
        subject: &Subject,
        record: Option<Record>,
    ) -> Result<(), kube::Error> {
        let mut annotations = Map::new();
        for name in [POLLER_RESUME_TOKEN, POLLER_RESUME_ID] {
            annotations.insert(name.to_owned(), Value::Null);
        }
        if let Subject::Inputs(digest) = subject {
            annotations.insert(RECONCILED_INPUTS.to_owned(), digest.as_str().into());
        }
        if let Some(record) = record {
            record.add_to(&mut annotations);
        }
        self.annotate(Value::Object(annotations)).await
    }

    /// Removes a finalizer; an object that does not exist any more is no error.
    pub(super) async fn remove_finalizer(&self, finalizer: &str) -> Result<(), kube::Error> {
        commit::remove_finalizer(&self.api, &self.stored, finalizer).await
    }

    /// Writes `Ready`, and keeps everything else of the status.
    pub(super) async fn report(&mut self, problem: Option<&Problem>) -> Result<(), kube::Error> {
        self.write_status(None, problem).await
    }

    /// Writes the condition about another operator that is to reconcile the object too.
    pub(super) async fn report_overlap(
        &mut self,
        message: Option<&str>,
    ) -> Result<(), kube::Error> {
        let mut status = self.status();
        ready::set_overlap(&mut status, message, Timestamp::now());
        self.commit_status(status).await
    }

    /// Writes the status of the resource in Azure, if it is known, with `Ready`.
    pub(super) async fn write_status(
        &mut self,
        of_azure: Option<Map<String, Value>>,
        problem: Option<&Problem>,
    ) -> Result<(), kube::Error> {
        let before = self.status();
        let mut status = match of_azure {
            None => before,
            Some(mut status) => {
                status.extend(
                    before
                        .get("conditions")
                        .map(|it| ("conditions".to_owned(), it.clone())),
                );
                status
            }
        };
        ready::set(&mut status, problem, self.generation(), Timestamp::now());
        self.commit_status(status).await
    }

    async fn commit_status(&mut self, status: Map<String, Value>) -> Result<(), kube::Error> {
        self.flush().await?;
        let mut after = self.stored.clone();
        after.data["status"] = Value::Object(status);
        if let Some(written) = commit::status(&self.api, &self.stored, &after).await? {
            self.adopt(written);
        }
        Ok(())
    }

    /// Records an event about the object.
    pub(super) async fn record(&self, warning: bool, reason: &'static str, note: String) {
        let note = NewEvent {
            warning,
            reason,
            note,
        };
        self.of
            .record_event_of(&self.stored, &self.resource, note)
            .await;
    }

    fn status(&self) -> Map<String, Value> {
        self.value["status"]
            .as_object()
            .cloned()
            .unwrap_or_default()
    }

    fn adopt(&mut self, written: DynamicObject) {
        self.value = as_value(&written);
        self.stored = written;
        let version = self.stored.resource_version().unwrap_or_default();
        self.of.note_written(&version);
        self.remember();
    }

    /// Records what other reconciliations have to know about the object.
    fn remember(&self) {
        let (provider, key) = (&self.of.context.provider, self.of.key);
        let version = self.stored.resource_version();
        let originals = &provider.originals;
        originals.record(&key.text(), &self.resource.version, version);
        provider.owners.observe(key, Some(&self.stored.metadata));
    }
}

/// An object, and how it was read.
type Found = (ApiResource, Api<DynamicObject>, DynamicObject);

/// Reads an object in the version in which a user wrote it: a write in this version keeps it the
/// original one. The version that is stored says which one it is, unless it is known.
async fn read(of: &Reconciliation<'_>, served: &ServedKind) -> Result<Option<Found>, kube::Error> {
    let originals = &of.context.provider.originals;
    let known = originals.find(&of.key.text());
    let known = known.and_then(|known| Some((served.resource_in(&known.version)?, known)));
    let mut first = None;
    if let Some((resource, known)) = known {
        let Some(found) = read_in(of, resource).await? else {
            return Ok(None);
        };
        if found.2.resource_version().as_ref() == Some(&known.resource_version) {
            return Ok(Some(found));
        }
        first = Some(found);
    }
    let Some(stored) = read_in(of, served.watched()).await? else {
        return Ok(None);
    };
    let original = stored.2.data["spec"]["originalVersion"].as_str();
    let Some(original) = original.and_then(|original| served.resource_in(original)) else {
        return Ok(Some(stored));
    };
    let is_same = |(resource, _, object): &Found| {
        resource.version == original.version
            && object.resource_version() == stored.2.resource_version()
    };
    match first.filter(is_same) {
        Some(first) => Ok(Some(first)),
        None if original.version == stored.0.version => Ok(Some(stored)),
        None => read_in(of, original).await,
    }
}

async fn read_in(
    of: &Reconciliation<'_>,
    resource: ApiResource,
) -> Result<Option<Found>, kube::Error> {
    let api = of.api_of(&resource);
    let found = get_named(&api, &of.key.name).await?;
    Ok(found.map(|found| (resource, api, found)))
}

/// Every object of Kubernetes can be represented as JSON.
fn as_value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}
