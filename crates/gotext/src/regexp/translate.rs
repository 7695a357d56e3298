//! Translates Go's syntax into that of the crate `regex`.
//!
//! Only expressions that were checked come here, so that nothing is checked again.

use super::class;

/// Returns the expression in the syntax of `regex`.
pub(super) fn translate(pattern: &str) -> String {
    let mut translator = Translator {
        rest: pattern,
        output: String::with_capacity(pattern.len() + 8),
    };
    while let Some(letter) = translator.rest.chars().next() {
        translator.element(letter);
    }
    translator.output
}

struct Translator<'p> {
    rest: &'p str,
    output: String,
}

impl Translator<'_> {
    fn element(&mut self, letter: char) {
        match letter {
            '[' => self.class(),
            '\\' => self.escape(),
            '(' if self.rest.starts_with("(?") => self.group(),
            // A brace that begins no count is literal.
            '{' if !is_count(self.rest) => self.replace(1, "\\{"),
            '{' => {
                let end = self.rest.find('}').map_or(self.rest.len(), |end| end + 1);
                self.keep(end);
            }
            '}' => self.replace(1, "\\}"),
            ']' => self.replace(1, "\\]"),
            other => self.keep(other.len_utf8()),
        }
    }

    fn replace(&mut self, length: usize, output: &str) {
        self.output.push_str(output);
        self.rest = self.rest.get(length..).unwrap_or_default();
    }

    fn keep(&mut self, length: usize) {
        let (kept, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.output.push_str(kept);
        self.rest = rest;
    }

    /// Removes the names of groups, which may begin with a digit in Go and are not used here.
    fn group(&mut self) {
        if ["(?P<", "(?<"]
            .iter()
            .any(|name| self.rest.starts_with(name))
        {
            let end = self.rest.find('>').map_or(self.rest.len(), |end| end + 1);
            return self.replace(end, "(");
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
                self.replace(length, &escaped);
            }
            // The crate has no `\B` of ASCII that can be used on strings.
            Some('A' | 'z' | 'B') => self.keep(2),
            Some('b') => self.replace(2, "(?-u:\\b)"),
            _ => {
                let (length, output) = characters(self.rest);
                self.replace(length, &output);
            }
        }
    }

    fn class(&mut self) {
        self.replace(1, "[");
        if self.rest.starts_with('^') {
            self.replace(1, "^");
        }
        let mut first = true;
        while let Some(letter) = self.rest.chars().next() {
            match letter {
                ']' if !first => return self.replace(1, "]"),
                '[' if self.rest.starts_with("[:") && self.rest.contains(":]") => {
                    let end = self.rest.find(":]").map_or(2, |end| end + 2);
                    self.keep(end);
                }
                '\\' => {
                    let (length, output) = characters(self.rest);
                    self.replace(length, &output);
                }
                // These are operators in the classes of `regex`, and literals in those of Go.
                '[' | ']' | '&' | '~' | '^' => {
                    let escaped = format!("\\{letter}");
                    self.replace(1, &escaped);
                }
                '-' => self.dash(first),
                other => self.keep(other.len_utf8()),
            }
            first = false;
        }
    }

    /// Translates a dash, which makes a range unless it is the first or the last of its class.
    fn dash(&mut self, first: bool) {
        let range = !first && !self.rest.starts_with("-]") && self.follows_character();
        self.replace(1, if range { "-" } else { "\\-" });
    }

    /// Returns whether the dash follows a single character that is not the end of a range.
    fn follows_character(&self) -> bool {
        !self.output.ends_with(['[', ']', '-'])
            || self.output.ends_with("\\]")
            || self.output.ends_with("\\[")
            || self.output.ends_with("\\-")
    }
}

/// Translates an escape that stands for characters; returns its length and the translation.
fn characters(rest: &str) -> (usize, String) {
    let letter = rest[1..].chars().next().unwrap_or('\\');
    let output = match letter {
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
            let output = if letter.is_ascii_punctuation() && letter != '<' && letter != '>' {
                format!("\\{letter}")
            } else {
                text
            };
            return (length, output);
        }
    };
    (2, output.to_owned())
}

/// Translates `\p{…}`. Go has two spellings of its negation, `regex` has one.
fn property(rest: &str) -> (usize, String) {
    let after = &rest[2..];
    let length = match after.chars().next() {
        Some('{') => after.find('}').map_or(rest.len(), |end| 2 + end + 1),
        Some(letter) => 2 + letter.len_utf8(),
        None => rest.len(),
    };
    let text = &rest[..length];
    let (negated, name) = match text.split_once("{^") {
        Some((letter, name)) => (letter == "\\p", name),
        None => (text.starts_with("\\P"), text[2..].trim_start_matches('{')),
    };
    let name = name.trim_end_matches('}');
    let letter = if negated { 'P' } else { 'p' };
    // `regex` has no surrogates, because strings have none.
    let translation = match (class::folded(name).as_str(), negated) {
        ("Cs" | "Surrogate", false) => "[^\\x{0}-\\x{10ffff}]".to_owned(),
        ("Cs" | "Surrogate", true) => "[\\x{0}-\\x{10ffff}]".to_owned(),
        _ => format!("\\{letter}{{{name}}}"),
    };
    (length, translation)
}

/// Translates an octal code of up to three digits.
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

/// Returns whether a brace begins `{2}`, `{2,}` or `{2,3}`, without leading zeros.
fn is_count(rest: &str) -> bool {
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
