//! The scale subresource: a custom object shown as a Scale, and a Scale written back.

use insula_kinds::go::{Printed, type_name};
use insula_kinds::{FieldError, Object, Value};
use serde_json::json;

/// The paths of the scale subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// The desired number of replicas.
    pub spec: FieldPath,
    /// The observed number of replicas.
    pub status: FieldPath,
    /// The serialized label selector of the pods.
    pub selector: Option<FieldPath>,
}

/// A path of field names, separated by dots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    text: String,
    names: Vec<String>,
}

/// Why a scale cannot be read or written, in Kubernetes' wording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScaleError {
    /// The object has no replica count. Reported as an internal error.
    #[error("the spec replicas field {path:?} does not exist")]
    Missing {
        /// The path of the replica count.
        path: String,
    },
    /// A path does not fit the object. Reported without a reason on read, and as a bad request
    /// on write.
    #[error("{0}")]
    Mismatch(String),
    /// Neither the Scale nor the object has a replica count. Reported as a bad request.
    #[error("the spec replicas field {path:?} cannot be empty")]
    Empty {
        /// The path of the replica count.
        path: String,
    },
}

/// Marks a missing replica count. No valid Scale has this value.
const UNSET_REPLICAS: i64 = i32::MIN as i64;

impl FieldPath {
    /// Parses a path with or without a leading dot.
    pub fn new(text: &str) -> Self {
        let names = text.strip_prefix('.').unwrap_or(text).split('.');
        Self {
            text: text.to_owned(),
            names: names.map(str::to_owned).collect(),
        }
    }

    /// The path as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The field names, outermost first.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Finds the value. Fails if the path leads through a value that is not an object.
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
                other => return Err(self.mismatch(at + 2, other, "map[string]interface{}")),
            };
        }
        Ok(Some(value))
    }

    fn integer(&self, object: &Object) -> Result<Option<i64>, String> {
        match self.find(object)? {
            None => Ok(None),
            Some(value) => match value.as_i64() {
                Some(number) => Ok(Some(number)),
                None => Err(self.mismatch(self.names.len(), value, "int64")),
            },
        }
    }

    fn string<'a>(&self, object: &'a Object) -> Result<&'a str, String> {
        match self.find(object)? {
            None => Ok(""),
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(self.mismatch(self.names.len(), other, "string")),
        }
    }

    fn mismatch(&self, names: usize, value: &Value, wanted: &str) -> String {
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
    /// Reads `subresources.scale` of a version.
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

    /// The Scale of an object, as served.
    pub fn get(&self, object: &Object) -> Result<Object, ScaleError> {
        let (replicas, scale) = self.read(object)?;
        match replicas {
            Some(_) => Ok(scale),
            None => Err(ScaleError::Missing {
                path: self.spec.text.clone(),
            }),
        }
    }

    /// The Scale that a write starts from. A missing replica count is represented by a value
    /// that [`ScalePaths::put`] rejects.
    pub fn current(&self, object: &Object) -> Result<Object, ScaleError> {
        let (replicas, mut scale) = self.read(object)?;
        if replicas.is_none() {
            scale.insert("spec".to_owned(), json!({"replicas": UNSET_REPLICAS}));
        }
        Ok(scale)
    }

    /// Writes the desired replica count of a Scale into the object.
    pub fn put(&self, object: &mut Object, scale: &Object) -> Result<(), ScaleError> {
        let replicas = scale.get("spec").and_then(|spec| spec.get("replicas"));
        let replicas = replicas.and_then(Value::as_i64).unwrap_or(0);
        if replicas == UNSET_REPLICAS {
            return Err(ScaleError::Empty {
                path: self.spec.text.clone(),
            });
        }
        let set = self.spec.set(object, replicas.into());
        set.map_err(ScaleError::Mismatch)
    }

    /// Validates the object's desired replica count.
    pub fn check_spec(&self, object: &Object) -> Option<FieldError> {
        check(&self.spec, object)
    }

    /// Validates the object's observed replica count and label selector.
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
        let spec = self.spec.integer(object).map_err(ScaleError::Mismatch)?;
        let status = self.status.integer(object).map_err(ScaleError::Mismatch)?;
        let selector = match &self.selector {
            Some(path) => path.string(object).map_err(ScaleError::Mismatch)?,
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

/// Truncates to 32 bits, as Go does.
fn as_go(number: Option<i64>) -> i32 {
    number.unwrap_or(0) as i32
}

/// The metadata of a Scale.
fn metadata(object: &Object) -> Value {
    const SHOWN: [&str; 5] = [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ];
    let metadata = object.get("metadata");
    let shown = SHOWN.iter().filter_map(|name| {
        let value = metadata?.get(name)?;
        Some(((*name).to_owned(), value.clone()))
    });
    Value::Object(shown.collect())
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
