//! Embedded resources: objects inside objects, with the usual metadata.

use insula_kinds::{FieldError, Object, TypeId, decode, encode, types};
use serde_json::Value;

use crate::structural::{Additional, Node, NodeId, Schema};
use crate::validate::{Path, Step, Style};

impl Schema {
    /// Normalizes the metadata of embedded resources. Unknown fields are removed and reported
    /// like those of [`prune`](Schema::prune). Fields of the wrong type are an error, after
    /// which the object must not be stored.
    pub fn coerce_embedded(
        &self,
        object: &mut Object,
        unknown: &mut Vec<String>,
    ) -> Result<(), FieldError> {
        let mut found = Vec::new();
        let mut coercer = Coercer {
            schema: self,
            unknown: &mut found,
            repair: false,
        };
        let done = coercer.members(object, self.root(), &Path::ROOT);
        found.sort();
        unknown.append(&mut found);
        done
    }

    /// Normalizes a stored object. Fields of the wrong type are removed.
    pub fn repair_embedded(&self, object: &mut Object) {
        let mut coercer = Coercer {
            schema: self,
            unknown: &mut Vec::new(),
            repair: true,
        };
        let done = coercer.members(object, self.root(), &Path::ROOT);
        debug_assert!(done.is_ok(), "repairing removes what would be an error");
    }
}

/// Applies [`coerce_embedded`](Schema::coerce_embedded) to a value at a node. If `whole` is
/// set, the value is a complete object, regardless of the node.
pub(crate) fn coerce_value(
    schema: &Schema,
    id: NodeId,
    value: &mut Value,
    whole: bool,
) -> Result<(), FieldError> {
    let mut coercer = Coercer {
        schema,
        unknown: &mut Vec::new(),
        repair: false,
    };
    if let (Value::Object(object), true) = (&mut *value, whole) {
        coercer.identity(object, &Path::ROOT)?;
        coercer.metadata(object, &Path::ROOT)?;
    }
    coercer.value(value, schema.node(id), &Path::ROOT)
}

struct Coercer<'a> {
    schema: &'a Schema,
    unknown: &'a mut Vec<String>,
    /// Whether invalid fields are removed instead of reported.
    repair: bool,
}

impl Coercer<'_> {
    fn members(
        &mut self,
        object: &mut Object,
        node: &Node,
        path: &Path<'_>,
    ) -> Result<(), FieldError> {
        if !node.embeds {
            return Ok(());
        }
        if node.embedded {
            self.identity(object, path)?;
            self.metadata(object, path)?;
        }
        for (name, value) in object.iter_mut() {
            let (step, id) = match (node.property(name), node.additional) {
                (Some(id), _) => (Step::Property(name), id),
                (None, Additional::Each(id)) => (Step::Key(name), id),
                _ => continue,
            };
            self.value(value, self.schema.node(id), &path.child(step))?;
        }
        Ok(())
    }

    fn value(&mut self, value: &mut Value, node: &Node, path: &Path<'_>) -> Result<(), FieldError> {
        match (value, node.items) {
            (Value::Object(object), _) => self.members(object, node, path),
            (Value::Array(items), Some(id)) => {
                let each = self.schema.node(id);
                let mut items = items.iter_mut().enumerate();
                items.try_for_each(|(index, item)| {
                    self.value(item, each, &path.child(Step::Index(index)))
                })
            }
            _ => Ok(()),
        }
    }

    fn identity(&mut self, object: &mut Object, path: &Path<'_>) -> Result<(), FieldError> {
        for field in ["apiVersion", "kind"] {
            match object.get(field) {
                None | Some(Value::String(_)) => {}
                Some(_) if self.repair => {
                    object.remove(field);
                }
                Some(value) => {
                    let place = path.child(Step::Property(field)).print(Style::Field);
                    return Err(invalid(place, value, "must be a string"));
                }
            }
        }
        Ok(())
    }

    fn metadata(&mut self, object: &mut Object, path: &Path<'_>) -> Result<(), FieldError> {
        let (Some(of), Some(value)) = (object_meta(), object.get("metadata")) else {
            return Ok(());
        };
        let place = || path.child(Step::Property("metadata")).print(Style::Field);
        let meta = match decode::value(of, value.clone()) {
            Ok(decoded) => {
                let problems = decoded.problems.iter();
                let fields = problems.filter_map(|problem| {
                    let quoted = problem.strip_prefix("unknown field ")?;
                    quoted.strip_prefix('"')?.strip_suffix('"')
                });
                let fields = fields.map(|field| format!("{}.{field}", place()));
                self.unknown.extend(fields);
                decoded.object
            }
            Err(error) if !self.repair => {
                return Err(invalid(place(), value, &error.to_string()));
            }
            Err(_) => match value {
                Value::Object(members) => repaired(of, members),
                // Kubernetes keeps metadata that is no object.
                _ => return Ok(()),
            },
        };
        // Encoding adds the fields that Go always writes.
        let mut text = Vec::new();
        encode::nested(of, &meta, &mut text);
        let meta = serde_json::from_slice(&text).unwrap_or(Value::Object(meta));
        object.insert("metadata".to_owned(), meta);
        Ok(())
    }
}

/// Validates the embedded resources of an object.
pub(crate) fn validate(schema: &Schema, object: &Object, errors: &mut Vec<FieldError>) {
    members(schema, schema.root(), object, &Path::ROOT, errors);
}

/// Validates the embedded resources of a value at a node. If `whole` is set, the value is a
/// complete object, regardless of the node.
pub(crate) fn validate_value(
    schema: &Schema,
    id: NodeId,
    of: &Value,
    whole: bool,
    errors: &mut Vec<FieldError>,
) {
    let node = schema.node(id);
    if let (Value::Object(object), true) = (of, whole && !node.embedded) {
        resource(object, &Path::ROOT, errors);
    }
    value(schema, node, of, &Path::ROOT, errors);
}

fn members(
    schema: &Schema,
    node: &Node,
    object: &Object,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if !node.embeds {
        return;
    }
    if node.embedded {
        resource(object, path, errors);
    }
    for (name, member) in object {
        let (step, id) = match (node.property(name), node.additional) {
            (Some(id), _) => (Step::Property(name), id),
            (None, Additional::Each(id)) => (Step::Key(name), id),
            _ => continue,
        };
        value(schema, schema.node(id), member, &path.child(step), errors);
    }
}

fn value(
    schema: &Schema,
    node: &Node,
    value_: &Value,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    match (value_, node.items) {
        (Value::Object(object), _) => members(schema, node, object, path, errors),
        (Value::Array(items), Some(id)) => {
            let each = schema.node(id);
            for (index, item) in items.iter().enumerate() {
                value(schema, each, item, &path.child(Step::Index(index)), errors);
            }
        }
        _ => {}
    }
}

fn resource(object: &Object, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let place = |field| path.child(Step::Property(field)).print(Style::Field);
    for field in ["apiVersion", "kind"] {
        if !object.contains_key(field) {
            errors.push(FieldError::required(place(field), ""));
        }
    }
    for field in ["apiVersion", "kind"] {
        let fault = match object.get(field) {
            None => continue,
            Some(Value::String(text)) if text.is_empty() => "must not be empty".to_owned(),
            Some(Value::String(text)) => match fault_of(field, text) {
                Some(fault) => fault,
                None => continue,
            },
            Some(_) => "must be a string".to_owned(),
        };
        errors.push(invalid(place(field), &object[field], &fault));
    }
    let (Some(of), Some(meta)) = (object_meta(), object.get("metadata")) else {
        return;
    };
    match decode::value(of, meta.clone()) {
        Err(error) => errors.push(invalid(place("metadata"), meta, &error.to_string())),
        Ok(decoded) => {
            let mut whole = Object::new();
            whole.insert("metadata".to_owned(), Value::Object(decoded.object));
            let faults = insula_kinds::validate::embedded(&whole).into_iter();
            errors.extend(faults.map(|fault| FieldError {
                field: path.print_with(Style::Field, &fault.field),
                ..fault
            }));
        }
    }
}

fn fault_of(field: &str, text: &str) -> Option<String> {
    if field == "apiVersion" {
        let slashes = text.bytes().filter(|byte| *byte == b'/').count();
        return (slashes > 1).then(|| format!("unexpected GroupVersion string: {text}"));
    }
    let faults = insula_kinds::validate::kind_name(text);
    (!faults.is_empty()).then(|| {
        let faults = faults.join(",");
        format!("may have mixed case, but should otherwise match: {faults}")
    })
}

/// Keeps every metadata field that can be decoded individually.
fn repaired(of: TypeId, members: &Object) -> Object {
    let mut whole = Object::new();
    for (name, member) in members {
        let alone = Object::from_iter([(name.clone(), member.clone())]);
        if let Ok(mut decoded) = decode::value(of, Value::Object(alone)) {
            whole.append(&mut decoded.object);
        }
    }
    whole
}

fn object_meta() -> Option<TypeId> {
    types().find("apimachinery.pkg.apis.meta.v1.ObjectMeta")
}

fn invalid(place: String, value: &Value, detail: &str) -> FieldError {
    let printed = crate::validate::print::value(value);
    FieldError::invalid_printed(place, &printed, detail)
}
