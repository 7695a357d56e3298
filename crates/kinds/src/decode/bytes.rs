//! Base64 as Go reads it: line ends are skipped, stray bits at the end forgiven.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Returns the canonical base64 of the same bytes, or the offset where Go stops reading.
pub(super) fn canonical(text: &str) -> Result<Cow<'_, str>, usize> {
    if is_canonical(text.as_bytes()) {
        return Ok(Cow::Borrowed(text));
    }
    decode(text.as_bytes()).map(|bytes| Cow::Owned(encode(&bytes)))
}

/// Encodes bytes as base64.
pub(super) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Almost all base64 is already canonical and needs no copy.
fn is_canonical(text: &[u8]) -> bool {
    if !text.len().is_multiple_of(4) {
        return false;
    }
    let padding = text
        .iter()
        .rev()
        .take(2)
        .take_while(|&&b| b == b'=')
        .count();
    let digits = &text[..text.len() - padding];
    // Unused bits of the last digit must be zero.
    let stray = match padding {
        0 => 0,
        1 => 0b11,
        _ => 0b1111,
    };
    digits.iter().all(|&byte| digit(byte).is_some())
        && digits
            .last()
            .and_then(|&last| digit(last))
            .is_none_or(|last| last & stray == 0)
}

fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut group = [0u8; 4];
    let mut filled = 0;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match (byte, digit(byte)) {
            (_, Some(value)) => {
                group[filled] = value;
                filled += 1;
                if filled == 4 {
                    bytes.extend(joined(group));
                    filled = 0;
                }
            }
            (b'\r' | b'\n', _) => {}
            (b'=', _) if filled >= 2 => {
                padding(text, at, filled)?;
                group[filled..].fill(0);
                bytes.extend(&joined(group)[..filled - 1]);
                return Ok(bytes);
            }
            _ => return Err(at - 1),
        }
    }
    match filled {
        0 => Ok(bytes),
        // Go counts the digits of the broken group back from the end.
        _ => Err(text.len() - filled),
    }
}

/// Checks the padding after the first `=`.
fn padding(text: &[u8], mut at: usize, filled: usize) -> Result<(), usize> {
    let skip = |mut at: usize| {
        while matches!(text.get(at), Some(b'\r' | b'\n')) {
            at += 1;
        }
        at
    };
    if filled == 2 {
        at = skip(at);
        match text.get(at) {
            None => return Err(text.len()),
            Some(b'=') => at += 1,
            Some(_) => return Err(at - 1),
        }
    }
    at = skip(at);
    if at < text.len() { Err(at) } else { Ok(()) }
}

fn joined([a, b, c, d]: [u8; 4]) -> [u8; 3] {
    [a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d]
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_canonicalized() {
        let cases = [
            ("", ""),
            ("YQ==", "YQ=="),
            ("YWI=", "YWI="),
            ("YWJj", "YWJj"),
            ("YW\nJj\r\n", "YWJj"),
            ("YR==", "YQ=="),
            ("YWJ=", "YWI="),
            ("YQ=\n=\n", "YQ=="),
            ("YWJjZA==", "YWJjZA=="),
        ];
        for (text, wanted) in cases {
            assert_eq!(canonical(text).as_deref(), Ok(wanted), "{text:?}");
        }
    }

    #[test]
    fn errors_name_the_byte_where_go_stops() {
        let cases = [
            ("!!!", 0),
            ("a", 0),
            ("YQ", 0),
            ("YWJjY", 4),
            ("YQ=", 3),
            ("YQ=x", 2),
            ("=", 0),
            ("Y===", 1),
            ("YQ==x", 4),
            ("YWJj!", 4),
            ("YWJ-", 3),
        ];
        for (text, wanted) in cases {
            assert_eq!(canonical(text), Err(wanted), "{text:?}");
        }
    }
}
