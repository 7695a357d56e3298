//! What stands in brackets.

use super::{code_point, counts_octal, property};

/// Translates a class that begins here with its bracket; gives what follows.
pub(super) fn translate<'a>(rest: &'a str, out: &mut String) -> &'a str {
    let mut rest = &rest[1..];
    out.push('[');
    if let Some(after) = rest.strip_prefix('^') {
        out.push('^');
        rest = after;
    }
    // A bracket that closes at once means itself.
    let mut first = true;
    loop {
        if rest.is_empty() {
            return "";
        }
        if !first && let Some(after) = rest.strip_prefix(']') {
            out.push(']');
            return after;
        }
        first = false;
        rest = item(rest, out);
    }
}

/// One item of a class: a named class, a class of its own, a character or a range.
fn item<'a>(rest: &'a str, out: &mut String) -> &'a str {
    if rest.starts_with("[:")
        && let Some(end) = rest.find(":]")
    {
        out.push_str(&rest[..end + 2]);
        return &rest[end + 2..];
    }
    let mut letters = rest.strip_prefix('\\').unwrap_or("").chars();
    match letters.next() {
        Some('d') => out.push_str("0-9"),
        Some('D') => out.push_str("[^0-9]"),
        Some('s') => out.push_str(r"\t\n\f\r "),
        Some('S') => out.push_str(r"[^\t\n\f\r ]"),
        Some('w') => out.push_str("0-9A-Za-z_"),
        Some('W') => out.push_str("[^0-9A-Za-z_]"),
        Some(letter @ ('p' | 'P')) => {
            let after = letters.as_str();
            return match after.starts_with('{') {
                true => property(letter, after, out),
                false => {
                    let name = after.chars().next().map_or(0, char::len_utf8);
                    out.push('\\');
                    out.push(letter);
                    out.push_str(&after[..name]);
                    &after[name..]
                }
            };
        }
        _ => return range(rest, out),
    }
    letters.as_str()
}

fn range<'a>(rest: &'a str, out: &mut String) -> &'a str {
    let (low, after) = character(rest, out);
    let Some(low) = low else { return after };
    code_point(low, out);
    // A dash before the end means itself.
    let Some(high) = after
        .strip_prefix('-')
        .filter(|high| !high.is_empty() && !high.starts_with(']'))
    else {
        return after;
    };
    let mut wrong = String::new();
    let (high, after) = character(high, &mut wrong);
    out.push('-');
    match high {
        Some(high) => code_point(high, out),
        None => out.push_str(&wrong),
    }
    after
}

/// A character, escaped or not. What is no character is passed on for the engine to refuse.
fn character<'a>(rest: &'a str, out: &mut String) -> (Option<u32>, &'a str) {
    let mut letters = rest.chars();
    let Some(letter) = letters.next() else {
        return (None, "");
    };
    if letter != '\\' {
        return (Some(u32::from(letter)), letters.as_str());
    }
    let Some(letter) = letters.next() else {
        out.push('\\');
        return (None, "");
    };
    let after = letters.as_str();
    let code = match letter {
        'a' => 7,
        'f' => 12,
        't' => 9,
        'n' => 10,
        'r' => 13,
        'v' => 11,
        'x' => return hexadecimal(after, out),
        '0'..='7' => match counts_octal(letter, after) {
            Some((code, length)) => return (Some(code), &after[length..]),
            None => {
                out.push('\\');
                out.push(letter);
                return (None, after);
            }
        },
        other if other.is_ascii_alphanumeric() => {
            out.push('\\');
            out.push(other);
            return (None, after);
        }
        other => u32::from(other),
    };
    (Some(code), after)
}

/// `\x7F` or `\x{10FFFF}`.
pub(super) fn hexadecimal<'a>(after: &'a str, out: &mut String) -> (Option<u32>, &'a str) {
    let (digits, after) = match after.strip_prefix('{') {
        Some(braced) => braced.split_once('}').unwrap_or((braced, "")),
        None => after.split_at_checked(2).unwrap_or((after, "")),
    };
    match u32::from_str_radix(digits, 16) {
        Ok(code) => (Some(code), after),
        Err(_) => {
            out.push_str("\\x{}");
            (None, after)
        }
    }
}
