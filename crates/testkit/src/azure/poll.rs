//! Polls of operations.

use serde_json::json;

use super::message::{ArmRequest, Content, Response};
use super::operation::{Effect, Operation, Outcome, Style};
use super::state::ArmState;

impl ArmState {
    pub fn poll(&mut self, id: &str, request: &ArmRequest) -> Result<Response, Response> {
        let parameter = |name: &str| request.parameter(name).map(str::to_owned);
        let style = self
            .operations
            .get(id)
            .and_then(|operation| operation.style(parameter));
        let Some(style) = style else {
            let message = "The signature of the URL of the operation is not valid.";
            return Err(Response::error(403, "InvalidOperationSignature", message));
        };
        self.observe(id);
        let Some(operation) = self.operations.get_mut(id) else {
            return Err(Response::empty(404));
        };
        if style == Style::Async {
            let unfinished = operation.outcome.is_none();
            let retry_after = operation.retry_after.clone().filter(|_| unfinished);
            return Ok(
                Response::json(200, operation.document()).with_optional("Retry-After", retry_after)
            );
        }
        match operation.outcome.clone() {
            None => Ok(still_running(operation, &request.endpoint)),
            Some(Outcome::Succeeded) => Ok(self.result(id)),
            Some(Outcome::Failed(error) | Outcome::Canceled(error)) => {
                Err(Response::json(409, json!({"error": error})))
            }
        }
    }

    /// The result of an operation that succeeded.
    fn result(&self, id: &str) -> Response {
        let Some(operation) = self.operations.get(id) else {
            return Response::empty(404);
        };
        match (operation.effect, self.get(&operation.target)) {
            (Effect::Put, Some(resource)) => Response::json(200, self.view(resource)),
            (Effect::Delete, _) if !operation.target.is_group() => Response::empty(204),
            _ => Response::empty(200),
        }
    }
}

/// The 202 of a poll. Every other one has a new URL.
fn still_running(operation: &mut Operation, endpoint: &str) -> Response {
    let url = operation
        .observed
        .is_multiple_of(2)
        .then(|| operation.url(endpoint, Style::Location));
    let mut response =
        Response::empty(202).with_optional("Retry-After", operation.retry_after.clone());
    response.content = Content::Text("text/plain; charset=utf-8", String::new());
    response.with_optional("Location", url)
}
