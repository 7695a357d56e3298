//! How large the values at a node of a schema can be.
//!
//! An [`Extent`] is made from the leaves up, as a walk over a schema goes: [`Extent::string`],
//! [`Extent::bytes`], [`Extent::formatted`], [`Extent::number`] and [`Extent::bool`] for scalars,
//! [`Extent::list`] and [`Extent::map`] for what holds others, [`Extent::object`] for what has
//! fields. Where the schema sets no limit, the size of a request does: as many elements as fit into
//! it if each is as small as it can be, which is why an extent knows its `least` too.
//! `declare` does all of this for a schema as JSON.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The largest request, in bytes: 3 MiB.
const REQUEST: u64 = 3 * 1024 * 1024;

/// A time as RFC 3339 writes it has at most 30 characters, and quotes. A duration is given as many.
const LONGEST_TIME: u64 = 32;

/// How large the values at a node can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The most characters, bytes, items or properties that a value can have. It is 0 for what has
    /// none, such as numbers and objects with fields: costs are counted with that.
    pub most: u64,
    /// The fewest bytes of its JSON.
    pub least: u64,
    /// What values hold.
    pub within: Within,
}

/// What values hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Within {
    /// Nothing of its own extent.
    Nothing,
    /// Items.
    Items(Arc<Extent>),
    /// Values under names. The names are not measured.
    Properties(Arc<Extent>),
    /// Fields, by the names that expressions call them.
    Fields(BTreeMap<String, Extent>),
}

/// The formats of strings that make something else of them.
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

    /// A string of at most so many characters, each of which may take four bytes; without a limit,
    /// the longest of the values that are allowed; without those, what fits into a request.
    #[must_use]
    pub fn string(max_length: Option<i64>, allowed: &[&str]) -> Self {
        let longest = allowed.iter().map(|value| value.len() as u64).max();
        let most = max_length.map(in_bytes).or(longest).unwrap_or(REQUEST - 2);
        Self::scalar(most, 2)
    }

    /// What is written in base64.
    #[must_use]
    pub fn bytes(max_length: Option<i64>) -> Self {
        Self::scalar(max_length.map_or(REQUEST - 2, not_negative), 2)
    }

    /// A string of a format. Its length is not limited by the schema.
    #[must_use]
    pub fn formatted(format: Format) -> Self {
        match format {
            Format::Date => Self::scalar(12, 12),
            Format::DateTime => Self::scalar(LONGEST_TIME, 21),
            Format::Duration => Self::scalar(LONGEST_TIME, 3),
        }
    }

    /// `x-kubernetes-int-or-string`.
    #[must_use]
    pub fn int_or_string(max_length: Option<i64>) -> Self {
        Self::scalar(max_length.map_or(REQUEST - 2, in_bytes), 1)
    }

    /// A list.
    #[must_use]
    pub fn list(items: Self, max_items: Option<i64>) -> Self {
        // Each item has a comma.
        let fit = (REQUEST - 2) / (items.least + 1);
        let most = max_items.map_or(fit, not_negative);
        Self {
            most,
            least: 2,
            within: Within::Items(Arc::new(items)),
        }
    }

    /// A map with names that the schema does not know.
    #[must_use]
    pub fn map(values: Self, max_properties: Option<i64>) -> Self {
        // Each property has a name of two characters, quotes, a colon and a comma.
        let fit = (REQUEST - 2) / (values.least + 6);
        let most = max_properties.map_or(fit, not_negative);
        Self {
            most,
            least: 2,
            within: Within::Properties(Arc::new(values)),
        }
    }

    /// An object with fields, and the bytes that its required fields take at least: each the length
    /// of its name, its least, and 4. A field with a default is not required: the server sets it.
    #[must_use]
    pub fn object(fields: BTreeMap<String, Self>, required: u64) -> Self {
        Self {
            most: 0,
            least: 2 + required,
            within: Within::Fields(fields),
        }
    }

    /// How many of such values fit into a request: how often a rule on them can be evaluated, if
    /// nothing around it sets a limit.
    #[must_use]
    pub fn cardinality(&self) -> u64 {
        REQUEST / (self.least + 1)
    }

    /// The extent of what is found by following names from here: fields, `@items`, `@keys`,
    /// `@values`.
    pub(crate) fn follow(&self, names: &[Arc<str>]) -> Option<u64> {
        let mut at = self;
        for (index, name) in names.iter().enumerate() {
            at = match (&**name, &at.within) {
                ("@items" | "@values", Within::Items(of) | Within::Properties(of)) => of,
                // Names of properties have no extent, and nothing is in them.
                ("@keys", Within::Properties(_)) => return (index + 1 == names.len()).then_some(0),
                ("@items" | "@values" | "@keys", _) => return None,
                (name, Within::Fields(fields)) => fields.get(name)?,
                _ => return None,
            };
        }
        Some(at.most)
    }

    fn scalar(most: u64, least: u64) -> Self {
        Self {
            most,
            least,
            within: Within::Nothing,
        }
    }
}

fn not_negative(limit: i64) -> u64 {
    limit.max(0).unsigned_abs()
}

/// A limit in characters as one in bytes. The product wraps around where that of the reference does.
fn in_bytes(limit: i64) -> u64 {
    limit.max(0).wrapping_mul(4).cast_unsigned()
}
