//! OpenID discovery of the service account issuers, for verifying their tokens.

use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue, VARY};
use insula_core::{Space, Spaces};
use serde::Serialize;

use crate::codec::answer::Answer;
use crate::pipeline::service_account::{Accounts, tenant_path};
use crate::registry::Registry;
use crate::status::{Result, StatusError};

/// The OpenID provider configuration, with its fields in Kubernetes' order.
#[derive(Serialize)]
struct Configuration {
    issuer: String,
    jwks_uri: String,
    response_types_supported: [&'static str; 1],
    subject_types_supported: [&'static str; 1],
    id_token_signing_alg_values_supported: [&'static str; 1],
}

/// Clients may cache the documents, because they rarely change.
const PUBLIC: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// The same for a document that other clients may not see.
const PRIVATE: HeaderValue = HeaderValue::from_static("private, max-age=3600");

/// Answers `/.well-known/openid-configuration` in a space: the issuer of its tokens and the
/// location of its keys. What the path leads to depends on the credential.
pub fn configuration(accounts: &Accounts, registry: &Registry, space: &Space) -> Result<Answer> {
    let tenant = match space.tenant() {
        None => None,
        Some(tenant) => {
            let state = registry.cache().space_state(space);
            let state = state.ok_or_else(StatusError::no_such_path)?;
            Some((tenant, state.uid.to_string()))
        }
    };
    let cached = if tenant.is_some() { PRIVATE } else { PUBLIC };
    let uid = tenant.as_ref().map_or("", |(_, uid)| uid);
    let answer = describe(accounts, space, uid)?;
    Ok(answer
        .header(CACHE_CONTROL, cached)
        .header(VARY, HeaderValue::from_static("Authorization")))
}

/// Answers `/issuers/{uid}/.well-known/openid-configuration` below a tenant's prefix.
pub fn tenant_configuration(
    accounts: &Accounts,
    registry: &Registry,
    named: Option<&Spaces>,
    uid: &str,
) -> Result<Answer> {
    let space = tenant_with_uid(registry, named, uid)?;
    let answer = describe(accounts, space, uid)?;
    Ok(answer.header(CACHE_CONTROL, PUBLIC))
}

/// Answers `/openid/v1/jwks`: the public keys. All issuers share them.
pub fn keys(accounts: &Accounts) -> Result<Answer> {
    let now = jiff::Timestamp::now().as_second();
    let keys = accounts.issuer.keys().get().published_at(now).to_jwks();
    let answer = answer(&keys, "application/jwk-set+json")?;
    Ok(answer.header(CACHE_CONTROL, PUBLIC))
}

/// Answers `/issuers/{uid}/openid/v1/jwks` below a tenant's prefix.
pub fn tenant_keys(
    accounts: &Accounts,
    registry: &Registry,
    named: Option<&Spaces>,
    uid: &str,
) -> Result<Answer> {
    tenant_with_uid(registry, named, uid)?;
    keys(accounts)
}

/// Returns the tenant's space if its UID is this one. A missing tenant and another UID are
/// answered alike, from the cache only: anonymous callers must not learn which tenants exist.
fn tenant_with_uid<'a>(
    registry: &Registry,
    named: Option<&'a Spaces>,
    uid: &str,
) -> Result<&'a Space> {
    let Some(Spaces::One(space @ Space::Tenant(_))) = named else {
        return Err(StatusError::no_such_path());
    };
    let state = registry.cache().space_state(space);
    let same = state.is_some_and(|state| *state.uid == *uid);
    same.then_some(space).ok_or_else(StatusError::no_such_path)
}

/// Describes the issuer of a space. Keys are at the server's own URL, which the issuer's may
/// differ from.
fn describe(accounts: &Accounts, space: &Space, tenant_uid: &str) -> Result<Answer> {
    let path = space.tenant().map(|tenant| tenant_path(tenant, tenant_uid));
    let path = path.unwrap_or_default();
    let body = Configuration {
        issuer: accounts.issuer.urls().of_space(space, tenant_uid),
        jwks_uri: format!("{}{path}/openid/v1/jwks", accounts.url),
        response_types_supported: ["id_token"],
        subject_types_supported: ["public"],
        id_token_signing_alg_values_supported: ["ES256"],
    };
    answer(&body, "application/json")
}

fn answer(body: &impl Serialize, content_type: &'static str) -> Result<Answer> {
    let body = serde_json::to_vec(body).map_err(StatusError::internal)?;
    let body = bytes::Bytes::from(body);
    Ok(Answer::new(StatusCode::OK, body.into()).typed(content_type))
}
