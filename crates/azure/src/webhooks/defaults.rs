//! Defaults that admission sets.

use ring::digest;
use serde_json::Value;
use uuid::Uuid;

use crate::table::{Kind, Owner};

/// The namespace of UUIDs that Azure Service Operator derives from names.
const NAMES: Uuid = Uuid::from_u128(0x9a32_9043_7ad7_4b1c_812f_9c7a_93d6_392a);

/// How a kind gets the name in Azure that a client does not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    /// The name of the object.
    Name,
    /// A UUID of the object's and the owner's name.
    Uuid {
        /// Whether the ARM id of an owner that is given by it is part of the name.
        with_owner_id: bool,
    },
}

impl Naming {
    fn of(kind: &Kind) -> Self {
        match (kind.group(), kind.kind()) {
            ("authorization.azure.com", "RoleAssignment")
            | ("documentdb.azure.com", "SqlRoleAssignment") => Self::Uuid {
                with_owner_id: false,
            },
            ("authorization.azure.com", "RoleDefinition") => Self::Uuid {
                with_owner_id: true,
            },
            _ => Self::Name,
        }
    }
}

/// Returns the name in Azure that an object gets; none if it has one or cannot have one yet.
pub(super) fn azure_name(kind: &Kind, object: &Value, namespace: &str) -> Option<String> {
    let spec = &object["spec"];
    let is_given = |field: &str| !matches!(&spec[field], Value::Null) && spec[field] != "";
    if kind.fixed_name().is_some() || is_given("azureName") || is_given("azureNameFromConfig") {
        return None;
    }
    let name = object["metadata"]["name"].as_str();
    let name = name.filter(|name| !name.is_empty())?;
    match Naming::of(kind) {
        Naming::Name => Some(name.to_owned()),
        // Validation refuses an object without owner.
        Naming::Uuid { .. } if !spec["owner"].is_object() => None,
        Naming::Uuid { with_owner_id } => {
            let convention = spec["operatorSpec"]["namingConvention"].as_str();
            if convention.is_some_and(|it| it.eq_ignore_ascii_case("random")) {
                return Some(Uuid::new_v4().to_string());
            }
            if Uuid::parse_str(name).is_ok() {
                return Some(name.to_owned());
            }
            let owner = owner(kind, spec, namespace, with_owner_id);
            let (group, kind) = (kind.group(), kind.kind());
            let unique = format!("{owner}:{kind}/{group}:{namespace}/{name}");
            Some(uuid_of(&unique).to_string())
        }
    }
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
