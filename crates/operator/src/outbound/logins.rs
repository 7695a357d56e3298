//! Logins that outlive their callers.
//!
//! A caller does not wait for a slow server forever, but the server may open a session after the
//! caller has left, or count the login as a wrong password. So each login runs in a task of its
//! own, which awaits the server's answer for longer and logs out of a session that came too late.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use insula_identity::credential::Fingerprint;
use insula_identity::endpoint::Endpoint;
use insula_identity::reason::Reason;
use insula_identity::session::{Key, LoginError};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::error::unreachable;

/// A login is awaited this many timeouts long.
const LATE_LOGIN_FACTOR: u32 = 4;
/// How long a late refusal is kept for the next login of the account. It is longer than the
/// backoff after a login without an answer.
const REFUSAL_RETENTION: Duration = Duration::from_secs(300);

/// The logins of a provider, one at a time for each account.
#[derive(Clone)]
pub struct Logins {
    timeout: Duration,
    accounts: Arc<Accounts>,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

/// A login, as the task that performs it sees it.
#[derive(Debug)]
pub struct Attempt {
    /// The timeout of each of its requests, which is longer than the caller's.
    pub timeout: Duration,
    caller: Weak<()>,
}

impl Attempt {
    /// Returns whether the caller has left, so that a credential need not be sent any more.
    pub fn is_abandoned(&self) -> bool {
        self.caller.strong_count() == 0
    }
}

impl Logins {
    /// Creates the logins of a provider. A caller waits for this long at most for earlier logins
    /// of the account, and then for its own.
    pub fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            accounts: Arc::default(),
            tasks: Arc::default(),
        }
    }

    /// Logs in with `open`, after all earlier logins of the same account were answered. If the
    /// session is opened after the caller has left, it is closed with `close`. A refusal that
    /// comes so late is the result of the account's next login.
    ///
    /// # Errors
    ///
    /// If the login fails or takes too long.
    pub async fn log_in<S, Opened, Closed>(
        &self,
        key: &Key,
        open: impl FnOnce(Attempt) -> Opened + Send + 'static,
        close: impl FnOnce(S) -> Closed + Send + 'static,
    ) -> Result<S, LoginError>
    where
        S: Send + 'static,
        Opened: Future<Output = Result<S, LoginError>> + Send,
        Closed: Future<Output = ()> + Send,
    {
        let endpoint = &key.endpoint;
        let account = (endpoint.clone(), key.fingerprint.clone());
        let registered = timeout(self.timeout, self.accounts.register_next(&account)).await;
        let end = registered.unwrap_or_else(|_| {
            Err(unreachable(
                endpoint,
                "an earlier login is not answered yet",
            ))
        })?;
        let caller = Arc::new(());
        let attempt = Attempt {
            timeout: self.timeout * LATE_LOGIN_FACTOR,
            caller: Arc::downgrade(&caller),
        };
        let (sender, receiver) = oneshot::channel();
        let accounts = Arc::clone(&self.accounts);
        self.spawn(async move {
            let opened = open(attempt).await;
            let outcome = match sender.send(opened) {
                Err(Err(error)) if error.reason == Reason::InvalidCredentials => {
                    LoginOutcome::Refused(error)
                }
                Err(Ok(unwanted)) => {
                    close(unwanted).await;
                    LoginOutcome::Delivered
                }
                Ok(()) | Err(Err(_)) => LoginOutcome::Delivered,
            };
            // The next login of the account reads a refusal that was not delivered.
            if matches!(outcome, LoginOutcome::Delivered) {
                accounts.forget(&account, &end.subscribe());
            }
            end.send_replace(Some(outcome));
        });
        match timeout(self.timeout, receiver).await {
            Ok(Ok(opened)) => opened,
            // The sender is dropped without a value only if the runtime is shut down.
            Err(_) | Ok(Err(_)) => {
                let seconds = self.timeout.as_secs_f32();
                let why = format!("no answer within {seconds} s");
                Err(unreachable(endpoint, &why))
            }
        }
    }

    /// Waits at most this long for abandoned logins, so that their sessions are closed. The
    /// remaining ones are cancelled.
    pub async fn drain(&self, within: Duration) {
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        let done = async { while tasks.join_next().await.is_some() {} };
        if timeout(within, done).await.is_err() {
            tracing::debug!("logins abandoned");
        }
    }

    fn spawn(&self, login: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(login);
    }
}

/// An account, as the server counts logins.
type Account = (Endpoint, Fingerprint);

/// The accounts with a login in progress, or with a refusal to report.
#[derive(Default)]
struct Accounts(Mutex<HashMap<Account, Login>>);

/// A login, as seen by other logins of the same account.
#[derive(Clone)]
struct Login {
    since: Instant,
    end: watch::Receiver<Option<LoginOutcome>>,
}

/// The outcome of a login.
#[derive(Clone)]
enum LoginOutcome {
    /// The result was delivered, or is of no interest.
    Delivered,
    /// The credential was refused after the caller had left.
    Refused(LoginError),
}

impl Accounts {
    /// Registers a login after all earlier logins of the same account were answered: each
    /// unanswered one may count towards locking the account. Fails if the last one was refused.
    async fn register_next(
        &self,
        account: &Account,
    ) -> Result<watch::Sender<Option<LoginOutcome>>, LoginError> {
        loop {
            let mut earlier = match self.register(account) {
                Ok(end) => return Ok(end),
                Err(earlier) => earlier,
            };
            let outcome = earlier.end.wait_for(Option::is_some).await;
            let outcome = outcome.ok().and_then(|outcome| outcome.clone());
            self.forget(account, &earlier.end);
            if let Some(LoginOutcome::Refused(error)) = outcome {
                return Err(error);
            }
        }
    }

    /// Registers a login, unless there is another one of the same account.
    fn register(&self, account: &Account) -> Result<watch::Sender<Option<LoginOutcome>>, Login> {
        let mut accounts = lock(&self.0);
        accounts.retain(|_, login| {
            login.end.borrow().is_none() || login.since.elapsed() < REFUSAL_RETENTION
        });
        if let Some(login) = accounts.get(account) {
            return Err(login.clone());
        }
        let (sender, end) = watch::channel(None);
        let since = Instant::now();
        accounts.insert(account.clone(), Login { since, end });
        Ok(sender)
    }

    /// Removes this login, but not a later one of the same account.
    fn forget(&self, account: &Account, end: &watch::Receiver<Option<LoginOutcome>>) {
        let mut accounts = lock(&self.0);
        let known = accounts.get(account);
        if known.is_some_and(|login| login.end.same_channel(end)) {
            accounts.remove(account);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use insula_identity::credential::{Credential, Hidden};
    use tokio::sync::Notify;

    use super::*;

    /// The timeout of callers.
    const SHORT_TIMEOUT: Duration = Duration::from_millis(100);
    /// Longer than any test.
    const LONG_TIMEOUT: Duration = Duration::from_secs(20);

    /// A server that answers a login when it is told to.
    #[derive(Clone, Default)]
    struct Server {
        answer: Arc<Notify>,
        logins: Arc<AtomicUsize>,
        logouts: Arc<AtomicUsize>,
        abandoned: Arc<AtomicUsize>,
    }

    impl Server {
        async fn log_in(&self, logins: &Logins, password: &str) -> Result<(), LoginError> {
            let (server, is_right) = (self.clone(), password == "right");
            let open = move |attempt: Attempt| async move {
                server.logins.fetch_add(1, Ordering::SeqCst);
                server.answer.notified().await;
                if attempt.is_abandoned() {
                    server.abandoned.fetch_add(1, Ordering::SeqCst);
                }
                match is_right {
                    true => Ok(()),
                    false => Err(LoginError {
                        reason: Reason::InvalidCredentials,
                        message: "wrong password".to_owned(),
                        answered: true,
                    }),
                }
            };
            let logouts = Arc::clone(&self.logouts);
            let close = async move |()| {
                logouts.fetch_add(1, Ordering::SeqCst);
            };
            logins.log_in(&key(password), open, close).await
        }

        fn counts(&self) -> [usize; 3] {
            [&self.logins, &self.logouts, &self.abandoned]
                .map(|counter| counter.load(Ordering::SeqCst))
        }
    }

    fn key(password: &str) -> Key {
        let content = BTreeMap::from([("password".to_owned(), Hidden::new(password))]);
        let endpoint = Endpoint::parse("server.example", 443).unwrap();
        Key::of(None, &Credential::of_operator(content, endpoint))
    }

    #[tokio::test]
    async fn session_in_time_is_delivered() {
        let (server, logins) = (Server::default(), Logins::new(LONG_TIMEOUT));
        for count in 1..3 {
            server.answer.notify_one();
            server.log_in(&logins, "right").await.unwrap();
            assert_eq!(server.counts(), [count, 0, 0]);
        }
        assert!(lock(&logins.accounts.0).is_empty());
    }

    #[tokio::test]
    async fn late_session_is_closed() {
        let (server, logins) = (Server::default(), Logins::new(SHORT_TIMEOUT));
        let late = server.log_in(&logins, "right").await.unwrap_err();
        let message = "server.example cannot be used: no answer within 0.1 s";
        assert_eq!(late.to_string(), message);
        server.answer.notify_one();
        logins.drain(LONG_TIMEOUT).await;
        assert_eq!(server.counts(), [1, 1, 1]);
    }

    #[tokio::test]
    async fn session_of_a_cancelled_caller_is_closed() {
        let (server, logins) = (Server::default(), Logins::new(LONG_TIMEOUT));
        let caller = timeout(SHORT_TIMEOUT, server.log_in(&logins, "right")).await;
        assert!(caller.is_err());
        server.answer.notify_one();
        logins.drain(LONG_TIMEOUT).await;
        assert_eq!(server.counts(), [1, 1, 1]);
    }

    #[tokio::test]
    async fn account_has_one_login_at_a_time() {
        let (server, logins) = (Server::default(), Logins::new(SHORT_TIMEOUT));
        server.log_in(&logins, "right").await.unwrap_err();
        let waiting = server.log_in(&logins, "right").await.unwrap_err();
        let message = "server.example cannot be used: an earlier login is not answered yet";
        assert_eq!(waiting.to_string(), message);
        assert_eq!(server.counts(), [1, 0, 0]);
        // Another account does not wait.
        server.log_in(&logins, "wrong").await.unwrap_err();
        assert_eq!(server.counts(), [2, 0, 0]);
    }

    #[tokio::test]
    async fn late_refusal_is_the_result_of_the_next_login() {
        let (server, logins) = (Server::default(), Logins::new(SHORT_TIMEOUT));
        let late = server.log_in(&logins, "wrong").await.unwrap_err();
        assert_eq!(late.reason, Reason::Unreachable);
        server.answer.notify_one();
        logins.drain(LONG_TIMEOUT).await;
        let refused = server.log_in(&logins, "wrong").await.unwrap_err();
        assert_eq!(refused.reason, Reason::InvalidCredentials);
        assert_eq!(server.counts(), [1, 0, 1]);
        // It is reported once.
        server.answer.notify_one();
        let refused = server.log_in(&logins, "wrong").await.unwrap_err();
        assert_eq!(refused.reason, Reason::InvalidCredentials);
        assert_eq!(server.counts(), [2, 0, 1]);
        assert!(lock(&logins.accounts.0).is_empty());
    }

    #[tokio::test]
    async fn drain_ends_despite_a_silent_server() {
        let (server, logins) = (Server::default(), Logins::new(SHORT_TIMEOUT));
        server.log_in(&logins, "right").await.unwrap_err();
        logins.drain(SHORT_TIMEOUT).await;
        // The account of the cancelled login can be used again.
        server.answer.notify_one();
        server.log_in(&logins, "right").await.unwrap();
        assert_eq!(server.counts(), [2, 0, 0]);
    }
}
