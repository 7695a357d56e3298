//! Isolation of two tenants.

use insula_broker::names::{ADMIN_TOKEN, AXON};
use insula_broker::tenant::{Phase, Tenant};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, Role, RoleBinding};
use kube::api::ListParams;
use kube::{Api, Client};

use crate::world::{World, named, namespace, put};

async fn code<T>(answer: impl Future<Output = kube::Result<T>>) -> u16 {
    match answer.await {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{error}"),
    }
}

/// Returns the response codes of all reads in a namespace.
async fn inside(client: &Client, namespace: &str) -> Vec<u16> {
    let all = ListParams::default();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let roles: Api<Role> = Api::namespaced(client.clone(), namespace);
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let map = named::<ConfigMap>("mine");
    vec![
        code(secrets.list(&all)).await,
        code(secrets.get(ADMIN_TOKEN)).await,
        code(maps.list(&all)).await,
        code(maps.create(&Default::default(), &map)).await,
        code(accounts.list(&all)).await,
        code(roles.list(&all)).await,
        code(bindings.list(&all)).await,
        code(namespaces.get(namespace)).await,
    ]
}

#[tokio::test]
async fn r4_r82_tenant_token_is_refused_elsewhere() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    for id in ["one", "two"] {
        world.create(id).await?;
    }
    for id in ["one", "two"] {
        world.phase(id, Phase::Provisioned).await?;
    }
    for (id, other) in [("one", "two"), ("two", "one")] {
        let client = world.as_tenant(id).await?;
        let mine = inside(&client, &namespace(id)).await;
        assert_eq!(mine, [200; 8], "{id} at home");
        for elsewhere in [namespace(other), AXON.to_owned(), "default".to_owned()] {
            let found = inside(&client, &elsewhere).await;
            assert_eq!(found, [403; 8], "{id} in {elsewhere}");
        }
        let all = ListParams::default();
        let tenants: Api<Tenant> = Api::namespaced(client.clone(), AXON);
        assert_eq!(code(tenants.list(&all)).await, 403);
        assert_eq!(code(tenants.get(id)).await, 403);
        let namespaces: Api<Namespace> = Api::all(client.clone());
        assert_eq!(code(namespaces.list(&all)).await, 403);
        let roles: Api<ClusterRole> = Api::all(client.clone());
        assert_eq!(code(roles.list(&all)).await, 403);
    }
    Ok(())
}

#[tokio::test]
async fn labels_of_one_tenant_do_not_trigger_another() -> anyhow::Result<()> {
    let world = World::new().await?;
    let chaos = crate::network::Chaos::new(|_, _| crate::network::Fate::Pass);
    let _running = world.start_as("busy", chaos.around(&world.operator));
    for id in ["one", "two"] {
        world.create(id).await?;
        world.phase(id, Phase::Provisioned).await?;
    }
    let labels = |id: &str| {
        let ours = [
            ("app.kubernetes.io/managed-by", AXON),
            (insula_broker::names::TENANT_LABEL, id),
        ];
        Some(
            ours.map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
        )
    };
    let secrets: Api<Secret> = Api::namespaced(world.as_tenant("one").await?, &namespace("one"));
    for number in 0..20 {
        let mut secret = named::<Secret>(&format!("bait-{number}"));
        secret.metadata.labels = labels("two");
        put(&secrets, &secret).await?;
    }
    // Its own events are delivered, so the others have been delivered as well.
    let mut own = named::<ServiceAccount>("late");
    own.metadata.labels = labels("one");
    put(&world.inside("one"), &own).await?;
    world.create("three").await?;
    world.phase("three", Phase::Provisioned).await?;
    let two = world.tenants().get("two").await?;
    assert_eq!(two.status.unwrap().phase, Some(Phase::Provisioned));
    Ok(())
}
