//! IDs under which tokens are recorded and revoked.

use std::sync::Arc;

use ring::digest::{SHA256, digest};

/// Returns an ID for a token that has none: a digest of its header and claims. The signature is
/// left out, because a holder can compute another valid one of some algorithms; without it, the
/// token cannot be computed from the ID either.
pub fn digest_id(token: &str) -> Arc<str> {
    let (message, _) = token.rsplit_once('.').unwrap_or((token, ""));
    digest_of(message)
}

/// Returns the ID under which a token is recorded and revoked: its own, or a digest of a long one.
pub fn bounded_id(id: &str) -> Arc<str> {
    match id.len() {
        ..=MAX_ID_BYTES => id.into(),
        _ => digest_of(id),
    }
}

fn digest_of(text: &str) -> Arc<str> {
    let digest = digest(&SHA256, text.as_bytes());
    let short = &digest.as_ref()[..DIGEST_ID_LENGTH];
    format!("sha256-{}", crate::hexadecimal(short)).into()
}

/// The most bytes of an ID. The `jti` of a provider may be longer.
const MAX_ID_BYTES: usize = 128;

/// Bytes of the digest in an ID.
const DIGEST_ID_LENGTH: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_of_a_token_is_short_and_does_not_depend_on_its_signature() {
        let id = digest_id("header.claims.signature");
        assert_eq!(id, digest_id("header.claims.other"));
        assert_ne!(id, digest_id("header.others.signature"));
        assert_eq!(id.len(), "sha256-".len() + 32);
        assert_eq!(&*bounded_id("j"), "j");
        let longest = "x".repeat(128);
        assert_eq!(*bounded_id(&longest), *longest);
        let id = bounded_id(&"x".repeat(129));
        assert!(id.starts_with("sha256-") && id.len() == 39, "{id}");
        assert_ne!(id, bounded_id(&"x".repeat(130)));
    }
}
