//! Quoted strings in Go's notation, because clients compare these messages.

use std::fmt::{self, Display, Formatter, Write};

/// A quoted string.
pub struct Quoted<'a>(pub &'a str);

/// A list of quoted strings: `["a" "b"]`.
pub struct QuotedList<'a>(pub &'a [String]);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for letter in self.0.chars() {
            quote(letter, f)?;
        }
        f.write_char('"')
    }
}

impl Display for QuotedList<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        for (place, text) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_char(' ')?;
            }
            Quoted(text).fmt(f)?;
        }
        f.write_char(']')
    }
}

fn quote(letter: char, f: &mut Formatter<'_>) -> fmt::Result {
    match letter {
        '"' => f.write_str("\\\""),
        '\\' => f.write_str("\\\\"),
        '\x07' => f.write_str("\\a"),
        '\x08' => f.write_str("\\b"),
        '\x0c' => f.write_str("\\f"),
        '\n' => f.write_str("\\n"),
        '\r' => f.write_str("\\r"),
        '\t' => f.write_str("\\t"),
        '\x0b' => f.write_str("\\v"),
        ' '..='~' => f.write_char(letter),
        '\0'..='\x7f' => write!(f, "\\x{:02x}", u32::from(letter)),
        _ if is_printable(letter) => f.write_char(letter),
        ..='\u{ffff}' => write!(f, "\\u{:04x}", u32::from(letter)),
        _ => write!(f, "\\U{:08x}", u32::from(letter)),
    }
}

/// Whether a letter beyond ASCII can be seen. A letter of its own would also be escaped if
/// it belongs to the one before it, so it gets one.
fn is_printable(letter: char) -> bool {
    let mut bytes = [0; 5];
    bytes[0] = b'a';
    let end = 1 + letter.encode_utf8(&mut bytes[1..]).len();
    let escaped = std::str::from_utf8(&bytes[..end]).map(|text| text.escape_debug().count());
    escaped == Ok(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_go_quotes_them() {
        for (text, quoted) in [
            ("", r#""""#),
            ("pods/log", r#""pods/log""#),
            (r#"a"b\c"#, r#""a\"b\\c""#),
            ("it's", r#""it's""#),
            ("a\nb\tc\r\x07\x08\x0b\x0c", r#""a\nb\tc\r\a\b\v\f""#),
            ("\0\x1b\x7f", r#""\x00\x1b\x7f""#),
            ("héllo, 世界", r#""héllo, 世界""#),
            ("e\u{301}", "\"e\u{301}\""),
            ("\u{a0}\u{200b}\u{feff}", r#""\u00a0\u200b\ufeff""#),
            ("\u{85}\u{e000}\u{2028}", r#""\u0085\ue000\u2028""#),
            ("\u{1f600}\u{e0001}", "\"\u{1f600}\\U000e0001\""),
        ] {
            assert_eq!(Quoted(text).to_string(), quoted);
        }
        for (list, quoted) in [
            (&[][..], "[]"),
            (&["a"], r#"["a"]"#),
            (&["", "b c"], r#"["" "b c"]"#),
        ] {
            let list: Vec<String> = list.iter().map(|&text: &&str| text.to_owned()).collect();
            assert_eq!(QuotedList(&list).to_string(), quoted);
        }
    }
}
