//! The defaults of what one tenant may use.

use insula_apiserver::flow_control::TenantLimits;
use insula_apiserver::registry::tenant_quota::TenantQuota;
use serde_json::{Map, Value};

use crate::tenant::amounts::Amount;
use crate::tenant::{limits, quota::Quota};

/// The defaults of what one tenant may use.
#[derive(clap::Args)]
pub struct TenantLimitArgs {
    /// Quota of tenants for fields that their spec does not set; `none` for no limit
    #[arg(long, value_name = "NAME=AMOUNT,...", default_value = "bytes=256Mi")]
    #[arg(value_parser = default_quota)]
    pub tenant_quota_default: TenantQuota,

    /// Limits of tenants for fields that their spec does not set; a rate of `none` is unlimited
    #[arg(long, value_name = "NAME=AMOUNT,...", default_value = DEFAULT_LIMITS)]
    #[arg(value_parser = default_limits)]
    pub tenant_limits_default: TenantLimits,
}

/// An API server on two cores answers about 10,000 writes a second, so that this leaves four
/// fifths of them to others. It is a hundred controllers at the default rate of client libraries.
const DEFAULT_LIMITS: &str = "requestsPerSecond=2000,burst=4000";

fn default_quota(text: &str) -> Result<TenantQuota, String> {
    if text == "none" {
        return Ok(TenantQuota::default());
    }
    let quota = Quota::parse(text).map_err(|error| error.to_string())?;
    let value = quota.value();
    let parsed = TenantQuota::parse(&value);
    for name in ["objects", "bytes", "namespaces"] {
        let is_zero = value[name] == 0 || value[name] == "0";
        if is_zero {
            return Err(format!(
                "{name}=0 would refuse every tenant; {name}=none is no limit"
            ));
        }
        if value[name].is_string() && parsed.value()[name].is_null() {
            return Err(format!("{} is not a number of {name}", value[name]));
        }
    }
    Ok(parsed)
}

/// Parses the defaults that differ from the shipped ones.
fn default_limits(text: &str) -> Result<TenantLimits, String> {
    let mut all = Map::new();
    let parse = |text| limits::parse(text).map_err(|error| error.to_string());
    for (name, amount) in parse(DEFAULT_LIMITS)?.into_iter().chain(parse(text)?) {
        match amount {
            Amount::Limit(limit) => drop(all.insert(name.to_owned(), limit)),
            Amount::Unlimited if name == "requestsPerSecond" => drop(all.remove(name)),
            Amount::Unlimited => return Err(format!("{name} cannot be unlimited")),
            Amount::Default => {}
        }
    }
    Ok(TenantLimits::parse(&Value::Object(all)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn default_quota_is_a_list_of_amounts_or_none() {
        let quota = |text| default_quota(text).map(|quota| quota.value());
        assert_eq!(
            quota("bytes=1Gi,objects=5"),
            Ok(json!({"bytes": "1Gi", "objects": 5}))
        );
        assert_eq!(quota("none"), Ok(json!({})));
        assert_eq!(quota("bytes=none"), Ok(json!({})));
        for (text, why) in [
            (
                "bytes=0",
                "bytes=0 would refuse every tenant; bytes=none is no limit",
            ),
            ("bytes=much", "\"much\" is not a number of bytes"),
            ("1Gi", "\"1Gi\" is not NAME=AMOUNT"),
        ] {
            assert_eq!(quota(text), Err(why.to_owned()), "{text}");
        }
    }

    #[test]
    fn default_limits_keep_the_shipped_rate() {
        let parsed = |limits: serde_json::Value| Ok(TenantLimits::parse(&limits));
        for (text, limits) in [
            (
                "watches=9",
                json!({"requestsPerSecond": 2000, "burst": 4000, "watches": 9}),
            ),
            (
                "requestsPerSecond=5",
                json!({"requestsPerSecond": 5, "burst": 4000}),
            ),
            ("requestsPerSecond=none", json!({"burst": 4000})),
        ] {
            assert_eq!(default_limits(text), parsed(limits), "{text}");
        }
        let why = "watches cannot be unlimited".to_owned();
        assert_eq!(default_limits("watches=none"), Err(why));
    }
}
