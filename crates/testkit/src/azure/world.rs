//! ARM and Entra ID together: the tokens of one are the callers of the other.

use std::collections::BTreeMap;

use insula_access::jwt::KeySet;
use serde_json::Value;

use super::directory::{Application, Directory, FederatedCredential};
use super::faults::expired_token;
use super::journal::Caller;
use super::message::Response;
use super::path::ArmId;
use super::resource::Resource;
use super::state::ArmState;

/// The state of all services.
#[derive(Debug, Default)]
pub(super) struct World {
    pub arm: ArmState,
    pub directory: Directory,
    /// The keys of issuers that are not asked for them.
    pub issuer_keys: BTreeMap<String, KeySet>,
    /// The CAs in PEM that issuers are verified with.
    pub issuer_authorities: String,
    /// Beginnings of issuers, and the URLs at which they are reached instead.
    pub issuer_routes: Vec<(String, String)>,
}

impl World {
    /// The application of a client id: a registered one, or a managed identity in a subscription
    /// of the tenant, with the federated credentials that ARM has.
    pub fn application(&self, tenant: &str, client: &str) -> Option<Application> {
        let registered = self.directory.application(tenant, client).cloned();
        registered.or_else(|| self.managed_identity(tenant, client))
    }

    /// The URL at which an issuer is reached.
    pub fn location_of_issuer(&self, issuer: &str) -> String {
        let mut routes = self.issuer_routes.iter();
        let found = routes.find_map(|(from, to)| {
            let rest = issuer.strip_prefix(from.as_str())?;
            Some(format!("{to}{rest}"))
        });
        found.unwrap_or_else(|| issuer.to_owned())
    }

    /// The identity behind a header `Authorization`.
    pub fn authenticate(&self, authorization: Option<&str>) -> Result<Caller, Response> {
        let Some(authorization) = authorization else {
            let message = "Authentication failed. The 'Authorization' header is missing.";
            return Err(Response::error(401, "AuthenticationFailed", message).with(
                "WWW-Authenticate",
                "Bearer authorization_uri=\"https://login.windows.net/\"",
            ));
        };
        let token = authorization.strip_prefix("Bearer ").unwrap_or_default();
        let Some(token) = self.directory.token(token) else {
            let message = "The access token is invalid.";
            return Err(Response::error(401, "InvalidAuthenticationToken", message));
        };
        if token.expires <= self.directory.now() {
            return Err(expired_token());
        }
        if !self.directory.audiences.contains(&token.audience) {
            let message = "The access token has been obtained for wrong audience or resource.";
            return Err(Response::error(
                401,
                "InvalidAuthenticationTokenAudience",
                message,
            ));
        }
        Ok(token.caller.clone())
    }

    fn managed_identity(&self, tenant: &str, client: &str) -> Option<Application> {
        let text = |resource: &Resource, name: &str| {
            let value = resource.service.get(name).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let mut all = self.arm.resources.values();
        let identity = all.find(|resource| {
            text(resource, "clientId").eq_ignore_ascii_case(client)
                && text(resource, "tenantId").eq_ignore_ascii_case(tenant)
        })?;
        Some(Application {
            principal: text(identity, "principalId"),
            federated: self.federated_credentials(&identity.id),
            ..Application::default()
        })
    }

    fn federated_credentials(&self, identity: &ArmId) -> Vec<FederatedCredential> {
        let children = self.arm.children(identity, "federatedIdentityCredentials");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let credentials = children.iter().map(|child| &child["properties"]);
        let credentials = credentials.map(|properties| FederatedCredential {
            issuer: text(&properties["issuer"]),
            subject: text(&properties["subject"]),
            audience: text(&properties["audiences"][0]),
        });
        credentials.collect()
    }
}
