//! Requests that webhooks receive.

use insula_testkit::webhook::{FakeWebhook, Reply};
use serde_json::{Value, json};

use super::{MAPS, configure, hook, map, start_tenant, tenant_with_webhook};

#[tokio::test]
async fn create_reviews_carry_the_defaulted_object() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(Reply::Allow).await?;
    let (_server, client) = tenant_with_webhook("validating", &webhook, json!({})).await?;
    let path = format!("{MAPS}?fieldManager=me&fieldValidation=Strict");
    let created = client.post(&path, &map("m")).await?.json();
    let asked = webhook.requests().remove(0);
    assert_eq!(asked.path, "/x?timeout=10s");
    let asked = asked.body;
    assert_eq!(asked["apiVersion"], "admission.k8s.io/v1");
    let request = &asked["request"];
    let mut object = request["object"].clone();
    let mut expected = created.clone();
    expected["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    assert_eq!(
        object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("resourceVersion"),
        None
    );
    assert_eq!(object, expected);
    for (member, value) in [
        (
            "kind",
            json!({"group": "", "version": "v1", "kind": "ConfigMap"}),
        ),
        (
            "resource",
            json!({"group": "", "version": "v1", "resource": "configmaps"}),
        ),
        (
            "requestKind",
            json!({"group": "", "version": "v1", "kind": "ConfigMap"}),
        ),
        ("name", json!("m")),
        ("namespace", json!("default")),
        ("operation", json!("CREATE")),
        ("oldObject", Value::Null),
        ("dryRun", json!(false)),
        (
            "options",
            json!({
                "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1",
                "fieldManager": "me", "fieldValidation": "Strict",
            }),
        ),
    ] {
        assert_eq!(request[member], value, "{member}");
    }
    assert_eq!(request["userInfo"]["username"], "admin");
    assert_eq!(
        request["userInfo"]["extra"]["insula.dev/tenant"],
        json!(["t1"])
    );
    Ok(())
}

#[tokio::test]
async fn update_patch_and_delete_reviews_carry_the_old_object() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(Reply::Allow).await?;
    let (_server, client) = start_tenant().await?;
    let created = client.post(MAPS, &map("m")).await?.json();
    let hook = hook(&webhook, "w1.ex.io", json!({}));
    configure(&client, "validating", "c1", &[hook]).await?;
    let path = format!("{MAPS}/m");
    let mut changed = created.clone();
    changed["data"] = json!({"a": "c"});
    let changed = client.put(&path, &changed).await?.json();
    let merge = "merge";
    let patched = client
        .patch(&path, merge, &json!({"data": {"d": "e"}}))
        .await?
        .json();
    client.delete(&path).await?;
    let heard = webhook.requests();
    let shown: Vec<_> = heard.iter().map(|heard| &heard.body["request"]).collect();
    let operations: Vec<_> = shown.iter().map(|request| &request["operation"]).collect();
    assert_eq!(operations, ["UPDATE", "UPDATE", "DELETE"]);
    assert_eq!(shown[0]["oldObject"], created);
    assert_eq!(shown[0]["object"]["data"], json!({"a": "c"}));
    assert_eq!(shown[0]["options"]["kind"], "UpdateOptions");
    assert_eq!(shown[1]["oldObject"], changed);
    assert_eq!(shown[1]["object"]["data"], json!({"a": "c", "d": "e"}));
    assert_eq!(shown[2]["object"], Value::Null);
    assert_eq!(shown[2]["oldObject"], patched);
    assert_eq!(shown[2]["options"]["kind"], "DeleteOptions");
    Ok(())
}

#[tokio::test]
async fn delete_collection_is_reviewed_per_object_without_names() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(Reply::Allow).await?;
    let (_server, client) = start_tenant().await?;
    for name in ["m", "n"] {
        client.post(MAPS, &map(name)).await?;
    }
    let hooks = [hook(&webhook, "w1.ex.io", json!({}))];
    configure(&client, "mutating", "c1", &hooks).await?;
    configure(&client, "validating", "c1", &hooks).await?;
    assert_eq!(client.delete(MAPS).await?.status, 200);
    let heard = webhook.requests();
    assert_eq!(heard.len(), 4, "two objects, two sorts");
    let mut names: Vec<_> = heard
        .iter()
        .map(|heard| {
            let request = &heard.body["request"];
            assert_eq!(request["name"], Value::Null);
            request["oldObject"]["metadata"]["name"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    names.sort();
    assert_eq!(names, ["m", "m", "n", "n"]);
    assert_eq!(client.get(MAPS).await?.json()["items"], json!([]));
    Ok(())
}

#[tokio::test]
async fn generated_names_are_shown_to_validating_webhooks() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(Reply::Allow).await?;
    let (_server, client) = start_tenant().await?;
    let hooks = [hook(&webhook, "w1.ex.io", json!({}))];
    configure(&client, "mutating", "c1", &hooks).await?;
    configure(&client, "validating", "c1", &hooks).await?;
    let created = json!({"metadata": {"generateName": "g-"}});
    let created = client.post(MAPS, &created).await?.json();
    let heard = webhook.requests();
    let [first, second] = [0, 1].map(|at| &heard[at].body["request"]);
    for request in [first, second] {
        assert_eq!(
            request["object"]["metadata"]["uid"],
            created["metadata"]["uid"]
        );
    }
    assert_eq!(first["name"], Value::Null);
    assert_eq!(first["object"]["metadata"]["name"], Value::Null);
    assert_eq!(second["name"], created["metadata"]["name"]);
    assert_eq!(
        second["object"]["metadata"]["name"],
        created["metadata"]["name"]
    );
    Ok(())
}

#[tokio::test]
async fn subresources_are_matched_by_rules() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(Reply::Allow).await?;
    let rules = |resource: &str| {
        json!({"rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": [resource], "operations": ["UPDATE"],
        }]})
    };
    let (_server, client) = start_tenant().await?;
    let whole = FakeWebhook::start(Reply::Allow).await?;
    let hooks = [
        hook(&webhook, "w1.ex.io", rules("services/status")),
        hook(&whole, "w2.ex.io", rules("services")),
    ];
    configure(&client, "validating", "c1", &hooks).await?;
    let services = "/api/v1/namespaces/default/services";
    let service = json!({"metadata": {"name": "s"}, "spec": {
        "type": "LoadBalancer", "ports": [{"port": 80}],
    }});
    client.post(services, &service).await?;
    let path = format!("{services}/s/status");
    let merge = "merge";
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    assert_eq!(client.patch(&path, merge, &status).await?.status, 200);
    let request = &webhook.requests()[0].body["request"];
    assert_eq!(request["subResource"], "status");
    assert_eq!(request["requestSubResource"], "status");
    assert_eq!(request["kind"]["kind"], "Service");
    assert_eq!((webhook.calls(), whole.calls()), (1, 0));
    Ok(())
}

#[tokio::test]
async fn objects_are_converted_to_the_version_of_the_rule() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(Reply::Allow).await?;
    let rules = json!({"rules": [{
        "apiGroups": ["autoscaling"], "apiVersions": ["v2"],
        "resources": ["horizontalpodautoscalers"], "operations": ["CREATE"],
    }]});
    let (_server, client) = tenant_with_webhook("validating", &webhook, rules).await?;
    let path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let scaler = json!({"metadata": {"name": "h"}, "spec": {
        "maxReplicas": 3, "targetCPUUtilizationPercentage": 50,
        "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
    }});
    assert_eq!(client.post(path, &scaler).await?.status, 201);
    let request = &webhook.requests()[0].body["request"];
    assert_eq!(request["kind"]["version"], "v2");
    assert_eq!(request["requestKind"]["version"], "v1");
    assert_eq!(request["requestResource"]["version"], "v1");
    assert_eq!(request["object"]["apiVersion"], "autoscaling/v2");
    let metric = &request["object"]["spec"]["metrics"][0]["resource"];
    assert_eq!(metric["target"]["averageUtilization"], 50);
    Ok(())
}

#[tokio::test]
async fn dry_runs_skip_webhooks_with_side_effects() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(Reply::Allow).await?;
    let (_server, client) = tenant_with_webhook("mutating", &webhook, json!({})).await?;
    let path = format!("{MAPS}?dryRun=All");
    assert_eq!(client.post(&path, &map("m")).await?.status, 201);
    let request = &webhook.requests()[0].body["request"];
    assert_eq!(request["dryRun"], true);
    assert_eq!(request["options"]["dryRun"], json!(["All"]));
    assert_eq!(client.get(&format!("{MAPS}/m")).await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn webhooks_are_not_called_for_webhook_configurations() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(Reply::Deny(json!({"message": "no"}))).await?;
    let all = json!({"rules": [{
        "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"],
    }]});
    let (_server, client) = tenant_with_webhook("validating", &webhook, all).await?;
    let path = format!("{}/validatingwebhookconfigurations/c1", super::HOOKS);
    assert_eq!(client.get(&path).await?.status, 200);
    assert_eq!(client.post(MAPS, &map("m")).await?.status, 400);
    assert_eq!(client.delete(&path).await?.status, 200);
    assert_eq!(client.post(MAPS, &map("m")).await?.status, 201);
    assert_eq!(webhook.calls(), 1);
    Ok(())
}

#[tokio::test]
async fn webhook_services_are_resolved_in_the_space() -> anyhow::Result<()> {
    let names = ["hook.default.svc"];
    let webhook = FakeWebhook::named(&names, Reply::Allow).await?;
    let mut config = webhook.client_config("/");
    config["url"] = Value::Null;
    let port = webhook.address().port();
    let service = json!({"namespace": "default", "name": "hook", "path": "/p", "port": port});
    config["service"] = service;
    let (_server, client) =
        tenant_with_webhook("validating", &webhook, json!({"clientConfig": config})).await?;
    let refused = client.post(MAPS, &map("m")).await?;
    let why = format!(
        "Internal error occurred: failed calling webhook \"w1.ex.io\": failed to call webhook: Post \"https://hook.default.svc:{port}/p?timeout=10s\": service \"hook\" not found"
    );
    super::assert_refused(&refused, 500, "InternalError", &why);
    let external = json!({"metadata": {"name": "hook"}, "spec": {
        "type": "ExternalName", "externalName": "localhost",
    }});
    client
        .post("/api/v1/namespaces/default/services", &external)
        .await?;
    assert_eq!(client.post(MAPS, &map("m")).await?.status, 201);
    assert_eq!(webhook.requests()[0].path, "/p?timeout=10s");
    Ok(())
}

#[tokio::test]
async fn subresource_reviews_carry_the_subresources_kind() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(Reply::Allow).await?;
    let all = json!({"rules": [{
        "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"],
        "resources": ["deployments/scale", "pods/eviction", "pods/binding", "serviceaccounts/token"],
    }]});
    let (_server, client) = tenant_with_webhook("mutating", &webhook, all).await?;
    let spec = json!({
        "replicas": 1, "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    });
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({"metadata": {"name": "d"}, "spec": spec});
    assert_eq!(client.post(deployments, &deployment).await?.status, 201);
    let path = format!("{deployments}/d/scale");
    webhook.answer(Reply::Patch(json!([
        {"op": "replace", "path": "/spec/replicas", "value": 7},
    ])));
    let scaled = client
        .patch(&path, "merge", &json!({"spec": {"replicas": 3}}))
        .await?;
    assert_eq!(scaled.json()["spec"]["replicas"], 7, "{}", scaled.text());
    webhook.answer(Reply::Allow);
    let pods = "/api/v1/namespaces/default/pods";
    for name in ["p", "q"] {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        assert_eq!(client.post(pods, &pod).await?.status, 201);
    }
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(
        client
            .post(&format!("{pods}/p/binding"), &binding)
            .await?
            .status,
        201
    );
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "q"}});
    assert_eq!(
        client
            .post(&format!("{pods}/q/eviction"), &eviction)
            .await?
            .status,
        201
    );
    let token = "/api/v1/namespaces/default/serviceaccounts/default/token";
    assert_eq!(client.post(token, &json!({"spec": {}})).await?.status, 201);
    let heard = webhook.requests();
    let shown: Vec<_> = heard
        .iter()
        .map(|heard| {
            let request = &heard.body["request"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            assert_eq!(request["object"]["kind"], request["kind"]["kind"]);
            [
                text(&request["operation"]),
                text(&request["resource"]["resource"]),
                text(&request["subResource"]),
                text(&request["object"]["apiVersion"]),
                text(&request["kind"]["kind"]),
                text(&request["name"]),
            ]
            .join(" ")
        })
        .collect();
    let expected = [
        "UPDATE deployments scale autoscaling/v1 Scale d",
        "CREATE pods binding v1 Binding p",
        "CREATE pods eviction policy/v1 Eviction q",
        "CREATE serviceaccounts token authentication.k8s.io/v1 TokenRequest default",
    ];
    assert_eq!(shown, expected);
    assert_eq!(heard[0].body["request"]["oldObject"]["spec"]["replicas"], 1);
    Ok(())
}
