//! What a definition of Azure Service Operator says about its kind, without the table.
//!
//! The description of a version names the URI in ARM, that of `spec.owner` the kind of the owner.
//! Fields are recognised by their schemas.

use insula_azure::table::{Owner, Rule, Scope, api_version};
use serde_json::{Map, Value};

/// What a definition says about its kind.
#[derive(Debug, PartialEq)]
pub struct Derived {
    pub plural: String,
    pub arm_type: String,
    pub fixed_name: Option<String>,
    pub owner: Owner,
    pub scope: Scope,
    pub storage: String,
}

/// The schemas of the spec and the status in one version.
pub struct Version<'a> {
    pub name: &'a str,
    pub spec: &'a Value,
    pub status: &'a Value,
}

/// Returns the versions that people write.
pub fn versions(definition: &Value) -> Vec<Version<'_>> {
    let all = definition["spec"]["versions"].as_array().unwrap();
    let written = all.iter().filter_map(|version| {
        let name = version["name"].as_str()?;
        let schema = &version["schema"]["openAPIV3Schema"]["properties"];
        (api_version(name).is_some() && !name.ends_with("storage")).then(|| Version {
            name,
            spec: &schema["spec"],
            status: &schema["status"],
        })
    });
    written.collect()
}

/// Returns what a definition says; nothing if it does not name the only name that a resource has.
pub fn kind(definition: &Value) -> Option<Derived> {
    let spec = &definition["spec"];
    let all = spec["versions"].as_array()?;
    let newest = versions(definition).last()?.name;
    let newest = all.iter().find(|version| version["name"] == newest)?;
    let schema = &newest["schema"]["openAPIV3Schema"];
    let description = schema["description"].as_str()?;
    let uri = description.split_once("ARM URI: ")?.1;
    let (arm_type, scope, last) = uri_parts(uri.split_whitespace().next()?)?;
    let fields = schema.pointer("/properties/spec/properties")?;
    let fixed_name = match fields.get("azureName") {
        Some(_) => None,
        None => Some(last.filter(|last| !last.starts_with('{'))?),
    };
    let owner = owner(fields.get("owner"));
    let storage = all.iter().find(|version| version["storage"] == true)?;
    Some(Derived {
        plural: spec["names"]["plural"].as_str()?.to_owned(),
        arm_type: arm_type.to_ascii_lowercase(),
        fixed_name,
        scope: match owner {
            Owner::Any => Scope::Extension,
            _ => scope,
        },
        owner,
        storage: storage["name"].as_str()?.to_owned(),
    })
}

/// Returns the type, the scope and the last segment of a URI in ARM.
fn uri_parts(uri: &str) -> Option<(String, Scope, Option<String>)> {
    let Some((before, below)) = uri.rsplit_once("/providers/") else {
        let group = "Microsoft.Resources/resourceGroups".to_owned();
        return Some((group, Scope::Location, None));
    };
    let parts: Vec<_> = below.split('/').collect();
    let (provider, pairs) = parts.split_first()?;
    let last = *pairs.last().filter(|_| pairs.len() % 2 == 0)?;
    let types = pairs.iter().step_by(2).copied();
    let arm_type: Vec<_> = std::iter::once(*provider).chain(types).collect();
    let scope = match before {
        "" => Scope::Tenant,
        _ if before.to_ascii_lowercase().contains("/resourcegroups/") => Scope::ResourceGroup,
        _ if before.starts_with("/subscriptions/") => Scope::Location,
        _ => Scope::Extension,
    };
    Some((arm_type.join("/"), scope, Some(last.to_owned())))
}

/// Returns the owner that the description of `spec.owner` names.
fn owner(schema: Option<&Value>) -> Owner {
    let Some(schema) = schema else {
        return Owner::None;
    };
    if schema.pointer("/properties/kind").is_some() {
        return Owner::Any;
    }
    let description = schema["description"].as_str().unwrap_or_default();
    // The line of a description may break anywhere.
    let words: Vec<_> = description.split_whitespace().collect();
    let words = words.join(" ");
    let named = words.split_once("reference to a ").map(|(_, after)| after);
    let named = named.and_then(|after| after.split(' ').next());
    match named.and_then(|name| name.split_once('/')) {
        Some((group, kind)) => Owner::Kind {
            group: group.to_owned(),
            kind: kind.to_owned(),
        },
        None => Owner::None,
    }
}

/// Returns whether a rule of the table is what the schema of a field says, or nothing if the schema
/// says nothing about rules of this sort.
pub fn agrees(rule: Rule<'_>, name: &str, schema: &Value, status: &Value) -> Option<bool> {
    let element = elements(schema);
    let is_key = has_only(element, &["key", "name"]);
    let reference = ["armId", "group", "kind", "name"];
    let well_known = [&reference[..], &["wellKnownName"]].concat();
    Some(match rule {
        Rule::Json => is_json(element) || element.get("additionalProperties").is_some_and(is_json),
        Rule::SecretMap(arm) => {
            let of_secret = is_of_secret(&element["properties"]["name"]);
            has_only(element, &["name"]) && of_secret && arm == name
        }
        Rule::Identities => name == "userAssignedIdentities" && has_only(element, &["reference"]),
        Rule::Reference(arm) => has_only(element, &reference) && arm == arm_name(name, status),
        Rule::WellKnown(arm) => has_only(element, &well_known) && arm == arm_name(name, status),
        Rule::Config(arm) => is_key && name.strip_suffix("FromConfig") == Some(arm),
        Rule::Secret(arm) => {
            let is_config = name.ends_with("FromConfig");
            is_key && !is_config && name.strip_suffix("FromSecret").unwrap_or(name) == arm
        }
        _ => return None,
    })
}

/// Returns the schema of a field of an object, or of the objects in a list.
pub fn field<'a>(schema: &'a Value, name: &str) -> &'a Value {
    &elements(schema)["properties"][name]
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// Returns the schema of the elements of a list, or of the value itself.
fn elements(schema: &Value) -> &Value {
    schema.get("items").map_or(schema, elements)
}

/// Returns whether a schema admits anything.
fn is_json(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

/// Returns whether a field is described as the name of a Secret. Other objects have a name as their
/// only field, too.
fn is_of_secret(schema: &Value) -> bool {
    let description = schema["description"].as_str().unwrap_or_default();
    description.to_lowercase().contains("kubernetes secret")
}

/// Returns whether a schema has exactly these fields.
fn has_only(schema: &Value, names: &[&str]) -> bool {
    properties(schema).is_some_and(|members| {
        members.len() == names.len() && names.iter().all(|name| members.contains_key(*name))
    })
}

/// Returns the name in ARM of a field with a reference: `id` of `reference`; `fooId`, or `foo` if
/// the status has it, of `fooReference`; `foos` of `foosReferences`; `fooIds`, or `foo` if the
/// status has it, of `fooReferences`.
fn arm_name(name: &str, status: &Value) -> String {
    let (stem, ids) = match (
        name.strip_suffix("Reference"),
        name.strip_suffix("References"),
    ) {
        (Some(stem), _) => (stem, ["Id", "ID", ""]),
        (_, Some(stem)) if stem.ends_with('s') => (stem, ["", "Ids", "IDs"]),
        (_, Some(stem)) => (stem, ["Ids", "IDs", ""]),
        _ => return if name == "reference" { "id" } else { name }.to_owned(),
    };
    let candidates = ids.map(|end| format!("{stem}{end}"));
    let known = |name: &&String| !field(status, name).is_null();
    let found = candidates.iter().find(known);
    found.unwrap_or(&candidates[0]).clone()
}
