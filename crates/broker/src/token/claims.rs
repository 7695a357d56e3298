//! What a token says of itself. Nothing is verified here: that is for the server that it is
//! shown to. But a token that says it is another's is not handed out as somebody's own.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// What tokens of accounts that are kept in Secrets begin their claims with.
const KEPT: &str = "kubernetes.io/serviceaccount/service-account.uid";

/// Whose token it says that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    /// As whom its bearer is known: `system:serviceaccount:NAMESPACE:NAME`.
    pub(crate) subject: String,
    /// Which of all accounts that ever had the name.
    pub(crate) uid: String,
}

impl Claims {
    /// Of a token, if it is one of an account.
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
        // Kept tokens say it in one word, those that are asked for in a tree. One that says
        // both must not say two things.
        let (kept, bound) = (
            claims[KEPT].as_str(),
            claims["kubernetes.io"]["serviceaccount"]["uid"].as_str(),
        );
        let uid = match (kept, bound) {
            (Some(kept), Some(bound)) if kept != bound => return None,
            (kept, bound) => kept.or(bound)?,
        };
        let subject = claims["sub"].as_str()?;
        Some(Self {
            subject: subject.to_owned(),
            uid: uid.to_owned(),
        })
    }

    /// Whether it is of that account of a namespace; of this one among all of its name, if it
    /// is known which.
    pub(crate) fn are_of(&self, namespace: &str, account: &str, uid: Option<&str>) -> bool {
        self.subject == format!("system:serviceaccount:{namespace}:{account}")
            && uid.is_none_or(|uid| uid == self.uid)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn token(claims: &Value) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn r37_a_token_says_whose_it_is_in_the_words_of_either_kind() {
        let kept = json!({
            "iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:n:a",
            KEPT: "u", "kubernetes.io/serviceaccount/namespace": "n",
        });
        let bound = json!({
            "sub": "system:serviceaccount:n:a",
            "kubernetes.io": {"namespace": "n", "serviceaccount": {"name": "a", "uid": "u"}},
        });
        for claims in [&kept, &bound] {
            let claims = Claims::of(token(claims).as_bytes()).unwrap();
            for (namespace, account, uid, are) in [
                ("n", "a", Some("u"), true),
                ("n", "a", None, true),
                ("n", "a", Some("v"), false),
                ("m", "a", Some("u"), false),
                ("n", "b", Some("u"), false),
            ] {
                assert_eq!(claims.are_of(namespace, account, uid), are, "{claims:?}");
            }
        }
    }

    #[test]
    fn what_is_no_token_of_an_account_says_nothing() {
        let two = json!({
            "sub": "s", KEPT: "u", "kubernetes.io": {"serviceaccount": {"uid": "v"}},
        });
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for other in [
            String::new(),
            "tok.en.sig".to_owned(),
            "a.b".to_owned(),
            token(&json!({"sub": "s"})),
            token(&json!({KEPT: "u"})),
            token(&json!({"sub": 1, KEPT: "u"})),
            token(&json!([])),
            token(&two),
            format!("{}.x", token(&json!({"sub": "s", KEPT: "u"}))),
            format!("a.{}.c", URL_SAFE_NO_PAD.encode(deep)),
        ] {
            assert_eq!(Claims::of(other.as_bytes()), None, "{other:.60}");
        }
        assert_eq!(Claims::of(b"\xff.\xff.\xff"), None);
    }
}
