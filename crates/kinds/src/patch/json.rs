//! JSON patches (RFC 6902), as leniently as Kubernetes applies them.
//!
//! Where the standard wants an error, Kubernetes has none: a `replace` of a member that
//! is absent adds it, a `test` for null succeeds on what is absent, a `copy` of what is
//! absent adds null, and lists are counted from their end by negative numbers.

use serde_json::Value;

use super::PatchError;
use super::document::{Document, json_type, read_list_of};

/// How many operations a patch may have.
const MAX_OPERATIONS: usize = 10_000;

/// How many bytes of JSON all `copy` operations together may add: as much as a request may
/// have.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// How deep a document may become: as deep as one that is read.
const MAX_DEPTH: usize = 127;

/// How many values may be moved in lists, or visited to find out how deep they are, by all
/// operations together: ten thousand operations on one long list must not take minutes.
const MAX_WORK: usize = 100_000_000;

const MEMBERS: [&str; 4] = ["op", "path", "from", "value"];

/// Applies a JSON patch. Gives what is odd about the patch: members of operations that
/// are there twice or that nobody knows.
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
    let mut patcher = Patcher {
        document,
        copied: 0,
        work: 0,
    };
    for operation in operations {
        patcher.apply(operation).ok_or(PatchError::Unprocessable)?;
    }
    let named = |problem| format!("json patch {problem}");
    Ok(problems.into_iter().map(named).collect())
}

/// One operation; what is missing is none, which is not the same as wrong.
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

/// A path, already split: the way to a container, and the key in it.
struct Path {
    steps: Vec<String>,
    key: String,
}

impl Patcher<'_> {
    /// Applies one operation; nothing if it does not apply, whatever the reason: clients
    /// are not told.
    fn apply(&mut self, operation: Operation) -> Option<()> {
        let path = operation.path?;
        match operation.op?.as_str() {
            "add" => self.add(&Path::parse(&path)?, operation.value.unwrap_or_default()),
            "remove" => self.remove(&Path::parse(&path)?).map(drop),
            "replace" => self.replace(&path, operation.value),
            "move" => {
                let value = self.remove(&Path::parse(&operation.from?)?)?;
                self.add(&Path::parse(&path)?, value)
            }
            "copy" => self.copy(&Path::parse(&operation.from?)?, &Path::parse(&path)?),
            "test" => self.test(&path, operation.value.unwrap_or_default()),
            _ => None,
        }
    }

    fn add(&mut self, path: &Path, value: Value) -> Option<()> {
        self.fits(path, &value)?;
        let work = match self.container(path)? {
            Value::Object(object) => {
                object.insert(path.key.clone(), value);
                0
            }
            Value::Array(list) => {
                let at = match path.key.as_str() {
                    "-" => list.len(),
                    key => index(key, list.len() + 1)?,
                };
                let moved = list.len() - at;
                list.insert(at, value);
                moved
            }
            _ => return None,
        };
        self.spend(work)
    }

    fn remove(&mut self, path: &Path) -> Option<Value> {
        let (value, work) = match self.container(path)? {
            Value::Object(object) => (object.remove(&path.key)?, 0),
            Value::Array(list) => {
                let at = index(&path.key, list.len())?;
                (list.remove(at), list.len() - at)
            }
            _ => return None,
        };
        self.spend(work)?;
        Some(value)
    }

    fn replace(&mut self, path: &str, value: Option<Value>) -> Option<()> {
        if path.is_empty() {
            *self.document = value.filter(|value| value.is_object() || value.is_array())?;
            return Some(());
        }
        let path = Path::parse(path)?;
        let value = value.unwrap_or_default();
        self.fits(&path, &value)?;
        match self.container(&path)? {
            Value::Object(object) => {
                object.insert(path.key, value);
            }
            Value::Array(list) => {
                let at = index(&path.key, list.len())?;
                list[at] = value;
            }
            _ => return None,
        }
        Some(())
    }

    fn copy(&mut self, from: &Path, to: &Path) -> Option<()> {
        let value = self.get(from)?.cloned().unwrap_or_default();
        if !value.is_null() {
            self.copied += value.to_string().len();
        }
        if self.copied > MAX_COPIED {
            return None;
        }
        self.add(to, value)
    }

    fn test(&mut self, path: &str, value: Value) -> Option<()> {
        if path.is_empty() {
            return (*self.document == value).then_some(());
        }
        let found = self.get(&Path::parse(path)?)?;
        let equal = found.map_or(value.is_null(), |found| *found == value);
        equal.then_some(())
    }

    /// What is at the path: an absent member is found to be absent, but a list's element
    /// must be there.
    fn get(&mut self, path: &Path) -> Option<Option<&Value>> {
        match self.container(path)? {
            Value::Object(object) => Some(object.get(&path.key)),
            Value::Array(list) => {
                let at = index(&path.key, list.len())?;
                Some(list.get(at))
            }
            _ => None,
        }
    }

    fn container(&mut self, path: &Path) -> Option<&mut Value> {
        let mut at = &mut *self.document;
        for step in &path.steps {
            at = match at {
                Value::Object(object) => object.get_mut(step)?,
                Value::Array(list) => {
                    let at = index(step, list.len())?;
                    list.get_mut(at)?
                }
                _ => return None,
            };
        }
        Some(at)
    }

    /// Whether the document stays readable with the value at the path.
    fn fits(&mut self, path: &Path, value: &Value) -> Option<()> {
        let mut visited = 0;
        let depth = depth_of(value, &mut visited);
        self.spend(visited)?;
        (path.steps.len() + 1 + depth <= MAX_DEPTH).then_some(())
    }

    fn spend(&mut self, work: usize) -> Option<()> {
        self.work += work;
        (self.work <= MAX_WORK).then_some(())
    }
}

impl Path {
    /// What stands before the first slash does not matter, but there must be one.
    fn parse(text: &str) -> Option<Self> {
        let (_, path) = text.split_once('/')?;
        let mut steps: Vec<_> = path.split('/').map(unescape).collect();
        let key = steps.pop()?;
        Some(Self { steps, key })
    }
}

/// Reads `~1` and `~0` in one pass: what one gives is not read again.
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

/// An index below the length; negative ones count from the end.
fn index(key: &str, length: usize) -> Option<usize> {
    let index: i64 = key.parse().ok()?;
    let index = match usize::try_from(index) {
        Ok(index) => index,
        Err(_) => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?,
    };
    (index < length).then_some(index)
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

fn bad(why: String) -> PatchError {
    PatchError::BadRequest(format!("error decoding patch: {why}"))
}
