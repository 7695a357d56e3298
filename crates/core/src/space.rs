//! Virtual clusters and their names.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A virtual cluster: the system's, or one tenant's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// The system space, which belongs to no tenant.
    System,
    /// The space of one tenant.
    Tenant(TenantName),
}

/// The name of a tenant: a DNS-1123 label that is not reserved.
///
/// It is a segment of keys and URLs, so no other text may ever become one. Names are ordered as
/// the keys of their objects in the store: `a-b` is before `a`, because `a-b/` is before `a/`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TenantName(Arc<str>);

/// The spaces that a request is about.
///
/// "All" is a type of its own, so that it cannot be mistaken for a tenant name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Spaces {
    /// One space.
    One(Space),
    /// Every space, including the system's.
    All,
}

/// The text is not a valid tenant name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotATenantName;

/// The name of the system space in paths and credentials.
pub const SYSTEM: &str = "system";

/// The name of all spaces in paths.
pub const ALL: &str = "all";

impl Space {
    /// Parses the name of a space in a path or a credential.
    pub fn parse(name: &str) -> Result<Self, NotATenantName> {
        if name == SYSTEM {
            return Ok(Self::System);
        }
        TenantName::parse(name).map(Self::Tenant)
    }

    /// The tenant of the space.
    pub const fn tenant(&self) -> Option<&TenantName> {
        match self {
            Self::System => None,
            Self::Tenant(name) => Some(name),
        }
    }

    /// Whether it is the system space.
    pub const fn is_system(&self) -> bool {
        matches!(self, Self::System)
    }
}

impl TenantName {
    /// Rejects texts that are not DNS-1123 labels, and the reserved names.
    pub fn parse(name: &str) -> Result<Self, NotATenantName> {
        let reserved = name == SYSTEM || name == ALL;
        if reserved || !is_label(name) {
            return Err(NotATenantName);
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Ord for TenantName {
    fn cmp(&self, other: &Self) -> Ordering {
        let (own, others) = (self.0.bytes(), other.0.bytes());
        own.chain([b'/']).cmp(others.chain([b'/']))
    }
}

impl PartialOrd for TenantName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for TenantName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.tenant().map_or(SYSTEM, TenantName::as_str))
    }
}

impl fmt::Display for NotATenantName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a tenant's name is a DNS-1123 label other than `system` and `all`")
    }
}

impl std::error::Error for NotATenantName {}

/// A DNS-1123 label: lower case letters, digits and inner hyphens, at most 63.
fn is_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len())
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_are_ordered_as_their_keys() {
        let names = ["a", "a-b", "a0", "ab", "b", "0"];
        let mut spaces: Vec<_> = names
            .iter()
            .map(|name| Space::parse(name).unwrap())
            .collect();
        spaces.push(Space::System);
        spaces.sort();
        let sorted: Vec<_> = spaces.iter().map(ToString::to_string).collect();
        assert_eq!(sorted, ["system", "0", "a-b", "a", "a0", "ab", "b"]);
    }

    #[test]
    fn only_unreserved_labels_are_tenant_names() {
        for good in ["a", "t1", "tenant-a", "0"] {
            assert_eq!(TenantName::parse(good).unwrap().as_str(), good);
        }
        let long = "x".repeat(64);
        for bad in [
            "", "system", "all", "A", "a.b", "a/b", "-a", "a-", "ä", "a b", &long,
        ] {
            assert_eq!(TenantName::parse(bad), Err(NotATenantName), "{bad}");
        }
    }

    #[test]
    fn system_is_a_space_and_all_is_not() {
        assert_eq!(Space::parse("system"), Ok(Space::System));
        assert_eq!(Space::parse("all"), Err(NotATenantName));
        assert_eq!(Space::parse("t1").unwrap().to_string(), "t1");
    }
}
