//! Creating tenants, and waiting for them.

use std::time::Duration;

use futures_util::future::join_all;
use insula_broker::Error;
use insula_broker::deploy::axon::{self, AxonSettings};
use insula_broker::report::Silent;
use insula_broker::tenant::{Isolation, TenantSpec};
use kube::ResourceExt;
use serde_json::json;

use crate::scene::{LONG, Scene, Told, id};

#[tokio::test]
async fn missing_tenant_kind_is_reported() {
    let scene = Scene::bare().await;
    let acme = id("acme");
    let created = scene.tenants.create(&acme, TenantSpec::default()).await;
    let got = scene.tenants.get(&acme).await;
    let listed = scene.tenants.list().await;
    let deleted = scene.tenants.delete(&acme, LONG, &Silent).await;
    for refused in [
        created.unwrap_err(),
        got.unwrap_err(),
        listed.unwrap_err(),
        deleted.unwrap_err(),
    ] {
        assert_eq!(
            refused.to_string(),
            "this cluster has no tenants.submariner.io"
        );
        assert_eq!(
            refused.hint().unwrap(),
            "an administrator of the cluster runs `subctl deploy axon-cp` first"
        );
    }
}

#[tokio::test]
async fn r22_tenant_object_is_in_the_operators_namespace() {
    let scene = Scene::start().await;
    let spec = TenantSpec {
        display_name: Some("Acme".to_owned()),
        owner: Some("eve".to_owned()),
        isolation: Some(Isolation::Namespace),
        quota: Some([("count/secrets".to_owned(), 7)].into()),
        ..TenantSpec::default()
    };
    let created = scene.tenants.create(&id("acme"), spec.clone()).await;
    let found = scene.objects().get("acme").await.unwrap();
    assert_eq!(found.uid(), created.unwrap().uid());
    assert_eq!(found.spec, spec);
}

#[tokio::test]
async fn tenant_with_a_space_is_refused_until_the_operator_may_create_spaces() {
    let scene = Scene::start().await;
    let spec = TenantSpec {
        isolation: Some(Isolation::Space),
        ..TenantSpec::default()
    };
    let settings = |spaces| AxonSettings {
        operator_image: "i".to_owned(),
        deployment: false,
        admins: Vec::new(),
        spaces,
    };
    axon::deploy(&scene.client, &settings(false), &Silent)
        .await
        .unwrap();
    let refused = scene.tenants.create(&id("acme"), spec.clone()).await;
    let refused = refused.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the operator may not create spaces: the tenant is not created"
    );
    assert_eq!(
        refused.hint().unwrap(),
        "an administrator of the system runs `subctl deploy axon-cp --spaces` first; --isolation namespace needs no space"
    );
    assert_eq!(scene.objects().get_opt("acme").await.unwrap(), None);
    axon::deploy(&scene.client, &settings(true), &Silent)
        .await
        .unwrap();
    let created = scene.tenants.create(&id("acme"), spec.clone()).await;
    assert_eq!(created.unwrap().spec, spec);
}

#[tokio::test]
async fn r23_existing_id_is_refused_without_changes() {
    let scene = Scene::start().await;
    let acme = id("acme");
    let first = scene.tenants.create(&acme, TenantSpec::default()).await;
    let other = TenantSpec {
        owner: Some("mallory".to_owned()),
        ..TenantSpec::default()
    };
    let refused = scene.tenants.create(&acme, other).await.unwrap_err();
    assert_eq!(refused.to_string(), "tenant acme exists already");
    let now = scene.objects().get("acme").await.unwrap();
    assert_eq!(now.resource_version(), first.unwrap().resource_version());
}

#[tokio::test]
async fn r23_one_of_many_concurrent_creations_succeeds() {
    let scene = Scene::start().await;
    let acme = id("acme");
    let creators = (0..16).map(|_| scene.tenants.create(&acme, TenantSpec::default()));
    let made = join_all(creators).await;
    let (won, lost): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 15));
    for refused in lost {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::TenantExists(_)), "{refused}");
    }
}

#[tokio::test]
async fn r26_create_waits_with_progress_until_provisioned() {
    let scene = Scene::start().await;
    let (acme, told) = (id("acme"), Told::default());
    let created = scene.tenants.create(&acme, TenantSpec::default()).await;
    let created = created.unwrap();
    let waiting = scene.tenants.await_provisioned(&created, LONG, &told);
    let operator = async {
        told.wait_for("• Provisioning tenant acme").await;
        let status = json!({ "phase": "Provisioning", "observedGeneration": 1,
            "message": "its namespace is being made" });
        scene.write_status(&acme, status).await;
        told.wait_for("• Provisioning tenant acme: its namespace is being made")
            .await;
        scene.write_status(&acme, json!({ "message": null })).await;
        scene.provision(&acme).await;
    };
    let (provisioned, ()) = tokio::join!(waiting, operator);
    let namespace = provisioned.unwrap().status.unwrap().namespace;
    assert_eq!(namespace.as_deref(), Some("submariner-broker-acme"));
    assert_eq!(
        told.all().last().map(String::as_str),
        Some("✓ Tenant acme is provisioned")
    );
}

#[tokio::test]
async fn r34_failed_tenant_is_reported_with_its_message() {
    let scene = Scene::start().await;
    let acme = id("acme");
    let created = scene.tenants.create(&acme, TenantSpec::default()).await;
    let status = json!({ "phase": "Failed", "observedGeneration": 1,
        "message": "namespace submariner-broker-acme is somebody else's" });
    scene.write_status(&acme, status).await;
    let created = created.unwrap();
    let failed = scene.tenants.await_provisioned(&created, LONG, &Silent);
    assert_eq!(
        failed.await.unwrap_err().to_string(),
        "tenant acme could not be provisioned: \
         namespace submariner-broker-acme is somebody else's"
    );
}

#[tokio::test]
async fn r26_wait_without_an_operator_times_out() {
    let scene = Scene::start().await;
    let acme = id("acme");
    let created = scene.tenants.create(&acme, TenantSpec::default()).await;
    let timeout = Duration::from_secs(1);
    let created = created.unwrap();
    let waited = scene.tenants.await_provisioned(&created, timeout, &Silent);
    let late = waited.await.unwrap_err();
    assert_eq!(
        late.to_string(),
        "provisioning tenant acme takes longer than 1s"
    );
    assert!(late.hint().unwrap().starts_with("is the operator running?"));
}

#[tokio::test]
async fn wait_ends_when_the_tenant_is_deleted() {
    let scene = Scene::start().await;
    let acme = id("acme");
    for again in [false, true] {
        let created = scene.tenants.create(&acme, TenantSpec::default()).await;
        let created = created.unwrap();
        let told = Told::default();
        let waiting = scene.tenants.await_provisioned(&created, LONG, &told);
        let meddler = async {
            told.wait_for("• Provisioning tenant acme").await;
            scene
                .objects()
                .delete("acme", &Default::default())
                .await
                .unwrap();
            if again {
                // A provisioned tenant of the same name is not the created one.
                let next = scene.tenants.create(&acme, TenantSpec::default()).await;
                next.unwrap();
                scene.provision(&acme).await;
            }
        };
        let (waited, ()) = tokio::join!(waiting, meddler);
        assert_eq!(
            waited.unwrap_err().to_string(),
            "tenant acme was deleted while it was waited for"
        );
    }
}
