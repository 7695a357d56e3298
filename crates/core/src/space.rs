//! Virtual clusters, and what they are called.

use std::fmt;
use std::sync::Arc;

/// A virtual cluster: the system's, or one tenant's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// What belongs to no tenant.
    System,
    /// What belongs to one tenant.
    Tenant(TenantName),
}

/// A tenant's name: a DNS-1123 label that is not reserved.
///
/// It is a key segment and a URL segment, so nothing else may ever become one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TenantName(Arc<str>);

/// Which spaces a request is about.
///
/// "All" is a type of its own, so that no code can mistake it for a tenant's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Spaces {
    /// One of them.
    One(Space),
    /// Every one of them, the system's included.
    All,
}

/// The name is none that a tenant can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotATenantName;

/// What paths and credentials call the system space.
pub const SYSTEM: &str = "system";

/// What paths call all spaces.
pub const ALL: &str = "all";

impl Space {
    /// The space that a path or a credential calls so.
    pub fn parse(name: &str) -> Result<Self, NotATenantName> {
        if name == SYSTEM {
            return Ok(Self::System);
        }
        TenantName::parse(name).map(Self::Tenant)
    }

    /// The tenant whose space it is.
    pub const fn tenant(&self) -> Option<&TenantName> {
        match self {
            Self::System => None,
            Self::Tenant(name) => Some(name),
        }
    }

    /// Whether it is the system's.
    pub const fn is_system(&self) -> bool {
        matches!(self, Self::System)
    }
}

impl TenantName {
    /// Refuses what is no DNS-1123 label, and the reserved names.
    pub fn parse(name: &str) -> Result<Self, NotATenantName> {
        let reserved = name == SYSTEM || name == ALL;
        if reserved || !is_label(name) {
            return Err(NotATenantName);
        }
        Ok(Self(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
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
    fn only_labels_that_are_not_reserved_are_tenants() {
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
    fn system_is_a_space_and_all_is_none() {
        assert_eq!(Space::parse("system"), Ok(Space::System));
        assert_eq!(Space::parse("all"), Err(NotATenantName));
        assert_eq!(Space::parse("t1").unwrap().to_string(), "t1");
    }
}
