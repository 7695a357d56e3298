//! The event logs that trigger work, over all spaces.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use insula_apiserver::Registry;
use insula_cache::bootstrap_objects::{DEFAULT_ACCOUNT, ROOT_CA};
use insula_cache::{Change, Collection, Cursor, Event, Stored};
use insula_core::Space;
use memchr::memmem;

use crate::bootstrap_objects::{self, RootCaMatcher};
use crate::queue::{Item, Task};
use crate::{aggregation, quotas, tokens};

/// The event logs of the kinds that trigger work.
pub struct EventSources {
    registry: Arc<Registry>,
    root_ca: RootCaMatcher,
    sources: Vec<Source>,
}

struct Source {
    task: Task,
    log: Arc<Collection>,
    /// The position in the log; `None` if every object has to be listed first.
    cursor: Option<Cursor>,
}

/// How long events of ConfigMaps accumulate before they are read: there are many, and hardly any of
/// them matters.
const CONFIG_MAP_DELAY: Duration = Duration::from_millis(25);

/// The number of events read at once.
const EVENT_BATCH: usize = 1024;

impl EventSources {
    /// Starts with every object in the cache.
    pub fn new(registry: Arc<Registry>) -> Self {
        let log = |task: Task| Source {
            task,
            log: registry.cache().log_of_all(task.kind()),
            cursor: None,
        };
        let sources = Task::ALL.map(log).into();
        quotas::mark_all_stale(&registry);
        Self {
            root_ca: RootCaMatcher::new(&registry),
            registry,
            sources,
        }
    }

    /// Returns the items that became due since the last call. Cancel safe.
    pub async fn next(&mut self) -> Vec<Item> {
        loop {
            let sources = self
                .sources
                .iter()
                .map(|log| (log.task, Arc::clone(&log.log)));
            let sources: Vec<_> = sources.collect();
            // Subscribed before the logs are read, so that no change is missed in between.
            let dirty_quotas = Arc::clone(&self.registry);
            let dirty_quotas = dirty_quotas.cache().dirty_quotas();
            let changed = sources
                .iter()
                .map(|(task, log)| (Some(*task), log.changed()));
            let changed = changed.chain([(None, dirty_quotas.changed())]);
            let changed = select_all(changed.map(|(task, changed)| {
                let changed = changed.notified();
                Box::pin(async move {
                    changed.await;
                    if task == Some(Task::RootCa) {
                        tokio::time::sleep(CONFIG_MAP_DELAY).await;
                    }
                })
            }));
            let mut items: Vec<Item> = dirty_quotas
                .drain_new()
                .into_iter()
                .map(Item::for_quota_place)
                .collect();
            for log in &mut self.sources {
                log.read(&self.registry, &self.root_ca, &mut items);
            }
            if !items.is_empty() {
                return items;
            }
            changed.await;
        }
    }
}

impl Source {
    fn read(&mut self, registry: &Registry, root_ca: &RootCaMatcher, items: &mut Vec<Item>) {
        while let Some(cursor) = &mut self.cursor {
            let mut events = Vec::new();
            if self.log.read_on(cursor, EVENT_BATCH, &mut events).is_err() {
                // The log was overwritten before it was read.
                self.cursor = None;
                break;
            }
            if events.is_empty() {
                return;
            }
            for event in events {
                if needs_work(self.task, &event, root_ca) {
                    items.extend(item(self.task, space_of(&event.object), &event.object));
                }
            }
        }
        // First the position, then the objects: a change in between is processed twice, and none is
        // missed.
        self.cursor = Some(self.log.snapshot("", None).cursor);
        if let Task::DefaultAccount | Task::RootCa = self.task {
            items.extend(missing_objects(self.task, registry, root_ca));
            return;
        }
        let task = listing_task(self.task);
        for (space, collection) in registry.cache().everywhere(task.kind()) {
            for object in collection.snapshot("", None).objects {
                if may_need_work(task, &object) {
                    items.extend(item(task, Some(space.clone()), &object));
                }
            }
        }
    }
}

/// The task that lists objects when there is no position in the log. Deleted accounts cannot be
/// listed any more, but the Secrets that they left can.
const fn listing_task(task: Task) -> Task {
    match task {
        Task::Account => Task::TokenSecret,
        other => other,
    }
}

/// Namespaces that lack one of the objects that every namespace has.
fn missing_objects(task: Task, registry: &Registry, root_ca: &RootCaMatcher) -> Vec<Item> {
    let mut items = Vec::new();
    for (space, namespaces) in registry.cache().everywhere(Task::Namespace.kind()) {
        for namespace in namespaces.snapshot("", None).objects {
            let name = namespace.name();
            let (has, of) = match task {
                Task::RootCa => (root_ca.has(registry, &space, name), ROOT_CA),
                _ => (
                    bootstrap_objects::has_default_account(registry, &space, name),
                    DEFAULT_ACCOUNT,
                ),
            };
            if !has {
                items.push(Item {
                    task,
                    space: space.clone(),
                    key: format!("{name}/{of}").into(),
                });
            }
        }
    }
    items
}

/// Whether the event may require work.
fn needs_work(task: Task, event: &Event, root_ca: &RootCaMatcher) -> bool {
    let gone = event.change == Change::Deleted;
    match task {
        Task::Account => gone,
        // A deleted Secret may still be listed by its account.
        Task::TokenSecret => may_need_work(task, &event.object),
        Task::DefaultAccount => gone && bootstrap_objects::is_default_account(&event.object),
        // Nearly all of these are created with their namespace and are correct.
        Task::RootCa => {
            bootstrap_objects::is_root_ca(&event.object)
                && (gone || !root_ca.is_correct(&event.object))
        }
        // A change of one role may concern another, and so may a change of one definition in the
        // same group.
        Task::Roles | Task::Definition => true,
        _ => !gone && may_need_work(task, &event.object),
    }
}

/// Whether an existing object may require work. It runs for every object, so it must be cheap.
fn may_need_work(task: Task, object: &Stored) -> bool {
    match task {
        Task::Certificate => memmem::find(&object.body(), br#""Approved""#).is_some(),
        Task::TokenSecret => tokens::may_hold_token(object),
        Task::Roles => aggregation::participates(object),
        Task::Definition => true,
        _ => object.is_terminating(),
    }
}

fn item(task: Task, space: Option<Space>, object: &Stored) -> Option<Item> {
    // A Tenant is an object of the system space, and its deletion runs in the tenant's own.
    let space = match task {
        Task::Tenant => Space::parse(&object.key).ok(),
        _ => space,
    };
    Some(Item {
        task,
        space: space?,
        key: match task {
            Task::Roles => "".into(),
            _ => Arc::clone(&object.key),
        },
    })
}

/// The space that the object's own metadata names.
fn space_of(object: &Stored) -> Option<Space> {
    match object.tenant() {
        None => Some(Space::System),
        Some(tenant) => Space::parse(&tenant).ok(),
    }
}
