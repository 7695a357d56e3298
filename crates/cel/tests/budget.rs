//! The budget bounds the time of every expression.

use std::time::{Duration, Instant};

use insula_cel::{
    Activation, Budget, Environment, EvalError, Plan, Program, Type, Value, evaluate,
};
use serde_json::{Value as Json, json};

fn plan(expression: &str) -> Plan {
    let environment = Environment::new().with("object", Type::Dyn);
    let program = Program::compile(&environment, expression).expect(expression);
    Plan::new(&program).expect(expression)
}

/// An object of the maximum size: many elements and a long string.
fn large() -> Json {
    let numbers: Vec<_> = (0..100_000).collect();
    json!({"l": numbers, "s": "a".repeat(1 << 20), "p": "(a|b)*c"})
}

#[test]
fn an_exhausted_budget_stops_the_evaluation_at_once() {
    let plan = plan("false || [1, 2, 3].map(x, x + 1).size() == 3 || true");
    let activation = Activation::new();
    let mut costs = Vec::new();
    for limit in 0..60 {
        let evaluation = evaluate(&plan, &activation, Budget(limit));
        match evaluation.result {
            Ok(value) => {
                assert_eq!(value.truth(), Some(true));
                assert!(evaluation.cost <= limit, "{limit}");
            }
            Err(error) => {
                assert_eq!(error, EvalError::Cancelled);
                assert!(evaluation.cost > limit, "{limit}");
            }
        }
        costs.push(evaluation.cost);
    }
    assert!(costs.is_sorted());
    assert_eq!(costs.last(), Some(&45));
}

#[test]
fn results_that_exceed_the_budget_are_not_created() {
    let object = large();
    let cancelled = [
        "lists.range(1000000000000)",
        "object.l.map(x, object.l)",
        "object.l.map(x, object.s).join('')",
        "object.s.replace('', object.s)",
        "object.s.replace('a', object.s).replace('a', object.s)",
        "object.l.all(x, object.s.contains('b' + object.s) == false)",
        "object.l.all(x, object.l.exists_one(y, object.l.exists_one(z, false)) == false)",
        "object.l.all(x, !(-1 in dyn(object.l)))",
        "object.l.map(x, object.l + object.l).flatten().size() == 0",
        "object.l.distinct().size() == 0",
        "object.l.all(x, object.s.matches(object.p) || true)",
        "lists.range(900000).map(x, 'a').join(object.s)",
    ];
    for expression in cancelled {
        let plan = plan(expression);
        let activation = Activation::new().with("object", Value::dynamic(&object));
        let began = Instant::now();
        let evaluation = evaluate(&plan, &activation, Budget(100_000));
        let took = began.elapsed();
        let error = evaluation.result.err();
        assert_eq!(error, Some(EvalError::Cancelled), "{expression}");
        // Without optimization and on a busy machine; most expressions take milliseconds.
        assert!(took < Duration::from_secs(20), "{expression} took {took:?}");
    }
}

#[test]
fn concatenating_long_lists_does_not_copy_them_each_time() {
    let object = large();
    let plan = plan("object.l.slice(0, 10000).all(x, (object.l + object.l).size() == 200000)");
    let activation = Activation::new().with("object", Value::dynamic(&object));
    let value = evaluate(&plan, &activation, Budget::CALL)
        .result
        .expect("a value");
    assert_eq!(value.truth(), Some(true));
}

#[test]
fn deep_expressions_do_not_overflow_the_stack() {
    // Each level is a call, an operator and a loop.
    let mut expression = "1".to_owned();
    for _ in 0..40 {
        expression = format!("[{expression}].map(x, x + 1)[0]");
    }
    let plan = plan(&expression);
    let value = evaluate(&plan, &Activation::new(), Budget::CALL)
        .result
        .expect("a value");
    assert_eq!(value.to_string(), "41");
    let sum = vec!["1"; 200].join(" + ");
    let plan = self::plan(&sum);
    let value = evaluate(&plan, &Activation::new(), Budget::CALL)
        .result
        .expect("a value");
    assert_eq!(value.to_string(), "200");
}

/// Measures a few rules; run it with `--release -- --ignored --nocapture`.
#[test]
#[ignore = "prints figures"]
#[expect(
    clippy::print_stderr,
    reason = "the figures are the result of the test"
)]
fn figures() {
    let texts: Vec<_> = (0..100).map(|at| format!("text-{at}")).collect();
    let object = json!({"l": texts, "i": 5, "s": "hello", "o": {"p": {"q": 1}}});
    for expression in [
        "object.i > 1",
        "object.o.p.q == 1 && object.s == 'hello'",
        "object.s.matches('^h[a-z]+$')",
        "object.l.all(x, x.size() < 10)",
        "object.l.filter(x, x.startsWith('text')).size() == 100",
        "object.l.map(x, x + '!').exists(x, x == 'text-99!')",
    ] {
        let plan = plan(expression);
        // The best of many runs, because the machine is shared.
        let took = (0..200).map(|_| {
            let began = Instant::now();
            for _ in 0..10 {
                let activation = Activation::new().with("object", Value::dynamic(&object));
                let evaluation = evaluate(&plan, &activation, Budget::CALL);
                evaluation.result.expect("a value");
            }
            began.elapsed().as_nanos() / 10
        });
        let took = took.min().unwrap_or_default();
        eprintln!("{took:>9} ns  {expression}");
    }
}
