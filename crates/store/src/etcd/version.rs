//! The version of etcd that the engine requires.

use std::fmt;

/// The first version in which watch progress is never ahead of the events
/// (<https://github.com/etcd-io/etcd/issues/15220>).
pub(super) const MIN_VERSION: Version = Version([3, 5, 13]);

/// A released version of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version([u32; 3]);

impl Version {
    /// A suffix after a hyphen or a plus (`3.6.0-rc.1`) is ignored.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let released = text.split(['-', '+']).next()?;
        let mut parts = released.split('.');
        let mut number = || parts.next()?.parse().ok();
        let version = Self([number()?, number()?, number()?]);
        parts.next().is_none().then_some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for (text, new_enough) in [
            ("3.5.13", Some(true)),
            ("3.5.9", Some(false)),
            ("3.4.31", Some(false)),
            ("3.6.0-rc.1", Some(true)),
            ("4.0.0", Some(true)),
            ("3.6", None),
            ("3.6.0.1", None),
            ("", None),
        ] {
            let found = Version::parse(text).map(|version| version >= MIN_VERSION);
            assert_eq!(found, new_enough, "{text}");
        }
        assert_eq!(MIN_VERSION.to_string(), "3.5.13");
    }
}
