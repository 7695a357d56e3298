use serde_json::json;

use super::*;

const ANNOTATION: &str = "example.org/conversion-data";

const VERSIONS: Versions = Versions {
    group: "example.org",
    older: "v1alpha1",
    newer: "v1",
    annotation: ANNOTATION,
    kinds: &[Kind {
        name: "Widget",
        spec: SPEC,
        status: &[],
    }],
};

const SPEC: &[Rule] = &[
    Rule::In("colour", &[Rule::OmitEmpty(&["name", "shade"])]),
    Rule::Rename {
        older: "colour",
        newer: "color",
    },
    Rule::OmitEmpty(&["color"]),
    Rule::Wrap {
        older: "size",
        newer: "dimensions",
        member: "width",
    },
    Rule::Unwrap {
        older: "secretRef",
        member: "name",
        newer: "secretName",
    },
    Rule::Seconds {
        older: "timeout",
        newer: "timeoutSeconds",
    },
    Rule::MapToList {
        field: "parts",
        key: "name",
    },
    Rule::Each("parts", &[Rule::OnlyOlder(&["legacy"])]),
    Rule::EmptyText {
        field: "site",
        newer: "*",
    },
    Rule::OnlyNewer(&["metadata"]),
    Rule::In("owner", &[Rule::Retain(&["name"])]),
    Rule::All(&[Rule::Custom {
        upgrade: |spec| {
            spec.insert("upgraded".to_owned(), true.into());
        },
        downgrade: |spec| {
            spec.remove("upgraded");
        },
    }]),
];

fn widget(version: &str, mut spec: Value) -> Value {
    if version == "v1"
        && let Some(spec) = spec.as_object_mut()
    {
        spec.insert("upgraded".to_owned(), true.into());
    }
    json!({
        "apiVersion": format!("example.org/{version}"),
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": spec,
    })
}

fn to(version: &str, object: &Value) -> Value {
    let desired = format!("example.org/{version}");
    VERSIONS.convert(object.clone(), &desired).unwrap()
}

#[test]
fn rules_convert_in_both_directions_without_an_annotation() {
    for (older, newer) in [
        (json!({}), json!({})),
        (
            json!({"colour": {"name": "red"}}),
            json!({"color": {"name": "red"}}),
        ),
        (json!({"size": 3}), json!({"dimensions": {"width": 3}})),
        (
            json!({"secretRef": {"name": "s"}}),
            json!({"secretName": "s"}),
        ),
        (json!({"timeout": "1m30s"}), json!({"timeoutSeconds": 90})),
        (
            json!({"parts": {"b": {}, "a": {"n": 1}}}),
            json!({"parts": [{"name": "a", "n": 1}, {"name": "b"}]}),
        ),
        (json!({"site": "x"}), json!({"site": "x"})),
        (
            json!({"owner": {"name": "o"}}),
            json!({"owner": {"name": "o"}}),
        ),
    ] {
        let (older, newer) = (widget("v1alpha1", older), widget("v1", newer));
        assert_eq!(to("v1", &older), newer);
        assert_eq!(to("v1alpha1", &newer), older);
    }
}

#[test]
fn fields_that_the_other_version_cannot_express_are_kept_in_the_annotation() {
    for (from, given, version, shown) in [
        (
            "v1alpha1",
            json!({"colour": {"name": "", "shade": 0}}),
            "v1",
            json!({}),
        ),
        (
            "v1alpha1",
            json!({"secretRef": {"key": "k"}}),
            "v1",
            json!({}),
        ),
        ("v1alpha1", json!({"timeout": "?"}), "v1", json!({})),
        ("v1alpha1", json!({"site": ""}), "v1", json!({"site": "*"})),
        (
            "v1alpha1",
            json!({"parts": {"a": {"legacy": 1}}}),
            "v1",
            json!({"parts": [{"name": "a"}]}),
        ),
        (
            "v1alpha1",
            json!({"owner": {"name": "o", "kind": "Box"}}),
            "v1",
            json!({"owner": {"name": "o"}}),
        ),
        (
            "v1",
            json!({"metadata": {"labels": {}}}),
            "v1alpha1",
            json!({}),
        ),
        (
            "v1",
            json!({"dimensions": {"height": 2}}),
            "v1alpha1",
            json!({}),
        ),
        ("v1", json!({"timeoutSeconds": 0}), "v1alpha1", json!({})),
    ] {
        let given = widget(from, given);
        let mut converted = to(version, &given);
        assert_eq!(to(from, &converted), given);
        let metadata = converted["metadata"].as_object_mut().unwrap();
        let annotations = metadata.remove("annotations").unwrap();
        assert!(annotations[ANNOTATION].is_string(), "{given}");
        assert_eq!(converted, widget(version, shown));
    }
}

#[test]
fn kept_field_is_not_restored_over_a_change_in_the_other_version() {
    let given = widget("v1alpha1", json!({"site": "", "timeout": "90s"}));
    let mut newer = to("v1", &given);
    newer["spec"]["site"] = "y".into();
    let expected = json!({"site": "y", "timeout": "90s"});
    assert_eq!(to("v1alpha1", &newer)["spec"], expected);
}

#[test]
fn unknown_kinds_and_versions_are_refused() {
    let given = widget("v1", json!({}));
    for (kind, desired, message) in [
        (
            "Widget",
            "example.org/v2",
            r#""example.org/v2" is no version of example.org"#,
        ),
        (
            "Widget",
            "apps/v1",
            r#""apps/v1" is no version of example.org"#,
        ),
        (
            "Gadget",
            "example.org/v1alpha1",
            r#"the kind "Gadget" has one version"#,
        ),
    ] {
        let mut given = given.clone();
        given["kind"] = kind.into();
        let result = VERSIONS.convert(given, desired);
        assert_eq!(result, Err(message.to_owned()));
    }
}
