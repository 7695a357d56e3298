//! The errors of requests: the one table of codes, reasons and messages.

use std::borrow::Cow;

use insula_access::rbac::ResourceAttributes;
use insula_core::{Principal, Revision};
use insula_kinds::{FieldError, Kind, field, kinds};
use serde_json::{Value, json};

use insula_kinds::core_kind;

/// An error that is sent to the client as a `Status` object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusError {
    /// The HTTP code.
    pub code: u16,
    reason: Cow<'static, str>,
    message: String,
    /// Boxed, so that results without an error stay small.
    details: Option<Box<Value>>,
    pub(crate) proceed: Option<String>,
    /// Seconds after which the client may retry.
    pub retry_after: Option<u32>,
    /// A text that is sent instead of a `Status`.
    pub plain: Option<&'static str>,
    /// The parts that come from webhooks and policies, if any.
    others: Option<Box<Others>>,
}

/// The parts of an error that come from webhooks and policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Others {
    /// Whether a webhook or policy wrote the message.
    words: bool,
    /// Warnings for the client.
    warnings: Vec<String>,
}

/// The result of handling a request.
pub type Result<T, E = StatusError> = std::result::Result<T, E>;

impl StatusError {
    /// Returns the `Status` object.
    pub fn status(&self) -> Value {
        let mut metadata = json!({});
        if let Some(token) = &self.proceed {
            metadata["continue"] = token.as_str().into();
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.as_ref().into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.as_ref().clone();
        }
        status
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the reason, which is empty if Kubernetes gives none.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Whether this server found that the name is taken. Webhooks may return the same reason.
    pub fn is_taken(&self) -> bool {
        self.reason == "AlreadyExists" && !self.others.as_ref().is_some_and(|others| others.words)
    }

    /// Returns the warnings for the client.
    pub fn warnings(&self) -> &[String] {
        self.others.as_ref().map_or(&[], |others| &others.warnings)
    }

    /// Puts warnings for the client before those that the error has already.
    #[must_use]
    pub fn warned(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        let mut warnings: Vec<String> = warnings.into_iter().collect();
        if !warnings.is_empty() {
            let others = self.others.get_or_insert_default();
            warnings.append(&mut others.warnings);
            others.warnings = warnings;
        }
        self
    }

    /// A webhook or policy of the space denied the request.
    pub fn not_admitted(denial: insula_admission::Refusal) -> Self {
        let mut status = Self::new(denial.code, "", denial.message);
        status.reason = denial.reason.into();
        status.details = denial.details.map(Box::new);
        status.others.get_or_insert_default().words = true;
        status
    }

    /// Returns the causes in the details.
    pub fn causes(&self) -> impl Iterator<Item = &Value> {
        let details = self.details.as_ref();
        let causes = details.and_then(|details| details.get("causes")?.as_array());
        causes.into_iter().flatten()
    }

    /// The object does not exist.
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", kind.qualified_resource());
        Self::new(404, "NotFound", message).about(kind, name, &kind.resource)
    }

    /// The path names no served resource.
    pub fn no_such_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(404, "NotFound", message).empty_details()
    }

    /// The path does not exist.
    pub fn no_such_path() -> Self {
        let mut status = Self::new(404, "NotFound", "404 page not found");
        status.plain = Some("404 page not found\n");
        status
    }

    /// The name is taken.
    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", kind.qualified_resource());
        Self::new(409, "AlreadyExists", message).about(kind, name, &kind.resource)
    }

    /// The name is taken by an object that is being deleted.
    pub fn still_exists(kind: &Kind, name: &str) -> Self {
        let mut status = Self::already_exists(kind, name);
        status.message.insert_str(0, "object is being deleted: ");
        status
    }

    /// No free name was found for a `generateName`.
    pub fn no_name_found(kind: &Kind, name: &str) -> Self {
        let mut status = Self::already_exists(kind, name);
        status
            .message
            .push_str(", the server was not able to generate a unique name for the object");
        status.retry_after(1)
    }

    /// The object has changed since the caller read it.
    pub fn modified(kind: &Kind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest \
                   version and try again";
        Self::conflict(kind, name, why)
    }

    /// The UID of the object differs from the precondition.
    pub fn other_uid(kind: &Kind, name: &str, key: &[u8], asked: &str, is: &str) -> Self {
        let key = String::from_utf8_lossy(key);
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: UID in precondition: {asked}, UID in object \
             meta: {is}"
        );
        Self::conflict(kind, name, &why)
    }

    /// The state of the object does not permit the operation.
    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let resource = kind.qualified_resource();
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Self::new(409, "Conflict", message).about(kind, name, &kind.resource)
    }

    /// The same for a subresource.
    pub fn conflict_below(kind: &Kind, subresource: &str, name: &str, why: &str) -> Self {
        let called = format!("{}/{subresource}", kind.resource);
        let message = format!("Operation cannot be fulfilled on {called} \"{name}\": {why}");
        Self::new(409, "Conflict", message).about(kind, name, &called)
    }

    /// Other field managers own applied fields.
    pub fn apply_conflict(message: String, causes: Vec<(String, String)>) -> Self {
        let mut status = Self::new(409, "Conflict", message);
        for (message, field) in causes {
            status.add_cause(json!({
                "reason": "FieldManagerConflict",
                "message": message,
                "field": field,
            }));
        }
        status
    }

    /// A precondition of a deletion does not hold.
    pub fn precondition(kind: &Kind, name: &str, why: &str) -> Self {
        let of = kind.qualified_kind();
        let message = format!("Operation cannot be fulfilled on {of} \"{name}\": {why}");
        Self::new(409, "Conflict", message).about(kind, name, &kind.kind)
    }

    /// The object is invalid.
    pub fn invalid(kind: &Kind, name: &str, errors: &[FieldError]) -> Self {
        // Events of both groups are one kind, validated as that of the core group.
        let kind = match kind.group == "events.k8s.io" {
            true => kinds().get(core_kind("events")),
            false => kind,
        };
        let of = kind.qualified_kind();
        let message = format!("{of} \"{name}\" is invalid: {}", field::message(errors));
        Self::new(422, "Invalid", message)
            .about(kind, name, &kind.kind)
            .because(errors)
    }

    /// The object is invalid. The message names the resource instead of the kind.
    pub fn invalid_resource(kind: &Kind, name: &str, errors: &[FieldError]) -> Self {
        let of = kind.qualified_resource();
        let message = format!("{of} \"{name}\" is invalid: {}", field::message(errors));
        Self::new(422, "Invalid", message)
            .about(kind, name, &kind.resource)
            .because(errors)
    }

    /// The same for an object whose kind is not that of the path.
    pub fn invalid_named(kind: &str, group: &str, name: &str, errors: &[FieldError]) -> Self {
        let found = field::message(errors);
        let message = format!("{kind}.{group} \"{name}\" is invalid: {found}");
        let mut status = Self::new(422, "Invalid", message);
        status.details = Some(Box::new(
            json!({"name": name, "group": group, "kind": kind}),
        ));
        status.because(errors)
    }

    /// The query parameters are invalid. `options` is `ListOptions` and so on.
    pub fn invalid_options(options: &str, errors: &[FieldError]) -> Self {
        let found = field::message(errors);
        let message = format!("{options}.meta.k8s.io \"\" is invalid: {found}");
        let mut status = Self::new(422, "Invalid", message);
        status.details = Some(Box::new(json!({"group": "meta.k8s.io", "kind": options})));
        status.because(errors)
    }

    /// The patched object is invalid.
    pub fn invalid_patch(errors: &[FieldError]) -> Self {
        let message = format!(" \"\" is invalid: {}", field::message(errors));
        Self::new(422, "Invalid", message)
            .empty_details()
            .because(errors)
    }

    /// The patch cannot be applied.
    pub fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message).empty_details()
    }

    /// The request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The caller is not authenticated.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// The caller lacks the right to do this to a resource in `scope`; `why` is the reason, if
    /// it is known.
    pub fn forbidden(
        principal: &Principal,
        act: &ResourceAttributes<'_>,
        scope: &str,
        why: &str,
    ) -> Self {
        let ResourceAttributes {
            verb,
            group,
            resource,
            subresource,
            name,
            ..
        } = act;
        let qualified = match *group {
            "" => (*resource).to_owned(),
            group => format!("{resource}.{group}"),
        };
        let named = name.map(|name| format!(" \"{name}\"")).unwrap_or_default();
        let below = subresource
            .map(|name| format!("/{name}"))
            .unwrap_or_default();
        let mut message = format!(
            "{qualified}{named} is forbidden: User \"{}\" cannot {verb} resource \
             \"{resource}{below}\" in API group \"{group}\" {scope}",
            principal.user,
        );
        if !why.is_empty() {
            message.push_str(": ");
            message.push_str(why);
        }
        let mut status = Self::new(403, "Forbidden", message);
        for (member, value) in [("name", name.unwrap_or("")), ("group", group)] {
            if !value.is_empty() {
                status.detail(member, value.into());
            }
        }
        status.detail("kind", (*resource).into());
        status
    }

    /// The caller lacks the right to a non-resource path.
    pub fn forbidden_path(principal: &Principal, verb: &str, path: &str, why: &str) -> Self {
        let user = &principal.user;
        let mut message = format!("forbidden: User \"{user}\" cannot {verb} path \"{path}\"");
        if !why.is_empty() {
            message.push_str(": ");
            message.push_str(why);
        }
        Self::new(403, "Forbidden", message).empty_details()
    }

    /// The credential belongs to no tenant.
    pub fn no_tenant(why: &str) -> Self {
        Self::new(403, "Forbidden", format!("forbidden: {why}")).empty_details()
    }

    /// The operation is forbidden for every caller.
    pub fn not_allowed(kind: &Kind, name: &str, why: &str) -> Self {
        let resource = kind.qualified_resource();
        let message = format!("{resource} \"{name}\" is forbidden: {why}");
        Self::new(403, "Forbidden", message).about(kind, name, &kind.resource)
    }

    /// Adds a cause.
    #[must_use]
    pub fn cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        let mut cause = json!({"reason": reason, "message": message});
        if !field.is_empty() {
            cause["field"] = field.into();
        }
        self.add_cause(cause);
        self
    }

    /// The method is not served there.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).empty_details()
    }

    /// No accepted media type is served: these are.
    pub fn not_acceptable(served: &str) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {served}");
        Self::new(406, "NotAcceptable", message).empty_details()
    }

    /// No accepted form of the object is served.
    pub fn no_such_form(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// No accepted transformation of the object is served; without one, these media types are.
    pub fn no_such_transform(served: &str) -> Self {
        Self::no_such_form(format!(
            "only the following media types are accepted: {served}"
        ))
    }

    /// The accepted media type has no streams.
    pub fn no_such_stream() -> Self {
        Self::no_such_form(
            "only the following media types are accepted: application/json;stream=watch, \
             application/vnd.kubernetes.protobuf;stream=watch, application/cbor-seq",
        )
    }

    /// The media type of the body is not supported.
    pub fn unsupported_body() -> Self {
        let message = "the body of the request was in an unknown format - accepted media types \
                       include: application/json, application/yaml, \
                       application/vnd.kubernetes.protobuf, application/cbor";
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// The media type of a custom object is not supported.
    pub fn unsupported_custom_body() -> Self {
        let message = "the body of the request was in an unknown format - accepted media types \
                       include: application/json, application/yaml, application/cbor";
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// The media type of a patch of a custom object is not supported.
    pub fn unsupported_custom_patch() -> Self {
        let message = "the body of the request was in an unknown format - accepted media types \
                       include: application/json-patch+json, application/merge-patch+json, \
                       application/apply-patch+yaml, application/apply-patch+cbor";
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// The media type of the patch is not supported.
    pub fn unsupported_patch() -> Self {
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").empty_details()
    }

    /// The body is too large.
    pub fn too_large(what: &str) -> Self {
        let message = format!("Request entity too large: {what}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// The requested revision is compacted.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The continue token is too old. The new one continues at the current revision.
    pub fn expired_token(token: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list \
            result. You can start a new list without the continue parameter, or use the continue \
            token in this response to retrieve the remainder of the results. Continuing with the \
            provided token results in an inconsistent list - objects that were created, modified, \
            or deleted between the time the first chunk was returned and now may show up in the \
            list.";
        let mut status = Self::expired(message);
        status.proceed = Some(token);
        status
    }

    /// The requested revision is in the future.
    pub fn future(asked: Revision, current: Revision) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let mut status = Self::new(504, "Timeout", message).retry_after(1);
        status.add_cause(json!({
            "reason": "ResourceVersionTooLarge",
            "message": "Too large resource version",
        }));
        status
    }

    /// The request took too long.
    pub fn timeout() -> Self {
        let message = "Timeout: request did not complete within the allotted timeout";
        Self::new(504, "Timeout", message).empty_details()
    }

    /// There is no audit log to return events from.
    pub fn no_audit_log() -> Self {
        let message = "the server has no audit log that it can read: it needs --audit-log-path \
                       with a file";
        Self::new(404, "NotFound", message)
    }

    /// An error that Kubernetes returns with 500 and no reason.
    pub fn plain_error(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// The server failed.
    pub fn internal(error: impl ToString) -> Self {
        let error = error.to_string();
        let mut status = Self::new(
            500,
            "InternalError",
            format!("Internal error occurred: {error}"),
        );
        status.add_cause(json!({"message": error}));
        status
    }

    /// The store cannot be reached. The client may retry.
    pub fn unavailable(error: impl ToString) -> Self {
        let message = format!("the store is not available: {}", error.to_string());
        Self::new(503, "ServiceUnavailable", message).retry_after(1)
    }

    /// The store has no room for more data. Kubernetes has no reason for it; this is HTTP's name of
    /// the code. Sizes and paths are for the log: tenants share the disk.
    pub fn insufficient_storage() -> Self {
        let message = "the server's store is full: delete objects that are no longer needed, or \
                       ask the administrator of the server for more disk space; deletions, and \
                       updates that need no more room, still work";
        Self::new(507, "InsufficientStorage", message)
    }

    /// The subresource would need a node.
    pub fn not_implemented(subresource: &str) -> Self {
        let message = format!(
            "{subresource} needs a node that runs the pod, and nothing runs pods in Insula: they \
             are objects here"
        );
        Self::new(501, "NotImplemented", message)
    }

    /// The request would exceed a limit.
    pub fn too_many(message: impl Into<String>) -> Self {
        Self::new(429, "TooManyRequests", message)
    }

    /// Flow control rejected the request. The client may retry soon.
    pub fn overloaded() -> Self {
        Self::overloaded_for(1)
    }

    /// Flow control rejected the request. The client may retry after so many seconds.
    pub fn overloaded_for(seconds: u32) -> Self {
        let mut status = Self::too_many("Too many requests, please try again later.");
        status.plain = Some("Too many requests, please try again later.\n");
        status.retry_after(seconds)
    }

    /// The body arrived too slowly.
    pub fn too_slow() -> Self {
        let message = "the body of the request did not arrive in time";
        Self::new(408, "Timeout", message)
    }

    /// Sets the seconds after which the client may retry.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self.detail("retryAfterSeconds", seconds.into());
        self
    }

    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: Cow::Borrowed(reason),
            message: message.into(),
            details: None,
            proceed: None,
            retry_after: None,
            plain: None,
            others: None,
        }
    }

    fn empty_details(mut self) -> Self {
        self.details = Some(Box::new(json!({})));
        self
    }

    fn about(mut self, kind: &Kind, name: &str, called: &str) -> Self {
        if !name.is_empty() {
            self.detail("name", name.into());
        }
        if !kind.group.is_empty() {
            self.detail("group", kind.group.as_str().into());
        }
        self.detail("kind", called.into());
        self
    }

    fn because(mut self, errors: &[FieldError]) -> Self {
        for error in errors {
            self.add_cause(json!({
                "reason": error.error_type.reason(),
                "message": error.body,
                "field": error.field,
            }));
        }
        self
    }

    fn add_cause(&mut self, cause: Value) {
        let details = self.details.get_or_insert_with(|| Box::new(json!({})));
        let causes = &mut details["causes"];
        match causes {
            Value::Array(causes) => causes.push(cause),
            _ => *causes = json!([cause]),
        }
    }

    fn detail(&mut self, member: &str, value: Value) {
        self.details.get_or_insert_with(|| Box::new(json!({})))[member] = value;
    }
}

impl From<insula_store::Error> for StatusError {
    /// Converts an error of the store. A write with an unknown outcome is reported as such,
    /// never as a conflict.
    fn from(error: insula_store::Error) -> Self {
        use insula_store::Error;
        match error {
            Error::Compacted { .. } => {
                Self::expired("The resourceVersion for the provided list is too old.")
            }
            Error::Future { current } => Self::future(current.next(), current),
            Error::TooLarge { .. } => Self::plain_error("etcdserver: request is too large"),
            Error::Unavailable(why) => Self::unavailable(why),
            Error::Full(_) => Self::insufficient_storage(),
            Error::Invalid(_) | Error::Corrupt { .. } => Self::internal(error),
            other => Self::internal(other),
        }
    }
}

impl std::fmt::Display for StatusError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StatusError {}
