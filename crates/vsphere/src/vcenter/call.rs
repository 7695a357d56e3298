//! Method calls with the cookies of one login.

use std::time::Duration;

use http::header::{CONTENT_TYPE, COOKIE, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, Uri};
use insula_identity::endpoint::Endpoint;
use insula_operator::outbound::{Cookies, HttpClient, HttpResponse, RequestError, RequestOptions};

use super::element::{Answer, Element, Fault};
use super::xml_writer::XmlWriter;
use super::{Error, Object};

const AGENT: &str = concat!("insula-vsphere/", env!("CARGO_PKG_VERSION"));
const SOAP_ACTION: HeaderName = HeaderName::from_static("soapaction");
/// The maximum length of a message that is passed on.
const MAX_MESSAGE_CHARS: usize = 1000;
/// Idempotent methods, which may be sent twice.
const IDEMPOTENT_METHODS: &[&str] = &[
    "RetrieveServiceContent",
    "RetrievePropertiesEx",
    "FindByInventoryPath",
    "FindByUuid",
    "Logout",
];

/// Calls methods of one vCenter.
pub(super) struct Caller {
    client: HttpClient,
    timeout: Duration,
    /// The version of the API, as the value of the `SOAPAction` header.
    action: HeaderValue,
    cookies: Cookies,
}

/// The maximum size of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseSize {
    /// One object, or a few properties of one.
    Small,
    /// The devices of a machine, or a thousand names.
    Large,
}

impl ResponseSize {
    const fn kib(self) -> usize {
        match self {
            Self::Small => 256,
            Self::Large => 4096,
        }
    }

    /// Returns the maximum number of elements, attributes and texts.
    const fn nodes(self) -> u32 {
        match self {
            Self::Small => 5_000,
            Self::Large => 100_000,
        }
    }
}

/// Why a call failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallError {
    Request(RequestError),
    Fault(Box<Fault>),
}

impl Caller {
    /// Starts with the oldest supported version, until the version of the vCenter is known.
    pub(super) fn new(client: HttpClient, timeout: Duration) -> Self {
        let action = HeaderValue::from_static("urn:vim25/6.0");
        Self {
            client,
            timeout,
            action,
            cookies: Cookies::default(),
        }
    }

    /// Uses this version from now on. An invalid version is ignored.
    pub(super) fn use_version(&mut self, version: &str) {
        let sane = version.len() < 32 && version.starts_with(|first: char| first.is_ascii_digit());
        let sane = sane
            && version
                .chars()
                .all(|part| part.is_ascii_digit() || part == '.');
        if let (true, Ok(action)) = (sane, HeaderValue::from_str(&format!("urn:vim25/{version}"))) {
            self.action = action;
        }
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        self.client.endpoint()
    }

    pub(super) fn has_cookie(&self) -> bool {
        !self.cookies.is_empty()
    }

    /// Calls a method with a small response.
    pub(super) async fn call(
        &self,
        method: &'static str,
        this: &Object,
        inside: impl FnOnce(&mut XmlWriter),
    ) -> Result<Element, Error> {
        self.call_for(ResponseSize::Small, method, this, inside)
            .await
    }

    /// Calls a method with a response of at most this size.
    pub(super) async fn call_for(
        &self,
        size: ResponseSize,
        method: &'static str,
        this: &Object,
        inside: impl FnOnce(&mut XmlWriter),
    ) -> Result<Element, Error> {
        let within = (self.timeout, size);
        let answer = self.ask(method, this, within, inside).await;
        answer.map_err(|broken| broken.into_error(method, this))
    }

    /// Calls a method that starts a task.
    pub(super) async fn start(
        &self,
        method: &'static str,
        this: &Object,
        inside: impl FnOnce(&mut XmlWriter),
    ) -> Result<Object, Error> {
        let answer = self.call(method, this, inside).await?;
        let task = answer.object("returnval");
        task.ok_or_else(|| Error::unexpected(method, "it names no task"))
    }

    /// Calls a method with its own timeout and response size.
    pub(super) async fn ask(
        &self,
        method: &'static str,
        this: &Object,
        (timeout, size): (Duration, ResponseSize),
        inside: impl FnOnce(&mut XmlWriter),
    ) -> Result<Element, CallError> {
        let body = XmlWriter::call(method, this, inside);
        let body = body.map_err(|_| CallError::Request(RequestError::InvalidRequest))?;
        let options = RequestOptions {
            timeout,
            max_response_kib: size.kib(),
            is_idempotent: IDEMPOTENT_METHODS.contains(&method),
        };
        let response = self.client.send(self.request(body), options).await;
        let response = response.map_err(|error| CallError::Request(with_remedy(error)))?;
        self.cookies.store(&response.headers);
        parse_response(method, &response, size)
    }

    fn request(&self, body: String) -> Request<String> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_static("/sdk");
        let content_type = HeaderValue::from_static("text/xml; charset=\"utf-8\"");
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, content_type);
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        headers.insert(SOAP_ACTION, self.action.clone());
        headers.extend(self.cookies.header().map(|cookie| (COOKIE, cookie)));
        request
    }
}

impl CallError {
    pub(super) fn into_error(self, method: &'static str, this: &Object) -> Error {
        match self {
            Self::Request(RequestError::UntrustedCertificate(why)) => {
                Error::NotTrusted(why.to_string())
            }
            Self::Request(RequestError::InvalidResponse(why)) => Error::Unexpected { method, why },
            // Only another argument helps, so it is reported like the vCenter's own fault.
            Self::Request(RequestError::InvalidRequest) => Error::Fault {
                method,
                fault: "InvalidArgument".to_owned(),
                message: "a text has a character that cannot be sent".to_owned(),
            },
            Self::Request(error) => Error::Unreachable(error.to_string()),
            Self::Fault(fault) => fault_error(method, this, &fault),
        }
    }
}

/// Converts a fault to an error.
pub(super) fn fault_error(method: &'static str, this: &Object, fault: &Fault) -> Error {
    match fault.kind.as_str() {
        "NotAuthenticated" => Error::NotAuthenticated,
        "ManagedObjectNotFound" => {
            let gone = fault.detail.object("obj");
            Error::Gone(shorten(&gone.as_ref().unwrap_or(this).to_string()))
        }
        kind => Error::Fault {
            method,
            fault: shorten(kind),
            message: shorten(&fault.message),
        },
    }
}

/// Returns the text, shortened to the maximum length.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Names the flags that allow an address.
fn with_remedy(error: RequestError) -> RequestError {
    match error {
        RequestError::AddressNotAllowed(why) => RequestError::AddressNotAllowed(format!(
            "{why}; the operator's --allow-address or --allowed-server allows it"
        )),
        other => other,
    }
}

fn parse_response(
    method: &str,
    response: &HttpResponse,
    size: ResponseSize,
) -> Result<Element, CallError> {
    let odd = |why: String| Err(CallError::Request(RequestError::InvalidResponse(why)));
    match response.status.as_u16() {
        200 | 500 => {}
        // A redirect is never followed: a password would be sent to another server.
        status @ 300..400 => return odd(format!("it redirects the request (HTTP {status})")),
        status @ (429 | 502..=504) => {
            let why = format!("it is overloaded (HTTP {status})");
            return Err(CallError::Request(RequestError::Unreachable(why)));
        }
        status => return odd(format!("it answers HTTP {status}")),
    }
    let text = response.text().map_err(CallError::Request)?;
    match Answer::read(method, text, size.nodes()) {
        Ok(Answer::Response(response)) => Ok(response),
        Ok(Answer::Fault(fault)) => Err(CallError::Fault(Box::new(fault))),
        Err(why) => odd(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_faults_become_distinct_errors() {
        let this = Object::new("VirtualMachine", "vm-1");
        let fault = |kind: &str| Fault {
            kind: kind.to_owned(),
            message: "m".to_owned(),
            ..Fault::default()
        };
        let error = |kind: &str| fault_error("X", &this, &fault(kind));
        assert_eq!(error("NotAuthenticated"), Error::NotAuthenticated);
        assert_eq!(
            error("ManagedObjectNotFound"),
            Error::Gone("VirtualMachine:vm-1".to_owned())
        );
        assert_eq!(
            error("NoPermission").to_string(),
            "the vCenter refuses X: m (NoPermission)"
        );
    }
}
