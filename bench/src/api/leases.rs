//! Leases as leader elections renew them: many holders, each with its own.

use anyhow::Result;
use bytes::Bytes;
use http::{Method, StatusCode};

use super::client::{Answer, Client, Prepared};
use super::load::{Shape, load};
use super::subject::{Measured, Subject};
use super::tenants;
use crate::figures::Figures;
use crate::report::progress;

/// The name of the row.
pub const OPERATIONS: [&str; 1] = ["lease update"];

#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub holders: usize,
    /// The number of renewals of each holder in a round.
    pub renewals: usize,
    pub rounds: usize,
}

/// Measures renewals: each holder updates its Lease with the resource version that it has.
pub async fn measure(subject: &Subject, size: Size) -> Result<Figures> {
    let client = subject.connect(Shape::REQUESTS.connections).await?;
    tenants::create(subject, &client, 0, 1).await?;
    progress("leases");
    let created = (0..size.holders).map(|n| {
        let body = Some(lease(n, None, 0));
        client.prepare(Method::POST, &collection(), body)
    });
    let created: Result<Vec<_>> = created.collect();
    let mut versions = send(subject, &client, created?, StatusCode::CREATED)
        .await?
        .1;
    let mut measured = vec![];
    for round in 0..size.rounds {
        let mut renewed = None;
        for renewal in 0..size.renewals {
            let time = round * size.renewals + renewal + 1;
            let requests = versions.iter().enumerate().map(|(n, version)| {
                let body = Some(lease(n, Some(*version), time));
                let path = format!("{}/{}", collection(), name(n));
                client.prepare(Method::PUT, &path, body)
            });
            let requests: Result<Vec<_>> = requests.collect();
            let one;
            (one, versions) = send(subject, &client, requests?, StatusCode::OK).await?;
            renewed = Some(match renewed {
                None => one,
                Some(before) => sum(before, one),
            });
        }
        measured.extend(renewed);
    }
    Ok(Measured::rounds(measured, OPERATIONS[0]))
}

fn collection() -> String {
    let tenant = tenants::name(0);
    format!("/apis/coordination.k8s.io/v1/tenants/{tenant}/namespaces/default/leases")
}

fn name(n: usize) -> String {
    format!("holder-{n:04}")
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

/// Adds up two measurements, and keeps the times of the second.
fn sum(one: Measured, other: Measured) -> Measured {
    Measured {
        count: one.count + other.count,
        wall: one.wall + other.wall,
        quiet: one.quiet + other.quiet,
        cpu: one.cpu + other.cpu,
        caller: one.caller + other.caller,
        times: other.times,
    }
}

/// Returns a Lease as client-go's leader election writes it.
fn lease(n: usize, version: Option<u64>, time: usize) -> Bytes {
    let version = version.map_or_else(String::new, |version| {
        format!(",\"resourceVersion\":\"{version}\"")
    });
    let (minute, second) = (time / 60 % 60, time % 60);
    Bytes::from(format!(
        "{{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\
         \"metadata\":{{\"name\":\"{}\",\"namespace\":\"default\"{version}}},\
         \"spec\":{{\"holderIdentity\":\"{}-0_6b1f1c0e-5d0c-4f6e-9d0a-0123456789ab\",\
         \"leaseDurationSeconds\":15,\"acquireTime\":\"2026-01-01T00:00:00.000000Z\",\
         \"renewTime\":\"2026-01-01T00:{minute:02}:{second:02}.123456Z\",\
         \"leaseTransitions\":1}}}}",
        name(n),
        name(n)
    ))
}
