//! The measured engines.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use insula_store::embedded::{self, Embedded};
use insula_store::etcd::{self, Etcd};
use insula_store::{KeyRange, Store};
use insula_testkit::etcd::{EtcdServer, Settings};

use crate::machine;

/// Enough for a million keys and their history. etcd's own limit is 2 GiB.
const ETCD_QUOTA: u64 = 8 << 30;
/// etcd's metric for the syncs of its log.
const ETCD_SYNCS: &str = "etcd_disk_wal_fsync_duration_seconds_count ";

/// A running engine with its store.
pub struct Subject {
    pub store: Arc<dyn Store>,
    folder: PathBuf,
    running: Running,
}

/// The engines that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    Embedded,
    Etcd,
}

/// Used CPU time.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    /// CPU time of the engine's process.
    pub engine: Duration,
    /// CPU time of the calling process, if the engine has its own.
    pub caller: Option<Duration>,
}

enum Running {
    Here(Embedded),
    Server(Box<EtcdServer>),
}

impl Engine {
    /// Opens the store in the folder, or starts a server with its data there.
    pub async fn start(self, folder: &Path) -> Result<Subject> {
        let (store, running): (Arc<dyn Store>, _) = match self {
            Self::Embedded => {
                let store = Embedded::open(folder, embedded::Options::default()).await?;
                (Arc::new(store.clone()), Running::Here(store))
            }
            Self::Etcd => {
                let server = start_etcd(folder).await?;
                let store = connect(&server).await?;
                (Arc::new(store), Running::Server(Box::new(server)))
            }
        };
        Ok(Subject {
            store,
            folder: folder.to_owned(),
            running,
        })
    }
}

impl Subject {
    pub fn cpu(&self) -> Result<Cpu> {
        let own = || machine::cpu_time(std::process::id());
        Ok(match &self.running {
            Running::Here(_) => Cpu {
                engine: own()?,
                caller: None,
            },
            Running::Server(_) => Cpu {
                engine: machine::cpu_time(self.pid()?)?,
                caller: Some(own()?),
            },
        })
    }

    /// Returns the CPU time since `before`.
    pub fn cpu_since(&self, before: Cpu) -> Result<Cpu> {
        let now = self.cpu()?;
        let both = now.caller.zip(before.caller);
        Ok(Cpu {
            engine: now.engine.saturating_sub(before.engine),
            caller: both.map(|(now, before)| now.saturating_sub(before)),
        })
    }

    pub fn memory(&self) -> Result<u64> {
        machine::memory(self.pid()?)
    }

    pub fn disk_usage(&self) -> Result<u64> {
        machine::disk_usage(&self.folder)
    }

    /// Returns the number of syncs of the log.
    pub fn syncs(&self) -> Result<u64> {
        let server = match &self.running {
            Running::Here(store) => return Ok(store.statistics().syncs),
            Running::Server(server) => server,
        };
        let metrics = server.metrics()?;
        let count = |line: &str| line.strip_prefix(ETCD_SYNCS)?.trim().parse::<f64>().ok();
        let count = metrics.lines().find_map(count);
        Ok(count.context("etcd does not count its syncs")? as u64)
    }

    /// Closes the store cleanly.
    pub async fn close(self) {
        drop(self.store);
        if let Running::Here(store) = self.running {
            store.close().await;
        }
    }

    /// Kills and restarts the server, and returns the time until it answers a read.
    pub async fn restart(&mut self) -> Result<Duration> {
        let Running::Server(server) = &mut self.running else {
            anyhow::bail!("only a server can be restarted");
        };
        server.kill();
        let begun = Instant::now();
        server.restart();
        let store = connect(server).await?;
        answers(&store).await?;
        self.store = Arc::new(store);
        Ok(begun.elapsed())
    }

    fn pid(&self) -> Result<u32> {
        match &self.running {
            Running::Here(_) => Ok(std::process::id()),
            Running::Server(server) => server.pid().context("etcd does not run"),
        }
    }
}

/// Waits until the store has answered a read.
pub async fn answers(store: &dyn Store) -> Result<()> {
    let one = std::num::NonZeroUsize::new(1);
    store
        .range(&KeyRange::all(), insula_store::At::Latest, one)
        .await?;
    Ok(())
}

async fn start_etcd(folder: &Path) -> Result<EtcdServer> {
    let settings = Settings {
        quota_bytes: Some(ETCD_QUOTA),
        folder: Some(folder.to_owned()),
        ..Settings::default()
    };
    let start = tokio::task::spawn_blocking(move || EtcdServer::start_with(settings));
    start.await?.context("etcd is not installed")
}

async fn connect(server: &EtcdServer) -> Result<Etcd> {
    let options = etcd::Options::new([server.endpoint()]);
    Ok(Etcd::connect(options).await?)
}
