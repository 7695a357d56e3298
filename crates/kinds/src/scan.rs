//! Scanning of compact JSON text without decoding it.
//!
//! The text is the server's own writing, so it is not validated: a scanner only finds where
//! values end, and notices text that ends too early.

use std::ops::Range;

use memchr::{memchr, memchr2};

/// Returns the offset of the quote that ends the string with its first character at `start`, and
/// whether the string has escapes.
pub(crate) fn string_end(text: &[u8], start: usize) -> Option<(usize, bool)> {
    let mut at = start;
    let mut is_escaped = false;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some((at, is_escaped));
        }
        is_escaped = true;
        at += 2;
    }
}

/// Appends a string without its escapes. `None` if an escape is none that the server writes.
pub(crate) fn unescape(mut text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    while let Some(at) = memchr(b'\\', text) {
        out.extend_from_slice(&text[..at]);
        let escape = *text.get(at + 1)?;
        text = &text[at + 2..];
        let byte = match escape {
            b'"' | b'\\' | b'/' => escape,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 0x08,
            b'f' => 0x0c,
            b'u' => {
                let code = std::str::from_utf8(text.get(..4)?).ok()?;
                // The server writes no surrogates, which are no characters.
                let character = char::from_u32(u32::from_str_radix(code, 16).ok()?)?;
                text = &text[4..];
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            _ => return None,
        };
        out.push(byte);
    }
    out.extend_from_slice(text);
    Some(())
}

/// Returns the offset after the value that begins at `at`; `None` if the text ends before it.
pub fn skip_value(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0usize;
    loop {
        match *text.get(at)? {
            b'"' => at = string_end(text, at + 1)?.0 + 1,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
                continue;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            b',' | b':' if depth > 0 => {
                at += 1;
                continue;
            }
            _ => {
                let rest = &text[at..];
                let end = rest
                    .iter()
                    .position(|byte| matches!(byte, b',' | b'}' | b']'));
                let end = end.filter(|end| *end > 0);
                at += match depth {
                    0 => end.unwrap_or(rest.len()),
                    _ => end?,
                };
            }
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

/// The members of an object: their names, still escaped, and the ranges of their values.
///
/// The text is read no further than to the end of the last member that was returned.
#[derive(Debug)]
pub struct Members<'a> {
    text: &'a [u8],
    at: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    First,
    Inside,
    Ended,
    Broken,
}

impl<'a> Members<'a> {
    /// The members of the object that begins at `at`.
    pub fn new(text: &'a [u8], at: usize) -> Self {
        let state = match text.get(at) {
            Some(b'{') => State::First,
            _ => State::Broken,
        };
        Self {
            text,
            at: at + 1,
            state,
        }
    }

    /// Whether the end of the object was reached.
    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    fn read(&mut self) -> Option<(&'a [u8], Range<usize>)> {
        let mut next = *self.text.get(self.at)?;
        if next == b'}' {
            self.state = State::Ended;
            return None;
        }
        if self.state == State::Inside {
            next = *self.text.get(self.at + 1).filter(|_| next == b',')?;
            self.at += 1;
        }
        if next != b'"' {
            return None;
        }
        let (end, _) = string_end(self.text, self.at + 1)?;
        let name = &self.text[self.at + 1..end];
        let start = end + 2;
        if self.text.get(end + 1) != Some(&b':') {
            return None;
        }
        self.at = skip_value(self.text, start)?;
        self.state = State::Inside;
        Some((name, start..self.at))
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a [u8], Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        if matches!(self.state, State::Ended | State::Broken) {
            return None;
        }
        let member = self.read();
        if member.is_none() && self.state != State::Ended {
            self.state = State::Broken;
        }
        member
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_skipped_to_its_end() {
        for (text, end) in [
            (r#"{"a":[1,"}",{"b":"\""}]},x"#, 24),
            (r#""a\\","#, 5),
            ("12,", 2),
            ("true}", 4),
            ("7", 1),
            ("[]]", 2),
        ] {
            assert_eq!(skip_value(text.as_bytes(), 0), Some(end), "{text}");
        }
        for text in ["", "{", r#"{"a":1"#, r#""a"#, r#""a\"#, "]", "[1,2"] {
            assert_eq!(skip_value(text.as_bytes(), 0), None, "{text}");
        }
    }

    #[test]
    fn members_end_with_the_object_or_with_the_text() {
        let names = |text: &str| {
            let mut members = Members::new(text.as_bytes(), 0);
            let names: Vec<String> = members
                .by_ref()
                .map(|(name, value)| format!("{}={}", String::from_utf8_lossy(name), &text[value]))
                .collect();
            (names.join(" "), members.has_ended())
        };
        let of = |text: &str, is_whole| (text.to_owned(), is_whole);
        assert_eq!(names("{}"), of("", true));
        assert_eq!(
            names(r#"{"a":1,"b":{"c":[]},"d":"x"}y"#),
            of(r#"a=1 b={"c":[]} d="x""#, true)
        );
        assert_eq!(names(r#"{"a":1,"b":{"c""#), of("a=1", false));
        assert_eq!(names(r#"{"a":[] "b":2}"#), of("a=[]", false));
        assert_eq!(names("[]"), of("", false));
        assert_eq!(names(""), of("", false));
    }
}
