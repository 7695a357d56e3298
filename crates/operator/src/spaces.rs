//! Clients for one space of an Insula, over the connections of another.

use http::Uri;
use http::uri::{InvalidUri, PathAndQuery};
use kube::Client;
use kube::client::Body;
use tower::{BoxError, service_fn};

/// A client of the system's whose every path leads into the space of that name; `all` is
/// lists and watches over every space.
pub fn within(system: &Client, space: &str) -> Client {
    let (system, space) = (system.clone(), space.to_owned());
    let service = service_fn(move |mut request: http::Request<Body>| {
        let (system, path) = (system.clone(), below(request.uri(), &space));
        async move {
            *request.uri_mut() = path?;
            Ok::<_, BoxError>(system.send(request).await?)
        }
    });
    Client::new(service, "default")
}

/// The same path in another space: `tenants/{name}` follows the version.
fn below(uri: &Uri, name: &str) -> Result<Uri, InvalidUri> {
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let versions = if path.starts_with("/apis/") { 3 } else { 2 };
    let mut slashes = path.match_indices('/').map(|(at, _)| at);
    match slashes.nth(versions) {
        Some(at) => format!("{}/tenants/{name}{}", &path[..at], &path[at..]).parse(),
        // Discovery has no full path; the prefix of the server leads to a space's own.
        None => format!("/tenants/{name}{path}").parse(),
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
            assert_eq!(below(&uri, "acme").expect("a path"), expected, "{path}");
        }
    }
}
