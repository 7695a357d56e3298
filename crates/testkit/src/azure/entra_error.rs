//! Errors of Entra ID.

use serde_json::{Value, json};
use uuid::Uuid;

use super::message::Response;

/// An error of the token endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EntraError {
    pub number: u32,
    status: u16,
    error: &'static str,
    message: String,
}

impl EntraError {
    fn client(number: u32, message: impl Into<String>) -> Self {
        Self {
            number,
            status: 401,
            error: "invalid_client",
            message: message.into(),
        }
    }

    fn request(number: u32, error: &'static str, message: impl Into<String>) -> Self {
        Self {
            number,
            status: 400,
            error,
            message: message.into(),
        }
    }

    pub fn unknown_tenant(tenant: &str) -> Self {
        let message = format!(
            "Tenant '{tenant}' not found. Check to make sure you have the correct tenant ID and are \
             signing into the correct cloud."
        );
        Self::request(90_002, "invalid_request", message)
    }

    pub fn unknown_application(client: &str, tenant: &str) -> Self {
        let message = format!(
            "Application with identifier '{client}' was not found in the directory '{tenant}'."
        );
        Self::request(700_016, "unauthorized_client", message)
    }

    pub fn wrong_secret(client: &str) -> Self {
        let message = format!("Invalid client secret provided for app '{client}'.");
        Self::client(7_000_215, message)
    }

    pub fn expired_secret(client: &str) -> Self {
        let message = format!("The provided client secret keys for app '{client}' are expired.");
        Self::client(7_000_222, message)
    }

    pub fn no_credential() -> Self {
        let message = "The request body must contain the following parameter: 'client_assertion' or \
                       'client_secret'.";
        Self::client(7_000_218, message)
    }

    pub fn no_federated_credential() -> Self {
        let message = "No matching federated identity record found for presented assertion.";
        Self::request(70_021, "invalid_request", message)
    }

    pub fn unknown_issuer(issuer: &str) -> Self {
        Self::client(700_211, no_match("issuer", issuer))
    }

    pub fn unknown_audience(audience: &str) -> Self {
        Self::client(700_212, no_match("audience", audience))
    }

    pub fn unknown_subject(subject: &str) -> Self {
        Self::client(700_213, no_match("subject", subject))
    }

    pub fn outside_its_time(now: i64, begins: i64, expires: i64) -> Self {
        let message = format!(
            "Client assertion is not within its valid time range. Current time: {now}, assertion \
             valid from {begins}, expiry time of assertion {expires}."
        );
        Self::client(700_024, message)
    }

    pub fn unknown_certificate(client: &str) -> Self {
        let message = format!(
            "The certificate with identifier used to sign the client assertion is not registered on \
             application '{client}', or the signature is not valid."
        );
        Self::client(700_027, message)
    }

    pub fn assertion_of_another_client(client: &str) -> Self {
        let message = format!(
            "Client assertion application identifier doesn't match 'client_id' parameter '{client}'."
        );
        Self::client(700_021, message)
    }

    pub fn wrong_audience() -> Self {
        Self::client(
            700_023,
            "Client assertion audience claim does not match Realm issuer.",
        )
    }

    pub fn bad_signature() -> Self {
        Self::client(50_013, "Assertion failed signature validation.")
    }

    pub fn malformed_assertion() -> Self {
        Self::client(50_027, "JWT token is invalid or malformed.")
    }

    pub fn issuer_unreachable() -> Self {
        Self::request(
            50_166,
            "invalid_request",
            "Request to External OIDC endpoint failed.",
        )
    }

    pub fn unsupported_grant() -> Self {
        Self::request(
            70_003,
            "unsupported_grant_type",
            "The app requested an unsupported grant type.",
        )
    }

    pub fn invalid_scope(scope: &str) -> Self {
        let message =
            format!("The provided value for the input parameter 'scope' is not valid: '{scope}'.");
        Self::request(70_011, "invalid_scope", message)
    }

    pub fn unknown_audience_of_token(audience: &str) -> Self {
        let message =
            format!("The resource principal named {audience} was not found in the tenant.");
        Self::request(500_011, "invalid_resource", message)
    }

    pub fn response(&self) -> Response {
        Response::json(self.status, self.body())
    }

    fn body(&self) -> Value {
        let (number, message) = (self.number, &self.message);
        let [trace, correlation] = [Uuid::new_v4(), Uuid::new_v4()].map(|id| id.to_string());
        let time = jiff::Timestamp::now();
        json!({
            "error": self.error,
            "error_description": format!(
                "AADSTS{number}: {message} Trace ID: {trace} Correlation ID: {correlation} Timestamp: {time}"
            ),
            "error_codes": [number], "timestamp": time.to_string(),
            "trace_id": trace, "correlation_id": correlation,
            "error_uri": format!("https://login.microsoftonline.com/error?code={number}"),
        })
    }
}

fn no_match(claim: &str, value: &str) -> String {
    format!(
        "No matching federated identity record found for presented assertion {claim} '{value}'."
    )
}
