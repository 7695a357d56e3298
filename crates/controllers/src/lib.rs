//! Kubernetes controllers that run in the server's own process.
//!
//! A namespace or tenant that is being deleted is emptied and then removed. Approved certificate
//! signing requests are signed. The protection finalizer of volumes that are no longer in use is
//! removed. Token Secrets of service accounts are filled, and deleted with their account. The rules
//! of aggregated ClusterRoles are kept up to date. Objects are garbage collected with their owners.
//! The objects that every namespace has are restored. Old events expire. The status of quotas is
//! recounted. The use of credentials is recorded, and revocations end with their credential.
//!
//! One task reads the event logs of the few kinds that trigger work, over all spaces. A tenant
//! without pending work costs no task, no watch and no memory, and an idle server runs nothing.
//! Only while a deletion waits for finalizers of other controllers is its space polled, four times
//! a second, and processed again if anything in it changed. An item that overwrote another writer's
//! change cools down for a second, so that a controller and a client that disagree do not write in
//! a tight loop.
//!
//! Every step compares before it writes. A step may therefore run twice, on two servers over one
//! store or after a restart, and all state that is needed after a crash is in the objects.

mod access_records;
mod aggregation;
mod bootstrap_objects;
mod certificates;
mod conditions;
mod definitions;
mod event_sources;
mod events;
mod garbage;
mod namespace;
mod protection;
mod queue;
mod quotas;
mod tenant;
mod terminate;
mod tokens;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use insula_access::Authority;
use insula_apiserver::flow_control::lanes::Lanes;
use insula_apiserver::pipeline::service_account::Accounts;
use insula_apiserver::registry::Address;
use insula_apiserver::status::Result;
use insula_apiserver::{Error, Registry, Server};
use insula_core::Revision;
use tokio::sync::oneshot;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, sleep_until};

use crate::event_sources::EventSources;
use crate::events::Expiry;
use crate::garbage::Collector;
use crate::queue::{Item, Queue, Task};
use crate::tokens::TokenSecrets;

/// All controllers of one server.
#[derive(Clone)]
struct Controllers {
    registry: Arc<Registry>,
    authority: Arc<Authority>,
    accounts: Option<Arc<Accounts>>,
    settings: Settings,
}

/// Controller settings.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long an event is kept after its last write; zero keeps events for ever.
    pub event_ttl: Duration,
}

impl Default for Settings {
    /// An hour, as in Kubernetes.
    fn default() -> Self {
        Self {
            event_ttl: Duration::from_secs(3600),
        }
    }
}

/// When an item is processed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// Only after its next event.
    Done,
    /// After a change in its space that is newer than this revision, because another actor must act
    /// first.
    AwaitChange(Revision),
    /// At this time, because the attempt failed.
    Retry(Instant),
    /// At this time and not before, whatever events arrive: another writer's change was
    /// overwritten, and two writers that disagree must not write in a tight loop.
    CoolDown(Instant),
}

/// The number of items processed concurrently. Each is a sequence of small transactions, and the
/// store commits those of many items together.
const WORKERS: usize = 32;

/// How often the spaces of waiting items are checked for changes.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The delay before a failed item is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How long an item cools down after it overwrote another writer's change.
const COOLDOWN: Duration = Duration::from_secs(1);

impl Action {
    fn await_unless(finished: bool, seen: Revision) -> Self {
        match finished {
            true => Self::Done,
            false => Self::AwaitChange(seen),
        }
    }

    fn cool_down_if(overwritten: bool) -> Self {
        match overwritten {
            true => Self::CoolDown(Instant::now() + COOLDOWN),
            false => Self::Done,
        }
    }
}

impl Controllers {
    /// Controllers for the objects of one server. `authority` signs certificates, the server's own
    /// and those of clients; `accounts` signs tokens, and without it no token Secret is filled.
    const fn new(
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

    /// Runs until `stop` completes. All tasks have ended when it returns; unfinished work is
    /// resumed at the next start.
    async fn run(self, stop: impl Future<Output = ()>) {
        let collector = Collector::new(Arc::clone(&self.registry));
        let (end, ended) = oneshot::channel::<()>();
        let run_queue = async {
            self.run_queue(stop).await;
            drop(end);
        };
        tokio::join!(run_queue, collector.run(async { drop(ended.await) }));
    }

    async fn run_queue(self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut event_sources = EventSources::new(Arc::clone(&self.registry));
        let mut queue = Queue::default();
        let mut workers = JoinSet::new();
        let mut items: HashMap<Id, Item> = HashMap::new();
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut background = JoinSet::new();
        if let Some(expiry) = self.expiry() {
            background.spawn(expiry.run());
        }
        background.spawn(access_records::record_access(Arc::clone(&self.registry)));
        background.spawn(access_records::expire_revocations(Arc::clone(
            &self.registry,
        )));
        if let Some(accounts) = &self.accounts {
            let (registry, accounts) = (Arc::clone(&self.registry), Arc::clone(accounts));
            background.spawn(tokens::record_uses(registry, accounts));
        }
        loop {
            while workers.len() < WORKERS
                && let Some(item) = queue.take(Instant::now())
            {
                let (this, on) = (self.clone(), item.clone());
                let id = workers.spawn(async move { this.process(&on).await }).id();
                items.insert(id, item);
            }
            // Without a free worker, a due item waits for one and not for its time.
            let next_due = queue.next_due().filter(|_| workers.len() < WORKERS);
            tokio::select! {
                () = &mut stop => break,
                found = event_sources.next() => {
                    let now = Instant::now();
                    found.into_iter().for_each(|item| queue.add(item, now));
                }
                Some(done) = workers.join_next_with_id() => {
                    let (id, action) = done.unwrap_or_else(|error| {
                        tracing::error!(%error, "controller task panicked");
                        (error.id(), Action::Retry(Instant::now() + RETRY_DELAY))
                    });
                    if let Some(item) = items.remove(&id) {
                        queue.done(item, action, Instant::now());
                    }
                }
                _ = poll.tick(), if queue.awaits_changes() => {
                    queue.wake_changed(Instant::now(), |item, seen| self.has_changed(item, seen));
                }
                () = sleep_until(next_due.unwrap_or_else(Instant::now)), if next_due.is_some() => {}
            }
        }
        workers.shutdown().await;
        background.shutdown().await;
    }

    /// The task that removes old events, unless events are kept for ever.
    fn expiry(&self) -> Option<Expiry> {
        let after = self.settings.event_ttl;
        (!after.is_zero()).then(|| Expiry {
            registry: Arc::clone(&self.registry),
            after,
        })
    }

    async fn process(&self, item: &Item) -> Action {
        match self.reconcile(item).await {
            Ok(action) => action,
            Err(refusal) => {
                tracing::warn!(task = ?item.task, space = %item.space, name = %item.key,
                    %refusal, "reconcile failed");
                Action::Retry(Instant::now() + RETRY_DELAY)
            }
        }
    }

    async fn reconcile(&self, item: &Item) -> Result<Action> {
        // Read before the objects: a later change must lead to another attempt.
        let seen = self.registry.cache().applied();
        let (registry, address) = (&self.registry, || item.address());
        Ok(match item.task {
            Task::Namespace => {
                let gone = namespace::terminate(registry, &item.space, &item.key).await?;
                Action::await_unless(gone, seen)
            }
            Task::Tenant => {
                let gone = tenant::terminate(registry, &item.key).await?;
                Action::await_unless(gone, seen)
            }
            Task::Claim | Task::Volume | Task::AttributesClass => {
                let released = protection::release(registry, &address()).await?;
                Action::await_unless(released, seen)
            }
            Task::Certificate => {
                certificates::sign(registry, &self.authority, &address()).await?;
                Action::Done
            }
            Task::TokenSecret => match self.token_secrets() {
                Some(token_secrets) => {
                    Action::cool_down_if(token_secrets.reconcile(&address()).await?)
                }
                None => Action::Done,
            },
            Task::Account => match self.token_secrets() {
                Some(token_secrets) => {
                    Action::cool_down_if(token_secrets.reconcile_account(&address()).await?)
                }
                None => Action::Done,
            },
            Task::Roles => {
                Action::cool_down_if(aggregation::reconcile(registry, &item.space).await?)
            }
            Task::DefaultAccount => Action::cool_down_if(
                bootstrap_objects::ensure_default_account(registry, &address()).await?,
            ),
            Task::RootCa => {
                Action::cool_down_if(bootstrap_objects::ensure_root_ca(registry, &address()).await?)
            }
            Task::Definition => {
                let finished = definitions::reconcile(registry, &address()).await?;
                Action::await_unless(finished, seen)
            }
            Task::Quotas | Task::Usage => {
                Action::cool_down_if(quotas::reconcile(registry, &item.quota_place()).await?)
            }
        })
    }

    fn token_secrets(&self) -> Option<TokenSecrets<'_>> {
        let accounts = self.accounts.as_deref()?;
        Some(TokenSecrets {
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

/// Serves until `stop` completes and runs the controllers beside the server: they start when the
/// server is ready and stop before it does.
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
    let run = async move {
        // Cancelled if the server never becomes ready.
        if begun.await.is_ok() {
            controllers.run(async { drop(ended.await) }).await;
        }
    };
    // A large definition takes them a tenth of a second: requests of other spaces go first.
    loops.spawn_on(run, &Lanes::new().controllers());
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
    // A server that ended by itself did not run `stop`.
    loops.shutdown().await;
    served
}

/// Drops errors of writes that would be refused again: the next attempt follows a change of the
/// object.
fn ignore_permanent(done: Result<bool>, address: &Address) -> Result<bool> {
    match done {
        // Invalid, too large, or the space is being deleted.
        Err(refusal) if matches!(refusal.reason(), "" | "Invalid" | "Forbidden") => {
            tracing::info!(space = %address.space, name = %address.within(), %refusal,
                "object write refused");
            Ok(false)
        }
        done => done,
    }
}
