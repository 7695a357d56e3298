//! Reviews: objects that are created to ask a question, and are not stored.

mod access;

use http::StatusCode;
use insula_core::{Principal, Spaces};
use insula_kinds::{Kind, Object, Value, validate};
use serde_json::json;

use crate::codec::answer::Answer;
use crate::codec::input::{self, Sent};
use crate::codec::view::View;
use crate::pipeline::authenticate::Authenticator;
use crate::pipeline::authorize::{Granted, may_enter_space};
use crate::registry::Registry;
use crate::request::negotiate::{Accepted, Asked, Form};
use crate::request::query::{Query, WriteOptions};
use crate::status::{Result, StatusError};
use crate::write::insula_extra;

/// Whether the kind is a review.
pub fn is_review(kind: &Kind) -> bool {
    kind.verbs == ["create"] && kind.kind.ends_with("Review")
}

/// Answers the review in the body.
pub async fn answer(
    registry: &Registry,
    authenticator: &Authenticator,
    granted: &Granted,
    query: &Query,
    accepted: Accepted,
    sent: &Sent,
) -> Result<Answer> {
    if accepted.form == Form::Table {
        // A review has no table columns.
        return Err(StatusError::no_such_transform(Asked::Untabled.served()));
    }
    let options = WriteOptions::read(query, "CreateOptions")?;
    let kind = granted.path().of();
    let written = input::read(sent, kind.into(), options.validation)?;
    let mut review = written.object;
    set_namespace(granted, &mut review)?;
    let errors = match kind.group.as_str() {
        // Kubernetes validates these only as below.
        "authentication.k8s.io" => Vec::new(),
        _ => validate::create(kind, &review),
    };
    if !errors.is_empty() {
        // Kubernetes reports errors of these reviews without kind and name.
        return Err(StatusError::invalid_named("", &kind.group, "", &errors));
    }
    let status = match kind.kind.as_str() {
        "SelfSubjectReview" => whoami(granted.principal()),
        "TokenReview" => token_review(registry, authenticator, granted, &review).await?,
        "SelfSubjectAccessReview" => access::review_caller(registry, granted, &review).await?,
        "SelfSubjectRulesReview" => {
            let status = access::list_rules(registry, granted, &review).await?;
            review.insert("spec".to_owned(), json!({}));
            status
        }
        _ => access::review_subject(registry, granted, &review).await?,
    };
    review.insert("status".to_owned(), status);
    if kind.kind == "SelfSubjectReview" {
        let now = insula_kinds::time::now();
        review.insert("metadata".to_owned(), json!({"creationTimestamp": now}));
    }
    let view = View::of_status(accepted);
    let body = view.value(kind.api_version(), &kind.kind, kind.type_id(), &review);
    Ok(Answer::new(StatusCode::CREATED, body)
        .of(accepted)
        .warned(written.warnings))
}

/// Sets the namespace of a review to that of its path.
fn set_namespace(granted: &Granted, review: &mut Object) -> Result<()> {
    let Some(namespace) = &granted.path().namespace else {
        return Ok(());
    };
    let metadata = review.entry("metadata").or_insert_with(|| json!({}));
    match metadata.get("namespace").and_then(Value::as_str) {
        Some(given) if !given.is_empty() && given != namespace => Err(StatusError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
        _ => {
            metadata["namespace"] = namespace.as_str().into();
            Ok(())
        }
    }
}

fn whoami(principal: &Principal) -> Value {
    json!({"userInfo": user_info(principal)})
}

/// Returns a principal as user info; the tenant is an extra, which stock clients show.
fn user_info(principal: &Principal) -> Value {
    let mut info = json!({
        "username": principal.user,
        "groups": principal.groups,
        "extra": insula_extra(principal),
    });
    if let Some(uid) = &principal.uid {
        info["uid"] = uid.as_str().into();
    }
    info
}

async fn token_review(
    registry: &Registry,
    authenticator: &Authenticator,
    granted: &Granted,
    review: &Object,
) -> Result<Value> {
    let member = |member: &str| review.get("spec").and_then(|spec| spec.get(member));
    let token = member("token").and_then(Value::as_str);
    let Some(token) = token.filter(|token| !token.is_empty()) else {
        return Err(StatusError::bad_request(
            "token is required for TokenReview in authentication",
        ));
    };
    let audiences = member("audiences").and_then(Value::as_array);
    let audiences = audiences.into_iter().flatten().filter_map(Value::as_str);
    let audiences: Vec<String> = audiences.map(str::to_owned).collect();
    let authenticated = authenticator.token(registry, token, &audiences).await;
    let refused = |why: &str| json!({"user": {}, "error": why});
    Ok(match authenticated {
        Ok(authenticated)
            if belongs_to_space(registry, granted, &authenticated.principal).await? =>
        {
            json!({
                "authenticated": true,
                "user": user_info(&authenticated.principal),
                "audiences": authenticated.audiences,
            })
        }
        Ok(_) => refused("invalid bearer token"),
        Err(unknown) => refused(unknown.message_in(granted.spaces())),
    })
}

/// Whether a principal belongs to the space of the review. One of another space does not, nor
/// does one of a deleted tenant of the same name.
async fn belongs_to_space(
    registry: &Registry,
    granted: &Granted,
    principal: &Principal,
) -> Result<bool> {
    match granted.spaces() {
        Spaces::One(space) if *space == principal.home => {
            may_enter_space(registry, principal, space).await
        }
        _ => Ok(false),
    }
}
