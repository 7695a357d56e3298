//! A compiled definition: the kinds that it serves, in the order in which clients prefer
//! their versions.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_kinds::{CustomKind, Kind, Object, Scope, Value, selector, version_order};

use crate::path::Path;
use crate::scale::ScalePaths;
use crate::table::{self, Column};

/// A CustomResourceDefinition, compiled.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The API group.
    pub group: String,
    /// The plural name.
    pub resource: String,
    /// The scope of its objects.
    pub scope: Scope,
    /// Its versions, the preferred one first.
    pub versions: Vec<Version>,
    /// How objects are converted between versions.
    pub conversion: Conversion,
}

/// A version of a definition.
#[derive(Clone, Debug)]
pub struct Version {
    /// The kind in this version.
    pub kind: Kind,
    /// Whether the version is served.
    pub served: bool,
    /// Whether objects are stored in this version.
    pub storage: bool,
    /// The deprecation warning, if the version is deprecated.
    pub warning: Option<String>,
    /// The printer columns after the name.
    pub columns: Vec<Column>,
    /// The paths of the scale subresource, if it has one.
    pub scale: Option<ScalePaths>,
    /// Selectable fields besides those of the metadata.
    pub selectable: Vec<Path>,
    /// The schema as written.
    pub schema: WrittenSchema,
}

/// A schema as JSON text. As a tree it takes ten times the memory, and it is needed only while
/// the schema is compiled or published.
#[derive(Clone, Debug)]
pub struct WrittenSchema(Box<str>);

impl WrittenSchema {
    /// Parses the schema; null if the version has none.
    pub fn parse(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl From<&Value> for WrittenSchema {
    fn from(schema: &Value) -> Self {
        Self(schema.to_string().into())
    }
}

/// How objects are converted between versions.
#[derive(Clone, Debug, PartialEq)]
pub enum Conversion {
    /// Only `apiVersion` is changed.
    None,
    /// A webhook converts them.
    Webhook {
        /// The `clientConfig` of the definition.
        client_config: Value,
        /// The accepted versions of ConversionReview, the preferred one first.
        review_versions: Vec<String>,
    },
}

/// Why a definition cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// A mandatory field is missing.
    #[error("the definition has no {0}")]
    Missing(&'static str),
    /// No version has `storage: true`.
    #[error("the definition has no storage version")]
    NoStorage,
}

impl Definition {
    /// Compiles a definition from its `spec` and `status.acceptedNames`.
    pub fn compile(spec: &Value, accepted: &Value) -> Result<Self, CompileError> {
        let names = Names::read(spec, accepted)?;
        let listed = spec.get("versions").and_then(Value::as_array);
        let listed = listed.ok_or(CompileError::Missing("spec.versions"))?;
        let storage = listed.iter().find(|version| flag(version, "storage"));
        let storage = storage.ok_or(CompileError::NoStorage)?;
        let hash = names.hash(storage);
        let mut versions = Vec::with_capacity(listed.len());
        for version in listed {
            versions.push(names.version(version, listed, &hash)?);
        }
        versions.sort_by(|a, b| version_order(&a.kind.version, &b.kind.version));
        Ok(Self {
            group: names.group.to_owned(),
            resource: names.plural.to_owned(),
            scope: names.scope,
            versions,
            conversion: Conversion::read(spec),
        })
    }

    /// The version of this name, served or not.
    pub fn version(&self, name: &str) -> Option<&Version> {
        let mut versions = self.versions.iter();
        versions.find(|version| version.kind.version == name)
    }

    /// The storage version.
    pub fn storage(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.storage)
    }

    /// The served versions, the preferred one first.
    pub fn served(&self) -> impl Iterator<Item = &Version> {
        self.versions.iter().filter(|version| version.served)
    }
}

impl Version {
    /// The value that field selectors compare for this field; empty if missing.
    pub fn field_value(&self, object: &Object, field: &str) -> String {
        let mut selectable = self.selectable.iter();
        match selectable.find(|path| path.field() == field) {
            Some(path) => path.selected(object),
            None => selector::field_value(&self.kind, object, field),
        }
    }
}

impl Conversion {
    fn read(spec: &Value) -> Self {
        let conversion = &spec["conversion"];
        if conversion["strategy"] != "Webhook" {
            return Self::None;
        }
        let webhook = &conversion["webhook"];
        Self::Webhook {
            client_config: webhook["clientConfig"].clone(),
            review_versions: texts(&webhook["conversionReviewVersions"]),
        }
    }
}

/// The properties that all versions share.
struct Names<'a> {
    group: &'a str,
    plural: &'a str,
    singular: &'a str,
    kind: &'a str,
    list_kind: &'a str,
    short_names: Vec<String>,
    categories: Vec<String>,
    scope: Scope,
}

impl<'a> Names<'a> {
    fn read(spec: &'a Value, accepted: &'a Value) -> Result<Self, CompileError> {
        let scope = match text(spec, "scope") {
            Some("Cluster") => Scope::Cluster,
            Some("Namespaced") => Scope::Namespaced,
            _ => return Err(CompileError::Missing("spec.scope")),
        };
        let missing = CompileError::Missing;
        let name = |name: &str| text(accepted, name);
        Ok(Self {
            group: text(spec, "group").ok_or(missing("spec.group"))?,
            plural: name("plural").ok_or(missing("status.acceptedNames.plural"))?,
            singular: name("singular").ok_or(missing("status.acceptedNames.singular"))?,
            kind: name("kind").ok_or(missing("status.acceptedNames.kind"))?,
            list_kind: name("listKind").ok_or(missing("status.acceptedNames.listKind"))?,
            short_names: texts(&accepted["shortNames"]),
            categories: texts(&accepted["categories"]),
            scope,
        })
    }

    /// The storage version hash for discovery; empty if the storage version is not served.
    fn hash(&self, storage: &Value) -> String {
        if !flag(storage, "served") {
            return String::new();
        }
        let version = text(storage, "name").unwrap_or_default();
        let name = format!("{}/{version}/{}", self.group, self.kind);
        let digest = ring::digest::digest(&ring::digest::SHA256, name.as_bytes());
        STANDARD.encode(digest.as_ref().first_chunk::<8>().map_or(&[][..], |it| it))
    }

    fn version(&self, of: &Value, all: &[Value], hash: &str) -> Result<Version, CompileError> {
        let name = text(of, "name").ok_or(CompileError::Missing("spec.versions[].name"))?;
        let columns = table::columns(&of["additionalPrinterColumns"]);
        let scale = ScalePaths::new(&of["subresources"]["scale"]);
        let selectable = selectable(&of["selectableFields"]);
        let kind = Kind::custom(CustomKind {
            group: self.group.to_owned(),
            version: name.to_owned(),
            resource: self.plural.to_owned(),
            singular: self.singular.to_owned(),
            kind: self.kind.to_owned(),
            list_kind: self.list_kind.to_owned(),
            scope: self.scope,
            short_names: self.short_names.clone(),
            categories: self.categories.clone(),
            status: of["subresources"]["status"].is_object(),
            scale: scale.is_some(),
            selectable: selectable
                .iter()
                .map(|path| path.field().to_owned())
                .collect(),
            columns: table::definitions(&columns),
            storage_version_hash: hash.to_owned(),
        });
        Ok(Version {
            kind,
            served: flag(of, "served"),
            storage: flag(of, "storage"),
            warning: self.warning(of, name, all),
            columns,
            scale,
            selectable,
            schema: WrittenSchema::from(&of["schema"]["openAPIV3Schema"]),
        })
    }

    /// The deprecation warning: the definition's own, or Kubernetes' default.
    fn warning(&self, of: &Value, name: &str, all: &[Value]) -> Option<String> {
        if !flag(of, "deprecated") {
            return None;
        }
        if let Some(given) = of["deprecationWarning"].as_str() {
            return Some(given.to_owned());
        }
        let (group, kind) = (self.group, self.kind);
        let mut better: Vec<&str> = all
            .iter()
            .filter(|other| flag(other, "served") && !flag(other, "deprecated"))
            .filter_map(|other| text(other, "name"))
            .filter(|other| version_order(other, name).is_lt())
            .collect();
        better.sort_by(|a, b| version_order(a, b));
        Some(match better.first() {
            None => format!("{group}/{name} {kind} is deprecated"),
            Some(best) => {
                format!("{group}/{name} {kind} is deprecated; use {group}/{best} {kind}")
            }
        })
    }
}

/// The valid paths, without duplicates.
fn selectable(fields: &Value) -> Vec<Path> {
    let mut seen = HashSet::new();
    let fields = fields.as_array().into_iter().flatten();
    fields
        .filter_map(|field| Path::parse(text(field, "jsonPath")?).ok())
        .filter(|path| seen.insert(path.text().to_owned()))
        .collect()
}

fn text<'a>(of: &'a Value, name: &str) -> Option<&'a str> {
    let text = of.get(name).and_then(Value::as_str);
    text.filter(|text| !text.is_empty())
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn flag(of: &Value, name: &str) -> bool {
    of.get(name) == Some(&Value::Bool(true))
}
