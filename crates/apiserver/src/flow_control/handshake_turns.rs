//! Turns for the CPU-bound steps of TLS handshakes.
//!
//! A handshake is up to a millisecond of signatures. A flood of them must not occupy the threads
//! that serve open connections, so few run at once and one core stays free. The others wait, and
//! hosts get turns in round-robin order, however many connections each has.
//!
//! A host that opens more connections than a normal one still gets all the turns that no other
//! host wants, within half of one core: thousands of nodes behind one address reconnect within
//! seconds, and a flood costs no more than that.

mod queue;
mod rate;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use self::queue::FairQueue;
use self::rate::{CpuBudget, RateTable};
use super::client_address::{ClientAddress, Network};

/// The turns of a server.
#[derive(Debug)]
pub struct HandshakeTurns {
    total: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: u32,
    rates: RateTable,
    queues: [FairQueue; 3],
    /// Whether shared addresses come next, if others wait as well.
    is_shared_next: bool,
    /// Whether a handshake over the rate runs. Only one does.
    is_over_running: bool,
    over_budget: CpuBudget,
    /// Whether a task waits for the budget.
    is_timer_set: bool,
    next_number: u64,
    begun: [u64; 3],
}

/// The priority of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeRate {
    /// The address opens connections at a normal rate.
    Within,
    /// The address is shared by many clients, and has no rate.
    Shared,
    /// The address opens more: it gets what the others leave.
    Over,
}

/// One handshake, which takes a turn for each of its steps.
#[derive(Debug)]
pub struct Handshake {
    turns: Arc<HandshakeTurns>,
    address: ClientAddress,
    rate: HandshakeRate,
}

/// The right to work on a handshake until it is dropped.
#[derive(Debug)]
pub struct Turn<'a> {
    handshake: &'a Handshake,
    begun: Instant,
}

/// A place in a queue. Dropping it leaves the queue.
struct Waiting<'a> {
    handshake: &'a Handshake,
    number: u64,
    granted: Option<oneshot::Receiver<()>>,
}

/// The statistics of handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeStats {
    /// Steps that run.
    pub running: u32,
    /// Handshakes that wait for a turn.
    pub waiting: usize,
    /// Handshakes that were begun, by rate.
    pub begun: [(&'static str, u64); 3],
}

impl HandshakeTurns {
    /// Creates turns of which so many run at once.
    pub fn new(turns: u32) -> Arc<Self> {
        let total = turns.max(1);
        let state = State {
            free: total,
            rates: RateTable::default(),
            queues: Default::default(),
            is_shared_next: false,
            is_over_running: false,
            over_budget: CpuBudget::new(Instant::now()),
            is_timer_set: false,
            next_number: 0,
            begun: [0; 3],
        };
        let state = Mutex::new(state);
        Arc::new(Self { total, state })
    }

    /// Begins a handshake of a client, which counts against the rate of its address.
    pub fn begin(self: &Arc<Self>, address: ClientAddress) -> Handshake {
        let mut state = self.lock();
        let rate = match address.network {
            Network::Shared => HandshakeRate::Shared,
            Network::Prefix(network) => {
                let within = state.rates.take(address.host, network, Instant::now());
                match within {
                    true => HandshakeRate::Within,
                    false => HandshakeRate::Over,
                }
            }
        };
        state.begun[rate as usize] += 1;
        drop(state);
        Handshake {
            turns: Arc::clone(self),
            address,
            rate,
        }
    }

    /// Returns the current statistics.
    pub fn stats(&self) -> HandshakeStats {
        let state = self.lock();
        let [within, shared, over] = state.begun;
        HandshakeStats {
            running: self.total - state.free,
            waiting: state.queues.iter().map(FairQueue::len).sum(),
            begun: [("within", within), ("shared", shared), ("over", over)],
        }
    }

    /// Gives free turns to the next handshakes.
    fn dispatch(self: &Arc<Self>) {
        let mut state = self.lock();
        let now = Instant::now();
        while let Some(granted) = state.next(now) {
            // A receiver that is dropped from now on finds that it was granted, and releases.
            granted.send(()).ok();
        }
        let wait = state.wait_for_budget(now);
        drop(state);
        if let Some(wait) = wait {
            let turns = Arc::clone(self);
            tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                turns.lock().is_timer_set = false;
                turns.dispatch();
            });
        }
    }

    fn release(self: &Arc<Self>, rate: HandshakeRate, took: Duration) {
        let mut state = self.lock();
        state.free += 1;
        if rate == HandshakeRate::Over {
            state.is_over_running = false;
            state.over_budget.spend(took);
        }
        drop(state);
        self.dispatch();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes a turn for the next handshake, and removes it from its queue.
    fn next(&mut self, now: Instant) -> Option<oneshot::Sender<()>> {
        if self.free == 0 {
            return None;
        }
        let (first, second) = match self.is_shared_next {
            true => (HandshakeRate::Shared, HandshakeRate::Within),
            false => (HandshakeRate::Within, HandshakeRate::Shared),
        };
        for rate in [first, second] {
            if let Some(granted) = self.queues[rate as usize].pop() {
                self.is_shared_next = rate == HandshakeRate::Within;
                self.free -= 1;
                return Some(granted);
            }
        }
        if self.is_over_running || !self.over_budget.is_available(now) {
            return None;
        }
        let granted = self.queues[HandshakeRate::Over as usize].pop()?;
        self.is_over_running = true;
        self.free -= 1;
        Some(granted)
    }

    /// Returns how long to wait for the budget, if handshakes wait for nothing else.
    fn wait_for_budget(&mut self, now: Instant) -> Option<Duration> {
        let over = &self.queues[HandshakeRate::Over as usize];
        if self.is_timer_set || self.is_over_running || self.free == 0 || over.len() == 0 {
            return None;
        }
        self.is_timer_set = true;
        Some(self.over_budget.wait(now))
    }
}

impl Handshake {
    /// Waits for a turn.
    pub async fn turn(&self) -> Turn<'_> {
        let mut waiting = self.enqueue();
        self.turns.dispatch();
        if let Some(granted) = &mut waiting.granted {
            // The sender is not dropped while this waits in the queue.
            granted.await.ok();
        }
        waiting.granted = None;
        Turn {
            handshake: self,
            begun: Instant::now(),
        }
    }

    fn enqueue(&self) -> Waiting<'_> {
        let (grant, granted) = oneshot::channel();
        let mut state = self.turns.lock();
        let number = state.next_number;
        state.next_number += 1;
        state.queues[self.rate as usize].push(self.address.host, number, grant);
        drop(state);
        Waiting {
            handshake: self,
            number,
            granted: Some(granted),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Handshake { turns, rate, .. } = self.handshake;
        turns.release(*rate, self.begun.elapsed());
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.granted.is_none() {
            return;
        }
        let Handshake {
            turns,
            rate,
            address,
        } = self.handshake;
        let mut state = turns.lock();
        let was_waiting = state.queues[*rate as usize].remove(address.host, self.number);
        drop(state);
        if !was_waiting {
            // The turn was granted, and is not used.
            turns.release(*rate, Duration::ZERO);
        }
    }
}

#[cfg(test)]
mod tests;
