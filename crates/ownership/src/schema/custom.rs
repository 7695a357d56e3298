//! Compiled schemas of custom resources.

use std::sync::LazyLock;

use insula_kinds::{Object, TypeId, Value, types};

use super::{Atom, Keys, List, ListRelation, Map, Members, Ref, Scalar};

/// The maximum nesting of schemas; deeper parts are atomic. JSON decoders allow no more in
/// definitions.
const MAX_DEPTH: usize = 256;

static OBJECT_META: LazyLock<Option<TypeId>> =
    LazyLock::new(|| types().find("apimachinery.pkg.apis.meta.v1.ObjectMeta"));

/// A node of a schema.
#[derive(Debug)]
pub(crate) struct Node {
    scalar: Option<Scalar>,
    list: Option<ListNode>,
    map: Option<MapNode>,
}

#[derive(Debug)]
struct ListNode {
    relation: NodeRelation,
    element: NodeRef,
}

#[derive(Debug)]
enum NodeRelation {
    Atomic,
    Set,
    Keys(Box<[String]>),
}

#[derive(Debug)]
struct MapNode {
    atomic: bool,
    /// Sorted by name.
    members: Vec<Member>,
    element: NodeRef,
}

#[derive(Debug)]
struct Member {
    name: Box<str>,
    of: NodeRef,
    default: Option<Value>,
}

#[derive(Debug)]
enum NodeRef {
    Nothing,
    Deduced,
    Whole,
    Text,
    ObjectMeta,
    Node(Box<Node>),
}

/// Compiles the schema of a whole object, which has metadata, `apiVersion` and `kind` even if it
/// does not declare them.
pub(super) fn compile_root(schema: &Value) -> Node {
    let mut node = compile(schema, false, 0);
    if let Some(map) = &mut node.map {
        map.add_object_members();
    }
    node
}

impl Node {
    /// Returns the kinds of values that the node accepts.
    pub(super) fn atom(&self) -> Atom<'_> {
        Atom {
            scalar: self.scalar,
            list: self.list.as_ref().map(ListNode::view),
            map: self.map.as_ref().map(|map| Map {
                atomic: map.atomic,
                members: Members::Node(self),
                element: map.element.view(),
            }),
        }
    }

    /// Returns the type of a declared member.
    pub(super) fn member(&self, name: &str) -> Option<Ref<'_>> {
        self.find(name).map(|member| member.of.view())
    }

    /// Returns the default of a declared member.
    pub(super) fn default(&self, name: &str) -> Option<&Value> {
        self.find(name)?.default.as_ref()
    }

    /// Returns whether no member is declared.
    pub(super) fn is_open(&self) -> bool {
        self.map.as_ref().is_none_or(|map| map.members.is_empty())
    }

    fn find(&self, name: &str) -> Option<&Member> {
        let members = &self.map.as_ref()?.members;
        let at = members.binary_search_by(|member| (*member.name).cmp(name));
        Some(&members[at.ok()?])
    }
}

impl ListNode {
    fn view(&self) -> List<'_> {
        List {
            relation: match &self.relation {
                NodeRelation::Atomic => ListRelation::Atomic,
                NodeRelation::Set => ListRelation::Set,
                NodeRelation::Keys(keys) => ListRelation::Keys(Keys::Custom(keys)),
            },
            element: self.element.view(),
        }
    }
}

impl MapNode {
    fn add_object_members(&mut self) {
        for (name, of) in [
            ("apiVersion", NodeRef::Text),
            ("kind", NodeRef::Text),
            ("metadata", NodeRef::ObjectMeta),
        ] {
            let member = Member {
                name: name.into(),
                of,
                default: None,
            };
            match self
                .members
                .binary_search_by(|other| (*other.name).cmp(name))
            {
                Ok(at) => self.members[at] = member,
                Err(at) => self.members.insert(at, member),
            }
        }
    }
}

impl NodeRef {
    fn view(&self) -> Ref<'_> {
        match self {
            Self::Nothing => Ref::Nothing,
            Self::Deduced => Ref::Deduced,
            Self::Whole => Ref::Whole,
            Self::Text => Ref::Text,
            Self::ObjectMeta => match *OBJECT_META {
                Some(of) => Ref::Struct(of, None),
                None => Ref::Deduced,
            },
            Self::Node(node) => Ref::Node(node),
        }
    }
}

/// Compiles a node, which is `open` if one above it preserves unknown fields.
fn compile(schema: &Value, open: bool, depth: usize) -> Node {
    let open = open || is_set(schema, "x-kubernetes-preserve-unknown-fields");
    let scalar = |scalar| Node {
        scalar: Some(scalar),
        list: None,
        map: None,
    };
    match text(schema, "type") {
        "object" => Node {
            scalar: None,
            list: None,
            map: Some(compile_map(schema, open, depth)),
        },
        "array" => Node {
            scalar: None,
            list: Some(compile_list(schema, open, depth)),
            map: None,
        },
        "integer" | "number" => scalar(Scalar::Numeric),
        "boolean" => scalar(Scalar::Boolean),
        // Strings with a format can also be other types, except for bytes.
        "string" if matches!(text(schema, "format"), "" | "byte") => scalar(Scalar::String),
        "" => Node {
            scalar: Some(Scalar::Untyped),
            list: Some(compile_list(schema, open, depth)),
            map: Some(compile_map(schema, open, depth)),
        },
        _ => scalar(Scalar::Untyped),
    }
}

fn compile_map(schema: &Value, open: bool, depth: usize) -> MapNode {
    let none = Object::new();
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.unwrap_or(&none);
    let member = |(name, schema): (&String, &Value)| Member {
        name: name.as_str().into(),
        of: compile_ref(schema, open, depth),
        default: schema
            .get("default")
            .filter(|value| !value.is_null())
            .cloned(),
    };
    let element = match schema.get("additionalProperties") {
        None if open || properties.is_empty() => NodeRef::Deduced,
        None | Some(Value::Bool(false)) => NodeRef::Nothing,
        Some(Value::Object(_)) => compile_ref(&schema["additionalProperties"], open, depth),
        Some(_) => NodeRef::Deduced,
    };
    let mut map = MapNode {
        atomic: text(schema, "x-kubernetes-map-type") == "atomic",
        members: properties.iter().map(member).collect(),
        element,
    };
    if is_set(schema, "x-kubernetes-embedded-resource") {
        map.add_object_members();
    }
    map
}

fn compile_list(schema: &Value, open: bool, depth: usize) -> ListNode {
    let keys = || {
        let keys = schema.get("x-kubernetes-list-map-keys");
        let keys = keys.and_then(Value::as_array).into_iter().flatten();
        keys.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let relation = match text(schema, "x-kubernetes-list-type") {
        "set" => NodeRelation::Set,
        "map" => NodeRelation::Keys(keys()),
        _ => NodeRelation::Atomic,
    };
    let element = match schema.get("items") {
        Some(items) => compile_ref(items, open, depth),
        None => NodeRef::Whole,
    };
    ListNode { relation, element }
}

fn compile_ref(schema: &Value, open: bool, depth: usize) -> NodeRef {
    match depth > MAX_DEPTH {
        true => NodeRef::Whole,
        false => NodeRef::Node(Box::new(compile(schema, open, depth + 1))),
    }
}

fn text<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn is_set(schema: &Value, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}
