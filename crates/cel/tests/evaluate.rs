//! Values and costs of expressions, as a real kube-apiserver computed them.

use insula_cel::{
    Activation, Budget, Environment, OldSelf, Plan, Program, Shape, Value, declare, evaluate,
};
use serde_json::Value as Json;

/// What comes of an expression, in the words of the vectors.
fn print(result: Result<Value<'_>, insula_cel::EvalError>) -> String {
    match result {
        Ok(value) => value.to_string(),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn rules_compute_and_cost_what_they_do_in_kubernetes() {
    let mut lines = include_str!("data/cost.jsonl").lines();
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
