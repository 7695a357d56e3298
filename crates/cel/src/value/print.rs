//! Values as text, as in `string()` and error messages.

use std::fmt::{self, Display, Formatter, Write};

use super::{Map, Opaque, Value};

impl Display for Value<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Uint(value) => write!(f, "{value}"),
            Self::Double(value) => write_double(*value, f),
            Self::String(text) | Self::Type(text) => f.write_str(text),
            Self::Bytes(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
            Self::Timestamp(time) => time.fmt(f),
            Self::Duration(duration) => duration.fmt(f),
            Self::Optional(None) => f.write_str("optional.none()"),
            Self::Optional(Some(value)) => write!(f, "optional({value})"),
            Self::List(list) => {
                f.write_char('[')?;
                for (at, value) in list.iter().enumerate() {
                    separate(at, f)?;
                    write_member(value, f)?;
                }
                f.write_char(']')
            }
            Self::Map(map) => write_map(map, f),
            Self::Struct(made) => {
                write!(f, "{}{{", made.name)?;
                for (at, (name, value)) in made.fields.iter().enumerate() {
                    separate(at, f)?;
                    write!(f, "{name}: {value}")?;
                }
                f.write_char('}')
            }
            Self::Opaque(opaque) => opaque.fmt(f),
        }
    }
}

impl Display for Opaque<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantity(amount) => amount.quantity.fmt(f),
            Self::Url(url) => url.fmt(f),
            Self::Ip(ip) => ip.fmt(f),
            Self::Cidr(cidr) => cidr.fmt(f),
            Self::Semver(version) => version.fmt(f),
            Self::Format(format) => f.write_str(format.name),
            Self::Authorization(about) => f.write_str(about.type_name()),
        }
    }
}

fn write_map(map: &Map<'_>, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_char('{')?;
    for (at, key) in map.keys().into_iter().enumerate() {
        separate(at, f)?;
        write!(f, "{key}: ")?;
        if let Some(value) = map.find(&key) {
            write_member(value, f)?;
        }
    }
    f.write_char('}')
}

fn write_member(
    value: Result<Value<'_>, crate::error::EvalError>,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    match value {
        Ok(value) => value.fmt(f),
        Err(error) => error.fmt(f),
    }
}

fn separate(at: usize, f: &mut Formatter<'_>) -> fmt::Result {
    if at == 0 { Ok(()) } else { f.write_str(", ") }
}

/// Prints a double as Go's `%g` does: as short as possible.
fn write_double(value: f64, f: &mut Formatter<'_>) -> fmt::Result {
    if value.is_nan() {
        return f.write_str("NaN");
    }
    if value.is_infinite() {
        return f.write_str(if value > 0.0 { "+Inf" } else { "-Inf" });
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return write!(f, "{digits}e{sign}{:02}", exponent.abs());
    }
    write!(f, "{value}")
}
