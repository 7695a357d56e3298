//! Resource quantities: `500m`, `1536Mi`, `1e3`.
//!
//! A quantity remembers its format (decimal, binary or exponent) and is printed
//! canonically in it: no fraction, the largest suffix without loss.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

/// The number of units per 1: quantities are counted in billionths.
const NANO: i128 = 1_000_000_000;

/// The maximum of quantities with a binary suffix, as in Kubernetes.
const BINARY_LIMIT: i128 = i64::MAX as i128 * NANO;

/// A resource quantity.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// The format of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `m`, `k`, `M`, ...: powers of a thousand.
    Decimal,
    /// `Ki`, `Mi`, ...: powers of 1024.
    Binary,
    /// `e3`, `E-6`.
    Exponent,
}

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text does not have the form of a quantity.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// The number is missing, or larger than can be represented (about 10^29).
    #[error("unable to parse numeric part of quantity")]
    Number,
}

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self {
        nanos: 0,
        format: Format::Decimal,
    };

    /// Creates a quantity of a whole number.
    pub const fn new(value: i64, format: Format) -> Self {
        Self {
            nanos: value as i128 * NANO,
            format,
        }
    }

    /// Returns the format.
    pub const fn format(self) -> Format {
        self.format
    }

    /// Whether the quantity is zero.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Returns the quantity in billionths.
    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    /// Returns the quantity rounded to a whole number, away from zero.
    pub fn value(self) -> i64 {
        saturate(divide_away(self.nanos, NANO))
    }

    /// Returns the quantity in thousandths, rounded away from zero.
    pub(crate) fn milli_value(self) -> i64 {
        saturate(divide_away(self.nanos, NANO / 1000))
    }

    /// Returns the sum, in the format of `self`.
    pub fn plus(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
            format: if self.is_zero() {
                other.format
            } else {
                self.format
            },
        }
    }

    /// Returns the difference, in the format of `self`.
    pub fn minus(self, other: Self) -> Self {
        let other = Self {
            nanos: -other.nanos,
            format: other.format,
        };
        self.plus(other)
    }
}

/// Returns the canonical form of a quantity.
pub fn canonical(text: &str) -> Result<String, QuantityError> {
    Ok(text.trim().parse::<Quantity>()?.to_string())
}

/// Whether two values are texts of one quantity, perhaps in two notations.
pub fn is_same(one: Option<&Value>, other: Option<&Value>) -> bool {
    let read = |value: Option<&Value>| value?.as_str()?.parse::<Quantity>().ok();
    read(one).is_some_and(|one| read(other) == Some(one))
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let parts = Parts::of(text)?;
        let (scale, format) = suffix(parts.suffix).ok_or(QuantityError::Suffix)?;
        let nanos = match scale {
            Scale::Ten(exponent) => parts.decimal(exponent)?,
            Scale::Two(exponent) => parts.binary(exponent),
        };
        Ok(Self {
            nanos: if parts.negative { -nanos } else { nanos },
            format,
        })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        // Binary suffixes cannot express fractions, and start at 1024.
        let binary = self.format == Format::Binary
            && self.nanos % NANO == 0
            && (self.nanos / NANO).abs() >= 1024;
        if binary {
            let (number, times) = without_factors(self.nanos / NANO, 1024);
            let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
            return write!(f, "{number}{}", suffix[times]);
        }
        let (number, times) = without_factors(self.nanos, 1000);
        let thousands = times as i32 - 3;
        let names = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        match names.get(times) {
            Some(name) if self.format != Format::Exponent => write!(f, "{number}{name}"),
            _ if thousands == 0 => write!(f, "{number}"),
            _ => write!(f, "{number}e{}", thousands * 3),
        }
    }
}

/// The multiplier of a suffix.
enum Scale {
    Ten(i64),
    Two(u32),
}

/// A quantity split into its parts.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let negative = text.starts_with('-');
        let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, rest) = digits(rest);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => digits(rest),
            None => ("", rest),
        };
        let tail = suffix.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
        let tail = tail.strip_prefix(['-', '+']).unwrap_or(tail);
        if !digits(tail).1.is_empty() {
            return Err(QuantityError::Format);
        }
        // A lone dot has no number; a lone sign counts as zero.
        if whole.is_empty() && fraction.is_empty() && rest.starts_with('.') {
            return Err(QuantityError::Number);
        }
        Ok(Self {
            negative,
            whole: whole.trim_start_matches('0'),
            fraction: fraction.trim_end_matches('0'),
            suffix,
        })
    }

    /// Returns billionths, rounded up, so that a small positive amount does not become
    /// zero.
    fn decimal(&self, exponent: i64) -> Result<i128, QuantityError> {
        let too_much = QuantityError::Number;
        let mut number = 0i128;
        let mut dropped = 0i64;
        let mut inexact = false;
        for digit in self.whole.bytes().chain(self.fraction.bytes()) {
            let digit = i128::from(digit - b'0');
            match number
                .checked_mul(10)
                .and_then(|ten| ten.checked_add(digit))
            {
                Some(more) if dropped == 0 => number = more,
                _ => {
                    dropped += 1;
                    inexact |= digit != 0;
                }
            }
        }
        if number == 0 {
            return Ok(0);
        }
        let power = exponent
            .saturating_add(9)
            .saturating_add(dropped)
            .saturating_sub(self.fraction.len() as i64);
        if power >= 0 {
            let factor = u32::try_from(power)
                .ok()
                .and_then(|p| 10i128.checked_pow(p));
            let factor = factor.ok_or(too_much)?;
            let exact = number.checked_mul(factor).ok_or(too_much)?;
            return Ok(exact.saturating_add(i128::from(inexact)));
        }
        let divisor = u32::try_from(-power)
            .ok()
            .and_then(|p| 10i128.checked_pow(p));
        Ok(match divisor {
            Some(divisor) => number / divisor + i128::from(inexact || number % divisor != 0),
            None => 1,
        })
    }

    /// Returns billionths, rounded up and capped.
    fn binary(&self, exponent: u32) -> i128 {
        let factor = 1i128 << exponent;
        let whole = match self.whole.parse::<i128>() {
            Ok(whole) => whole.saturating_mul(factor).saturating_mul(NANO),
            Err(_) if self.whole.is_empty() => 0,
            Err(_) => return BINARY_LIMIT,
        };
        // Eighteen digits times 2^60 still fit; the rest cannot make a difference of more
        // than one unit.
        let (kept, rest) = self.fraction.split_at(self.fraction.len().min(18));
        let places = kept.len() as u32;
        let fraction = kept.parse::<i128>().unwrap_or(0) * factor;
        let fraction = if places <= 9 {
            fraction.saturating_mul(10i128.pow(9 - places))
        } else {
            divide_away(fraction, 10i128.pow(places - 9))
        };
        let fraction = fraction + i128::from(!rest.is_empty());
        whole.saturating_add(fraction).min(BINARY_LIMIT)
    }
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(end)
}

fn suffix(text: &str) -> Option<(Scale, Format)> {
    let decimal = |exponent| Some((Scale::Ten(exponent), Format::Decimal));
    let binary = |exponent| Some((Scale::Two(exponent), Format::Binary));
    match text {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = text.strip_prefix(['e', 'E'])?.parse().ok()?;
            Some((Scale::Ten(exponent), Format::Exponent))
        }
    }
}

fn without_factors(mut number: i128, factor: i128) -> (i128, usize) {
    let mut times = 0;
    while number % factor == 0 {
        number /= factor;
        times += 1;
    }
    (number, times)
}

fn divide_away(number: i128, by: i128) -> i128 {
    number / by + (number % by).signum()
}

fn saturate(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quantity_has_one_canonical_text() {
        let cases = [
            ("0", "0"),
            ("-", "0"),
            ("0Gi", "0"),
            ("1", "1"),
            ("+1", "1"),
            ("-1.5", "-1500m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("5.", "5"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("100k", "100k"),
            ("1000k", "1M"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("1024", "1024"),
            ("1024Ki", "1Mi"),
            ("0.5Ki", "512"),
            ("1023Ki", "1023Ki"),
            ("0.1Ki", "102400m"),
            ("1.1Ki", "1126400m"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("10e3", "10e3"),
            ("1e-3", "1e-3"),
            ("1.5e0", "1500e-3"),
            ("1E", "1E"),
            ("1000E", "1e21"),
            ("1u", "1u"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("0.0000000001", "1n"),
            ("-0.1n", "-1n"),
            ("1e-400", "1e-9"),
            (
                "0.10000000000000000000000000000000000000000000001",
                "100000001n",
            ),
            ("00012", "12"),
            ("16Ei", "9223372036854775807"),
            ("123456789012345678901234567890Ki", "9223372036854775807"),
            ("12345678901234567890", "12345678901234567890"),
        ];
        for (text, wanted) in cases {
            let printed = canonical(text).unwrap_or_else(|error| error.to_string());
            assert_eq!(printed, wanted, "{text}");
            assert_eq!(canonical(&printed).as_deref(), Ok(wanted), "{text} twice");
        }
        assert_eq!(canonical(" 1 ").as_deref(), Ok("1"));
    }

    #[test]
    fn invalid_quantities_have_three_error_texts() {
        let cases = [
            ("", QuantityError::Format),
            ("abc", QuantityError::Format),
            ("1 Gi", QuantityError::Format),
            ("1e3x", QuantityError::Format),
            ("1..2", QuantityError::Format),
            ("ünf", QuantityError::Format),
            ("1ki", QuantityError::Suffix),
            ("1mm", QuantityError::Suffix),
            ("1e", QuantityError::Suffix),
            ("1e99999999999999999999", QuantityError::Suffix),
            (".", QuantityError::Number),
            ("1e50", QuantityError::Number),
            ("1e9223372036854775807", QuantityError::Number),
        ];
        for (text, wanted) in cases {
            assert_eq!(canonical(text), Err(wanted), "{text}");
        }
    }

    #[test]
    fn whole_numbers_are_rounded_away_from_zero() {
        let quantity = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(quantity("1500m").value(), 2);
        assert_eq!(quantity("-1500m").value(), -2);
        assert_eq!(quantity("1500m").milli_value(), 1500);
        assert_eq!(quantity("1n").milli_value(), 1);
        assert_eq!(quantity("1Gi").value(), 1 << 30);
        assert_eq!(quantity("1e25").value(), i64::MAX);
        assert_eq!(quantity("-1e25").value(), i64::MIN);
    }

    #[test]
    fn quantities_are_compared_by_amount_not_by_text() {
        let quantity = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(quantity("1024Mi"), quantity("1Gi"));
        assert_eq!(quantity("0.5"), quantity("500m"));
        assert!(quantity("1G") < quantity("1Gi"));
        assert!(quantity("-1") < quantity("0"));
        let sum = quantity("1Gi").plus(quantity("1024Mi"));
        assert_eq!(sum.to_string(), "2Gi");
        assert_eq!(sum.minus(quantity("2Gi")).to_string(), "0");
    }
}
