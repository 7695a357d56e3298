//! The token endpoint of Entra ID, without transport.

use insula_access::jwt::KeySet;
use serde_json::json;

use super::assertion::Assertion;
use super::directory::{Application, Directory};
use super::entra_error::EntraError;
use super::journal::{Caller, Proof};
use super::message::Response;

/// A request for a token: the tenant of its path, and its form.
#[derive(Clone, Debug)]
pub(super) struct TokenRequest {
    pub tenant: String,
    pub form: Vec<(String, String)>,
    /// The URLs that the audience of an assertion may be.
    pub endpoints: Vec<String>,
}

/// A request that was read: how the client proves its identity.
#[derive(Clone, Debug)]
pub(super) enum Presented {
    Nothing,
    Secret(String),
    /// An assertion that the client signed.
    Certificate(Assertion),
    /// An assertion of another issuer, which publishes its keys.
    Federated(Assertion),
}

impl TokenRequest {
    pub fn field(&self, name: &str) -> &str {
        let mut all = self.form.iter();
        all.find(|(key, _)| key == name)
            .map_or("", |(_, value)| value)
    }

    pub fn client(&self) -> &str {
        self.field("client_id")
    }

    pub fn presented(&self) -> Result<Presented, EntraError> {
        let (secret, assertion) = (self.field("client_secret"), self.field("client_assertion"));
        if !secret.is_empty() {
            return Ok(Presented::Secret(secret.to_owned()));
        }
        if assertion.is_empty() {
            return Ok(Presented::Nothing);
        }
        let jwt = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
        if self.field("client_assertion_type") != jwt {
            return Err(EntraError::malformed_assertion());
        }
        let assertion = Assertion::parse(assertion)?;
        Ok(match assertion.is_signed_by_client(self.client()) {
            true => Presented::Certificate(assertion),
            false => Presented::Federated(assertion),
        })
    }

    /// The audience of the requested token.
    fn audience(&self) -> Result<&str, EntraError> {
        let scope = self.field("scope");
        scope
            .strip_suffix("/.default")
            .ok_or_else(|| EntraError::invalid_scope(scope))
    }
}

impl Presented {
    pub fn proof(&self) -> Proof {
        match self {
            Self::Nothing => Proof::None,
            Self::Secret(_) => Proof::Secret,
            Self::Certificate(_) => Proof::Certificate,
            Self::Federated(assertion) => Proof::Federated {
                issuer: assertion.issuer().to_owned(),
                subject: assertion.subject().to_owned(),
            },
        }
    }
}

/// Checks what can be checked before the keys of another issuer are read. Returns the issuer whose
/// keys are needed.
pub(super) fn check(
    directory: &Directory,
    application: Option<&Application>,
    request: &TokenRequest,
    presented: &Presented,
) -> Result<Option<String>, EntraError> {
    if !directory.has_tenant(&request.tenant) {
        return Err(EntraError::unknown_tenant(&request.tenant));
    }
    if request.field("grant_type") != "client_credentials" {
        return Err(EntraError::unsupported_grant());
    }
    let client = request.client();
    let application =
        application.ok_or_else(|| EntraError::unknown_application(client, &request.tenant))?;
    match presented {
        Presented::Nothing => Err(EntraError::no_credential()),
        Presented::Secret(secret) => check_secret(application, client, secret).map(|()| None),
        Presented::Certificate(assertion) => assertion
            .verify_certificate(application, client, &request.endpoints, directory.now())
            .map(|()| None),
        Presented::Federated(assertion) => {
            let matching = assertion.matching(application)?;
            Ok(Some(matching.issuer.clone()))
        }
    }
}

/// Issues the token of a request that [`check`] accepted, with the keys of the other issuer if it
/// asked for them.
pub(super) fn issue(
    directory: &mut Directory,
    principal: &str,
    request: &TokenRequest,
    presented: &Presented,
    keys: Option<&KeySet>,
) -> Result<Response, EntraError> {
    if let Presented::Federated(assertion) = presented {
        let keys = keys.ok_or_else(EntraError::issuer_unreachable)?;
        assertion.verify_federated(keys, directory.now())?;
    }
    let audience = request.audience()?;
    if !directory.audiences.contains(audience) {
        return Err(EntraError::unknown_audience_of_token(audience));
    }
    let caller = Caller {
        tenant: request.tenant.clone(),
        client: request.client().to_owned(),
        principal: principal.to_owned(),
        proof: presented.proof(),
    };
    let token = directory.issue(&caller, audience);
    let seconds = directory.lifetime.as_secs();
    Ok(Response::json(
        200,
        json!({
            "token_type": "Bearer", "expires_in": seconds, "ext_expires_in": seconds,
            "access_token": token,
        }),
    ))
}

fn check_secret(application: &Application, client: &str, secret: &str) -> Result<(), EntraError> {
    let found = application
        .secrets
        .iter()
        .find(|known| known.value == secret);
    match found {
        None => Err(EntraError::wrong_secret(client)),
        Some(found) if found.expired => Err(EntraError::expired_secret(client)),
        Some(_) => Ok(()),
    }
}
