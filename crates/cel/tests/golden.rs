//! Compiles expressions and compares errors and costs with those of the reference implementation.

use insula_cel::declare::{self, Declaration};
use insula_cel::{Environment, OldSelf, Program, Type, estimate};
use serde_json::Value;

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Returns the error or the estimated cost of a rule.
fn compile_rule(declared: &Declaration, rule: &str) -> Result<u64, String> {
    let environment = Environment::rule(&declared.of, OldSelf::Required);
    let program = Program::compile(&environment, rule)
        .map_err(|issues| format!("compilation failed: {issues}"))?;
    if *program.output() != Type::Bool {
        return Err("cel expression must evaluate to a bool".to_owned());
    }
    match program.defect() {
        Some(defect) => Err(format!("program instantiation failed: {defect}")),
        None => Ok(estimate(&program, Some(&declared.extent)).max),
    }
}

fn expected(line: &Value, cost: &str) -> Result<u64, String> {
    match line["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok(line[cost].as_u64().expect("a cost")),
    }
}

#[test]
fn rules_cost_what_the_reference_estimates() {
    let lines = lines(include_str!("data/golden-cel-cost.jsonl"));
    let (first, rules) = lines.split_first().expect("a schema");
    for line in rules {
        let schema = if line["schema"] == "S" {
            &first["schema"]
        } else {
            &line["schema"]
        };
        let declared = declare::of(schema, "selfType").expect("a type");
        let rule = line["rule"].as_str().expect("a rule");
        assert_eq!(
            compile_rule(&declared, rule),
            expected(line, "estimatedCost"),
            "{rule}"
        );
    }
    assert_eq!(rules.len(), 96);
}

#[test]
fn rules_have_the_errors_or_the_costs_of_the_reference() {
    let lines = lines(include_str!("data/vectors.jsonl"));
    let (first, rules) = lines.split_first().expect("a schema");
    for line in rules {
        let schema = line.get("schema").unwrap_or(&first["schema"]);
        let declared = declare::of(schema, "selfType").expect("a type");
        let rule = line["rule"].as_str().expect("a rule");
        assert_eq!(
            compile_rule(&declared, rule),
            expected(line, "cost"),
            "{rule}"
        );
    }
    assert_eq!(rules.len(), 1865);
}

#[test]
fn a_rule_that_uses_old_self_is_a_transition_rule() {
    let lines = lines(include_str!("data/vectors.jsonl"));
    let (first, rules) = lines.split_first().expect("a schema");
    let mut about = 0;
    for line in rules.iter().filter(|line| line.get("cost").is_some()) {
        let schema = line.get("schema").unwrap_or(&first["schema"]);
        let of = declare::of(schema, "selfType").expect("a type").of;
        let rule = line["rule"].as_str().expect("a rule");
        let program = Program::compile(&Environment::rule(&of, OldSelf::Required), rule);
        let uses = program.expect("it costs something").uses("oldSelf");
        assert_eq!(uses, line["old"] == true, "{rule}");
        about += usize::from(uses);
    }
    assert!(about > 20, "{about}");
}

#[test]
fn definitions_are_refused_with_the_texts_of_the_reference() {
    let mut refused = 0;
    for line in lines(include_str!("data/golden-crd-cel.jsonl")) {
        let causes = line["response"]["details"]["causes"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let schema = &line["body"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut found = Vec::new();
        walk(schema, "spec.validation.openAPIV3Schema", true, &mut found);
        for Rule {
            path,
            text,
            declared,
        } in found
        {
            let Some(declared) = declared else {
                assert_eq!(line["label"], "rule on untyped");
                continue;
            };
            let cause = causes.iter().find(|cause| cause["field"] == path);
            let message = cause
                .and_then(|cause| cause["message"].as_str())
                .unwrap_or_default();
            let said = |problem: &str| {
                message
                    .find(problem)
                    .map(|at| Err::<u64, _>(message[at..].to_owned()))
            };
            let problems = [
                "compilation failed: ",
                "program instantiation failed: ",
                "cel expression",
            ];
            match problems.into_iter().find_map(said) {
                Some(error) => {
                    assert_eq!(compile_rule(&declared, &text), error, "{}", line["label"]);
                    refused += 1;
                }
                None => assert!(
                    compile_rule(&declared, &text).is_ok(),
                    "{}: {text}",
                    line["label"]
                ),
            }
        }
    }
    assert_eq!(refused, 12);
}

struct Rule {
    path: String,
    text: String,
    declared: Option<Declaration>,
}

fn walk(schema: &Value, path: &str, root: bool, found: &mut Vec<Rule>) {
    let rules = schema["x-kubernetes-validations"].as_array();
    for (at, rule) in rules.into_iter().flatten().enumerate() {
        let text = rule["rule"].as_str().unwrap_or_default().to_owned();
        let path = format!("{path}.x-kubernetes-validations[{at}].rule");
        let declared = match root {
            true => declare::root(schema, "selfType"),
            false => declare::of(schema, "selfType"),
        };
        if !text.is_empty() {
            found.push(Rule {
                path,
                text,
                declared,
            });
        }
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(
            property,
            &format!("{path}.properties[{name}]"),
            false,
            found,
        );
    }
    if let Some(items) = schema.get("items") {
        walk(items, &format!("{path}.items"), false, found);
    }
}
