//! What objects use of what a namespace may have: the arithmetic of ResourceQuota.
//!
//! A quota names things and says how much of each there may be. Which objects use how much
//! of a thing depends on their kind: [`CountedResource`] says it. Objects of every kind use one of
//! `count/<resource>.<group>`; pods, services and volume claims use more than that.

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

/// So much of each thing, by the names that quotas have for them.
pub type Amounts = BTreeMap<String, Quantity>;

/// The objects of one kind, as quotas see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedResource<'a> {
    /// The group of the kind.
    pub group: &'a str,
    /// Its plural.
    pub resource: &'a str,
}

/// A ResourceQuota, as far as it decides.
#[derive(Clone, Debug)]
pub struct Quota {
    /// How much there may be.
    pub hard: Amounts,
    /// Which objects it is about: those that are in all of these.
    pub scopes: Vec<Scope>,
    /// What its status says there may be, which follows.
    pub status_hard: Amounts,
    /// What its status says there is.
    pub used: Amounts,
}

/// Names that only count, from before any kind could be counted.
const ALIASES: [&str; 4] = [
    "configmaps",
    "resourcequotas",
    "replicationcontrollers",
    "secrets",
];

/// What is never counted: nothing of it is stored, or it goes by itself.
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
    /// Volume claims.
    pub const CLAIMS: Self = Self::core("persistentvolumeclaims");

    /// Those of a resource of the core group.
    pub const fn core(resource: &'a str) -> Self {
        Self {
            group: "",
            resource,
        }
    }

    /// Whether any quota is about them.
    pub fn is_counted(self) -> bool {
        !IGNORED.contains(&(self.group, self.resource))
    }

    /// Whether how much one uses depends on more than that it is there.
    pub fn is_measured(self) -> bool {
        [Self::PODS, Self::SERVICES, Self::CLAIMS].contains(&self)
    }

    /// Whether they use of the thing with this name.
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

    /// How much one of them uses at this time, in seconds since 1970. Of objects that are
    /// only counted nothing is looked at.
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

    /// What their number is called.
    pub fn count(self) -> String {
        match self.group {
            "" => format!("count/{}", self.resource),
            group => format!("count/{}.{group}", self.resource),
        }
    }

    /// What the object must say and does not, for this quota to be able to count it.
    pub fn missing(self, quota: &Quota, object: &Object) -> Option<String> {
        match self {
            Self::PODS => pod::missing(&quota.hard, object),
            _ => None,
        }
    }
}

impl Quota {
    /// Reads an object. What cannot be read was never valid and limits nothing.
    pub fn read(quota: &Object) -> Self {
        let (spec, status) = (tree::child(quota, "spec"), tree::child(quota, "status"));
        Self {
            hard: amounts(spec, "hard"),
            scopes: spec.map(Scope::all_of).unwrap_or_default(),
            status_hard: amounts(status, "hard"),
            used: amounts(status, "used"),
        }
    }

    /// Whether it limits anything of what these objects use.
    pub fn limits(&self, objects: CountedResource<'_>) -> bool {
        self.hard.keys().any(|name| objects.uses(name))
    }

    /// Whether it limits something of what this one uses.
    pub fn matches(&self, objects: CountedResource<'_>, object: &Object) -> bool {
        self.limits(objects) && self.includes(objects, object)
    }

    /// Whether the object is in all of its scopes.
    pub fn includes(&self, objects: CountedResource<'_>, object: &Object) -> bool {
        let mut scopes = self.scopes.iter();
        scopes.all(|scope| scope.includes(objects, object))
    }

    /// Whether its status says how much there is of everything that it limits now.
    pub fn is_fully_counted(&self) -> bool {
        self.status_hard == self.hard && self.hard.keys().all(|name| self.used.contains_key(name))
    }

    /// The kinds of objects that use of what it limits, as far as their names are known.
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

/// Adds what is used.
pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        match total.get_mut(name) {
            Some(sum) => *sum = sum.plus(*amount),
            None => drop(total.insert(name.clone(), *amount)),
        }
    }
}

/// What is used more than before; of what is used less, nothing.
pub fn increase(before: &Amounts, after: &Amounts) -> Amounts {
    let grown = after.iter().map(|(name, amount)| {
        let was = before.get(name).copied().unwrap_or(Quantity::ZERO);
        (name.clone(), amount.minus(was))
    });
    grown
        .filter(|(_, amount)| *amount > Quantity::ZERO)
        .collect()
}

/// `a=1,b=2`, as refusals say it.
pub fn format_amounts(amounts: &Amounts) -> String {
    let each = amounts
        .iter()
        .map(|(name, amount)| format!("{name}={amount}"));
    each.collect::<Vec<_>>().join(",")
}

/// As an object says it.
pub fn to_value(amounts: &Amounts) -> Value {
    let each = amounts.iter();
    let each = each.map(|(name, amount)| (name.clone(), amount.to_string().into()));
    Value::Object(each.collect())
}

const ONE: Quantity = Quantity::new(1, Format::Decimal);

/// Whose number `count/<name>` is.
fn counted_by(name: &str) -> CountedResource<'_> {
    match name.split_once('.') {
        Some((resource, group)) => CountedResource { group, resource },
        None => CountedResource::core(name),
    }
}

/// A list of resources. What is no quantity was never valid.
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
