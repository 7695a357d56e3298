//! Failed requests, and what they mean for a login.

use std::io;

use http::StatusCode;
use insula_dialer::DialError;
use insula_identity::endpoint::Endpoint;
use insula_identity::reason::Reason;
use insula_identity::session::LoginError;

use super::trust::UntrustedCertificate;

/// Why there is no usable response. The messages contain nothing of the response: the server was
/// sent a credential, and could return it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The server's certificate is not trusted. Nothing was sent.
    #[error("its certificate is not trusted: {0}")]
    UntrustedCertificate(UntrustedCertificate),
    /// The server's address is not allowed. Of a name it is not said whether it exists.
    #[error("cannot connect ({0})")]
    AddressNotAllowed(String),
    /// There is no connection, or no response in time.
    #[error("{0}")]
    Unreachable(String),
    /// The response is not what it should be.
    #[error("its answer is invalid: {0}")]
    InvalidResponse(String),
    /// The status of the response is none of success. Redirects are not followed.
    #[error("it answers HTTP {}", .0.as_u16())]
    Status(StatusCode),
    /// The request cannot be sent: a part of it has a character that is not allowed there.
    #[error("the request is invalid")]
    InvalidRequest,
}

impl RequestError {
    /// Returns the error of a login, or of the check of a session, that made this request.
    pub fn into_login_error(self, endpoint: &Endpoint) -> LoginError {
        let place = authority(endpoint);
        match self {
            Self::UntrustedCertificate(why) => LoginError {
                reason: Reason::CertificateNotTrusted,
                message: format!("the certificate of {place} is not trusted: {why}"),
                answered: false,
            },
            // A server that answers is reachable: it may accept other credentials.
            Self::Status(StatusCode::UNAUTHORIZED) => LoginError {
                reason: Reason::InvalidCredentials,
                message: format!("{place} does not accept the credential"),
                answered: true,
            },
            Self::Status(StatusCode::FORBIDDEN) => LoginError {
                reason: Reason::Forbidden,
                message: format!("{place} does not permit the request"),
                answered: true,
            },
            // Of a login's request, only the credential is chosen by users.
            Self::InvalidRequest => LoginError {
                reason: Reason::InvalidCredentials,
                message: "the credential has a character that cannot be sent".to_owned(),
                answered: false,
            },
            Self::AddressNotAllowed(_)
            | Self::Unreachable(_)
            | Self::InvalidResponse(_)
            | Self::Status(_) => unreachable(endpoint, &self.to_string()),
        }
    }

    pub(super) fn of_dial(error: &DialError) -> Self {
        match error {
            DialError::Unreachable { error, .. } => {
                Self::Unreachable(format!("cannot connect ({error})"))
            }
            DialError::NoSuchHost => Self::Unreachable(format!("cannot connect ({error})")),
            DialError::AddressNotAllowed | DialError::NoAllowedHost => {
                Self::AddressNotAllowed(error.to_string())
            }
        }
    }

    pub(super) fn of_tls(error: &io::Error) -> Self {
        match UntrustedCertificate::cause_of(error) {
            Some(untrusted) => Self::UntrustedCertificate(untrusted),
            None => Self::Unreachable(format!("TLS handshake failed ({error})")),
        }
    }

    pub(super) fn of_http(error: &hyper::Error) -> Self {
        match error.is_parse() {
            true => Self::InvalidResponse("it is no HTTP".to_owned()),
            false => Self::Unreachable(format!("the connection broke ({error})")),
        }
    }
}

impl From<http::Error> for RequestError {
    fn from(_: http::Error) -> Self {
        Self::InvalidRequest
    }
}

/// Returns the error of a login at an endpoint that cannot be used.
pub fn unreachable(endpoint: &Endpoint, why: &str) -> LoginError {
    LoginError {
        reason: Reason::Unreachable,
        message: format!("{} cannot be used: {why}", authority(endpoint)),
        answered: false,
    }
}

/// Returns host and port as in an `https` URL, without the default port.
pub fn authority(endpoint: &Endpoint) -> String {
    let text = endpoint.to_string();
    match text.strip_suffix(":443") {
        Some(host) if endpoint.port() == 443 => host.to_owned(),
        _ => text,
    }
}
