//! Deletion of tenants.

use insula_broker::names::{ADMIN, ADMIN_TOKEN, FINALIZER, TENANT_UID};
use insula_broker::tenant::{Phase, Tenant};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::world::{World, eventually, named, namespace, phase_of, put, ready};

/// Returns the response codes of reads that every tenant's administrator may do.
pub async fn answered(client: &Client, id: &str) -> u16 {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace(id));
    match secrets.list(&ListParams::default()).await {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{error}"),
    }
}

pub async fn add_finalizer(world: &World, id: &str) -> anyhow::Result<()> {
    let mut held = named::<ConfigMap>("held");
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    put(&world.inside(id), &held).await
}

pub async fn let_go(world: &World, id: &str) -> anyhow::Result<()> {
    let maps: Api<ConfigMap> = world.inside(id);
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("held", &PatchParams::default(), &free).await?;
    Ok(())
}

#[tokio::test]
async fn r44_r46_r47_deletion_removes_everything_and_revokes_the_token() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    for id in ["acme", "other"] {
        world.create(id).await?;
        world.phase(id, Phase::Provisioned).await?;
    }
    let (old, other) = (
        world.as_tenant("acme").await?,
        world.as_tenant("other").await?,
    );
    assert_eq!(answered(&old, "acme").await, 200);
    put(&world.inside("acme"), &named::<ConfigMap>("mine")).await?;
    put(&world.inside("acme"), &named::<Secret>("mine")).await?;
    put(
        &world.inside("acme"),
        &named::<ServiceAccount>("cluster-east"),
    )
    .await?;

    world.delete("acme").await?;
    world.gone("acme").await?;
    assert!(
        world
            .namespaces()
            .get_opt(&namespace("acme"))
            .await?
            .is_none()
    );
    assert_eq!(answered(&old, "acme").await, 401);
    assert_eq!(answered(&other, "other").await, 200);
    assert_eq!(
        phase_of(&world.tenants().get("other").await?),
        Some(Phase::Provisioned)
    );

    world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    assert_eq!(
        answered(&old, "acme").await,
        401,
        "the old token, for a new tenant"
    );
    assert_eq!(answered(&world.as_tenant("acme").await?, "acme").await, 200);
    assert!(
        world
            .inside::<ConfigMap>("acme")
            .get_opt("mine")
            .await?
            .is_none()
    );
    Ok(())
}

#[tokio::test]
async fn r45_blocked_deletion_is_reported_with_the_token_revoked() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    let old = world.as_tenant("acme").await?;
    add_finalizer(&world, "acme").await?;
    // A finalizer does not keep the token valid.
    for credential in ["secrets", "serviceaccounts"] {
        let name = match credential {
            "secrets" => ADMIN_TOKEN,
            _ => ADMIN,
        };
        let held = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/keep"]}}));
        let parameters = PatchParams::default();
        match credential {
            "secrets" => drop(
                world
                    .inside::<Secret>("acme")
                    .patch(name, &parameters, &held)
                    .await?,
            ),
            _ => drop(
                world
                    .inside::<ServiceAccount>("acme")
                    .patch(name, &parameters, &held)
                    .await?,
            ),
        }
    }
    world.delete("acme").await?;
    let tenant = world
        .tenant("acme", |tenant| {
            ready(tenant).is_some_and(|(_, _, message)| message.contains("example.com/hold"))
        })
        .await?;
    assert_eq!(phase_of(&tenant), Some(Phase::Deleting));
    let (is, reason, message) = ready(&tenant).unwrap();
    assert_eq!((is, reason), ("False", "Deleting"));
    assert!(
        message.starts_with("namespace submariner-broker-acme is blocked: "),
        "{message}"
    );
    assert_eq!(answered(&old, "acme").await, 401);
    assert!(
        world
            .inside::<ServiceAccount>("acme")
            .get_opt(ADMIN)
            .await?
            .is_none()
    );

    // A blocked tenant does not block others.
    world.create("other").await?;
    world.phase("other", Phase::Provisioned).await?;
    let_go(&world, "acme").await?;
    world.gone("acme").await
}

#[tokio::test]
async fn r48_tenant_can_be_deleted_in_any_phase() -> anyhow::Result<()> {
    let world = World::new().await?;
    // It was never provisioned, so it is deleted at once.
    world.create("unseen").await?;
    world.delete("unseen").await?;
    world.gone("unseen").await?;

    put(
        &world.namespaces(),
        &named::<Namespace>(&namespace("failed")),
    )
    .await?;
    let running = world.start();
    world.create("failed").await?;
    world.phase("failed", Phase::Failed).await?;
    world.delete("failed").await?;
    world.gone("failed").await?;
    assert!(
        world
            .namespaces()
            .get_opt(&namespace("failed"))
            .await?
            .is_some(),
        "r49: it was not its own"
    );

    world.create("hasty").await?;
    world
        .tenant("hasty", |tenant| !tenant.finalizers().is_empty())
        .await?;
    world.delete("hasty").await?;
    world.gone("hasty").await?;
    assert!(
        world
            .namespaces()
            .get_opt(&namespace("hasty"))
            .await?
            .is_none()
    );

    world.create("later").await?;
    world.phase("later", Phase::Provisioned).await?;
    running.stop().await?;
    world.delete("later").await?;
    let going = world.tenants().get("later").await?;
    assert_eq!(going.finalizers(), [FINALIZER]);
    let _running = world.start();
    world.gone("later").await?;
    assert!(
        world
            .namespaces()
            .get_opt(&namespace("later"))
            .await?
            .is_none()
    );
    Ok(())
}

#[tokio::test]
async fn r49_namespace_of_another_owner_survives() -> anyhow::Result<()> {
    let world = World::new().await?;
    let running = world.start();
    world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    running.stop().await?;
    let theirs = Patch::Merge(json!({"metadata": {"annotations": {TENANT_UID: "another"}}}));
    world
        .namespaces()
        .patch(&namespace("acme"), &PatchParams::default(), &theirs)
        .await?;
    let _running = world.start();
    world.phase("acme", Phase::Failed).await?;
    world.delete("acme").await?;
    world.gone("acme").await?;
    let kept = world.namespaces().get(&namespace("acme")).await?;
    assert_eq!(kept.metadata.deletion_timestamp, None);
    assert!(
        world
            .inside::<RoleBinding>("acme")
            .get_opt(ADMIN)
            .await?
            .is_some()
    );
    Ok(())
}

#[tokio::test]
async fn recreated_tenant_inherits_nothing() -> anyhow::Result<()> {
    let world = World::new().await?;
    let running = world.start();
    let first = world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    running.stop().await?;
    // Forced deletion: the finalizer is removed without cleanup.
    world.delete("acme").await?;
    let force = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    world
        .tenants()
        .patch("acme", &PatchParams::default(), &force)
        .await?;
    world.gone("acme").await?;
    let second: Tenant = world.create("acme").await?;
    assert_ne!(first.uid(), second.uid());
    let _running = world.start();
    let tenant = world.phase("acme", Phase::Failed).await?;
    assert_eq!(ready(&tenant).unwrap().1, "NamespaceNotOurs");
    world
        .namespaces()
        .delete(&namespace("acme"), &DeleteParams::default())
        .await?;
    world.phase("acme", Phase::Provisioned).await?;
    let found = eventually(async || Ok(world.namespaces().get_opt(&namespace("acme")).await?));
    assert_eq!(
        found.await?.annotations()[TENANT_UID],
        second.uid().unwrap()
    );
    Ok(())
}
