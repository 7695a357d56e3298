//! Validation of configurations, beyond the recorded cases.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use insula_admission::validate::{self, ValidationResult};
use insula_kinds::{Kind, Object, Value, defaults, kinds};
use serde_json::json;

fn kind(name: &str) -> &'static Kind {
    let id = kinds().find_by_kind("admissionregistration.k8s.io", "v1", name);
    kinds().get(id.unwrap())
}

fn object(of: &str, value: Value) -> Object {
    let mut object = value.as_object().unwrap().clone();
    defaults::apply(kind(of), &mut object);
    object
}

fn errors(result: &ValidationResult) -> Vec<String> {
    result.errors.iter().map(ToString::to_string).collect()
}

fn created(of: &str, value: Value) -> Vec<String> {
    errors(&validate::create(kind(of), &object(of, value)))
}

fn updated(of: &str, old: Value, new: Value) -> Vec<String> {
    let (old, new) = (object(of, old), object(of, new));
    errors(&validate::update(kind(of), None, &old, &new))
}

fn with(mut base: Value, changes: Value) -> Value {
    for (member, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(base.as_object_mut().unwrap().remove(member)),
            value => base[member] = value.clone(),
        }
    }
    base
}

const VALIDATING: &str = "ValidatingWebhookConfiguration";

fn hook(changes: Value) -> Value {
    let base = json!({
        "name": "a.b.c",
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "rules": [rule()],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    with(base, changes)
}

fn rule() -> Value {
    json!({
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
        "operations": ["CREATE"],
    })
}

fn hooks(hooks: &[Value]) -> Value {
    json!({"metadata": {"name": "q"}, "webhooks": hooks})
}

fn policy(spec: Value) -> Value {
    let base = json!({
        "matchConstraints": {"resourceRules": [rule()]},
        "validations": [{"expression": "true"}],
    });
    json!({"metadata": {"name": "p"}, "spec": with(base, spec)})
}

fn mutating(spec: Value) -> Value {
    let base = json!({
        "matchConstraints": {"resourceRules": [rule()]},
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {
            "expression": "Object{data: {'a': 'b'}}",
        }}],
    });
    json!({"metadata": {"name": "p"}, "spec": with(base, spec)})
}

#[test]
fn webhook_errors_use_kubernetes_wording() {
    for (changes, expected) in [
        (
            json!({"sideEffects": null}),
            vec!["webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"],
        ),
        (
            json!({"admissionReviewVersions": ["v9"]}),
            vec![
                "webhooks[0].admissionReviewVersions: Invalid value: [\"v9\"]: must include at least one of v1, v1beta1",
            ],
        ),
        (
            json!({"name": "a.b"}),
            vec![
                "webhooks[0].name: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots",
            ],
        ),
        (
            json!({"clientConfig": {"url": "https://a:b"}}),
            vec![
                "webhooks[0].clientConfig.url: Required value: url must be a valid URL: parse \"https://a:b\": invalid port \":b\" after host; desired format: https://host[/path]",
            ],
        ),
        (
            json!({"clientConfig": {"url": "http://a"}}),
            vec![
                "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
            ],
        ),
        (
            // Kubernetes reports the path of the other field.
            json!({"clientConfig": {"service": {"name": "s", "namespace": ""}}}),
            vec!["webhooks[0].clientConfig.service.name: Required value"],
        ),
        (
            json!({"matchConditions": [{"name": "x", "expression": " 1 "}]}),
            vec![
                "webhooks[0].matchConditions[0].expression: Invalid value: \"1\": must evaluate to bool but got int",
            ],
        ),
        (
            json!({"matchConditions": [
                {"name": "x y", "expression": "variables.a"},
                {"name": "x", "expression": ""},
                {"name": "x", "expression": "authorizer.path('/a').check('get').allowed()"},
                {"name": "y", "expression": "authorizer.requestResource.check('get').allowed()"},
                {"name": "z", "expression": "request.userInfo.groups.exists(g, g == 'a') && object.x == oldObject.x"},
            ]}),
            vec![
                "webhooks[0].matchConditions[0].expression: Invalid value: \"variables.a\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'variables' (in container '')\n | variables.a\n | ^",
                "webhooks[0].matchConditions[0].name: Invalid value: \"x y\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "webhooks[0].matchConditions[1].expression: Required value",
                "webhooks[0].matchConditions[2].name: Duplicate value: \"x\"",
            ],
        ),
    ] {
        assert_eq!(created(VALIDATING, hooks(&[hook(changes)])), expected);
    }
}

#[test]
fn existing_violations_remain_allowed_on_update() {
    let none = Vec::<String>::new();
    let old = hook(json!({
        "sideEffects": "Unknown", "admissionReviewVersions": ["v9"],
        "objectSelector": {"matchLabels": {"a": "b c"}},
        "matchConditions": [{"name": "x", "expression": "nonsense"}],
    }));
    let twice = hooks(&[old.clone(), old.clone()]);
    assert_eq!(updated(VALIDATING, twice.clone(), twice.clone()), none);
    // Changed conditions are validated again, next to the unchanged ones.
    let changed = with(
        old.clone(),
        json!({"matchConditions": [
            {"name": "x", "expression": "more nonsense"},
        ]}),
    );
    let found = updated(VALIDATING, twice.clone(), hooks(&[old, changed]));
    assert_eq!(found.len(), 2, "{found:?}");
    let (right, wrong) = (hook(json!({})), hook(json!({"sideEffects": "Unknown"})));
    let found = updated(
        VALIDATING,
        hooks(&[right]),
        hooks(std::slice::from_ref(&wrong)),
    );
    let why = "webhooks[0].sideEffects: Unsupported value: \"Unknown\": supported values: \"None\", \"NoneOnDryRun\"";
    assert_eq!(found, [why]);
    let some = hook(json!({"sideEffects": "Other"}));
    let found = updated(VALIDATING, hooks(&[wrong]), hooks(&[some]));
    let why = "webhooks[0].sideEffects: Unsupported value: \"Other\": supported values: \"None\", \"NoneOnDryRun\", \"Some\", \"Unknown\"";
    assert_eq!(found, [why]);
}

#[test]
fn policy_errors_use_kubernetes_wording() {
    let valid = |expression: &str| json!({"validations": [{"expression": expression}]});
    for (spec, expected) in [
        (
            valid("object.x"),
            vec![
                "spec.validations[0].expression: Invalid value: \"object.x\": must evaluate to bool but got dyn",
            ],
        ),
        (
            valid("[1]"),
            vec![
                "spec.validations[0].expression: Invalid value: \"[1]\": must evaluate to bool but got list(int)",
            ],
        ),
        (
            valid("timestamp('2020-01-01T00:00:00Z')"),
            vec![
                "spec.validations[0].expression: Invalid value: \"timestamp('2020-01-01T00:00:00Z')\": must evaluate to bool but got google.protobuf.Timestamp",
            ],
        ),
        (
            json!({"validations": [{"expression": "true", "reason": "Foo", "message": " ", "messageExpression": "authorizer.path('/').check('get').reason()"}]}),
            vec![
                "spec.validations[0].messageExpression: Invalid value: \"authorizer.path('/').check('get').reason()\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'authorizer' (in container '')\n | authorizer.path('/').check('get').reason()\n | ^",
                "spec.validations[0].message: Invalid value: \" \": must be non-empty if specified",
                "spec.validations[0].reason: Unsupported value: \"Foo\": supported values: \"Forbidden\", \"Invalid\", \"RequestEntityTooLarge\"",
            ],
        ),
        (
            json!({"variables": [{"name": "if", "expression": "1"}, {"name": "", "expression": ""}]}),
            vec![
                "spec.variables[0].name: Invalid value: \"if\": must be a valid CEL identifier",
                "spec.variables[1].name: Required value: name is not specified",
                "spec.variables[1].expression: Required value: expression is not specified",
            ],
        ),
        (
            json!({"variables": [{"name": "n", "expression": "1"}], "validations": [{"expression": "variables.n == 'x'"}]}),
            vec![
                "spec.validations[0].expression: Invalid value: \"variables.n == 'x'\": compilation failed: ERROR: <input>:1:13: found no matching overload for '_==_' applied to '(int, string)'\n | variables.n == 'x'\n | ............^",
            ],
        ),
        (
            json!({"matchConstraints": {"resourceRules": [with(rule(), json!({"resourceNames": ["a", "a", "b/c"]}))]}}),
            vec![
                "spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: \"a\"",
                "spec.matchConstraints.resourceRules[0].resourceNames[2]: Invalid value: \"b/c\": may not contain '/'",
            ],
        ),
        (
            json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "matchConditions": [{"name": "a", "expression": "params.x == 'y'"}]}),
            vec![],
        ),
    ] {
        assert_eq!(created("ValidatingAdmissionPolicy", policy(spec)), expected);
    }
}

#[test]
fn numbers_of_variables_and_validations_are_limited() {
    let many = |count: usize, of: &dyn Fn(usize) -> Value| (0..count).map(of).collect::<Vec<_>>();
    let variable = |index| json!({"name": format!("v{index}"), "expression": "1"});
    let found = created(
        "ValidatingAdmissionPolicy",
        policy(json!({"variables": many(257, &variable)})),
    );
    assert_eq!(
        found,
        ["spec.variables: Too many: 257: must have at most 256 items"]
    );
    let validation = |_| json!({"expression": "true"});
    let found = created(
        "ValidatingAdmissionPolicy",
        policy(json!({"validations": many(1025, &validation)})),
    );
    assert_eq!(
        found,
        ["spec.validations: Too many: 1025: must have at most 1024 items"]
    );
}

#[test]
fn mutating_policy_errors_use_kubernetes_wording() {
    let of = "MutatingAdmissionPolicy";
    let apply = |expression: &str| json!({"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]});
    let patch = |expression: &str| json!({"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]});
    for (spec, expected) in [
        (json!({}), vec![]),
        (
            json!({"mutations": []}),
            vec!["spec.mutations: Required value: mutations must contain at least one item"],
        ),
        (
            json!({"reinvocationPolicy": null}),
            vec!["spec.reinvocationPolicy: Required value"],
        ),
        (
            apply("1"),
            vec![
                "spec.mutations[0].applyConfiguration.expression: Invalid value: \"1\": must evaluate to Object but got int",
            ],
        ),
        (apply("Object{spec: Object.spec{replicas: 3}}"), vec![]),
        (
            patch("1"),
            vec![
                "spec.mutations[0].jsonPatch.expression: Invalid value: \"1\": must evaluate to list(JSONPatch) but got int",
            ],
        ),
        (
            patch("[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('b/c'), value: 1}]"),
            vec![],
        ),
        (
            json!({"mutations": [{"patchType": "JSONPatch"}]}),
            vec![
                "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
            ],
        ),
        (
            json!({"mutations": [{"patchType": "Merge"}]}),
            vec![
                "spec.mutations[0].patchType: Unsupported value: \"Merge\": supported values: \"ApplyConfiguration\", \"JSONPatch\"",
            ],
        ),
        (
            json!({"matchConstraints": {"resourceRules": [with(rule(), json!({"operations": ["DELETE"]}))]}}),
            vec![
                "spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"UPDATE\"",
            ],
        ),
    ] {
        assert_eq!(created(of, mutating(spec)), expected);
    }
}

#[test]
fn binding_errors_use_kubernetes_wording() {
    let binding = |spec: Value| json!({"metadata": {"name": "b"}, "spec": spec});
    let none: [&str; 0] = [];
    let of = "ValidatingAdmissionPolicyBinding";
    let both = binding(json!({"policyName": "p", "validationActions": ["Deny", "Warn"]}));
    let why = "spec.validationActions: Invalid value: [\"Deny\",\"Warn\"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
    assert_eq!(created(of, both), [why]);
    let unclear = binding(
        json!({"policyName": "p", "validationActions": ["Audit"], "paramRef": {"parameterNotFoundAction": "Maybe"}}),
    );
    let expected = [
        "spec.paramRef: Required value: one of name or selector must be specified",
        "spec.paramRef.parameterNotFoundAction: Unsupported value: \"Maybe\": supported values: \"Deny\", \"Allow\"",
    ];
    assert_eq!(created(of, unclear), expected);
    let of = "MutatingAdmissionPolicyBinding";
    assert_eq!(created(of, binding(json!({"policyName": "p"}))), none);
}

#[test]
fn unchanged_match_conditions_are_not_validated_again() {
    let broken = json!({"matchConditions": [{"name": "a", "expression": "nonsense"}]});
    let of = "ValidatingAdmissionPolicy";
    let none: [&str; 0] = [];
    assert_eq!(
        updated(of, policy(broken.clone()), policy(broken.clone())),
        none
    );
    assert_eq!(updated(of, policy(json!({})), policy(broken)).len(), 1);
}

#[test]
fn names_reserved_for_static_manifests_cause_a_warning() {
    let named = json!({"metadata": {"name": "a.static.k8s.io"}, "webhooks": []});
    let result = validate::create(kind(VALIDATING), &object(VALIDATING, named));
    let why = "metadata.name: names ending with \".static.k8s.io\" are reserved for static manifest-based configurations and cannot be managed via the API";
    assert_eq!(result.warnings, [why]);
    assert_eq!(result.errors, []);
}
