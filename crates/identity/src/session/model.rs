//! Random asks, ends, failures and times, against a model of the other side.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::table::{Act, Answer, Table};
use super::{Key, LoginError, Settings};
use crate::credential::{Credential, Fingerprint, Hidden, Source};
use crate::endpoint::{Endpoint, Trust};
use crate::reason::Reason;

pub(super) fn settings() -> Settings {
    Settings {
        patience: Duration::from_secs(10),
        check_after: Duration::from_secs(60),
        lifetime: Duration::from_secs(600),
        refused_for: Duration::from_secs(180),
        unreachable_for: (Duration::from_secs(1), Duration::from_secs(30)),
        at_once: 3,
    }
}

pub(super) fn credential(password: &str) -> Credential {
    let content = BTreeMap::from([("password".to_owned(), Hidden::new(password))]);
    let fingerprint = Fingerprint::of(&content);
    let source = Source::Operator;
    Credential {
        source,
        content,
        fingerprint,
        trust: None,
    }
}

pub(super) fn key(host: &str, trust: Trust, password: &str) -> (Key, Credential) {
    let credential = credential(password);
    let key = Key {
        space: None,
        source: Source::Operator,
        endpoint: Endpoint::parse(host, 443).unwrap(),
        trust,
        fingerprint: credential.fingerprint.clone(),
    };
    (key, credential)
}

pub(super) fn error(reason: Reason) -> LoginError {
    LoginError {
        reason,
        message: reason.as_str().to_owned(),
        answered: false,
    }
}

/// Two endpoints, two accounts, and on the first endpoint two sorts of trust; a tenant at both.
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
        2 => key("vc1", Trust::Anybody, "a"),
        3 => key("vc2", Trust::Verified, "a"),
        _ => key("vc2", Trust::Verified, "c"),
    }
}

#[derive(Clone, Debug)]
enum Op {
    Ask {
        asker: usize,
        key: usize,
    },
    /// Whoever is to be woken asks again.
    Woken,
    Release(usize),
    Drop(usize),
    /// The other side forgets a session that somebody holds, who finds out.
    Dead(usize),
    /// The other side forgets a session, and nobody knows.
    Forget(usize),
    Suspect(usize),
    Trust(usize),
    End {
        act: usize,
        how: usize,
    },
    Pass(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => (0..8usize, 0..7usize).prop_map(|(asker, key)| Op::Ask { asker, key }),
        8 => Just(Op::Woken),
        2 => (0..8usize).prop_map(Op::Release),
        5 => any::<usize>().prop_map(Op::Drop),
        1 => any::<usize>().prop_map(Op::Dead),
        1 => any::<usize>().prop_map(Op::Forget),
        1 => any::<usize>().prop_map(Op::Suspect),
        1 => any::<usize>().prop_map(Op::Trust),
        8 => (any::<usize>(), 0..8usize).prop_map(|(act, how)| Op::End { act, how }),
        3 => prop::sample::select(vec![100, 1_000, 5_000, 61_000, 200_000, 700_000]).prop_map(Op::Pass),
    ];
    prop::collection::vec(op, 1..120)
}

struct Hold {
    key: Arc<Key>,
    id: u64,
    session: Arc<u64>,
}

/// The other side, those who ask, and what they were told.
struct World {
    table: Table<u64>,
    now: Instant,
    begun: Vec<Act<u64>>,
    /// Sessions that the other side knows, and whose they are.
    open: BTreeMap<u64, Key>,
    next: u64,
    held: Vec<Hold>,
    wants: BTreeMap<usize, usize>,
    told_to_wait: BTreeSet<usize>,
    /// Who was told that there is none, and may be woken before they ask again.
    told_to_hope: BTreeSet<usize>,
    refused: HashMap<(Endpoint, Fingerprint), Instant>,
    logins: usize,
    asks: usize,
    deaths: usize,
    at_once: usize,
}

fn asker(at: usize) -> Arc<str> {
    format!("{at}").into()
}

impl World {
    fn new(at_once: usize, check_after: u64) -> Self {
        Self {
            table: Table::new(Settings {
                at_once,
                check_after: Duration::from_secs(check_after),
                ..settings()
            }),
            at_once,
            now: Instant::now(),
            begun: Vec::new(),
            open: BTreeMap::new(),
            next: 0,
            held: Vec::new(),
            wants: BTreeMap::new(),
            told_to_wait: BTreeSet::new(),
            told_to_hope: BTreeSet::new(),
            refused: HashMap::new(),
            logins: 0,
            asks: 0,
            deaths: 0,
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Ask { asker, key } => self.ask(*asker, *key),
            Op::Woken => {
                if let Some(name) = self.table.wake() {
                    let at: usize = name.parse().unwrap();
                    let key = self.wants[&at];
                    self.woken(at);
                    self.ask(at, key);
                }
            }
            Op::Release(at) => {
                self.table.release(&asker(*at), self.now);
                self.wants.remove(at);
                self.told_to_wait.remove(at);
                self.told_to_hope.remove(at);
            }
            Op::Drop(at) => self.drop(*at),
            Op::Dead(at) => {
                if let Some(hold) = self.pick(*at) {
                    let (key, id, session) = (Arc::clone(&hold.key), hold.id, *hold.session);
                    self.open.remove(&session);
                    self.deaths += 1;
                    self.table.dead(&key, id, self.now);
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
                    self.table.suspect(&key, self.now);
                }
            }
            Op::Trust(at) => {
                if let Some(hold) = self.pick(*at) {
                    let key = Arc::clone(&hold.key);
                    self.table.trust(&key, self.now);
                }
            }
            Op::End { act, how } => self.end(*act, *how),
            Op::Pass(ms) => self.now += Duration::from_millis(*ms),
        }
        self.begin();
        self.check();
    }

    fn pick(&self, at: usize) -> Option<&Hold> {
        self.held.get(at % self.held.len().max(1))
    }

    fn ask(&mut self, at: usize, wanted: usize) {
        self.asks += 1;
        let (key, credential) = some_key(wanted);
        self.wants.insert(at, wanted);
        self.told_to_wait.remove(&at);
        self.told_to_hope.remove(&at);
        match self
            .table
            .ask(&asker(at), key.clone(), &credential, self.now)
        {
            Answer::Use {
                key: held,
                id,
                session,
            } => {
                assert_eq!(*held, key, "another's session");
                self.held.push(Hold {
                    key: held,
                    id,
                    session,
                });
            }
            Answer::Wait => {
                self.told_to_wait.insert(at);
            }
            Answer::Failed { again_in, .. } => {
                assert!(again_in > Duration::ZERO);
                self.told_to_hope.insert(at);
            }
        }
    }

    fn woken(&mut self, at: usize) {
        let waited = self.told_to_wait.remove(&at) || self.told_to_hope.remove(&at);
        assert!(waited, "{at} was woken for nothing");
    }

    fn drop(&mut self, at: usize) {
        if !self.held.is_empty() {
            let hold = self.held.swap_remove(at % self.held.len());
            self.table.dropped(&hold.key, hold.id, self.now);
        }
    }

    /// What the table wants done is allowed, or it is a mistake.
    fn begin(&mut self) {
        for act in self.table.acts() {
            match &act {
                Act::LogIn { attempt, .. } => {
                    self.logins += 1;
                    let key = attempt.key();
                    let account = (key.endpoint.clone(), key.fingerprint.clone());
                    let until = self.refused.get(&account);
                    assert!(
                        until.is_none_or(|until| *until <= self.now),
                        "logs in though refused"
                    );
                    assert!(
                        !self.open.values().any(|open| open == key),
                        "two sessions for one key"
                    );
                }
                Act::Check { .. } => {}
                Act::LogOut { session, .. } => {
                    let held = self.held.iter().any(|hold| hold.session == *session);
                    assert!(!held, "closes what is held");
                }
            }
            self.begun.push(act);
        }
    }

    fn end(&mut self, at: usize, how: usize) {
        if self.begun.is_empty() {
            return;
        }
        let act = self.begun.swap_remove(at % self.begun.len());
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
        match act {
            Act::LogIn { attempt, .. } => {
                let key = attempt.key().clone();
                let opened = match trouble {
                    Some(error) => {
                        if error.reason == Reason::InvalidCredentials {
                            let account = (key.endpoint.clone(), key.fingerprint.clone());
                            self.refused
                                .insert(account, self.now + settings().refused_for);
                        }
                        Err(error)
                    }
                    None => {
                        self.next += 1;
                        self.open.insert(self.next, key);
                        Ok(self.next)
                    }
                };
                self.table.logged_in(&attempt, opened, self.now);
            }
            Act::Check { attempt, session } => {
                let alive = match trouble {
                    Some(error) if error.reason != Reason::InvalidCredentials => Err(error),
                    _ => Ok(self.open.contains_key(&session)),
                };
                self.table.checked(&attempt, alive, self.now);
            }
            Act::LogOut { key, session } => {
                self.open.remove(&session);
                self.table.logged_out(&key, self.now);
            }
        }
    }

    /// What holds at any time.
    fn check(&self) {
        assert_eq!(self.table.hoping_in_vain(), 0, "they hope in vain");
        let mut busy: HashSet<&Key> = HashSet::new();
        let mut seats: HashMap<&Endpoint, usize> = HashMap::new();
        for act in &self.begun {
            let key = match act {
                Act::LogIn { attempt, .. } | Act::Check { attempt, .. } => {
                    *seats.entry(&attempt.key().endpoint).or_default() += 1;
                    attempt.key()
                }
                Act::LogOut { key, .. } => key,
            };
            assert!(busy.insert(key), "two things are done with one key");
        }
        for hold in &self.held {
            *seats.entry(&hold.key.endpoint).or_default() += 1;
        }
        assert!(
            seats.values().all(|taken| *taken <= self.at_once),
            "too many at once"
        );
        let of_tenant = self.held.iter().filter(|hold| hold.key.space.is_some());
        let of_tenant = of_tenant.count();
        assert!(of_tenant <= self.at_once.max(2), "a tenant has too many");
        assert!(self.held.len() <= self.at_once * 3, "too many work");
        for (session, key) in &self.open {
            let used = self
                .wants
                .values()
                .any(|wanted| some_key(*wanted).0 == *key)
                || self.held.iter().any(|hold| *hold.session == *session);
            let ends = busy.contains(key);
            assert!(used || ends, "a session is open that nobody uses");
        }
    }

    /// Everything ends well from now on: then nobody waits.
    fn calm(&mut self) {
        for _ in 0..10_000 {
            if let Some(at) = self.table.wake() {
                let at: usize = at.parse().unwrap();
                self.woken(at);
                let key = self.wants[&at];
                self.ask(at, key);
            } else if !self.begun.is_empty() {
                self.end(0, 7);
            } else if !self.held.is_empty() {
                self.drop(0);
            } else {
                assert_eq!(self.told_to_wait, BTreeSet::new(), "they wait for ever");
                assert_eq!(self.table.waiting(), 0);
                return;
            }
            self.begin();
            self.check();
        }
        panic!("it never comes to rest");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn r1_whatever_happens_nobody_waits_for_ever_and_nothing_stays_open_that_nobody_uses(ops in ops(), at_once in 1..4usize, check_after in prop::sample::select(vec![0, 60])) {
        let mut world = World::new(at_once, check_after);
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
        prop_assert_eq!(world.table.weight(), [0; 7]);
    }

    #[test]
    fn r1_whatever_happened_closing_leaves_nothing_open(ops in ops(), at_once in 1..4usize, check_after in prop::sample::select(vec![0, 60])) {
        let mut world = World::new(at_once, check_after);
        for op in &ops {
            world.apply(op);
        }
        world.table.close(world.now);
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
        prop_assert!(world.table.is_quiet());
        prop_assert_eq!(&world.open, &BTreeMap::new());
    }
}
