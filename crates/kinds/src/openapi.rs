//! What a space serves, as OpenAPI tells it: version 3 by group and version, version 2 in
//! one piece.
//!
//! Both are made from the tables of types and kinds, and so know what those know: names,
//! types, what is required, how lists merge. There is no prose but the little that says
//! what a kind is.
//!
//! Documents are pure functions of what they describe; who serves them keeps the bytes.

mod custom;
mod discovery;
mod gnostic;
mod operation;
mod path;
mod schema;
mod v2;
mod v3;

pub use custom::{V2Part, schema_name, v3_custom_document};
pub use gnostic::{v2_protobuf, v3_protobuf};
pub use v2::{V2Base, v2_document};
pub use v3::{v3_document, v3_paths};

/// The version that documents state, which is that of the API.
const VERSION: &str = "1.36";

/// Text with a large first letter.
fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// A group as operations name it: `rbac.authorization.k8s.io` is `RbacAuthorization`.
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

/// A group and version as tags name it: `rbacAuthorization_v1`.
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
