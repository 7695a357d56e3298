//! Repair of deleted and changed objects.

use std::sync::atomic::Ordering;
use std::time::Duration;

use insula_broker::names::{ADMIN, ADMIN_TOKEN, CLUSTER, TENANT_LABEL};
use insula_broker::tenant::Phase;
use insula_broker::{roles, token};
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::network::Chaos;
use crate::world::{World, eventually, named, namespace, put, ready};

/// Deletes an object and waits until it is recreated.
async fn delete_and_see<K>(api: &Api<K>, name: &str) -> anyhow::Result<K>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let before = api.get(name).await?.uid();
    api.delete(name, &DeleteParams::default()).await?;
    eventually(async || {
        let found = api.get_opt(name).await?;
        Ok(found.filter(|found| found.uid() != before))
    })
    .await
}

/// Changes an object and waits until it is repaired.
async fn change_and_see<K>(
    api: &Api<K>,
    name: &str,
    change: Value,
    is_right: impl Fn(&K) -> bool,
) -> anyhow::Result<()>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let patch = Patch::Merge(change);
    let changed = api.patch(name, &PatchParams::default(), &patch).await?;
    assert!(!is_right(&changed), "{name} was not changed");
    eventually(async || Ok(api.get_opt(name).await?.filter(&is_right).map(drop))).await
}

#[tokio::test]
async fn r79_deleted_objects_are_recreated() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    world.create("acme").await?;
    let first = world.phase("acme", Phase::Provisioned).await?;
    let old = world.as_tenant("acme").await?;
    delete_and_see(&world.inside::<Role>("acme"), ADMIN).await?;
    delete_and_see(&world.inside::<Role>("acme"), CLUSTER).await?;
    delete_and_see(&world.inside::<RoleBinding>("acme"), ADMIN).await?;
    delete_and_see(&world.inside::<Secret>("acme"), ADMIN_TOKEN).await?;
    let account = delete_and_see(&world.inside::<ServiceAccount>("acme"), ADMIN).await?;
    // The token was the old account's: there is a new one for the new account.
    let secrets: Api<Secret> = world.inside("acme");
    eventually(async || {
        let secret = secrets.get_opt(ADMIN_TOKEN).await?;
        let of = |secret: &Secret| {
            secret
                .annotations()
                .get("kubernetes.io/service-account.uid")
                .cloned()
                == account.uid()
        };
        Ok(secret.filter(|secret| of(secret) && token::of(secret).is_some()))
    })
    .await?;
    delete_and_see(&world.namespaces(), &namespace("acme")).await?;
    let last = world
        .tenant("acme", |tenant| {
            ready(tenant).is_some_and(|(is, ..)| is == "True")
        })
        .await?;
    let times = [first, last].map(|tenant| tenant.status.unwrap().provisioned_at);
    assert_eq!(
        times[0], times[1],
        "it is told once when a tenant was first ready"
    );
    let secrets: Api<Secret> = Api::namespaced(old, &namespace("acme"));
    let answer = secrets.get(ADMIN_TOKEN).await;
    assert!(matches!(answer, Err(kube::Error::Api(status)) if status.code == 401));
    Ok(())
}

#[tokio::test]
async fn r79_changed_objects_are_repaired() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    let unlabelled = json!({"metadata": {"labels": {TENANT_LABEL: null, "theirs": "kept"}}});
    let unmanaged = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}}});
    let is_labelled = |labels: &std::collections::BTreeMap<String, String>| {
        labels.get(TENANT_LABEL).is_some_and(|id| id == "acme")
            && labels
                .get("app.kubernetes.io/managed-by")
                .is_some_and(|name| name == "axon-operator")
    };
    for change in [unlabelled, unmanaged] {
        let namespaces = world.namespaces();
        change_and_see(
            &namespaces,
            &namespace("acme"),
            change.clone(),
            |found: &Namespace| is_labelled(found.labels()),
        )
        .await?;
        let accounts: Api<ServiceAccount> = world.inside("acme");
        change_and_see(&accounts, ADMIN, change.clone(), |found| {
            is_labelled(found.labels())
        })
        .await?;
        let secrets: Api<Secret> = world.inside("acme");
        let before = secrets.get(ADMIN_TOKEN).await?;
        change_and_see(&secrets, ADMIN_TOKEN, change.clone(), |found| {
            is_labelled(found.labels())
        })
        .await?;
        let after = secrets.get(ADMIN_TOKEN).await?;
        assert_eq!(
            token::of(&before),
            token::of(&after),
            "a label does not replace a token"
        );
        assert_eq!(after.labels()["theirs"], "kept");
    }
    let roles_there: Api<Role> = world.inside("acme");
    for (name, right) in [
        (ADMIN, roles::tenant_admin(&namespace("acme"))),
        (CLUSTER, roles::cluster()),
    ] {
        let wide = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
        change_and_see(&roles_there, name, wide, |role| {
            role.rules.as_ref() == Some(&right)
        })
        .await?;
    }
    let bindings: Api<RoleBinding> = world.inside("acme");
    let subjects = json!({"subjects": [
        {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "eve"},
    ]});
    change_and_see(&bindings, ADMIN, subjects, |binding| {
        let subjects = binding.subjects.iter().flatten();
        subjects.map(|subject| subject.name.as_str()).eq([ADMIN])
    })
    .await?;
    // Immutable fields require recreation.
    bindings.delete(ADMIN, &DeleteParams::default()).await?;
    let mut other: RoleBinding = named(ADMIN);
    other.role_ref.api_group = Some("rbac.authorization.k8s.io".to_owned());
    other.role_ref.kind = "Role".to_owned();
    other.role_ref.name = CLUSTER.to_owned();
    // The operator may be faster, which is expected here.
    put(&bindings, &other).await.ok();
    eventually(async || {
        let binding = bindings.get_opt(ADMIN).await?;
        Ok(binding
            .filter(|binding| binding.role_ref.name == ADMIN)
            .map(drop))
    })
    .await?;
    world.phase("acme", Phase::Provisioned).await?;
    Ok(())
}

#[tokio::test]
async fn secret_of_another_account_is_recreated() -> anyhow::Result<()> {
    let world = World::new().await?;
    let running = world.start();
    world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    running.stop().await?;
    let secrets: Api<Secret> = world.inside("acme");
    secrets
        .delete(ADMIN_TOKEN, &DeleteParams::default())
        .await?;
    let wrong = token::request("default", named::<Secret>(ADMIN_TOKEN).metadata);
    put(&secrets, &wrong).await?;
    let _running = world.start();
    eventually(async || {
        let secret = secrets.get_opt(ADMIN_TOKEN).await?;
        Ok(secret.filter(|secret| token::is_for(secret, ADMIN) && token::of(secret).is_some()))
    })
    .await?;
    world.phase("acme", Phase::Provisioned).await?;
    Ok(())
}

#[tokio::test]
async fn repeated_repairs_are_rate_limited() -> anyhow::Result<()> {
    let world = World::new().await?;
    let chaos = Chaos::counting();
    let _running = world.start_as("patient", chaos.around(&world.operator));
    world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    let roles: Api<Role> = world.inside("acme");
    let begin = Instant::now();
    let (mut undone, before) = (0_u64, chaos.requests.load(Ordering::SeqCst));
    while begin.elapsed() < Duration::from_secs(4) {
        if roles.get_opt(CLUSTER).await?.is_some() {
            roles.delete(CLUSTER, &DeleteParams::default()).await?;
            undone += 1;
        }
    }
    assert!((1..=6).contains(&undone), "{undone} times in four seconds");
    let requests = chaos.requests.load(Ordering::SeqCst) - before;
    assert!(requests < 200, "{requests} requests in four seconds");
    // The disturbance ends, and the state converges.
    eventually(async || Ok(roles.get_opt(CLUSTER).await?)).await?;
    world.phase("acme", Phase::Provisioned).await?;
    Ok(())
}
