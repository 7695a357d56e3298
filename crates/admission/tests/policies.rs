//! Evaluation of policies and match conditions.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use insula_admission::policy::{Params, Policies, PolicyDecision};
use insula_admission::webhook::Webhooks;
use insula_admission::{
    Context, EquivalentResources, GroupVersionKind, GroupVersionResource, Operation, Refusal,
    Request, Target, UserInfo, VersionedObjects,
};
use insula_cel::{AuthorizationRequest, Authorizer, Decision, Target as Asked};
use insula_kinds::{Object, Scope, Value};
use serde_json::json;

/// Serves every resource in one version only.
struct SingleVersion;

impl EquivalentResources for SingleVersion {
    fn equivalents(&self, _: &GroupVersionResource, _: &str) -> Vec<Target> {
        Vec::new()
    }
}

/// Allows `get` to every user, and nothing else.
struct Readers;

impl Authorizer for Readers {
    fn decide(&self, request: &AuthorizationRequest) -> Decision {
        let named = match &request.on {
            Asked::Resource(resource) => format!("{}/{}", resource.resource, resource.name),
            Asked::Path(path) => path.clone(),
        };
        Decision {
            allowed: request.verb == "get",
            reason: named,
            error: None,
        }
    }
}

fn object(value: Value) -> Object {
    value.as_object().unwrap().clone()
}

fn config_maps() -> Target {
    Target {
        resource: GroupVersionResource {
            group: String::new(),
            version: "v1".to_owned(),
            resource: "configmaps".to_owned(),
        },
        kind: GroupVersionKind {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
        },
    }
}

fn request(user: &UserInfo) -> Request<'_> {
    Request {
        operation: Operation::Create,
        target: config_maps(),
        subresource: "",
        name: "z",
        namespace: "n1",
        user,
        dry_run: false,
        options: None,
    }
}

fn policies(spec: Value, binding: Value) -> Policies {
    let mut whole = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["CREATE"],
        }]},
    });
    for (member, value) in object(spec) {
        whole[member] = value;
    }
    let mut bound = json!({"policyName": "p1", "validationActions": ["Deny"]});
    for (member, value) in object(binding) {
        bound[member] = value;
    }
    let mut policies = Policies::default();
    policies.put_policy(&object(json!({"metadata": {"name": "p1"}, "spec": whole})));
    policies.put_binding(&object(json!({"metadata": {"name": "b1"}, "spec": bound})));
    policies
}

/// Evaluates a policy for a ConfigMap with this data.
fn evaluated(spec: Value, binding: Value, data: Value, params: Option<Value>) -> PolicyDecision {
    let policies = policies(spec, binding);
    let user = UserInfo {
        username: "alice".to_owned(),
        groups: vec!["g".to_owned()],
        ..UserInfo::default()
    };
    let request = request(&user);
    let written = object(json!({"metadata": {"name": "z"}, "data": data}));
    let subject = VersionedObjects {
        object: Some(&written),
        old: None,
    };
    let namespace = object(json!({"metadata": {"name": "n1", "labels": {"l": "v"}}}));
    let params = params.map(object);
    let mut decision = PolicyDecision::default();
    for (policy, bindings) in policies.active() {
        let target = policy.matches(&request, subject, Some(&namespace), &SingleVersion);
        let target = target.unwrap().unwrap();
        for binding in bindings {
            assert!(
                binding
                    .matches(&request, subject, Some(&namespace), &SingleVersion)
                    .unwrap()
            );
            let context = Context::new(&request, &target, subject, Some(&namespace), &Readers);
            decision.evaluate(policy, binding, &context, params.as_ref());
        }
        decision.finish(policy);
    }
    decision
}

fn valid(expression: &str) -> Value {
    json!({"validations": [{"expression": expression}]})
}

/// The message of the rejection, without the common prefix.
fn denied(spec: Value, data: Value) -> Option<String> {
    let refusal = evaluated(spec, json!({}), data, None).refusal?;
    let head = "configmaps \"z\" is forbidden: ValidatingAdmissionPolicy 'p1' with binding 'b1' denied request: ";
    Some(refusal.message.strip_prefix(head).unwrap().to_owned())
}

#[test]
fn denial_uses_kubernetes_wording() {
    let message = "ValidatingAdmissionPolicy 'p1' with binding 'b1' denied request: failed expression: object.data.a == 'c'";
    for (reason, code, expected_reason) in [
        (Value::Null, 422, "Invalid"),
        (json!("Forbidden"), 403, "Forbidden"),
        (json!("RequestEntityTooLarge"), 413, "RequestEntityTooLarge"),
    ] {
        let validation = json!({"expression": " object.data.a == 'c' ", "reason": reason});
        let spec = json!({"validations": [validation]});
        let found = evaluated(spec, json!({}), json!({"a": "b"}), None);
        let expected = Refusal {
            code,
            reason: expected_reason.to_owned(),
            message: format!("configmaps \"z\" is forbidden: {message}"),
            details: Some(json!({
                "name": "z", "kind": "configmaps", "causes": [{"message": message}],
            })),
        };
        assert_eq!(found.refusal, Some(expected));
    }
}

#[test]
fn expressions_can_access_all_admission_variables() {
    for expression in [
        "object.data.a == 'b' && oldObject == null",
        "request.operation == 'CREATE' && request.name == 'z' && request.namespace == 'n1'",
        "request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps'",
        "request.userInfo.username == 'alice' && 'g' in request.userInfo.groups",
        "!has(request.subResource) && request.dryRun == false",
        "namespaceObject.metadata.name == 'n1' && namespaceObject.metadata.labels.l == 'v'",
        "authorizer.group('').resource('pods').check('get').allowed()",
        "!authorizer.group('').resource('pods').check('create').allowed()",
        "authorizer.requestResource.check('get').reason() == 'configmaps/z'",
        "authorizer.path('/healthz').check('get').reason() == '/healthz'",
    ] {
        assert_eq!(
            denied(valid(expression), json!({"a": "b"})),
            None,
            "{expression}"
        );
    }
}

#[test]
fn denial_message_is_evaluated_else_static_else_the_expression() {
    let spec = |message: &str, says: &str| {
        json!({"validations": [{
            "expression": "false", "message": message, "messageExpression": says,
        }]})
    };
    let long = format!("'{}'", "x".repeat(5 * 1024 + 1));
    for (message, says, expected) in [
        (" m ", "'say ' + object.data.a", "say b"),
        ("m", "object.data.nope", "m"),
        ("m", "'  '", "m"),
        ("m", "'a\\nb'", "m"),
        ("m", &long, "m"),
        ("", "object.data.nope", "failed expression: false"),
        ("m", "", "m"),
    ] {
        let found = denied(spec(message, says), json!({"a": "b"}));
        assert_eq!(found.as_deref(), Some(expected), "{message} {says}");
    }
}

#[test]
fn evaluation_error_is_rejected_or_ignored_by_failure_policy() {
    let mut spec = valid("object.data.q == 'x'");
    let why = "expression 'object.data.q == 'x'' resulted in error: no such key: q";
    assert_eq!(denied(spec.clone(), json!({})).as_deref(), Some(why));
    spec["failurePolicy"] = json!("Ignore");
    assert_eq!(denied(spec, json!({})), None);
}

#[test]
fn warnings_and_audit_annotations_use_kubernetes_wording() {
    let spec = json!({"validations": [
        {"expression": "true"}, {"expression": "false", "message": "ww"},
    ]});
    let binding = json!({"validationActions": ["Warn", "Audit"]});
    let found = evaluated(spec, binding, json!({}), None);
    assert_eq!(found.refusal, None);
    let why = "Validation failed for ValidatingAdmissionPolicy 'p1' with binding 'b1': ww";
    assert_eq!(found.warnings, [why]);
    let noted = r#"[{"message":"ww","policy":"p1","binding":"b1","expressionIndex":1,"validationActions":["Warn","Audit"]}]"#;
    let key = "validation.policy.admission.k8s.io/validation_failure";
    assert_eq!(found.annotations, [(key.to_owned(), noted.to_owned())]);
}

#[test]
fn audit_annotations_are_recorded_once_per_value() {
    let spec = json!({"auditAnnotations": [
        {"key": "k", "valueExpression": "'v-' + object.data.a"},
        {"key": "n", "valueExpression": "null"},
        {"key": "e", "valueExpression": "' '"},
    ]});
    let mut policies = policies(spec, json!({}));
    policies.put_binding(&object(json!({
        "metadata": {"name": "b2"}, "spec": {"policyName": "p1", "validationActions": ["Deny"]},
    })));
    let user = UserInfo::default();
    let request = request(&user);
    let written = object(json!({"data": {"a": "1"}}));
    let subject = VersionedObjects {
        object: Some(&written),
        old: None,
    };
    let mut decision = PolicyDecision::default();
    for (policy, bindings) in policies.active() {
        assert_eq!(bindings.len(), 2);
        for binding in bindings {
            let context = Context::new(&request, &request.target, subject, None, &Readers);
            decision.evaluate(policy, binding, &context, None);
        }
        decision.finish(policy);
    }
    assert_eq!(
        decision.annotations,
        [("p1/k".to_owned(), "v-1".to_owned())]
    );
    let failing = json!({"auditAnnotations": [{"key": "k", "valueExpression": "object.data.q"}]});
    let failing = denied(failing, json!({}));
    // `dyn` could be a string, but is rejected at compilation.
    assert!(failing.is_some_and(|why| why.starts_with("compilation error: must evaluate")));
}

#[test]
fn variables_are_evaluated_lazily_and_in_order() {
    let spec = json!({
        "variables": [
            {"name": "a", "expression": "object.data.a"},
            {"name": "b", "expression": "variables.a + variables.a"},
            {"name": "c", "expression": "variables.b + variables.b"},
            {"name": "unused", "expression": "object.nope.nope"},
        ],
        "validations": [{"expression": "variables.c == 'xxxx'"}],
    });
    assert_eq!(denied(spec.clone(), json!({"a": "x"})), None);
    let why = "expression 'variables.c == 'xxxx'' resulted in error: composited variable \"c\" fails to evaluate: composited variable \"b\" fails to evaluate: composited variable \"a\" fails to evaluate: no such key: a";
    assert_eq!(denied(spec, json!({})).as_deref(), Some(why));
}

#[test]
fn variables_are_memoised() {
    // Without memoisation, this would take 2^40 evaluations.
    let mut variables = vec![json!({"name": "v0", "expression": "1"})];
    for index in 1..=40 {
        let below = index - 1;
        variables.push(json!({
            "name": format!("v{index}"),
            "expression": format!("variables.v{below} == variables.v{below} ? 1 : 0"),
        }));
    }
    let spec = json!({
        "variables": variables, "validations": [{"expression": "variables.v40 == 1"}],
    });
    assert_eq!(denied(spec, json!({})), None);
}

#[test]
fn deeply_nested_variables_are_rejected_without_stack_overflow() {
    let mut variables = vec![json!({"name": "v0", "expression": "1"})];
    for index in 1..250 {
        let below = index - 1;
        variables.push(json!({
            "name": format!("v{index}"), "expression": (0..10).fold(format!("variables.v{below}"), |of, _| format!("[{of}][0]")),
        }));
    }
    let spec = json!({
        "variables": variables, "validations": [{"expression": "variables.v249 == 1"}],
    });
    let why = denied(spec, json!({})).unwrap();
    assert!(
        why.contains("nested too deeply"),
        "{}",
        &why[why.len() - 200..]
    );
}

#[test]
fn exhausted_cost_budget_fails_all_validations() {
    let list = format!("[{}]", vec!["1"; 200].join(","));
    let dear = format!("{list}.all(a, {list}.all(b, {list}.all(c, a == b && b == c)))");
    let why = denied(valid(&dear), json!({})).unwrap();
    assert!(
        why.ends_with("resulted in error: operation cancelled: actual cost limit exceeded"),
        "{why}"
    );
    let half = format!("{list}.all(a, {list}.all(b, a == b && a < 2 && b < 2))");
    let many: Vec<_> = (0..80).map(|_| json!({"expression": half})).collect();
    let why = denied(json!({"validations": many}), json!({})).unwrap();
    assert_eq!(
        why,
        "validation failed due to running out of cost budget, no further validation rules will be run"
    );
}

#[test]
fn match_conditions_decide_whether_a_policy_is_evaluated() {
    let spec = |conditions: Value| json!({"matchConditions": conditions, "validations": [{"expression": "false"}]});
    let condition = |expression: &str| json!({"name": "c", "expression": expression});
    let failed = "failed expression: false";
    let unknown = "expression 'object.zz.yy == 'z'' resulted in error: no such key: zz";
    for (conditions, expected) in [
        (json!([condition("true")]), Some(failed)),
        (json!([condition("object.data.a == 'q'")]), None),
        (json!([condition("object.zz.yy == 'z'")]), Some(unknown)),
        (
            json!([condition("object.zz.yy == 'z'"), condition("false")]),
            None,
        ),
    ] {
        let found = denied(spec(conditions), json!({"a": "b"}));
        assert_eq!(found.as_deref(), expected);
    }
}

#[test]
fn binding_resolves_its_parameter_reference() {
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "params != null && object.data.a == params.data.want"}],
    });
    let binding = json!({"paramRef": {"name": "x", "parameterNotFoundAction": "Deny"}});
    let params = json!({"data": {"want": "b"}});
    let found = evaluated(
        spec.clone(),
        binding.clone(),
        json!({"a": "b"}),
        Some(params.clone()),
    );
    assert_eq!(found.refusal, None);
    let found = evaluated(
        spec.clone(),
        binding.clone(),
        json!({"a": "c"}),
        Some(params),
    );
    assert!(found.refusal.is_some());
    let user = UserInfo::default();
    let mut request = request(&user);
    let wants = |binding: Value, request: &Request<'_>, scope: Option<Scope>| {
        let policies = policies(spec.clone(), binding);
        let (policy, bindings) = policies.active().next().unwrap();
        bindings[0]
            .resolve_params(policy, request, scope)
            .map(|wanted| match wanted {
                Params::None => "nothing".to_owned(),
                Params::One { namespace, name } => format!("{namespace:?} {name}"),
                Params::Selected { namespace, .. } => format!("{namespace:?} selected"),
            })
    };
    let (within, without) = (Some(Scope::Namespaced), Some(Scope::Cluster));
    let named = |namespace: Value| json!({"paramRef": {"name": "x", "namespace": namespace}});
    for (binding, scope, expected) in [
        (json!({}), within, Ok("nothing")),
        (named(json!("n2")), within, Ok("Some(\"n2\") x")),
        (named(Value::Null), within, Ok("Some(\"n1\") x")),
        (named(Value::Null), without, Ok("None x")),
        (
            json!({"paramRef": {"selector": {}}}),
            within,
            Ok("Some(\"n1\") selected"),
        ),
        (
            named(json!("n2")),
            without,
            Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`"),
        ),
        (
            named(Value::Null),
            None,
            Err("paramKind kind `&ParamKind{APIVersion:v1,Kind:ConfigMap,}` not known"),
        ),
    ] {
        let found = wants(binding, &request, scope);
        assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned));
    }
    request.namespace = "";
    let found = wants(named(Value::Null), &request, within);
    let why =
        "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
    assert_eq!(found, Err(why.to_owned()));
}

#[test]
fn missing_required_parameters_reject_the_request() {
    let binding = json!({"paramRef": {"name": "x", "parameterNotFoundAction": "Deny"}});
    let policies = policies(valid("true"), binding);
    let (policy, bindings) = policies.active().next().unwrap();
    let why = bindings[0].handle_missing_params().unwrap_err();
    let user = UserInfo::default();
    let mut decision = PolicyDecision::default();
    decision.record_misconfiguration(
        &request(&user),
        VersionedObjects::default(),
        policy,
        Some(bindings[0]),
        &why,
    );
    let message = "configmaps \"z\" is forbidden: ValidatingAdmissionPolicy 'p1' with binding 'b1' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert_eq!(decision.refusal.unwrap().message, message);
}

#[test]
fn policies_are_ordered_by_name_and_inactive_without_bindings() {
    let mut policies = Policies::default();
    for name in ["b", "a", "ab"] {
        policies.put_policy(&object(json!({"metadata": {"name": name}})));
    }
    for (name, policy) in [("y", "b"), ("x", "b"), ("z", "a"), ("w", "none")] {
        let spec = json!({"policyName": policy});
        policies.put_binding(&object(json!({"metadata": {"name": name}, "spec": spec})));
    }
    let active = |policies: &Policies| -> Vec<(String, Vec<String>)> {
        let active = policies.active();
        active
            .map(|(policy, bindings)| {
                let names = bindings.iter().map(|binding| binding.name.clone());
                (policy.name.clone(), names.collect())
            })
            .collect()
    };
    let pair = |name: &str, bindings: &[&str]| {
        let bindings = bindings.iter().map(|name| (*name).to_owned()).collect();
        (name.to_owned(), bindings)
    };
    assert_eq!(
        active(&policies),
        [pair("a", &["z"]), pair("b", &["x", "y"])]
    );
    policies.put_binding(&object(
        json!({"metadata": {"name": "x"}, "spec": {"policyName": "ab"}}),
    ));
    policies.remove_binding("y");
    assert_eq!(active(&policies), [pair("a", &["z"]), pair("ab", &["x"])]);
    policies.remove_policy("a");
    assert_eq!(active(&policies), [pair("ab", &["x"])]);
}

#[test]
fn match_conditions_decide_whether_a_webhook_is_called() {
    let user = UserInfo::default();
    let request = request(&user);
    let written = object(json!({"data": {"a": "b"}}));
    let subject = VersionedObjects {
        object: Some(&written),
        old: None,
    };
    let applies = |conditions: Value, failure: &str| {
        let mut webhooks = Webhooks::default();
        let hook = json!({"name": "h", "matchConditions": conditions, "failurePolicy": failure});
        webhooks.put(&object(
            json!({"metadata": {"name": "c"}, "webhooks": [hook]}),
        ));
        let hook = webhooks.iter().next().unwrap().clone();
        let context = Context::new(&request, &request.target, subject, None, &Readers);
        hook.applies(&context)
            .map_err(|refusal| (refusal.code, refusal.message))
    };
    let condition = |expression: &str| json!([{"name": "x", "expression": expression}]);
    assert_eq!(applies(condition("object.data.a == 'b'"), "Fail"), Ok(true));
    assert_eq!(
        applies(condition("object.data.a == 'c'"), "Fail"),
        Ok(false)
    );
    let failing = "object.zz.yy == 'z'";
    let why = "configmaps \"z\" is forbidden: expression 'object.zz.yy == 'z'' resulted in error: no such key: zz";
    assert_eq!(
        applies(condition(failing), "Fail"),
        Err((403, why.to_owned()))
    );
    assert_eq!(applies(condition(failing), "Ignore"), Ok(false));
}
