//! How many of it there are to be: a custom object as a Scale, and a Scale written back.

use insula_kinds::go::{Printed, type_name};
use insula_kinds::{FieldError, Object, Value};
use serde_json::json;

/// Where a kind keeps what a Scale shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// How many there are to be.
    pub spec: FieldPath,
    /// How many there are.
    pub status: FieldPath,
    /// Which pods they are, as the text of a label selector.
    pub selector: Option<FieldPath>,
}

/// A path of names with dots between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    text: String,
    names: Vec<String>,
}

/// Why an object cannot be scaled. The sentences are those of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScaleError {
    /// Nobody has said how many there are to be: an internal error.
    #[error("the spec replicas field {path:?} does not exist")]
    Missing {
        /// Where that would stand.
        path: String,
    },
    /// The object has something else in that place: a failure without a reason when it is
    /// read, a bad request when it was written.
    #[error("{0}")]
    Misfit(String),
    /// The scale does not say how many there are to be, and nor did the object: a bad
    /// request.
    #[error("the spec replicas field {path:?} cannot be empty")]
    Empty {
        /// Where that would stand.
        path: String,
    },
}

/// What stands for a number that nobody has given, as no scale can ask for it.
const UNSET: i64 = i32::MIN as i64;

impl FieldPath {
    /// The path that the text says, with or without a dot before it.
    pub fn new(text: &str) -> Self {
        let names = text.strip_prefix('.').unwrap_or(text).split('.');
        Self {
            text: text.to_owned(),
            names: names.map(str::to_owned).collect(),
        }
    }

    /// The path as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names, from the outside in.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What is there; a failure if the path leads through something that has no members.
    fn find<'a>(&self, object: &'a Object) -> Result<Option<&'a Value>, String> {
        let (first, rest) = match self.names.split_first() {
            Some((first, rest)) => (first, rest),
            None => return Ok(None),
        };
        let Some(mut value) = object.get(first) else {
            return Ok(None);
        };
        for (at, name) in rest.iter().enumerate() {
            value = match value {
                Value::Null => return Ok(None),
                Value::Object(members) => match members.get(name) {
                    Some(member) => member,
                    None => return Ok(None),
                },
                other => return Err(self.misfit(at + 2, other, "map[string]interface{}")),
            };
        }
        Ok(Some(value))
    }

    fn integer(&self, object: &Object) -> Result<Option<i64>, String> {
        match self.find(object)? {
            None => Ok(None),
            Some(value) => match value.as_i64() {
                Some(number) => Ok(Some(number)),
                None => Err(self.misfit(self.names.len(), value, "int64")),
            },
        }
    }

    fn string<'a>(&self, object: &'a Object) -> Result<&'a str, String> {
        match self.find(object)? {
            None => Ok(""),
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(self.misfit(self.names.len(), other, "string")),
        }
    }

    fn misfit(&self, names: usize, value: &Value, wanted: &str) -> String {
        let path = self.names.get(..names).unwrap_or(&self.names).join(".");
        let found = match value {
            Value::Null => "<nil>",
            other => type_name(other),
        };
        let value = Printed(value);
        format!(".{path} accessor error: {value} is of the type {found}, expected {wanted}")
    }

    fn set(&self, object: &mut Object, value: Value) -> Result<(), String> {
        let Some((last, path)) = self.names.split_last() else {
            return Ok(());
        };
        let mut members = object;
        for (at, name) in path.iter().enumerate() {
            let inner = members
                .entry(name.clone())
                .or_insert_with(|| Value::Object(Object::new()));
            members = match inner {
                Value::Object(inner) => inner,
                _ => {
                    let path = self.names.get(..=at).unwrap_or(&self.names).join(".");
                    return Err(format!(
                        "value cannot be set because .{path} is not a map[string]interface{{}}"
                    ));
                }
            };
        }
        members.insert(last.clone(), value);
        Ok(())
    }
}

impl ScalePaths {
    /// What `subresources.scale` of a version says.
    pub fn new(scale: &Value) -> Option<Self> {
        let path = |name: &str| scale.get(name).and_then(Value::as_str);
        Some(Self {
            spec: FieldPath::new(path("specReplicasPath")?),
            status: FieldPath::new(path("statusReplicasPath")?),
            selector: path("labelSelectorPath")
                .filter(|path| !path.is_empty())
                .map(FieldPath::new),
        })
    }

    /// The Scale of the object, as it is shown.
    pub fn get(&self, object: &Object) -> Result<Object, ScaleError> {
        let (replicas, scale) = self.read(object)?;
        match replicas {
            Some(_) => Ok(scale),
            None => Err(ScaleError::Missing {
                path: self.spec.text.clone(),
            }),
        }
    }

    /// The Scale that a write starts from: one that says nothing is told by a number that
    /// [`ScalePaths::put`] refuses.
    pub fn current(&self, object: &Object) -> Result<Object, ScaleError> {
        let (replicas, mut scale) = self.read(object)?;
        if replicas.is_none() {
            scale.insert("spec".to_owned(), json!({"replicas": UNSET}));
        }
        Ok(scale)
    }

    /// Writes into the object how many the Scale asks for.
    pub fn put(&self, object: &mut Object, scale: &Object) -> Result<(), ScaleError> {
        let replicas = scale.get("spec").and_then(|spec| spec.get("replicas"));
        let replicas = replicas.and_then(Value::as_i64).unwrap_or(0);
        if replicas == UNSET {
            return Err(ScaleError::Empty {
                path: self.spec.text.clone(),
            });
        }
        let set = self.spec.set(object, replicas.into());
        set.map_err(ScaleError::Misfit)
    }

    /// What is wrong with how many the object says there are to be.
    pub fn check_spec(&self, object: &Object) -> Option<FieldError> {
        check(&self.spec, object)
    }

    /// What is wrong with how many the object says there are, and which.
    pub fn check_status(&self, object: &Object) -> Vec<FieldError> {
        let selector = self.selector.as_ref().and_then(|path| {
            let wrong = path.string(object).err()?;
            Some(FieldError::invalid(&path.text, &"".into(), &wrong))
        });
        check(&self.status, object)
            .into_iter()
            .chain(selector)
            .collect()
    }

    fn read(&self, object: &Object) -> Result<(Option<i64>, Object), ScaleError> {
        let spec = self.spec.integer(object).map_err(ScaleError::Misfit)?;
        let status = self.status.integer(object).map_err(ScaleError::Misfit)?;
        let selector = match &self.selector {
            Some(path) => path.string(object).map_err(ScaleError::Misfit)?,
            None => "",
        };
        let mut status = json!({"replicas": as_go(status)});
        if !selector.is_empty() {
            status["selector"] = selector.into();
        }
        let mut scale = Object::new();
        scale.insert("apiVersion".to_owned(), "autoscaling/v1".into());
        scale.insert("kind".to_owned(), "Scale".into());
        scale.insert("metadata".to_owned(), metadata(object));
        scale.insert("spec".to_owned(), json!({"replicas": as_go(spec)}));
        scale.insert("status".to_owned(), status);
        Ok((spec, scale))
    }
}

/// The number in 32 bits, as Go cuts it.
fn as_go(number: Option<i64>) -> i32 {
    number.unwrap_or(0) as i32
}

/// What a Scale tells of whom it is about.
fn metadata(object: &Object) -> Value {
    const TOLD: [&str; 5] = [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ];
    let metadata = object.get("metadata");
    let told = TOLD.iter().filter_map(|name| {
        let value = metadata?.get(name)?;
        Some(((*name).to_owned(), value.clone()))
    });
    Value::Object(told.collect())
}

fn check(path: &FieldPath, object: &Object) -> Option<FieldError> {
    let (number, wrong) = match path.integer(object) {
        Err(wrong) => (0, wrong),
        Ok(number) => match number.unwrap_or(0) {
            number @ ..0 => (number, "should be a non-negative integer".to_owned()),
            number if number > i64::from(i32::MAX) => (
                number,
                format!("should be less than or equal to {}", i32::MAX),
            ),
            _ => return None,
        },
    };
    Some(FieldError::invalid(&path.text, &number.into(), &wrong))
}
