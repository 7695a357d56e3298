//! CronJob schedules: `minute hour day month weekday`.

use crate::validate::check::Errors;
use crate::validate::tree::Node;

/// A field of a schedule: its minimum and maximum, and names for numbers.
struct Bounds {
    min: i64,
    max: i64,
    names: &'static [&'static str],
}

const FIELDS: [Bounds; 5] = [
    Bounds {
        min: 0,
        max: 59,
        names: &[],
    },
    Bounds {
        min: 0,
        max: 23,
        names: &[],
    },
    Bounds {
        min: 1,
        max: 31,
        names: &[],
    },
    Bounds {
        min: 1,
        max: 12,
        names: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    },
    Bounds {
        min: 0,
        max: 6,
        names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    },
];

/// Validates a schedule; the time zone belongs into its own field.
pub(super) fn schedule(old: Option<&Node<'_>>, spec: &Node<'_>, errors: &mut Errors) {
    let schedule = spec.get("schedule");
    if let Err(message) = parse(schedule.text()) {
        errors.push(schedule.invalid(&message));
    }
    if !schedule.text().contains("TZ") {
        return;
    }
    let had = old.is_some_and(|old| old.get("schedule").text().contains("TZ"));
    if !had {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.push(schedule.invalid(detail));
    } else if spec.get("timeZone").is_set() {
        let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
        errors.push(schedule.invalid(detail));
    }
}

/// Validates the form of a time zone; the server has no list of existing ones.
pub(super) fn time_zone(zone: &Node<'_>, errors: &mut Errors) {
    if !zone.is_set() {
        return;
    }
    if zone.is_empty() {
        errors.push(zone.invalid("timeZone must be nil or non-empty string"));
        return;
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    let is_part = |part: &str| {
        (1..=14).contains(&part.len())
            && part.bytes().all(allowed)
            && part != "."
            && part != ".."
            && !part.starts_with('-')
    };
    if !zone.text().split('/').all(is_part) {
        errors.push(zone.invalid(&format!("unknown time zone {}", zone.text())));
        return;
    }
    if zone.text().eq_ignore_ascii_case("local") {
        let detail =
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.push(zone.invalid(detail));
    }
}

fn parse(schedule: &str) -> Result<(), String> {
    let mut rest = schedule;
    if rest.starts_with("TZ=") || rest.starts_with("CRON_TZ=") {
        rest = rest.split_once(' ').map_or("", |(_, rest)| rest.trim());
    }
    if rest.starts_with('@') {
        return descriptor(rest);
    }
    let fields: Vec<_> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let found = fields.len();
        return Err(format!(
            "expected exactly 5 fields, found {found}: [{}]",
            fields.join(" ")
        ));
    }
    for (field, bounds) in fields.into_iter().zip(&FIELDS) {
        for range in field.split(',').filter(|range| !range.is_empty()) {
            bounds.check(range)?;
        }
    }
    Ok(())
}

fn descriptor(text: &str) -> Result<(), String> {
    let known = [
        "@yearly",
        "@annually",
        "@monthly",
        "@weekly",
        "@daily",
        "@midnight",
        "@hourly",
    ];
    if known.contains(&text) {
        return Ok(());
    }
    match text.strip_prefix("@every ") {
        Some(duration) if insula_gotext::duration::parse(duration).is_some() => Ok(()),
        Some(duration) => {
            let quoted = insula_gotext::quote(duration);
            Err(format!(
                "failed to parse duration {text}: time: invalid duration {quoted}"
            ))
        }
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

impl Bounds {
    /// Validates `*`, `5` or `1-5`, optionally followed by `/step`.
    fn check(&self, range: &str) -> Result<(), String> {
        let steps: Vec<_> = range.split('/').collect();
        let ends: Vec<_> = steps[0].split('-').collect();
        let (start, mut end) = if matches!(ends[0], "*" | "?") {
            (self.min, self.max)
        } else {
            let start = self.number(ends[0])?;
            match ends.as_slice() {
                [_] => (start, start),
                [_, end] => (start, self.number(end)?),
                _ => return Err(format!("too many hyphens: {range}")),
            }
        };
        let step = match steps.as_slice() {
            [_] => 1,
            [_, step] => {
                if ends.len() == 1 {
                    end = self.max;
                }
                integer(step)?
            }
            _ => return Err(format!("too many slashes: {range}")),
        };
        let (min, max) = (self.min, self.max);
        if start < min {
            return Err(format!(
                "beginning of range ({start}) below minimum ({min}): {range}"
            ));
        }
        if end > max {
            return Err(format!(
                "end of range ({end}) above maximum ({max}): {range}"
            ));
        }
        if start > end {
            return Err(format!(
                "beginning of range ({start}) beyond end of range ({end}): {range}"
            ));
        }
        if step == 0 {
            return Err(format!(
                "step of range should be a positive number: {range}"
            ));
        }
        Ok(())
    }

    fn number(&self, text: &str) -> Result<i64, String> {
        let name = text.to_lowercase();
        match self.names.iter().position(|known| *known == name) {
            Some(place) => Ok(self.min + i64::try_from(place).unwrap_or_default()),
            None => integer(text),
        }
    }
}

fn integer(text: &str) -> Result<i64, String> {
    let Ok(number) = text.parse::<i64>() else {
        let quoted = insula_gotext::quote(text);
        return Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {quoted}: invalid syntax"
        ));
    };
    if number < 0 {
        return Err(format!("negative number ({number}) not allowed: {text}"));
    }
    Ok(number)
}
