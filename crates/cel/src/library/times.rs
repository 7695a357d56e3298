//! The functions of timestamps and durations, in a time zone if one is given.

use jiff::tz::TimeZone;

use super::{Body, no_overload};
use crate::error::EvalError;
use crate::value::{Clock, Outcome, Timestamp, Value, civil_time};

pub(super) fn body(function: &str, arguments: usize) -> Option<Body> {
    macro_rules! getter {
        ($name:literal) => {
            match arguments {
                1 => Body::One(|_, value| get($name, value, None)),
                2 => Body::Two(|_, value, zone| get($name, value, Some(zone))),
                _ => return None,
            }
        };
    }
    Some(match function {
        "getFullYear" => getter!("getFullYear"),
        "getMonth" => getter!("getMonth"),
        "getDayOfYear" => getter!("getDayOfYear"),
        "getDayOfMonth" => getter!("getDayOfMonth"),
        "getDate" => getter!("getDate"),
        "getDayOfWeek" => getter!("getDayOfWeek"),
        "getHours" => getter!("getHours"),
        "getMinutes" => getter!("getMinutes"),
        "getSeconds" => getter!("getSeconds"),
        "getMilliseconds" => getter!("getMilliseconds"),
        _ => return None,
    })
}

fn get<'a>(function: &str, value: Value<'a>, zone: Option<Value<'a>>) -> Outcome<'a> {
    match (&value, &zone) {
        (Value::Timestamp(time), None) => of_time(function, *time, 0),
        (Value::Timestamp(time), Some(Value::String(name))) => {
            of_time(function, *time, offset(name, *time)?)
        }
        (Value::Duration(duration), None) => {
            of_duration(function, duration.nanos).ok_or_else(|| no_overload(function, &[&value]))
        }
        (_, None) => Err(no_overload(function, &[&value])),
        (_, Some(zone)) => Err(no_overload(function, &[&value, zone])),
    }
}

fn of_time<'a>(function: &str, time: Timestamp, offset: i64) -> Outcome<'a> {
    let clock: Clock = civil_time(time.seconds.saturating_add(offset));
    Ok(Value::Int(match function {
        "getFullYear" => clock.year,
        "getMonth" => clock.month - 1,
        "getDayOfYear" => clock.day_of_year,
        "getDayOfMonth" => clock.day - 1,
        "getDate" => clock.day,
        "getDayOfWeek" => clock.day_of_week,
        "getHours" => clock.hour,
        "getMinutes" => clock.minute,
        "getSeconds" => clock.second,
        _ => i64::from(time.nanos / 1_000_000),
    }))
}

/// Returns the whole duration in a unit, not a component of it.
fn of_duration<'a>(function: &str, nanos: i64) -> Option<Value<'a>> {
    let unit = match function {
        "getHours" => 3_600_000_000_000,
        "getMinutes" => 60_000_000_000,
        "getSeconds" => 1_000_000_000,
        "getMilliseconds" => 1_000_000,
        _ => return None,
    };
    Some(Value::Int(nanos / unit))
}

/// Returns the offset of a time zone from UTC in seconds, at a point in time.
fn offset(zone: &str, time: Timestamp) -> Result<i64, EvalError> {
    if let Some((hours, minutes)) = zone.split_once(':') {
        let (hours, minutes) = (number(hours)?, number(minutes)?);
        let minutes = if zone.starts_with('-') {
            -minutes
        } else {
            minutes
        };
        // Go counts nanoseconds in 64 bits, which every sensible offset fits.
        let offset = hours.saturating_mul(60).saturating_add(minutes);
        return Ok(offset.clamp(-1 << 24, 1 << 24) * 60);
    }
    match zone {
        "" | "UTC" | "Local" => return Ok(0),
        _ if zone.contains("..") || zone.starts_with(['/', '\\']) || zone.contains('\\') => {
            return Err(EvalError::new("time: invalid location name"));
        }
        _ => {}
    }
    let unknown = || EvalError::new(format!("unknown time zone {zone}"));
    let found = TimeZone::get(zone).map_err(|_| unknown())?;
    let moment = jiff::Timestamp::from_second(time.seconds).map_err(|_| unknown())?;
    Ok(i64::from(found.to_offset(moment).seconds()))
}

fn number(text: &str) -> Result<i64, EvalError> {
    text.parse()
        .map_err(|_| EvalError::new(format!("strconv.Atoi: parsing {text:?}: invalid syntax")))
}
