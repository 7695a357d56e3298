//! A JSON scanner that reports syntax errors as Go words them.
//!
//! It runs only after a failure, so it is written to find the same first invalid byte as
//! Go's scanner, not to be fast. It needs no stack: nesting is a list.

/// Go's maximum nesting depth.
const MAX_DEPTH: usize = 10_000;

/// Returns the first syntax error of the text.
pub(crate) fn syntax_error(text: &[u8]) -> Option<String> {
    Scanner { text, at: 0 }.document().err()
}

type Scanned<T> = Result<T, String>;

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

/// What the scanner expects next.
enum Next {
    Value,
    /// A value, or the end of the list that just began.
    ValueOrEnd,
    /// A key, or the end of the object that just began.
    KeyOrEnd,
    Key,
    /// Any token that may follow a value in its container.
    Rest,
}

impl Scanner<'_> {
    fn document(mut self) -> Scanned<()> {
        let mut open = Vec::new();
        let mut next = Next::Value;
        loop {
            self.space();
            next = match next {
                Next::Rest => match open.last() {
                    None => return self.end(),
                    Some(b'{') => match self.byte()? {
                        b',' => Next::Key,
                        b'}' => self.close(&mut open),
                        other => return Err(wrong(other, "after object key:value pair")),
                    },
                    Some(_) => match self.byte()? {
                        b',' => Next::Value,
                        b']' => self.close(&mut open),
                        other => return Err(wrong(other, "after array element")),
                    },
                },
                Next::KeyOrEnd if self.peek() == Some(b'}') => {
                    self.at += 1;
                    self.close(&mut open)
                }
                Next::Key | Next::KeyOrEnd => self.key()?,
                Next::ValueOrEnd if self.peek() == Some(b']') => {
                    self.at += 1;
                    self.close(&mut open)
                }
                Next::Value | Next::ValueOrEnd => self.value(&mut open)?,
            };
        }
    }

    fn end(&mut self) -> Scanned<()> {
        match self.peek() {
            None => Ok(()),
            Some(other) => Err(wrong(other, "after top-level value")),
        }
    }

    fn close(&mut self, open: &mut Vec<u8>) -> Next {
        open.pop();
        Next::Rest
    }

    fn key(&mut self) -> Scanned<Next> {
        match self.byte()? {
            b'"' => self.string()?,
            other => return Err(wrong(other, "looking for beginning of object key string")),
        }
        self.space();
        match self.byte()? {
            b':' => Ok(Next::Value),
            other => Err(wrong(other, "after object key")),
        }
    }

    fn value(&mut self, open: &mut Vec<u8>) -> Scanned<Next> {
        let first = self.byte()?;
        match first {
            b'{' | b'[' => {
                open.push(first);
                if open.len() > MAX_DEPTH {
                    return Err("exceeded max depth".to_owned());
                }
                return Ok(match first {
                    b'{' => Next::KeyOrEnd,
                    _ => Next::ValueOrEnd,
                });
            }
            b'"' => self.string()?,
            b'-' | b'0'..=b'9' => self.number(first)?,
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            b'n' => self.word("null")?,
            other => return Err(wrong(other, "looking for beginning of value")),
        }
        Ok(Next::Rest)
    }

    fn string(&mut self) -> Scanned<()> {
        loop {
            match self.byte()? {
                b'"' => return Ok(()),
                b'\\' => match self.inner() {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                    b'u' => self.hexadecimal()?,
                    other => return Err(wrong(other, "in string escape code")),
                },
                low @ ..0x20 => return Err(wrong(low, "in string literal")),
                _ => {}
            }
        }
    }

    fn hexadecimal(&mut self) -> Scanned<()> {
        for _ in 0..4 {
            let digit = self.inner();
            if !digit.is_ascii_hexdigit() {
                return Err(wrong(digit, "in \\u hexadecimal character escape"));
            }
        }
        Ok(())
    }

    fn number(&mut self, first: u8) -> Scanned<()> {
        let first = match first {
            b'-' => match self.inner() {
                digit @ b'0'..=b'9' => digit,
                other => return Err(wrong(other, "in numeric literal")),
            },
            digit => digit,
        };
        if first != b'0' {
            self.digits();
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digit("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digit("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn digit(&mut self, place: &str) -> Scanned<()> {
        match self.inner() {
            b'0'..=b'9' => self.digits(),
            other => return Err(wrong(other, place)),
        }
        Ok(())
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str) -> Scanned<()> {
        for wanted in word.bytes().skip(1) {
            let letter = self.inner();
            if letter != wanted {
                let wanted = char::from(wanted);
                let place = format!("in literal {word} (expecting '{wanted}')");
                return Err(wrong(letter, &place));
            }
        }
        Ok(())
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Returns the next byte of an unfinished token; in Go's scanner a text ends with a
    /// space.
    fn inner(&mut self) -> u8 {
        let byte = self.peek();
        self.at += 1;
        byte.unwrap_or(b' ')
    }

    fn byte(&mut self) -> Scanned<u8> {
        let byte = self.peek();
        self.at += 1;
        byte.ok_or_else(|| "unexpected end of JSON input".to_owned())
    }
}

fn wrong(byte: u8, place: &str) -> String {
    // Go prints the byte as a character, even if it is part of a longer one.
    let character = match byte {
        b'\'' => r"\'".to_owned(),
        b'"' => "\"".to_owned(),
        0x80..=0x9f | 0xad => format!("\\u{byte:04x}"),
        0xa0 => r"\u00a0".to_owned(),
        _ => {
            let quoted = insula_gotext::quote(&char::from(byte).to_string());
            quoted[1..quoted.len() - 1].to_owned()
        }
    };
    format!("invalid character '{character}' {place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_invalid_byte_is_reported_as_in_go() {
        let end = "unexpected end of JSON input";
        let cases = [
            ("", end),
            (r#"{"a":"#, end),
            ("[", end),
            (r#"{"a":1"#, end),
            (r#""abc"#, end),
            (
                "tru",
                "invalid character ' ' in literal true (expecting 'e')",
            ),
            ("-", "invalid character ' ' in numeric literal"),
            (
                "1.",
                "invalid character ' ' after decimal point in numeric literal",
            ),
            ("1e", "invalid character ' ' in exponent of numeric literal"),
            ("x", "invalid character 'x' looking for beginning of value"),
            (
                "[1,]",
                "invalid character ']' looking for beginning of value",
            ),
            (
                "{1:2}",
                "invalid character '1' looking for beginning of object key string",
            ),
            (
                r#"{"a":1,}"#,
                "invalid character '}' looking for beginning of object key string",
            ),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (
                r#"{"a":1 "b"}"#,
                r#"invalid character '"' after object key:value pair"#,
            ),
            ("[1 2]", "invalid character '2' after array element"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
            ("\"a\nb\"", r"invalid character '\n' in string literal"),
            (r#""\q""#, "invalid character 'q' in string escape code"),
            (
                r#""\u12g4""#,
                r"invalid character 'g' in \u hexadecimal character escape",
            ),
            ("-a", "invalid character 'a' in numeric literal"),
            (
                "1.x",
                "invalid character 'x' after decimal point in numeric literal",
            ),
            (
                "1ex",
                "invalid character 'x' in exponent of numeric literal",
            ),
            (
                "trux",
                "invalid character 'x' in literal true (expecting 'e')",
            ),
            (
                "'",
                r"invalid character '\'' looking for beginning of value",
            ),
            ("é", "invalid character 'Ã' looking for beginning of value"),
        ];
        for (text, wanted) in cases {
            assert_eq!(
                syntax_error(text.as_bytes()).as_deref(),
                Some(wanted),
                "{text}"
            );
        }
    }

    #[test]
    fn valid_json_has_no_syntax_error() {
        for text in [
            "{}",
            " [ ] ",
            r#"{"a":[1,-0.5e+3,"\u00e9\n",true,false,null,{"b":{}}]}"#,
            "null",
        ] {
            assert_eq!(syntax_error(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn nesting_is_bounded_as_in_go() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(syntax_error(nested(10_000).as_bytes()), None);
        let message = syntax_error(nested(10_001).as_bytes());
        assert_eq!(message.as_deref(), Some("exceeded max depth"));
    }
}
