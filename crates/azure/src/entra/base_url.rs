//! Base URLs of servers, and URLs below them.

use std::fmt;
use std::net::IpAddr;

use http::Uri;
use insula_identity::endpoint::{Endpoint, Trust};
use insula_operator::outbound::{HttpClient, HttpClients, RequestError, authority};

/// The URL of a server, with an optional path and without a trailing slash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BaseUrl {
    is_cleartext: bool,
    endpoint: Endpoint,
    path: String,
}

/// The servers that may be called without TLS. Tokens and secrets are sent to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cleartext {
    /// None.
    #[default]
    Refused,
    /// Servers on this machine, for tests.
    Loopback,
    /// The metadata service of a virtual machine, which has a link-local address and no TLS, and
    /// servers on this machine.
    MetadataService,
}

impl Cleartext {
    fn allows(self, host: &str) -> bool {
        let address = host.parse::<IpAddr>().ok();
        let is_loopback = host == "localhost" || address.is_some_and(|ip| ip.is_loopback());
        let is_link_local = match address {
            Some(IpAddr::V4(ip)) => ip.is_link_local(),
            Some(IpAddr::V6(ip)) => ip.is_unicast_link_local(),
            None => false,
        };
        match self {
            Self::Refused => false,
            Self::Loopback => is_loopback,
            Self::MetadataService => is_loopback || is_link_local,
        }
    }
}

/// Why a text is not the URL of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBaseUrl {
    /// It is not an absolute URL of a host.
    #[error("it is not a URL such as https://management.azure.com")]
    Malformed,
    /// It has parts that a base URL cannot have.
    #[error("it has a user, a query or a fragment")]
    ExtraParts,
    /// Its scheme is not allowed.
    #[error("its scheme is not https")]
    NotHttps,
}

/// A URL that is not below a base URL. The text of the URL may be signed, and is not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the URL is of another server, or ambiguous")]
pub struct ForeignUrl;

impl BaseUrl {
    /// Parses a base URL, which has the scheme `https` unless `cleartext` allows another for its
    /// host.
    ///
    /// # Errors
    ///
    /// If it is not one.
    pub fn parse(text: &str, cleartext: Cleartext) -> Result<Self, InvalidBaseUrl> {
        let (is_cleartext, endpoint, rest) = split(text.trim()).ok_or(InvalidBaseUrl::Malformed)?;
        if is_cleartext && !cleartext.allows(endpoint.host()) {
            return Err(InvalidBaseUrl::NotHttps);
        }
        if rest.contains('?') {
            return Err(InvalidBaseUrl::ExtraParts);
        }
        let path = rest.trim_end_matches('/');
        if path.split('/').any(is_dot_segment) {
            return Err(InvalidBaseUrl::Malformed);
        }
        Ok(Self {
            is_cleartext,
            endpoint,
            path: path.to_owned(),
        })
    }

    /// Returns the host and port of the server.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the path and query of a request below this URL. `below` begins with a slash.
    pub fn path_of(&self, below: &str) -> String {
        format!("{}{below}", self.path)
    }

    /// Returns the absolute URL of a path with an optional query, as `path_of` returns it.
    pub fn absolute(&self, path_and_query: &str) -> String {
        let scheme = if self.is_cleartext { "http" } else { "https" };
        format!("{scheme}://{}{path_and_query}", self.authority())
    }

    /// Returns the path and query of an absolute URL of this server.
    ///
    /// # Errors
    ///
    /// If the URL is relative, its scheme, host or port is another one, or its path has segments
    /// that lead elsewhere than they seem to.
    pub fn path_within(&self, url: &str) -> Result<String, ForeignUrl> {
        let (is_cleartext, endpoint, rest) = split(url).ok_or(ForeignUrl)?;
        let path = rest.split('?').next().unwrap_or_default();
        if path.split('/').any(is_ambiguous) {
            return Err(ForeignUrl);
        }
        match is_cleartext == self.is_cleartext && endpoint == self.endpoint {
            true if rest.starts_with('/') => Ok(rest.to_owned()),
            true => Ok(format!("/{rest}")),
            false => Err(ForeignUrl),
        }
    }

    /// Creates a client for the server.
    ///
    /// # Errors
    ///
    /// If the host cannot be a name in a certificate.
    pub fn client(&self, clients: &HttpClients, trust: &Trust) -> Result<HttpClient, RequestError> {
        match self.is_cleartext {
            true => Ok(clients.cleartext_client(&self.endpoint)),
            false => clients.client(&self.endpoint, trust),
        }
    }

    fn authority(&self) -> String {
        match self.is_cleartext {
            true => self.endpoint.to_string(),
            false => authority(&self.endpoint),
        }
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.absolute(&self.path))
    }
}

fn is_dot_segment(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

/// Returns whether servers may take a segment of a path for others: it is a dot segment, or has an
/// encoded slash.
fn is_ambiguous(segment: &str) -> bool {
    let lower = segment.to_ascii_lowercase();
    let has_slash = lower.contains("%2f") || lower.contains("%5c");
    has_slash || is_dot_segment(&lower.replace("%2e", "."))
}

/// Splits an absolute URL: whether it is without TLS, its server, and its path with the query.
fn split(url: &str) -> Option<(bool, Endpoint, &str)> {
    // A user name or a backslash makes programs disagree about the host.
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'#');
    if !url.bytes().all(is_plain) || url.parse::<Uri>().is_err() {
        return None;
    }
    let (scheme, rest) = url.split_once("://")?;
    let (is_cleartext, default_port) = match scheme.to_ascii_lowercase().as_str() {
        "https" => (false, 443),
        "http" => (true, 80),
        _ => return None,
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, rest) = rest.split_at(end);
    let endpoint = Endpoint::parse(host, default_port).ok()?;
    Some((is_cleartext, endpoint, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arm() -> BaseUrl {
        BaseUrl::parse("https://management.azure.com/", Cleartext::Refused).unwrap()
    }

    #[test]
    fn base_urls_are_normalized() {
        for (text, expected) in [
            (
                "https://management.azure.com",
                "https://management.azure.com",
            ),
            (
                "https://Management.Azure.com:443/",
                "https://management.azure.com",
            ),
            (
                " https://a.example:8443/adfs// ",
                "https://a.example:8443/adfs",
            ),
            ("HTTPS://[::1]:1/x", "https://[::1]:1/x"),
        ] {
            let url = BaseUrl::parse(text, Cleartext::Refused).unwrap();
            assert_eq!(url.to_string(), expected);
        }
    }

    #[test]
    fn cleartext_needs_permission_for_its_host() {
        let (refused, loopback) = (Cleartext::Refused, Cleartext::Loopback);
        let metadata = Cleartext::MetadataService;
        for (text, cleartext, is_allowed) in [
            ("http://127.0.0.1:1234", refused, false),
            ("http://127.0.0.1:1234", loopback, true),
            ("http://[::1]:1234", loopback, true),
            ("http://localhost", loopback, true),
            ("http://localhost.example", loopback, false),
            ("http://management.azure.com", loopback, false),
            ("http://169.254.169.254", loopback, false),
            ("http://169.254.169.254", metadata, true),
            ("http://127.0.0.1:1234", metadata, true),
            ("http://10.0.0.1", metadata, false),
            ("https://10.0.0.1", refused, true),
        ] {
            let parsed = BaseUrl::parse(text, cleartext).map(drop);
            let expected = is_allowed.then_some(()).ok_or(InvalidBaseUrl::NotHttps);
            assert_eq!(parsed, expected, "{text}");
        }
    }

    #[test]
    fn invalid_base_urls_are_refused() {
        for text in [
            "",
            "management.azure.com",
            "ftp://a.example",
            "https://",
            "https:///path",
            "https://user@a.example",
            "https://a.example/x#y",
            "https://a.example/../x",
            "https://a.example\\@b.example",
            "https://a b",
        ] {
            let parsed = BaseUrl::parse(text, Cleartext::MetadataService);
            assert_eq!(parsed, Err(InvalidBaseUrl::Malformed), "{text}");
        }
        let parsed = BaseUrl::parse("https://a.example/?x=1", Cleartext::Refused);
        assert_eq!(parsed, Err(InvalidBaseUrl::ExtraParts));
    }

    #[test]
    fn only_urls_of_the_same_origin_are_within() {
        for (url, expected) in [
            ("https://management.azure.com/a?b=c", Ok("/a?b=c")),
            ("https://MANAGEMENT.azure.com:443/a", Ok("/a")),
            ("https://management.azure.com", Ok("/")),
            ("https://management.azure.com:8443/a", Err(ForeignUrl)),
            ("http://management.azure.com/a", Err(ForeignUrl)),
            ("https://evil.example/a", Err(ForeignUrl)),
            (
                "https://management.azure.com.evil.example/a",
                Err(ForeignUrl),
            ),
            (
                "https://management.azure.com@evil.example/a",
                Err(ForeignUrl),
            ),
            (
                "https://evil.example\\@management.azure.com/a",
                Err(ForeignUrl),
            ),
            ("//evil.example/a", Err(ForeignUrl)),
            (
                "https://management.azure.com/a.b/..c?d=../e%2F",
                Ok("/a.b/..c?d=../e%2F"),
            ),
            ("https://management.azure.com/a/../b", Err(ForeignUrl)),
            ("https://management.azure.com/a/./b", Err(ForeignUrl)),
            ("https://management.azure.com/a/%2E./b", Err(ForeignUrl)),
            ("https://management.azure.com/a%2f..%2Fb", Err(ForeignUrl)),
            ("https://management.azure.com/a%5Cb", Err(ForeignUrl)),
            ("/subscriptions/a", Err(ForeignUrl)),
            ("", Err(ForeignUrl)),
        ] {
            assert_eq!(arm().path_within(url), expected.map(str::to_owned), "{url}");
        }
    }

    proptest! {
        #[test]
        fn urls_within_have_the_host_of_the_base(url in "https://[a-z.@:/\\\\#?0-9]{0,30}") {
            if let Ok(path) = arm().path_within(&url) {
                prop_assert_eq!(arm().path_within(&arm().absolute(&path)), Ok(path));
            }
            let below = arm().absolute(&arm().path_of("/a?b"));
            prop_assert_eq!(below, "https://management.azure.com/a?b");
        }
    }
}
