//! Bodies of responses, with bounds on the memory that they take when they are parsed.
//!
//! Parsed JSON takes far more memory than its text: an object with one member takes some hundred
//! bytes, and its text may have six. Endpoints that Secrets of namespaces name may answer with
//! anything, so the memory is estimated before a body is parsed.

use serde_json::Value;

/// The estimated size of an object without its members: a node of a tree.
const OBJECT_BYTES: usize = 640;
/// The estimated size of any other value.
const VALUE_BYTES: usize = 64;

/// The limits of responses of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The maximum size of a response.
    pub(super) response_kib: usize,
    /// The maximum estimated size of a parsed response.
    pub(super) parsed_bytes: usize,
    /// The maximum estimated size of all pages of a list.
    pub(super) list_bytes: usize,
}

impl Bounds {
    /// Returns the limits of a server. Lists and clusters have some hundred KiB.
    pub(super) const fn of(is_trusted: bool) -> Self {
        match is_trusted {
            true => Self {
                response_kib: 8 << 10,
                parsed_bytes: 128 << 20,
                list_bytes: 256 << 20,
            },
            false => Self {
                response_kib: 1 << 10,
                parsed_bytes: 16 << 20,
                list_bytes: 16 << 20,
            },
        }
    }
}

/// A body with too many elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyElements;

/// Parses a body, and returns it with its estimated size. It is null if it is empty or not JSON.
pub(super) fn parse(body: &[u8], bounds: Bounds) -> Result<(Value, usize), TooManyElements> {
    let size = parsed_size(body);
    if size > bounds.parsed_bytes {
        return Err(TooManyElements);
    }
    Ok((serde_json::from_slice(body).unwrap_or_default(), size))
}

/// Estimates the memory that JSON takes when it is parsed, in one pass over its text.
fn parsed_size(body: &[u8]) -> usize {
    let (mut size, mut is_text, mut is_escaped) = (body.len(), false, false);
    for byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'{' => size = size.saturating_add(OBJECT_BYTES),
            b'[' | b',' => size = size.saturating_add(VALUE_BYTES),
            _ => {}
        }
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_counts_objects_and_elements_outside_of_texts() {
        for (text, objects, values) in [
            ("", 0, 0),
            ("null", 0, 0),
            (r#"{"a":[1,2,{}]}"#, 2, 3),
            (r#"["{[,", "\"{", "\\", {}]"#, 1, 4),
        ] {
            let expected = text.len() + objects * OBJECT_BYTES + values * VALUE_BYTES;
            assert_eq!(parsed_size(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn bodies_of_many_small_elements_are_not_parsed() {
        for (is_trusted, most) in [(true, 8 << 20), (false, 1 << 20)] {
            let bounds = Bounds::of(is_trusted);
            assert_eq!(bounds.response_kib << 10, most);
            for element in [r#"{"":0},"#, "[],"] {
                let body = format!("[{}0]", element.repeat(most / element.len() - 1));
                let parsed = parse(body.as_bytes(), bounds);
                assert_eq!(parsed, Err(TooManyElements), "{element}");
            }
            // A list of resources as they usually are.
            let id = "/subscriptions/s/resourceGroups/g/providers/P/t/n";
            let properties = r#"{"state":"Succeeded","enabled":true,"description":"a thing"}"#;
            let element = format!(r#"{{"id":"{id}","properties":{properties}}},"#);
            let body = format!("[{}0]", element.repeat(most / element.len() - 1));
            assert!(parse(body.as_bytes(), bounds).is_ok(), "{is_trusted}");
        }
    }
}
