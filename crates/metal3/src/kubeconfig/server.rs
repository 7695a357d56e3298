//! The URL of an API server.

use insula_identity::endpoint::Endpoint;

/// The API server of the host side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Host and port.
    pub endpoint: Endpoint,
    /// The path below which the API is served, without a slash at its end; often empty.
    pub path: String,
}

/// The text is no URL of an API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InvalidUrl {
    /// It has the scheme `http`.
    Plain,
    /// It is anything else.
    Other,
}

impl Server {
    /// Parses an `https://` URL without user, query and fragment.
    pub(super) fn parse(text: &str) -> Result<Self, InvalidUrl> {
        let text = text.trim();
        let (scheme, rest) = text.split_once("://").ok_or(InvalidUrl::Other)?;
        match scheme.to_ascii_lowercase().as_str() {
            "https" => {}
            "http" => return Err(InvalidUrl::Plain),
            _ => return Err(InvalidUrl::Other),
        }
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        // IPv6 addresses need brackets in a URL, and `a:b` would be taken for one otherwise.
        let is_bracketed = authority.starts_with('[');
        if !is_bracketed && authority.matches(':').count() > 1 {
            return Err(InvalidUrl::Other);
        }
        let endpoint = Endpoint::parse(authority, 443).map_err(|_| InvalidUrl::Other)?;
        let path = path.trim_end_matches('/');
        match is_path(path) {
            true => Ok(Self {
                endpoint,
                path: path.to_owned(),
            }),
            false => Err(InvalidUrl::Other),
        }
    }

    /// Returns the URL in normal form.
    pub fn url(&self) -> String {
        format!("https://{}{}", self.endpoint, self.path)
    }
}

/// Returns whether a path has only segments that no program changes.
fn is_path(path: &str) -> bool {
    let is_letter = |one: u8| one.is_ascii_alphanumeric() || b"-._~:@".contains(&one);
    let is_segment =
        |segment: &str| !matches!(segment, "" | "." | "..") && segment.bytes().all(is_letter);
    path.is_empty()
        || path
            .strip_prefix('/')
            .is_some_and(|path| path.split('/').all(is_segment))
}
