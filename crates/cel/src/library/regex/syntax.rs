//! From Go's syntax to that of the engine.
//!
//! Expressions come here when they are known to be well formed, so that nothing is judged.

/// The same expression in the engine's syntax.
pub(super) fn translate(pattern: &str) -> String {
    let mut translator = Translator {
        rest: pattern,
        made: String::with_capacity(pattern.len() + 8),
    };
    while let Some(letter) = translator.rest.chars().next() {
        translator.piece(letter);
    }
    translator.made
}

struct Translator<'p> {
    rest: &'p str,
    made: String,
}

impl Translator<'_> {
    fn piece(&mut self, letter: char) {
        match letter {
            '[' => self.class(),
            '\\' => self.escape(),
            '(' if self.rest.starts_with("(?") => self.group(),
            // A brace that counts nothing is a character.
            '{' if !counts(self.rest) => self.take(1, "\\{"),
            '{' => {
                let end = self.rest.find('}').map_or(self.rest.len(), |end| end + 1);
                self.keep(end);
            }
            '}' => self.take(1, "\\}"),
            ']' => self.take(1, "\\]"),
            other => self.keep(other.len_utf8()),
        }
    }

    fn take(&mut self, length: usize, made: &str) {
        self.made.push_str(made);
        self.rest = self.rest.get(length..).unwrap_or_default();
    }

    fn keep(&mut self, length: usize) {
        let (kept, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.made.push_str(kept);
        self.rest = rest;
    }

    /// Names may begin with a digit in Go, and here they are of no use.
    fn group(&mut self) {
        if ["(?P<", "(?<"]
            .iter()
            .any(|name| self.rest.starts_with(name))
        {
            let end = self.rest.find('>').map_or(self.rest.len(), |end| end + 1);
            return self.take(end, "(");
        }
        self.keep(2);
    }

    fn escape(&mut self) {
        let letter = self.rest[1..].chars().next();
        match letter {
            Some('Q') => {
                let quoted = &self.rest[2..];
                let (quoted, length) = match quoted.find("\\E") {
                    Some(end) => (&quoted[..end], 2 + end + 2),
                    None => (quoted, self.rest.len()),
                };
                let escaped = regex::escape(quoted);
                self.take(length, &escaped);
            }
            // The engine cannot say that there is no boundary of ASCII, only that there is none.
            Some('A' | 'z' | 'B') => self.keep(2),
            Some('b') => self.take(2, "(?-u:\\b)"),
            _ => {
                let (length, made) = member(self.rest);
                self.take(length, &made);
            }
        }
    }

    fn class(&mut self) {
        self.take(1, "[");
        if self.rest.starts_with('^') {
            self.take(1, "^");
        }
        let mut first = true;
        while let Some(letter) = self.rest.chars().next() {
            match letter {
                ']' if !first => return self.take(1, "]"),
                '[' if self.rest.starts_with("[:") && self.rest.contains(":]") => {
                    let end = self.rest.find(":]").map_or(2, |end| end + 2);
                    self.keep(end);
                }
                '\\' => {
                    let (length, made) = member(self.rest);
                    self.take(length, &made);
                }
                // What is an operator of the engine's classes means itself in Go's.
                '[' | ']' | '&' | '~' | '^' => {
                    let escaped = format!("\\{letter}");
                    self.take(1, &escaped);
                }
                '-' => self.dash(first),
                other => self.keep(other.len_utf8()),
            }
            first = false;
        }
    }

    /// A dash makes a range unless it is the first or the last of its class.
    fn dash(&mut self, first: bool) {
        let range = !first && !self.rest.starts_with("-]") && self.ranges();
        self.take(1, if range { "-" } else { "\\-" });
    }

    /// Whether the dash follows a single character that no other dash has used.
    fn ranges(&self) -> bool {
        !self.made.ends_with(['[', ']', '-'])
            || self.made.ends_with("\\]")
            || self.made.ends_with("\\[")
            || self.made.ends_with("\\-")
    }
}

/// An escape that stands for characters: its length, and what it is here.
fn member(rest: &str) -> (usize, String) {
    let letter = rest[1..].chars().next().unwrap_or('\\');
    let made = match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => "[\\t\\n\\x0c\\r ]",
        'S' => "[^\\t\\n\\x0c\\r ]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        'a' => "\\x07",
        'f' => "\\x0c",
        't' => "\\t",
        'n' => "\\n",
        'r' => "\\r",
        'v' => "\\x0b",
        'p' | 'P' => return property(rest),
        'x' => {
            let length = match rest.find('}') {
                Some(end) if rest[2..].starts_with('{') => end + 1,
                _ => 4.min(rest.len()),
            };
            return (length, rest.get(..length).unwrap_or(rest).to_owned());
        }
        '0'..='7' => return octal(rest),
        _ => {
            let length = 1 + letter.len_utf8();
            let text = letter.to_string();
            let made = if letter.is_ascii_punctuation() && letter != '<' && letter != '>' {
                format!("\\{letter}")
            } else {
                text
            };
            return (length, made);
        }
    };
    (2, made.to_owned())
}

/// Go spells the negation of a property in two ways, the engine in one.
fn property(rest: &str) -> (usize, String) {
    let after = &rest[2..];
    let length = match after.chars().next() {
        Some('{') => after.find('}').map_or(rest.len(), |end| 2 + end + 1),
        Some(letter) => 2 + letter.len_utf8(),
        None => rest.len(),
    };
    let text = &rest[..length];
    match text.split_once("{^") {
        Some(("\\p", name)) => (length, format!("\\P{{{name}")),
        Some((_, name)) => (length, format!("\\p{{{name}")),
        None => (length, text.to_owned()),
    }
}

/// Up to three digits.
fn octal(rest: &str) -> (usize, String) {
    let digits = &rest[1..];
    let octal = digits
        .bytes()
        .take(3)
        .take_while(|byte| (b'0'..=b'7').contains(byte));
    let length = octal.count();
    let code = u32::from_str_radix(&digits[..length], 8).unwrap_or(0);
    (1 + length, format!("\\x{{{code:x}}}"))
}

/// Whether a brace begins `{2}`, `{2,}` or `{2,3}`; numbers have no leading zeros.
fn counts(rest: &str) -> bool {
    let Some(end) = rest.find('}') else {
        return false;
    };
    let (least, most) = rest[1..end].split_once(',').unwrap_or((&rest[1..end], ""));
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits && (text.len() == 1 || !text.starts_with('0'))
    };
    number(least) && (most.is_empty() || number(most))
}
