//! The target of a call, from its URL or service reference.

use std::time::Duration;

use insula_admission::webhook::Endpoint;
use insula_core::Space;
use insula_gotext::url::Url;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::error::CallError;
use super::service::{Backend, Services, no_endpoints};

/// The characters that Go escapes in a path.
const PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The target of a call.
#[derive(Clone, Debug)]
pub(super) struct Target<'a> {
    /// The name in the expected certificate, or an address without brackets.
    pub host: String,
    port: u16,
    /// The `Host` header.
    pub authority: String,
    /// Path and query.
    pub path: String,
    service: Option<Service<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct Service<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Target<'a> {
    /// Parses an endpoint. The timeout is passed to the webhook in the query.
    pub fn of(endpoint: &'a Endpoint, timeout: Duration) -> Result<Self, CallError> {
        let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
        let with_query = |path: &str| format!("{}?timeout={seconds}s", clean(path));
        match endpoint {
            Endpoint::Url(url) => {
                let wrong = |why: String| CallError::Client(format!("Unparsable URL: {why}"));
                let url = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
                if url.scheme != "https" || url.host.is_empty() || url.user.is_some() {
                    let why = "webhook URLs are https without user".to_owned();
                    return Err(wrong(why));
                }
                let (host, port) = split_port(&url.host);
                Ok(Self {
                    host: host.to_owned(),
                    port,
                    authority: url.host.clone(),
                    path: with_query(&url.path),
                    service: None,
                })
            }
            Endpoint::Service {
                namespace,
                name,
                path,
                port,
            } => {
                let host = format!("{name}.{namespace}.svc");
                Ok(Self {
                    authority: format!("{host}:{port}"),
                    host,
                    port: *port,
                    path: with_query(path),
                    service: Some(Service { namespace, name }),
                })
            }
        }
    }

    /// Resolves the host.
    pub fn backend(&self, services: &dyn Services, space: &Space) -> Result<Backend, String> {
        match self.service {
            Some(Service { namespace, name }) => {
                services.resolve(space, namespace, name, self.port)
            }
            None => Ok(Backend::Host(self.host.clone(), self.port)),
        }
    }

    /// Returns the namespace and the name of the service, if the target is one.
    pub fn service(&self) -> Option<(&'a str, &'a str)> {
        let Service { namespace, name } = self.service?;
        Some((namespace, name))
    }

    /// Returns the error of a call whose backend cannot be reached.
    pub fn unreachable(&self, backend: &Backend, why: &str) -> CallError {
        match (backend, self.service) {
            (Backend::ClusterIp(..), Some(service)) => {
                let known = no_endpoints(service.name);
                self.failed(&format!("{why} ({known})"))
            }
            _ => self.failed(why),
        }
    }

    /// Returns the error of a failed call.
    pub fn failed(&self, why: &str) -> CallError {
        let Self {
            authority, path, ..
        } = self;
        CallError::Call(format!("Post \"https://{authority}{path}\": {why}"))
    }
}

fn split_port(authority: &str) -> (&str, u16) {
    // Brackets belong to an address, not to a name.
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().unwrap_or(443)),
        _ => (authority, 443),
    };
    (host.trim_matches(['[', ']']), port)
}

/// Returns the normalized and escaped path.
fn clean(path: &str) -> String {
    let mut steps = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => {
                steps.pop();
            }
            step => steps.push(step),
        }
    }
    let joined = format!("/{}", steps.join("/"));
    utf8_percent_encode(&joined, PATH).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(url: &str) -> Endpoint {
        Endpoint::Url(url.to_owned())
    }

    #[test]
    fn call_error_names_its_url() {
        let service = Endpoint::Service {
            namespace: "ns".to_owned(),
            name: "svc".to_owned(),
            path: "/a/../b/".to_owned(),
            port: 8443,
        };
        for (endpoint, millis, host, port, expected) in [
            (
                url("https://a.test"),
                10_000,
                "a.test",
                443,
                "https://a.test/?timeout=10s",
            ),
            (
                url("https://a.test:1/x/"),
                1_000,
                "a.test",
                1,
                "https://a.test:1/x?timeout=1s",
            ),
            (
                url("https://[::1]:8/x"),
                1_500,
                "::1",
                8,
                "https://[::1]:8/x?timeout=2s",
            ),
            (
                url("https://[::1]/x y"),
                1_000,
                "::1",
                443,
                "https://[::1]/x%20y?timeout=1s",
            ),
            (
                service,
                30_000,
                "svc.ns.svc",
                8443,
                "https://svc.ns.svc:8443/b?timeout=30s",
            ),
        ] {
            let target = Target::of(&endpoint, Duration::from_millis(millis)).unwrap();
            assert_eq!((target.host.as_str(), target.port), (host, port));
            let why = CallError::Call(format!("Post \"{expected}\": no"));
            assert_eq!(target.failed("no"), why);
        }
    }

    #[test]
    fn only_https_urls_are_called() {
        for text in [
            "http://a.test",
            "https://u@a.test",
            "file:///x",
            "",
            "https:///x",
            "a.test",
        ] {
            let endpoint = url(text);
            let found = Target::of(&endpoint, Duration::from_secs(1));
            assert!(matches!(found, Err(CallError::Client(_))), "{text}");
        }
    }
}
