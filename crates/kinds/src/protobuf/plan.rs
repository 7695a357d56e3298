//! Per-type information for decoding and encoding messages, computed once.

use std::sync::LazyLock;

use serde_json::Value;

use crate::types::{Field, Omit, Shape, Type, TypeId, types};

static PLANS: LazyLock<Vec<Plan>> =
    LazyLock::new(|| types().iter().map(|(id, of)| Plan::new(id, of)).collect());

/// A type as a message.
pub(super) struct Plan {
    pub of: &'static Type,
    /// The fields ordered by number.
    fields: Vec<&'static Field>,
    /// The members that JSON has even if the message lacks them. Null is left out, as
    /// everywhere in decoded JSON.
    always: Vec<(&'static str, Zero)>,
}

/// The zero value of a member.
#[derive(Clone, Copy)]
pub(super) enum Zero {
    False,
    Number,
    Text,
    Quantity,
    Struct(TypeId),
}

/// Returns the plan of the type.
pub(super) fn plan(id: TypeId) -> &'static Plan {
    &PLANS[id.index()]
}

impl Plan {
    fn new(id: TypeId, of: &'static Type) -> Self {
        let mut fields: Vec<_> = of.fields.iter().collect();
        fields.sort_by_key(|field| field.number);
        let always = types()
            .members(id)
            .filter_map(|field| Some((field.json, zero(field)?)))
            .collect();
        Self { of, fields, always }
    }

    pub fn fields(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().copied()
    }

    pub fn field(&self, number: u32) -> Option<&'static Field> {
        let at = self
            .fields
            .binary_search_by_key(&number, |field| field.number);
        at.ok().map(|at| self.fields[at])
    }

    pub fn always(&self) -> &[(&'static str, Zero)] {
        &self.always
    }
}

/// Whether JSON omits the member when it has this value. Structs are never empty, even if
/// their JSON is not an object.
pub(super) fn is_omitted(field: &Field, value: &Value) -> bool {
    let is_struct = matches!(
        field.shape,
        Shape::Struct(_) | Shape::Quantity | Shape::IntOrString | Shape::Raw
    );
    let shown = field.omit == Omit::Never || field.pointer || is_struct;
    value.is_null() || (!shown && is_empty(value))
}

/// Whether a list of the shape is wrapped in a message of its own. Go does so only for
/// named lists of strings: a named list of structs is a repeated field.
pub(super) fn is_wrapped(element: &Shape) -> bool {
    !matches!(element, Shape::Struct(_))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(value) => value.is_empty(),
        Value::Array(value) => value.is_empty(),
        Value::Object(value) => value.is_empty(),
    }
}

fn zero(field: &Field) -> Option<Zero> {
    let never = field.omit == Omit::Never;
    match &field.shape {
        _ if field.pointer => None,
        Shape::String => never.then_some(Zero::Text),
        Shape::Bool => never.then_some(Zero::False),
        Shape::Int32 | Shape::Int64 | Shape::Float64 => never.then_some(Zero::Number),
        Shape::IntOrString => Some(Zero::Number),
        Shape::Quantity => Some(Zero::Quantity),
        Shape::Struct(id) => Some(Zero::Struct(*id)),
        Shape::Bytes | Shape::Time | Shape::MicroTime | Shape::Raw => None,
        Shape::List(_) | Shape::WrappedList(_) | Shape::Map(_) => None,
    }
}
