//! The ID of a machine at its provider, as in `vsphere://UUID`.

use std::fmt;
use std::str::FromStr;

/// The ID of a machine at its provider: a scheme, and a text that the provider chooses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderId {
    scheme: String,
    rest: String,
}

/// The longest ID that Cluster API accepts.
const MAX_BYTES: usize = 512;

/// The text is no ID of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("provider ID must have the form SCHEME://ID, with at most {MAX_BYTES} bytes")]
pub struct InvalidProviderId;

impl ProviderId {
    /// Returns an ID.
    ///
    /// # Errors
    ///
    /// If Cluster API would not accept it.
    pub fn new(scheme: &str, rest: &str) -> Result<Self, InvalidProviderId> {
        let is_scheme = !scheme.is_empty() && !scheme.contains([':', '/']);
        let is_rest = !rest.is_empty() && !rest.ends_with('/');
        let is_text = !rest.contains(|letter: char| letter.is_whitespace() || letter.is_control());
        let bytes = scheme.len() + "://".len() + rest.len();
        match is_scheme && is_rest && is_text && bytes <= MAX_BYTES {
            true => Ok(Self {
                scheme: scheme.to_owned(),
                rest: rest.to_owned(),
            }),
            false => Err(InvalidProviderId),
        }
    }

    /// Returns the scheme, which identifies the provider.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Returns what follows the scheme.
    pub fn rest(&self) -> &str {
        &self.rest
    }

    /// Returns the segments of what follows the scheme.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.rest.split('/')
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.rest)
    }
}

impl FromStr for ProviderId {
    type Err = InvalidProviderId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (scheme, rest) = text.split_once("://").ok_or(InvalidProviderId)?;
        Self::new(scheme, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_parsed_and_formatted() {
        for (text, scheme, segments) in [
            ("vsphere://4210-aa", "vsphere", &["4210-aa"][..]),
            (
                "metal3://ns/host/machine",
                "metal3",
                &["ns", "host", "machine"],
            ),
            (
                "azure:///subscriptions/s/vm",
                "azure",
                &["", "subscriptions", "s", "vm"],
            ),
            ("kind://docker/a://b", "kind", &["docker", "a:", "", "b"]),
        ] {
            let id: ProviderId = text.parse().unwrap();
            assert_eq!(id.scheme(), scheme);
            assert_eq!(id.segments().collect::<Vec<_>>(), segments, "{text}");
            assert_eq!(id.to_string(), text);
            assert_eq!(ProviderId::new(id.scheme(), id.rest()), Ok(id));
        }
    }

    #[test]
    fn invalid_ids_are_refused() {
        let long = format!("a://{}", "b".repeat(MAX_BYTES));
        for text in [
            "",
            "4210",
            "vsphere:/4210",
            "vsphere://",
            "://4210",
            "vsphere://4210/",
            "a:b://c",
            "a/b://c",
            "vsphere://a b",
            "vsphere://a\n",
            &long,
        ] {
            assert_eq!(text.parse::<ProviderId>(), Err(InvalidProviderId), "{text}");
        }
    }
}
