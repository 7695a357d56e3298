//! Values against the nodes of a schema, in the order in which Kubernetes asks.
//!
//! Every check that is passed is counted: where one of several schemas must fit and none
//! does, the errors of the one with the most passed checks are told.

use insula_kinds::Object;
use insula_kinds::field::{Fault, FieldError, quote};
use serde_json::Value;

use super::number::Num;
use super::path::{NOWHERE, Path, Step, Style};
use super::{print, ratchet};
use crate::structural::{Additional, Checks, Node, NodeId, Schema, Type};

/// Nobody reads more errors than these, and they are no reason to fill the memory.
const MAX_ERRORS: usize = 1_000;

/// How many checks an object may take. A large schema times a large object would keep a
/// core busy for minutes; a large object and a usual schema stay far below.
const MAX_CHECKS: u64 = 20_000_000;

/// A walk through an object.
pub(super) struct Judge<'a> {
    pub schema: &'a Schema,
    /// What stands before the paths, if it is not the whole object that is judged.
    under: Option<&'static str>,
    left: u64,
}

impl<'a> Judge<'a> {
    /// Somebody who judges a whole object, or what is at a field of it.
    pub fn new(schema: &'a Schema, under: Option<&'static str>) -> Self {
        Self {
            schema,
            under,
            left: MAX_CHECKS,
        }
    }

    /// What is wrong with the value; faults of what equals `old` are forgiven.
    pub fn judge(&mut self, node: &Node, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.value(node, value, old, &Path::ROOT, &mut errors);
        self.finish(errors)
    }

    /// The same for a whole object.
    pub fn judge_object(&mut self, object: &Object, old: Option<&Object>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let root = self.schema.root();
        self.kind(root, Form::Object, &Path::ROOT, &mut errors);
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

    /// Each sentence once, and a last one if there was too much to check.
    fn finish(&self, mut errors: Vec<FieldError>) -> Vec<FieldError> {
        if errors.len() > 1 {
            let mut seen = std::collections::HashSet::new();
            errors.retain(|error| seen.insert((error.field.clone(), error.body.clone())));
        }
        if self.left == 0 {
            let text = "the object takes too many checks against its schema";
            errors.push(FieldError::invalid_text(NOWHERE, "", text));
        }
        errors
    }

    /// Judges a value; says how many checks it passed.
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
        let passed = self.plainly(node, value, old, path, errors);
        if let Some(old) = old
            && errors.len() > before
            && ratchet::same(self.schema, node, value, old)
        {
            errors.truncate(before);
        }
        passed
    }

    fn plainly(
        &mut self,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) -> u64 {
        let form = Form::of(value);
        if let Form::Null = form {
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

    /// Whether the type is right.
    fn kind(
        &mut self,
        node: &Node,
        form: Form,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) -> u64 {
        match wrong_kind(node, self.format(node), form) {
            None => 1,
            Some((wanted, found)) => {
                self.push(errors, || {
                    self.wrong_type(path, wanted, &quote(found), found)
                });
                0
            }
        }
    }

    fn format<'n>(&self, node: &'n Node) -> Option<&'n str> {
        let checks = node.checks.as_deref()?;
        checks.format.as_ref().map(|format| format.name())
    }

    fn text(
        &mut self,
        node: &Node,
        text: &str,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) -> u64 {
        let Some(checks) = node.checks.as_deref() else {
            return 1;
        };
        self.length_and_pattern(checks, text, path, errors);
        let Some(format) = &checks.format else {
            return 1;
        };
        if format.is_of_text() {
            if !format.fits(text) {
                self.push(errors, || {
                    self.wrong_type(path, format.name(), &quote(text), text)
                });
            }
            return 2;
        }
        1
    }

    /// The first of these that is wrong is enough.
    fn length_and_pattern(
        &mut self,
        checks: &Checks,
        text: &str,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        let wrong = |body: String| {
            let name = path.print(Style::Schema);
            let detail = format!("{name} in body {body}");
            FieldError::invalid_text(self.field(path), text, &detail)
        };
        let length = match (checks.max_length, checks.min_length) {
            (None, None) => 0,
            _ => text.chars().count() as i64,
        };
        if let Some(most) = checks.max_length.filter(|most| length > *most) {
            self.push(errors, || self.too_long(path, most));
        } else if let Some(least) = checks.min_length.filter(|least| length < *least) {
            self.push(errors, || {
                wrong(format!("should be at least {least} chars long"))
            });
        } else if let Some(pattern) = &checks.pattern {
            let work = (text.len() as u64 * pattern.text().len() as u64) >> 10;
            if self.left > work && !pattern.matches(text) {
                let shown = match pattern.fault() {
                    Some(fault) => format!("{}, but pattern is invalid: {fault}", pattern.text()),
                    None => pattern.text().to_owned(),
                };
                self.push(errors, || wrong(format!("should match '{shown}'")));
            }
            self.spend(work);
        }
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
            // What an object says of its own kind is the same before and after by force.
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

    fn allowed(
        &mut self,
        node: &Node,
        value: &Value,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        let Some(checks) = node.checks.as_deref().filter(|it| !it.allowed.is_empty()) else {
            return;
        };
        self.spend(checks.allowed.len() as u64 / 16);
        if checks.allowed.iter().any(|allowed| is_one(value, allowed)) {
            return;
        }
        self.push(errors, || {
            let known = checks.allowed.iter().map(|allowed| match allowed {
                Value::String(text) => quote(text),
                other => quote(&print::json(other)),
            });
            let known: Vec<_> = known.collect();
            let (value, known) = (print::value(value), known.join(", "));
            FieldError {
                fault: Fault::NotSupported,
                field: self.field(path),
                body: format!("Unsupported value: {value}: supported values: {known}"),
            }
        });
    }

    /// Takes from what may be spent; says whether there was enough.
    pub(super) fn spend(&mut self, checks: u64) -> bool {
        let enough = self.left > checks;
        self.left = self.left.saturating_sub(checks);
        enough
    }

    /// Notes an error, unless there are enough.
    pub(super) fn push(&self, errors: &mut Vec<FieldError>, error: impl FnOnce() -> FieldError) {
        if errors.len() < MAX_ERRORS {
            errors.push(error());
        }
    }

    /// The path as errors begin with it.
    pub(super) fn field(&self, path: &Path<'_>) -> String {
        let name = path.print(Style::Schema);
        let name = name.strip_prefix('.').unwrap_or(&name);
        match (self.under, name.is_empty()) {
            (None, true) => NOWHERE.to_owned(),
            (None, false) => name.to_owned(),
            (Some(under), true) => under.to_owned(),
            (Some(under), false) => format!("{under}.{name}"),
        }
    }

    /// An error that Kubernetes does not attribute to a field.
    pub(super) fn general(&self, text: &str) -> FieldError {
        FieldError::invalid_text(self.field(&Path::ROOT), "", text)
    }

    fn wrong_type(&self, path: &Path<'_>, wanted: &str, printed: &str, found: &str) -> FieldError {
        let name = path.print(Style::Schema);
        let found = quote(found);
        FieldError {
            fault: Fault::TypeInvalid,
            field: self.field(path),
            body: format!(
                "Invalid value: {printed}: {name} in body must be of type {wanted}: {found}"
            ),
        }
    }

    fn too_long(&self, path: &Path<'_>, most: i64) -> FieldError {
        let unit = if most == 1 { "byte" } else { "bytes" };
        FieldError {
            fault: Fault::TooLong,
            field: self.field(path),
            body: format!("Too long: may not be more than {most} {unit}"),
        }
    }

    fn too_few(&self, path: &Path<'_>, size: i64, wanted: &str) -> FieldError {
        let detail = format!("{} in body {wanted}", path.print(Style::Schema));
        FieldError::invalid(self.field(path), &Value::from(size), &detail)
    }

    fn too_many(&self, path: &Path<'_>, size: i64, most: i64) -> FieldError {
        let unit = if most == 1 { "item" } else { "items" };
        FieldError {
            fault: Fault::TooMany,
            field: self.field(path),
            body: format!("Too many: {size}: must have at most {most} {unit}"),
        }
    }
}

/// What sort of value it is, as Go's decoder sorts them.
#[derive(Clone, Copy)]
enum Form {
    Null,
    Bool,
    Int,
    Float { whole: bool },
    Text,
    Array,
    Object,
}

impl Form {
    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::String(_) => Self::Text,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
            Value::Number(number) => match Num::of(number) {
                Num::Int(_) => Self::Int,
                Num::Float(value) => Self::Float {
                    whole: super::number::is_whole(value),
                },
            },
        }
    }

    /// The type, and the format that Go gives such values.
    fn names(self) -> (Option<Type>, &'static str, &'static str) {
        match self {
            Self::Null => (None, "null", ""),
            Self::Bool => (Some(Type::Boolean), "boolean", ""),
            Self::Int => (Some(Type::Integer), "integer", "int64"),
            Self::Float { .. } => (Some(Type::Number), "number", "float64"),
            Self::Text => (Some(Type::String), "string", ""),
            Self::Array => (Some(Type::Array), "array", ""),
            Self::Object => (Some(Type::Object), "object", ""),
        }
    }
}

/// What was wanted and what was found, if that is not the same.
fn wrong_kind<'n>(
    node: &Node,
    format: Option<&'n str>,
    form: Form,
) -> Option<(&'n str, &'static str)> {
    let (kind, name, native) = form.names();
    let Some(kind) = kind else {
        let wrong = node.is_typed() && !node.nullable;
        return wrong.then_some((node.types(), name));
    };
    let near = match form {
        Form::Float { whole } => whole && node.has_type(Type::Integer),
        Form::Int => node.has_type(Type::Number),
        _ => false,
    };
    let fits = node.has_type(kind) || near;
    let textual = matches!(form, Form::Text | Form::Array);
    match format {
        Some(format) if !textual && !fits && format != native => Some((format, native)),
        // Formats of texts are asked later, and lists are not asked at all.
        Some(_) if textual && !node.has_type(Type::Number) && !node.has_type(Type::Integer) => None,
        _ if fits || (!node.is_typed() && format.is_none()) => None,
        _ => Some((node.types(), name)),
    }
}

/// Whether a value is the one that is allowed, after Go has converted the one to the type
/// of the other.
fn is_one(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (_, Value::Null) => false,
        (Value::Number(value), Value::Number(allowed)) => {
            match (Num::of(value), Num::of(allowed)) {
                (Num::Int(value), Num::Int(allowed)) => value == allowed,
                (value, Num::Float(allowed)) => value.float() == allowed,
                (Num::Float(value), Num::Int(allowed)) => super::number::truncate(value) == allowed,
            }
        }
        (Value::Number(value), Value::String(allowed)) => match Num::of(value) {
            Num::Int(code) => {
                let letter = u32::try_from(code).ok().and_then(char::from_u32);
                let letter = letter.unwrap_or(char::REPLACEMENT_CHARACTER);
                allowed.chars().eq([letter])
            }
            Num::Float(_) => false,
        },
        (value, allowed) => value == allowed,
    }
}

/// What is judged: the whole object is not a value of its own.
#[derive(Clone, Copy)]
pub(super) enum Subject<'a> {
    Value(&'a Value),
    Object(&'a Object),
}

impl Judge<'_> {
    /// Judges a branch, for which nothing is forgiven.
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
                    passed += self.kind(node, Form::Object, path, errors) + 1;
                }
                passed += self.junctors(node, subject, path, errors) + 2;
                self.bounds_of_whole(node, object, errors);
                passed + self.members(node, object, None, path, errors) + 3
            }
        }
    }

    /// A whole object may be required to be one of several; no definition that was accepted
    /// says so, since it would have to name metadata.
    fn bounds_of_whole(&mut self, node: &Node, object: &Object, errors: &mut Vec<FieldError>) {
        let listed = |checks: &Checks| !checks.allowed.is_empty();
        if node.checks.as_deref().is_some_and(listed) {
            self.allowed(node, &Value::Object(object.clone()), &Path::ROOT, errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_large_schema_times_a_large_object_is_not_judged_to_the_end() {
        let branches: Vec<_> = (0..100).map(|_| json!({"minimum": 5})).collect();
        let schema = json!({"type": "object", "properties": {"l": {"type": "array",
            "items": {"type": "integer", "not": {"anyOf": branches}}}}});
        let schema = Schema::compile(&schema).expect("it compiles");
        let object = json!({"l": vec![1; 1_000]});
        let object = object.as_object().expect("an object");
        let mut judge = Judge::new(&schema, None);
        assert_eq!(judge.judge_object(object, None), []);
        judge.left = 100_000;
        let errors = judge.judge_object(object, None);
        let last = errors.last().expect("an error").to_string();
        let text =
            "<nil>: Invalid value: \"\": the object takes too many checks against its schema";
        assert_eq!(last, text);
    }
}
