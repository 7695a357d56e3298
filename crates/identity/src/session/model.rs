//! Random requests, results, failures and times, against a model of the server.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::state::{Action, PoolState};
use super::waiting::Event;
use super::{Concurrency, Key, LoginError, Settings, Unavailable};
use crate::credential::{Credential, Fingerprint, Hidden};
use crate::endpoint::{Endpoint, Trust};
use crate::reason::Reason;

pub(super) fn settings() -> Settings {
    Settings {
        request_timeout: Duration::from_secs(10),
        check_after: Duration::from_secs(60),
        lifetime: Duration::from_secs(600),
        refused_backoff: Duration::from_secs(180),
        unreachable_backoff: (Duration::from_secs(1), Duration::from_secs(30)),
        concurrency: Concurrency::of_many_endpoints(3),
    }
}

pub(super) fn credential(password: &str) -> Credential {
    let content = BTreeMap::from([("password".to_owned(), Hidden::new(password))]);
    Credential::of_operator(content, Endpoint::parse("vc", 443).unwrap())
}

pub(super) fn key(host: &str, trust: Trust, password: &str) -> (Key, Credential) {
    let credential = Credential {
        endpoint: Endpoint::parse(host, 443).unwrap(),
        trust,
        ..credential(password)
    };
    (Key::of(None, &credential), credential)
}

pub(super) fn error(reason: Reason) -> LoginError {
    LoginError {
        reason,
        message: reason.as_str().to_owned(),
        answered: false,
    }
}

/// Two endpoints, two accounts, two trust settings at the first endpoint, and a tenant at both.
fn some_key(at: usize) -> (Key, Credential) {
    let of_tenant = |(key, credential)| {
        let space = Some("t1".into());
        (Key { space, ..key }, credential)
    };
    match at % 7 {
        5 => of_tenant(key("vc1", Trust::Verified, "d")),
        6 => of_tenant(key("vc2", Trust::Verified, "d")),
        0 => key("vc1", Trust::Verified, "a"),
        1 => key("vc1", Trust::Verified, "b"),
        2 => key("vc1", Trust::AnyCertificate, "a"),
        3 => key("vc2", Trust::Verified, "a"),
        _ => key("vc2", Trust::Verified, "c"),
    }
}

#[derive(Clone, Debug)]
enum Op {
    Ask {
        requester: usize,
        key: usize,
    },
    /// The next requester to wake asks again.
    Woken,
    Release(usize),
    Drop(usize),
    /// The server loses a session, and a holder reports it.
    Dead(usize),
    /// The server loses a session without a report.
    Forget(usize),
    Suspect(usize),
    Trust(usize),
    End {
        action: usize,
        how: usize,
    },
    Pass(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => (0..8usize, 0..7usize).prop_map(|(requester, key)| Op::Ask { requester, key }),
        8 => Just(Op::Woken),
        2 => (0..8usize).prop_map(Op::Release),
        5 => any::<usize>().prop_map(Op::Drop),
        1 => any::<usize>().prop_map(Op::Dead),
        1 => any::<usize>().prop_map(Op::Forget),
        1 => any::<usize>().prop_map(Op::Suspect),
        1 => any::<usize>().prop_map(Op::Trust),
        8 => (any::<usize>(), 0..8usize).prop_map(|(action, how)| Op::End { action, how }),
        3 => prop::sample::select(vec![100, 1_000, 5_000, 61_000, 200_000, 700_000]).prop_map(Op::Pass),
    ];
    prop::collection::vec(op, 1..120)
}

struct Hold {
    key: Arc<Key>,
    session: Arc<u64>,
}

/// The server, the requesters, and their last answers.
struct World {
    state: PoolState<u64>,
    now: Instant,
    begun: Vec<Action<u64>>,
    /// The server's sessions and their keys.
    open: BTreeMap<u64, Key>,
    next: u64,
    held: Vec<Hold>,
    wants: BTreeMap<usize, usize>,
    waiting: BTreeSet<usize>,
    /// Requesters with a failed request, which may be woken before they retry.
    failed: BTreeSet<usize>,
    refused: HashMap<(Endpoint, Fingerprint), Instant>,
    logins: usize,
    asks: usize,
    deaths: usize,
    max_per_endpoint: usize,
}

fn requester(at: usize) -> Arc<str> {
    format!("{at}").into()
}

impl World {
    fn new(max_per_endpoint: usize, check_after: u64) -> Self {
        Self {
            state: PoolState::new(Settings {
                concurrency: Concurrency::of_many_endpoints(max_per_endpoint),
                check_after: Duration::from_secs(check_after),
                ..settings()
            }),
            max_per_endpoint,
            now: Instant::now(),
            begun: Vec::new(),
            open: BTreeMap::new(),
            next: 0,
            held: Vec::new(),
            wants: BTreeMap::new(),
            waiting: BTreeSet::new(),
            failed: BTreeSet::new(),
            refused: HashMap::new(),
            logins: 0,
            asks: 0,
            deaths: 0,
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Ask { requester, key } => self.acquire(*requester, *key),
            Op::Woken => {
                if let Some(name) = self.state.next_woken() {
                    let at: usize = name.parse().unwrap();
                    let key = self.wants[&at];
                    self.woken(at);
                    self.acquire(at, key);
                }
            }
            Op::Release(at) => {
                self.state.release(&requester(*at), self.now);
                self.wants.remove(at);
                self.waiting.remove(at);
                self.failed.remove(at);
            }
            Op::Drop(at) => self.drop(*at),
            Op::Dead(at) => {
                if let Some(hold) = self.pick(*at) {
                    let (key, session) = (Arc::clone(&hold.key), Arc::clone(&hold.session));
                    self.open.remove(&session);
                    self.deaths += 1;
                    self.state.session_lost(&key, &session, self.now);
                }
            }
            Op::Forget(at) => {
                let ids: Vec<_> = self.open.keys().copied().collect();
                if !ids.is_empty() {
                    self.deaths += 1;
                    self.open.remove(&ids[at % ids.len()]);
                }
            }
            Op::Suspect(at) => {
                if let Some(hold) = self.pick(*at) {
                    let key = Arc::clone(&hold.key);
                    self.state.mark_suspect(&key, self.now);
                }
            }
            Op::Trust(at) => {
                if let Some(hold) = self.pick(*at) {
                    let key = Arc::clone(&hold.key);
                    self.state.clear_suspect(&key, self.now);
                }
            }
            Op::End { action, how } => self.end(*action, *how),
            Op::Pass(ms) => self.now += Duration::from_millis(*ms),
        }
        self.begin();
        self.check();
    }

    fn pick(&self, at: usize) -> Option<&Hold> {
        self.held.get(at % self.held.len().max(1))
    }

    fn acquire(&mut self, at: usize, wanted: usize) {
        self.asks += 1;
        let (key, credential) = some_key(wanted);
        self.wants.insert(at, wanted);
        self.waiting.remove(&at);
        self.failed.remove(&at);
        match self
            .state
            .acquire(&requester(at), key.clone(), &credential, self.now)
        {
            Ok((held, session)) => {
                assert_eq!(*held, key, "the session of another key");
                self.held.push(Hold { key: held, session });
            }
            Err(Unavailable::Wait) => {
                self.waiting.insert(at);
            }
            Err(Unavailable::Failed { retry_after, .. }) => {
                assert!(retry_after > Duration::ZERO);
                self.failed.insert(at);
            }
        }
    }

    fn woken(&mut self, at: usize) {
        let waited = self.waiting.remove(&at) || self.failed.remove(&at);
        assert!(waited, "{at} was woken without a reason");
    }

    fn drop(&mut self, at: usize) {
        if !self.held.is_empty() {
            let hold = self.held.swap_remove(at % self.held.len());
            self.state
                .release_session(&hold.key, &hold.session, self.now);
        }
    }

    /// Checks that the actions of the state machine are allowed.
    fn begin(&mut self) {
        for action in self.state.take_actions() {
            match &action {
                Action::LogIn { attempt, .. } => {
                    self.logins += 1;
                    let key = &*attempt.key;
                    let account = (key.endpoint.clone(), key.fingerprint.clone());
                    let until = self.refused.get(&account);
                    assert!(
                        until.is_none_or(|until| *until <= self.now),
                        "login with a refused credential"
                    );
                    assert!(
                        !self.open.values().any(|open| open == key),
                        "two sessions for one key"
                    );
                }
                Action::Check { .. } => {}
                Action::LogOut { session, .. } => {
                    let held = self.held.iter().any(|hold| hold.session == *session);
                    assert!(!held, "logout of a held session");
                }
            }
            self.begun.push(action);
        }
    }

    fn end(&mut self, at: usize, how: usize) {
        if self.begun.is_empty() {
            return;
        }
        let action = self.begun.swap_remove(at % self.begun.len());
        let trouble = match how {
            0 => Some(error(Reason::InvalidCredentials)),
            1 => Some(error(Reason::Unreachable)),
            2 => Some(error(Reason::CertificateNotTrusted)),
            3 => Some(LoginError {
                answered: true,
                ..error(Reason::Unreachable)
            }),
            _ => None,
        };
        match action {
            Action::LogIn { attempt, .. } => {
                let key = (*attempt.key).clone();
                let opened = match trouble {
                    Some(error) => {
                        if error.reason == Reason::InvalidCredentials {
                            let account = (key.endpoint.clone(), key.fingerprint.clone());
                            self.refused
                                .insert(account, self.now + settings().refused_backoff);
                        }
                        Err(error)
                    }
                    None => {
                        self.next += 1;
                        self.open.insert(self.next, key);
                        Ok(self.next)
                    }
                };
                self.state.logged_in(&attempt, opened, self.now);
            }
            Action::Check { attempt, session } => {
                let alive = match trouble {
                    Some(error) if error.reason != Reason::InvalidCredentials => Err(error),
                    _ => Ok(self.open.contains_key(&session)),
                };
                self.state.checked(&attempt, alive, self.now);
            }
            Action::LogOut { key, session } => {
                self.open.remove(&session);
                self.state.logged_out(&key);
            }
        }
    }

    /// Checks the invariants.
    fn check(&self) {
        assert_eq!(
            self.state.stuck_awaiting_recovery(),
            0,
            "requesters await the recovery of a healthy endpoint"
        );
        let mut busy: HashSet<&Key> = HashSet::new();
        let mut seats: HashMap<&Endpoint, usize> = HashMap::new();
        for action in &self.begun {
            let key = match action {
                Action::LogIn { attempt, .. } | Action::Check { attempt, .. } => {
                    *seats.entry(&attempt.key.endpoint).or_default() += 1;
                    &*attempt.key
                }
                Action::LogOut { key, .. } => key,
            };
            assert!(busy.insert(key), "two actions for one key");
        }
        for hold in &self.held {
            *seats.entry(&hold.key.endpoint).or_default() += 1;
        }
        assert!(
            seats.values().all(|taken| *taken <= self.max_per_endpoint),
            "too many seats taken"
        );
        let of_tenant = self.held.iter().filter(|hold| hold.key.space.is_some());
        let of_tenant = of_tenant.count();
        assert!(
            of_tenant <= self.max_per_endpoint.max(2),
            "too many users of a tenant"
        );
        assert!(
            self.held.len() <= self.max_per_endpoint * 3,
            "too many users"
        );
        for (session, key) in &self.open {
            let used = self
                .wants
                .values()
                .any(|wanted| some_key(*wanted).0 == *key)
                || self.held.iter().any(|hold| *hold.session == *session);
            let ends = busy.contains(key);
            assert!(used || ends, "an unused session is open");
        }
    }

    /// Lets everything succeed, and checks that no requester is left waiting.
    fn calm(&mut self) {
        for _ in 0..10_000 {
            if let Some(at) = self.state.next_woken() {
                let at: usize = at.parse().unwrap();
                self.woken(at);
                let key = self.wants[&at];
                self.acquire(at, key);
            } else if !self.begun.is_empty() {
                self.end(0, 7);
            } else if !self.held.is_empty() {
                self.drop(0);
            } else {
                assert_eq!(self.waiting, BTreeSet::new(), "requesters wait for ever");
                assert_eq!(self.state.waiting.waiting(), 0);
                return;
            }
            self.begin();
            self.check();
        }
        panic!("the pool never becomes idle");
    }
}

impl PoolState<u64> {
    /// Returns the numbers of remembered items.
    fn sizes(&self) -> [usize; 7] {
        [
            self.entries.len(),
            self.requesters.len(),
            self.breakers.len(),
            self.limits.taken.len(),
            self.limits.suspects.len(),
            self.backoffs.scopes.len(),
            self.waiting.queues.len(),
        ]
    }

    /// Returns how many healthy endpoints have requesters that await their recovery, which must
    /// be none.
    fn stuck_awaiting_recovery(&self) -> usize {
        let closed = self
            .breakers
            .iter()
            .filter(|(_, breaker)| breaker.is_closed());
        let events = closed.map(|(endpoint, _)| Event::Recovery(endpoint.clone()));
        events
            .filter(|event| self.waiting.queues.contains_key(event))
            .count()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn r1_no_requester_waits_for_ever_and_no_unused_session_stays_open(ops in ops(), max_per_endpoint in 1..4usize, check_after in prop::sample::select(vec![0, 60])) {
        let mut world = World::new(max_per_endpoint, check_after);
        for op in &ops {
            world.apply(op);
        }
        prop_assert!(world.logins <= world.asks + world.deaths);
        world.calm();
        for at in 0..8 {
            world.apply(&Op::Release(at));
        }
        world.calm();
        prop_assert_eq!(&world.open, &BTreeMap::new());
        world.apply(&Op::Pass(3_600_000));
        world.apply(&Op::Release(0));
        prop_assert_eq!(world.state.sizes(), [0; 7]);
    }

    #[test]
    fn r1_close_leaves_no_session_open(ops in ops(), max_per_endpoint in 1..4usize, check_after in prop::sample::select(vec![0, 60])) {
        let mut world = World::new(max_per_endpoint, check_after);
        for op in &ops {
            world.apply(op);
        }
        world.state.close();
        for _ in 0..2 {
            world.begin();
            while !world.begun.is_empty() {
                world.end(0, 7);
                world.begin();
            }
            while !world.held.is_empty() {
                world.drop(0);
            }
        }
        world.begin();
        while !world.begun.is_empty() {
            world.end(0, 7);
        }
        prop_assert!(world.state.is_idle());
        prop_assert_eq!(&world.open, &BTreeMap::new());
    }
}
