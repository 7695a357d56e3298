//! Conversion of the kinds between `v1beta1` and `v1beta2`, without loss.
//!
//! | field of `v1beta1` | field of `v1beta2` |
//! |---|---|
//! | `spec.guestSoftPowerOffTimeout` of machines, a duration | `spec.guestSoftPowerOffTimeoutSeconds` |
//! | `spec.namingStrategy` of machines | `spec.naming` |
//! | `spec.bootstrapRef.{apiVersion,kind,name}` of virtual machines | `spec.bootstrapRef.name` |
//! | `spec.secretRef.name` of identities | `spec.secretName` |
//! | empty texts, and an empty `spec.controlPlaneEndpoint` | missing |
//! | `status.ready` of clusters and machines | `status.ready`, `status.initialization.provisioned` |
//! | `status.failureDomains`, a map | `status.failureDomains`, a list |
//! | `status.conditions`, `failureReason`, `failureMessage` | the same in `status.deprecated.v1beta1` |
//! | `status.v1beta2.conditions` | `status.conditions` |
//!
//! What the other version cannot express is [kept](kept) in an annotation.

mod duration;
mod fields;
mod kept;

use serde_json::{Map, Value};

use crate::names::GROUP;
use fields::Kind;

/// A served version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V1Beta1,
    V1Beta2,
}

impl Version {
    /// Returns its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::V1Beta1 => "v1beta1",
            Self::V1Beta2 => "v1beta2",
        }
    }

    fn of(api_version: &str) -> Result<Self, String> {
        let version = api_version
            .strip_prefix(GROUP)
            .and_then(|rest| rest.strip_prefix('/'));
        match version {
            Some("v1beta1") => Ok(Self::V1Beta1),
            Some("v1beta2") => Ok(Self::V1Beta2),
            _ => Err(format!("{api_version:?} is no version of {GROUP}")),
        }
    }
}

/// Converts an object to another `apiVersion`.
///
/// # Errors
///
/// If the kind or one of the versions is unknown. The error is a message.
pub fn convert(mut object: Value, desired: &str) -> Result<Value, String> {
    let from = Version::of(object["apiVersion"].as_str().unwrap_or_default())?;
    let to = Version::of(desired)?;
    let kind = Kind::of(object["kind"].as_str().unwrap_or_default())?;
    let Value::Object(members) = &mut object else {
        return Err("it is not an object".to_owned());
    };
    if from == to {
        return Ok(object);
    }
    members.insert("apiVersion".to_owned(), desired.into());
    let kept = kept::take(members, to);
    let original = content(members);
    let mut converted = original.clone();
    fields::convert(kind, to, &mut converted);
    let back = |content: &Value| {
        let mut content = content.clone();
        fields::convert(kind, from, &mut content);
        content
    };
    let mut converted = kept::restore(converted, &kept, back);
    kept::keep(members, from, &back(&converted), &original);
    if let Value::Object(content) = &mut converted {
        members.append(content);
    }
    Ok(object)
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
