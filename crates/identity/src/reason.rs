//! Stable reasons why an object gets no credential or no session.

/// A reason for a refusal or a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The identity does not exist.
    IdentityNotFound,
    /// The identity is not ready.
    IdentityNotReady,
    /// The identity does not allow the object's namespace.
    NamespaceNotAllowed,
    /// The Secret does not exist.
    SecretNotAvailable,
    /// The Secret has another claimant.
    SecretInUse,
    /// The Secret lacks required keys, or the server refused the credential.
    InvalidCredentials,
    /// The credential may not be sent to the endpoint.
    EndpointNotAllowed,
    /// No credential is referenced, and there is no default.
    NoCredentials,
    /// The server's certificate is not accepted.
    CertificateNotTrusted,
    /// The server does not respond, or not as expected.
    Unreachable,
    /// The server knows the account and permits it less than the operator needs.
    Forbidden,
    /// The server does not serve the API that the operator needs.
    NotServed,
    /// The credential is for another scope than the object, such as another subscription.
    WrongScope,
}

impl Reason {
    /// Returns the reason as conditions, events and metrics show it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IdentityNotFound => "IdentityNotFound",
            Self::IdentityNotReady => "IdentityNotReady",
            Self::NamespaceNotAllowed => "NamespaceNotAllowed",
            Self::SecretNotAvailable => "SecretNotAvailable",
            Self::SecretInUse => "SecretInUse",
            Self::InvalidCredentials => "InvalidCredentials",
            Self::EndpointNotAllowed => "EndpointNotAllowed",
            Self::NoCredentials => "NoCredentials",
            Self::CertificateNotTrusted => "CertificateNotTrusted",
            Self::Unreachable => "Unreachable",
            Self::Forbidden => "Forbidden",
            Self::NotServed => "NotServed",
            Self::WrongScope => "WrongScope",
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.as_str())
    }
}
