//! Deployments interrupted at any request, before it arrives or before its response does.

use insula_broker::deploy::broker::BrokerSettings;
use insula_broker::info::BrokerInfo;
use insula_broker::report::Silent;

use super::fixture::{Scene, psk};
use crate::scene::{Fault, inventory};

/// More requests than any deployment sends.
const ENOUGH: usize = 200;

#[tokio::test]
async fn r76_interrupted_first_deployment_is_completed_by_the_next() -> anyhow::Result<()> {
    first_runs_cut(Fault::Before).await
}

#[tokio::test]
async fn r76_first_deployment_with_lost_responses_is_completed_by_the_next() -> anyhow::Result<()> {
    first_runs_cut(Fault::After).await
}

/// Interrupts a deployment at one request after the other, each followed by a complete one.
async fn first_runs_cut(fault: fn(usize) -> Fault) -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let mut cut = 0;
    for at in 1..ENOUGH {
        let settings = BrokerSettings {
            namespace: Some(format!("n{at}")),
            output: scene.path(&format!("{at}.subm")),
            ..scene.settings()
        };
        let (first, _) = scene.deploy_disturbed(&settings, Some(fault(at))).await?;
        if first.is_ok() {
            break;
        }
        cut += 1;
        assert!(!settings.output.exists(), "{:?}", fault(at));
        scene.deploy(&settings, &Silent).await?;
        let info = BrokerInfo::read(&settings.output)?;
        info.for_join(&settings.output)?;
    }
    // Exactly one object of each.
    let all = inventory(&scene.admin).await?;
    for at in 1..=cut {
        let inside = all.keys().filter(|key| key.contains(&format!(" n{at}/")));
        let inside: Vec<_> = inside.collect();
        assert_eq!(inside.len(), 10, "{:?}: {inside:?}", fault(at));
    }
    assert!(cut > 20, "{cut}");
    Ok(())
}

#[tokio::test]
async fn r76_interrupted_redeployment_keeps_the_file_and_its_key() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    scene.deploy(&scene.settings(), &Silent).await?;
    let settings = BrokerSettings {
        custom_domains: vec!["a.example".to_owned()],
        ..scene.settings()
    };
    let (file, key) = (std::fs::read(&settings.output)?, psk(&settings.output)?);
    for at in 1..ENOUGH {
        let (cut, _) = scene
            .deploy_disturbed(&settings, Some(Fault::After(at)))
            .await?;
        if cut.is_ok() {
            assert!(at > 10, "{at}");
            break;
        }
        assert_eq!(std::fs::read(&settings.output)?, file, "{at}");
        assert_eq!(std::fs::read_dir(scene.folder.path())?.count(), 1, "{at}");
    }
    assert_eq!(psk(&settings.output)?, key);
    Ok(())
}

#[tokio::test]
async fn r76_interrupted_tenant_deployment_is_completed_with_one_key() -> anyhow::Result<()> {
    let scene = Scene::axon().await?;
    let partial = scene.tenant("acme").await?;
    let settings = scene.with_file("broker-info.subm", &partial)?;
    let mut at = 1;
    loop {
        let (cut, _) = scene
            .deploy_disturbed(&settings, Some(Fault::After(at)))
            .await?;
        if cut.is_ok() {
            break;
        }
        assert_eq!(
            std::fs::read_to_string(&settings.output)?,
            partial.encode(),
            "{at}"
        );
        at += 1;
    }
    assert!(at > 10, "{at}");
    let key = psk(&settings.output)?;
    scene.deploy_without_context(&settings, &Silent).await?;
    assert_eq!(psk(&settings.output)?, key);
    Ok(())
}
