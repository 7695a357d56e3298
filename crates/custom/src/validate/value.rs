//! Validation of values against schema nodes, in Kubernetes' order.
//!
//! Passed checks are counted: if one of several schemas must match and none does, the errors
//! of the one with the most passed checks are reported.

use insula_kinds::{FieldError, Object};
use serde_json::Value;

use super::json_type::JsonType;
use super::number::Num;
use super::path::{Path, ROOT_FIELD, Step, Style};
use super::ratchet;
use crate::structural::{Additional, Node, NodeId, Schema};

/// Maximum number of errors reported for one object.
pub(super) const MAX_ERRORS: usize = 1_000;

/// Maximum number of checks for one object. A large schema combined with a large object could
/// occupy a core for minutes; a large object with a usual schema stays far below.
pub(super) const MAX_CHECKS: u64 = 20_000_000;

/// The validation of one object.
pub(super) struct Validator<'a> {
    pub schema: &'a Schema,
    /// Prefix of paths, if only a part of the object is validated.
    pub prefix: Option<&'static str>,
    /// The remaining number of checks.
    pub left: u64,
}

impl<'a> Validator<'a> {
    /// Creates a validator for a whole object, limited to this many checks.
    pub fn with_checks(schema: &'a Schema, left: u64) -> Self {
        Self {
            schema,
            prefix: None,
            left,
        }
    }

    /// The remaining number of checks.
    pub fn checks(&self) -> u64 {
        self.left
    }

    /// Validates a value. Violations in parts that equal `old` are tolerated.
    pub fn validate(&mut self, node: &Node, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.value(node, value, old, &Path::ROOT, &mut errors);
        self.finish(errors)
    }

    /// Validates a whole object.
    pub fn validate_object(&mut self, object: &Object, old: Option<&Object>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let root = self.schema.root();
        self.kind(root, JsonType::Object, &Path::ROOT, &mut errors);
        self.junctors(root, Subject::Object(object), &Path::ROOT, &mut errors);
        self.bounds_of_whole(root, object, &mut errors);
        self.members(root, object, old, &Path::ROOT, &mut errors);
        if let Some(old) = old
            && !errors.is_empty()
            && ratchet::same_members(self.schema, root, object, old)
        {
            errors.clear();
        }
        self.finish(errors)
    }

    /// Removes duplicate errors, and adds one if the limit on checks was reached.
    fn finish(&self, mut errors: Vec<FieldError>) -> Vec<FieldError> {
        if errors.len() > 1 {
            let mut seen = std::collections::HashSet::new();
            errors.retain(|error| seen.insert((error.field.clone(), error.body.clone())));
        }
        if self.left == 0 {
            let text = "the object takes too many checks against its schema";
            errors.push(FieldError::invalid_text(ROOT_FIELD, "", text));
        }
        errors
    }

    /// Validates a value, and returns the number of passed checks.
    pub(super) fn value(
        &mut self,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) -> u64 {
        if !self.spend(1) {
            return 0;
        }
        let before = errors.len();
        let passed = self.without_ratcheting(node, value, old, path, errors);
        if let Some(old) = old
            && errors.len() > before
            && ratchet::same(self.schema, node, value, old)
        {
            errors.truncate(before);
        }
        passed
    }

    fn without_ratcheting(
        &mut self,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) -> u64 {
        let form = JsonType::of(value);
        if let JsonType::Null = form {
            let passed = self.kind(node, form, path, errors);
            self.allowed(node, value, path, errors);
            return passed;
        }
        let mut passed = 0;
        if node.is_typed() || self.format(node).is_some() {
            passed += self.kind(node, form, path, errors) + 1;
        }
        passed += self.junctors(node, Subject::Value(value), path, errors) + 2;
        match value {
            Value::String(text) => passed += self.text(node, text, path, errors),
            Value::Number(number) => {
                passed += self.number(node, Num::of(number), path, errors);
            }
            Value::Array(items) => passed += self.items(node, items, old, path, errors) + 2,
            _ => {}
        }
        self.allowed(node, value, path, errors);
        passed += 1;
        if let Value::Object(members) = value {
            let old = old.and_then(Value::as_object);
            passed += self.members(node, members, old, path, errors) + 1;
        }
        passed + 1
    }

    fn items(
        &mut self,
        node: &Node,
        items: &[Value],
        old: Option<&Value>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) -> u64 {
        let mut passed = 0;
        if let Some(id) = node.items {
            let each = self.schema.node(id);
            let before = ratchet::Items::of(node, old);
            for (index, item) in items.iter().enumerate() {
                let place = path.child(Step::Index(index));
                passed += self.value(each, item, before.find(item), &place, errors);
            }
        }
        let Some(checks) = node.checks.as_deref() else {
            return passed;
        };
        let size = items.len() as i64;
        if let Some(least) = checks.min_items.filter(|least| size < *least) {
            self.push(errors, || {
                self.too_few(path, size, &format!("should have at least {least} items"))
            });
        }
        if let Some(most) = checks.max_items.filter(|most| size > *most) {
            self.push(errors, || self.too_many(path, size, most));
        }
        passed
    }

    fn members(
        &mut self,
        node: &Node,
        members: &Object,
        old: Option<&Object>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) -> u64 {
        self.count_of_members(node, members.len() as i64, path, errors);
        let top = matches!(path.step(), Step::Root);
        let mut passed = 0;
        if node.additional != Additional::Unset {
            passed += self.additional(node, members, old, path, errors);
        }
        for (name, value) in members {
            let Some(id) = node.property(name) else {
                continue;
            };
            // apiVersion and kind cannot change, so they never count as unchanged.
            let fixed = top && matches!(name.as_str(), "apiVersion" | "kind");
            let old = old.filter(|_| !fixed).and_then(|old| old.get(name));
            let place = path.child(Step::Property(name));
            passed += self.value(self.schema.node(id), value, old, &place, errors);
        }
        for name in node.checks.iter().flat_map(|checks| &checks.required) {
            if !members.contains_key(&**name) {
                self.push(errors, || {
                    let place = path.child(Step::Property(name));
                    FieldError::required(self.field(&place), "")
                });
            }
        }
        passed
    }

    fn additional(
        &mut self,
        node: &Node,
        members: &Object,
        old: Option<&Object>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) -> u64 {
        let mut passed = 0;
        let unnamed = members
            .iter()
            .filter(|(name, _)| node.property(name).is_none());
        match node.additional {
            Additional::Unset | Additional::Allowed => {}
            Additional::Forbidden => {
                for (name, _) in unnamed {
                    self.push(errors, || {
                        let place = path.print(Style::Schema);
                        let detail = format!("{place}.{name} in body is a forbidden property");
                        FieldError::invalid_text(self.field(path), name, &detail)
                    });
                }
            }
            Additional::Each(id) => {
                let each = self.schema.node(id);
                for (name, value) in unnamed {
                    let old = old.and_then(|old| old.get(name));
                    let place = path.child(Step::Key(name));
                    passed += self.value(each, value, old, &place, errors);
                }
            }
        }
        passed
    }

    fn count_of_members(
        &mut self,
        node: &Node,
        size: i64,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        let Some(checks) = node.checks.as_deref() else {
            return;
        };
        if let Some(least) = checks.min_properties.filter(|least| size < *least) {
            self.push(errors, || {
                let wanted = format!("should have at least {least} properties");
                self.too_few(path, size, &wanted)
            });
        }
        if let Some(most) = checks.max_properties.filter(|most| size > *most) {
            self.push(errors, || self.too_many(path, size, most));
        }
    }

    /// Consumes checks, and reports whether enough were left.
    pub(super) fn spend(&mut self, checks: u64) -> bool {
        let enough = self.left > checks;
        self.left = self.left.saturating_sub(checks);
        enough
    }
}

/// A value, or the whole object, which is not stored as a `Value`.
#[derive(Clone, Copy)]
pub(super) enum Subject<'a> {
    Value(&'a Value),
    Object(&'a Object),
}

impl Validator<'_> {
    /// Validates against a branch of a junctor, without ratcheting.
    pub(super) fn branch(
        &mut self,
        id: NodeId,
        subject: Subject<'_>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) -> u64 {
        let schema = self.schema;
        let node = schema.node(id);
        match subject {
            Subject::Value(value) => self.value(node, value, None, path, errors),
            Subject::Object(object) => {
                let mut passed = 0;
                if node.is_typed() || self.format(node).is_some() {
                    passed += self.kind(node, JsonType::Object, path, errors) + 1;
                }
                passed += self.junctors(node, subject, path, errors) + 2;
                self.bounds_of_whole(node, object, errors);
                passed + self.members(node, object, None, path, errors) + 3
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn checks_of_one_object_are_limited() {
        let branches: Vec<_> = (0..100).map(|_| json!({"minimum": 5})).collect();
        let schema = json!({"type": "object", "properties": {"l": {"type": "array",
            "items": {"type": "integer", "not": {"anyOf": branches}}}}});
        let schema = Schema::compile(&schema).expect("it compiles");
        let object = json!({"l": vec![1; 1_000]});
        let object = object.as_object().expect("an object");
        let mut validator = Validator::with_checks(&schema, MAX_CHECKS);
        assert_eq!(validator.validate_object(object, None), []);
        validator.left = 100_000;
        let errors = validator.validate_object(object, None);
        let last = errors.last().expect("an error").to_string();
        let text =
            "<nil>: Invalid value: \"\": the object takes too many checks against its schema";
        assert_eq!(last, text);
    }
}
