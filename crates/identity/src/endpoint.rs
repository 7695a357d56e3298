//! Endpoints that a credential may be sent to, and the certificates that are accepted there.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A host and a port in normal form: lower case, no brackets, no trailing dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    host: String,
    port: u16,
}

impl Endpoint {
    /// Parses a host or an address (IPv6 with or without brackets), with an optional port.
    /// Schemes, users, paths and unusual notations of addresses are refused, so that the
    /// compared endpoint is the one that is connected to.
    ///
    /// # Errors
    ///
    /// If the text is anything else.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, InvalidEndpoint> {
        let read = split(text).and_then(|(host, port)| {
            let host = normalize(host)?;
            let port = port.map_or(Some(default_port), parse_port)?;
            Some(Self { host, port })
        });
        read.ok_or_else(|| InvalidEndpoint(text.to_owned()))
    }

    /// Returns the host; an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(out, "[{}]:{}", self.host, self.port),
            false => write!(out, "{}:{}", self.host, self.port),
        }
    }
}

/// The server certificates that are accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trust {
    /// Certificates that verify against the usual authorities.
    #[default]
    Verified,
    /// The same, or the certificate with this fingerprint: pairs of upper-case hexadecimal
    /// digits with colons, 20 pairs for SHA-1, 32 for SHA-256.
    Pinned(String),
    /// Certificates that verify as the credential itself says, such as against the authorities in
    /// a kubeconfig. The text is a digest of that.
    AsCredential(String),
    /// Any certificate.
    AnyCertificate,
}

impl Trust {
    /// Parses a SHA-1 or SHA-256 fingerprint in any case, with or without colons.
    ///
    /// # Errors
    ///
    /// If the text is no fingerprint, which must not be taken for a missing one.
    pub fn pinned(text: &str) -> Result<Self, InvalidFingerprint> {
        let wrong = || InvalidFingerprint(text.to_owned());
        let text = text.trim();
        if !text.is_ascii() {
            return Err(wrong());
        }
        let upper = text.to_ascii_uppercase();
        let pairs: Vec<&str> = match upper.contains(':') {
            true => upper.split(':').collect(),
            // The text is ASCII, so every two bytes are valid UTF-8.
            false => upper
                .as_bytes()
                .chunks(2)
                .filter_map(|two| str::from_utf8(two).ok())
                .collect(),
        };
        let is_pair =
            |pair: &&str| pair.len() == 2 && pair.bytes().all(|one| one.is_ascii_hexdigit());
        match matches!(pairs.len(), 20 | 32) && pairs.iter().all(is_pair) {
            true => Ok(Self::Pinned(pairs.join(":"))),
            false => Err(wrong()),
        }
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verified => out.write_str("a certificate that verifies"),
            Self::Pinned(print) => write!(out, "a certificate that verifies, or {print}"),
            Self::AsCredential(_) => {
                out.write_str("a certificate that the credential's own authorities verify")
            }
            Self::AnyCertificate => out.write_str("any certificate"),
        }
    }
}

/// The endpoints that a credential may be sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AllowedEndpoints {
    /// No endpoint: none is configured.
    #[default]
    Nowhere,
    /// Any endpoint: the owner of the credential chooses the endpoint as well.
    Anywhere,
    /// These endpoints, with the accepted certificates if the credential's owner sets them.
    Only(Vec<(Endpoint, Option<Trust>)>),
}

impl AllowedEndpoints {
    /// Parses a comma-separated list. An empty list is `Nowhere`.
    ///
    /// # Errors
    ///
    /// If an item is no endpoint.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, InvalidEndpoint> {
        let words = text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty());
        let ends = words.map(|word| Ok((Endpoint::parse(word, default_port)?, None)));
        let ends = ends.collect::<Result<Vec<_>, _>>()?;
        Ok(match ends.is_empty() {
            true => Self::Nowhere,
            false => Self::Only(ends),
        })
    }

    /// Returns whether an endpoint is allowed, and the accepted certificates if they are set.
    /// The first of several entries for an endpoint counts.
    pub fn admits(&self, endpoint: &Endpoint) -> Option<Option<&Trust>> {
        match self {
            Self::Nowhere => None,
            Self::Anywhere => Some(None),
            Self::Only(ends) => {
                let (_, trust) = ends.iter().find(|(end, _)| end == endpoint)?;
                Some(trust.as_ref())
            }
        }
    }
}

/// An invalid endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no host, and no host with a port")]
pub struct InvalidEndpoint(pub String);

/// An invalid fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no SHA-1 and no SHA-256 fingerprint: 20 or 32 pairs of hexadecimal digits")]
pub struct InvalidFingerprint(pub String);

/// Splits a text into the host and the optional port.
fn split(text: &str) -> Option<(Host<'_>, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        let port = match rest {
            "" => None,
            _ => Some(rest.strip_prefix(':')?),
        };
        return Some((Host::Ipv6(host), port));
    }
    match text.matches(':').count() {
        0 => Some((Host::Name(text), None)),
        1 => text
            .split_once(':')
            .map(|(host, port)| (Host::Name(host), Some(port))),
        _ => Some((Host::Ipv6(text), None)),
    }
}

enum Host<'a> {
    /// An IPv6 address.
    Ipv6(&'a str),
    /// A name, or an IPv4 address.
    Name(&'a str),
}

/// Returns the host in normal form.
fn normalize(host: Host<'_>) -> Option<String> {
    let name = match host {
        Host::Ipv6(text) => return text.parse::<Ipv6Addr>().ok().map(|six| six.to_string()),
        Host::Name(name) => name.to_ascii_lowercase(),
    };
    let name = name.strip_suffix('.').unwrap_or(&name);
    let last = name.rsplit('.').next()?;
    // Some programs read `127.1` and `0x7f000001` as addresses: accept only the usual notation.
    let numeric = last.starts_with("0x") || last.bytes().all(|one| one.is_ascii_digit());
    if numeric {
        return name.parse::<Ipv4Addr>().ok().map(|four| four.to_string());
    }
    (name.len() <= 253 && name.split('.').all(is_label)).then(|| name.to_owned())
}

fn is_label(label: &str) -> bool {
    let inner = |one: u8| one.is_ascii_alphanumeric() || one == b'-' || one == b'_';
    matches!(label.len(), 1..=63)
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn parse_port(port: &str) -> Option<u16> {
    let digits = port.bytes().all(|one| one.is_ascii_digit()) && !port.starts_with('0');
    digits.then(|| port.parse().ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn end(text: &str) -> Endpoint {
        Endpoint::parse(text, 443).unwrap()
    }

    #[test]
    fn endpoint_is_normalized() {
        for (text, expected) in [
            ("vc.example", "vc.example:443"),
            ("VC.Example.", "vc.example:443"),
            ("vc.example.:8443", "vc.example:8443"),
            ("vc", "vc:443"),
            ("vc_1.a-b.example:1", "vc_1.a-b.example:1"),
            ("10.0.0.1", "10.0.0.1:443"),
            ("10.0.0.1:65535", "10.0.0.1:65535"),
            ("::1", "[::1]:443"),
            ("[::1]", "[::1]:443"),
            ("[2001:DB8:0:0::1]:8443", "[2001:db8::1]:8443"),
            ("2001:db8::1", "[2001:db8::1]:443"),
            ("1.example", "1.example:443"),
        ] {
            assert_eq!(end(text).to_string(), expected, "{text}");
        }
    }

    #[test]
    fn invalid_endpoint_is_refused() {
        let long = format!("{}.example", "a".repeat(64));
        let longer = vec!["a"; 128].join(".");
        for text in [
            "",
            ".",
            "..",
            "a..b",
            "-a.example",
            "a-.example",
            " vc.example",
            "vc.example ",
            "vc example",
            "https://vc.example",
            "https:vc",
            "//vc.example",
            "vc.example/sdk",
            "vc.example?x",
            "vc.example#x",
            "user@vc.example",
            "user:password@vc.example",
            "vc.example:",
            "vc.example:0",
            "vc.example:0443",
            "vc.example:65536",
            "vc.example:+443",
            "vc.example:-1",
            "vc.example:https",
            "vc.example:443:443",
            "vc%2eexample",
            "fe80::1%eth0",
            "[fe80::1%25eth0]",
            "vc.ex\u{e4}mple",
            "\u{ff11}0.0.0.1",
            "vc.example\u{3002}",
            "[::1",
            "::1]",
            "[::1]443",
            "[::1]:",
            "[vc.example]",
            "[10.0.0.1]",
            "127.1",
            "2130706433",
            "0x7f000001",
            "127.0.0.0x1",
            "010.0.0.1",
            "10.0.0.256",
            "vc.example\0",
            "vc.example\n",
            "vc\\example",
            &long,
            &longer,
        ] {
            let wrong = Err(InvalidEndpoint(text.to_owned()));
            assert_eq!(Endpoint::parse(text, 443), wrong, "{text:?}");
        }
    }

    #[test]
    fn x3_fingerprint_is_normalized() {
        let sha1 = "52:6C:4E:88:1D:78:AE:12:1C:F3:BB:6C:5B:F4:E2:82:86:A7:08:AF";
        let sha256 = ["AB"; 32].join(":");
        for (text, expected) in [
            (sha1.to_owned(), sha1),
            (sha1.to_lowercase(), sha1),
            (sha1.replace(':', ""), sha1),
            (format!(" {sha1}\n"), sha1),
            (sha256.replace(':', "").to_lowercase(), &sha256),
        ] {
            assert_eq!(
                Trust::pinned(&text),
                Ok(Trust::Pinned(expected.to_owned())),
                "{text}"
            );
        }
        for text in [
            String::new(),
            "AB".to_owned(),
            sha1.replacen("52:", "5:", 1),
            sha1.replacen("52", "5G", 1),
            sha1.replacen(':', "", 1),
            sha1.replace(':', " "),
            format!("{sha1}:"),
            format!("SHA1 Fingerprint={sha1}"),
            ["AB"; 31].join(":"),
            "\u{e9}".repeat(20),
        ] {
            assert_eq!(
                Trust::pinned(&text),
                Err(InvalidFingerprint(text.clone())),
                "{text:?}"
            );
        }
    }

    #[test]
    fn o03_allowed_endpoints_admit_only_listed_ones() {
        let only = |text: &str| AllowedEndpoints::parse(text, 443).unwrap();
        for (bound, endpoint, admitted) in [
            (AllowedEndpoints::Nowhere, "vc", false),
            (AllowedEndpoints::Anywhere, "vc", true),
            (AllowedEndpoints::Only(vec![]), "vc", false),
            (only(""), "vc", false),
            (only(" , ,"), "vc", false),
            (only("vc"), "vc", true),
            (only("VC."), "vc:443", true),
            (only("vc:443"), "vc:444", false),
            (only("a, vc ,b"), "vc", true),
            (only("vc.example"), "evil.vc.example", false),
            (only("vc.example"), "vc.example.evil", false),
            (only("[::1]"), "0:0:0:0:0:0:0:1", true),
        ] {
            assert_eq!(
                bound.admits(&end(endpoint)).is_some(),
                admitted,
                "{bound:?} {endpoint}"
            );
        }
        let wrong = AllowedEndpoints::parse("vc, https://vc", 443);
        assert_eq!(wrong, Err(InvalidEndpoint("https://vc".to_owned())));
        let bound = AllowedEndpoints::Only(vec![
            (end("vc"), Some(Trust::Verified)),
            (end("vc"), Some(Trust::AnyCertificate)),
        ]);
        assert_eq!(bound.admits(&end("vc")), Some(Some(&Trust::Verified)));
    }

    proptest! {
        #[test]
        fn parsed_endpoint_round_trips(text in ".{0,40}") {
            if let Ok(end) = Endpoint::parse(&text, 443) {
                prop_assert_eq!(Endpoint::parse(&end.to_string(), 1), Ok(end));
            }
            let _ = Trust::pinned(&text).map(|trust| match trust {
                Trust::Pinned(print) => assert_eq!(Trust::pinned(&print), Ok(Trust::Pinned(print.clone()))),
                _ => unreachable!(),
            });
        }

        #[test]
        fn endpoint_like_text_never_panics(text in "[\\[\\]:.a0x1%@/-]{0,20}") {
            if let Ok(end) = Endpoint::parse(&text, 443) {
                prop_assert_eq!(Endpoint::parse(&end.to_string(), 1), Ok(end));
            }
        }
    }
}
