//! What a tenant's administrator begins with.

use insula_broker::names::{ADMIN, ADMIN_TOKEN};
use insula_broker::tenant::{Tenant, TenantSpec};
use insula_broker::tenants::Tenants;
use insula_broker::token;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::scene::{LONG, Scene, Told, client, id};

async fn provisioned(scene: &Scene, name: &str) -> Tenant {
    let id = id(name);
    let created = scene.tenants.create(&id, TenantSpec::default()).await;
    created.unwrap();
    scene.provision(&id).await;
    scene.tenants.get(&id).await.unwrap()
}

/// Whom a token is believed to be, if anybody.
async fn holder(scene: &Scene, token: &[u8]) -> Result<String, u16> {
    let theirs = client(&scene.server, str::from_utf8(token).unwrap());
    let reviews: Api<SelfSubjectReview> = Api::all(theirs);
    match reviews
        .create(&Default::default(), &SelfSubjectReview::default())
        .await
    {
        Ok(review) => {
            let user = review.status.unwrap().user_info.unwrap();
            Ok(user.username.unwrap())
        }
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn r36_r37_r39_a_new_tenants_file_has_its_namespace_and_token_and_nothing_else() {
    let scene = Scene::start().await;
    let tenant = provisioned(&scene, "acme").await;
    let info = scene.tenants.info(&tenant, "https://broker.example:6443/");
    let info = info.await.unwrap();
    assert_eq!(info.url, "https://broker.example:6443");
    assert_eq!(info.namespace.as_deref(), Some("submariner-broker-acme"));
    assert!(info.ipsec_psk.is_none() && info.components.is_empty());
    assert!(info.custom_domains.is_empty());
    let secret = info.client_token.clone().unwrap();
    assert!(token::is_for(&secret, ADMIN));
    assert_eq!(secret.name_any(), ADMIN_TOKEN);
    assert_eq!(secret.uid(), None, "what only the server knows stays there");
    let data = secret.data.as_ref().unwrap();
    assert_eq!(data["namespace"].0, b"submariner-broker-acme");
    assert!(data["ca.crt"].0.starts_with(b"-----BEGIN CERTIFICATE-----"));
    assert_eq!(
        holder(&scene, &data["token"].0).await.as_deref(),
        Ok("system:serviceaccount:submariner-broker-acme:submariner-k8s-broker-admin")
    );
    assert_eq!(info.namespace().unwrap(), info.namespace);
}

#[tokio::test]
async fn r51_there_is_no_file_for_a_tenant_that_is_not_provisioned() {
    let scene = Scene::start().await;
    let acme = id("acme");
    let created = scene.tenants.create(&acme, TenantSpec::default()).await;
    created.unwrap();
    for (phase, shown) in [
        (json!(null), "Pending"),
        (json!("Provisioning"), "Provisioning"),
        (json!("Failed"), "Failed"),
    ] {
        scene.say(&acme, json!({ "phase": phase })).await;
        let tenant = scene.tenants.get(&acme).await.unwrap();
        let refused = scene.tenants.info(&tenant, "https://a").await;
        let rotated = scene.tenants.rotate(&tenant, LONG, &Told::default()).await;
        for refused in [refused.unwrap_err(), rotated.unwrap_err()] {
            let expected = format!("tenant acme is {shown}, not Provisioned");
            assert_eq!(refused.to_string(), expected);
        }
    }
}

#[tokio::test]
async fn a_status_that_leads_elsewhere_hands_out_nothing() {
    let scene = Scene::start().await;
    provisioned(&scene, "victim").await;
    provisioned(&scene, "acme").await;
    let right = json!({ "namespace": "submariner-broker-acme", "space": null,
        "tokenSecret": ADMIN_TOKEN });
    for wrong in [
        json!({ "namespace": "submariner-broker-victim" }),
        json!({ "space": "submariner-broker-victim" }),
        json!({ "space": "../../x" }),
        json!({ "tokenSecret": "other" }),
    ] {
        scene.say(&id("acme"), right.clone()).await;
        scene.say(&id("acme"), wrong).await;
        let tenant = scene.tenants.get(&id("acme")).await.unwrap();
        let refused = scene.tenants.info(&tenant, "https://a").await;
        let rotated = scene.tenants.rotate(&tenant, LONG, &Told::default()).await;
        for refused in [refused.unwrap_err(), rotated.unwrap_err()] {
            assert_eq!(
                refused.to_string(),
                "the status of tenant acme is not as the operator writes it"
            );
        }
    }
}

#[tokio::test]
async fn a_secret_of_another_account_is_not_handed_out() {
    let scene = Scene::start().await;
    let tenant = provisioned(&scene, "acme").await;
    let secrets = scene.secrets(&id("acme"));
    secrets
        .delete(ADMIN_TOKEN, &Default::default())
        .await
        .unwrap();
    let impostor = json!({
        "metadata": { "name": ADMIN_TOKEN }, "type": "Opaque",
        "stringData": { "token": "somebody's", "namespace": "x" },
    });
    let impostor = serde_json::from_value(impostor).unwrap();
    secrets
        .create(&Default::default(), &impostor)
        .await
        .unwrap();
    let told = Told::default();
    let brief = std::time::Duration::from_secs(1);
    let refused = scene.tenants.rotate(&tenant, brief, &told);
    // Rotation waits for a good one first, and then gives up, changing nothing.
    let refused = tokio::time::timeout(LONG, refused).await.unwrap();
    assert_eq!(
        refused.unwrap_err().to_string(),
        "waiting for a token of tenant acme takes longer than 1s"
    );
    let still = secrets.get(ADMIN_TOKEN).await.unwrap();
    assert_eq!(still.type_.as_deref(), Some("Opaque"));
}

#[tokio::test]
async fn a_rotated_token_is_another_and_the_one_before_is_worth_nothing() {
    let scene = Scene::start().await;
    let (acme, told) = (id("acme"), Told::default());
    let tenant = provisioned(&scene, "acme").await;
    let before = scene.tenants.info(&tenant, "https://a").await.unwrap();
    let before = before.client_token.unwrap();
    let before = token::of(&before).unwrap();
    assert!(holder(&scene, before).await.is_ok());
    let rotating = scene.tenants.rotate(&tenant, LONG, &told);
    let operator = async {
        told.wait_for("• Waiting for a token of tenant acme").await;
        scene.make_token(&acme).await;
    };
    let (rotated, ()) = tokio::join!(rotating, operator);
    rotated.unwrap();
    assert_eq!(
        told.all().last().map(String::as_str),
        Some("✓ Tenant acme has another token")
    );
    let after = scene.tenants.info(&tenant, "https://a").await.unwrap();
    let after = after.client_token.unwrap();
    let after = token::of(&after).unwrap();
    assert_eq!(
        holder(&scene, before).await,
        Err(401),
        "the old one is known to nobody"
    );
    assert!(holder(&scene, after).await.is_ok());
}

#[tokio::test]
async fn r53_a_tenants_administrator_manages_no_tenants() {
    let scene = Scene::start().await;
    let tenant = provisioned(&scene, "acme").await;
    let info = scene.tenants.info(&tenant, "https://a").await.unwrap();
    let secret = info.client_token.unwrap();
    let held = str::from_utf8(token::of(&secret).unwrap()).unwrap();
    let theirs = Tenants::new(&client(&scene.server, held));
    let (acme, other, told) = (id("acme"), id("other"), Told::default());
    for (attempted, refused) in [
        ("list tenants", theirs.list().await.map(drop)),
        ("get tenant acme", theirs.get(&acme).await.map(drop)),
        ("get tenant acme", theirs.delete(&acme, LONG, &told).await),
        (
            "create tenant other",
            theirs.create(&other, TenantSpec::default()).await.map(drop),
        ),
        (
            "read the token of tenant acme",
            theirs.info(&tenant, "https://a").await.map(drop),
        ),
    ] {
        let refused = refused.unwrap_err();
        let said = refused.to_string();
        let expected = format!("cannot {attempted}: ");
        assert!(said.starts_with(&expected), "{said}");
        assert!(said.contains("is forbidden: User"), "{said}");
        assert!(!said.contains(held), "no error has a secret in it");
        assert!(
            refused
                .hint()
                .unwrap()
                .contains("the right that is missing")
        );
    }
}
