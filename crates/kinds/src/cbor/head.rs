//! Heads of data items, and floating-point numbers.

/// The major types.
pub(super) const UNSIGNED: u8 = 0;
pub(super) const NEGATIVE: u8 = 1;
pub(super) const BYTES: u8 = 2;
pub(super) const TEXT: u8 = 3;
pub(super) const ARRAY: u8 = 4;
pub(super) const MAP: u8 = 5;
pub(super) const TAG: u8 = 6;
pub(super) const SIMPLE: u8 = 7;

/// Simple values, as bytes.
pub(super) const FALSE: u8 = 0xf4;
pub(super) const TRUE: u8 = 0xf5;
pub(super) const NULL: u8 = 0xf6;

/// Tags with a meaning in JSON: times, integers of any length, and what bytes are in a text.
pub(super) const TIME_TEXT: u64 = 0;
pub(super) const TIME_NUMBER: u64 = 1;
pub(super) const BIGNUMS: [u64; 2] = [2, 3];
pub(super) const BASE64_URL: u64 = 21;
pub(super) const BASE64: u64 = 22;
pub(super) const BASE16: u64 = 23;

/// The head of an item, in as few bytes as possible.
pub(super) struct Head {
    bytes: [u8; 9],
    length: usize,
}

impl Head {
    pub fn new(major: u8, value: u64) -> Self {
        let mut bytes = [0; 9];
        let be = value.to_be_bytes();
        let (info, length) = match value {
            0..24 => {
                bytes[0] = major << 5 | be[7];
                return Self { bytes, length: 1 };
            }
            24..0x100 => (24, 1),
            0x100..0x1_0000 => (25, 2),
            0x1_0000..0x1_0000_0000 => (26, 4),
            _ => (27, 8),
        };
        bytes[0] = major << 5 | info;
        bytes[1..=length].copy_from_slice(&be[8 - length..]);
        Self {
            bytes,
            length: length + 1,
        }
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

pub(super) fn put_head(major: u8, value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(Head::new(major, value).as_slice());
}

/// Appends a string, as Go does: as a byte string, without validation of its text.
pub(super) fn put_string(text: &[u8], out: &mut Vec<u8>) {
    put_head(BYTES, text.len() as u64, out);
    out.extend_from_slice(text);
}

/// Begins an item. [`close`] writes its head.
pub(super) fn open(out: &mut Vec<u8>) -> usize {
    out.push(0);
    out.len()
}

/// Ends an item of `count` elements or bytes that was begun at `start`. Its content is moved if
/// the head has more than one byte.
pub(super) fn close(start: usize, major: u8, count: usize, out: &mut Vec<u8>) {
    let head = Head::new(major, count as u64);
    match head.as_slice() {
        [byte] => out[start - 1] = *byte,
        bytes => drop(out.splice(start - 1..start, bytes.iter().copied())),
    }
}

/// Begins an item of at most `u32::MAX` elements. [`close_wide`] does not move its content.
pub(super) fn open_wide(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; WIDE]);
    out.len()
}

/// Ends an item that was begun at `start` by [`open_wide`].
pub(super) fn close_wide(start: usize, major: u8, count: usize, out: &mut [u8]) {
    // A text has fewer elements than an object may have bytes.
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    out[start - WIDE] = major << 5 | 26;
    out[start - WIDE + 1..start].copy_from_slice(&count.to_be_bytes());
}

/// The bytes of a head with a length of four.
const WIDE: usize = 5;

/// Appends a number in the shortest form that preserves it.
pub(super) fn put_float(value: f64, out: &mut Vec<u8>) {
    #[expect(clippy::cast_possible_truncation, reason = "compared below")]
    let single = value as f32;
    if f64::from(single) != value {
        out.push(SIMPLE << 5 | 27);
        out.extend_from_slice(&value.to_be_bytes());
        return;
    }
    match half(single) {
        Some(half) => {
            out.push(SIMPLE << 5 | 25);
            out.extend_from_slice(&half.to_be_bytes());
        }
        None => {
            out.push(SIMPLE << 5 | 26);
            out.extend_from_slice(&single.to_be_bytes());
        }
    }
}

/// Returns the finite number with 16 bits, if it has no more.
fn half(single: f32) -> Option<u16> {
    let bits = single.to_bits();
    let sign = bits >> 16 & 0x8000;
    let exponent = bits >> 23 & 0xff;
    let fraction = bits & 0x7f_ffff;
    let (magnitude, dropped) = match exponent {
        0 if fraction == 0 => (0, 0),
        // The exponent's bias changes from 127 to 15, the fraction from 23 to 10 bits.
        113..=142 => ((exponent - 112) << 10 | fraction >> 13, fraction & 0x1fff),
        // Subnormal numbers: their leading bit is written.
        103..=112 => {
            let (shift, fraction) = (126 - exponent, fraction | 0x80_0000);
            (fraction >> shift, fraction & ((1 << shift) - 1))
        }
        _ => return None,
    };
    let half = u16::try_from(sign | magnitude).ok();
    half.filter(|_| dropped == 0)
}

/// Returns the value of a number with 16 bits.
pub(super) fn from_half(half: u16) -> f64 {
    let (exponent, fraction) = (i32::from(half >> 10 & 0x1f), f64::from(half & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if half >> 15 == 0 {
        magnitude
    } else {
        -magnitude
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_half_is_written_as_it_is_read() {
        for half in 0..=u16::MAX {
            let value = from_half(half);
            if !value.is_finite() {
                continue;
            }
            let mut out = Vec::new();
            put_float(value, &mut out);
            let [high, low] = half.to_be_bytes();
            assert_eq!(out, [0xf9, high, low], "{value}");
        }
    }

    #[test]
    fn numbers_with_more_bits_have_longer_forms() {
        for (value, length) in [
            (1.5, 3),
            (65504.0, 3),
            (65505.0, 5),
            (65536.0, 5),
            (2f64.powi(-24), 3),
            (2f64.powi(-25), 5),
            (0.1, 9),
            (1e300, 9),
        ] {
            let mut out = Vec::new();
            put_float(value, &mut out);
            assert_eq!(out.len(), length, "{value}");
        }
    }

    #[test]
    fn heads_are_as_short_as_possible() {
        for (value, head) in [
            (0, &[0xa0][..]),
            (23, &[0xb7]),
            (24, &[0xb8, 24]),
            (255, &[0xb8, 255]),
            (256, &[0xb9, 1, 0]),
            (65_536, &[0xba, 0, 1, 0, 0]),
            (1 << 32, &[0xbb, 0, 0, 0, 1, 0, 0, 0, 0]),
        ] {
            assert_eq!(Head::new(MAP, value).as_slice(), head);
        }
    }
}
