//! When ARM may be called for an object again.
//!
//! Every write of the operator triggers its object again, and so do changes of objects that it
//! depends on. None of that is a reason to call Azure earlier than it asked for.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use insula_identity::session;
use tokio::time::Instant;

use crate::arm::error::Retry;

/// The first delay of all backoffs.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The longest delay between two polls if Azure names none.
const MAX_POLL_DELAY: Duration = Duration::from_secs(60);
/// The delay of retries that wait for the sync period, if there is none.
const VERY_SLOW: Duration = Duration::from_secs(3600);

/// What a call was about. After a change, the next one need not wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The inputs with this digest.
    Inputs(String),
    /// A read of a resource that is only read, at this generation of its object.
    Read(i64),
    /// An operation in progress.
    Operation,
    /// A deletion.
    Deletion,
}

/// When ARM may be called for each object.
#[derive(Debug)]
pub(super) struct Pacing {
    sync_period: Option<Duration>,
    term: Mutex<Term>,
}

/// What is known since this process leads.
#[derive(Debug)]
struct Term {
    started: Instant,
    gates: HashMap<Arc<str>, Gate>,
}

#[derive(Debug)]
struct Gate {
    subject: Subject,
    not_before: Option<Instant>,
    /// Consecutive calls about the same subject.
    calls: u32,
    /// The session of the call, if it failed.
    failed_with: Option<session::Key>,
}

impl Pacing {
    pub(super) fn new(sync_period: Option<Duration>) -> Self {
        Self {
            sync_period,
            term: Mutex::new(Term::new(Instant::now())),
        }
    }

    /// Begins a term of leadership: another process may have called ARM before it.
    pub(super) fn term_started(&self, now: Instant) {
        *self.term() = Term::new(now);
    }

    /// Returns how long an object has to wait before a call about a subject; none if it need not.
    pub(super) fn wait(&self, key: &Arc<str>, subject: &Subject, now: Instant) -> Option<Wait> {
        let term = self.term();
        let gate = term
            .gates
            .get(key)
            .filter(|gate| gate.subject == *subject)?;
        match gate.not_before {
            None => Some(Wait::ForChange),
            Some(until) if until > now => Some(Wait::For(until - now)),
            Some(_) => None,
        }
    }

    /// Delays the next call after a failure.
    pub(super) fn failed(
        &self,
        key: &Arc<str>,
        subject: Subject,
        retry: Retry,
        at_least: Option<Duration>,
        now: Instant,
    ) -> Wait {
        let after = |calls| match retry {
            Retry::Never => None,
            Retry::VerySlow => Some(spread(self.sync_period.unwrap_or(VERY_SLOW), key)),
            Retry::Fast | Retry::Slow => {
                Some(backoff(calls, retry.max_backoff().unwrap_or(VERY_SLOW)))
            }
        };
        self.set(key, subject, now, |calls| {
            after(calls).map(|delay| delay.max(at_least.unwrap_or_default()))
        })
    }

    /// Delays the next poll of an operation.
    pub(super) fn polled(
        &self,
        key: &Arc<str>,
        subject: Subject,
        retry_after: Option<Duration>,
        now: Instant,
    ) -> Wait {
        self.set(key, subject, now, |calls| {
            Some(retry_after.unwrap_or_else(|| backoff(calls, MAX_POLL_DELAY)))
        })
    }

    /// Delays the next call after a success until the sync period is over.
    pub(super) fn synced(&self, key: &Arc<str>, subject: Subject, now: Instant) -> Wait {
        let period = self.sync_period;
        self.set(key, subject, now, |_| {
            period.map(|period| spread(period, key))
        })
    }

    /// Delays the next call for an object that was in order before this process led. So
    /// neither a restart nor another leader sends all resources at once.
    pub(super) fn adopted(&self, key: &Arc<str>, subject: Subject, now: Instant) -> Wait {
        let since_start = now.saturating_duration_since(self.term().started);
        let period = self.sync_period;
        self.set(key, subject, now, |_| {
            let at = period?.mul_f64(fraction(key));
            Some(at.saturating_sub(since_start))
        })
    }

    /// Records the session of the call that failed: with another credential, the next one need not
    /// wait.
    pub(super) fn set_failed_with(&self, key: &str, session: session::Key) {
        if let Some(gate) = self.term().gates.get_mut(key) {
            gate.failed_with = Some(session);
        }
    }

    /// Returns the session of the last call, if it failed.
    pub(super) fn failed_with(&self, key: &str) -> Option<session::Key> {
        self.term().gates.get(key)?.failed_with.clone()
    }

    /// Returns whether a call for an object was paced before.
    pub(super) fn knows(&self, key: &str) -> bool {
        self.term().gates.contains_key(key)
    }

    /// Forgets an object.
    pub(super) fn forget(&self, key: &str) {
        self.term().gates.remove(key);
    }

    fn set(
        &self,
        key: &Arc<str>,
        subject: Subject,
        now: Instant,
        delay: impl FnOnce(u32) -> Option<Duration>,
    ) -> Wait {
        let mut term = self.term();
        let known = term.gates.get(key).filter(|gate| gate.subject == subject);
        let calls = known.map_or(0, |gate| gate.calls).saturating_add(1);
        let delay = delay(calls);
        let gate = Gate {
            subject,
            not_before: delay.map(|delay| now + delay),
            calls,
            failed_with: None,
        };
        term.gates.insert(Arc::clone(key), gate);
        delay.map_or(Wait::ForChange, Wait::For)
    }

    fn term(&self) -> MutexGuard<'_, Term> {
        self.term.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Term {
    fn new(started: Instant) -> Self {
        let gates = HashMap::new();
        Self { started, gates }
    }
}

/// How long an object waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// For this time.
    For(Duration),
    /// Until something changes.
    ForChange,
}

/// Returns the delay after so many calls in a row: each twice the one before.
fn backoff(calls: u32, max: Duration) -> Duration {
    let factor = 2_u32.saturating_pow(calls.saturating_sub(1).min(16));
    FIRST_DELAY.saturating_mul(factor).min(max)
}

/// Returns a time within a quarter of a period, so that resources do not stay in step.
fn spread(period: Duration, key: &str) -> Duration {
    period.mul_f64(0.75 + fraction(key) / 2.0)
}

/// Returns a number from 0 to 1 that is the same for an object each time.
fn fraction(key: &str) -> f64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    (hasher.finish() % 1000) as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn key() -> Arc<str> {
        Arc::from("ResourceGroup.resources.azure.com - a b")
    }

    fn inputs(digest: &str) -> Subject {
        Subject::Inputs(digest.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn retries_back_off_up_to_the_maximum_of_their_class_until_the_inputs_change() {
        let pacing = Pacing::new(Some(HOUR));
        let (key, mut seconds) = (key(), Vec::new());
        for _ in 0..10 {
            let now = Instant::now();
            let wait = pacing.failed(&key, inputs("1"), Retry::Fast, None, now);
            assert_eq!(pacing.wait(&key, &inputs("1"), now), Some(wait));
            assert_eq!(pacing.wait(&key, &inputs("2"), now), None);
            let Wait::For(delay) = wait else {
                panic!("{wait:?}");
            };
            seconds.push(delay.as_secs());
            tokio::time::advance(delay).await;
            assert_eq!(pacing.wait(&key, &inputs("1"), Instant::now()), None);
        }
        assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30, 30, 30, 30]);
        let least = Some(Duration::from_secs(100));
        let wait = pacing.failed(&key, inputs("1"), Retry::Fast, least, Instant::now());
        assert_eq!(wait, Wait::For(Duration::from_secs(100)));
    }

    #[tokio::test(start_paused = true)]
    async fn fatal_error_waits_for_a_change() {
        let pacing = Pacing::new(None);
        let (key, now) = (key(), Instant::now());
        let wait = pacing.failed(&key, inputs("1"), Retry::Never, None, now);
        assert_eq!(wait, Wait::ForChange);
        tokio::time::advance(HOUR * 100).await;
        let now = Instant::now();
        assert_eq!(pacing.wait(&key, &inputs("1"), now), Some(Wait::ForChange));
        assert_eq!(pacing.wait(&key, &inputs("2"), now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn sync_is_spread_around_the_period_and_never_means_never() {
        let now = Instant::now();
        let pacing = Pacing::new(Some(HOUR));
        let Wait::For(delay) = pacing.synced(&key(), inputs("1"), now) else {
            panic!("there is a period");
        };
        assert!(delay >= HOUR * 3 / 4 && delay <= HOUR * 5 / 4, "{delay:?}");
        let never = Pacing::new(None);
        assert_eq!(never.synced(&key(), inputs("1"), now), Wait::ForChange);
        assert_eq!(never.adopted(&key(), inputs("1"), now), Wait::ForChange);
    }

    #[tokio::test(start_paused = true)]
    async fn resources_in_order_are_synced_within_a_period_after_a_restart() {
        let pacing = Pacing::new(Some(HOUR));
        let now = Instant::now();
        let delays = (0..200).map(|n| {
            match pacing.adopted(&Arc::from(format!("key {n}")), inputs("1"), now) {
                Wait::For(delay) => delay,
                Wait::ForChange => panic!("there is a period"),
            }
        });
        let delays: Vec<_> = delays.collect();
        assert!(delays.iter().all(|delay| *delay <= HOUR));
        let soon = delays.iter().filter(|delay| **delay < HOUR / 10).count();
        assert!((5..60).contains(&soon), "{soon} of 200 in the first tenth");
    }

    #[tokio::test(start_paused = true)]
    async fn sync_is_counted_from_the_beginning_of_leadership() {
        let pacing = Pacing::new(Some(HOUR));
        pacing.synced(&key(), inputs("1"), Instant::now());
        // A standby is older than the sync period when it becomes the leader.
        let now = Instant::now() + HOUR * 2;
        pacing.term_started(now);
        assert!(!pacing.knows(&key()));
        let expected = Wait::For(HOUR.mul_f64(fraction(&key())));
        assert_eq!(pacing.adopted(&key(), inputs("1"), now), expected);
        assert_ne!(expected, Wait::For(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn polls_follow_azure_or_slow_down_to_a_minute() {
        let pacing = Pacing::new(None);
        let (key, now) = (key(), Instant::now());
        let named = Some(Duration::from_secs(17));
        let wait = pacing.polled(&key, Subject::Operation, named, now);
        assert_eq!(wait, Wait::For(Duration::from_secs(17)));
        let last = (0..9).map(|_| pacing.polled(&key, Subject::Operation, None, now));
        assert_eq!(last.last(), Some(Wait::For(Duration::from_secs(60))));
        pacing.forget(&key);
        assert_eq!(pacing.wait(&key, &Subject::Operation, now), None);
    }
}
