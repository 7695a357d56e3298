//! CPU-bound work, off the threads that serve requests and renew leases.
//!
//! How long such work takes depends on the objects of tenants. The threads of the runtime are few,
//! and all tenants share them.

use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::spawn_blocking;

/// Threads for one sort of work: as many at a time as leave one core free.
///
/// Work of one sort may wait for work of another one, and must never wait for its own: all threads
/// may be taken by those that wait.
pub struct Pool(LazyLock<Semaphore>);

impl Pool {
    /// Creates a pool.
    pub const fn new() -> Self {
        Self(LazyLock::new(|| Semaphore::new(max_threads())))
    }

    /// Runs work on a thread of the pool. If the caller stops waiting, the work ends at its next
    /// await.
    ///
    /// # Panics
    ///
    /// If the work panics, or the runtime is being shut down.
    pub async fn run<T, F>(&'static self, work: F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let permit = self.0.acquire().await;
        let (waits, stopped) = oneshot::channel::<()>();
        let runtime = Handle::current();
        let worked = spawn_blocking(move || {
            // The thread is taken until the work has ended, also if its result is not wanted.
            let _permit = permit;
            runtime.block_on(async {
                tokio::select! {
                    result = work => Some(result),
                    _ = stopped => None,
                }
            })
        });
        let result = worked.await;
        drop(waits);
        match result {
            Ok(Some(result)) => result,
            Ok(None) => unreachable!("the work ends early only if the caller does not wait"),
            Err(failed) => match failed.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(cancelled) => panic!("the runtime is being shut down: {cancelled}"),
            },
        }
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

fn max_threads() -> usize {
    let cores = available_parallelism().map_or(1, std::num::NonZero::get);
    cores.saturating_sub(1).max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// With one thread, the message could not be sent if the work blocked it.
    #[tokio::test]
    async fn other_tasks_run_during_cpu_bound_work() {
        static POOL: Pool = Pool::new();
        let (send, receive) = mpsc::channel();
        let work =
            tokio::spawn(POOL.run(async move { receive.recv_timeout(Duration::from_secs(30)) }));
        let other = tokio::spawn(async move { send.send(7) });
        assert_eq!(other.await.unwrap(), Ok(()));
        assert_eq!(work.await.unwrap(), Ok(7));
    }

    #[tokio::test]
    async fn work_at_a_time_is_limited() {
        static POOL: Pool = Pool::new();
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        let work = || async {
            let running = RUNNING.fetch_add(1, Ordering::SeqCst) + 1;
            tokio::task::yield_now().await;
            RUNNING.fetch_sub(1, Ordering::SeqCst);
            running
        };
        let all = futures_util::future::join_all((0..50).map(|_| POOL.run(work()))).await;
        assert!(all.iter().all(|it| *it <= max_threads()), "{all:?}");
    }

    #[tokio::test]
    async fn work_ends_when_the_caller_does_not_wait_any_more() {
        static POOL: Pool = Pool::new();
        let (begin, begun) = oneshot::channel();
        let endless = tokio::spawn(POOL.run(async move {
            begin.send(()).ok();
            std::future::pending::<()>().await;
        }));
        begun.await.unwrap();
        endless.abort();
        // The threads are free again, all of them.
        let all = u32::try_from(max_threads()).unwrap();
        let free = tokio::time::timeout(Duration::from_secs(30), POOL.0.acquire_many(all));
        assert!(free.await.is_ok());
    }
}
