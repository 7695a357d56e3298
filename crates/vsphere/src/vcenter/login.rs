//! Opens, checks and closes sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use insula_identity::credential::{Credential, Fingerprint, Hidden};
use insula_identity::endpoint::{Endpoint, Trust};
use insula_identity::reason::Reason;
use insula_identity::session::{Connector, LoginError};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::call::{Broken, Caller};
use super::element::Element;
use super::session::Services;
use super::trust::Authorities;
use super::wire::{Failure, Size, Wire, authority};
use super::{About, Error, Object, Session};

/// The keys of a Secret.
const USERNAME: &str = "username";
const PASSWORD: &str = "password";
/// The oldest supported major version.
const OLDEST: u32 = 6;
/// The maximum length of texts about the vCenter, which are kept as long as the session.
const LONGEST: usize = 256;
/// A login is awaited this many timeouts long after its caller has left: a late response opens a
/// session that has to be logged out.
const LATE: u32 = 4;

/// How long a late refusal is kept for the next login of the account. It is longer than the
/// backoff after a login without an answer.
const KEPT: Duration = Duration::from_secs(300);

/// Opens sessions.
#[derive(Clone)]
pub struct VCenters {
    patience: Duration,
    authorities: Authorities,
    logins: Arc<Logins>,
}

/// Logins in progress, including those whose callers have left.
#[derive(Default)]
struct Logins {
    accounts: Mutex<HashMap<Account, Login>>,
    tasks: Mutex<JoinSet<()>>,
}

/// The account that a login counts against on the vCenter.
type Account = (Endpoint, Fingerprint);

/// A login, as seen by other logins of the same account.
#[derive(Clone)]
struct Login {
    since: Instant,
    end: watch::Receiver<Option<End>>,
}

/// The outcome of a login.
#[derive(Clone)]
enum End {
    /// The result was delivered, or is of no interest.
    Over,
    /// The credential was refused.
    Refused(LoginError),
}

impl Logins {
    /// Registers a login, unless there is another one of the same account.
    fn begin(&self, account: &Account) -> Result<watch::Sender<Option<End>>, Login> {
        let mut accounts = lock(&self.accounts);
        accounts.retain(|_, login| login.end.borrow().is_none() || login.since.elapsed() < KEPT);
        if let Some(login) = accounts.get(account) {
            return Err(login.clone());
        }
        let (tell, end) = watch::channel(None);
        let since = Instant::now();
        accounts.insert(account.clone(), Login { since, end });
        Ok(tell)
    }

    /// Removes this login, but not a later one of the same account.
    fn forget(&self, account: &Account, end: &watch::Receiver<Option<End>>) {
        let mut accounts = lock(&self.accounts);
        let known = accounts.get(account);
        if known.is_some_and(|login| login.end.same_channel(end)) {
            accounts.remove(account);
        }
    }

    fn spawn(&self, login: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(login);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl VCenters {
    /// Creates a connector. `timeout` is the limit for each request, and for a login as a whole.
    /// Certificates are verified with the system's roots and these, in DER.
    pub fn new(patience: Duration, further_roots: Vec<Vec<u8>>) -> Self {
        Self {
            patience,
            authorities: Authorities::new(further_roots),
            logins: Arc::default(),
        }
    }

    /// Waits at most this long for logins whose callers have left, so that their sessions are
    /// logged out.
    pub async fn finish(&self, within: Duration) {
        let mut tasks = std::mem::take(&mut *lock(&self.logins.tasks));
        let done = async { while tasks.join_next().await.is_some() {} };
        if timeout(within, done).await.is_err() {
            tracing::debug!("logins abandoned");
        }
    }

    /// Registers a login after all earlier logins of the same account were answered: each
    /// unanswered one may count towards locking the account.
    async fn begin(
        &self,
        endpoint: &Endpoint,
        account: &Account,
    ) -> Result<watch::Sender<Option<End>>, LoginError> {
        let waiting = async {
            loop {
                let mut earlier = match self.logins.begin(account) {
                    Ok(tell) => return Ok(tell),
                    Err(earlier) => earlier,
                };
                let end = earlier.end.wait_for(Option::is_some).await;
                let end = end.ok().and_then(|end| end.clone());
                self.logins.forget(account, &earlier.end);
                if let Some(End::Refused(error)) = end {
                    return Err(error);
                }
            }
        };
        let waited = timeout(self.patience, waiting).await;
        waited.unwrap_or_else(|_| {
            let why = "an earlier login is not answered yet";
            Err(unreachable(endpoint, why))
        })
    }

    fn caller(&self, endpoint: &Endpoint, trust: &Trust) -> Result<Caller, LoginError> {
        let config = self.authorities.config(trust);
        let config = config.map_err(|error| unreachable(endpoint, &error.to_string()))?;
        let wire = Wire::new(endpoint, config);
        let wire = wire.ok_or_else(|| unreachable(endpoint, "that is no name of a host"))?;
        Ok(Caller::new(wire, self.patience))
    }
}

impl Connector for VCenters {
    type Session = Session;

    async fn log_in(
        &self,
        endpoint: &Endpoint,
        trust: &Trust,
        credential: &Credential,
    ) -> Result<Session, LoginError> {
        let username = content(credential, USERNAME)?;
        let password = content(credential, PASSWORD)?;
        let caller = self.caller(endpoint, trust)?;
        let account = (endpoint.clone(), credential.fingerprint.clone());
        let tell = self.begin(endpoint, &account).await?;
        let (give, taken) = oneshot::channel();
        let logins = Arc::clone(&self.logins);
        let late = self.patience * LATE;
        // In a task of its own and for a limited time: the caller may leave at any moment, and
        // its session would stay open until the vCenter ends it.
        self.logins.spawn(async move {
            let opened = open(caller, &username, &password, late, || give.is_closed()).await;
            let end = match give.send(opened) {
                Err(Err(error)) if error.reason == Reason::InvalidCredentials => {
                    End::Refused(error)
                }
                Err(Ok(unwanted)) => {
                    unwanted.leave().await;
                    End::Over
                }
                Ok(()) | Err(Err(_)) => End::Over,
            };
            if matches!(end, End::Over) {
                logins.forget(&account, &tell.subscribe());
            }
            // The next login of the account reads a refusal that was not delivered.
            tell.send_replace(Some(end));
        });
        let slow = || {
            let seconds = self.patience.as_secs_f32();
            unreachable(endpoint, &format!("no answer within {seconds} s"))
        };
        match timeout(self.patience, taken).await {
            Ok(Ok(opened)) => opened,
            // The sender is dropped without a value only if the runtime is shut down.
            Err(_) | Ok(Err(_)) => Err(slow()),
        }
    }

    /// Reads the current session, which every account may do. The method `SessionIsActive` needs
    /// privileges that restricted accounts lack.
    async fn is_alive(&self, session: &Session) -> Result<bool, LoginError> {
        match session.current().await {
            Ok(alive) => Ok(alive),
            Err(Error::NotAuthenticated) => Ok(false),
            Err(error @ Error::NotTrusted(_)) => Err(LoginError {
                reason: error.reason(),
                message: error.to_string(),
                answered: false,
            }),
            Err(error) => Err(unreachable(
                session.caller().wire().endpoint(),
                &error.to_string(),
            )),
        }
    }

    async fn log_out(&self, session: &Session) {
        session.leave().await;
    }
}

async fn open(
    mut caller: Caller,
    username: &Hidden,
    password: &Hidden,
    late: Duration,
    unwanted: impl Fn() -> bool,
) -> Result<Session, LoginError> {
    let endpoint = caller.wire().endpoint().clone();
    let within = (late, Size::Small);
    let this = Object::new("ServiceInstance", "ServiceInstance");
    let content = caller
        .ask("RetrieveServiceContent", &this, within, |_| ())
        .await;
    let content = content.map_err(|broken| not_opened(&endpoint, broken))?;
    let (about, services) = introduce(&content).map_err(|why| unreachable(&endpoint, &why))?;
    if unwanted() {
        return Err(unreachable(&endpoint, "nobody waits for it any more"));
    }
    caller.speak(&about.api_version);
    let answer = caller.ask("Login", &services.session_manager, within, |login| {
        login.leaf("userName", username.reveal());
        login.leaf("password", password.reveal());
    });
    let answer = answer.await;
    let session = Session::new(caller, services, about);
    match answer {
        Ok(answer) if is_session(&answer) && session.caller().has_cookie() => Ok(session),
        Ok(_) => {
            session.leave().await;
            Err(unreachable(&endpoint, "it logs in without a session"))
        }
        Err(broken) => {
            // A session may have been opened although the response is invalid.
            if matches!(broken, Broken::Failure(Failure::Odd(_))) {
                session.leave().await;
            }
            Err(not_opened(&endpoint, broken))
        }
    }
}

fn is_session(answer: &Element) -> bool {
    answer
        .text("returnval/key")
        .is_some_and(|key| !key.trim().is_empty())
}

/// Returns the description of a vCenter, if it is supported.
fn introduce(answer: &Element) -> Result<(About, Services), String> {
    let content = answer.at("returnval").ok_or("it does not say what it is")?;
    let said = |path: &str| content.text(path).unwrap_or_default().trim().to_owned();
    let about = About {
        version: said("about/version"),
        api_version: said("about/apiVersion"),
        api_type: said("about/apiType"),
        instance_uuid: said("about/instanceUuid"),
    };
    let said = [
        &about.version,
        &about.api_version,
        &about.api_type,
        &about.instance_uuid,
    ];
    if said.iter().any(|said| said.len() > LONGEST) {
        return Err("it says too much of itself".to_owned());
    }
    if about.api_type != "VirtualCenter" {
        return Err("it is no vCenter".to_owned());
    }
    let major = about
        .version
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < OLDEST) {
        return Err(format!("it is not of version {OLDEST} or newer"));
    }
    let service = |name: &str| {
        let found = content.object(name);
        let found = found.filter(|found| found.kind.len() + found.id.len() <= LONGEST);
        found.ok_or(format!("it has no {name}"))
    };
    let services = Services {
        root_folder: service("rootFolder")?,
        property_collector: service("propertyCollector")?,
        session_manager: service("sessionManager")?,
        search_index: service("searchIndex")?,
    };
    Ok((about, services))
}

fn content(credential: &Credential, key: &str) -> Result<Arc<Hidden>, LoginError> {
    let found = credential.content.get(key);
    let found = found.filter(|content| !content.reveal().is_empty());
    found.cloned().map(Arc::new).ok_or_else(|| LoginError {
        reason: Reason::InvalidCredentials,
        message: format!("the credential has no {key}"),
        answered: false,
    })
}

/// Converts a failed login. Nothing of the server's answer is repeated except the type of the
/// fault: the server was sent a password, and could return it.
fn not_opened(endpoint: &Endpoint, broken: Broken) -> LoginError {
    let place = authority(endpoint);
    match broken {
        Broken::Fault(fault) => match fault.kind.as_str() {
            "InvalidLogin" | "PasswordExpired" | "NoPermission" => LoginError {
                reason: Reason::InvalidCredentials,
                message: format!("{place} does not take the credential ({})", fault.kind),
                answered: true,
            },
            // A server that answers is reachable: other credentials may be accepted.
            _ => LoginError {
                answered: true,
                ..unreachable(endpoint, "it refuses to log anybody in")
            },
        },
        Broken::Failure(Failure::NotTrusted(why)) => LoginError {
            reason: Reason::CertificateNotTrusted,
            message: format!("the certificate of {place} is not trusted: {why}"),
            answered: false,
        },
        Broken::Failure(Failure::Unreachable(why)) => unreachable(endpoint, &why),
        Broken::Failure(Failure::Odd(why)) => unreachable(
            endpoint,
            &format!("it does not answer as a vCenter does: {why}"),
        ),
        Broken::Unsayable => LoginError {
            reason: Reason::InvalidCredentials,
            message: "the credential has a character that cannot be sent".to_owned(),
            answered: false,
        },
    }
}

fn unreachable(endpoint: &Endpoint, why: &str) -> LoginError {
    let message = format!("{} is not to be used: {why}", authority(endpoint));
    LoginError {
        reason: Reason::Unreachable,
        message,
        answered: false,
    }
}
