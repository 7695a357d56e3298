//! Where a credential may be sent, and whom to believe there.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A host and a port, in one way of writing: lower case, no brackets, no dot at the end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    host: String,
    port: u16,
}

impl Endpoint {
    /// As people write it: a host, an address (IPv6 with or without brackets), or either with
    /// a port. No scheme, no user, no path, and no address in a way of writing that only some
    /// programs understand: what is compared here is what is connected to.
    ///
    /// # Errors
    ///
    /// If it is anything else.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, NotAnEndpoint> {
        let read = split(text).and_then(|(host, port)| {
            let host = spell(host)?;
            let port = port.map_or(Some(default_port), number)?;
            Some(Self { host, port })
        });
        read.ok_or_else(|| NotAnEndpoint(text.to_owned()))
    }

    /// The host; an IPv6 address has no brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
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

/// Whom to believe at an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trust {
    /// Whoever the usual authorities vouch for.
    #[default]
    Verified,
    /// The same, or whoever shows the certificate of this fingerprint: pairs of hexadecimal
    /// digits in upper case with colons, 20 pairs for SHA-1, 32 for SHA-256.
    Pinned(String),
    /// Anybody.
    Anybody,
}

impl Trust {
    /// A fingerprint as people write it: SHA-1 or SHA-256, in any case, with colons or
    /// without.
    ///
    /// # Errors
    ///
    /// If it is none: a fingerprint that is not understood must not mean that none was given.
    pub fn pinned(text: &str) -> Result<Self, NotAFingerprint> {
        let wrong = || NotAFingerprint(text.to_owned());
        let text = text.trim();
        if !text.is_ascii() {
            return Err(wrong());
        }
        let upper = text.to_ascii_uppercase();
        let pairs: Vec<&str> = match upper.contains(':') {
            true => upper.split(':').collect(),
            // It is ASCII, so every two bytes are text.
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
            Self::Anybody => out.write_str("any certificate"),
        }
    }
}

/// Where a credential may be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    /// Nowhere: nobody has said.
    #[default]
    Nowhere,
    /// Wherever its owner says, who chose the endpoint too.
    Anywhere,
    /// To these, and whom to believe there, if whoever owns the credential says so.
    Only(Vec<(Endpoint, Option<Trust>)>),
}

impl Bound {
    /// To these, written with commas between them. Nothing but commas and blanks is nobody's
    /// word.
    ///
    /// # Errors
    ///
    /// If one of them is no endpoint.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, NotAnEndpoint> {
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

    /// Whether it may be sent there, and if so, whom to believe, if that was said. Of two
    /// words about the same endpoint the first counts.
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

/// An endpoint that was written in a way that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no host, and no host with a port")]
pub struct NotAnEndpoint(pub String);

/// A fingerprint that was written in a way that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no SHA-1 and no SHA-256 fingerprint: 20 or 32 pairs of hexadecimal digits")]
pub struct NotAFingerprint(pub String);

/// The host as it is written, and the port if there is one.
fn split(text: &str) -> Option<(Host<'_>, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        let port = match rest {
            "" => None,
            _ => Some(rest.strip_prefix(':')?),
        };
        return Some((Host::Six(host), port));
    }
    match text.matches(':').count() {
        0 => Some((Host::Name(text), None)),
        1 => text
            .split_once(':')
            .map(|(host, port)| (Host::Name(host), Some(port))),
        _ => Some((Host::Six(text), None)),
    }
}

enum Host<'a> {
    /// An IPv6 address.
    Six(&'a str),
    /// A name, or an IPv4 address.
    Name(&'a str),
}

/// A host in one way of writing.
fn spell(host: Host<'_>) -> Option<String> {
    let name = match host {
        Host::Six(text) => return text.parse::<Ipv6Addr>().ok().map(|six| six.to_string()),
        Host::Name(name) => name.to_ascii_lowercase(),
    };
    let name = name.strip_suffix('.').unwrap_or(&name);
    let last = name.rsplit('.').next()?;
    // Programs read `127.1` and `0x7f000001` as addresses: it is one as everybody writes it,
    // or nothing.
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

fn number(port: &str) -> Option<u16> {
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
    fn an_endpoint_has_one_way_of_writing() {
        for (text, told) in [
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
            assert_eq!(end(text).to_string(), told, "{text}");
        }
    }

    #[test]
    fn what_is_no_host_with_a_port_is_no_endpoint() {
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
            let wrong = Err(NotAnEndpoint(text.to_owned()));
            assert_eq!(Endpoint::parse(text, 443), wrong, "{text:?}");
        }
    }

    #[test]
    fn x3_a_fingerprint_has_one_way_of_writing() {
        let sha1 = "52:6C:4E:88:1D:78:AE:12:1C:F3:BB:6C:5B:F4:E2:82:86:A7:08:AF";
        let sha256 = ["AB"; 32].join(":");
        for (text, told) in [
            (sha1.to_owned(), sha1),
            (sha1.to_lowercase(), sha1),
            (sha1.replace(':', ""), sha1),
            (format!(" {sha1}\n"), sha1),
            (sha256.replace(':', "").to_lowercase(), &sha256),
        ] {
            assert_eq!(
                Trust::pinned(&text),
                Ok(Trust::Pinned(told.to_owned())),
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
                Err(NotAFingerprint(text.clone())),
                "{text:?}"
            );
        }
    }

    #[test]
    fn o03_a_bound_admits_what_it_names_and_nothing_else() {
        let only = |text: &str| Bound::parse(text, 443).unwrap();
        for (bound, endpoint, admitted) in [
            (Bound::Nowhere, "vc", false),
            (Bound::Anywhere, "vc", true),
            (Bound::Only(vec![]), "vc", false),
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
        let wrong = Bound::parse("vc, https://vc", 443);
        assert_eq!(wrong, Err(NotAnEndpoint("https://vc".to_owned())));
        let bound = Bound::Only(vec![
            (end("vc"), Some(Trust::Verified)),
            (end("vc"), Some(Trust::Anybody)),
        ]);
        assert_eq!(bound.admits(&end("vc")), Some(Some(&Trust::Verified)));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_and_what_is_read_is_read_the_same_again(text in ".{0,40}") {
            if let Ok(end) = Endpoint::parse(&text, 443) {
                prop_assert_eq!(Endpoint::parse(&end.to_string(), 1), Ok(end));
            }
            let _ = Trust::pinned(&text).map(|trust| match trust {
                Trust::Pinned(print) => assert_eq!(Trust::pinned(&print), Ok(Trust::Pinned(print.clone()))),
                _ => unreachable!(),
            });
        }

        #[test]
        fn text_that_looks_like_an_endpoint_is_read_or_refused(text in "[\\[\\]:.a0x1%@/-]{0,20}") {
            if let Ok(end) = Endpoint::parse(&text, 443) {
                prop_assert_eq!(Endpoint::parse(&end.to_string(), 1), Ok(end));
            }
        }
    }
}
