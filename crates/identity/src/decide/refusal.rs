//! Refusals for the owner of an object: what to do, without details of other namespaces. The
//! location and the name of an identity's Secret are not revealed.

use super::{Halt, Question, Refusal};
use crate::allowed::InvalidSelector;
use crate::claim::Owner;
use crate::endpoint::{Endpoint, InvalidEndpoint};
use crate::reason::Reason;
use crate::reference::Level;
use crate::shape::InvalidContent;

/// The origin of the refused credential.
pub(super) enum Origin<'a> {
    /// A Secret of the object's namespace.
    Secret { name: &'a str, by: Option<&'a str> },
    /// An identity.
    Identity {
        kind: &'static str,
        name: &'a str,
        by: Option<&'a str>,
    },
    /// The operator's static credentials.
    Operator,
}

const ASK_OWNER: &str = "ask its owner";

impl Origin<'_> {
    /// Returns the subject of the sentence, with the object that references it if it is the
    /// parent.
    fn subject(&self) -> String {
        let by =
            |by: &Option<&str>| by.map_or_else(String::new, |by| format!(" referenced by {by}"));
        match self {
            Self::Secret { name, by: who } => format!("the Secret {name}{}", by(who)),
            Self::Identity {
                kind,
                name,
                by: who,
            } => format!("{kind} {name}{}", by(who)),
            Self::Operator => "the operator's own account".to_owned(),
        }
    }

    /// Returns the holder of the contents.
    fn content(&self) -> String {
        match self {
            Self::Identity { .. } => format!("the Secret of {}", self.subject()),
            Self::Secret { .. } | Self::Operator => self.subject(),
        }
    }

    pub fn has_no_namespace(&self) -> Halt {
        let subject = self.subject();
        let message = format!("{subject} cannot be used by a cluster-scoped object");
        let hint = "reference an identity";
        refuse(Reason::SecretNotAvailable, message, hint)
    }

    pub fn does_not_exist(&self, question: &Question, namespace: &str) -> Halt {
        let message = format!("{} does not exist in namespace {namespace}", self.subject());
        let content = question.shape.describe();
        let hint =
            format!("create it there, with {content}; Secrets of other namespaces are never used");
        refuse(Reason::SecretNotAvailable, message, hint)
    }

    pub fn is_in_use(&self, holder: &Owner) -> Halt {
        let message = format!(
            "{} is in use by {} {}",
            self.subject(),
            holder.kind,
            holder.name
        );
        let hint = "a Secret serves one object; create another Secret, or share an identity";
        refuse(Reason::SecretInUse, message, hint)
    }

    pub fn is_no_identity(&self) -> Halt {
        let message = format!("there is no {}", self.subject());
        let hint = "reference an existing one, or ask an administrator to create it";
        refuse(Reason::IdentityNotFound, message, hint)
    }

    pub fn allows_no_namespace(&self) -> Halt {
        let message = format!("{} allows no namespace to use it", self.subject());
        let hint = "ask its owner to set allowedNamespaces";
        refuse(Reason::NamespaceNotAllowed, message, hint)
    }

    pub fn has_no_selector(&self, wrong: &InvalidSelector) -> Halt {
        let message = format!("{} allows no namespace to use it: {wrong}", self.subject());
        let hint = "ask its owner to correct allowedNamespaces";
        refuse(Reason::NamespaceNotAllowed, message, hint)
    }

    pub fn does_not_allow(&self, namespace: &str) -> Halt {
        let message = format!("{} does not allow namespace {namespace}", self.subject());
        let hint = "ask its owner to allow this namespace, or reference a Secret of your namespace";
        refuse(Reason::NamespaceNotAllowed, message, hint)
    }

    pub fn is_not_ready(&self, trouble: Option<&str>) -> Halt {
        let why = trouble.filter(|word| is_word(word));
        let why = why.map_or_else(String::new, |word| format!(": {word}"));
        let message = format!("{} is not ready{why}", self.subject());
        let hint = format!("no change is needed here; if the identity stays so, {ASK_OWNER}");
        refuse(Reason::IdentityNotReady, message, hint)
    }

    pub fn has_no_secret(&self) -> Halt {
        let message = format!("{} is not available", self.content());
        refuse(Reason::SecretNotAvailable, message, ASK_OWNER)
    }

    pub fn has_invalid_content(&self, invalid: &InvalidContent) -> Halt {
        let message = format!("{} {invalid}", self.content());
        refuse(Reason::InvalidCredentials, message, self.repair())
    }

    pub fn names_no_endpoint(&self) -> Halt {
        let message = format!("{} names no server", self.content());
        refuse(Reason::InvalidCredentials, message, self.repair())
    }

    pub fn has_invalid_endpoints(&self, question: &Question, wrong: &InvalidEndpoint) -> Halt {
        let key = question.endpoint_key.unwrap_or_default();
        let what = match self {
            // The contents of an identity's Secret are not shown to its users.
            Self::Identity { .. } => String::new(),
            Self::Secret { .. } | Self::Operator => format!(": {wrong}"),
        };
        let message = format!(
            "{} has an invalid list of servers under {key}{what}",
            self.content()
        );
        refuse(Reason::InvalidCredentials, message, self.repair())
    }

    pub fn may_not_go_to(&self, endpoint: &Endpoint) -> Halt {
        let message = format!("{} may not be sent to {endpoint}", self.subject());
        let hint = match self {
            Self::Secret { .. } => "list this server in the Secret, or use one that it lists",
            Self::Identity { .. } => {
                "ask its owner to allow this server, or reference a Secret of your namespace"
            }
            Self::Operator => {
                "reference an identity for this server, or a Secret of your namespace"
            }
        };
        refuse(Reason::EndpointNotAllowed, message, hint)
    }

    pub fn may_not_leave_to(&self, endpoint: &Endpoint) -> Halt {
        let message = format!("no credential may be sent to {endpoint}");
        let hint = "ask the operator's administrator to allow this server";
        refuse(Reason::EndpointNotAllowed, message, hint)
    }

    fn repair(&self) -> &'static str {
        match self {
            Self::Secret { .. } => "correct the Secret",
            Self::Identity { .. } => ASK_OWNER,
            Self::Operator => "ask the operator's administrator",
        }
    }
}

pub(super) fn no_reference(question: &Question) -> Halt {
    let message = "no credential is referenced".to_owned();
    let hint = match (question.identity_kind, &question.namespace) {
        (Some(kind), Some(_)) => format!("reference {kind} or a Secret of this namespace"),
        (Some(kind), None) => format!("reference {kind}"),
        (None, _) => "reference a Secret of this namespace".to_owned(),
    };
    refuse(Reason::NoCredentials, message, hint)
}

/// Refuses a wider credential to an object that used a narrower one before.
pub(super) fn below_floor(question: &Question) -> Halt {
    let (message, hint) = match (&question.references.namespace, question.floor) {
        (Some(name), Level::Namespace) => (
            format!("the Secret {name}, which it used before, does not exist"),
            "create it again; the operator's own account is not used instead",
        ),
        _ => (
            "the credential that it used before is not referenced any more".to_owned(),
            "reference it again; no wider one is used instead",
        ),
    };
    refuse(Reason::SecretNotAvailable, message, hint)
}

fn refuse(reason: Reason, message: String, hint: impl Into<String>) -> Halt {
    let hint = Some(hint.into());
    Halt::Refuse(Refusal {
        reason,
        message,
        hint,
    })
}

/// Returns whether a word is a reason, and not a name: names of objects have no capitals.
fn is_word(word: &str) -> bool {
    word.len() <= 64
        && word.starts_with(|first: char| first.is_ascii_uppercase())
        && word.bytes().all(|one| one.is_ascii_alphanumeric())
}
