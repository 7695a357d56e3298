//! Opens, checks and closes sessions.

use std::sync::Arc;
use std::time::Duration;

use insula_identity::credential::{Credential, Hidden};
use insula_identity::endpoint::{Endpoint, Trust};
use insula_identity::reason::Reason;
use insula_identity::session::{Connector, LoginError};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::call::{Broken, Caller};
use super::element::Element;
use super::session::Services;
use super::trust::Authorities;
use super::wire::{Failure, Wire, authority};
use super::{About, Error, Object, Session};

/// The keys of a Secret.
const USERNAME: &str = "username";
const PASSWORD: &str = "password";
/// What vCenters are served from.
const OLDEST: u32 = 6;
/// How many times our patience the answer to a login is waited for when nobody needs the
/// session any more: one that comes late is of a session that has to be closed.
const LATE: u32 = 4;

/// Opens sessions.
pub struct VCenters {
    patience: Duration,
    authorities: Authorities,
}

impl VCenters {
    /// `patience` is how long any request may take, and a login as a whole. Certificates are
    /// verified with the machine's roots and these, in DER.
    pub fn new(patience: Duration, further_roots: Vec<Vec<u8>>) -> Self {
        Self {
            patience,
            authorities: Authorities::new(further_roots),
        }
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
        let (give, taken) = oneshot::channel();
        let late = self.patience * LATE;
        // On its own, and for a bounded time: whoever asked may leave at any moment, and a
        // session that nobody knows of would stay until the vCenter ends it.
        tokio::spawn(async move {
            let opened = open(caller, &username, &password, late, || give.is_closed()).await;
            if let Err(Ok(unwanted)) = give.send(opened) {
                unwanted.leave().await;
            }
        });
        let slow = || {
            let seconds = self.patience.as_secs_f32();
            unreachable(endpoint, &format!("no answer within {seconds} s"))
        };
        match timeout(self.patience, taken).await {
            Ok(Ok(opened)) => opened,
            // The sender goes without a word only if the runtime does.
            Err(_) | Ok(Err(_)) => Err(slow()),
        }
    }

    /// By what everybody may know of themselves: whether a session is active is something
    /// that accounts with few privileges may not ask.
    async fn is_alive(&self, session: &Session) -> Result<bool, LoginError> {
        match session.current().await {
            Ok(alive) => Ok(alive),
            Err(Error::NotAuthenticated) => Ok(false),
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
    let this = Object::new("ServiceInstance", "ServiceInstance");
    let content = caller
        .ask("RetrieveServiceContent", &this, late, |_| ())
        .await;
    let content = content.map_err(|broken| not_opened(&endpoint, broken))?;
    let (about, services) = introduce(&content).map_err(|why| unreachable(&endpoint, &why))?;
    if unwanted() {
        return Err(unreachable(&endpoint, "nobody waits for it any more"));
    }
    caller.speak(&about.api_version);
    let answer = caller.ask("Login", &services.session_manager, late, |login| {
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
            // An answer that is not understood may still be of a session that was opened.
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

/// What a vCenter says of itself, if it is one that is served.
fn introduce(answer: &Element) -> Result<(About, Services), String> {
    let content = answer.at("returnval").ok_or("it does not say what it is")?;
    let said = |path: &str| content.text(path).unwrap_or_default().trim().to_owned();
    let about = About {
        version: said("about/version"),
        api_version: said("about/apiVersion"),
        api_type: said("about/apiType"),
        instance_uuid: said("about/instanceUuid"),
    };
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
    let service = |name: &str| content.object(name).ok_or(format!("it has no {name}"));
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

/// Nothing that the other side says is repeated here, except of what type it says it is: it
/// was sent a password.
fn not_opened(endpoint: &Endpoint, broken: Broken) -> LoginError {
    let place = authority(endpoint);
    match broken {
        Broken::Fault(fault) => match fault.kind.as_str() {
            "InvalidLogin" | "PasswordExpired" | "NoPermission" => LoginError {
                reason: Reason::InvalidCredentials,
                message: format!("{place} does not take the credential ({})", fault.kind),
                answered: true,
            },
            // Whoever refuses is there: others may be let in.
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
