//! Quantities.

use insula_kinds::quantity::{Format, Quantity};

use crate::error::EvalError;

/// A quantity and its representation in Kubernetes, which decides whether it counts as an integer.
#[derive(Clone, Copy, Debug)]
pub struct QuantityValue {
    pub(crate) quantity: Quantity,
    /// The power of ten of the short representation; none for the long decimal one.
    scale: Option<i32>,
}

impl QuantityValue {
    pub(crate) fn parse(text: &str) -> Result<Self, EvalError> {
        let quantity: Quantity = text
            .parse()
            .map_err(|error| EvalError::new(format!("{error}")))?;
        Ok(Self {
            quantity,
            scale: scale(text, quantity.format()),
        })
    }

    pub(crate) fn from_int(number: i64) -> Self {
        Self {
            quantity: Quantity::new(number, Format::Exponent),
            scale: Some(0),
        }
    }

    /// The value, if its representation is an integer. That of `1.0` is not.
    pub(crate) fn integer(self) -> Option<i64> {
        self.scale.filter(|scale| *scale >= 0)?;
        let whole = self.quantity.nanos() / NANO;
        i64::try_from(whole).ok()
    }

    pub(crate) fn double(self) -> f64 {
        let nanos = self.quantity.nanos();
        let (mut mantissa, mut exponent) = (nanos, -9);
        let wanted = self.scale.unwrap_or(i32::MAX);
        while exponent < wanted && mantissa != 0 && mantissa % 10 == 0 {
            mantissa /= 10;
            exponent += 1;
        }
        // Powers of ten are exact when parsed, but not when computed.
        let power: f64 = format!("1e{exponent}").parse().unwrap_or(f64::NAN);
        if exponent == 0 {
            mantissa as f64
        } else {
            mantissa as f64 * power
        }
    }

    /// The representation of a sum.
    pub(crate) fn combined(self, other: Self, quantity: Quantity) -> Self {
        let scale = match (self.scale, other.scale) {
            (Some(one), Some(_)) if other.quantity.is_zero() => Some(one),
            (Some(_), Some(two)) if self.quantity.is_zero() => Some(two),
            (Some(one), Some(two)) => {
                let scale = one.min(two);
                let unit = 10i128.checked_pow((scale + 9).max(0) as u32);
                let mantissa = unit.map(|unit| quantity.nanos() / unit);
                mantissa
                    .filter(|value| i64::try_from(*value).is_ok())
                    .map(|_| scale)
            }
            _ => None,
        };
        Self { quantity, scale }
    }
}

const NANO: i128 = 1_000_000_000;

/// Returns the power of ten of the short representation, which is limited in digits.
fn scale(text: &str, format: Format) -> Option<i32> {
    if text == "0" {
        return Some(0);
    }
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = rest.split_at(digits(rest));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let whole = whole
        .trim_start_matches('0')
        .len()
        .max(usize::from(!whole.is_empty()));
    let length = i32::try_from(whole + fraction.len()).ok()?;
    let exponent = exponent(suffix);
    let (scale, left) = match format {
        Format::Binary if fraction.is_empty() => {
            (0, 15 - length - (exponent as f32 * 3.0 / 10.0) as i32 - 1)
        }
        Format::Binary => return None,
        _ => (exponent, 18 - length),
    };
    let scale = scale.checked_sub(fraction.len() as i32)?;
    (left >= 0 && scale >= -9).then_some(scale)
}

fn exponent(suffix: &str) -> i32 {
    match suffix {
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        "Ki" => 10,
        "Mi" => 20,
        "Gi" => 30,
        "Ti" => 40,
        "Pi" => 50,
        "Ei" => 60,
        _ => suffix
            .get(1..)
            .and_then(|power| power.parse().ok())
            .unwrap_or(0),
    }
}
