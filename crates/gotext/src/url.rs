//! URLs as the package `net/url` reads them, with its errors, which clients see.

use std::fmt;

use crate::netip::parse_addr;
use crate::quote;

/// A parsed URL. Its parts are as they were written, except for the scheme.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    /// The scheme in lower case; empty if there is none.
    pub scheme: String,
    /// The text after the scheme, if it is no path, as in `mailto:a@b.test`.
    pub opaque: Option<String>,
    /// The user information before `@`.
    pub user: Option<String>,
    /// The host with its port, if it has one.
    pub host: String,
    /// The path, with its escapes.
    pub path: String,
    /// The query after `?`.
    pub query: Option<String>,
    /// The fragment after `#`.
    pub fragment: Option<String>,
}

/// The error for a text that is no URL, as Go prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError {
    url: String,
    why: String,
}

impl UrlError {
    fn new(url: &str, why: String) -> Self {
        let url = url.to_owned();
        Self { url, why }
    }
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parse {}: {}", quote(&self.url), self.why)
    }
}

impl std::error::Error for UrlError {}

/// Where a URL is written.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// Anywhere: it may be relative.
    Reference,
    /// In the first line of an HTTP request: a URL with a scheme, or an absolute path.
    Request,
}

impl Url {
    /// Parses a URL as `url.Parse` does, which accepts nearly everything.
    ///
    /// # Errors
    ///
    /// Go's words for what is wrong with the URL.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let (address, fragment) = match text.split_once('#') {
            Some((address, fragment)) => (address, Some(fragment)),
            None => (text, None),
        };
        let url = Self::without_fragment(address, Form::Reference);
        let mut url = url.map_err(|why| UrlError::new(address, why))?;
        if let Some(fragment) = fragment {
            unescape(fragment, Part::Other).map_err(|why| UrlError::new(text, why))?;
            url.fragment = Some(fragment.to_owned());
        }
        Ok(url)
    }

    /// Parses an absolute URL or an absolute path as `url.ParseRequestURI` does, which takes a
    /// `#` for a part of the path or of the query.
    ///
    /// # Errors
    ///
    /// Go's words for what is wrong with the URL.
    pub fn parse_request_uri(text: &str) -> Result<Self, UrlError> {
        Self::without_fragment(text, Form::Request).map_err(|why| UrlError::new(text, why))
    }

    fn without_fragment(text: &str, form: Form) -> Result<Self, String> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() && form == Form::Request {
            return Err("empty url".to_owned());
        }
        let mut url = Self::default();
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
            if form == Form::Request {
                return Err("invalid URI for request".to_owned());
            }
            let (first, _) = rest.split_once('/').unwrap_or((rest, ""));
            if first.contains(':') {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let with_host =
            !url.scheme.is_empty() || form == Form::Reference && !rest.starts_with("///");
        if with_host && let Some(after) = rest.strip_prefix("//") {
            let end = after.find('/').unwrap_or(after.len());
            url.set_authority(&after[..end])?;
            rest = &after[end..];
        }
        unescape(rest, Part::Other)?;
        url.path = rest.to_owned();
        Ok(url)
    }

    fn set_authority(&mut self, text: &str) -> Result<(), String> {
        let (user, host) = match text.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, text),
        };
        unescape_host(&self.scheme, host)?;
        self.host = host.to_owned();
        if let Some(user) = user {
            if !user.bytes().all(is_user) {
                return Err("net/url: invalid userinfo".to_owned());
            }
            unescape(user, Part::Other)?;
            self.user = Some(user.to_owned());
        }
        Ok(())
    }

    /// The query, empty if there is none.
    pub fn raw_query(&self) -> &str {
        self.query.as_deref().unwrap_or_default()
    }

    /// The fragment, empty if there is none.
    pub fn raw_fragment(&self) -> &str {
        self.fragment.as_deref().unwrap_or_default()
    }

    /// The host with its port, without escapes.
    pub fn unescaped_host(&self) -> String {
        // The parser checked its escapes.
        unescape_host(&self.scheme, &self.host).unwrap_or_default()
    }

    /// The host without its port, brackets and escapes.
    pub fn hostname(&self) -> String {
        let host = self.unescaped_host();
        let (name, _) = split_port(&host);
        let inner = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'));
        inner.unwrap_or(name).to_owned()
    }

    /// The port, empty if there is none.
    pub fn port(&self) -> String {
        split_port(&self.unescaped_host()).1.to_owned()
    }

    /// The path as it was written, if it was escaped well, and otherwise as Go escapes it.
    pub fn escaped_path(&self) -> String {
        let valid = |byte: u8| is_path(byte) || b"!'()*[]%".contains(&byte);
        if self.path == "*" || self.path.bytes().all(valid) {
            return self.path.clone();
        }
        // The parser checked its escapes.
        let path = unescape(&self.path, Part::Other).unwrap_or_default();
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

    /// The members of the query in the order of their first values, as `url.Values` has them.
    /// Members that cannot be read are left out.
    pub fn query_members(&self) -> Vec<(String, Vec<String>)> {
        let mut members: Vec<(String, Vec<String>)> = Vec::new();
        let readable = |part: &&str| !part.is_empty() && !part.contains(';');
        for part in self.raw_query().split('&').filter(readable) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (Ok(name), Ok(value)) = (unescape_query(name), unescape_query(value)) else {
                continue;
            };
            match members.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(value),
                None => members.push((name, vec![value])),
            }
        }
        members
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
                write!(f, "{}{}", self.unescaped_host(), self.escaped_path())?;
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

/// Splits a host without escapes into the name and the port, without the colon.
fn split_port(host: &str) -> (&str, &str) {
    match host.rfind(':') {
        Some(colon) if is_port(&host[colon..]) => (&host[..colon], &host[colon + 1..]),
        _ => (host, ""),
    }
}

/// Checks a host, and returns it without escapes.
fn unescape_host(scheme: &str, host: &str) -> Result<String, String> {
    let wrong_port = |port: &str| format!("invalid port {} after host", quote(port));
    if let Some(open) = host.rfind('[') {
        if open > 0 {
            return Err("invalid IP-literal".to_owned());
        }
        let close = host.rfind(']').ok_or("missing ']' in host")?;
        let port = &host[close + 1..];
        if !is_port(port) {
            return Err(wrong_port(port));
        }
        let name = unescape_literal(&host[1..close])?;
        return Ok(format!("[{name}]{port}"));
    }
    // Other schemes may list several hosts, as those of databases do.
    let colon = match scheme {
        "http" | "https" => host.find(':'),
        _ => host.rfind(':'),
    };
    if let Some(colon) = colon
        && !is_port(&host[colon..])
    {
        return Err(wrong_port(&host[colon..]));
    }
    unescape_text(host, Part::Host)
}

/// Checks an IPv6 address in brackets, and returns it without escapes. `%25` begins a zone.
fn unescape_literal(name: &str) -> Result<String, String> {
    let zone = name.find("%25").unwrap_or(name.len());
    let (address, zone) = name.split_at(zone);
    let name = unescape_text(address, Part::Host)? + &unescape_text(zone, Part::Zone)?;
    match parse_addr(&name) {
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

fn is_user(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)
}

fn is_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte)
}

/// The part of a URL that escapes are in.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Host,
    Zone,
    Other,
}

fn unescape(text: &str, part: Part) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if byte != b'%' {
            let letters = b"-_.~!$&'()*+,;=:[]<>\"";
            let known = byte >= 0x80 || byte.is_ascii_alphanumeric() || letters.contains(&byte);
            if part != Part::Other && !known {
                let letter = quote(&char::from(byte).to_string());
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
        // A host may escape only bytes that it could not have otherwise.
        let allowed = |value: &u8| match part {
            Part::Host => *value >= 0x80 || *value == b'%',
            Part::Zone => *value == b'%' || *value == b' ' || value.is_ascii_graphic(),
            Part::Other => true,
        };
        let Some(value) = value.filter(allowed) else {
            let end = (at + 3).min(bytes.len());
            let escape = String::from_utf8_lossy(&bytes[at..end]).into_owned();
            return Err(format!("invalid URL escape {}", quote(&escape)));
        };
        plain.push(value);
        at += 3;
    }
    Ok(plain)
}

fn unescape_text(text: &str, part: Part) -> Result<String, String> {
    let plain = unescape(text, part)?;
    Ok(String::from_utf8_lossy(&plain).into_owned())
}

fn unescape_query(text: &str) -> Result<String, String> {
    unescape_text(&text.replace('+', " "), Part::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_as_go_reads_it() {
        let parsed = Url::parse("HTTPS://u:p@x.test:1/y?q=1#f").unwrap();
        let expected = Url {
            scheme: "https".to_owned(),
            user: Some("u:p".to_owned()),
            host: "x.test:1".to_owned(),
            path: "/y".to_owned(),
            query: Some("q=1".to_owned()),
            fragment: Some("f".to_owned()),
            ..Url::default()
        };
        assert_eq!(parsed, expected);
        for (text, scheme, host) in [
            ("", "", ""),
            ("example.test", "", ""),
            ("example.test/x", "", ""),
            ("https:example.test", "https", ""),
            ("https:///x", "https", ""),
            ("///x", "", ""),
            ("//x/y", "", "x"),
            ("https://[::1]:8443", "https", "[::1]:8443"),
        ] {
            let found = Url::parse(text).unwrap();
            assert_eq!((found.scheme.as_str(), found.host.as_str()), (scheme, host));
        }
    }

    #[test]
    fn invalid_urls_are_refused_in_gos_words() {
        for (text, why) in [
            (
                "https://a\n.test",
                "net/url: invalid control character in URL",
            ),
            (":x", "missing protocol scheme"),
            (
                "1https://x",
                "first path segment in URL cannot contain colon",
            ),
            ("https://a:b", "invalid port \":b\" after host"),
            ("https://a:1:2", "invalid port \":1:2\" after host"),
            ("https://[::1", "missing ']' in host"),
            ("https://a[::1]", "invalid IP-literal"),
            ("https://[1.2.3.4]", "invalid IP-literal"),
            (
                "https://[::x]",
                "invalid host: ParseAddr(\"::x\"): each colon-separated field must have at least one digit (at \"x\")",
            ),
            ("https://a b", "invalid character \" \" in host name"),
            ("https://a/%zz", "invalid URL escape \"%zz\""),
            ("https://a/%", "invalid URL escape \"%\""),
            ("https://a b@c", "net/url: invalid userinfo"),
        ] {
            let found = Url::parse(text).unwrap_err().to_string();
            assert_eq!(found, format!("parse {}: {why}", quote(text)));
        }
    }

    #[test]
    fn errors_name_the_part_of_the_url_that_is_wrong() {
        for (text, error) in [
            (
                "a\nb#c",
                "parse \"a\\nb\": net/url: invalid control character in URL",
            ),
            ("a#%", "parse \"a#%\": invalid URL escape \"%\""),
        ] {
            assert_eq!(Url::parse(text).unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn request_uris_are_absolute_and_have_no_fragment() {
        let url = Url::parse_request_uri("https://a.test/x#y").unwrap();
        assert_eq!((url.path.as_str(), url.fragment), ("/x#y", None));
        assert_eq!(Url::parse_request_uri("///x").unwrap().path, "///x");
        for (text, why) in [("", "empty url"), ("a/b", "invalid URI for request")] {
            let error = Url::parse_request_uri(text).unwrap_err().to_string();
            assert_eq!(error, format!("parse {}: {why}", quote(text)));
        }
    }

    #[test]
    fn hosts_are_kept_as_written_and_unescaped_on_demand() {
        let url = Url::parse("https://[fe80::1%25eth0]:8/x").unwrap();
        assert_eq!(url.host, "[fe80::1%25eth0]:8");
        assert_eq!(url.unescaped_host(), "[fe80::1%eth0]:8");
        assert_eq!(
            (url.hostname().as_str(), url.port().as_str()),
            ("fe80::1%eth0", "8")
        );
        let url = Url::parse("https://a.test").unwrap();
        assert_eq!(
            (url.hostname().as_str(), url.port().as_str()),
            ("a.test", "")
        );
    }

    #[test]
    fn queries_are_grouped_by_name() {
        let url = Url::parse("/?a=1&b=x+y&a=%32&c;d&e=%zz&f").unwrap();
        let members = url.query_members();
        let shown: Vec<_> = members
            .iter()
            .map(|(name, values)| format!("{name}={}", values.join(",")))
            .collect();
        assert_eq!(shown, ["a=1,2", "b=x y", "f="]);
    }
}
