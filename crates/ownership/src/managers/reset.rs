//! Reset fields: fields that an endpoint keeps whatever is sent to it, so that no manager owns them
//! through it.

use insula_kinds::Kind;

use crate::{Element, Set};

/// Returns the fields that a write to the subresource resets, or a write to the object itself if
/// the name is empty.
pub fn reset(kind: &Kind, subresource: &str) -> Set {
    let endpoint = match subresource {
        "" => "main",
        name => name,
    };
    let mut set = Set::default();
    for path in kind.reset_fields.get(endpoint).into_iter().flatten() {
        let names = path.split('.');
        let path: Vec<_> = names.map(|name| Element::Field(name.into())).collect();
        set.insert(&path);
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use insula_kinds::kinds;

    #[test]
    fn reset_fields_depend_on_kind_and_subresource() {
        for (kind, subresource, fields) in [
            ("Deployment", "", r#"{"f:status":{}}"#),
            (
                "Deployment",
                "status",
                r#"{"f:metadata":{"f:labels":{}},"f:spec":{}}"#,
            ),
            ("Deployment", "scale", "{}"),
            ("ControllerRevision", "", "{}"),
        ] {
            let id = kinds().find_by_kind("apps", "v1", kind).unwrap();
            let set = reset(kinds().get(id), subresource);
            assert_eq!(set.text(), fields, "{kind} {subresource}");
        }
    }
}
