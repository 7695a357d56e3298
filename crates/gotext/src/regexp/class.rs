//! Character classes and escapes.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::SyntaxError;

pub(super) const ESCAPE: &str = "invalid escape sequence";
const RANGE: &str = "invalid character class range";

/// The names that `\p{…}` accepts, folded as Go folds them: `Greek`.
static NAMES: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    include_str!("../../data/unicode-classes.txt")
        .split_whitespace()
        .collect()
});

const POSIX: &[&str] = &[
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// Reads `[…]`; returns the text after it.
pub(super) fn class(whole: &str) -> Result<&str, SyntaxError> {
    let mut rest = &whole[1..];
    rest = rest.strip_prefix('^').unwrap_or(rest);
    let mut first = true;
    // A bracket that comes first is literal.
    while first || !rest.starts_with(']') {
        first = false;
        if let Some(after) = posix(rest)? {
            rest = after;
        } else if let Some(after) = named(rest)? {
            rest = after;
        } else {
            rest = range(rest, whole)?;
        }
    }
    Ok(&rest[1..])
}

/// Reads `\d`, `\pL`, `\p{Greek}` and the like, if one comes next; returns the text after it.
pub(super) fn named(rest: &str) -> Result<Option<&str>, SyntaxError> {
    let mut letters = rest.chars();
    if letters.next() != Some('\\') {
        return Ok(None);
    }
    match letters.next() {
        Some('d' | 'D' | 's' | 'S' | 'w' | 'W') => Ok(Some(letters.as_str())),
        Some('p' | 'P') => unicode(rest, letters.as_str()).map(Some),
        _ => Ok(None),
    }
}

/// Reads an escape of one character.
pub(super) fn escape(rest: &str) -> Result<(u32, &str), SyntaxError> {
    let mut letters = rest.chars();
    letters.next();
    let Some(letter) = letters.next() else {
        return Err(SyntaxError::new(
            "trailing backslash at end of expression",
            "",
        ));
    };
    let after = letters.as_str();
    let refuse = |after: &str| Err(SyntaxError::new(ESCAPE, &rest[..rest.len() - after.len()]));
    let octal = after.starts_with(|next: char| ('0'..='7').contains(&next));
    match letter {
        // A single digit would be a backreference.
        '1'..='7' if !octal => refuse(after),
        '0'..='7' => Ok(octals(letter, after)),
        'x' => match hexadecimal(after) {
            Ok(read) => Ok(read),
            Err(after) => refuse(after),
        },
        'a' => Ok((0x07, after)),
        'f' => Ok((0x0c, after)),
        'n' => Ok((0x0a, after)),
        'r' => Ok((0x0d, after)),
        't' => Ok((0x09, after)),
        'v' => Ok((0x0b, after)),
        other if other.is_ascii() && !other.is_ascii_alphanumeric() => {
            Ok((u32::from(other), after))
        }
        _ => refuse(after),
    }
}

/// Reads `[:alpha:]` and the like, if one comes next; returns the text after it.
fn posix(rest: &str) -> Result<Option<&str>, SyntaxError> {
    let Some(inner) = rest.strip_prefix("[:") else {
        return Ok(None);
    };
    let Some((name, after)) = inner.split_once(":]") else {
        return Ok(None);
    };
    if POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
        return Ok(Some(after));
    }
    Err(SyntaxError::new(RANGE, &rest[..rest.len() - after.len()]))
}

fn unicode<'a>(rest: &'a str, after: &'a str) -> Result<&'a str, SyntaxError> {
    let (name, after) = match after.strip_prefix('{') {
        Some(inner) => inner
            .split_once('}')
            .ok_or_else(|| SyntaxError::new(RANGE, rest))?,
        None => {
            let letter = after.chars().next().map_or(0, char::len_utf8);
            after.split_at(letter)
        }
    };
    let name = name.strip_prefix('^').unwrap_or(name);
    if NAMES.contains(folded(name).as_str()) {
        Ok(after)
    } else {
        Err(SyntaxError::new(RANGE, &rest[..rest.len() - after.len()]))
    }
}

/// Folds a name as Go does before it looks the name up.
pub(super) fn folded(name: &str) -> String {
    let mut folded = String::with_capacity(name.len());
    for letter in name.chars().filter(|letter| !"_- ".contains(*letter)) {
        folded.push(if folded.is_empty() {
            letter.to_ascii_uppercase()
        } else {
            letter.to_ascii_lowercase()
        });
    }
    folded
}

/// Reads one character or a range of them.
fn range<'a>(rest: &'a str, whole: &str) -> Result<&'a str, SyntaxError> {
    let (low, after) = character(rest, whole)?;
    let high = after.strip_prefix('-').filter(|high| {
        // A dash that comes last is literal.
        !high.is_empty() && !high.starts_with(']')
    });
    let Some(high) = high else {
        return Ok(after);
    };
    let (high, after) = character(high, whole)?;
    if high < low {
        return Err(SyntaxError::new(RANGE, &rest[..rest.len() - after.len()]));
    }
    Ok(after)
}

fn character<'a>(rest: &'a str, whole: &str) -> Result<(u32, &'a str), SyntaxError> {
    let mut letters = rest.chars();
    match letters.next() {
        None => Err(SyntaxError::new("missing closing ]", whole)),
        Some('\\') => escape(rest),
        Some(letter) => Ok((u32::from(letter), letters.as_str())),
    }
}

fn octals(first: char, after: &str) -> (u32, &str) {
    let more = after.bytes().take(2);
    let more = more.take_while(|byte| (b'0'..=b'7').contains(byte)).count();
    let (digits, after) = after.split_at(more);
    let digits = std::iter::once(first).chain(digits.chars());
    let value = digits.fold(0, |value, digit| {
        value * 8 + digit.to_digit(8).unwrap_or_default()
    });
    (value, after)
}

/// Reads the digits after `\x`. The error is the text after the invalid escape.
fn hexadecimal(after: &str) -> Result<(u32, &str), &str> {
    let mut letters = after.chars();
    match letters.next() {
        None => Err(after),
        Some('{') => {
            let (mut value, mut digits) = (0_u32, 0);
            loop {
                match letters.next() {
                    Some('}') if digits > 0 => return Ok((value, letters.as_str())),
                    Some(letter) => match letter.to_digit(16) {
                        Some(digit) => value = value * 16 + digit,
                        None => return Err(letters.as_str()),
                    },
                    None => return Err(""),
                }
                if value > u32::from(char::MAX) {
                    return Err(letters.as_str());
                }
                digits += 1;
            }
        }
        Some(high) => {
            let low = letters.next().and_then(|letter| letter.to_digit(16));
            match (high.to_digit(16), low) {
                (Some(high), Some(low)) => Ok((high * 16 + low, letters.as_str())),
                _ => Err(letters.as_str()),
            }
        }
    }
}
