//! Many tenants: the cost of an idle tenant, and the effect of others on one tenant.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use http::{Method, StatusCode};

use super::client::{Answer, Client};
use super::load::{Shape, load};
use super::objects;
use super::subject::Subject;
use super::watches;
use super::writes::Objects;
use crate::figures::Figures;
use crate::report::progress;

/// The prefixes of the figures with each number of tenants.
pub const STEPS: [&str; 3] = ["few", "some", "all"];
/// The number of tenants that larger numbers are compared to.
pub const FEW: usize = 10;
/// The timeout until a new tenant has its namespace.
const READY: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub tenants: usize,
    /// The number of operations in the measured tenant.
    pub operations: usize,
    pub watchers: usize,
    pub events: usize,
}

impl Size {
    /// The numbers of tenants: few, a tenth, all.
    pub fn steps(self) -> [usize; 3] {
        let tenth = (self.tenants / 10).max(FEW);
        [FEW, tenth, self.tenants.max(tenth)]
    }
}

/// Measures with `few`, `some` and `all` tenants.
pub async fn measure(subject: &Subject, size: Size) -> Result<Figures> {
    let client = subject.connect(Shape::REQUESTS.connections).await?;
    let [few, some, all] = size.steps();
    create(subject, &client, 0, few).await?;
    let mut figures = inside(subject, &client, size).await?.under(STEPS[0]);
    for (name, from, to) in [(STEPS[1], few, some), (STEPS[2], some, all)] {
        let created = create(subject, &client, from, to).await?;
        let among = inside(subject, &client, size).await?;
        figures = figures.and(created.and(among).under(name));
    }
    Ok(figures)
}

pub fn name(n: usize) -> String {
    format!("t{:04}", n + 1)
}

pub fn namespace(n: usize) -> String {
    format!("/api/v1/tenants/{}/namespaces/default", name(n))
}

/// Creates a range of tenants, and returns the additional memory.
pub async fn create(subject: &Subject, client: &Client, from: usize, to: usize) -> Result<Figures> {
    if from >= to {
        return Ok(Figures::default());
    }
    progress(&format!("tenants up to {to}"));
    let requests = (from..to).map(|n| {
        let body = Some(objects::tenant(&name(n)));
        client.prepare(Method::POST, "/api/v1/tenants", body)
    });
    let requests: Result<Vec<_>> = requests.collect();
    subject.wait_until_idle().await?;
    let before = subject.resident()?;
    let judge = |answer: &Answer| answer.expect(StatusCode::CREATED);
    let loaded = load(subject, client, Shape::REQUESTS, requests?, judge).await?;
    for n in [from, to - 1] {
        ready(client, n).await?;
    }
    let grown = (subject.resident()? - before) / (to - from) as f64;
    Ok(loaded
        .measured
        .figures("tenant")
        .with("tenants", to as f64)
        .with("quiet", loaded.measured.quiet.as_secs_f64())
        .with("grown", grown)
        .with("tenant resident", subject.resident()?))
}

/// Waits until a tenant has its bootstrap objects.
async fn ready(client: &Client, n: usize) -> Result<()> {
    let until = Instant::now() + READY;
    while client.get(&namespace(n)).await?.status != StatusCode::OK {
        ensure!(Instant::now() < until, "{} does not become ready", name(n));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Measures the cost of operations in the first tenant.
async fn inside(subject: &Subject, client: &Client, size: Size) -> Result<Figures> {
    progress("inside one tenant");
    let collection = format!("{}/configmaps", namespace(0));
    let mut objects = Objects {
        subject,
        client,
        collection: &collection,
        versions: vec![],
    };
    let created = objects.create(size.operations).await?;
    let got = objects.get(size.operations).await?;
    objects.delete().await?;
    let delivered = watches::measure(subject, &collection, size.watchers, size.events).await?;
    Ok(created
        .figures("create")
        .and(got.figures("get"))
        .and(delivered))
}
