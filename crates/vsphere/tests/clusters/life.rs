//! Pausing, leader election, and operators that work on a part of the objects only.

use insula_capi as capi;
use insula_testkit::vcenter::FakeVCenter;
use insula_vsphere::kinds::{VSphereCluster, VSphereClusterIdentity, VSphereDeploymentZone};
use insula_vsphere::names;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::basics::{accounts, allowed, by_identity, by_secret};
use crate::world::{World, condition, conditions, delete, eventually, gone, patched, until};

fn paused(cluster: &VSphereCluster) -> Option<(&str, &str)> {
    let told = condition(conditions(cluster), "Paused")?;
    Some((&told.status, &told.message))
}

#[tokio::test]
async fn paused_objects_are_not_reconciled_and_keep_finalizers() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("own", "pw")]).await?;
    let _running = world.start();
    let here = world.here();
    here.namespace("a", json!({})).await?;
    here.account("a", "own", ("own", "pw")).await?;
    here.owned("a", "prod", by_secret(&vcenter, "own")).await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    let owners: Api<capi::Cluster> = here.inside("a");
    patched(&owners, "prod", json!({"spec": {"paused": true}})).await?;
    let by_cluster = Some(("True", "Cluster spec.paused is set to true"));
    here.wait_for_cluster("a", "prod", |cluster| paused(cluster) == by_cluster)
        .await?;
    // A paused object uses no session.
    let left = |vcenter: &FakeVCenter| accounts(vcenter).is_empty();
    vcenter.wait_for("no session", left).await?;
    // Neither changes nor a deletion have an effect.
    vcenter.clear_log();
    let annotated = |value: Value| json!({"metadata": {"annotations": {names::PAUSED: value}}});
    here.change("a", "prod", annotated(json!(""))).await?;
    let both = "Cluster spec.paused is set to true, \
                VSphereCluster has the cluster.x-k8s.io/paused annotation";
    here.wait_for_cluster("a", "prod", |cluster| {
        paused(cluster) == Some(("True", both))
    })
    .await?;
    here.change("a", "prod", json!({"spec": {"identityRef": null}}))
        .await?;
    let clusters: Api<VSphereCluster> = here.inside("a");
    delete(&clusters, "prod").await?;
    patched(&owners, "prod", json!({"spec": {"paused": false}})).await?;
    let by_itself = "VSphereCluster has the cluster.x-k8s.io/paused annotation";
    let cluster = here
        .wait_for_cluster("a", "prod", |cluster| {
            let told = condition(conditions(cluster), "Paused");
            paused(cluster) == Some(("True", by_itself))
                && told.and_then(|told| told.observed_generation) == cluster.metadata.generation
        })
        .await?;
    let told = condition(conditions(&cluster), "VCenterAvailable").unwrap();
    assert_eq!(told.reason, "Available");
    assert_eq!(vcenter.logins(), []);
    here.change("a", "prod", annotated(Value::Null)).await?;
    gone(&clusters, "prod").await
}

#[tokio::test]
async fn externally_managed_cluster_is_not_reconciled() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("own", "pw")]).await?;
    let here = world.here();
    here.namespace("a", json!({})).await?;
    here.account("a", "own", ("own", "pw")).await?;
    here.owned("a", "theirs", by_secret(&vcenter, "own"))
        .await?;
    let theirs = json!({"metadata": {"annotations": {names::MANAGED_BY: "terraform"}}});
    here.change("a", "theirs", theirs).await?;
    let _running = world.start();
    here.account("a", "other", ("own", "pw")).await?;
    here.owned("a", "ours", by_secret(&vcenter, "other"))
        .await?;
    here.wait_for_reason("a", "ours", "Available").await?;
    let cluster = here.inside::<VSphereCluster>("a").get("theirs").await?;
    assert_eq!(cluster.status, None);
    assert!(cluster.finalizers().is_empty());
    // Without the annotation the cluster is reconciled; after that it is also cleaned up when the
    // annotation comes back.
    let by = |value: Value| json!({"metadata": {"annotations": {names::MANAGED_BY: value}}});
    here.change("a", "theirs", by(Value::Null)).await?;
    here.wait_for_reason("a", "theirs", "Available").await?;
    here.change("a", "theirs", by(json!("terraform"))).await?;
    let one = |vcenter: &FakeVCenter| accounts(vcenter).len() == 1;
    vcenter.wait_for("its session is given back", one).await?;
    let clusters: Api<VSphereCluster> = here.inside("a");
    delete(&clusters, "theirs").await?;
    gone(&clusters, "theirs").await
}

#[tokio::test]
async fn lost_leadership_closes_all_sessions() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("own", "pw")]).await?;
    let settings = || {
        let mut settings = world.settings();
        settings.shell.leader_elect = true;
        settings
    };
    let first = world.start_with(settings());
    let here = world.here();
    eventually(async || Ok(first.health.is_leader().then_some(()))).await?;
    let second = world.start_with(settings());
    here.namespace("a", json!({})).await?;
    here.account("a", "own", ("own", "pw")).await?;
    here.owned("a", "prod", by_secret(&vcenter, "own")).await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    assert_eq!(vcenter.logins().len(), 1);
    assert!(!second.health.is_leader());
    // The Lease is taken away: the operator stops and logs out.
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> = here.inside("capv-system");
    let other = json!({"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 3600}});
    patched(&leases, names::LEASE, other).await?;
    eventually(async || Ok((!first.health.is_leader()).then_some(()))).await?;
    let left = |vcenter: &FakeVCenter| accounts(vcenter).is_empty();
    vcenter.wait_for("no session", left).await?;
    let free = json!({"spec": {"holderIdentity": ""}});
    patched(&leases, names::LEASE, free).await?;
    let again = |vcenter: &FakeVCenter| accounts(vcenter) == ["own"];
    vcenter.wait_for("a session", again).await?;
    first.stop().await?;
    second.stop().await?;
    assert_eq!(accounts(&vcenter), Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn operator_respects_namespaces_and_watch_filter() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("shared", "pw")]).await?;
    let here = world.here();
    here.shared("shared", ("shared", "pw"), allowed(&vcenter))
        .await?;
    for namespace in ["a", "b", "c"] {
        here.namespace(namespace, json!({})).await?;
        here.owned(namespace, "prod", by_identity(&vcenter, "shared"))
            .await?;
    }
    // As with a stock Kubernetes, which has no spaces.
    let mut settings = world.settings();
    settings.shell.tenants = false;
    settings.shell.namespaces = ["a".to_owned(), "b".to_owned()].into();
    let running = world.start_with(settings);
    here.wait_for_reason("a", "prod", "Available").await?;
    here.wait_for_reason("b", "prod", "Available").await?;
    // Secrets of identities are watched, whatever the namespaces of the operator are.
    vcenter.set_password("shared", "new");
    let logins = vcenter.logins().len();
    here.rotate(crate::world::HOME, "shared", "new").await?;
    let again = |vcenter: &FakeVCenter| vcenter.logins().len() > logins;
    vcenter.wait_for("the new password", again).await?;
    let clusters: Api<VSphereCluster> = here.inside("c");
    assert_eq!(clusters.get("prod").await?.status, None);
    running.stop().await?;

    let label = json!({"metadata": {"labels": {names::WATCH_LABEL: "blue"}}});
    here.change("c", "prod", label).await?;
    let mut settings = world.settings();
    settings.shell.watch_filter = Some("blue".to_owned());
    let _running = world.start_with(settings);
    here.wait_for_reason("c", "prod", "Available").await?;
    // An identity without the label is not reconciled, but its changes are watched.
    let no_namespace = json!({"spec": {"allowedNamespaces": null}});
    here.change_identity("shared", no_namespace).await?;
    here.wait_for_reason("c", "prod", "NamespaceNotAllowed")
        .await?;
    let identity = here.all::<VSphereClusterIdentity>().get("shared").await?;
    let told = identity.status.unwrap();
    let told = condition(&told.conditions, "Available").unwrap();
    assert_ne!(told.observed_generation, identity.metadata.generation);
    Ok(())
}

#[tokio::test]
async fn zones_report_missing_objects_and_clusters_use_ready_zones() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("shared", "pw")]).await?;
    let mut settings = world.settings();
    settings.shell.resync = std::time::Duration::from_secs(1);
    let _running = world.start_with(settings);
    let here = world.here();
    here.shared("shared", ("shared", "pw"), allowed(&vcenter))
        .await?;
    here.namespace("a", json!({})).await?;
    let topology = json!({
        "datacenter": "DC0", "computeCluster": "DC0_C0", "datastore": "LocalDS_0",
        "networks": ["VM Network"],
    });
    here.domain("east", topology).await?;
    let zone = |domain: &str, constraint: Value| {
        json!({
            "server": vcenter.address(), "failureDomain": domain, "controlPlane": true,
            "placementConstraint": constraint,
            "identityRef": {"kind": "VSphereClusterIdentity", "name": "shared"},
        })
    };
    here.zone("one", zone("east", json!({}))).await?;
    here.zone("two", zone("west", json!({}))).await?;
    let folder = json!({"folder": "/DC0/vm/team", "resourcePool": "/DC0/host/DC0_C0/Resources"});
    here.zone("three", zone("east", folder)).await?;
    let mut spec = by_identity(&vcenter, "shared");
    spec["failureDomainSelector"] = json!({});
    here.owned("a", "prod", spec).await?;
    let zones: Api<VSphereDeploymentZone> = here.all();
    let says = |kind: &'static str, text: &'static str| {
        move |zone: &VSphereDeploymentZone| {
            let status = zone.status.as_ref();
            let told = status.and_then(|status| condition(&status.conditions, kind));
            told.is_some_and(|told| told.message.contains(text))
        }
    };
    let is_ready = |zone: &VSphereDeploymentZone| {
        zone.status
            .as_ref()
            .is_some_and(|status| status.ready == Some(true))
    };
    until(&zones, "one", is_ready).await?;
    let two = until(&zones, "two", says("FailureDomainValidated", "west")).await?;
    assert_eq!(two.status.unwrap().ready, Some(false));
    until(&zones, "three", says("PlacementConstraintReady", "team")).await?;
    let cluster = here
        .wait_for_cluster("a", "prod", |cluster| {
            let told = condition(conditions(cluster), "FailureDomainsReady");
            let message = "One or more failure domains are not ready";
            let domains = cluster
                .status
                .as_ref()
                .map(|status| &status.failure_domains);
            // Before its zone is ready, the message is the same.
            domains.is_some_and(|domains| !domains.is_empty())
                && told.is_some_and(|told| told.message == message)
        })
        .await?;
    let status = cluster.status.as_ref().unwrap();
    let names: Vec<_> = status
        .failure_domains
        .iter()
        .map(|domain| &*domain.name)
        .collect();
    assert_eq!(names, ["one"]);
    let ready = condition(conditions(&cluster), "Ready").unwrap();
    assert_eq!(
        (&*ready.reason, &*ready.message),
        (
            "NotReady",
            "* FailureDomainsReady: One or more failure domains are not ready"
        )
    );
    // Fixes are noticed: objects of the API server at once, the inventory after a while.
    here.domain("west", json!({"datacenter": "DC0"})).await?;
    until(&zones, "two", is_ready).await?;
    vcenter.add_folder("/DC0/vm/team");
    until(&zones, "three", is_ready).await?;
    here.wait_for_cluster("a", "prod", |cluster| {
        let status = cluster.status.as_ref();
        status.is_some_and(|status| status.failure_domains.len() == 3)
    })
    .await?;
    Ok(())
}
