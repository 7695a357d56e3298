//! Sanitizing of untrusted text for terminals.

use insula_broker::columns;

/// Removes control characters that would steer a terminal, since some of the text was written
/// by others. Line breaks stay.
pub fn sanitize(text: &str) -> String {
    let sanitize = |sign: char| match sign {
        '\n' => '\n',
        sign => columns::sanitize(sign),
    };
    text.chars().map(sanitize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced_and_line_breaks_stay() {
        assert_eq!(
            sanitize("a\x1b[31mb\r\n\u{9b}c"),
            "a\u{fffd}[31mb\u{fffd}\n\u{fffd}c"
        );
    }
}
