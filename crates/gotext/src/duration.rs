//! Durations as `time.ParseDuration` reads them.

/// The largest magnitude of a duration: that of the smallest 64-bit integer.
const MAX_MAGNITUDE: u64 = 1 << 63;

/// Parses a duration such as `1h30m`, `-1.5s` or `0`, and returns it in nanoseconds.
///
/// Returns `None` for everything that Go refuses, which includes a number without a unit,
/// units longer than an hour, and durations that do not fit into 64 bits.
pub fn parse(text: &str) -> Option<i64> {
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let part;
        (part, rest) = parse_part(rest)?;
        total = bounded(total.checked_add(part)?)?;
    }
    if negative {
        0_i64.checked_sub_unsigned(total)
    } else {
        i64::try_from(total).ok()
    }
}

/// Parses one number with its unit; returns it in nanoseconds, and the text after it.
fn parse_part(text: &str) -> Option<(u64, &str)> {
    let (whole, rest) = split_digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let end = rest.find(|letter: char| letter == '.' || letter.is_ascii_digit());
    let (unit, rest) = rest.split_at(end.unwrap_or(rest.len()));
    let unit = unit_nanos(unit)?;
    let whole = match whole {
        "" => 0,
        digits => digits.parse::<u64>().ok()?,
    };
    let whole = bounded(whole.checked_mul(unit)?)?;
    let (fraction, scale) = parse_fraction(fraction);
    // Go computes the fraction as a float, too.
    let part = fraction as f64 * (unit as f64 / scale);
    Some((bounded(whole.checked_add(part as u64)?)?, rest))
}

/// Parses the digits of a fraction; returns them as a number, and the power of ten to divide
/// it by. Digits that no longer fit are ignored.
fn parse_fraction(digits: &str) -> (u64, f64) {
    let (mut value, mut scale) = (0_u64, 1.0);
    for digit in digits.bytes() {
        if value > (MAX_MAGNITUDE - 1) / 10 {
            break;
        }
        let next = value * 10 + u64::from(digit - b'0');
        if next > MAX_MAGNITUDE {
            break;
        }
        (value, scale) = (next, scale * 10.0);
    }
    (value, scale)
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // U+00B5 is the micro sign, U+03BC the Greek letter mu.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

fn bounded(nanos: u64) -> Option<u64> {
    (nanos <= MAX_MAGNITUDE).then_some(nanos)
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nanos) in [
            ("0", 0),
            ("-0", 0),
            ("+0", 0),
            ("0s", 0),
            ("1h30m0.5s", 5_400_500_000_000),
            ("-1ns", -1),
            ("+5s", 5_000_000_000),
            ("1.5us", 1_500),
            ("2µs", 2_000),
            ("2μs", 2_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("1.5h.5m", 5_430_000_000_000),
            ("0.3333333333333333333h", 1_200_000_000_000),
            ("0.100000000000000000000h", 360_000_000_000),
            ("0.830103483285477580700h", 2_988_372_539_827),
            ("2562047h47m16.854775807s", i64::MAX),
            ("-2562047h47m16.854775808s", i64::MIN),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
        ] {
            assert_eq!(parse(text), Some(nanos), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_durations_to_go_are_refused() {
        for text in [
            "",
            "-",
            "--1h",
            "1",
            ".",
            ".s",
            "1.2.3h",
            "1h ",
            " 1h",
            "1d",
            "1w",
            "1 h",
            "s",
            "1x",
            "1s1",
            "1é",
            "2562047h47m16.854775808s",
            "9223372036854775808ns",
            "-9223372036854775809ns",
            "9999999999999999999h",
            "99999999999999999999s",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
