//! Discovery of a tenant with many custom kinds.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use http::{Method, StatusCode};

use super::client::{Answer, Client};
use super::customs::{definitions, served};
use super::definition;
use super::load::{Shape, load};
use super::server::Server;
use super::tenants;
use crate::figures::Figures;
use crate::report::progress;

#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub definitions: usize,
    pub operations: usize,
}

/// The `Accept` header of `kubectl`.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A single request at a time.
const ALONE: Shape = Shape {
    connections: 1,
    at_once: 1,
};

/// The timeout until all kinds are in the document.
const LISTED_TIMEOUT: Duration = Duration::from_secs(60);

pub async fn measure(server: &Server, size: Size) -> Result<Figures> {
    let subject = &server.subject;
    let master = subject.connect(Shape::REQUESTS.connections).await?;
    tenants::create(subject, &master, 0, tenants::FEW).await?;
    progress(&format!("{} definitions in one tenant", size.definitions));
    let group = |n: usize| format!("g{n:02}.example.com");
    let requests = (0..size.definitions).map(|n| {
        let body = Some(definition::applied("things", &group(n)));
        master.prepare(Method::POST, &definitions(0), body)
    });
    let requests: Result<Vec<_>> = requests.collect();
    let judge = |answer: &Answer| answer.expect(StatusCode::CREATED);
    let defined = load(subject, &master, Shape::REQUESTS, requests?, judge).await?;
    for n in 0..size.definitions {
        let (group, tenant) = (group(n), tenants::name(0));
        let path = format!("/apis/{group}/v1/tenants/{tenant}/namespaces/default/things");
        served(&master, &path).await?;
    }
    let kubeconfig = server.kubeconfig_of(&tenants::name(0), "dora", "devs")?;
    let user = Client::connect(&kubeconfig, ALONE.connections).await?;
    let whole = document_length(&user).await?;
    let requests = (0..size.operations).map(|_| user.prepare_accepting("/apis", AGGREGATED));
    let requests: Result<Vec<_>> = requests.collect();
    let judge = move |answer: &Answer| {
        answer.expect(StatusCode::OK)?;
        ensure!(
            answer.length == whole,
            "{} bytes and not {whole}",
            answer.length
        );
        Ok(())
    };
    let asked = load(subject, &user, ALONE, requests?, judge).await?;
    let figures = defined.measured.figures("definition");
    Ok(figures
        .and(asked.measured.figures("discovery"))
        .with("discovery length", whole as f64))
}

/// Returns the length of the document, once two responses are the same.
async fn document_length(client: &Client) -> Result<usize> {
    let until = Instant::now() + LISTED_TIMEOUT;
    let mut before = 0;
    loop {
        let request = client.prepare_accepting("/apis", AGGREGATED)?;
        let answer = client.sender(0)?.send(request).await?;
        answer.expect(StatusCode::OK)?;
        if answer.length == before {
            return Ok(before);
        }
        before = answer.length;
        ensure!(Instant::now() < until, "discovery does not become stable");
    }
}
