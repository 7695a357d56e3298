//! A queue in which hosts take turns.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use tokio::sync::oneshot;

/// Handshakes that wait, by host.
#[derive(Debug, Default)]
pub(super) struct FairQueue {
    hosts: HashMap<IpAddr, VecDeque<Waiter>>,
    /// Every host once, in the order of their turns.
    ring: VecDeque<IpAddr>,
    len: usize,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    grant: oneshot::Sender<()>,
}

impl FairQueue {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a handshake behind the others of its host.
    pub(super) fn push(&mut self, host: IpAddr, number: u64, grant: oneshot::Sender<()>) {
        let waiters = self.hosts.entry(host).or_default();
        if waiters.is_empty() {
            self.ring.push_back(host);
        }
        waiters.push_back(Waiter { number, grant });
        self.len += 1;
    }

    /// Removes the first handshake of the next host, which comes last from now on.
    pub(super) fn pop(&mut self) -> Option<oneshot::Sender<()>> {
        let host = self.ring.pop_front()?;
        let waiters = self.hosts.get_mut(&host)?;
        let waiter = waiters.pop_front()?;
        match waiters.is_empty() {
            true => drop(self.hosts.remove(&host)),
            false => self.ring.push_back(host),
        }
        self.len -= 1;
        Some(waiter.grant)
    }

    /// Removes a handshake. Returns whether it was waiting.
    pub(super) fn remove(&mut self, host: IpAddr, number: u64) -> bool {
        let Some(waiters) = self.hosts.get_mut(&host) else {
            return false;
        };
        let Some(place) = waiters.iter().position(|waiter| waiter.number == number) else {
            return false;
        };
        waiters.remove(place);
        if waiters.is_empty() {
            self.hosts.remove(&host);
            self.ring.retain(|one| *one != host);
        }
        self.len -= 1;
        true
    }
}
