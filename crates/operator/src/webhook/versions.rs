//! Conversion of custom resources between two versions, without loss.
//!
//! A provider lists its kinds, and for each the fields that differ, as [`Rule`]s. The rules say
//! both directions: they are applied in order from the older to the newer version, and in reverse
//! order back. What the other version cannot express is [kept](kept) in an annotation.
//!
//! ```
//! use insula_operator::webhook::Router;
//! use insula_operator::webhook::versions::{Kind, Rule, Versions};
//!
//! const VERSIONS: Versions = Versions {
//!     group: "example.org",
//!     older: "v1beta1",
//!     newer: "v1beta2",
//!     annotation: "example.org/conversion-data",
//!     kinds: &[Kind {
//!         name: "Widget",
//!         spec: &[
//!             Rule::Rename { older: "colour", newer: "color" },
//!             Rule::OmitEmpty(&["color", "description"]),
//!             Rule::In("template", &[Rule::OnlyNewer(&["metadata"])]),
//!         ],
//!         status: &[],
//!     }],
//! };
//!
//! let router = Router::new().conversion("/convert", |object, to| VERSIONS.convert(object, to));
//! ```
//!
//! A field that only one version has needs a rule too, such as [`Rule::OnlyNewer`]: the API server
//! removes what the schema of a version does not have before the annotation could keep it. Tests
//! of a provider convert objects with any of their fields there and back.

mod duration;
mod kept;
mod rule;

use serde_json::{Map, Value};

pub use rule::{Fields, Rule};

/// The two versions of the kinds of a group.
#[derive(Clone, Copy, Debug)]
pub struct Versions {
    /// The group.
    pub group: &'static str,
    /// The name of the older version.
    pub older: &'static str,
    /// The name of the newer version.
    pub newer: &'static str,
    /// The annotation that keeps what the version of an object cannot express.
    pub annotation: &'static str,
    /// The kinds with both versions.
    pub kinds: &'static [Kind],
}

/// A kind, with the fields that differ between its versions.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// The rules for its `spec`.
    pub spec: &'static [Rule],
    /// The rules for its `status`.
    pub status: &'static [Rule],
}

/// One of the two versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// The older one.
    Older,
    /// The newer one.
    Newer,
}

impl Versions {
    /// Converts an object to another `apiVersion`.
    ///
    /// # Errors
    ///
    /// If the kind or one of the versions is unknown. The error is a message.
    pub fn convert(&self, mut object: Value, desired: &str) -> Result<Value, String> {
        let from = self.version(object["apiVersion"].as_str().unwrap_or_default())?;
        let to = self.version(desired)?;
        let kind = self.kind(object["kind"].as_str().unwrap_or_default())?;
        let Value::Object(members) = &mut object else {
            return Err("it is not an object".to_owned());
        };
        if from == to {
            return Ok(object);
        }
        members.insert("apiVersion".to_owned(), desired.into());
        let kept = kept::take(members, self.annotation, self.name(to));
        let original = content(members);
        let mut converted = original.clone();
        kind.convert(to, &mut converted);
        let back = |content: &Value| {
            let mut content = content.clone();
            kind.convert(from, &mut content);
            content
        };
        let mut converted = kept::restore(converted, &kept, back);
        let differences = kept::compare(self.name(from), &back(&converted), &original);
        kept::keep(members, self.annotation, &differences);
        if let Value::Object(content) = &mut converted {
            members.append(content);
        }
        Ok(object)
    }

    /// Returns the kind of this name.
    ///
    /// # Errors
    ///
    /// If it has no rules. The error is a message.
    pub fn kind(&self, name: &str) -> Result<&'static Kind, String> {
        let kind = self.kinds.iter().find(|kind| kind.name == name);
        kind.ok_or_else(|| format!("the kind {name:?} has one version"))
    }

    fn version(&self, api_version: &str) -> Result<Version, String> {
        let name = api_version.strip_prefix(self.group);
        match name.and_then(|rest| rest.strip_prefix('/')) {
            Some(name) if name == self.older => Ok(Version::Older),
            Some(name) if name == self.newer => Ok(Version::Newer),
            _ => Err(format!("{api_version:?} is no version of {}", self.group)),
        }
    }

    fn name(&self, version: Version) -> &'static str {
        match version {
            Version::Older => self.older,
            Version::Newer => self.newer,
        }
    }
}

impl Kind {
    /// Converts an object's `spec` and `status`. What the other version cannot express is left
    /// out.
    pub fn convert(&self, to: Version, content: &mut Value) {
        for (field, rules) in [("spec", self.spec), ("status", self.status)] {
            if let Some(Value::Object(fields)) = content.get_mut(field) {
                rule::apply(rules, to, fields);
            }
        }
    }
}

/// Removes and returns the specification and the status.
fn content(members: &mut Map<String, Value>) -> Value {
    let fields = ["spec", "status"].into_iter();
    fields
        .filter_map(|field| members.remove_entry(field))
        .collect::<Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests;
