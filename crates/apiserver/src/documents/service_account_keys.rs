//! OpenID discovery of the service account issuer, for verifying its tokens.

use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue};
use serde::Serialize;

use crate::codec::answer::Answer;
use crate::pipeline::service_account::Accounts;
use crate::status::{Result, StatusError};

/// The OpenID provider configuration, with its fields in Kubernetes' order.
#[derive(Serialize)]
struct Configuration<'a> {
    issuer: &'a str,
    jwks_uri: String,
    response_types_supported: [&'static str; 1],
    subject_types_supported: [&'static str; 1],
    id_token_signing_alg_values_supported: [&'static str; 1],
}

/// Clients may cache the public keys, because they rarely change.
const CACHED: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// Answers `/.well-known/openid-configuration`: the issuer and the location of its keys.
pub fn configuration(accounts: &Accounts) -> Result<Answer> {
    let body = Configuration {
        issuer: accounts.issuer.url(),
        jwks_uri: format!("{}/openid/v1/jwks", accounts.url),
        response_types_supported: ["id_token"],
        subject_types_supported: ["public"],
        id_token_signing_alg_values_supported: ["ES256"],
    };
    let body = serde_json::to_string(&body).map_err(StatusError::internal)?;
    Ok(answer(&body, "application/json"))
}

/// Answers `/openid/v1/jwks`: the public keys.
pub fn keys(accounts: &Accounts) -> Result<Answer> {
    let keys = accounts.verifier.keys().to_jwks();
    let body = serde_json::to_string(&keys).map_err(StatusError::internal)?;
    Ok(answer(&body, "application/jwk-set+json"))
}

fn answer(body: &str, content_type: &'static str) -> Answer {
    let body = bytes::Bytes::copy_from_slice(body.as_bytes());
    Answer::new(StatusCode::OK, body.into())
        .typed(content_type)
        .header(CACHE_CONTROL, CACHED)
}
