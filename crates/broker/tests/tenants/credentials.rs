//! The credentials of a tenant's administrator.

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

/// Returns the user of a token, if it is valid.
async fn token_user(scene: &Scene, token: &[u8]) -> Result<String, u16> {
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
async fn r36_r37_r39_file_of_a_new_tenant_has_only_namespace_and_token() {
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
        token_user(&scene, &data["token"].0).await.as_deref(),
        Ok("system:serviceaccount:submariner-broker-acme:submariner-k8s-broker-admin")
    );
    assert_eq!(info.namespace().unwrap(), info.namespace);
}

#[tokio::test]
async fn r51_no_file_for_a_tenant_that_is_not_provisioned() {
    let scene = Scene::start().await;
    let acme = id("acme");
    let created = scene.tenants.create(&acme, TenantSpec::default()).await;
    created.unwrap();
    for (phase, shown) in [
        (json!(null), "Pending"),
        (json!("Provisioning"), "Provisioning"),
        (json!("Failed"), "Failed"),
    ] {
        scene.write_status(&acme, json!({ "phase": phase })).await;
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
async fn forged_status_exposes_no_token() {
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
        scene.write_status(&id("acme"), right.clone()).await;
        scene.write_status(&id("acme"), wrong).await;
        let tenant = scene.tenants.get(&id("acme")).await.unwrap();
        let refused = scene.tenants.info(&tenant, "https://a").await;
        let rotated = scene.tenants.rotate(&tenant, LONG, &Told::default()).await;
        for refused in [refused.unwrap_err(), rotated.unwrap_err()] {
            assert_eq!(
                refused.to_string(),
                "the status of tenant acme was not written by the operator"
            );
        }
    }
}

/// Contents of the token's Secret that are not the token.
async fn impostor(scene: &Scene, secret: serde_json::Value) {
    let secrets = scene.secrets(&id("acme"));
    secrets
        .delete(ADMIN_TOKEN, &Default::default())
        .await
        .unwrap();
    let secret = serde_json::from_value(secret).unwrap();
    secrets.create(&Default::default(), &secret).await.unwrap();
}

#[tokio::test]
async fn r37_secret_of_another_account_is_not_used() {
    let scene = Scene::start().await;
    let tenant = provisioned(&scene, "acme").await;
    provisioned(&scene, "victim").await;
    let theirs = scene.secrets(&id("victim")).get(ADMIN_TOKEN).await.unwrap();
    let theirs = str::from_utf8(token::of(&theirs).unwrap())
        .unwrap()
        .to_owned();
    let own = scene.accounts(&id("acme")).get(ADMIN).await.unwrap();
    // It claims to be valid, and has data that the server would not overwrite.
    let secret = json!({
        "metadata": { "name": ADMIN_TOKEN, "annotations": {
            "kubernetes.io/service-account.name": ADMIN,
            "kubernetes.io/service-account.uid": own.uid(),
        } },
        "type": "kubernetes.io/service-account-token", "immutable": true,
        "stringData": { "token": theirs, "namespace": "submariner-broker-acme" },
    });
    impostor(&scene, secret).await;
    let refused = scene.tenants.info(&tenant, "https://a").await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "waiting for a token of tenant acme takes longer than 15s: the Secret does not hold the administrator's token; the operator is about to recreate it"
    );
    assert!(!refused.to_string().contains(&theirs));
}

#[tokio::test]
async fn extra_secret_data_is_not_in_the_file() {
    let scene = Scene::start().await;
    let tenant = provisioned(&scene, "acme").await;
    let patch = json!({ "data": { "psk": "eA==" } });
    let patch = kube::api::Patch::Merge(patch);
    let secrets = scene.secrets(&id("acme"));
    secrets
        .patch(ADMIN_TOKEN, &Default::default(), &patch)
        .await
        .unwrap();
    let info = scene.tenants.info(&tenant, "https://a").await.unwrap();
    let data = info.client_token.unwrap().data.unwrap();
    let keys: Vec<_> = data.into_keys().collect();
    assert_eq!(keys, ["ca.crt", "namespace", "token"]);
}

/// Recreates what rotation deletes, as the operator does.
async fn remake(scene: &Scene, told: &Told) {
    told.wait_for("• Waiting for a token of tenant acme").await;
    scene.create_account(&id("acme")).await;
    scene.create_token(&id("acme")).await;
}

#[tokio::test]
async fn rotation_replaces_whatever_the_secret_holds() {
    let scene = Scene::start().await;
    let (tenant, told) = (provisioned(&scene, "acme").await, Told::default());
    let other = json!({ "metadata": { "name": ADMIN_TOKEN }, "type": "Opaque" });
    impostor(&scene, other).await;
    let rotating = scene.tenants.rotate(&tenant, LONG, &told);
    let (rotated, ()) = tokio::join!(rotating, remake(&scene, &told));
    rotated.unwrap();
    let made = scene.secrets(&id("acme")).get(ADMIN_TOKEN).await.unwrap();
    assert!(token::is_for(&made, ADMIN));
}

#[tokio::test]
async fn rotation_invalidates_all_tokens_of_the_account() {
    let scene = Scene::start().await;
    let (acme, told) = (id("acme"), Told::default());
    let tenant = provisioned(&scene, "acme").await;
    let before = scene.tenants.info(&tenant, "https://a").await.unwrap();
    let before = before.client_token.unwrap();
    let before = token::of(&before).unwrap();
    // With permission to create Secrets, a thief has created a second one.
    let second = token::request(
        ADMIN,
        kube::api::ObjectMeta {
            name: Some("second".to_owned()),
            ..Default::default()
        },
    );
    let secrets = scene.secrets(&acme);
    secrets.create(&Default::default(), &second).await.unwrap();
    let stolen = async {
        loop {
            let secret = secrets.get("second").await.unwrap();
            if let Some(token) = token::of(&secret) {
                return token.to_vec();
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let stolen = tokio::time::timeout(LONG, stolen).await.unwrap();
    assert!(token_user(&scene, before).await.is_ok());
    assert!(token_user(&scene, &stolen).await.is_ok());
    let old = scene.accounts(&acme).get(ADMIN).await.unwrap();

    let rotating = scene.tenants.rotate(&tenant, LONG, &told);
    let (rotated, ()) = tokio::join!(rotating, remake(&scene, &told));
    rotated.unwrap();
    assert_eq!(
        told.all().last().map(String::as_str),
        Some("✓ Tenant acme has a new token")
    );
    let after = scene.tenants.info(&tenant, "https://a").await.unwrap();
    let after = after.client_token.unwrap();
    let after = token::of(&after).unwrap();
    assert!(token_user(&scene, after).await.is_ok());
    let new = scene.accounts(&acme).get(ADMIN).await.unwrap();
    assert_ne!(new.uid(), old.uid());
    for gone in [before, stolen.as_slice()] {
        assert_eq!(
            token_user(&scene, gone).await,
            Err(401),
            "the token is invalid"
        );
    }
}

#[tokio::test]
async fn rotation_reports_remaining_bindings() {
    let scene = Scene::start().await;
    let tenant = provisioned(&scene, "acme").await;
    let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> =
        Api::namespaced(scene.client.clone(), "submariner-broker-acme");
    for (name, role, account) in [
        ("door", ADMIN, "thief"),
        ("east", "submariner-k8s-broker-cluster", "cluster-east"),
    ] {
        let binding = json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": account,
                "namespace": "submariner-broker-acme" }],
        });
        let binding = serde_json::from_value(binding).unwrap();
        bindings
            .create(&Default::default(), &binding)
            .await
            .unwrap();
    }
    let told = Told::default();
    let rotating = scene.tenants.rotate(&tenant, LONG, &told);
    let (rotated, ()) = tokio::join!(rotating, remake(&scene, &told));
    rotated.unwrap();
    let warned: Vec<_> = told
        .all()
        .into_iter()
        .filter(|line| line.starts_with('⚠'))
        .collect();
    assert_eq!(
        warned,
        [
            "⚠ RoleBinding door gives ServiceAccount submariner-broker-acme/thief the Role submariner-k8s-broker-admin: if this is unexpected, delete it (`kubectl -n submariner-broker-acme delete rolebinding NAME`)",
            "⚠ Joined clusters can read the new token too: cluster-east. To exclude one, run `kubectl -n submariner-broker-acme delete serviceaccount NAME`, then rotate the token again",
        ]
    );
}

#[tokio::test]
async fn r53_tenant_administrator_cannot_manage_tenants() {
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
        assert!(refused.hint().unwrap().contains("the missing permission"));
    }
}
