//! The system's space and those of two tenants, with the same names in all of them.

use insula_operator::provider::explain::{self, CredentialReport, Verdict};
use insula_testkit::vcenter::FakeVCenter;
use insula_vsphere::inspect::VSphere;
use insula_vsphere::kinds::{
    VSphereCluster, VSphereClusterIdentity, VSphereDeploymentZone, VSphereMachine,
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use crate::basics::{accounts, allowed, by_identity, by_secret};
use crate::world::{
    HOME, Space, World, condition, conditions, create, delete, gone, patched, until,
};

const SPACES: [Option<&str>; 3] = [None, Some("t1"), Some("t2")];

fn name(space: Option<&str>) -> &str {
    space.unwrap_or("system")
}

#[tokio::test]
async fn g1_o04_spaces_with_equal_names_keep_their_own_accounts() -> anyhow::Result<()> {
    let world = World::new().await?;
    let people = [("system", "p-system"), ("t1", "p-t1"), ("t2", "p-t2")];
    let vcenter = FakeVCenter::start(&people).await?;
    let running = world.start();
    for space in SPACES {
        let (here, password) = (world.space(space), format!("p-{}", name(space)));
        here.namespace("a", json!({"team": "red"})).await?;
        here.shared("shared", (name(space), &password), allowed(&vcenter))
            .await?;
        here.owned("a", "prod", by_identity(&vcenter, "shared"))
            .await?;
        here.account("a", "own", (name(space), &password)).await?;
        here.owned("a", "own", by_secret(&vcenter, "own")).await?;
        here.domain("east", json!({"datacenter": "DC0"})).await?;
        let identity = json!({"kind": "VSphereClusterIdentity", "name": "shared"});
        let zone = json!({
            "server": vcenter.address(), "failureDomain": "east", "identityRef": identity,
        });
        here.zone("east", zone).await?;
        let selector = json!({"spec": {"failureDomainSelector": {}}});
        here.change("a", "prod", selector).await?;
    }
    for space in SPACES {
        let here = world.space(space);
        for cluster in ["prod", "own"] {
            here.wait_for_reason("a", cluster, "Available").await?;
        }
        here.wait_for_cluster("a", "prod", |cluster: &VSphereCluster| {
            let status = cluster.status.as_ref();
            status.is_some_and(|status| status.failure_domains.len() == 1)
        })
        .await?;
        until(
            &here.all(),
            "shared",
            |identity: &VSphereClusterIdentity| {
                identity
                    .status
                    .as_ref()
                    .is_some_and(|status| status.users == Some(2))
            },
        )
        .await?;
    }
    // Two sessions for each space: of the identity, and of the Secret.
    let expected = ["system", "system", "t1", "t1", "t2", "t2"];
    assert_eq!(accounts(&vcenter), expected);
    assert!(vcenter.logins().iter().all(|login| login.ok));
    assert_eq!(vcenter.logins().len(), 6);

    // A change in one space does not affect the others.
    let one = world.space(Some("t1"));
    let allowed =
        json!({"spec": {"allowedNamespaces": {"selector": {"matchLabels": {"team": "x"}}}}});
    one.change_identity("shared", allowed).await?;
    one.wait_for_reason("a", "prod", "NamespaceNotAllowed")
        .await?;
    let labels = json!({"metadata": {"labels": {"team": "x"}}});
    patched(&world.here().all::<Namespace>(), "a", labels.clone()).await?;
    for space in [None, Some("t2")] {
        world
            .space(space)
            .wait_for_reason("a", "prod", "Available")
            .await?;
    }
    one.wait_for_reason("a", "prod", "NamespaceNotAllowed")
        .await?;
    patched(&one.all::<Namespace>(), "a", labels).await?;
    one.wait_for_reason("a", "prod", "Available").await?;

    // A deleted tenant leaves no session.
    let two = world.space(Some("t2"));
    for cluster in ["prod", "own"] {
        delete(&two.inside::<VSphereCluster>("a"), cluster).await?;
        gone(&two.inside::<VSphereCluster>("a"), cluster).await?;
    }
    delete(&two.all::<VSphereDeploymentZone>(), "east").await?;
    until(&two.all(), "shared", |identity: &VSphereClusterIdentity| {
        identity
            .status
            .as_ref()
            .is_some_and(|status| status.users == Some(0))
    })
    .await?;
    delete(&two.all::<VSphereClusterIdentity>(), "shared").await?;
    gone(&two.inside::<Secret>(HOME), "shared").await?;
    vcenter
        .wait_for("the sessions of the others", |vcenter| {
            accounts(vcenter) == ["system", "system", "t1", "t1"]
        })
        .await?;
    let secrets: Api<Secret> = world.here().inside(HOME);
    assert!(secrets.get_opt("shared").await?.is_some());
    running.stop().await?;
    assert_eq!(accounts(&vcenter), Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn identity_of_the_system_is_lent_to_the_tenants_that_it_allows() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("lent", "p"), ("own", "p")]).await?;
    let running = world.start();
    let (system, one) = (world.here(), world.space(Some("t1")));
    let two = world.space(Some("t2"));
    system.account(HOME, "lent", ("lent", "p")).await?;
    let gold = json!({"selector": {"matchLabels": {"plan": "gold"}}});
    let spec = json!({
        "secretName": "lent", "allowedTenants": gold, "allowedServers": allowed(&vcenter),
    });
    system.identity("lent", spec).await?;
    for space in [&one, &two] {
        space.namespace("a", json!({})).await?;
        space
            .owned("a", "prod", by_identity(&vcenter, "lent"))
            .await?;
    }
    // A tenant that may not use it is told the same as about one that does not exist.
    for space in [&one, &two] {
        let refused = space
            .wait_for_reason("a", "prod", "IdentityNotFound")
            .await?;
        let told = condition(conditions(&refused), "VCenterAvailable");
        assert_eq!(
            told.map(|told| told.message.as_str()),
            Some(
                "there is no VSphereClusterIdentity lent: reference an existing one, or ask an \
                 administrator to create it"
            )
        );
    }
    assert_eq!(accounts(&vcenter), Vec::<String>::new());

    // The label of the tenant decides, at once and in both directions.
    let tenants = tenants(&world);
    let plan = |plan: &str| json!({"metadata": {"labels": {"plan": plan}}});
    patched(&tenants, "t1", plan("gold")).await?;
    one.wait_for_reason("a", "prod", "Available").await?;
    two.wait_for_reason("a", "prod", "IdentityNotFound").await?;
    let used_by = |users: &[&str]| {
        let users: Vec<String> = users.iter().map(|&user| user.to_owned()).collect();
        move |identity: &VSphereClusterIdentity| {
            let status = identity.status.as_ref();
            status.is_some_and(|status| status.used_by == users)
        }
    };
    let borrowed = used_by(&["VSphereCluster a/prod of tenant t1"]);
    until(&system.all(), "lent", borrowed).await?;
    // The system's own namespaces do not get it: it allows none.
    system.namespace("a", json!({})).await?;
    system
        .owned("a", "prod", by_identity(&vcenter, "lent"))
        .await?;
    system
        .wait_for_reason("a", "prod", "NamespaceNotAllowed")
        .await?;
    assert_eq!(accounts(&vcenter), ["lent"]);

    // It is kept while a tenant uses it.
    delete(&system.all::<VSphereClusterIdentity>(), "lent")
        .await
        .expect_err("it is in use");

    // An identity of the tenant's own takes precedence.
    one.shared("lent", ("own", "p"), allowed(&vcenter)).await?;
    vcenter
        .wait_for("the tenant's own account", |vcenter| {
            accounts(vcenter) == ["own"]
        })
        .await?;
    one.change("a", "prod", by_identity_patch("other")).await?;
    until(&one.all(), "lent", used_by(&[])).await?;
    delete(&one.all::<VSphereClusterIdentity>(), "lent").await?;
    gone(&one.all::<VSphereClusterIdentity>(), "lent").await?;
    one.change("a", "prod", by_identity_patch("lent")).await?;
    one.wait_for_reason("a", "prod", "Available").await?;
    assert_eq!(accounts(&vcenter), ["lent"]);

    // The tenant sees that it gets a credential, and not which ones the system has.
    let report = explain(&one).await?;
    assert_eq!(report.verdict(), Verdict::Granted, "{report}");
    assert!(
        report.to_string().contains(
            "this space has no VSphereClusterIdentity lent, and only the operator knows whether \
             the system lends one to it"
        ),
        "{report}"
    );

    // A tenant that loses the label loses the session. While it has machines, which could not be
    // cleaned up without the identity, it still counts as a user.
    let machine = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "VSphereMachine",
        "metadata": {"name": "m", "labels": {"cluster.x-k8s.io/cluster-name": "prod"}},
        "spec": {"template": "t", "network": {"devices": []}},
    });
    create::<VSphereMachine>(&one.inside("a"), machine).await?;
    patched(&tenants, "t1", plan("tin")).await?;
    one.wait_for_reason("a", "prod", "IdentityNotFound").await?;
    vcenter
        .wait_for("no session", |vcenter| accounts(vcenter).is_empty())
        .await?;
    let report = explain(&one).await?;
    assert_eq!(report.verdict(), Verdict::Refused, "{report}");
    system
        .change_identity("lent", json!({"metadata": {"labels": {"recount": "1"}}}))
        .await?;
    delete(&system.all::<VSphereClusterIdentity>(), "lent")
        .await
        .expect_err("a machine needs it");
    let borrowed = used_by(&["VSphereCluster a/prod of tenant t1"]);
    until(&system.all(), "lent", borrowed).await?;
    delete(&one.inside::<VSphereMachine>("a"), "m").await?;
    until(&system.all(), "lent", used_by(&[])).await?;
    delete(&system.all::<VSphereClusterIdentity>(), "lent").await?;
    gone(&system.inside::<Secret>(HOME), "lent").await?;
    running.stop().await
}

async fn explain(space: &Space) -> anyhow::Result<CredentialReport> {
    let report = explain::report(&space.client, &VSphere, "VSphereCluster", "a", "prod").await;
    Ok(report?)
}

fn by_identity_patch(name: &str) -> Value {
    json!({"spec": {"identityRef": {"kind": "VSphereClusterIdentity", "name": name}}})
}

fn tenants(world: &World) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("", "v1", "Tenant");
    let kind = ApiResource::from_gvk_with_plural(&kind, "tenants");
    Api::all_with(world.admin.clone(), &kind)
}
