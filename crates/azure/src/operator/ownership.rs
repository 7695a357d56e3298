//! Which object a resource in Azure belongs to, if several objects have the same ARM id.
//!
//! The first object that Azure accepted a resource from owns it. Signed annotations record that, so
//! it holds after a restart too: metadata of all objects is watched anyway. Another object with the
//! same id is refused, and neither changes nor deletes the resource. What Azure did not accept
//! counts for nothing, because a user can name the subscription of another tenant in a Secret; nor
//! does an annotation that this operator has not signed. An id belongs to a server: a user may be
//! allowed to name another one, which accepts everything.
//!
//! An operator knows the objects of its own namespaces, and those of all tenants that it serves.

mod record;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use insula_operator::key::{GroupKind, Key};
use insula_operator::provider::Requeue;
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use tokio::time::Instant;

use super::claim::{self, Claim};
use super::policy::is_skipped;
use crate::arm::ResourceId;
use crate::names::{ACCEPTED_ID, FINALIZER, LATEST_RECONCILED_GENERATION, RESOURCE_ID};
use crate::table;

pub(super) use record::{Record, RecordKey};

/// How long a decision waits for the first list of a kind that may not be listed. Others are waited
/// for without a limit. An API server that has just started may forbid what it allows a moment
/// later.
const FORBIDDEN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long after the start an object yields to an older one that was sent, but not recorded as
/// accepted: a killed operator may have missed the answer.
const GRACE: Duration = Duration::from_secs(60);
/// The delay of an object that has to wait for another one.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The objects that resources belong to.
#[derive(Debug)]
pub(super) struct Owners {
    /// The operator's namespace.
    namespace: String,
    key: RecordKey,
    requeue: Arc<Requeue>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// None before watches start.
    term: Option<Term>,
    claimants: HashMap<Arc<str>, BTreeMap<Arc<str>, Claimant>>,
    /// The id of each claimant.
    ids: HashMap<Arc<str>, Arc<str>>,
    /// The object that a request is being sent for, by server and id.
    in_flight: HashMap<(Arc<str>, Arc<str>), Arc<str>>,
    /// The objects that were refused, by id.
    refused: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// The id of each object that was refused.
    refused_ids: HashMap<Arc<str>, Arc<str>>,
}

/// A term of leadership. Objects may have changed unseen between two terms.
#[derive(Debug)]
struct Term {
    started: Instant,
    watches: Vec<Watch>,
}

/// A watch of the objects of a kind.
#[derive(Debug)]
struct Watch {
    arm_type: &'static str,
    list: List,
}

/// The first list of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Pending,
    Forbidden,
    Complete,
}

/// An object for which a resource was sent to Azure.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claimant {
    key: Key,
    uid: String,
    created: Option<Timestamp>,
    /// The server that it was accepted by or sent to, if that is known.
    server: Option<Arc<str>>,
    /// Whether this operator has recorded that Azure has accepted it.
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
    name: Arc<str>,
    target: (Arc<str>, Arc<str>),
}

impl Owners {
    pub(super) fn new(namespace: String, key: RecordKey, requeue: Arc<Requeue>) -> Self {
        Self {
            namespace,
            key,
            requeue,
            state: Mutex::default(),
        }
    }

    /// Begins a term of leadership, with a watch of each of these kinds. What was known before
    /// counts no more.
    pub(super) fn watches_started(&self, kinds: &[GroupKind], now: Instant) {
        let watches = kinds.iter().map(|kind| Watch {
            arm_type: arm_type(kind).unwrap_or_default(),
            list: List::Pending,
        });
        let term = Some(Term {
            started: now,
            watches: watches.collect(),
        });
        *self.state() = State {
            term,
            ..State::default()
        };
    }

    /// Records that a watch has observed all existing objects.
    pub(super) fn watch_listed(&self, watch: usize) {
        self.state().set_list(watch, List::Complete);
    }

    /// Records that the objects of a watch may not be listed.
    pub(super) fn watch_forbidden(&self, watch: usize) {
        self.state().set_list(watch, List::Forbidden);
    }

    /// Records the state of an object; without metadata it does not exist any more.
    pub(super) fn observe(&self, key: &Key, metadata: Option<&ObjectMeta>) {
        let claim = metadata.and_then(|metadata| self.claim(key, metadata));
        let (name, mut state) = (key.text(), self.state());
        state.set(&name, claim, &self.requeue);
        if metadata.is_none() {
            state.forget_refused(&name);
        }
    }

    /// Returns whether an object may change the resource with an id on a server.
    pub(super) fn admit(
        &self,
        key: &Key,
        id: &ResourceId,
        server: &str,
        now: Instant,
    ) -> Admission {
        self.state().admit(&key.text(), id, server, now)
    }

    /// Returns whether an object that only reads a resource may export its values: they are not for
    /// other namespaces than that of the owner.
    pub(super) fn admit_export(
        &self,
        key: &Key,
        id: &ResourceId,
        server: &str,
        now: Instant,
    ) -> Admission {
        self.state().admit_export(key, id, server, now)
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
        server: &str,
        now: Instant,
    ) -> Result<Reservation<'_>, Admission> {
        let (name, target) = (key.text(), (server.into(), normal(id)));
        let mut state = self.state();
        match state.admit(&name, id, server, now) {
            Admission::Granted => {
                state.in_flight.insert(target.clone(), Arc::clone(&name));
                Ok(Reservation {
                    owners: self,
                    name,
                    target,
                })
            }
            refused => Err(refused),
        }
    }

    /// Records the answer of a server to the resource of an object.
    pub(super) fn answered(
        &self,
        key: &Key,
        metadata: &ObjectMeta,
        id: &ResourceId,
        server: &str,
        answer: Answer,
    ) {
        let known = self.claim(key, metadata).map(|(_, known)| known);
        let claimant = Claimant {
            server: Some(server.into()),
            answer: Some(answer),
            ..known.unwrap_or_else(|| claimant(key, metadata))
        };
        let claim = Some((normal(id), claimant));
        self.state().set(&key.text(), claim, &self.requeue);
    }

    /// Returns the record of an object from which a server has just accepted a resource.
    pub(super) fn record(
        &self,
        key: &Key,
        metadata: &ObjectMeta,
        id: &ResourceId,
        server: &str,
    ) -> Record {
        let uid = metadata.uid.as_deref().unwrap_or_default();
        self.key.sign(key, uid, id, server)
    }

    /// Returns whether an object is known to own its resource.
    pub(super) fn is_owner(&self, key: &Key) -> bool {
        let (name, state) = (key.text(), self.state());
        let of_id = state.ids.get(&name).and_then(|id| state.claimants.get(id));
        let claimant = of_id.and_then(|of_id| of_id.get(&name));
        claimant.is_some_and(Claimant::is_owner)
    }

    /// Forgets that an object was sent, because its resource belongs to another one.
    pub(super) fn withdraw(&self, key: &Key) {
        self.state().set(&key.text(), None, &self.requeue);
    }

    /// Returns the id and the claim of an object that was sent. One that is only read claims
    /// nothing, nor does one of another operator, or with the id of a resource of another type.
    fn claim(&self, key: &Key, metadata: &ObjectMeta) -> Option<(Arc<str>, Claimant)> {
        let annotations = metadata.annotations.as_ref()?;
        let own = claim::operator_name(&self.namespace, &key.space);
        if let Claim::Other(_) = claim::claim(annotations, &own) {
            return None;
        }
        let id: ResourceId = annotations.get(RESOURCE_ID)?.parse().ok()?;
        if !id
            .resource_type()
            .eq_ignore_ascii_case(arm_type(&key.kind)?)
        {
            return None;
        }
        let is_held = metadata
            .finalizers
            .iter()
            .flatten()
            .any(|it| it == FINALIZER);
        let sent = [ACCEPTED_ID, LATEST_RECONCILED_GENERATION];
        let is_sent = sent.iter().any(|name| annotations.contains_key(*name));
        if !is_held || !is_sent || is_skipped(annotations) {
            return None;
        }
        let server = self.key.verify(key, metadata, &id);
        let claimant = Claimant {
            is_recorded: server.is_some(),
            server,
            ..claimant(key, metadata)
        };
        Some((normal(&id), claimant))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut state = self.owners.state();
        // Another term of leadership may have begun.
        if state.in_flight.get(&self.target) == Some(&self.name) {
            state.in_flight.remove(&self.target);
        }
    }
}

impl Term {
    /// Returns whether all objects are known that may have ids of a type.
    fn is_listed(&self, arm_type: &str, now: Instant) -> bool {
        let mut watches = self.watches.iter();
        watches.all(|watch| match watch.list {
            _ if !watch.arm_type.eq_ignore_ascii_case(arm_type) => true,
            List::Pending => false,
            List::Forbidden => now >= self.started + FORBIDDEN_TIMEOUT,
            List::Complete => true,
        })
    }
}

impl State {
    fn set_list(&mut self, watch: usize, list: List) {
        let term = self.term.as_mut();
        let watch = term.and_then(|term| term.watches.get_mut(watch));
        // Objects that were listed are known, although they may not be listed again.
        if let Some(watch) = watch.filter(|watch| watch.list != List::Complete) {
            watch.list = list;
        }
    }

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
                self.refused_ids.remove(&refused);
                requeue.add(refused);
            }
        }
        let Some((id, mut claimant)) = claim else {
            return;
        };
        // An event may be older than the answer of Azure.
        let known = known.filter(|known| is_same && known.uid == claimant.uid);
        if let Some(known) = known
            && claimant.answer.is_none()
        {
            claimant.answer = known.answer;
            claimant.server = claimant.server.or(known.server);
        }
        self.ids.insert(Arc::clone(name), Arc::clone(&id));
        let of_id = self.claimants.entry(id).or_default();
        of_id.insert(Arc::clone(name), claimant);
    }

    fn admit(&mut self, name: &Arc<str>, id: &ResourceId, server: &str, now: Instant) -> Admission {
        let Some(started) = self.started(id, now) else {
            return Admission::Wait(RETRY_DELAY);
        };
        let id = normal(id);
        let in_flight = self.in_flight.get(&(server.into(), Arc::clone(&id)));
        if in_flight.is_some_and(|other| other != name) {
            return Admission::Wait(RETRY_DELAY);
        }
        let of_id = self.claimants.get(&id);
        let own = of_id.and_then(|all| all.get(name));
        let is_other = |other: &Arc<str>, claimant: &Claimant| {
            other != name
                && claimant.may_be_on(server)
                && (claimant.is_owner() || claimant.answer != Some(Answer::Refused))
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
                let owner = Box::new(other.key.clone());
                self.note_refused(name, &id);
                Admission::Refused(owner)
            }
            (false, true) if now < started + GRACE => Admission::Wait(RETRY_DELAY),
            _ => Admission::Granted,
        }
    }

    fn admit_export(
        &mut self,
        key: &Key,
        id: &ResourceId,
        server: &str,
        now: Instant,
    ) -> Admission {
        if self.started(id, now).is_none() {
            return Admission::Wait(RETRY_DELAY);
        }
        let id = normal(id);
        let owners = self.claimants.get(&id).into_iter().flatten();
        let mut owners = owners.filter(|(_, claimant)| {
            claimant.is_owner() && claimant.may_be_on(server) && !is_near(key, &claimant.key)
        });
        match owners.next().map(|(_, owner)| owner.key.clone()) {
            Some(owner) => {
                self.note_refused(&key.text(), &id);
                Admission::Refused(Box::new(owner))
            }
            None => Admission::Granted,
        }
    }

    /// Returns when the term began, if all objects are known that may have an id.
    fn started(&self, id: &ResourceId, now: Instant) -> Option<Instant> {
        let term = self.term.as_ref();
        let term = term.filter(|term| term.is_listed(&id.resource_type(), now));
        term.map(|term| term.started)
    }

    /// Records that an object was refused, so that it is triggered when the resource is free.
    fn note_refused(&mut self, name: &Arc<str>, id: &Arc<str>) {
        if self.refused_ids.get(name) != Some(id) {
            self.forget_refused(name);
            self.refused_ids.insert(Arc::clone(name), Arc::clone(id));
        }
        let of_id = self.refused.entry(Arc::clone(id)).or_default();
        of_id.insert(Arc::clone(name));
    }

    fn forget_refused(&mut self, name: &Arc<str>) {
        let Some(id) = self.refused_ids.remove(name) else {
            return;
        };
        if let Some(of_id) = self.refused.get_mut(&id) {
            of_id.remove(name);
            if of_id.is_empty() {
                self.refused.remove(&id);
            }
        }
    }
}

/// Returns whether an object is in the namespace of another one.
pub(super) fn is_near(key: &Key, other: &Key) -> bool {
    (&key.space, &key.namespace) == (&other.space, &other.namespace)
}

impl Claimant {
    const fn is_owner(&self) -> bool {
        self.is_recorded || matches!(self.answer, Some(Answer::Accepted))
    }

    /// Returns whether its resource may be on a server.
    fn may_be_on(&self, server: &str) -> bool {
        self.server.as_deref().is_none_or(|own| own == server)
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
        server: None,
        is_recorded: false,
        answer: None,
    }
}

/// Returns the type in ARM of a kind.
fn arm_type(kind: &GroupKind) -> Option<&'static str> {
    table::find(&kind.group, &kind.kind).map(table::Kind::arm_type)
}

/// Returns an id in the form in which ids are compared.
fn normal(id: &ResourceId) -> Arc<str> {
    id.as_str().to_ascii_lowercase().into()
}

#[cfg(test)]
mod tests;
