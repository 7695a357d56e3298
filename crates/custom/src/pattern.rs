//! Regular expressions as Go reads them.
//!
//! Both engines take linear time and nearly the same syntax. What differs is rewritten: Go's
//! `\d`, `\s`, `\w` and `\b` know ASCII only, `\Q…\E` quotes, braces that count nothing are
//! text, and brackets cannot be nested.

mod class;

use std::fmt::Write;

use regex::{Regex, RegexBuilder};

/// An expression that may take part in judging any object gets this much memory and no more.
const MAX_SIZE: usize = 4 << 20;
const MAX_STATES: usize = 1 << 20;

/// A regular expression, compiled. One that cannot be compiled matches nothing.
#[derive(Debug)]
pub struct Pattern {
    text: Box<str>,
    compiled: Result<Regex, Box<str>>,
}

impl Pattern {
    /// Compiles an expression that is written in Go's syntax.
    pub fn new(text: &str) -> Self {
        let mut builder = RegexBuilder::new(&translate(text));
        builder.size_limit(MAX_SIZE).dfa_size_limit(MAX_STATES);
        let compiled = builder.build().map_err(|error| error.to_string().into());
        Self {
            text: text.into(),
            compiled,
        }
    }

    /// The expression as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Why it cannot be compiled, if it cannot.
    pub fn fault(&self) -> Option<&str> {
        self.compiled.as_ref().err().map(AsRef::as_ref)
    }

    /// Whether it matches somewhere in the text.
    pub fn matches(&self, text: &str) -> bool {
        self.compiled
            .as_ref()
            .is_ok_and(|regex| regex.is_match(text))
    }
}

/// The same expression in the syntax of the engine.
fn translate(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        rest = match letter {
            '\\' => escape(rest, &mut out),
            '[' => class::translate(rest, &mut out),
            '{' if counts(rest).is_none() => {
                out.push_str("\\{");
                after
            }
            '}' if !out_counts(text, rest) => {
                out.push_str("\\}");
                after
            }
            other => {
                out.push(other);
                after
            }
        };
    }
    out
}

/// Whether the brace that closes here closes a count.
fn out_counts(text: &str, rest: &str) -> bool {
    let before = &text[..text.len() - rest.len()];
    let Some(open) = before.rfind('{') else {
        return false;
    };
    counts(&text[open..]).is_some_and(|length| open + length == before.len() + 1)
}

/// How long the count is that begins here: `{2}`, `{2,}`, `{2,3}`.
fn counts(rest: &str) -> Option<usize> {
    let (inner, _) = rest.strip_prefix('{')?.split_once('}')?;
    let (least, most) = inner.split_once(',').unwrap_or((inner, "0"));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let counts = !least.is_empty() && digits(least) && digits(most);
    counts.then_some(inner.len() + 2)
}

/// Translates what begins with a backslash, outside of brackets; gives what follows.
fn escape<'a>(rest: &'a str, out: &mut String) -> &'a str {
    let mut letters = rest[1..].chars();
    let Some(letter) = letters.next() else {
        out.push('\\');
        return "";
    };
    let after = letters.as_str();
    match letter {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        's' => out.push_str(r"[\t\n\f\r ]"),
        'S' => out.push_str(r"[^\t\n\f\r ]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        'b' => out.push_str(r"(?-u:\b)"),
        'B' => out.push_str(r"(?-u:\B)"),
        'Q' => {
            let (quoted, after) = after.split_once("\\E").unwrap_or((after, ""));
            quoted.chars().for_each(|letter| literal(letter, out));
            return after;
        }
        'x' => {
            let (code, after) = class::hexadecimal(after, out);
            code.into_iter().for_each(|code| code_point(code, out));
            return after;
        }
        'A' | 'z' | 'a' | 'f' | 't' | 'n' | 'r' | 'v' => {
            out.push('\\');
            out.push(letter);
        }
        'p' | 'P' => return property(letter, after, out),
        '0'..='7' => return octal(letter, after, out),
        other if !other.is_alphanumeric() => literal(other, out),
        other => {
            out.push('\\');
            out.push(other);
        }
    }
    after
}

/// A class of Unicode, which Go may negate inside of its braces.
fn property<'a>(letter: char, after: &'a str, out: &mut String) -> &'a str {
    if let Some(after) = after.strip_prefix("{^") {
        let negated = if letter == 'p' { 'P' } else { 'p' };
        out.push('\\');
        out.push(negated);
        out.push('{');
        return braced(after, out);
    }
    out.push('\\');
    out.push(letter);
    match after.strip_prefix('{') {
        Some(after) => {
            out.push('{');
            braced(after, out)
        }
        None => after,
    }
}

/// The rest of a name in braces, as it is.
fn braced<'a>(after: &'a str, out: &mut String) -> &'a str {
    let end = after.find('}').map_or(after.len(), |end| end + 1);
    out.push_str(&after[..end]);
    &after[end..]
}

/// `\123` is a character in Go, `\1` a reference back, which neither engine has.
fn octal<'a>(first: char, after: &'a str, out: &mut String) -> &'a str {
    match counts_octal(first, after) {
        Some((code, length)) => {
            code_point(code, out);
            &after[length..]
        }
        None => {
            out.push('\\');
            out.push(first);
            after
        }
    }
}

/// The character that the octal digits stand for, and how many come after the first.
fn counts_octal(first: char, after: &str) -> Option<(u32, usize)> {
    let is_octal = |byte: &u8| (b'0'..=b'7').contains(byte);
    let more = after.bytes().take(2).take_while(is_octal).count();
    if first != '0' && more == 0 {
        return None;
    }
    let digit = |byte: u8| u32::from(byte - b'0');
    let first = u32::from(first) - u32::from('0');
    let code = after[..more].bytes().map(digit);
    Some((code.fold(first, |code, digit| code * 8 + digit), more))
}

/// A character that means itself.
fn literal(letter: char, out: &mut String) {
    if letter.is_alphanumeric() {
        out.push(letter);
    } else {
        code_point(u32::from(letter), out);
    }
}

fn code_point(code: u32, out: &mut String) {
    // Writing to a string does not fail.
    let _ = write!(out, "\\x{{{code:x}}}");
}
