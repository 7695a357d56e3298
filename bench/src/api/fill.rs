//! A server that is filled through its API: the waits of writes, their CPU time and the memory
//! beside the number of objects, and the memory after a burst.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::{Method, StatusCode};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::{Client, Sender};
use super::load::{Shape, WAIT_TIMEOUT, all};
use super::server::{Program, Server};
use super::writes::Objects;
use super::{objects, tenants};
use crate::figures::{Figures, Quantiles};
use crate::report::{Unit, grouped, progress, table};

#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of objects in the end.
    pub objects: usize,
    /// The number of objects that are reported together.
    pub step: usize,
    /// The writes of the burst, each followed by a deletion.
    pub burst: usize,
    /// The large objects of the burst.
    pub large: usize,
}

/// The length of the value of a large object.
const LARGE: usize = 1 << 20;

impl Size {
    /// The number of steps.
    pub const fn steps(self) -> usize {
        self.objects.div_ceil(self.step)
    }
}

/// The figures of a step.
pub fn prefix(step: usize) -> String {
    format!("fill {step}")
}

/// Fills one server, and burdens another one.
pub async fn measure(program: &Program, size: Size) -> Result<Figures> {
    let server = with_tenant(program).await?;
    let filled = fill(&server, size).await?;
    server.stop()?;
    let server = with_tenant(program).await?;
    let burst = burst(&server, size).await?;
    server.stop()?;
    Ok(filled.and(burst.under("burst")))
}

async fn with_tenant(program: &Program) -> Result<Server> {
    let server = program.start()?;
    let client = server.subject.connect(1).await?;
    tenants::create(&server.subject, &client, 0, 1).await?;
    Ok(server)
}

fn collection() -> String {
    format!("{}/configmaps", tenants::namespace(0))
}

/// Creates objects without a pause between the steps: what the store has deferred of one is paid
/// for in the next.
async fn fill(server: &Server, size: Size) -> Result<Figures> {
    let client = server.subject.connect(Shape::REQUESTS.connections).await?;
    let mut figures = Figures::default();
    let (mut longest, mut cpu) = (Duration::ZERO, server.subject.cpu()?);
    for step in 0..size.steps() {
        let from = step * size.step;
        let to = size.objects.min(from + size.step);
        progress(&format!("filled up to {to} objects"));
        let begun = Instant::now();
        let times = create(&client, from, to).await?;
        let rate = (to - from) as f64 / begun.elapsed().as_secs_f64();
        let quantiles = Quantiles::of(times);
        longest = longest.max(quantiles.max);
        let now = server.subject.cpu()?;
        let each = now.saturating_sub(cpu).as_secs_f64() / (to - from) as f64;
        cpu = now;
        let of = Figures::default()
            .with("objects", to as f64)
            .with("rate", rate)
            .with("cpu", each)
            .times("wait", quantiles)
            .with("resident", server.subject.resident()?);
        figures = figures.and(of.under(&prefix(step)));
    }
    Ok(figures.with("fill longest", longest.as_secs_f64()))
}

/// Creates a range of objects, and returns how long each took.
async fn create(client: &Client, from: usize, to: usize) -> Result<Vec<Duration>> {
    let next = Arc::new(AtomicUsize::new(from));
    let mut workers = JoinSet::new();
    for user in 0..Shape::REQUESTS.at_once {
        let (sender, next) = (client.sender(user)?, Arc::clone(&next));
        workers.spawn(create_some(sender, next, to));
    }
    let created = timeout(4 * WAIT_TIMEOUT, all(workers)).await;
    created.context("the server hangs")?
}

async fn create_some(sender: Sender, next: Arc<AtomicUsize>, to: usize) -> Result<Vec<Duration>> {
    let mut times = vec![];
    loop {
        let n = next.fetch_add(1, Ordering::Relaxed);
        if n >= to {
            return Ok(times);
        }
        let body = Some(objects::configmap(n, None, "-"));
        let request = sender.prepare(Method::POST, &collection(), body)?;
        let begun = Instant::now();
        let answer = sender.send(request).await?;
        times.push(begun.elapsed());
        answer.expect(StatusCode::CREATED)?;
    }
}

/// Creates, lists and deletes objects, small and large ones. Returns the memory before, at most,
/// and ten seconds after.
async fn burst(server: &Server, size: Size) -> Result<Figures> {
    progress("a burst of writes and lists");
    let subject = &server.subject;
    let client = subject.connect(Shape::REQUESTS.connections).await?;
    subject.wait_until_idle().await?;
    let before = subject.resident()?;
    let collection = collection();
    let mut small = Objects {
        subject,
        client: &client,
        collection: &collection,
        versions: vec![],
    };
    small.create(size.burst).await?;
    for _ in 0..8 {
        client.get(&collection).await?.expect(StatusCode::OK)?;
    }
    small.delete().await?;
    for n in 0..size.large {
        let body = large(n);
        let answer = client.call(Method::POST, &collection, Some(body)).await?;
        answer.expect(StatusCode::CREATED)?;
        client.get(&collection).await?.expect(StatusCode::OK)?;
        let path = format!("{collection}/large-{n}");
        let answer = client.call(Method::DELETE, &path, None).await?;
        answer.expect(StatusCode::OK)?;
    }
    let after = subject.resident_later().await?;
    Ok(Figures::default()
        .with("before", before)
        .with("most", subject.most_resident()?)
        .with("after", after)
        .with("kept", (after - before).max(0.0)))
}

/// Prints the steps and the burst, unless they were not measured.
pub fn print(figures: &Figures, size: Size) {
    const CELLS: [(&str, Unit); 7] = [
        ("objects", Unit::Count),
        ("rate", Unit::Count),
        ("cpu", Unit::Time),
        ("wait p50", Unit::Time),
        ("wait p99", Unit::Time),
        ("wait max", Unit::Time),
        ("resident", Unit::Bytes),
    ];
    if figures.get("fill longest").is_none() {
        return;
    }
    let row = |prefix: &str, cells: &[(&str, Unit)]| -> Vec<String> {
        let cell = |(figure, unit): &(&str, Unit)| {
            let value = figures.get(&format!("{prefix} {figure}"));
            value.map_or_else(|| "-".to_owned(), |value| unit.format(value))
        };
        cells.iter().map(cell).collect()
    };
    let steps = (0..size.steps()).map(|step| row(&prefix(step), &CELLS));
    let title = format!(
        "A tenant that is filled through the API, 64 at once, {} objects at a time",
        grouped(size.step)
    );
    let columns = [
        "up to",
        "writes each second",
        "CPU each",
        "p50",
        "p99",
        "max",
        "memory",
    ];
    table(&title, &columns, &steps.collect::<Vec<_>>());
    let cells = ["before", "most", "after"].map(|figure| (figure, Unit::Bytes));
    let title = format!(
        "Memory before, at most in, and 10 s after a burst: {} small and {} large objects \
         created, listed and deleted",
        grouped(size.burst),
        grouped(size.large)
    );
    table(
        &title,
        &["before", "at most", "after"],
        &[row("burst", &cells)],
    );
}

fn large(n: usize) -> bytes::Bytes {
    let value = "x".repeat(LARGE);
    let object = format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"large-{n}\"}},\
         \"data\":{{\"value\":\"{value}\"}}}}"
    );
    object.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_step_may_be_smaller() {
        let size = |objects, step| Size {
            objects,
            step,
            burst: 0,
            large: 0,
        };
        for (objects, step, steps) in [(10, 10, 1), (11, 10, 2), (5, 10, 1)] {
            assert_eq!(size(objects, step).steps(), steps);
        }
    }
}
