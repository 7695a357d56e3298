//! Continue tokens of lists. A token is valid for one list in one space only, and not in a
//! later space of the same name. It expires five minutes after the list began, as the history
//! does that it needs, also on a server on which nothing is written.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use insula_core::{Revision, Space, Spaces};
use ring::hmac;
use serde::{Deserialize, Serialize};

use crate::registry::resource::Resource;
use crate::status::{Result, StatusError};

/// Issues and verifies continue tokens.
#[derive(Debug)]
pub struct ContinueTokens {
    key: hmac::Key,
    /// How many seconds its clock is ahead, in tests.
    clock_offset: AtomicI64,
}

/// The position at which a list continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The revision of the list; `None` continues at the current revision.
    pub revision: Option<Revision>,
    /// The last key that was sent.
    pub after: String,
    /// The number of remaining objects at that revision, if it was counted.
    pub left: Option<usize>,
    /// When the list began, in seconds since 1970.
    pub began: i64,
}

/// How long the pages of a list can be read at one revision: as long as history is kept.
const MAX_AGE: Duration = Duration::from_secs(300);

/// The list that a token is valid for.
#[derive(Clone, Copy, Debug)]
pub struct ListScope<'a> {
    /// The listed resource.
    pub kind: &'a Resource,
    /// The listed spaces.
    pub spaces: &'a Spaces,
    /// The UID of the space's tenant, if it is one space, because names are reused.
    pub tenant_uid: &'a str,
    /// The listed namespace.
    pub namespace: Option<&'a str>,
}

/// The members of a Kubernetes continue token, and a signature.
#[derive(Serialize, Deserialize)]
struct Wire {
    v: String,
    rv: i64,
    start: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<usize>,
    #[serde(default)]
    began: i64,
    #[serde(default)]
    seal: String,
}

impl ContinueTokens {
    /// Creates an issuer. Servers that share the secret accept each other's tokens.
    pub fn new(secret: &[u8]) -> Self {
        // A derived key, so that the secret may serve other purposes too.
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let own = hmac::sign(&secret, b"insula continue tokens");
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, own.as_ref()),
            clock_offset: AtomicI64::new(0),
        }
    }

    /// Returns the time at which a list begins, in seconds since 1970.
    pub fn now(&self) -> i64 {
        jiff::Timestamp::now().as_second() + self.clock_offset.load(Ordering::Relaxed)
    }

    /// Moves the clock, for tests.
    pub fn advance_clock(&self, by: Duration) {
        let seconds = i64::try_from(by.as_secs()).unwrap_or(i64::MAX);
        self.clock_offset.fetch_add(seconds, Ordering::Relaxed);
    }

    /// Returns the token that continues the list at this position.
    pub fn issue(&self, list: ListScope<'_>, resume: &Resume) -> String {
        let rv = resume.revision.map_or(-1, |revision| revision.get() as i64);
        let seal = hmac::sign(&self.key, &signed(list, rv, resume));
        let wire = Wire {
            v: "meta.k8s.io/v1".to_owned(),
            rv,
            start: format!("/{}\u{0}", resume.after),
            left: resume.left,
            began: resume.began,
            seal: URL_SAFE_NO_PAD.encode(&seal.as_ref()[..16]),
        };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).unwrap_or_default())
    }

    /// Returns the token that continues the list after this key at the current revision.
    pub fn issue_for_current(&self, list: ListScope<'_>, after: String) -> String {
        let resume = Resume {
            revision: None,
            after,
            left: None,
            began: self.now(),
        };
        self.issue(list, &resume)
    }

    /// Returns the position of a token, if it was issued for this list.
    ///
    /// # Errors
    ///
    /// 400 for other tokens, and 410 if the token has expired, with a token that continues the
    /// list at the current revision.
    pub fn verify(&self, list: ListScope<'_>, token: &str) -> Result<Resume> {
        let unreadable = |why: &str| {
            let message = format!("invalid continue token: continue key is not valid: {why}");
            StatusError::bad_request(message)
        };
        let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches('='));
        let bytes = bytes.map_err(|error| unreadable(&not_base64(token, error)))?;
        let wire: Wire =
            serde_json::from_slice(&bytes).map_err(|_| unreadable(&not_json(&bytes)))?;
        let after = wire.start.trim_start_matches('/').trim_end_matches('\u{0}');
        let resume = Resume {
            revision: u64::try_from(wire.rv).ok().map(Revision::new),
            after: after.to_owned(),
            left: wire.left,
            began: wire.began,
        };
        let seal = hmac::sign(&self.key, &signed(list, wire.rv, &resume));
        let given = URL_SAFE_NO_PAD.decode(&wire.seal).unwrap_or_default();
        if !same(&seal.as_ref()[..16], &given) {
            return Err(unreadable("it was not made for this list"));
        }
        let age = self.now().saturating_sub(resume.began);
        if resume.revision.is_some() && age > MAX_AGE.as_secs() as i64 {
            let current = self.issue_for_current(list, resume.after);
            return Err(StatusError::expired_token(current));
        }
        Ok(resume)
    }
}

/// Returns the signed bytes, which identify the list and the position.
fn signed(list: ListScope<'_>, rv: i64, resume: &Resume) -> Vec<u8> {
    let space = match list.spaces {
        Spaces::All => "*".to_owned(),
        Spaces::One(Space::System) => "/".to_owned(),
        Spaces::One(Space::Tenant(tenant)) => format!("/{tenant}"),
    };
    let parts = [
        &list.kind.qualified_resource(),
        &space,
        list.tenant_uid,
        list.namespace.unwrap_or("*"),
        &resume.after,
        &resume.left.map(|left| left.to_string()).unwrap_or_default(),
        &resume.began.to_string(),
    ];
    let mut text = rv.to_be_bytes().to_vec();
    for part in parts {
        text.extend_from_slice(&(part.len() as u64).to_be_bytes());
        text.extend_from_slice(part.as_bytes());
    }
    text
}

/// Returns the message of Go's base64 decoder.
fn not_base64(token: &str, error: base64::DecodeError) -> String {
    use base64::DecodeError::{InvalidByte, InvalidLastSymbol, InvalidLength, InvalidPadding};
    let at = match error {
        InvalidByte(at, _) | InvalidLastSymbol(at, _) => at,
        InvalidLength(_) | InvalidPadding => token.len(),
    };
    format!("illegal base64 data at input byte {at}")
}

/// Returns the message of Go's JSON decoder in the common cases.
fn not_json(bytes: &[u8]) -> String {
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None | Some(b'{' | b'[' | b'"' | b'-' | b'0'..=b'9') => {
            "unexpected end of JSON input".to_owned()
        }
        Some(byte) => {
            let letter = match byte {
                b'\'' => r"\'".to_owned(),
                0x20..=0x7e => char::from(*byte).to_string(),
                other => format!("\\x{other:02x}"),
            };
            format!("invalid character '{letter}' looking for beginning of value")
        }
    }
}

/// Compares in constant time.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .fold(0, |differ, (a, b)| differ | (a ^ b))
            == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use insula_kinds::kinds;

    #[test]
    fn token_is_valid_for_its_own_list_only() {
        let tokens = ContinueTokens::new(b"secret");
        let pods = &Resource::from(kinds().find("", "v1", "pods").unwrap());
        let secrets = &Resource::from(kinds().find("", "v1", "secrets").unwrap());
        let t1 = Spaces::One(Space::parse("t1").unwrap());
        let t2 = Spaces::One(Space::parse("t2").unwrap());
        let list = ListScope {
            kind: pods,
            spaces: &t1,
            tenant_uid: "uid-1",
            namespace: Some("default"),
        };
        let resume = Resume {
            revision: Some(Revision::new(7)),
            after: "default/a".to_owned(),
            left: Some(3),
            began: tokens.now(),
        };
        let token = tokens.issue(list, &resume);
        assert_eq!(tokens.verify(list, &token), Ok(resume.clone()));
        for other in [
            ListScope {
                spaces: &t2,
                ..list
            },
            ListScope {
                spaces: &Spaces::All,
                ..list
            },
            ListScope {
                spaces: &Spaces::One(Space::System),
                ..list
            },
            ListScope {
                tenant_uid: "uid-2",
                ..list
            },
            ListScope {
                kind: secrets,
                ..list
            },
            ListScope {
                namespace: None,
                ..list
            },
            ListScope {
                namespace: Some("other"),
                ..list
            },
        ] {
            let error = tokens.verify(other, &token).unwrap_err();
            assert_eq!(error.code, 400, "{other:?}");
        }
        assert_eq!(
            ContinueTokens::new(b"other")
                .verify(list, &token)
                .unwrap_err()
                .code,
            400
        );
    }

    #[test]
    fn token_expires_with_one_that_continues_at_the_current_revision() {
        let tokens = ContinueTokens::new(b"secret");
        let pods = &Resource::from(kinds().find("", "v1", "pods").unwrap());
        let list = ListScope {
            kind: pods,
            spaces: &Spaces::One(Space::System),
            tenant_uid: "",
            namespace: None,
        };
        let resume = Resume {
            revision: Some(Revision::new(7)),
            after: "default/a".to_owned(),
            left: None,
            began: tokens.now(),
        };
        let token = tokens.issue(list, &resume);
        tokens.advance_clock(MAX_AGE - Duration::from_secs(2));
        assert_eq!(tokens.verify(list, &token), Ok(resume));
        tokens.advance_clock(Duration::from_secs(3));
        let expired = tokens.verify(list, &token).unwrap_err();
        assert_eq!(expired.code, 410);
        // It continues the list however old it gets.
        tokens.advance_clock(MAX_AGE * 2);
        let resume = tokens.verify(list, &expired.proceed.unwrap()).unwrap();
        assert_eq!((resume.revision, &*resume.after), (None, "default/a"));
    }

    #[test]
    fn forged_token_is_rejected() {
        let tokens = ContinueTokens::new(b"secret");
        let pods = &Resource::from(kinds().find("", "v1", "pods").unwrap());
        let list = ListScope {
            kind: pods,
            spaces: &Spaces::One(Space::System),
            tenant_uid: "",
            namespace: None,
        };
        let forged = r#"{"v":"meta.k8s.io/v1","rv":248,"start":"/c1\u0000"}"#;
        for text in ["", "x", "!!", &URL_SAFE_NO_PAD.encode(forged)] {
            assert_eq!(tokens.verify(list, text).unwrap_err().code, 400, "{text}");
        }
    }
}
