//! What there is to do, from the logs of what happened in all spaces.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use insula_apiserver::Registry;
use insula_apiserver::cache::{Collection, Cursor, Stored};
use insula_apiserver::registry::core_kind;
use insula_core::{Space, TenantName};
use insula_kinds::{KindId, Object, kinds};

/// Something that a loop has to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// A namespace that is being deleted.
    Namespace(Space, String),
    /// A tenant that is being deleted.
    Tenant(TenantName),
    /// A certificate that was approved and not yet signed.
    Certificate(Space, String),
}

/// Follows the logs.
pub struct Follower {
    registry: Arc<Registry>,
    logs: Vec<Log>,
    due: BTreeSet<Work>,
    later: BTreeSet<Work>,
}

struct Log {
    kind: KindId,
    log: Arc<Collection>,
    cursor: Option<Cursor>,
}

/// How many events are looked at, at once.
const BATCH: usize = 256;

impl Follower {
    /// From what there is to do already.
    pub fn new(registry: Arc<Registry>) -> Self {
        let certificates = kinds().find("certificates.k8s.io", "v1", "certificatesigningrequests");
        let watched = [
            Some(core_kind("namespaces")),
            Some(core_kind("tenants")),
            certificates,
        ];
        let logs = watched.into_iter().flatten().map(|kind| Log {
            kind,
            log: Arc::clone(registry.cache().log_of_all(kind)),
            cursor: None,
        });
        let logs = logs.collect();
        Self {
            registry,
            logs,
            due: BTreeSet::new(),
            later: BTreeSet::new(),
        }
    }

    /// What there is to do now.
    pub fn due(&mut self) -> BTreeSet<Work> {
        self.read();
        std::mem::take(&mut self.due)
    }

    /// What is to be looked at again after a while.
    pub fn again(&mut self, work: Work) {
        self.later.insert(work);
    }

    /// Waits until there may be something to do.
    pub async fn wait(&mut self, look_again: Duration) {
        let logs: Vec<_> = self.logs.iter().map(|log| Arc::clone(&log.log)).collect();
        let mut changed: Vec<_> = logs
            .iter()
            .map(|log| Box::pin(log.changed().notified()))
            .collect();
        // Asked for before the logs are read, so that nothing is missed in between.
        self.read();
        if !self.due.is_empty() {
            return;
        }
        let [one, other, third] = changed.as_mut_slice() else {
            return;
        };
        let waits = !self.later.is_empty();
        tokio::select! {
            () = one => {}
            () = other => {}
            () = third => {}
            () = tokio::time::sleep(look_again), if waits => {
                self.due.append(&mut self.later);
            }
        }
    }

    fn read(&mut self) {
        for index in 0..self.logs.len() {
            let mut events = Vec::new();
            let log = &mut self.logs[index];
            let read = match &mut log.cursor {
                None => None,
                Some(cursor) => loop {
                    let before = events.len();
                    match log.log.read_on(cursor, BATCH, &mut events) {
                        Ok(()) if events.len() == before => break Some(()),
                        Ok(()) => {}
                        Err(_) => break None,
                    }
                },
            };
            let kind = log.kind;
            match read {
                Some(()) => {
                    for event in events {
                        self.consider(kind, &event.object);
                    }
                }
                // At the start, or too far behind: look at everything that is there.
                None => self.scan(index),
            }
        }
    }

    fn scan(&mut self, index: usize) {
        let log = &mut self.logs[index];
        log.cursor = log.log.after(self.registry.cache().applied()).ok();
        let kind = log.kind;
        for (_, collection) in self.registry.cache().everywhere(kind) {
            for object in collection.snapshot("", None).objects {
                self.consider(kind, &object);
            }
        }
    }

    fn consider(&mut self, kind: KindId, object: &Stored) {
        let certificate = kinds().get(kind).kind == "CertificateSigningRequest";
        // Most events are of objects that live on: nothing is parsed for them.
        let mark: &[u8] = if certificate {
            b"\"Approved\""
        } else {
            b"\"deletionTimestamp\""
        };
        if !object.body.windows(mark.len()).any(|window| window == mark) {
            return;
        }
        let tree = object.tree();
        let space = space_of(&tree);
        let name = object.name().to_owned();
        let work = if certificate {
            Work::Certificate(space, name)
        } else if kind == core_kind("tenants") {
            match TenantName::parse(&name) {
                Ok(name) => Work::Tenant(name),
                Err(_) => return,
            }
        } else {
            Work::Namespace(space, name)
        };
        self.due.insert(work);
    }
}

/// The space that an object says it is of.
fn space_of(object: &Object) -> Space {
    let tenant = object.get("metadata").and_then(|of| of.get("tenant"));
    let tenant = tenant.and_then(|tenant| tenant.as_str());
    tenant
        .and_then(|tenant| Space::parse(tenant).ok())
        .unwrap_or(Space::System)
}
