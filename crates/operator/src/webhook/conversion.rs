//! Conversion reviews: `apiextensions.k8s.io/v1`.
//!
//! A review is converted as a whole or not at all. Whatever the handler does, converted objects
//! keep their order and their metadata; only labels and annotations are the handler's.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::review;

const API_VERSION: &str = "apiextensions.k8s.io/v1";
const KIND: &str = "ConversionReview";

/// Converts one object to the desired `apiVersion`. The error is a message.
///
/// The object's own `apiVersion` is the version to convert from. For small reviews the handler is
/// called on a thread of the runtime, and must not block.
pub type ConversionHandler = Arc<dyn Fn(Value, &str) -> Result<Value, String> + Send + Sync>;

/// The request of a review.
#[derive(Debug, Deserialize)]
pub(super) struct ConversionRequest {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired_api_version: String,
    #[serde(default)]
    objects: Vec<Value>,
}

/// A handler that panicked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Panicked;

/// Parses the request of a review. The error is a message for the caller.
pub(super) fn parse(body: &[u8]) -> Result<ConversionRequest, String> {
    let request: ConversionRequest = review::request(body, API_VERSION, KIND)?;
    for (member, text) in [
        ("uid", &request.uid),
        ("desiredAPIVersion", &request.desired_api_version),
    ] {
        if text.is_empty() {
            return Err(format!("the request of the {KIND} has no {member}"));
        }
    }
    Ok(request)
}

/// Converts the objects of a review and returns the review with its response.
pub(super) async fn convert(
    handler: &ConversionHandler,
    request: ConversionRequest,
) -> Result<Value, Panicked> {
    let desired = &request.desired_api_version;
    let mut converted = Vec::with_capacity(request.objects.len());
    let mut failure = None;
    for object in request.objects {
        let name = describe(&object);
        let result = catch_unwind(AssertUnwindSafe(|| convert_one(handler, object, desired)));
        match result.map_err(|_| Panicked)? {
            Ok(object) => converted.push(object),
            Err(why) => {
                failure = Some(format!("{name} not converted to {desired}: {why}"));
                break;
            }
        }
        // A review may have many objects; other requests and its timeout get their turn.
        tokio::task::yield_now().await;
    }
    let response = match failure {
        None => json!({
            "uid": request.uid,
            "convertedObjects": converted,
            "result": {"status": "Success"},
        }),
        Some(message) => json!({
            "uid": request.uid,
            "convertedObjects": [],
            "result": {"status": "Failure", "message": message},
        }),
    };
    Ok(json!({"apiVersion": API_VERSION, "kind": KIND, "response": response}))
}

fn convert_one(handler: &ConversionHandler, object: Value, desired: &str) -> Result<Value, String> {
    let Value::Object(given) = &object else {
        return Err("it is not an object".to_owned());
    };
    if text(given, "apiVersion") == desired {
        return Ok(object);
    }
    let kind = text(given, "kind").to_owned();
    let metadata = given.get("metadata").cloned();
    let Value::Object(mut converted) = handler(object, desired)? else {
        return Err("the handler returned no object".to_owned());
    };
    let got = text(&converted, "apiVersion");
    if got != desired {
        return Err(format!("the handler returned the version {got:?}"));
    }
    let got = text(&converted, "kind");
    if got != kind {
        return Err(format!("the handler returned the kind {got:?}"));
    }
    restore_metadata(metadata, &mut converted);
    Ok(Value::Object(converted))
}

/// Replaces the metadata by that of the given object, except labels and annotations. An object
/// that the handler returned without metadata keeps these too.
fn restore_metadata(given: Option<Value>, converted: &mut Map<String, Value>) {
    let mut metadata = match given {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    if let Some(Value::Object(mut changed)) = converted.remove("metadata") {
        for member in ["labels", "annotations"] {
            match changed.remove(member) {
                Some(value) => metadata.insert(member.to_owned(), value),
                None => metadata.remove(member),
            };
        }
    }
    converted.insert("metadata".to_owned(), Value::Object(metadata));
}

/// Returns the kind, namespace and name of an object, for messages.
fn describe(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    let (kind, version) = (text(&object["kind"]), text(&object["apiVersion"]));
    match namespace.is_empty() {
        true => format!("{kind} {name} of {version}"),
        false => format!("{kind} {namespace}/{name} of {version}"),
    }
}

fn text<'a>(object: &'a Map<String, Value>, member: &str) -> &'a str {
    object
        .get(member)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
