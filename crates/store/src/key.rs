use std::fmt;
use std::ops::Bound;

use bytes::Bytes;

/// A key: opaque bytes, ordered as bytes.
pub type Key = Bytes;

/// A half-open range of keys: from `start`, up to but not including `end`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyRange {
    start: Key,
    /// `None`: no upper end.
    end: Option<Key>,
}

impl KeyRange {
    /// Every key.
    pub const fn all() -> Self {
        Self {
            start: Bytes::new(),
            end: None,
        }
    }

    /// The range of this key alone.
    pub fn single(key: impl Into<Key>) -> Self {
        let start = key.into();
        let end = Some(successor(&start));
        Self { start, end }
    }

    /// Every key that begins with `prefix`.
    pub fn prefix(prefix: impl Into<Key>) -> Self {
        let start = prefix.into();
        let end = after_prefix(&start);
        Self { start, end }
    }

    /// From `start`, up to but not including `end`.
    pub fn between(start: impl Into<Key>, end: impl Into<Key>) -> Self {
        Self {
            start: start.into(),
            end: Some(end.into()),
        }
    }

    /// The part of this range after `key`, for the next page.
    #[must_use]
    pub fn after(&self, key: &Key) -> Self {
        Self {
            start: successor(key).max(self.start.clone()),
            end: self.end.clone(),
        }
    }

    /// The part of this range from `key` on.
    #[must_use]
    pub fn from(&self, key: impl Into<Key>) -> Self {
        Self {
            start: key.into().max(self.start.clone()),
            end: self.end.clone(),
        }
    }

    /// The first key of the range.
    pub const fn start(&self) -> &Key {
        &self.start
    }

    /// The first key after the range; `None` if it has no upper end.
    pub const fn end(&self) -> Option<&Key> {
        self.end.as_ref()
    }

    /// Whether `key` is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= &self.start[..] && self.end.as_ref().is_none_or(|end| key < &end[..])
    }

    /// Whether no key can be in the range.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// The key of a range made by [`Self::single`].
    pub fn as_single(&self) -> Option<&Key> {
        let end = self.end.as_ref()?;
        let one = end.len() == self.start.len() + 1
            && end.last() == Some(&0)
            && end.starts_with(&self.start);
        one.then_some(&self.start)
    }

    /// The range's bounds for ordered maps. The range must not be empty.
    pub fn bounds(&self) -> (Bound<Key>, Bound<Key>) {
        let end = self.end.clone().map_or(Bound::Unbounded, Bound::Excluded);
        (Bound::Included(self.start.clone()), end)
    }
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, ", self.start.escape_ascii())?;
        match &self.end {
            Some(end) => write!(f, "{})", end.escape_ascii()),
            None => f.write_str("..)"),
        }
    }
}

/// The smallest key that is larger than `key`.
fn successor(key: &[u8]) -> Key {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next.into()
}

/// The smallest key that is larger than every key with this prefix, if there is one.
fn after_prefix(prefix: &[u8]) -> Option<Key> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bytes: &'static [u8]) -> Key {
        Bytes::from_static(bytes)
    }

    #[test]
    fn prefix_contains_exactly_the_keys_that_begin_with_it() {
        let range = KeyRange::prefix(&b"/a/"[..]);
        assert!(range.contains(b"/a/"));
        assert!(range.contains(b"/a/\xff\xff"));
        assert!(!range.contains(b"/a"));
        assert!(!range.contains(b"/a0"));
        assert_eq!(KeyRange::prefix(&b"a\xff"[..]).end(), Some(&key(b"b")));
        assert_eq!(KeyRange::prefix(&b"\xff\xff"[..]).end(), None);
        assert_eq!(KeyRange::prefix(Key::new()), KeyRange::all());
    }

    #[test]
    fn single_key_range_is_recognised() {
        let single = KeyRange::single(&b"k"[..]);
        assert_eq!(single.as_single(), Some(&key(b"k")));
        assert!(single.contains(b"k") && !single.contains(b"k\0"));
        assert_eq!(KeyRange::prefix(&b"k"[..]).as_single(), None);
        assert_eq!(KeyRange::between(&b"j"[..], &b"k\0"[..]).as_single(), None);
    }

    #[test]
    fn range_after_a_key_starts_right_behind_it() {
        let rest = KeyRange::prefix(&b"k"[..]).after(&key(b"k1"));
        assert!(!rest.contains(b"k1") && rest.contains(b"k1\0") && !rest.contains(b"l"));
        assert!(KeyRange::single(&b"k"[..]).after(&key(b"k")).is_empty());
    }
}
