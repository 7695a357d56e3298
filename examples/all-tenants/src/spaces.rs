//! Clients for one space and for all of them, over one connection pool.

use http::Uri;
use http::uri::{InvalidUri, PathAndQuery};
use kube::Client;
use kube::client::Body;
use tower::{BoxError, service_fn};

use crate::place::Space;

/// Creates clients for spaces. They are not cached: an idle tenant costs nothing here, and a
/// deleted one leaves nothing behind.
#[derive(Clone)]
pub struct Spaces {
    system: Client,
}

impl Spaces {
    /// Uses the connections of this client, which must have a credential of the system.
    pub fn new(system: Client) -> Self {
        Self { system }
    }

    /// Returns a client for lists and watches over every space.
    pub fn all(&self) -> Client {
        self.below("all".to_owned())
    }

    /// Returns a client for one space.
    pub fn of(&self, space: &Space) -> Client {
        match space {
            Space::System => self.system.clone(),
            Space::Tenant(name) => self.below(name.clone()),
        }
    }

    fn below(&self, name: String) -> Client {
        let system = self.system.clone();
        let service = service_fn(move |mut request: http::Request<Body>| {
            let (system, path) = (system.clone(), within(request.uri(), &name));
            async move {
                *request.uri_mut() = path?;
                Ok::<_, BoxError>(system.send(request).await?)
            }
        });
        Client::new(service, "default")
    }
}

/// Returns the path in another space: `tenants/{name}` follows the version.
fn within(uri: &Uri, name: &str) -> Result<Uri, InvalidUri> {
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let versions = if path.starts_with("/apis/") { 3 } else { 2 };
    let mut slashes = path.match_indices('/').map(|(at, _)| at);
    match slashes.nth(versions) {
        Some(at) => format!("{}/tenants/{name}{}", &path[..at], &path[at..]).parse(),
        None => path.parse(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_space_follows_the_version() {
        for (path, expected) in [
            (
                "/api/v1/namespaces/default/configmaps/c",
                "/api/v1/tenants/acme/namespaces/default/configmaps/c",
            ),
            (
                "/api/v1/configmaps?watch=true&labelSelector=a%2Fb",
                "/api/v1/tenants/acme/configmaps?watch=true&labelSelector=a%2Fb",
            ),
            (
                "/apis/example.com/v1/namespaces/n/sites/s/status?fieldManager=m",
                "/apis/example.com/v1/tenants/acme/namespaces/n/sites/s/status?fieldManager=m",
            ),
            (
                "/apis/example.com/v1/sites",
                "/apis/example.com/v1/tenants/acme/sites",
            ),
            ("/version", "/version"),
        ] {
            let uri = path.parse().expect("a path");
            assert_eq!(within(&uri, "acme").expect("a path"), expected);
        }
    }
}
