//! The delay before the next request, as responses have it.

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use jiff::Timestamp;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;

/// The maximum delay. A server that asks for more is asked again after this time.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);
/// The delay in milliseconds, which some services send instead.
const MILLISECONDS: [&str; 2] = ["retry-after-ms", "x-ms-retry-after-ms"];
/// The formats of HTTP dates: today's, that of RFC 850, and that of the C function `asctime`.
const DATES: [&str; 3] = [
    "%a, %d %b %Y %H:%M:%S GMT",
    "%A, %d-%b-%y %H:%M:%S GMT",
    "%a %b %e %H:%M:%S %Y",
];

/// Returns the delay in the headers of a response, at most [`MAX_RETRY_AFTER`].
pub fn parse(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.trim());
    let milliseconds = MILLISECONDS
        .iter()
        .find_map(|name| number(text(name)?))
        .map(Duration::from_millis);
    let delay = milliseconds.or_else(|| parse_value(text(RETRY_AFTER.as_str())?, now))?;
    Some(delay.min(MAX_RETRY_AFTER))
}

fn parse_value(text: &str, now: Timestamp) -> Option<Duration> {
    if let Some(seconds) = number(text) {
        return Some(Duration::from_secs(seconds));
    }
    let date = DATES.iter().find_map(|format| parse_date(format, text))?;
    // A date in the past is no delay.
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

/// Returns a number of digits. Larger numbers than fit are the maximum.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

fn parse_date(format: &str, text: &str) -> Option<Timestamp> {
    let date = BrokenDownTime::parse(format, text)
        .ok()?
        .to_datetime()
        .ok()?;
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(name: &'static str, value: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        // 1994-11-06T08:49:37Z.
        parse(&headers, Timestamp::from_second(784_111_777).unwrap())
    }

    #[test]
    fn seconds_and_dates_in_all_formats_are_parsed() {
        for (value, seconds) in [
            ("15", Some(15)),
            ("0", Some(0)),
            (" 17 ", Some(17)),
            ("3601", Some(3600)),
            ("99999999999999999999999", Some(3600)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sunday, 06-Nov-94 08:50:37 GMT", Some(60)),
            ("Sun Nov  6 08:50:37 1994", Some(60)),
            ("Sun Nov 16 08:50:37 1994", None),
            ("Wed Nov 16 08:50:37 1994", Some(3600)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("Sun, 06 Nov 1994 08:50:37 CET", None),
        ] {
            assert_eq!(
                at("retry-after", value),
                seconds.map(Duration::from_secs),
                "{value:?}"
            );
        }
    }

    #[test]
    fn milliseconds_are_preferred() {
        assert_eq!(
            at("retry-after-ms", "250"),
            Some(Duration::from_millis(250))
        );
        assert_eq!(at("x-ms-retry-after-ms", "99999999"), Some(MAX_RETRY_AFTER));
        assert_eq!(parse(&HeaderMap::new(), Timestamp::UNIX_EPOCH), None);
    }

    proptest! {
        #[test]
        fn delay_is_bounded(value in "[ -~]{0,40}") {
            if let Some(delay) = at("retry-after", &value) {
                prop_assert!(delay <= MAX_RETRY_AFTER);
            }
        }
    }
}
