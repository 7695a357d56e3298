//! The form of sealed values.
//!
//! ```text
//! insula:enc:v1:   no JSON value begins like this
//! length           of the ID, one byte
//! data key ID      a tenant's UID, or `system`
//! salt             24 bytes
//! ciphertext       as long as the value
//! tag              16 bytes
//! ```
//!
//! The key in the store is associated data: a value that is copied to another key does not open.

use bytes::Bytes;

use crate::DataKeyId;
use crate::cipher::{Cipher, NoRandomness, NotAuthentic};

const PREFIX: &[u8] = b"insula:enc:v1:";

/// A sealed value, split into its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The ID of the data key.
    pub id: &'a str,
    sealed: &'a [u8],
}

/// Whether a stored value is sealed.
pub fn is_sealed(value: &[u8]) -> bool {
    value.starts_with(PREFIX)
}

impl<'a> Envelope<'a> {
    /// Splits a sealed value. Returns `None` for a plain one, and an error for a damaged header.
    pub fn parse(value: &'a [u8]) -> Option<Result<Self, NotAuthentic>> {
        let rest = value.strip_prefix(PREFIX)?;
        Some(Self::parse_header(rest).ok_or(NotAuthentic))
    }

    fn parse_header(rest: &'a [u8]) -> Option<Self> {
        let (length, rest) = rest.split_first()?;
        let (id, sealed) = rest.split_at_checked(usize::from(*length))?;
        let id = std::str::from_utf8(id).ok()?;
        Some(Self { id, sealed })
    }

    /// Opens the value of `key`.
    pub fn open(&self, data_key: &Cipher, key: &[u8]) -> Result<Bytes, NotAuthentic> {
        Ok(data_key.open(key, self.sealed)?.into())
    }
}

/// Seals the value of `key`.
pub fn seal(
    id: &DataKeyId,
    data_key: &Cipher,
    key: &[u8],
    value: &[u8],
) -> Result<Bytes, NoRandomness> {
    let id = id.as_str();
    let length = u8::try_from(id.len()).map_err(|_| NoRandomness)?;
    let mut output = Vec::with_capacity(PREFIX.len() + 1 + id.len() + 40 + value.len());
    output.extend_from_slice(PREFIX);
    output.push(length);
    output.extend_from_slice(id.as_bytes());
    data_key.seal(key, value, &mut output)?;
    Ok(output.into())
}

#[cfg(test)]
mod tests {
    use insula_store::Transaction;

    use super::*;

    #[test]
    fn value_moved_to_another_key_or_tenant_does_not_open() {
        let a = DataKeyId::tenant("a").unwrap();
        let data_key = Cipher::new("data", &[1; 32]);
        let value = seal(&a, &data_key, b"/registry/secrets/t/n/s", b"{}").unwrap();
        assert!(is_sealed(&value));
        let envelope = Envelope::parse(&value).unwrap().unwrap();
        assert_eq!(envelope.id, "a");
        let opened = envelope
            .open(&data_key, b"/registry/secrets/t/n/s")
            .unwrap();
        assert_eq!(opened, "{}");
        let moved = envelope.open(&data_key, b"/registry/secrets/u/n/s");
        assert_eq!(moved, Err(NotAuthentic));
        let others = Cipher::new("data", &[2; 32]);
        let opened = envelope.open(&others, b"/registry/secrets/t/n/s");
        assert_eq!(opened, Err(NotAuthentic));
    }

    #[test]
    fn plain_values_have_no_envelope_and_damaged_headers_are_errors() {
        for plain in [&b"{}"[..], b"", b"k8s\0", b"insula:enc:"] {
            assert_eq!(Envelope::parse(plain), None);
        }
        for damaged in [&b"insula:enc:v1:"[..], b"insula:enc:v1:\x05abc"] {
            assert_eq!(Envelope::parse(damaged), Some(Err(NotAuthentic)));
        }
    }

    #[test]
    fn envelopes_of_the_largest_transaction_fit_into_its_overhead() {
        let longest = DataKeyId::parse(&"a".repeat(DataKeyId::MAX_BYTES)).unwrap();
        let value = seal(&longest, &Cipher::new("data", &[1; 32]), b"k", b"").unwrap();
        let all = value.len() * Transaction::MAX_OPERATIONS;
        assert!(all <= Transaction::MAX_OVERHEAD_BYTES, "{all}");
    }
}
