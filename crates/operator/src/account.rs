//! Clients that act as a service account of a namespace, by impersonation.

use http::header::{HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue};
use kube::Client;
use kube::client::Body;
use tower::{BoxError, service_fn};

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");

/// A service account of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceAccount<'a> {
    /// The tenant's space; none for the operator's own.
    pub space: Option<&'a str>,
    /// The namespace.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
}

impl ServiceAccount<'_> {
    /// Returns its name as a user.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// Returns the same client, with the rights of the account only. The client's own user must
    /// have the right to impersonate it. A server that knows no tenants gives it its groups.
    pub fn impersonate(&self, client: &Client) -> Client {
        // Names of objects are valid header values; any other name fails with the first request.
        let (client, headers) = (client.clone(), self.headers().ok());
        let service = service_fn(move |mut request: http::Request<Body>| {
            let (client, headers) = (client.clone(), headers.clone());
            async move {
                request
                    .headers_mut()
                    .extend(headers.ok_or("invalid name of a service account")?);
                Ok::<_, BoxError>(client.send(request).await?)
            }
        });
        Client::new(service, self.namespace)
    }

    fn headers(&self) -> Result<HeaderMap, InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        headers.insert(USER, HeaderValue::try_from(self.user())?);
        if let Some(space) = self.space {
            headers.insert(GROUP, HeaderValue::try_from(format!("tenant:{space}"))?);
        }
        Ok(headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_of_a_tenant_is_named_with_its_tenant() {
        let mut account = ServiceAccount {
            space: None,
            namespace: "web",
            name: "capv",
        };
        let texts = |account: ServiceAccount<'_>| {
            let headers = account.headers().expect("valid names");
            let text = |(name, value): (&HeaderName, &HeaderValue)| {
                format!("{name}: {}", value.to_str().unwrap_or_default())
            };
            headers.iter().map(text).collect::<Vec<_>>()
        };
        let user = "impersonate-user: system:serviceaccount:web:capv";
        assert_eq!(texts(account), [user]);
        account.space = Some("acme");
        assert_eq!(texts(account), [user, "impersonate-group: tenant:acme"]);
        account.name = "a\nb";
        assert!(account.headers().is_err());
    }
}
