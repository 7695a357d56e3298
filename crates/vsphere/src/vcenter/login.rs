//! Opens, checks and closes sessions.

use std::time::Duration;

use insula_dialer::AddressRules;
use insula_identity::credential::{Credential, Hidden};
use insula_identity::endpoint::{AllowedEndpoints, Endpoint};
use insula_identity::reason::Reason;
use insula_identity::session::{Connector, Key, LoginError};
use insula_operator::outbound::{
    Attempt, HttpClients, Logins, RequestError, authority, unreachable,
};

use super::call::{CallError, Caller, ResponseSize};
use super::element::Element;
use super::session::Services;
use super::{About, Error, MIN_MAJOR_VERSION, Object, Session};

/// The keys of a Secret.
const USERNAME: &str = "username";
const PASSWORD: &str = "password";
/// The maximum length of texts about the vCenter, which are kept as long as the session.
const MAX_ABOUT_LENGTH: usize = 256;

/// Opens sessions.
#[derive(Clone)]
pub struct VCenters {
    timeout: Duration,
    clients: HttpClients,
    logins: Logins,
}

impl VCenters {
    /// Creates a connector. `timeout` is the limit for each request, and for a login as a whole.
    /// Certificates are verified with the system's roots and these, in DER.
    /// The vCenters may have any address.
    pub fn new(timeout: Duration, extra_roots: Vec<Vec<u8>>) -> Self {
        Self {
            timeout,
            clients: HttpClients::new(extra_roots),
            logins: Logins::new(timeout),
        }
    }

    /// Lets vCenters other than the trusted ones have only the addresses that the rules allow.
    #[must_use]
    pub fn restricted(self, rules: AddressRules, trusted: AllowedEndpoints) -> Self {
        Self {
            clients: self.clients.restricted(rules, trusted),
            ..self
        }
    }

    /// Waits at most this long for abandoned logins, so that their sessions are logged out.
    pub async fn drain(&self, within: Duration) {
        self.logins.drain(within).await;
    }
}

impl Connector for VCenters {
    type Session = Session;

    async fn log_in(&self, key: &Key, credential: &Credential) -> Result<Session, LoginError> {
        let username = content(credential, USERNAME)?;
        let password = content(credential, PASSWORD)?;
        let client = self.clients.client(&key.endpoint, &key.trust);
        let client = client.map_err(|error| error.into_login_error(&key.endpoint))?;
        let caller = Caller::new(client, self.timeout);
        let open = |attempt| open(caller, username, password, attempt);
        let close = async |session: Session| session.log_out().await;
        self.logins.log_in(key, open, close).await
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
            Err(error) => Err(unreachable(session.caller().endpoint(), &error.to_string())),
        }
    }

    async fn log_out(&self, session: &Session) {
        session.log_out().await;
    }
}

async fn open(
    mut caller: Caller,
    username: Hidden,
    password: Hidden,
    attempt: Attempt,
) -> Result<Session, LoginError> {
    let endpoint = caller.endpoint().clone();
    let within = (attempt.timeout, ResponseSize::Small);
    let this = Object::new("ServiceInstance", "ServiceInstance");
    let content = caller
        .ask("RetrieveServiceContent", &this, within, |_| ())
        .await;
    let content = content.map_err(|broken| login_error(&endpoint, broken))?;
    let (about, services) =
        parse_service_content(&content).map_err(|why| unreachable(&endpoint, &why))?;
    if attempt.is_abandoned() {
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
            if matches!(broken, CallError::Request(RequestError::InvalidResponse(_))) {
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

fn content(credential: &Credential, key: &str) -> Result<Hidden, LoginError> {
    let found = credential.content.get(key);
    let found = found.filter(|content| content.text().is_some_and(|text| !text.is_empty()));
    found.cloned().ok_or_else(|| LoginError {
        reason: Reason::InvalidCredentials,
        message: format!("the credential has no {key}"),
        answered: false,
    })
}

/// Converts a failed login. Nothing of the server's answer is repeated except the type of the
/// fault: the server was sent a password, and could return it.
fn login_error(endpoint: &Endpoint, broken: CallError) -> LoginError {
    match broken {
        CallError::Fault(fault) => match fault.kind.as_str() {
            "InvalidLogin" | "PasswordExpired" | "NoPermission" => LoginError {
                reason: Reason::InvalidCredentials,
                message: format!(
                    "{} does not accept the credential ({})",
                    authority(endpoint),
                    fault.kind
                ),
                answered: true,
            },
            // A server that answers is reachable: other credentials may be accepted.
            _ => LoginError {
                answered: true,
                ..unreachable(endpoint, "it refuses every login")
            },
        },
        CallError::Request(RequestError::InvalidResponse(why)) => unreachable(
            endpoint,
            &format!("it does not answer as a vCenter does: {why}"),
        ),
        CallError::Request(error) => error.into_login_error(endpoint),
    }
}
