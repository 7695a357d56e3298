//! Name resolution on threads of its own.

use std::fmt;
use std::hash::Hash;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread;

use tokio::sync::{Semaphore, oneshot};

use super::keyed_limit::KeyedLimit;

/// The most concurrent lookups of one owner.
const MAX_LOOKUPS_PER_OWNER: usize = 4;

/// The most concurrent lookups, which is the most threads.
const MAX_LOOKUPS: usize = 128;

/// The stack of a lookup's thread. The system's resolver needs some 100 KiB.
const STACK_BYTES: usize = 512 << 10;

type Lookup = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// Resolves host names with the system's resolver.
///
/// The system's resolver blocks its thread for as long as name servers are silent, also after
/// the caller gave up. A lookup therefore counts until it ends, not until its caller leaves.
pub struct Resolver<O> {
    lookup: Arc<Lookup>,
    owners: Arc<KeyedLimit<O>>,
    threads: Arc<Semaphore>,
}

impl<O: Clone + Eq + Hash + Send + 'static> Resolver<O> {
    /// Creates a resolver that asks the system.
    pub fn system() -> Self {
        Self::with_lookup(|host, port| Ok((host, port).to_socket_addrs()?.collect()))
    }

    /// Creates a resolver with another blocking lookup, for tests.
    pub fn with_lookup(
        lookup: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            lookup: Arc::new(lookup),
            owners: Arc::new(KeyedLimit::new(MAX_LOOKUPS_PER_OWNER)),
            threads: Arc::new(Semaphore::new(MAX_LOOKUPS)),
        }
    }

    /// Returns the addresses of a host; none if the lookup fails.
    pub async fn resolve(&self, owner: &O, host: &str, port: u16) -> Vec<SocketAddr> {
        let permit = self.owners.acquire(owner).await;
        // The semaphore is never closed.
        let Ok(thread_permit) = Arc::clone(&self.threads).acquire_owned().await else {
            return Vec::new();
        };
        let (send, found) = oneshot::channel();
        let (lookup, host) = (Arc::clone(&self.lookup), host.to_owned());
        let started = thread::Builder::new()
            .name("lookup".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let _permits = (permit, thread_permit);
                // The caller may have given up.
                send.send(lookup(&host, port)).ok();
            });
        if let Err(error) = started {
            tracing::warn!(%error, "lookup thread not started");
            return Vec::new();
        }
        found.await.ok().and_then(Result::ok).unwrap_or_default()
    }
}

impl<O: fmt::Debug> fmt::Debug for Resolver<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver")
            .field("owners", &self.owners)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;
    use tokio::time::timeout;

    const MOMENT: Duration = Duration::from_millis(50);

    /// A resolver that answers for `silent` only when the returned sender is dropped, and counts
    /// the lookups for it.
    fn resolver() -> (Arc<Resolver<u8>>, Arc<AtomicUsize>, mpsc::Sender<()>) {
        let (release, silence) = mpsc::channel::<()>();
        let (silence, count) = (Mutex::new(silence), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&count);
        let resolver = Resolver::with_lookup(move |host, port| {
            if host == "silent" {
                counted.fetch_add(1, Ordering::SeqCst);
                let silence = silence.lock().unwrap_or_else(PoisonError::into_inner);
                silence.recv().ok();
            }
            Ok(vec![SocketAddr::from(([192, 0, 2, 1], port))])
        });
        (Arc::new(resolver), count, release)
    }

    #[tokio::test]
    async fn silent_name_server_delays_only_its_own_owner() {
        let (resolver, count, release) = resolver();
        for _ in 0..2 * MAX_LOOKUPS_PER_OWNER {
            let abandoned = timeout(MOMENT, resolver.resolve(&1, "silent", 443)).await;
            assert!(abandoned.is_err());
        }
        assert_eq!(count.load(Ordering::SeqCst), MAX_LOOKUPS_PER_OWNER);
        let found = timeout(Duration::from_secs(5), resolver.resolve(&2, "host", 443)).await;
        assert_eq!(found, Ok(vec!["192.0.2.1:443".parse().unwrap()]));
        drop(release);
        let found = timeout(Duration::from_secs(5), resolver.resolve(&1, "host", 1)).await;
        assert_eq!(found, Ok(vec!["192.0.2.1:1".parse().unwrap()]));
    }

    #[tokio::test]
    async fn owners_without_lookups_leave_no_state_behind() {
        let (resolver, _, release) = resolver();
        drop(release);
        for owner in 0..100 {
            resolver.resolve(&owner, "silent", 443).await;
        }
        // The last thread may still be about to drop its permit.
        let empty = async {
            while !resolver.owners.is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        assert!(timeout(Duration::from_secs(5), empty).await.is_ok());
    }
}
