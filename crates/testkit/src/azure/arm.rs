//! What ARM answers to a request: routes and access.

use http::Method;
use serde_json::json;

use super::access::forbidden;
use super::journal::Caller;
use super::message::{ArmRequest, Response, not_allowed};
use super::path::{ArmId, ArmPath};
use super::state::ArmState;

impl ArmState {
    /// Answers a request of an authenticated caller.
    pub fn decide(&mut self, request: &ArmRequest, caller: &Caller) -> Response {
        self.route(request, caller)
            .unwrap_or_else(|refused| refused)
    }

    fn route(&mut self, request: &ArmRequest, caller: &Caller) -> Result<Response, Response> {
        if request
            .path
            .trim_end_matches('/')
            .eq_ignore_ascii_case("/subscriptions")
        {
            return Ok(self.list_subscriptions(caller));
        }
        let Some(path) = ArmPath::parse(&request.path) else {
            let message = format!(
                "No HTTP resource was found that matches the request URI '{}'.",
                request.path
            );
            return Err(Response::json(404, json!({"Message": message})));
        };
        self.check_access(&path.id, request, caller)?;
        check_version(request)?;
        let last = request.path.rsplit('/').next().unwrap_or_default();
        let operation = self.operations.get(last);
        if operation.is_some_and(|operation| !operation.forgotten) {
            return self.poll(last, request);
        }
        match (path.tail, path.id) {
            (Some(tail), id) => self.route_tail(&id, &tail, request),
            (None, id) if id.is_resource() => self.route_resource(&id, request, caller),
            (None, id) => self.read_scope(&id),
        }
    }

    fn route_resource(
        &mut self,
        id: &ArmId,
        request: &ArmRequest,
        caller: &Caller,
    ) -> Result<Response, Response> {
        if id
            .type_in_namespace()
            .eq_ignore_ascii_case("locations/deletedVaults")
        {
            return self.read_deleted_vault(id);
        }
        match request.method {
            Method::PUT => self.put(id, request, caller),
            Method::PATCH => self.patch(id, request),
            Method::DELETE => self.delete(id, request),
            Method::GET | Method::HEAD => self.read(id, &request.method),
            _ => Err(not_allowed(&request.method)),
        }
    }

    fn route_tail(
        &mut self,
        id: &ArmId,
        tail: &str,
        request: &ArmRequest,
    ) -> Result<Response, Response> {
        match request.method {
            Method::GET => self.list(id, tail, request),
            Method::POST if id.is_resource() => self.act(id, tail, request),
            Method::POST => self.register(id, tail),
            _ => Err(not_allowed(&request.method)),
        }
    }

    fn check_access(
        &self,
        id: &ArmId,
        request: &ArmRequest,
        caller: &Caller,
    ) -> Result<(), Response> {
        if id.subscription.is_empty() {
            return match self.subscriptions.grants(caller, &id.key()) {
                true => Ok(()),
                false => Err(forbidden(caller, id, verb(&request.method))),
            };
        }
        let Some(subscription) = self.subscriptions.get(&id.subscription) else {
            let message = format!("The subscription '{}' could not be found.", id.subscription);
            return Err(Response::error(404, "SubscriptionNotFound", message));
        };
        if !subscription.tenant.eq_ignore_ascii_case(&caller.tenant) {
            let message = format!(
                "The access token is from the wrong issuer. It must match the tenant '{}' associated \
                 with this subscription.",
                subscription.tenant
            );
            return Err(Response::error(
                401,
                "InvalidAuthenticationTokenTenant",
                message,
            ));
        }
        let key = id.scope().key();
        let last = request.path.rsplit('/').next().unwrap_or_default();
        let key = self
            .operations
            .get(last)
            .map_or(key, |operation| operation.target.key());
        if self.subscriptions.grants(caller, &key) || self.has_role(caller, &key) {
            return Ok(());
        }
        Err(forbidden(caller, id, verb(&request.method)))
    }
}

/// The last part of the action that a caller without access may not perform.
fn verb(method: &Method) -> &'static str {
    match *method {
        Method::PUT | Method::PATCH => "write",
        Method::DELETE => "delete",
        Method::POST => "action",
        _ => "read",
    }
}

fn check_version(request: &ArmRequest) -> Result<(), Response> {
    let version = request.api_version();
    if version.is_empty() {
        let message =
            "The api-version query parameter (?api-version=) is required for all requests.";
        return Err(Response::error(400, "MissingApiVersionParameter", message));
    }
    let digits = version
        .bytes()
        .take(10)
        .enumerate()
        .all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if version.len() < 10 || !digits {
        let message = format!("The api-version '{version}' is invalid.");
        return Err(Response::error(400, "InvalidApiVersionParameter", message));
    }
    Ok(())
}
