//! Invalid names, untrusted certificates and deletions give no access, and invalid objects do not
//! affect others.

use insula_testkit::vcenter::FakeVCenter;
use insula_vsphere::kinds::{
    VSphereCluster, VSphereClusterIdentity, VSphereDeploymentZone, VSphereMachine,
};
use insula_vsphere::names::{PAUSED, SECRET_FINALIZER, WATCH_LABEL};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::basics::{accounts, allowed, by_identity, by_secret, message};
use crate::world::{HOME, World, condition, create, delete, gone, patched, until};

/// Returns an entry of `allowedServers` without a thumbprint.
fn only_named(vcenter: &FakeVCenter) -> Value {
    json!([{"address": vcenter.address()}])
}

#[tokio::test]
async fn o03_user_of_a_shared_account_cannot_choose_the_trust() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("shared", "pw"), ("given", "pw")]).await?;
    let _running = world.start();
    let here = world.here();
    world.set_static_credentials("given", "pw", &[&vcenter.address()]);
    here.namespace("a", json!({})).await?;
    here.shared("shared", ("shared", "pw"), only_named(&vcenter))
        .await?;
    let thumbprint = vcenter.thumbprint_sha256();
    let mut spec = by_identity(&vcenter, "shared");
    spec["thumbprint"] = json!(thumbprint);
    here.owned("a", "lent", spec).await?;
    let spec = json!({"server": vcenter.address(), "thumbprint": thumbprint});
    here.owned("a", "given", spec).await?;
    let lent = here
        .wait_for_reason("a", "lent", "CertificateNotTrusted")
        .await?;
    let hint = "its owner has to add the thumbprint to the allowedServers of the identity";
    assert!(message(&lent).ends_with(hint), "{}", message(&lent));
    let given = here
        .wait_for_reason("a", "given", "CertificateNotTrusted")
        .await?;
    let hint = "the operator's administrator has to add the thumbprint to the servers of its credentials file";
    assert!(message(&given).ends_with(hint), "{}", message(&given));
    assert_eq!(vcenter.logins(), []);
    // The owner of the account can pin the certificate.
    let patch = json!({"spec": {"allowedServers": allowed(&vcenter)}});
    here.change_identity("shared", patch).await?;
    here.wait_for_reason("a", "lent", "Available").await?;
    assert_eq!(accounts(&vcenter), ["shared"]);
    Ok(())
}

#[tokio::test]
async fn o03_only_allowed_servers_bounds_namespace_secrets() -> anyhow::Result<()> {
    let world = World::new().await?;
    let good = FakeVCenter::start(&[("own", "pw")]).await?;
    let evil = FakeVCenter::start(&[("own", "pw")]).await?;
    let mut settings = world.settings();
    settings.shell.only_allowed_servers = true;
    settings.shell.default_bound =
        insula_identity::endpoint::AllowedEndpoints::parse(&good.address(), 443)?;
    let _running = world.start_with(settings);
    let here = world.here();
    here.namespace("a", json!({})).await?;
    for name in ["one", "two"] {
        here.account("a", name, ("own", "pw")).await?;
    }
    here.owned("a", "good", by_secret(&good, "one")).await?;
    here.owned("a", "evil", by_secret(&evil, "two")).await?;
    here.wait_for_reason("a", "good", "Available").await?;
    let cluster = here
        .wait_for_reason("a", "evil", "ServerNotAllowed")
        .await?;
    let told = format!(
        "no credential may be sent to {}: ask the operator's administrator to allow this server",
        evil.address()
    );
    assert_eq!(message(&cluster), told);
    assert_eq!(evil.connections(), 0);
    Ok(())
}

#[tokio::test]
async fn secret_without_account_is_never_claimed_or_deleted() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("own", "pw")]).await?;
    let _running = world.start();
    let here = world.here();
    here.namespace("a", json!({})).await?;
    let secrets: Api<Secret> = here.inside("a");
    let texts = json!({"username": "own", "password": "pw"});
    for (name, of_type, texts) in [
        ("login", "kubernetes.io/basic-auth", texts.clone()),
        ("other", "example.com/other", texts.clone()),
        ("kubeconfig", "Opaque", json!({"value": "…"})),
        (
            "empty",
            "Opaque",
            json!({"username": "own", "password": ""}),
        ),
    ] {
        let secret = json!({"metadata": {"name": name}, "type": of_type, "stringData": texts});
        create(&secrets, secret).await?;
        here.owned("a", name, by_secret(&vcenter, name)).await?;
    }
    here.wait_for_reason("a", "kubeconfig", "InvalidCredentials")
        .await?;
    here.wait_for_reason("a", "empty", "InvalidCredentials")
        .await?;
    here.wait_for_reason("a", "login", "Available").await?;
    here.wait_for_reason("a", "other", "Available").await?;
    let clusters: Api<VSphereCluster> = here.inside("a");
    for name in ["login", "other", "kubeconfig", "empty"] {
        assert!(secrets.get(name).await?.owner_references().is_empty());
        delete(&clusters, name).await?;
        gone(&clusters, name).await?;
        let secret = secrets.get(name).await?;
        assert!(secret.metadata.deletion_timestamp.is_none(), "{name}");
        assert!(secret.finalizers().is_empty(), "{name}");
    }
    // A Secret that contains no account any more is released.
    here.account("a", "own", ("own", "pw")).await?;
    here.owned("a", "prod", by_secret(&vcenter, "own")).await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    here.rotate("a", "own", "").await?;
    let is_free = |secret: &Secret| {
        let held = secret
            .finalizers()
            .iter()
            .any(|one| one == SECRET_FINALIZER);
        !held && secret.owner_references().is_empty()
    };
    until(&secrets, "own", is_free).await?;
    delete(&clusters, "prod").await?;
    gone(&clusters, "prod").await?;
    assert!(
        secrets
            .get("own")
            .await?
            .metadata
            .deletion_timestamp
            .is_none()
    );
    // The same holds for the Secret of an identity.
    let token = json!({"metadata": {"name": "token"}, "type": "example.com/other",
        "stringData": texts});
    create(&here.inside::<Secret>(HOME), token).await?;
    here.identity("odd", json!({"secretName": "token"})).await?;
    let identity = here
        .wait_for_identity_reason("odd", "InvalidCredentials")
        .await?;
    let told = condition(&identity.status.as_ref().unwrap().conditions, "Available").unwrap();
    assert_eq!(
        told.message,
        "Secret capv-system/token is of type example.com/other, which cannot contain an account"
    );
    Ok(())
}

#[tokio::test]
async fn o10_invalid_object_does_not_affect_others() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("shared", "pw")]).await?;
    let (one, other) = (world.space(Some("t1")), world.space(Some("t2")));
    for space in [&one, &other] {
        space.namespace(HOME, json!({})).await.ok();
        space.namespace("a", json!({})).await?;
    }
    one.shared("odd", ("shared", "pw"), allowed(&vcenter))
        .await?;
    one.owned("a", "odd", by_identity(&vcenter, "odd")).await?;
    // The schema admits this time, which is invalid for the operator.
    let odd = json!({"status": {"conditions": [{
        "type": "Odd", "status": "True", "reason": "Odd", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00+99:99",
    }]}});
    let (odd, parameters) = (Patch::Merge(odd), PatchParams::default());
    one.all::<VSphereClusterIdentity>()
        .patch_status("odd", &parameters, &odd)
        .await?;
    one.inside::<VSphereCluster>("a")
        .patch_status("odd", &parameters, &odd)
        .await?;
    let _running = world.start();
    for space in [&other, &one] {
        space
            .shared("shared", ("shared", "pw"), allowed(&vcenter))
            .await?;
        space
            .owned("a", "prod", by_identity(&vcenter, "shared"))
            .await?;
        space
            .wait_for_identity_reason("shared", "Available")
            .await?;
        space.wait_for_reason("a", "prod", "Available").await?;
    }
    one.wait_for_identity_reason("odd", "Available").await?;
    one.wait_for_reason("a", "odd", "Available").await?;
    Ok(())
}

#[tokio::test]
async fn c8_disallowed_user_keeps_an_identity_only_with_machines() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("shared", "pw")]).await?;
    let _running = world.start();
    let here = world.here();
    here.namespace("in", json!({"team": "in"})).await?;
    here.namespace("out", json!({})).await?;
    here.account(HOME, "shared", ("shared", "pw")).await?;
    let spec = json!({
        "secretName": "shared", "allowedServers": allowed(&vcenter),
        "allowedNamespaces": {"selector": {"matchLabels": {"team": "in"}}},
    });
    here.identity("shared", spec).await?;
    here.owned("out", "idle", by_identity(&vcenter, "shared"))
        .await?;
    here.wait_for_reason("out", "idle", "NamespaceNotAllowed")
        .await?;
    here.owned("in", "prod", by_identity(&vcenter, "shared"))
        .await?;
    here.wait_for_reason("in", "prod", "Available").await?;
    let machines: Api<VSphereMachine> = here.inside("in");
    let machine = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "VSphereMachine",
        "metadata": {
            "name": "m", "labels": {"cluster.x-k8s.io/cluster-name": "prod"},
            "finalizers": ["example.com/held"],
        },
        "spec": {"template": "ubuntu", "network": {"devices": [{"networkName": "VM Network"}]}},
    });
    create(&machines, machine).await?;
    let identities: Api<VSphereClusterIdentity> = here.all();
    let used_by = |names: &'static [&'static str]| {
        move |identity: &VSphereClusterIdentity| {
            let status = identity.status.as_ref();
            status.is_some_and(|status| {
                status.used_by == names && status.users == Some(names.len() as i64)
            })
        }
    };
    until(&identities, "shared", used_by(&["VSphereCluster in/prod"])).await?;
    // It may not use the identity any more, but still has a machine to clean up.
    let label = json!({"metadata": {"labels": {"team": null}}});
    patched(
        &here.all::<k8s_openapi::api::core::v1::Namespace>(),
        "in",
        label,
    )
    .await?;
    here.wait_for_reason("in", "prod", "NamespaceNotAllowed")
        .await?;
    let touch = json!({"metadata": {"annotations": {"example.com/touched": "1"}}});
    here.change_identity("shared", touch).await?;
    until(&identities, "shared", used_by(&["VSphereCluster in/prod"])).await?;
    patched(&machines, "m", json!({"metadata": {"finalizers": null}})).await?;
    delete(&machines, "m").await.ok();
    until(&identities, "shared", used_by(&[])).await?;
    delete(&identities, "shared").await?;
    gone(&identities, "shared").await
}

#[tokio::test]
async fn invalid_server_makes_an_identity_unavailable() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("shared", "pw")]).await?;
    let _running = world.start();
    let here = world.here();
    let mut servers = allowed(&vcenter);
    let wrong = json!({"address": "127.1"});
    servers.as_array_mut().unwrap().push(wrong);
    here.shared("shared", ("shared", "pw"), servers).await?;
    let identity = here
        .wait_for_identity_reason("shared", "InvalidServers")
        .await?;
    let status = identity.status.unwrap();
    assert_eq!(status.ready, Some(false));
    let told = condition(&status.conditions, "Available").unwrap();
    assert_eq!(
        told.message,
        "spec.allowedServers[1].address: \"127.1\" is no host, and no host with a port"
    );
    let patch = json!({"spec": {"allowedServers": allowed(&vcenter)}});
    here.change_identity("shared", patch).await?;
    here.wait_for_identity_reason("shared", "Available").await?;
    Ok(())
}

#[tokio::test]
async fn paused_zone_uses_no_session() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("shared", "pw")]).await?;
    let _running = world.start();
    let here = world.here();
    here.shared("shared", ("shared", "pw"), allowed(&vcenter))
        .await?;
    here.domain("east", json!({"datacenter": "DC0"})).await?;
    let mut spec = by_identity(&vcenter, "shared");
    spec["failureDomain"] = json!("east");
    here.zone("east", spec).await?;
    let zones: Api<VSphereDeploymentZone> = here.all();
    let is_ready = |zone: &VSphereDeploymentZone| {
        let status = zone.status.as_ref();
        status.is_some_and(|status| status.ready == Some(true))
    };
    until(&zones, "east", is_ready).await?;
    assert_eq!(accounts(&vcenter), ["shared"]);
    let pause = |value: Value| json!({"metadata": {"annotations": {PAUSED: value}}});
    patched(&zones, "east", pause(json!(""))).await?;
    let left = |vcenter: &FakeVCenter| accounts(vcenter).is_empty();
    vcenter.wait_for("no session", left).await?;
    patched(&zones, "east", pause(Value::Null)).await?;
    let again = |vcenter: &FakeVCenter| accounts(vcenter) == ["shared"];
    vcenter.wait_for("a session", again).await
}

#[tokio::test]
async fn object_without_the_watch_label_is_left_and_its_session_closed() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("own", "pw")]).await?;
    let mut settings = world.settings();
    settings.shell.watch_filter = Some("blue".to_owned());
    let _running = world.start_with(settings);
    let here = world.here();
    here.namespace("a", json!({})).await?;
    here.account("a", "own", ("own", "pw")).await?;
    here.owned("a", "prod", by_secret(&vcenter, "own")).await?;
    let label = |value: Value| json!({"metadata": {"labels": {WATCH_LABEL: value}}});
    here.change("a", "prod", label(json!("blue"))).await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    here.change("a", "prod", label(json!("green"))).await?;
    let left = |vcenter: &FakeVCenter| accounts(vcenter).is_empty();
    vcenter.wait_for("no session", left).await?;
    here.change("a", "prod", label(json!("blue"))).await?;
    let again = |vcenter: &FakeVCenter| accounts(vcenter) == ["own"];
    vcenter.wait_for("a session", again).await
}
