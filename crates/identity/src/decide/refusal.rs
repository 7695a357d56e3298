//! Refusals for the owner of an object: what to do, without details of other namespaces. The
//! location and the name of an identity's Secret are not revealed.

use super::{Halt, Question, Refusal};
use crate::allowed::InvalidSelector;
use crate::claim::Owner;
use crate::endpoint::{Endpoint, InvalidEndpoint};
use crate::reason::Reason;

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

const ASK: &str = "ask whoever owns it";

impl Origin<'_> {
    /// Returns the subject of the sentence, with the object that references it if it is the
    /// parent.
    fn subject(&self) -> String {
        let by = |by: &Option<&str>| by.map_or_else(String::new, |by| format!(" that {by} names"));
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
        let message = format!("{} is in no namespace", self.subject());
        let hint = "what is in no namespace itself can only name an identity";
        refuse(Reason::SecretNotAvailable, message, hint)
    }

    pub fn is_not_there(&self, question: &Question, namespace: &str) -> Halt {
        let message = format!("{} is not in namespace {namespace}", self.subject());
        let keys = question.required.join(" and ");
        let hint = format!("create it there, with {keys}: one of another namespace is never used");
        refuse(Reason::SecretNotAvailable, message, hint)
    }

    pub fn is_held(&self, holder: &Owner) -> Halt {
        let message = format!(
            "{} is held by {} {}",
            self.subject(),
            holder.kind,
            holder.name
        );
        let hint = "a Secret serves one; make another, or share an identity";
        refuse(Reason::SecretInUse, message, hint)
    }

    pub fn is_no_identity(&self) -> Halt {
        let message = format!("there is no {}", self.subject());
        let hint = "name one that there is, or ask whoever manages them";
        refuse(Reason::IdentityNotFound, message, hint)
    }

    pub fn allows_no_namespace(&self) -> Halt {
        let message = format!("{} allows no namespace to use it", self.subject());
        let hint = "ask whoever owns it to say in allowedNamespaces who may";
        refuse(Reason::NamespaceNotAllowed, message, hint)
    }

    pub fn has_no_selector(&self, wrong: &InvalidSelector) -> Halt {
        let message = format!("{} allows no namespace to use it: {wrong}", self.subject());
        let hint = "ask whoever owns it to correct its allowedNamespaces";
        refuse(Reason::NamespaceNotAllowed, message, hint)
    }

    pub fn does_not_allow(&self, namespace: &str) -> Halt {
        let message = format!("{} does not allow namespace {namespace}", self.subject());
        let hint = "ask whoever owns it to allow this namespace, or name a Secret of your own";
        refuse(Reason::NamespaceNotAllowed, message, hint)
    }

    pub fn is_not_ready(&self, trouble: Option<&str>) -> Halt {
        let why = trouble.filter(|word| is_word(word));
        let why = why.map_or_else(String::new, |word| format!(": {word}"));
        let message = format!("{} is not ready{why}", self.subject());
        let hint = format!("nothing has to be done here once it is; if it stays so, {ASK}");
        refuse(Reason::IdentityNotReady, message, hint)
    }

    pub fn has_no_secret(&self) -> Halt {
        let message = format!("{} is not available", self.content());
        refuse(Reason::SecretNotAvailable, message, ASK)
    }

    pub fn lacks(&self, keys: &[&str]) -> Halt {
        let message = format!(
            "{} has nothing under {}",
            self.content(),
            keys.join(" and ")
        );
        refuse(Reason::InvalidCredentials, message, self.repair())
    }

    pub fn has_invalid_endpoints(&self, question: &Question, wrong: &InvalidEndpoint) -> Halt {
        let key = question.endpoint_key.unwrap_or_default();
        let what = match self {
            // The contents of an identity's Secret are not shown to its users.
            Self::Identity { .. } => "which is no list of hosts".to_owned(),
            Self::Secret { .. } | Self::Operator => format!("and {wrong}"),
        };
        let message = format!(
            "{} says under {key} where it may be sent, {what}",
            self.content()
        );
        refuse(Reason::InvalidCredentials, message, self.repair())
    }

    pub fn may_not_go_to(&self, endpoint: &Endpoint) -> Halt {
        let message = format!("{} may not be sent to {endpoint}", self.subject());
        let hint = match self {
            Self::Secret { .. } => "name this server in the Secret, or use the one that it names",
            Self::Identity { .. } => {
                "ask whoever owns it to allow this server, or name a Secret of your own"
            }
            Self::Operator => "name an identity for this server, or a Secret of your own",
        };
        refuse(Reason::EndpointNotAllowed, message, hint)
    }

    pub fn may_not_leave_to(&self, endpoint: &Endpoint) -> Halt {
        let message = format!("nothing may be sent to {endpoint}");
        let hint = "ask whoever runs the operator to allow this server";
        refuse(Reason::EndpointNotAllowed, message, hint)
    }

    fn repair(&self) -> &'static str {
        match self {
            Self::Secret { .. } => "correct the Secret",
            Self::Identity { .. } => ASK,
            Self::Operator => "ask whoever runs the operator",
        }
    }
}

pub(super) fn no_reference(question: &Question) -> Halt {
    let message = "nothing says whose credentials to use".to_owned();
    let kind = question.identity_kind;
    let hint = match question.namespace {
        Some(_) => format!("name {kind} or a Secret of this namespace"),
        None => format!("name {kind}"),
    };
    refuse(Reason::NoCredentials, message, hint)
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
