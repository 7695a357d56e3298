//! Allocation of addresses.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use insula_broker::globalnet::{
    Allocations, CLUSTERSET_IP_INFO, ClustersetIp, GLOBALNET_INFO, Globalnet,
};
use insula_broker::join::join;
use insula_broker::report::Silent;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;

use super::stage::*;

async fn allocations(stage: &Stage, name: &str) -> anyhow::Result<Allocations> {
    let maps: Api<ConfigMap> = Api::namespaced(stage.system()?, "n");
    Ok(Allocations::read(&maps.get(name).await?)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_joins_get_different_addresses() -> anyhow::Result<()> {
    const CLUSTERS: usize = 8;
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let joins = (0..CLUSTERS).map(async |number| {
        let both = stage.both(&info, &format!("c{number}")).await?;
        let settings = settings(&info, &format!("cluster-{number}"));
        anyhow::Ok(join(&both, &settings, &Silent).await?)
    });
    let joined = try_join_all(joins).await?;
    let globals: BTreeSet<_> = joined
        .iter()
        .flat_map(|one| one.global_cidr.clone())
        .collect();
    let expected = (0..CLUSTERS).map(|block| format!("242.{block}.0.0/16"));
    assert_eq!(globals, expected.collect());
    let services: BTreeSet<_> = joined
        .iter()
        .flat_map(|one| one.clusterset_ip_cidr.clone())
        .collect();
    let expected = (0..CLUSTERS).map(|block| format!("243.0.{}.0/20", block * 16));
    assert_eq!(services, expected.collect());
    for name in [GLOBALNET_INFO, CLUSTERSET_IP_INFO] {
        let kept = allocations(&stage, name).await?;
        let ids: BTreeSet<_> = kept
            .clusters
            .iter()
            .map(|one| one.cluster_id.clone())
            .collect();
        assert_eq!((kept.clusters.len(), ids.len()), (CLUSTERS, CLUSTERS));
    }
    let kept = allocations(&stage, GLOBALNET_INFO).await?;
    for one in joined {
        assert_eq!(kept.of(one.cluster_id.as_str()), one.global_cidr.as_deref());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn requested_addresses_are_allocated_and_kept() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let both = stage.both(&info, "c0").await?;
    let mut asks = settings(&info, "east");
    asks.globalnet_cidr = Some("10.9.0.0/24".parse()?);
    asks.clusterset_ip_cidr = Some("10.8.0.0/24".parse()?);
    asks.clusterset_ip = Some(true);
    let joined = join(&both, &asks, &Silent).await?;
    assert_eq!(joined.global_cidr.as_deref(), Some("10.9.0.0/24"));
    assert_eq!(joined.clusterset_ip_cidr.as_deref(), Some("10.8.0.0/24"));
    let found = object(
        &both.joining,
        SUBMARINER,
        "submariner-operator",
        "submariner",
    )
    .await?;
    assert_eq!(found.unwrap()["spec"]["clustersetIPEnabled"], true);
    asks.globalnet_cidr = Some("10.7.0.0/24".parse()?);
    let error_and_hint = Told::default();
    assert_eq!(join(&both, &asks, &error_and_hint).await?, joined);
    assert_eq!(
        error_and_hint.warnings(),
        ["The cluster has 10.9.0.0/24 already: 10.7.0.0/24 is ignored"]
    );
    let other = stage.both(&info, "c1").await?;
    let mut asks = settings(&info, "west");
    asks.globalnet_cidr = Some("10.9.0.0/16".parse()?);
    let (refused, _) = super::stage::error_and_hint(join(&other, &asks, &Silent).await);
    assert_eq!(
        refused,
        "invalid CIDR \"10.9.0.0/16\" overlaps with cluster \"east\""
    );
    asks.globalnet_cidr = None;
    asks.globalnet_cluster_size = Some(1000);
    let joined = join(&other, &asks, &Silent).await?;
    assert_eq!(joined.global_cidr.as_deref(), Some("242.0.0.0/22"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_change_nothing() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let wanted = Wanted {
        globalnet: Globalnet::validate(true, "242.0.0.0/30", 2)?,
        clusterset: ClustersetIp::validate(true, "243.0.0.0/8")?,
        ..Wanted::default()
    };
    let info = stage.deploy("n", wanted).await?;
    let both = stage.both(&info, "c0").await?;
    let mut asks = settings(&info, "east");
    asks.globalnet_cluster_size = Some(3);
    let (refused, _) = error_and_hint(join(&both, &asks, &Silent).await);
    assert_eq!(
        refused,
        "invalid GlobalCIDR configuration: cluster size 3, should be <= 2"
    );
    asks.globalnet_cidr = Some("10.0.0.0/24".parse()?);
    let (refused, _) = error_and_hint(join(&both, &asks, &Silent).await);
    assert_eq!(
        refused,
        "only one of cluster size and global CIDR can be specified"
    );
    assert_eq!(
        allocations(&stage, GLOBALNET_INFO).await?,
        Allocations::default()
    );
    for (cluster, block) in [("c0", "242.0.0.0/31"), ("c1", "242.0.0.2/31")] {
        let both = stage.both(&info, cluster).await?;
        let joined = join(&both, &settings(&info, cluster), &Silent).await?;
        assert_eq!(joined.global_cidr.as_deref(), Some(block));
    }
    let both = stage.both(&info, "c2").await?;
    let (refused, hint) = error_and_hint(join(&both, &settings(&info, "c2"), &Silent).await);
    assert_eq!(refused, "no more allocations available in \"242.0.0.0/30\"");
    assert_eq!(
        hint,
        "ask for fewer addresses, or for a range of your own outside of it"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn globalnet_flags_without_globalnet_are_ignored_with_a_warning() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let wanted = Wanted {
        globalnet: Globalnet::disabled(),
        ..Wanted::default()
    };
    let info = stage.deploy("n", wanted).await?;
    let both = stage.both(&info, "c0").await?;
    let mut asks = settings(&info, "east");
    asks.globalnet_cluster_size = Some(1000);
    let error_and_hint = Told::default();
    assert_eq!(join(&both, &asks, &error_and_hint).await?.global_cidr, None);
    assert_eq!(
        error_and_hint.warnings(),
        ["Globalnet is not enabled on the Broker: the cluster size and global CIDR are ignored"]
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn r7_old_broker_allocates_from_its_existing_range() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let maps: Api<ConfigMap> = Api::namespaced(stage.system()?, "n");
    let mut map = maps.get(GLOBALNET_INFO).await?;
    let data = map.data.get_or_insert_default();
    let old = [
        ("globalnetCidrRange", "\"169.254.0.0/16\""),
        ("globalnetClusterSize", "8192"),
    ];
    data.extend(old.map(|(key, value)| (key.to_owned(), value.to_owned())));
    maps.replace(GLOBALNET_INFO, &Default::default(), &map)
        .await?;
    let both = stage.both(&info, "c0").await?;
    let joined = join(&both, &settings(&info, "east"), &Silent).await?;
    assert_eq!(joined.global_cidr.as_deref(), Some("169.254.0.0/19"));
    Ok(())
}
