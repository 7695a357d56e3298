//! Sizes and costs that are known only within bounds.

/// What traversing one character costs.
pub(crate) const TRAVERSAL: f64 = 0.1;

/// What one character of a regular expression costs, for each character that is searched.
pub(crate) const REGEX: f64 = 0.25;

/// What something costs at least and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cost {
    /// At least.
    pub min: u64,
    /// At most.
    pub max: u64,
}

/// How large something is at least and at most.
pub(crate) type Size = Cost;

impl Cost {
    /// Nothing is known.
    pub(crate) const UNKNOWN: Self = Self {
        min: 0,
        max: u64::MAX,
    };

    pub(crate) const fn fixed(cost: u64) -> Self {
        Self {
            min: cost,
            max: cost,
        }
    }

    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(crate) const fn times(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// Times a factor, rounded up.
    pub(crate) fn by(self, factor: f64) -> Self {
        Self {
            min: scale(self.min, factor),
            max: scale(self.max, factor),
        }
    }

    /// The bounds of what is the one or the other.
    pub(crate) fn union(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

/// A number times a factor, rounded up; the greatest number if it is greater still.
pub(crate) fn scale(number: u64, factor: f64) -> u64 {
    // A conversion to u64 goes no further than its greatest value.
    (number as f64 * factor).ceil() as u64
}
