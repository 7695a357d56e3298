//! User-visible failures: the attempted operation, the problem, and a hint.

use std::borrow::Cow;
use std::fmt::{self, Display};

use insula_store::Error as StoreError;

use crate::terminal::sanitize;

/// The failure of a command.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hint: Option<Cow<'static, str>>,
    code: u8,
}

/// The exit code of failures without a code of their own.
const DEFAULT_CODE: u8 = 1;

impl Failure {
    /// Creates a failure from the attempted operation and an error.
    pub fn new(attempted: &str, error: impl Display) -> Self {
        Self {
            message: format!("{attempted}: {error}"),
            hint: None,
            code: DEFAULT_CODE,
        }
    }

    /// Adds a hint.
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Creates a failure from one sentence.
    pub fn message(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            code: DEFAULT_CODE,
        }
    }

    /// Sets the exit code.
    pub fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// Returns the exit code.
    pub const fn exit_code(&self) -> u8 {
        self.code
    }

    /// Converts it to an error of the broker crate.
    pub fn into_broker_error(self) -> insula_broker::Error {
        insula_broker::Error::Invalid {
            message: self.message,
            hint: self.hint.map(Cow::into_owned),
        }
    }

    /// Creates the failure of opening the store.
    pub fn opening_store(error: &StoreError) -> Self {
        let failure = Self::new("cannot open the store", error);
        match error {
            StoreError::Locked(_) => {
                failure.hint("stop the other insula, or choose another --data-dir")
            }
            StoreError::Corrupt { .. } => failure.hint(
                "nothing was changed; restore the folder from a backup, or move it away to start with an empty store",
            ),
            StoreError::Full(_) => failure.hint("free some space on that disk"),
            _ => failure,
        }
    }

    /// Prints it to stderr.
    #[expect(clippy::print_stderr, reason = "the one place that prints failures")]
    pub fn print(&self) {
        eprintln!("error: {}", sanitize(&self.message));
        if let Some(hint) = &self.hint {
            eprintln!("hint: {}", sanitize(hint));
        }
    }
}

/// Keeps the hint, if there is one.
impl From<insula_broker::Error> for Failure {
    fn from(error: insula_broker::Error) -> Self {
        let failure = Self::message(error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// Shows the message without the hint.
impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
