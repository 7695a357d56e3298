//! The quota of a tenant's namespace.

use std::collections::BTreeMap;

use insula_broker::names::{AXON, CLUSTER, QUOTA};
use insula_broker::quota::{DEFAULTS, effective};
use insula_broker::tenant::{Phase, TenantSpec};
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use serde_json::json;

use crate::world::{World, eventually, named, namespace, put, ready};

/// The amounts of a tenant's quota, as text.
async fn hard(world: &World, id: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let quotas: Api<ResourceQuota> = world.inside(id);
    let hard = quotas.get(QUOTA).await?.spec.and_then(|spec| spec.hard);
    let hard = hard.unwrap_or_default().into_iter();
    Ok(hard.map(|(name, amount)| (name, amount.0)).collect())
}

#[tokio::test]
async fn namespace_has_a_quota_with_the_amounts_of_the_spec() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    world.create("plain").await?;
    let spec = TenantSpec {
        quota: Some([("count/configmaps".to_owned(), 3)].into()),
        ..TenantSpec::default()
    };
    world.create_with("small", spec).await?;
    for id in ["plain", "small"] {
        world.phase(id, Phase::Provisioned).await?;
    }
    assert_eq!(hard(&world, "plain").await?.len(), DEFAULTS.len());
    let small = hard(&world, "small").await?;
    assert_eq!(small["count/configmaps"], "3");
    assert_eq!(small["count/clusters.submariner.io"], "256");
    assert_eq!(effective(None)["count/configmaps"], 32);

    // The tenant's administrator sees the quota and cannot change it.
    let tenant = world.as_tenant("small").await?;
    let quotas: Api<ResourceQuota> = Api::namespaced(tenant.clone(), &namespace("small"));
    assert_eq!(quotas.list(&ListParams::default()).await?.items.len(), 1);
    let lift = Patch::Merge(json!({"spec": {"hard": {"count/configmaps": "100"}}}));
    let refused = quotas.patch(QUOTA, &PatchParams::default(), &lift).await;
    assert!(
        matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403),
        "{refused:?}"
    );

    // kube-root-ca.crt is one of three.
    let maps: Api<ConfigMap> = Api::namespaced(tenant, &namespace("small"));
    for name in ["a", "b"] {
        put(&maps, &named::<ConfigMap>(name)).await?;
    }
    let one_more = named::<ConfigMap>("c");
    let refused = maps.create(&PostParams::default(), &one_more).await;
    let Err(kube::Error::Api(status)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(status.code, 403);
    assert_eq!(
        status.message,
        "configmaps \"c\" is forbidden: exceeded quota: submariner-broker, requested: count/configmaps=1, used: count/configmaps=3, limited: count/configmaps=3"
    );

    // The documented way to raise it.
    let raise = Patch::Merge(json!({"spec": {"quota": {"count/configmaps": 4}}}));
    world
        .tenants()
        .patch("small", &PatchParams::default(), &raise)
        .await?;
    eventually(async || {
        let hard = hard(&world, "small").await?;
        Ok((hard["count/configmaps"] == "4").then_some(()))
    })
    .await?;
    put(&maps, &one_more).await?;
    Ok(())
}

#[tokio::test]
async fn quota_of_other_resources_than_counts_is_refused() -> anyhow::Result<()> {
    let world = World::new().await?;
    let spec = TenantSpec {
        quota: Some([("pods".to_owned(), 3)].into()),
        ..TenantSpec::default()
    };
    let refused = format!("{:?}", world.create_with("acme", spec).await.unwrap_err());
    assert!(
        refused.contains("a name counts objects: count/RESOURCE.GROUP"),
        "{refused}"
    );
    Ok(())
}

#[tokio::test]
async fn tenant_administrator_manages_service_exports() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    let kind = GroupVersionKind::gvk("multicluster.x-k8s.io", "v1alpha1", "ServiceExport");
    let kind = ApiResource::from_gvk_with_plural(&kind, "serviceexports");
    let tenant = world.as_tenant("acme").await?;
    let exports: Api<DynamicObject> = Api::namespaced_with(tenant, &namespace("acme"), &kind);
    exports
        .create(&PostParams::default(), &DynamicObject::new("s", &kind))
        .await?;
    exports.delete("s", &Default::default()).await?;
    Ok(())
}

#[tokio::test]
async fn operator_with_an_earlier_role_repairs_and_removes_tenants() -> anyhow::Result<()> {
    let world = World::new().await?;
    let running = world.start();
    world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    running.stop().await?;
    let roles: Api<ClusterRole> = Api::all(world.admin.clone());
    let mut earlier = roles.get(AXON).await?;
    let rules = earlier.rules.get_or_insert_default();
    let quotas = Some(vec!["resourcequotas".to_owned()]);
    rules.retain(|rule| rule.resources != quotas);
    roles
        .replace(AXON, &PostParams::default(), &earlier)
        .await?;
    let tenant_roles: Api<Role> = world.inside("acme");
    tenant_roles
        .delete(CLUSTER, &DeleteParams::default())
        .await?;
    let _running = world.start();
    eventually(async || Ok(tenant_roles.get_opt(CLUSTER).await?)).await?;
    let tenant = world.phase("acme", Phase::Failed).await?;
    let (_, reason, message) = ready(&tenant).unwrap();
    assert_eq!(reason, "Forbidden");
    assert!(
        message.contains("create resource quota submariner-broker"),
        "{message}"
    );
    world.delete("acme").await?;
    world.gone("acme").await
}
