//! The fake Bare Metal Operator, on a server with the definition of hosts.

use std::time::Duration;

use insula_metal3::kinds::host::BareMetalHost;
use insula_testkit::bare_metal::{DIGESTS, ErrorType, FINALIZER, HostData, State, digest};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::world::{HostSide, log_to_test};

const HOST: &str = "pool-a/h0";

/// Returns a patch that provisions a host with Secrets `h0-*`.
fn image() -> Value {
    let secret = |name: &str| json!({"name": format!("h0-{name}"), "namespace": "pool-a"});
    json!({"spec": {
        "online": true,
        "image": {"url": "http://images.test/i", "checksum": "c"},
        "userData": secret("user"), "metaData": secret("meta"), "networkData": secret("network"),
    }})
}

/// Starts a server with the host.
async fn host_side() -> anyhow::Result<HostSide> {
    log_to_test();
    let hosts = HostSide::start().await?;
    hosts.host("pool-a", "h0", json!({})).await?;
    Ok(hosts)
}

/// Returns the operational status, the type and the message of an error.
fn error_of(host: &BareMetalHost) -> [&str; 3] {
    let status = host.status.as_ref().unwrap();
    let kind = status.error_type.as_deref().unwrap_or_default();
    [&status.operational_status, kind, &status.error_message]
}

#[tokio::test]
async fn host_becomes_available_with_its_own_hardware() -> anyhow::Result<()> {
    let hosts = host_side().await?;
    hosts.host("pool-a", "h1", json!({})).await?;
    let path = [
        State::Registering,
        State::Inspecting,
        State::Preparing,
        State::Available,
    ];
    assert_eq!(hosts.bare_metal.path(HOST), path);
    for (name, number) in [("h0", 1), ("h1", 2)] {
        let host = hosts.wait_for_host("pool-a", name, "available").await?;
        assert_eq!(host.finalizers(), [FINALIZER]);
        assert_eq!(error_of(&host), ["OK", "", ""]);
        let status = host.status.unwrap();
        assert!(!status.powered_on);
        assert_eq!(status.provisioning.other["ID"].as_str().unwrap().len(), 36);
        let hardware = status.hardware.unwrap();
        assert_eq!(hardware.hostname, name);
        let nics = hardware.nics.unwrap();
        let nics: Vec<_> = nics
            .iter()
            .map(|nic| [nic.name.as_str(), &nic.mac, &nic.ip])
            .collect();
        let eth0 = [
            format!("52:54:00:00:00:0{number}"),
            format!("10.0.0.{number}"),
        ];
        let eth1 = [
            format!("52:54:00:01:00:0{number}"),
            format!("10.1.0.{number}"),
        ];
        let expected = [["eth0", &eth0[0], &eth0[1]], ["eth1", &eth1[0], &eth1[1]]];
        assert_eq!(nics, expected);
    }
    // Power follows the spec in stable states.
    let on = json!({"spec": {"online": true}});
    hosts.patch::<BareMetalHost>("pool-a", "h0", on).await?;
    hosts
        .wait_until("pool-a", "h0", |host: &BareMetalHost| {
            host.status.as_ref().is_some_and(|status| status.powered_on)
        })
        .await?;
    // The Secret of the management controller is labelled, and the host owns it.
    let secret = hosts.api::<Secret>("pool-a").get("h0-bmc").await?;
    assert_eq!(secret.labels()["environment.metal3.io"], "baremetal");
    assert_eq!(secret.finalizers(), ["baremetalhost.metal3.io/secret"]);
    let owners = secret.owner_references().iter();
    let owners: Vec<_> = owners
        .map(|it| (it.kind.as_str(), it.name.as_str()))
        .collect();
    assert_eq!(owners, [("BareMetalHost", "h0")]);
    Ok(())
}

#[tokio::test]
async fn host_is_provisioned_with_what_its_secrets_contain() -> anyhow::Result<()> {
    let hosts = host_side().await?;
    // The key of the field counts before `value`, and network data may be missing.
    let texts = [("userData", "user"), ("value", "other")];
    hosts.secret("pool-a", "h0-user", &texts).await?;
    hosts
        .secret("pool-a", "h0-network", &[("format", "x")])
        .await?;
    hosts
        .patch::<BareMetalHost>("pool-a", "h0", image())
        .await?;
    let is_failed = |host: &BareMetalHost| {
        let status = host.status.as_ref();
        status.is_some_and(|status| status.operational_status == "error")
    };
    let host = hosts.wait_until("pool-a", "h0", is_failed).await?;
    let missing = "spec.metaData: Secret h0-meta does not exist";
    assert_eq!(error_of(&host), ["error", "provisioning error", missing]);
    assert_eq!(host.status.unwrap().provisioning.state, "provisioning");
    // A Secret without the key is no better.
    hosts.secret("pool-a", "h0-meta", &[("key", "x")]).await?;
    let lacking = "spec.metaData: Secret h0-meta has neither metaData nor value";
    hosts
        .wait_until("pool-a", "h0", |host: &BareMetalHost| {
            error_of(host) == ["error", "provisioning error", lacking]
        })
        .await?;
    hosts
        .replace_secret("pool-a", "h0-meta", &[("value", "meta")])
        .await?;
    let host = hosts.wait_for_host("pool-a", "h0", "provisioned").await?;
    assert_eq!(error_of(&host), ["OK", "", ""]);
    let data = HostData {
        user_data: Some("user".to_owned()),
        meta_data: Some("meta".to_owned()),
        network_data: None,
    };
    assert_eq!(hosts.bare_metal.data(HOST), Some(data));
    let annotations = host.annotations();
    let found = DIGESTS.map(|name| annotations.get(name).cloned());
    assert_eq!(found, [Some(digest("user")), Some(digest("meta")), None]);
    let status = host.status.as_ref().unwrap();
    assert!(status.powered_on);
    let deployed = &status.provisioning.other["image"];
    assert_eq!(deployed["url"], "http://images.test/i");
    for name in ["h0-user", "h0-meta", "h0-network"] {
        let secret = hosts.api::<Secret>("pool-a").get(name).await?;
        assert_eq!(secret.labels()["environment.metal3.io"], "baremetal");
    }

    hosts.bare_metal.hold(State::Deprovisioning);
    let clear = json!({"spec": {"image": null, "online": false}});
    hosts.patch::<BareMetalHost>("pool-a", "h0", clear).await?;
    hosts
        .wait_for_host("pool-a", "h0", "deprovisioning")
        .await?;
    hosts.bare_metal.release();
    let host = hosts.wait_for_host("pool-a", "h0", "available").await?;
    let status = host.status.unwrap();
    assert_eq!(status.provisioning.other.get("image"), None);
    assert!(!status.powered_on);
    hosts.delete::<BareMetalHost>("pool-a", "h0").await?;
    hosts
        .wait_until_gone::<BareMetalHost>("pool-a", "h0")
        .await?;
    let end = [
        State::Provisioning,
        State::Provisioned,
        State::Deprovisioning,
        State::Available,
        State::PoweringOffBeforeDelete,
        State::Deleting,
    ];
    assert_eq!(hosts.bare_metal.path(HOST)[4..], end);
    Ok(())
}

#[tokio::test]
async fn host_obeys_annotations_and_refuses_secrets_of_other_namespaces() -> anyhow::Result<()> {
    let hosts = host_side().await?;
    let foreign = json!({"spec": {"userData": {"name": "s", "namespace": "pool-b"}}});
    hosts
        .patch::<BareMetalHost>("pool-a", "h0", foreign)
        .await?;
    let message =
        "spec.userData.namespace: is pool-b, but only Secrets of namespace pool-a are allowed";
    let expected = ["error", "provisioning error", message];
    hosts
        .wait_until("pool-a", "h0", |host: &BareMetalHost| {
            error_of(host) == expected
        })
        .await?;
    let annotate = |name: &str, value: Value| json!({"metadata": {"annotations": {name: value}}});
    let paused = "baremetalhost.metal3.io/paused";
    let patch = annotate(paused, json!("metal3.io/capm3"));
    hosts.patch::<BareMetalHost>("pool-a", "h0", patch).await?;
    let own = json!({"spec": {"userData": null}});
    let host: BareMetalHost = hosts.patch("pool-a", "h0", own).await?;
    // A paused host is not touched: another one is brought through all states meanwhile.
    hosts.host("pool-a", "h1", json!({})).await?;
    let still = hosts.api::<BareMetalHost>("pool-a").get("h0").await?;
    assert_eq!(still.resource_version(), host.resource_version());
    let patch = annotate(paused, Value::Null);
    hosts.patch::<BareMetalHost>("pool-a", "h0", patch).await?;
    let operational =
        |expected: &'static str| move |host: &BareMetalHost| error_of(host) == [expected, "", ""];
    hosts.wait_until("pool-a", "h0", operational("OK")).await?;
    let detached = "baremetalhost.metal3.io/detached";
    let patch = annotate(detached, json!(""));
    hosts.patch::<BareMetalHost>("pool-a", "h0", patch).await?;
    hosts
        .wait_until("pool-a", "h0", operational("detached"))
        .await?;
    let patch = annotate(detached, Value::Null);
    hosts.patch::<BareMetalHost>("pool-a", "h0", patch).await?;
    hosts.wait_until("pool-a", "h0", operational("OK")).await?;
    Ok(())
}

#[tokio::test]
async fn knobs_hold_and_fail_hosts() -> anyhow::Result<()> {
    let hosts = host_side().await?;
    let bare_metal = &hosts.bare_metal;
    bare_metal.fail(HOST, State::Available, ErrorType::PowerManagement, "broken");
    let failed = ["error", "power management error", "broken"];
    hosts
        .wait_until("pool-a", "h0", |host: &BareMetalHost| {
            error_of(host) == failed
        })
        .await?;
    bare_metal.heal(HOST);
    hosts
        .wait_until("pool-a", "h0", |host: &BareMetalHost| {
            error_of(host) == ["OK", "", ""]
        })
        .await?;
    bare_metal.hold_host(HOST, State::Provisioning);
    bare_metal.delay(State::Provisioning, Duration::from_millis(1));
    let deploy = json!({"spec": {"online": true, "customDeploy": {"method": "m"}}});
    hosts.patch::<BareMetalHost>("pool-a", "h0", deploy).await?;
    hosts.wait_for_host("pool-a", "h0", "provisioning").await?;
    bare_metal.release();
    let host = hosts.wait_for_host("pool-a", "h0", "provisioned").await?;
    let status = host.status.unwrap();
    let method = &status.provisioning.other["customDeploy"];
    assert_eq!(*method, json!({"method": "m"}));
    assert_eq!(bare_metal.data(HOST), Some(HostData::default()));

    // Without a management controller there is nothing to do, and without its Secret neither.
    let host = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "bare", "namespace": "pool-a"}, "spec": {"online": false},
    });
    hosts.put(&host).await?;
    let host = hosts.wait_for_host("pool-a", "bare", "unmanaged").await?;
    assert_eq!(error_of(&host), ["discovered", "", ""]);
    let controller = json!({"spec": {
        "externallyProvisioned": true,
        "bmc": {"address": "ipmi://bare", "credentialsName": "bare-bmc"},
    }});
    hosts
        .patch::<BareMetalHost>("pool-a", "bare", controller)
        .await?;
    let missing = "spec.bmc: Secret bare-bmc does not exist";
    hosts
        .wait_until("pool-a", "bare", |host: &BareMetalHost| {
            error_of(host) == ["error", "registration error", missing]
        })
        .await?;
    let texts = [("username", "u"), ("password", "p")];
    hosts.secret("pool-a", "bare-bmc", &texts).await?;
    hosts
        .wait_for_host("pool-a", "bare", "externally provisioned")
        .await?;
    Ok(())
}
