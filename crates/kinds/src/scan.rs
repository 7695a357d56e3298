//! Scanning of compact JSON text without decoding it.
//!
//! The text is the server's own writing, so it is not validated: a scanner only finds where
//! values end, and notices text that ends too early.

use std::ops::Range;

use memchr::{memchr, memchr2};

/// How many words of a string are searched before `memchr2` is called. Nearly all strings are
/// names that end within them, and the call would take longer than the search.
const SEARCHED_WORDS: usize = 4;

/// Returns the offset of the quote that ends the string with its first character at `start`, and
/// whether the string has escapes.
#[inline]
pub(crate) fn string_end(text: &[u8], start: usize) -> Option<(usize, bool)> {
    let mut at = start;
    let mut is_escaped = false;
    loop {
        at += quote_or_backslash(text.get(at..)?)?;
        if text[at] == b'"' {
            return Some((at, is_escaped));
        }
        is_escaped = true;
        at += 2;
    }
}

/// Returns the offset of the first quote or backslash.
#[inline]
fn quote_or_backslash(text: &[u8]) -> Option<usize> {
    let (words, _) = text.as_chunks::<WORD>();
    let words = &words[..words.len().min(SEARCHED_WORDS)];
    for (index, word) in words.iter().enumerate() {
        let found = bytes_equal(*word, b'"') | bytes_equal(*word, b'\\');
        if found != 0 {
            return Some(index * WORD + found.trailing_zeros() as usize / 8);
        }
    }
    let searched = words.len() * WORD;
    memchr2(b'"', b'\\', &text[searched..]).map(|at| searched + at)
}

/// The bytes of a word.
const WORD: usize = size_of::<u64>();

/// Marks the bytes of the word that equal this one by their highest bits. Bytes behind the first
/// mark may be marked, too.
#[inline]
const fn bytes_equal(word: [u8; WORD], byte: u8) -> u64 {
    const ONES: u64 = u64::from_le_bytes([0x01; WORD]);
    const HIGHEST: u64 = u64::from_le_bytes([0x80; WORD]);
    let differs = u64::from_le_bytes(word) ^ u64::from_le_bytes([byte; WORD]);
    differs.wrapping_sub(ONES) & !differs & HIGHEST
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

    /// Returns the offset at which the value of the member with this name begins. Nothing behind
    /// it is read.
    pub fn start_of(mut self, name: &[u8]) -> Option<usize> {
        while self.state != State::Broken {
            if self.read_name()? == name {
                return Some(self.at);
            }
            self.at = skip_value(self.text, self.at)?;
            self.state = State::Inside;
        }
        None
    }

    /// Whether the end of the object was reached.
    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    fn read(&mut self) -> Option<(&'a [u8], Range<usize>)> {
        let name = self.read_name()?;
        let start = self.at;
        self.at = skip_value(self.text, start)?;
        self.state = State::Inside;
        Some((name, start..self.at))
    }

    /// Reads the name of the next member, up to its value.
    fn read_name(&mut self) -> Option<&'a [u8]> {
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
        if self.text.get(end + 1) != Some(&b':') {
            return None;
        }
        self.at = end + 2;
        Some(name)
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
    fn strings_of_every_length_are_read_to_their_end() {
        for length in 0..80 {
            let content = "a!#[]\u{80}\u{a2}\u{dc}".chars().cycle().take(length);
            let content: String = content.collect();
            for (text, is_escaped) in [
                (content.clone(), false),
                (format!("{content}\\\"{content}"), true),
                (format!("\\\\{content}"), true),
            ] {
                for behind in ["", ",\"\\", r#""":"abcdefghijkl""#] {
                    let whole = format!("{text}\"{behind}");
                    let expected = Some((text.len(), is_escaped));
                    assert_eq!(string_end(whole.as_bytes(), 0), expected, "{whole}");
                }
                assert_eq!(string_end(text.as_bytes(), 0), None, "{text}");
            }
        }
    }

    #[test]
    fn start_of_a_member_is_found_without_its_end() {
        let start = |text: &str| Members::new(text.as_bytes(), 0).start_of(b"m");
        assert_eq!(start(r#"{"k":"m","v":{"m":1},"m":{"n"#), Some(25));
        assert_eq!(start(r#"{"m":"#), Some(5));
        for none in ["", "{", "{}", r#"{"k":1"#, r#"{"k":1}"m":2"#, r#"["m":1]"#] {
            assert_eq!(start(none), None, "{none}");
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
