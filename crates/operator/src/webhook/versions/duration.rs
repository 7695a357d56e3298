//! Durations as texts of Go, such as `1h30m0s`.

/// The units of Go, with their length in seconds.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("\u{b5}s", 1e-6),
    ("\u{3bc}s", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
];

/// Returns the seconds of a duration, rounded up. A text that is no positive duration has none.
pub(super) fn seconds(text: &str) -> Option<i32> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = |letter: char| !letter.is_ascii_digit() && letter != '.';
        let (number, tail) = rest.split_at(rest.find(digits)?);
        let end = tail.find(|letter: char| letter.is_ascii_digit() || letter == '.');
        let (unit, tail) = tail.split_at(end.unwrap_or(tail.len()));
        let (_, length) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total += number.parse::<f64>().ok()? * length;
        rest = tail;
    }
    // A float that does not fit is converted to the maximum.
    (total > 0.0).then_some(total.ceil() as i32)
}

/// Returns the duration of so many seconds.
pub(super) fn text(seconds: i64) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_go_are_read_and_written() {
        for (read, expected, written) in [
            ("5m", 300, "5m0s"),
            ("5m0s", 300, "5m0s"),
            ("1h0m1s", 3601, "1h0m1s"),
            ("90s", 90, "1m30s"),
            ("1.5h", 5400, "1h30m0s"),
            ("1ms", 1, "1s"),
            ("1500ms", 2, "2s"),
            ("2540400h", i32::MAX, "596523h14m7s"),
        ] {
            assert_eq!(seconds(read), Some(expected), "{read}");
            assert_eq!(text(expected.into()), written, "{read}");
        }
        for none in ["", "0", "0s", "-5m", "5", "m", "5x", "five", "1..2s"] {
            assert_eq!(seconds(none), None, "{none}");
        }
    }
}
