//! The functions of URLs, which are absolute.

use std::sync::Arc;

use insula_gotext::url::Url;

use super::{Body, no_overload};
use crate::error::EvalError;
use crate::value::{Entries, Key, Opaque, Outcome, Text, Value};

pub(super) fn body(function: &str, arguments: usize) -> Option<Body> {
    if arguments != 1 {
        return None;
    }
    Some(Body::One(match function {
        "url" => |_, value| url(&value),
        "isURL" => |_, value| match &value {
            Value::String(text) => Ok(Value::Bool(fault(text).is_none())),
            _ => Err(no_overload("isURL", &[&value])),
        },
        "getScheme" => |_, value| part("getScheme", &value, |url| url.scheme.clone()),
        "getHost" => |_, value| part("getHost", &value, Url::unescaped_host),
        "getHostname" => |_, value| part("getHostname", &value, Url::hostname),
        "getPort" => |_, value| part("getPort", &value, Url::port),
        "getEscapedPath" => |_, value| part("getEscapedPath", &value, Url::escaped_path),
        "getQuery" => |_, value| match &value {
            Value::Opaque(Opaque::Url(url)) => Ok(members(url)),
            _ => Err(no_overload("getQuery", &[&value])),
        },
        _ => return None,
    }))
}

/// Returns the error of an invalid absolute URL.
pub(super) fn fault(text: &str) -> Option<String> {
    let error = Url::parse_request_uri(text).err()?;
    Some(error.to_string())
}

fn url<'a>(value: &Value<'_>) -> Outcome<'a> {
    let Value::String(text) = value else {
        return Err(no_overload("url", &[value]));
    };
    // Kubernetes also requires a request URI, but takes the parts from `url.Parse`: of the
    // two only the latter knows fragments.
    let parsed = Url::parse_request_uri(text).and_then(|_| Url::parse(text));
    let url = parsed.map_err(|error| {
        EvalError::new(format!(
            "URL parse error during conversion from string: {error}"
        ))
    })?;
    Ok(Value::Opaque(Opaque::Url(Arc::new(url))))
}

fn part<'a>(function: &str, value: &Value<'_>, part: fn(&Url) -> String) -> Outcome<'a> {
    match value {
        Value::Opaque(Opaque::Url(url)) => Ok(part(url).into()),
        _ => Err(no_overload(function, &[value])),
    }
}

fn members<'a>(url: &Url) -> Value<'a> {
    let mut entries = Entries::default();
    for (name, values) in url.query_members() {
        let values: Vec<_> = values.into_iter().map(Value::from).collect();
        entries.insert(Key::Name(Text::from(name)), values.into());
    }
    Value::Map(entries.into())
}
