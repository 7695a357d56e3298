//! The levels of the Pod Security Standards and their versions.

use std::fmt;

/// A level of the Pod Security Standards. A stricter level is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Everything is allowed.
    Privileged,
    /// Known privilege escalations are forbidden.
    Baseline,
    /// Pods must also be hardened.
    Restricted,
}

/// The version of the standards that a level is evaluated in. A newer version is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// `v1.N`; one that is newer than the server is evaluated as the newest that it knows.
    Minor(i64),
    /// The newest version that the server knows.
    Latest,
}

/// A level in a version, such as `restricted:latest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelVersion {
    /// The level.
    pub level: Level,
    /// The version.
    pub version: Version,
}

impl Level {
    /// Parses a level.
    ///
    /// # Errors
    ///
    /// The message of the field error, if there is no such level.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "privileged" => Ok(Self::Privileged),
            "baseline" => Ok(Self::Baseline),
            "restricted" => Ok(Self::Restricted),
            _ => Err("must be one of privileged, baseline, restricted"),
        }
    }
}

impl Version {
    /// Parses `latest` or `v1.N`.
    ///
    /// # Errors
    ///
    /// The message of the field error, if the text is neither.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const WRONG: &str = "must be \"latest\" or \"v1.x\"";
        if text == "latest" {
            return Ok(Self::Latest);
        }
        let digits = text.strip_prefix("v1.").ok_or(WRONG)?;
        let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
        let is_padded = digits.len() > 1 && digits.starts_with('0');
        match digits.parse() {
            Ok(minor) if is_number && !is_padded => Ok(Self::Minor(minor)),
            _ => Err(WRONG),
        }
    }
}

impl LevelVersion {
    /// What applies unless configured otherwise.
    pub const PRIVILEGED: Self = Self {
        level: Level::Privileged,
        version: Version::Latest,
    };

    /// Whether both allow the same pods whatever these are: the version of `privileged` is
    /// irrelevant.
    pub fn is_equivalent(self, other: Self) -> bool {
        self == other || (self.is_privileged() && other.is_privileged())
    }

    /// Whether every pod is allowed.
    pub fn is_privileged(self) -> bool {
        self.level == Level::Privileged
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Minor(minor) => write!(f, "v1.{minor}"),
            Self::Latest => f.write_str("latest"),
        }
    }
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_latest_or_a_minor_of_v1_without_leading_zeros() {
        assert_eq!(Version::parse("latest"), Ok(Version::Latest));
        for (text, minor) in [("v1.0", 0), ("v1.9", 9), ("v1.36", 36), ("v1.999", 999)] {
            assert_eq!(Version::parse(text), Ok(Version::Minor(minor)));
            assert_eq!(Version::Minor(minor).to_string(), text);
        }
        let wrong = Err("must be \"latest\" or \"v1.x\"");
        for text in [
            "",
            "v1",
            "v1.",
            "1.20",
            "v2.0",
            "v1.01",
            "v1.+1",
            "v1.-1",
            "v1.1 ",
            "Latest",
            "v1.9223372036854775808",
        ] {
            assert_eq!(Version::parse(text), wrong, "{text}");
        }
    }

    #[test]
    fn stricter_levels_and_newer_versions_are_greater() {
        assert!(Level::Privileged < Level::Baseline && Level::Baseline < Level::Restricted);
        assert!(Version::Minor(9) < Version::Minor(10));
        assert!(Version::Minor(i64::MAX) < Version::Latest);
    }
}
