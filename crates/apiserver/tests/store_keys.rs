//! Store keys: as documented, for every stored kind, in memory and in etcd.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use insula_kinds::{Kind, kinds};
use insula_testkit::server::{Client, Engine, Setup, TestServer};
use serde_json::{Value, json};

use crate::samples::{api, sample};

/// The documented key of an object.
fn documented(kind: &Kind, tenant: Option<&str>, namespace: &str, name: &str) -> String {
    let group = match kind.group.as_str() {
        // Both groups share one storage.
        "" | "events.k8s.io" => String::new(),
        group => format!("{group}/"),
    };
    let tenant = tenant.map(|tenant| format!("{tenant}/"));
    let tenant = tenant.unwrap_or_default();
    let namespace = match kind.namespaced() {
        true => format!("{namespace}/"),
        false => String::new(),
    };
    format!(
        "/registry/{group}{}/{tenant}{namespace}{name}",
        kind.resource
    )
}

/// Creates an object of every kind and returns the keys it was stored under.
async fn create_all(
    server: &TestServer,
    client: &Client,
    tenant: Option<&str>,
) -> anyhow::Result<Vec<String>> {
    let mut expected = Vec::new();
    for (_, kind) in kinds().iter() {
        if !kind.supports("create")
            || !kind.supports("get")
            || (kind.system_only && tenant.is_some())
        {
            continue;
        }
        let mut object = sample(kind)?;
        let name = object["metadata"]["name"].as_str().unwrap_or("").to_owned();
        // Kinds with two versions get one object per version.
        let name = match (kind.group.as_str(), kind.version.as_str()) {
            ("autoscaling", "v1") | ("events.k8s.io", _) => format!("{name}-too"),
            _ => name,
        };
        object["metadata"]["name"] = name.as_str().into();
        let within = match kind.namespaced() {
            true => format!("namespaces/default/{}", kind.resource),
            false => kind.resource.clone(),
        };
        let before: BTreeSet<String> = server.keys().await?.into_iter().collect();
        let created = client
            .post(&format!("{}/{within}", api(kind)), &object)
            .await?;
        anyhow::ensure!(created.status == 201, "{}: {}", kind.kind, created.text());
        let key = documented(kind, tenant, "default", &name);
        let after = server.keys().await?.into_iter();
        let new: Vec<String> = after.filter(|key| !before.contains(key)).collect();
        match kind.kind.as_str() {
            "Tenant" | "Namespace" => assert!(new.contains(&key), "{new:?}"),
            _ => assert_eq!(new, [key.as_str()]),
        }
        expected.extend(new);
    }
    Ok(expected)
}

#[tokio::test]
async fn every_kind_is_stored_under_its_documented_key() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (system, tenant) = (server.system().await?, server.tenant("tenant-a").await?);
    let of_tenant = create_all(&server, &tenant, Some("tenant-a")).await?;
    let of_system = create_all(&server, &system, None).await?;
    assert!(of_tenant.len() > 50 && of_system.len() > of_tenant.len());
    Ok(())
}

#[tokio::test]
async fn documented_keys_hold_the_objects() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (system, tenant) = (server.system().await?, server.tenant("tenant-a").await?);
    let service = json!({
        "metadata": {"name": "v1beta1.node.k8s.io"},
        "spec": {
            "group": "node.k8s.io", "version": "v1beta1",
            "groupPriorityMinimum": 1, "versionPriority": 1,
        },
    });
    let account = json!({"metadata": {"name": "job-controller"}});
    let accounts = "/api/v1/namespaces/kube-system/serviceaccounts";
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    for (client, path, object) in [
        (&system, services, &service),
        (&system, accounts, &account),
        (&tenant, accounts, &account),
    ] {
        let created = client.post(path, object).await?;
        assert_eq!(created.status, 201, "{}", created.text());
    }
    for (key, link) in [
        (
            "/registry/apiregistration.k8s.io/apiservices/v1beta1.node.k8s.io",
            "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.node.k8s.io",
        ),
        (
            "/registry/serviceaccounts/kube-system/job-controller",
            "/api/v1/namespaces/kube-system/serviceaccounts/job-controller",
        ),
        (
            "/registry/namespaces/tenant-a/kube-public",
            "/api/v1/tenants/tenant-a/namespaces/kube-public",
        ),
        (
            "/registry/serviceaccounts/tenant-a/kube-system/job-controller",
            "/api/v1/tenants/tenant-a/namespaces/kube-system/serviceaccounts/job-controller",
        ),
    ] {
        let entry = server.registry().store().get(&key.into()).await?;
        let entry = entry.with_context(|| key.to_owned())?;
        let object: Value = serde_json::from_slice(&entry.value)?;
        assert_eq!(object["metadata"]["selfLink"], link);
        let shown = system.get(link).await?.json();
        assert_eq!(shown["metadata"]["uid"], object["metadata"]["uid"]);
    }
    Ok(())
}

/// Reads everything below `/registry/` with etcdctl, bypassing Insula.
fn read_with_etcdctl(endpoint: &str) -> anyhow::Result<String> {
    let address = endpoint.trim_start_matches("http://");
    let (start, end) = (STANDARD.encode("/registry/"), STANDARD.encode("/registry0"));
    let body = json!({"key": start, "range_end": end, "keys_only": true}).to_string();
    let mut stream = TcpStream::connect(address)?;
    let length = body.len();
    write!(
        stream,
        "POST /v3/kv/range HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[tokio::test]
async fn etcd_contains_the_documented_keys() -> anyhow::Result<()> {
    let Some(server) = TestServer::start_on(Engine::Etcd, Setup::default()).await? else {
        return Ok(());
    };
    let (system, tenant) = (server.system().await?, server.tenant("tenant-a").await?);
    let mut expected = create_all(&server, &tenant, Some("tenant-a")).await?;
    expected.extend(create_all(&server, &system, None).await?);
    expected.push("/registry/tenants/tenant-a".to_owned());
    expected.push("/registry/namespaces/tenant-a/kube-public".to_owned());
    expected.push("/registry/serviceaccounts/tenant-a/kube-system/default".to_owned());
    expected.push("/registry/serviceaccounts/kube-system/default".to_owned());
    let endpoint = server.etcd().context("it is on etcd")?.endpoint();
    let answer = tokio::task::spawn_blocking(move || read_with_etcdctl(&endpoint)).await??;
    for key in expected {
        let found = answer.contains(&format!("\"key\":\"{}\"", STANDARD.encode(&key)));
        assert!(found, "{key}");
    }
    let count = answer.matches("\"key\":").count();
    assert_eq!(count, server.keys().await?.len());
    Ok(())
}
