//! Which object a resource in Azure belongs to, if several objects have the same ARM id.
//!
//! The first object that Azure accepted a resource from owns it. An annotation records that, so it
//! holds after a restart too: metadata of all objects is watched anyway. Another object with the
//! same id is refused, and neither changes nor deletes the resource. What Azure did not accept
//! counts for nothing, because a user can name the subscription of another tenant in a Secret.
//!
//! An operator knows the objects of its own namespaces, and those of all tenants that it serves.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use insula_operator::key::Key;
use insula_operator::provider::Requeue;
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use tokio::time::Instant;

use super::policy::is_skipped;
use crate::arm::ResourceId;
use crate::names::{ACCEPTED_ID, FINALIZER, LATEST_RECONCILED_GENERATION, RESOURCE_ID};

/// How long a decision waits for the first lists of all kinds. A kind that the operator may not
/// list must not stop the others.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long after the start an object yields to an older one that was sent, but not recorded as
/// accepted: a killed operator may have missed the answer.
const GRACE: Duration = Duration::from_secs(60);
/// The delay of an object that has to wait for another one.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The objects that resources belong to.
#[derive(Debug)]
pub(super) struct Owners {
    started: Instant,
    requeue: Arc<Requeue>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The watches that have not observed all existing objects yet; none before they start.
    unlisted: Option<BTreeSet<usize>>,
    claimants: HashMap<Arc<str>, BTreeMap<Arc<str>, Claimant>>,
    /// The id of each claimant.
    ids: HashMap<Arc<str>, Arc<str>>,
    /// The object that a request is being sent for, by id.
    in_flight: HashMap<Arc<str>, Arc<str>>,
    /// The objects that were refused, by id.
    refused: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
}

/// An object for which a resource was sent to Azure.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claimant {
    key: Key,
    uid: String,
    created: Option<Timestamp>,
    /// Whether an annotation records that Azure has accepted it.
    is_recorded: bool,
    /// Whether Azure has accepted it from this process, or refused it.
    answer: Option<Answer>,
}

/// The answer of Azure to the last request for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The resource was accepted, or may have been.
    Accepted,
    /// The resource was refused.
    Refused,
}

/// Whether an object may change a resource.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It may.
    Granted,
    /// That is not known yet.
    Wait(Duration),
    /// The resource belongs to this object.
    Refused(Box<Key>),
}

/// The right to send a resource, which ends when it is dropped.
#[derive(Debug)]
pub(super) struct Reservation<'a> {
    owners: &'a Owners,
    id: Arc<str>,
}

impl Owners {
    pub(super) fn new(requeue: Arc<Requeue>) -> Self {
        Self {
            started: Instant::now(),
            requeue,
            state: Mutex::default(),
        }
    }

    /// Expects the first lists of so many watches.
    pub(super) fn watches_started(&self, watches: usize) {
        self.state().unlisted = Some((0..watches).collect());
    }

    /// Records that a watch has observed all existing objects.
    pub(super) fn watch_listed(&self, watch: usize) {
        if let Some(unlisted) = &mut self.state().unlisted {
            unlisted.remove(&watch);
        }
    }

    /// Records the state of an object; without metadata it does not exist any more.
    pub(super) fn observe(&self, key: &Key, metadata: Option<&ObjectMeta>) {
        let claim = metadata.and_then(|metadata| claim(key, metadata));
        self.state().set(&key.text(), claim, &self.requeue);
    }

    /// Returns whether an object may change the resource with an id.
    pub(super) fn admit(&self, key: &Key, id: &ResourceId, now: Instant) -> Admission {
        self.state()
            .admit(&key.text(), &normal(id), self.started, now)
    }

    /// Reserves a resource for an object while it is being sent.
    ///
    /// # Errors
    ///
    /// If the object may not change it.
    pub(super) fn reserve(
        &self,
        key: &Key,
        id: &ResourceId,
        now: Instant,
    ) -> Result<Reservation<'_>, Admission> {
        let (name, id) = (key.text(), normal(id));
        let mut state = self.state();
        match state.admit(&name, &id, self.started, now) {
            Admission::Granted => {
                state.in_flight.insert(Arc::clone(&id), name);
                let owners = self;
                Ok(Reservation { owners, id })
            }
            refused => Err(refused),
        }
    }

    /// Records the answer of Azure to the resource of an object.
    pub(super) fn answered(
        &self,
        key: &Key,
        metadata: &ObjectMeta,
        id: &ResourceId,
        answer: Answer,
    ) {
        let known = claim(key, metadata).map(|(_, known)| known);
        let claimant = Claimant {
            answer: Some(answer),
            ..known.unwrap_or_else(|| claimant(key, metadata))
        };
        let claim = Some((normal(id), claimant));
        self.state().set(&key.text(), claim, &self.requeue);
    }

    /// Forgets that an object was sent, because its resource belongs to another one.
    pub(super) fn withdraw(&self, key: &Key) {
        self.state().set(&key.text(), None, &self.requeue);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.owners.state().in_flight.remove(&self.id);
    }
}

impl State {
    /// Replaces the claim of an object. Those that it kept from a resource are triggered.
    fn set(&mut self, name: &Arc<str>, claim: Option<(Arc<str>, Claimant)>, requeue: &Requeue) {
        let before = self.ids.remove(name);
        let mut known = None;
        if let Some(id) = &before
            && let Some(of_id) = self.claimants.get_mut(id)
        {
            known = of_id.remove(name);
            if of_id.is_empty() {
                self.claimants.remove(id);
            }
        }
        let is_same = claim
            .as_ref()
            .is_some_and(|(id, _)| before.as_ref() == Some(id));
        if !is_same && let Some(id) = before {
            for refused in self.refused.remove(&id).into_iter().flatten() {
                requeue.add(refused);
            }
        }
        let Some((id, mut claimant)) = claim else {
            return;
        };
        // An event may be older than the answer of Azure.
        let known = known.filter(|known| is_same && known.uid == claimant.uid);
        let known = known.and_then(|known| known.answer);
        claimant.answer = claimant.answer.or(known);
        self.ids.insert(Arc::clone(name), Arc::clone(&id));
        let of_id = self.claimants.entry(id).or_default();
        of_id.insert(Arc::clone(name), claimant);
    }

    fn admit(
        &mut self,
        name: &Arc<str>,
        id: &Arc<str>,
        started: Instant,
        now: Instant,
    ) -> Admission {
        let is_listed = self.unlisted.as_ref().is_some_and(BTreeSet::is_empty);
        if !is_listed && now < started + LIST_TIMEOUT {
            return Admission::Wait(RETRY_DELAY);
        }
        let is_in_flight = self.in_flight.get(id).is_some_and(|other| other != name);
        if is_in_flight {
            return Admission::Wait(RETRY_DELAY);
        }
        let of_id = self.claimants.get(id);
        let own = of_id.and_then(|all| all.get(name));
        let is_other = |other: &Arc<str>, claimant: &Claimant| {
            other != name && (claimant.is_owner() || claimant.answer != Some(Answer::Refused))
        };
        let others = of_id.into_iter().flatten();
        let others = others.filter(|(other, claimant)| is_other(other, claimant));
        let Some((first, other)) = others.min_by_key(|(other, claimant)| claimant.rank(other))
        else {
            return Admission::Granted;
        };
        let is_behind = own.is_none_or(|own| other.rank(first) < own.rank(name));
        match (other.is_owner(), is_behind) {
            (true, true) => {
                let refused = self.refused.entry(Arc::clone(id)).or_default();
                refused.insert(Arc::clone(name));
                Admission::Refused(Box::new(other.key.clone()))
            }
            (false, true) if now < started + GRACE => Admission::Wait(RETRY_DELAY),
            _ => Admission::Granted,
        }
    }
}

impl Claimant {
    const fn is_owner(&self) -> bool {
        self.is_recorded || matches!(self.answer, Some(Answer::Accepted))
    }

    /// Returns the order of objects with the same id: owners before others, those that Azure has
    /// accepted from this process before those with a record only, older ones before younger ones.
    fn rank<'a>(&self, name: &'a str) -> (bool, bool, Option<Timestamp>, &'a str) {
        let is_accepted = self.answer == Some(Answer::Accepted);
        (!self.is_owner(), !is_accepted, self.created, name)
    }
}

fn claimant(key: &Key, metadata: &ObjectMeta) -> Claimant {
    Claimant {
        key: key.clone(),
        uid: metadata.uid.clone().unwrap_or_default(),
        created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        is_recorded: false,
        answer: None,
    }
}

/// Returns the id and the claim of an object that was sent. One that is only read claims nothing.
fn claim(key: &Key, metadata: &ObjectMeta) -> Option<(Arc<str>, Claimant)> {
    let annotations = metadata.annotations.as_ref()?;
    let id: ResourceId = annotations.get(RESOURCE_ID)?.parse().ok()?;
    let is_held = metadata
        .finalizers
        .iter()
        .flatten()
        .any(|it| it == FINALIZER);
    let recorded = annotations.get(ACCEPTED_ID);
    let is_sent = recorded.is_some() || annotations.contains_key(LATEST_RECONCILED_GENERATION);
    if !is_held || !is_sent || is_skipped(annotations) {
        return None;
    }
    let id = normal(&id);
    let is_recorded = recorded.is_some_and(|recorded| recorded.eq_ignore_ascii_case(&id));
    let claimant = Claimant {
        is_recorded,
        ..claimant(key, metadata)
    };
    Some((id, claimant))
}

/// Returns an id in the form in which ids are compared.
fn normal(id: &ResourceId) -> Arc<str> {
    id.as_str().to_ascii_lowercase().into()
}

#[cfg(test)]
mod tests;
