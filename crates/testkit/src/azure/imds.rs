//! The instance metadata service of a machine, without transport.

use serde_json::json;

use super::directory::Directory;
use super::journal::{Caller, Proof, TokenCall};
use super::message::Response;

/// A request to the instance metadata service.
#[derive(Clone, Debug)]
pub(super) struct MetadataRequest {
    pub path: String,
    pub query: Vec<(String, String)>,
    /// The header `Metadata`.
    pub metadata: Option<String>,
    /// Whether a proxy forwarded the request.
    pub forwarded: bool,
}

impl MetadataRequest {
    fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }
}

/// Answers a request, and describes it for the journal.
pub(super) fn decide(
    directory: &mut Directory,
    request: &MetadataRequest,
) -> (Response, TokenCall) {
    let identity = check(directory, request);
    let resource = request.parameter("resource").unwrap_or_default();
    let client = request
        .parameter("client_id")
        .unwrap_or_default()
        .to_owned();
    let mut call = TokenCall {
        tenant: String::new(),
        client,
        proof: Proof::ManagedIdentity,
        scope: resource.to_owned(),
        error: None,
        at: std::time::Instant::now(),
    };
    match identity {
        Err((status, message)) => {
            call.error = Some(status.into());
            let body = json!({"error": "invalid_request", "error_description": message});
            (Response::json(status, body), call)
        }
        Ok(identity) => {
            call.tenant.clone_from(&identity.tenant);
            let token = directory.issue(&identity, resource);
            let seconds = directory.lifetime.as_secs();
            let expires = directory.now().saturating_add_unsigned(seconds);
            let response = json!({
                "access_token": token, "client_id": identity.client, "resource": resource,
                "token_type": "Bearer", "expires_in": seconds.to_string(),
                "ext_expires_in": seconds.to_string(), "expires_on": expires.to_string(),
                "not_before": directory.now().to_string(),
            });
            (Response::json(200, response), call)
        }
    }
}

fn check(directory: &Directory, request: &MetadataRequest) -> Result<Caller, (u16, &'static str)> {
    if request.path != "/metadata/identity/oauth2/token" {
        return Err((404, "Not found"));
    }
    if request.forwarded {
        return Err((400, "Forwarded requests are not answered"));
    }
    if !request
        .metadata
        .as_deref()
        .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    {
        return Err((400, "Required metadata header not specified"));
    }
    if request.parameter("api-version").is_none() {
        return Err((400, "Required query variable 'api-version' is missing"));
    }
    if request.parameter("resource").is_none() {
        return Err((400, "Required query variable 'resource' is missing"));
    }
    let chosen = request
        .parameter("client_id")
        .or_else(|| request.parameter("object_id"));
    let mut assigned = directory.machine.iter();
    let identity = match (chosen, directory.machine.len()) {
        (Some(chosen), _) => assigned.find(|identity| {
            let same = |id: &str| id.eq_ignore_ascii_case(chosen);
            same(&identity.client) || same(&identity.principal)
        }),
        (None, 0 | 1) => assigned.next(),
        (None, _) => {
            return Err((
                400,
                "Multiple user assigned identities exist, please specify the clientId",
            ));
        }
    };
    identity.cloned().ok_or((400, "Identity not found"))
}
