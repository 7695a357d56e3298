//! An operator that is killed at any write leaves exactly one object with data, and nothing after
//! the claim is deleted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use http::{Method, Request};
use insula_metal3::ipam::kinds::{IPAddress, IPClaim};
use insula_metal3::kinds::data::Metal3Data;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::client::Body;
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::sync::Notify;
use tower::{BoxError, service_fn};

use crate::scene::{
    Machine, content, data_template, mac, metadata, network_data, pool, secrets, spec,
};
use crate::world::{Running, World, eventually, settings};

/// The record of an operator that is killed before a write reaches the server.
#[derive(Default)]
struct KillRecord {
    writes: AtomicUsize,
    killed: Notify,
}

/// Returns a client that stops before a certain write in a namespace.
fn killing_client(client: &Client, namespace: &str, at: usize, record: &Arc<KillRecord>) -> Client {
    let (client, record) = (client.clone(), Arc::clone(record));
    let path = format!("/namespaces/{namespace}/");
    let service = service_fn(move |request: Request<Body>| {
        let (client, record) = (client.clone(), Arc::clone(&record));
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let is_event = request.uri().path().ends_with("/events");
        let is_write = !is_read && !is_event && request.uri().path().contains(&path);
        async move {
            let nth = match is_write {
                true => record.writes.fetch_add(1, Ordering::SeqCst) + 1,
                false => 0,
            };
            if nth < at {
                return Ok::<_, BoxError>(client.send(request).await?);
            }
            record.killed.notify_one();
            std::future::pending().await
        }
    });
    Client::new(service, "default")
}

/// Lives through the whole life of a machine's data in a namespace of its own, with an operator
/// that is killed and a successor. Returns the number of writes.
async fn live(world: &World, name: &str, at: usize) -> anyhow::Result<usize> {
    let (management, hosts) = (&world.management, &world.hosts);
    management.namespace(name).await?;
    hosts.host("pool-a", name, json!({})).await?;
    world.identity(name, "hosts", ("user-a", "pool-a")).await?;
    data_template(management, name, "nodes", spec()).await?;
    pool(management, name, "net", 9, json!({})).await?;
    let record = Arc::<KillRecord>::default();
    let only = || {
        let mut settings = settings();
        settings.shell.tenants = false;
        settings.shell.namespaces = BTreeSet::from([name.to_owned()]);
        settings
    };
    let first = killing_client(&management.client, name, at, &record);
    let mut operator = Some(Running::new(first, only()));
    let machine = Machine {
        namespace: name,
        cluster: "prod",
        name,
        template: "nodes",
        host: ("pool-a", name),
        identity: Some("hosts"),
    };
    management.cluster(name, "prod", json!({})).await?;
    machine.create(management, hosts).await?;
    let successor = || Running::new(management.client.clone(), only());
    tokio::select! {
        ready = machine.ready(management) => drop(ready?),
        () = record.killed.notified() => {
            operator.take().context("an operator")?.kill().await;
            operator = Some(successor());
            machine.ready(management).await?;
        }
    }
    let data = management.api::<Metal3Data>(name);
    let data = data.list(&ListParams::default()).await?;
    let names: Vec<_> = data.items.iter().map(ResourceExt::name_any).collect();
    anyhow::ensure!(names == ["nodes-0"], "{names:?}");
    let addresses = management.api::<IPAddress>(name);
    let addresses = addresses.list(&ListParams::default()).await?;
    let names: Vec<_> = addresses.items.iter().map(ResourceExt::name_any).collect();
    anyhow::ensure!(names == ["net-10-0-0-1"], "{names:?}");
    let mac = mac(hosts, "pool-a", name).await?;
    let expected = [
        ("metadata", metadata(&machine, 0, "10.0.0.1", &mac)),
        ("networkdata", network_data("10.0.0.1", &mac)),
    ];
    for (suffix, expected) in expected {
        let secret: Secret = hosts.api("pool-a").get(&format!("{name}-{suffix}")).await?;
        let (_, found) = content(&secret);
        anyhow::ensure!(found == expected, "{found}");
    }
    machine.release(management).await?;
    let gone = management.wait_until_gone::<Metal3Data>(name, "nodes-0");
    tokio::select! {
        gone = gone => gone?,
        () = record.killed.notified() => {
            operator.take().context("an operator")?.kill().await;
            operator = Some(successor());
            management.wait_until_gone::<Metal3Data>(name, "nodes-0").await?;
        }
    }
    let addresses = management.api::<IPAddress>(name);
    let claims = management.api::<IPClaim>(name);
    let all_gone = async || {
        let left = addresses.list(&ListParams::default()).await?.items.len()
            + claims.list(&ListParams::default()).await?.items.len();
        anyhow::Ok((left == 0).then_some(()))
    };
    tokio::select! {
        gone = eventually(all_gone) => gone?,
        () = record.killed.notified() => {
            operator.take().context("an operator")?.kill().await;
            operator = Some(successor());
            eventually(all_gone).await?;
        }
    }
    let left = secrets(hosts, "pool-a").await?;
    let left: Vec<_> = left
        .iter()
        .filter(|one| one.starts_with(&format!("{name}-")))
        .collect();
    anyhow::ensure!(left.is_empty(), "{left:?}");
    drop(operator);
    Ok(record.writes.load(Ordering::SeqCst))
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_killed_at_any_write_leaves_one_object_and_nothing_after_deletion()
-> anyhow::Result<()> {
    let world = World::new().await?;
    let writes = live(&world, "never", usize::MAX).await?;
    anyhow::ensure!(writes > 20, "only {writes} writes");
    for first in (1..=writes).step_by(4) {
        let cases = (first..=writes.min(first + 3)).map(|at| {
            let world = &world;
            async move {
                let name = format!("before-{at}");
                let lived = live(world, &name, at).await;
                lived.with_context(|| name)
            }
        });
        futures_util::future::try_join_all(cases).await?;
    }
    Ok(())
}
