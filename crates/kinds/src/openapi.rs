//! OpenAPI documents of the kinds that a space serves: version 3 by group and version,
//! version 2 as a single document.
//!
//! Both are built from the tables of types and kinds, and so contain names, types,
//! required fields and merge strategies. They have no prose except a short description of
//! each kind.
//!
//! Documents are pure functions of what they describe; the caller caches the bytes.

mod custom;
mod descriptions;
mod discovery;
mod gnostic;
mod json_members;
mod operation;
mod path;
mod schema;
mod v2;
mod v3;

pub use custom::{LazySchemas, V2Part, schema_name, v3_custom_document};
pub use descriptions::Descriptions;
pub use gnostic::{v2_protobuf, v2_protobuf_described, v3_protobuf};
pub use v2::{V2Base, v2_document};
pub use v3::{v3_document, v3_paths};

/// The version in the documents, which is that of the API.
const VERSION: &str = "1.36";

/// Returns the text with its first letter capitalized.
fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Returns the group's name in operation IDs: `RbacAuthorization` for
/// `rbac.authorization.k8s.io`.
fn group_id(group: &str) -> String {
    match group {
        "" => "Core".to_owned(),
        _ => {
            let own = group.strip_suffix(".k8s.io").unwrap_or(group);
            let words = own.split(|letter: char| !letter.is_ascii_alphanumeric());
            words.map(capitalized).collect()
        }
    }
}

/// Returns the tag of a group and version: `rbacAuthorization_v1`.
fn tag(group: &str, version: &str) -> String {
    let id = group_id(group);
    let (first, rest) = id.split_at(1);
    let id = format!("{}{rest}", first.to_ascii_lowercase());
    match version {
        "" => id,
        _ => format!("{id}_{version}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_named_without_the_domain() {
        assert_eq!(group_id(""), "Core");
        assert_eq!(
            group_id("flowcontrol.apiserver.k8s.io"),
            "FlowcontrolApiserver"
        );
        assert_eq!(
            tag("rbac.authorization.k8s.io", "v1"),
            "rbacAuthorization_v1"
        );
        assert_eq!(tag("apps", ""), "apps");
        assert_eq!(tag("cert-manager.io", "v1"), "certManagerIo_v1");
    }
}
