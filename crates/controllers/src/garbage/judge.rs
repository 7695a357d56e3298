//! What is to be done about one object.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use insula_apiserver::Registry;
use insula_apiserver::cache::{Hold, Node, Reference, Stored, Ties};
use insula_apiserver::registry::{Address, is_terminating, namespace_address};
use insula_apiserver::served::{Served, Shelfmark, Shelved};
use insula_apiserver::write::{Doomed, Policy};
use insula_core::Space;
use insula_kinds::kinds;

/// Judges objects of one space at one moment.
pub struct Judge<'a> {
    registry: &'a Registry,
    space: &'a Space,
    /// Whether a namespace is being emptied.
    emptied: HashMap<String, bool>,
    /// Whether there is an object of this UID in some namespace.
    anywhere: HashMap<Box<str>, bool>,
    assumed: Assumed,
    /// The owners above which nobody waits in a circle, by their UIDs.
    straight: HashSet<Box<str>>,
}

/// What will be so when that is done which was judged already.
#[derive(Debug, Default)]
struct Assumed {
    gone: HashSet<Node>,
    gone_uids: HashSet<Box<str>>,
    waiting_uids: HashSet<Box<str>>,
}

/// What is to be done about an object.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Nothing.
    Leave,
    /// Nothing before its space serves other kinds: what one of its owners is, nobody knows.
    Park,
    /// Nothing ever: it is in no namespace, and cannot be owned by what is in one.
    Misplaced,
    /// It goes.
    Delete(Doomed),
    /// It stays, and does not name these owners any more.
    Strip(Seen, Vec<Box<str>>),
    /// These owners do not wait for it any more: they would wait for each other.
    Unblock(Seen, Vec<Box<str>>),
    /// It waited for its dependents, and need not any more.
    Release(Seen),
    /// Its dependents are let go, and then it is released.
    Orphan(Seen),
}

/// An object as it was judged.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Where it is.
    pub address: Address,
    /// How it was.
    pub object: Arc<Stored>,
}

/// A reference to something that is in another namespace.
#[derive(Clone, Debug)]
pub struct Stray {
    /// Whose it is.
    pub dependent: Seen,
    /// It.
    pub reference: Reference,
}

/// What an owner is.
enum Owner {
    /// There, and not about to go with its dependents.
    Solid,
    /// Not there.
    Absent,
    /// Waiting for its dependents to go.
    Waiting,
    /// Of a kind that is not served.
    Unknown,
    /// In a namespace, which the dependent is not.
    Misplaced,
}

/// How far a circle is looked for. Whoever makes a longer one has their objects go in some
/// order, and not in none.
const FARTHEST: usize = 10_000;

impl<'a> Judge<'a> {
    /// Of what the cache shows in this space.
    pub fn new(registry: &'a Registry, space: &'a Space) -> Self {
        Self {
            registry,
            space,
            emptied: HashMap::new(),
            anywhere: HashMap::new(),
            assumed: Assumed::default(),
            straight: HashSet::new(),
        }
    }

    /// From here on this object is judged to be gone.
    pub fn assume_gone(&mut self, node: Node, uid: &str) {
        self.assumed.gone.insert(node);
        self.assumed.gone_uids.insert(uid.into());
    }

    /// From here on this object is judged to wait for its dependents.
    pub fn assume_waiting(&mut self, uid: &str) {
        self.assumed.waiting_uids.insert(uid.into());
    }

    /// Whether an object that waits for its dependents, or is assumed to, need not any more.
    pub fn is_released(&self, uid: &str, namespace: Option<&str>) -> bool {
        self.hold(uid, namespace) == Hold::None
    }

    /// The owners that an object keeps waiting.
    pub fn held_by(&self, object: &Stored) -> Vec<Node> {
        let ties = object.ties().unwrap_or_default();
        let blocking = ties.owners.iter().filter(|owner| owner.blocks());
        let found = blocking.filter_map(|owner| {
            let (address, found) = self.find(owner, object.namespace())?;
            let same = found.uid() == Some(&owner.uid);
            let waits = self.assumed.waiting_uids.contains(&owner.uid)
                || found.ties().is_some_and(|ties| ties.awaits_dependents());
            (same && waits).then(|| Node::new(address.kind.shelfmark(), &found))
        });
        found.collect()
    }

    fn hold(&self, uid: &str, namespace: Option<&str>) -> Hold {
        let kinship = self.registry.cache().kinship();
        kinship.hold(self.space, uid, namespace, &self.assumed.gone)
    }

    /// What is to be done about an object.
    pub fn judge(&mut self, node: &Node) -> Verdict {
        let found = self.registry.cache().find(node.clone(), self.space);
        let Some(object) = found.and_then(|all| all.get(&node.key)) else {
            return Verdict::Leave;
        };
        let Some(ties) = object.ties() else {
            return Verdict::Leave;
        };
        let Some(kind) = self.registry.kept(self.space, node.shelfmark()) else {
            return Verdict::Park;
        };
        let address = self.address(kind, node.namespace(), node.name());
        let seen = Seen { address, object };
        match ties.deleted {
            true => self.judge_owner(seen, &ties),
            false => self.judge_dependent(seen, &ties),
        }
    }

    /// One that is being deleted stays as long as it has to wait for dependents.
    fn judge_owner(&mut self, seen: Seen, ties: &Ties) -> Verdict {
        if ties.lets_dependents_go() {
            return Verdict::Orphan(seen);
        }
        if !ties.awaits_dependents() {
            return Verdict::Leave;
        }
        let namespace = seen.address.namespace.as_deref();
        match self.hold(&ties.uid, namespace) {
            Hold::None => Verdict::Release(seen),
            Hold::Plain => Verdict::Leave,
            Hold::Waiting => {
                let blocking = ties.owners.iter().filter(|owner| owner.blocks());
                let circular = blocking.filter(|owner| {
                    !self.is_straight(owner, namespace) && self.leads_back(owner, namespace, ties)
                });
                let circular: Vec<_> = circular.map(|owner| owner.uid.clone()).collect();
                match circular.is_empty() {
                    true => Verdict::Leave,
                    false => Verdict::Unblock(seen, circular),
                }
            }
        }
    }

    /// Whether nobody waits in a circle among an owner and those that wait for it, and so on.
    /// What was found out is remembered, so that a long row is walked along once.
    fn is_straight(&mut self, owner: &Reference, namespace: Option<&str>) -> bool {
        enum Step {
            Enter(Reference, Option<String>),
            Leave(Box<str>),
        }
        let (mut open, mut closed) = (HashSet::new(), HashSet::new());
        let mut ahead = vec![Step::Enter(owner.clone(), namespace.map(str::to_owned))];
        while let Some(step) = ahead.pop() {
            let (owner, namespace) = match step {
                Step::Enter(owner, namespace) => (owner, namespace),
                Step::Leave(uid) => {
                    open.remove(&uid);
                    closed.insert(uid);
                    continue;
                }
            };
            if self.straight.contains(&owner.uid) || closed.contains(&owner.uid) {
                continue;
            }
            if !open.insert(owner.uid.clone()) || closed.len() > FARTHEST {
                return false;
            }
            ahead.push(Step::Leave(owner.uid.clone()));
            let above = self.waits_for(&owner, namespace.as_deref());
            ahead.extend(above.into_iter().map(|(owner, at)| Step::Enter(owner, at)));
        }
        self.straight.extend(closed);
        true
    }

    /// Whether an owner waits, over however many others, for the object that names it.
    fn leads_back(&self, owner: &Reference, namespace: Option<&str>, to: &Ties) -> bool {
        let mut visited: HashSet<Box<str>> = HashSet::new();
        let mut ahead = vec![(owner.clone(), namespace.map(str::to_owned))];
        while let Some((owner, namespace)) = ahead.pop() {
            if owner.uid == to.uid || visited.len() > FARTHEST {
                return true;
            }
            if visited.insert(owner.uid.clone()) {
                ahead.extend(self.waits_for(&owner, namespace.as_deref()));
            }
        }
        false
    }

    /// Whom an owner keeps waiting that waits itself, and where those are looked for.
    fn waits_for(
        &self,
        owner: &Reference,
        namespace: Option<&str>,
    ) -> Vec<(Reference, Option<String>)> {
        let found = self.find(owner, namespace);
        let found = found.filter(|(_, object)| object.uid() == Some(&owner.uid));
        let Some((address, object)) = found else {
            return Vec::new();
        };
        let ties = object.ties().filter(Ties::awaits_dependents);
        let owners = ties.map(|ties| ties.owners).unwrap_or_default().into_iter();
        let blocked = owners.filter(Reference::blocks);
        blocked
            .map(|owner| (owner, address.namespace.clone()))
            .collect()
    }

    fn judge_dependent(&mut self, seen: Seen, ties: &Ties) -> Verdict {
        let namespace = seen.address.namespace.clone();
        let (mut solid, mut absent, mut waiting) = (false, Vec::new(), Vec::new());
        for owner in &ties.owners {
            match self.owner(owner, namespace.as_deref()) {
                Owner::Solid => solid = true,
                Owner::Absent => absent.push(owner.uid.clone()),
                Owner::Waiting => waiting.push(owner.uid.clone()),
                Owner::Unknown => return Verdict::Park,
                Owner::Misplaced => return Verdict::Misplaced,
            }
        }
        let kinship = self.registry.cache().kinship();
        let policy = match (solid, waiting.is_empty()) {
            (true, true) if absent.is_empty() => return Verdict::Leave,
            // Those that wait would wait for ever for one that stays.
            (true, _) => return Verdict::Strip(seen, [absent, waiting].concat()),
            (false, true) if self.is_emptied(namespace.as_deref()) => return Verdict::Leave,
            (false, false) if kinship.has_dependents(self.space, &ties.uid) => Policy::Foreground,
            (false, _) if ties.orphan => Policy::Orphan,
            (false, _) if ties.foreground => Policy::Foreground,
            (false, _) => Policy::Background,
        };
        Verdict::Delete(Doomed {
            address: seen.address,
            object: seen.object,
            policy,
        })
    }

    fn owner(&self, reference: &Reference, namespace: Option<&str>) -> Owner {
        if self.was_seen_to_go(reference, namespace) {
            return Owner::Absent;
        }
        let Some(kind) = self.kind(reference) else {
            return Owner::Unknown;
        };
        if kind.namespaced() && namespace.is_none() {
            return Owner::Misplaced;
        }
        let found = self.find_of(&kind, reference, namespace);
        let Some((_, object)) = found.filter(|(_, object)| object.uid() == Some(&reference.uid))
        else {
            return Owner::Absent;
        };
        if self.assumed.gone_uids.contains(&reference.uid) {
            return Owner::Absent;
        }
        if self.assumed.waiting_uids.contains(&reference.uid) {
            return Owner::Waiting;
        }
        match object.ties().is_some_and(|ties| ties.awaits_dependents()) {
            true => Owner::Waiting,
            false => Owner::Solid,
        }
    }

    /// Whether the owner was there and is gone. That holds even if its kind is gone with it.
    fn was_seen_to_go(&self, reference: &Reference, namespace: Option<&str>) -> bool {
        let kinship = self.registry.cache().kinship();
        let Some(gone) = kinship.departed(self.space, &reference.uid) else {
            return false;
        };
        let (group, _) = reference.group_version();
        let same_kind = match gone.shelfmark() {
            Shelfmark::BuiltIn(id) => {
                let kind = kinds().get(id);
                kind.group == group && kind.kind == *reference.kind
            }
            Shelfmark::Custom { group: of, .. } => of == group,
        };
        let here = gone.namespace().is_none() || gone.namespace() == namespace;
        same_kind && here && gone.name() == &*reference.name
    }

    /// The kind of an owner, if such objects can be looked for.
    fn kind(&self, reference: &Reference) -> Option<Served> {
        let (group, version) = reference.group_version();
        let kind = self
            .registry
            .of_kind(self.space, group, version, &reference.kind);
        kind.filter(|kind| kind.can("get"))
    }

    fn find(
        &self,
        reference: &Reference,
        namespace: Option<&str>,
    ) -> Option<(Address, Arc<Stored>)> {
        self.find_of(&self.kind(reference)?, reference, namespace)
    }

    /// What is there under the owner's name, where the dependent may have an owner.
    fn find_of(
        &self,
        kind: &Served,
        reference: &Reference,
        namespace: Option<&str>,
    ) -> Option<(Address, Arc<Stored>)> {
        let namespace = namespace.filter(|_| kind.namespaced());
        let address = self.address(kind.storage(), namespace, &reference.name);
        let object = self.registry.seen(&address)?;
        Some((address, object))
    }

    fn address(&self, kind: Served, namespace: Option<&str>, name: &str) -> Address {
        Address {
            kind,
            space: self.space.clone(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }

    /// Whether everything there goes anyway, and faster by those who empty it.
    fn is_emptied(&mut self, namespace: Option<&str>) -> bool {
        let name = namespace.unwrap_or("");
        if let Some(known) = self.emptied.get(name) {
            return *known;
        }
        let tenant = self.space.tenant().map(|tenant| tenant.as_str());
        let tenant = tenant.and_then(|tenant| self.registry.tenant(tenant));
        let namespace = namespace.map(|name| namespace_address(self.space, name));
        let namespace = namespace.and_then(|address| self.registry.cached(&address));
        let emptied = tenant.is_some_and(|tenant| tenant.terminating)
            || namespace.is_some_and(|namespace| is_terminating(&namespace));
        self.emptied.insert(name.to_owned(), emptied);
        emptied
    }

    /// The references of an object, about which something is done for want of an owner, that
    /// lead into another namespace. Whoever wrote them should know.
    pub fn strays(&mut self, node: &Node, verdict: &Verdict) -> Vec<Stray> {
        let dependent = match verdict {
            Verdict::Delete(doomed) => Seen {
                address: doomed.address.clone(),
                object: Arc::clone(&doomed.object),
            },
            Verdict::Strip(seen, _) => seen.clone(),
            Verdict::Misplaced => {
                let found = self.registry.cache().find(node.clone(), self.space);
                let object = found.and_then(|all| all.get(&node.key));
                let kind = self.registry.kept(self.space, node.shelfmark());
                let (Some(object), Some(kind)) = (object, kind) else {
                    return Vec::new();
                };
                let address = self.address(kind, node.namespace(), node.name());
                Seen { address, object }
            }
            _ => return Vec::new(),
        };
        let owners = dependent.object.ties().map(|ties| ties.owners);
        let owners = owners.unwrap_or_default().into_iter();
        let astray = owners.filter(|owner| self.is_stray(owner, node.namespace()));
        let strays = astray.map(|reference| Stray {
            dependent: dependent.clone(),
            reference,
        });
        strays.collect()
    }

    fn is_stray(&mut self, reference: &Reference, namespace: Option<&str>) -> bool {
        if self.was_seen_to_go(reference, namespace) {
            return false;
        }
        let Some(kind) = self.kind(reference).filter(|kind| kind.namespaced()) else {
            return false;
        };
        let found = namespace.and_then(|_| self.find_of(&kind, reference, namespace));
        if found.is_some_and(|(_, object)| object.uid() == Some(&reference.uid)) {
            return false;
        }
        let (cache, space) = (self.registry.cache(), self.space);
        let anywhere = self.anywhere.entry(reference.uid.clone());
        *anywhere.or_insert_with(|| {
            let all = cache.find(&kind.storage(), space);
            let all = all.map(|all| all.snapshot("", None).objects);
            let mut all = all.unwrap_or_default().into_iter();
            all.any(|object| object.uid() == Some(&reference.uid))
        })
    }
}
