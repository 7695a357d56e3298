//! URLs as Go reads them, because its errors are what clients see.

use std::fmt;

use insula_kinds::field::quote;

/// A URL, in parts that are as they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    /// In lower case; empty if there is none.
    pub scheme: String,
    /// What stands before `@`.
    pub user: Option<String>,
    /// With the port, if it has one.
    pub host: String,
    /// The path.
    pub path: String,
    /// What follows `?`.
    pub query: String,
    /// What follows `#`.
    pub fragment: String,
}

/// Why a text is no URL, as Go says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError {
    url: String,
    why: String,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parse {}: {}", quote(&self.url), self.why)
    }
}

impl std::error::Error for UrlError {}

impl Url {
    /// Reads one.
    ///
    /// # Errors
    ///
    /// If it is none to Go, which takes nearly everything.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let (url, fragment) = text.split_once('#').unwrap_or((text, ""));
        let fail = |why| UrlError {
            url: url.to_owned(),
            why,
        };
        let mut parsed = Self::without_fragment(url).map_err(fail)?;
        check_escapes(fragment).map_err(|why| UrlError {
            url: text.to_owned(),
            why,
        })?;
        parsed.fragment = fragment.to_owned();
        Ok(parsed)
    }

    fn without_fragment(text: &str) -> Result<Self, String> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (scheme, rest) = scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Self {
            scheme: scheme.to_lowercase(),
            query: query.to_owned(),
            ..Self::default()
        };
        if !rest.starts_with('/') && !scheme.is_empty() {
            // `mailto:a@b.test`: no host, and nothing else that matters here.
            return Ok(url);
        }
        let first = rest.split('/').next().unwrap_or_default();
        if first.contains(':') {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
        let mut path = rest;
        let absolute = !scheme.is_empty() || !rest.starts_with("///");
        if let Some(rest) = rest.strip_prefix("//").filter(|_| absolute) {
            let end = rest.find('/').unwrap_or(rest.len());
            url.read_authority(&rest[..end])?;
            path = &rest[end..];
        }
        check_escapes(path)?;
        url.path = path.to_owned();
        Ok(url)
    }

    fn read_authority(&mut self, authority: &str) -> Result<(), String> {
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        check_host(host)?;
        if let Some(user) = user {
            if !user.bytes().all(is_user_byte) {
                return Err("net/url: invalid userinfo".to_owned());
            }
            check_escapes(user)?;
        }
        self.host = host.to_owned();
        self.user = user.map(str::to_owned);
        Ok(())
    }
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn check_host(host: &str) -> Result<(), String> {
    let port = if host.starts_with('[') {
        let Some(end) = host.rfind(']') else {
            return Err("missing ']' in host".to_owned());
        };
        &host[end + 1..]
    } else {
        host.rfind(':').map_or("", |at| &host[at..])
    };
    let digits = port.strip_prefix(':');
    if !port.is_empty() && !digits.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(format!("invalid port {} after host", quote(port)));
    }
    for letter in host.chars().filter(char::is_ascii) {
        let known = letter.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(letter);
        if !known {
            let letter = quote(&letter.to_string());
            return Err(format!("invalid character {letter} in host name"));
        }
    }
    check_escapes(host)
}

fn is_user_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)
}

/// Every `%` is followed by two hexadecimal digits.
fn check_escapes(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let digits = text.as_bytes().get(at + 1..at + 3);
        if !digits.is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit)) {
            let shown: String = text[at..].chars().take(3).collect();
            return Err(format!("invalid URL escape {}", quote(&shown)));
        }
    }
    Ok(())
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
            query: "q=1".to_owned(),
            fragment: "f".to_owned(),
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
            ("1https://x", "", ""),
        ] {
            let found = Url::parse(text);
            if text == "1https://x" {
                let why = "parse \"1https://x\": first path segment in URL cannot contain colon";
                assert_eq!(found.unwrap_err().to_string(), why);
                continue;
            }
            let found = found.unwrap();
            assert_eq!((found.scheme.as_str(), found.host.as_str()), (scheme, host));
        }
    }

    #[test]
    fn what_is_no_url_is_refused_in_gos_words() {
        for (text, why) in [
            (
                "https://a\n.test",
                "net/url: invalid control character in URL",
            ),
            (":x", "missing protocol scheme"),
            ("https://a:b", "invalid port \":b\" after host"),
            ("https://[::1", "missing ']' in host"),
            ("https://a b", "invalid character \" \" in host name"),
            ("https://a/%zz", "invalid URL escape \"%zz\""),
            ("https://a/%", "invalid URL escape \"%\""),
            ("https://a b@c", "net/url: invalid userinfo"),
        ] {
            let found = Url::parse(text).unwrap_err().to_string();
            assert_eq!(found, format!("parse {}: {why}", quote(text)));
        }
    }
}
