//! The maximum sizes of the values at a schema node.
//!
//! An [`Extent`] is built from the leaves up: [`Extent::string`], [`Extent::bytes`],
//! [`Extent::formatted`], [`Extent::number`] and [`Extent::bool`] for scalars, [`Extent::list`] and
//! [`Extent::map`] for collections, [`Extent::object`] for objects with fields. Where the schema
//! sets no limit, the request size does: as many elements as fit into a request if each is as small
//! as possible, which is why an extent also has a `min_bytes`. `declare` builds extents from a schema
//! in JSON.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum size of a request in bytes: 3 MiB.
const MAX_REQUEST_SIZE: u64 = 3 * 1024 * 1024;

/// The length of an RFC 3339 time, at most 30 characters and the quotes. Durations count the same.
const TIME_LENGTH: u64 = 32;

/// The size limits of the values at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The maximum number of characters, bytes, items or properties. It is 0 for numbers, objects
    /// with fields and other values without any; costs are computed with that 0.
    pub max_size: u64,
    /// The minimum number of bytes as JSON.
    pub min_bytes: u64,
    /// The extents of the contained values.
    pub within: Within,
}

/// The extents of contained values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Within {
    /// No contained values.
    Nothing,
    /// Items.
    Items(Arc<Extent>),
    /// Values by name. The size of the names is not estimated.
    Properties(Arc<Extent>),
    /// Fields, by their names in expressions.
    Fields(BTreeMap<String, Extent>),
}

/// The string formats that map to other types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `date`
    Date,
    /// `date-time`
    DateTime,
    /// `duration`
    Duration,
}

impl Extent {
    /// `true` or `false`.
    #[must_use]
    pub fn bool() -> Self {
        Self::scalar(0, 4)
    }

    /// An integer or any other number.
    #[must_use]
    pub fn number() -> Self {
        Self::scalar(0, 1)
    }

    /// A string of at most `max_length` characters of up to four bytes; without a limit, as long as
    /// the longest allowed value; without those, as long as a request.
    #[must_use]
    pub fn string(max_length: Option<i64>, allowed: &[&str]) -> Self {
        let longest = allowed.iter().map(|value| value.len() as u64).max();
        let max_size = max_length
            .map(in_bytes)
            .or(longest)
            .unwrap_or(MAX_REQUEST_SIZE - 2);
        Self::scalar(max_size, 2)
    }

    /// Bytes in base64.
    #[must_use]
    pub fn bytes(max_length: Option<i64>) -> Self {
        Self::scalar(max_length.map_or(MAX_REQUEST_SIZE - 2, not_negative), 2)
    }

    /// A string with a format. The schema does not limit its length.
    #[must_use]
    pub fn formatted(format: Format) -> Self {
        match format {
            Format::Date => Self::scalar(12, 12),
            Format::DateTime => Self::scalar(TIME_LENGTH, 21),
            Format::Duration => Self::scalar(TIME_LENGTH, 3),
        }
    }

    /// `x-kubernetes-int-or-string`.
    #[must_use]
    pub fn int_or_string(max_length: Option<i64>) -> Self {
        Self::scalar(max_length.map_or(MAX_REQUEST_SIZE - 2, in_bytes), 1)
    }

    /// A list.
    #[must_use]
    pub fn list(items: Self, max_items: Option<i64>) -> Self {
        // Each item has a comma.
        let fit = (MAX_REQUEST_SIZE - 2) / (items.min_bytes + 1);
        let max_size = max_items.map_or(fit, not_negative);
        Self {
            max_size,
            min_bytes: 2,
            within: Within::Items(Arc::new(items)),
        }
    }

    /// A map with arbitrary names.
    #[must_use]
    pub fn map(values: Self, max_properties: Option<i64>) -> Self {
        // Each property has a name of two characters, quotes, a colon and a comma.
        let fit = (MAX_REQUEST_SIZE - 2) / (values.min_bytes + 6);
        let max_size = max_properties.map_or(fit, not_negative);
        Self {
            max_size,
            min_bytes: 2,
            within: Within::Properties(Arc::new(values)),
        }
    }

    /// An object with fields. `required` is the minimum size of its required fields: for each the
    /// length of its name, its `min_bytes`, and 4. A field with a default is not required, because the
    /// server sets it.
    #[must_use]
    pub fn object(fields: BTreeMap<String, Self>, required: u64) -> Self {
        Self {
            max_size: 0,
            min_bytes: 2 + required,
            within: Within::Fields(fields),
        }
    }

    /// Returns how many such values fit into a request: how often a rule on them can be evaluated
    /// if no outer node sets a limit.
    #[must_use]
    pub fn cardinality(&self) -> u64 {
        MAX_REQUEST_SIZE / (self.min_bytes + 1)
    }

    /// Returns the extent found by following names from here: fields, `@items`, `@keys`, `@values`.
    pub(crate) fn follow(&self, names: &[Arc<str>]) -> Option<u64> {
        let mut at = self;
        for (index, name) in names.iter().enumerate() {
            at = match (&**name, &at.within) {
                ("@items" | "@values", Within::Items(of) | Within::Properties(of)) => of,
                // Property names have no extent and no parts.
                ("@keys", Within::Properties(_)) => return (index + 1 == names.len()).then_some(0),
                ("@items" | "@values" | "@keys", _) => return None,
                (name, Within::Fields(fields)) => fields.get(name)?,
                _ => return None,
            };
        }
        Some(at.max_size)
    }

    fn scalar(max_size: u64, min_bytes: u64) -> Self {
        Self {
            max_size,
            min_bytes,
            within: Within::Nothing,
        }
    }
}

fn not_negative(limit: i64) -> u64 {
    limit.max(0).unsigned_abs()
}

/// Converts a limit in characters to bytes. The product wraps around where that of the reference
/// implementation does.
fn in_bytes(limit: i64) -> u64 {
    limit.max(0).wrapping_mul(4).cast_unsigned()
}
