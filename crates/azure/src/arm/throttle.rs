//! Rate limits of a subscription, shared fairly by its owners.
//!
//! ARM limits the requests of an application to a subscription, for all tenants that use the
//! application together; [`Session::limit`](super::session::Session::limit) names what is limited
//! together. As long as there is no limit in sight, every request goes. After a response with 429, or when few requests remain,
//! requests go in rounds: in each round a number of them, which adapts to Azure's responses, and
//! those of owners with the fewest requests so far first. A caller that has to wait is told for how
//! long and asks again; there is no timer and no task, and an owner that does not ask costs nothing.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// The length of a round.
const ROUND: Duration = Duration::from_secs(1);
/// The number of requests in a round after the first 429.
const INITIAL_BUDGET: usize = 8;
/// The number of requests in a round at which the limit is considered to be out of sight.
const MAX_BUDGET: usize = 64;
/// The number of remaining requests below which requests go in rounds.
const LOW_REMAINING: u64 = 50;
/// The delay after a 429 that names none.
const DEFAULT_DELAY: Duration = Duration::from_secs(10);
/// The number of rounds that a request may miss its turn before others go.
const MISSED_ROUNDS: u32 = 2;

/// The number of limits in sight above which idle ones are forgotten.
const MAX_LIMITS: usize = 1024;

/// The requests that ARM counts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Requests {
    /// GET and HEAD.
    Reads,
    /// PUT and POST.
    Writes,
    /// DELETE.
    Deletes,
}

impl Requests {
    /// Returns the requests with a method.
    pub fn of(method: &http::Method) -> Self {
        match *method {
            http::Method::GET | http::Method::HEAD => Self::Reads,
            http::Method::DELETE => Self::Deletes,
            _ => Self::Writes,
        }
    }
}

/// Whether a request may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It may be sent now.
    Now,
    /// The caller should ask again after this time.
    Wait(Duration),
}

/// The limits of all applications and subscriptions. `O` is an owner: a space, or a namespace with a credential of
/// its own. `R` is a request of an owner, such as the key of the object that is reconciled.
#[derive(Debug)]
pub struct Throttle<O, R> {
    limits: HashMap<(String, Requests), Limit<O, R>>,
}

impl<O, R> Default for Throttle<O, R> {
    fn default() -> Self {
        let limits = HashMap::new();
        Self { limits }
    }
}

/// A limit that was in sight.
#[derive(Debug)]
struct Limit<O, R> {
    blocked_until: Instant,
    round_started: Instant,
    /// The number of requests in each round.
    budget: usize,
    /// The number of requests in the current round.
    used: usize,
    /// The requests that wait, in the order of their turns.
    waiting: Vec<Waiting<O, R>>,
    /// The turn of the last request that was sent. Turns are those of start-time fair queueing:
    /// the turn of a request is one after the last of its owner, and not before this one.
    turn: u64,
    /// The last turns of owners, as long as they matter.
    last_turns: HashMap<O, u64>,
}

#[derive(Debug)]
struct Waiting<O, R> {
    owner: O,
    request: R,
    turn: u64,
    expires: Instant,
}

impl<O: Clone + Eq + Hash, R: Clone + Eq> Throttle<O, R> {
    /// Returns whether a request of an owner under a limit may be sent now.
    pub fn ask(
        &mut self,
        limit: &str,
        kind: Requests,
        (owner, request): (&O, &R),
        now: Instant,
    ) -> Turn {
        let key = (limit.to_owned(), kind);
        let Some(limit) = self.limits.get_mut(&key) else {
            return Turn::Now;
        };
        limit.advance(now);
        if limit.budget > MAX_BUDGET && limit.waiting.is_empty() {
            self.limits.remove(&key);
            return Turn::Now;
        }
        limit.ask(owner, request, now)
    }

    /// Records a response with 429.
    pub fn refused(
        &mut self,
        limit: &str,
        kind: Requests,
        retry_after: Option<Duration>,
        now: Instant,
    ) {
        let limit = self.limit(limit, kind, now);
        // Requests that were sent at the same time are refused together, which counts once.
        if limit.blocked_until <= now {
            limit.budget = (limit.budget / 2).max(1);
        }
        let until = now + retry_after.unwrap_or(DEFAULT_DELAY);
        limit.blocked_until = limit.blocked_until.max(until);
        limit.round_started = limit.blocked_until;
        limit.used = 0;
    }

    /// Records the number of requests that remain, as a response says.
    pub fn remaining(&mut self, limit: &str, kind: Requests, number: u64, now: Instant) {
        if number <= LOW_REMAINING {
            let limit = self.limit(limit, kind, now);
            let number = usize::try_from(number).unwrap_or(1);
            limit.budget = limit.budget.min(number.max(1));
        }
    }

    /// Returns the number of limits in sight.
    pub fn limited(&self) -> usize {
        self.limits.len()
    }

    fn limit(&mut self, name: &str, kind: Requests, now: Instant) -> &mut Limit<O, R> {
        // A limit whose requests do not come back is not asked about again.
        if self.limits.len() >= MAX_LIMITS {
            self.limits
                .retain(|_, limit| limit.blocked_until > now || !limit.waiting.is_empty());
        }
        let key = (name.to_owned(), kind);
        self.limits.entry(key).or_insert_with(|| Limit {
            blocked_until: now,
            round_started: now,
            budget: 2 * INITIAL_BUDGET,
            used: 0,
            waiting: Vec::new(),
            turn: 0,
            last_turns: HashMap::new(),
        })
    }
}

impl<O: Clone + Eq + Hash, R: Clone + Eq> Limit<O, R> {
    /// Begins a new round if the last one is over. Each round without a 429 is a little larger.
    fn advance(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.round_started);
        let rounds = u32::try_from(elapsed.as_millis() / ROUND.as_millis()).unwrap_or(u32::MAX);
        if rounds > 0 && now >= self.blocked_until {
            self.round_started += ROUND * rounds;
            self.used = 0;
            let grown = self.budget.saturating_add(rounds as usize);
            self.budget = grown.min(MAX_BUDGET + 1);
        }
        self.waiting.retain(|waiting| waiting.expires > now);
    }

    fn ask(&mut self, owner: &O, request: &R, now: Instant) -> Turn {
        let position = self.position(owner, request);
        let left = self.budget.saturating_sub(self.used);
        if now >= self.blocked_until && position < left {
            self.used += 1;
            let turn = self.waiting.remove(position).turn;
            self.turn = self.turn.max(turn);
            self.last_turns.insert(owner.clone(), turn);
            let current = self.turn;
            self.last_turns.retain(|_, turn| *turn >= current);
            return Turn::Now;
        }
        let delay = self.delay(position, left, now);
        self.waiting[position].expires = now + delay + ROUND * MISSED_ROUNDS;
        Turn::Wait(delay)
    }

    /// Returns the position of a request among those that wait, to which it is added.
    fn position(&mut self, owner: &O, request: &R) -> usize {
        let mut last = self.last_turns.get(owner).copied();
        for (position, waiting) in self.waiting.iter().enumerate() {
            if waiting.owner != *owner {
                continue;
            }
            if waiting.request == *request {
                return position;
            }
            last = last.max(Some(waiting.turn));
        }
        let turn = last.map_or(0, |last| last + 1).max(self.turn);
        let position = self.waiting.partition_point(|waiting| waiting.turn <= turn);
        let waiting = Waiting {
            owner: owner.clone(),
            request: request.clone(),
            turn,
            expires: self.round_started,
        };
        self.waiting.insert(position, waiting);
        position
    }

    /// Returns the time until the round in which the request at a position has its turn.
    fn delay(&self, position: usize, left: usize, now: Instant) -> Duration {
        let blocked = self.blocked_until.saturating_duration_since(now);
        if !blocked.is_zero() {
            let rounds = position / self.budget.max(1);
            return blocked + ROUND * u32::try_from(rounds).unwrap_or(u32::MAX);
        }
        let rounds = position.saturating_sub(left) / self.budget.max(1);
        let rest = (self.round_started + ROUND).saturating_duration_since(now);
        rest + ROUND * u32::try_from(rounds).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests;
