//! Tenants with a space of their own.

use insula_broker::broker::{Broker, BrokerSpec};
use insula_broker::names::{ADMIN, ADMIN_TOKEN, AXON_SPACES, TENANT_LABEL, TENANT_UID};
use insula_broker::report::Silent;
use insula_broker::tenant::{Isolation, Phase, TenantSpec};
use insula_broker::{show, token};
use insula_operator::spaces::client_for;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::world::{Spaces, World, client, eventually, named, namespace, phase_of, put, ready};

fn spec() -> TenantSpec {
    TenantSpec {
        isolation: Some(Isolation::Space),
        ..TenantSpec::default()
    }
}

fn spaces(client: &Client) -> Api<DynamicObject> {
    let kind = ApiResource {
        group: String::new(),
        version: "v1".to_owned(),
        api_version: "v1".to_owned(),
        kind: "Tenant".to_owned(),
        plural: "tenants".to_owned(),
    };
    Api::all_with(client.clone(), &kind)
}

async fn code<T>(answer: impl Future<Output = kube::Result<T>>) -> u16 {
    match answer.await {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn tenant_space_contains_everything_and_is_deleted_with_it() -> anyhow::Result<()> {
    let world = World::with(Spaces::Allowed).await?;
    let _running = world.start();
    for id in ["one", "two"] {
        world.create_with(id, spec()).await?;
    }
    for id in ["one", "two"] {
        let tenant = world.phase(id, Phase::Provisioned).await?;
        let status = tenant.status.clone().unwrap();
        assert_eq!(status.space, Some(namespace(id)));
        assert_eq!(status.namespace, Some(namespace(id)));
        let space = spaces(&world.admin).get(&namespace(id)).await?;
        assert_eq!(space.annotations()[TENANT_UID], tenant.uid().unwrap());
        assert_eq!(space.labels()[TENANT_LABEL], id);
        assert!(world.namespaces().get_opt(&namespace(id)).await?.is_none());
    }
    let inside = client_for(&world.admin, &namespace("one"));
    let definitions: Api<CustomResourceDefinition> = Api::all(inside.clone());
    assert!(
        definitions
            .get_opt("brokers.submariner.io")
            .await?
            .is_some()
    );
    let namespaces: Api<Namespace> = Api::all(inside.clone());
    let home = namespaces.get(&namespace("one")).await?;
    assert_eq!(home.labels()[TENANT_LABEL], "one");

    // Its token is valid in its own space, and nowhere else.
    let secrets: Api<Secret> = Api::namespaced(inside.clone(), &namespace("one"));
    let secret = secrets.get(ADMIN_TOKEN).await?;
    let mine = client(
        &world.server,
        std::str::from_utf8(token::of(&secret).unwrap())?,
    )
    .await?;
    let all = ListParams::default();
    let own: Api<Secret> = Api::namespaced(mine.clone(), &namespace("one"));
    assert_eq!(code(own.list(&all)).await, 200);
    let other: Api<Secret> = Api::namespaced(mine.clone(), &namespace("two"));
    assert_eq!(code(other.list(&all)).await, 403);
    let across: Api<Secret> =
        Api::namespaced(client_for(&mine, &namespace("two")), &namespace("two"));
    assert_eq!(code(across.list(&all)).await, 403);

    // Objects deleted in the space are recreated.
    let roles: Api<Role> = Api::namespaced(inside.clone(), &namespace("one"));
    roles.delete(ADMIN, &DeleteParams::default()).await?;
    eventually(async || Ok(roles.get_opt(ADMIN).await?)).await?;
    namespaces
        .delete(&namespace("one"), &DeleteParams::default())
        .await?;
    eventually(async || {
        let found = namespaces.get_opt(&namespace("one")).await?;
        Ok(found.filter(|found| found.uid() != home.uid()))
    })
    .await?;
    world.phase("one", Phase::Provisioned).await?;

    world.delete("one").await?;
    world.gone("one").await?;
    assert!(
        spaces(&world.admin)
            .get_opt(&namespace("one"))
            .await?
            .is_none()
    );
    assert_eq!(code(own.list(&all)).await, 401);
    assert_eq!(
        phase_of(&world.tenants().get("two").await?),
        Some(Phase::Provisioned)
    );
    Ok(())
}

#[tokio::test]
async fn brokers_in_spaces_are_shown_with_their_space() -> anyhow::Result<()> {
    let world = World::with(Spaces::Allowed).await?;
    let _running = world.start();
    world.create("local").await?;
    for id in ["one", "two"] {
        world.create_with(id, spec()).await?;
    }
    for id in ["local", "one", "two"] {
        world.phase(id, Phase::Provisioned).await?;
    }
    let deploy = async |client: Client, id: &str| {
        let brokers: Api<Broker> = Api::namespaced(client, &namespace(id));
        put(
            &brokers,
            &Broker::new("submariner-broker", BrokerSpec::default()),
        )
        .await
    };
    deploy(world.admin.clone(), "local").await?;
    deploy(client_for(&world.admin, &namespace("one")), "one").await?;
    let shown = async |client: &Client, only: Option<&str>| {
        let rows = show::brokers(client, only, &Silent).await?;
        let rows = rows.into_iter();
        anyhow::Ok(
            rows.map(|row| (row.cells[0].clone(), row.space))
                .collect::<Vec<_>>(),
        )
    };
    let local = (namespace("local"), None);
    let one = (namespace("one"), Some(namespace("one")));
    assert_eq!(
        shown(&world.admin, None).await?,
        [local.clone(), one.clone()]
    );
    assert_eq!(shown(&world.admin, Some(&namespace("one"))).await?, [one]);
    let only_local = vec![local];
    assert_eq!(
        shown(&world.admin, Some(&namespace("local"))).await?,
        only_local
    );
    // A tenant sees its own broker only.
    let tenant = world.as_tenant("local").await?;
    assert_eq!(shown(&tenant, Some(&namespace("local"))).await?, only_local);
    Ok(())
}

#[tokio::test]
async fn blocked_space_deletion_is_reported_with_the_token_revoked() -> anyhow::Result<()> {
    let world = World::with(Spaces::Allowed).await?;
    let _running = world.start();
    world.create_with("acme", spec()).await?;
    world.phase("acme", Phase::Provisioned).await?;
    let inside = client_for(&world.admin, &namespace("acme"));
    let secrets: Api<Secret> = Api::namespaced(inside.clone(), &namespace("acme"));
    let secret = secrets.get(ADMIN_TOKEN).await?;
    let mine = client(
        &world.server,
        std::str::from_utf8(token::of(&secret).unwrap())?,
    )
    .await?;
    let maps: Api<ConfigMap> = Api::namespaced(inside, "default");
    let mut held = named::<ConfigMap>("held");
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    put(&maps, &held).await?;
    world.delete("acme").await?;
    let tenant = world
        .tenant("acme", |tenant| {
            ready(tenant).is_some_and(|(_, _, message)| message.contains("example.com/hold"))
        })
        .await?;
    assert_eq!(phase_of(&tenant), Some(Phase::Deleting));
    let own: Api<Secret> = Api::namespaced(mine, &namespace("acme"));
    assert_eq!(code(own.list(&ListParams::default())).await, 401);
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("held", &PatchParams::default(), &free).await?;
    world.gone("acme").await
}

#[tokio::test]
async fn foreign_space_or_namespace_is_not_adopted() -> anyhow::Result<()> {
    let world = World::with(Spaces::Allowed).await?;
    let _running = world.start();
    let foreign = {
        let mut space =
            DynamicObject::new(&namespace("theirs"), &ApiResource::erase::<Namespace>(&()));
        space.types = Some(kube::api::TypeMeta {
            api_version: "v1".to_owned(),
            kind: "Tenant".to_owned(),
        });
        space
    };
    put(&spaces(&world.admin), &foreign).await?;
    world.create_with("theirs", spec()).await?;
    let tenant = world.phase("theirs", Phase::Failed).await?;
    assert_eq!(ready(&tenant).unwrap().1, "SpaceNotOurs");
    world.delete("theirs").await?;
    world.gone("theirs").await?;
    assert!(
        spaces(&world.admin)
            .get_opt(&namespace("theirs"))
            .await?
            .is_some()
    );

    // A namespace of the system space has the name.
    put(
        &world.namespaces(),
        &named::<Namespace>(&namespace("taken")),
    )
    .await?;
    world.create_with("taken", spec()).await?;
    let tenant = world.phase("taken", Phase::Failed).await?;
    assert_eq!(ready(&tenant).unwrap().1, "NamespaceNotOurs");
    world
        .namespaces()
        .delete(&namespace("taken"), &DeleteParams::default())
        .await?;
    world.phase("taken", Phase::Provisioned).await?;
    Ok(())
}

#[tokio::test]
async fn isolation_is_immutable_and_deletion_still_works() -> anyhow::Result<()> {
    let world = World::with(Spaces::Allowed).await?;
    world.loosen().await?;
    let _running = world.start();
    world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    let change = Patch::Merge(json!({"spec": {"isolation": "Space"}}));
    world
        .tenants()
        .patch("acme", &PatchParams::default(), &change)
        .await?;
    let tenant = world.phase("acme", Phase::Failed).await?;
    assert_eq!(
        ready(&tenant).map(|(_, reason, message)| (reason, message)),
        Some((
            "IsolationChanged",
            "spec.isolation cannot be changed: delete the tenant and create it again"
        ))
    );
    assert!(
        spaces(&world.admin)
            .get_opt(&namespace("acme"))
            .await?
            .is_none()
    );
    world.delete("acme").await?;
    world.gone("acme").await?;
    assert!(
        world
            .namespaces()
            .get_opt(&namespace("acme"))
            .await?
            .is_none()
    );
    Ok(())
}

#[tokio::test]
async fn missing_permission_for_spaces_is_reported_and_the_tenant_can_be_deleted()
-> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    world.create_with("acme", spec()).await?;
    let tenant = world.phase("acme", Phase::Failed).await?;
    let (_, reason, message) = ready(&tenant).unwrap();
    assert_eq!(reason, "Forbidden");
    assert!(message.contains("tenants"), "{message}");
    // Nothing was created, so that the tenant can be deleted without the permission.
    world.delete("acme").await?;
    world.gone("acme").await
}

#[tokio::test]
async fn tenant_with_a_space_is_kept_while_its_space_cannot_be_read() -> anyhow::Result<()> {
    let world = World::with(Spaces::Allowed).await?;
    let _running = world.start();
    world.create_with("acme", spec()).await?;
    world.phase("acme", Phase::Provisioned).await?;
    let bindings: Api<ClusterRoleBinding> = Api::all(world.admin.clone());
    let granted = bindings.get(AXON_SPACES).await?;
    bindings
        .delete(AXON_SPACES, &DeleteParams::default())
        .await?;
    world.delete("acme").await?;
    let tenant = world
        .tenant("acme", |tenant| {
            ready(tenant).is_some_and(|(_, reason, _)| reason == "Forbidden")
        })
        .await?;
    assert_eq!(phase_of(&tenant), Some(Phase::Deleting));
    let mut again = named::<ClusterRoleBinding>(AXON_SPACES);
    again.role_ref = granted.role_ref;
    again.subjects = granted.subjects;
    put(&bindings, &again).await?;
    world.gone("acme").await?;
    assert_eq!(
        spaces(&world.admin).get_opt(&namespace("acme")).await?,
        None
    );
    Ok(())
}
