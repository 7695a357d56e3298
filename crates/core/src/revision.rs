use std::fmt;
use std::str::FromStr;

/// The revision of the store: every change gets a larger one than all changes before it.
///
/// On the wire it is a `resourceVersion`. Clients compare these as decimal integers without leading
/// zeros, so no other form is printed or parsed. Zero is before every change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// The revision before every change.
    pub const ZERO: Self = Self(0);

    /// The revision with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The next revision. Saturates: a store with a million changes a second reaches the end after
    /// half a million years.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The previous revision; `ZERO` stays `ZERO`.
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The text is not a revision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a revision is a decimal number without sign or leading zeros, below 2^64")]
pub struct ParseRevisionError;

impl FromStr for Revision {
    type Err = ParseRevisionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let padded = text.len() > 1 && text.starts_with('0');
        if !digits || padded {
            return Err(ParseRevisionError);
        }
        text.parse().map(Self).map_err(|_| ParseRevisionError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_printed_form_parses() {
        for (text, parsed) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("", None),
            ("07", None),
            ("+7", None),
            ("-7", None),
            (" 7", None),
            ("7.0", None),
            ("x", None),
        ] {
            assert_eq!(text.parse().ok(), parsed.map(Revision::new), "{text:?}");
        }
        assert_eq!(Revision::new(42).to_string(), "42");
    }

    #[test]
    fn neighbours_stop_at_the_ends() {
        assert_eq!(Revision::ZERO.previous(), Revision::ZERO);
        assert_eq!(Revision::new(u64::MAX).next(), Revision::new(u64::MAX));
        assert_eq!(Revision::new(4).next().previous(), Revision::new(4));
    }
}
