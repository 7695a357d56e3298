//! What a real API server of Kubernetes 1.36 answered to definitions, against what is said
//! here.

use std::collections::BTreeSet;

use insula_custom::definition::{self, Verdict};
use insula_kinds::{FieldError, Object, Value, validate};
use serde_json::json;

const DEFINITIONS: &str = include_str!("data/golden-crd-validation.jsonl");
const RECORDED: &str = include_str!("data/definitions.jsonl");
const EXPRESSIONS: &str = include_str!("data/golden-crd-cel.jsonl");

/// Go has no order in its maps, so that these errors came in any order.
const UNORDERED: &[&str] = &["cost total"];

fn judge(body: &Value) -> Verdict {
    let mut object = body.as_object().cloned().unwrap_or_default();
    definition::default(&mut object);
    definition::prepare_create(&mut object);
    definition::create(&object)
}

fn message(name: &str, verdict: &Verdict) -> String {
    format!(
        "CustomResourceDefinition.apiextensions.k8s.io \"{name}\" is invalid: {}",
        validate::message(&verdict.errors)
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

/// Compares one case; says what differs.
fn compare(case: &Value) -> Result<(), String> {
    let verdict = judge(&case["body"]);
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
        // Which of many equal rules are said to cost most is anybody's guess as well.
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
fn definitions_are_judged_as_kubernetes_judges_them() {
    run(DEFINITIONS, 58);
}

#[test]
fn rules_of_definitions_are_judged_as_kubernetes_judges_them() {
    run(EXPRESSIONS, 36);
}

/// What Kubernetes' own validation says to many definitions and changes of them.
#[test]
fn faults_of_definitions_are_those_that_kubernetes_finds() {
    let mut failed = Vec::new();
    let mut count = 0;
    for line in RECORDED.lines() {
        let case: Value = serde_json::from_str(line).unwrap_or_default();
        count += 1;
        let verdict = match (&case["old"], &case["schema"]) {
            (Value::Object(old), _) => change(old, &case["new"]),
            (_, Value::Null) => judge(&case["new"]),
            (_, schema) => judge(&of_schema(schema)),
        };
        let say = |error: &FieldError| format!("{} {error}", error.error_type.reason());
        let mut got: Vec<_> = verdict.errors.iter().map(say).collect();
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

/// A definition of which only the schema is of interest.
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

/// Judges a change. The rules of metadata are asked twice by a server, and once where this
/// was recorded.
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
fn of_a_status_only_the_accepted_names_are_judged() {
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
    // Versions may be taken out of those that are stored, which is how migrations end.
    new["status"] = json!({"storedVersions": ["v1"]});
    let (old, new) = (
        old.as_object().cloned().unwrap(),
        new.as_object().cloned().unwrap(),
    );
    assert_eq!(definition::update_status(&old, &new), Verdict::default());
}

#[test]
fn what_is_deeper_than_a_request_can_be_is_refused() {
    let deep = (0..300).fold(json!({}), |inner, _| {
        let mut outer = json!({});
        outer["not"] = inner;
        outer
    });
    let verdict = judge(&of_schema(&deep));
    let got: Vec<_> = verdict.errors.iter().map(ToString::to_string).collect();
    assert_eq!(got, ["spec: Forbidden: exceeded max depth"]);
}

#[test]
fn certificates_that_nobody_can_read_are_known() {
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
        assert_eq!(definition::has_sound_ca(&object), sound, "{bundle}");
        // A new definition may have them all the same.
        assert_eq!(judge(&body).errors, []);
    }
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}
