//! Tenants of brokers: the time to provision many at once, and the resources of an operator
//! that manages more.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::{Method, StatusCode};

use super::client::{Answer, Client};
use super::load::{Shape, load};
use super::objects;
use super::server::{Process, Program, Server};
use crate::figures::Figures;
use crate::machine;
use crate::report::progress;

const TENANTS: &str = "/apis/submariner.io/v1alpha1/namespaces/axon-operator/tenants";
/// A table row has the phase of a tenant in few bytes.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// Limits the time to provision all of them.
const WAIT_TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Tenants created at once.
    pub at_once: usize,
    /// Tenants managed by one operator.
    pub many: usize,
}

/// Measures with the operator in the server's process, and then in its own.
pub async fn measure(program: &Program, size: Size) -> Result<Figures> {
    let inside = at_once(program, size.at_once).await?;
    let apart = looked_after(program, size.many).await?;
    Ok(inside.and(apart).under("brokers"))
}

async fn at_once(program: &Program, count: usize) -> Result<Figures> {
    progress(&format!("{count} tenants of brokers at once"));
    let mut program = program.clone();
    program
        .more
        .extend(["--operators", "broker"].map(OsString::from));
    let server = program.start()?;
    deploy(&program, &server, &[])?;
    let before = server.subject.cpu()?;
    let took = provision(&server, count).await?;
    let cpu = server.subject.cpu()?.saturating_sub(before);
    server.stop()?;
    Ok(Figures::default()
        .with("provisioned", took.as_secs_f64())
        .with("cpu", cpu.as_secs_f64()))
}

async fn looked_after(program: &Program, count: usize) -> Result<Figures> {
    progress(&format!("an operator for {count} tenants of brokers"));
    let server = program.start()?;
    deploy(program, &server, &["--no-wait"])?;
    let operator = operator(program, &server)?;
    let took = provision(&server, count).await?;
    server.subject.wait_until_idle().await?;
    let figures = Figures::default()
        .with("many provisioned", took.as_secs_f64())
        .with(
            "operator cpu",
            machine::cpu_time(operator.id())?.as_secs_f64(),
        )
        .with(
            "operator resident",
            machine::resident(operator.id())? as f64,
        )
        .with(
            "operator most",
            machine::most_resident(operator.id())? as f64,
        );
    drop(operator);
    server.stop()?;
    Ok(figures)
}

/// Deploys as an administrator of the cluster.
fn deploy(program: &Program, server: &Server, more: &[&str]) -> Result<()> {
    let done = Command::new(program.path.with_file_name("subctl"))
        .args(["deploy", "axon-cp", "--without-deployment", "--kubeconfig"])
        .arg(server.kubeconfig())
        .args(more)
        .output()
        .context("there is no subctl beside the server")?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "deploy axon-cp: {said}");
    Ok(())
}

fn operator(program: &Program, server: &Server) -> Result<Process> {
    let kubeconfig: &Path = &server.kubeconfig();
    let child = Command::new(&program.path)
        .args(["operator", "broker", "--kubeconfig"])
        .arg(kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Ok(Process::of(child.context("cannot start the operator")?))
}

/// Returns the time from the first request until the last tenant is provisioned.
async fn provision(server: &Server, count: usize) -> Result<Duration> {
    let (subject, shape) = (&server.subject, Shape::REQUESTS);
    let client = subject.connect(shape.connections).await?;
    let requests = (0..count).map(|n| {
        let body = Some(objects::broker_tenant(&name(n)));
        client.prepare(Method::POST, TENANTS, body)
    });
    let requests: Result<Vec<_>> = requests.collect();
    subject.wait_until_idle().await?;
    let begun = Instant::now();
    let judge = |answer: &Answer| answer.expect(StatusCode::CREATED);
    // Polling would add to the load, so this waits until the server is idle, which is not
    // before the operator is done.
    let (loaded, took) = tokio::join!(
        load(subject, &client, shape, requests?, judge),
        provisioned(&client, count, begun)
    );
    loaded?;
    took
}

/// Checks each tenant, because they may be provisioned in another order than created.
async fn provisioned(client: &Client, count: usize, begun: Instant) -> Result<Duration> {
    for n in 0..count {
        while !is_provisioned(client, &name(n)).await? {
            ensure!(
                begun.elapsed() < WAIT_TIMEOUT,
                "{} is not provisioned",
                name(n)
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(begun.elapsed())
}

async fn is_provisioned(client: &Client, name: &str) -> Result<bool> {
    let path = format!("{TENANTS}/{name}?includeObject=None");
    let request = client.prepare_accepting(&path, TABLE)?;
    let answer = client.sender(0)?.send(request).await?;
    let row = format!("[\"{name}\",\"Provisioned\"");
    let head = String::from_utf8_lossy(&answer.head);
    Ok(answer.status == StatusCode::OK && head.contains(&row))
}

fn name(n: usize) -> String {
    format!("b{:04}", n + 1)
}
