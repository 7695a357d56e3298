//! Values that are described in a few letters and verified to the last byte.

use std::fmt;
use std::str::FromStr;

use anyhow::Context;
use bytes::Bytes;
use insula_store::laws::model::Rng;

/// The description of a value: a tag, and a length that the derived bytes fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// Unique per value, so that no two values are confused.
    pub tag: u64,
    /// The length of the value, at least that of a tag.
    pub length: usize,
}

impl Content {
    /// A random description. Half are small, and a few are large enough to fill a memory table at
    /// once.
    pub fn random(dice: &mut Rng) -> Self {
        let most = match dice.below(16) {
            0..=7 => 300,
            8..=12 => 4 << 10,
            _ => 20 << 10,
        };
        let length = 10 + usize::try_from(dice.below(most - 10)).unwrap_or(0);
        Self {
            tag: dice.next_u64(),
            length,
        }
    }

    /// The value.
    pub fn bytes(self) -> Bytes {
        let mut bytes = Vec::with_capacity(self.length + 8);
        bytes.extend_from_slice(&self.tag.to_be_bytes());
        let mut dice = Rng::new(self.tag);
        while bytes.len() < self.length {
            bytes.extend_from_slice(&dice.next_u64().to_be_bytes());
        }
        bytes.truncate(self.length);
        bytes.into()
    }

    /// The description of `value`, or `None` if any byte differs from such a value.
    pub fn of(value: &Bytes) -> Option<Self> {
        let tag = u64::from_be_bytes(*value.first_chunk()?);
        let length = value.len();
        let content = Self { tag, length };
        (content.bytes() == *value).then_some(content)
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{}", self.tag, self.length)
    }
}

impl FromStr for Content {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let parse = || -> Option<Self> {
            let (tag, length) = text.split_once('.')?;
            let tag = u64::from_str_radix(tag, 16).ok()?;
            let length = length.parse().ok()?;
            Some(Self { tag, length })
        };
        parse().with_context(|| format!("{text:?} is no value that was ever written"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_identified_by_tag_length_and_every_byte() {
        let mut dice = Rng::new(1);
        for _ in 0..100 {
            let content = Content::random(&mut dice);
            let value = content.bytes();
            assert_eq!(value.len(), content.length);
            assert_eq!(Content::of(&value), Some(content));
            assert_eq!(content.to_string().parse::<Content>().unwrap(), content);
            let mut other = value.to_vec();
            *other.last_mut().unwrap() ^= 1;
            assert_eq!(Content::of(&other.into()), None);
        }
    }
}
