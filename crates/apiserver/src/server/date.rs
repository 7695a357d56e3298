//! The `Date` header, formatted once a second.

use std::cell::RefCell;

use http::HeaderValue;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

/// The header of one second.
struct Formatted {
    second: i64,
    value: HeaderValue,
}

thread_local! {
    static LAST: RefCell<Option<Formatted>> = const { RefCell::new(None) };
}

/// Returns the header for a time, or `None` for a year that HTTP cannot express.
pub fn header(now: Timestamp) -> Option<HeaderValue> {
    let second = now.as_second();
    LAST.with_borrow_mut(|last| {
        if let Some(last) = last.as_ref().filter(|last| last.second == second) {
            return Some(last.value.clone());
        }
        let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&now);
        let value = HeaderValue::try_from(text.ok()?).ok()?;
        *last = Some(Formatted {
            second,
            value: value.clone(),
        });
        Some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_changes_with_the_second_only() {
        let at = |text: &str| header(text.parse().unwrap()).unwrap();
        let first = at("2026-11-17T08:30:00.1Z");
        assert_eq!(first, "Tue, 17 Nov 2026 08:30:00 GMT");
        assert_eq!(at("2026-11-17T08:30:00.9Z"), first);
        assert_eq!(at("2026-11-17T08:30:01Z"), "Tue, 17 Nov 2026 08:30:01 GMT");
    }
}
