//! The state of ARM: subscriptions, resources, deleted vaults and operations.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use super::access::{Subscriptions, covers};
use super::journal::Caller;
use super::kinds;
use super::manner::{Manner, Manners};
use super::operation::{Effect, Operation, Outcome};
use super::path::ArmId;
use super::resource::{Resource, SUCCEEDED};

/// The state of ARM.
#[derive(Debug, Default)]
pub(super) struct ArmState {
    pub subscriptions: Subscriptions,
    /// Resources and groups, by key.
    pub resources: BTreeMap<String, Resource>,
    pub operations: BTreeMap<String, Operation>,
    /// Vaults that can be recovered, by the key of their former id.
    pub deleted_vaults: BTreeMap<String, Resource>,
    pub manners: Manners,
    /// Answers to actions that a test chose, by type and action in lower case.
    pub answers: BTreeMap<(String, String), Value>,
    /// Errors of the next operations on resources of a type, in lower case.
    pub failures: VecDeque<(String, Value)>,
    /// The number of elements in a page of a collection; all if absent.
    pub page_size: Option<usize>,
}

impl ArmState {
    pub fn get(&self, id: &ArmId) -> Option<&Resource> {
        self.resources.get(&id.key())
    }

    pub fn manner(&self, id: &ArmId) -> Manner {
        self.manners.of(&id.resource_type())
    }

    /// The resource in an answer.
    pub fn view(&self, resource: &Resource) -> Value {
        let manner = self.manner(&resource.id);
        let kind = kinds::facts(&resource.id.resource_type());
        let embedded = kind
            .embedded
            .iter()
            .map(|child| (*child, self.children(&resource.id, child)));
        resource.view(&manner, embedded.collect())
    }

    /// The children of a type in an answer.
    pub fn children(&self, id: &ArmId, kind: &str) -> Vec<Value> {
        let prefix = format!("{}/", id.child(kind, "").key().trim_end_matches('/'));
        let below = self.below(&id.key());
        let children = below.filter(|(key, _)| {
            key.strip_prefix(&prefix)
                .is_some_and(|name| !name.contains('/'))
        });
        children.map(|(_, child)| self.view(child)).collect()
    }

    /// All resources below an id, without the id itself.
    pub fn below<'a>(
        &'a self,
        key: &str,
    ) -> impl Iterator<Item = (&'a String, &'a Resource)> + use<'a> {
        let from = format!("{key}/");
        let all = self.resources.range(from.clone()..);
        all.take_while(move |(key, _)| key.starts_with(&from))
    }

    /// The location of operations of a resource: its own, its parent's, or its group's.
    pub fn location_of(&self, id: &ArmId) -> String {
        let own = self.get(id).map(Resource::location).unwrap_or_default();
        match (own.is_empty(), id.parent()) {
            (true, Some(parent)) => self.location_of(&parent),
            (true, None) => "global".to_owned(),
            (false, _) => own.to_owned(),
        }
    }

    /// Whether a role assignment gives the caller access to a scope.
    pub fn has_role(&self, caller: &Caller, key: &str) -> bool {
        let mut all = self.resources.iter();
        all.any(|(assignment, resource)| {
            let Some((scope, _)) =
                assignment.split_once("/providers/microsoft.authorization/roleassignments/")
            else {
                return false;
            };
            let principal = resource.property("principalId").and_then(Value::as_str);
            principal == Some(&caller.principal) && covers(scope, key)
        })
    }
}

/// Operations.
impl ArmState {
    /// Begins an operation on a resource. An earlier one that is in progress is canceled.
    pub fn begin(&mut self, target: &ArmId, effect: Effect, api_version: &str) -> String {
        let manner = self.manner(target);
        let mut operation = Operation::new(target.clone(), effect, manner.clone());
        operation.location = self.location_of(target);
        operation.polls = self.manners.polls(&manner);
        operation.retry_after = self.manners.retry_after(&manner);
        api_version.clone_into(&mut operation.api_version);
        operation.failure = self.take_failure(target);
        let id = operation.id.clone();
        let former = self
            .resources
            .get_mut(&target.key())
            .and_then(|resource| resource.operation.replace(id.clone()));
        if let Some(former) = former.and_then(|former| self.operations.get_mut(&former)) {
            former.outcome = Some(Outcome::Canceled(json!({
                "code": "CanceledAndSupersededDueToAnotherOperation",
                "message": "Operation was canceled and superseded by another operation.",
            })));
        }
        self.operations.insert(id.clone(), operation);
        id
    }

    /// Counts an observation of an operation, and ends it if it is due.
    pub fn observe(&mut self, id: &str) {
        let Some(operation) = self.operations.get_mut(id) else {
            return;
        };
        let due = operation.observe();
        let (target, effect) = (operation.target.clone(), operation.effect);
        let left = operation.polls.saturating_sub(operation.observed) as usize;
        if due {
            self.complete(id);
        } else if effect == Effect::Delete && target.is_group() {
            self.delete_some(&target, left);
        }
    }

    /// Counts an observation of the operation of a resource, if one is in progress.
    pub fn observe_resource(&mut self, id: &ArmId) {
        let operation = self.get(id).and_then(|resource| resource.operation.clone());
        if let Some(operation) = operation {
            self.observe(&operation);
        }
    }

    /// Counts an observation of the purges of a deleted vault.
    pub fn observe_purges(&mut self, vault: &ArmId) {
        let purges = self.operations.values().filter(|operation| {
            operation.effect == Effect::PurgeVault && operation.target.key() == vault.key()
        });
        let purges: Vec<String> = purges.map(|operation| operation.id.clone()).collect();
        for purge in purges {
            self.observe(&purge);
        }
    }

    /// Makes the URLs of all operations unknown. The operations themselves continue.
    pub fn forget_operations(&mut self) {
        for operation in self.operations.values_mut() {
            operation.forgotten = true;
        }
    }

    /// Removes a resource and all below it. Vaults can be recovered.
    pub fn remove(&mut self, key: &str) {
        let below: Vec<String> = self.below(key).map(|(key, _)| key.clone()).collect();
        for key in below.into_iter().chain([key.to_owned()]) {
            let Some(removed) = self.resources.remove(&key) else {
                continue;
            };
            if removed
                .id
                .resource_type()
                .eq_ignore_ascii_case("Microsoft.KeyVault/vaults")
            {
                self.deleted_vaults.insert(key, removed);
            }
        }
    }

    fn complete(&mut self, id: &str) {
        let Some(operation) = self.operations.get_mut(id) else {
            return;
        };
        let key = operation.target.key();
        let outcome = match operation.failure.take() {
            Some(error) => Outcome::Failed(error),
            None => Outcome::Succeeded,
        };
        operation.outcome = Some(outcome.clone());
        match (operation.effect, &outcome) {
            (Effect::Delete, Outcome::Succeeded) => self.remove(&key),
            (Effect::PurgeVault, Outcome::Succeeded) => {
                self.deleted_vaults.remove(&key);
            }
            (_, outcome) => {
                if let Some(resource) = self.resources.get_mut(&key) {
                    let succeeded = *outcome == Outcome::Succeeded;
                    let state = if succeeded { SUCCEEDED } else { "Failed" };
                    resource.state = Some(state.to_owned());
                    resource.operation = None;
                }
            }
        }
    }

    /// Removes a share of a group's resources, the innermost first, so that the last ones are gone
    /// when no polls are left.
    fn delete_some(&mut self, group: &ArmId, polls_left: usize) {
        let mut keys: Vec<String> = self
            .below(&group.key())
            .map(|(key, _)| key.clone())
            .collect();
        keys.sort_by_key(|key| std::cmp::Reverse(key.matches('/').count()));
        let share = keys.len().div_ceil(polls_left + 1);
        for key in keys.into_iter().take(share) {
            self.remove(&key);
        }
    }

    fn take_failure(&mut self, target: &ArmId) -> Option<Value> {
        let kind = target.resource_type().to_ascii_lowercase();
        let at = self.failures.iter().position(|(of, _)| *of == kind)?;
        self.failures.remove(at).map(|(_, error)| error)
    }
}
