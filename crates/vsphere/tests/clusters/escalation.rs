//! Attempts of tenants to use credentials of others. The protected vCenter never sees a
//! connection, and no other server ever receives the protected account.

use insula_testkit::vcenter::FakeVCenter;
use insula_vsphere::kinds::VSphereCluster;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::{Value, json};

use crate::basics::{accounts, allowed, by_secret, message};
use crate::world::{HOME, World, until};

fn at(server: &str, reference: Value) -> Value {
    json!({"server": server, "identityRef": reference})
}

fn identity(name: &str) -> Value {
    json!({"kind": "VSphereClusterIdentity", "name": name})
}

#[tokio::test]
async fn fr5_o02_o03_o05_no_reference_gives_access_to_foreign_accounts() -> anyhow::Result<()> {
    let world = World::new().await?;
    let protected = FakeVCenter::start(&[("shared", "pw"), ("given", "pw")]).await?;
    let evil = FakeVCenter::start(&[("shared", "pw"), ("given", "pw")]).await?;
    let mut settings = world.settings();
    settings.extra_roots = vec![protected.ca_der()?, evil.ca_der()?];
    let _running = world.start_with(settings);
    let here = world.here();
    world.set_static_credentials("given", "pw", &[&protected.address()]);
    here.namespace("mine", json!({"team": "mine"})).await?;
    here.namespace("theirs", json!({})).await?;
    // Another team's identities: for its namespace only, for all, and without servers.
    here.account(HOME, "theirs", ("shared", "pw")).await?;
    let only = json!({"selector": {"matchLabels": {"kubernetes.io/metadata.name": "theirs"}}});
    let spec = json!({
        "secretName": "theirs", "allowedNamespaces": only, "allowedServers": allowed(&protected),
    });
    here.identity("theirs", spec).await?;
    here.shared("all", ("shared", "pw"), allowed(&protected))
        .await?;
    here.account(HOME, "unbound", ("shared", "pw")).await?;
    let spec = json!({"secretName": "unbound", "allowedNamespaces": {}});
    here.identity("unbound", spec).await?;
    let spec = json!({"secretName": "theirs", "allowedNamespaces": {}});
    here.identity("thief", spec).await?;
    here.account("theirs", "own", ("shared", "pw")).await?;
    for name in ["theirs", "all", "unbound"] {
        here.wait_for_identity_reason(name, "Available").await?;
    }
    here.wait_for_identity_reason("thief", "SecretAlreadyInUse")
        .await?;
    // A Secret of the own namespace that another team's cluster has claimed.
    here.account("mine", "taken", ("shared", "pw")).await?;
    here.cluster("mine", "first", by_secret(&evil, "taken"))
        .await?;
    here.wait_for_reason("mine", "first", "Available").await?;
    evil.clear_log();

    let (good, bad) = (protected.address(), evil.address());
    let secret = |name: &str| json!({"kind": "Secret", "name": name});
    let table = [
        (
            "one-of-theirs",
            at(&good, identity("theirs")),
            "NamespaceNotAllowed",
        ),
        (
            "taken-by-another",
            at(&good, identity("thief")),
            "IdentityNotReady",
        ),
        (
            "not-there",
            at(&good, identity("nobody")),
            "IdentityNotFound",
        ),
        ("evil-server", at(&bad, identity("all")), "ServerNotAllowed"),
        (
            "evil-by-name",
            at(&evil.other_address(), identity("all")),
            "ServerNotAllowed",
        ),
        (
            "nothing-said",
            at(&good, identity("unbound")),
            "ServerNotAllowed",
        ),
        ("given-to-evil", json!({"server": bad}), "ServerNotAllowed"),
        (
            "of-elsewhere",
            at(&good, secret("own")),
            "SecretNotAvailable",
        ),
        ("of-home", at(&good, secret("theirs")), "SecretNotAvailable"),
        ("held", at(&good, secret("taken")), "SecretInUse"),
        (
            "odd",
            at("https://evil/sdk", identity("all")),
            "ServerNotAllowed",
        ),
        (
            "user",
            at(&format!("me@{bad}"), identity("all")),
            "ServerNotAllowed",
        ),
    ];
    for (name, spec, _) in &table {
        // The schema may refuse an invalid spec before the operator sees it.
        if here.owned("mine", name, spec.clone()).await.is_err() {
            assert!(matches!(*name, "odd" | "user"), "{name}");
        }
    }
    for (name, _, reason) in &table {
        let clusters: Api<VSphereCluster> = here.inside("mine");
        if clusters.get_opt(name).await?.is_none() {
            continue;
        }
        let cluster = here.wait_for_reason("mine", name, reason).await?;
        let status = cluster.status.as_ref().unwrap();
        assert!(status.initialization.is_none(), "{name}");
        let text = serde_json::to_string(&cluster)?;
        assert!(!text.contains("\"pw\""), "{name}");
        assert!(!message(&cluster).contains("pw"), "{name}");
    }
    assert_eq!(protected.connections(), 0);
    assert_eq!(evil.logins(), []);
    Ok(())
}

#[tokio::test]
async fn o05_broken_reference_never_falls_back_to_static_credentials() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("own", "pw"), ("given", "pw")]).await?;
    let mut settings = world.settings();
    settings.extra_roots = vec![vcenter.ca_der()?];
    let _running = world.start_with(settings);
    let here = world.here();
    world.set_static_credentials("given", "pw", &[&vcenter.address()]);
    here.namespace("a", json!({})).await?;
    here.shared("shared", ("own", "pw"), allowed(&vcenter))
        .await?;
    here.owned("a", "prod", at(&vcenter.address(), identity("shared")))
        .await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    // From now on its Secret contains another account.
    let secrets: Api<Secret> = here.inside(HOME);
    kube::Api::delete(&secrets, "shared", &Default::default()).await?;
    let patch = json!({"metadata": {"finalizers": null}});
    crate::world::patched(&secrets, "shared", patch).await?;
    here.wait_for_reason("a", "prod", "IdentityNotReady")
        .await?;
    let left = |vcenter: &FakeVCenter| accounts(vcenter).is_empty();
    vcenter.wait_for("no session", left).await?;
    assert!(vcenter.logins().iter().all(|login| login.account == "own"));
    Ok(())
}

#[tokio::test]
async fn x8_zone_uses_only_the_identity_that_it_references() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("theirs", "pw"), ("zones", "pw")]).await?;
    let _running = world.start();
    let here = world.here();
    here.namespace("a", json!({})).await?;
    here.shared("theirs", ("theirs", "pw"), allowed(&vcenter))
        .await?;
    here.owned("a", "prod", at(&vcenter.address(), identity("theirs")))
        .await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    vcenter.clear_log();
    here.domain("east", json!({"datacenter": "DC0"})).await?;
    let spec = json!({"server": vcenter.address(), "failureDomain": "east"});
    here.zone("east", spec).await?;
    let is = |reason: &'static str| {
        move |zone: &insula_vsphere::kinds::VSphereDeploymentZone| {
            let status = zone.status.as_ref();
            let told = status
                .and_then(|status| crate::world::condition(&status.conditions, "VCenterAvailable"));
            told.is_some_and(|told| told.reason == reason)
        }
    };
    let zone = until(&here.all(), "east", is("NoCredentials")).await?;
    assert_eq!(zone.status.unwrap().ready, Some(false));
    assert_eq!(vcenter.logins(), []);
    // A referenced identity is used, and counts its user.
    let spec = json!({"secretName": "zones", "allowedServers": allowed(&vcenter)});
    here.account(HOME, "zones", ("zones", "pw")).await?;
    here.identity("zones", spec).await?;
    let patch = json!({"spec": {"identityRef": identity("zones")}});
    let zones: Api<insula_vsphere::kinds::VSphereDeploymentZone> = here.all();
    crate::world::patched(&zones, "east", patch).await?;
    let zone = until(&zones, "east", is("Available")).await?;
    assert_eq!(zone.status.unwrap().ready, Some(true));
    assert!(
        vcenter
            .logins()
            .iter()
            .all(|login| login.account == "zones")
    );
    until(
        &here.all(),
        "zones",
        |identity: &insula_vsphere::kinds::VSphereClusterIdentity| {
            let status = identity.status.as_ref();
            status.is_some_and(|status| status.used_by == ["VSphereDeploymentZone east"])
        },
    )
    .await?;
    Ok(())
}
