//! Times in objects: RFC 3339 in UTC, to the second, or to the microsecond where the type
//! requires it.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICROS_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// The beginning of year 1 in UTC, Go's zero time.
const ZERO_TIME: i64 = -62_135_596_800;

/// The precision of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// `2026-11-16T00:00:00Z`; any fraction is accepted and dropped.
    Seconds,
    /// `2026-11-16T00:00:00.000000Z`; exactly six digits are accepted.
    Micros,
}

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds since the second began.
    pub nanos: u32,
}

/// Why a text is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// An element does not match the layout.
    #[error(
        "parsing time {} as \"{layout}\": cannot parse {} as \"{wanted}\"",
        quote(text),
        quote(rest)
    )]
    Element {
        /// The parsed text.
        text: String,
        /// The expected layout.
        layout: &'static str,
        /// The remaining text where parsing stopped.
        rest: String,
        /// The expected element.
        wanted: &'static str,
    },
    /// An element is out of range, such as a day or an hour.
    #[error("parsing time {}: {element} out of range", quote(text))]
    Range {
        /// The parsed text.
        text: String,
        /// The element.
        element: &'static str,
    },
    /// Extra text follows the time.
    #[error("parsing time {}: extra text: {}", quote(text), quote(rest))]
    Extra {
        /// The parsed text.
        text: String,
        /// The extra text.
        rest: String,
    },
}

impl Time {
    /// Returns the current time.
    pub fn now() -> Self {
        // A clock set before 1970 counts as 1970.
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            seconds: since.as_secs() as i64,
            nanos: since.subsec_nanos(),
        }
    }

    /// Whether this is Go's zero time, which means unset.
    pub const fn is_zero(self) -> bool {
        self.seconds == ZERO_TIME && self.nanos == 0
    }

    /// Formats the time canonically.
    pub fn print(self, precision: Precision) -> String {
        let days = self.seconds.div_euclid(86_400);
        let second = self.seconds.rem_euclid(86_400);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let mut text = String::with_capacity(28);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
        );
        if precision == Precision::Micros {
            let _ = write!(text, ".{:06}", self.nanos / 1000);
        }
        text.push('Z');
        text
    }
}

/// Returns the current time to the second.
pub fn now() -> String {
    Time::now().print(Precision::Seconds)
}

/// Parses a time.
pub fn parse(text: &str, precision: Precision) -> Result<Time, TimeError> {
    Parser {
        text,
        rest: text,
        precision,
    }
    .time()
}

/// Returns the canonical form of a time; none for Go's zero time.
pub fn canonical(text: &str, precision: Precision) -> Result<Option<Cow<'_, str>>, TimeError> {
    let mut time = parse(text, precision)?;
    if precision == Precision::Seconds {
        time.nanos = 0;
    }
    if time.is_zero() {
        return Ok(None);
    }
    let length = match precision {
        Precision::Seconds => 20,
        Precision::Micros => 27,
    };
    // No other text of this length is a time in UTC.
    if text.len() == length && text.ends_with('Z') && !text.contains(',') {
        return Ok(Some(Cow::Borrowed(text)));
    }
    Ok(Some(Cow::Owned(time.print(precision))))
}

/// Formats a duration as tables show it: `5s`, `3m20s`, `4h`, `2d3h`, `3y20d`.
pub fn human_duration(seconds: i64) -> String {
    // One second of clock skew is tolerated.
    match seconds {
        ..-1 => return "<invalid>".to_owned(),
        -1 => return "0s".to_owned(),
        _ => {}
    }
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let years = days / 365;
    let pair = |big: i64, unit: &str, small: i64, smaller: &str| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit}{small}{smaller}"),
    };
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        pair(minutes, "m", seconds % 60, "s")
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        pair(hours, "h", minutes % 60, "m")
    } else if hours < 48 {
        format!("{hours}h")
    } else if days < 8 {
        pair(days, "d", hours % 24, "h")
    } else if years < 2 {
        format!("{days}d")
    } else if years < 8 {
        pair(years, "y", days % 365, "d")
    } else {
        format!("{years}y")
    }
}

/// A parser that reads from left to right, so that it stops where Go's parser stops.
struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    precision: Precision,
}

impl Parser<'_> {
    fn time(mut self) -> Result<Time, TimeError> {
        let year = self.year()?;
        self.skip("-")?;
        let month = self.number("01", Some(("month", 1, 12)))?;
        self.skip("-")?;
        let day = self.number("02", None)?;
        self.skip("T")?;
        let hour = self.hour()?;
        self.skip(":")?;
        let minute = self.number("04", Some(("minute", 0, 59)))?;
        self.skip(":")?;
        let second = self.number("05", Some(("second", 0, 59)))?;
        let nanos = self.fraction()?;
        let offset = self.zone()?;
        if !self.rest.is_empty() {
            return Err(TimeError::Extra {
                text: self.text.to_owned(),
                rest: self.rest.to_owned(),
            });
        }
        if day < 1 || day > days_in(month, year) {
            return Err(self.range("day"));
        }
        let days = days_since_1970(year, month, day);
        Ok(Time {
            seconds: days * 86_400 + hour * 3600 + minute * 60 + second - offset,
            nanos,
        })
    }

    fn year(&mut self) -> Result<i64, TimeError> {
        let digits = self.rest.bytes().take(4).take_while(u8::is_ascii_digit);
        if digits.count() < 4 {
            return Err(self.element("2006"));
        }
        Ok(self.take(4))
    }

    /// As in Go, one digit is enough for an hour.
    fn hour(&mut self) -> Result<i64, TimeError> {
        let digits = self.rest.bytes().take(2).take_while(u8::is_ascii_digit);
        let hour = match digits.count() {
            0 => return Err(self.element("15")),
            digits => self.take(digits),
        };
        if hour > 23 {
            return Err(self.range("hour"));
        }
        Ok(hour)
    }

    fn number(
        &mut self,
        wanted: &'static str,
        range: Option<(&'static str, i64, i64)>,
    ) -> Result<i64, TimeError> {
        let digits = self.rest.bytes().take(2).take_while(u8::is_ascii_digit);
        if digits.count() < 2 {
            return Err(self.element(wanted));
        }
        let number = self.take(2);
        match range {
            Some((element, min, max)) if number < min || number > max => Err(self.range(element)),
            _ => Ok(number),
        }
    }

    fn fraction(&mut self) -> Result<u32, TimeError> {
        let digits = match self.rest.strip_prefix(['.', ',']) {
            Some(rest) => rest.bytes().take_while(u8::is_ascii_digit).count(),
            None => 0,
        };
        let digits = match self.precision {
            Precision::Seconds if digits == 0 => return Ok(0),
            Precision::Seconds => digits,
            Precision::Micros if digits < 6 => return Err(self.element(".000000")),
            Precision::Micros => 6,
        };
        let (fraction, rest) = self.rest.split_at(digits + 1);
        self.rest = rest;
        // Nine digits are nanoseconds; further digits are dropped.
        let padded = fraction[1..].bytes().chain(std::iter::repeat(b'0')).take(9);
        Ok(padded.fold(0, |nanos, digit| nanos * 10 + u32::from(digit - b'0')))
    }

    fn zone(&mut self) -> Result<i64, TimeError> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let wrong = self.element("Z07:00");
        let zone = self.rest.as_bytes();
        let &[sign, h1, h2, b':', m1, m2, ..] = zone else {
            return Err(wrong);
        };
        if ![h1, h2, m1, m2].iter().all(u8::is_ascii_digit) {
            return Err(wrong);
        }
        let two = |high: u8, low: u8| i64::from(high - b'0') * 10 + i64::from(low - b'0');
        let (hours, minutes) = (two(h1, h2), two(m1, m2));
        if hours > 24 {
            return Err(self.range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.range("time zone offset minute"));
        }
        self.rest = &self.rest[6..];
        let offset = hours * 3600 + minutes * 60;
        match sign {
            b'+' => Ok(offset),
            b'-' => Ok(-offset),
            _ => Err(wrong),
        }
    }

    fn skip(&mut self, wanted: &'static str) -> Result<(), TimeError> {
        self.rest = self
            .rest
            .strip_prefix(wanted)
            .ok_or_else(|| self.element(wanted))?;
        Ok(())
    }

    /// Takes digits that the caller has checked.
    fn take(&mut self, digits: usize) -> i64 {
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        number
            .bytes()
            .fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))
    }

    fn element(&self, wanted: &'static str) -> TimeError {
        TimeError::Element {
            text: self.text.to_owned(),
            layout: match self.precision {
                Precision::Seconds => SECONDS_LAYOUT,
                Precision::Micros => MICROS_LAYOUT,
            },
            rest: self.rest.to_owned(),
            wanted,
        }
    }

    fn range(&self, element: &'static str) -> TimeError {
        TimeError::Range {
            text: self.text.to_owned(),
            element,
        }
    }
}

/// Quotes a time as Go does: bytes other than printable ASCII are escaped one by one.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                quoted.push('\\');
                quoted.push(char::from(byte));
            }
            b' '..=b'~' | 0x7f => quoted.push(char::from(byte)),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns the Unix time of a text such as `2026-11-18T12:00:00Z` or
/// `2026-11-18T12:00:00.123456Z`, as seconds and microseconds; `None` for any other text, which
/// may be a time all the same.
pub(crate) fn unix_time(text: &[u8]) -> Option<(i64, i64)> {
    let micros = match text.get(19..)? {
        b"Z" => 0,
        [b'.', digits @ .., b'Z'] if digits.len() == 6 => digits_value(digits)?,
        _ => return None,
    };
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if marks.iter().any(|(at, mark)| text[*at] != *mark) {
        return None;
    }
    let number = |from, to| digits_value(&text[from..to]);
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    // The general parser rejects the end of the year 9999, which no fast path is worth.
    let is_date =
        year < 9999 && (1..=12).contains(&month) && (1..=days_in(month, year)).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = days_since_1970(year, month, day);
    Some((((days * 24 + hour) * 60 + minute) * 60 + second, micros))
}

fn digits_value(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
        Some(value * 10 + digit)
    })
}

fn days_in(month: i64, year: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Counts years from March, so that the leap day is last and months have fixed offsets.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year * 365 + year / 4 - year / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_since_1970`].
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = (month + 2) % 12 + 1;
    let year = era * 400 + year + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_in_utc() {
        let cases = [
            ("2026-11-16T00:00:00Z", "2026-11-16T00:00:00Z"),
            ("2026-11-16T01:30:00+01:30", "2026-11-16T00:00:00Z"),
            ("2026-12-31T23:00:00-02:00", "2027-01-01T01:00:00Z"),
            ("2024-02-29T12:00:00.987654321Z", "2024-02-29T12:00:00Z"),
            ("2024-02-29T12:00:00,5Z", "2024-02-29T12:00:00Z"),
            ("2024-02-29T1:00:00.0Z", "2024-02-29T01:00:00Z"),
            ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"),
            ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
        ];
        for (text, wanted) in cases {
            let printed = canonical(text, Precision::Seconds).unwrap().unwrap();
            assert_eq!(printed, wanted, "{text}");
            let again = parse(text, Precision::Seconds).unwrap();
            assert_eq!(again.print(Precision::Seconds), wanted, "{text}");
        }
        let micros = canonical("2026-11-16T02:00:00.123456+02:00", Precision::Micros);
        assert_eq!(micros.unwrap().unwrap(), "2026-11-16T00:00:00.123456Z");
        let never = canonical("0001-01-01T00:00:00Z", Precision::Seconds);
        assert_eq!(never, Ok(None));
    }

    #[test]
    fn invalid_times_are_rejected_in_gos_words() {
        let layout = r#"as "2006-01-02T15:04:05Z07:00": cannot parse"#;
        let cases = [
            ("yesterday", format!(r#"{layout} "yesterday" as "2006""#)),
            ("", format!(r#"{layout} "" as "2006""#)),
            ("2026-1-01", format!(r#"{layout} "1-01" as "01""#)),
            ("2026-11-16", format!(r#"{layout} "" as "T""#)),
            (
                "2026-11-16 00:00:00Z",
                format!(r#"{layout} " 00:00:00Z" as "T""#),
            ),
            ("2026-11-16T00:00:00", format!(r#"{layout} "" as "Z07:00""#)),
            ("2026-é", format!(r#"{layout} "\xc3\xa9" as "01""#)),
        ];
        for (text, wanted) in cases {
            let error = parse(text, Precision::Seconds).unwrap_err().to_string();
            assert_eq!(error, format!("parsing time {} {wanted}", quote(text)));
        }
        let cases = [
            ("2026-13-01T00:00:00Z", "month out of range"),
            ("2026-02-29T00:00:00Z", "day out of range"),
            ("2026-02-01T24:00:00Z", "hour out of range"),
            ("2026-02-01T00:60:00Z", "minute out of range"),
            ("2026-02-01T00:00:60Z", "second out of range"),
            ("2026-02-01T00:00:00Zx", r#"extra text: "x""#),
            (
                "2026-02-01T00:00:00+25:00",
                "time zone offset hour out of range",
            ),
        ];
        for (text, wanted) in cases {
            let error = parse(text, Precision::Seconds).unwrap_err().to_string();
            assert_eq!(error, format!("parsing time \"{text}\": {wanted}"));
        }
        let error = parse("2026-02-01T00:00:00Z", Precision::Micros).unwrap_err();
        let wanted = r#"as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#;
        let wanted = format!("parsing time \"2026-02-01T00:00:00Z\" {wanted}");
        assert_eq!(error.to_string(), wanted);
    }

    #[test]
    fn unix_times_are_those_of_the_general_parser() {
        for text in [
            "2026-11-18T12:34:56Z",
            "2024-02-29T23:59:59.123456Z",
            "1969-12-31T23:59:59Z",
            "0001-01-01T00:00:00Z",
            "9998-12-31T23:59:59.999999Z",
        ] {
            let time: jiff::Timestamp = text.parse().unwrap();
            let micros = time.as_microsecond();
            let expected = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
            assert_eq!(unix_time(text.as_bytes()), Some(expected), "{text}");
        }
        for text in [
            "",
            "2026-02-29T00:00:00Z",
            "2026-11-18T24:00:00Z",
            "2026-11-18T12:00:60Z",
            "2026-13-01T00:00:00Z",
            "2026-11-18T12:00:00+01:00",
            "2026-11-18T12:00:00.5Z",
            "2026-11-18 12:00:00Z",
            "20x6-11-18T12:00:00Z",
            "9999-12-31T23:59:59Z",
        ] {
            assert_eq!(unix_time(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn days_and_dates_roundtrip() {
        for days in (-800_000..3_000_000).step_by(13) {
            let (year, month, day) = date(days);
            assert!((1..=12).contains(&month) && day >= 1 && day <= days_in(month, year));
            assert_eq!(days_since_1970(year, month, day), days);
        }
        assert_eq!(date(0), (1970, 1, 1));
        let never = Time {
            seconds: ZERO_TIME,
            nanos: 0,
        };
        assert_eq!(never.print(Precision::Seconds), "0001-01-01T00:00:00Z");
    }

    #[test]
    fn now_is_after_2025() {
        assert!(now().as_str() > "2025-01-01T00:00:00Z");
        assert_eq!(now().len(), 20);
    }

    #[test]
    fn durations_print_at_most_two_units() {
        let (minute, hour, day) = (60, 3600, 86_400);
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (2 * minute + 1, "2m1s"),
            (10 * minute - 1, "9m59s"),
            (10 * minute + 5, "10m"),
            (3 * hour - 1, "179m"),
            (3 * hour, "3h"),
            (3 * hour + 5 * minute, "3h5m"),
            (8 * hour, "8h"),
            (47 * hour, "47h"),
            (2 * day, "2d"),
            (2 * day + 3 * hour, "2d3h"),
            (8 * day + hour, "8d"),
            (729 * day, "729d"),
            (2 * 365 * day, "2y"),
            (2 * 365 * day + day, "2y1d"),
            (8 * 365 * day + day, "8y"),
        ];
        for (seconds, wanted) in cases {
            assert_eq!(human_duration(seconds), wanted, "{seconds}");
        }
    }
}
