//! An operator that is killed at any write, also to the server of the hosts, leaves exactly one
//! object with data, and nothing after the claim is deleted.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Context as _;
use insula_metal3::ipam::kinds::{IPAddress, IPClaim};
use insula_metal3::kinds::data::Metal3Data;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use crate::scene::{
    Machine, content, data_template, mac, metadata, network_data, pool, secrets, spec,
};
use crate::world::{
    KillPoint, KillRecord, Running, Side, World, eventually, killing_client, killing_relay,
    settings,
};

/// Lives through the whole life of a machine's data in a namespace of its own, with an operator
/// that is killed and a successor.
async fn live(world: &World, name: &str, at: Option<KillPoint>) -> anyhow::Result<Arc<KillRecord>> {
    let (management, hosts) = (&world.management, &world.hosts);
    management.namespace(name).await?;
    hosts.host("pool-a", name, json!({})).await?;
    let record = KillRecord::new(at);
    let mut file = hosts.kubeconfig("user-a", "pool-a")?;
    let _relay = killing_relay(&hosts.server, &mut file, &record).await?;
    management.identity(name, "hosts", &file).await?;
    data_template(management, name, "nodes", spec()).await?;
    pool(management, name, "net", 9, json!({})).await?;
    let only = || {
        let mut settings = settings();
        settings.shell.tenants = false;
        settings.shell.namespaces = BTreeSet::from([name.to_owned()]);
        settings
    };
    record.watch();
    let first = killing_client(&management.client, name, &record);
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
    let successor = || {
        record.ignore();
        Running::new(management.client.clone(), only())
    };
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
    Ok(record)
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_killed_at_any_write_leaves_one_object_and_nothing_after_deletion()
-> anyhow::Result<()> {
    let world = World::new().await?;
    let whole = live(&world, "never", None).await?;
    let outside = ["DELETE secrets", "POST secrets"];
    let found = whole.outside();
    anyhow::ensure!(found.iter().eq(&outside), "{found:?}");
    let points = whole.points(3);
    anyhow::ensure!(points.len() > 12, "{points:?}");
    let mut cut = BTreeSet::new();
    for points in points.chunks(4) {
        let cases = points.iter().map(|(side, nth)| {
            let name = format!("{side:?}-{nth}").to_lowercase();
            let (world, at) = (&world, Some((*side, *nth)));
            async move { live(world, &name, at).await.with_context(|| name) }
        });
        let lived = futures_util::future::try_join_all(cases).await?;
        cut.extend(lived.iter().filter_map(|record| record.cut()));
    }
    let cut = cut
        .into_iter()
        .filter(|(side, _)| *side == Side::Kubeconfig);
    let cut: Vec<_> = cut.map(|(_, write)| write).collect();
    anyhow::ensure!(cut == outside, "{cut:?}");
    Ok(())
}
