//! Requests for tokens, and their responses.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE};
use insula_identity::credential::Hidden;
use insula_operator::outbound::{HttpClient, HttpResponse, RequestError, RequestOptions};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::assertion::{Assertion, AssertionFor, Assertions, Claims};
use super::certificate::ClientCertificate;
use super::cloud::Cloud;
use super::error::{Refusal, TokenError, hint};
use super::tokens::{Fetch, Token};

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// The characters of a form that are not encoded.
const FORM: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
/// The maximum length of texts in a refusal.
const MAX_TEXT: usize = 500;
/// Errors of OAuth that end by themselves.
const TRANSIENT: [&str; 2] = ["temporarily_unavailable", "server_error"];

/// Requests tokens of one account in one Entra tenant.
pub struct TokenRequest {
    /// The client of the authority.
    pub http: Arc<HttpClient>,
    /// The cloud.
    pub cloud: Cloud,
    /// The Entra tenant.
    pub tenant: String,
    /// The client id of the account.
    pub client_id: String,
    /// How the account is proved.
    pub proof: RequestProof,
    /// The timeout of the request.
    pub timeout: Duration,
}

/// How an account is proved to the authority.
#[derive(Clone)]
pub enum RequestProof {
    /// A client secret.
    Secret(Hidden),
    /// A certificate.
    Certificate(Arc<ClientCertificate>),
    /// The token of a service account.
    Assertion(Arc<dyn Assertions>, AssertionFor),
}

/// The form field with the proof of a request, and what is known about it.
struct Proved {
    secret: Hidden,
    is_assertion: bool,
    claims: Option<Claims>,
}

impl Fetch for TokenRequest {
    fn fetch(&self) -> BoxFuture<'_, Result<Token, TokenError>> {
        Box::pin(async move {
            let proved = self.prove().await?;
            let response = self.send(&proved).await;
            let response = response.map_err(|error| self.unreachable(&error.to_string()))?;
            self.read(&response, &proved)
        })
    }

    fn server(&self) -> String {
        self.http.endpoint().host().to_owned()
    }
}

impl TokenRequest {
    async fn prove(&self) -> Result<Proved, TokenError> {
        let (secret, is_assertion, claims) = match &self.proof {
            RequestProof::Secret(secret) => (secret.clone(), false, None),
            RequestProof::Certificate(certificate) => {
                let url = self
                    .cloud
                    .authority
                    .absolute(&self.cloud.token_path(&self.tenant));
                let signed = certificate.assertion(&url, &self.client_id, Timestamp::now())?;
                (signed, true, None)
            }
            RequestProof::Assertion(assertions, account) => {
                let assertion: Assertion = assertions.assertion(account).await?;
                let claims = assertion.claims();
                (Hidden::new(assertion.reveal()), true, claims)
            }
        };
        Ok(Proved {
            secret,
            is_assertion,
            claims,
        })
    }

    async fn send(&self, proved: &Proved) -> Result<HttpResponse, RequestError> {
        let secret = proved.secret.text().unwrap_or_default();
        let scope = self.cloud.scope();
        let mut fields = vec![
            ("client_id", self.client_id.as_str()),
            ("scope", &scope),
            ("grant_type", "client_credentials"),
        ];
        match proved.is_assertion {
            true => fields.extend([
                ("client_assertion_type", ASSERTION_TYPE),
                ("client_assertion", secret),
            ]),
            false => fields.push(("client_secret", secret)),
        }
        let fields = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, FORM)));
        let body = fields.collect::<Vec<_>>().join("&");
        let request = Request::post(self.cloud.token_path(&self.tenant))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json")
            .body(body)?;
        let options = RequestOptions {
            is_idempotent: true,
            ..RequestOptions::new(self.timeout)
        };
        self.http.send(request, options).await
    }

    fn read(&self, response: &HttpResponse, proved: &Proved) -> Result<Token, TokenError> {
        let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let status = response.status.as_u16();
        let error = body["error"].as_str().unwrap_or_default();
        match status {
            200 => {
                Token::of_response(&body).ok_or_else(|| self.unreachable("its answer has no token"))
            }
            400..=403 if !error.is_empty() && !TRANSIENT.contains(&error) => {
                let refusal = Refusal::of_response(&body, proved.claims.as_ref());
                let secret = proved.secret.text().unwrap_or_default();
                Err(TokenError::Refused(Box::new(refusal.without(secret))))
            }
            _ => Err(self.unreachable(&format!("it answers HTTP {status}"))),
        }
    }

    fn unreachable(&self, why: &str) -> TokenError {
        TokenError::Unreachable {
            server: self.server(),
            why: why.to_owned(),
        }
    }
}

impl Refusal {
    /// Reads the body of a refusal.
    pub(super) fn of_response(body: &Value, claims: Option<&Claims>) -> Self {
        let text = |name: &str| {
            let text = body[name].as_str().unwrap_or_default();
            let chars = text.chars().take(MAX_TEXT);
            let shown = chars.map(|char| if char.is_control() { '\n' } else { char });
            shown.collect::<String>()
        };
        let description = text("error_description");
        // Trace id, correlation id and timestamp follow.
        let first = description.split('\n').next().unwrap_or_default();
        let first = first.split(" Trace ID:").next().unwrap_or_default().trim();
        let in_text = first.strip_prefix("AADSTS").and_then(|rest| {
            let digits = rest.split(|char: char| !char.is_ascii_digit()).next()?;
            digits.parse().ok()
        });
        let code = body["error_codes"][0].as_u64().or(in_text);
        Self {
            code,
            error: text("error"),
            description: first.to_owned(),
            hint: hint(code, claims),
            trace_id: Some(text("trace_id")).filter(|id| !id.is_empty()),
        }
    }

    /// Returns the refusal without a secret that the server may have repeated.
    fn without(mut self, secret: &str) -> Self {
        let texts = [&mut self.error, &mut self.description].into_iter();
        for text in texts.chain(self.trace_id.as_mut()) {
            if !secret.is_empty() && text.contains(secret) {
                *text = text.replace(secret, "****");
            }
        }
        self
    }
}
