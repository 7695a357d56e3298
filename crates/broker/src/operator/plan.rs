//! The plan for a tenant, computed without I/O from the observed state.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};

use super::object::{Act, Object, delete, is_going, release, remake, settle};
use super::observe::{Ground, Inside, Observed};
use super::problem::Problem;
use super::wanted::Wanted;
use crate::names::{ADMIN, MANAGED_BY};
use crate::token;

/// The actions to take, and the tenant's state until they are done.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub state: State,
    /// The actions, in order.
    pub acts: Vec<Act>,
}

/// The state of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Required objects are missing.
    Provisioning,
    /// It can be used; remaining actions are repairs.
    Provisioned,
    /// A problem keeps it from being provisioned.
    Hindered(Problem),
    /// It is being deleted.
    Deleting(Going),
    /// Nothing is left of it.
    Removed,
}

/// The progress of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Going {
    pub reason: &'static str,
    pub message: String,
}

/// How long the server usually takes to issue a token; timestamps have whole seconds.
const TOKEN_SOON: SignedDuration = SignedDuration::from_secs(2);
/// How long it may take before it counts as a problem.
const TOKEN_PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// Plans the provisioning of a tenant.
pub(super) fn plan(wanted: Wanted<'_>, observed: &Observed, now: Timestamp) -> Plan {
    let admins = wanted.check_admins();
    if let Err(problem) = &admins
        && Ground::of_status(wanted).is_none()
    {
        // Nothing was created so far, so nothing needs repair.
        return Plan::hindered(problem.clone());
    }
    let plan = plan_ground(wanted, observed);
    let plan = plan.unwrap_or_else(|| plan_namespace(wanted, observed, now));
    match (plan.state, admins) {
        (State::Provisioned, Err(problem)) => Plan {
            state: State::Hindered(problem),
            acts: plan.acts,
        },
        (state, _) => Plan { state, ..plan },
    }
}

/// Plans the namespace and its contents.
fn plan_namespace(wanted: Wanted<'_>, observed: &Observed, now: Timestamp) -> Plan {
    let Some(namespace) = &observed.namespace else {
        return Plan::make(everything(wanted, observed));
    };
    let name = || namespace.name_any();
    if namespace.metadata.deletion_timestamp.is_some() {
        return Plan::hindered(Problem::NamespaceTerminating(name()));
    }
    if !wanted.owns(&namespace.metadata) {
        return Plan::hindered(Problem::NamespaceNotOurs(name()));
    }
    let acts = everything(wanted, observed);
    if let Some(part) = find_going(&observed.inside) {
        return Plan {
            state: State::Hindered(Problem::PartTerminating(part)),
            acts,
        };
    }
    match is_usable(&observed.inside) {
        true if acts.is_empty() => finish(&observed.inside, now),
        true => Plan {
            state: match token_is_there(&observed.inside) {
                true => State::Provisioned,
                false => State::Provisioning,
            },
            acts,
        },
        false => Plan::make(acts),
    }
}

impl Plan {
    fn make(acts: Vec<Act>) -> Self {
        Self {
            state: State::Provisioning,
            acts,
        }
    }

    /// A problem, without any action.
    fn hindered(problem: Problem) -> Self {
        Self {
            state: State::Hindered(problem),
            acts: Vec::new(),
        }
    }
}

/// Plans what has to exist before the namespace of a tenant with a space.
fn plan_ground(wanted: Wanted<'_>, observed: &Observed) -> Option<Plan> {
    let ground = Ground::wanted(wanted);
    if Ground::of_status(wanted).is_some_and(|was| was != ground) {
        return Some(Plan::hindered(Problem::IsolationChanged));
    }
    if ground == Ground::Here {
        return None;
    }
    if !observed.spaces_served {
        return Some(Plan::hindered(Problem::SpacesNotServed));
    }
    let Some(space) = &observed.space else {
        return Some(match &observed.namespace {
            Some(taken) => Plan::hindered(Problem::NamespaceNotOurs(taken.name_any())),
            None => Plan::make(vec![Act::create(wanted.space().into())]),
        });
    };
    let name = || space.name_any();
    if space.metadata.deletion_timestamp.is_some() {
        return Some(Plan::hindered(Problem::SpaceTerminating(name())));
    }
    if !wanted.owns(&space.metadata) {
        return Some(Plan::hindered(Problem::SpaceNotOurs(name())));
    }
    let missing = observed
        .definitions
        .iter()
        .filter(|(_, there)| there.is_none());
    let acts: Vec<_> = missing
        .map(|(definition, _)| Act::create(definition.clone().into()))
        .collect();
    if !acts.is_empty() {
        return Some(Plan::make(acts));
    }
    let pending = observed
        .definitions
        .iter()
        .any(|(_, there)| *there == Some(false));
    pending.then(|| Plan::hindered(Problem::KindsNotServed))
}

/// Plans the namespace and its contents, in the order of creation.
fn everything(wanted: Wanted<'_>, observed: &Observed) -> Vec<Act> {
    let inside = &observed.inside;
    let mut acts = settle(wanted.namespace(), observed.namespace.as_ref());
    acts.extend(settle(wanted.account(), inside.account.as_ref()));
    acts.extend(settle(wanted.admin_role(), inside.admin_role.as_ref()));
    acts.extend(settle(
        wanted.admin_binding(),
        inside.admin_binding.as_ref(),
    ));
    acts.extend(settle(wanted.cluster_role(), inside.cluster_role.as_ref()));
    // Before the token: a tenant with a token is Provisioned, and then its managers read that
    // token.
    acts.extend(settle_offering(wanted, observed));
    acts.extend(settle_token(wanted, inside));
    acts
}

/// Plans the token's Secret. One with the token of another account, of an earlier account of
/// the same name, or with an invalid token is recreated.
fn settle_token(wanted: Wanted<'_>, inside: &Inside) -> Vec<Act> {
    let token = wanted.token();
    match &inside.token {
        Some(found) if !is_right(found, inside) => remake(token, found),
        found => settle(token, found.as_ref()),
    }
}

fn is_right(secret: &Secret, inside: &Inside) -> bool {
    let account = inside
        .account
        .as_ref()
        .filter(|account| !is_going(*account));
    let uid = account.and_then(|account| account.metadata.uid.as_deref());
    token::is_its(secret, ADMIN, uid)
}

/// Plans the role of tenant managers to read this tenant's token; without managers, role and
/// binding are deleted if the operator created them.
fn settle_offering(wanted: Wanted<'_>, observed: &Observed) -> Vec<Act> {
    let (role, binding) = (
        observed.inside.offering_role.as_ref(),
        observed.inside.offering_binding.as_ref(),
    );
    match &observed.offering {
        Some(subjects) => {
            let mut acts = settle(wanted.offering_role(), role);
            acts.extend(settle(wanted.offering_binding(subjects), binding));
            acts
        }
        None => {
            let binding = binding.filter(|found| is_managed(*found));
            let role = role.filter(|found| is_managed(*found));
            let mut acts = Vec::from_iter(binding.and_then(delete));
            acts.extend(role.and_then(delete));
            acts.extend(binding.and_then(release));
            acts.extend(role.and_then(release));
            acts
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
fn find_going(inside: &Inside) -> Option<String> {
    let parts = [
        described(inside.account.as_ref()),
        described(inside.admin_role.as_ref()),
        described(inside.admin_binding.as_ref()),
        described(inside.cluster_role.as_ref()),
        described(inside.token.as_ref()),
    ];
    parts.into_iter().flatten().next()
}

fn described<K: Resource + Clone>(part: Option<&K>) -> Option<String>
where
    Object: From<K>,
{
    let part = part.filter(|part| is_going(*part))?;
    Some(Object::from(part.clone()).to_string())
}

/// Returns whether all required objects exist.
fn is_usable(inside: &Inside) -> bool {
    let parts = [
        inside.account.is_some(),
        inside.admin_role.is_some(),
        inside.admin_binding.is_some(),
        inside.cluster_role.is_some(),
        inside.token.is_some(),
    ];
    parts.iter().all(|there| *there)
}

fn token_is_there(inside: &Inside) -> bool {
    let secret = inside.token.as_ref();
    secret.is_some_and(|secret| token::of(secret).is_some() && is_right(secret, inside))
}

/// All objects exist; the token may still be pending.
fn finish(inside: &Inside, now: Timestamp) -> Plan {
    if token_is_there(inside) {
        return Plan {
            state: State::Provisioned,
            acts: Vec::new(),
        };
    }
    let made = inside.token.as_ref();
    let made = made.and_then(|secret| secret.metadata.creation_timestamp.as_ref());
    let age = made.map(|made| now.duration_since(made.0));
    match age.unwrap_or_default() {
        age if age > TOKEN_PATIENCE => Plan::hindered(Problem::TokenNotMade),
        age if age > TOKEN_SOON => Plan::hindered(Problem::TokenPending),
        // The token is about to be issued, which is not worth a message.
        _ => Plan::make(Vec::new()),
    }
}
