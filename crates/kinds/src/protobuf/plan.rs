//! What reading and writing messages need to know of a type, worked out once.

use std::sync::LazyLock;

use serde_json::Value;

use crate::types::{Field, Omit, Shape, Type, TypeId, types};

static PLANS: LazyLock<Vec<Plan>> =
    LazyLock::new(|| types().iter().map(|(id, of)| Plan::new(id, of)).collect());

/// A type as a message.
pub(super) struct Plan {
    id: TypeId,
    pub of: &'static Type,
    /// The fields in the order of their numbers.
    fields: Vec<&'static Field>,
    /// The members that JSON has even when the message says nothing of them. Null is left
    /// out, as it is wherever JSON is read.
    always: Vec<(&'static str, Zero)>,
}

/// What a member is when nothing is said of it.
#[derive(Clone, Copy)]
pub(super) enum Zero {
    False,
    Number,
    Text,
    Quantity,
    Struct(TypeId),
}

/// The plan of the type.
pub(super) fn plan(id: TypeId) -> &'static Plan {
    let at = PLANS.binary_search_by_key(&id, |plan| plan.id);
    &PLANS[at.expect("every type has a plan")]
}

impl Plan {
    fn new(id: TypeId, of: &'static Type) -> Self {
        let mut fields: Vec<_> = of.fields.iter().collect();
        fields.sort_by_key(|field| field.number);
        let always = types()
            .members(id)
            .filter_map(|field| Some((field.json, zero(field)?)))
            .collect();
        Self {
            id,
            of,
            fields,
            always,
        }
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

/// Whether JSON leaves out the member when it has this value. Structs are never empty, even
/// if JSON shows them as something else.
pub(super) fn left_out(field: &Field, value: &Value) -> bool {
    let is_struct = matches!(
        field.shape,
        Shape::Struct(_) | Shape::Quantity | Shape::IntOrString | Shape::Raw
    );
    let shown = field.omit == Omit::Never || field.pointer || is_struct;
    value.is_null() || (!shown && is_empty(value))
}

/// Whether a list of the shape is wrapped in a message of its own. Go has a message only
/// for its named lists of texts: a named list of structs is repeated like any other.
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
