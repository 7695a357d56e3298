//! Durations on the command line and in tables.

use std::time::Duration;

/// The units in seconds.
const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// Parses `90s`, `5m`, `24h`, `7d`, and sums such as `1h30m`.
pub fn parse(text: &str) -> Result<Duration, String> {
    sum(text)
        .ok_or_else(|| "a duration is a number with d, h, m or s, such as 30s or 1h30m".to_owned())
}

fn sum(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut seconds = 0_u64;
    while !rest.is_empty() {
        let end = rest.find(|sign: char| !sign.is_ascii_digit())?;
        let (number, unit_and_rest) = rest.split_at(end);
        let number: u64 = number.parse().ok()?;
        let unit = unit_and_rest.chars().next()?;
        let (_, length) = UNITS.iter().find(|(sign, _)| *sign == unit)?;
        seconds = seconds.checked_add(number.checked_mul(*length)?)?;
        rest = &unit_and_rest[unit.len_utf8()..];
    }
    // A century is practically forever, and date arithmetic still works.
    let sensible = !text.is_empty() && seconds <= 100 * 366 * 86_400;
    sensible.then_some(Duration::from_secs(seconds))
}

/// Formats an age as kubectl does: the longer, the less precise.
pub fn short(age: Duration) -> String {
    let seconds = age.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let years = days / 365;
    let both = |large: u64, sign: char, small: u64, small_sign: char| match small {
        0 => format!("{large}{sign}"),
        _ => format!("{large}{sign}{small}{small_sign}"),
    };
    if seconds < 2 * 60 {
        format!("{seconds}s")
    } else if minutes < 10 {
        both(minutes, 'm', seconds % 60, 's')
    } else if minutes < 3 * 60 {
        format!("{minutes}m")
    } else if hours < 8 {
        both(hours, 'h', minutes % 60, 'm')
    } else if hours < 2 * 24 {
        format!("{hours}h")
    } else if hours < 8 * 24 {
        both(days, 'd', hours % 24, 'h')
    } else if days < 2 * 365 {
        format!("{days}d")
    } else if days < 8 * 365 {
        both(years, 'y', days % 365, 'd')
    } else {
        format!("{years}y")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_as_sums_of_units() {
        for (text, seconds) in [
            ("90s", Some(90)),
            ("5m", Some(300)),
            ("24h", Some(86_400)),
            ("7d", Some(604_800)),
            ("1h30m", Some(5_400)),
            ("0s", Some(0)),
            ("", None),
            ("24", None),
            ("h", None),
            ("-1h", None),
            ("1.5h", None),
            ("1 h", None),
            ("1w", None),
            ("1ä", None),
            ("99999999999999999999s", None),
            ("9999999999d", None),
        ] {
            let expected = seconds.map(Duration::from_secs);
            assert_eq!(parse(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn ages_are_formatted_as_in_kubectl() {
        for (seconds, text) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (8 * 3600, "8h"),
            (47 * 3600, "47h"),
            (48 * 3600, "2d"),
            (49 * 3600, "2d1h"),
            (8 * 86_400, "8d"),
            (729 * 86_400, "729d"),
            (730 * 86_400, "2y"),
            (731 * 86_400, "2y1d"),
            (3000 * 86_400, "8y"),
        ] {
            assert_eq!(short(Duration::from_secs(seconds)), text);
        }
    }
}
