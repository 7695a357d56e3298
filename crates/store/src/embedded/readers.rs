//! Threads for reads that may wait for the disk.

use tokio::runtime::{Builder, Runtime};

use crate::{Error, Result};

/// A pool of threads that start on demand. The blocking threads of the caller's runtime are not
/// used: other work, such as lookups of names, may occupy all of them.
pub(super) struct Readers {
    /// Only its blocking threads are used. Present until the pool is dropped.
    runtime: Option<Runtime>,
}

impl Readers {
    /// Creates a pool of at most `threads`.
    pub fn new(name: &str, threads: usize) -> Result<Self> {
        let runtime = Builder::new_current_thread()
            .thread_name(name)
            .max_blocking_threads(threads)
            .build();
        let failed = |error| Error::Unavailable(format!("no threads for reads: {error}"));
        Ok(Self {
            runtime: Some(runtime.map_err(failed)?),
        })
    }

    /// Runs a read, after those that wait already.
    pub async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let Some(runtime) = &self.runtime else {
            return Err(Error::Unavailable("the store was closed".to_owned()));
        };
        let stopped = |error| Error::Unavailable(format!("a read was stopped: {error}"));
        runtime.spawn_blocking(read).await.map_err(stopped)?
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        // The last reference may be dropped by a reader, which cannot wait for itself.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
