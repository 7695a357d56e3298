//! Quoted strings as `strconv.Quote` and the verb `%q` of `fmt` print them.
//!
//! Two quotations of Kubernetes look alike and are not these: `strings.quote` of CEL escapes
//! fewer characters, and the times in the errors of Go's `time` are escaped byte by byte.

use std::fmt::{self, Display, Formatter, Write};

/// A string that is displayed in double quotes, with Go's escapes.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a str);

/// A list that is displayed as `%q` prints a slice of strings: `["a" "b"]`.
#[derive(Clone, Copy, Debug)]
pub struct QuotedList<'a>(pub &'a [String]);

/// Returns the string in double quotes, with Go's escapes.
pub fn quote(text: &str) -> String {
    // Strings that need no escapes, nearly all of them, are allocated once.
    let mut quoted = String::with_capacity(text.len() + 2);
    // Writing to a String cannot fail.
    _ = write_quoted(text, &mut quoted);
    quoted
}

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_quoted(self.0, f)
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

fn write_quoted(text: &str, f: &mut impl Write) -> fmt::Result {
    f.write_char('"')?;
    text.chars()
        .try_for_each(|letter| write_escaped(letter, f))?;
    f.write_char('"')
}

fn write_escaped(letter: char, f: &mut impl Write) -> fmt::Result {
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

/// Returns whether a character is printable as `strconv.IsPrint` defines it.
pub fn is_printable(letter: char) -> bool {
    // Rust's debug output escapes the other characters, but also quotes, backslashes, and a
    // combining character that has no other before it. Hence the `a`.
    match letter {
        ..='\x7f' => matches!(letter, ' '..='~'),
        '\u{fffd}' => true,
        _ => {
            let mut bytes = [b'a'; 5];
            let end = 1 + letter.encode_utf8(&mut bytes[1..]).len();
            let text = std::str::from_utf8(&bytes[..end]).unwrap_or_default();
            text.escape_debug().count() == 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_as_go_quotes_them() {
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
            assert_eq!(quote(text), quoted);
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
