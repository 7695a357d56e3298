//! Which spaces' webhooks are called for which objects.

use insula_testkit::server::{Audit, Client, Setup, TestServer, loopback};
use insula_testkit::webhook::{FakeWebhook, Reply};
use serde_json::{Value, json};

use super::{HOOKS, MAPS, configure, hook, map};

/// A webhook for all resources in all scopes.
fn everything(webhook: &FakeWebhook, name: &str) -> Value {
    hook(
        webhook,
        name,
        json!({"rules": [{
            "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"],
        }]}),
    )
}

async fn publish(
    system: &Client,
    sort: &str,
    hooks: &[Value],
    admits: Value,
) -> anyhow::Result<()> {
    let path = format!("{HOOKS}/{sort}webhookconfigurations");
    let configuration = json!({
        "metadata": {"name": "systems", "annotations": {"multi-tenancy.k8s.io/admit-tenants": admits}},
        "webhooks": hooks,
    });
    let created = system.post(&path, &configuration).await?;
    anyhow::ensure!(created.status == 201, "{}", created.text());
    Ok(())
}

#[tokio::test]
async fn tenant_webhooks_see_their_own_objects_only() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(Reply::Deny(json!({"message": "no"}))).await?;
    let server = super::server().await?;
    let (one, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    configure(&one, "mutating", "c", &[everything(&webhook, "w.ex.io")]).await?;
    for client in [&other, &system] {
        assert_eq!(client.post(MAPS, &map("m")).await?.status, 201);
    }
    assert_eq!(webhook.calls(), 0);
    assert_eq!(one.post(MAPS, &map("m")).await?.status, 400);
    // System users writing in the tenant's space are covered, too.
    let path = "/api/v1/tenants/t1/namespaces/default/configmaps";
    assert_eq!(system.post(path, &map("m")).await?.status, 400);
    let request = &webhook.requests()[1].body["request"];
    assert_eq!(request["object"]["metadata"]["tenant"], "t1");
    Ok(())
}

/// The fields of the metadata in the review that arrived last.
fn reviewed(webhook: &FakeWebhook, member: &str) -> [bool; 2] {
    let requests = webhook.requests();
    let request = &requests[requests.len() - 1].body["request"];
    ["tenant", "selfLink"].map(|field| !request[member]["metadata"][field].is_null())
}

#[tokio::test]
async fn tenant_webhooks_get_the_fields_that_the_tenants_clients_get() -> anyhow::Result<()> {
    let (own, systems) = (
        FakeWebhook::start(Reply::Allow).await?,
        FakeWebhook::start(Reply::Allow).await?,
    );
    let server = super::server().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    for sort in ["mutating", "validating"] {
        let hooks = [everything(&own, "own.ex.io")];
        configure(&tenant, sort, "c", &hooks).await?;
        let hooks = [everything(&systems, "systems.ex.io")];
        publish(&system, sort, &hooks, json!("true")).await?;
    }
    for (name, setting, is_shown) in [("a", "Full", true), ("b", "None", false)] {
        let patch = json!({"spec": {"objectTenantFields": setting}});
        let changed = system.patch("/api/v1/tenants/t1", "merge", &patch).await?;
        assert_eq!(changed.status, 200, "{}", changed.text());
        let created = tenant.post(MAPS, &map(name)).await?;
        assert_eq!(created.status, 201, "{}", created.text());
        assert_eq!(reviewed(&own, "object"), [is_shown; 2], "{name}");
        assert_eq!(reviewed(&systems, "object"), [true; 2], "{name}");
        let change = json!({"data": {"k": "v"}});
        let path = format!("{MAPS}/{name}");
        let patched = tenant.patch(&path, "merge", &change).await?;
        assert_eq!(patched.status, 200, "{}", patched.text());
        for member in ["object", "oldObject"] {
            assert_eq!(reviewed(&own, member), [is_shown; 2], "{name}");
            assert_eq!(reviewed(&systems, member), [true; 2], "{name}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn system_webhooks_see_tenants_objects_only_if_annotated() -> anyhow::Result<()> {
    let server = super::server().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let (silent, own) = (
        FakeWebhook::start(Reply::Deny(json!({"message": "system only"}))).await?,
        FakeWebhook::start(Reply::Allow).await?,
    );
    publish(
        &system,
        "validating",
        &[everything(&silent, "w.ex.io")],
        json!("false"),
    )
    .await?;
    assert_eq!(tenant.post(MAPS, &map("m")).await?.status, 201);
    assert_eq!(silent.calls(), 0);
    let patch = json!([{"op": "replace", "path": "/metadata/annotations/multi-tenancy.k8s.io~1admit-tenants", "value": "true"}]);
    let path = format!("{HOOKS}/validatingwebhookconfigurations/systems");
    let patched = system.patch(&path, "json", &patch).await?;
    assert_eq!(patched.status, 200, "{}", patched.text());
    configure(&tenant, "validating", "c", &[everything(&own, "o.ex.io")]).await?;
    let answer = tenant.post(MAPS, &map("n")).await?;
    assert_eq!(
        answer.message(),
        "admission webhook \"w.ex.io\" denied the request: system only"
    );
    assert_eq!((silent.calls(), own.calls()), (1, 1));
    // Tenants do not see which system webhook admits their requests.
    let seen = tenant
        .get(&format!("{HOOKS}/validatingwebhookconfigurations"))
        .await?
        .json();
    assert_eq!(seen["items"].as_array().map(Vec::len), Some(1));
    Ok(())
}

#[tokio::test]
async fn tenant_webhook_neither_hides_nor_forges_the_systems_annotations() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("audit.log");
    let setup = Setup {
        audit: Some(Audit::File(path)),
        egress: loopback(),
        ..Setup::default()
    };
    let server = TestServer::start_with(setup).await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let many: serde_json::Map<String, Value> = (0..100)
        .map(|index| (format!("k{index}"), "v".into()))
        .chain([("round_0_index_9".to_owned(), "forged".into())])
        .collect();
    let reply =
        |annotations| Reply::Response(json!({"allowed": true, "auditAnnotations": annotations}));
    let own = FakeWebhook::start(reply(Value::Object(many))).await?;
    let others = FakeWebhook::start(reply(json!({"k": "systems"}))).await?;
    let forger = "mutation.webhook.admission.k8s.io";
    let hooks = [everything(&own, "w.ex.io"), everything(&own, forger)];
    configure(&tenant, "mutating", "c", &hooks).await?;
    let hooks = [everything(&others, "s.ex.io")];
    publish(&system, "validating", &hooks, json!("true")).await?;
    let created = tenant.post(MAPS, &map("m")).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    let annotations = async |client: &Client| -> anyhow::Result<Value> {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let found = client.get("/tenants/t1/audit?verb=create").await?.json();
            let mut items = found["items"].as_array().into_iter().flatten();
            let id = created.header("audit-id");
            if let Some(event) = items.find(|event| event["auditID"] == id) {
                return Ok(event["annotations"].clone());
            }
            anyhow::ensure!(std::time::Instant::now() < deadline, "{found}");
            tokio::task::yield_now().await;
        }
    };
    let all = annotations(&system).await?;
    assert_eq!(all["s.ex.io/k"], "systems", "{all}");
    assert_eq!(all["w.ex.io/k1"], "v", "{all}");
    assert_eq!(all.get(format!("{forger}/round_0_index_9")), None, "{all}");
    Ok(())
}

#[tokio::test]
async fn admit_tenants_annotation_has_no_effect_in_a_tenant() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(Reply::Deny(json!({"message": "no"}))).await?;
    let server = super::server().await?;
    let (one, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    publish(
        &one,
        "mutating",
        &[everything(&webhook, "w.ex.io")],
        json!("true"),
    )
    .await?;
    assert_eq!(other.post(MAPS, &map("m")).await?.status, 201);
    assert_eq!(
        server.system().await?.post(MAPS, &map("m")).await?.status,
        201
    );
    assert_eq!(webhook.calls(), 0);
    Ok(())
}

#[tokio::test]
async fn tenant_webhooks_cannot_block_tenant_deletion() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(Reply::Deny(json!({"message": "never"}))).await?;
    let setup = Setup {
        controllers: true,
        egress: loopback(),
        ..Setup::default()
    };
    let server = TestServer::start_with(setup).await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    assert_eq!(tenant.post(MAPS, &map("m")).await?.status, 201);
    configure(
        &tenant,
        "validating",
        "c",
        &[everything(&webhook, "w.ex.io")],
    )
    .await?;
    assert_eq!(tenant.delete(&format!("{MAPS}/m")).await?.status, 400);
    let mut watch = system.watch("/api/v1/tenants?watch=1").await?;
    system.delete("/api/v1/tenants/t1").await?;
    loop {
        let event = watch.next().await?.unwrap();
        if event["type"] == "DELETED" && event["object"]["metadata"]["name"] == "t1" {
            break;
        }
    }
    assert_eq!(webhook.calls(), 1);
    Ok(())
}

#[tokio::test]
async fn tenant_webhooks_cannot_reach_other_tenants_services() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(Reply::Allow).await?;
    let server = TestServer::start().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let hooks = [hook(&webhook, "w1.ex.io", json!({}))];
    configure(&tenant, "validating", "c", &hooks).await?;
    let answer = tenant.post(MAPS, &map("m")).await?;
    assert_eq!(answer.status, 500);
    assert!(
        answer.message().ends_with("address is not allowed"),
        "{}",
        answer.text()
    );
    assert_eq!(webhook.connections(), 0);
    configure(&system, "validating", "c", &hooks).await?;
    assert_eq!(system.post(MAPS, &map("m")).await?.status, 201);
    assert_eq!(webhook.calls(), 1);
    Ok(())
}
