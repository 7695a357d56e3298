//! Expensive schemas and CEL rules: the CPU time they cost one tenant is not taken from another.

use std::time::{Duration, Instant};

use http::Method;
use insula_testkit::server::{Client, DEFINITIONS, TestServer, definition};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::names;

const FOOS: &str = "/apis/ex.io/v1/namespaces/default/foos";

fn foo(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": name}, "spec": spec})
}

/// A definition with rules that cost nearly the whole CEL budget of a write, for a list of 45
/// items.
fn expensive_rules_crd() -> Value {
    let rule = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))";
    let rules: Vec<Value> = (0..10).map(|_| json!({"rule": rule})).collect();
    let spec = json!({"type": "array", "maxItems": 60, "items": {"type": "integer"},
        "x-kubernetes-validations": rules});
    definition("ex.io", "foos", "Foo", spec)
}

/// A definition of some hundred kilobytes; each number gives a different one.
fn large_crd(number: usize) -> Value {
    let property = |index: usize| {
        let pattern = format!("^{number}a{index}$");
        let name = format!("p{index}");
        (name, json!({"type": "string", "pattern": pattern}))
    };
    let properties: Map<String, Value> = (0..8_000).map(property).collect();
    let spec = json!({"type": "object", "properties": properties});
    definition(
        "ex.io",
        &format!("broads{number}"),
        &format!("Broad{number}"),
        spec,
    )
}

/// Counts the answers that the neighbour gets until the first of these requests completes, and
/// measures the slowest of them.
async fn probe_while_running<F>(
    neighbour: &Client,
    operations: impl IntoIterator<Item = F>,
) -> anyhow::Result<(usize, Duration, Vec<u16>)>
where
    F: Future<Output = anyhow::Result<u16>> + Send + 'static,
{
    let mut asked: JoinSet<_> = operations.into_iter().collect();
    let (mut answered, mut longest, mut codes) = (0, Duration::ZERO, Vec::new());
    while codes.is_empty() {
        let begun = Instant::now();
        let got = neighbour.get("/api/v1/namespaces/default").await?;
        assert_eq!(got.status, 200);
        (answered, longest) = (answered + 1, longest.max(begun.elapsed()));
        while let Some(done) = asked.try_join_next() {
            codes.push(done??);
        }
    }
    while let Some(done) = asked.join_next().await {
        codes.push(done??);
    }
    Ok((answered, longest, codes))
}

/// A single worker thread, so that any blocking work would hold up the neighbour.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn i37_slow_object_validation_does_not_delay_other_tenants() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (attacker, neighbour) = (server.tenant("t1").await?, server.tenant("t2").await?);
    attacker.define(&expensive_rules_crd()).await?;
    let operations = (0..3).map(|number| {
        let attacker = attacker.clone();
        async move {
            let items: Vec<usize> = (0..45).collect();
            let object = foo(&format!("f{number}"), json!(items));
            Ok(attacker.post(FOOS, &object).await?.status)
        }
    });
    let (answered, longest, codes) = probe_while_running(&neighbour, operations).await?;
    assert_eq!(codes, [201; 3]);
    assert!(
        answered >= 20,
        "{answered} answers, the longest in {longest:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn i37_slow_crd_validation_does_not_delay_other_tenants() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (attacker, neighbour) = (server.tenant("t1").await?, server.tenant("t2").await?);
    // Serialized beforehand, since the clients run on the same thread.
    let bodies: Vec<String> = (0..3).map(|number| large_crd(number).to_string()).collect();
    let operations = bodies.into_iter().map(|body| {
        let attacker = attacker.clone();
        async move {
            let headers = [("content-type", "application/json")];
            let created = attacker.send(Method::POST, DEFINITIONS, &headers, body);
            Ok(created.await?.status)
        }
    });
    let (answered, longest, codes) = probe_while_running(&neighbour, operations).await?;
    assert_eq!(codes, [201; 3]);
    assert!(
        answered >= 3,
        "{answered} answers, the longest in {longest:?}"
    );
    attacker
        .until_defined("broads0.ex.io", "Established", "True")
        .await?;
    // Schemas and OpenAPI documents are built lazily, on the first request for them.
    for page in [
        "/apis/ex.io/v1/namespaces/default/broads0",
        "/openapi/v3/apis/ex.io/v1",
    ] {
        let attacker = attacker.clone();
        let operation = async move { Ok(attacker.get(page).await?.status) };
        let (answered, longest, codes) = probe_while_running(&neighbour, [operation]).await?;
        assert_eq!(codes, [200]);
        assert!(
            answered >= 3,
            "{page}: {answered} answers, the longest in {longest:?}"
        );
    }
    Ok(())
}

/// A tenant cannot define a built-in kind in a version that is not built in: its objects would
/// bypass the built-in validation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i17_built_in_kinds_cannot_be_redefined() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (tenant, system) = (server.tenant("t1").await?, server.system().await?);
    for (group, plural, kind) in [
        ("rbac.authorization.k8s.io", "clusterroles", "ClusterRole"),
        ("rbac.authorization.k8s.io", "roles", "Role"),
        ("networking.k8s.io", "ingresses", "Ingress"),
        (
            "certificates.k8s.io",
            "certificatesigningrequests",
            "CertificateSigningRequest",
        ),
        (
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "CustomResourceDefinition",
        ),
        ("multi-tenancy.k8s.io", "tenants", "Tenant"),
    ] {
        for client in [&tenant, &system] {
            let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            let mut defined = definition(group, plural, kind, open);
            defined["metadata"]["annotations"] =
                json!({"api-approved.kubernetes.io": "unapproved, for a test"});
            defined["spec"]["versions"][0]["name"] = "v9".into();
            let created = client.post(DEFINITIONS, &defined).await?;
            assert_eq!(created.status, 403, "{plural}.{group}: {}", created.text());
        }
    }
    Ok(())
}

/// A definition is compiled once and survives changes of other definitions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i15_definitions_stay_served_while_others_change() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let tenant = server.tenant("t1").await?;
    let spec = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    for name in ["foo", "bar"] {
        tenant
            .define(&definition(
                "ex.io",
                &format!("{name}s"),
                name,
                spec.clone(),
            ))
            .await?;
    }
    let object = json!({"apiVersion": "ex.io/v1", "kind": "foo", "metadata": {"name": "x"},
        "spec": {"a": "1", "b": "2"}});
    let created = tenant.post(FOOS, &object).await?;
    assert_eq!(
        (created.status, created.json()["spec"].clone()),
        (201, json!({"a": "1"}))
    );
    // One definition changes, the other is deleted.
    let wider = json!([{"op": "add", "value": {"type": "string"}, "path":
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/b"}]);
    let path = format!("{DEFINITIONS}/foos.ex.io");
    let changed = tenant.patch(&path, "json", &wider).await?;
    assert_eq!(changed.status, 200, "{}", changed.text());
    tenant.delete(&format!("{DEFINITIONS}/bars.ex.io")).await?;
    tenant
        .until_gone(&format!("{DEFINITIONS}/bars.ex.io"))
        .await?;
    let mut object = object;
    object["metadata"]["name"] = "y".into();
    let created = tenant.post(FOOS, &object).await?;
    assert_eq!(
        created.json()["spec"],
        json!({"a": "1", "b": "2"}),
        "{}",
        created.text()
    );
    assert_eq!(names(&tenant.get(FOOS).await?.json()), ["x", "y"]);
    let gone = tenant.get("/apis/ex.io/v1/namespaces/default/bars").await?;
    assert_eq!(gone.status, 404);
    Ok(())
}
