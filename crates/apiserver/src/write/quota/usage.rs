//! Recounts of the usage of a quota.

use insula_core::Space;
use insula_kinds::quantity::{Format, Quantity};
use insula_kinds::quota::{self, Amounts, CountedResource, Quota};
use insula_kinds::time::Time;
use insula_kinds::{Object, kinds};

use insula_cache::CollectionKey;
use insula_cache::{Cache, Collection};
use std::sync::Arc;

/// Counts the usage of a quota in its namespace, from the cache.
pub fn recount(cache: &Cache, space: &Space, namespace: &str, quota: &Quota) -> Amounts {
    let zero = |name: &String| (name.clone(), Quantity::ZERO);
    let mut used: Amounts = quota.hard.keys().map(zero).collect();
    let prefix = format!("{namespace}/");
    for counted in quota.counted_resources() {
        let Some(objects) = collection(cache, counted, space) else {
            continue;
        };
        let mut more = match counted.is_measured() {
            true => measured(quota, counted, &objects, &prefix),
            false => counted_only(quota, counted, &objects, &prefix),
        };
        more.retain(|name, _| quota.hard.contains_key(name));
        quota::add(&mut used, &more);
    }
    used
}

/// Returns how many objects a recount must decode, up to about `max` of each resource.
pub fn recount_cost(
    cache: &Cache,
    space: &Space,
    namespace: &str,
    quota: &Quota,
    max: usize,
) -> usize {
    let prefix = format!("{namespace}/");
    let measured = quota
        .counted_resources()
        .into_iter()
        .filter(|of| of.is_measured());
    let each = measured.filter_map(|counted| collection(cache, counted, space));
    each.map(|objects| objects.count(&prefix, max)).sum()
}

fn measured(
    quota: &Quota,
    counted: CountedResource<'_>,
    objects: &Collection,
    prefix: &str,
) -> Amounts {
    let now = Time::now().seconds;
    let mut used = Amounts::new();
    for object in objects.snapshot(prefix, None).objects {
        let object = object.tree();
        if quota.includes(counted, &object) {
            quota::add(&mut used, &counted.usage(&object, now));
        }
    }
    used
}

fn counted_only(
    quota: &Quota,
    counted: CountedResource<'_>,
    objects: &Collection,
    prefix: &str,
) -> Amounts {
    let nothing = Object::new();
    if !quota.includes(counted, &nothing) {
        return Amounts::new();
    }
    let number = objects.count(prefix, usize::MAX);
    let number = Quantity::new(i64::try_from(number).unwrap_or(i64::MAX), Format::Decimal);
    let names = counted.usage(&nothing, 0).into_keys();
    names.map(|name| (name, number)).collect()
}

fn collection(
    cache: &Cache,
    counted: CountedResource<'_>,
    space: &Space,
) -> Option<Arc<Collection>> {
    let CountedResource { group, resource } = counted;
    match kinds().find_storage(group, resource) {
        Some(kind) => cache.find(kind, space),
        None => cache.find(CollectionKey::Custom { group, resource }, space),
    }
}
