//! JSON patches (RFC 6902), as leniently as Kubernetes applies them.
//!
//! Where the standard requires an error, Kubernetes has none: a `replace` of an absent
//! member adds it, a `test` for null succeeds on an absent member, a `copy` of an absent
//! member adds null, and negative indexes count from the end of a list.

use std::num::IntErrorKind;

use serde_json::Value;

use super::{PatchError, json_type};
use crate::decode::document::{Document, read_list_of};
use insula_gotext::quote;

/// Maximum number of operations in a patch.
const MAX_OPERATIONS: usize = 10_000;

/// Maximum number of JSON bytes that all `copy` operations together may add: the maximum
/// size of a request.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// Maximum depth of the patched document: that of a decoded one.
const MAX_DEPTH: usize = 127;

/// Maximum number of values that all operations together may move in lists, or visit to
/// measure depth: ten thousand operations on one long list must not take minutes.
const MAX_WORK: usize = 100_000_000;

const MEMBERS: [&str; 4] = ["op", "path", "from", "value"];

/// Applies a JSON patch. Returns warnings about duplicate and unknown members of
/// operations.
///
/// # Errors
///
/// If the patch is malformed, too large, or does not apply.
pub fn json(document: &mut Value, patch: &[u8]) -> Result<Vec<String>, PatchError> {
    let Document { value, problems } = read_list_of(patch, &MEMBERS).map_err(bad)?;
    let operations = operations(value)?;
    let count = operations.len();
    if count > MAX_OPERATIONS {
        let limit = format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}");
        return Err(PatchError::TooLarge(format!("{limit}, got {count}")));
    }
    // As upstream, the response does not contain the reason.
    apply(document, operations).map_err(|_| PatchError::Unprocessable)?;
    let named = |problem| format!("json patch {problem}");
    Ok(problems.into_iter().map(named).collect())
}

/// Why a webhook's patch was not applied, in the wording of the Go library that
/// Kubernetes uses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookPatchError {
    /// The patch cannot be decoded.
    #[error("{0}")]
    Undecodable(String),
    /// The patch does not apply.
    #[error("{0}")]
    Inapplicable(String),
}

/// Applies a webhook's JSON patch. Returns whether it had any operation.
///
/// # Errors
///
/// If the patch is malformed or does not apply, with the reason for the response.
pub fn webhook_json(document: &mut Value, patch: &[u8]) -> Result<bool, WebhookPatchError> {
    let undecodable = WebhookPatchError::Undecodable;
    let list = crate::decode::any(patch).map_err(undecodable)?;
    let wrong = |found: &Value, wanted: &str| {
        let found = json_type(found);
        let reason =
            format!("json: cannot unmarshal {found} into Go value of type jsonpatch.{wanted}");
        WebhookPatchError::Undecodable(reason)
    };
    let list = match list {
        Value::Null => Vec::new(),
        Value::Array(list) => list,
        other => return Err(wrong(&other, "Patch")),
    };
    if list.len() > MAX_OPERATIONS {
        let reason = format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}");
        return Err(WebhookPatchError::Inapplicable(reason));
    }
    let mut operations = Vec::with_capacity(list.len());
    for value in list {
        let mut members = match value {
            Value::Object(members) => members,
            Value::Null => crate::Object::new(),
            other => return Err(wrong(&other, "Operation")),
        };
        // A member that is not a string counts as absent, and fails when it is needed.
        let mut text = |name| match members.remove(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        operations.push(Operation {
            op: text("op"),
            path: text("path"),
            from: text("from"),
            value: members.remove("value"),
        });
    }
    let any = !operations.is_empty();
    apply(document, operations).map_err(WebhookPatchError::Inapplicable)?;
    Ok(any)
}

/// Applies the operations; the error is the reason.
fn apply(document: &mut Value, operations: Vec<Operation>) -> Result<(), String> {
    let mut patcher = Patcher {
        document,
        copied: 0,
        work: 0,
    };
    operations
        .into_iter()
        .try_for_each(|operation| patcher.apply(operation))
}

/// One operation. A missing member is `None`, and an error only where it is needed.
struct Operation {
    op: Option<String>,
    path: Option<String>,
    from: Option<String>,
    value: Option<Value>,
}

struct Patcher<'a> {
    document: &'a mut Value,
    copied: usize,
    work: usize,
}

/// A parsed path: the steps to a container, and the key in it.
struct Path {
    steps: Vec<String>,
    key: String,
}

/// The result of a step, or the reason for its failure.
type Step<T> = Result<T, String>;

const MISSING: &str = "missing value";
const INDEX: &str = "invalid index referenced";
const TEST: &str = "test failed";

impl Patcher<'_> {
    fn apply(&mut self, operation: Operation) -> Step<()> {
        let Operation {
            op,
            path,
            from,
            value,
        } = operation;
        let op = op.as_deref().unwrap_or("unknown");
        match op {
            "add" => {
                let path = path.ok_or_else(|| undecoded(op, "path", MISSING))?;
                let place = format!("doc is missing path: \"{path}\"");
                let to = self.resolve(op, &place, &path)?;
                let added = self.add(&to, value.unwrap_or_default());
                added.map_err(|reason| format!("error in add for path: '{path}': {reason}"))
            }
            "remove" => {
                let path = path.ok_or_else(|| undecoded(op, "path", MISSING))?;
                let place = format!("doc is missing path: \"{path}\"");
                let at = self.resolve(op, &place, &path)?;
                let removed = self.remove(&at).map(drop);
                removed.map_err(|reason| format!("error in remove for path: '{path}': {reason}"))
            }
            "replace" => self.replace(&path.ok_or_else(|| no_path(op))?, value),
            "move" => self.move_value(path, from),
            "copy" => self.copy(path, from),
            "test" => self.test(&path.ok_or_else(|| no_path(op))?, value.unwrap_or_default()),
            _ => Err(format!("Unexpected kind: {op}")),
        }
    }

    /// Parses a path and checks that its container exists.
    fn resolve(&mut self, op: &str, missing: &str, path: &str) -> Step<Path> {
        let refuse = || format!("{op} operation does not apply: {missing}: {MISSING}");
        let path = Path::parse(path).ok_or_else(refuse)?;
        self.container(&path).ok_or_else(refuse)?;
        Ok(path)
    }

    fn add(&mut self, path: &Path, value: Value) -> Step<()> {
        self.check_depth(path, &value)?;
        let work = match self.container(path) {
            Some(Value::Object(object)) => {
                object.insert(path.key.clone(), value);
                0
            }
            Some(Value::Array(list)) => {
                let at = match path.key.as_str() {
                    "-" => list.len(),
                    key => index(key, list.len() + 1).map_err(|reason| match reason {
                        IndexError::NotANumber(reason) => {
                            format!("value was not a proper array index: '{key}': {reason}")
                        }
                        IndexError::OutOfRange(reason) => reason,
                    })?,
                };
                let moved = list.len() - at;
                list.insert(at, value);
                moved
            }
            _ => return Err(MISSING.to_owned()),
        };
        self.charge(work)
    }

    fn remove(&mut self, path: &Path) -> Step<Value> {
        let key = &path.key;
        let (value, work) = match self.container(path) {
            Some(Value::Object(object)) => {
                let missing = || format!("Unable to remove nonexistent key: {key}: {MISSING}");
                (object.remove(key).ok_or_else(missing)?, 0)
            }
            Some(Value::Array(list)) => {
                let at = index(key, list.len())?;
                (list.remove(at), list.len() - at)
            }
            _ => return Err(MISSING.to_owned()),
        };
        self.charge(work)?;
        Ok(value)
    }

    fn replace(&mut self, path: &str, value: Option<Value>) -> Step<()> {
        if path.is_empty() {
            let whole = value.filter(|value| value.is_object() || value.is_array());
            let refuse = || "replace operation value must be object or array".to_owned();
            *self.document = whole.ok_or_else(refuse)?;
            return Ok(());
        }
        let place = format!("doc is missing path: {path}");
        let at = self.resolve("replace", &place, path)?;
        let value = value.unwrap_or_default();
        self.check_depth(&at, &value)?;
        match self.container(&at) {
            Some(Value::Object(object)) => {
                object.insert(at.key, value);
            }
            Some(Value::Array(list)) => {
                let at = index(&at.key, list.len()).map_err(|_| {
                    format!(
                        "replace operation does not apply: doc is missing key: {path}: {MISSING}"
                    )
                })?;
                list[at] = value;
            }
            _ => return Err(MISSING.to_owned()),
        }
        Ok(())
    }

    fn move_value(&mut self, path: Option<String>, from: Option<String>) -> Step<()> {
        let from = from.ok_or_else(|| undecoded("move", "from", NO_FROM))?;
        let place = format!("doc is missing from path: {from}");
        let at = self.resolve("move", &place, &from)?;
        let failed =
            |place: &str, reason: String| format!("error in move for path: '{place}': {reason}");
        let value = self.remove(&at).map_err(|reason| failed(&at.key, reason))?;
        let path = path.ok_or_else(|| undecoded("move", "path", NO_PATH))?;
        let place = format!("doc is missing destination path: {path}");
        let to = self.resolve("move", &place, &path)?;
        self.add(&to, value).map_err(|reason| failed(&path, reason))
    }

    fn copy(&mut self, path: Option<String>, from: Option<String>) -> Step<()> {
        let from = from.ok_or_else(|| undecoded("copy", "from", NO_FROM))?;
        let place = format!("doc is missing from path: {from}");
        let at = self.resolve("copy", &place, &from)?;
        let found = self.get(&at);
        let found =
            found.map_err(|reason| format!("error in copy for from: '{from}': {reason}"))?;
        let value = found.cloned().unwrap_or_default();
        let path = path.ok_or_else(|| undecoded("copy", "path", MISSING))?;
        let place = format!("doc is missing destination path: {path}");
        let to = self.resolve("copy", &place, &path)?;
        if !value.is_null() {
            self.copied += value.to_string().len();
        }
        if self.copied > MAX_COPIED {
            let copied = self.copied;
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, \
                 exceeding the limit {MAX_COPIED}"
            ));
        }
        let added = self.add(&to, value);
        added.map_err(|reason| format!("error while adding value during copy: {reason}"))
    }

    fn test(&mut self, path: &str, value: Value) -> Step<()> {
        let failed = || format!("testing value {path} failed: {TEST}");
        if path.is_empty() {
            return (*self.document == value).then_some(()).ok_or_else(failed);
        }
        let place = format!("is missing path: {path}");
        let at = self.resolve("test", &place, path)?;
        let found = self.get(&at);
        let found =
            found.map_err(|reason| format!("error in test for path: '{path}': {reason}"))?;
        let equal = found.map_or(value.is_null(), |found| *found == value);
        equal.then_some(()).ok_or_else(failed)
    }

    /// Returns the value at the path. An absent member is `None`, but an absent list
    /// element is an error.
    fn get(&mut self, path: &Path) -> Step<Option<&Value>> {
        match self.container(path) {
            Some(Value::Object(object)) => Ok(object.get(&path.key)),
            Some(Value::Array(list)) => {
                let at = index(&path.key, list.len())?;
                Ok(list.get(at))
            }
            _ => Err(MISSING.to_owned()),
        }
    }

    /// Returns the container of the path's last step.
    fn container(&mut self, path: &Path) -> Option<&mut Value> {
        let mut at = &mut *self.document;
        for step in &path.steps {
            at = match at {
                Value::Object(object) => object.get_mut(step)?,
                Value::Array(list) => {
                    let at = index(step, list.len()).ok()?;
                    list.get_mut(at)?
                }
                _ => return None,
            };
        }
        (at.is_object() || at.is_array()).then_some(at)
    }

    /// Checks that the document stays within the depth limit with the value at the path.
    fn check_depth(&mut self, path: &Path, value: &Value) -> Step<()> {
        let mut visited = 0;
        let depth = depth_of(value, &mut visited);
        self.charge(visited)?;
        let check_depth = path.steps.len() + 1 + depth <= MAX_DEPTH;
        let refuse = || format!("the document would be deeper than {MAX_DEPTH}");
        check_depth.then_some(()).ok_or_else(refuse)
    }

    fn charge(&mut self, work: usize) -> Step<()> {
        self.work += work;
        let refuse = || "the patch moves too much".to_owned();
        (self.work <= MAX_WORK).then_some(()).ok_or_else(refuse)
    }
}

const NO_PATH: &str = "operation missing path field: missing value";
const NO_FROM: &str = "operation, missing from field: missing value";

fn undecoded(op: &str, member: &str, reason: &str) -> String {
    format!("{op} operation failed to decode {member}: {reason}")
}

fn no_path(op: &str) -> String {
    undecoded(op, "path", NO_PATH)
}

impl Path {
    /// Anything before the first slash is ignored, but there must be one.
    fn parse(text: &str) -> Option<Self> {
        let (_, path) = text.split_once('/')?;
        let mut steps: Vec<_> = path.split('/').map(unescape).collect();
        let key = steps.pop()?;
        Some(Self { steps, key })
    }
}

/// Unescapes `~1` and `~0` in one pass, so that the result of one is not unescaped again.
fn unescape(step: &str) -> String {
    let mut parts = step.split('~');
    let mut unescaped = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.as_bytes().first() {
            Some(b'0') => {
                unescaped.push('~');
                unescaped.push_str(&part[1..]);
            }
            Some(b'1') => {
                unescaped.push('/');
                unescaped.push_str(&part[1..]);
            }
            _ => {
                unescaped.push('~');
                unescaped.push_str(part);
            }
        }
    }
    unescaped
}

/// Why a key is not a valid index.
enum IndexError {
    NotANumber(String),
    OutOfRange(String),
}

impl From<IndexError> for String {
    fn from(reason: IndexError) -> Self {
        match reason {
            IndexError::NotANumber(reason) | IndexError::OutOfRange(reason) => reason,
        }
    }
}

/// Parses an index below the length; negative ones count from the end.
fn index(key: &str, length: usize) -> Result<usize, IndexError> {
    let outside =
        || IndexError::OutOfRange(format!("Unable to access invalid index: {key}: {INDEX}"));
    let index: i64 = key.parse().map_err(|error: std::num::ParseIntError| {
        let reason = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        IndexError::NotANumber(format!("strconv.Atoi: parsing {}: {reason}", quote(key)))
    })?;
    let found = match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => usize::try_from(index.unsigned_abs())
            .ok()
            .and_then(|back| length.checked_sub(back)),
    };
    found.filter(|index| *index < length).ok_or_else(outside)
}

fn depth_of(value: &Value, visited: &mut usize) -> usize {
    *visited += 1;
    let inner = match value {
        Value::Array(list) => list.iter().map(|value| depth_of(value, visited)).max(),
        Value::Object(map) => map.values().map(|value| depth_of(value, visited)).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
}

fn operations(patch: Value) -> Result<Vec<Operation>, PatchError> {
    match patch {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) => list.into_iter().map(operation).collect(),
        other => Err(mismatch(&other, "Go value of type []handlers.jsonPatchOp")),
    }
}

fn operation(value: Value) -> Result<Operation, PatchError> {
    let mut members = match value {
        Value::Object(members) => members,
        Value::Null => crate::Object::new(),
        other => return Err(mismatch(&other, "Go value of type handlers.jsonPatchOp")),
    };
    let mut text = |name: &str| match members.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(mismatch(
            &other,
            &format!("Go struct field jsonPatchOp.{name} of type string"),
        )),
    };
    Ok(Operation {
        op: text("op")?,
        path: text("path")?,
        from: text("from")?,
        value: members.remove("value"),
    })
}

fn mismatch(found: &Value, wanted: &str) -> PatchError {
    let found = json_type(found);
    bad(format!("json: cannot unmarshal {found} into {wanted}"))
}

fn bad(reason: String) -> PatchError {
    PatchError::BadRequest(format!("error decoding patch: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn inapplicable_webhook_patch_is_reported_with_its_reason() {
        for (patch, reason) in [
            (
                r#"[{"op":"remove","path":"/nope"}]"#,
                "error in remove for path: '/nope': Unable to remove nonexistent key: nope: missing value",
            ),
            (
                r#"[{"op":"test","path":"/data/a","value":"x"}]"#,
                "testing value /data/a failed: test failed",
            ),
            (
                r#"[{"op":"add","path":"/x/y","value":1}]"#,
                "add operation does not apply: doc is missing path: \"/x/y\": missing value",
            ),
            (
                r#"[{"op":"add","path":"/l/9","value":1}]"#,
                "error in add for path: '/l/9': Unable to access invalid index: 9: invalid index referenced",
            ),
            (
                r#"[{"op":"add","path":"/l/x","value":1}]"#,
                "error in add for path: '/l/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            (
                r#"[{"op":"replace","path":"/x/y","value":1}]"#,
                "replace operation does not apply: doc is missing path: /x/y: missing value",
            ),
            (
                r#"[{"op":"replace","path":"/l/4","value":1}]"#,
                "replace operation does not apply: doc is missing key: /l/4: missing value",
            ),
            (
                r#"[{"op":"replace","path":"","value":1}]"#,
                "replace operation value must be object or array",
            ),
            (
                r#"[{"op":"move","from":"/q","path":"/r"}]"#,
                "error in move for path: 'q': Unable to remove nonexistent key: q: missing value",
            ),
            (
                r#"[{"op":"move","path":"/r"}]"#,
                "move operation failed to decode from: operation, missing from field: missing value",
            ),
            (
                r#"[{"op":"copy","from":"/q/r","path":"/r"}]"#,
                "copy operation does not apply: doc is missing from path: /q/r: missing value",
            ),
            (
                r#"[{"op":"test","value":1}]"#,
                "test operation failed to decode path: operation missing path field: missing value",
            ),
            (
                r#"[{"op":"add","value":1}]"#,
                "add operation failed to decode path: missing value",
            ),
            (r#"[{"op":"frob","path":"/a"}]"#, "Unexpected kind: frob"),
            (r#"[{"path":"/a"}]"#, "Unexpected kind: unknown"),
            (r#"[{"op":7,"path":"/a"}]"#, "Unexpected kind: unknown"),
        ] {
            let mut document = json!({"data": {"a": "b"}, "l": [1]});
            let found = webhook_json(&mut document, patch.as_bytes());
            let expected = WebhookPatchError::Inapplicable(reason.to_owned());
            assert_eq!(found, Err(expected), "{patch}");
        }
    }

    #[test]
    fn undecodable_and_inapplicable_webhook_patches_differ() {
        for (patch, reason) in [
            (
                "{}",
                "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
            ),
            (
                "[1]",
                "json: cannot unmarshal number into Go value of type jsonpatch.Operation",
            ),
            ("[", "unexpected end of JSON input"),
            (
                "nope",
                "invalid character 'o' in literal null (expecting 'u')",
            ),
        ] {
            let found = webhook_json(&mut json!({}), patch.as_bytes());
            let expected = WebhookPatchError::Undecodable(reason.to_owned());
            assert_eq!(found, Err(expected), "{patch}");
        }
    }

    #[test]
    fn empty_webhook_patch_reports_no_change() {
        for patch in ["[]", "null"] {
            assert_eq!(webhook_json(&mut json!({}), patch.as_bytes()), Ok(false));
        }
        let mut document = json!({});
        let patch = br#"[{"op":"add","path":"/a~1b","value":{"c":null}}]"#;
        assert_eq!(webhook_json(&mut document, patch), Ok(true));
        assert_eq!(document, json!({"a/b": {"c": null}}));
    }
}
