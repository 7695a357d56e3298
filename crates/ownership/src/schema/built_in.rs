//! Schemas of built-in types.

use insula_kinds::{Field, Form, ListType, Omit, Shape, TypeId, Value, types};

use super::{Atom, Keys, List, ListRelation, Map, Members, Ref, Relation, Scalar};

/// Returns the schema of a type.
pub(super) fn of_type<'a>(of: TypeId, relation: Option<Relation>) -> Atom<'a> {
    let own = types().get(of);
    if own.form == Form::Either {
        return Atom::any(Ref::Deduced, false);
    }
    let atomic = match relation {
        Some(relation) => relation == Relation::Atomic,
        None => own.atomic,
    };
    // A type without members accepts any.
    let (members, element) = match own.fields.is_empty() {
        true => (Members::None, Ref::Deduced),
        false => (Members::Type(of), Ref::Nothing),
    };
    Atom::of_map(Map {
        atomic,
        members,
        element,
    })
}

/// Returns the schema of a field.
pub(super) fn of_field(field: &Field) -> Atom<'_> {
    match &field.shape {
        Shape::List(element) | Shape::WrappedList(element) => Atom::of_list(List {
            relation: list_relation(field),
            element: of_element(element),
        }),
        Shape::Map(element) => Atom::of_map(Map {
            atomic: field.atomic_map,
            members: Members::None,
            element: of_element(element),
        }),
        // `fieldsV1` is an object in Kubernetes' schema.
        Shape::Raw if field.json == "fieldsV1" => Atom::of_map(Map {
            atomic: false,
            members: Members::None,
            element: Ref::Deduced,
        }),
        shape => of_shape(shape),
    }
}

/// Returns the schema of list or map elements, for which no field has settings.
pub(super) fn of_shape(shape: &Shape) -> Atom<'_> {
    match shape {
        Shape::String | Shape::Bytes => Atom::of(Scalar::String),
        Shape::Bool => Atom::of(Scalar::Boolean),
        Shape::Int32 | Shape::Int64 | Shape::Float64 => Atom::of(Scalar::Numeric),
        Shape::Time | Shape::MicroTime | Shape::Quantity => Atom::of(Scalar::Untyped),
        Shape::IntOrString => Atom::any(Ref::Deduced, false),
        Shape::Raw => Atom::any(Ref::Whole, true),
        Shape::Struct(of) => of_type(*of, None),
        Shape::List(element) | Shape::WrappedList(element) => Atom::of_list(List {
            relation: ListRelation::Atomic,
            element: of_element(element),
        }),
        Shape::Map(element) => Atom::of_map(Map {
            atomic: false,
            members: Members::None,
            element: of_element(element),
        }),
    }
}

/// Returns the type of a member. Every object has `apiVersion` and `kind`, which the table omits.
pub(super) fn member<'a>(of: TypeId, name: &str) -> Option<Ref<'a>> {
    match types().member(of, name) {
        Some(field) => Some(of_member(field)),
        None => matches!(name, "apiVersion" | "kind")
            .then(|| is_object(of))?
            .then_some(Ref::Text),
    }
}

/// Returns the default of a member in OpenAPI.
pub(super) fn default(of: TypeId, name: &str) -> Option<Value> {
    let field = types().member(of, name)?;
    if let Some(text) = field.default {
        return serde_json::from_str(text).ok();
    }
    // A member that is always written has its zero value.
    if field.pointer || field.omit != Omit::Never {
        return None;
    }
    match field.shape {
        Shape::String => Some(Value::from("")),
        Shape::Bool => Some(Value::from(false)),
        Shape::Int32 | Shape::Int64 | Shape::Float64 => Some(Value::from(0)),
        _ => None,
    }
}

fn of_member(field: &'static Field) -> Ref<'static> {
    match field.shape {
        Shape::Struct(of) => Ref::Struct(of, relation(field)),
        _ => Ref::Field(field),
    }
}

fn relation(field: &Field) -> Option<Relation> {
    match (field.atomic_map, field.granular_map) {
        (true, _) => Some(Relation::Atomic),
        (_, true) => Some(Relation::Separable),
        _ => None,
    }
}

fn of_element(shape: &Shape) -> Ref<'_> {
    match shape {
        Shape::Struct(of) => Ref::Struct(*of, None),
        shape => Ref::Shape(shape),
    }
}

fn list_relation(field: &Field) -> ListRelation<'_> {
    match (field.list, &field.merge_key) {
        (Some(ListType::Atomic), _) => ListRelation::Atomic,
        (Some(ListType::Set), _) => ListRelation::Set,
        (Some(ListType::Map), _) => ListRelation::Keys(Keys::BuiltIn(&field.list_keys)),
        // Without a setting of its own, the list is merged as by strategic merge patches.
        (None, Some(key)) if field.merge => {
            ListRelation::Keys(Keys::BuiltIn(std::slice::from_ref(key)))
        }
        (None, None) if field.merge => ListRelation::Set,
        (None, _) => ListRelation::Atomic,
    }
}

/// Returns whether the type is a whole object or a list of objects. Templates have metadata, too,
/// but are neither.
fn is_object(of: TypeId) -> bool {
    let Some(metadata) = types().member(of, "metadata") else {
        return false;
    };
    let Shape::Struct(meta) = metadata.shape else {
        return false;
    };
    let kind = types().get(of).kind();
    let template = kind.ends_with("TemplateSpec") || kind == "PersistentVolumeClaimTemplate";
    !template && matches!(types().get(meta).kind(), "ObjectMeta" | "ListMeta")
}
