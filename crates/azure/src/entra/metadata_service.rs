//! Tokens of managed identities, from the metadata service of the machine (IMDS).

use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Request;
use insula_operator::outbound::{HttpClient, HttpResponse, RequestError, RequestOptions};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::time::sleep;

use super::base_url::BaseUrl;
use super::error::{Refusal, TokenError};
use super::tokens::{Fetch, Token};

/// The address of the metadata service on every machine of Azure.
pub const METADATA_SERVICE: &str = "http://169.254.169.254";
const PATH: &str = "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=";
/// The delays before further attempts. The service is not ready at once after the machine starts,
/// and limits requests.
const RETRY_DELAYS: [Duration; 4] = [
    Duration::from_millis(200),
    Duration::from_millis(600),
    Duration::from_millis(1400),
    Duration::from_millis(3000),
];

/// Requests tokens of a managed identity.
pub struct MetadataRequest {
    /// The client of the service, which uses no proxy.
    pub http: HttpClient,
    /// The URL of the service.
    pub service: BaseUrl,
    /// The client id of the identity; empty for the only one of the machine.
    pub client_id: String,
    /// The audience of the token.
    pub audience: String,
    /// The timeout of each request.
    pub timeout: Duration,
}

impl Fetch for MetadataRequest {
    fn fetch(&self) -> BoxFuture<'_, Result<Token, TokenError>> {
        Box::pin(async move {
            for delay in RETRY_DELAYS {
                match self.send().await {
                    Ok(response) if !is_transient(&response) => return self.read(&response),
                    // A machine without the service has no such address either.
                    Err(error) => return Err(self.unreachable(&error.to_string())),
                    Ok(_) => sleep(delay).await,
                }
            }
            let response = self.send().await;
            let response = response.map_err(|error| self.unreachable(&error.to_string()))?;
            self.read(&response)
        })
    }

    fn server(&self) -> String {
        format!("the metadata service {}", self.service)
    }
}

fn is_transient(response: &HttpResponse) -> bool {
    matches!(response.status.as_u16(), 404 | 410 | 429 | 500..600)
}

impl MetadataRequest {
    async fn send(&self) -> Result<HttpResponse, RequestError> {
        let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let mut path = format!("{PATH}{}", encode(&self.audience));
        if !self.client_id.is_empty() {
            path += &format!("&client_id={}", encode(&self.client_id));
        }
        let request = Request::get(self.service.path_of(&path))
            .header("Metadata", "true")
            .body(Vec::new())?;
        self.http
            .send(request, RequestOptions::new(self.timeout))
            .await
    }

    fn read(&self, response: &HttpResponse) -> Result<Token, TokenError> {
        let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        match response.status.as_u16() {
            200 => {
                Token::of_response(&body).ok_or_else(|| self.unreachable("its answer has no token"))
            }
            status @ 400 => {
                let refusal = Refusal::of_response(&body, None);
                let hint = "assign the identity to the machine that the operator runs on";
                Err(TokenError::Refused(Box::new(Refusal {
                    hint: Some(hint.to_owned()),
                    description: match refusal.description.is_empty() {
                        true => format!("the metadata service answers HTTP {status}"),
                        false => refusal.description,
                    },
                    ..refusal
                })))
            }
            status => Err(self.unreachable(&format!("it answers HTTP {status}"))),
        }
    }

    fn unreachable(&self, why: &str) -> TokenError {
        TokenError::Unreachable {
            server: self.server(),
            why: why.to_owned(),
        }
    }
}
