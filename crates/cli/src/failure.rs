//! Failures as people see them: what was attempted, what went wrong, what to do.

use std::borrow::Cow;
use std::fmt::{self, Display};

use insula_store::Error as StoreError;

use crate::output::harmless;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hint: Option<Cow<'static, str>>,
}

impl Failure {
    /// What was attempted, and what went wrong.
    pub fn new(attempted: &str, error: impl Display) -> Self {
        Self {
            message: format!("{attempted}: {error}"),
            hint: None,
        }
    }

    /// With what to do about it.
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What went wrong, in one sentence.
    pub fn message(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
        }
    }

    /// The same for those who speak of brokers.
    pub fn into_broker_error(self) -> insula_broker::Error {
        insula_broker::Error::Invalid {
            message: self.message,
            hint: self.hint.map(Cow::into_owned),
        }
    }

    /// The store could not be opened.
    pub fn opening_store(error: &StoreError) -> Self {
        let failure = Self::new("cannot open the store", error);
        match error {
            StoreError::Locked(_) => {
                failure.hint("stop the other insula, or choose another --data-dir")
            }
            StoreError::Corrupt { .. } => failure.hint(
                "nothing was changed; restore the folder from a copy, or move it away to begin anew",
            ),
            StoreError::Full(_) => failure.hint("free some space on that disk"),
            _ => failure,
        }
    }

    /// Prints it to stderr.
    #[expect(clippy::print_stderr, reason = "this is where failures are told")]
    pub fn print(&self) {
        eprintln!("error: {}", harmless(&self.message));
        if let Some(hint) = &self.hint {
            eprintln!("hint: {}", harmless(hint));
        }
    }
}

/// With what to do about it, where that is known.
impl From<insula_broker::Error> for Failure {
    fn from(error: insula_broker::Error) -> Self {
        let failure = Self::message(error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// What went wrong, without what to do about it.
impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
