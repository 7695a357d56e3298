//! The internal form of a definition, in which Kubernetes reports errors: properties that all
//! versions share are lifted from the versions to `spec`.

use insula_kinds::{Object, Value};

use super::props::Props;

/// The properties that can be lifted.
const SHARED: [Shared; 4] = [
    Shared::Schema,
    Shared::Subresources,
    Shared::Columns,
    Shared::SelectableFields,
];

/// A definition in its internal form.
#[derive(Clone, Copy, Debug)]
pub(super) struct InternalForm<'a> {
    /// The `spec` as written.
    pub spec: Props<'a>,
    versions: &'a [Value],
    shared: [bool; SHARED.len()],
}

/// A property that all versions may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shared {
    /// `schema`, called `validation` in `spec`.
    Schema,
    /// `subresources`
    Subresources,
    /// `additionalPrinterColumns`
    Columns,
    /// `selectableFields`
    SelectableFields,
}

impl Shared {
    /// The name in a version.
    pub fn name(self) -> &'static str {
        match self {
            Self::Schema => "schema",
            Self::Subresources => "subresources",
            Self::Columns => "additionalPrinterColumns",
            Self::SelectableFields => "selectableFields",
        }
    }
}

impl<'a> InternalForm<'a> {
    /// Converts a definition to its internal form.
    pub fn of(definition: &'a Object) -> Self {
        let spec = Props::of(definition.get("spec"));
        let versions = spec.list("versions");
        let alike = |what: Shared| {
            let value = |version| Props::of(Some(version)).get(what.name());
            let mut rest = versions.iter().map(value);
            rest.next()
                .is_some_and(|first| rest.all(|other| same_part(first, other)))
        };
        Self {
            spec,
            versions,
            shared: SHARED.map(alike),
        }
    }

    /// The versions without lifted properties.
    pub fn versions(&self) -> impl Iterator<Item = Version<'a>> + use<'a> {
        let shared = self.shared;
        self.versions.iter().map(move |version| Version {
            raw: Props::of(Some(version)),
            shared,
        })
    }

    /// The lifted value of a property, if all versions share it.
    pub fn top(&self, what: Shared) -> Option<&'a Value> {
        let first = self.versions.first().filter(|_| self.shared[what as usize]);
        Props::of(first).get(what.name())
    }

    /// The schema of all versions, if they share it: `validation`.
    pub fn validation(&self) -> Option<Props<'a>> {
        self.top(Shared::Schema)
            .map(|schema| Props::of(Some(schema)))
    }

    /// The name of the first version.
    pub fn version(&self) -> &'a str {
        Props::of(self.versions.first()).text("name")
    }

    /// Reports whether unknown fields are preserved, which new definitions cannot request.
    pub fn preserves_unknown(&self) -> bool {
        self.spec.flag("preserveUnknownFields")
    }

    /// Reports whether every version has a schema.
    pub fn schemas_are_complete(&self) -> bool {
        let has = |schema: Option<Props<'_>>| schema.is_some_and(|it| it.has("openAPIV3Schema"));
        has(self.validation()) || self.versions().all(|version| has(version.schema()))
    }

    /// All schemas, each once.
    pub fn schemas(&self) -> impl Iterator<Item = Props<'a>> + use<'a> {
        let top = self.validation();
        let each = self.versions().filter_map(|version| version.schema());
        top.into_iter()
            .chain(each)
            .filter_map(|schema| schema.child("openAPIV3Schema"))
    }

    /// Reports whether any schema, at any level, satisfies the condition.
    pub fn any_schema(&self, such: impl Fn(Props<'_>) -> bool) -> bool {
        self.schemas().any(|schema| schema.any(&such))
    }
}

/// A version in its internal form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version<'a> {
    /// The version as written.
    pub raw: Props<'a>,
    shared: [bool; SHARED.len()],
}

impl<'a> Version<'a> {
    /// The version's own value of a property, unless it is lifted.
    pub fn own(&self, what: Shared) -> Option<&'a Value> {
        self.raw
            .get(what.name())
            .filter(|_| !self.shared[what as usize])
    }

    /// The version's own schema.
    pub fn schema(&self) -> Option<Props<'a>> {
        self.own(Shared::Schema)
            .map(|schema| Props::of(Some(schema)))
    }

    /// The version's own subresources.
    pub fn subresources(&self) -> Option<Props<'a>> {
        let own = self.own(Shared::Subresources);
        own.map(|subresources| Props::of(Some(subresources)))
    }
}

/// Compares a property of two versions. Empty lists equal absent ones; other properties are
/// present or not.
pub(super) fn same_part(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => same(a, b, Sort::Struct),
        (None, None) => true,
        (Some(one), None) | (None, Some(one)) => one.as_array().is_some_and(Vec::is_empty),
    }
}

/// The Go type of an object, which determines what equals an absent value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// A struct: zero values equal absent fields.
    Struct,
    /// A map of structs.
    Map,
    /// Arbitrary JSON.
    Raw,
}

/// Fields that are pointers in Go: their zero values differ from absent ones.
const POINTERS: &[&str] = &[
    "$ref",
    "additionalItems",
    "additionalProperties",
    "default",
    "example",
    "externalDocs",
    "items",
    "labelSelectorPath",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "openAPIV3Schema",
    "optionalOldSelf",
    "reason",
    "scale",
    "status",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
];

fn same(a: &Value, b: &Value, sort: Sort) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let within = |a: &Object, b: &Object| {
                a.iter().all(|(key, value)| match b.get(key) {
                    Some(other) => same(value, other, below(sort, key)),
                    None => sort == Sort::Struct && zero(key, value),
                })
            };
            within(a, b)
                && b.iter().all(|(key, value)| {
                    a.contains_key(key) || sort == Sort::Struct && zero(key, value)
                })
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, sort))
        }
        (Value::Null, other) | (other, Value::Null) if sort == Sort::Struct => {
            other.is_null() || zero("", other)
        }
        (a, b) => a == b,
    }
}

fn below(sort: Sort, key: &str) -> Sort {
    match (sort, key) {
        (Sort::Raw, _) | (Sort::Struct, "default" | "example" | "enum") => Sort::Raw,
        (Sort::Struct, "properties" | "patternProperties" | "definitions" | "dependencies") => {
            Sort::Map
        }
        _ => Sort::Struct,
    }
}

fn zero(key: &str, value: &Value) -> bool {
    let empty = match value {
        Value::Null => return true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    };
    empty && !POINTERS.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn zero_values_of_go_equal_absent_fields() {
        let cases = [
            (
                json!({"type": "object"}),
                json!({"type": "object", "nullable": false}),
                true,
            ),
            (json!({"type": ""}), json!({}), true),
            (json!({"required": []}), json!({}), true),
            (json!({"properties": {}}), json!({}), true),
            (json!({"default": null}), json!({}), true),
            (json!({"maxLength": 0}), json!({}), false),
            (json!({"$ref": ""}), json!({}), false),
            (json!({"not": {}}), json!({}), false),
            (json!({"not": {"title": ""}}), json!({"not": {}}), true),
            // Names of properties are not fields of schemas.
            (
                json!({"properties": {"title": {}}}),
                json!({"properties": {"a": {}}}),
                false,
            ),
            (
                json!({"properties": {"type": {}}}),
                json!({"properties": {}}),
                false,
            ),
            (
                json!({"properties": {"a": {"title": ""}}}),
                json!({"properties": {"a": {}}}),
                true,
            ),
            (json!({"default": {"a": ""}}), json!({"default": {}}), false),
            (json!({"enum": [1]}), json!({"enum": [1.0]}), false),
            (
                json!({"allOf": [{"title": ""}]}),
                json!({"allOf": [{}]}),
                true,
            ),
        ];
        for (a, b, wanted) in cases {
            assert_eq!(same_part(Some(&a), Some(&b)), wanted, "{a} {b}");
            assert_eq!(same_part(Some(&b), Some(&a)), wanted, "{b} {a}");
        }
    }

    #[test]
    fn shared_properties_are_lifted_to_the_spec() {
        let definition = json!({"spec": {"versions": [
            {"name": "v1", "schema": {"openAPIV3Schema": {"type": "object"}}, "subresources": {}},
            {"name": "v2", "schema": {"openAPIV3Schema": {"type": "object"}}, "selectableFields": []},
        ]}});
        let Value::Object(definition) = definition else {
            unreachable!("it is an object");
        };
        let form = InternalForm::of(&definition);
        assert!(form.validation().is_some());
        assert!(form.versions().all(|version| version.schema().is_none()));
        let own: Vec<_> = form
            .versions()
            .map(|version| version.subresources().is_some())
            .collect();
        assert_eq!(own, [true, false]);
        assert_eq!(form.top(Shared::Subresources), None);
        assert_eq!(form.schemas().count(), 1);
    }
}
