//! What a reconciliation of a kind does besides sending its spec.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::path::Path;

/// A behaviour of a kind. Paths with `status` lead into the status of the custom resource, others
/// into the body of the request. States are compared without regard to case.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    tag = "do",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Behaviour {
    /// No PUT as long as the status has a state other than these.
    WaitForState {
        /// The state in the status.
        path: Path,
        /// The states in which a PUT is possible.
        states: Vec<String>,
    },
    /// No PUT as long as the status has one of these states.
    WaitWhileState {
        /// The state in the status.
        path: Path,
        /// The states in which no PUT is possible.
        states: Vec<String>,
    },
    /// No PUT as long as the status of the owner, if that is a custom resource, has a state other
    /// than these.
    WaitForOwnerState {
        /// The state in the owner's status.
        path: Path,
        /// The states in which a PUT is possible.
        states: Vec<String>,
    },
    /// A GET before the PUT: if the resource exists, elements of a list are taken from it, since a
    /// PUT without them would delete them.
    KeepFromAzure {
        /// The list in the body.
        path: Path,
        /// Which elements are taken.
        merge: Merge,
        /// The fields of elements that are taken; those that only Azure writes are not.
        fields: FieldTree,
    },
    /// After the PUT, the resource is only ready in one of these states.
    RequireState {
        /// The state in the status.
        path: Path,
        /// The states in which the resource is ready.
        states: Vec<String>,
        /// A request that may bring the resource there.
        sync_on: SyncRequest,
    },
    /// After the PUT, the resource is only ready once each element of a list has one of these
    /// values.
    RequireEach {
        /// The list in the status.
        list: Path,
        /// The value in an element.
        path: Path,
        /// The values of elements that are ready.
        values: Vec<String>,
    },
    /// A list is left out of the status if it is longer than this.
    DropLargeStatus {
        /// The list in the status.
        path: Path,
        /// The greatest length that is kept.
        above: usize,
    },
    /// `createMode` of key vaults: `createOrRecover` and `purgeThenCreate` depend on whether a
    /// deleted vault of this name exists.
    RecoverDeletedVault {
        /// The mode in the body.
        path: Path,
        /// The api-version of requests about deleted vaults.
        api: String,
    },
    /// The well-known name of a role is replaced by the id of the built-in role of this name.
    ResolveBuiltInRole {
        /// The id of the role in the body.
        path: Path,
        /// The api-version of the list of roles.
        api: String,
    },
    /// The DELETE has query parameters and a condition.
    DeleteWith {
        /// The query parameters.
        query: BTreeMap<String, String>,
        /// The header `If-Match`.
        if_match: String,
    },
    /// The subscription is cancelled before the resource is deleted.
    CancelSubscription {
        /// The id of the subscription in the status.
        path: Path,
        /// The api-version.
        api: String,
    },
    /// A missing name in Azure becomes a UUID (version 5, or 1 if `operatorSpec.namingConvention` is
    /// `random`) instead of the object's name, unless that is a UUID itself.
    NameByUuid {
        /// Whether the ARM id of an owner that is not a custom resource counts. Kinds of older
        /// releases ignore it.
        owner_id: bool,
    },
    /// The name in Azure is fixed for objects with a value.
    RequireName {
        /// The value in the spec.
        path: Path,
        /// The value of objects that the rule is about.
        value: String,
        /// The name.
        name: String,
    },
    /// The name in Azure is that of a field.
    RequireNameAt {
        /// The name in the spec.
        path: Path,
    },
    /// The ids of owned resources begin with the subscription instead of this resource.
    ChildIdFromSubscription {
        /// The id of the subscription in the status.
        path: Path,
    },
}

/// Fields of an object, each with the fields below it. One with none below it is taken whole.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct FieldTree(BTreeMap<String, FieldTree>);

impl FieldTree {
    /// Removes the fields that are not in the tree, also from the elements of lists.
    pub fn retain(&self, value: &mut Value) {
        if self.0.is_empty() {
            return;
        }
        match value {
            Value::Array(elements) => elements.iter_mut().for_each(|value| self.retain(value)),
            Value::Object(members) => members.retain(|name, value| {
                let known = self.0.get(name);
                known.inspect(|below| below.retain(value)).is_some()
            }),
            _ => {}
        }
    }
}

/// Which elements of a list in Azure become part of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Merge {
    /// All, in the place of those of the custom resource.
    Replace,
    /// Those with a name that no element of the custom resource has.
    ByName,
}

/// A POST that lets Azure look at a resource again.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SyncRequest {
    /// The state in which it is sent.
    pub state: String,
    /// The error code in the status.
    pub code_path: Path,
    /// A part of the error code with which it is sent, in lower case.
    pub code_contains: String,
    /// What the POST appends to the ARM id.
    pub post: String,
    /// The api-version.
    pub api: String,
    /// The body.
    pub body: Value,
}

impl SyncRequest {
    /// Tells whether the request is sent for a resource with a status, in which `state` is the path
    /// of the state.
    pub fn applies(&self, state: &Path, status: &Value) -> bool {
        let text = |path: &Path| path.select(status).and_then(Value::as_str);
        let code = text(&self.code_path).unwrap_or_default().to_lowercase();
        let is_state = |found: &str| found.eq_ignore_ascii_case(&self.state);
        text(state).is_some_and(is_state) && code.contains(&self.code_contains)
    }
}

/// An error of ARM that is retried for this kind although it is fatal for others, or the reverse.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorRule {
    /// The error code; any if absent.
    pub code: Option<String>,
    /// Texts that the message contains, all of them, without regard to case.
    #[serde(default)]
    pub contains: Vec<String>,
    /// Whether the error is fatal; it is retried otherwise.
    #[serde(default)]
    pub fatal: bool,
}

impl ErrorRule {
    /// Tells whether the rule is about an error.
    pub fn applies(&self, code: &str, message: &str) -> bool {
        let message = message.to_lowercase();
        let mut texts = self.contains.iter();
        self.code.as_deref().is_none_or(|own| own == code)
            && texts.all(|text| message.contains(&text.to_lowercase()))
    }
}

/// Resources in Azure that are not imported: those with a value at a path.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportRule {
    /// The value in the custom resource.
    pub path: Path,
    /// The values.
    #[serde(default)]
    pub values: Vec<String>,
    /// The path of a value that is the same.
    pub same_as: Option<Path>,
    /// The value is an ARM id other than the owner's.
    #[serde(default)]
    pub not_owner: bool,
}
