//! Deletion of tenants.

use std::time::Duration;

use insula_broker::report::Silent;
use insula_broker::tenant::TenantSpec;
use kube::ResourceExt;
use serde_json::json;

use crate::scene::{LONG, Scene, Told, id};

const HELD: &str = "axon.submariner.io/cleanup";

#[tokio::test]
async fn r43_unknown_tenant_is_not_found() {
    let scene = Scene::start().await;
    let nope = id("nope");
    let missing = scene.tenants.delete(&nope, LONG, &Silent).await;
    let missing = missing.unwrap_err();
    assert_eq!(missing.to_string(), "there is no tenant nope");
    assert_eq!(
        missing.hint().unwrap(),
        "`subctl list tenants` lists the existing tenants"
    );
}

#[tokio::test]
async fn r43_r45_delete_waits_and_reports_what_blocks_it() {
    let scene = Scene::start().await;
    let (acme, told) = (id("acme"), Told::default());
    let created = scene.tenants.create(&acme, TenantSpec::default()).await;
    created.unwrap();
    scene.set_finalizers(&acme, &[HELD]).await;
    let before = json!({ "phase": "Provisioned", "message": "all is well" });
    scene.write_status(&acme, before).await;
    let deleting = scene.tenants.delete(&acme, LONG, &told);
    let operator = async {
        told.wait_for("• Deleting tenant acme").await;
        let stuck = json!({ "phase": "Deleting", "message": "1 object has a finalizer" });
        scene.write_status(&acme, stuck).await;
        told.wait_for("• Deleting tenant acme: 1 object has a finalizer")
            .await;
        scene.set_finalizers(&acme, &[]).await;
    };
    let (deleted, ()) = tokio::join!(deleting, operator);
    deleted.unwrap();
    assert_eq!(
        told.all(),
        [
            "• Deleting tenant acme",
            "• Deleting tenant acme: 1 object has a finalizer",
            "✓ Tenant acme is deleted"
        ]
    );
    assert!(scene.objects().get_opt("acme").await.unwrap().is_none());
}

#[tokio::test]
async fn r45_timed_out_deletion_reports_what_blocks_it_and_continues() {
    let scene = Scene::start().await;
    let acme = id("acme");
    let created = scene.tenants.create(&acme, TenantSpec::default()).await;
    created.unwrap();
    scene.set_finalizers(&acme, &[HELD]).await;
    let stuck = json!({ "phase": "Deleting", "message": "1 object has a finalizer" });
    scene.write_status(&acme, stuck).await;
    let timeout = Duration::from_secs(1);
    let late = scene.tenants.delete(&acme, timeout, &Silent);
    assert_eq!(
        late.await.unwrap_err().to_string(),
        "deleting tenant acme takes longer than 1s: 1 object has a finalizer"
    );
    // A second caller waits for the same deletion.
    let told = Told::default();
    let again = scene.tenants.delete(&acme, LONG, &told);
    let operator = async {
        told.wait_for("• Deleting tenant acme: 1 object has a finalizer")
            .await;
        scene.set_finalizers(&acme, &[]).await;
    };
    let (deleted, ()) = tokio::join!(again, operator);
    deleted.unwrap();
}

#[tokio::test]
async fn recreated_tenant_is_neither_awaited_nor_deleted() {
    let scene = Scene::start().await;
    let (acme, told) = (id("acme"), Told::default());
    let created = scene.tenants.create(&acme, TenantSpec::default()).await;
    created.unwrap();
    scene.set_finalizers(&acme, &[HELD]).await;
    let deleting = scene.tenants.delete(&acme, LONG, &told);
    let others = async {
        told.wait_for("• Deleting tenant acme").await;
        scene.set_finalizers(&acme, &[]).await;
        scene
            .tenants
            .create(&acme, TenantSpec::default())
            .await
            .unwrap()
    };
    let (deleted, next) = tokio::join!(deleting, others);
    deleted.unwrap();
    let there = scene.objects().get("acme").await.unwrap();
    assert_eq!(there.uid(), next.uid());
    assert!(there.metadata.deletion_timestamp.is_none());
}
