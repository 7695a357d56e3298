//! Dates, times and durations.

/// `2006-01-02`, an existing day.
pub(super) fn is_date(text: &str) -> bool {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text.as_bytes() else {
        return false;
    };
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0_u32, |number, digit| {
            digit
                .is_ascii_digit()
                .then(|| number * 10 + u32::from(digit - b'0'))
        })
    };
    let (year, month, day) = (
        number(&[*y1, *y2, *y3, *y4]),
        number(&[*m1, *m2]),
        number(&[*d1, *d2]),
    );
    match (year, month, day) {
        (Some(year), Some(month), Some(day)) => (1..=days(year, month)).contains(&day),
        _ => false,
    }
}

fn days(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 0,
    }
}

/// A date, a `t`, and a time with a zone. As in Kubernetes, text after a second `t` is
/// ignored, and any character may precede the fraction.
pub(super) fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let date = parts.next().is_some_and(is_date);
    date && parts.next().is_some_and(is_time)
}

fn is_time(text: &str) -> bool {
    let Some((clock, rest)) = text.split_at_checked(8) else {
        return false;
    };
    let [h1, h2, b':', m1, m2, b':', s1, s2] = clock.as_bytes() else {
        return false;
    };
    let digits = [h1, h2, m1, m2, s1, s2];
    let in_range = [*h1, *h2] <= *b"23" && [*m1, *m2] <= *b"59" && [*s1, *s2] <= *b"59";
    digits.iter().all(|digit| digit.is_ascii_digit()) && in_range && is_fraction_and_zone(rest)
}

fn is_fraction_and_zone(text: &str) -> bool {
    if is_zone(text) {
        return true;
    }
    let mut letters = text.chars();
    let Some(separator) = letters.next().filter(|letter| *letter != '\n') else {
        return false;
    };
    let fraction = &text[separator.len_utf8()..];
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && is_zone(&fraction[digits..])
}

fn is_zone(text: &str) -> bool {
    match text.as_bytes() {
        b"z" => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => {
            [h1, h2, m1, m2].iter().all(|digit| digit.is_ascii_digit())
        }
        _ => false,
    }
}

/// A duration as Go writes it, or numbers and the names of units anywhere in the text.
pub(super) fn is_duration(text: &str) -> bool {
    insula_gotext::duration::parse(text).is_some() || has_named_units(text)
}

/// The units' names; of the last in each line a longer word may begin with it.
const UNITS: &[&[&str]] = &[
    &["ns", "nano"],
    &["us", "\u{b5}s", "micro"],
    &["ms", "milli"],
    &["s", "sec"],
    &["m", "min"],
    &["h", "hr", "hour"],
    &["d", "day"],
    &["w", "wk", "week"],
];

/// Whether there is a number with the name of a unit, and no number that is too large.
fn has_named_units(text: &str) -> bool {
    let mut rest = text;
    let mut found = false;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let digits = rest[start..].bytes().take_while(u8::is_ascii_digit).count();
        let number = &rest[start..start + digits];
        let is_space = |letter: char| matches!(letter, '\t' | '\n' | '\x0c' | '\r' | ' ');
        let after = rest[start + digits..].trim_start_matches(is_space);
        let is_unit = |letter: char| letter.is_ascii_alphabetic() || letter == '\u{b5}';
        let end = after.find(|letter| !is_unit(letter)).unwrap_or(after.len());
        if end > 0 {
            if number.parse::<i64>().is_err() {
                return false;
            }
            found |= is_unit_name(&after[..end].to_lowercase());
        }
        rest = &after[end..];
    }
    found
}

fn is_unit_name(name: &str) -> bool {
    UNITS.iter().any(|names| {
        names.iter().enumerate().any(|(index, known)| {
            let last = index + 1 == names.len();
            name == *known || (last && name.starts_with(known))
        })
    })
}
