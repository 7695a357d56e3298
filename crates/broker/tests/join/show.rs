//! What `show brokers` shows.

use insula_broker::show::{brokers, table};

use super::stage::*;

#[tokio::test(flavor = "multi_thread")]
async fn r3_every_broker_is_shown_and_a_tenant_sees_its_own() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let mut last = None;
    for namespace in ["submariner-broker-a", "submariner-broker-b"] {
        last = Some(stage.deploy(namespace, Wanted::default()).await?);
    }
    let rows = brokers(&stage.system()?, None).await?;
    let namespaces: Vec<_> = rows.iter().map(|row| row.cells[0].as_str()).collect();
    assert_eq!(namespaces, ["submariner-broker-a", "submariner-broker-b"]);

    let tenant = stage.broker(&last.unwrap())?;
    let (refused, hint) = told(brokers(&tenant, None).await);
    assert!(
        refused.starts_with("cannot list the brokers in all namespaces: ")
            && refused.contains("forbidden"),
        "{refused}"
    );
    assert_eq!(
        hint,
        "--namespace shows those of one namespace, such as your own"
    );
    let own = brokers(&tenant, Some("submariner-broker-b")).await?;
    assert_eq!(
        own[0].cells,
        [
            "submariner-broker-b",
            "submariner-broker",
            "connectivity, service-discovery",
            "yes",
            "242.0.0.0/8",
            "65536",
            "",
        ]
    );
    let (refused, _) = told(brokers(&tenant, Some("submariner-broker-a")).await);
    assert!(refused.contains("forbidden"), "{refused}");
    let (refused, _) = told(brokers(&tenant, Some("a/../b")).await);
    assert_eq!(refused, "\"a/../b\" is no name of a namespace");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_the_kind_has_no_brokers() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let other = stage.cluster("c0").await?;
    assert_eq!(table(&brokers(&other, None).await?), "No brokers found\n");
    Ok(())
}
