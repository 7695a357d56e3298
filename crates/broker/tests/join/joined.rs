//! The objects of a joined cluster.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_broker::join::join;
use insula_broker::names::OPERATOR_NAMESPACE;
use insula_broker::report::Silent;
use insula_broker::{component, names, psk, roles, token};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::stage::*;

#[tokio::test(flavor = "multi_thread")]
async fn joined_cluster_is_a_member_with_the_brokers_address() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let both = stage.both(&info, "c0").await?;
    let (error_and_hint, mut settings) = (Told::default(), settings(&info, "east"));
    settings.cluster_cidr = Some("10.1.0.0/16".to_owned());
    settings.custom_domains = vec!["x.example".to_owned()];
    let joined = join(&both, &settings, &error_and_hint).await?;
    assert_eq!(joined.global_cidr.as_deref(), Some("242.0.0.0/16"));
    assert_eq!(joined.clusterset_ip_cidr.as_deref(), Some("243.0.0.0/20"));

    let system = stage.system()?;
    let bindings: Api<RoleBinding> = Api::namespaced(system.clone(), "n");
    let binding = bindings
        .get("cluster-east-submariner-k8s-broker-cluster")
        .await?;
    assert_eq!(binding.role_ref.name, "submariner-k8s-broker-cluster");
    let subject = &binding.subjects.unwrap()[0];
    assert_eq!(
        (subject.name.as_str(), subject.namespace.as_deref()),
        ("cluster-east", Some("n"))
    );

    let secrets: Api<Secret> = Api::namespaced(both.joining.clone(), OPERATOR_NAMESPACE);
    let kept = secrets.get("submariner-broker-secret").await?;
    assert_eq!(kept.type_.as_deref(), Some("Opaque"));
    let data = kept.data.unwrap();
    let keys: Vec<_> = data.keys().map(String::as_str).collect();
    assert_eq!(keys, ["ca.crt", "namespace", "token"]);
    let own_token = String::from_utf8(data["token"].0.clone())?;
    let key = secrets.get("submariner-ipsec-psk").await?;
    assert_eq!(psk::of(&key), psk::of(info.ipsec_psk.as_ref().unwrap()));

    let submariner = object(&both.joining, SUBMARINER, OPERATOR_NAMESPACE, "submariner").await?;
    assert_eq!(
        submariner.unwrap()["spec"],
        json!({
            "broker": "k8s",
            "brokerK8sApiServer": stage.server.address().to_string(),
            "brokerK8sApiServerToken": own_token,
            "brokerK8sCA": STANDARD.encode(&data["ca.crt"].0),
            "brokerK8sRemoteNamespace": "n",
            "brokerK8sSecret": "submariner-broker-secret",
            "ceIPSecDebug": false,
            "ceIPSecPSK": STANDARD.encode(psk::of(&key).unwrap()),
            "ceIPSecPSKSecret": "submariner-ipsec-psk",
            "clusterCIDR": "10.1.0.0/16",
            "clusterID": "east",
            "clustersetIPCIDR": "243.0.0.0/20",
            "customDomains": ["x.example"],
            "debug": false,
            "globalCIDR": "242.0.0.0/16",
            "namespace": "submariner-operator",
            "natEnabled": true,
            "serviceCIDR": "",
            "serviceDiscoveryEnabled": true,
        })
    );
    it_may_what_members_may(&stage.client(&own_token)?).await?;
    for secret in [own_token, STANDARD.encode(psk::of(&key).unwrap())] {
        assert!(!error_and_hint.all().concat().contains(&secret), "r81");
    }
    Ok(())
}

/// With the permissions of a member's pods.
async fn it_may_what_members_may(member: &Client) -> anyhow::Result<()> {
    let clusters = ("v1", "Cluster", "clusters");
    assert_eq!(object(member, clusters, "n", "any").await?, None);
    let elsewhere = object(member, clusters, "default", "any").await;
    assert!(elsewhere.unwrap_err().to_string().contains("forbidden"));
    let accounts: Api<ServiceAccount> = Api::namespaced(member.clone(), "n");
    let account = ServiceAccount {
        metadata: named("x"),
        ..ServiceAccount::default()
    };
    let made = accounts.create(&PostParams::default(), &account).await;
    assert!(made.unwrap_err().to_string().contains("forbidden"));
    Ok(())
}

/// Returns names and versions of everything that a join writes.
async fn versions(broker: &Client, joining: &Client) -> anyhow::Result<Vec<String>> {
    let all = ListParams::default();
    let mut found = Vec::new();
    let mut keep = |kind: &str, object: &dyn Fn() -> (String, Option<String>)| {
        found.push(format!("{kind} {:?}", object()));
    };
    macro_rules! look {
        ($kind:ty, $client:expr, $namespace:expr) => {
            let api: Api<$kind> = Api::namespaced($client.clone(), $namespace);
            for item in api.list(&all).await?.items {
                keep(stringify!($kind), &|| {
                    (item.name_any(), item.resource_version())
                });
            }
        };
    }
    look!(ServiceAccount, broker, "n");
    look!(RoleBinding, broker, "n");
    look!(Secret, broker, "n");
    look!(ConfigMap, broker, "n");
    look!(Secret, joining, OPERATOR_NAMESPACE);
    let submariner = object(joining, SUBMARINER, OPERATOR_NAMESPACE, "submariner").await?;
    let version = submariner.unwrap_or_default()["metadata"]["resourceVersion"].to_string();
    found.push(version);
    Ok(found)
}

#[tokio::test(flavor = "multi_thread")]
async fn r76_joining_again_changes_nothing() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    for (cluster, admin) in [
        ("c0", roles::tenant_admin as fn(&str) -> _),
        ("c1", |_: &str| roles::admin()),
    ] {
        let namespaces: Api<Namespace> = Api::all(stage.system()?);
        if namespaces.get_opt("n").await?.is_some() {
            namespaces.delete("n", &Default::default()).await?;
            within("the namespace is gone", async || {
                matches!(namespaces.get_opt("n").await, Ok(None)).then_some(())
            })
            .await?;
        }
        let wanted = Wanted {
            admin,
            ..Wanted::default()
        };
        let info = stage.deploy("n", wanted).await?;
        let both = stage.both(&info, cluster).await?;
        let settings = settings(&info, "east");
        let first = join(&both, &settings, &Silent).await?;
        let before = versions(&stage.system()?, &both.joining).await?;
        let error_and_hint = Told::default();
        assert_eq!(join(&both, &settings, &error_and_hint).await?, first);
        assert_eq!(versions(&stage.system()?, &both.joining).await?, before);
        assert_eq!(error_and_hint.warnings(), [] as [&str; 0]);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn r76_partial_join_is_completed_by_joining_again() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let both = stage.both(&info, "c0").await?;
    let settings = settings(&info, "east");
    let first = join(&both, &settings, &Silent).await?;
    // Whatever is missing: all objects of the cluster, then all but its addresses.
    let namespaces: Api<Namespace> = Api::all(both.joining.clone());
    namespaces
        .delete(OPERATOR_NAMESPACE, &Default::default())
        .await?;
    within("the namespace is gone", async || {
        matches!(namespaces.get_opt(OPERATOR_NAMESPACE).await, Ok(None)).then_some(())
    })
    .await?;
    assert_eq!(join(&both, &settings, &Silent).await?, first);
    let accounts: Api<ServiceAccount> = Api::namespaced(stage.system()?, "n");
    accounts.delete("cluster-east", &Default::default()).await?;
    assert_eq!(join(&both, &settings, &Silent).await?, first);
    let secrets: Api<Secret> = Api::namespaced(both.joining.clone(), OPERATOR_NAMESPACE);
    let kept = secrets.get("submariner-broker-secret").await?;
    let own = stage.client(std::str::from_utf8(token::of(&kept).unwrap())?)?;
    it_may_what_members_may(&own).await
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_spec_fields_are_kept_and_ours_updated() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let both = stage.both(&info, "c0").await?;
    let mut settings = settings(&info, "east");
    settings.check_broker_certificate = false;
    settings.cluster_cidr = Some("10.1.0.0/16".to_owned());
    join(&both, &settings, &Silent).await?;
    let spec = async || -> anyhow::Result<Value> {
        let found = object(&both.joining, SUBMARINER, OPERATOR_NAMESPACE, "submariner").await?;
        Ok(found.unwrap()["spec"].clone())
    };
    assert_eq!(spec().await?["brokerK8sInsecure"], json!(true));
    let patch = json!({"spec": {"cableDriver": "wireguard"}});
    let kind = kube::core::GroupVersionKind::gvk("submariner.io", "v1alpha1", "Submariner");
    let kind = kube::core::ApiResource::from_gvk(&kind);
    let api: Api<kube::core::DynamicObject> =
        Api::namespaced_with(both.joining.clone(), OPERATOR_NAMESPACE, &kind);
    let patch = kube::api::Patch::Merge(patch);
    api.patch("submariner", &Default::default(), &patch).await?;
    settings.check_broker_certificate = true;
    settings.cluster_cidr = None;
    join(&both, &settings, &Silent).await?;
    let spec = spec().await?;
    assert_eq!(spec["cableDriver"], json!("wireguard"));
    assert_eq!(spec["clusterCIDR"], json!("10.1.0.0/16"));
    assert_eq!(spec.get("brokerK8sInsecure"), None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn r83_two_tenants_may_use_the_same_cluster_id_and_addresses() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let mut members = Vec::new();
    for (namespace, cluster) in [("submariner-broker-a", "c0"), ("submariner-broker-b", "c1")] {
        let info = stage.deploy(namespace, Wanted::default()).await?;
        let both = stage.both(&info, cluster).await?;
        let mut settings = settings(&info, "east");
        settings.cluster_cidr = Some("10.0.0.0/8".to_owned());
        let joined = join(&both, &settings, &Silent).await?;
        assert_eq!(joined.global_cidr.as_deref(), Some("242.0.0.0/16"));
        let secrets: Api<Secret> = Api::namespaced(both.joining.clone(), OPERATOR_NAMESPACE);
        let kept = secrets.get("submariner-broker-secret").await?;
        members.push((
            namespace,
            String::from_utf8(token::of(&kept).unwrap().to_vec())?,
        ));
    }
    let clusters = ("v1", "Cluster", "clusters");
    for (own, token) in &members {
        let member = stage.client(token)?;
        for (namespace, _) in &members {
            let seen = object(&member, clusters, namespace, "east").await;
            assert_eq!(
                seen.is_ok(),
                namespace == own,
                "{own} in {namespace}: {seen:?}"
            );
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn broker_and_member_may_be_different_servers() -> anyhow::Result<()> {
    let (stage, other) = (Stage::start().await?, Stage::start().await?);
    let wanted = Wanted {
        components: [component::SERVICE_DISCOVERY.to_owned()].into(),
        domains: vec!["a.example".to_owned()],
        globalnet: insula_broker::globalnet::Globalnet::disabled(),
        ..Wanted::default()
    };
    let info = stage.deploy(names::DEFAULT_NAMESPACE, wanted).await?;
    let both = insula_broker::join::JoinClients {
        broker: stage.broker(&info)?,
        joining: other.system()?,
    };
    let joined = join(&both, &settings(&info, "west"), &Silent).await?;
    assert_eq!(
        (joined.global_cidr, joined.clusterset_ip_cidr.as_deref()),
        (None, Some("243.0.0.0/20"))
    );
    assert_eq!(
        object(&both.joining, SUBMARINER, OPERATOR_NAMESPACE, "submariner").await?,
        None
    );
    let found = object(
        &both.joining,
        SERVICE_DISCOVERY,
        OPERATOR_NAMESPACE,
        "service-discovery",
    )
    .await?;
    let mut spec = found.unwrap()["spec"].clone();
    for secret in ["brokerK8sApiServerToken", "brokerK8sCA"] {
        assert!(spec.as_object_mut().unwrap().remove(secret).is_some());
    }
    assert_eq!(
        spec,
        json!({
            "brokerK8sApiServer": stage.server.address().to_string(),
            "brokerK8sRemoteNamespace": "submariner-k8s-broker",
            "brokerK8sSecret": "submariner-broker-secret",
            "clusterID": "west",
            "clustersetIPCIDR": "243.0.0.0/20",
            "customDomains": ["a.example"],
            "debug": false,
            "namespace": "submariner-operator",
        })
    );
    let secrets: Api<Secret> = Api::namespaced(both.joining.clone(), OPERATOR_NAMESPACE);
    assert_eq!(secrets.get_opt("submariner-ipsec-psk").await?, None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn broker_cluster_may_join_itself() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let both = insula_broker::join::JoinClients {
        broker: stage.broker(&info)?,
        joining: stage.system()?,
    };
    let first = join(&both, &settings(&info, "hub"), &Silent).await?;
    assert_eq!(join(&both, &settings(&info, "hub"), &Silent).await?, first);
    let found = object(&both.joining, SUBMARINER, OPERATOR_NAMESPACE, "submariner").await?;
    assert_eq!(found.unwrap()["spec"]["clusterID"], "hub");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn existing_definitions_are_kept() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let both = stage.both(&info, "c0").await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(both.joining.clone());
    let theirs = serde_json::from_value(json!({
        "metadata": {"name": "submariners.submariner.io", "labels": {"whose": "theirs"}},
        "spec": {
            "group": "submariner.io", "scope": "Namespaced",
            "names": {"plural": "submariners", "kind": "Submariner"},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "object",
                    "required": [
                        "broker", "brokerK8sApiServer", "brokerK8sRemoteNamespace",
                        "ceIPSecDebug", "clusterCIDR", "clusterID", "debug", "namespace",
                        "natEnabled", "serviceCIDR",
                    ],
                    "x-kubernetes-preserve-unknown-fields": true,
                }}}},
            }],
        },
    }))?;
    let before = definitions.create(&PostParams::default(), &theirs).await?;
    join(&both, &settings(&info, "east"), &Silent).await?;
    let after = definitions.get("submariners.submariner.io").await?;
    assert_eq!((after.uid(), after.spec), (before.uid(), before.spec));
    assert_eq!(after.metadata.labels.unwrap()["whose"], "theirs");
    let ours = definitions.get("servicediscoveries.submariner.io").await?;
    assert_eq!(ours.spec.names.kind, "ServiceDiscovery");
    Ok(())
}
