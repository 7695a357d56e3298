//! Accounts of a vCenter, and their sessions.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use super::fault::Fault;
use super::value::{Data, Value};

/// Accounts and sessions.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    pub accounts: BTreeMap<String, Account>,
    /// By cookie.
    sessions: HashMap<String, Session>,
    pub idle: Option<Duration>,
    pub lifetime: Option<Duration>,
    /// The number of failures in a row that locks an account.
    pub max_failures: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Account {
    pub password: String,
    pub failures: u32,
    pub locked: bool,
    /// It may not list sessions.
    pub limited: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Session {
    pub key: String,
    pub account: String,
    pub agent: String,
    pub calls: u64,
    began: Instant,
    used: Instant,
    login_time: String,
}

impl Accounts {
    /// Returns a session cookie if the password is correct.
    pub fn log_in(
        &mut self,
        cookie: Option<&str>,
        name: &str,
        password: &str,
        agent: &str,
    ) -> Result<(String, Value), Fault> {
        if cookie.is_some_and(|cookie| self.sessions.contains_key(cookie)) {
            return Err(Fault::invalid_login());
        }
        let account = self.accounts.get_mut(name);
        let account = account.ok_or_else(Fault::invalid_login)?;
        if account.password != password {
            account.failures += 1;
            account.locked |= self
                .max_failures
                .is_some_and(|most| account.failures >= most);
            return Err(Fault::invalid_login());
        }
        if account.locked {
            return Err(Fault::invalid_login());
        }
        account.failures = 0;
        let now = Instant::now();
        let session = Session {
            key: uuid::Uuid::new_v4().to_string(),
            account: name.to_owned(),
            agent: agent.to_owned(),
            calls: 1,
            began: now,
            used: now,
            login_time: jiff::Timestamp::now().to_string(),
        };
        let cookie = uuid::Uuid::new_v4().simple().to_string();
        let value = session.data().into();
        self.sessions.insert(cookie.clone(), session);
        Ok((cookie, value))
    }

    pub fn log_out(&mut self, cookie: &str) {
        self.sessions.remove(cookie);
    }

    /// Terminates the session with this key; returns whether it existed.
    pub fn terminate(&mut self, key: &str) -> bool {
        let before = self.sessions.len();
        self.sessions.retain(|_, session| session.key != key);
        before != self.sessions.len()
    }

    pub fn terminate_all(&mut self, account: &str) {
        self.sessions
            .retain(|_, session| session.account != account);
    }

    /// Returns the session of a cookie and marks it as used.
    pub fn used(&mut self, cookie: &str, now: Instant) -> Option<&Session> {
        let session = self.sessions.get_mut(cookie)?;
        session.used = now;
        session.calls += 1;
        Some(session)
    }

    pub fn peek(&self, cookie: &str) -> Option<&Session> {
        self.sessions.get(cookie)
    }

    pub fn is_limited(&self, account: &str) -> bool {
        self.accounts.get(account).is_some_and(|it| it.limited)
    }

    /// Ends sessions that were idle or lasted for too long.
    pub fn expire(&mut self, now: Instant) {
        let over = |since: Instant, most: Option<Duration>| {
            most.is_some_and(|most| now.duration_since(since) >= most)
        };
        let (idle, lifetime) = (self.idle, self.lifetime);
        self.sessions
            .retain(|_, session| !over(session.used, idle) && !over(session.began, lifetime));
    }

    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.sessions.values()
    }
}

impl Session {
    pub fn data(&self) -> Data {
        Data::new("UserSession")
            .with("key", self.key.as_str())
            .with("userName", self.account.as_str())
            .with("fullName", self.account.as_str())
            .with("loginTime", Value::text("xsd:dateTime", &self.login_time))
            .with(
                "lastActiveTime",
                Value::text("xsd:dateTime", &self.login_time),
            )
            .with("locale", "en")
            .with("messageLocale", "en")
            .with("extensionSession", false)
            .with("ipAddress", "127.0.0.1")
            .with("userAgent", self.agent.as_str())
            .with("callCount", Value::text("xsd:long", self.calls))
    }
}
