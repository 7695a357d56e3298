//! Faults on request.

use std::time::Duration;

use serde_json::Value;

use super::message::{Content, Response, error};

/// A service of the fake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// Azure Resource Manager.
    Arm,
    /// The token endpoint of Entra ID.
    Entra,
    /// The instance metadata service.
    Imds,
}

/// Whether a service accepts connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Availability {
    /// Normally.
    #[default]
    Up,
    /// It does not listen: connections are refused.
    Down,
    /// Connections are accepted and never answered.
    Silent,
}

/// A fault of requests that match.
#[derive(Clone, Debug)]
pub struct Fault {
    service: Service,
    method: String,
    pattern: String,
    client: Option<String>,
    skip: usize,
    times: usize,
    effect: Effect,
}

/// What happens to a request.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    /// It gets this response and is not processed.
    Respond(Response),
    /// It waits until the fault is removed, and is processed then.
    Hang,
    /// It is processed, and the connection is closed without a response.
    LoseResponse,
    /// The connection is closed, and the request is not processed.
    Reset,
    /// It is processed later.
    Delay(Duration),
}

impl Fault {
    /// A fault of all requests with this method and path; `*` is any method, and any part of a
    /// path. It does nothing until an effect is chosen.
    pub fn on(service: Service, method: &str, pattern: &str) -> Self {
        Self {
            service,
            method: method.to_owned(),
            pattern: pattern.to_ascii_lowercase(),
            client: None,
            skip: 0,
            times: usize::MAX,
            effect: Effect::Delay(Duration::ZERO),
        }
    }

    /// A fault of requests to ARM.
    pub fn arm(method: &str, pattern: &str) -> Self {
        Self::on(Service::Arm, method, pattern)
    }

    /// A fault of requests for tokens.
    pub fn entra() -> Self {
        Self::on(Service::Entra, "*", "*")
    }

    /// Only requests of this client id.
    pub fn of_client(mut self, client: &str) -> Self {
        self.client = Some(client.to_owned());
        self
    }

    /// Only the n-th request that matches, counted from one.
    pub fn nth(mut self, n: usize) -> Self {
        (self.skip, self.times) = (n.saturating_sub(1), 1);
        self
    }

    /// Only the next requests that match, this many.
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    /// Answers with this status and JSON.
    pub fn respond(self, status: u16, body: Value) -> Self {
        self.effect(Effect::Respond(Response::json(status, body)))
    }

    /// Answers with an error in the usual shape of ARM.
    pub fn error(self, status: u16, code: &str, message: &str) -> Self {
        self.effect(Effect::Respond(Response::error(status, code, message)))
    }

    /// Answers 429 with `Retry-After` in seconds.
    pub fn throttle(self, retry_after: u32) -> Self {
        let response = Response::error(429, "TooManyRequests", "The request is being throttled.");
        let response = response.with("Retry-After", retry_after.to_string());
        self.effect(Effect::Respond(response))
    }

    /// Adds a header to the chosen answer, as in `Retry-After` with a date.
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Effect::Respond(response) = &mut self.effect {
            response.headers.push((name, value.to_owned()));
        }
        self
    }

    /// Answers with this status and a page in HTML, as gateways do.
    pub fn html(self, status: u16) -> Self {
        let mut response = Response::empty(status);
        let page = "<html><head><title>Service unavailable</title></head><body></body></html>";
        response.content = Content::Text("text/html", page.to_owned());
        self.effect(Effect::Respond(response))
    }

    /// Answers 401 as if the token had expired.
    pub fn expired_token(self) -> Self {
        self.effect(Effect::Respond(expired_token()))
    }

    /// Leaves requests without an answer until the faults are cleared.
    pub fn hang(self) -> Self {
        self.effect(Effect::Hang)
    }

    /// Processes requests and closes the connection without an answer.
    pub fn lose_response(self) -> Self {
        self.effect(Effect::LoseResponse)
    }

    /// Closes the connection before a request is processed.
    pub fn reset(self) -> Self {
        self.effect(Effect::Reset)
    }

    /// Processes requests this much later.
    pub fn delay(self, by: Duration) -> Self {
        self.effect(Effect::Delay(by))
    }

    fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    fn matches(&self, request: &Candidate<'_>) -> bool {
        let method = self.method == "*" || self.method.eq_ignore_ascii_case(request.method);
        let client = self.client.as_deref();
        let client = client.is_none_or(|client| request.client.eq_ignore_ascii_case(client));
        self.service == request.service
            && method
            && client
            && glob(&self.pattern, &request.path.to_ascii_lowercase())
    }
}

/// A request that may match a fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'a> {
    pub service: Service,
    pub method: &'a str,
    pub path: &'a str,
    pub client: &'a str,
}

/// All requested faults.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    all: Vec<Fault>,
    /// How often the faults were cleared, which ends the requests that hang.
    pub cleared: u64,
}

impl Faults {
    pub fn add(&mut self, fault: Fault) {
        self.all.push(fault);
    }

    pub fn clear(&mut self) {
        self.all.clear();
        self.cleared += 1;
    }

    /// Takes the effect of the first fault that applies to a request.
    pub fn take(&mut self, request: &Candidate<'_>) -> Option<Effect> {
        let mut effect = None;
        for fault in &mut self.all {
            if !fault.matches(request) {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if fault.times > 0 && effect.is_none() {
                fault.times -= 1;
                effect = Some(fault.effect.clone());
            }
        }
        effect
    }
}

/// The answer to an expired token.
pub(super) fn expired_token() -> Response {
    let message = "The access token expiry UTC time is earlier than current UTC time.";
    let body = serde_json::json!({"error": error("ExpiredAuthenticationToken", message)});
    Response::json(401, body)
}

/// Whether a text matches a pattern in which `*` is any text.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(rest) = text.strip_prefix(before) else {
        return false;
    };
    let mut starts = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    starts.any(|at| glob(after, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(path: &str) -> Candidate<'_> {
        Candidate {
            service: Service::Arm,
            method: "PUT",
            path,
            client: "c",
        }
    }

    #[test]
    fn fault_applies_to_the_nth_request_that_matches() {
        let mut faults = Faults::default();
        faults.add(Fault::arm("PUT", "*/storageAccounts/*").nth(2).reset());
        let hit = |faults: &mut Faults, path| faults.take(&request(path)).is_some();
        assert!(!hit(&mut faults, "/a/storageaccounts/b"));
        assert!(!hit(&mut faults, "/a/vaults/b"));
        assert!(hit(&mut faults, "/a/STORAGEACCOUNTS/b"));
        assert!(!hit(&mut faults, "/a/storageaccounts/b"));
    }

    #[test]
    fn star_is_any_part_of_a_path() {
        assert!(glob("*", "/a"));
        assert!(glob("/a/*/c", "/a/b/b/c"));
        assert!(!glob("/a/*/c", "/a/b/c/d"));
        assert!(glob("/a", "/a"));
    }
}
