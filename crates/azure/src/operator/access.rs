//! The access of an object to its subscription.

use insula_identity::credential::{Credential, Source};
use insula_identity::decide::{Question, Refusal};
use insula_identity::session::HeldSession;
use insula_operator::provider::{Access, Closed, HoldOutcome, full_message};
use insula_operator::retry::Outcome;
use serde_json::{Map, Value};

use super::credentials::scope_name;
use super::object::Object;
use super::pacing::Wait;
use super::ready::Problem;
use super::{Reconciliation, held_secret};
use crate::arm::{ResourceId, Subscriptions};
use crate::names::{CREDENTIAL_SCOPE, CREDENTIAL_SECRET};

/// The reason of a resource in another subscription than that of its credential.
pub(super) const SUBSCRIPTION_MISMATCH: &str = "SubscriptionMismatch";

/// The access of an object to its subscription.
pub(super) struct Azure {
    pub session: HeldSession<Subscriptions>,
    pub credential: Box<Credential>,
}

/// Why an object has no access, if that is to be reported, and when to try again.
pub(super) type NoAccess = (Option<Problem>, Outcome);

/// Opens the access that an object gets with its credential.
pub(super) async fn open(object: &Object<'_>) -> Result<Result<Azure, NoAccess>, kube::Error> {
    match object.of.access(question(object)).await? {
        Access::Open(session, credential) => Ok(Ok(Azure {
            session,
            credential,
        })),
        Access::Closed(why, outcome) => {
            let problem = match why {
                Closed::Opening => None,
                Closed::Refused(refusal) => Some(Problem::warning(
                    refusal.reason.as_str(),
                    full_message(&refusal),
                )),
                Closed::Unknown(message) => Some(Problem::warning("Failed", message)),
            };
            Ok(Err((problem, outcome)))
        }
    }
}

impl Azure {
    /// Returns the server that the session is with.
    pub(super) fn server(&self) -> String {
        self.session.client().server().endpoint().to_string()
    }

    /// Returns whether the credential is in a Secret, which is held.
    pub(super) fn has_secret(&self) -> bool {
        matches!(self.credential.source, Source::Secret { .. })
    }

    /// Holds the Secret of the credential until the object does not need it any more. Returns
    /// whether it still exists.
    pub(super) async fn hold(&self, object: &Object<'_>) -> Result<bool, kube::Error> {
        let Source::Secret { name, .. } = &self.credential.source else {
            return Ok(true);
        };
        let of = object.of;
        let shape = of.context.provider.terms.shape;
        let held = of.take_hold(&held_secret::HOLD, shape, name).await?;
        // One that is being deleted is used as long as it is there.
        Ok(held != HoldOutcome::NotFound)
    }

    /// Returns the problem of a credential for another subscription than that of a resource.
    pub(super) fn check_subscription(&self, id: &ResourceId) -> Result<(), Problem> {
        let own = self.session.subscription();
        let of_id = id.subscription().unwrap_or(own);
        if of_id.eq_ignore_ascii_case(own) {
            return Ok(());
        }
        let message = format!(
            "SubscriptionID {of_id:?} for {:?} resource does not match with Client Credential: {own:?}",
            id.as_str()
        );
        Err(Problem::error(SUBSCRIPTION_MISMATCH, message))
    }
}

/// Returns whether the last call for an object failed with another credential than it has now, so
/// that the next one need not wait.
pub(super) async fn has_another_credential(object: &Object<'_>) -> Result<bool, kube::Error> {
    let of = object.of;
    let Some(failed_with) = of.context.provider.pacing.failed_with(&of.key.text()) else {
        return Ok(false);
    };
    let resolved = match question(object) {
        Ok(question) => of.resolve(&question).await?,
        Err(refusal) => Err(refusal),
    };
    let now = resolved.map(|credential| of.session_key(&credential));
    Ok(now != Ok(failed_with))
}

/// Returns the question which credential an object gets.
fn question(object: &Object<'_>) -> Result<Question, Refusal> {
    let namespace = object.of.key.namespace_or_empty();
    let terms = &object.of.context.provider.terms;
    terms.question(namespace, object.annotations(), &object.of_namespace)
}

/// Writes the scope and the Secret of the credential that an object uses, if they have changed.
pub(super) async fn record_scope(
    object: &mut Object<'_>,
    azure: &Azure,
    others: Map<String, Value>,
) -> Result<(), kube::Error> {
    let mut annotations = others;
    let scope = scope_name(azure.credential.level);
    annotations.insert(CREDENTIAL_SCOPE.to_owned(), scope.into());
    let secret = held_secret::recorded_name(&azure.credential);
    held_secret::release_previous(object, secret).await?;
    annotations.insert(CREDENTIAL_SECRET.to_owned(), secret.into());
    object.annotate(Value::Object(annotations)).await
}

/// Returns the outcome of an object that waits.
pub(super) fn outcome(of: &Reconciliation<'_>, wait: Wait) -> Outcome {
    match wait {
        Wait::For(delay) => Outcome::Waits(delay),
        Wait::ForChange => Outcome::Waits(of.resync_after()),
    }
}
