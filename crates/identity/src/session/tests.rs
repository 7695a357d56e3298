//! Tests of the pool with a fake connector and a paused clock: the fixture, and a module per
//! subject.

mod backoff;
mod breaker;
mod closing;
mod limits;
mod sharing;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep, timeout};

use super::model::{credential, error, key, settings};
use super::*;

/// Fake servers. Host and password name the behaviour.
#[derive(Clone, Default)]
struct Fake(Arc<Side>);

#[derive(Default)]
struct Side {
    open: Mutex<BTreeMap<u64, String>>,
    logins: Mutex<BTreeMap<String, usize>>,
    most_open: AtomicUsize,
    trying: AtomicUsize,
    most_trying: AtomicUsize,
    checks: AtomicUsize,
    next: AtomicUsize,
}

impl Fake {
    fn logins(&self, host: &str) -> usize {
        self.0
            .logins
            .lock()
            .unwrap()
            .get(host)
            .copied()
            .unwrap_or(0)
    }
    fn open(&self) -> usize {
        self.0.open.lock().unwrap().len()
    }
    fn forget_all(&self) {
        self.0.open.lock().unwrap().clear();
    }
}

/// Decrements the counter also if the attempt was cancelled.
struct Trying<'a>(&'a AtomicUsize);

impl Drop for Trying<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Connector for Fake {
    type Session = u64;

    async fn log_in(&self, key: &Key, credential: &Credential) -> Result<u64, LoginError> {
        let side = &self.0;
        let host = key.endpoint.host().to_owned();
        *side.logins.lock().unwrap().entry(host.clone()).or_default() += 1;
        let trying = side.trying.fetch_add(1, Ordering::SeqCst) + 1;
        side.most_trying.fetch_max(trying, Ordering::SeqCst);
        let _trying = Trying(&side.trying);
        let password = credential.text("password").unwrap();
        match host.as_str() {
            "hangs" | "hangs2" => std::future::pending().await,
            "panics" => panic!("the connector panics"),
            "untrusted" => return Err(error(Reason::CertificateNotTrusted)),
            "busy" => {
                return Err(LoginError {
                    answered: true,
                    ..error(Reason::Unreachable)
                });
            }
            "slow" => sleep(Duration::from_secs(5)).await,
            _ => sleep(Duration::from_millis(10)).await,
        }
        match password {
            wrong if wrong.starts_with("wrong") => {
                return Err(error(Reason::InvalidCredentials));
            }
            "hangs" => std::future::pending().await,
            _ => {}
        }
        let id = side.next.fetch_add(1, Ordering::SeqCst) as u64;
        let mut open = side.open.lock().unwrap();
        open.insert(id, host);
        side.most_open.fetch_max(open.len(), Ordering::SeqCst);
        Ok(id)
    }

    async fn is_alive(&self, session: &u64) -> Result<bool, LoginError> {
        self.0.checks.fetch_add(1, Ordering::SeqCst);
        sleep(Duration::from_millis(10)).await;
        Ok(self.0.open.lock().unwrap().contains_key(session))
    }

    async fn log_out(&self, session: &u64) {
        let host = self.0.open.lock().unwrap().get(session).cloned();
        match host.as_deref() {
            Some("no-logout") => std::future::pending().await,
            _ => sleep(Duration::from_millis(10)).await,
        }
        self.0.open.lock().unwrap().remove(session);
    }
}

struct Test {
    fake: Fake,
    sessions: Arc<Sessions<Fake>>,
    wakeups: BoxStream<'static, Arc<str>>,
}

fn test() -> Test {
    test_with(|_| ())
}

fn test_with(change: impl FnOnce(&mut Settings)) -> Test {
    let mut how = settings();
    change(&mut how);
    let fake = Fake::default();
    let sessions = Sessions::new(fake.clone(), how);
    let wakeups = sessions.wakeups();
    Test {
        fake,
        sessions,
        wakeups,
    }
}

fn name(at: usize) -> Arc<str> {
    format!("asker-{at}").into()
}

/// Advances the paused clock.
async fn pass(long: Duration) {
    sleep(long).await;
}

const SECOND: Duration = Duration::from_secs(1);

impl Test {
    fn acquire(
        &self,
        requester: usize,
        host: &str,
        password: &str,
    ) -> Result<HeldSession<Fake>, Unavailable> {
        let (key, credential) = key(host, Trust::Verified, password);
        self.sessions.get(&name(requester), key, &credential)
    }

    /// Requests a session until the answer is not `Wait`. Wakeups of other requesters are
    /// dropped.
    async fn wait(
        &mut self,
        requester: usize,
        host: &str,
        password: &str,
    ) -> Result<HeldSession<Fake>, LoginError> {
        loop {
            match self.acquire(requester, host, password) {
                Ok(held) => return Ok(held),
                Err(Unavailable::Failed { error, .. }) => return Err(error),
                Err(Unavailable::Wait) => self.woken(requester).await,
            }
        }
    }

    async fn woken(&mut self, requester: usize) {
        let wanted = name(requester);
        let long = Duration::from_secs(60);
        loop {
            let next = timeout(long, self.wakeups.next()).await;
            let next = next.expect("a waiting requester is not woken");
            if next == Some(wanted.clone()) {
                return;
            }
        }
    }
}

fn waits(got: Result<HeldSession<Fake>, Unavailable>) {
    match got {
        Err(Unavailable::Wait) => {}
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("got a session"),
    }
}

fn fails(got: Result<HeldSession<Fake>, Unavailable>) -> (Reason, Duration) {
    match got {
        Err(Unavailable::Failed { error, retry_after }) => (error.reason, retry_after),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("got a session"),
    }
}

fn secret(namespace: &str, at: usize) -> Source {
    Source::Secret {
        namespace: namespace.to_owned(),
        name: format!("s{at}"),
        uid: format!("{at}"),
        part: None,
    }
}
