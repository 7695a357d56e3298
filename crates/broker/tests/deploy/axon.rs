//! `deploy axon-cp`.

use std::collections::BTreeSet;
use std::time::Duration;

use insula_broker::deploy::axon::{self, AxonSettings};
use insula_broker::report::Silent;
use insula_broker::{Error, manifests};
use insula_testkit::server::TestServer;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::Subject;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::scene::{Fault, Told, client, inventory, kind, until, watched};

fn settings() -> AxonSettings {
    AxonSettings {
        operator_image: "registry.example/insula:1".to_owned(),
        deployment: true,
        admins: Vec::new(),
        spaces: false,
    }
}

fn user(name: &str) -> Subject {
    Subject {
        kind: "User".to_owned(),
        name: name.to_owned(),
        api_group: Some("rbac.authorization.k8s.io".to_owned()),
        namespace: None,
    }
}

/// With all options.
fn everything() -> AxonSettings {
    AxonSettings {
        admins: vec![user("olga")],
        spaces: true,
        ..settings()
    }
}

async fn put(client: &Client, plural: &str, namespace: &str, object: Value) -> kube::Result<()> {
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &kind(plural));
    let object: DynamicObject = serde_json::from_value(object).expect("it is an object");
    api.create(&PostParams::default(), &object).await.map(drop)
}

#[tokio::test]
async fn r12_to_r17_empty_cluster_gets_everything_the_operator_needs() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let admin = client(&server, "system")?;
    let before = inventory(&admin).await?;
    axon::deploy(&admin, &everything(), &Silent).await?;
    let after = inventory(&admin).await?;
    let made: BTreeSet<_> = after
        .keys()
        .filter(|key| !before.contains_key(*key))
        .collect();
    let expected = [
        "clusterrolebindings /axon-operator",
        "clusterrolebindings /axon-operator-spaces",
        "clusterroles /axon-operator",
        "clusterroles /axon-operator-spaces",
        "customresourcedefinitions /brokers.submariner.io",
        "customresourcedefinitions /clusters.submariner.io",
        "customresourcedefinitions /endpoints.submariner.io",
        "customresourcedefinitions /serviceexports.multicluster.x-k8s.io",
        "customresourcedefinitions /serviceimports.multicluster.x-k8s.io",
        "customresourcedefinitions /tenants.submariner.io",
        "deployments axon-operator/axon-operator",
        "namespaces /axon-operator",
        "rolebindings axon-operator/axon-admin",
        "rolebindings axon-operator/axon-operator",
        "roles axon-operator/axon-admin",
        "roles axon-operator/axon-operator",
        "serviceaccounts axon-operator/axon-operator",
    ];
    assert_eq!(made.into_iter().collect::<Vec<_>>(), expected);
    let definitions: Api<CustomResourceDefinition> = Api::all(admin);
    for definition in definitions.list(&Default::default()).await? {
        let status = definition.status.clone().unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let established = conditions.iter().find(|one| one.type_ == "Established");
        let name = definition.name_any();
        assert_eq!(
            established.map(|one| one.status.as_str()),
            Some("True"),
            "{name}"
        );
        assert!(
            !conditions
                .iter()
                .any(|one| one.type_ == "NonStructuralSchema"),
            "{name}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn r16_r17_optional_objects_are_created_on_request_only() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let admin = client(&server, "system")?;
    let bare = AxonSettings {
        deployment: false,
        ..settings()
    };
    axon::deploy(&admin, &bare, &Silent).await?;
    let made = inventory(&admin).await?;
    for absent in [
        "deployments axon-operator/axon-operator",
        "roles axon-operator/axon-admin",
        "clusterroles /axon-operator-spaces",
    ] {
        assert!(!made.contains_key(absent), "{absent}");
    }
    assert!(made.contains_key("clusterroles /axon-operator"));
    Ok(())
}

#[tokio::test]
async fn leftover_permissions_are_kept_with_a_warning() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let admin = client(&server, "system")?;
    axon::deploy(&admin, &everything(), &Silent).await?;
    let told = Told::default();
    axon::deploy(&admin, &settings(), &told).await?;
    let subjects = everything().admins;
    let named: Vec<_> = subjects
        .iter()
        .map(|it| format!("{} {}", it.kind, it.name))
        .collect();
    let said = [
        format!(
            "Role and RoleBinding axon-admin in namespace axon-operator are kept, although no --axon-admin was given: {} may manage tenants. `kubectl -n axon-operator delete rolebinding,role axon-admin` revokes it",
            named.join(", ")
        ),
        "ClusterRole and ClusterRoleBinding axon-operator-spaces are kept, although --spaces was not given: the operator may create spaces. `kubectl delete clusterrolebinding,clusterrole axon-operator-spaces` revokes it".to_owned(),
    ];
    assert_eq!(told.warnings(), said);
    Ok(())
}

#[tokio::test]
async fn r18_second_deployment_changes_nothing() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let admin = client(&server, "system")?;
    axon::deploy(&admin, &everything(), &Silent).await?;
    let first = inventory(&admin).await?;
    let (again, record) = watched(&admin, None);
    let told = Told::default();
    axon::deploy(&again, &everything(), &told).await?;
    assert_eq!(inventory(&admin).await?, first);
    assert_eq!(record.writes(), []);
    let said = [
        "begin: Checking permissions",
        "begin: Deploying the Axon operator",
        "done: The Axon control plane is deployed",
    ];
    assert_eq!(told.all(), said);
    Ok(())
}

#[tokio::test]
async fn r18_drift_is_repaired_and_nothing_else_touched() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let admin = client(&server, "system")?;
    axon::deploy(&admin, &everything(), &Silent).await?;
    let whole = inventory(&admin).await?;
    let ours = whole
        .keys()
        .filter(|key| key.contains("axon") && !key.starts_with("namespaces"));
    for key in ours {
        let (plural, place) = key.split_once(' ').unwrap();
        let (namespace, name) = place.split_once('/').unwrap();
        let api: Api<DynamicObject> = match namespace {
            "" => Api::all_with(admin.clone(), &kind(plural)),
            namespace => Api::namespaced_with(admin.clone(), namespace, &kind(plural)),
        };
        let old = api.get(name).await?;
        api.delete(name, &DeleteParams::background()).await?;
        axon::deploy(&admin, &everything(), &Silent).await?;
        let new = api.get(name).await?;
        assert_ne!(new.uid(), old.uid(), "{key}");
        let rest = |whole: &std::collections::BTreeMap<String, String>| {
            let mut rest = whole.clone();
            rest.remove(key);
            rest
        };
        let now = inventory(&admin).await?;
        let known: Vec<_> = rest(&now).into_keys().collect();
        assert_eq!(known, rest(&whole).into_keys().collect::<Vec<_>>(), "{key}");
        for field in ["rules", "subjects", "spec"] {
            assert_eq!(new.data[field], old.data[field], "{key}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn r18_interrupted_deployment_is_completed_by_the_next() -> anyhow::Result<()> {
    let mut at = 1;
    loop {
        let server = TestServer::start_with_controllers().await?;
        let admin = client(&server, "system")?;
        let (cut, _) = watched(&admin, Some(Fault::AfterWrite(at)));
        let first = axon::deploy(&cut, &everything(), &Silent).await;
        axon::deploy(&admin, &everything(), &Silent).await?;
        let made = inventory(&admin).await?;
        let ours = made
            .keys()
            .filter(|key| key.contains("axon") || key.contains(".io"));
        assert_eq!(ours.count(), 17, "{at}: {made:?}");
        if first.is_ok() {
            break;
        }
        at += 1;
    }
    assert_eq!(at, 18, "one for each object, and one that was not cut");
    Ok(())
}

#[tokio::test]
async fn r18_terminating_definition_is_awaited_and_recreated() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let admin = client(&server, "system")?;
    axon::deploy(&admin, &settings(), &Silent).await?;
    let held = json!({
        "apiVersion": "submariner.io/v1alpha1", "kind": "Tenant",
        "metadata": {"name": "held", "finalizers": ["example.com/held"]},
    });
    put(&admin, "tenants", "axon-operator", held).await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
    let name = "tenants.submariner.io";
    let old = definitions.get(name).await?;
    definitions.delete(name, &DeleteParams::default()).await?;
    let told = Told::default();
    let settings = settings();
    let deploy = axon::deploy(&admin, &settings, &told);
    let waiting = format!("begin: Waiting for the deletion of CRD {name}");
    let release = async {
        until(|| told.all().contains(&waiting)).await;
        let tenants =
            Api::<DynamicObject>::namespaced_with(admin.clone(), "axon-operator", &kind("tenants"));
        let mut held = tenants.get("held").await?;
        held.metadata.finalizers = None;
        tenants
            .replace("held", &PostParams::default(), &held)
            .await?;
        anyhow::Ok(())
    };
    let (deployed, released) = tokio::join!(deploy, release);
    released?;
    deployed?;
    let new = definitions.get(name).await?;
    assert_ne!(new.uid(), old.uid());
    assert_eq!(new.metadata.deletion_timestamp, None);
    Ok(())
}

#[tokio::test]
async fn terminating_operator_namespace_is_refused() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let admin = client(&server, "system")?;
    let namespaces = Api::<DynamicObject>::all_with(admin.clone(), &kind("namespaces"));
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "axon-operator"}});
    namespaces
        .create(&PostParams::default(), &serde_json::from_value(namespace)?)
        .await?;
    let held = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "held", "finalizers": ["example.com/held"]},
    });
    put(&admin, "configmaps", "axon-operator", held).await?;
    namespaces
        .delete("axon-operator", &DeleteParams::default())
        .await?;
    let (again, record) = watched(&admin, None);
    let refused = axon::deploy(&again, &settings(), &Silent)
        .await
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "namespace axon-operator is being deleted"
    );
    assert_eq!(record.writes(), []);
    Ok(())
}

#[tokio::test]
async fn r9_r18_concurrent_deployments_create_each_object_once() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let admin = client(&server, "system")?;
    let settings = everything();
    let runs = (0..4).map(|_| axon::deploy(&admin, &settings, &Silent));
    futures_util::future::try_join_all(runs).await?;
    let (again, record) = watched(&admin, None);
    axon::deploy(&again, &settings, &Silent).await?;
    assert_eq!(record.writes(), []);
    Ok(())
}

#[tokio::test]
async fn r18_deployment_is_updated_to_another_image() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let admin = client(&server, "system")?;
    axon::deploy(&admin, &settings(), &Silent).await?;
    let newer = AxonSettings {
        operator_image: "registry.example/insula:2".to_owned(),
        ..settings()
    };
    let told = Told::default();
    axon::deploy(&admin, &newer, &told).await?;
    assert!(
        told.all()
            .contains(&"done: Updated Deployment axon-operator".to_owned())
    );
    let api = Api::<DynamicObject>::namespaced_with(admin, "axon-operator", &kind("deployments"));
    let found = api.get("axon-operator").await?;
    let image = &found.data["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "registry.example/insula:2");
    Ok(())
}

#[tokio::test]
async fn r18_newer_multicluster_definition_is_kept() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let admin = client(&server, "system")?;
    let api: Api<CustomResourceDefinition> = Api::all(admin.clone());
    let name = "serviceimports.multicluster.x-k8s.io";
    let mut newer = insula_broker::crds::all();
    newer.retain(|definition| definition.name_any() == name);
    let mut newer = newer.remove(0);
    newer.metadata.labels = Some(
        [("multicluster.x-k8s.io/release-version", "v0.5.0")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
    );
    newer.spec.names.short_names = Some(vec!["svcimport".to_owned()]);
    let mut beta = newer.spec.versions[0].clone();
    beta.name = "v1beta1".to_owned();
    newer.spec.versions[0].storage = false;
    newer.spec.versions.insert(0, beta);
    let put = api.create(&PostParams::default(), &newer).await?;
    axon::deploy(&admin, &settings(), &Silent).await?;
    let found = api.get(name).await?;
    assert_eq!(found.spec, put.spec);
    assert_eq!(found.metadata.labels, put.metadata.labels);
    Ok(())
}

#[tokio::test]
async fn r14_r25_objects_are_validated_by_the_definitions() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let admin = client(&server, "system")?;
    axon::deploy(&admin, &settings(), &Silent).await?;
    let tenant = |name: &str, spec: Value| {
        let kind = ("submariner.io/v1alpha1", "Tenant");
        (
            "tenants",
            json!({"apiVersion": kind.0, "kind": kind.1, "metadata": {"name": name}, "spec": spec}),
        )
    };
    let cluster = |name: &str, id: &str| {
        let spec = json!({"cluster_id": id, "cluster_cidr": ["10.0.0.0/16"], "service_cidr": [], "global_cidr": []});
        (
            "clusters",
            json!({"apiVersion": "submariner.io/v1", "kind": "Cluster", "metadata": {"name": name}, "spec": spec}),
        )
    };
    let import = |type_: &str, ips: Value| {
        let spec = json!({"type": type_, "ports": [{"port": 80}], "ips": ips});
        (
            "serviceimports",
            json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport", "metadata": {"generateName": "s-"}, "spec": spec}),
        )
    };
    let endpoint = |spec: Value| {
        (
            "endpoints",
            json!({"apiVersion": "submariner.io/v1", "kind": "Endpoint", "metadata": {"generateName": "e-"}, "spec": spec}),
        )
    };
    let whole = json!({
        "cluster_id": "east", "cable_name": "c", "hostname": "h", "subnets": ["10.0.0.0/16"],
        "private_ip": "10.0.0.1", "public_ip": "", "nat_enabled": false, "backend": "libreswan",
        "backend_config": {"natt-discovery-port": "4490"}, "healthCheckIP": "10.0.0.2",
    });
    let mut halved = whole.clone();
    halved.as_object_mut().unwrap().remove("backend");
    let brokers = |spec: Value| {
        (
            "brokers",
            json!({"apiVersion": "submariner.io/v1alpha1", "kind": "Broker", "metadata": {"generateName": "b-"}, "spec": spec}),
        )
    };
    let long = "a".repeat(45);
    for ((plural, object), refused) in [
        (tenant("acme", json!({})), None),
        (tenant(&long, json!({"isolation": "Space"})), None),
        (
            tenant(&format!("{long}a"), json!({})),
            Some("at most 45 characters"),
        ),
        (tenant("a.b", json!({})), Some("at most 45 characters")),
        (tenant("A", json!({})), Some("metadata.name")),
        (tenant("a_b", json!({})), Some("metadata.name")),
        (
            tenant("t1", json!({"isolation": "Else"})),
            Some("spec.isolation"),
        ),
        (
            tenant("t2", json!({"admins": [{"kind": "User"}]})),
            Some("spec.admins[0].name"),
        ),
        (
            tenant("t3", json!({"admins": [{"kind": "Star", "name": "a"}]})),
            Some("spec.admins[0].kind"),
        ),
        (
            tenant("t4", json!({"admins": [{"kind": "User", "name": "a"}]})),
            None,
        ),
        (cluster("east", "east"), None),
        (cluster("west", &"a".repeat(63)), None),
        (cluster("north", &"a".repeat(64)), Some("spec.cluster_id")),
        (cluster("south", ""), Some("spec.cluster_id")),
        (endpoint(whole), None),
        (endpoint(halved), Some("spec.backend: Required value")),
        (import("ClusterSetIP", json!(["10.0.0.1"])), None),
        (import("Other", json!([])), Some("spec.type")),
        (
            import("Headless", json!(["10.0.0.1", "10.0.0.2"])),
            Some("spec.ips"),
        ),
        (brokers(json!({})), None),
        (
            brokers(json!({"globalnetEnabled": "yes"})),
            Some("spec.globalnetEnabled"),
        ),
    ] {
        let put = put(&admin, plural, "axon-operator", object.clone()).await;
        match (put, refused) {
            (Ok(()), None) => {}
            (Err(kube::Error::Api(status)), Some(part)) => {
                assert_eq!(status.code, 422, "{object}");
                assert!(status.message.contains(part), "{}", status.message);
            }
            (put, refused) => panic!("{object}: {put:?}, {refused:?}"),
        }
    }
    Ok(())
}

#[tokio::test]
async fn tenant_isolation_is_defaulted_and_immutable() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let admin = client(&server, "system")?;
    axon::deploy(&admin, &settings(), &Silent).await?;
    let bare = json!({"apiVersion": "submariner.io/v1alpha1", "kind": "Tenant", "metadata": {"name": "bare"}});
    put(&admin, "tenants", "axon-operator", bare).await?;
    let api: Api<insula_broker::tenant::Tenant> = Api::namespaced(admin, "axon-operator");
    let mut found = api.get("bare").await?;
    assert_eq!(found.spec, Default::default());
    use insula_broker::tenant::Isolation;
    found.spec.isolation = Some(Isolation::Space);
    let changed = api.replace("bare", &PostParams::default(), &found).await;
    let Err(kube::Error::Api(status)) = changed else {
        panic!("{changed:?}");
    };
    assert!(
        status.message.contains("spec.isolation cannot be changed"),
        "{}",
        status.message
    );
    // Setting the current value explicitly is not a change.
    found.spec.isolation = Some(Isolation::Namespace);
    found.spec.owner = Some("olga".to_owned());
    api.replace("bare", &PostParams::default(), &found).await?;
    Ok(())
}

#[tokio::test]
async fn r16_axon_admins_manage_tenants_and_nothing_else() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let admin = client(&server, "system")?;
    axon::deploy(&admin, &everything(), &Silent).await?;
    let reviews: Api<SubjectAccessReview> = Api::all(admin);
    for (verb, group, resource, namespace, allowed) in [
        ("create", "submariner.io", "tenants", "axon-operator", true),
        ("list", "submariner.io", "tenants", "axon-operator", true),
        ("watch", "submariner.io", "tenants", "axon-operator", true),
        ("delete", "submariner.io", "tenants", "axon-operator", true),
        ("update", "submariner.io", "tenants", "axon-operator", false),
        ("create", "submariner.io", "tenants", "default", false),
        ("get", "", "secrets", "axon-operator", false),
        ("create", "", "namespaces", "", false),
        (
            "create",
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "",
            false,
        ),
        (
            "create",
            "rbac.authorization.k8s.io",
            "clusterroles",
            "",
            false,
        ),
    ] {
        let attributes =
            json!({"verb": verb, "group": group, "resource": resource, "namespace": namespace});
        let review = json!({"spec": {"user": "olga", "groups": ["system:authenticated"], "resourceAttributes": attributes}});
        let review = serde_json::from_value(review)?;
        let answer = reviews.create(&PostParams::default(), &review).await?;
        assert_eq!(
            answer.status.unwrap().allowed,
            allowed,
            "{verb} {resource} in {namespace:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn r19_missing_permissions_are_listed_and_nothing_is_written() -> anyhow::Result<()> {
    let server = TestServer::with_tokens("nobody,nobody,7,\"tenant:system\"\n").await?;
    let admin = client(&server, "system")?;
    let before = inventory(&admin).await?;
    let (nobody, record) = watched(&client(&server, "nobody")?, None);
    let refused = axon::deploy(&nobody, &settings(), &Silent)
        .await
        .unwrap_err();
    let Error::MissingPermissions(rights) = &refused else {
        panic!("{refused}");
    };
    for right in [
        "create/delete/get/list/patch/update/watch namespaces",
        "create/get/update customresourcedefinitions.apiextensions.k8s.io",
        "create/get/update deployments.apps in namespace axon-operator",
        "create/get/update clusterrolebindings.rbac.authorization.k8s.io",
        "create/get/update leases.coordination.k8s.io in namespace axon-operator",
    ] {
        let named = rights.iter().any(|named| named == right);
        assert!(named, "{right}: {rights:#?}");
    }
    let hint = "use a context of an administrator of the cluster: Kubernetes lets no user grant permissions that they do not have";
    assert_eq!(refused.hint().as_deref(), Some(hint));
    assert_eq!(record.writes(), []);
    assert_eq!(inventory(&admin).await?, before);
    Ok(())
}

#[tokio::test]
async fn r19_single_missing_permission_is_named_alone() -> anyhow::Result<()> {
    let server = TestServer::with_tokens("nearly,nearly,7,\"tenant:system\"\n").await?;
    let admin = client(&server, "system")?;
    // All written and granted permissions except the Deployment.
    let rules = json!([
        {"apiGroups": ["", "rbac.authorization.k8s.io", "submariner.io", "apiextensions.k8s.io",
            "multicluster.x-k8s.io", "discovery.k8s.io", "coordination.k8s.io", "events.k8s.io"],
         "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "create"]},
    ]);
    for (plural, object) in [
        (
            "clusterroles",
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "nearly"}, "rules": rules}),
        ),
        (
            "clusterrolebindings",
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "nearly"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "nearly"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nearly"}],
            }),
        ),
    ] {
        let api: Api<DynamicObject> = Api::all_with(admin.clone(), &kind(plural));
        api.create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
    }
    let nearly = client(&server, "nearly")?;
    let refused = axon::deploy(&nearly, &settings(), &Silent)
        .await
        .unwrap_err();
    let missing = "missing permissions: update deployments.apps in namespace axon-operator";
    assert_eq!(refused.to_string(), missing);
    let without = AxonSettings {
        deployment: false,
        ..settings()
    };
    axon::check(&nearly, &without).await?;
    Ok(())
}

#[tokio::test]
async fn r17_operator_counts_as_running_while_its_lease_is_renewed() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let admin = client(&server, "system")?;
    axon::deploy(&admin, &settings(), &Silent).await?;
    let soon = Duration::from_millis(300);
    let nobody = axon::wait_for_operator(&admin, soon, &Silent)
        .await
        .unwrap_err();
    let said = "no Axon operator is running after 0s: no controller in this cluster has processed its Deployment";
    assert_eq!(nobody.to_string(), said);
    assert!(
        nobody
            .hint()
            .unwrap()
            .contains("insula serve --operators broker")
    );
    let leases: Api<Lease> = Api::namespaced(admin.clone(), "axon-operator");
    let lease = |renewed: &str| {
        let spec =
            json!({"holderIdentity": "pod-7", "leaseDurationSeconds": 15, "renewTime": renewed});
        serde_json::from_value::<Lease>(
            json!({"metadata": {"name": "axon-operator"}, "spec": spec}),
        )
    };
    // The lease was held long ago, and by a clock in the far future.
    for old in ["2020-01-01T00:00:00.000000Z", "2220-01-01T00:00:00.000000Z"] {
        let put = leases.create(&PostParams::default(), &lease(old)?).await?;
        let stale = axon::wait_for_operator(&admin, soon, &Silent).await;
        assert!(matches!(stale, Err(Error::NoOperator { .. })), "{stale:?}");
        // It is renewed during the wait.
        let told = Told::default();
        let (watching, record) = watched(&admin, None);
        let wait = axon::wait_for_operator(&watching, Duration::from_secs(20), &told);
        let renew = async {
            let mut renewed = lease("2020-01-01T00:00:01.000000Z")?;
            renewed.metadata.resource_version = put.resource_version();
            // Not before the first read, which uses another connection.
            until(|| record.answered() > 0).await;
            leases
                .replace("axon-operator", &PostParams::default(), &renewed)
                .await?;
            anyhow::Ok(())
        };
        let (waited, renewed) = tokio::join!(wait, renew);
        waited?;
        renewed?;
        assert_eq!(
            told.all(),
            [
                "begin: Waiting for the Axon operator",
                "done: The Axon operator is running (pod-7)"
            ]
        );
        leases
            .delete("axon-operator", &DeleteParams::default())
            .await?;
    }
    Ok(())
}

/// `UPDATE_GOLDEN=1` writes the golden files.
#[test]
fn manifests_match_the_golden_files() -> anyhow::Result<()> {
    for (name, settings) in [
        ("axon.yaml", settings()),
        ("axon-everything.yaml", everything()),
    ] {
        let text = manifests::yaml(&axon::manifests(&settings))?;
        let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &text)?;
        }
        assert_eq!(text, std::fs::read_to_string(&path)?, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn applied_manifests_are_left_unchanged() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let admin = client(&server, "system")?;
    let text = manifests::yaml(&axon::manifests(&everything()))?;
    for document in text.split("---\n").filter(|document| !document.is_empty()) {
        let object: Value = serde_saphyr::from_str(document)?;
        let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
        let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
            None => Api::all_with(admin.clone(), &kind(&plural)),
            Some(namespace) => Api::namespaced_with(admin.clone(), namespace, &kind(&plural)),
        };
        api.create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
    }
    let applied = inventory(&admin).await?;
    let (again, record) = watched(&admin, None);
    axon::deploy(&again, &everything(), &Silent).await?;
    assert_eq!(record.writes(), []);
    assert_eq!(
        inventory(&admin).await?.keys().collect::<Vec<_>>(),
        applied.keys().collect::<Vec<_>>()
    );
    Ok(())
}

#[tokio::test]
async fn older_definition_of_tenants_is_updated_and_keeps_its_objects() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let admin = client(&server, "system")?;
    let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
    axon::deploy(&admin, &settings(), &Silent).await?;
    // As an earlier version installed it.
    let mut older = definitions.get("tenants.submariner.io").await?;
    older.spec.names.short_names = None;
    let mut spec = serde_json::to_value(&older.spec)?;
    let schema = &mut spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let properties = schema["properties"].as_object_mut().expect("it has fields");
    assert!(properties.remove("quota").is_some());
    older.spec = serde_json::from_value(spec)?;
    definitions
        .replace("tenants.submariner.io", &PostParams::default(), &older)
        .await?;
    let tenant = json!({
        "apiVersion": "submariner.io/v1alpha1", "kind": "Tenant", "metadata": {"name": "acme"},
        "spec": {"owner": "jane"},
    });
    put(&admin, "tenants", "axon-operator", tenant).await?;

    let told = Told::default();
    axon::deploy(&admin, &settings(), &told).await?;
    let updated = "done: Updated CRD tenants.submariner.io".to_owned();
    assert!(told.all().contains(&updated), "{:?}", told.all());
    let served = admin
        .list_api_group_resources("submariner.io/v1alpha1")
        .await?;
    let kind_served = served
        .resources
        .into_iter()
        .find(|kind| kind.name == "tenants");
    assert_eq!(
        kind_served.and_then(|kind| kind.short_names),
        Some(vec!["btenant".to_owned()])
    );
    let tenants: Api<DynamicObject> =
        Api::namespaced_with(admin.clone(), "axon-operator", &kind("tenants"));
    assert_eq!(
        tenants.get("acme").await?.data["spec"],
        json!({"owner": "jane"})
    );
    Ok(())
}
