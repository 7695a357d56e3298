//! CustomResourceDefinitions from short texts.
//!
//! Schemas that several definitions share are parts. Those that all providers share are here:
//! `conditions`, `selector`, and `allowed-namespaces`, `allowed-tenants` and `identity-status` of
//! identities. Frequent rules have a short form:
//!
//! | short form | expands to |
//! |---|---|
//! | `x-part: NAME` | that part, merged with the members beside it |
//! | `x-immutable: [PATH]` | a rule for each path: the field is immutable |
//! | `x-immutable-once-set: [NAME]` | a rule for each name: the field is immutable once it is set |

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition,
};
use kube::ResourceExt;
use serde_json::{Map, Value, json};

/// Annotation that publishes a definition to every tenant's space of an Insula.
const PUBLISHED: (&str, &str) = ("multi-tenancy.k8s.io/published", "true");

/// Embeds the texts of files `NAME.yaml` in a folder, each with its name, as a slice. The folder
/// is relative to the file of the caller.
///
/// ```ignore
/// const PARTS: &[(&str, &str)] = embed!("../data/parts", "device", "routes");
/// ```
#[macro_export]
macro_rules! embed {
    ($folder:literal, $($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!($folder, "/", $name, ".yaml")))),+]
    };
}

/// The parts that all providers share.
const SHARED_PARTS: &[(&str, &str)] = embed!(
    "../data/parts",
    "allowed-namespaces",
    "allowed-tenants",
    "conditions",
    "identity-status",
    "selector",
);

/// The texts of a provider's definitions.
#[derive(Clone, Copy, Debug)]
pub struct Definitions {
    /// A text for each kind.
    pub kinds: &'static [&'static str],
    /// The provider's own parts, by name.
    pub parts: &'static [(&'static str, &'static str)],
}

impl Definitions {
    /// Returns all definitions.
    ///
    /// # Panics
    ///
    /// If a text is invalid. A provider has a test that reads them all.
    pub fn all(&self) -> Vec<CustomResourceDefinition> {
        self.kinds
            .iter()
            .map(|text| self.definition(text))
            .collect()
    }

    /// Returns all definitions, published to every tenant of an Insula.
    ///
    /// # Panics
    ///
    /// If a text is invalid.
    pub fn published(&self) -> Vec<CustomResourceDefinition> {
        let mut all = self.all();
        for definition in &mut all {
            let published = (PUBLISHED.0.to_owned(), PUBLISHED.1.to_owned());
            definition.annotations_mut().extend([published]);
        }
        all
    }

    fn definition(&self, text: &str) -> CustomResourceDefinition {
        let whole = self.expand(read(text));
        serde_json::from_value(whole).expect(OWN_TEXTS)
    }

    /// Expands the short forms of a definition.
    fn expand(&self, value: Value) -> Value {
        match value {
            Value::Object(mut members) => {
                while let Some(name) = members.remove("x-part") {
                    members = merge(self.part(&name), members);
                }
                let immutable = members
                    .remove("x-immutable")
                    .map(|paths| rules(&paths, immutable));
                let once = members
                    .remove("x-immutable-once-set")
                    .map(|paths| rules(&paths, immutable_once_set));
                let rules: Vec<_> = immutable.into_iter().chain(once).flatten().collect();
                if !rules.is_empty() {
                    members.insert("x-kubernetes-validations".to_owned(), rules.into());
                }
                let whole = members.into_iter();
                whole
                    .map(|(key, value)| (key, self.expand(value)))
                    .collect()
            }
            Value::Array(elements) => elements
                .into_iter()
                .map(|value| self.expand(value))
                .collect(),
            other => other,
        }
    }

    fn part(&self, name: &Value) -> Map<String, Value> {
        let mut parts = self.parts.iter().chain(SHARED_PARTS);
        let found = parts.find(|(of, _)| name == of);
        let (_, text) = found.expect(OWN_TEXTS);
        match read(text) {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }
}

/// Lets a webhook convert definitions with several versions, and deprecates the versions that are
/// not stored.
pub fn with_conversion(
    mut definitions: Vec<CustomResourceDefinition>,
    conversion: &CustomResourceConversion,
) -> Vec<CustomResourceDefinition> {
    for definition in &mut definitions {
        let spec = &mut definition.spec;
        spec.conversion = Some(conversion.clone());
        let (kind, group) = (&spec.names.kind, &spec.group);
        let stored = spec.versions.iter().find(|version| version.storage);
        let stored = stored.map_or_else(String::new, |version| version.name.clone());
        for version in spec.versions.iter_mut().filter(|version| !version.storage) {
            let name = &version.name;
            version.deprecated = Some(true);
            version.deprecation_warning = Some(format!(
                "{group}/{name} {kind} is deprecated; use {group}/{stored}"
            ));
        }
    }
    definitions
}

const OWN_TEXTS: &str = "the texts are the program's own, and a test reads them all";

fn read(text: &str) -> Value {
    serde_saphyr::from_str(text).expect(OWN_TEXTS)
}

/// Merges two objects recursively; values of `upper` win.
fn merge(mut below: Map<String, Value>, upper: Map<String, Value>) -> Map<String, Value> {
    for (key, value) in upper {
        let value = match (below.remove(&key), value) {
            (Some(Value::Object(one)), Value::Object(other)) => merge(one, other).into(),
            (_, value) => value,
        };
        below.insert(key, value);
    }
    below
}

fn rules(paths: &Value, rule: fn(&str) -> Value) -> Vec<Value> {
    let paths = paths.as_array().into_iter().flatten();
    paths.filter_map(Value::as_str).map(rule).collect()
}

fn immutable(path: &str) -> Value {
    json!({
        "rule": format!(
            "has(self.{path}) == has(oldSelf.{path}) && (!has(self.{path}) || self.{path} == oldSelf.{path})"
        ),
        "message": format!("{path} cannot be changed"),
    })
}

fn immutable_once_set(name: &str) -> Value {
    json!({
        "rule": format!(
            "!has(oldSelf.{name}) || oldSelf.{name} == '' || (has(self.{name}) && self.{name} == oldSelf.{name})"
        ),
        "message": format!("{name} cannot be changed once it is set"),
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionVersion;

    use super::*;

    const TEXTS: Definitions = Definitions {
        kinds: &["
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clouds.example.com}
spec:
  group: example.com
  names: {plural: clouds, kind: Cloud}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            x-immutable: [size]
            x-immutable-once-set: [id]
            type: object
            properties:
              size: {x-part: number, description: Its size.}
              id: {type: string}
"],
        parts: &[("number", "{type: integer, description: A number.}")],
    };

    #[test]
    fn short_forms_are_expanded() {
        let [definition] = &TEXTS.all()[..] else {
            panic!("there is one kind");
        };
        let schema = definition.spec.versions[0].schema.as_ref();
        let schema = serde_json::to_value(schema).unwrap();
        let spec = &schema["openAPIV3Schema"]["properties"]["spec"];
        assert_eq!(
            spec["properties"]["size"],
            json!({"type": "integer", "description": "Its size."})
        );
        let messages = spec["x-kubernetes-validations"].as_array().unwrap().iter();
        let messages: Vec<_> = messages.map(|rule| rule["message"].clone()).collect();
        assert_eq!(
            messages,
            [
                "size cannot be changed",
                "id cannot be changed once it is set"
            ]
        );
        assert_eq!(definition.annotations().len(), 0);
        let published = TEXTS.published();
        let annotation = published[0].annotations().get(PUBLISHED.0);
        assert_eq!(annotation.map(String::as_str), Some("true"));
    }

    #[test]
    fn versions_that_are_not_stored_are_deprecated() {
        let mut definitions = TEXTS.all();
        let versions = &mut definitions[0].spec.versions;
        let older = CustomResourceDefinitionVersion {
            name: "v1beta1".to_owned(),
            storage: false,
            ..versions[0].clone()
        };
        versions.push(older);
        let conversion = CustomResourceConversion {
            strategy: "Webhook".to_owned(),
            webhook: None,
        };
        let [definition] = &with_conversion(definitions, &conversion)[..] else {
            panic!("there is one kind");
        };
        assert_eq!(definition.spec.conversion, Some(conversion));
        let warnings = definition.spec.versions.iter();
        let warnings: Vec<_> = warnings
            .map(|version| (version.deprecated, version.deprecation_warning.as_deref()))
            .collect();
        let warning = "example.com/v1beta1 Cloud is deprecated; use example.com/v1";
        assert_eq!(warnings, [(None, None), (Some(true), Some(warning))]);
    }
}
