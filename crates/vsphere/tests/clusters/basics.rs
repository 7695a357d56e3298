//! Which credentials clusters get, and their conditions.

use insula_testkit::vcenter::FakeVCenter;
use insula_vsphere::kinds::{VSphereCluster, VSphereClusterIdentity};
use insula_vsphere::names::{CLUSTER_FINALIZER, IDENTITY_FINALIZER, SECRET_FINALIZER};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::world::{HOME, Space, World, condition, conditions, until};

/// Returns the accounts that have a session.
pub fn accounts(vcenter: &FakeVCenter) -> Vec<String> {
    let open = vcenter.open_sessions();
    open.into_iter().map(|session| session.account).collect()
}

/// Returns an entry of `allowedServers` with the thumbprint.
pub fn allowed(vcenter: &FakeVCenter) -> Value {
    json!([{"address": vcenter.address(), "thumbprint": vcenter.thumbprint_sha1()}])
}

pub fn by_identity(vcenter: &FakeVCenter, name: &str) -> Value {
    json!({
        "server": vcenter.address(),
        "identityRef": {"kind": "VSphereClusterIdentity", "name": name},
    })
}

pub fn by_secret(vcenter: &FakeVCenter, name: &str) -> Value {
    json!({
        "server": vcenter.address(), "thumbprint": vcenter.thumbprint_sha256(),
        "identityRef": {"kind": "Secret", "name": name},
    })
}

/// Returns the message of a cluster's vCenter condition.
pub fn message(cluster: &VSphereCluster) -> &str {
    let told = condition(conditions(cluster), "VCenterAvailable");
    told.map_or("", |told| &told.message)
}

async fn is_held(space: &Space, namespace: &str, name: &str, by: &str) -> anyhow::Result<Secret> {
    let secrets: Api<Secret> = space.inside(namespace);
    until(&secrets, name, |secret| {
        let held = secret
            .finalizers()
            .iter()
            .any(|held| held == SECRET_FINALIZER);
        let owners = secret.owner_references().iter();
        held && owners.filter(|owner| owner.kind == by).count() == 1
    })
    .await
}

#[tokio::test]
async fn fr1_c1_t1_identity_gives_a_cluster_its_account_and_claims_its_secret() -> anyhow::Result<()>
{
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("shared", "pw")]).await?;
    vcenter.version("8.0.2");
    let _running = world.start();
    let here = world.here();
    here.shared("shared", ("shared", "pw"), allowed(&vcenter))
        .await?;
    here.namespace("a", json!({})).await?;
    here.owned("a", "prod", by_identity(&vcenter, "shared"))
        .await?;

    let cluster = here.wait_for_reason("a", "prod", "Available").await?;
    let status = cluster.status.clone().unwrap();
    assert_eq!(status.ready, Some(true));
    assert_eq!(status.initialization.unwrap().provisioned, Some(true));
    assert_eq!(status.v_center_version.as_deref(), Some("8.0.2"));
    assert!(
        cluster
            .finalizers()
            .iter()
            .any(|held| held == CLUSTER_FINALIZER)
    );
    for (kind, status, reason) in [
        ("Ready", "True", "Ready"),
        ("VCenterAvailable", "True", "Available"),
        ("Paused", "False", "NotPaused"),
    ] {
        let told = condition(conditions(&cluster), kind).unwrap();
        assert_eq!((&*told.status, &*told.reason), (status, reason), "{kind}");
        assert_eq!(told.observed_generation, cluster.metadata.generation);
    }
    let identity = until(
        &here.all(),
        "shared",
        |identity: &VSphereClusterIdentity| {
            identity
                .status
                .as_ref()
                .is_some_and(|status| status.users == Some(1))
        },
    )
    .await?;
    let status = identity.status.clone().unwrap();
    assert_eq!(status.ready, Some(true));
    assert_eq!(status.used_by, ["VSphereCluster a/prod"]);
    assert!(
        identity
            .finalizers()
            .iter()
            .any(|held| held == IDENTITY_FINALIZER)
    );
    let secret = is_held(&here, HOME, "shared", "VSphereClusterIdentity").await?;
    assert_eq!(secret.owner_references()[0].uid, identity.uid().unwrap());
    assert_eq!(accounts(&vcenter), ["shared"]);
    here.event("a", "prod", "Available").await?;
    Ok(())
}

#[tokio::test]
async fn fr2_t2_secret_of_the_namespace_is_used_and_claimed() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("own", "pw")]).await?;
    let _running = world.start();
    let here = world.here();
    here.namespace("a", json!({})).await?;
    here.account("a", "own", ("own", "pw")).await?;
    let cluster = here.owned("a", "prod", by_secret(&vcenter, "own")).await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    let secret = is_held(&here, "a", "own", "VSphereCluster").await?;
    assert_eq!(secret.owner_references()[0].uid, cluster.uid().unwrap());
    assert_eq!(accounts(&vcenter), ["own"]);
    Ok(())
}

#[tokio::test]
async fn fr3_c5_u1_g3_s3_cluster_without_reference_uses_static_credentials() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("one", "pw"), ("two", "pw")]).await?;
    let mut settings = world.settings();
    settings.extra_roots = vec![vcenter.ca_der()?];
    let _running = world.start_with(settings);
    let here = world.here();
    here.namespace("a", json!({})).await?;
    let server = json!({"server": vcenter.address()});
    here.owned("a", "prod", server.clone()).await?;
    let cluster = here.wait_for_reason("a", "prod", "NoCredentials").await?;
    assert!(cluster.status.unwrap().initialization.is_none());
    assert_eq!(vcenter.connections(), 0);

    world.set_static_credentials("one", "pw", &[&vcenter.address()]);
    let cluster = here.wait_for_reason("a", "prod", "Available").await?;
    // The spec is unchanged.
    assert_eq!(serde_json::to_value(&cluster.spec)?, server);
    assert_eq!(accounts(&vcenter), ["one"]);

    world.set_static_credentials("two", "pw", &[&vcenter.address()]);
    let changed = |vcenter: &FakeVCenter| accounts(vcenter) == ["two"];
    vcenter.wait_for("the other account", changed).await?;

    // The system's static credentials are not for tenants.
    let tenant = world.space(Some("t1"));
    tenant.namespace("a", json!({})).await?;
    vcenter.clear_log();
    tenant.owned("a", "prod", server).await?;
    tenant.wait_for_reason("a", "prod", "NoCredentials").await?;
    assert_eq!(vcenter.logins(), []);
    Ok(())
}

#[tokio::test]
async fn cluster_without_owner_is_checked_and_never_provisioned() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("own", "pw")]).await?;
    let _running = world.start();
    let here = world.here();
    here.namespace("a", json!({})).await?;
    here.account("a", "own", ("own", "pw")).await?;
    here.cluster("a", "prod", by_secret(&vcenter, "own"))
        .await?;
    let cluster: VSphereCluster = here.wait_for_reason("a", "prod", "Available").await?;
    let status = cluster.status.unwrap();
    assert_eq!((status.ready, status.initialization), (None, None));
    Ok(())
}
