//! The claims of a verified token.

use serde_json::{Map, Value};

/// The claims of a token with a verified signature.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims(Map<String, Value>);

/// The validity times of a token, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Expiry: `exp`.
    pub expires: Option<i64>,
    /// Start of validity: `nbf`.
    pub not_before: Option<i64>,
    /// Time of issue: `iat`.
    pub issued: Option<i64>,
}

/// A claim has the wrong type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the claim {0:?} has the wrong type")]
pub struct Malformed(pub &'static str);

/// Why a token is not valid at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// It expired at this time.
    #[error("the token has expired")]
    Expired(i64),
    /// Its validity starts at this time.
    #[error("the token is not valid yet")]
    NotYetValid(i64),
    /// It was issued at this time, which is in the future.
    #[error("the token is issued in the future")]
    IssuedInFuture(i64),
}

/// Tolerated clock skew, in seconds: how much longer than its expiry a token is accepted.
pub const LEEWAY: i64 = 60;

impl Claims {
    pub(super) const fn new(members: Map<String, Value>) -> Self {
        Self(members)
    }

    /// The claim of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Returns the token's ID: `jti`.
    pub fn id(&self) -> Option<&str> {
        self.text("jti").filter(|id| !id.is_empty())
    }

    /// The claim of this name, if it is a string.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    /// The audiences; empty if the claim is missing.
    pub fn audiences(&self) -> Result<Vec<&str>, Malformed> {
        let audiences = match self.get("aud") {
            None => Some(Vec::new()),
            Some(claim) => texts(claim),
        };
        audiences.ok_or(Malformed("aud"))
    }

    /// The validity times.
    pub fn times(&self) -> Result<Times, Malformed> {
        let time = |name: &'static str| match self.get(name) {
            None => Ok(None),
            Some(claim) => seconds(claim).map(Some).ok_or(Malformed(name)),
        };
        Ok(Times {
            expires: time("exp")?,
            not_before: time("nbf")?,
            issued: time("iat")?,
        })
    }
}

impl Times {
    /// Checks that the token is valid at `now`, with a tolerance of one minute. Absent times
    /// are not checked.
    pub fn check(&self, now: i64) -> Result<(), TimeError> {
        if let Some(expires) = self.expires
            && now > expires.saturating_add(LEEWAY)
        {
            return Err(TimeError::Expired(expires));
        }
        let soon = now.saturating_add(LEEWAY);
        if let Some(not_before) = self.not_before
            && soon < not_before
        {
            return Err(TimeError::NotYetValid(not_before));
        }
        match self.issued {
            Some(issued) if soon < issued => Err(TimeError::IssuedInFuture(issued)),
            _ => Ok(()),
        }
    }
}

/// A string or a list of strings.
pub fn texts(claim: &Value) -> Option<Vec<&str>> {
    match claim {
        Value::String(text) => Some(vec![text]),
        Value::Array(items) => items.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

/// Parses a time, which may be fractional.
fn seconds(claim: &Value) -> Option<i64> {
    // The cast saturates, so huge values become the latest possible time.
    let whole = |number: f64| number.floor() as i64;
    claim.as_i64().or_else(|| claim.as_f64().map(whole))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(value: Value) -> Claims {
        let Value::Object(members) = value else {
            panic!("{value} is no object");
        };
        Claims::new(members)
    }

    #[test]
    fn token_is_valid_between_its_times_with_a_minute_of_tolerance() {
        for (said, now, expected) in [
            (json!({}), 0, Ok(())),
            (json!({"exp": 1000}), 1000, Ok(())),
            (json!({"exp": 1000}), 1060, Ok(())),
            (json!({"exp": 1000}), 1061, Err(TimeError::Expired(1000))),
            (json!({"exp": 1000.9}), 1061, Err(TimeError::Expired(1000))),
            (
                json!({"exp": -1.5e300}),
                0,
                Err(TimeError::Expired(i64::MIN)),
            ),
            (json!({"exp": 1e300}), i64::MAX, Ok(())),
            (json!({"exp": u64::MAX}), i64::MAX, Ok(())),
            (json!({"nbf": 1000}), 940, Ok(())),
            (json!({"nbf": 1000}), 939, Err(TimeError::NotYetValid(1000))),
            (
                json!({"nbf": 1e300}),
                0,
                Err(TimeError::NotYetValid(i64::MAX)),
            ),
            (json!({"iat": 1000}), 940, Ok(())),
            (
                json!({"iat": 1000}),
                939,
                Err(TimeError::IssuedInFuture(1000)),
            ),
            (json!({"iat": 1000}), i64::MAX, Ok(())),
            (json!({"exp": 2000, "nbf": 1000, "iat": 1000}), 1500, Ok(())),
            (
                json!({"exp": 100, "nbf": 9000, "iat": 9000}),
                1500,
                Err(TimeError::Expired(100)),
            ),
        ] {
            let times = claims(said.clone()).times().unwrap();
            assert_eq!(times.check(now), expected, "{said} at {now}");
        }
    }

    #[test]
    fn claim_of_the_wrong_type_is_not_treated_as_absent() {
        for wrong in [
            json!("1000"),
            json!(null),
            json!([1000]),
            json!({}),
            json!(true),
        ] {
            for name in ["exp", "nbf", "iat"] {
                let read = claims(json!({name: wrong})).times();
                assert_eq!(read, Err(Malformed(name)), "{name}: {wrong}");
            }
        }
        for wrong in [json!(null), json!(1), json!({"a": "b"}), json!(["a", 1])] {
            let said = claims(json!({"aud": wrong}));
            assert_eq!(said.audiences(), Err(Malformed("aud")), "{wrong}");
        }
        for (said, expected) in [
            (json!({}), &[][..]),
            (json!({"aud": "a"}), &["a"]),
            (json!({"aud": []}), &[]),
            (json!({"aud": ["a", "b"]}), &["a", "b"]),
        ] {
            assert_eq!(claims(said).audiences().unwrap(), expected);
        }
    }
}
