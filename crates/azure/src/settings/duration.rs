//! Durations as Go writes them.

use std::time::Duration;

/// Parses a positive duration such as `1h30m`, `60s` or `1.5h`.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let number = rest.find(|it: char| !it.is_ascii_digit() && it != '.')?;
        let (amount, tail) = rest.split_at(number);
        let end = tail
            .find(|it: char| it.is_ascii_digit() || it == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        seconds += amount.parse::<f64>().ok()? * unit_seconds(unit)?;
        rest = tail;
    }
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    (!duration.is_zero()).then_some(duration)
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "h" => 3600.0,
        "m" => 60.0,
        "s" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, seconds) in [
            ("1h", 3600.0),
            ("1h30m", 5400.0),
            ("60s", 60.0),
            ("1.5h", 5400.0),
            ("250ms", 0.25),
            ("1m0.5s", 60.5),
        ] {
            assert_eq!(
                parse(text),
                Some(Duration::from_secs_f64(seconds)),
                "{text}"
            );
        }
        for text in [
            "", "1", "h", "1d", "-1h", "0s", "1h-", "1..5h", "never", "9e99h",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
