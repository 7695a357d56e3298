//! Codes and identifiers.

/// Twelve bytes in hexadecimal.
pub(super) fn is_object_id(text: &str) -> bool {
    text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub(super) fn is_uuid(text: &str) -> bool {
    uuid(text).is_some()
}

pub(super) fn is_uuid3(text: &str) -> bool {
    uuid(text).is_some_and(|digits| digits[12] == b'3')
}

pub(super) fn is_uuid4(text: &str) -> bool {
    uuid(text).is_some_and(|digits| digits[12] == b'4' && is_variant(digits[16]))
}

pub(super) fn is_uuid5(text: &str) -> bool {
    uuid(text).is_some_and(|digits| digits[12] == b'5' && is_variant(digits[16]))
}

fn is_variant(digit: u8) -> bool {
    matches!(digit, b'8' | b'9' | b'a' | b'b')
}

/// The 32 digits in lower case. Each of the four dashes is optional.
fn uuid(text: &str) -> Option<[u8; 32]> {
    let mut digits = [0; 32];
    let mut rest = text.as_bytes();
    let mut at = 0;
    for length in [8, 4, 4, 4, 12] {
        if at > 0 {
            rest = rest.strip_prefix(b"-").unwrap_or(rest);
        }
        let (part, after) = rest.split_at_checked(length)?;
        if !part.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        digits[at..at + length].copy_from_slice(part);
        at += length;
        rest = after;
    }
    digits.make_ascii_lowercase();
    rest.is_empty().then_some(digits)
}

pub(super) fn is_isbn(text: &str) -> bool {
    is_isbn10(text) || is_isbn13(text)
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let digits = without_gaps(text);
    let Some((last, nine)) = digits.split_last().filter(|_| digits.len() == 10) else {
        return false;
    };
    let last = match last {
        b'X' => 10,
        digit if digit.is_ascii_digit() => u32::from(digit - b'0'),
        _ => return false,
    };
    let weigh = |(index, digit): (usize, &u8)| (index as u32 + 1) * u32::from(digit - b'0');
    nine.iter().all(u8::is_ascii_digit)
        && (nine.iter().enumerate().map(weigh).sum::<u32>() + 10 * last).is_multiple_of(11)
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let digits = without_gaps(text);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let weigh = |(index, digit): (usize, &u8)| {
        let factor = if index % 2 == 0 { 1 } else { 3 };
        factor * u32::from(digit - b'0')
    };
    let sum: u32 = digits.iter().enumerate().map(weigh).sum();
    sum.is_multiple_of(10)
}

fn without_gaps(text: &str) -> Vec<u8> {
    let is_gap = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ' | b'-');
    text.bytes().filter(|byte| !is_gap(byte)).collect()
}

/// Numbers of known issuers with a valid check digit. Other characters are ignored.
pub(super) fn is_credit_card(text: &str) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let digits: Vec<u8> = text.bytes().filter(is_digit).collect();
    is_issued(&digits) && luhn(&digits).is_multiple_of(10)
}

fn is_issued(digits: &[u8]) -> bool {
    let length = match digits {
        [b'4', ..] => return matches!(digits.len(), 13 | 16),
        [b'5', b'1'..=b'5', ..] => 16,
        [b'6', b'0', b'1', b'1', ..] | [b'6', b'5', ..] => 16,
        [b'3', b'4' | b'7', ..] => 15,
        [b'3', b'0', b'0'..=b'5', ..] | [b'3', b'6' | b'8', ..] => 14,
        [b'2', b'1', b'3', b'1', ..] | [b'1', b'8', b'0', b'0', ..] => 15,
        [b'3', b'5', ..] => 16,
        _ => return false,
    };
    digits.len() == length
}

fn luhn(digits: &[u8]) -> u32 {
    let weigh = |(index, digit): (usize, &u8)| {
        let digit = u32::from(digit - b'0');
        match index % 2 {
            0 => digit,
            _ if digit > 4 => digit * 2 - 9,
            _ => digit * 2,
        }
    };
    digits.iter().rev().enumerate().map(weigh).sum()
}

/// `123-45-6789`, with dashes or spaces.
pub(super) fn is_ssn(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 11
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            3 | 6 => matches!(byte, b'-' | b' '),
            _ => byte.is_ascii_digit(),
        })
}

pub(super) fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `rgb(255, 255, 255)`.
pub(super) fn is_rgb_color(text: &str) -> bool {
    let inner = text
        .strip_prefix("rgb(")
        .and_then(|text| text.strip_suffix(')'));
    let Some(inner) = inner else { return false };
    let is_space = |letter: char| matches!(letter, '\t' | '\n' | '\x0c' | '\r' | ' ');
    let mut parts = 0;
    inner.split(',').all(|part| {
        parts += 1;
        is_shade(part.trim_matches(is_space))
    }) && parts == 3
}

/// 0 to 255, without leading zeros.
fn is_shade(text: &str) -> bool {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() <= 3;
    plain && (text == "0" || !text.starts_with('0')) && text.parse::<u8>().is_ok()
}

/// Padded base64 with the standard alphabet, not empty.
pub(super) fn is_base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let end = match bytes {
        [.., b'=', b'='] => bytes.len() - 2,
        [.., b'='] => bytes.len() - 1,
        _ => bytes.len(),
    };
    !bytes.is_empty() && bytes.len().is_multiple_of(4) && bytes[..end].iter().all(is_letter)
}
