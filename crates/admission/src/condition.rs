//! Conditions that a request must meet before a webhook or a policy looks at it.

use insula_kinds::{Object, Value};

use crate::request::{Request, Subject, Target};
use crate::webhook::FailurePolicy;

/// What expressions see of a request.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The request.
    pub request: &'a Request<'a>,
    /// As what it was matched.
    pub target: &'a Target,
    /// What is written, as that.
    pub subject: Subject<'a>,
    /// The namespace that it is in, if it is in one.
    pub namespace: Option<&'a Object>,
}

/// Conditions, all of which must hold.
#[derive(Debug)]
pub(crate) struct Conditions {
    sources: Vec<String>,
    failure: FailurePolicy,
}

/// Whether conditions hold.
pub(crate) enum Met {
    Yes,
    No,
    /// It cannot be told, and this is why.
    Failed(String),
}

impl Conditions {
    pub fn of_webhook(list: &Value, failure: FailurePolicy) -> Self {
        let list = list.as_array().map_or(&[][..], Vec::as_slice).iter();
        Self {
            sources: list
                .map(|one| one["expression"].as_str().unwrap_or_default().to_owned())
                .collect(),
            failure,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    pub fn met(&self, _context: &Context<'_>) -> Met {
        match self.failure {
            _ if self.is_empty() => Met::Yes,
            FailurePolicy::Ignore => Met::No,
            FailurePolicy::Fail => Met::Failed("expressions cannot be evaluated yet".to_owned()),
        }
    }
}
