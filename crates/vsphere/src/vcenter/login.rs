//! Opens, checks and closes sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use insula_dialer::{AddressRules, Dialer, Reach, Resolver};
use insula_identity::credential::{Credential, Fingerprint, Hidden};
use insula_identity::endpoint::{AllowedEndpoints, Endpoint, Trust};
use insula_identity::reason::Reason;
use insula_identity::session::{Connector, Key, LoginError};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::call::{CallError, Caller};
use super::element::Element;
use super::session::Services;
use super::transport::{Failure, ResponseSize, Transport, authority};
use super::trust::Authorities;
use super::{About, Error, Object, Session};

/// The keys of a Secret.
const USERNAME: &str = "username";
const PASSWORD: &str = "password";
/// The oldest supported major version.
const MIN_MAJOR_VERSION: u32 = 6;
/// The maximum length of texts about the vCenter, which are kept as long as the session.
const MAX_ABOUT_LENGTH: usize = 256;
/// A login is awaited this many timeouts long after its caller has left: a late response opens a
/// session that has to be logged out.
const LATE_LOGIN_FACTOR: u32 = 4;

/// How long a late refusal is kept for the next login of the account. It is longer than the
/// backoff after a login without an answer.
const REFUSAL_RETENTION: Duration = Duration::from_secs(300);

/// Opens sessions.
#[derive(Clone)]
pub struct VCenters {
    timeout: Duration,
    authorities: Authorities,
    dialer: Arc<Dialer<Endpoint>>,
    /// The vCenters of the platform engineer, which may have any address. All others are
    /// chosen by teams.
    trusted: AllowedEndpoints,
    logins: Arc<Logins>,
}

/// Logins in progress, including abandoned ones.
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
    end: watch::Receiver<Option<LoginOutcome>>,
}

/// The outcome of a login.
#[derive(Clone)]
enum LoginOutcome {
    /// The result was delivered, or is of no interest.
    Delivered,
    /// The credential was refused.
    Refused(LoginError),
}

impl Logins {
    /// Registers a login, unless there is another one of the same account.
    fn register(&self, account: &Account) -> Result<watch::Sender<Option<LoginOutcome>>, Login> {
        let mut accounts = lock(&self.accounts);
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
    /// The vCenters may have any address.
    pub fn new(timeout: Duration, further_roots: Vec<Vec<u8>>) -> Self {
        Self {
            timeout,
            authorities: Authorities::new(further_roots),
            dialer: Arc::new(Dialer::new(AddressRules::default(), Resolver::system())),
            trusted: AllowedEndpoints::Anywhere,
            logins: Arc::default(),
        }
    }

    /// Lets vCenters other than the trusted ones have only the addresses that the rules allow.
    #[must_use]
    pub fn restricted(self, rules: AddressRules, trusted: AllowedEndpoints) -> Self {
        Self {
            dialer: Arc::new(Dialer::new(rules, Resolver::system())),
            trusted,
            ..self
        }
    }

    /// Waits at most this long for abandoned logins, so that their sessions are
    /// logged out.
    pub async fn drain(&self, within: Duration) {
        let mut tasks = std::mem::take(&mut *lock(&self.logins.tasks));
        let done = async { while tasks.join_next().await.is_some() {} };
        if timeout(within, done).await.is_err() {
            tracing::debug!("logins abandoned");
        }
    }

    /// Registers a login after all earlier logins of the same account were answered: each
    /// unanswered one may count towards locking the account.
    async fn register(
        &self,
        endpoint: &Endpoint,
        account: &Account,
    ) -> Result<watch::Sender<Option<LoginOutcome>>, LoginError> {
        let waiting = async {
            loop {
                let mut earlier = match self.logins.register(account) {
                    Ok(sender) => return Ok(sender),
                    Err(earlier) => earlier,
                };
                let end = earlier.end.wait_for(Option::is_some).await;
                let end = end.ok().and_then(|end| end.clone());
                self.logins.forget(account, &earlier.end);
                if let Some(LoginOutcome::Refused(error)) = end {
                    return Err(error);
                }
            }
        };
        let waited = timeout(self.timeout, waiting).await;
        waited.unwrap_or_else(|_| {
            let why = "an earlier login is not answered yet";
            Err(unreachable(endpoint, why))
        })
    }

    fn caller(&self, endpoint: &Endpoint, trust: &Trust) -> Result<Caller, LoginError> {
        let config = self.authorities.config(trust);
        let config = config.map_err(|error| unreachable(endpoint, &error.to_string()))?;
        let reach = match self.trusted.admits(endpoint) {
            Some(_) => Reach::Any,
            None => Reach::Ruled,
        };
        let transport = Transport::new(endpoint, config, Arc::clone(&self.dialer), reach);
        let transport = transport.ok_or_else(|| unreachable(endpoint, "invalid host name"))?;
        Ok(Caller::new(transport, self.timeout))
    }
}

impl Connector for VCenters {
    type Session = Session;

    async fn log_in(&self, key: &Key, credential: &Credential) -> Result<Session, LoginError> {
        let (endpoint, trust) = (&key.endpoint, &key.trust);
        let username = content(credential, USERNAME)?;
        let password = content(credential, PASSWORD)?;
        let caller = self.caller(endpoint, trust)?;
        let account = (endpoint.clone(), credential.fingerprint.clone());
        let sender = self.register(endpoint, &account).await?;
        let (give, taken) = oneshot::channel();
        let logins = Arc::clone(&self.logins);
        let late = self.timeout * LATE_LOGIN_FACTOR;
        // In a task of its own and for a limited time: the caller may leave at any moment, and
        // its session would stay open until the vCenter ends it.
        self.logins.spawn(async move {
            let opened = open(caller, &username, &password, late, || give.is_closed()).await;
            let end = match give.send(opened) {
                Err(Err(error)) if error.reason == Reason::InvalidCredentials => {
                    LoginOutcome::Refused(error)
                }
                Err(Ok(unwanted)) => {
                    unwanted.log_out().await;
                    LoginOutcome::Delivered
                }
                Ok(()) | Err(Err(_)) => LoginOutcome::Delivered,
            };
            if matches!(end, LoginOutcome::Delivered) {
                logins.forget(&account, &sender.subscribe());
            }
            // The next login of the account reads a refusal that was not delivered.
            sender.send_replace(Some(end));
        });
        let slow = || {
            let seconds = self.timeout.as_secs_f32();
            unreachable(endpoint, &format!("no answer within {seconds} s"))
        };
        match timeout(self.timeout, taken).await {
            Ok(Ok(opened)) => opened,
            // The sender is dropped without a value only if the runtime is shut down.
            Err(_) | Ok(Err(_)) => Err(slow()),
        }
    }

    /// Reads the current session, which every account may do. The method `SessionIsActive` needs
    /// privileges that restricted accounts lack.
    async fn is_alive(&self, session: &Session) -> Result<bool, LoginError> {
        match session.is_current().await {
            Ok(alive) => Ok(alive),
            Err(Error::NotAuthenticated) => Ok(false),
            Err(error @ Error::NotTrusted(_)) => Err(LoginError {
                reason: error.reason(),
                message: error.to_string(),
                answered: false,
            }),
            Err(error) => Err(unreachable(
                session.caller().transport().endpoint(),
                &error.to_string(),
            )),
        }
    }

    async fn log_out(&self, session: &Session) {
        session.log_out().await;
    }
}

async fn open(
    mut caller: Caller,
    username: &Hidden,
    password: &Hidden,
    late: Duration,
    unwanted: impl Fn() -> bool,
) -> Result<Session, LoginError> {
    let endpoint = caller.transport().endpoint().clone();
    let within = (late, ResponseSize::Small);
    let this = Object::new("ServiceInstance", "ServiceInstance");
    let content = caller
        .ask("RetrieveServiceContent", &this, within, |_| ())
        .await;
    let content = content.map_err(|broken| login_error(&endpoint, broken))?;
    let (about, services) =
        parse_service_content(&content).map_err(|why| unreachable(&endpoint, &why))?;
    if unwanted() {
        return Err(unreachable(&endpoint, "the login was abandoned"));
    }
    caller.use_version(&about.api_version);
    let answer = caller.ask("Login", &services.session_manager, within, |login| {
        login.leaf("userName", username.text().unwrap_or_default());
        login.leaf("password", password.text().unwrap_or_default());
    });
    let answer = answer.await;
    let session = Session::new(caller, services, about);
    match answer {
        Ok(answer) if is_session(&answer) && session.caller().has_cookie() => Ok(session),
        Ok(_) => {
            session.log_out().await;
            Err(unreachable(&endpoint, "it opens no session"))
        }
        Err(broken) => {
            // A session may have been opened although the response is invalid.
            if matches!(broken, CallError::Failure(Failure::Invalid(_))) {
                session.log_out().await;
            }
            Err(login_error(&endpoint, broken))
        }
    }
}

fn is_session(answer: &Element) -> bool {
    answer
        .text("returnval/key")
        .is_some_and(|key| !key.trim().is_empty())
}

/// Returns the description of a vCenter, if it is supported.
fn parse_service_content(answer: &Element) -> Result<(About, Services), String> {
    let content = answer.at("returnval").ok_or("it does not say what it is")?;
    let field = |path: &str| content.text(path).unwrap_or_default().trim().to_owned();
    let about = About {
        version: field("about/version"),
        api_version: field("about/apiVersion"),
        api_type: field("about/apiType"),
        instance_uuid: field("about/instanceUuid"),
    };
    let fields = [
        &about.version,
        &about.api_version,
        &about.api_type,
        &about.instance_uuid,
    ];
    if fields.iter().any(|field| field.len() > MAX_ABOUT_LENGTH) {
        return Err("its description is too long".to_owned());
    }
    if about.api_type != "VirtualCenter" {
        return Err("it is no vCenter".to_owned());
    }
    let major = about
        .version
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < MIN_MAJOR_VERSION) {
        return Err(format!("it is not of version {MIN_MAJOR_VERSION} or newer"));
    }
    let service = |name: &str| {
        let found = content.object(name);
        let found = found.filter(|found| found.kind.len() + found.id.len() <= MAX_ABOUT_LENGTH);
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
    let found = found.filter(|content| content.text().is_some_and(|text| !text.is_empty()));
    found.cloned().map(Arc::new).ok_or_else(|| LoginError {
        reason: Reason::InvalidCredentials,
        message: format!("the credential has no {key}"),
        answered: false,
    })
}

/// Converts a failed login. Nothing of the server's answer is repeated except the type of the
/// fault: the server was sent a password, and could return it.
fn login_error(endpoint: &Endpoint, broken: CallError) -> LoginError {
    let place = authority(endpoint);
    match broken {
        CallError::Fault(fault) => match fault.kind.as_str() {
            "InvalidLogin" | "PasswordExpired" | "NoPermission" => LoginError {
                reason: Reason::InvalidCredentials,
                message: format!("{place} does not accept the credential ({})", fault.kind),
                answered: true,
            },
            // A server that answers is reachable: other credentials may be accepted.
            _ => LoginError {
                answered: true,
                ..unreachable(endpoint, "it refuses every login")
            },
        },
        CallError::Failure(Failure::NotTrusted(why)) => LoginError {
            reason: Reason::CertificateNotTrusted,
            message: format!("the certificate of {place} is not trusted: {why}"),
            answered: false,
        },
        CallError::Failure(Failure::Unreachable(why)) => unreachable(endpoint, &why),
        CallError::Failure(Failure::Invalid(why)) => unreachable(
            endpoint,
            &format!("it does not answer as a vCenter does: {why}"),
        ),
        CallError::Unrepresentable => LoginError {
            reason: Reason::InvalidCredentials,
            message: "the credential has a character that cannot be sent".to_owned(),
            answered: false,
        },
    }
}

fn unreachable(endpoint: &Endpoint, why: &str) -> LoginError {
    let message = format!("{} cannot be used: {why}", authority(endpoint));
    LoginError {
        reason: Reason::Unreachable,
        message,
        answered: false,
    }
}
