//! The hosts that an object may use: those that its kubeconfig reaches, or those of its own
//! namespace.

use insula_identity::credential::Credential;
use insula_identity::decide::{Question, Refusal, Target};
use insula_identity::reason::Reason;
use insula_identity::reference::{CredentialReferences, Reference};
use insula_identity::session::{HeldSession, LoginError, Unavailable};
use insula_operator::provider::{MAX_WAIT, full_message, question};
use insula_operator::read::is_valid_name;
use insula_operator::retry::Outcome;

use super::{Metal3, Reconciliation};
use crate::kinds::IdentityReference;
use crate::pool::{Pools, in_cluster};

/// The access of an object to hosts.
pub(super) enum Access {
    /// The hosts, and the credential that reaches them.
    Open(HeldSession<Pools>, Box<Credential>),
    /// The credential is being verified: what was known before still holds.
    Opening(Outcome),
    /// There is no access, and when to try again.
    Closed(Problem, Outcome),
}

/// Why an object has no access to hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// A stable identifier.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// The Secret does not exist.
pub(super) const SECRET_NOT_FOUND: &str = "IdentitySecretNotFound";
/// The Secret has no kubeconfig that may be used.
pub(super) const KUBECONFIG_INVALID: &str = "IdentityKubeconfigInvalid";
/// The server does not accept the credential.
pub(super) const UNAUTHORIZED: &str = "IdentityUnauthorized";
/// The credential's user lacks rights.
pub(super) const FORBIDDEN: &str = "IdentityForbidden";
/// The server does not answer, or not as expected.
pub(super) const UNREACHABLE: &str = "IdentityUnreachable";
/// The server does not serve BareMetalHosts.
pub(super) const NOT_SERVED: &str = "BareMetalHostAPINotFound";

/// The references to kubeconfigs that decide about an object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Identity<'a> {
    /// The object's own.
    pub own: Option<&'a IdentityReference>,
    /// The one of its cluster, with the cluster's name.
    pub of_cluster: Option<(&'a str, &'a IdentityReference)>,
}

impl<'a> Identity<'a> {
    /// Returns the reference that decides: one of the object itself replaces the cluster's as a
    /// whole.
    pub(super) fn effective(&self) -> Option<&'a IdentityReference> {
        self.own.or(self.of_cluster.map(|(_, reference)| reference))
    }
}

/// Returns the access that an object gets. Without a reference, the hosts are those of its own
/// namespace, and the operator uses its own account.
///
/// # Errors
///
/// If a request to the API server fails.
pub(super) async fn open(
    of: &Reconciliation<'_>,
    identity: Identity<'_>,
) -> Result<Access, kube::Error> {
    let credential = match identity.effective() {
        None => in_cluster(of.key.namespace_or_empty()).map_err(|error| Refusal {
            reason: Reason::Unreachable,
            message: error.to_string(),
            hint: None,
        }),
        Some(_) => match ask(of, identity) {
            Ok(question) => of.resolve(&question).await?,
            Err(refusal) => Err(refusal),
        },
    };
    let credential = match credential {
        Ok(credential) => credential,
        Err(refusal) => {
            of.release_session();
            let outcome = Outcome::Waits(of.resync_after());
            return Ok(Access::Closed(refused(&refusal), outcome));
        }
    };
    Ok(match of.session(&credential) {
        Ok(pool) => Access::Open(pool, Box::new(credential)),
        Err(Unavailable::Wait) => Access::Opening(Outcome::Waits(MAX_WAIT)),
        Err(Unavailable::Failed { error, retry_after }) => {
            Access::Closed(failed(&error), Outcome::Waits(retry_after))
        }
    })
}

/// Returns the question which kubeconfig an object gets.
fn ask(of: &Reconciliation<'_>, identity: Identity<'_>) -> Result<Question, Refusal> {
    let parent = identity.of_cluster.map(|(cluster, reference)| {
        let parent = format!("Metal3Cluster {cluster}");
        secret(reference).map(|reference| (parent, reference))
    });
    let references = CredentialReferences {
        own: identity.own.map(secret).transpose()?,
        parent: parent.transpose()?,
        ..CredentialReferences::default()
    };
    let namespace = of.key.namespace.as_deref();
    let bounds = &of.context.bounds;
    Ok(Question {
        shape: of.context.provider.kubeconfigs,
        ..question::<Metal3>(bounds, namespace, references, Target::Carried)
    })
}

fn secret(reference: &IdentityReference) -> Result<Reference, Refusal> {
    let IdentityReference { name, context } = reference;
    match is_valid_name(name) {
        true => Ok(Reference::Secret {
            name: name.clone(),
            part: context.clone(),
        }),
        false => Err(Refusal {
            reason: Reason::SecretNotAvailable,
            message: format!("spec.identityRef: invalid name {name:?}"),
            hint: None,
        }),
    }
}

/// Returns the problem of a credential that was not granted.
fn refused(refusal: &Refusal) -> Problem {
    let reason = match refusal.reason {
        Reason::SecretNotAvailable => SECRET_NOT_FOUND,
        Reason::InvalidCredentials => KUBECONFIG_INVALID,
        other => other.as_str(),
    };
    let message = full_message(refusal);
    Problem { reason, message }
}

/// Returns the problem of a credential that could not be verified.
pub(super) fn failed(error: &LoginError) -> Problem {
    let reason = match error.reason {
        Reason::InvalidCredentials if error.answered => UNAUTHORIZED,
        Reason::InvalidCredentials => KUBECONFIG_INVALID,
        Reason::Forbidden => FORBIDDEN,
        Reason::NotServed => NOT_SERVED,
        _ => UNREACHABLE,
    };
    let message = error.message.clone();
    Problem { reason, message }
}
