//! Timestamps and durations, as Go reads and prints them.

use std::cmp::Ordering;
use std::fmt;

use insula_kinds::time::{Precision, parse};

use crate::error::EvalError;

/// The years 1 to 9999, in seconds since 1970.
const RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

const SECOND: i64 = 1_000_000_000;

/// A timestamp with its original zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
    /// The offset of the zone from UTC in seconds.
    pub offset: i32,
}

/// A duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duration {
    /// Nanoseconds.
    pub nanos: i64,
}

/// A date and a time of day.
pub(crate) struct Clock {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
    pub(crate) day_of_year: i64,
    pub(crate) day_of_week: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
}

impl Timestamp {
    /// Creates a timestamp from seconds since 1970, within the years 1 to 9999.
    pub fn of_seconds(seconds: i64) -> Result<Self, EvalError> {
        Self::checked(seconds, 0, 0)
    }

    /// Compares two timestamps, regardless of zones.
    pub fn order(self, other: Self) -> Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }

    /// Returns whether this is the zero time of Go, the beginning of the year 1.
    pub fn is_zero(self) -> bool {
        self.seconds == *RANGE.start() && self.nanos == 0
    }

    /// Adds a duration.
    pub fn plus(self, duration: Duration) -> Result<Self, EvalError> {
        let nanos = i64::from(self.nanos) + duration.nanos % SECOND;
        // The additions cannot overflow: timestamps and durations are far from the limits.
        let seconds = self.seconds + duration.nanos / SECOND + nanos.div_euclid(SECOND);
        Self::checked(seconds, nanos.rem_euclid(SECOND) as u32, self.offset)
    }

    /// Returns the duration from the other timestamp to this one.
    pub fn since(self, other: Self) -> Result<Duration, EvalError> {
        let seconds = i128::from(self.seconds) - i128::from(other.seconds);
        let nanos = seconds * i128::from(SECOND) + i128::from(self.nanos) - i128::from(other.nanos);
        match i64::try_from(nanos) {
            Ok(nanos) => Ok(Duration { nanos }),
            Err(_) => Err(EvalError::new("integer overflow")),
        }
    }

    fn checked(seconds: i64, nanos: u32, offset: i32) -> Result<Self, EvalError> {
        if !RANGE.contains(&seconds) {
            return Err(EvalError::new("timestamp overflow"));
        }
        Ok(Self {
            seconds,
            nanos,
            offset,
        })
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = civil_time(self.seconds + i64::from(self.offset));
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            clock.year, clock.month, clock.day, clock.hour, clock.minute, clock.second
        )?;
        if self.nanos != 0 {
            let fraction = format!("{:09}", self.nanos);
            write!(f, ".{}", fraction.trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        let sign = if self.offset < 0 { '-' } else { '+' };
        let minutes = self.offset.abs() / 60;
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Go prints the quotient as a double, to its last digit.
        let seconds = (self.nanos / SECOND) as f64 + (self.nanos % SECOND) as f64 / SECOND as f64;
        write!(f, "{seconds}s")
    }
}

/// Parses an RFC 3339 timestamp within the years 1 to 9999.
pub(crate) fn parse_timestamp(text: &str) -> Option<Result<Timestamp, EvalError>> {
    let time = parse_rfc3339(text)?;
    Some(Timestamp::checked(time.seconds, time.nanos, time.offset))
}

/// Returns whether the text is an RFC 3339 timestamp within the years 1 to 9999.
pub(crate) fn is_timestamp(text: &str) -> bool {
    matches!(parse_timestamp(text), Some(Ok(_)))
}

/// Parses an RFC 3339 timestamp.
pub(super) fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let time = parse(text, Precision::Seconds).ok()?;
    Some(Timestamp {
        seconds: time.seconds,
        nanos: time.nanos,
        offset: zone(text),
    })
}

/// Parses a date.
pub(super) fn parse_date(text: &str) -> Option<Timestamp> {
    // The parser would accept other numbers of digits.
    (text.len() == 10).then(|| parse_rfc3339(&format!("{text}T00:00:00Z")))?
}

/// Returns the offset of a timestamp that was parsed.
fn zone(text: &str) -> i32 {
    let Some(&[sign, h1, h2, b':', m1, m2]) = text.as_bytes().last_chunk::<6>() else {
        return 0;
    };
    if text.ends_with('Z') {
        return 0;
    }
    let two = |high: u8, low: u8| i32::from(high & 15) * 10 + i32::from(low & 15);
    let offset = two(h1, h2) * 3600 + two(m1, m2) * 60;
    if sign == b'-' { -offset } else { offset }
}

/// Parses a duration as Go does: `1h30m`, `-1.5s`, `0`.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let nanos = insula_gotext::duration::parse(text)?;
    Some(Duration { nanos })
}

/// Returns whether the text is a duration as Go reads them.
pub(crate) fn is_duration(text: &str) -> bool {
    parse_duration(text).is_some()
}

/// Parses a duration with long units, as schemas accept it: `1 day`, `2 weeks`.
pub(super) fn parse_long_duration(text: &str) -> Option<Duration> {
    let mut total = 0i64;
    let mut found = false;
    let mut rest = text;
    while let Some(at) = rest.find(|first: char| first.is_ascii_digit()) {
        let negative = rest[..at].ends_with('-');
        let (number, tail) = digits(&rest[at..]);
        let tail = tail.trim_start();
        let end = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        if let Some(unit) = long_unit(&tail[..end].to_ascii_lowercase()) {
            let nanos = number.parse::<i64>().ok()?.checked_mul(unit)?;
            total = total.checked_add(if negative { -nanos } else { nanos })?;
            found = true;
        }
        rest = &tail[end..];
    }
    found.then_some(Duration { nanos: total })
}

fn long_unit(name: &str) -> Option<i64> {
    const HOUR: i64 = 3600 * SECOND;
    Some(match name {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => HOUR,
        "d" => 24 * HOUR,
        "w" => 7 * 24 * HOUR,
        _ if name.starts_with("nano") => 1,
        _ if name.starts_with("micro") => 1_000,
        _ if name.starts_with("milli") => 1_000_000,
        _ if name.starts_with("sec") => SECOND,
        _ if name.starts_with("min") => 60 * SECOND,
        _ if name.starts_with("hr") || name.starts_with("hour") => HOUR,
        _ if name.starts_with("day") => 24 * HOUR,
        _ if name.starts_with("wk") || name.starts_with("week") => 7 * 24 * HOUR,
        _ => return None,
    })
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// Returns date and time for seconds since 1970, in the zone in which they are counted.
pub(crate) fn civil_time(seconds: i64) -> Clock {
    let days = seconds.div_euclid(86_400);
    let time = seconds.rem_euclid(86_400);
    // Years begin in March here, so that the leap day is the last day of a year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    Clock {
        year,
        month,
        day,
        day_of_year: before[month as usize - 1] + day - 1 + i64::from(leap && month > 2),
        day_of_week: (days + 4).rem_euclid(7),
        hour: time / 3600,
        minute: time / 60 % 60,
        second: time % 60,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_durations_have_units_beyond_hours() {
        let day = 86_400 * SECOND;
        for (text, wanted) in [("1 day", Some(day)), ("2w", Some(14 * day)), ("x", None)] {
            assert_eq!(parse_long_duration(text).map(|d| d.nanos), wanted, "{text}");
        }
    }

    #[test]
    fn timestamps_are_printed_in_their_original_zone() {
        for text in [
            "2025-01-01T00:00:00Z",
            "2025-01-01T00:00:00.12+02:00",
            "2024-02-29T23:59:59.000000001-11:30",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
        ] {
            let time = parse_timestamp(text).unwrap().unwrap();
            assert_eq!(time.to_string(), text);
        }
        assert_eq!(
            parse_timestamp("9999-12-31T23:59:59-01:00").unwrap(),
            Err(EvalError::new("timestamp overflow"))
        );
        assert_eq!(parse_timestamp("2025-02-30T00:00:00Z"), None);
    }

    #[test]
    fn civil_time_knows_leap_years() {
        let clock = civil_time(1_709_251_199);
        assert_eq!((clock.year, clock.month, clock.day), (2024, 2, 29));
        assert_eq!((clock.day_of_year, clock.day_of_week), (59, 4));
        let clock = civil_time(1_735_603_200);
        assert_eq!((clock.month, clock.day, clock.day_of_year), (12, 31, 365));
    }

    #[test]
    fn timestamps_are_rfc_3339_within_the_years_1_to_9999() {
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
