//! The annotation with the last configuration of kubectl's client-side apply.

use insula_kinds::{Object, Value, go};

use super::Subject;
use crate::{Set, typed};

/// The manager that may take over from client-side apply.
pub(super) const KUBECTL: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The maximum size of all annotations in bytes.
const MAX_ANNOTATIONS_SIZE: usize = 256 * 1024;

/// Returns the fields of the last configuration that still have its values: kubectl may change them
/// whatever manager owns them. Returns `None` if there is no valid annotation.
pub(super) fn allowed(subject: &Subject<'_>, live: &Object) -> Option<Set> {
    let text = annotations(live)?.get(ANNOTATION)?.as_str()?;
    let last: Object = serde_json::from_str(text).ok()?;
    let member = |name| last.get(name).and_then(Value::as_str).unwrap_or_default();
    if member("kind").is_empty() || member("apiVersion") != subject.api_version {
        return None;
    }
    typed::check(subject.schema, live, false).ok()?;
    typed::check(subject.schema, &last, false).ok()?;
    let fields = typed::fields(subject.schema, &last).ok()?;
    let change = typed::compare(subject.schema, &last, live).ok()?;
    let fields = fields.difference(&change.modified);
    Some(fields.difference(&change.added).difference(&change.removed))
}

/// Updates the annotation with the applied configuration, if the object has one.
pub(super) fn renew(object: &mut Object, config: &Object) {
    let metadata = object.get_mut("metadata");
    let all = metadata.and_then(|metadata| metadata.get_mut("annotations"));
    let Some(Value::Object(all)) = all else {
        return;
    };
    let known = all.get(ANNOTATION).and_then(Value::as_str);
    if known.is_none_or(str::is_empty) {
        return;
    }
    let text = remembered(config);
    all.insert(ANNOTATION.to_owned(), text.into());
    let size = |(name, value): (&String, &Value)| name.len() + value.as_str().map_or(0, str::len);
    if all.iter().map(size).sum::<usize>() > MAX_ANNOTATIONS_SIZE {
        all.remove(ANNOTATION);
    }
}

fn remembered(config: &Object) -> String {
    let mut config = config.clone();
    if let Some(Value::Object(metadata)) = config.get_mut("metadata") {
        match metadata.get_mut("annotations") {
            Some(Value::Object(all)) if all.values().all(is_text) => {
                all.remove(ANNOTATION);
                for text in all.values_mut().filter(|text| text.is_null()) {
                    *text = "".into();
                }
            }
            _ => {
                metadata.remove("annotations");
            }
        }
    }
    go::json(&Value::Object(config)) + "\n"
}

/// Returns the annotations, if they are an object.
fn annotations(object: &Object) -> Option<&Object> {
    let all = object.get("metadata")?.get("annotations")?.as_object()?;
    all.values().all(is_text).then_some(all)
}

/// Returns whether the value can be an annotation; null counts as the empty string.
fn is_text(value: &Value) -> bool {
    value.is_string() || value.is_null()
}
