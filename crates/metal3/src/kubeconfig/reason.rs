//! Reasons of conditions for identities that cannot be used.

use insula_identity::reason::Reason;

/// The Secret does not exist.
pub const SECRET_NOT_FOUND: &str = "IdentitySecretNotFound";
/// The Secret has no kubeconfig that can be used.
pub const KUBECONFIG_INVALID: &str = "IdentityKubeconfigInvalid";
/// The API server does not accept the credential.
pub const UNAUTHORIZED: &str = "IdentityUnauthorized";
/// The API server permits less than is needed, or the operator does not permit the server.
pub const FORBIDDEN: &str = "IdentityForbidden";
/// The API server does not respond, or cannot be trusted.
pub const UNREACHABLE: &str = "IdentityUnreachable";
/// The API server has no hosts.
pub const HOSTS_NOT_SERVED: &str = "BareMetalHostAPINotFound";

/// What failed: the same reason can mean the kubeconfig or the server's answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The credential was refused before it was used.
    Decision,
    /// The API server was asked.
    Login,
}

/// Returns the reason of a condition.
pub fn condition_reason(phase: Phase, reason: Reason) -> &'static str {
    match (phase, reason) {
        (_, Reason::SecretNotAvailable) => SECRET_NOT_FOUND,
        (Phase::Login, Reason::InvalidCredentials) => UNAUTHORIZED,
        (_, Reason::Forbidden | Reason::EndpointNotAllowed | Reason::NamespaceNotAllowed) => {
            FORBIDDEN
        }
        (_, Reason::Unreachable | Reason::CertificateNotTrusted) => UNREACHABLE,
        (_, Reason::NotServed) => HOSTS_NOT_SERVED,
        (
            _,
            Reason::InvalidCredentials
            | Reason::IdentityNotFound
            | Reason::IdentityNotReady
            | Reason::SecretInUse
            | Reason::NoCredentials
            | Reason::WrongScope,
        ) => KUBECONFIG_INVALID,
    }
}
