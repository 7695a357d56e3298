//! ResourceQuota arithmetic: what objects use of a namespace's quota.
//!
//! A quota limits named resources. Which objects use how much of a resource depends on
//! their kind, see [`CountedResource`]. Objects of every kind use one of
//! `count/<resource>.<group>`; pods, services and volume claims use other resources as
//! well.

mod claim;
mod pod;
mod scope;
mod service;

use std::collections::BTreeMap;

use crate::defaults::tree;
use crate::quantity::{Format, Quantity};
use crate::{Object, Value};

pub use pod::{limits as pod_limits, requests as pod_requests};
pub use scope::Scope;

/// Quantities by quota resource name.
pub type Amounts = BTreeMap<String, Quantity>;

/// The objects of one API resource as quotas count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedResource<'a> {
    /// The API group.
    pub group: &'a str,
    /// The plural name.
    pub resource: &'a str,
}

/// The parts of a ResourceQuota that enforcement needs.
#[derive(Clone, Debug)]
pub struct Quota {
    /// The limits.
    pub hard: Amounts,
    /// The scopes; an object must be in all of them.
    pub scopes: Vec<Scope>,
    /// The limits recorded in the status, which follow `hard`.
    pub status_hard: Amounts,
    /// The usage recorded in the status.
    pub used: Amounts,
}

/// Resource names that count objects, older than the `count/` syntax.
const ALIASES: [&str; 4] = [
    "configmaps",
    "resourcequotas",
    "replicationcontrollers",
    "secrets",
];

/// Resources that are never counted: they are not stored, or expire.
const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

impl<'a> CountedResource<'a> {
    /// Pods.
    pub const PODS: Self = Self::core("pods");
    /// Services.
    pub const SERVICES: Self = Self::core("services");
    /// Persistent volume claims.
    pub const CLAIMS: Self = Self::core("persistentvolumeclaims");

    /// A resource of the core group.
    pub const fn core(resource: &'a str) -> Self {
        Self {
            group: "",
            resource,
        }
    }

    /// Whether quotas can count the objects.
    pub fn is_counted(self) -> bool {
        !IGNORED.contains(&(self.group, self.resource))
    }

    /// Whether usage depends on the content of an object, not only on its existence.
    pub fn is_measured(self) -> bool {
        [Self::PODS, Self::SERVICES, Self::CLAIMS].contains(&self)
    }

    /// Whether the objects use the named quota resource.
    pub fn uses(self, name: &str) -> bool {
        if let Some(counted) = name.strip_prefix("count/") {
            return self == counted_by(counted);
        }
        match self {
            Self::PODS => pod::is_used(name),
            Self::SERVICES => service::is_used(name),
            Self::CLAIMS => claim::is_used(name),
            _ => self.group.is_empty() && self.resource == name && ALIASES.contains(&name),
        }
    }

    /// Returns the usage of an object at a time in seconds since 1970. The content is
    /// ignored for objects that are only counted.
    pub fn usage(self, object: &Object, now: i64) -> Amounts {
        let mut usage = match self {
            Self::PODS => pod::usage(object, now),
            Self::SERVICES => service::usage(object),
            Self::CLAIMS => claim::usage(object),
            _ => Amounts::new(),
        };
        if self.group.is_empty() && ALIASES.contains(&self.resource) {
            usage.insert(self.resource.to_owned(), ONE);
        }
        usage.insert(self.count(), ONE);
        usage
    }

    /// Returns the quota resource name of the object count.
    pub fn count(self) -> String {
        match self.group {
            "" => format!("count/{}", self.resource),
            group => format!("count/{}.{group}", self.resource),
        }
    }

    /// Returns the resources that the object must state for this quota to count it, and
    /// does not.
    pub fn missing(self, quota: &Quota, object: &Object) -> Option<String> {
        match self {
            Self::PODS => pod::missing(&quota.hard, object),
            _ => None,
        }
    }
}

impl Quota {
    /// Reads a ResourceQuota. Malformed parts cannot pass validation and limit nothing.
    pub fn read(quota: &Object) -> Self {
        let (spec, status) = (tree::child(quota, "spec"), tree::child(quota, "status"));
        Self {
            hard: amounts(spec, "hard"),
            scopes: spec.map(Scope::all_of).unwrap_or_default(),
            status_hard: amounts(status, "hard"),
            used: amounts(status, "used"),
        }
    }

    /// Whether the quota limits a resource that these objects use.
    pub fn limits(&self, objects: CountedResource<'_>) -> bool {
        self.hard.keys().any(|name| objects.uses(name))
    }

    /// Whether the quota limits this object.
    pub fn matches(&self, objects: CountedResource<'_>, object: &Object) -> bool {
        self.limits(objects) && self.includes(objects, object)
    }

    /// Whether the object is in all scopes.
    pub fn includes(&self, objects: CountedResource<'_>, object: &Object) -> bool {
        let mut scopes = self.scopes.iter();
        scopes.all(|scope| scope.includes(objects, object))
    }

    /// Whether the status records the usage of every resource in `hard`.
    pub fn is_fully_counted(&self) -> bool {
        self.status_hard == self.hard && self.hard.keys().all(|name| self.used.contains_key(name))
    }

    /// Returns the API resources that use what the quota limits.
    pub fn counted_resources(&self) -> Vec<CountedResource<'_>> {
        let mut all = Vec::new();
        for name in self.hard.keys() {
            let own = name.strip_prefix("count/").map(counted_by);
            let alias = ALIASES.contains(&name.as_str());
            let alias = alias.then_some(CountedResource::core(name));
            let measured = [
                CountedResource::PODS,
                CountedResource::SERVICES,
                CountedResource::CLAIMS,
            ];
            let measured = measured.into_iter().filter(|of| of.uses(name));
            all.extend(own.into_iter().chain(alias).chain(measured));
        }
        all.sort_by_key(|of| (of.group, of.resource));
        all.dedup();
        all.retain(|of| of.is_counted());
        all
    }
}

/// Adds quantities to a total.
pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        match total.get_mut(name) {
            Some(sum) => *sum = sum.plus(*amount),
            None => drop(total.insert(name.clone(), *amount)),
        }
    }
}

/// Returns the increase of each quantity; decreases are ignored.
pub fn increase(before: &Amounts, after: &Amounts) -> Amounts {
    let grown = after.iter().map(|(name, amount)| {
        let was = before.get(name).copied().unwrap_or(Quantity::ZERO);
        (name.clone(), amount.minus(was))
    });
    grown
        .filter(|(_, amount)| *amount > Quantity::ZERO)
        .collect()
}

/// Formats quantities as `a=1,b=2`, as error messages do.
pub fn format_amounts(amounts: &Amounts) -> String {
    let each = amounts
        .iter()
        .map(|(name, amount)| format!("{name}={amount}"));
    each.collect::<Vec<_>>().join(",")
}

/// Returns quantities as a JSON object.
pub fn to_value(amounts: &Amounts) -> Value {
    let each = amounts.iter();
    let each = each.map(|(name, amount)| (name.clone(), amount.to_string().into()));
    Value::Object(each.collect())
}

const ONE: Quantity = Quantity::new(1, Format::Decimal);

/// Returns the API resource that `count/<name>` counts.
fn counted_by(name: &str) -> CountedResource<'_> {
    match name.split_once('.') {
        Some((resource, group)) => CountedResource { group, resource },
        None => CountedResource::core(name),
    }
}

/// Reads a resource list. Invalid quantities cannot pass validation and are ignored.
pub(crate) fn amounts(of: Option<&Object>, member: &str) -> Amounts {
    let list = of.and_then(|of| tree::child(of, member));
    let list = list.into_iter().flatten();
    list.filter_map(|(name, amount)| Some((name.clone(), quantity(amount)?)))
        .collect()
}

fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
