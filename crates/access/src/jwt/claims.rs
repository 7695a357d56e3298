//! What a verified token says.

use serde_json::{Map, Value};

/// The claims of a token whose signature was verified.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims(Map<String, Value>);

/// When a token holds, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Until when: `exp`.
    pub expires: Option<i64>,
    /// From when on: `nbf`.
    pub not_before: Option<i64>,
    /// When it was made: `iat`.
    pub issued: Option<i64>,
}

/// A claim has not the type that it must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the claim {0:?} is not what it must be")]
pub struct Malformed(pub &'static str);

/// Why a token does not hold now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// It held until this time.
    #[error("the token has expired")]
    Expired(i64),
    /// It holds from this time on.
    #[error("the token is not valid yet")]
    Early(i64),
    /// It was made at this time, which is still to come.
    #[error("the token is issued in the future")]
    Future(i64),
}

/// How much clocks may differ, in seconds.
const LEEWAY: i64 = 60;

impl Claims {
    pub(super) const fn new(members: Map<String, Value>) -> Self {
        Self(members)
    }

    /// The claim of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The claim of this name, if it is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    /// Whom the token is for; nobody if it does not say.
    pub fn audiences(&self) -> Result<Vec<&str>, Malformed> {
        let audiences = match self.get("aud") {
            None => Some(Vec::new()),
            Some(claim) => texts(claim),
        };
        audiences.ok_or(Malformed("aud"))
    }

    /// When the token holds.
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
    /// Whether the token holds at `now`, give or take a minute, as far as it says when.
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
            return Err(TimeError::Early(not_before));
        }
        match self.issued {
            Some(issued) if soon < issued => Err(TimeError::Future(issued)),
            _ => Ok(()),
        }
    }
}

/// One text or a list of them.
pub fn texts(claim: &Value) -> Option<Vec<&str>> {
    match claim {
        Value::String(text) => Some(vec![text]),
        Value::Array(items) => items.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

/// A time is a number, of which some make fractions.
fn seconds(claim: &Value) -> Option<i64> {
    // One that is too large is as late as can be.
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
    fn a_token_holds_between_its_times_give_or_take_a_minute() {
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
            (json!({"nbf": 1000}), 939, Err(TimeError::Early(1000))),
            (json!({"nbf": 1e300}), 0, Err(TimeError::Early(i64::MAX))),
            (json!({"iat": 1000}), 940, Ok(())),
            (json!({"iat": 1000}), 939, Err(TimeError::Future(1000))),
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
    fn a_claim_of_the_wrong_type_is_never_taken_for_one_that_is_absent() {
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
