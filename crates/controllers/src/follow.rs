//! The event logs that trigger work, over all spaces.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use insula_apiserver::Registry;
use insula_cache::bootstrap_objects::{DEFAULT_ACCOUNT, ROOT_CA};
use insula_cache::{Change, Collection, Cursor, Event, Stored};
use insula_core::Space;
use memchr::memmem;

use crate::furniture::{self, SeatStats};
use crate::queue::{Item, Task};
use crate::{aggregation, quotas, tokens};

/// The event logs of the kinds that trigger work.
pub struct Follow {
    registry: Arc<Registry>,
    glance: SeatStats,
    logs: Vec<Log>,
}

struct Log {
    task: Task,
    log: Arc<Collection>,
    /// The position in the log; `None` if every object has to be listed first.
    cursor: Option<Cursor>,
}

/// How long events of ConfigMaps accumulate before they are read: there are many, and hardly any of
/// them matters.
const GATHER: Duration = Duration::from_millis(25);

/// The number of events read at once.
const BATCH: usize = 1024;

impl Follow {
    /// Starts with every object in the cache.
    pub fn new(registry: Arc<Registry>) -> Self {
        let log = |task: Task| Log {
            task,
            log: registry.cache().log_of_all(task.kind()),
            cursor: None,
        };
        let logs = Task::ALL.map(log).into();
        quotas::note_all(&registry);
        Self {
            glance: SeatStats::new(&registry),
            registry,
            logs,
        }
    }

    /// Returns the items that became due since the last call. Cancel safe.
    pub async fn next(&mut self) -> Vec<Item> {
        loop {
            let logs = self.logs.iter().map(|log| (log.task, Arc::clone(&log.log)));
            let logs: Vec<_> = logs.collect();
            // Subscribed before the logs are read, so that no change is missed in between.
            let touched = Arc::clone(&self.registry);
            let touched = touched.cache().touched();
            let changed = logs.iter().map(|(task, log)| (Some(*task), log.changed()));
            let changed = changed.chain([(None, dirty_quotas.changed())]);
            let changed = select_all(changed.map(|(task, told)| {
                let told = told.notified();
                Box::pin(async move {
                    told.await;
                    if task == Some(Task::RootCa) {
                        tokio::time::sleep(GATHER).await;
                    }
                })
            }));
            let mut items: Vec<Item> = dirty_quotas.drain_new().into_iter().map(Item::at).collect();
            for log in &mut self.logs {
                log.read(&self.registry, &self.glance, &mut items);
            }
            if !items.is_empty() {
                return items;
            }
            changed.await;
        }
    }
}

impl Log {
    fn read(&mut self, registry: &Registry, glance: &SeatStats, items: &mut Vec<Item>) {
        while let Some(cursor) = &mut self.cursor {
            let mut events = Vec::new();
            if self.log.read_on(cursor, BATCH, &mut events).is_err() {
                // The log was overwritten before it was read.
                self.cursor = None;
                break;
            }
            if events.is_empty() {
                return;
            }
            for event in events {
                if is_told(self.task, &event, glance) {
                    items.extend(item(self.task, space_of(&event.object), &event.object));
                }
            }
        }
        // First the position, then the objects: a change in between is processed twice, and none is
        // missed.
        self.cursor = Some(self.log.snapshot("", None).cursor);
        if let Task::DefaultAccount | Task::RootCa = self.task {
            items.extend(missing(self.task, registry, glance));
            return;
        }
        let task = looked_at(self.task);
        for (space, collection) in registry.cache().everywhere(task.kind()) {
            for object in collection.snapshot("", None).objects {
                if concerns(task, &object) {
                    items.extend(item(task, Some(space.clone()), &object));
                }
            }
        }
    }
}

/// The task that lists objects when there is no position in the log. Deleted accounts cannot be
/// listed any more, but the Secrets that they left can.
const fn looked_at(task: Task) -> Task {
    match task {
        Task::Account => Task::TokenSecret,
        other => other,
    }
}

/// Namespaces that lack one of the objects that every namespace has.
fn missing(task: Task, registry: &Registry, glance: &Glance) -> Vec<Item> {
    let mut items = Vec::new();
    for (space, namespaces) in registry.cache().everywhere(Task::Namespace.kind()) {
        for namespace in namespaces.snapshot("", None).objects {
            let name = namespace.name();
            let (has, of) = match task {
                Task::RootCa => (glance.has(registry, &space, name), ROOT_CA),
                _ => (
                    furniture::has_account(registry, &space, name),
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
fn is_told(task: Task, event: &Event, glance: &Glance) -> bool {
    let gone = event.change == Change::Deleted;
    match task {
        Task::Account => gone,
        // A deleted Secret may still be listed by its account.
        Task::TokenSecret => concerns(task, &event.object),
        Task::DefaultAccount => gone && furniture::is_account(&event.object),
        // Nearly all of these are created with their namespace and are correct.
        Task::RootCa => {
            furniture::is_root_ca(&event.object) && (gone || !glance.is_right(&event.object))
        }
        // A change of one role may concern another, and so may a change of one definition in the
        // same group.
        Task::Roles | Task::Definition => true,
        _ => !gone && concerns(task, &event.object),
    }
}

/// Whether an existing object may require work. It runs for every object, so it must be cheap.
fn concerns(task: Task, object: &Stored) -> bool {
    match task {
        Task::Certificate => memmem::find(&object.body(), br#""Approved""#).is_some(),
        Task::TokenSecret => tokens::is_kept_in(object),
        Task::Roles => aggregation::takes_part(object),
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
