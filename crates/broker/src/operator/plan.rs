//! The plan for a tenant, computed without I/O from the observed state.

use k8s_openapi::api::core::v1::{ResourceQuota, Secret};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};

use super::desired::Desired;
use super::object::{
    Action, Object, delete, is_being_deleted, plan_part, recreate, remove_finalizers,
};
use super::observe::{Location, NamespaceContents, Observed};
use super::problem::Problem;
use crate::names::{ADMIN, MANAGED_BY};
use crate::{quota, token};

/// The actions to take, and the tenant's state until they are done.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub state: State,
    /// The actions, in order.
    pub actions: Vec<Action>,
}

/// The state of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Required objects are missing.
    Provisioning,
    /// It can be used; remaining actions are repairs.
    Provisioned,
    /// A problem keeps it from being provisioned.
    Problem(Problem),
    /// It is being deleted.
    Deleting(DeletionProgress),
    /// Nothing is left of it.
    Removed,
}

/// The progress of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeletionProgress {
    pub reason: &'static str,
    pub message: String,
}

/// How long the server usually takes to issue a token; timestamps have whole seconds.
const TOKEN_GRACE: SignedDuration = SignedDuration::from_secs(2);
/// How long it may take before it counts as a problem.
const TOKEN_TIMEOUT: SignedDuration = SignedDuration::from_secs(60);

/// How long the objects of a new quota may take to be counted. A server without that
/// controller never counts them.
const QUOTA_GRACE: SignedDuration = SignedDuration::from_secs(5);

/// Plans the provisioning of a tenant.
pub(super) fn plan(desired: Desired<'_>, observed: &Observed, now: Timestamp) -> Plan {
    let admins = desired.check_admins();
    if let Err(problem) = &admins
        && Location::from_status(desired).is_none()
    {
        // Nothing was created so far, so nothing needs repair.
        return Plan::problem(problem.clone());
    }
    let plan = plan_space(desired, observed);
    let plan = plan.unwrap_or_else(|| plan_namespace(desired, observed, now));
    match (plan.state, admins) {
        (State::Provisioned, Err(problem)) => Plan {
            state: State::Problem(problem),
            actions: plan.actions,
        },
        (state, _) => Plan { state, ..plan },
    }
}

/// Plans the namespace and its contents.
fn plan_namespace(desired: Desired<'_>, observed: &Observed, now: Timestamp) -> Plan {
    let Some(namespace) = &observed.namespace else {
        return Plan::provisioning(plan_contents(desired, observed));
    };
    let name = || namespace.name_any();
    if namespace.metadata.deletion_timestamp.is_some() {
        return Plan::problem(Problem::NamespaceTerminating(name()));
    }
    if !desired.owns(&namespace.metadata) {
        return Plan::problem(Problem::NamespaceNotOurs(name()));
    }
    let actions = plan_contents(desired, observed);
    if let Some(part) = find_deleting(&observed.contents) {
        return Plan {
            state: State::Problem(Problem::PartTerminating(part)),
            actions,
        };
    }
    match is_complete(&observed.contents) {
        true if actions.is_empty() => plan_completion(desired, &observed.contents, now),
        true => Plan {
            state: match has_token(&observed.contents) {
                true => State::Provisioned,
                false => State::Provisioning,
            },
            actions,
        },
        false => Plan::provisioning(actions),
    }
}

impl Plan {
    fn provisioning(actions: Vec<Action>) -> Self {
        Self {
            state: State::Provisioning,
            actions,
        }
    }

    /// A problem, without any action.
    fn problem(problem: Problem) -> Self {
        Self {
            state: State::Problem(problem),
            actions: Vec::new(),
        }
    }
}

/// Plans what has to exist before the namespace of a tenant with a space.
fn plan_space(desired: Desired<'_>, observed: &Observed) -> Option<Plan> {
    let location = Location::desired(desired);
    if Location::from_status(desired).is_some_and(|was| was != location) {
        return Some(Plan::problem(Problem::IsolationChanged));
    }
    if location == Location::Local {
        return None;
    }
    if !observed.spaces_served {
        return Some(Plan::problem(Problem::SpacesNotServed));
    }
    let Some(space) = &observed.space else {
        return Some(match &observed.namespace {
            Some(taken) => Plan::problem(Problem::NamespaceNotOurs(taken.name_any())),
            None => Plan::provisioning(vec![Action::create(desired.space().into())]),
        });
    };
    let name = || space.name_any();
    if space.metadata.deletion_timestamp.is_some() {
        return Some(Plan::problem(Problem::SpaceTerminating(name())));
    }
    if !desired.owns(&space.metadata) {
        return Some(Plan::problem(Problem::SpaceNotOurs(name())));
    }
    let missing = observed
        .definitions
        .iter()
        .filter(|(_, there)| there.is_none());
    let actions: Vec<_> = missing
        .map(|(definition, _)| Action::create(definition.clone().into()))
        .collect();
    if !actions.is_empty() {
        return Some(Plan::provisioning(actions));
    }
    let pending = observed
        .definitions
        .iter()
        .any(|(_, there)| *there == Some(false));
    pending.then(|| Plan::problem(Problem::KindsNotServed))
}

/// Plans the namespace and its contents, in the order of creation.
fn plan_contents(desired: Desired<'_>, observed: &Observed) -> Vec<Action> {
    let contents = &observed.contents;
    let mut actions = plan_part(desired.namespace(), observed.namespace.as_ref());
    actions.extend(plan_part(desired.account(), contents.account.as_ref()));
    actions.extend(plan_part(
        desired.admin_role(),
        contents.admin_role.as_ref(),
    ));
    actions.extend(plan_part(
        desired.admin_binding(),
        contents.admin_binding.as_ref(),
    ));
    actions.extend(plan_part(
        desired.cluster_role(),
        contents.cluster_role.as_ref(),
    ));
    // Before the token: a tenant with a token is Provisioned, and then its managers read that
    // token.
    actions.extend(plan_offering(desired, observed));
    actions.extend(plan_token(desired, contents));
    // Last: Kubernetes refuses objects until it has counted those of a new quota.
    actions.extend(plan_quota(desired, contents.quota.as_ref()));
    actions
}

/// Plans the quota. Quantities are compared by value, because servers write them in a form of
/// their own.
fn plan_quota(desired: Desired<'_>, found: Option<&ResourceQuota>) -> Vec<Action> {
    let quota = desired.quota();
    let Some(found) = found else {
        return vec![Action::create(quota.into())];
    };
    if is_being_deleted(found) {
        return recreate(quota, found);
    }
    let spec = found.spec.clone().unwrap_or_default();
    let is_right = quota::is_same(spec.hard.as_ref(), &desired.amounts())
        && spec.scopes.is_none()
        && spec.scope_selector.is_none()
        && is_managed(found);
    if is_right {
        return Vec::new();
    }
    let mut replacement = found.clone();
    replacement.spec = quota.spec;
    let labels = quota.metadata.labels.unwrap_or_default();
    replacement.labels_mut().extend(labels);
    vec![Action::replace(replacement.into())]
}

/// Plans the token's Secret. One with the token of another account, of an earlier account of
/// the same name, or with an invalid token is recreated.
fn plan_token(desired: Desired<'_>, contents: &NamespaceContents) -> Vec<Action> {
    let token = desired.token();
    match &contents.token {
        Some(found) if !is_valid_token(found, contents) => recreate(token, found),
        found => plan_part(token, found.as_ref()),
    }
}

fn is_valid_token(secret: &Secret, contents: &NamespaceContents) -> bool {
    let account = contents
        .account
        .as_ref()
        .filter(|account| !is_being_deleted(*account));
    let uid = account.and_then(|account| account.metadata.uid.as_deref());
    token::belongs_to(secret, ADMIN, uid)
}

/// Plans the role of tenant managers to read this tenant's token; without managers, role and
/// binding are deleted if the operator created them.
fn plan_offering(desired: Desired<'_>, observed: &Observed) -> Vec<Action> {
    let (role, binding) = (
        observed.contents.offering_role.as_ref(),
        observed.contents.offering_binding.as_ref(),
    );
    match &observed.offering {
        Some(subjects) => {
            let mut actions = plan_part(desired.offering_role(), role);
            actions.extend(plan_part(desired.offering_binding(subjects), binding));
            actions
        }
        None => {
            let binding = binding.filter(|found| is_managed(*found));
            let role = role.filter(|found| is_managed(*found));
            let mut actions = Vec::from_iter(binding.and_then(delete));
            actions.extend(role.and_then(delete));
            actions.extend(binding.and_then(remove_finalizers));
            actions.extend(role.and_then(remove_finalizers));
            actions
        }
    }
}

fn is_managed<K: ResourceExt>(object: &K) -> bool {
    let (label, value) = MANAGED_BY;
    object
        .labels()
        .get(label)
        .is_some_and(|found| found == value)
}

/// Returns a required object that is being deleted, if there is one.
fn find_deleting(contents: &NamespaceContents) -> Option<String> {
    let parts = [
        describe_if_deleting(contents.account.as_ref()),
        describe_if_deleting(contents.admin_role.as_ref()),
        describe_if_deleting(contents.admin_binding.as_ref()),
        describe_if_deleting(contents.cluster_role.as_ref()),
        describe_if_deleting(contents.token.as_ref()),
    ];
    parts.into_iter().flatten().next()
}

fn describe_if_deleting<K: Resource + Clone>(part: Option<&K>) -> Option<String>
where
    Object: From<K>,
{
    let part = part.filter(|part| is_being_deleted(*part))?;
    Some(Object::from(part.clone()).to_string())
}

/// Returns whether all required objects exist.
fn is_complete(contents: &NamespaceContents) -> bool {
    let parts = [
        contents.account.is_some(),
        contents.admin_role.is_some(),
        contents.admin_binding.is_some(),
        contents.cluster_role.is_some(),
        contents.token.is_some(),
    ];
    parts.iter().all(|there| *there)
}

fn has_token(contents: &NamespaceContents) -> bool {
    let secret = contents.token.as_ref();
    secret.is_some_and(|secret| token::of(secret).is_some() && is_valid_token(secret, contents))
}

/// All objects exist; the token and the counts of the quota may still be pending.
fn plan_completion(desired: Desired<'_>, contents: &NamespaceContents, now: Timestamp) -> Plan {
    if has_token(contents) && is_new_quota_pending(desired, contents, now) {
        return Plan::provisioning(Vec::new());
    }
    if has_token(contents) {
        return Plan {
            state: State::Provisioned,
            actions: Vec::new(),
        };
    }
    let made = contents.token.as_ref();
    let made = made.and_then(|secret| secret.metadata.creation_timestamp.as_ref());
    let age = made.map(|made| now.duration_since(made.0));
    match age.unwrap_or_default() {
        age if age > TOKEN_TIMEOUT => Plan::problem(Problem::TokenNotMade),
        age if age > TOKEN_GRACE => Plan::problem(Problem::TokenPending),
        // The token is about to be issued, which is not worth a message.
        _ => Plan::provisioning(Vec::new()),
    }
}

/// Returns whether a new tenant's quota has no counts yet: until then Kubernetes refuses
/// objects in its namespace.
fn is_new_quota_pending(
    desired: Desired<'_>,
    contents: &NamespaceContents,
    now: Timestamp,
) -> bool {
    let status = desired.tenant.status.as_ref();
    let is_new = status.is_none_or(|status| status.provisioned_at.is_none());
    let pending = contents.quota.as_ref().filter(|quota| {
        let counted = quota
            .status
            .as_ref()
            .and_then(|status| status.used.as_ref());
        counted.is_none_or(std::collections::BTreeMap::is_empty)
    });
    let created = pending.and_then(|quota| quota.metadata.creation_timestamp.as_ref());
    is_new && created.is_some_and(|created| now.duration_since(created.0) <= QUOTA_GRACE)
}
