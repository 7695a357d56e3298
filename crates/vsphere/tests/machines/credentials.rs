//! A virtual machine is created with the credential of its cluster, or not at all.

use insula_testkit::vcenter::FakeVCenter;
use insula_vsphere::kinds::{VSphereMachine, VSphereVM};
use insula_vsphere::operator::{Settings, StaticCredentials};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::world::{Running, World, settings};

const A: (&str, &str) = ("team-a", "pa");
const B: (&str, &str) = ("team-b", "pb");

/// Returns a VSphereVM without a machine.
fn vm(namespace: &str, name: &str, cluster: Option<&str>, spec: Value) -> Value {
    let labels = match cluster {
        Some(cluster) => json!({"cluster.x-k8s.io/cluster-name": cluster}),
        None => json!({}),
    };
    let mut whole = json!({
        "template": "ubuntu",
        "network": {"devices": [{"networkName": "VM Network", "dhcp4": true}]},
    });
    for (name, value) in spec.as_object().expect("an object") {
        whole[name] = value.clone();
    }
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "VSphereVM",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": whole,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn g1_machine_is_created_with_the_account_of_its_cluster_only() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[A, B]).await?;
    world.team("team-a", &vcenter, A).await?;
    world.team("team-b", &vcenter, B).await?;
    let operator = world.start(&["team-a", "team-b"]);
    world.machine("team-a", "a-1", json!({})).await?;
    world.machine("team-b", "b-1", json!({})).await?;
    world.wait_until_ready("team-a", "a-1").await?;
    world.wait_until_ready("team-b", "b-1").await?;
    for (name, account) in [("a-1", "team-a"), ("b-1", "team-b")] {
        let machine = vcenter
            .machine(&format!("/DC0/vm/{name}"))
            .expect("it is there");
        assert_eq!(machine.created_by, account);
        let object = format!("VirtualMachine:{}", machine.id);
        let calls = vcenter.calls();
        let others = calls
            .iter()
            .filter(|call| call.object == object)
            .find(|call| call.account.as_deref() != Some(account));
        assert_eq!(others, None);
    }
    let logins: Vec<_> = vcenter
        .logins()
        .into_iter()
        .map(|login| login.account)
        .collect();
    assert_eq!(
        logins.iter().filter(|account| *account == "team-a").count(),
        1,
        "{logins:?}"
    );
    assert_eq!(
        logins.iter().filter(|account| *account == "team-b").count(),
        1,
        "{logins:?}"
    );
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn fr5_object_without_a_cluster_gets_no_credential() -> anyhow::Result<()> {
    let world = World::new().await?;
    // The static credentials are for this vCenter, and no object may reach it.
    let vcenter = FakeVCenter::start(&[("operator", "po")]).await?;
    world
        .put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}))
        .await?;
    for (name, group, kind) in [
        ("aws", "infrastructure.cluster.x-k8s.io", "AWSCluster"),
        ("evil", "evil.example", "VSphereCluster"),
        (
            "dangling",
            "infrastructure.cluster.x-k8s.io",
            "VSphereCluster",
        ),
    ] {
        world
            .put(&json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
                "metadata": {"name": name, "namespace": "team-a"},
                "spec": {"infrastructureRef": {"apiGroup": group, "kind": kind, "name": name}},
            }))
            .await?;
    }
    let (_sender, static_credentials) = watch::channel(Some(StaticCredentials {
        data: [("username", "operator"), ("password", "po")]
            .map(|(key, value)| {
                (
                    key.to_owned(),
                    insula_identity::credential::Hidden::new(value),
                )
            })
            .into(),
        bound: insula_identity::endpoint::AllowedEndpoints::Anywhere,
    }));
    let operator = Running::new(
        world.admin.clone(),
        with_static_credentials(static_credentials),
    );
    let server = json!({"server": vcenter.address(), "thumbprint": vcenter.thumbprint_sha1()});
    for (name, cluster, reason, message) in [
        (
            "no-label",
            None,
            "ClusterNotFound",
            "it has no label cluster.x-k8s.io/cluster-name, so it belongs to no cluster",
        ),
        (
            "nowhere",
            Some("nowhere"),
            "ClusterNotFound",
            "there is no Cluster \"nowhere\"",
        ),
        (
            "on-aws",
            Some("aws"),
            "VSphereClusterNotFound",
            "Cluster \"aws\" references a AWSCluster of infrastructure.cluster.x-k8s.io, not a \
             VSphereCluster of infrastructure.cluster.x-k8s.io",
        ),
        (
            "on-evil",
            Some("evil"),
            "VSphereClusterNotFound",
            "Cluster \"evil\" references a VSphereCluster of evil.example, not a VSphereCluster of \
             infrastructure.cluster.x-k8s.io",
        ),
        (
            "dangling",
            Some("dangling"),
            "VSphereClusterNotFound",
            "there is no VSphereCluster \"dangling\"",
        ),
    ] {
        world
            .put(&vm("team-a", name, cluster, server.clone()))
            .await?;
        let expected = ("False", reason, message);
        world
            .wait_for_reason::<VSphereVM>("team-a", name, "VCenterAvailable", expected)
            .await?;
        let ready = format!("* VCenterAvailable: {message}");
        world
            .wait_for_reason::<VSphereVM>("team-a", name, "Ready", ("False", "NotReady", &ready))
            .await?;
        // Nothing was started, so the deletion needs no vCenter.
        world.delete::<VSphereVM>("team-a", name).await?;
        world.wait_until_gone::<VSphereVM>("team-a", name).await?;
    }
    assert_eq!(vcenter.connections(), 0);
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn fr5_machine_on_another_server_sends_nothing_there() -> anyhow::Result<()> {
    let world = World::new().await?;
    let (vcenter, evil) = (
        FakeVCenter::start(&[A]).await?,
        FakeVCenter::start(&[A]).await?,
    );
    world.team("team-a", &vcenter, A).await?;
    let operator = world.start(&["team-a"]);
    let elsewhere = json!({"server": evil.address(), "thumbprint": evil.thumbprint_sha1()});
    world.machine("team-a", "m", elsewhere.clone()).await?;
    world
        .put(&vm("team-a", "v", Some("prod"), elsewhere))
        .await?;
    for name in ["m", "v"] {
        let refused = |vm: &VSphereVM| {
            let status = vm.status.clone().unwrap_or_default();
            let told = status
                .conditions
                .iter()
                .find(|told| told.type_ == "VCenterAvailable");
            told.is_some_and(|told| told.reason == "ServerNotAllowed" && told.status == "False")
        };
        world.wait_until("team-a", name, refused).await?;
    }
    let mirrored = |machine: &VSphereMachine| {
        let status = machine.status.clone().unwrap_or_default();
        let told = status
            .conditions
            .iter()
            .find(|told| told.type_ == "VirtualMachineProvisioned");
        told.is_some_and(|told| told.reason == "ServerNotAllowed")
    };
    world.wait_until("team-a", "m", mirrored).await?;
    assert_eq!(evil.connections(), 0);
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn fr5_withdrawn_identity_blocks_until_it_is_allowed_again() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[A]).await?;
    world
        .put(&json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "team-a", "labels": {"may": "yes"}},
        }))
        .await?;
    world
        .put(&json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "shared", "namespace": "capv-system"},
            "stringData": {"username": A.0, "password": A.1},
        }))
        .await?;
    world
        .put(&json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
            "kind": "VSphereClusterIdentity",
            "metadata": {"name": "shared"},
            "spec": {
                "secretName": "shared",
                "allowedNamespaces": {"selector": {"matchLabels": {"may": "yes"}}},
                "allowedServers": [{
                    "address": vcenter.address(), "thumbprint": vcenter.thumbprint_sha1(),
                }],
            },
        }))
        .await?;
    let reference = json!({"kind": "VSphereClusterIdentity", "name": "shared"});
    let (address, thumbprint) = (vcenter.address(), vcenter.thumbprint_sha1());
    world
        .cluster("team-a", "prod", &address, &thumbprint, reference)
        .await?;
    let operator = world.start(&["team-a"]);
    world.machine("team-a", "m", json!({})).await?;
    world.wait_until_ready("team-a", "m").await?;
    let namespaces: Api<Namespace> = Api::all(world.admin.clone());
    let label = async |value: &str| {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"may": value}}}));
        namespaces
            .patch("team-a", &PatchParams::default(), &patch)
            .await
    };
    label("no").await?;
    let refused = |vm: &VSphereVM| {
        let status = vm.status.clone().unwrap_or_default();
        let told = status
            .conditions
            .iter()
            .find(|told| told.type_ == "VCenterAvailable");
        told.is_some_and(|told| told.reason == "NamespaceNotAllowed")
    };
    world.wait_until("team-a", "m", refused).await?;
    world.delete::<VSphereMachine>("team-a", "m").await?;
    let blocked = |vm: &VSphereVM| {
        let status = vm.status.clone().unwrap_or_default();
        let told = status
            .conditions
            .iter()
            .find(|told| told.type_ == "VirtualMachineProvisioned");
        told.is_some_and(|told| {
            told.reason == "Deleting" && told.message.starts_with("it cannot be destroyed: ")
        })
    };
    let vm = world.wait_until("team-a", "m", blocked).await?;
    assert!(vm.metadata.deletion_timestamp.is_some());
    assert!(
        vcenter
            .machine("/DC0/vm/m")
            .is_some_and(|machine| machine.powered_on)
    );
    let mirrored = |machine: &VSphereMachine| {
        let status = machine.status.clone().unwrap_or_default();
        let told = status
            .conditions
            .iter()
            .find(|told| told.type_ == "VirtualMachineProvisioned");
        told.is_some_and(|told| told.message.starts_with("it cannot be destroyed: "))
    };
    world.wait_until("team-a", "m", mirrored).await?;
    label("yes").await?;
    world
        .wait_until_gone::<VSphereMachine>("team-a", "m")
        .await?;
    assert_eq!(vcenter.machine("/DC0/vm/m"), None);
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn fr5_bios_uuid_of_another_team_does_not_destroy_its_machine() -> anyhow::Result<()> {
    let world = World::new().await?;
    // Both teams share an account, so that only the operator keeps them apart.
    let vcenter = FakeVCenter::start(&[A]).await?;
    world.team("team-a", &vcenter, A).await?;
    world.team("team-b", &vcenter, A).await?;
    let operator = world.start(&["team-a", "team-b"]);
    world.machine("team-a", "victim", json!({})).await?;
    world.wait_until_ready("team-a", "victim").await?;
    let victim = world.api::<VSphereVM>("team-a").get("victim").await?;
    let uuid = victim.spec.bios_uuid.clone();
    // The same under the victim's own name.
    for name in ["thief", "victim"] {
        let spec = json!({"biosUUID": uuid, "folder": "nowhere"});
        world.put(&vm("team-b", name, Some("prod"), spec)).await?;
        let message =
            "the virtual machine with the BIOS UUID of spec.biosUUID belongs to another owner";
        let expected = ("False", "NotFoundByBIOSUUID", message);
        let kind = "VirtualMachineProvisioned";
        world
            .wait_for_reason::<VSphereVM>("team-b", name, kind, expected)
            .await?;
        world.delete::<VSphereVM>("team-b", name).await?;
        world.wait_until_gone::<VSphereVM>("team-b", name).await?;
    }
    assert!(
        vcenter
            .machine("/DC0/vm/victim")
            .is_some_and(|machine| machine.powered_on)
    );
    assert_eq!(
        vcenter.called("PowerOffVM_Task") + vcenter.called("Destroy_Task"),
        0
    );
    assert_eq!(victim.name_any(), "victim");
    operator.stop().await
}

/// Returns static credentials for one server.
/// Returns the settings of an operator with static credentials.
fn with_static_credentials(
    static_credentials: watch::Receiver<Option<StaticCredentials>>,
) -> Settings {
    let mut settings = settings(&["team-a"]);
    settings.shell.static_credentials = static_credentials;
    settings
}

fn static_credentials_for(server: &str) -> StaticCredentials {
    use insula_identity::credential::Hidden;
    use insula_identity::endpoint::{AllowedEndpoints, Endpoint};
    let endpoint = Endpoint::parse(server, 443).expect("a server");
    StaticCredentials {
        data: [("username", "operator"), ("password", "po")]
            .map(|(key, value)| (key.to_owned(), Hidden::new(value)))
            .into(),
        bound: AllowedEndpoints::Only([(endpoint, None)].into()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s1_identity_for_another_vcenter_is_used_instead_of_static_credentials()
-> anyhow::Result<()> {
    let world = World::new().await?;
    let home = FakeVCenter::start(&[("operator", "po"), A]).await?;
    let other = FakeVCenter::start(&[("operator", "po"), A]).await?;
    world.team("team-a", &other, A).await?;
    let (_sender, static_credentials) =
        watch::channel(Some(static_credentials_for(&home.address())));
    let settings = with_static_credentials(static_credentials);
    let operator = Running::new(world.admin.clone(), settings);
    world.machine("team-a", "m", json!({})).await?;
    world.wait_until_ready("team-a", "m").await?;
    let made = other.machine("/DC0/vm/m").expect("it is there");
    assert_eq!(made.created_by, A.0);
    assert_eq!(home.machine("/DC0/vm/m"), None);
    assert_eq!(home.connections(), 0);
    let accounts: Vec<_> = other.logins().into_iter().map(|one| one.account).collect();
    assert_eq!(accounts, [A.0]);
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn cr2_machine_without_credential_is_not_created_and_reports_why() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("operator", "po"), A]).await?;
    world.account("team-a", A).await?;
    world
        .put(&json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "closed", "namespace": "capv-system"},
            "stringData": {"username": A.0, "password": A.1},
        }))
        .await?;
    world
        .put(&json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
            "kind": "VSphereClusterIdentity", "metadata": {"name": "closed"},
            "spec": {
                "secretName": "closed",
                "allowedServers": [{"address": vcenter.address()}],
            },
        }))
        .await?;
    let identity = |name: &str| json!({"kind": "VSphereClusterIdentity", "name": name});
    let (_sender, static_credentials) =
        watch::channel(Some(static_credentials_for(&vcenter.address())));
    let settings = with_static_credentials(static_credentials);
    let operator = Running::new(world.admin.clone(), settings);
    for (name, reference, reason, hint) in [
        (
            "missing",
            identity("nobody"),
            "IdentityNotFound",
            ": reference an existing one, or ask an administrator to create it",
        ),
        (
            "closed",
            identity("closed"),
            "NamespaceNotAllowed",
            ": ask its owner to set allowedNamespaces",
        ),
        (
            "secret",
            json!({"kind": "Secret", "name": "nothing"}),
            "SecretNotAvailable",
            "; Secrets of other namespaces are never used",
        ),
    ] {
        let (address, thumbprint) = (vcenter.address(), vcenter.thumbprint_sha256());
        world
            .cluster("team-a", name, &address, &thumbprint, reference)
            .await?;
        world.machine_of("team-a", name, name, json!({})).await?;
        let refused = |vm: &VSphereVM| {
            let status = vm.status.clone().unwrap_or_default();
            let told = status.conditions.into_iter();
            let mut told = told.filter(|told| told.type_ == "VCenterAvailable");
            told.any(|told| told.reason == reason && told.message.ends_with(hint))
        };
        world.wait_until("team-a", name, refused).await?;
        let mirrored = |machine: &VSphereMachine| {
            let status = machine.status.clone().unwrap_or_default();
            let told = status.conditions.into_iter();
            let mut told = told.filter(|told| told.type_ == "VirtualMachineProvisioned");
            told.any(|told| told.status == "False" && told.reason == reason)
        };
        let machine = world
            .wait_until::<VSphereMachine>("team-a", name, mirrored)
            .await?;
        let status = machine.status.unwrap_or_default();
        assert_eq!(
            (status.ready, status.initialization),
            (None, None),
            "{name}"
        );
        assert_eq!(machine.spec.provider_id, None, "{name}");
        world.delete::<VSphereMachine>("team-a", name).await?;
        world
            .wait_until_gone::<VSphereMachine>("team-a", name)
            .await?;
    }
    assert_eq!(vcenter.connections(), 0);
    operator.stop().await
}
