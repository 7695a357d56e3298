//! Cluster-level kinds, each with a rule or two of its own.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{TENANT_FINALIZER, push, reset};
use crate::Object;
use crate::defaults::tree;
use crate::kind::Kind;

pub(super) fn create_namespace(namespace: &mut Object) {
    label_namespace(namespace);
    tree::push_unique(
        tree::child_mut(namespace, "spec"),
        "finalizers",
        "kubernetes",
    );
    tree::child_mut(namespace, "status").insert("phase".to_owned(), "Active".into());
}

pub(super) fn update_namespace(subresource: Option<&str>, old: &Object, namespace: &mut Object) {
    // Only `finalize` may remove finalizers.
    if subresource.is_none() {
        reset::restore_field(old, namespace, "spec", "finalizers");
    }
    label_namespace(namespace);
}

fn label_namespace(namespace: &mut Object) {
    let metadata = tree::child_mut(namespace, "metadata");
    let name = tree::text(metadata, "name").to_owned();
    let labels = tree::child_mut(metadata, "labels");
    labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
}

/// Drops the fields of coordinated leader election: its feature gate is off.
pub(super) fn drop_coordinated_election(lease: &mut Object, old: Option<&Object>) {
    for field in ["strategy", "preferredHolder"] {
        let had = old.and_then(|old| tree::child(old, "spec"));
        if had.is_none_or(|spec| !spec.contains_key(field))
            && let Some(Value::Object(spec)) = lease.get_mut("spec")
        {
            spec.remove(field);
        }
    }
}

pub(super) fn create_tenant(tenant: &mut Object) {
    tree::push_unique(
        tree::child_mut(tenant, "spec"),
        "finalizers",
        TENANT_FINALIZER,
    );
    tree::child_mut(tenant, "status").insert("phase".to_owned(), "Active".into());
}

/// Encodes `stringData` as base64 into `data`.
pub(super) fn fold_string_data(secret: &mut Object) {
    let Some(Value::Object(texts)) = secret.remove("stringData") else {
        return;
    };
    for (key, text) in texts {
        let bytes = STANDARD.encode(text.as_str().unwrap_or_default());
        tree::child_mut(secret, "data").insert(key, bytes.into());
    }
}

/// Taints a new node as not ready until the kubelet reports otherwise.
pub(super) fn create_node(node: &mut Object) {
    const TAINT: &str = "node.kubernetes.io/not-ready";
    let spec = tree::child_mut(node, "spec");
    spec.remove("configSource");
    let tainted = tree::items(spec, "taints").any(|taint| {
        tree::text(taint, "key") == TAINT && tree::text(taint, "effect") == "NoSchedule"
    });
    if !tainted {
        push(
            spec,
            "taints",
            json!({"key": TAINT, "effect": "NoSchedule"}),
        );
    }
    if let Some(status) = tree::existing_mut(node, "status") {
        status.remove("config");
    }
}

/// Drops new dynamic kubelet configuration, which is no longer supported; existing
/// configuration may stay.
pub(super) fn update_node(subresource: Option<&str>, old: &Object, node: &mut Object) {
    let (parent, field) = match subresource {
        None => ("spec", "configSource"),
        Some(_) => ("status", "config"),
    };
    let used = tree::child(old, parent).is_some_and(|before| tree::is_present(before, field));
    if let (false, Some(now)) = (used, tree::existing_mut(node, parent)) {
        now.remove(field);
    }
}

/// Keeps only the names of a service account's secrets, which are in its own namespace.
pub(super) fn keep_secret_names(account: &mut Object) {
    for secret in tree::items_mut(account, "secrets") {
        secret.retain(|field, _| field == "name");
    }
}

pub(super) fn name_limits(range: &mut Object, uid: &str) {
    let metadata = tree::child_mut(range, "metadata");
    if tree::is_empty(metadata, "generateName") {
        tree::fill_empty(metadata, "name", uid);
    }
}

/// The user who creates a certificate signing request.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// The user name.
    pub username: &'a str,
    /// The UID of the user; may be empty.
    pub uid: &'a str,
    /// The groups of the user.
    pub groups: &'a [String],
    /// Extra attributes of the user: lists of strings.
    pub extra: &'a Object,
}

/// Sets the requester of a new certificate signing request. It runs after
/// [`super::create`], which removes any requester set by the client.
pub fn set_requester(request: &mut Object, by: Requester<'_>) {
    let spec = tree::child_mut(request, "spec");
    spec.insert("username".to_owned(), by.username.into());
    spec.insert("uid".to_owned(), by.uid.into());
    spec.insert("groups".to_owned(), by.groups.into());
    if !by.extra.is_empty() {
        spec.insert("extra".to_owned(), Value::Object(by.extra.clone()));
    }
}

pub(super) fn create_signing_request(request: &mut Object) {
    let spec = tree::child_mut(request, "spec");
    for server in ["username", "uid", "groups", "extra"] {
        spec.remove(server);
    }
}

/// The spec is immutable; a status update keeps approvals, and an approval changes
/// conditions only.
pub(super) fn update_signing_request(
    kind: &Kind,
    subresource: Option<&str>,
    old: &Object,
    request: &mut Object,
) {
    match subresource {
        None => reset::apply(kind, None, old, request),
        Some("approval") => {
            let conditions = tree::existing_mut(request, "status")
                .and_then(|status| status.remove("conditions"));
            tree::copy(old, request, "spec");
            tree::copy(old, request, "status");
            let status = tree::child_mut(request, "status");
            status.remove("conditions");
            status.extend(conditions.map(|conditions| ("conditions".to_owned(), conditions)));
        }
        Some(_) => {
            tree::copy(old, request, "spec");
            for verdict in ["Approved", "Denied"] {
                keep_conditions(old, request, verdict);
            }
        }
    }
}

/// Restores the conditions of a type, unless some were added or removed, which validation
/// rejects later.
fn keep_conditions(old: &Object, request: &mut Object, of: &str) {
    let is = |condition: &&Object| tree::text(condition, "type") == of;
    let before: Vec<Object> = tree::child(old, "status")
        .into_iter()
        .flat_map(|status| tree::items(status, "conditions"))
        .filter(is)
        .cloned()
        .collect();
    let Some(status) = tree::existing_mut(request, "status") else {
        return;
    };
    if tree::items(status, "conditions").filter(is).count() != before.len() {
        return;
    }
    let now = tree::items_mut(status, "conditions");
    let now = now.filter(|condition| tree::text(condition, "type") == of);
    for (now, before) in now.zip(before) {
        *now = before;
    }
}

/// Sets the times of conditions that the client left out.
pub(super) fn set_condition_times(old: &Object, request: &mut Object, now: &str) {
    let empty = Object::new();
    let before = tree::child(old, "status").unwrap_or(&empty);
    let Some(status) = tree::existing_mut(request, "status") else {
        return;
    };
    for condition in tree::items_mut(status, "conditions") {
        tree::fill(condition, "lastUpdateTime", now);
        let same = tree::items(before, "conditions").find(|old| {
            let equal = |field| tree::text(old, field) == tree::text(condition, field);
            equal("type") && equal("status") && tree::is_present(old, "lastTransitionTime")
        });
        let since = same.map_or(now, |old| tree::text(old, "lastTransitionTime"));
        tree::fill(condition, "lastTransitionTime", since);
    }
}

/// Records the storage version in `status.storedVersions`.
pub(super) fn add_stored_version(definition: &mut Object) {
    let stored = tree::child(definition, "spec").and_then(|spec| {
        let mut versions = tree::items(spec, "versions");
        let version = versions.find(|version| tree::boolean(version, "storage"))?;
        Some(tree::text(version, "name").to_owned())
    });
    if let Some(stored) = stored {
        let status = tree::child_mut(definition, "status");
        tree::push_unique(status, "storedVersions", &stored);
    }
}

/// Marks an APIService without a backend service as available.
pub(super) fn create_api_service(service: &mut Object, now: &str) {
    let remote = tree::child(service, "spec").is_some_and(|spec| tree::is_present(spec, "service"));
    if !remote {
        let available = json!({
            "type": "Available",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "Local",
            "message": "Local APIServices are always available",
        });
        push(tree::child_mut(service, "status"), "conditions", available);
    }
}

/// Sets the time of taints without one.
pub(super) fn set_taint_times(slice: &mut Object, now: &str) {
    let Some(spec) = tree::existing_mut(slice, "spec") else {
        return;
    };
    for device in tree::items_mut(spec, "devices") {
        for taint in tree::items_mut(device, "taints") {
            tree::fill(taint, "timeAdded", now);
        }
    }
}
