//! The tenants that have objects of a published definition.

use std::fmt;

use insula_core::Space;
use insula_custom::condition;

use crate::registry::Registry;
use crate::registry::apis::definition_address;
use insula_cache::CollectionKey;

/// The tenants with objects of a published definition, and the number of objects of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holders(Vec<(Space, usize)>);

/// The most tenants that a message names.
const NAMED: usize = 3;

impl Holders {
    /// Counts the objects of the definition with this name, in the cache.
    pub fn of(registry: &Registry, definition: &str) -> Self {
        let Some((resource, group)) = definition.split_once('.') else {
            return Self(Vec::new());
        };
        let all = registry
            .cache()
            .everywhere(CollectionKey::Custom { group, resource });
        let tenants = all.into_iter().filter(|(space, _)| !space.is_system());
        let counted = tenants.map(|(space, _)| {
            let count = held(registry, &space, definition);
            (space, count)
        });
        Self(counted.filter(|(_, count)| *count > 0).collect())
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Holders {
    /// As in `3 objects of it are in 2 tenants (t1, t2)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objects = self.0.iter().map(|(_, count)| count).sum();
        let names = self
            .0
            .iter()
            .take(NAMED)
            .map(|(space, _)| space.to_string());
        let mut names: Vec<String> = names.collect();
        if self.0.len() > NAMED {
            names.push("…".to_owned());
        }
        let are = if objects == 1 { "is" } else { "are" };
        write!(f, "{} of it {are} in ", Count(objects, "object"))?;
        write!(
            f,
            "{} ({})",
            Count(self.0.len(), "tenant"),
            names.join(", ")
        )
    }
}

/// A count and its noun.
pub struct Count(pub usize, pub &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, thing) = self;
        let plural = if *count == 1 { "" } else { "s" };
        write!(f, "{count} {thing}{plural}")
    }
}

/// Returns the number of a tenant's objects of the published definition with this name. It is
/// zero if the tenant's own definition is established.
pub fn held(registry: &Registry, space: &Space, definition: &str) -> usize {
    let mark = definition.split_once('.');
    let mark = mark.map(|(resource, group)| CollectionKey::Custom { group, resource });
    let objects = mark.and_then(|mark| registry.cache().find(mark, space));
    match objects.map_or(0, |objects| objects.count("", usize::MAX)) {
        count if count > 0 && !has_established(registry, space, definition) => count,
        _ => 0,
    }
}

fn has_established(registry: &Registry, space: &Space, definition: &str) -> bool {
    let own = registry.cached(&definition_address(space, definition));
    own.is_some_and(|own| condition::holds(&own.tree(), condition::ESTABLISHED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_few_tenants_are_named() {
        let holders = |counts: &[usize]| {
            let tenants = counts.iter().zip(1..);
            let tenants =
                tenants.map(|(count, at)| (Space::parse(&format!("t{at}")).unwrap(), *count));
            Holders(tenants.collect()).to_string()
        };
        assert_eq!(holders(&[1]), "1 object of it is in 1 tenant (t1)");
        assert_eq!(
            holders(&[2, 1]),
            "3 objects of it are in 2 tenants (t1, t2)"
        );
        assert_eq!(
            holders(&[1, 1, 1, 5]),
            "8 objects of it are in 4 tenants (t1, t2, t3, …)"
        );
    }
}
