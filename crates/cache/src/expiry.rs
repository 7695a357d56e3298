//! Objects that expire some time after their last write: events.
//!
//! The time of the last write is stored after the object and never sent. So it is known after a
//! restart and to every server that shares the store, whatever the object itself claims.

use std::borrow::Cow;

use bytes::Bytes;
use insula_kinds::KindId;

use insula_kinds::core_kind;

use crate::collection_key::{CollectionKey, Keyed};

/// The text before the time.
const MARK: &[u8] = br#","lastWritten":"#;

/// The digits of a time up to the year 2106, the last that fits into four bytes.
const DIGITS: usize = 10;

/// The kind of objects that expire.
pub fn expiring() -> KindId {
    core_kind("events")
}

/// Whether objects of the collection expire.
pub fn expires(key: CollectionKey<'_>) -> bool {
    key == CollectionKey::BuiltIn(expiring())
}

/// Returns the stored form of an object that is written now.
pub fn stored(kind: impl Keyed, value: Bytes) -> Bytes {
    match expires(kind.collection_key()) {
        true => dated(&value, now()),
        false => value,
    }
}

/// Splits a [stored](stored) value into the object and the time of its last write, which is zero
/// if there is none.
pub fn undated(value: &[u8]) -> (Cow<'_, [u8]>, u32) {
    let cut = value.len().saturating_sub(MARK.len() + DIGITS + 1);
    let (object, date) = value.split_at(cut);
    let digits = date
        .strip_prefix(MARK)
        .and_then(|rest| rest.strip_suffix(b"}"));
    let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(written) => ([object, b"}"].concat().into(), written),
        None => (value.into(), 0),
    }
}

/// Returns the time, in seconds since 1970.
pub fn now() -> u32 {
    u32::try_from(jiff::Timestamp::now().as_second()).unwrap_or(u32::MAX)
}

fn dated(value: &[u8], now: u32) -> Bytes {
    let object = value.strip_suffix(b"}").unwrap_or(value);
    let date = format!("{now:0DIGITS$}}}");
    [object, MARK, date.as_bytes()].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dating_and_undating_returns_the_object() {
        for object in [r#"{"a":"}"}"#, r#"{"a":{"lastWritten":1}}"#] {
            for time in [1_000_000_000, 1_800_000_000, u32::MAX] {
                let stored = dated(object.as_bytes(), time);
                assert!(serde_json::from_slice::<serde_json::Value>(&stored).is_ok());
                let (shown, written) = undated(&stored);
                assert_eq!((&*shown, written), (object.as_bytes(), time));
            }
        }
    }

    #[test]
    fn values_without_a_date_are_unchanged() {
        for plain in [
            "",
            "}",
            r#"{"a":1}"#,
            r#"{"a":1,"lastWritten":18000000}"#,
            r#"{"a":1,"lastWritten":"180000000"}"#,
            r#"{"a":1,"lastWritten":9999999999}"#,
        ] {
            let (shown, written) = undated(plain.as_bytes());
            assert_eq!((&*shown, written), (plain.as_bytes(), 0), "{plain}");
        }
    }
}
