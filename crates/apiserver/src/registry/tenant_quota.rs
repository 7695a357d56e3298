//! The quota of a tenant: the fields in the spec of its object, and the server's defaults for the
//! fields that it does not set.

use insula_cache::Usage;
use insula_kinds::quantity::{Format, Quantity};
use insula_kinds::quota::Amounts;
use insula_kinds::{Object, Value};
use serde_json::Map;

/// The limits of a tenant's contents; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantQuota([Option<Quantity>; 4]);

/// The names of the limits, in the order of [`TenantQuota`].
pub const NAMES: [&str; 4] = ["objects", BYTES, "namespaces", "customResourceDefinitions"];

const BYTES: &str = "bytes";

/// The fields without a limit, also without the server's default.
const UNLIMITED: &str = "unlimited";

/// The distance to a limit below which a tenant's writes are admitted one at a time. It exceeds
/// what one server has in flight for a tenant: 64 MiB of request bodies, 128 writes.
const MARGIN: [u64; 4] = [1024, 64 << 20, 128, 128];

impl TenantQuota {
    /// Reads a quota in the form of a tenant's spec.
    pub fn parse(quota: &Value) -> Self {
        Self(NAMES.map(|name| match quota.get(name)? {
            Value::Number(number) => Some(Quantity::new(number.as_i64()?, Format::Decimal)),
            Value::String(text) => text.parse().ok(),
            _ => None,
        }))
    }

    /// Returns the quota of a tenant: what its object sets, and the defaults for the rest.
    pub fn of(tenant: &Object, defaults: &Self) -> Self {
        let Some(quota) = tenant.get("spec").and_then(|spec| spec.get("quota")) else {
            return *defaults;
        };
        let own = Self::parse(quota);
        let unlimited = quota.get(UNLIMITED).and_then(Value::as_array);
        let is_unlimited = |name: &str| {
            let mut names = unlimited.into_iter().flatten();
            names.any(|unlimited| unlimited.as_str() == Some(name))
        };
        Self(std::array::from_fn(|field| match own.0[field] {
            Some(limit) => Some(limit),
            None if is_unlimited(NAMES[field]) => None,
            None => defaults.0[field],
        }))
    }

    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Whether any increased usage is limited.
    pub fn limits(&self, more: Usage) -> bool {
        let mut fields = self.0.iter().zip(fields(more));
        fields.any(|(limit, more)| limit.is_some() && more > 0)
    }

    /// Whether so much usage is so close to a limit that concurrent writes might exceed it.
    pub fn is_near(&self, used: Usage) -> bool {
        let mut fields = self.0.iter().zip(fields(used)).zip(MARGIN);
        fields.any(|((limit, used), margin)| {
            limit.is_some_and(|limit| quantity(BYTES, used.saturating_add(margin)) > limit)
        })
    }

    /// Returns the limits that so much more usage would exceed: requested, used and allowed.
    pub fn exceeded(&self, used: Usage, more: Usage) -> Option<[Amounts; 3]> {
        let mut exceeded: [Amounts; 3] = Default::default();
        let usage = fields(used).into_iter().zip(fields(more));
        for ((name, limit), (used, more)) in NAMES.into_iter().zip(self.0).zip(usage) {
            let (Some(limit), 1..) = (limit, more) else {
                continue;
            };
            let (used, more) = (quantity(name, used), quantity(name, more));
            if used.plus(more) > limit {
                for (list, amount) in exceeded.iter_mut().zip([more, used, limit]) {
                    list.insert(name.to_owned(), amount);
                }
            }
        }
        (!exceeded[0].is_empty()).then_some(exceeded)
    }

    /// Returns the quota in the form of a tenant's status.
    pub fn value(&self) -> Value {
        let limited = NAMES.into_iter().zip(self.0);
        let limited = limited.filter_map(|(name, limit)| Some((name, limit?)));
        let fields = limited.map(|(name, limit)| (name.to_owned(), shown(name, limit)));
        Value::Object(fields.collect::<Map<_, _>>())
    }
}

/// Returns usage in the form of a tenant's status.
pub fn usage_value(usage: Usage) -> Value {
    let fields = NAMES.into_iter().zip(fields(usage));
    let fields = fields.map(|(name, count)| (name.to_owned(), shown(name, quantity(name, count))));
    Value::Object(fields.collect::<Map<_, _>>())
}

fn shown(name: &str, amount: Quantity) -> Value {
    match name {
        BYTES => amount.to_string().into(),
        _ => amount.value().into(),
    }
}

const fn fields(usage: Usage) -> [u64; 4] {
    [
        usage.objects,
        usage.bytes,
        usage.namespaces,
        usage.definitions,
    ]
}

/// Returns a count as a quantity in the format of its limit.
fn quantity(name: &str, count: u64) -> Quantity {
    let format = match name {
        BYTES => Format::Binary,
        _ => Format::Decimal,
    };
    Quantity::new(i64::try_from(count).unwrap_or(i64::MAX), format)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(spec: Value) -> Value {
        let defaults = TenantQuota::parse(&json!({"bytes": "1Gi", "objects": 100}));
        let tenant = json!({ "spec": spec });
        TenantQuota::of(tenant.as_object().unwrap(), &defaults).value()
    }

    #[test]
    fn fields_of_the_spec_take_precedence_over_the_defaults() {
        for (spec, effective) in [
            (json!({}), json!({"bytes": "1Gi", "objects": 100})),
            (
                json!({"quota": {}}),
                json!({"bytes": "1Gi", "objects": 100}),
            ),
            (
                json!({"quota": {"bytes": "2Gi", "namespaces": 3}}),
                json!({"bytes": "2Gi", "objects": 100, "namespaces": 3}),
            ),
            (
                json!({"quota": {"unlimited": ["bytes"]}}),
                json!({"objects": 100}),
            ),
            (
                json!({"quota": {"objects": 0, "unlimited": ["bytes", "namespaces"]}}),
                json!({"objects": 0}),
            ),
        ] {
            assert_eq!(of(spec.clone()), effective, "{spec}");
        }
    }

    #[test]
    fn writes_are_serialized_only_near_a_limit() {
        let quota = TenantQuota::parse(&json!({"bytes": "256Mi", "objects": 10_000}));
        let used = |objects, mebibytes: u64| Usage {
            objects,
            bytes: mebibytes << 20,
            ..Usage::default()
        };
        assert!(!quota.is_near(used(0, 0)));
        assert!(!quota.is_near(used(8_976, 192)));
        assert!(quota.is_near(used(8_977, 0)));
        assert!(quota.is_near(used(0, 193)));
        let small = TenantQuota::parse(&json!({"objects": 1_000}));
        assert!(small.is_near(Usage::default()));
        assert!(!TenantQuota::default().is_near(used(u64::MAX, 0)));
    }
}
