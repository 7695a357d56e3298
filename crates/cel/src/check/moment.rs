//! Whether a text is a duration or a timestamp.

/// The first and the last second that a timestamp can be: years 1 to 9999.
const MOMENTS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// Whether a timestamp can be so many seconds after 1970.
pub(super) fn is_moment(seconds: i64) -> bool {
    MOMENTS.contains(&seconds)
}

/// Whether this is a duration as Go writes them: `1h30m`, `-1.5s`, `0`.
pub(super) fn is_duration(text: &str) -> bool {
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return true;
    }
    // The limit is that of nanoseconds in 64 bits, which has one more below zero.
    let limit = i128::from(i64::MAX) + i128::from(negative);
    let mut total: i128 = 0;
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let Some((amount, after)) = part(rest) else {
            return false;
        };
        total += amount;
        if total > limit {
            return false;
        }
        rest = after;
    }
    true
}

/// The nanoseconds of a number with a unit, and what comes after it.
fn part(text: &str) -> Option<(i128, &str)> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let end = rest
        .find(|c: char| c == '.' || c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    let unit: i128 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse::<i64>().ok()?.into()
    };
    // Digits beyond these are worth less than a nanosecond.
    let fraction: String = fraction.chars().take(18).collect();
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    let part: i128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().ok()?
    };
    Some((whole * unit + part * unit / scale, rest))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len())
}

/// Whether this is a timestamp of RFC 3339, as Go reads them.
pub(super) fn is_timestamp(text: &str) -> bool {
    seconds(text).is_some_and(is_moment)
}

fn seconds(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| digits.parse().ok())?
    };
    let is = |at: usize, separator: &str| text.get(at..at + 1) == Some(separator);
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    // The hour may have one digit.
    let hour_end = if is(12, ":") { 12 } else { 13 };
    let hour = number(11, hour_end)?;
    let (minute, second) = (
        number(hour_end + 1, hour_end + 3)?,
        number(hour_end + 4, hour_end + 6)?,
    );
    let separated =
        is(4, "-") && is(7, "-") && is(10, "T") && is(hour_end, ":") && is(hour_end + 3, ":");
    let within = (1..=12).contains(&month)
        && (1..=days(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    let offset = zone(fraction(text.get(hour_end + 6..)?)?)?;
    (separated && within).then(|| {
        since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset
    })
}

/// What comes after a fraction of a second, if there is one.
fn fraction(text: &str) -> Option<&str> {
    let Some(rest) = text.strip_prefix(['.', ',']) else {
        return Some(text);
    };
    let (digits, rest) = digits(rest);
    (!digits.is_empty()).then_some(rest)
}

/// How many seconds a zone is ahead.
fn zone(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    if hours.len() != 2 || minutes.len() != 2 {
        return None;
    }
    let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours <= 24 && minutes < 60)
        .then(|| sign * (i64::from(hours) * 3_600 + i64::from(minutes) * 60))
}

fn days(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March have their leap day at the end.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let before = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    before + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_what_go_reads_as_one() {
        for good in [
            "0", "-0", "1s", "1h30m", "1.5s", ".5s", "1.s", "-1ns", "1us", "1µs", "+2m",
        ] {
            assert!(is_duration(good), "{good}");
        }
        for good in ["2562047h47m16.854775807s", "-2562047h47m16.854775808s"] {
            assert!(is_duration(good), "{good}");
        }
        for bad in [
            "",
            "-",
            "1",
            "s",
            "1x",
            "1s1",
            ".s",
            "1 s",
            "1d",
            "2562047h47m16.854775808s",
        ] {
            assert!(!is_duration(bad), "{bad}");
        }
    }

    #[test]
    fn timestamps_are_of_rfc_3339_and_within_the_years_1_to_9999() {
        let good = [
            "2025-01-01T00:00:00Z",
            "2024-02-29T23:59:59.999999999+01:00",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
            "2025-01-01T1:00:00Z",
        ];
        for text in good {
            assert!(is_timestamp(text), "{text}");
        }
        let bad = [
            "",
            "2025-01-01",
            "2025-13-01T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2025-01-01T24:00:00Z",
            "2025-01-01T00:00:60Z",
            "2025-01-01T00:00:00",
            "2025-01-01t00:00:00z",
            "2025-01-01T00:00:00.Z",
            "0001-01-01T00:00:00+01:00",
            "9999-12-31T23:59:59-01:00",
            "2025-01-01T00:00:00+1:00",
            "2025-01-01T00:00:00é",
        ];
        for text in bad {
            assert!(!is_timestamp(text), "{text}");
        }
    }
}
