//! Idle connections that are kept for the next call.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use insula_core::Space;
use tokio::time::Instant;

use super::Call;
use super::connection::Connection;
use super::service::Backend;
use super::target::Target;

/// How long an idle connection is kept: less than most servers keep theirs.
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);

/// Idle connections, the most recently used last. Expired ones are removed during the next
/// call of any space.
pub(super) struct Pool {
    most: usize,
    idle: Mutex<VecDeque<Idle>>,
}

/// The space, backend and CA bundle of a connection. The authority alone is not enough:
/// services of the same name in two spaces have different backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    space: Space,
    authority: String,
    backend: Backend,
    ca_bundle: Option<String>,
}

struct Idle {
    key: Key,
    since: Instant,
    connection: Connection,
}

impl Key {
    pub fn of(call: &Call<'_>, target: &Target<'_>, backend: &Backend) -> Self {
        Self {
            space: call.space.clone(),
            authority: target.authority.clone(),
            backend: backend.clone(),
            ca_bundle: call.client.ca_bundle.clone(),
        }
    }
}

impl Pool {
    pub fn new(most: usize) -> Self {
        Self {
            most,
            idle: Mutex::default(),
        }
    }

    /// Takes a connection for the key, which the peer may have closed meanwhile.
    pub fn take(&self, key: &Key) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        drop_old(&mut idle);
        let at = idle.iter().rposition(|one| one.key == *key)?;
        Some(idle.remove(at)?.connection)
    }

    /// Keeps a connection for the next call, in place of the least recently used if full.
    pub fn keep(&self, key: Key, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        drop_old(&mut idle);
        idle.push_back(Idle {
            key,
            since: Instant::now(),
            connection,
        });
        if idle.len() > self.most {
            idle.pop_front();
        }
    }
}

fn drop_old(idle: &mut VecDeque<Idle>) {
    while idle
        .front()
        .is_some_and(|one| one.since.elapsed() > IDLE_TIMEOUT)
    {
        idle.pop_front();
    }
}
