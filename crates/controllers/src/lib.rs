//! The loops that a control plane needs, in the server's own process.
//!
//! What is being deleted is emptied and then let go: a [namespace](mod@namespace) of its
//! objects, a [tenant](mod@tenant) of its whole space. Approved requests for
//! [certificates](mod@certificates) are signed. [Volumes](mod@protection) that nothing uses
//! any more are let go. Secrets that ask for the [token](mod@tokens) of a service account
//! get it, and go with the account. Roles that are [made of others](mod@aggregation) show
//! what they are made of. What is owned goes [with its owners](mod@garbage). What
//! [every namespace has](mod@furniture) comes back. Old [events](mod@events) go.
//! [Quotas](mod@quotas) say what there is.
//!
//! One task follows the logs over all spaces of the few kinds that begin such work; there
//! is no task, no watch and no memory for a tenant in which nothing is to be done, and when
//! nothing happens nothing runs. Only while something that is being deleted waits for
//! finalizers of others is its space looked at, four times a second, and emptied again if
//! anything in it has changed. What a loop has written over rests for a second, so that the
//! loop and somebody who does not agree with it do not write as fast as they can.
//!
//! Every step compares before it writes. So a step may be carried out twice, by two servers
//! on one store or by one that was started again, and all that is needed to go on after a
//! crash is in the objects.

pub mod aggregation;
pub mod certificates;
mod conditions;
pub mod definitions;
pub mod events;
mod follow;
pub mod furniture;
pub mod garbage;
pub mod namespace;
pub mod protection;
mod queue;
pub mod quotas;
pub mod tenant;
mod terminate;
pub mod tokens;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use insula_access::Authority;
use insula_apiserver::pipeline::service_account::Accounts;
use insula_apiserver::registry::Address;
use insula_apiserver::status::Result;
use insula_apiserver::{Error, Registry, Server};
use insula_core::Revision;
use tokio::sync::oneshot;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};

use crate::events::Expiry;
use crate::follow::Follow;
use crate::garbage::Collector;
use crate::queue::{Item, Queue, Task};
use crate::tokens::Keeper;

/// All loops of one server.
#[derive(Clone)]
pub struct Controllers {
    registry: Arc<Registry>,
    authority: Arc<Authority>,
    accounts: Option<Arc<Accounts>>,
    settings: Settings,
}

/// What the loops can be told.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long an event stays that nobody writes; zero is for ever.
    pub event_ttl: Duration,
}

impl Default for Settings {
    /// As in Kubernetes: an hour.
    fn default() -> Self {
        Self {
            event_ttl: Duration::from_secs(3600),
        }
    }
}

/// What is to be done about an item after it was worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Nothing: whatever happens to it is told by a log.
    Nothing,
    /// Others must act first; what they did up to this revision was taken into account.
    Wait(Revision),
    /// It failed: try again then.
    Retry(Instant),
    /// Something was written over: whatever happens to it, it is looked at again then and
    /// not before. Two who do not agree do not write as fast as they can.
    Rest(Instant),
}

/// How many items are worked on at once. Each is one small transaction after another, and
/// the store commits those of many in one go.
const WORKERS: usize = 32;

/// How often the spaces are looked at in which something waits.
const LOOK: Duration = Duration::from_millis(250);

/// How long it takes until something that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// How long something rests that was written over.
const REST: Duration = Duration::from_secs(1);

impl Next {
    fn wait_unless(finished: bool, seen: Revision) -> Self {
        match finished {
            true => Self::Nothing,
            false => Self::Wait(seen),
        }
    }

    fn rest_if(written_over: bool) -> Self {
        match written_over {
            true => Self::Rest(Instant::now() + REST),
            false => Self::Nothing,
        }
    }
}

impl Controllers {
    /// For the objects of a server. The authority signs certificates, the server's own and
    /// those of clients; `accounts` signs tokens, or nobody does.
    pub const fn new(
        registry: Arc<Registry>,
        authority: Arc<Authority>,
        accounts: Option<Arc<Accounts>>,
        settings: Settings,
    ) -> Self {
        Self {
            registry,
            authority,
            accounts,
            settings,
        }
    }

    /// Runs until `stop` is done. Everything that it began has ended then; what was not
    /// finished goes on at the next start.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let collector = Collector::new(Arc::clone(&self.registry));
        let (end, ended) = oneshot::channel::<()>();
        let tend = async {
            self.tend(stop).await;
            drop(end);
        };
        tokio::join!(tend, collector.run(async { drop(ended.await) }));
    }

    async fn tend(self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut follow = Follow::new(Arc::clone(&self.registry));
        let mut queue = Queue::default();
        let mut workers = JoinSet::new();
        let mut items: HashMap<Id, Item> = HashMap::new();
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut beside = JoinSet::new();
        if let Some(expiry) = self.expiry() {
            beside.spawn(expiry.run());
        }
        if let Some(accounts) = &self.accounts {
            let (registry, accounts) = (Arc::clone(&self.registry), Arc::clone(accounts));
            beside.spawn(tokens::mark_uses(registry, accounts));
        }
        loop {
            while workers.len() < WORKERS
                && let Some(item) = queue.take()
            {
                let (this, on) = (self.clone(), item.clone());
                let id = workers.spawn(async move { this.work(&on).await }).id();
                items.insert(id, item);
            }
            tokio::select! {
                () = &mut stop => break,
                found = follow.next() => found.into_iter().for_each(|item| queue.add(item)),
                Some(done) = workers.join_next_with_id() => {
                    let (id, next) = done.unwrap_or_else(|error| {
                        tracing::error!(%error, "a controller failed");
                        (error.id(), Next::Retry(Instant::now() + RETRY))
                    });
                    if let Some(item) = items.remove(&id) {
                        queue.done(item, next);
                    }
                }
                _ = look.tick(), if queue.has_waiting() => {
                    queue.wake(Instant::now(), |item, seen| self.has_changed(item, seen));
                }
            }
        }
        workers.shutdown().await;
        beside.shutdown().await;
    }

    /// What removes old events, if they are to go at all.
    fn expiry(&self) -> Option<Expiry> {
        let after = self.settings.event_ttl;
        (!after.is_zero()).then(|| Expiry {
            registry: Arc::clone(&self.registry),
            after,
        })
    }

    async fn work(&self, item: &Item) -> Next {
        match self.attempt(item).await {
            Ok(next) => next,
            Err(refusal) => {
                tracing::warn!(task = ?item.task, space = %item.space, name = %item.key,
                    %refusal, "will be tried again");
                Next::Retry(Instant::now() + RETRY)
            }
        }
    }

    async fn attempt(&self, item: &Item) -> Result<Next> {
        // Before anything is looked at: what changes afterwards is a reason to look again.
        let seen = self.registry.cache().applied();
        let (registry, address) = (&self.registry, || item.address());
        Ok(match item.task {
            Task::Namespace => {
                let gone = namespace::terminate(registry, &item.space, &item.key).await?;
                Next::wait_unless(gone, seen)
            }
            Task::Tenant => {
                let gone = tenant::terminate(registry, &item.key).await?;
                Next::wait_unless(gone, seen)
            }
            Task::Claim | Task::Volume | Task::AttributesClass => {
                let released = protection::release(registry, &address()).await?;
                Next::wait_unless(released, seen)
            }
            Task::Certificate => {
                certificates::sign(registry, &self.authority, &address()).await?;
                Next::Nothing
            }
            Task::TokenSecret => match self.keeper() {
                Some(keeper) => Next::rest_if(keeper.tend(&address()).await?),
                None => Next::Nothing,
            },
            Task::Account => match self.keeper() {
                Some(keeper) => Next::rest_if(keeper.tend_all_of(&address()).await?),
                None => Next::Nothing,
            },
            Task::Roles => Next::rest_if(aggregation::show(registry, &item.space).await?),
            Task::DefaultAccount => {
                Next::rest_if(furniture::bring_account(registry, &address()).await?)
            }
            Task::RootCa => Next::rest_if(furniture::bring_root_ca(registry, &address()).await?),
            Task::Definition => {
                let finished = definitions::tend(registry, &address()).await?;
                Next::wait_unless(finished, seen)
            }
            Task::Quotas | Task::Usage => {
                Next::rest_if(quotas::tend(registry, &item.place()).await?)
            }
        })
    }

    fn keeper(&self) -> Option<Keeper<'_>> {
        let accounts = self.accounts.as_deref()?;
        Some(Keeper {
            registry: &self.registry,
            issuer: &accounts.issuer,
            ca: self
                .registry
                .root_ca()
                .unwrap_or_else(|| self.authority.certificate_pem()),
        })
    }

    /// Whether anything changed in the item's space after `seen`.
    fn has_changed(&self, item: &Item, seen: Revision) -> bool {
        let cache = self.registry.cache();
        if item.task == Task::Definition && definitions::last_change(cache, &item.key) > seen {
            return true;
        }
        cache.applied() > seen
            && terminate::kinds_in(&self.registry, &item.space).any(|kind| {
                let collection = cache.find(&kind, &item.space);
                collection.is_some_and(|of| of.last() > seen)
            })
    }
}

/// Serves until `stop` is done, with the loops beside it: they begin when the server is
/// ready and are over before it is.
pub async fn serve(
    server: Server,
    authority: Arc<Authority>,
    settings: Settings,
    ready: impl FnOnce(),
    stop: impl Future<Output = ()>,
) -> std::result::Result<(), Error> {
    let controllers = Controllers::new(server.registry(), authority, server.accounts(), settings);
    let (begin, begun) = oneshot::channel();
    let (end, ended) = oneshot::channel::<()>();
    let mut loops = JoinSet::new();
    loops.spawn(async move {
        // Dropped without a word if the server does not become ready.
        if begun.await.is_ok() {
            controllers.run(async { drop(ended.await) }).await;
        }
    });
    let ready = || {
        begin.send(()).ok();
        ready();
    };
    let stop = async {
        stop.await;
        drop(end);
        while loops.join_next().await.is_some() {}
    };
    let served = server.serve(ready, stop).await;
    // If it ended by itself, nobody has told them.
    loops.shutdown().await;
    served
}

/// A write of which it is certain that it would be refused again is not tried again: what it
/// is about has to change first, and that is told by a log.
fn unless_futile(done: Result<bool>, address: &Address) -> Result<bool> {
    match done {
        // Not valid, too large, or its space is going.
        Err(refusal) if matches!(refusal.reason(), "" | "Invalid" | "Forbidden") => {
            tracing::info!(space = %address.space, name = %address.within(), %refusal,
                "cannot be written as it should be");
            Ok(false)
        }
        done => done,
    }
}
