//! Rate limits of a subscription, shared fairly by its owners.
//!
//! ARM limits the requests of an application to a subscription, and those of all applications to it
//! together ([`LimitNames`]). As long as there is no limit in sight, every request goes. After a
//! response with 429, or when few requests remain, requests go in rounds: in each round a number of
//! them, which adapts to Azure's responses, and those of owners with the fewest requests so far
//! first. A caller that has to wait is told for how long and asks again; there is no timer and no
//! task, and an owner that does not ask costs nothing.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
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

/// The names of what limits the requests of one application to one subscription, at one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitNames {
    /// The limit of the application: it delays no other application.
    pub own: String,
    /// The limit of the subscription, for all applications.
    pub shared: String,
}

/// What a response says about limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The requests that are counted with the one that was answered.
    pub requests: Requests,
    /// Whether the response was 429.
    pub is_refused: bool,
    /// The delay before the next request.
    pub retry_after: Option<Duration>,
    /// The number of requests that remain for the application.
    pub remaining: Option<u64>,
    /// The number of requests that remain for all applications. None if the subscription has not
    /// accepted a request of this one yet: an account that only names a subscription must not delay
    /// those that use it.
    pub shared_remaining: Option<u64>,
}

/// A recipient of what responses say about limits.
pub trait ObserveLimits: Send + Sync {
    /// Records a response.
    fn observe(&self, limits: &LimitNames, observation: Observation);
}

/// Limits of a program that sends few requests.
impl ObserveLimits for () {
    fn observe(&self, _: &LimitNames, _: Observation) {}
}

impl<O, R> ObserveLimits for Mutex<Throttle<O, R>>
where
    O: Clone + Eq + Hash + Send,
    R: Clone + Eq + Send,
{
    fn observe(&self, limits: &LimitNames, seen: Observation) {
        let mut throttle = self.lock().unwrap_or_else(PoisonError::into_inner);
        let (requests, now) = (seen.requests, Instant::now());
        if seen.is_refused {
            let limit = match seen.shared_remaining {
                Some(0) => &limits.shared,
                _ => &limits.own,
            };
            throttle.refused(limit, requests, seen.retry_after, now);
        }
        for (limit, remaining) in [
            (&limits.own, seen.remaining),
            (&limits.shared, seen.shared_remaining),
        ] {
            if let Some(remaining) = remaining {
                throttle.remaining(limit, requests, remaining, now);
            }
        }
    }
}

/// The limits of all applications and subscriptions. `O` is an owner: a space, or a namespace with
/// a credential of its own. `R` is a request of an owner, such as the key of the object that is
/// reconciled.
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
    /// Returns whether a request of an owner may be sent now. It is counted under each of the
    /// limits, and waits for them one after the other: a request that waits for the limit of its
    /// application takes no turn of others under that of the subscription.
    pub fn ask(
        &mut self,
        limits: &[&str],
        kind: Requests,
        (owner, request): (&O, &R),
        now: Instant,
    ) -> Turn {
        let keys: Vec<_> = limits
            .iter()
            .map(|limit| ((*limit).to_owned(), kind))
            .collect();
        let mut wait = None;
        for (number, key) in keys.iter().enumerate() {
            let Some(limit) = self.in_sight(key, now) else {
                continue;
            };
            if let Turn::Wait(delay) = limit.turn(owner, request, now) {
                wait = Some((number, delay));
                break;
            }
        }
        for (number, key) in keys.iter().enumerate() {
            let Some(limit) = self.limits.get_mut(key) else {
                continue;
            };
            match wait {
                None => limit.take(owner, request),
                Some((at, _)) if number > at => limit.leave(owner, request),
                Some((_, delay)) => limit.keep(owner, request, now + delay + ROUND * MISSED_ROUNDS),
            }
        }
        wait.map_or(Turn::Now, |(_, delay)| Turn::Wait(delay))
    }

    /// Returns a limit, if it is in sight.
    fn in_sight(&mut self, key: &(String, Requests), now: Instant) -> Option<&mut Limit<O, R>> {
        let limit = self.limits.get_mut(key)?;
        limit.advance(now);
        if limit.budget > MAX_BUDGET && limit.waiting.is_empty() {
            self.limits.remove(key);
        }
        self.limits.get_mut(key)
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

    /// Returns whether it is the turn of a request, which waits until then.
    fn turn(&mut self, owner: &O, request: &R, now: Instant) -> Turn {
        let position = self.position(owner, request);
        let left = self.budget.saturating_sub(self.used);
        match now >= self.blocked_until && position < left {
            true => Turn::Now,
            false => Turn::Wait(self.delay(position, left, now)),
        }
    }

    /// Counts a request whose turn it is.
    fn take(&mut self, owner: &O, request: &R) {
        let position = self.position(owner, request);
        let turn = self.waiting.remove(position).turn;
        self.used += 1;
        self.turn = self.turn.max(turn);
        self.last_turns.insert(owner.clone(), turn);
        let current = self.turn;
        self.last_turns.retain(|_, turn| *turn >= current);
    }

    /// Keeps the turn of a request until this time.
    fn keep(&mut self, owner: &O, request: &R, until: Instant) {
        let position = self.position(owner, request);
        self.waiting[position].expires = until;
    }

    /// Gives up the turn of a request.
    fn leave(&mut self, owner: &O, request: &R) {
        self.waiting
            .retain(|waiting| waiting.owner != *owner || waiting.request != *request);
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
