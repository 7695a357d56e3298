//! The audit log: which requests are recorded, and where.
//!
//! Every request has a [`Record`] from its start. The stages of the pipeline add to it, and an
//! event is written when the request ends: also if it fails, if the client disconnects before
//! the response, and if the handler panics. With a [`Policy`] a request may have events at other
//! stages, or none.
//!
//! No event contains a header with credentials, and none contains any part of a body unless the
//! policy asks for it.

mod backend;
mod body;
mod event;
mod file;
mod line;
pub mod policy;
mod read;
mod record;
mod sink;
mod truncation;
mod uri;
mod webhook;

use http::{HeaderMap, HeaderValue};
use uuid::Uuid;

pub use self::backend::{Audit, Stats};
pub use self::file::Rotation;
pub use self::policy::{Policy, PolicyError};
pub use self::read::{EventQuery, FoundEvents, read};
pub use self::record::{Decision, Record};
pub use self::sink::{Counts, Sink};
pub use self::truncation::Truncation;
pub use self::webhook::{Throttle, Webhook, WebhookCounts, WebhookMode, WebhookSettings};

/// Returns the audit ID of a request: the client's own if it is a plain name, so that it
/// cannot inject anything into the log, or else a new one.
pub fn id(headers: &HeaderMap) -> HeaderValue {
    const MAX_ID_LENGTH: usize = 64;
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let sane = |id: &&HeaderValue| {
        let id = id.as_bytes();
        (1..=MAX_ID_LENGTH).contains(&id.len()) && id.iter().all(inner)
    };
    let given = headers.get("audit-id").filter(sane).cloned();
    given.unwrap_or_else(|| {
        let mut text = [0; 36];
        let text = Uuid::new_v4().hyphenated().encode_lower(&mut text);
        HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("-"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_id_of_the_client_is_used_if_it_is_a_plain_name() {
        let long = "a".repeat(64);
        let longer = "a".repeat(65);
        for (given, taken) in [
            ("7c2d8e5a-4a5f-4a3f-9a01-3d5f0b8f7f10", true),
            ("A-1", true),
            (long.as_str(), true),
            (longer.as_str(), false),
            ("", false),
            ("a b", false),
            ("a\"b", false),
            ("{\"a\":1}", false),
            ("Bearer:x", false),
            ("a_b", false),
            ("a.b", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("audit-id", HeaderValue::from_str(given).unwrap());
            let id = id(&headers);
            assert_eq!(id == given, taken, "{given:?} became {id:?}");
            assert!(taken || id.len() == 36, "{given:?} became {id:?}");
        }
        let mut bytes = HeaderMap::new();
        bytes.insert("audit-id", HeaderValue::from_bytes(b"a\xff").unwrap());
        assert_eq!(id(&bytes).len(), 36);
        assert_ne!(id(&HeaderMap::new()), id(&HeaderMap::new()));
    }
}
