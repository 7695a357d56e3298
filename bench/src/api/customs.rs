//! The same large definition in many tenants: its cost for each of them, and the cost of
//! objects of its kind.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Method, StatusCode};
use insula_custom::{Change, Schema};
use serde_json::Value;

use super::client::{Answer, Client, Prepared};
use super::definition::{self, GROUP, PLURAL};
use super::load::{Shape, load};
use super::subject::{Measured, Subject};
use super::{objects, tenants};
use crate::figures::Figures;
use crate::machine;
use crate::report::progress;

/// The operations on objects of the kind.
pub const OPERATIONS: [&str; 3] = ["custom create", "custom get", "custom update"];

/// The number of tenants that are polled until their kind is served.
const ASKED: usize = 50;
/// The timeout until the last of them is served.
const SERVED: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub tenants: usize,
    /// The number of operations on objects of one tenant.
    pub operations: usize,
    /// The number of validations in this process.
    pub checks: usize,
}

pub async fn measure(subject: &Subject, size: Size) -> Result<Figures> {
    let client = subject.connect(Shape::REQUESTS.connections).await?;
    // State shared by all tenants is created before memory is measured.
    tenants::create(subject, &client, 0, tenants::FEW).await?;
    define(subject, &client, 0, tenants::FEW).await?;
    let before = subject.resident()?;
    let all = size.tenants.max(tenants::FEW + 1);
    tenants::create(subject, &client, tenants::FEW, all).await?;
    let idle = subject.resident()?;
    let defined = define(subject, &client, tenants::FEW, all).await?;
    let each = |bytes: f64| bytes / (all - tenants::FEW) as f64;
    let after = subject.resident()?;
    let figures = defined
        .with("tenants", all as f64)
        .with("grown", each(after - before))
        .with("definition grown", each(after - idle))
        .with("resident", after)
        .with("most", subject.most_resident()?);
    let objects = operations(subject, &client, size.operations).await?;
    Ok(figures.under("customs").and(objects).and(check(size)?))
}

pub fn definitions(tenant: usize) -> String {
    let tenant = tenants::name(tenant);
    format!("/apis/apiextensions.k8s.io/v1/tenants/{tenant}/customresourcedefinitions")
}

fn workloads(tenant: usize) -> String {
    let tenant = tenants::name(tenant);
    format!("/apis/{GROUP}/v1/tenants/{tenant}/namespaces/default/{PLURAL}")
}

/// Creates the definition in each tenant, and waits until all are served.
async fn define(subject: &Subject, client: &Client, from: usize, to: usize) -> Result<Figures> {
    progress(&format!("definitions in tenants up to {to}"));
    let body = definition::applied(PLURAL, GROUP);
    let requests = (from..to).map(|n| {
        let body = Some(body.clone());
        client.prepare(Method::POST, &definitions(n), body)
    });
    let requests: Result<Vec<_>> = requests.collect();
    subject.wait_until_idle().await?;
    let (begun, cpu) = (Instant::now(), subject.cpu()?);
    let judge = |answer: &Answer| answer.expect(StatusCode::CREATED);
    let loaded = load(subject, client, Shape::REQUESTS, requests?, judge).await?;
    served(client, &workloads(to - 1)).await?;
    let wall = begun.elapsed().as_secs_f64();
    subject.wait_until_idle().await?;
    let cpu = subject.cpu()?.saturating_sub(cpu).as_secs_f64();
    for n in (from..to).step_by((to - from).div_ceil(ASKED)) {
        served(client, &workloads(n)).await?;
    }
    let count = (to - from) as f64;
    Ok(loaded
        .measured
        .figures("definition")
        .with("definition rate", count / wall)
        .with("definition cpu", cpu / count)
        .with("served after", wall))
}

/// Waits until a tenant is served its kind.
pub async fn served(client: &Client, path: &str) -> Result<()> {
    let until = Instant::now() + SERVED;
    while client.get(path).await?.status != StatusCode::OK {
        ensure!(Instant::now() < until, "{path} is not served");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Measures objects of the kind in the first tenant.
async fn operations(subject: &Subject, client: &Client, count: usize) -> Result<Figures> {
    progress("objects of a kind that users define");
    let body = |n, version, stamp: &str| {
        let object = definition::workload(n, version, stamp);
        Some(Bytes::from(object.to_string()))
    };
    let name = |n| format!("{}/{}", workloads(0), objects::name(n));
    let create: Result<Vec<_>> = (0..count)
        .map(|n| client.prepare(Method::POST, &workloads(0), body(n, None, "-")))
        .collect();
    let (created, versions) = send(subject, client, create?, StatusCode::CREATED).await?;
    let get: Result<Vec<_>> = (0..count)
        .map(|n| client.prepare(Method::GET, &name(n), None))
        .collect();
    let (got, _) = send(subject, client, get?, StatusCode::OK).await?;
    let update: Result<Vec<_>> = versions
        .into_iter()
        .enumerate()
        .map(|(n, version)| client.prepare(Method::PUT, &name(n), body(n, Some(version), "new")))
        .collect();
    let (updated, _) = send(subject, client, update?, StatusCode::OK).await?;
    let measured = OPERATIONS.iter().zip([created, got, updated]);
    Ok(measured.fold(Figures::default(), |figures, (name, of)| {
        figures.and(of.figures(name))
    }))
}

async fn send(
    subject: &Subject,
    client: &Client,
    requests: Vec<Prepared>,
    status: StatusCode,
) -> Result<(Measured, Vec<u64>)> {
    let judge = move |answer: &Answer| {
        answer.expect(status)?;
        answer.version()
    };
    let loaded = load(subject, client, Shape::REQUESTS, requests, judge).await?;
    Ok((loaded.measured, loaded.taken))
}

/// Validates the same object repeatedly, in this process.
fn check(size: Size) -> Result<Figures> {
    progress("objects judged by a schema");
    let schema = Schema::compile(&definition::schema()).context("the schema")?;
    let Value::Object(mut object) = definition::workload(0, None, "-") else {
        anyhow::bail!("not an object");
    };
    schema.fill(&mut object);
    let judged = each(size.checks, || {
        let verdict = schema.validate(Change::create(&object));
        verdict.errors.len()
    })?;
    let filled = each(size.checks, || {
        let (mut copy, mut unknown) = (object.clone(), vec![]);
        schema.prune(&mut copy, &mut unknown);
        schema.fill(&mut copy);
        unknown.len()
    })?;
    Ok(Figures::default()
        .with("check cpu", judged)
        .with("fill cpu", filled))
}

/// Returns the CPU time of one call; no call may find an error.
fn each(count: usize, call: impl Fn() -> usize) -> Result<f64> {
    let before = machine::cpu_time(std::process::id())?;
    let faults: usize = (0..count).map(|_| std::hint::black_box(call())).sum();
    let after = machine::cpu_time(std::process::id())?;
    ensure!(faults == 0, "there are faults");
    Ok(after.saturating_sub(before).as_secs_f64() / count.max(1) as f64)
}
