//! Operations in progress as the text of an annotation.
//!
//! The text is that of the SDK for Go, so that an operation that one operator has started is
//! continued by the other when users switch.

use std::fmt;

use serde_json::{Value, json};

use super::operation::Method;
use crate::entra::base_url::BaseUrl;

/// The maximum length of a URL in bytes. All annotations of an object have 256 KiB.
pub(super) const MAX_URL_BYTES: usize = 64 << 10;

/// An operation in progress. It has URLs that are signed, so `Debug` redacts them.
#[derive(Clone, PartialEq, Eq)]
pub struct ResumeToken {
    pub(super) method: Method,
    pub(super) style: Style,
    /// The path and query that is polled, at the server of the operation.
    pub(super) poll: String,
    /// The path and query of the resource, if it is known.
    pub(super) original: Option<String>,
    /// The last known state.
    pub(super) state: String,
}

/// How an operation is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// The header `Azure-AsyncOperation` names an object with a `status`.
    AsyncOperation,
    /// The header `Operation-Location` does.
    OperationLocation,
    /// The header `Location` names a URL that answers with 202 until the operation has ended.
    Location,
    /// The resource has a `provisioningState`.
    Body,
}

/// Why the text of an annotation is not an operation of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the annotation with the operation in progress is invalid")]
pub struct InvalidToken;

impl ResumeToken {
    /// Returns the method that started the operation.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Returns whether the polled URL is of a subscription, or of none. Users can edit annotations,
    /// and the credential may be good for other subscriptions too.
    pub fn is_of_subscription(&self, subscription: &str) -> bool {
        let path = self.poll.split('?').next().unwrap_or_default();
        let mut segments = path.split('/');
        let is_any = |segment: &str| segment.eq_ignore_ascii_case("subscriptions");
        match segments.find(|segment| is_any(segment)) {
            None => !path.contains('%'),
            Some(_) => segments
                .next()
                .is_some_and(|named| named.eq_ignore_ascii_case(subscription)),
        }
    }

    /// Returns the text for an annotation, which is secret: it has signed URLs.
    pub fn to_text(&self, server: &BaseUrl) -> String {
        let poll = server.absolute(&self.poll);
        let original = self.original.as_deref().map(|path| server.absolute(path));
        let (method, state) = (self.method.http(), &self.state);
        let token = match self.style {
            Style::AsyncOperation => json!({
                "asyncURL": poll, "locURL": "", "origURL": original.unwrap_or_default(),
                "method": method.as_str(), "finalState": "", "state": state,
            }),
            Style::OperationLocation => json!({
                "oplocURL": poll, "locURL": "", "origURL": original.unwrap_or_default(),
                "method": method.as_str(), "finalState": "", "resultPath": "", "state": state,
            }),
            Style::Location => json!({"type": "loc", "pollURL": poll, "state": state}),
            Style::Body => json!({"type": "body", "pollURL": poll, "state": state}),
        };
        json!({"type": self.method.token_type(), "token": token}).to_string()
    }

    /// Parses the texts of both annotations. Only URLs of the server are accepted: users can edit
    /// annotations, and a token is sent with each poll.
    ///
    /// # Errors
    ///
    /// If it is not an operation of this server.
    pub fn parse(poller_id: &str, text: &str, server: &BaseUrl) -> Result<Self, InvalidToken> {
        let method = Method::of_poller_id(poller_id).ok_or(InvalidToken)?;
        let wrapper: Value = serde_json::from_str(text).map_err(|_| InvalidToken)?;
        if wrapper["type"].as_str() != Some(method.token_type()) {
            return Err(InvalidToken);
        }
        let token = &wrapper["token"];
        let styles = [
            ("asyncURL", Style::AsyncOperation),
            ("oplocURL", Style::OperationLocation),
        ];
        let styled = styles.iter().find(|(key, _)| token[*key].is_string());
        let (key, style) = match (styled, token["type"].as_str()) {
            (Some((key, style)), _) => (*key, *style),
            (None, Some("loc")) => ("pollURL", Style::Location),
            (None, Some("body")) => ("pollURL", Style::Body),
            (None, _) => return Err(InvalidToken),
        };
        let url = token[key].as_str().filter(|url| url.len() <= MAX_URL_BYTES);
        let poll = server.path_within(url.ok_or(InvalidToken)?);
        let original = token["origURL"].as_str();
        Ok(Self {
            method,
            style,
            poll: poll.map_err(|_| InvalidToken)?,
            original: original.and_then(|url| server.path_within(url).ok()),
            state: token["state"].as_str().unwrap_or_default().to_owned(),
        })
    }
}

impl fmt::Debug for ResumeToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ResumeToken")
            .field("method", &self.method)
            .field("style", &self.style)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_of_another_subscription_is_told_apart() {
        for (poll, expected) in [
            (
                "/subscriptions/own/providers/P/operations/1?api-version=1",
                true,
            ),
            ("/Subscriptions/OWN/resourceGroups/g", true),
            ("/base/subscriptions/own/x", true),
            ("/providers/P/operations/1?t=/subscriptions/other", true),
            ("/subscriptions/other/providers/P/operations/1", false),
            ("/subscriptions/own-2/x", false),
            ("/subscriptions", false),
            ("/%73ubscriptions/other/x", false),
        ] {
            let token = ResumeToken {
                method: Method::CreateOrUpdate,
                style: Style::Body,
                poll: poll.to_owned(),
                original: None,
                state: String::new(),
            };
            assert_eq!(token.is_of_subscription("own"), expected, "{poll}");
        }
    }
}
