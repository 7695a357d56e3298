//! Defaults that admission sets.

use ring::digest;
use serde_json::Value;
use uuid::Uuid;

use crate::table::{Behaviour, Kind, Owner, Path};

/// The namespace of UUIDs that Azure Service Operator derives from names.
const NAMES: Uuid = Uuid::from_u128(0x9a32_9043_7ad7_4b1c_812f_9c7a_93d6_392a);

/// Returns the name in Azure that an object gets; none if it has one or cannot have one yet.
pub(super) fn azure_name(kind: &Kind, object: &Value, namespace: &str) -> Option<String> {
    let spec = &object["spec"];
    let is_given = |field: &str| !matches!(&spec[field], Value::Null) && spec[field] != "";
    if kind.fixed_name().is_some() || is_given("azureName") || is_given("azureNameFromConfig") {
        return None;
    }
    let name = object["metadata"]["name"].as_str();
    let name = name.filter(|name| !name.is_empty())?;
    if let Some(required) = required_name(kind, spec) {
        return Some(required.to_owned());
    }
    let mut rules = kind.behaviours().iter();
    let by_uuid = rules.find_map(|rule| match rule {
        Behaviour::NameByUuid { owner_id } => Some(*owner_id),
        _ => None,
    });
    match by_uuid {
        None => Some(name.to_owned()),
        // Validation refuses an object without owner.
        Some(_) if !spec["owner"].is_object() => None,
        Some(with_owner_id) => Some(uuid_name(kind, spec, (namespace, name), with_owner_id)),
    }
}

/// Returns the only name in Azure that an object can have because of another field, if there is one.
pub(super) fn required_name<'a>(kind: &'a Kind, spec: &'a Value) -> Option<&'a str> {
    let text = |path: &Path| {
        let text = path.select(spec).and_then(Value::as_str);
        text.filter(|text| !text.is_empty())
    };
    let mut rules = kind.behaviours().iter();
    rules.find_map(|rule| match rule {
        Behaviour::RequireName { path, value, name } => {
            let applies = text(path).is_some_and(|found| found.eq_ignore_ascii_case(value));
            applies.then_some(name.as_str())
        }
        Behaviour::RequireNameAt { path } => text(path),
        _ => None,
    })
}

/// Returns the UUID that an object gets as its name in Azure.
fn uuid_name(
    kind: &Kind,
    spec: &Value,
    (namespace, name): (&str, &str),
    with_owner_id: bool,
) -> String {
    let convention = spec["operatorSpec"]["namingConvention"].as_str();
    if convention.is_some_and(|it| it.eq_ignore_ascii_case("random")) {
        return Uuid::new_v4().to_string();
    }
    if Uuid::parse_str(name).is_ok() {
        return name.to_owned();
    }
    let owner = owner(kind, spec, namespace, with_owner_id);
    let (group, kind) = (kind.group(), kind.kind());
    uuid_of(&format!("{owner}:{kind}/{group}:{namespace}/{name}")).to_string()
}

fn owner(kind: &Kind, spec: &Value, namespace: &str, with_id: bool) -> String {
    let member = |name: &str| spec["owner"][name].as_str().unwrap_or_default();
    let (name, id) = (member("name"), member("armId"));
    if with_id && !id.is_empty() {
        return id.to_owned();
    }
    let (group, kind) = match kind.owner() {
        Owner::Kind { group, kind } if !name.is_empty() => (group.as_str(), kind.as_str()),
        _ => (member("group"), member("kind")),
    };
    format!("{group}/{kind}:{namespace}/{name}")
}

/// Returns the UUID (version 5, RFC 9562) of a name.
fn uuid_of(name: &str) -> Uuid {
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    context.update(NAMES.as_bytes());
    context.update(name.as_bytes());
    let mut bytes = [0; 16];
    let digest = context.finish();
    for (byte, value) in bytes.iter_mut().zip(digest.as_ref()) {
        *byte = *value;
    }
    uuid::Builder::from_sha1_bytes(bytes).into_uuid()
}
