//! Provisioning of tenants.

use std::collections::BTreeMap;

use futures_util::{StreamExt, pin_mut};
use insula_broker::names::{
    ADMIN, ADMIN_TOKEN, AXON, AXON_ADMIN, CLUSTER, FINALIZER, TENANT_LABEL, TENANT_UID,
};
use insula_broker::tenant::{Phase, TenantSpec};
use insula_broker::{roles, token};
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding, Subject};
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams};
use kube::runtime::watcher::{self, Event as Seen, watcher};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::world::{World, eventually, named, namespace, phase_of, put, ready};

fn rules(role: &Role) -> Vec<k8s_openapi::api::rbac::v1::PolicyRule> {
    role.rules.clone().unwrap_or_default()
}

#[tokio::test]
async fn r27_r29_r30_r31_r32_tenant_gets_all_prerequisites_of_its_broker() -> anyhow::Result<()> {
    let world = World::new().await?;
    let running = world.start();
    let made = world.create("acme").await?;
    let tenant = world.phase("acme", Phase::Provisioned).await?;
    let space = namespace("acme");

    let status = tenant.status.clone().unwrap();
    assert_eq!(status.namespace.as_deref(), Some("submariner-broker-acme"));
    assert_eq!(status.space, None);
    assert_eq!(status.service_account.as_deref(), Some(ADMIN));
    assert_eq!(status.token_secret.as_deref(), Some(ADMIN_TOKEN));
    assert_eq!(status.message, None);
    assert_eq!(status.observed_generation, tenant.metadata.generation);
    assert!(status.provisioned_at >= made.metadata.creation_timestamp);
    let (is, reason, message) = ready(&tenant).unwrap();
    assert_eq!((is, reason), ("True", "Provisioned"));
    assert_eq!(message, "all prerequisites of the broker are in place");
    assert_eq!(tenant.finalizers(), [FINALIZER]);

    let found = world.namespaces().get(&space).await?;
    assert_eq!(found.labels()["app.kubernetes.io/managed-by"], AXON);
    assert_eq!(found.labels()[TENANT_LABEL], "acme");
    assert_eq!(found.annotations()[TENANT_UID], made.uid().unwrap());

    let roles_there: Api<Role> = world.inside("acme");
    assert_eq!(
        rules(&roles_there.get(ADMIN).await?),
        roles::tenant_admin(&space)
    );
    assert_eq!(rules(&roles_there.get(CLUSTER).await?), roles::cluster());
    let binding = world.inside::<RoleBinding>("acme").get(ADMIN).await?;
    assert_eq!(binding.role_ref.name, ADMIN);
    let subjects = binding.subjects.unwrap();
    let [subject] = subjects.as_slice() else {
        panic!("{subjects:?}");
    };
    assert_eq!(
        (
            subject.kind.as_str(),
            subject.name.as_str(),
            subject.namespace.as_deref()
        ),
        ("ServiceAccount", ADMIN, Some(space.as_str()))
    );
    let account = world.inside::<ServiceAccount>("acme").get(ADMIN).await?;
    let secret = world.inside::<Secret>("acme").get(ADMIN_TOKEN).await?;
    assert!(token::of(&secret).is_some() && token::is_for(&secret, ADMIN));
    assert_eq!(
        secret.annotations()["kubernetes.io/service-account.uid"],
        account.uid().unwrap()
    );
    running.stop().await
}

#[tokio::test]
async fn r27_tenant_created_during_downtime_is_provisioned() -> anyhow::Result<()> {
    let world = World::new().await?;
    world.create("early").await?;
    let _running = world.start();
    world.phase("early", Phase::Provisioned).await?;
    Ok(())
}

#[tokio::test]
async fn r28_phase_is_provisioning_before_anything_is_created() -> anyhow::Result<()> {
    let world = World::new().await?;
    let seen = watcher(world.tenants(), watcher::Config::default());
    pin_mut!(seen);
    let namespaces = world.namespaces();
    let mut phases = Vec::new();
    while !matches!(seen.next().await, Some(Ok(Seen::InitDone))) {}
    world.create("acme").await?;
    let _running = world.start();
    while phases.last() != Some(&Phase::Provisioned) {
        let Some(Ok(Seen::Apply(tenant))) = seen.next().await else {
            continue;
        };
        let Some(phase) = phase_of(&tenant) else {
            continue;
        };
        if phases.last() != Some(&phase) {
            phases.push(phase);
        }
        if phase == Phase::Provisioning {
            let first = namespaces.get_opt(&namespace("acme")).await?;
            let status = tenant.status.clone().unwrap();
            assert_eq!(status.provisioned_at, None);
            if let Some(first) = first {
                assert!(first.metadata.creation_timestamp >= tenant.metadata.creation_timestamp);
            }
        }
    }
    assert_eq!(phases, [Phase::Provisioning, Phase::Provisioned]);
    let events: Api<Event> = Api::namespaced(world.admin.clone(), AXON);
    let reasons = eventually(async || {
        let told = events.list(&ListParams::default()).await?;
        let mut reasons: Vec<_> = told.into_iter().filter_map(|event| event.reason).collect();
        reasons.retain(|reason| reason != "TokenPending");
        reasons.sort();
        Ok((reasons.len() >= 2).then_some(reasons))
    });
    assert_eq!(reasons.await?, ["Provisioned", "Provisioning"]);
    Ok(())
}

#[tokio::test]
async fn r33_r49_foreign_namespace_is_not_adopted() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    let earlier = BTreeMap::from([(TENANT_UID.to_owned(), "another".to_owned())]);
    for (id, annotations) in [("plain", None), ("earlier", Some(earlier))] {
        let foreign = Namespace {
            metadata: ObjectMeta {
                name: Some(namespace(id)),
                annotations,
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        put(&world.namespaces(), &foreign).await?;
        let before = world.namespaces().get(&namespace(id)).await?;
        world.create(id).await?;
        let tenant = world.phase(id, Phase::Failed).await?;
        let expected = format!(
            "namespace {} exists and was not created for this tenant; \
             once it is deleted, provisioning continues by itself",
            namespace(id)
        );
        assert_eq!(
            ready(&tenant),
            Some(("False", "NamespaceNotOurs", expected.as_str()))
        );
        assert_eq!(tenant.status.unwrap().message, Some(expected));
        assert_eq!(world.namespaces().get(&namespace(id)).await?, before);
        assert!(world.inside::<Role>(id).get_opt(ADMIN).await?.is_none());

        let only = DeleteParams::default();
        world.namespaces().delete(&namespace(id), &only).await?;
        let tenant = world.phase(id, Phase::Provisioned).await?;
        let found = world.namespaces().get(&namespace(id)).await?;
        assert_eq!(found.annotations()[TENANT_UID], tenant.uid().unwrap());
    }
    Ok(())
}

#[tokio::test]
async fn r33_terminating_namespace_is_awaited_and_recreated() -> anyhow::Result<()> {
    let world = World::new().await?;
    let mut held = named::<Namespace>(&namespace("acme"));
    held.metadata.annotations = Some([(TENANT_UID.to_owned(), "old".to_owned())].into());
    put(&world.namespaces(), &held).await?;
    let mut holder = named::<Secret>("holder");
    holder.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    put(&world.inside("acme"), &holder).await?;
    world
        .namespaces()
        .delete(&namespace("acme"), &DeleteParams::default())
        .await?;
    let _running = world.start();
    world.create("acme").await?;
    let tenant = world
        .tenant("acme", |tenant| ready(tenant).is_some())
        .await?;
    assert_eq!(phase_of(&tenant), Some(Phase::Provisioning));
    assert_eq!(ready(&tenant).unwrap().1, "NamespaceTerminating");
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let secrets: Api<Secret> = world.inside("acme");
    secrets
        .patch("holder", &PatchParams::default(), &release)
        .await?;
    world.phase("acme", Phase::Provisioned).await?;
    Ok(())
}

#[tokio::test]
async fn r33_missing_permission_is_named_and_provisioning_continues_once_granted()
-> anyhow::Result<()> {
    let world = World::new().await?;
    let all: Api<ClusterRole> = Api::all(world.admin.clone());
    let mut role = all.get(AXON).await?;
    let everything = role.rules.clone();
    for rule in role.rules.iter_mut().flatten() {
        if rule.resources.iter().flatten().any(|name| name == "roles") {
            rule.verbs.retain(|verb| verb != "create");
        }
    }
    let mut role = all.replace(AXON, &Default::default(), &role).await?;
    let _running = world.start();
    world.create("acme").await?;
    let tenant = world.phase("acme", Phase::Failed).await?;
    let (is, reason, message) = ready(&tenant).unwrap();
    assert_eq!((is, reason), ("False", "Forbidden"));
    for part in ["cannot create role submariner-k8s-broker-admin", "roles"] {
        assert!(message.contains(part), "{message}");
    }
    role.rules = everything;
    all.replace(AXON, &Default::default(), &role).await?;
    world.phase("acme", Phase::Provisioned).await?;
    Ok(())
}

#[tokio::test]
async fn r33_missing_finalizer_permission_is_reported_and_nothing_created() -> anyhow::Result<()> {
    let world = World::new().await?;
    let home: Api<Role> = Api::namespaced(world.admin.clone(), AXON);
    let mut role = home.get(AXON).await?;
    for rule in role.rules.iter_mut().flatten() {
        if rule
            .resources
            .iter()
            .flatten()
            .any(|name| name == "tenants")
        {
            rule.verbs
                .retain(|verb| verb != "patch" && verb != "update");
        }
    }
    home.replace(AXON, &Default::default(), &role).await?;
    let _running = world.start();
    world.create("acme").await?;
    let tenant = world.phase("acme", Phase::Failed).await?;
    assert_eq!(ready(&tenant).unwrap().1, "Forbidden");
    let made = world.namespaces().get_opt(&namespace("acme")).await?;
    assert!(made.is_none());
    Ok(())
}

#[tokio::test]
async fn tenant_with_a_too_long_name_fails_and_can_be_deleted() -> anyhow::Result<()> {
    let world = World::new().await?;
    world.loosen().await?;
    let _running = world.start();
    let id = "a".repeat(46);
    world.create(&id).await?;
    let tenant = world.phase(&id, Phase::Failed).await?;
    let (_, reason, message) = ready(&tenant).unwrap();
    assert_eq!(reason, "InvalidName");
    assert_eq!(
        message,
        "the tenant's name is not a tenant ID: a tenant ID has at most 45 characters; \
         create it under another name"
    );
    assert_eq!(tenant.finalizers(), [] as [&str; 0]);
    world.delete(&id).await?;
    world.gone(&id).await
}

#[tokio::test]
async fn named_administrators_are_bound_and_updated() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    let subject = |kind: &str, name: &str| Subject {
        kind: kind.to_owned(),
        name: name.to_owned(),
        ..Subject::default()
    };
    let spec = TenantSpec {
        admins: Some(vec![
            subject("User", "jane"),
            subject("Group", "acme-people"),
        ]),
        ..TenantSpec::default()
    };
    world.create_with("acme", spec).await?;
    world.phase("acme", Phase::Provisioned).await?;
    let bindings: Api<RoleBinding> = world.inside("acme");
    let names = |binding: RoleBinding| -> Vec<String> {
        let subjects = binding.subjects.unwrap_or_default();
        subjects.into_iter().map(|subject| subject.name).collect()
    };
    assert_eq!(
        names(bindings.get(ADMIN).await?),
        [ADMIN, "jane", "acme-people"]
    );

    let change = |admins: serde_json::Value| Patch::Merge(json!({"spec": {"admins": admins}}));
    let parameters = PatchParams::default();
    let other = change(json!([{"kind": "User", "name": "joe"}]));
    world.tenants().patch("acme", &parameters, &other).await?;
    eventually(async || {
        let now = names(bindings.get(ADMIN).await?);
        Ok((now == [ADMIN, "joe"]).then_some(()))
    })
    .await?;

    let wide = change(json!([{"kind": "Group", "name": "system:authenticated"}]));
    world.tenants().patch("acme", &parameters, &wide).await?;
    let tenant = world.phase("acme", Phase::Failed).await?;
    assert_eq!(
        ready(&tenant).map(|(_, reason, message)| (reason, message)),
        Some((
            "InvalidAdmins",
            "spec.admins[0]: Group \"system:authenticated\" is one of the system's own"
        ))
    );
    // Removed administrators have lost their permissions in spite of the problem.
    eventually(async || Ok((names(bindings.get(ADMIN).await?) == [ADMIN]).then_some(()))).await?;
    bindings.delete(ADMIN, &DeleteParams::default()).await?;
    eventually(async || Ok(bindings.get_opt(ADMIN).await?)).await?;
    let none = change(json!(null));
    world.tenants().patch("acme", &parameters, &none).await?;
    world.phase("acme", Phase::Provisioned).await?;
    assert_eq!(names(bindings.get(ADMIN).await?), [ADMIN]);
    Ok(())
}

#[tokio::test]
async fn tenant_managers_can_read_each_token_and_are_updated() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    let bindings: Api<RoleBinding> = world.inside("acme");
    assert!(bindings.get_opt(AXON_ADMIN).await?.is_none());

    let home_roles: Api<Role> = Api::namespaced(world.admin.clone(), AXON);
    let home_bindings: Api<RoleBinding> = Api::namespaced(world.admin.clone(), AXON);
    let mut role = named::<Role>(AXON_ADMIN);
    role.rules = Some(roles::axon_admin());
    put(&home_roles, &role).await?;
    let binding: RoleBinding = serde_json::from_value(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": AXON_ADMIN},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": AXON_ADMIN},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "olga"}],
    }))?;
    put(&home_bindings, &binding).await?;
    let users = async || {
        let binding = bindings.get_opt(AXON_ADMIN).await?;
        let subjects = binding.and_then(|binding| binding.subjects);
        let subjects = subjects.into_iter().flatten().map(|subject| subject.name);
        Ok::<Vec<String>, anyhow::Error>(subjects.collect())
    };
    eventually(async || Ok((users().await? == ["olga"]).then_some(()))).await?;
    let role = world.inside::<Role>("acme").get(AXON_ADMIN).await?;
    assert_eq!(rules(&role), roles::axon_admin_in_tenant(ADMIN_TOKEN));

    let other = Patch::Merge(json!({"subjects": [
        {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "otto"}
    ]}));
    home_bindings
        .patch(AXON_ADMIN, &PatchParams::default(), &other)
        .await?;
    eventually(async || Ok((users().await? == ["otto"]).then_some(()))).await?;

    home_roles
        .delete(AXON_ADMIN, &DeleteParams::default())
        .await?;
    eventually(async || {
        let role = world.inside::<Role>("acme").get_opt(AXON_ADMIN).await?;
        let gone = role.is_none() && bindings.get_opt(AXON_ADMIN).await?.is_none();
        Ok(gone.then_some(()))
    })
    .await
}

#[tokio::test]
async fn r84_operator_objects_grant_nothing_outside_the_namespace() -> anyhow::Result<()> {
    let world = World::new().await?;
    let everything = ListParams::default();
    let roles_of_all: Api<ClusterRole> = Api::all(world.admin.clone());
    let bindings_of_all: Api<ClusterRoleBinding> = Api::all(world.admin.clone());
    let before = (
        roles_of_all.list(&everything).await?.items,
        bindings_of_all.list(&everything).await?.items,
    );
    let _running = world.start();
    for id in ["one", "two"] {
        world.create(id).await?;
        world.phase(id, Phase::Provisioned).await?;
    }
    let after = (
        roles_of_all.list(&everything).await?.items,
        bindings_of_all.list(&everything).await?.items,
    );
    assert_eq!(before, after, "nothing cluster-scoped is made");
    let bindings: Api<RoleBinding> = Api::all(world.admin.clone());
    for binding in bindings.list(&everything).await? {
        let home = binding.namespace().unwrap();
        let subjects = binding.subjects.unwrap_or_default();
        let named = subjects.iter().filter(|subject| subject.name == ADMIN);
        for subject in named {
            assert_eq!(subject.namespace.as_ref(), Some(&home), "only at home");
        }
    }
    Ok(())
}
