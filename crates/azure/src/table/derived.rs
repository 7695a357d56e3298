//! Kinds that the table does not have, by what their definition says.
//!
//! Definitions of Azure Service Operator have descriptions: that of a version names the URI in ARM,
//! that of `spec.owner` the kind of the owner. Fields are recognised by their schemas. Fields that
//! were flattened or renamed, and unions, are not.

mod fields;

use std::sync::Arc;

use serde_json::Value;

use super::kind::{Kind, Owner, Scope, Version, api_version};
use fields::Fields;

/// What the description of a version has before the URI.
const URI: &str = "ARM URI: ";
/// The type of the only resources outside of providers.
const RESOURCE_GROUPS: &str = "Microsoft.Resources/resourceGroups";
/// What the description of an owner has before the kind.
const OWNER: &str = "reference to a ";

/// Derives a kind from its definition: from a CustomResourceDefinition in JSON. Returns nothing if
/// it does not name the URI in ARM, or not the only name that a resource can have.
pub fn derive(definition: &Value) -> Option<Kind> {
    let spec = definition.get("spec")?;
    let text = |path: &str| spec.pointer(path).and_then(Value::as_str);
    let all = spec.get("versions")?.as_array()?;
    let served = || all.iter().filter(|version| is_served(version));
    let newest = served().next_back()?;
    let schema = schema(newest)?;
    let uri = Uri::parse(schema.get("description")?.as_str()?)?;
    let mut fields = Fields::default();
    let versions: Vec<_> = served()
        .filter_map(|version| derive_version(version, &mut fields))
        .collect();
    let storage = all.iter().find(|version| version["storage"] == true);
    let owner = owner(schema);
    let named = schema.pointer("/properties/spec/properties/azureName");
    let fixed_name = match named {
        Some(_) => None,
        None => Some(uri.fixed_name?),
    };
    Some(Kind {
        group: text("/group")?.to_owned(),
        kind: text("/names/kind")?.to_owned(),
        plural: text("/names/plural")?.to_owned(),
        arm_type: uri.arm_type,
        scope: match owner {
            Owner::Any => Scope::Extension,
            _ => uri.scope,
        },
        owner,
        fixed_name,
        no_delete: false,
        head: false,
        storage: storage?.get("name")?.as_str()?.to_owned(),
        versions,
        exports: Default::default(),
        behaviours: Vec::new(),
        errors: Vec::new(),
        not_imported: Vec::new(),
        shapes: Arc::from(fields.into_shapes()),
    })
}

/// Tells whether a version is one that people write, not one for storage.
fn is_served(version: &Value) -> bool {
    let name = version["name"].as_str().unwrap_or_default();
    api_version(name).is_some() && !name.ends_with("storage")
}

fn schema(version: &Value) -> Option<&Value> {
    version.pointer("/schema/openAPIV3Schema")
}

fn derive_version(version: &Value, fields: &mut Fields) -> Option<Version> {
    let schema = schema(version)?;
    let at = |path: &str| schema.pointer(path).unwrap_or(&Value::Null);
    Some(Version {
        name: version.get("name")?.as_str()?.to_owned(),
        also: Vec::new(),
        api: None,
        spec: fields.add_root(at("/properties/spec"), at("/properties/status")),
        status: None,
    })
}

/// Returns the owner that the description of `spec.owner` names.
fn owner(schema: &Value) -> Owner {
    let Some(owner) = schema.pointer("/properties/spec/properties/owner") else {
        return Owner::None;
    };
    if owner.pointer("/properties/kind").is_some() {
        return Owner::Any;
    }
    let description = owner["description"].as_str().unwrap_or_default();
    // The line of a description may break anywhere.
    let words = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let named = words.split_once(OWNER).map(|(_, after)| after);
    let named = named.and_then(|after| after.split(' ').next());
    match named.and_then(|name| name.split_once('/')) {
        Some((group, kind)) => Owner::Kind {
            group: group.to_owned(),
            kind: kind.to_owned(),
        },
        None => Owner::None,
    }
}

/// What the URI of a resource in ARM says.
struct Uri {
    arm_type: String,
    scope: Scope,
    fixed_name: Option<String>,
}

impl Uri {
    fn parse(description: &str) -> Option<Self> {
        let (_, after) = description.split_once(URI)?;
        let uri = after.split_whitespace().next()?;
        if !uri.contains("/providers/") {
            return Some(Self {
                arm_type: RESOURCE_GROUPS.to_owned(),
                scope: Scope::Location,
                fixed_name: None,
            });
        }
        let (before, below) = uri.rsplit_once("/providers/")?;
        let parts: Vec<_> = below.split('/').collect();
        let (provider, pairs) = parts.split_first()?;
        let types = pairs.iter().step_by(2).copied();
        let name = *pairs.last().filter(|_| pairs.len() % 2 == 0)?;
        let mut arm_type = vec![*provider];
        arm_type.extend(types);
        Some(Self {
            arm_type: arm_type.join("/"),
            scope: match before {
                "" => Scope::Tenant,
                _ if before.to_ascii_lowercase().contains("/resourcegroups/") => {
                    Scope::ResourceGroup
                }
                _ if before.starts_with("/subscriptions/") => Scope::Location,
                _ => Scope::Extension,
            },
            fixed_name: (!name.starts_with('{')).then(|| name.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests;
