//! Results of the real structured-merge-diff for random objects, with the schemas that a real
//! kube-apiserver builds for built-in and custom types.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::HashMap;
use std::sync::Arc;

use insula_kinds::{Object, Value, types};
use insula_ownership::typed;
use insula_ownership::{Schema, Set};

const DEFINITIONS: &str = include_str!("data/definitions.json");
const VECTORS: &str = include_str!("data/vectors.jsonl");

#[test]
fn every_operation_has_the_result_of_kubernetes() {
    // A variable can name a file with more.
    let text = given("OWNERSHIP_VECTORS").unwrap_or_else(|| VECTORS.to_owned());
    let mut schemas = Schemas::new();
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let schema = schemas.of(case["kind"].as_str().unwrap());
        check(&schema, &case, &mut wrong);
        count += 1;
        if wrong.len() > 2 {
            break;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(count >= 200, "{count}");
}

struct Schemas {
    custom: Vec<Arc<Schema>>,
    built_in: HashMap<String, Arc<Schema>>,
}

impl Schemas {
    fn new() -> Self {
        let text = given("OWNERSHIP_DEFINITIONS").unwrap_or_else(|| DEFINITIONS.to_owned());
        let definitions: Vec<Option<Value>> = serde_json::from_str(&text).unwrap();
        let schema = |schema: &Option<Value>| Schema::custom(schema.as_ref());
        Self {
            custom: definitions.iter().map(schema).collect(),
            built_in: HashMap::new(),
        }
    }

    fn of(&mut self, kind: &str) -> Arc<Schema> {
        if let Ok(at) = kind.parse::<usize>() {
            return self.custom[at].clone();
        }
        let name = kind.strip_prefix("io.k8s.").unwrap();
        let make = || Arc::new(Schema::built_in(types().find(name).unwrap()));
        self.built_in
            .entry(kind.to_owned())
            .or_insert_with(make)
            .clone()
    }
}

/// Reads the file that a variable names.
fn given(variable: &str) -> Option<String> {
    let file = std::env::var(variable).ok()?;
    Some(std::fs::read_to_string(file).unwrap())
}

/// Compares all results of a case.
fn check(schema: &Schema, case: &Value, wrong: &mut Vec<String>) {
    let mut same = |what: &str, got: String, want: &str| {
        if got != want {
            let (kind, live, config) = (&case["kind"], &case["live"], &case["config"]);
            wrong.push(format!(
                "{what} of {kind}\nlive {live}\nconfig {config}\ngot  {got}\nwant {want}"
            ));
        }
    };
    let text = |name: &str| case[name].as_str().unwrap_or_default();
    let (live, config) = (object(&case["live"]), object(&case["config"]));
    let problem = |result: Result<(), typed::NotOfType>| match result {
        Ok(()) => String::new(),
        Err(problem) => sorted(&problem.0),
    };
    let live_wrong = problem(typed::check(schema, &live, true));
    same("check", live_wrong, &sorted(text("liveWrong")));
    if case.get("liveWrong").is_some() {
        return;
    }
    let config_wrong = problem(typed::check(schema, &config, false));
    same("strict check", config_wrong, &sorted(text("configWrong")));
    if case.get("fields").is_none() {
        return;
    }
    let fields = typed::fields(schema, &live).unwrap();
    same("fields", fields.text(), text("fields"));
    same(
        "read",
        Set::parse(text("fields")).unwrap().text(),
        text("fields"),
    );
    if let Some(paths) = case["paths"].as_array() {
        let want: Vec<_> = paths.iter().filter_map(Value::as_str).collect();
        let got: Vec<_> = fields.paths().iter().map(ToString::to_string).collect();
        same("paths", got.join("\n"), &want.join("\n"));
    }
    let named = typed::ensure_named(schema, &fields);
    same("named", named.text(), text("named"));
    let compared = typed::compare(schema, &live, &config).unwrap();
    same("added", compared.added.text(), text("added"));
    same("removed", compared.removed.text(), text("removed"));
    same("modified", compared.modified.text(), text("modified"));
    if case.get("configWrong").is_none() {
        let merged = typed::merge(schema, &live, &config).unwrap();
        same("merged", json(merged), &json(object(&case["merged"])));
    }
    let some = Set::parse(text("some")).unwrap();
    let without = typed::remove(schema, &live, &some);
    same("without", json(without), &json(object(&case["without"])));
    let theirs = typed::fields(schema, &config).unwrap();
    same("union", fields.union(&theirs).text(), text("union"));
    let intersection = fields.intersection(&theirs);
    same("intersection", intersection.text(), text("intersection"));
    let difference = fields.difference(&theirs);
    same("difference", difference.text(), text("difference"));
    let recursive = fields.recursive_difference(&some);
    same("recursive", recursive.text(), text("recursive"));
    same("leaves", named.leaves().text(), text("leaves"));
    if case.get("other").is_some() {
        let other = Set::parse(text("other")).unwrap();
        let reconciled = typed::reconcile(schema, &other);
        let reconciled = reconciled.map_or(String::new(), |set| set.text());
        same("reconciled", reconciled, text("reconciled"));
    }
}

/// Kubernetes reports problems of map members in random order.
fn sorted(problems: &str) -> String {
    let mut lines: Vec<_> = problems.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn object(value: &Value) -> Object {
    value.as_object().cloned().unwrap_or_default()
}

/// Formats JSON as Go would: `2.0` and `2` are the same number there.
fn json(object: Object) -> String {
    insula_kinds::go::json(&Value::Object(object))
}
