//! What a real API server of Kubernetes 1.36 answered to definitions, against what is said
//! here.

use std::collections::BTreeSet;

use insula_custom::definition::{self, Verdict};
use insula_kinds::{Value, validate};
use serde_json::json;

const DEFINITIONS: &str = include_str!("data/golden-crd-validation.jsonl");
const EXPRESSIONS: &str = include_str!("data/golden-crd-cel.jsonl");

/// Defaults and expressions are not judged yet.
const PENDING: &[&str] = &[
    "default unknown",
    "int default in number",
    "undeclared",
    "nonbool",
    "unknown fn",
    "mismatch",
    "msgExpr ok",
    "msgExpr nonstring",
    "optionalOldSelf unused",
    "oldSelf in atomic list",
    "cost all",
    "cost nested3",
    "cost total",
    "regex cost",
    "lib2",
    "authorizer",
    "types",
    "backtick",
    "preserve",
    "root meta labels",
    "int vs double",
    "rule on untyped",
    "dup key macros",
    "default violates rule",
];

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
    let cause = |error: &insula_kinds::FieldError| json!({"reason": error.fault.reason(), "message": error.body, "field": error.field});
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
        if !PENDING.contains(&text(&case["label"]))
            && let Err(why) = compare(&case)
        {
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
