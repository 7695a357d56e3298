//! kube-apiserver's rules for the answers of plugins.

use std::collections::BTreeMap;

use crate::error::ErrorKind;
use crate::plugin::{Encrypted, Status};

/// The largest identifier of a key, in bytes.
pub const MAX_KEY_ID_BYTES: usize = 1024;
/// The largest encrypted key, in bytes.
pub const MAX_CIPHERTEXT_BYTES: usize = 1024;
/// The largest sum of the sizes of the annotations' keys and values.
pub const MAX_ANNOTATIONS_BYTES: usize = 32 * 1024;

/// The versions of the protocol; both mean the same.
const VERSIONS: [&str; 2] = ["v2", "v2beta1"];

pub(crate) fn status(status: &Status) -> Result<(), ErrorKind> {
    // The version comes first: what another version calls healthy is not known.
    if !VERSIONS.contains(&status.version.as_str()) {
        return Err(ErrorKind::UnsupportedVersion(status.version.clone()));
    }
    if status.healthz != "ok" {
        return Err(ErrorKind::Unhealthy(status.healthz.clone()));
    }
    key_id(&status.key_id)
}

pub(crate) fn encrypted(encrypted: &Encrypted) -> Result<(), ErrorKind> {
    let invalid = |why: String| Err(ErrorKind::InvalidResponse(why));
    match encrypted.ciphertext.len() {
        0 => return invalid("the ciphertext is empty".to_owned()),
        bytes @ 1.. if bytes > MAX_CIPHERTEXT_BYTES => {
            return invalid(format!(
                "the ciphertext is {bytes} bytes, which exceeds the max size of {MAX_CIPHERTEXT_BYTES}"
            ));
        }
        _ => {}
    }
    key_id(&encrypted.key_id)?;
    annotations(&encrypted.annotations)
}

fn key_id(key_id: &str) -> Result<(), ErrorKind> {
    let bytes = key_id.len();
    if bytes == 0 {
        return Err(ErrorKind::InvalidResponse("the keyID is empty".to_owned()));
    }
    if bytes > MAX_KEY_ID_BYTES {
        return Err(ErrorKind::InvalidResponse(format!(
            "the keyID is {bytes} bytes, which exceeds the max size of {MAX_KEY_ID_BYTES}"
        )));
    }
    Ok(())
}

fn annotations(annotations: &BTreeMap<String, Vec<u8>>) -> Result<(), ErrorKind> {
    if let Some(key) = annotations.keys().find(|key| !is_domain_name(key)) {
        return Err(ErrorKind::InvalidResponse(format!(
            "the annotation key {key:?} is not a fully qualified domain name"
        )));
    }
    let sizes = annotations
        .iter()
        .map(|(key, value)| key.len() + value.len());
    let bytes: usize = sizes.sum();
    if bytes > MAX_ANNOTATIONS_BYTES {
        return Err(ErrorKind::InvalidResponse(format!(
            "the total size of annotations is {bytes}, which exceeds the max size of {MAX_ANNOTATIONS_BYTES}"
        )));
    }
    Ok(())
}

/// Whether this is a domain name of at least two labels, as RFC 1123 defines them; a trailing dot
/// is allowed.
fn is_domain_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.len() <= 253 && name.contains('.') && name.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = label.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    bytes.len() <= 63
        && is_alphanumeric(first)
        && is_alphanumeric(last)
        && bytes
            .iter()
            .all(|&byte| is_alphanumeric(byte) || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> Status {
        Status {
            version: "v2".to_owned(),
            healthz: "ok".to_owned(),
            key_id: "key-1".to_owned(),
        }
    }

    fn valid() -> Encrypted {
        Encrypted {
            ciphertext: vec![7; 60],
            key_id: "key-1".to_owned(),
            annotations: BTreeMap::from([("kms.example.com".to_owned(), vec![1])]),
        }
    }

    #[test]
    fn status_needs_a_known_version_health_and_a_key() {
        assert_eq!(status(&healthy()), Ok(()));
        let beta = Status {
            version: "v2beta1".to_owned(),
            ..healthy()
        };
        assert_eq!(status(&beta), Ok(()));

        let alpha = Status {
            version: "v2alpha1".to_owned(),
            ..healthy()
        };
        let refused = Err(ErrorKind::UnsupportedVersion("v2alpha1".to_owned()));
        assert_eq!(status(&alpha), refused);

        let sick = Status {
            healthz: "HSM gone".to_owned(),
            ..healthy()
        };
        assert_eq!(
            status(&sick),
            Err(ErrorKind::Unhealthy("HSM gone".to_owned()))
        );

        let keyless = Status {
            key_id: String::new(),
            ..healthy()
        };
        let refused = Err(ErrorKind::InvalidResponse("the keyID is empty".to_owned()));
        assert_eq!(status(&keyless), refused);
    }

    #[test]
    fn sizes_are_accepted_up_to_their_limits_and_no_further() {
        let sized = |ciphertext, key_id, value| Encrypted {
            ciphertext: vec![0; ciphertext],
            key_id: "k".repeat(key_id),
            annotations: BTreeMap::from([("a.b".to_owned(), vec![0; value])]),
        };
        let largest = (
            MAX_CIPHERTEXT_BYTES,
            MAX_KEY_ID_BYTES,
            MAX_ANNOTATIONS_BYTES - 3,
        );
        assert_eq!(encrypted(&sized(largest.0, largest.1, largest.2)), Ok(()));
        assert_eq!(encrypted(&sized(1, 1, 0)), Ok(()));
        for (response, why) in [
            (sized(0, 1, 0), "the ciphertext is empty"),
            (
                sized(1025, 1, 0),
                "the ciphertext is 1025 bytes, which exceeds the max size of 1024",
            ),
            (sized(1, 0, 0), "the keyID is empty"),
            (
                sized(1, 1025, 0),
                "the keyID is 1025 bytes, which exceeds the max size of 1024",
            ),
            (
                sized(1, 1, largest.2 + 1),
                "the total size of annotations is 32769, which exceeds the max size of 32768",
            ),
        ] {
            let refused = Err(ErrorKind::InvalidResponse(why.to_owned()));
            assert_eq!(encrypted(&response), refused);
        }
    }

    #[test]
    fn annotation_keys_are_fully_qualified_domain_names() {
        let with_key = |key: &str| Encrypted {
            annotations: BTreeMap::from([(key.to_owned(), Vec::new())]),
            ..valid()
        };
        for key in ["kms.example.com", "a.b", "a.b.", "1.x-y"] {
            assert_eq!(encrypted(&with_key(key)), Ok(()), "{key}");
        }
        let long = format!("{}.b", "a".repeat(64));
        for key in [
            "",
            ".",
            "example",
            "Kms.example.com",
            "-a.b",
            "a-.b",
            "a..b",
            "a_b.c",
            &long,
        ] {
            let why = format!("the annotation key {key:?} is not a fully qualified domain name");
            let refused = Err(ErrorKind::InvalidResponse(why));
            assert_eq!(encrypted(&with_key(key)), refused, "{key}");
        }
    }
}
