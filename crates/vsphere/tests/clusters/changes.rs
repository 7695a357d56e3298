//! Changes take effect at once, and not only with the next resync after ten minutes.

use insula_testkit::vcenter::FakeVCenter;
use insula_vsphere::kinds::VSphereClusterIdentity;
use insula_vsphere::names::SECRET_FINALIZER;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::basics::{accounts, allowed, by_identity, by_secret, message};
use crate::world::{HOME, Space, World, condition, conditions, delete, gone, patched, until};

/// Waits until a Secret is not claimed any more, and still exists.
async fn is_released(space: &Space, namespace: &str, name: &str) -> anyhow::Result<()> {
    let secrets: Api<Secret> = space.inside(namespace);
    until(&secrets, name, |secret| {
        secret.finalizers().is_empty() && secret.owner_references().is_empty()
    })
    .await?;
    Ok(())
}

async fn uses(vcenter: &FakeVCenter, expected: &[&str]) -> anyhow::Result<()> {
    let what = format!("sessions of {expected:?}");
    vcenter
        .wait_for(&what, |vcenter| accounts(vcenter) == expected)
        .await
}

#[tokio::test]
async fn cr3_changed_secret_of_an_identity_is_used_and_the_old_one_released() -> anyhow::Result<()>
{
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("one", "pw"), ("two", "pw")]).await?;
    let _running = world.start();
    let here = world.here();
    here.shared("shared", ("one", "pw"), allowed(&vcenter))
        .await?;
    here.account(HOME, "other", ("two", "pw")).await?;
    here.namespace("a", json!({})).await?;
    here.owned("a", "prod", by_identity(&vcenter, "shared"))
        .await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    assert_eq!(accounts(&vcenter), ["one"]);
    let change = json!({"spec": {"secretName": "other"}});
    here.change_identity("shared", change).await?;
    uses(&vcenter, &["two"]).await?;
    is_released(&here, HOME, "shared").await?;
    let secrets: Api<Secret> = here.inside(HOME);
    delete(&secrets, "shared").await?;
    gone(&secrets, "shared").await
}

#[tokio::test]
async fn cr3_a3_allowed_namespaces_follow_selector_and_labels() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("one", "pw")]).await?;
    let _running = world.start();
    let here = world.here();
    here.shared("shared", ("one", "pw"), allowed(&vcenter))
        .await?;
    here.namespace("a", json!({"team": "red"})).await?;
    here.owned("a", "prod", by_identity(&vcenter, "shared"))
        .await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    let by = |selector: Value| json!({"selector": selector});
    let team = |operator: &str, values: Value| {
        by(json!({"matchLabels": null, "matchExpressions": [
            {"key": "team", "operator": operator, "values": values},
        ]}))
    };
    for (allowed, may) in [
        (Value::Null, false),
        (json!({}), true),
        (by(json!({"matchLabels": {"team": "blue"}})), false),
        (by(json!({"matchLabels": {"team": "red"}})), true),
        (team("In", json!(["blue", "red"])), true),
        (team("DoesNotExist", Value::Null), false),
        (
            by(json!({"matchExpressions": null, "matchLabels": {}})),
            true,
        ),
    ] {
        // A merge patch would keep the old selector, so it is removed first.
        let patch = json!({"spec": {"allowedNamespaces": null}});
        here.change_identity("shared", patch).await?;
        let patch = json!({"spec": {"allowedNamespaces": allowed}});
        here.change_identity("shared", patch).await?;
        let reason = if may {
            "Available"
        } else {
            "NamespaceNotAllowed"
        };
        here.wait_for_reason("a", "prod", reason)
            .await
            .map_err(|error| error.context(allowed.to_string()))?;
    }

    // Changes of the namespace's labels take effect at once.
    let patch = json!({"spec": {"allowedNamespaces": null}});
    here.change_identity("shared", patch).await?;
    let red = by(json!({"matchLabels": {"team": "red"}}));
    let patch = json!({"spec": {"allowedNamespaces": red}});
    here.change_identity("shared", patch).await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    let namespaces: Api<Namespace> = here.all();
    let label = |team: &str| json!({"metadata": {"labels": {"team": team}}});
    patched(&namespaces, "a", label("blue")).await?;
    let cluster = here
        .wait_for_reason("a", "prod", "NamespaceNotAllowed")
        .await?;
    assert_eq!(
        message(&cluster),
        "VSphereClusterIdentity shared does not allow namespace a: ask its owner to allow \
         this namespace, or reference a Secret of your namespace"
    );
    assert_eq!(
        cluster.status.unwrap().initialization.unwrap().provisioned,
        Some(true)
    );
    uses(&vcenter, &[]).await?;
    patched(&namespaces, "a", label("red")).await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    uses(&vcenter, &["one"]).await
}

#[tokio::test]
async fn r1_rotated_passwords_leave_one_session() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("one", "pw")]).await?;
    let running = world.start();
    let here = world.here();
    here.shared("shared", ("one", "pw"), allowed(&vcenter))
        .await?;
    here.namespace("a", json!({})).await?;
    for name in ["prod", "test"] {
        here.owned("a", name, by_identity(&vcenter, "shared"))
            .await?;
        here.wait_for_reason("a", name, "Available").await?;
    }
    assert_eq!(accounts(&vcenter), ["one"]);
    for number in 0..5 {
        let (password, logins) = (format!("pw{number}"), vcenter.logins().len());
        vcenter.set_password("one", &password);
        here.rotate(HOME, "shared", &password).await?;
        vcenter
            .wait_for("a login with the new password", |vcenter| {
                let all = vcenter.logins();
                all.len() == logins + 1
                    && all.iter().all(|login| login.ok)
                    && accounts(vcenter) == ["one"]
            })
            .await?;
    }
    // A deleted cluster leaves no session, and neither does a stopped operator.
    here.wait_for_reason("a", "prod", "Available").await?;
    delete(
        &here.inside::<insula_vsphere::kinds::VSphereCluster>("a"),
        "prod",
    )
    .await?;
    gone(
        &here.inside::<insula_vsphere::kinds::VSphereCluster>("a"),
        "prod",
    )
    .await?;
    assert_eq!(accounts(&vcenter), ["one"]);
    running.stop().await?;
    assert_eq!(accounts(&vcenter), Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn c7_changed_reference_is_used_and_the_old_secret_released() -> anyhow::Result<()> {
    let world = World::new().await?;
    let people = [("a", "pw"), ("b", "pw"), ("shared", "pw"), ("given", "pw")];
    let vcenter = FakeVCenter::start(&people).await?;
    let mut settings = world.settings();
    settings.extra_roots = vec![vcenter.ca_der()?];
    let _running = world.start_with(settings);
    let here = world.here();
    world.set_static_credentials("given", "pw", &[&vcenter.address()]);
    here.shared("shared", ("shared", "pw"), allowed(&vcenter))
        .await?;
    here.namespace("a", json!({})).await?;
    here.account("a", "a", ("a", "pw")).await?;
    here.account("a", "b", ("b", "pw")).await?;
    here.owned("a", "prod", by_secret(&vcenter, "a")).await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    let identity = json!({"kind": "VSphereClusterIdentity", "name": "shared"});
    let secret = |name: &str| json!({"kind": "Secret", "name": name});
    for (reference, account, released) in [
        (secret("b"), "b", Some("a")),
        (identity.clone(), "shared", Some("b")),
        (Value::Null, "given", None),
        (secret("a"), "a", None),
        (identity, "shared", Some("a")),
        (secret("b"), "b", None),
        (Value::Null, "given", Some("b")),
    ] {
        let told = reference.to_string();
        here.change("a", "prod", json!({"spec": {"identityRef": reference}}))
            .await?;
        uses(&vcenter, &[account])
            .await
            .map_err(|error| error.context(told))?;
        here.wait_for_reason("a", "prod", "Available").await?;
        if let Some(name) = released {
            is_released(&here, "a", name).await?;
        }
    }
    until(
        &here.all(),
        "shared",
        |identity: &VSphereClusterIdentity| {
            identity
                .status
                .as_ref()
                .is_some_and(|status| status.users == Some(0))
        },
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn c4_x1_claims_are_restored_and_other_owners_stay() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("own", "pw")]).await?;
    let _running = world.start();
    let here = world.here();
    here.namespace("a", json!({})).await?;
    let map = json!({"metadata": {"name": "sealed"}});
    let sealed: k8s_openapi::api::core::v1::ConfigMap =
        crate::world::create(&here.inside("a"), map).await?;
    let foreign = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "sealed", "uid": sealed.uid(),
    });
    here.account("a", "own", ("own", "pw")).await?;
    let secrets: Api<Secret> = here.inside("a");
    let patch = json!({"metadata": {"ownerReferences": [foreign]}});
    patched(&secrets, "own", patch).await?;
    let cluster = here.owned("a", "prod", by_secret(&vcenter, "own")).await?;
    let uid = cluster.uid().unwrap();
    let is_right = |secret: &Secret| {
        let owners = secret.owner_references();
        let ours = owners.iter().find(|owner| owner.kind == "VSphereCluster");
        owners.len() == 2
            && ours.is_some_and(|owner| owner.uid == uid)
            && secret.finalizers() == [SECRET_FINALIZER]
    };
    until(&secrets, "own", is_right).await?;
    let stale = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha3", "kind": "VSphereCluster",
        "name": "prod", "uid": "00000000-0000-0000-0000-000000000000",
    });
    for owners in [json!([foreign]), json!([foreign, stale])] {
        let patch = json!({"metadata": {"ownerReferences": owners, "finalizers": []}});
        patched(&secrets, "own", patch).await?;
        until(&secrets, "own", is_right).await?;
    }
    here.wait_for_reason("a", "prod", "Available").await?;

    // A Secret with another owner stays when the cluster is deleted.
    let clusters = here.inside::<insula_vsphere::kinds::VSphereCluster>("a");
    delete(&clusters, "prod").await?;
    gone(&clusters, "prod").await?;
    let left = secrets.get("own").await?;
    assert_eq!(left.owner_references().len(), 1);
    assert!(left.finalizers().is_empty());
    Ok(())
}

#[tokio::test]
async fn a2_t1_t2_cr1_c2_c3_missing_objects_are_reported_and_recover() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("one", "pw")]).await?;
    let _running = world.start();
    let here = world.here();
    here.namespace("a", json!({})).await?;
    here.namespace("b", json!({})).await?;
    here.owned("a", "prod", by_identity(&vcenter, "shared"))
        .await?;
    let cluster = here
        .wait_for_reason("a", "prod", "IdentityNotFound")
        .await?;
    assert_eq!(
        message(&cluster),
        "there is no VSphereClusterIdentity shared: reference an existing one, or ask an \
         administrator to create it"
    );

    // A Secret of that name in another namespace does not count.
    here.account("a", "shared", ("one", "pw")).await?;
    let spec = json!({
        "secretName": "shared", "allowedNamespaces": {}, "allowedServers": allowed(&vcenter),
    });
    here.identity("shared", spec).await?;
    let identity = here
        .wait_for_identity_reason("shared", "SecretNotAvailable")
        .await?;
    assert_eq!(identity.status.clone().unwrap().ready, Some(false));
    let told = condition(&identity.status.as_ref().unwrap().conditions, "Available").unwrap();
    assert_eq!(told.message, "there is no Secret capv-system/shared");
    here.wait_for_reason("a", "prod", "IdentityNotReady")
        .await?;

    // Secrets that lack a key.
    here.secret(HOME, "shared", &[("password", "pw")]).await?;
    let identity = here
        .wait_for_identity_reason("shared", "InvalidCredentials")
        .await?;
    let told = condition(&identity.status.as_ref().unwrap().conditions, "Available").unwrap();
    assert_eq!(told.message, "Secret capv-system/shared has no username");
    let secrets: Api<Secret> = here.inside(HOME);
    delete(&secrets, "shared").await?;
    gone(&secrets, "shared").await?;
    here.wait_for_identity_reason("shared", "SecretNotAvailable")
        .await?;
    here.secret(HOME, "shared", &[("username", "one")]).await?;
    let identity = here
        .wait_for_identity_reason("shared", "InvalidCredentials")
        .await?;
    let told = condition(&identity.status.as_ref().unwrap().conditions, "Available").unwrap();
    assert_eq!(told.message, "Secret capv-system/shared has no password");
    here.rotate(HOME, "shared", "").await?;
    here.wait_for_identity_reason("shared", "InvalidCredentials")
        .await?;
    here.wait_for_reason("a", "prod", "IdentityNotReady")
        .await?;
    assert_eq!(vcenter.connections(), 0);
    here.rotate(HOME, "shared", "pw").await?;
    let identity = here.wait_for_identity_reason("shared", "Available").await?;
    assert_eq!(identity.status.unwrap().ready, Some(true));
    here.wait_for_reason("a", "prod", "Available").await?;

    // A Secret of another namespace does not count, nor does one that contains no account.
    here.owned("b", "prod", by_secret(&vcenter, "shared"))
        .await?;
    let cluster = here
        .wait_for_reason("b", "prod", "SecretNotAvailable")
        .await?;
    assert_eq!(
        message(&cluster),
        "the Secret shared does not exist in namespace b: create it there, with username and \
         password; Secrets of other namespaces are never used"
    );
    let lacks = |keys: &str| format!("the Secret shared lacks {keys}");
    here.secret("b", "shared", &[("password", "pw")]).await?;
    for (patch, keys) in [
        (json!({}), "username"),
        (json!({"stringData": {"username": ""}}), "username"),
        (
            json!({"stringData": {"password": ""}}),
            "username and password",
        ),
        (json!({"stringData": {"username": "one"}}), "password"),
    ] {
        patched(&here.inside::<Secret>("b"), "shared", patch).await?;
        here.wait_for_cluster("b", "prod", |cluster| {
            message(cluster) == format!("{}: correct the Secret", lacks(keys))
        })
        .await?;
        here.wait_for_reason("b", "prod", "InvalidCredentials")
            .await?;
    }
    here.rotate("b", "shared", "pw").await?;
    here.wait_for_reason("b", "prod", "Available").await?;
    // A Secret that another cluster has claimed cannot be used.
    here.owned("b", "late", by_secret(&vcenter, "shared"))
        .await?;
    let cluster = here.wait_for_reason("b", "late", "SecretInUse").await?;
    assert_eq!(
        message(&cluster),
        "the Secret shared is in use by VSphereCluster prod: a Secret serves one object; create \
         another Secret, or share an identity"
    );
    Ok(())
}

#[tokio::test]
async fn deleted_secret_stays_while_used_and_forced_deletion_is_reported() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("one", "pw")]).await?;
    let _running = world.start();
    let here = world.here();
    here.shared("shared", ("one", "pw"), allowed(&vcenter))
        .await?;
    here.namespace("a", json!({})).await?;
    here.owned("a", "prod", by_identity(&vcenter, "shared"))
        .await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    let secrets: Api<Secret> = here.inside(HOME);
    delete(&secrets, "shared").await?;
    let identity = until(
        &here.all(),
        "shared",
        |identity: &VSphereClusterIdentity| {
            let status = identity.status.as_ref();
            let told = status.and_then(|status| condition(&status.conditions, "Available"));
            told.is_some_and(|told| told.message.contains("is being deleted"))
        },
    )
    .await?;
    assert_eq!(identity.status.unwrap().ready, Some(true));
    let cluster = here.wait_for_reason("a", "prod", "Available").await?;
    assert_eq!(
        condition(conditions(&cluster), "Ready").unwrap().status,
        "True"
    );
    // It is deleted by force.
    let patch = json!({"metadata": {"finalizers": []}});
    patched(&secrets, "shared", patch).await?;
    gone(&secrets, "shared").await?;
    let identity = here
        .wait_for_identity_reason("shared", "SecretNotAvailable")
        .await?;
    assert_eq!(identity.status.unwrap().ready, Some(false));
    here.wait_for_reason("a", "prod", "IdentityNotReady")
        .await?;
    uses(&vcenter, &[]).await?;
    // It is created again.
    here.account(HOME, "shared", ("one", "pw")).await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    Ok(())
}
