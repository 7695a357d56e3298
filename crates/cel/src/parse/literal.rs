//! The values of literals.

use crate::ast::Literal;

/// Returns the bytes of a string or bytes literal without quotes, prefix `r` and escapes. Numeric
/// escapes are characters in strings, and bytes in bytes.
pub(crate) fn unquote(literal: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    let literal = literal.replace("\r\n", "\n").replace('\r', "\n");
    let (raw, quoted) = match literal.strip_prefix(['r', 'R']) {
        Some(rest) => (true, rest),
        None => (false, literal.as_str()),
    };
    let quotes = if quoted.len() >= 6 && ["'''", "\"\"\""].iter().any(|q| quoted.starts_with(q)) {
        3
    } else {
        1
    };
    let end = quoted.len().saturating_sub(quotes);
    let content = quoted.get(quotes..end).ok_or("unable to unescape string")?;
    if raw || !content.contains('\\') {
        return Ok(content.as_bytes().to_vec());
    }
    unescape(content, bytes)
}

/// Parses an integer.
pub(crate) fn integer(text: &str, negative: bool) -> Option<Literal> {
    let magnitude = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => text.parse().ok()?,
    };
    let value = if negative {
        0i64.checked_sub_unsigned(magnitude)
    } else {
        magnitude.try_into().ok()
    };
    value.map(Literal::Int)
}

/// Parses an unsigned integer with its suffix `u`.
pub(crate) fn unsigned(text: &str) -> Option<Literal> {
    let digits = &text[..text.len() - 1];
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    value.ok().map(Literal::Uint)
}

/// Parses a number with a fraction or an exponent.
pub(crate) fn double(text: &str, negative: bool) -> Option<Literal> {
    let value: f64 = text.parse().ok()?;
    // A number that is too large is an error, not infinity.
    value
        .is_finite()
        .then_some(Literal::Double(if negative { -value } else { value }))
}

fn unescape(content: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    let mut result = Vec::with_capacity(content.len());
    let mut rest = content;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c == '\\' {
            rest = escape(rest, bytes, &mut result)?;
        } else {
            push(&mut result, c);
        }
    }
    Ok(result)
}

/// Appends the value of an escape, from the text after its backslash, and returns the text after
/// it.
fn escape<'a>(rest: &'a str, bytes: bool, to: &mut Vec<u8>) -> Result<&'a str, &'static str> {
    let mut characters = rest.chars();
    let simple = match characters.next() {
        Some('a') => '\u{7}',
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('v') => '\u{b}',
        Some(c @ ('\\' | '\'' | '"' | '`' | '?')) => c,
        Some('x' | 'X') => return number(&rest[1..], 2, 16, bytes, to),
        Some('u') if !bytes => return number(&rest[1..], 4, 16, bytes, to),
        Some('U') if !bytes => return number(&rest[1..], 8, 16, bytes, to),
        Some('0'..='3') => return number(rest, 3, 8, bytes, to),
        Some(_) => return Err("unable to unescape string"),
        None => return Err("unable to unescape string, found '\\' as last character"),
    };
    push(to, simple);
    Ok(characters.as_str())
}

fn number<'a>(
    rest: &'a str,
    digits: usize,
    radix: u32,
    bytes: bool,
    to: &mut Vec<u8>,
) -> Result<&'a str, &'static str> {
    let text = rest.get(..digits).ok_or("unable to unescape string")?;
    let code = u32::from_str_radix(text, radix).map_err(|_| "unable to unescape string")?;
    if bytes {
        to.push(u8::try_from(code).map_err(|_| "unable to unescape string")?);
    } else {
        push(
            to,
            char::from_u32(code).ok_or("invalid unicode code point")?,
        );
    }
    Ok(&rest[digits..])
}

fn push(to: &mut Vec<u8>, c: char) {
    to.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}
