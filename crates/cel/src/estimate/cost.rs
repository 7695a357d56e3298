//! Costs and sizes with lower and upper bounds.

/// The cost of traversing one character.
pub(crate) const TRAVERSAL: f64 = 0.1;

/// The cost of one character of a regular expression, per character searched.
pub(crate) const REGEX: f64 = 0.25;

/// The bounds of a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cost {
    /// The lower bound.
    pub min: u64,
    /// The upper bound.
    pub max: u64,
}

/// The bounds of a size.
pub(crate) type Size = Cost;

impl Cost {
    /// The bounds of an unknown size.
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

    /// Multiplies by a factor, rounding up.
    pub(crate) fn by(self, factor: f64) -> Self {
        Self {
            min: scale(self.min, factor),
            max: scale(self.max, factor),
        }
    }

    /// The bounds that include both.
    pub(crate) fn union(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

/// Multiplies by a factor, rounding up and saturating.
pub(crate) fn scale(number: u64, factor: f64) -> u64 {
    // The conversion to u64 saturates.
    (number as f64 * factor).ceil() as u64
}
