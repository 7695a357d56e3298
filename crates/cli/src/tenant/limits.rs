//! Limits of tenants' requests on the command line.

use insula_apiserver::flow_control::LimitedResource;
use serde_json::{Map, Value};

use super::amounts::{self, Amount, AmountName, InvalidAmounts};

/// Changes to the limits of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits(Vec<(&'static str, Amount)>);

/// The errors of limits.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLimits {
    /// The list cannot be parsed.
    #[error(transparent)]
    Amounts(#[from] InvalidAmounts),
    /// A limit is zero.
    #[error("{0} must be greater than zero")]
    Zero(&'static str),
    /// A limit cannot be switched off.
    #[error("{0} cannot be unlimited: the server has no more; name a larger number")]
    Unlimited(&'static str),
}

impl Limits {
    /// Parses `watches=100,requestsPerSecond=50`.
    pub fn parse(text: &str) -> Result<Self, InvalidLimits> {
        let limits = parse(text)?;
        let unlimited = limits
            .iter()
            .find(|(_, amount)| *amount == Amount::Unlimited);
        match unlimited {
            Some((name, _)) => Err(InvalidLimits::Unlimited(name)),
            None => Ok(Self(limits)),
        }
    }

    /// Applies the changes to limits in the form of a tenant's spec.
    pub fn apply_to(&self, limits: &Value) -> Value {
        let mut limits = limits.as_object().cloned().unwrap_or_default();
        for (name, amount) in &self.0 {
            limits.remove(*name);
            if let Amount::Limit(limit) = amount {
                limits.insert((*name).to_owned(), limit.clone());
            }
        }
        Value::Object(limits)
    }

    /// Returns the limits as in the tenant's spec.
    pub fn value(&self) -> Value {
        self.apply_to(&Value::Object(Map::new()))
    }
}

/// Parses a list of limits.
pub fn parse(text: &str) -> Result<Vec<(&'static str, Amount)>, InvalidLimits> {
    let names = LimitedResource::ALL.map(|resource| AmountName {
        field: resource.field(),
        is_bytes: resource.is_bytes(),
    });
    let limits = amounts::parse(text, &names)?;
    let is_zero = |amount: &Amount| match amount {
        Amount::Limit(limit) => limit.as_u64() == Some(0) || limit.as_str() == Some("0"),
        Amount::Unlimited | Amount::Default => false,
    };
    match limits.iter().find(|(_, amount)| is_zero(amount)) {
        Some((name, _)) => Err(InvalidLimits::Zero(name)),
        None => Ok(limits),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn limits_parse_names_and_amounts() {
        let limits = Limits::parse("watches=100,unsentBytes=16Mi").unwrap();
        assert_eq!(
            limits.value(),
            json!({"watches": 100, "unsentBytes": "16Mi"})
        );
        let changed = Limits::parse("watches=default,burst=5").unwrap();
        assert_eq!(
            changed.apply_to(&limits.value()),
            json!({"unsentBytes": "16Mi", "burst": 5})
        );
        for (text, why) in [
            ("watches", "\"watches\" is not NAME=AMOUNT"),
            ("watches=many", "\"many\" is not a number of watches"),
            ("watches=0", "watches must be greater than zero"),
            ("unsentBytes=0", "unsentBytes must be greater than zero"),
            (
                "watches=none",
                "watches cannot be unlimited: the server has no more; name a larger number",
            ),
            (
                "pods=1",
                "\"pods\" is not a limit; the limits are requestsPerSecond, burst, reads, \
                 heavyReads, writes, requestBytes, watches, connections, unsentBytes",
            ),
        ] {
            assert_eq!(Limits::parse(text).unwrap_err().to_string(), why, "{text}");
        }
    }
}
