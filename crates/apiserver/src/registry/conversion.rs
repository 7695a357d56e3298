//! Conversion of custom objects by the webhook of their definition.

use std::collections::BTreeSet;

use insula_admission::webhook::Client;
use insula_custom::kind::Conversion;
use insula_kinds::{Object, Value};
use serde_json::json;
use uuid::Uuid;

use crate::egress::{Call, MAX_CONVERSION_BYTES, MAX_TIMEOUT};
use crate::registry::Registry;
use crate::registry::resource::Custom;
use crate::request::context::RequestContext;
use crate::status::{Result, StatusError};

/// The supported versions of `ConversionReview`.
const KNOWN: [&str; 2] = ["v1", "v1beta1"];

/// Converts objects to the version `to`, in their order.
///
/// The webhook is called on behalf of the definition's space: of the tenant for its own
/// definition, and of the system for a published one.
///
/// The request holds no seat meanwhile, because the webhook decides how long the call takes.
pub async fn convert(
    registry: &Registry,
    context: Option<&RequestContext>,
    to: &Custom,
    objects: Vec<Object>,
) -> Result<Vec<Object>> {
    let Conversion::Webhook {
        client_config,
        review_versions,
    } = &to.defined().definition().conversion
    else {
        return Ok(objects);
    };
    let request = ConversionRequest::new(to, review_versions, &objects);
    let call = Call {
        space: to.source(),
        // A list over all spaces has objects of many.
        object_space: None,
        client: &Client::read(client_config),
        body: request.review(&objects).to_string().into(),
        timeout: MAX_TIMEOUT,
        max_bytes: MAX_CONVERSION_BYTES,
    };
    let post = registry.egress().post(&**registry.cache(), call);
    let answer = match context {
        Some(context) => context.without_seat(post).await?,
        None => post.await,
    };
    let answer = answer.map_err(|error| request.failed(error.why()))?;
    let answer = serde_json::from_slice(&answer);
    let answer: Value = answer.map_err(|error| request.failed(&error.to_string()))?;
    request.read(&answer, objects)
}

/// A `ConversionReview` request.
struct ConversionRequest<'a> {
    to: &'a Custom,
    version: &'a str,
    uid: String,
    /// The API version and kind of the objects, as errors name them.
    from: String,
}

impl<'a> ConversionRequest<'a> {
    fn new(to: &'a Custom, versions: &'a [String], objects: &[Object]) -> Self {
        let known = versions
            .iter()
            .find(|version| KNOWN.contains(&version.as_str()));
        let text = |member: &str| {
            let text = objects
                .first()
                .and_then(|first| first.get(member)?.as_str());
            text.unwrap_or("")
        };
        Self {
            to,
            version: known.map_or("v1", String::as_str),
            uid: Uuid::new_v4().to_string(),
            from: format!("{}, Kind={}", text("apiVersion"), text("kind")),
        }
    }

    fn api_version(&self) -> String {
        format!("apiextensions.k8s.io/{}", self.version)
    }

    fn wanted(&self) -> &str {
        self.to.version().kind.api_version()
    }

    fn review(&self, objects: &[Object]) -> Value {
        json!({
            "kind": "ConversionReview",
            "apiVersion": self.api_version(),
            "request": {
                "uid": self.uid,
                "desiredAPIVersion": self.wanted(),
                "objects": objects,
            },
            "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}},
        })
    }

    fn read(&self, answer: &Value, given: Vec<Object>) -> Result<Vec<Object>> {
        let (kind, version) = (text(answer, "kind"), text(answer, "apiVersion"));
        if kind != "ConversionReview" || version != self.api_version() {
            let why = format!(
                "expected webhook response of {}, Kind=ConversionReview, got {version}, \
                 Kind={kind}",
                self.api_version()
            );
            return Err(self.failed(&why));
        }
        let response = &answer["response"];
        if text(response, "uid") != self.uid {
            let (wanted, got) = (&self.uid, text(response, "uid"));
            return Err(self.failed(&format!("expected response.uid={wanted:?}, got {got:?}")));
        }
        let result = &response["result"];
        let status = text(result, "status");
        if status != "Success" {
            let why = match text(result, "message") {
                "" => format!("response.result.status was '{status}', not 'Success'"),
                message => message.to_owned(),
            };
            return Err(self.failed(&why));
        }
        let converted = response["convertedObjects"].as_array();
        let converted = converted.map_or(&[][..], Vec::as_slice);
        if converted.len() != given.len() {
            return Err(self.returned(&format!(
                "{} objects, expected {}",
                converted.len(),
                given.len()
            )));
        }
        let pairs = given.into_iter().zip(converted).enumerate();
        pairs
            .map(|(index, (given, converted))| self.check(index, &given, converted))
            .collect()
    }

    /// The object that came back, if it is the one that was sent: a webhook may change no
    /// metadata but labels and annotations.
    fn check(&self, index: usize, given: &Object, converted: &Value) -> Result<Object> {
        let at = |why: String| self.returned(&format!("invalid object at index {index}: {why}"));
        let Value::Object(converted) = converted else {
            return Err(at("it is not an object".to_owned()));
        };
        let of = |object: &Object, member: &str| {
            let text = object.get(member).and_then(Value::as_str);
            text.unwrap_or("").to_owned()
        };
        let (wanted, got) = (self.wanted(), of(converted, "apiVersion"));
        if got != wanted {
            return Err(at(format!(
                "invalid groupVersion (expected {wanted}, received {got})"
            )));
        }
        let (wanted, got) = (of(given, "kind"), of(converted, "kind"));
        if got != wanted {
            return Err(at(format!(
                "invalid kind (expected {wanted}, received {got})"
            )));
        }
        let mut converted = converted.clone();
        self.restore(given, &mut converted)?;
        Ok(converted)
    }

    fn restore(&self, given: &Object, converted: &mut Object) -> Result<()> {
        let empty = Object::new();
        let before = given.get("metadata").and_then(Value::as_object);
        let before = before.unwrap_or(&empty);
        let Some(Value::Object(after)) = converted.get_mut("metadata") else {
            return Err(self.returned("invalid object: missing metadata in input object"));
        };
        for (member, called) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
            let text = |of: &Object| {
                of.get(member)
                    .and_then(Value::as_str)
                    .unwrap_or("")
                    .to_owned()
            };
            let (was, is) = (text(before), text(after));
            if was != is {
                return Err(self.returned(&format!(
                    "invalid object: must have the same {called}: {was} != {is}"
                )));
            }
        }
        let free = BTreeSet::from(["labels", "annotations"]);
        after.retain(|member, _| free.contains(member.as_str()));
        let kept = before
            .iter()
            .filter(|(name, _)| !free.contains(name.as_str()));
        after.extend(kept.map(|(name, value)| (name.clone(), value.clone())));
        Ok(())
    }

    fn failed(&self, why: &str) -> StatusError {
        StatusError::plain_error(format!(
            "conversion webhook for {} failed: {why}",
            self.from
        ))
    }

    fn returned(&self, what: &str) -> StatusError {
        let from = &self.from;
        StatusError::plain_error(format!("conversion webhook for {from} returned {what}"))
    }
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or("")
}
