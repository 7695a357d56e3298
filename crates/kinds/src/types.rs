//! The types that objects consist of, as data: `data/types.txt`.
//!
//! One table drives decoding, encoding, protobuf, patches and OpenAPI, so a kind needs no
//! code of its own to be read and written exactly.

use std::collections::HashMap;
use std::sync::LazyLock;

static TABLE: LazyLock<Types> = LazyLock::new(|| Types::parse(include_str!("../data/types.txt")));

/// Returns the table of all types.
pub fn types() -> &'static Types {
    &TABLE
}

/// All types, indexed by name and by ID.
#[derive(Debug)]
pub struct Types {
    types: Vec<Type>,
    by_name: HashMap<&'static str, TypeId>,
}

/// The index of a type in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(u16);

impl TypeId {
    /// Returns the position of the type in the table.
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A struct as Go declares it.
#[derive(Debug)]
pub struct Type {
    /// The OpenAPI name without `io.k8s.`, such as `api.apps.v1.Deployment`.
    pub name: &'static str,
    /// The fields in declaration order; an inline field stands for the fields of its
    /// type.
    pub fields: Vec<Field>,
    /// The JSON representation.
    pub form: Form,
    /// Whether server-side apply treats the value as a unit.
    pub atomic: bool,
    members: Vec<Member>,
    by_json: HashMap<&'static str, usize>,
    /// The positions of the members that are written even if they are unset.
    always: Vec<usize>,
}

/// The JSON representation of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An object with the members of the type.
    Object,
    /// Field 1 or field 2, whichever fits the value (schemas of apiextensions).
    Either,
}

/// A field of a type.
#[derive(Clone, Debug)]
pub struct Field {
    /// The JSON name; empty for inline fields and those of [`Form::Either`].
    pub json: &'static str,
    /// The protobuf field number.
    pub number: u32,
    /// The shape of the value.
    pub shape: Shape,
    /// Whether Go holds a pointer, so that absent and zero differ.
    pub pointer: bool,
    /// Whether its members appear in the JSON of the enclosing type.
    pub inline: bool,
    /// When the field is omitted from JSON.
    pub omit: Omit,
    /// Whether a strategic merge patch merges the field instead of replacing it.
    pub merge: bool,
    /// Whether a strategic merge patch may state which keys to retain.
    pub retain_keys: bool,
    /// The merge key of list elements in strategic merge patches.
    pub merge_key: Option<&'static str>,
    /// How server-side apply treats the list.
    pub list: Option<ListType>,
    /// The members that identify an element of a [`ListType::Map`].
    pub list_keys: Vec<&'static str>,
    /// Whether server-side apply treats the map as a unit.
    pub atomic_map: bool,
    /// Whether server-side apply treats each member separately, even if the type is
    /// atomic.
    pub granular_map: bool,
    /// The default that OpenAPI states, as JSON.
    pub default: Option<&'static str>,
    /// Whether OpenAPI marks the field as required.
    pub required: bool,
}

/// The shape of a field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A string.
    String,
    /// A boolean.
    Bool,
    /// A signed 32-bit integer.
    Int32,
    /// A signed 64-bit integer.
    Int64,
    /// A double.
    Float64,
    /// Bytes, base64 in JSON.
    Bytes,
    /// A time with seconds, RFC 3339 in JSON.
    Time,
    /// A time with microseconds.
    MicroTime,
    /// A resource quantity such as `1536Mi`.
    Quantity,
    /// An integer or a string.
    IntOrString,
    /// Any JSON, kept verbatim.
    Raw,
    /// Another type.
    Struct(TypeId),
    /// A list.
    List(Box<Shape>),
    /// A list that protobuf wraps in a message of its own (`items = 1`).
    WrappedList(Box<Shape>),
    /// A map with string keys.
    Map(Box<Shape>),
}

/// When a field is omitted from JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omit {
    /// Never: its zero value is written.
    Never,
    /// When it is empty in the sense of Go's `omitempty`: structs, and so times, never
    /// are.
    Empty,
    /// When it is zero, structs included (`omitzero`).
    Zero,
}

/// How server-side apply treats a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// The list is a unit.
    Atomic,
    /// The list is a set of scalars.
    Set,
    /// Elements are identified by keys.
    Map,
}

/// A member of a type's JSON object, with inline types expanded.
#[derive(Clone, Copy, Debug)]
struct Member {
    owner: TypeId,
    field: usize,
}

impl Types {
    /// Returns the type.
    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[usize::from(id.0)]
    }

    /// Finds a type by name, such as `api.core.v1.Pod`.
    pub fn find(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied()
    }

    /// Iterates over all types, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (TypeId, &Type)> {
        (0u16..).map(TypeId).zip(&self.types)
    }

    /// Iterates over the members of the type's JSON object in the order in which they are
    /// written.
    pub fn members(&self, id: TypeId) -> impl Iterator<Item = &Field> {
        self.get(id).members.iter().map(|member| self.field(member))
    }

    /// Finds a member of the type's JSON object by name.
    pub fn member(&self, id: TypeId, json: &str) -> Option<&Field> {
        let of = self.get(id);
        let index = of.by_json.get(json)?;
        Some(self.field(&of.members[*index]))
    }

    /// Iterates over the members that are written even if they are unset.
    pub(crate) fn always_written(&self, id: TypeId) -> impl Iterator<Item = &Field> {
        let of = self.get(id);
        let members = of.always.iter().map(|at| &of.members[*at]);
        members.map(|member| self.field(member))
    }

    /// Returns the position of a member in the order in which members are written.
    pub fn position(&self, id: TypeId, json: &str) -> Option<usize> {
        self.get(id).by_json.get(json).copied()
    }

    fn field(&self, member: &Member) -> &Field {
        &self.get(member.owner).fields[member.field]
    }

    fn parse(text: &'static str) -> Self {
        let names = text.lines().filter(|line| !line.starts_with(' '));
        let by_name = names
            .zip(0u16..)
            .map(|(line, index)| (first_word(line), TypeId(index)))
            .collect();
        let mut table = Self {
            types: Vec::new(),
            by_name,
        };
        for line in text.lines() {
            match line.strip_prefix(' ') {
                None => table.types.push(Type::parse(line)),
                Some(field) => {
                    let field = Field::parse(field, &table.by_name);
                    table
                        .types
                        .last_mut()
                        .expect("a field follows its type")
                        .fields
                        .push(field);
                }
            }
        }
        for index in 0..table.types.len() {
            let mut members = Vec::new();
            table.unfold(TypeId(index as u16), &mut members);
            let json = |(at, member): (usize, &Member)| (table.field(member).json, at);
            let by_json = members.iter().enumerate().map(json).collect();
            let written = |member: &Member| table.field(member).is_always_written();
            let places = 0..members.len();
            let always = places.filter(|at| written(&members[*at])).collect();
            table.types[index].always = always;
            table.types[index].by_json = by_json;
            table.types[index].members = members;
        }
        table
    }

    fn unfold(&self, id: TypeId, members: &mut Vec<Member>) {
        for (index, field) in self.get(id).fields.iter().enumerate() {
            match (&field.shape, field.inline) {
                (Shape::Struct(inner), true) => self.unfold(*inner, members),
                _ => members.push(Member {
                    owner: id,
                    field: index,
                }),
            }
        }
    }
}

impl Type {
    fn parse(line: &'static str) -> Self {
        let name = first_word(line);
        let form = match name.rsplit('.').next() {
            Some(last) if last.starts_with("JSONSchemaPropsOr") => Form::Either,
            _ => Form::Object,
        };
        Self {
            name,
            fields: Vec::new(),
            form,
            atomic: line.contains(" mt=atomic"),
            members: Vec::new(),
            by_json: HashMap::new(),
            always: Vec::new(),
        }
    }

    /// Returns the name of the kind: the last part of the type's name.
    pub fn kind(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

impl Field {
    /// Whether Go writes the member even if it is unset.
    pub(crate) fn is_always_written(&self) -> bool {
        match self.omit {
            Omit::Never => true,
            Omit::Empty => !self.pointer && self.shape.is_go_struct(),
            Omit::Zero => false,
        }
    }

    fn parse(line: &'static str, names: &HashMap<&'static str, TypeId>) -> Self {
        let mut words = line.split(' ');
        let json = words.next().unwrap_or_default();
        let number = words.next().unwrap_or_default();
        let shape = words.next().unwrap_or_default();
        let (pointer, shape) = match shape.strip_prefix('*') {
            Some(shape) => (true, shape),
            None => (false, shape),
        };
        let mut field = Self {
            json: if json == "-" { "" } else { json },
            number: number.parse().expect("the table is generated"),
            shape: Shape::parse(shape, names),
            pointer,
            inline: false,
            omit: Omit::Never,
            merge: false,
            retain_keys: false,
            merge_key: None,
            list: None,
            list_keys: Vec::new(),
            atomic_map: false,
            granular_map: false,
            default: None,
            required: false,
        };
        for word in words {
            field.mark(word);
        }
        field
    }

    fn mark(&mut self, word: &'static str) {
        match word.split_once('=') {
            None => match word {
                "inline" => self.inline = true,
                "omit" if self.omit == Omit::Never => self.omit = Omit::Empty,
                "omitzero" => self.omit = Omit::Zero,
                "required" => self.required = true,
                _ => {}
            },
            Some(("patch", strategies)) => {
                self.merge = strategies.split(',').any(|word| word == "merge");
                self.retain_keys = strategies.split(',').any(|word| word == "retainKeys");
            }
            Some(("key", key)) => self.merge_key = Some(key),
            Some(("list", "map")) => self.list = Some(ListType::Map),
            Some(("list", "set")) => self.list = Some(ListType::Set),
            Some(("list", _)) => self.list = Some(ListType::Atomic),
            Some(("keys", keys)) => self.list_keys = keys.split('+').collect(),
            Some(("map", kind)) => {
                self.atomic_map = kind == "atomic";
                self.granular_map = kind == "granular";
            }
            Some(("default", json)) => self.default = Some(json),
            Some(_) => {}
        }
    }
}

impl Shape {
    /// Whether Go holds a struct, which is never empty.
    pub(crate) fn is_go_struct(&self) -> bool {
        matches!(
            self,
            Self::Struct(_)
                | Self::Time
                | Self::MicroTime
                | Self::Quantity
                | Self::IntOrString
                | Self::Raw
        )
    }

    fn parse(text: &str, names: &HashMap<&'static str, TypeId>) -> Self {
        if let Some(of) = text.strip_prefix("[]") {
            return Self::List(Box::new(Self::parse(of, names)));
        }
        if let Some(of) = text.strip_prefix("items[]") {
            return Self::WrappedList(Box::new(Self::parse(of, names)));
        }
        if let Some(of) = text.strip_prefix("map<string,") {
            return Self::Map(Box::new(Self::parse(of.trim_end_matches('>'), names)));
        }
        match text {
            "string" => Self::String,
            "bool" => Self::Bool,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "float64" => Self::Float64,
            "bytes" => Self::Bytes,
            "time" => Self::Time,
            "utime" => Self::MicroTime,
            "qty" => Self::Quantity,
            "ios" => Self::IntOrString,
            "raw" => Self::Raw,
            name => Self::Struct(
                *names
                    .get(name)
                    .expect("the table has every type it refers to"),
            ),
        }
    }
}

fn first_word(line: &'static str) -> &'static str {
    line.split(' ').next().unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_in_go_order_with_inline_types_expanded() {
        let volume = types().find("api.core.v1.Volume").unwrap();
        let names: Vec<_> = types()
            .members(volume)
            .map(|field| field.json)
            .take(3)
            .collect();
        assert_eq!(names, ["name", "hostPath", "emptyDir"]);
        let pod = types().find("api.core.v1.PodSpec").unwrap();
        let names: Vec<_> = types()
            .members(pod)
            .map(|field| field.json)
            .take(3)
            .collect();
        assert_eq!(names, ["volumes", "initContainers", "containers"]);
    }

    #[test]
    fn fields_carry_their_patch_strategy() {
        let pod = types().find("api.core.v1.PodSpec").unwrap();
        let volumes = types().member(pod, "volumes").unwrap();
        assert!(volumes.merge && volumes.retain_keys);
        assert_eq!(volumes.merge_key, Some("name"));
        assert_eq!(volumes.list, Some(ListType::Map));
    }

    #[test]
    fn type_table_is_complete() {
        // Parsing panics on an unknown type name; the count detects a truncated table.
        assert_eq!(types().iter().count(), 608);
    }
}
