//! Where a watch begins, by its parameters.

use insula_core::Revision;
use insula_kinds::FieldError;
use serde_json::json;

use crate::request::query::{self, Query};
use crate::status::{Result, StatusError};

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// With the objects that exist, at the newest revision or not older than this one; `marked`
    /// asks for a bookmark at their end.
    State {
        at_least: Option<Revision>,
        marked: bool,
    },
    /// With events from now on.
    Now,
    /// With events after this revision.
    After(Revision),
}

/// Parses where the watch begins.
pub(super) fn start(query: &Query) -> Result<Start> {
    let text = query.get("resourceVersion");
    let matching = query.get("resourceVersionMatch");
    let initial = query.choice("sendInitialEvents");
    let mut errors = Vec::new();
    let mut forbid = |why: &str| errors.push(FieldError::forbidden("resourceVersionMatch", why));
    if initial.is_some() && matching != Some("NotOlderThan") {
        forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    }
    if let Some(matching) = matching {
        if initial.is_none() {
            forbid(
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            );
        }
        if matching != "NotOlderThan" {
            let (value, known) = (json!(matching), ["NotOlderThan"]);
            let error = FieldError::not_supported("resourceVersionMatch", &value, &known);
            errors.push(error);
        }
        if query.get("continue").is_some() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden("resourceVersionMatch", why));
        }
    }
    if !errors.is_empty() {
        return Err(StatusError::invalid_options("ListOptions", &errors));
    }
    let revision = text
        .map(query::revision)
        .transpose()
        .map_err(StatusError::plain_error)?;
    let given = revision.filter(|revision| *revision > Revision::ZERO);
    Ok(match (initial, revision) {
        (Some(true), _) => Start::State {
            at_least: given,
            marked: true,
        },
        (Some(false), _) => given.map_or(Start::Now, Start::After),
        (None, None) => Start::State {
            at_least: None,
            marked: false,
        },
        (None, Some(_)) => match given {
            Some(revision) => Start::After(revision),
            None => Start::State {
                at_least: Some(Revision::ZERO),
                marked: false,
            },
        },
    })
}
