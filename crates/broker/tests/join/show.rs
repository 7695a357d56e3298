//! Tests of `show brokers`.

use insula_broker::report::Silent;
use insula_broker::show::{brokers, table};

use super::stage::*;

#[tokio::test(flavor = "multi_thread")]
async fn r3_all_brokers_are_listed_and_a_tenant_lists_its_own() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let mut last = None;
    for namespace in ["submariner-broker-a", "submariner-broker-b"] {
        last = Some(stage.deploy(namespace, Wanted::default()).await?);
    }
    let rows = brokers(&stage.system()?, None, &Silent).await?;
    let namespaces: Vec<_> = rows.iter().map(|row| row.cells[0].as_str()).collect();
    assert_eq!(namespaces, ["submariner-broker-a", "submariner-broker-b"]);

    let tenant = stage.broker(&last.unwrap())?;
    let (refused, hint) = error_and_hint(brokers(&tenant, None, &Silent).await);
    assert!(
        refused.starts_with("cannot list the brokers in all namespaces: ")
            && refused.contains("forbidden"),
        "{refused}"
    );
    assert_eq!(
        hint,
        "--namespace limits the list to one namespace, such as your own"
    );
    let own = brokers(&tenant, Some("submariner-broker-b"), &Silent).await?;
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
    let (refused, _) = error_and_hint(brokers(&tenant, Some("submariner-broker-a"), &Silent).await);
    assert!(refused.contains("forbidden"), "{refused}");
    let (refused, _) = error_and_hint(brokers(&tenant, Some("a/../b"), &Silent).await);
    assert_eq!(refused, "\"a/../b\" is not a valid namespace name");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_without_the_kind_has_no_brokers() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let other = stage.cluster("c0").await?;
    assert_eq!(
        table(&brokers(&other, None, &Silent).await?),
        "No brokers found\n"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_broker_of_one_tenant_does_not_hide_others() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    for namespace in ["submariner-broker-a", "submariner-broker-b"] {
        stage.deploy(namespace, Wanted::default()).await?;
    }
    let kind = kube::core::ApiResource::erase::<insula_broker::broker::Broker>(&());
    let brokers: kube::Api<kube::core::DynamicObject> =
        kube::Api::namespaced_with(stage.system()?, "submariner-broker-a", &kind);
    for spec in [
        serde_json::json!({"defaultGlobalnetClusterSize": -1}),
        serde_json::json!({"defaultCustomDomains": ["d".repeat(66_000)]}),
        serde_json::json!({"components": ["a\u{1b}[2J\nb"]}),
        serde_json::json!("nonsense"),
        serde_json::Value::Null,
    ] {
        let mut odd = brokers.get("submariner-broker").await?;
        odd.data = serde_json::json!({ "spec": spec });
        brokers
            .replace("submariner-broker", &Default::default(), &odd)
            .await?;
        let rows = brokers_of(&stage).await?;
        assert_eq!(rows.len(), 2, "{spec}");
        let shown = table(&rows);
        assert_eq!(shown.lines().count(), 3, "{shown}");
        assert!(!shown.contains('\u{1b}') && shown.len() < 2_000, "{shown}");
        assert!(
            shown.contains("\nsubmariner-broker-b   submariner-broker   connectivity"),
            "{shown}"
        );
    }
    Ok(())
}

async fn brokers_of(stage: &Stage) -> anyhow::Result<Vec<insula_broker::show::Row>> {
    Ok(brokers(&stage.system()?, None, &Silent).await?)
}
