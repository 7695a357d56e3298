//! Absolute addresses, as Go reads them.

use std::fmt;
use std::sync::Arc;

use super::format::quoted;
use super::net::parse_address;
use super::{Body, EvalError, Outcome, no_overload};
use crate::value::{Entries, Key, Opaque, Text, Value};

/// An address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    /// What follows the scheme, if it is no path.
    opaque: Option<String>,
    user: Option<String>,
    host: String,
    path: String,
    query: Option<String>,
    fragment: Option<String>,
}

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
        "getHost" => |_, value| part("getHost", &value, |url| url.host.clone()),
        "getHostname" => |_, value| part("getHostname", &value, |url| url.name_and_port().0),
        "getPort" => |_, value| part("getPort", &value, |url| url.name_and_port().1),
        "getEscapedPath" => |_, value| part("getEscapedPath", &value, Url::escaped_path),
        "getQuery" => |_, value| match &value {
            Value::Opaque(Opaque::Url(url)) => Ok(url.members()),
            _ => Err(no_overload("getQuery", &[&value])),
        },
        _ => return None,
    }))
}

/// What is wrong with an absolute address; none if all is well.
pub(super) fn fault(text: &str) -> Option<String> {
    let wrong = Url::parse(text, true).err()?;
    Some(format!("parse {}: {wrong}", quoted(text)))
}

fn url<'a>(value: &Value<'_>) -> Outcome<'a> {
    let Value::String(text) = value else {
        return Err(no_overload("url", &[value]));
    };
    let failed = |fault| {
        EvalError::new(format!(
            "URL parse error during conversion from string: {fault}"
        ))
    };
    if let Some(fault) = fault(text) {
        return Err(failed(fault));
    }
    // What was read as a part of the path or of the query may be a fragment.
    let (address, fragment) = match text.split_once('#') {
        Some((address, fragment)) => (address, Some(fragment)),
        None => (&**text, None),
    };
    let url = Url::parse(address, false);
    let mut url = url.map_err(|why| failed(format!("parse {}: {why}", quoted(address))))?;
    if let Some(fragment) = fragment {
        let checked = unescape(fragment, Mode::Other);
        checked.map_err(|why| failed(format!("parse {}: {why}", quoted(text))))?;
        url.fragment = Some(fragment.to_owned());
    }
    Ok(Value::Opaque(Opaque::Url(Arc::new(url))))
}

fn part<'a>(function: &str, value: &Value<'_>, part: fn(&Url) -> String) -> Outcome<'a> {
    match value {
        Value::Opaque(Opaque::Url(url)) => Ok(part(url).into()),
        _ => Err(no_overload(function, &[value])),
    }
}

impl Url {
    fn parse(text: &str, absolute: bool) -> Result<Self, String> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() && absolute {
            return Err("empty url".to_owned());
        }
        let mut url = Self {
            scheme: String::new(),
            opaque: None,
            user: None,
            host: String::new(),
            path: String::new(),
            query: None,
            fragment: None,
        };
        if text == "*" {
            url.path = text.to_owned();
            return Ok(url);
        }
        let (scheme, rest) = split_scheme(text)?;
        url.scheme = scheme.to_lowercase();
        let mut rest = match rest.split_once('?') {
            Some((rest, query)) => {
                url.query = Some(query.to_owned());
                rest
            }
            None => rest,
        };
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                url.opaque = Some(rest.to_owned());
                return Ok(url);
            }
            if absolute {
                return Err("invalid URI for request".to_owned());
            }
            if rest
                .split('/')
                .next()
                .is_some_and(|first| first.contains(':'))
            {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let with_host = !url.scheme.is_empty() || !absolute && !rest.starts_with("///");
        if with_host && let Some(after) = rest.strip_prefix("//") {
            let end = after.find('/').unwrap_or(after.len());
            url.authority(&after[..end])?;
            rest = &after[end..];
        }
        unescape(rest, Mode::Other)?;
        url.path = rest.to_owned();
        Ok(url)
    }

    fn authority(&mut self, text: &str) -> Result<(), String> {
        let (user, host) = match text.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, text),
        };
        self.host = parse_host(&self.scheme, host)?;
        if let Some(user) = user {
            let known =
                |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
            if !user.bytes().all(known) {
                return Err("net/url: invalid userinfo".to_owned());
            }
            unescape(user, Mode::Other)?;
            self.user = Some(user.to_owned());
        }
        Ok(())
    }

    fn name_and_port(&self) -> (String, String) {
        let (mut name, mut port) = (&*self.host, "");
        if let Some(colon) = name.rfind(':')
            && is_port(&name[colon..])
        {
            (name, port) = (&name[..colon], &self.host[colon + 1..]);
        }
        if let Some(inner) = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'))
        {
            name = inner;
        }
        (name.to_owned(), port.to_owned())
    }

    /// As it was written, if it was written well.
    fn escaped_path(&self) -> String {
        let well = |byte: u8| is_path(byte) || b"!'()*[]%".contains(&byte);
        if self.path == "*" || self.path.bytes().all(well) {
            return self.path.clone();
        }
        // It was unescaped before, so it can be again.
        let path = unescape(&self.path, Mode::Other).unwrap_or_default();
        let mut escaped = String::with_capacity(path.len());
        for byte in path {
            if is_path(byte) {
                escaped.push(char::from(byte));
            } else {
                escaped.push_str(&format!("%{byte:02X}"));
            }
        }
        escaped
    }

    /// The members of the query; those that cannot be read are left out.
    fn members<'a>(&self) -> Value<'a> {
        let mut members: Vec<(String, Vec<Value<'a>>)> = Vec::new();
        let query = self.query.as_deref().unwrap_or_default();
        for part in query
            .split('&')
            .filter(|part| !part.is_empty() && !part.contains(';'))
        {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (Ok(name), Ok(value)) = (query_text(name), query_text(value)) else {
                continue;
            };
            let value = Value::from(value);
            match members.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(value),
                None => members.push((name, vec![value])),
            }
        }
        let mut entries = Entries::default();
        for (name, values) in members {
            entries.insert(Key::Name(Text::from(name)), values.into());
        }
        Value::Map(entries.into())
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        match &self.opaque {
            Some(opaque) => f.write_str(opaque)?,
            None => {
                if !self.host.is_empty() || self.user.is_some() {
                    f.write_str("//")?;
                }
                if let Some(user) = &self.user {
                    write!(f, "{user}@")?;
                }
                write!(f, "{}{}", self.host, self.escaped_path())?;
            }
        }
        if let Some(query) = &self.query {
            write!(f, "?{query}")?;
        }
        match &self.fragment {
            Some(fragment) => write!(f, "#{fragment}"),
            None => Ok(()),
        }
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at > 0 => return Ok((&text[..at], &text[at + 1..])),
            b':' => return Err("missing protocol scheme".to_owned()),
            _ => break,
        }
    }
    Ok(("", text))
}

fn parse_host(scheme: &str, host: &str) -> Result<String, String> {
    let wrong_port = |port: &str| format!("invalid port {} after host", quoted(port));
    if let Some(open) = host.rfind('[') {
        if open > 0 {
            return Err("invalid IP-literal".to_owned());
        }
        let close = host.rfind(']').ok_or("missing ']' in host")?;
        let port = &host[close + 1..];
        if !is_port(port) {
            return Err(wrong_port(port));
        }
        let name = literal(&host[1..close])?;
        return Ok(format!("[{name}]{port}"));
    }
    let first = host.find(':');
    // Several hosts can be named where it is not the web that they are in.
    let colon = match scheme {
        "http" | "https" => first,
        _ => host.rfind(':'),
    };
    if let Some(colon) = colon
        && !is_port(&host[colon..])
    {
        return Err(wrong_port(&host[colon..]));
    }
    text(unescape(host, Mode::Host)?)
}

/// An address of IPv6 in brackets, with a zone if `%25` begins one.
fn literal(name: &str) -> Result<String, String> {
    let zone = name.find("%25").unwrap_or(name.len());
    let (address, zone) = name.split_at(zone);
    let name = text(unescape(address, Mode::Host)?)? + &text(unescape(zone, Mode::Zone)?)?;
    match parse_address(&name) {
        Ok(address) if address.is_ipv4() => Err("invalid IP-literal".to_owned()),
        Ok(_) => Ok(name),
        Err(error) => Err(format!("invalid host: {error}")),
    }
}

fn is_port(text: &str) -> bool {
    match text.strip_prefix(':') {
        Some(port) => port.bytes().all(|byte| byte.is_ascii_digit()),
        None => text.is_empty(),
    }
}

fn is_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte)
}

/// Where percents are.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Host,
    Zone,
    Other,
}

fn unescape(text: &str, mode: Mode) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if byte != b'%' {
            let letters = b"-_.~!$&'()*+,;=:[]<>\"";
            let known = byte >= 0x80 || byte.is_ascii_alphanumeric() || letters.contains(&byte);
            if mode != Mode::Other && !known {
                let letter = quoted(&char::from(byte).to_string());
                return Err(format!("invalid character {letter} in host name"));
            }
            plain.push(byte);
            at += 1;
            continue;
        }
        let code = bytes
            .get(at + 1..at + 3)
            .and_then(|code| std::str::from_utf8(code).ok());
        let value = code.filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let value = value.and_then(|code| u8::from_str_radix(code, 16).ok());
        // A host escapes only what it could not have otherwise.
        let allowed = |value: &u8| match mode {
            Mode::Host => *value >= 0x80 || *value == b'%',
            Mode::Zone => *value == b'%' || *value == b' ' || value.is_ascii_graphic(),
            Mode::Other => true,
        };
        let Some(value) = value.filter(allowed) else {
            let end = (at + 3).min(bytes.len());
            let escape = String::from_utf8_lossy(&bytes[at..end]).into_owned();
            return Err(format!("invalid URL escape {}", quoted(&escape)));
        };
        plain.push(value);
        at += 3;
    }
    Ok(plain)
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn query_text(part: &str) -> Result<String, String> {
    text(unescape(&part.replace('+', " "), Mode::Other)?)
}
