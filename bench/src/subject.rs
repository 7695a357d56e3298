//! What is measured.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use insula_store::Store;
use insula_store::embedded::{Embedded, Options};
use tempfile::TempDir;

use crate::machine;

/// An engine with an empty store.
pub struct Subject {
    pub store: Arc<dyn Store>,
    embedded: Option<Embedded>,
    folder: TempDir,
}

/// The engines that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    Embedded,
}

impl Engine {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
        }
    }

    pub async fn start(self) -> Result<Subject> {
        let folder = tempfile::tempdir_in(data_folder()?)?;
        let store = Embedded::open(folder.path(), Options::default()).await?;
        Ok(Subject {
            store: Arc::new(store.clone()),
            embedded: Some(store),
            folder,
        })
    }
}

impl Subject {
    /// CPU time of the engine. The embedded one shares the process with the callers, so
    /// theirs counts too.
    pub fn cpu_time(&self) -> Result<Duration> {
        machine::cpu_time(std::process::id())
    }

    pub fn memory(&self) -> Result<u64> {
        machine::memory(std::process::id())
    }

    pub fn disk_usage(&self) -> Result<u64> {
        machine::disk_usage(self.folder.path())
    }

    /// How often it has synced its log, where that can be told.
    pub fn syncs(&self) -> Option<u64> {
        self.embedded.as_ref().map(|store| store.statistics().syncs)
    }

    /// Closes the store and opens it again; how long the opening took.
    pub async fn reopen(self) -> Result<(Self, Duration)> {
        let Self {
            store,
            embedded,
            folder,
        } = self;
        drop(store);
        if let Some(store) = embedded {
            store.close().await;
        }
        let begun = std::time::Instant::now();
        let store = Embedded::open(folder.path(), Options::default()).await?;
        let took = begun.elapsed();
        let subject = Self {
            store: Arc::new(store.clone()),
            embedded: Some(store),
            folder,
        };
        Ok((subject, took))
    }
}

/// On the disk that is built on: a folder in memory would have no syncs to measure.
pub fn data_folder() -> Result<PathBuf> {
    let folder = PathBuf::from("target/bench-data");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}
