//! The hosts that an object may use: those that its kubeconfig reaches, or those of its own
//! namespace.

use insula_identity::credential::Credential;
use insula_identity::decide::{Question, Refusal};
use insula_identity::endpoint::InvalidEndpoint;
use insula_identity::reason::Reason;
use insula_identity::reference::CredentialReferences;
use insula_identity::session::{HeldSession, LoginError, Unavailable};
use insula_operator::outbound::kubernetes_login_error;
use insula_operator::provider::{MAX_WAIT, full_message};
use insula_operator::read::is_valid_name;
use insula_operator::retry::{Class, Outcome};

use super::context::Reconciliation;
use crate::hosts::consumer::Consumer;
use crate::hosts::proof::ProofDigest;
use crate::kinds::IdentityReference;
use crate::kubeconfig::reason::{Phase, condition_reason};
use crate::kubeconfig::resolve::{HostSide, IdentityRef, host_side, question};
use crate::pool::{HostPool, Pools, in_cluster};

/// The access of an object to hosts.
pub(super) enum Access {
    /// There is access.
    Open(HostAccess),
    /// The credential is being verified: what was known before still holds.
    Opening(Outcome),
    /// There is no access, and when to try again.
    Closed(Problem, Outcome),
}

/// The hosts that an object may use, and the credential that reaches them.
pub(super) struct HostAccess {
    pub pool: HeldSession<Pools>,
    pub credential: Box<Credential>,
}

/// What a failed request to the server of the hosts means.
pub(super) enum HostFailure {
    /// The hosts are those of the operator's own server.
    Own(kube::Error),
    /// The object has changed, or no longer exists: the next reconciliation reads it again.
    Changed(kube::Error),
    /// The credential has a problem, and when to try again.
    Problem(Problem, Outcome),
}

impl HostAccess {
    /// Explains a failed request to the server of the hosts as a problem with the credential.
    pub(super) fn explain(&self, error: kube::Error) -> HostFailure {
        if self.pool.is_in_cluster() {
            return HostFailure::Own(error);
        }
        if matches!(&error, kube::Error::Api(status) if matches!(status.code, 404 | 409)) {
            return HostFailure::Changed(error);
        }
        let error = kubernetes_login_error(&error, &self.credential.endpoint);
        let outcome = match error.reason {
            // The next login tells whether the credential is refused for good.
            Reason::InvalidCredentials => {
                self.pool.mark_dead();
                Outcome::Progressed
            }
            Reason::Unreachable if !error.answered => {
                self.pool.mark_unresponsive();
                Outcome::Failed(Class::Blocked)
            }
            _ => Outcome::Failed(Class::Blocked),
        };
        HostFailure::Problem(failed(&error), outcome)
    }
}

/// Returns a machine of the namespace as the user of a host of a pool. Hosts that a kubeconfig
/// reaches may be shared by machines of one name, which the proof tells apart.
pub(super) fn consumer(
    of: &Reconciliation<'_>,
    pool: &HostPool,
    machine: &str,
    proof: Option<&str>,
) -> Consumer {
    let consumer = Consumer::machine(of.key.namespace_or_empty(), machine);
    match pool.is_in_cluster() {
        // Both are in one namespace, and move together.
        true => consumer,
        false => consumer
            .in_space(of.key.space.as_deref())
            .with_digest(proof.map(ProofDigest::of)),
    }
}

/// Why an object has no access to hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// A stable identifier.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// The references to kubeconfigs that decide about an object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Identity<'a> {
    /// The object's own.
    pub own: Option<&'a IdentityReference>,
    /// The one of its cluster, with the cluster's name.
    pub of_cluster: Option<(&'a str, &'a IdentityReference)>,
}

impl<'a> Identity<'a> {
    fn own(&self) -> Option<IdentityRef<'a>> {
        self.own.map(reference)
    }

    fn parent(&self) -> Option<(&'a str, IdentityRef<'a>)> {
        let (cluster, identity) = self.of_cluster?;
        Some((cluster, reference(identity)))
    }

    /// Returns the reference that decides: one of the object itself replaces the cluster's as a
    /// whole.
    pub(super) fn effective(&self) -> Option<&'a IdentityReference> {
        self.own.or(self.of_cluster.map(|(_, reference)| reference))
    }
}

fn reference(identity: &IdentityReference) -> IdentityRef<'_> {
    IdentityRef {
        name: &identity.name,
        context: identity.context.as_deref(),
    }
}

/// Returns the access that an object gets. Without a reference, the hosts are those of its own
/// namespace, and the operator uses its own account, or the one of the namespace that it acts as.
///
/// # Errors
///
/// If a request to the API server fails.
pub(super) async fn open(
    of: &Reconciliation<'_>,
    identity: Identity<'_>,
) -> Result<Access, kube::Error> {
    let credential = match host_side(identity.own(), identity.parent()) {
        HostSide::BesideMachine => {
            let (space, account) = (of.key.space.as_deref(), of.service_account());
            in_cluster(space, of.key.namespace_or_empty(), account).map_err(invalid)
        }
        HostSide::Identity(references) => match check_names(identity) {
            Ok(()) => of.resolve(&ask(of, references)).await?,
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
        Ok(pool) => Access::Open(HostAccess {
            pool,
            credential: Box::new(credential),
        }),
        Err(Unavailable::Wait) => Access::Opening(Outcome::Waits(MAX_WAIT)),
        Err(Unavailable::Failed { error, retry_after }) => {
            Access::Closed(failed(&error), Outcome::Waits(retry_after))
        }
    })
}

/// Returns the question which kubeconfig an object gets.
fn ask(of: &Reconciliation<'_>, references: CredentialReferences) -> Question {
    let tenant = of.key.space.as_deref().map(str::to_owned);
    let servers = of.context.bounds.namespace_secrets.clone();
    let shape = of.context.provider.kubeconfigs;
    question(
        of.key.namespace_or_empty(),
        tenant,
        references,
        shape,
        servers,
    )
}

/// The schema allows no other names, but it may have been replaced.
fn check_names(identity: Identity<'_>) -> Result<(), Refusal> {
    let name = identity
        .effective()
        .map_or("", |reference| reference.name.as_str());
    match is_valid_name(name) {
        true => Ok(()),
        false => Err(Refusal {
            reason: Reason::SecretNotAvailable,
            message: format!("spec.identityRef: invalid name {name:?}"),
            hint: None,
        }),
    }
}

fn invalid(error: InvalidEndpoint) -> Refusal {
    Refusal {
        reason: Reason::Unreachable,
        message: error.to_string(),
        hint: None,
    }
}

/// Returns the problem of a credential that was not granted.
fn refused(refusal: &Refusal) -> Problem {
    Problem {
        reason: condition_reason(Phase::Decision, refusal.reason),
        message: full_message(refusal),
    }
}

/// Returns the problem of a credential that could not be verified. One that could not even be sent
/// is no better than a kubeconfig that cannot be parsed.
pub(super) fn failed(error: &LoginError) -> Problem {
    let phase = match error.reason {
        Reason::InvalidCredentials if !error.answered => Phase::Decision,
        _ => Phase::Login,
    };
    Problem {
        reason: condition_reason(phase, error.reason),
        message: error.message.clone(),
    }
}
