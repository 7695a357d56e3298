//! The control endpoint: what the owner of a fake in the same process calls, for other processes.

use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use http::Method;
use http::request::Parts;
use serde_json::{Value, json};

use super::directory::{Certificate, FederatedCredential, Secret};
use super::handle::{Shared, lock, transport};
use super::message::Response;
use super::server::HttpResponse;
use super::world::World;

/// Answers a request to the control endpoint.
pub(super) async fn answer(
    shared: Arc<Shared>,
    parts: Parts,
    body: Bytes,
) -> anyhow::Result<HttpResponse> {
    let path = parts.uri.path();
    let response = match (&parts.method, path) {
        (&Method::GET, "/resources") => Response::json(200, resources(&lock(&shared.world))),
        (&Method::GET, "/requests") => {
            let journal = shared.journal.borrow();
            let requests: Vec<_> = journal.arm.iter().map(|call| call.log_entry()).collect();
            Response::json(200, json!(requests))
        }
        (&Method::GET, "/tokens") => {
            let journal = shared.journal.borrow();
            let tokens: Vec<_> = journal.tokens.iter().map(|call| call.log_entry()).collect();
            Response::json(200, json!(tokens))
        }
        (&Method::POST, _) => match change(&mut lock(&shared.world), path, &body) {
            Ok(()) => Response::empty(204),
            Err(error) => Response::json(400, json!({"error": format!("{error:#}")})),
        },
        _ => Response::empty(404),
    };
    transport(response)
}

fn resources(world: &World) -> Value {
    let resources = world.arm.resources.values().map(|resource| {
        json!({
            "id": resource.id.text(), "type": resource.id.resource_type(), "state": resource.state,
            "createdBy": {"tenant": resource.created_by.tenant, "client": resource.created_by.client},
        })
    });
    resources.collect()
}

fn change(world: &mut World, path: &str, body: &[u8]) -> anyhow::Result<()> {
    let body: Value = serde_json::from_slice(body).context("read the body")?;
    let text = |name: &str| {
        body[name]
            .as_str()
            .with_context(|| format!("{name} is missing"))
    };
    match path {
        "/applications" => add_application(world, text("tenant")?, text("client")?, &body),
        "/subscriptions" => {
            let (id, tenant) = (text("id")?, text("tenant")?);
            world.directory.add_tenant(tenant);
            world.arm.subscriptions.add(id, tenant);
            let clients = body["clients"].as_array().into_iter().flatten();
            for client in clients.filter_map(Value::as_str) {
                world.arm.subscriptions.grant(client, id);
            }
            Ok(())
        }
        "/issuers" => {
            world.issuer_authorities.push_str(text("ca")?);
            world.issuer_authorities.push('\n');
            Ok(())
        }
        _ => anyhow::bail!("no such path: {path}"),
    }
}

/// Adds an application, and the credentials of it that the body has.
fn add_application(
    world: &mut World,
    tenant: &str,
    client: &str,
    body: &Value,
) -> anyhow::Result<()> {
    let application = world.directory.application_mut(tenant, client);
    if let Some(secret) = body["secret"].as_str() {
        application.secrets.push(Secret {
            value: secret.to_owned(),
            expired: false,
        });
    }
    if let Some(pem) = body["certificate"].as_str() {
        application.certificates.push(Certificate::read(pem)?);
    }
    if let (Some(issuer), Some(subject)) = (body["issuer"].as_str(), body["subject"].as_str()) {
        application.federated.push(FederatedCredential {
            issuer: issuer.to_owned(),
            subject: subject.to_owned(),
            audience: super::EXCHANGE_AUDIENCE.to_owned(),
        });
    }
    Ok(())
}
