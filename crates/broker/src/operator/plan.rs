//! From what there is to what is to be done. Nothing here talks to anybody.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};

use super::object::{Act, Object, delete, is_going, release, remake, settle};
use super::observe::{Ground, Inside, Observed};
use super::problem::Problem;
use super::wanted::Wanted;
use crate::names::{ADMIN, MANAGED_BY};
use crate::token;

/// What is to be done, and how the tenant is until then.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub state: State,
    /// In this order.
    pub acts: Vec<Act>,
}

/// How a tenant is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Parts are missing without which it is of no use.
    Provisioning,
    /// It can be used; what is to be done is putting right.
    Provisioned,
    /// Something is in the way.
    Hindered(Problem),
    /// It goes, and this is how far it is.
    Deleting(Going),
    /// Nothing is left of it.
    Removed,
}

/// How far the removal of a tenant is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Going {
    pub reason: &'static str,
    pub message: String,
}

/// How long the server usually takes to make a token; times are in whole seconds.
const TOKEN_SOON: SignedDuration = SignedDuration::from_secs(2);
/// How long it may take before something must be wrong.
const TOKEN_PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// What is to be done for a tenant that is to be there.
pub(super) fn plan(wanted: Wanted<'_>, observed: &Observed, now: Timestamp) -> Plan {
    let admins = wanted.check_admins();
    if let Err(problem) = &admins
        && Ground::of_status(wanted).is_none()
    {
        // Nothing was made so far, so nothing needs to be kept right.
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

/// What there is to do for the namespace and what is in it.
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

    /// Nothing is done while something is in the way.
    fn hindered(problem: Problem) -> Self {
        Self {
            state: State::Hindered(problem),
            acts: Vec::new(),
        }
    }
}

/// What there is to do or to wait for before the namespace of a tenant that has a space.
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

/// The namespace and all that is in it, in the order in which it is made.
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
    // Before the token: a tenant whose token is there is Provisioned, and whoever manages it
    // reads that token then.
    acts.extend(settle_offering(wanted, observed));
    acts.extend(settle_token(wanted, inside));
    acts
}

/// A Secret with the token of another account, or of an earlier one of the same name, or with
/// something that is no token, is of no use to anybody.
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

/// What lets those who manage tenants hand out this one's token; what is left of it when
/// there are none is taken away, if it is ours.
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

/// A part that a tenant cannot do without and that is being deleted, if there is one.
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

/// Whether what a tenant cannot do without is there.
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

/// Everything is there; the token may not have been made yet.
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
        // It is there in a moment, and nothing to talk about.
        _ => Plan::make(Vec::new()),
    }
}
