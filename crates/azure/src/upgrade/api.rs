//! Requests to the API server: pages of lists, and writes of single objects.

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Client;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// The number of objects in a page.
pub(crate) const PAGE_SIZE: u32 = 500;
/// The media type of lists without specification and status.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
/// The name of the writes in `managedFields`.
const FIELD_MANAGER: &str = "insula-azure-storage";
/// The delays before a request without an answer is sent again.
const RETRY_DELAYS: [Duration; 3] = [
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(4),
];

/// The failure of a command.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server does not do what it is asked.
    #[error("cannot {attempted}: {}", message(.source))]
    Request {
        /// What was attempted, such as `list virtualnetworks.network.azure.com`.
        attempted: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// A definition does not exist.
    #[error("definition {0} is not installed")]
    NoDefinition(String),
    /// The definition changes all the time.
    #[error("definition {0} was changed each time that its objects were being rewritten")]
    Changing(String),
    /// A Secret changes all the time.
    #[error("cannot {0}: it was changed during every attempt")]
    Conflict(String),
    /// The server forgets the positions in a list too early.
    #[error("the list of {0} expired before it was read")]
    Expiring(String),
}

impl Error {
    pub(crate) fn new(attempted: impl Into<String>, source: kube::Error) -> Self {
        Self::Request {
            attempted: attempted.into(),
            source: Box::new(source),
        }
    }

    /// Returns what the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Request { source, .. } => match status_code(source) {
                Some(403) => Some(
                    "use a kubeconfig with rights to definitions and to the objects of all \
                     namespaces"
                        .to_owned(),
                ),
                Some(404) => Some("create the namespace, or name another one".to_owned()),
                _ => None,
            },
            Self::NoDefinition(_) => {
                Some("names are like virtualnetworks.network.azure.com".to_owned())
            }
            Self::Expiring(_) => Some("use smaller pages, or a higher rate".to_owned()),
            Self::Changing(_) | Self::Conflict(_) => {
                Some("find out which client changes it, and try again".to_owned())
            }
        }
    }
}

fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Returns the HTTP status of an error, if there was an answer.
pub(crate) fn status_code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// A page of a list.
#[derive(Debug, Deserialize)]
pub(crate) struct Page<T> {
    pub metadata: ListMeta,
    /// The objects. Empty lists are null in some servers' answers.
    #[serde(deserialize_with = "null_as_empty", bound = "T: Deserialize<'de>")]
    pub items: Vec<T>,
}

fn null_as_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl<T> Page<T> {
    /// Returns the token of the next page; none if this is the last one.
    pub fn next(&self) -> Option<String> {
        let token = self.metadata.continue_.clone();
        token.filter(|token| !token.is_empty())
    }
}

/// The part of the objects in a list that is transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    Metadata,
}

/// A list to read in pages.
#[derive(Clone, Debug)]
pub(crate) struct List {
    /// The path of the collection, with a query if there is one.
    pub path: String,
    pub part: Part,
    /// The number of objects in a page.
    pub page_size: u32,
}

impl List {
    pub fn new(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            part: Part::Whole,
            page_size: PAGE_SIZE,
        }
    }

    pub fn of_metadata(path: impl Into<String>) -> Self {
        Self {
            part: Part::Metadata,
            ..Self::new(path)
        }
    }

    /// Reads the page of a token.
    pub async fn page<T: DeserializeOwned>(
        &self,
        client: &Client,
        token: Option<&str>,
    ) -> Result<Page<T>, kube::Error> {
        let (path, limit) = (&self.path, self.page_size);
        let sign = if path.contains('?') { '&' } else { '?' };
        let mut uri = format!("{path}{sign}limit={limit}");
        if let Some(token) = token {
            let token = utf8_percent_encode(token, NON_ALPHANUMERIC);
            uri.push_str(&format!("&continue={token}"));
        }
        let accept = match self.part {
            Part::Whole => JSON,
            Part::Metadata => METADATA_ONLY,
        };
        send(client, Method::GET, &uri, accept, None).await
    }

    /// Passes all objects to a function, page by page. An expired token is replaced by the one
    /// that the server returns with the error; without one the list begins anew, and the function
    /// gets objects again.
    pub async fn each<T: DeserializeOwned>(
        &self,
        client: &Client,
        mut see: impl FnMut(T),
    ) -> Result<(), kube::Error> {
        let mut token = None;
        loop {
            match self.page(client, token.as_deref()).await {
                Ok(page) => {
                    token = page.next();
                    page.items.into_iter().for_each(&mut see);
                    if token.is_none() {
                        return Ok(());
                    }
                }
                Err(error) if token.is_some() && status_code(&error) == Some(410) => {
                    token = renewed_token(&error);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns the token that a server gives out in the place of an expired one.
pub(crate) fn renewed_token(error: &kube::Error) -> Option<String> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    let token = status.metadata.as_ref()?.continue_.clone();
    token.filter(|token| !token.is_empty())
}

/// Reads an object.
pub(crate) async fn get<T: DeserializeOwned>(
    client: &Client,
    path: &str,
) -> Result<T, kube::Error> {
    send(client, Method::GET, path, JSON, None).await
}

/// Replaces an object.
pub(crate) async fn put<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    object: &serde_json::Value,
) -> Result<T, kube::Error> {
    let path = format!("{path}?fieldManager={FIELD_MANAGER}");
    let body = (JSON, object.to_string().into_bytes());
    send(client, Method::PUT, &path, JSON, Some(body)).await
}

/// Creates an object.
pub(crate) async fn post<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    object: &serde_json::Value,
) -> Result<T, kube::Error> {
    let body = (JSON, object.to_string().into_bytes());
    send(client, Method::POST, path, JSON, Some(body)).await
}

/// Changes an object by a merge patch.
pub(crate) async fn merge<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    patch: &serde_json::Value,
) -> Result<T, kube::Error> {
    let body = (MERGE_PATCH, patch.to_string().into_bytes());
    send(client, Method::PATCH, path, JSON, Some(body)).await
}

/// Sends a request, again if there is no answer or the server is overloaded. All requests of this
/// module can be repeated.
async fn send<T: DeserializeOwned>(
    client: &Client,
    method: Method,
    uri: &str,
    accept: &str,
    body: Option<(&str, Vec<u8>)>,
) -> Result<T, kube::Error> {
    let mut delays = RETRY_DELAYS.into_iter();
    loop {
        let mut request = Request::builder()
            .method(method.clone())
            .uri(uri)
            .header(ACCEPT, accept);
        let mut content = Vec::new();
        if let Some((media_type, bytes)) = &body {
            request = request.header(CONTENT_TYPE, *media_type);
            content.clone_from(bytes);
        }
        let request = request.body(content).map_err(kube::Error::HttpError)?;
        match (client.request(request).await, delays.next()) {
            (Err(error), Some(delay)) if is_transient(&error) => tokio::time::sleep(delay).await,
            (done, _) => return done,
        }
    }
}

fn is_transient(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 429 | 500 | 502 | 503 | 504),
        kube::Error::HyperError(_) | kube::Error::Service(_) => true,
        _ => false,
    }
}

/// Metadata of an object, as far as upgrades need it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    pub name: String,
    pub namespace: Option<String>,
    /// The tenant of an Insula that the object belongs to; none for the system's own.
    pub tenant: Option<String>,
    pub uid: String,
    pub generation: i64,
    pub resource_version: String,
    pub labels: std::collections::BTreeMap<String, String>,
    pub annotations: std::collections::BTreeMap<String, String>,
    pub finalizers: Vec<String>,
}

impl Metadata {
    /// Returns the tenant, the namespace and the name, for messages.
    pub fn full_name(&self) -> String {
        full_name(
            self.tenant.as_deref(),
            self.namespace.as_deref(),
            &self.name,
        )
    }
}

/// Returns the name of an object for messages, such as `namespace/name of tenant t1`.
pub(crate) fn full_name(tenant: Option<&str>, namespace: Option<&str>, name: &str) -> String {
    let mut text = namespace.map_or_else(String::new, |it| format!("{it}/"));
    text.push_str(name);
    if let Some(tenant) = tenant {
        text.push_str(&format!(" of tenant {tenant}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn refused(code: u16, message: &str) -> kube::Error {
        kube::Error::Api(Status::failure(message, "").with_code(code).boxed())
    }

    #[test]
    fn error_names_the_attempt_and_the_server_message() {
        let error = Error::new("list things", refused(403, "not allowed"));
        assert_eq!(error.to_string(), "cannot list things: not allowed");
        assert!(error.hint().is_some());
    }

    #[test]
    fn expired_token_is_replaced_by_that_of_the_error() {
        let Error::Request { source, .. } = Error::new("x", refused(410, "expired")) else {
            panic!("it is the failure of a request");
        };
        assert_eq!(renewed_token(&source), None);
        let status = Status {
            metadata: Some(ListMeta {
                continue_: Some("next".to_owned()),
                ..ListMeta::default()
            }),
            ..Status::failure("expired", "Expired").with_code(410)
        };
        let error = kube::Error::Api(status.boxed());
        assert_eq!(renewed_token(&error).as_deref(), Some("next"));
    }

    #[test]
    fn only_failures_that_may_pass_are_tried_again() {
        let codes = [429, 500, 503].map(|code| is_transient(&refused(code, "")));
        assert_eq!(codes, [true; 3]);
        let codes = [400, 403, 404, 409, 410, 422].map(|code| is_transient(&refused(code, "")));
        assert_eq!(codes, [false; 6]);
    }
}
