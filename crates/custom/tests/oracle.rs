//! Schemas and objects compared with recorded results of Kubernetes' own code.

use std::fs;

use insula_custom::format::Format;
use insula_custom::pattern::Pattern;
use insula_custom::{Change, Schema};
use insula_kinds::{FieldError, Object};
use serde_json::{Value, json};

/// The cases in the repository, or those in the folder that `ORACLE` names.
fn cases(file: &str) -> Vec<Value> {
    let path = match std::env::var("ORACLE") {
        Ok(folder) => format!("{folder}/{file}"),
        Err(_) => format!("{}/tests/data/{file}", env!("CARGO_MANIFEST_DIR")),
    };
    let text = fs::read_to_string(path).expect("the cases are there");
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect("cases are JSON")
}

fn object(case: &Value, name: &str) -> Object {
    case[name].as_object().expect("an object").clone()
}

/// Sorts errors, because Go iterates over maps in random order.
fn sorted(errors: impl Iterator<Item = (String, String, String)>) -> Vec<(String, String, String)> {
    let mut errors: Vec<_> = errors.collect();
    errors.sort();
    errors
}

fn told(case: &Value) -> Vec<(String, String, String)> {
    let errors = case["errors"].as_array().expect("errors").iter();
    let text = |error: &Value, name: &str| error[name].as_str().unwrap_or_default().to_owned();
    sorted(errors.map(|error| {
        let parts = ["field", "reason", "body"];
        let [field, reason, body] = parts.map(|part| text(error, part));
        (field, reason, body)
    }))
}

fn warnings(case: &Value) -> Vec<String> {
    let warnings = case["warnings"].as_array().expect("warnings").iter();
    let warnings = warnings.filter_map(Value::as_str);
    warnings.map(str::to_owned).collect()
}

fn found(errors: &[FieldError]) -> Vec<(String, String, String)> {
    let errors = errors.iter();
    sorted(errors.map(|error| {
        let reason = error.error_type.reason().to_owned();
        (error.field.clone(), reason, error.body.clone())
    }))
}

fn same_numbers(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| same_numbers(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, one)| {
                    other
                        .get(name)
                        .is_some_and(|other| same_numbers(one, other))
                })
        }
        (one, other) => one == other,
    }
}

/// The difference to the recorded result, if any.
fn differs(case: &Value) -> Option<String> {
    let schema = Schema::compile(&case["schema"]).expect("the schema compiles");
    let mut object = object(case, "new");
    let mut unknown = Vec::new();
    match case["op"].as_str().expect("an operation") {
        "validate" | "status" => {
            let old = case["old"].as_object();
            let change = Change {
                old,
                status_only: case["op"] == "status",
                ..Change::create(&object)
            };
            let verdict = schema.validate(change);
            let (found, told) = (found(&verdict.errors), told(case));
            let (mut warned, mut warnings) = (verdict.warnings, warnings(case));
            warned.sort();
            warnings.sort();
            let same = found == told && warned == warnings;
            return (!same)
                .then(|| format!("found {found:#?} {warned:#?}\ntold {told:#?} {warnings:#?}"));
        }
        "prune" => schema.prune(&mut object, &mut unknown),
        "fill" => schema.fill(&mut object),
        "repair" => schema.repair_embedded(&mut object),
        "coerce" => {
            let error = schema.coerce_embedded(&mut object, &mut unknown);
            let error = error.err().map(|error| error.to_string());
            let told = case["error"].as_str().map(str::to_owned);
            if error.is_some() || told.is_some() {
                // Which of several errors comes first is random.
                let same = error.is_some() == told.is_some();
                return (!same).then(|| format!("found {error:?}\ntold {told:?}"));
            }
        }
        other => panic!("unknown operation {other}"),
    }
    let told = case.get("unknown").cloned().unwrap_or(json!([]));
    let object = Value::Object(object);
    let same = same_numbers(&object, &case["result"]) && json!(unknown) == told;
    (!same).then(|| format!("found {object} {unknown:?}\ntold {} {told}", case["result"]))
}

#[test]
fn schemas_and_objects_behave_as_in_kubernetes() {
    let cases = cases("oracle.jsonl");
    assert!(cases.len() > 400, "{}", cases.len());
    for (index, case) in cases.iter().enumerate() {
        if let Some(difference) = differs(case) {
            panic!("case {index}: {case}\n{difference}");
        }
    }
}

#[test]
fn rules_are_evaluated_as_in_kubernetes() {
    let cases = cases("rules.jsonl");
    assert!(cases.len() > 90, "{}", cases.len());
    let differences = cases.iter().filter_map(|case| {
        let difference = differs(case)?;
        Some(format!("{}: {difference}", case["label"]))
    });
    let differences: Vec<_> = differences.collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn formats_and_patterns_match_as_in_go() {
    let mut wrong = Vec::new();
    for case in cases("formats.jsonl") {
        // Invalid expressions are rejected with the definition.
        if case.get("error").is_some() {
            continue;
        }
        let name = case["format"].as_str().expect("a name");
        let fits: Box<dyn Fn(&str) -> bool> = if case["op"] == "format" {
            let format = Format::of(Some("string"), name).expect("the format is known");
            Box::new(move |text| format.fits(text))
        } else {
            let pattern = Pattern::new(name);
            wrong.extend(pattern.fault().map(|fault| format!("{name}: {fault}")));
            Box::new(move |text| pattern.matches(text))
        };
        for (list, wanted) in [("fits", true), ("not", false)] {
            let texts = case[list].as_array().expect("a list").iter();
            let texts = texts.map(|text| text.as_str().expect("a text"));
            let texts = texts.filter(|text| fits(text) != wanted);
            wrong.extend(texts.map(|text| format!("{name} {list}: {text:?}")));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}
