//! The pre-shared key is never lost and never silently replaced.

use insula_broker::Error;
use insula_broker::deploy::broker::{BrokerSettings, PskSource};
use insula_broker::info::BrokerInfo;
use insula_broker::report::Silent;

use super::fixture::{Scene, psk};
use crate::scene::Told;

#[tokio::test]
async fn r69_r76_key_of_the_replaced_file_is_kept_for_the_same_broker() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let first = scene.deploy(&scene.settings(), &Silent).await?;
    let key = psk(&first.file)?;
    let told = Told::default();
    let second = scene.deploy(&scene.settings(), &told).await?;
    assert_eq!(
        (second.psk, psk(&second.file)?),
        (PskSource::Kept, key.clone())
    );
    let said = format!(
        "Reusing the IPsec PSK of {:?}, which belongs to the same broker: a new one would cut off the clusters that have joined",
        first.file
    );
    assert_eq!(told.warnings(), [said]);
    // Another broker gets another key, and the old file is backed up.
    let settings = BrokerSettings {
        namespace: Some("other".to_owned()),
        ..scene.settings()
    };
    let told = Told::default();
    let third = scene.deploy(&settings, &told).await?;
    assert_eq!(third.psk, PskSource::Generated);
    assert_ne!(psk(&third.file)?, key);
    assert_eq!(psk(third.backup.as_ref().unwrap())?, key);
    let said = format!(
        "{:?} is replaced and backed up: it belongs to another broker",
        first.file
    );
    assert_eq!(told.warnings(), [said]);
    Ok(())
}

#[tokio::test]
async fn r76_partial_file_used_twice_yields_one_key() -> anyhow::Result<()> {
    let scene = Scene::axon().await?;
    let partial = scene.tenant("acme").await?;
    let settings = scene.with_file("partial.subm", &partial)?;
    let first = scene.deploy_without_context(&settings, &Silent).await?;
    let key = psk(&first.file)?;
    let second = scene.deploy_without_context(&settings, &Silent).await?;
    assert_eq!(
        (first.psk, second.psk),
        (PskSource::Generated, PskSource::Kept)
    );
    assert_eq!(psk(&second.file)?, key);
    Ok(())
}

#[tokio::test]
async fn r67_input_file_may_be_the_output_file() -> anyhow::Result<()> {
    let scene = Scene::axon().await?;
    let partial = scene.tenant("acme").await?;
    let settings = scene.with_file("broker-info.subm", &partial)?;
    assert_eq!(settings.info_from.as_ref(), Some(&settings.output));
    let first = scene.deploy_without_context(&settings, &Silent).await?;
    assert_eq!(first.psk, PskSource::Generated);
    let backup = BrokerInfo::read(first.backup.as_ref().unwrap())?;
    assert_eq!(backup.encode(), partial.encode());
    let key = psk(&first.file)?;
    let second = scene.deploy_without_context(&settings, &Silent).await?;
    assert_eq!((second.psk, psk(&second.file)?), (PskSource::Given, key));
    Ok(())
}

#[tokio::test]
async fn r76_unreadable_or_invalid_file_is_not_overwritten() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let settings = scene.settings();
    // The file is not a broker info: it is backed up with a warning.
    std::fs::write(&settings.output, "else")?;
    let told = Told::default();
    let deployed = scene.deploy(&settings, &told).await?;
    assert_eq!(std::fs::read(deployed.backup.unwrap())?, b"else");
    let warning = &told.warnings()[0];
    let said = format!(
        "{:?} is replaced and backed up: error decoding data",
        settings.output
    );
    assert!(warning.starts_with(&said), "{warning}");
    // An unreadable file may contain a key.
    let settings = BrokerSettings {
        output: scene.path("folder"),
        ..scene.settings()
    };
    std::fs::create_dir(&settings.output)?;
    let refused = scene.deploy(&settings, &Silent).await.unwrap_err();
    assert!(matches!(refused, Error::Info(_)), "{refused}");
    Ok(())
}

#[tokio::test]
async fn r54_unreadable_file_stops_before_any_write() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let settings = BrokerSettings {
        info_from: Some(scene.path("absent.subm")),
        ..scene.settings()
    };
    let refused = scene.deploy(&settings, &Silent).await.unwrap_err();
    assert!(
        refused.to_string().starts_with("error reading file"),
        "{refused}"
    );
    assert_eq!(std::fs::read_dir(scene.folder.path())?.count(), 0);
    Ok(())
}

#[tokio::test]
async fn r76_same_broker_is_recognized_by_its_account() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let first = scene.deploy(&scene.settings(), &Silent).await?;
    let key = psk(&first.file)?;
    // The URL for clusters, which differs from the one in use.
    let mut info = BrokerInfo::read(&first.file)?;
    info.url = "https://broker.example:6443".to_owned();
    std::fs::write(&first.file, info.encode())?;
    let second = scene.deploy(&scene.settings(), &Silent).await?;
    assert_eq!((second.psk, psk(&second.file)?), (PskSource::Kept, key));
    Ok(())
}

#[tokio::test]
async fn r69_no_new_key_is_generated_once_clusters_have_joined() -> anyhow::Result<()> {
    for sign in ["Cluster", "allocations"] {
        let scene = Scene::empty().await?;
        let first = scene.deploy(&scene.settings(), &Silent).await?;
        let namespace = first.namespace.as_str();
        let key = psk(&first.file)?;
        let away = scene.path("away.subm");
        std::fs::rename(&first.file, &away)?;
        // No cluster has joined, so none is cut off.
        let second = scene.deploy(&scene.settings(), &Silent).await?;
        assert_eq!(second.psk, PskSource::Generated);
        std::fs::remove_file(&second.file)?;
        match sign {
            "Cluster" => {
                let spec = serde_json::json!({
                    "cluster_id": "east", "cluster_cidr": [], "service_cidr": [],
                    "global_cidr": [],
                });
                let cluster = serde_json::json!({
                    "apiVersion": "submariner.io/v1", "kind": "Cluster",
                    "metadata": {"name": "east", "namespace": namespace}, "spec": spec,
                });
                scene.put("clusters", cluster).await?;
            }
            _ => {
                let place = ("configmaps", namespace, "submariner-clustersetip-info");
                let entry = r#"[{"cluster_id":"east","global_cidr":["243.0.0.0/20"]}]"#;
                let edit = |map: &mut serde_json::Value| map["data"]["clusterinfo"] = entry.into();
                scene.edit(place, edit).await?;
            }
        }
        let refused = scene.deploy(&scene.settings(), &Silent).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "clusters have joined this broker with an unknown IPsec PSK, and a new one would cut them off: east"
        );
        assert_eq!(
            refused.hint().as_deref(),
            Some(
                "pass the file that they joined with as --broker-info-from, or run `subctl recover-broker-info` on one of them; --new-psk generates a new one nevertheless"
            )
        );
        assert!(!scene.settings().output.exists());
        let settings = BrokerSettings {
            info_from: Some(away),
            ..scene.settings()
        };
        let third = scene.deploy(&settings, &Silent).await?;
        assert_eq!(
            (third.psk, psk(&third.file)?),
            (PskSource::Given, key.clone())
        );
        let settings = BrokerSettings {
            new_psk: true,
            ..settings
        };
        let told = Told::default();
        let fourth = scene.deploy(&settings, &told).await?;
        assert_eq!(fourth.psk, PskSource::Generated);
        assert_ne!(psk(&fourth.file)?, key);
        let warned = told.warnings();
        let said =
            "A new IPsec PSK cuts off the clusters that have joined, until they join again: east";
        assert!(warned.iter().any(|line| line == said), "{warned:?}");
    }
    Ok(())
}

#[tokio::test]
async fn unwritable_file_stops_the_deployment() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    std::fs::write(scene.path("file"), "")?;
    for (output, why) in [
        ("file/x.subm", "its parent is not a folder"),
        ("none/x.subm", "No such file or directory (os error 2)"),
    ] {
        let settings = BrokerSettings {
            output: scene.path(output),
            ..scene.settings()
        };
        let refused = scene.deploy(&settings, &Silent).await.unwrap_err();
        let path = scene.path(output);
        assert_eq!(refused.to_string(), format!("cannot write {path:?}: {why}"));
        assert_eq!(
            refused.hint().as_deref(),
            Some("choose another --output-file")
        );
    }
    let keys = scene.server.keys().await?;
    assert!(
        !keys.iter().any(|key| key.contains("submariner")),
        "{keys:?}"
    );
    Ok(())
}
