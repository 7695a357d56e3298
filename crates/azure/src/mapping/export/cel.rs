//! CEL expressions, as Kubernetes evaluates them.
//!
//! `self` is the object and `secret` a map of its secret values. A field with a name that is no
//! identifier is selected by index: `self.spec['aof-backup']`.

use std::collections::{BTreeMap, BTreeSet};

use insula_cel::{
    Activation, Environment, Expr, Literal, Node, Plan, Program, Type, Value as CelValue, evaluate,
    with_stack,
};
use insula_identity::credential::Hidden;
use serde_json::{Map, Value};

use super::limits::{CostBudget, MAX_TARGET_BYTES};
use super::{Evaluated, Expressions};

/// The variable with the object.
const OBJECT: &str = "self";
/// The variable with the secret values.
const SECRETS: &str = "secret";

/// The evaluator of the crate `insula-cel`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cel;

impl Expressions for Cel {
    fn secrets_used(&self, expression: &str) -> Result<BTreeSet<String>, String> {
        let program = compile(expression)?;
        let mut used = BTreeSet::new();
        with_stack(program.depth(), || add_selected(program.expr(), &mut used));
        Ok(used)
    }

    fn evaluate(
        &self,
        expression: &str,
        object: &Value,
        secrets: &BTreeMap<String, Hidden>,
        budget: &mut CostBudget,
    ) -> Result<Evaluated, String> {
        let program = compile(expression)?;
        let plan = Plan::new(&program).map_err(|error| error.to_string())?;
        let secrets: Map<_, _> = secrets
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), value.text()?.into())))
            .collect();
        let secrets = Value::Object(secrets);
        let activation = Activation::new()
            .with(OBJECT, CelValue::dynamic(object))
            .with(SECRETS, CelValue::dynamic(&secrets));
        let evaluation = evaluate(&plan, &activation, budget.next());
        budget.charge(evaluation.cost);
        let value = evaluation.result.map_err(|error| {
            match (budget.is_exhausted(), program.uses(SECRETS)) {
                (true, _) => "the expressions of this resource cost too much together".to_owned(),
                // The message may quote a value.
                (false, true) => {
                    "the evaluation failed; the message is withheld as secrets are used".to_owned()
                }
                (false, false) => error.to_string(),
            }
        })?;
        texts(&value)
    }
}

fn compile(expression: &str) -> Result<Program, String> {
    let environment = Environment::new()
        .with(OBJECT, Type::Dyn)
        .with(SECRETS, Type::map(Type::String, Type::String));
    Program::compile(&environment, expression).map_err(|issues| issues.to_string())
}

/// Returns the texts that a value is. A value may name one text many times: their size is counted
/// before they are copied.
fn texts(value: &CelValue<'_>) -> Result<Evaluated, String> {
    let unexpected = || {
        let name = value.type_name();
        format!("the value is a {name}, expected a text or a map of texts")
    };
    let map = match value {
        CelValue::Map(map) => map,
        _ => {
            let json = value.to_json().map_err(|_| unexpected())?;
            let text = json.as_str().ok_or_else(unexpected)?;
            return Ok(Evaluated::Text(Hidden::new(text)));
        }
    };
    let (mut texts, mut size) = (BTreeMap::new(), 0);
    for key in map.keys() {
        let member = map.find(&key).transpose().map_err(|_| unexpected())?;
        let Some(CelValue::String(text)) = member else {
            return Err(unexpected());
        };
        let key = key.to_string();
        size += key.len() + text.len();
        if size > MAX_TARGET_BYTES {
            return Err(format!("the value has more than {MAX_TARGET_BYTES} bytes"));
        }
        texts.insert(key, Hidden::new(&*text));
    }
    Ok(Evaluated::Texts(texts))
}

/// Adds the fields of [`SECRETS`] that are selected by name or by index.
fn add_selected(expr: &Expr, used: &mut BTreeSet<String>) {
    match &expr.node {
        Node::Select { operand, field, .. } => {
            if is_secrets(operand) {
                used.insert(field.to_string());
            }
            add_selected(operand, used);
        }
        Node::Call { target, args, .. } => {
            if let [operand, index] = &args[..]
                && is_secrets(operand)
                && let Node::Literal(Literal::String(field)) = &index.node
            {
                used.insert(field.to_string());
            }
            let target = target.iter().map(AsRef::as_ref);
            target.chain(args).for_each(|it| add_selected(it, used));
        }
        Node::List { elements, .. } => elements.iter().for_each(|it| add_selected(it, used)),
        Node::Map(entries) | Node::Struct { entries, .. } => {
            let parts = entries.iter().flat_map(|entry| [&entry.key, &entry.value]);
            parts.for_each(|it| add_selected(it, used));
        }
        Node::Comprehension(it) => {
            let parts = [&it.range, &it.init, &it.condition, &it.step, &it.result];
            parts.into_iter().for_each(|it| add_selected(it, used));
        }
        Node::Literal(_) | Node::Ident(_) => {}
    }
}

fn is_secrets(expr: &Expr) -> bool {
    matches!(&expr.node, Node::Ident(name) if **name == *SECRETS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(expression: &str) -> Result<Evaluated, String> {
        let object = json!({
            "metadata": {"name": "a", "namespace": "n"},
            "spec": {"location": "x", "tags": {"k": "v"}},
            "status": {"port": 80, "endpoints": [{"url": "u"}, {"url": "w"}]},
        });
        let secrets = BTreeMap::from([("key1".to_owned(), Hidden::new("one"))]);
        Cel.evaluate(expression, &object, &secrets, &mut CostBudget::default())
    }

    fn text(text: &str) -> Result<Evaluated, String> {
        Ok(Evaluated::Text(Hidden::new(text)))
    }

    #[test]
    fn expressions_have_texts_and_maps_of_texts_as_values() {
        for (expression, expected) in [
            ("self.spec.location", "x"),
            ("self.metadata.namespace + '/' + self.metadata.name", "n/a"),
            ("string(self.status.port)", "80"),
            ("self.status.endpoints.map(it, it.url).join(',')", "u,w"),
            ("secret.key1 + secret['key1']", "oneone"),
            ("has(self.status.missing) ? 'yes' : 'no'", "no"),
        ] {
            assert_eq!(run(expression), text(expected), "{expression}");
        }
        let expected = BTreeMap::from([("k".to_owned(), Hidden::new("v"))]);
        assert_eq!(run("self.spec.tags"), Ok(Evaluated::Texts(expected)));
        for expression in ["self.status.port", "self.status", "[1]", "null"] {
            assert!(run(expression).is_err(), "{expression}");
        }
    }

    #[test]
    fn errors_name_the_problem_but_no_secret() {
        assert_eq!(
            run("self.status.missing").unwrap_err(),
            "no such key: missing"
        );
        assert_eq!(
            run("string(int(secret.key1))").unwrap_err(),
            "the evaluation failed; the message is withheld as secrets are used"
        );
        let error = run("self.").unwrap_err();
        assert!(error.contains("Syntax error"), "{error}");
    }

    #[test]
    fn all_expressions_of_an_object_have_one_budget() {
        let object = json!({"spec": {"list": vec![0; 1000]}});
        // About 300,000 of the 10,000,000.
        let costly = "self.spec.list.map(a, self.spec.list.map(b, b).size()).size() > 0 ? '' : ''";
        let mut budget = CostBudget::default();
        let results = (0..1000).map(|_| {
            let result = Cel.evaluate(costly, &object, &BTreeMap::new(), &mut budget);
            result.err()
        });
        let failed: Vec<_> = results.flatten().collect();
        assert!(failed.len() > 800, "{}", failed.len());
        let last = failed.last().map(String::as_str);
        let expected = "the expressions of this resource cost too much together";
        assert_eq!(last, Some(expected));
    }

    #[test]
    fn size_of_a_map_is_limited_although_its_texts_are_one() {
        let object = json!({"spec": {"text": "x".repeat(100_000)}});
        let entries: Vec<_> = (0..400)
            .map(|it| format!("'{it}':self.spec.text"))
            .collect();
        let expression = format!("{{{}}}", entries.join(","));
        let mut budget = CostBudget::default();
        let result = Cel.evaluate(&expression, &object, &BTreeMap::new(), &mut budget);
        let expected = "the value has more than 1048576 bytes".to_owned();
        assert_eq!(result, Err(expected));
    }

    #[test]
    fn selected_secrets_are_found() {
        let used = Cel.secrets_used(
            "has(secret.a) ? secret.b + secret['c'] : [self.x].map(it, it + secret.d)[0]",
        );
        let expected = ["a", "b", "c", "d"].map(str::to_owned);
        assert_eq!(used, Ok(BTreeSet::from(expected)));
        assert!(Cel.secrets_used("other.a").is_err());
        assert_eq!(Cel.secrets_used("self.secret.a"), Ok(BTreeSet::new()));
    }
}
