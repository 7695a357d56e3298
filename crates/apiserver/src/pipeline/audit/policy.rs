//! The audit policy: at which level, and at which stages, requests are recorded.
//!
//! The file is a `Policy` of `audit.k8s.io/v1`. The first rule that matches a request decides;
//! a request that no rule matches is not recorded.

mod file;
mod rule;
#[cfg(test)]
mod tests;

pub use self::file::PolicyError;
pub use self::rule::{Attributes, Requested};

use self::rule::Rule;

/// How much of a request is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    None,
    /// The user, the object, the outcome: no bodies.
    Metadata,
    /// The same, and the body of the request.
    Request,
    /// The same, and the bodies of request and response.
    RequestResponse,
}

/// A stage of a request that has an event of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The caller is authenticated, and nothing is decided yet.
    RequestReceived,
    /// The response of a long-running request has started.
    ResponseStarted,
    /// The response is complete.
    ResponseComplete,
    /// The server failed while it responded.
    Panic,
}

/// A set of stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages(u8);

/// What is recorded of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestAudit {
    /// How much of it.
    pub level: Level,
    /// The stages without an event.
    pub omitted: Stages,
    /// Whether bodies are recorded without `metadata.managedFields`.
    pub omit_managed_fields: bool,
}

/// A policy, compiled.
#[derive(Debug)]
pub struct Policy {
    rules: Vec<Rule>,
    /// What is recorded of requests that no rule matches.
    unmatched: RequestAudit,
}

impl Policy {
    /// Returns what is recorded of a request.
    pub fn evaluate(&self, request: &Attributes<'_>) -> RequestAudit {
        let matching = self.rules.iter().find(|rule| rule.matches(request));
        matching.map_or(self.unmatched, |rule| rule.audit)
    }

    /// Whether there are requests whose event is recorded before they are served.
    pub fn records_received(&self) -> bool {
        let records = |audit: &RequestAudit| {
            audit.level != Level::None && !audit.omitted.contains(Stage::RequestReceived)
        };
        self.rules.iter().any(|rule| records(&rule.audit))
    }
}

impl Level {
    /// All levels.
    pub const ALL: [Self; 4] = [
        Self::None,
        Self::Metadata,
        Self::Request,
        Self::RequestResponse,
    ];

    /// The name in a policy and in events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == text)
    }
}

impl Stage {
    const ALL: [Self; 4] = [
        Self::RequestReceived,
        Self::ResponseStarted,
        Self::ResponseComplete,
        Self::Panic,
    ];

    /// The name in a policy and in events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.as_str() == text)
    }
}

impl Stages {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Whether the set has the stage.
    pub const fn contains(self, stage: Stage) -> bool {
        self.0 & (1 << stage as u8) != 0
    }

    /// The set with one more stage.
    #[must_use]
    pub const fn with(self, stage: Stage) -> Self {
        Self(self.0 | (1 << stage as u8))
    }

    const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
