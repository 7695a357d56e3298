//! The messages of failed handshakes, as Go words them: clients, runbooks and search engines
//! know them.

use std::error::Error as StdError;
use std::io;

use jiff::Timestamp;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

use crate::verifier::{LegacyCommonName, UntrustedCa};

/// The names of a certificate from which on a message has only their count.
const MAX_NAMES: usize = 100;

/// Returns Go's message for a failed handshake.
pub fn handshake_error(error: &io::Error) -> String {
    let source = error
        .get_ref()
        .and_then(|error| error.downcast_ref::<Error>());
    match source {
        Some(error) => tls_error(error),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None if error.kind() == io::ErrorKind::ConnectionReset => {
            "connection reset by peer".to_owned()
        }
        None => error.to_string(),
    }
}

/// Returns Go's message for an error that is one of TLS, or wraps one without being its cause.
pub fn message_of(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut inner = error;
    // An error of a connection may wrap one of another, and so on.
    loop {
        if let Some(error) = inner.downcast_ref::<Error>() {
            return Some(tls_error(error));
        }
        inner = inner.downcast_ref::<io::Error>()?.get_ref()?;
    }
}

/// Returns Go's message for an error of TLS.
pub fn tls_error(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(why) => {
            let why = certificate_error(why);
            format!("tls: failed to verify certificate: {why}")
        }
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        Error::AlertReceived(alert) => format!("remote error: tls: {}", alert_text(*alert)),
        other => format!("tls: {other}"),
    }
}

/// Returns Go's message for a certificate that is not accepted.
pub fn certificate_error(why: &CertificateError) -> String {
    let why = match why {
        // A bad signature means another CA with the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::ExpiredContext { time, not_after } => {
            outdated(*time, "after", *not_after)
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            outdated(*time, "before", *not_before)
        }
        CertificateError::Expired | CertificateError::NotValidYet => OUTDATED.to_owned(),
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => mismatch(expected, presented),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate specifies an incompatible key usage".to_owned()
        }
        CertificateError::UnhandledCriticalExtension => "unhandled critical extension".to_owned(),
        CertificateError::BadEncoding => "malformed certificate".to_owned(),
        CertificateError::Other(other)
            if other.0.is::<LegacyCommonName>() || other.0.is::<UntrustedCa>() =>
        {
            return other.0.to_string();
        }
        other => other.to_string(),
    };
    format!("x509: {why}")
}

const OUTDATED: &str = "certificate has expired or is not yet valid";

fn outdated(now: UnixTime, relation: &str, limit: UnixTime) -> String {
    let (now, limit) = (rfc3339(now), rfc3339(limit));
    format!("{OUTDATED}: current time {now} is {relation} {limit}")
}

fn rfc3339(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns Go's message for a certificate of other names.
fn mismatch(expected: &ServerName<'_>, presented: &[String]) -> String {
    let host = expected.to_str();
    let presented: Vec<_> = presented
        .iter()
        .filter_map(|name| plain_name(name, expected))
        .collect();
    let (sort, none) = match expected {
        ServerName::IpAddress(_) => {
            let none = "because it doesn't contain any IP SANs";
            let none = format!("cannot validate certificate for {host} {none}");
            ("IP SANs", none)
        }
        _ => {
            let none = "certificate is not valid for any names, but wanted to match";
            ("names", format!("{none} {host}"))
        }
    };
    match presented.len() {
        0 => none,
        count @ MAX_NAMES.. => {
            format!("certificate is valid for {count} {sort}, but none matched {host}")
        }
        _ => format!(
            "certificate is valid for {}, not {host}",
            presented.join(", ")
        ),
    }
}

/// Returns a name of the server's sort without the notation of rustls' own verifier, which is
/// `DnsName("a.test")` and `IpAddress(192.0.2.1)`.
fn plain_name<'a>(name: &'a str, expected: &ServerName<'_>) -> Option<&'a str> {
    let notation = match expected {
        ServerName::IpAddress(_) => "IpAddress(",
        _ => "DnsName(\"",
    };
    match name.strip_prefix(notation) {
        Some(name) => Some(name.trim_end_matches(['"', ')'])),
        // Names in another notation are of another sort.
        None => (!name.contains('(')).then_some(name),
    }
}

fn alert_text(alert: AlertDescription) -> String {
    let text = match alert {
        AlertDescription::CloseNotify => "close notify",
        AlertDescription::UnexpectedMessage => "unexpected message",
        AlertDescription::HandshakeFailure => "handshake failure",
        AlertDescription::BadCertificate => "bad certificate",
        AlertDescription::UnsupportedCertificate => "unsupported certificate",
        AlertDescription::CertificateRevoked => "revoked certificate",
        AlertDescription::CertificateExpired => "expired certificate",
        AlertDescription::CertificateUnknown => "unknown certificate",
        AlertDescription::IllegalParameter => "illegal parameter",
        AlertDescription::UnknownCA => "unknown certificate authority",
        AlertDescription::AccessDenied => "access denied",
        AlertDescription::DecodeError => "error decoding message",
        AlertDescription::DecryptError => "error decrypting message",
        AlertDescription::ProtocolVersion => "protocol version not supported",
        AlertDescription::InsufficientSecurity => "insufficient security level",
        AlertDescription::InternalError => "internal error",
        AlertDescription::UserCanceled => "user canceled",
        AlertDescription::MissingExtension => "missing extension",
        AlertDescription::UnsupportedExtension => "unsupported extension",
        AlertDescription::UnrecognisedName => "unrecognized name",
        AlertDescription::CertificateRequired => "certificate required",
        AlertDescription::NoApplicationProtocol => "no application protocol",
        other => return format!("alert({})", u8::from(other)),
    };
    text.to_owned()
}
