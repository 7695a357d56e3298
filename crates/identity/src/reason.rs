//! Why an object gets no credential or no session, in words that never change their meaning.

/// Why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// There is no such identity.
    IdentityNotFound,
    /// The identity is not, or not yet, fit for use.
    IdentityNotReady,
    /// The identity does not allow the object's namespace.
    NamespaceNotAllowed,
    /// The Secret is not there.
    SecretNotAvailable,
    /// The Secret is held by something else.
    SecretInUse,
    /// The Secret lacks what it must have, or the other side does not take it.
    InvalidCredentials,
    /// The credential may not be sent to that endpoint.
    EndpointNotAllowed,
    /// Nothing names a credential, and there is none for such objects.
    NoCredentials,
    /// The other side shows a certificate that is not to be believed.
    CertificateNotTrusted,
    /// The other side does not answer, or not as it should.
    Unreachable,
}

impl Reason {
    /// As conditions, Events and metrics say it.
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
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.as_str())
    }
}
