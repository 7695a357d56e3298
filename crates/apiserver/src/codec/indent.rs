//! JSON on many lines, for people.

use memchr::memchr2;

/// Indents JSON by two spaces per level, and keeps the order of members. The text may come in
/// pieces that end anywhere.
#[derive(Debug, Default)]
pub struct Indenter {
    depth: usize,
    is_in_string: bool,
    /// Whether the last byte was a backslash that escapes the next one.
    is_escape: bool,
    /// Whether the last byte opened an object or array, which may be empty.
    is_open: bool,
}

impl Indenter {
    /// Appends the next piece of the text.
    pub fn push(&mut self, json: &[u8], out: &mut Vec<u8>) {
        let mut rest = json;
        while let Some((&byte, after)) = rest.split_first() {
            if self.is_in_string {
                rest = self.push_string(rest, out);
                continue;
            }
            rest = after;
            if matches!(byte, b'\n' | b' ') {
                continue;
            }
            let was_open = std::mem::take(&mut self.is_open);
            match (byte, was_open) {
                (b'}' | b']', true) => {}
                (b'}' | b']', false) => {
                    self.depth = self.depth.saturating_sub(1);
                    self.line(out);
                }
                (_, true) => {
                    self.depth += 1;
                    self.line(out);
                }
                (_, false) => {}
            }
            out.push(byte);
            match byte {
                b'"' => self.is_in_string = true,
                b'{' | b'[' => self.is_open = true,
                b',' => self.line(out),
                b':' => out.push(b' '),
                _ => {}
            }
        }
    }

    /// Appends text up to the end of a string, and returns what follows it.
    fn push_string<'a>(&mut self, text: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
        let end = match self.is_escape {
            // The character after a backslash is no end.
            true => 1,
            false => memchr2(b'"', b'\\', text).map_or(text.len(), |at| at + 1),
        };
        let (string, rest) = text.split_at(end);
        out.extend_from_slice(string);
        if !std::mem::take(&mut self.is_escape) {
            self.is_in_string = string.last() != Some(&b'"');
            self.is_escape = string.last() == Some(&b'\\');
        }
        rest
    }

    fn line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + self.depth * 2, b' ');
    }
}

/// Indents a whole JSON text.
pub fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    Indenter::default().push(json, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indented_json_keeps_order_and_strings() {
        let text = br#"{"b":[1,{"a":"x{,\"}\\"}],"c":{},"d":[]}"#;
        let wanted = "{\n  \"b\": [\n    1,\n    {\n      \"a\": \"x{,\\\"}\\\\\"\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}";
        assert_eq!(String::from_utf8(indent(text)).unwrap(), wanted);
        for at in 0..text.len() {
            let (mut out, mut indenter) = (Vec::new(), Indenter::default());
            indenter.push(&text[..at], &mut out);
            indenter.push(&text[at..], &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), wanted, "{at}");
        }
    }
}
