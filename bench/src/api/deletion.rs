//! Deletion by the controllers: a full namespace, a full tenant and many small tenants, from
//! the request until nothing is left.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use http::{Method, StatusCode};

use super::client::{Answer, Client};
use super::load::{Shape, load};
use super::subject::Subject;
use super::writes::Objects;
use super::{objects, tenants};
use crate::figures::Figures;
use crate::report::progress;

/// The names of the rows.
pub const DELETED: [&str; 3] = ["full namespace", "full tenant", "small tenants"];

/// Objects in a small tenant, in addition to those that every tenant has.
pub const SMALL: usize = 5;

/// Limits the time of a deletion.
const WAIT_TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The objects in the full namespace and in the full tenant.
    pub objects: usize,
    /// The number of small tenants.
    pub tenants: usize,
}

/// Measures all on the same server, so that caches are filled before memory is measured.
pub async fn measure(subject: &Subject, size: Size) -> Result<Figures> {
    let client = subject.connect(Shape::REQUESTS.connections).await?;
    let [namespace, tenant, small] = DELETED;
    progress(namespace);
    subject.namespace(&client, "full").await?;
    let maps = objects::collection("full");
    let full = fill(subject, &client, &maps, size.objects);
    full.await?;
    let gone = delete(subject, &client, &["/api/v1/namespaces/full".to_owned()]).await?;
    let figures = gone.under(namespace);
    progress(tenant);
    tenants::create(subject, &client, 0, 1).await?;
    let maps = format!("{}/configmaps", tenants::namespace(0));
    fill(subject, &client, &maps, size.objects).await?;
    let gone = delete(subject, &client, &[path(0)]).await?;
    let figures = figures.and(gone.under(tenant));
    progress(small);
    // The first round fills caches that are kept for some minutes, so only the second round
    // counts.
    small_tenants(subject, &client, size.tenants).await?;
    let gone = small_tenants(subject, &client, size.tenants).await?;
    Ok(figures.and(gone.under(small)))
}

async fn small_tenants(subject: &Subject, client: &Client, count: usize) -> Result<Figures> {
    let before = subject.resident_later().await?;
    tenants::create(subject, client, 0, count).await?;
    let requests = (0..count * SMALL).map(|n| {
        let maps = format!("{}/configmaps", tenants::namespace(n / SMALL));
        let body = Some(objects::configmap(n, None, "-"));
        client.prepare(Method::POST, &maps, body)
    });
    let requests: Result<Vec<_>> = requests.collect();
    let judge = |answer: &Answer| answer.expect(StatusCode::CREATED);
    load(subject, client, Shape::REQUESTS, requests?, judge).await?;
    let most = subject.resident()?;
    let all: Vec<String> = (0..count).map(path).collect();
    let gone = delete(subject, client, &all).await?;
    let after = subject.resident_later().await?;
    Ok(gone
        .with("before", before)
        .with("there", most)
        .with("after", after)
        .with("kept", after / before))
}

fn path(tenant: usize) -> String {
    format!("/api/v1/tenants/{}", tenants::name(tenant))
}

async fn fill(subject: &Subject, client: &Client, maps: &str, count: usize) -> Result<()> {
    let mut objects = Objects {
        subject,
        client,
        collection: maps,
        versions: vec![],
    };
    objects.create(count).await.map(drop)
}

/// Deletes objects, and waits until all are gone.
async fn delete(subject: &Subject, client: &Client, paths: &[String]) -> Result<Figures> {
    let requests = paths
        .iter()
        .map(|path| client.prepare(Method::DELETE, path, None));
    let requests: Result<Vec<_>> = requests.collect();
    subject.wait_until_idle().await?;
    let (begun, cpu) = (Instant::now(), subject.cpu()?);
    let judge = |answer: &Answer| answer.expect(StatusCode::OK);
    load(subject, client, Shape::REQUESTS, requests?, judge).await?;
    for path in paths {
        while client.get(path).await?.status != StatusCode::NOT_FOUND {
            ensure!(begun.elapsed() < WAIT_TIMEOUT, "{path} does not go");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let gone = begun.elapsed().as_secs_f64();
    subject.wait_until_idle().await?;
    let cpu = subject.cpu()?.saturating_sub(cpu).as_secs_f64();
    Ok(Figures::default().with("gone", gone).with("cpu", cpu))
}
