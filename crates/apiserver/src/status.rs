//! Why a request was refused, as clients are told: the one table of codes, reasons and
//! wordings.

use std::borrow::Cow;

use insula_access::rbac::ResourceAttributes;
use insula_core::{Principal, Revision};
use insula_kinds::{FieldError, Kind, kinds, validate};
use serde_json::{Value, json};

use insula_kinds::core_kind;

/// A refusal: what becomes a `Status` object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusError {
    /// The HTTP code.
    pub code: u16,
    reason: Cow<'static, str>,
    message: String,
    /// Boxed, so that the way without refusals carries little.
    details: Option<Box<Value>>,
    proceed: Option<String>,
    /// Seconds after which it makes sense to ask again.
    pub retry_after: Option<u32>,
    /// The body is this text instead of a `Status`.
    pub plain: Option<&'static str>,
    /// What others have to do with it, if anybody has.
    others: Option<Box<Others>>,
}

/// What others have to do with a refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Others {
    /// It is in their words.
    words: bool,
    /// What they want the caller to know.
    warnings: Vec<String>,
}

/// What handlers answer.
pub type Result<T, E = StatusError> = std::result::Result<T, E>;

impl StatusError {
    /// The `Status` object.
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

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The reason, empty if Kubernetes gives none.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Whether the name is taken, as this server found out: others may say so, too.
    pub fn is_taken(&self) -> bool {
        self.reason == "AlreadyExists" && !self.others.as_ref().is_some_and(|others| others.words)
    }

    /// What others want the caller to know.
    pub fn warnings(&self) -> &[String] {
        self.others.as_ref().map_or(&[], |others| &others.warnings)
    }

    /// With what the caller should know beside: first this, then what is there already.
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

    /// Somebody whom the space has asked does not admit it.
    pub fn not_admitted(refusal: insula_admission::Refusal) -> Self {
        let mut told = Self::new(refusal.code, "", refusal.message);
        told.reason = refusal.reason.into();
        told.details = refusal.details.map(Box::new);
        told.others.get_or_insert_default().words = true;
        told
    }

    /// The causes in the details.
    pub fn causes(&self) -> impl Iterator<Item = &Value> {
        let details = self.details.as_ref();
        let causes = details.and_then(|details| details.get("causes")?.as_array());
        causes.into_iter().flatten()
    }

    /// The object is not there.
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", kind.qualified_resource());
        Self::new(404, "NotFound", message).about(kind, name, &kind.resource)
    }

    /// The path names nothing that is served.
    pub fn no_such_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(404, "NotFound", message).empty_details()
    }

    /// The path is nobody's.
    pub fn no_such_path() -> Self {
        let mut refusal = Self::new(404, "NotFound", "404 page not found");
        refusal.plain = Some("404 page not found\n");
        refusal
    }

    /// The name is taken.
    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", kind.qualified_resource());
        Self::new(409, "AlreadyExists", message).about(kind, name, &kind.resource)
    }

    /// The name is taken by what is on its way out.
    pub fn still_exists(kind: &Kind, name: &str) -> Self {
        let mut refusal = Self::already_exists(kind, name);
        refusal.message.insert_str(0, "object is being deleted: ");
        refusal
    }

    /// No free name was found for a `generateName`.
    pub fn no_name_found(kind: &Kind, name: &str) -> Self {
        let mut refusal = Self::already_exists(kind, name);
        refusal
            .message
            .push_str(", the server was not able to generate a unique name for the object");
        refusal.retry_after(1)
    }

    /// The object has changed since the caller read it.
    pub fn modified(kind: &Kind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest \
                   version and try again";
        Self::conflict(kind, name, why)
    }

    /// The object has another UID than the caller means.
    pub fn other_uid(kind: &Kind, name: &str, key: &[u8], asked: &str, is: &str) -> Self {
        let key = String::from_utf8_lossy(key);
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: UID in precondition: {asked}, UID in object \
             meta: {is}"
        );
        Self::conflict(kind, name, &why)
    }

    /// The object is not in a state in which this can be done.
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

    /// Others own what somebody wants to set.
    pub fn apply_conflict(message: String, causes: Vec<(String, String)>) -> Self {
        let mut refusal = Self::new(409, "Conflict", message);
        for (message, field) in causes {
            refusal.add_cause(json!({
                "reason": "FieldManagerConflict",
                "message": message,
                "field": field,
            }));
        }
        refusal
    }

    /// A precondition of a deletion does not hold.
    pub fn precondition(kind: &Kind, name: &str, why: &str) -> Self {
        let of = kind.qualified_kind();
        let message = format!("Operation cannot be fulfilled on {of} \"{name}\": {why}");
        Self::new(409, "Conflict", message).about(kind, name, &kind.kind)
    }

    /// The object is wrong.
    pub fn invalid(kind: &Kind, name: &str, errors: &[FieldError]) -> Self {
        // Events of both groups are one kind, which is judged as that of the first.
        let kind = match kind.group == "events.k8s.io" {
            true => kinds().get(core_kind("events")),
            false => kind,
        };
        let of = kind.qualified_kind();
        let message = format!("{of} \"{name}\" is invalid: {}", validate::message(errors));
        Self::new(422, "Invalid", message)
            .about(kind, name, &kind.kind)
            .because(errors)
    }

    /// The object is wrong; this one is named by its resource, not by its kind.
    pub fn invalid_resource(kind: &Kind, name: &str, errors: &[FieldError]) -> Self {
        let of = kind.qualified_resource();
        let message = format!("{of} \"{name}\" is invalid: {}", validate::message(errors));
        Self::new(422, "Invalid", message)
            .about(kind, name, &kind.resource)
            .because(errors)
    }

    /// The same for an object whose kind is not that of the path.
    pub fn invalid_named(kind: &str, group: &str, name: &str, errors: &[FieldError]) -> Self {
        let found = validate::message(errors);
        let message = format!("{kind}.{group} \"{name}\" is invalid: {found}");
        let mut refusal = Self::new(422, "Invalid", message);
        refusal.details = Some(Box::new(
            json!({"name": name, "group": group, "kind": kind}),
        ));
        refusal.because(errors)
    }

    /// The parameters of the request are wrong; `options` is `ListOptions` and so on.
    pub fn invalid_options(options: &str, errors: &[FieldError]) -> Self {
        let found = validate::message(errors);
        let message = format!("{options}.meta.k8s.io \"\" is invalid: {found}");
        let mut refusal = Self::new(422, "Invalid", message);
        refusal.details = Some(Box::new(json!({"group": "meta.k8s.io", "kind": options})));
        refusal.because(errors)
    }

    /// What a patch made of the object is wrong.
    pub fn invalid_patch(errors: &[FieldError]) -> Self {
        let message = format!(" \"\" is invalid: {}", validate::message(errors));
        Self::new(422, "Invalid", message)
            .empty_details()
            .because(errors)
    }

    /// A patch cannot be carried out.
    pub fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message).empty_details()
    }

    /// The request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Nobody knows who asks.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// The caller may not do this to a resource; `scope` says where, `why` what stands in
    /// the way if that is known.
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
        let mut refusal = Self::new(403, "Forbidden", message);
        for (member, value) in [("name", name.unwrap_or("")), ("group", group)] {
            if !value.is_empty() {
                refusal.detail(member, value.into());
            }
        }
        refusal.detail("kind", (*resource).into());
        refusal
    }

    /// The caller may not do this to a path.
    pub fn forbidden_path(principal: &Principal, verb: &str, path: &str, why: &str) -> Self {
        let user = &principal.user;
        let mut message = format!("forbidden: User \"{user}\" cannot {verb} path \"{path}\"");
        if !why.is_empty() {
            message.push_str(": ");
            message.push_str(why);
        }
        Self::new(403, "Forbidden", message).empty_details()
    }

    /// The credential belongs nowhere.
    pub fn no_tenant(why: &str) -> Self {
        Self::new(403, "Forbidden", format!("forbidden: {why}")).empty_details()
    }

    /// The object may not be treated so, whoever asks.
    pub fn not_allowed(kind: &Kind, name: &str, why: &str) -> Self {
        let resource = kind.qualified_resource();
        let message = format!("{resource} \"{name}\" is forbidden: {why}");
        Self::new(403, "Forbidden", message).about(kind, name, &kind.resource)
    }

    /// With a cause.
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

    /// No representation that the caller accepts is served.
    pub fn not_acceptable() -> Self {
        let message = "406: Not Acceptable\n\nAvailable representations: application/json, \
                       application/yaml, application/vnd.kubernetes.protobuf";
        Self::new(406, "NotAcceptable", message).empty_details()
    }

    /// No form of the object that the caller accepts is served.
    pub fn no_such_form(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// Nor is any other.
    pub fn no_such_transform() -> Self {
        Self::no_such_form(
            "only the following media types are accepted: application/json, application/yaml, \
             application/vnd.kubernetes.protobuf",
        )
    }

    /// The body is in a format that is not understood.
    pub fn unsupported_body() -> Self {
        let message = "the body of the request was in an unknown format - accepted media types \
                       include: application/json, application/yaml, \
                       application/vnd.kubernetes.protobuf";
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// The same of a kind that users define.
    pub fn unsupported_custom_body() -> Self {
        let message = "the body of the request was in an unknown format - accepted media types \
                       include: application/json, application/yaml";
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// The same of a patch of a kind that users define.
    pub fn unsupported_custom_patch() -> Self {
        let message = "the body of the request was in an unknown format - accepted media types \
                       include: application/json-patch+json, application/merge-patch+json, \
                       application/apply-patch+yaml";
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// The patch is in a format that is not understood.
    pub fn unsupported_patch() -> Self {
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").empty_details()
    }

    /// The body is too large.
    pub fn too_large(what: &str) -> Self {
        let message = format!("Request entity too large: {what}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// What was asked for is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// A continue token is too old; this one goes on with what is there now.
    pub fn expired_token(token: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list \
            result. You can start a new list without the continue parameter, or use the continue \
            token in this response to retrieve the remainder of the results. Continuing with the \
            provided token results in an inconsistent list - objects that were created, modified, \
            or deleted between the time the first chunk was returned and now may show up in the \
            list.";
        let mut refusal = Self::expired(message);
        refusal.proceed = Some(token);
        refusal
    }

    /// The revision has not happened yet.
    pub fn future(asked: Revision, current: Revision) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let mut refusal = Self::new(504, "Timeout", message).retry_after(1);
        refusal.add_cause(json!({
            "reason": "ResourceVersionTooLarge",
            "message": "Too large resource version",
        }));
        refusal
    }

    /// The request took too long.
    pub fn timeout() -> Self {
        let message = "Timeout: request did not complete within the allotted timeout";
        Self::new(504, "Timeout", message).empty_details()
    }

    /// Something that Kubernetes answers with 500 and no reason.
    pub fn plain_error(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// The server failed.
    pub fn internal(error: impl ToString) -> Self {
        let error = error.to_string();
        let mut refusal = Self::new(
            500,
            "InternalError",
            format!("Internal error occurred: {error}"),
        );
        refusal.add_cause(json!({"message": error}));
        refusal
    }

    /// The store cannot be reached; asking again makes sense.
    pub fn unavailable(error: impl ToString) -> Self {
        let message = format!("the store is not available: {}", error.to_string());
        Self::new(503, "ServiceUnavailable", message).retry_after(1)
    }

    /// It would need a node.
    pub fn not_implemented(subresource: &str) -> Self {
        let message = format!(
            "{subresource} needs a node that runs the pod, and nothing runs pods in Insula: they \
             are objects here"
        );
        Self::new(501, "NotImplemented", message)
    }

    /// Too much is asked at once.
    pub fn too_many(message: impl Into<String>) -> Self {
        Self::new(429, "TooManyRequests", message)
    }

    /// Others come first; asking again soon makes sense.
    pub fn overloaded() -> Self {
        let mut refusal = Self::too_many("Too many requests, please try again later.");
        refusal.plain = Some("Too many requests, please try again later.\n");
        refusal.retry_after(1)
    }

    /// The body came too slowly.
    pub fn too_slow() -> Self {
        let message = "the body of the request did not arrive in time";
        Self::new(408, "Timeout", message)
    }

    /// With the time after which to ask again.
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
    /// What a store's failure means to a client. A write of which it is not known whether
    /// it happened is told as such, never as a conflict.
    fn from(error: insula_store::Error) -> Self {
        use insula_store::Error;
        match error {
            Error::Compacted { .. } => {
                Self::expired("The resourceVersion for the provided list is too old.")
            }
            Error::Future { current } => Self::future(current.next(), current),
            Error::TooLarge { .. } => Self::plain_error("etcdserver: request is too large"),
            Error::Unavailable(why) => Self::unavailable(why),
            Error::Full(_) | Error::Invalid(_) | Error::Corrupt { .. } => Self::internal(error),
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
