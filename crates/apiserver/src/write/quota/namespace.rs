//! ResourceQuotas: the limits of a namespace.

use std::sync::Arc;

use insula_core::Space;
use insula_kinds::quota::{self, Amounts, CountedResource, Quota};
use insula_kinds::time::Time;
use insula_kinds::{KindId, Object, Value};
use insula_store::{Expect, Transaction};
use serde_json::json;

use super::{QuotaWrite, usage};
use crate::registry::{Address, Registry};
use crate::request::context;
use crate::status::{Result, StatusError};
use crate::write::encoded;
use insula_cache::Stored;
use insula_kinds::core_kind;

/// The most quotas that one write may be charged to: each is part of its transaction.
const MAX_QUOTAS: usize = 50;

/// The number of objects from which a recount blocks a thread too long.
const LARGE_RECOUNT: usize = 256;

/// The kind `ResourceQuota`.
fn kind() -> KindId {
    core_kind("resourcequotas")
}

/// Whether the namespace has quotas.
pub(super) fn is_limited(registry: &Registry, space: &Space, namespace: &str) -> bool {
    let quotas = registry.cache().find(kind(), space);
    quotas.is_some_and(|quotas| quotas.count(&format!("{namespace}/"), 1) > 0)
}

/// Whether quotas count the write: every create, and updates that may increase usage.
pub(super) fn is_counted(write: &QuotaWrite<'_>) -> bool {
    let counted = write.counted();
    if write.old.is_none() {
        return counted.is_counted();
    }
    matches!(
        (counted, write.subresource),
        (CountedResource::PODS, None | Some("resize"))
            | (CountedResource::SERVICES, None)
            | (CountedResource::CLAIMS, None | Some("status"))
    )
}

/// Adds the usage updates of every quota to the transaction.
pub(super) async fn charge(
    write: &QuotaWrite<'_>,
    transaction: Transaction,
) -> Result<Transaction> {
    let deltas = match QuotaDeltas::compute(write) {
        Ok(deltas) => deltas.charges(write, UsageSource::Status).await,
        error => error.map(|_| Vec::new()),
    };
    let charges = match deltas {
        Ok(charges) => charges,
        // The recorded usage may be too high: recount from fresh state before rejecting.
        Err(_) => {
            write.registry.catch_up().await?;
            let deltas = QuotaDeltas::compute(write)?;
            deltas.charges(write, UsageSource::Recount).await?
        }
    };
    let charge = |transaction: Transaction, charge: Charge| {
        let key = write.registry.key(&charge.address);
        let unchanged = Expect::At(charge.found.revision);
        transaction
            .check(key.clone(), unchanged)
            .put(key, charge.value)
    };
    Ok(charges.into_iter().fold(transaction, charge))
}

/// The source of the current usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UsageSource {
    /// The status of the quota, which may be too high.
    Status,
    /// A count of the objects.
    Recount,
}

/// The usage that a write adds to each quota that counts it.
struct QuotaDeltas {
    quotas: Vec<(Arc<Stored>, Quota, Amounts)>,
}

/// A quota with its new usage.
struct Charge {
    address: Address,
    found: Arc<Stored>,
    value: bytes::Bytes,
}

impl QuotaDeltas {
    fn compute(write: &QuotaWrite<'_>) -> Result<Self> {
        let quotas = quotas(write);
        let mut deltas = Self { quotas: Vec::new() };
        if quotas.is_empty() {
            return Ok(deltas);
        }
        let (counted, after, before) = (write.counted(), write.after(), write.before());
        if !affects_usage(write, before.as_ref(), &after) {
            return Ok(deltas);
        }
        let now = Time::now().seconds;
        let used = counted.usage(&after, now);
        let grown = before
            .as_ref()
            .map(|before| quota::increase(&counted.usage(before, now), &used));
        for (found, quota) in quotas {
            if !quota.matches(counted, &after) {
                continue;
            }
            if let Some(missing) = counted.missing(&quota, &after) {
                let why = format!("failed quota: {}: {missing}", found.name());
                return Err(forbidden(write, &why));
            }
            // An object that the quota did not match before counts in full.
            let matched_before = before
                .as_ref()
                .is_some_and(|old| quota.matches(counted, old));
            let mut needed = match &grown {
                Some(grown) if matched_before => grown.clone(),
                _ => used.clone(),
            };
            needed.retain(|name, amount| quota.hard.contains_key(name) && !amount.is_zero());
            if !needed.is_empty() {
                deltas.quotas.push((found, quota, needed));
            }
        }
        if deltas.quotas.len() > MAX_QUOTAS {
            let why = format!("more than {MAX_QUOTAS} quotas of the namespace apply to it");
            return Err(forbidden(write, &why));
        }
        Ok(deltas)
    }

    /// Returns every quota with its new usage, if none is exceeded.
    async fn charges(self, write: &QuotaWrite<'_>, source: UsageSource) -> Result<Vec<Charge>> {
        let mut charges = Vec::with_capacity(self.quotas.len());
        for (found, quota, needed) in self.quotas {
            let mut used = match source == UsageSource::Status && quota.is_fully_counted() {
                true => quota.used.clone(),
                false => recount(write, &found, &quota).await?,
            };
            let was = used.clone();
            quota::add(&mut used, &needed);
            // A status reports what already happened: it is counted and never rejected.
            if write.subresource != Some("status") {
                check(write, found.name(), &quota, &needed, &was, &used)?;
            }
            charges.push(Charge {
                value: with_usage(&found, &quota, &used),
                address: address(write, &found),
                found,
            });
        }
        Ok(charges)
    }
}

/// Counts the current usage of a quota.
async fn recount(write: &QuotaWrite<'_>, found: &Stored, quota: &Quota) -> Result<Amounts> {
    let Address {
        space, namespace, ..
    } = write.address;
    let namespace = namespace.as_deref().unwrap_or("");
    let cache = write.registry.cache();
    // The cache may have applied the quota of a transaction but not yet its object.
    cache.await_applied(found.revision).await;
    let count = || usage::recount(cache, space, namespace, quota);
    match usage::recount_cost(cache, space, namespace, quota, LARGE_RECOUNT) < LARGE_RECOUNT {
        true => Ok(count()),
        false => context::cpu_bound(write.caller.map(|caller| caller.context), count).await,
    }
}

/// Rejects usage above the hard limits of a quota.
fn check(
    write: &QuotaWrite<'_>,
    name: &str,
    quota: &Quota,
    needed: &Amounts,
    was: &Amounts,
    used: &Amounts,
) -> Result<()> {
    let exceeded = |name: &String| used.get(name) > quota.hard.get(name);
    let exceeded: Vec<&String> = needed.keys().filter(|name| exceeded(name)).collect();
    if exceeded.is_empty() {
        return Ok(());
    }
    let only = |of: &Amounts| {
        let all = exceeded.iter();
        let all = all.filter_map(|name| Some(((*name).clone(), *of.get(*name)?)));
        quota::format_amounts(&all.collect())
    };
    let why = format!(
        "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
        only(needed),
        only(was),
        only(&quota.hard)
    );
    Err(forbidden(write, &why))
}

/// Whether the change can affect usage.
fn affects_usage(write: &QuotaWrite<'_>, before: Option<&Object>, after: &Object) -> bool {
    let Some(before) = before else {
        return true;
    };
    match (write.counted(), write.subresource) {
        // Everything else that counts is immutable in a pod.
        (CountedResource::PODS, None) => {
            let deadline = |pod: &Object| pod.get("spec")?.get("activeDeadlineSeconds").cloned();
            deadline(before) != deadline(after)
        }
        _ => true,
    }
}

/// Returns the quotas of the namespace that limit such objects, by name.
fn quotas(write: &QuotaWrite<'_>) -> Vec<(Arc<Stored>, Quota)> {
    let (counted, cache) = (write.counted(), write.registry.cache());
    let namespace = write.address.namespace.as_deref().unwrap_or("");
    let quotas = cache.find(kind(), &write.address.space);
    let quotas = quotas.map(|all| all.snapshot(&format!("{namespace}/"), None).objects);
    let read = quotas.unwrap_or_default().into_iter().map(|found| {
        let quota = Quota::read(&found.tree());
        (found, quota)
    });
    read.filter(|(_, quota)| quota.limits(counted)).collect()
}

/// Encodes a quota with this usage in its status.
pub fn with_usage(found: &Stored, quota: &Quota, used: &Amounts) -> bytes::Bytes {
    let mut object = found.tree();
    let status = json!({"hard": quota::to_value(&quota.hard), "used": quota::to_value(used)});
    object.insert("status".to_owned(), status);
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    encoded(insula_kinds::kinds().get(kind()), &object)
}

fn address(write: &QuotaWrite<'_>, quota: &Stored) -> Address {
    Address {
        kind: kind().into(),
        space: write.address.space.clone(),
        namespace: write.address.namespace.clone(),
        name: quota.name().to_owned(),
    }
}

fn forbidden(write: &QuotaWrite<'_>, why: &str) -> StatusError {
    StatusError::not_allowed(write.kind, &write.address.name, why)
}
