//! The migration of all objects of definitions.

use std::num::NonZeroU32;

use kube::Client;
use serde_json::Value;

pub use super::rewrite::NotWritten;

use super::record::{Phase, Record, Records};
use super::rewrite::{Writer, unchanged_since};
use super::status::count;
use crate::upgrade::api::{List, PAGE_SIZE, Page, renewed_token, status_code};
use crate::upgrade::{Definition, Error, definitions};

/// How often a migration begins anew because its definition was changed meanwhile.
const MAX_ATTEMPTS: u32 = 3;
/// The number of objects whose failures are kept.
const MAX_FAILURES: usize = 20;

/// The settings of a migration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The number of concurrent writes.
    pub concurrency: usize,
    /// The maximum number of writes per second.
    pub rate: Option<NonZeroU32>,
    /// The number of objects in a page, after which progress is recorded.
    pub page_size: u32,
    /// Whether nothing is written.
    pub dry_run: bool,
    /// Whether objects are rewritten although the definition says that they are stored in the
    /// storage version only.
    pub all: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            concurrency: 16,
            rate: NonZeroU32::new(200),
            page_size: PAGE_SIZE,
            dry_run: false,
            all: false,
        }
    }
}

/// The progress of the migration of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The name of the definition.
    pub definition: &'a str,
    /// The phase.
    pub phase: Phase,
    /// The number of objects that the phase is done with.
    pub done: u64,
    /// The number of all objects at this moment, if the server tells it.
    pub total: Option<u64>,
}

/// The result of the migration of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The name of the definition.
    pub definition: String,
    /// The version that objects are stored in.
    pub storage_version: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of the migration of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Objects are stored in the storage version only.
    NotNeeded,
    /// An earlier migration has rewritten all objects.
    WasComplete,
    /// This number of objects would be written.
    Planned(u64),
    /// All objects are rewritten.
    Complete {
        /// The number of objects that this run has seen.
        objects: u64,
        /// The number of those that were stored anew.
        stored: u64,
    },
    /// Objects could not be written.
    Failed(Vec<NotWritten>),
}

impl Outcome {
    /// Returns whether objects remain in other versions than the storage version.
    pub const fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

/// A migration.
pub struct Migration<'a> {
    client: Client,
    records: Records,
    settings: Settings,
    report: &'a (dyn Fn(Progress<'_>) + Sync),
}

/// The counts of a run.
#[derive(Default)]
struct Counts {
    objects: u64,
    stored: u64,
    failed: Vec<NotWritten>,
}

impl<'a> Migration<'a> {
    /// Returns a migration whose progress is recorded, and passed to a function.
    pub fn new(
        client: Client,
        records: Records,
        settings: Settings,
        report: &'a (dyn Fn(Progress<'_>) + Sync),
    ) -> Self {
        Self {
            client,
            records,
            settings,
            report,
        }
    }

    /// Migrates the objects of these definitions, one definition after the other. Objects that
    /// cannot be written do not end it.
    ///
    /// # Errors
    ///
    /// If the API server does not answer, or progress cannot be recorded.
    pub async fn run(&self, definitions: &[Definition]) -> Result<Vec<Migrated>, Error> {
        let mut migrated = Vec::new();
        for definition in definitions {
            migrated.push(Migrated {
                definition: definition.name().to_owned(),
                storage_version: definition.storage_version().to_owned(),
                outcome: self.migrate(definition.clone()).await?,
            });
        }
        Ok(migrated)
    }

    async fn migrate(&self, mut definition: Definition) -> Result<Outcome, Error> {
        for _ in 0..MAX_ATTEMPTS {
            if definition.is_trimmed() && !self.settings.all {
                return Ok(Outcome::NotNeeded);
            }
            let recorded = self.records.read().await?.remove(definition.name());
            let recorded = recorded.filter(|record| record.is_of(&definition));
            if recorded.as_ref().map(|it| it.phase) == Some(Phase::Complete) {
                return Ok(Outcome::WasComplete);
            }
            if self.settings.dry_run {
                let objects = count(&self.client, &definition).await?;
                return Ok(Outcome::Planned(objects));
            }
            let mut record = recorded.unwrap_or_else(|| Record::new(&definition));
            let counts = self.rewrite(&definition, &mut record).await?;
            if !counts.failed.is_empty() {
                return Ok(Outcome::Failed(counts.failed));
            }
            // Objects may have been stored in another version while it was the storage version.
            definition = definitions::read(&self.client, definition.name()).await?;
            if record.is_of(&definition) {
                record.begin(Phase::Complete);
                self.records.write(definition.name(), &record).await?;
                return Ok(Outcome::Complete {
                    objects: counts.objects,
                    stored: counts.stored,
                });
            }
        }
        Err(Error::Changing(definition.name().to_owned()))
    }

    /// Goes through both phases from where the record is.
    async fn rewrite(&self, definition: &Definition, record: &mut Record) -> Result<Counts, Error> {
        let mut counts = Counts::default();
        if record.phase == Phase::Rewriting {
            self.pass(definition, record, &mut counts).await?;
            if !counts.failed.is_empty() {
                return Ok(counts);
            }
            record.begin(Phase::Verifying);
            self.records.write(definition.name(), record).await?;
        }
        let mut verified = Counts::default();
        self.pass(definition, record, &mut verified).await?;
        counts.objects = counts.objects.max(verified.objects);
        counts.stored += verified.stored;
        counts.failed = verified.failed;
        Ok(counts)
    }

    /// Goes through all pages of a phase. After a failure, later pages are not recorded, so that
    /// the next run begins with the page of the failure.
    async fn pass(
        &self,
        definition: &Definition,
        record: &mut Record,
        counts: &mut Counts,
    ) -> Result<(), Error> {
        let writer = Writer::new(
            self.client.clone(),
            self.settings.concurrency,
            self.settings.rate,
        );
        let mut position = record.clone();
        let mut restarts = 0;
        loop {
            let Some(page) = self.page(definition, &mut position).await? else {
                restarts += u32::from(position.token.is_none());
                match restarts < MAX_ATTEMPTS {
                    true => continue,
                    false => return Err(Error::Expiring(definition.name().to_owned())),
                }
            };
            if position.since.is_none() {
                position.since.clone_from(&page.metadata.resource_version);
            }
            let (next, seen) = (page.next(), page.items.len() as u64);
            let remaining = page.metadata.remaining_item_count;
            let objects = match position.phase {
                Phase::Rewriting => page.items,
                _ => unchanged_since(page.items, position.since.as_deref()),
            };
            let written = writer.write(definition, objects).await;
            counts.objects += seen;
            counts.stored += written.stored;
            counts.failed.extend(written.failed);
            counts.failed.truncate(MAX_FAILURES);
            position.done += seen;
            position.token = next;
            self.report(definition, &position, remaining);
            if counts.failed.is_empty() {
                record.clone_from(&position);
            }
            if position.token.is_none() {
                return Ok(());
            }
            if counts.failed.is_empty() {
                self.records.write(definition.name(), record).await?;
            }
        }
    }

    /// Reads the page of a position. If the position has expired, it is replaced by one near to
    /// it, or by the beginning, and there is no page.
    async fn page(
        &self,
        definition: &Definition,
        position: &mut Record,
    ) -> Result<Option<Page<Value>>, Error> {
        let list = List {
            page_size: self.settings.page_size,
            ..List::new(definition.objects_path())
        };
        let page = list.page(&self.client, position.token.as_deref()).await;
        match page {
            Err(error) if position.token.is_some() && is_expired(&error) => {
                position.token = renewed_token(&error);
                if position.token.is_none() {
                    position.done = 0;
                }
                Ok(None)
            }
            other => {
                let attempted = || format!("list {}", definition.name());
                other
                    .map(Some)
                    .map_err(|error| Error::new(attempted(), error))
            }
        }
    }

    fn report(&self, definition: &Definition, position: &Record, remaining: Option<i64>) {
        let remaining = match position.token {
            None => Some(0),
            Some(_) => remaining.and_then(|remaining| u64::try_from(remaining).ok()),
        };
        (self.report)(Progress {
            definition: definition.name(),
            phase: position.phase,
            done: position.done,
            total: remaining.map(|remaining| position.done + remaining),
        });
    }
}

/// Returns whether the error is about a position that the server cannot continue from: it has
/// expired, or it is of another server.
fn is_expired(error: &kube::Error) -> bool {
    matches!(status_code(error), Some(400 | 410))
}
