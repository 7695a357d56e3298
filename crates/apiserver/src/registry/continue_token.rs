//! Continue tokens: they go on with one list, in one space, and nowhere else: not in the next
//! space of that name either.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use insula_core::{Revision, Space, Spaces};
use ring::hmac;
use serde::{Deserialize, Serialize};

use crate::registry::resource::Resource;
use crate::status::{Result, StatusError};

/// Signs and checks continue tokens.
#[derive(Debug)]
pub struct ContinueTokens {
    key: hmac::Key,
}

/// Where a list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The revision of the list; `None` goes on with what is there now.
    pub revision: Option<Revision>,
    /// The last key that was sent.
    pub after: String,
    /// How many come after it at that revision, if somebody counted.
    pub left: Option<usize>,
}

/// The list that a token belongs to.
#[derive(Clone, Copy, Debug)]
pub struct ListScope<'a> {
    /// Of which kind.
    pub kind: &'a Resource,
    /// In which spaces.
    pub spaces: &'a Spaces,
    /// The UID of the space's tenant, if it is one space: names are given again.
    pub tenant_uid: &'a str,
    /// In which namespace.
    pub namespace: Option<&'a str>,
}

/// The same members as Kubernetes' own, and a seal.
#[derive(Serialize, Deserialize)]
struct Wire {
    v: String,
    rv: i64,
    start: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<usize>,
    #[serde(default)]
    seal: String,
}

impl ContinueTokens {
    /// Tokens of servers that share the secret are good for each other.
    pub fn new(secret: &[u8]) -> Self {
        // A key of its own, so that the secret may serve other purposes too.
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let own = hmac::sign(&secret, b"insula continue tokens");
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, own.as_ref()),
        }
    }

    /// The token that goes on there.
    pub fn issue(&self, list: ListScope<'_>, resume: &Resume) -> String {
        let rv = resume.revision.map_or(-1, |revision| revision.get() as i64);
        let seal = hmac::sign(&self.key, &signed(list, rv, &resume.after, resume.left));
        let wire = Wire {
            v: "meta.k8s.io/v1".to_owned(),
            rv,
            start: format!("/{}\u{0}", resume.after),
            left: resume.left,
            seal: URL_SAFE_NO_PAD.encode(&seal.as_ref()[..16]),
        };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).unwrap_or_default())
    }

    /// What a token says, if it was made for this list.
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
        let seal = hmac::sign(&self.key, &signed(list, wire.rv, after, wire.left));
        let given = URL_SAFE_NO_PAD.decode(&wire.seal).unwrap_or_default();
        if !same(&seal.as_ref()[..16], &given) {
            return Err(unreadable("it was not made for this list"));
        }
        let revision = u64::try_from(wire.rv).ok().map(Revision::new);
        Ok(Resume {
            revision,
            after: after.to_owned(),
            left: wire.left,
        })
    }
}

/// What is sealed: everything that makes the token this list's.
fn signed(list: ListScope<'_>, rv: i64, after: &str, left: Option<usize>) -> Vec<u8> {
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
        after,
        &left.map(|left| left.to_string()).unwrap_or_default(),
    ];
    let mut text = rv.to_be_bytes().to_vec();
    for part in parts {
        text.extend_from_slice(&(part.len() as u64).to_be_bytes());
        text.extend_from_slice(part.as_bytes());
    }
    text
}

/// In the words of Go's decoder.
fn not_base64(token: &str, error: base64::DecodeError) -> String {
    use base64::DecodeError::{InvalidByte, InvalidLastSymbol, InvalidLength, InvalidPadding};
    let at = match error {
        InvalidByte(at, _) | InvalidLastSymbol(at, _) => at,
        InvalidLength(_) | InvalidPadding => token.len(),
    };
    format!("illegal base64 data at input byte {at}")
}

/// In the words of Go's decoder, as far as anybody meets them.
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

/// Compares without telling where they differ.
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
    fn a_token_is_good_for_its_own_list_only() {
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
            let refusal = tokens.verify(other, &token).unwrap_err();
            assert_eq!(refusal.code, 400, "{other:?}");
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
    fn a_forged_token_is_refused() {
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
