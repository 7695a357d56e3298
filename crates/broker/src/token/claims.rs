//! The claims of a token. Nothing is verified here: the server that receives the token does
//! that. The claims only decide whether a token is passed on as that of an account.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// The prefix of the claims of tokens that are stored in Secrets.
const STORED_PREFIX: &str = "kubernetes.io/serviceaccount/";

/// The claims that identify the account of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    /// The user name of the bearer: `system:serviceaccount:NAMESPACE:NAME`.
    pub(crate) subject: String,
    /// The UID of the account.
    pub(crate) uid: String,
    /// The Secret that the token is stored in or bound to, if any.
    pub(crate) secret: Option<String>,
}

impl Claims {
    /// Decodes the claims of a service account token.
    pub(crate) fn of(token: &[u8]) -> Option<Self> {
        let token = std::str::from_utf8(token).ok()?.trim();
        let mut parts = token.split('.');
        let (Some(_), Some(claims), Some(_), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
        let claims: Value = serde_json::from_slice(&claims).ok()?;
        // Stored tokens have flat claims, requested ones nested claims. A token with both must
        // not contradict itself.
        let stored = |word: &str| claims[format!("{STORED_PREFIX}{word}")].as_str();
        let bound = |branch: &str, leaf: &str| claims["kubernetes.io"][branch][leaf].as_str();
        let uid = one(
            stored("service-account.uid"),
            bound("serviceaccount", "uid"),
        )?;
        let secret = one(stored("secret.name"), bound("secret", "name"))?;
        Some(Self {
            subject: claims["sub"].as_str()?.to_owned(),
            uid: uid?.to_owned(),
            secret: secret.map(str::to_owned),
        })
    }

    /// Returns whether the token is of this account, and of this UID if it is given.
    pub(crate) fn match_account(&self, namespace: &str, account: &str, uid: Option<&str>) -> bool {
        self.subject == format!("system:serviceaccount:{namespace}:{account}")
            && uid.is_none_or(|uid| uid == self.uid)
    }

    /// Returns whether the token is not bound to another Secret: API servers reject such a
    /// token as soon as that Secret is deleted.
    pub(crate) fn may_be_stored_in(&self, secret: &str) -> bool {
        self.secret.as_deref().is_none_or(|named| named == secret)
    }
}

/// Returns the common or only value; `None` if the two differ.
fn one<'a>(stored: Option<&'a str>, bound: Option<&'a str>) -> Option<Option<&'a str>> {
    match (stored, bound) {
        (Some(stored), Some(bound)) if stored != bound => None,
        (stored, bound) => Some(stored.or(bound)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const UID: &str = "kubernetes.io/serviceaccount/service-account.uid";
    const SECRET: &str = "kubernetes.io/serviceaccount/secret.name";

    fn token(claims: &Value) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn r37_claims_are_read_from_stored_and_requested_tokens() {
        let stored = json!({
            "iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:n:a",
            UID: "u", SECRET: "s", "kubernetes.io/serviceaccount/namespace": "n",
        });
        let bound = json!({"sub": "system:serviceaccount:n:a", "kubernetes.io": {
            "namespace": "n", "serviceaccount": {"name": "a", "uid": "u"},
            "secret": {"name": "s", "uid": "v"},
        }});
        for claims in [&stored, &bound] {
            let claims = Claims::of(token(claims).as_bytes()).unwrap();
            for (namespace, account, uid, are) in [
                ("n", "a", Some("u"), true),
                ("n", "a", None, true),
                ("n", "a", Some("v"), false),
                ("m", "a", Some("u"), false),
                ("n", "b", Some("u"), false),
            ] {
                assert_eq!(
                    claims.match_account(namespace, account, uid),
                    are,
                    "{claims:?}"
                );
            }
            assert!(
                claims.may_be_stored_in("s") && !claims.may_be_stored_in("t"),
                "{claims:?}"
            );
        }
        let free = json!({"sub": "s", "kubernetes.io": {"serviceaccount": {"uid": "u"}}});
        let claims = Claims::of(token(&free).as_bytes()).unwrap();
        assert!(claims.may_be_stored_in("any"));
    }

    #[test]
    fn invalid_tokens_have_no_claims() {
        let two = json!({
            "sub": "s", UID: "u", "kubernetes.io": {"serviceaccount": {"uid": "v"}},
        });
        let secrets = json!({
            "sub": "s", UID: "u", SECRET: "a", "kubernetes.io": {"secret": {"name": "b"}},
        });
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for other in [
            String::new(),
            "tok.en.sig".to_owned(),
            "a.b".to_owned(),
            token(&json!({"sub": "s"})),
            token(&json!({UID: "u"})),
            token(&json!({"sub": 1, UID: "u"})),
            token(&json!([])),
            token(&two),
            token(&secrets),
            format!("{}.x", token(&json!({"sub": "s", UID: "u"}))),
            format!("a.{}.c", URL_SAFE_NO_PAD.encode(deep)),
        ] {
            assert_eq!(Claims::of(other.as_bytes()), None, "{other:.60}");
        }
        assert_eq!(Claims::of(b"\xff.\xff.\xff"), None);
    }
}
