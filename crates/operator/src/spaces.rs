//! Clients for a tenant's space that share the connections of another client.

use http::Uri;
use http::uri::{InvalidUri, PathAndQuery};
use kube::Client;
use kube::client::Body;
use tower::{BoxError, service_fn};

/// Returns a client for the space of that name, over the connections of the system space's
/// client; `all` is for lists and watches over all spaces.
pub fn client_for(system: &Client, space: &str) -> Client {
    let (system, space) = (system.clone(), space.to_owned());
    let service = service_fn(move |mut request: http::Request<Body>| {
        let (system, path) = (system.clone(), path_in_space(request.uri(), &space));
        async move {
            *request.uri_mut() = path?;
            Ok::<_, BoxError>(system.send(request).await?)
        }
    });
    Client::new(service, "default")
}

/// Returns the same path in another space: `tenants/{name}` follows the version.
fn path_in_space(uri: &Uri, name: &str) -> Result<Uri, InvalidUri> {
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let versions = if path.starts_with("/apis/") { 3 } else { 2 };
    let mut slashes = path.match_indices('/').map(|(at, _)| at);
    match slashes.nth(versions) {
        Some(at) => format!("{}/tenants/{name}{}", &path[..at], &path[at..]).parse(),
        // Discovery paths are incomplete; a prefix leads to the space's own discovery.
        None => format!("/tenants/{name}{path}").parse(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_follows_the_version() {
        for (path, expected) in [
            (
                "/api/v1/namespaces/default/configmaps/c",
                "/api/v1/tenants/acme/namespaces/default/configmaps/c",
            ),
            (
                "/api/v1/secrets?watch=true&labelSelector=a%2Fb",
                "/api/v1/tenants/acme/secrets?watch=true&labelSelector=a%2Fb",
            ),
            (
                "/apis/rbac.authorization.k8s.io/v1/namespaces/n/roles/r",
                "/apis/rbac.authorization.k8s.io/v1/tenants/acme/namespaces/n/roles/r",
            ),
            ("/apis/g/v1/things", "/apis/g/v1/tenants/acme/things"),
            ("/api/v1", "/tenants/acme/api/v1"),
            ("/apis/g/v1", "/tenants/acme/apis/g/v1"),
            ("/apis", "/tenants/acme/apis"),
            ("/version", "/tenants/acme/version"),
        ] {
            let uri = path.parse().expect("a path");
            assert_eq!(
                path_in_space(&uri, "acme").expect("a path"),
                expected,
                "{path}"
            );
        }
    }
}
