//! ValidatingAdmissionPolicies in CEL.

use insula_testkit::server::{Client, TestServer, rule};
use insula_testkit::webhook::{FakeWebhook, Reply};
use serde_json::{Value, json};

use super::{HOOKS, MAPS, assert_refused, audited, map, start_tenant, tenant_with_webhook};

/// Creates a policy for ConfigMaps and binds it.
async fn bind(client: &Client, name: &str, spec: Value, binding: Value) -> anyhow::Result<()> {
    let mut whole = json!({"matchConstraints": {"resourceRules": [{
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
        "operations": ["*"],
    }]}});
    for (member, value) in spec.as_object().unwrap() {
        whole[member] = value.clone();
    }
    let mut bound = json!({"policyName": name, "validationActions": ["Deny"]});
    for (member, value) in binding.as_object().unwrap() {
        bound[member] = value.clone();
    }
    for (resource, spec) in [("policies", whole), ("policybindings", bound)] {
        let path = format!("{HOOKS}/validatingadmission{resource}");
        let object = json!({"metadata": {"name": name}, "spec": spec});
        let created = client.post(&path, &object).await?;
        anyhow::ensure!(created.status == 201, "{}", created.text());
    }
    Ok(())
}

fn valid(expression: &str) -> Value {
    json!({"validations": [{"expression": expression, "message": "not like this"}]})
}

#[tokio::test]
async fn policies_refuse_invalid_objects() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    assert_eq!(client.post(MAPS, &map("before")).await?.status, 201);
    let expression = "request.operation == 'DELETE' || object.data.a == 'c'";
    bind(&client, "p1", valid(expression), json!({})).await?;
    let answer = client.post(MAPS, &map("m")).await?;
    let why = "ValidatingAdmissionPolicy 'p1' with binding 'p1' denied request: not like this";
    let reported = format!("configmaps \"m\" is forbidden: {why}");
    assert_refused(&answer, 422, "Invalid", &reported);
    let details = json!({"name": "m", "kind": "configmaps", "causes": [{"message": why}]});
    assert_eq!(answer.json()["details"], details);
    let right = json!({"metadata": {"name": "m"}, "data": {"a": "c"}});
    assert_eq!(client.post(MAPS, &right).await?.status, 201);
    let path = format!("{MAPS}/m");
    let answer = client
        .patch(&path, "merge", &json!({"data": {"a": "d"}}))
        .await?;
    assert_eq!(answer.status, 422);
    assert_eq!(client.delete(&format!("{MAPS}/before")).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn old_object_is_available_on_update_and_delete() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    assert_eq!(client.post(MAPS, &map("m")).await?.status, 201);
    bind(
        &client,
        "p1",
        valid("oldObject == null || oldObject.data.a != 'b'"),
        json!({}),
    )
    .await?;
    assert_eq!(client.delete(&format!("{MAPS}/m")).await?.status, 422);
    assert_eq!(client.delete(MAPS).await?.status, 422);
    assert_eq!(client.post(MAPS, &map("n")).await?.status, 201);
    Ok(())
}

#[tokio::test]
async fn parameters_are_read_from_the_bindings_space() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "object.metadata.name == params.metadata.name || object.data.a == params.data.a"}],
    });
    let binding = json!({"paramRef": {
        "name": "wanted", "namespace": "kube-system", "parameterNotFoundAction": "Deny",
    }});
    bind(&client, "p1", spec, binding).await?;
    let answer = client.post(MAPS, &map("m")).await?;
    let why = "configmaps \"m\" is forbidden: ValidatingAdmissionPolicy 'p1' with binding 'p1' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert_refused(&answer, 422, "Invalid", why);
    // While the parameter is missing, only the parameter itself can be created, as in Kubernetes.
    let path = format!("{HOOKS}/validatingadmissionpolicybindings/p1");
    client.delete(&path).await?;
    let params = json!({"metadata": {"name": "wanted"}, "data": {"a": "b"}});
    let created = client
        .post("/api/v1/namespaces/kube-system/configmaps", &params)
        .await?;
    assert_eq!(created.status, 201, "{}", created.text());
    let binding = json!({"metadata": {"name": "p1"}, "spec": {
        "policyName": "p1", "validationActions": ["Deny"], "paramRef": {
            "name": "wanted", "namespace": "kube-system", "parameterNotFoundAction": "Deny",
        },
    }});
    client
        .post(
            &format!("{HOOKS}/validatingadmissionpolicybindings"),
            &binding,
        )
        .await?;
    assert_eq!(client.post(MAPS, &map("m")).await?.status, 201);
    let wrong = json!({"metadata": {"name": "n"}, "data": {"a": "c"}});
    assert_eq!(client.post(MAPS, &wrong).await?.status, 422);
    Ok(())
}

#[tokio::test]
async fn warn_and_audit_actions_are_honoured() -> anyhow::Result<()> {
    let (server, log) = audited().await?;
    let client = server.tenant("t1").await?;
    let spec = json!({
        "validations": [{"expression": "false", "message": "ww"}],
        "auditAnnotations": [{"key": "k", "valueExpression": "'v-' + object.metadata.name"}],
    });
    let binding = json!({"validationActions": ["Warn", "Audit"]});
    bind(&client, "p1", spec, binding).await?;
    let answer = client.post(MAPS, &map("m")).await?;
    assert_eq!(answer.status, 201);
    let warning =
        "299 - \"Validation failed for ValidatingAdmissionPolicy 'p1' with binding 'p1': ww\"";
    assert_eq!(answer.header("warning"), warning);
    let event: Value = serde_json::from_str(&log.event(answer.header("audit-id")).await?)?;
    let noted = &event["annotations"];
    assert_eq!(noted["p1/k"], "v-m");
    let failure = r#"[{"message":"ww","policy":"p1","binding":"p1","expressionIndex":0,"validationActions":["Warn","Audit"]}]"#;
    assert_eq!(
        noted["validation.policy.admission.k8s.io/validation_failure"],
        failure
    );
    Ok(())
}

#[tokio::test]
async fn authorizer_checks_permissions_in_the_requests_space() -> anyhow::Result<()> {
    let (server, client) = start_tenant().await?;
    let expression =
        "authorizer.group('').resource('secrets').namespace('default').check('delete').allowed()";
    bind(&client, "p1", valid(expression), json!({})).await?;
    assert_eq!(client.post(MAPS, &map("m")).await?.status, 201);
    let role = json!({"metadata": {"name": "writer"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
    ]});
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    client.post(&format!("{rbac}/clusterroles"), &role).await?;
    let binding = json!({
        "metadata": {"name": "writer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "writer"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "default"}],
    });
    client
        .post(&format!("{rbac}/clusterrolebindings"), &binding)
        .await?;
    let token = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let token = client.post(token, &json!({"spec": {}})).await?.json();
    let account = server
        .client(token["status"]["token"].as_str().unwrap())
        .await?;
    let answer = account.post(MAPS, &map("n")).await?;
    assert_eq!(answer.status, 422, "{}", answer.text());
    Ok(())
}

#[tokio::test]
async fn policies_apply_to_their_own_tenant_only() -> anyhow::Result<()> {
    let (server, client) = start_tenant().await?;
    let (other, system) = (server.tenant("t2").await?, server.system().await?);
    bind(&client, "p1", valid("false"), json!({})).await?;
    for neighbour in [&other, &system] {
        assert_eq!(neighbour.post(MAPS, &map("m")).await?.status, 201);
    }
    // The system's policies do not apply to tenants unless they are annotated so.
    bind(&system, "s1", valid("object.data.a != 'b'"), json!({})).await?;
    assert_eq!(other.post(MAPS, &map("n")).await?.status, 201);
    let path = format!("{HOOKS}/validatingadmissionpolicies/s1");
    let admit =
        json!({"metadata": {"annotations": {"multi-tenancy.k8s.io/admit-tenants": "true"}}});
    assert_eq!(system.patch(&path, "merge", &admit).await?.status, 200);
    let answer = other.post(MAPS, &map("o")).await?;
    let why = "configmaps \"o\" is forbidden: ValidatingAdmissionPolicy 's1' with binding 's1' denied request: not like this";
    assert_refused(&answer, 422, "Invalid", why);
    Ok(())
}

#[tokio::test]
async fn policies_run_between_mutating_and_validating_webhooks() -> anyhow::Result<()> {
    let patch = json!([{"op": "add", "path": "/data/a", "value": "patched"}]);
    let webhook = FakeWebhook::start(Reply::Patch(patch)).await?;
    let (_server, client) = tenant_with_webhook("mutating", &webhook, json!({})).await?;
    let judge = FakeWebhook::start(Reply::Allow).await?;
    let hook = super::hook(&judge, "j.ex.io", json!({}));
    super::configure(&client, "validating", "j", &[hook]).await?;
    bind(
        &client,
        "p1",
        valid("object.data.a != 'patched'"),
        json!({}),
    )
    .await?;
    assert_eq!(client.post(MAPS, &map("m")).await?.status, 422);
    assert_eq!((webhook.calls(), judge.calls()), (1, 0));
    Ok(())
}

#[tokio::test]
async fn match_conditions_are_evaluated_before_the_call() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(Reply::Deny(json!({"message": "no"}))).await?;
    let conditions = json!({"matchConditions": [
        {"name": "c", "expression": "object.metadata.name.startsWith('x')"},
    ]});
    let (_server, client) = tenant_with_webhook("validating", &webhook, conditions).await?;
    assert_eq!(client.post(MAPS, &map("m")).await?.status, 201);
    assert_eq!(client.post(MAPS, &map("x")).await?.status, 400);
    assert_eq!(webhook.calls(), 1);
    let answer = client.delete(&format!("{MAPS}/m")).await?;
    let why = "configmaps \"m\" is forbidden: expression 'object.metadata.name.startsWith('x')' resulted in error: no such key: metadata";
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert_eq!(answer.message(), why);
    Ok(())
}

#[tokio::test]
async fn policy_parameters_need_read_permission() -> anyhow::Result<()> {
    let server = TestServer::with_tokens("dora,dora,d,\"tenant:t1\"\n").await?;
    let admin = server.tenant("t1").await?;
    let rules = [
        rule("*", "admissionregistration.k8s.io", "*"),
        rule("get", "", "configmaps"),
    ];
    admin.grant("policies", "User:dora", &rules).await?;
    let dora = server.client("dora").await?;
    let policy = |kind: &str| {
        let mut spec = valid("params != null");
        spec["matchConstraints"] = json!({"resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["CREATE"],
        }]});
        spec["paramKind"] = json!({"apiVersion": "v1", "kind": kind});
        json!({"metadata": {"name": kind.to_lowercase()}, "spec": spec})
    };
    let policies = format!("{HOOKS}/validatingadmissionpolicies");
    let refused = dora.post(&policies, &policy("Secret")).await?;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let why = "user dora must have \"get\" permission on all objects of the referenced paramKind \
               (kind=Secret, apiVersion=v1)";
    assert!(refused.message().ends_with(why), "{}", refused.message());
    for kind in ["ConfigMap", "Secret"] {
        let by = if kind == "Secret" { &admin } else { &dora };
        let created = by.post(&policies, &policy(kind)).await?;
        assert_eq!(created.status, 201, "{}", created.text());
    }
    let bindings = format!("{HOOKS}/validatingadmissionpolicybindings");
    let binding = |policy: &str, params: Value| {
        let mut params = params;
        params["parameterNotFoundAction"] = "Deny".into();
        json!({"metadata": {"name": policy}, "spec": {
            "policyName": policy, "validationActions": ["Deny"], "paramRef": params,
        }})
    };
    let one = json!({"name": "p", "namespace": "default"});
    for (asked, code, verb) in [
        (binding("secret", one.clone()), 403, "get"),
        (binding("configmap", json!({"selector": {}})), 403, "list"),
        // The kind is not served, so the permission cannot be checked.
        (binding("other", one.clone()), 403, "get"),
        (binding("configmap", one), 201, ""),
    ] {
        let answer = dora.post(&bindings, &asked).await?;
        assert_eq!(answer.status, code, "{asked}: {}", answer.text());
        let why = format!(
            "user dora does not have \"{verb}\" permission on the object referenced by paramRef"
        );
        assert!(
            code == 201 || answer.message().ends_with(&why),
            "{}",
            answer.message()
        );
    }
    Ok(())
}
