//! Variables that are computed on demand, and the authorizer.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use insula_cel::{
    Activation, AuthorizationRequest, Authorizer, Budget, Caller, Decision, Environment, Plan,
    Program, Resource, Target, Type, Value, evaluate,
};
use serde_json::json;

fn plan(environment: &Environment, expression: &str) -> Plan {
    let program = Program::compile(environment, expression).expect(expression);
    Plan::new(&program).expect(expression)
}

fn policies() -> Environment {
    let opaque = |name: &str| Type::Opaque(name.into());
    Environment::new()
        .with("object", Type::Dyn)
        .with("variables", Type::Dyn)
        .with("authorizer", opaque("kubernetes.authorization.Authorizer"))
        .with(
            "authorizer.requestResource",
            opaque("kubernetes.authorization.ResourceCheck"),
        )
}

#[test]
fn a_composed_variable_is_evaluated_at_most_once() {
    let environment = policies();
    let replicas = plan(&environment, "object.spec.replicas");
    let twice = plan(&environment, "variables.replicas * 2");
    let never = plan(&environment, "object.a / 0");
    let rule = plan(
        &environment,
        "variables.twice == 6 && variables.twice + variables.replicas == 9",
    );
    let object = json!({"spec": {"replicas": 3}});
    let activation = Activation::new()
        .with("object", Value::dynamic(&object))
        .with_composed("replicas", &replicas, Budget::CALL)
        .with_composed("twice", &twice, Budget::CALL)
        .with_composed("never", &never, Budget::CALL);
    let evaluation = evaluate(&rule, &activation, Budget::CALL);
    assert_eq!(evaluation.result.expect("a value").truth(), Some(true));
    // Three times a variable and its name, two comparisons and a sum.
    assert_eq!(evaluation.cost, 9);
    // `object.spec.replicas` costs 3, `variables.replicas * 2` as much.
    assert_eq!(activation.take_composed_cost(), 6);
    assert_eq!(activation.take_composed_cost(), 0);
    evaluate(&rule, &activation, Budget::CALL);
    assert_eq!(activation.take_composed_cost(), 0);
}

#[test]
fn an_error_in_a_composed_variable_fails_its_users() {
    let environment = policies();
    let broken = plan(&environment, "object.a / 0");
    let poor = plan(&environment, "[1, 2, 3].all(x, x > 0)");
    let object = json!({"a": 1});
    let activation = Activation::new()
        .with("object", Value::dynamic(&object))
        .with_composed("broken", &broken, Budget::CALL)
        .with_composed("poor", &poor, Budget(3));
    let cases = [
        (
            "variables.broken == 1",
            "error: composited variable \"broken\" fails to evaluate: division by zero",
        ),
        ("variables.broken == 1 || true", "true"),
        (
            "variables.poor",
            "error: composited variable \"poor\" fails to evaluate: operation cancelled: actual cost limit exceeded",
        ),
        ("variables.missing", "error: no such key: missing"),
        ("has(variables.broken)", "true"),
        ("has(variables.missing)", "false"),
        ("variables.?missing.orValue(1)", "1"),
    ];
    for (expression, wanted) in cases {
        let plan = plan(&environment, expression);
        let got = match evaluate(&plan, &activation, Budget::CALL).result {
            Ok(value) => value.to_string(),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(got, wanted, "{expression}");
    }
}

#[test]
fn a_composed_variable_sees_only_those_before_it() {
    let environment = policies();
    let later = plan(&environment, "variables.second");
    let second = plan(&environment, "2");
    let activation = Activation::new()
        .with_composed("first", &later, Budget::CALL)
        .with_composed("second", &second, Budget::CALL)
        .with_composed("itself", &later, Budget::CALL);
    let ask = |expression: &str| {
        let plan = plan(&environment, expression);
        let result = evaluate(&plan, &activation, Budget::CALL).result;
        result.map_or_else(|error| error.to_string(), |value| value.to_string())
    };
    assert_eq!(
        ask("variables.first"),
        "composited variable \"first\" fails to evaluate: no such attribute(s): variables"
    );
    assert_eq!(ask("variables.itself"), "2");
}

#[test]
fn a_lazy_variable_is_computed_on_first_use() {
    let environment = policies();
    let asked = AtomicU64::new(0);
    let source = || {
        asked.fetch_add(1, Ordering::Relaxed);
        Ok(Value::Int(5))
    };
    let activation = Activation::new().with_lazy("object", &source);
    let unused = plan(&environment, "true || object == 5");
    evaluate(&unused, &activation, Budget::CALL)
        .result
        .expect("a value");
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    let used = plan(&environment, "object + object == 10");
    let value = evaluate(&used, &activation, Budget::CALL)
        .result
        .expect("a value");
    assert_eq!(
        (value.truth(), asked.load(Ordering::Relaxed)),
        (Some(true), 1)
    );
}

/// Allows every request of service accounts, and records the requests.
#[derive(Default)]
struct RecordingAuthorizer(Mutex<Vec<AuthorizationRequest>>);

impl Authorizer for RecordingAuthorizer {
    fn decide(&self, request: &AuthorizationRequest) -> Decision {
        self.0
            .lock()
            .expect("no test panics here")
            .push(request.clone());
        Decision {
            allowed: request.caller != Caller::Requester,
            reason: "because".to_owned(),
            error: (request.verb == "break").then(|| "broken".to_owned()),
        }
    }
}

#[test]
fn the_authorizer_receives_the_request_that_the_expression_builds() {
    let environment = policies();
    let clerk = RecordingAuthorizer::default();
    let request = Resource {
        group: "apps".to_owned(),
        resource: "deployments".to_owned(),
        namespace: "here".to_owned(),
        ..Resource::default()
    };
    let activation = Activation::new()
        .with("authorizer", Value::authorizer(&clerk))
        .with(
            "authorizer.requestResource",
            Value::request_resource(&clerk, request),
        );
    let cases = [
        (
            "authorizer.path('/healthz').check('get').allowed()",
            "false",
            350_003,
        ),
        (
            "authorizer.path(' ').check('get').allowed()",
            "error: path must not be empty",
            350_003,
        ),
        (
            "authorizer.group('').resource('').check('get').allowed()",
            "error: resource must not be empty",
            350_004,
        ),
        (
            "authorizer.serviceAccount('ns', 'sa').group('').resource('pods').subresource('log').namespace('n').name('p').fieldSelector('a=b').labelSelector('c').check('get').allowed()",
            "true",
            350_180,
        ),
        (
            "authorizer.serviceAccount('Ns', 'sa').path('/x').check('get').allowed()",
            "error: Invalid service account namespace",
            350_004,
        ),
        (
            "authorizer.serviceAccount('ns', 'S').path('/x').check('get').allowed()",
            "error: Invalid service account name",
            350_004,
        ),
        (
            "authorizer.requestResource.check('update').reason()",
            "because",
            350_002,
        ),
        (
            "authorizer.requestResource.check('break').errored()",
            "true",
            350_002,
        ),
        (
            "authorizer.requestResource.check('break').error()",
            "broken",
            350_002,
        ),
        ("authorizer.requestResource.check('x').error()", "", 350_002),
        (
            "[1, 2, 3].all(x, authorizer.requestResource.check('x').reason() != '')",
            "error: operation cancelled: actual cost limit exceeded",
            1_050_014,
        ),
    ];
    for (expression, wanted, cost) in cases {
        let plan = plan(&environment, expression);
        let evaluation = evaluate(&plan, &activation, Budget::CALL);
        let got = match evaluation.result {
            Ok(value) => value.to_string(),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!((&*got, evaluation.cost), (wanted, cost), "{expression}");
    }
    let asked = clerk.0.lock().expect("no test panics here");
    assert_eq!(
        asked[..2],
        [
            AuthorizationRequest {
                caller: Caller::Requester,
                verb: "get".to_owned(),
                on: Target::Path("/healthz".to_owned()),
            },
            AuthorizationRequest {
                caller: Caller::ServiceAccount {
                    namespace: "ns".to_owned(),
                    name: "sa".to_owned(),
                },
                verb: "get".to_owned(),
                on: Target::Resource(Resource {
                    group: String::new(),
                    resource: "pods".to_owned(),
                    subresource: "log".to_owned(),
                    namespace: "n".to_owned(),
                    name: "p".to_owned(),
                    field_selector: "a=b".to_owned(),
                    label_selector: "c".to_owned(),
                }),
            },
        ]
    );
    // Two iterations of the loop were charged; the third did not happen.
    let loops = asked.iter().filter(|request| request.verb == "x");
    assert_eq!(loops.count(), 1 + 2);
}
