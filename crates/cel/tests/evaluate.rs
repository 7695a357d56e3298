//! Values and costs of expressions, as a real kube-apiserver computed them.

use insula_cel::{
    Activation, Budget, Environment, OldSelf, Plan, Program, Shape, Value, declare, evaluate,
};
use serde_json::Value as Json;

/// Formats a result as the vectors do.
fn print(result: Result<Value<'_>, insula_cel::EvalError>) -> String {
    match result {
        Ok(value) => value.to_string(),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn rules_have_the_values_and_costs_of_kubernetes() {
    let mut lines = include_str!("data/golden-cel-cost.jsonl").lines();
    let parse = |line: &str| serde_json::from_str::<Json>(line).expect("a line of JSON");
    let first = parse(lines.next().expect("the schema and the object"));
    let (schema, object) = (&first["schema"], &first["value"]);
    let declared = declare::of(schema, "self").expect("a declaration");
    let shape = Shape::of(schema);
    let environment = Environment::rule(&declared.of, OldSelf::Required);
    let mut wrong = Vec::new();
    let mut seen = 0;
    for row in lines
        .map(parse)
        .filter(|row| row.get("actualCost").is_some())
    {
        seen += 1;
        let rule = row["rule"].as_str().expect("a rule");
        let program = match Program::compile(&environment, rule) {
            Ok(program) => program,
            Err(issues) => {
                wrong.push(format!("{rule}: {issues}"));
                continue;
            }
        };
        let plan = match Plan::new(&program) {
            Ok(plan) => plan,
            Err(error) => {
                wrong.push(format!("{rule}: {error}"));
                continue;
            }
        };
        let activation = Activation::new().with_json("self", object, &shape);
        let evaluation = evaluate(&plan, &activation, Budget::CALL);
        let (cost, result) = (evaluation.cost, print(evaluation.result));
        let wanted = (
            row["actualCost"].as_u64().unwrap_or(0),
            row["result"].as_str().unwrap_or(""),
        );
        if (cost, &*result) != wanted {
            wrong.push(format!("{rule}: {cost} {result}, wanted {wanted:?}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(seen > 60, "only {seen} rules");
}

/// Formats a value as a literal.
fn write(value: &Value<'_>) -> String {
    match value {
        Value::Uint(number) => format!("{number}u"),
        Value::Double(number) if number.is_nan() => "double(\"NaN\")".to_owned(),
        Value::Double(number) if number.is_infinite() => {
            let sign = if *number < 0.0 { "-" } else { "" };
            format!("double(\"{sign}Infinity\")")
        }
        Value::Double(number) => {
            let text = format!("{number}");
            if text.contains('.') {
                text
            } else {
                text + ".0"
            }
        }
        Value::String(text) => quote(text),
        Value::Bytes(bytes) => {
            let octets: String = bytes.iter().map(|byte| format!("\\{byte:03o}")).collect();
            format!("b\"{octets}\"")
        }
        Value::Timestamp(_) => {
            let utc = insula_cel::Timestamp {
                offset: 0,
                ..*timestamp(value)
            };
            format!("timestamp(\"{utc}\")")
        }
        Value::Duration(duration) => format!("duration(\"{duration}\")"),
        Value::List(list) => {
            let items: Vec<_> = list
                .iter()
                .map(|item| write(&item.expect("an element")))
                .collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let member = |key: Value<'_>| {
                let value = map.find(&key).expect("a member").expect("a value");
                format!("{}: {}", write(&key), write(&value))
            };
            let mut members: Vec<_> = map.keys().into_iter().map(member).collect();
            members.sort();
            format!("{{{}}}", members.join(", "))
        }
        Value::Optional(Some(held)) => format!("optional.of({})", write(held)),
        other => other.to_string(),
    }
}

fn timestamp<'v>(value: &'v Value<'_>) -> &'v insula_cel::Timestamp {
    match value {
        Value::Timestamp(time) => time,
        other => panic!("{other} is no time"),
    }
}

fn quote(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

#[test]
fn every_function_has_the_results_errors_and_costs_of_kubernetes() {
    let mut lines = include_str!("data/library.jsonl").lines();
    let parse = |line: &str| serde_json::from_str::<Json>(line).expect("a line of JSON");
    let first = parse(lines.next().expect("the object"));
    let environment = Environment::new().with("object", insula_cel::Type::Dyn);
    let mut wrong = Vec::new();
    let mut seen = 0;
    for row in lines.map(parse) {
        seen += 1;
        let expression = row["expr"].as_str().expect("an expression");
        let wanted = (
            row["kind"].as_str().unwrap_or_default().to_owned(),
            row["cost"].as_u64().unwrap_or_default(),
            row["result"].as_str().unwrap_or_default().to_owned(),
        );
        let program = match Program::compile(&environment, expression) {
            Ok(program) => program,
            Err(issues) => {
                wrong.push(format!("{expression}: {issues}"));
                continue;
            }
        };
        let plan = Plan::new(&program);
        let activation = Activation::new().with("object", Value::dynamic(&first["object"]));
        let got = match &plan {
            Err(error) => ("program".to_owned(), 0, error.to_string()),
            Ok(plan) => {
                let evaluation = evaluate(plan, &activation, Budget::CALL);
                match evaluation.result {
                    Ok(value) => ("value".to_owned(), evaluation.cost, write(&value)),
                    Err(error) => ("error".to_owned(), evaluation.cost, error.to_string()),
                }
            }
        };
        if got != wanted {
            wrong.push(format!(
                "{expression}\n     got {got:?}\n  wanted {wanted:?}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {seen}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(seen > 800, "only {seen} expressions");
}

#[test]
fn values_with_a_schema_are_read_as_in_kubernetes() {
    let mut lines = include_str!("data/shapes.jsonl").lines();
    let parse = |line: &str| serde_json::from_str::<Json>(line).expect("a line of JSON");
    let first = parse(lines.next().expect("the schema and the object"));
    let declared = declare::of(&first["schema"], "self").expect("a declaration");
    let shape = Shape::of(&first["schema"]);
    let environment = Environment::rule(&declared.of, OldSelf::Required);
    let mut wrong = Vec::new();
    for row in lines.map(parse) {
        let rule = row["rule"].as_str().expect("a rule");
        let wanted = (
            row["cost"].as_u64().unwrap_or(0),
            row["result"].as_str().unwrap_or(""),
        );
        let program = Program::compile(&environment, rule).expect(rule);
        let plan = Plan::new(&program).expect(rule);
        let activation = Activation::new().with_json("self", &first["value"], &shape);
        let evaluation = evaluate(&plan, &activation, Budget::CALL);
        let got = match &evaluation.result {
            Ok(value) => value.to_string(),
            Err(error) => error.to_string(),
        };
        if (evaluation.cost, &*got) != wanted {
            wrong.push(format!(
                "{rule}: {} {got}, wanted {wanted:?}",
                evaluation.cost
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_value_makes_an_expression_panic_or_exceed_its_budget() {
    let parse = |line: &str| serde_json::from_str::<Json>(line).expect("a line of JSON");
    let mut lines = include_str!("data/library.jsonl").lines().map(parse);
    let object = lines.next().expect("the object")["object"].clone();
    let names: Vec<_> = object
        .as_object()
        .expect("fields")
        .keys()
        .cloned()
        .collect();
    // Every field gets the value of the next one.
    let objects: Vec<Json> = (1..names.len())
        .map(|by| {
            let value = |at: usize| object[&names[(at + by) % names.len()]].clone();
            let fields = names.iter().enumerate();
            Json::Object(fields.map(|(at, name)| (name.clone(), value(at))).collect())
        })
        .collect();
    let environment = Environment::new().with("object", insula_cel::Type::Dyn);
    for row in lines {
        let expression = row["expr"].as_str().expect("an expression");
        let Ok(program) = Program::compile(&environment, expression) else {
            continue;
        };
        let Ok(plan) = Plan::new(&program) else {
            continue;
        };
        for object in &objects {
            let activation = Activation::new().with("object", Value::dynamic(object));
            let evaluation = evaluate(&plan, &activation, Budget(10_000));
            let spent = evaluation.result.as_ref().err() == Some(&insula_cel::EvalError::Cancelled);
            assert!(spent || evaluation.cost <= 10_000, "{expression}");
            if let Ok(value) = evaluation.result {
                value.to_json().expect(expression);
            }
        }
    }
}

#[test]
fn json_that_does_not_fit_its_shape_is_an_error_on_access() {
    let schema = serde_json::json!({"type": "object", "properties": {
        "s": {"type": "string"}, "i": {"type": "integer"}, "b": {"type": "boolean"},
        "f": {"type": "number"}, "l": {"type": "array", "items": {"type": "integer"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "d": {"type": "string", "format": "date-time"}, "u": {"type": "string", "format": "duration"},
        "y": {"type": "string", "format": "byte"}, "t": {"type": "string", "format": "date"},
    }});
    let object = serde_json::json!({
        "s": 1, "i": 1.5, "b": "x", "f": true, "l": {}, "m": [], "d": "x", "u": "x", "y": "!", "t": "x"
    });
    let declared = declare::of(&schema, "self").expect("a declaration");
    let shape = Shape::of(&schema);
    let environment = Environment::rule(&declared.of, OldSelf::Required);
    for (rule, wanted) in [
        ("self.s == 'x'", "invalid data, expected string, got int64"),
        ("self.i == 1", "invalid data, expected int, got float64"),
        ("self.b", "invalid data, expected bool, got string"),
        ("self.f == 1.0", "invalid data, expected float, got bool"),
        (
            "self.l.size() == 0",
            "invalid data, expected an array for the provided schema with type=array",
        ),
        (
            "self.m.size() == 0",
            "invalid data, expected a map for the provided schema with type=object",
        ),
        ("self.d == self.d", "Invalid date-time formatted string x"),
        (
            "self.u == self.u",
            "Invalid duration x: unable to parse x as duration",
        ),
        ("self.y == b''", "Invalid byte formatted string !"),
        ("self.t == self.t", "Invalid date formatted string x"),
        ("has(self.s)", "invalid data, expected string, got int64"),
    ] {
        let program = Program::compile(&environment, rule).expect(rule);
        let plan = Plan::new(&program).expect(rule);
        let activation = Activation::new().with_json("self", &object, &shape);
        let error = evaluate(&plan, &activation, Budget::CALL).result.err();
        assert_eq!(
            error.map(|error| error.to_string()).as_deref(),
            Some(wanted),
            "{rule}"
        );
    }
}
