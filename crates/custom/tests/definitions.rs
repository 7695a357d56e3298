//! Validation of definitions compared with recorded responses of a kube-apiserver 1.36.

use std::collections::BTreeSet;

use insula_custom::definition::{self, Verdict};
use insula_kinds::{FieldError, Object, Value, field};
use serde_json::json;

const DEFINITIONS: &str = include_str!("data/golden-crd-validation.jsonl");
const RECORDED: &str = include_str!("data/definitions.jsonl");
const EXPRESSIONS: &str = include_str!("data/golden-crd-cel.jsonl");

/// Cases with errors in random order, because Go iterates over maps in random order.
const UNORDERED: &[&str] = &["cost total"];

fn create(body: &Value) -> Verdict {
    let mut object = body.as_object().cloned().unwrap_or_default();
    definition::default(&mut object);
    definition::prepare_create(&mut object);
    definition::create(&object)
}

fn message(name: &str, verdict: &Verdict) -> String {
    format!(
        "CustomResourceDefinition.apiextensions.k8s.io \"{name}\" is invalid: {}",
        field::message(&verdict.errors)
    )
}

fn causes(verdict: &Verdict) -> Vec<Value> {
    let cause = |error: &FieldError| json!({"reason": error.error_type.reason(), "message": error.body, "field": error.field});
    verdict.errors.iter().map(cause).collect()
}

fn warnings(verdict: &Verdict) -> Value {
    if verdict.warnings.is_empty() {
        return Value::Null;
    }
    let header = |text: &String| {
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        Value::from(format!("299 - \"{text}\""))
    };
    verdict.warnings.iter().map(header).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Compares one case, and returns the difference.
fn compare(case: &Value) -> Result<(), String> {
    let verdict = create(&case["body"]);
    let name = text(&case["body"]["metadata"]["name"]);
    if case["response"].is_null() {
        if !verdict.errors.is_empty() {
            return Err(format!("refused: {}", message(name, &verdict)));
        }
        let (got, wanted) = (warnings(&verdict), &case["warnings"]);
        return if &got == wanted {
            Ok(())
        } else {
            Err(format!("warned of {got}, wanted {wanted}"))
        };
    }
    if verdict.errors.is_empty() {
        return Err(format!("accepted, wanted {}", case["response"]["message"]));
    }
    let wanted = case["response"]["details"]["causes"].as_array();
    let wanted = wanted.map_or(&[][..], Vec::as_slice);
    if UNORDERED.contains(&text(&case["label"])) {
        // Which of many equal rules are reported as most expensive is random as well.
        let kinds = |causes: &[Value]| -> BTreeSet<String> {
            let kind = |cause: &Value| format!("{} {}", cause["reason"], cause["message"]);
            causes.iter().map(kind).collect()
        };
        let got = causes(&verdict);
        assert_eq!((kinds(&got), got.len()), (kinds(wanted), wanted.len()));
        return Ok(());
    }
    let got = message(name, &verdict);
    if got != text(&case["response"]["message"]) {
        return Err(format!(
            "said\n{got}\nwanted\n{}",
            text(&case["response"]["message"])
        ));
    }
    let got = causes(&verdict);
    if got != wanted {
        return Err(format!("causes {got:?}, wanted {wanted:?}"));
    }
    Ok(())
}

fn run(lines: &str, wanted: usize) {
    let mut failed = Vec::new();
    let mut count = 0;
    for line in lines.lines() {
        let case: Value = serde_json::from_str(line).unwrap_or_default();
        count += 1;
        if let Err(why) = compare(&case) {
            failed.push(format!("{}: {why}", case["label"]));
        }
    }
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
    assert_eq!(count, wanted);
}

#[test]
fn definitions_are_validated_as_in_kubernetes() {
    run(DEFINITIONS, 58);
}

#[test]
fn rules_of_definitions_are_validated_as_in_kubernetes() {
    run(EXPRESSIONS, 36);
}

/// Recorded results of Kubernetes' own validation for many definitions and updates.
#[test]
fn errors_of_definitions_are_those_of_kubernetes() {
    let mut failed = Vec::new();
    let mut count = 0;
    for line in RECORDED.lines() {
        let case: Value = serde_json::from_str(line).unwrap_or_default();
        count += 1;
        let verdict = match (&case["old"], &case["schema"]) {
            (Value::Object(old), _) => change(old, &case["new"]),
            (_, Value::Null) => create(&case["new"]),
            (_, schema) => create(&of_schema(schema)),
        };
        let describe = |error: &FieldError| format!("{} {error}", error.error_type.reason());
        let mut got: Vec<_> = verdict.errors.iter().map(describe).collect();
        if case["unordered"] == true {
            got.sort();
        }
        let wanted = case["says"].as_array().cloned().unwrap_or_default();
        let warned = case["warns"].as_array().cloned().unwrap_or_default();
        if Value::from(got.clone()) != Value::from(wanted.clone()) || verdict.warnings != warned {
            failed.push(format!(
                "{}\n   said {got:#?} {:?}\n wanted {wanted:#?} {warned:?}",
                case["label"], verdict.warnings
            ));
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {count} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

/// A minimal definition with this schema.
fn of_schema(schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.ex.io"},
        "spec": {
            "group": "ex.io",
            "scope": "Namespaced",
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

/// Validates an update. The server validates metadata twice, but the recorded function only
/// once.
fn change(old: &Object, new: &Value) -> Verdict {
    let (mut old, mut new) = (old.clone(), new.as_object().cloned().unwrap_or_default());
    definition::default(&mut old);
    definition::default(&mut new);
    definition::prepare_update(&old, &mut new);
    let mut verdict = definition::update(&old, &new);
    let metadata =
        |error: &FieldError| error.field.starts_with("metadata.") && !error.field.ends_with(']');
    let repeated = verdict
        .errors
        .iter()
        .filter(|error| metadata(error))
        .count()
        / 2;
    verdict.errors.drain(..repeated);
    verdict
}

#[test]
fn status_update_validates_accepted_names_only() {
    let old = of_schema(&json!({"type": "object"}));
    let mut new = old.clone();
    new["status"] = json!({"acceptedNames": {"plural": "Foos", "kind": "Foo", "listKind": "Foo"}});
    let verdict = definition::update_status(
        &old.as_object().cloned().unwrap(),
        &new.as_object().cloned().unwrap(),
    );
    let got: Vec<_> = verdict.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        got,
        [
            "status.acceptedNames.plural: Invalid value: \"Foos\": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
            "status.acceptedNames.listKind: Invalid value: \"Foo\": kind and listKind may not be the same",
        ]
    );
    // Stored versions may be removed, which is how migrations end.
    new["status"] = json!({"storedVersions": ["v1"]});
    let (old, new) = (
        old.as_object().cloned().unwrap(),
        new.as_object().cloned().unwrap(),
    );
    assert_eq!(definition::update_status(&old, &new), Verdict::default());
}

#[test]
fn definition_deeper_than_any_request_is_rejected() {
    let deep = (0..300).fold(json!({}), |inner, _| {
        let mut outer = json!({});
        outer["not"] = inner;
        outer
    });
    let verdict = create(&of_schema(&deep));
    let got: Vec<_> = verdict.errors.iter().map(ToString::to_string).collect();
    assert_eq!(got, ["spec: Forbidden: exceeded max depth"]);
}

#[test]
fn invalid_ca_bundles_are_detected() {
    let key = "-----BEGIN KEY-----\nAAAA\n-----END KEY-----\n";
    let ca = include_str!("data/ca.pem");
    let both = format!("{key}{ca}");
    let cases = [
        (String::new(), true),
        ("eHg=".to_owned(), false),
        (base64(key), false),
        (base64(ca), true),
        (base64(&both), true),
        (base64(&ca.replace("MII", "AAA")), false),
    ];
    for (bundle, sound) in cases {
        let mut body = of_schema(&json!({"type": "object"}));
        body["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://x", "caBundle": bundle},
        }});
        let object = body.as_object().cloned().unwrap();
        assert_eq!(definition::has_valid_ca_bundle(&object), sound, "{bundle}");
        // A new definition may have an invalid bundle.
        assert_eq!(create(&body).errors, []);
    }
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}
