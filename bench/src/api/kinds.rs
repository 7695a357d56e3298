//! Kinds that operators need, and objects that exist before they start.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::client::{Answer, Client};
use super::load::{Shape, WAIT_TIMEOUT, load};
use super::object_states::condition;
use super::server::{Program, Server};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Returns the definitions that an operator prints.
pub fn of_operator(program: &Program, operator: &str) -> Result<Vec<Value>> {
    printed(program, &["operator", operator, "crds"])
}

/// Returns the objects that a command of the program prints.
pub fn printed(program: &Program, arguments: &[&str]) -> Result<Vec<Value>> {
    let printed = Command::new(&program.path).args(arguments).output();
    let printed = printed.with_context(|| format!("cannot run {arguments:?}"))?;
    let stderr = String::from_utf8_lossy(&printed.stderr);
    ensure!(printed.status.success(), "{arguments:?}: {stderr}");
    Ok(serde_saphyr::from_multiple(&String::from_utf8(
        printed.stdout,
    )?)?)
}

/// Returns the definitions of Cluster API's kinds that providers read.
pub fn of_cluster_api() -> [Value; 2] {
    [
        open("cluster.x-k8s.io", "v1beta2", "clusters", "Cluster"),
        open("cluster.x-k8s.io", "v1beta2", "machines", "Machine"),
    ]
}

/// Returns the definition of a namespaced kind without validation.
pub fn open(group: &str, version: &str, plural: &str, kind: &str) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": open, "status": open}});
    let approved = json!({"api-approved.kubernetes.io": "unapproved, only to measure"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "annotations": approved},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

/// Creates definitions, and waits until all of them are served.
pub async fn install(client: &Client, definitions: &[Value]) -> Result<()> {
    for definition in definitions {
        let body = Bytes::from(definition.to_string());
        let created = client.call(Method::POST, DEFINITIONS, Some(body)).await?;
        created.expect(StatusCode::CREATED)?;
    }
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str().context("a name")?;
        established(client, name).await?;
    }
    Ok(())
}

async fn established(client: &Client, name: &str) -> Result<()> {
    let path = format!("{DEFINITIONS}/{name}/status");
    let begun = Instant::now();
    loop {
        let definition: Value = serde_json::from_slice(&client.body(&path).await?)?;
        let established = condition(&definition, "Established");
        if established.is_some_and(|condition| condition["status"] == "True") {
            return Ok(());
        }
        ensure!(begun.elapsed() < WAIT_TIMEOUT, "{name} is not served");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Creates objects, each with the path of its collection.
pub async fn create(
    server: &Server,
    client: &Client,
    objects: impl IntoIterator<Item = (String, Value)>,
) -> Result<()> {
    send(server, client, Method::POST, StatusCode::CREATED, objects).await
}

/// Applies merge patches, each with the path of its object.
pub async fn patch(
    server: &Server,
    client: &Client,
    patches: impl IntoIterator<Item = (String, Value)>,
) -> Result<()> {
    send(server, client, Method::PATCH, StatusCode::OK, patches).await
}

async fn send(
    server: &Server,
    client: &Client,
    method: Method,
    expected: StatusCode,
    bodies: impl IntoIterator<Item = (String, Value)>,
) -> Result<()> {
    let requests = bodies.into_iter().map(|(path, body)| {
        let body = Bytes::from(body.to_string());
        client.prepare(method.clone(), &path, Some(body))
    });
    let requests: Result<Vec<_>> = requests.collect();
    let judge = move |answer: &Answer| answer.expect(expected);
    load(&server.subject, client, Shape::REQUESTS, requests?, judge).await?;
    Ok(())
}

/// Returns a namespace, with the path of its collection.
pub fn namespace(name: &str) -> (String, Value) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    ("/api/v1/namespaces".to_owned(), object)
}

/// Returns a Secret with these texts, with the path of its collection.
pub fn secret(namespace: &str, name: &str, texts: &Value) -> (String, Value) {
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": texts,
    });
    (format!("/api/v1/namespaces/{namespace}/secrets"), object)
}
