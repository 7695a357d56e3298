//! A broker deployed by a tenant's administrator, with permissions in its namespace only.

use http::Method;
use insula_broker::Error;
use insula_broker::deploy::broker::{BrokerSettings, Mode, Prepared};
use insula_broker::info::BrokerInfo;
use insula_broker::names::TENANT_LABEL;
use insula_broker::report::Silent;
use serde_json::{Value, json};

use super::fixture::{Scene, token_of};
use crate::scene::{Record, Told, client, inventory, watched};

const NAMESPACE: &str = "submariner-broker-acme";

/// Deploys with the file alone, and returns the requests.
async fn recorded(settings: &BrokerSettings) -> anyhow::Result<(Result<Mode, Error>, Record)> {
    let context = Err(Error::invalid("there is no kubeconfig"));
    let prepared = Prepared::new(context, settings, &Silent)?;
    let (client, record) = watched(&prepared.target.client()?, None);
    let deployed = prepared.deploy(&client, settings, &Silent).await;
    Ok((deployed.map(|deployed| deployed.mode), record))
}

#[tokio::test]
async fn r5_r58_r61_r75_tenant_deploys_within_its_namespace() -> anyhow::Result<()> {
    let scene = Scene::axon().await?;
    let partial = scene.tenant("acme").await?;
    let before = inventory(&scene.admin).await?;
    let settings = scene.with_file("broker-info.subm", &partial)?;
    let (mode, record) = recorded(&settings).await?;
    assert_eq!(mode?, Mode::Axon);
    let after = inventory(&scene.admin).await?;
    let made: Vec<_> = after
        .keys()
        .filter(|key| !before.contains_key(*key))
        .collect();
    let expected = [
        "brokers submariner-broker-acme/submariner-broker",
        "configmaps submariner-broker-acme/submariner-clustersetip-info",
        "configmaps submariner-broker-acme/submariner-globalnet-info",
    ];
    assert_eq!(made, expected);
    // The operator's objects are unchanged, additional administrators included.
    for (key, version) in &before {
        // The server records the use of a token on its Secret.
        if key.starts_with("secrets ") {
            continue;
        }
        assert_eq!(after.get(key), Some(version), "{key}");
    }
    for (method, path) in record.all() {
        let discovery =
            method == Method::GET && path.starts_with("/apis/") && path.matches('/').count() == 3;
        let within = path == format!("/api/v1/namespaces/{NAMESPACE}") && method == Method::GET
            || path.contains(&format!("/namespaces/{NAMESPACE}/"));
        assert!(discovery || within, "{method} {path}");
        assert!(!path.contains("customresourcedefinitions"), "{path}");
    }
    let info = BrokerInfo::read(&settings.output)?;
    info.for_join(&settings.output)?;
    assert_eq!(token_of(&info)?, token_of(&partial)?);
    Ok(())
}

#[tokio::test]
async fn r3_r8_brokers_of_tenants_and_a_classic_one_are_independent() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let classic = scene.deploy(&scene.settings(), &Silent).await?;
    assert_eq!(classic.mode, Mode::Classic);
    let untouched = |all: std::collections::BTreeMap<String, String>| {
        let mut all = all;
        all.retain(|key, _| key.contains(" submariner-k8s-broker/"));
        all
    };
    let before = untouched(inventory(&scene.admin).await?);
    let axon = insula_broker::deploy::axon::AxonSettings {
        operator_image: "i".to_owned(),
        deployment: false,
        admins: Vec::new(),
        spaces: false,
    };
    insula_broker::deploy::axon::deploy(&scene.admin, &axon, &Silent).await?;
    let mut keys = vec![super::fixture::psk(&classic.file)?];
    for id in ["a", "b", "c"] {
        let partial = scene.tenant(id).await?;
        let mut settings = scene.with_file(&format!("{id}.subm"), &partial)?;
        settings.output = scene.path(&format!("{id}-whole.subm"));
        let deployed = scene.deploy_without_context(&settings, &Silent).await?;
        keys.push(super::fixture::psk(&deployed.file)?);
    }
    assert_eq!(untouched(inventory(&scene.admin).await?), before);
    let all = inventory(&scene.admin).await?;
    for namespace in [
        "submariner-k8s-broker",
        "submariner-broker-a",
        "submariner-broker-b",
        "submariner-broker-c",
    ] {
        for part in [
            format!("brokers {namespace}/submariner-broker"),
            format!("configmaps {namespace}/submariner-globalnet-info"),
            format!("serviceaccounts {namespace}/submariner-k8s-broker-admin"),
        ] {
            assert!(all.contains_key(&part), "{part}");
        }
    }
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 4);
    Ok(())
}

#[tokio::test]
async fn r61_axon_mode_has_the_cluster_role_but_no_legacy_account() -> anyhow::Result<()> {
    let scene = Scene::axon().await?;
    // A cluster administrator, in a namespace without a tenant.
    let deployed = scene.deploy(&scene.settings(), &Silent).await?;
    assert_eq!(deployed.mode, Mode::Axon);
    let namespace = deployed.namespace.as_str();
    let legacy = scene
        .get("serviceaccounts", namespace, "submariner-k8s-broker-client")
        .await?;
    assert_eq!(legacy, Value::Null);
    let role = scene
        .get("roles", namespace, "submariner-k8s-broker-cluster")
        .await?;
    assert_eq!(
        role["rules"],
        serde_json::to_value(insula_broker::roles::cluster())?
    );
    let role = scene
        .get("roles", namespace, "submariner-k8s-broker-admin")
        .await?;
    assert_eq!(
        role["rules"],
        serde_json::to_value(insula_broker::roles::tenant_admin(namespace))?
    );
    Ok(())
}

#[tokio::test]
async fn tenant_with_a_space_is_recognized_by_its_namespace_label() -> anyhow::Result<()> {
    // Its space does not serve tenants, but everything else.
    let scene = Scene::empty().await?;
    insula_broker::crds::ensure(&scene.admin, &insula_broker::crds::broker_kinds(), &Silent)
        .await?;
    let partial = scene.tenant("acme").await?;
    let settings = scene.with_file("broker-info.subm", &partial)?;
    let (mode, _) = recorded(&settings).await?;
    assert_eq!(mode?, Mode::Axon);
    let legacy = scene
        .get("serviceaccounts", NAMESPACE, "submariner-k8s-broker-client")
        .await?;
    assert_eq!(legacy, Value::Null);
    // Without the label it does not belong to a tenant.
    scene
        .edit(("namespaces", "", NAMESPACE), |namespace| {
            namespace["metadata"]["labels"]
                .as_object_mut()
                .unwrap()
                .remove(TENANT_LABEL);
        })
        .await?;
    let tenant = client(&scene.server, &token_of(&partial)?)?;
    assert!(!insula_broker::mode::is_axon(&tenant, NAMESPACE).await?);
    Ok(())
}

#[tokio::test]
async fn r60_tenant_is_told_which_rules_it_lacks_to_repair_its_role() -> anyhow::Result<()> {
    let scene = Scene::axon().await?;
    let partial = scene.tenant("acme").await?;
    let admin = ("roles", NAMESPACE, "submariner-k8s-broker-admin");
    scene
        .edit(admin, |role| {
            let rules = role["rules"].as_array_mut().unwrap();
            for rule in rules {
                if rule["resources"] == json!(["clusters", "endpoints"]) {
                    rule["verbs"] = json!(["get", "list", "watch"]);
                }
            }
        })
        .await?;
    let settings = scene.with_file("broker-info.subm", &partial)?;
    let refused = scene
        .deploy_without_context(&settings, &Silent)
        .await
        .unwrap_err();
    let said = "role submariner-k8s-broker-admin lacks create/delete/patch/update clusters.submariner.io, create/delete/patch/update endpoints.submariner.io, and cannot be updated: ";
    assert!(refused.to_string().starts_with(said), "{refused}");
    let hint = "Kubernetes lets no user grant permissions that they do not have: ask the offering admin to update the role";
    assert_eq!(refused.hint().as_deref(), Some(hint));
    // The file is unchanged.
    assert_eq!(
        BrokerInfo::read(&settings.output)?.encode(),
        partial.encode()
    );
    // A cluster administrator repairs it, and the tenant continues.
    let mended = BrokerSettings {
        namespace: Some(NAMESPACE.to_owned()),
        output: scene.path("admin.subm"),
        ..scene.settings()
    };
    scene.deploy(&mended, &Silent).await?;
    scene.deploy_without_context(&settings, &Silent).await?;
    Ok(())
}

#[tokio::test]
async fn r60_tenant_repairs_the_cluster_role() -> anyhow::Result<()> {
    let scene = Scene::axon().await?;
    let partial = scene.tenant("acme").await?;
    let cluster = ("roles", NAMESPACE, "submariner-k8s-broker-cluster");
    scene
        .edit(cluster, |role| role["rules"] = json!([]))
        .await?;
    let settings = scene.with_file("broker-info.subm", &partial)?;
    let told = Told::default();
    scene.deploy_without_context(&settings, &told).await?;
    let role = scene.get(cluster.0, cluster.1, cluster.2).await?;
    assert_eq!(
        role["rules"],
        serde_json::to_value(insula_broker::roles::cluster())?
    );
    assert!(
        told.all()
            .contains(&"done: Updated role submariner-k8s-broker-cluster".to_owned())
    );
    Ok(())
}

#[tokio::test]
async fn r65_missing_kinds_are_named_and_nothing_is_written() -> anyhow::Result<()> {
    let scene = Scene::axon().await?;
    let partial = scene.tenant("acme").await?;
    for name in [
        "endpoints.submariner.io",
        "serviceexports.multicluster.x-k8s.io",
    ] {
        scene
            .api("customresourcedefinitions", "")
            .delete(name, &Default::default())
            .await?;
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
        while scene.get("customresourcedefinitions", "", name).await? != Value::Null {
            assert!(tokio::time::Instant::now() < deadline, "{name} does not go");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
    let settings = scene.with_file("broker-info.subm", &partial)?;
    let (refused, record) = recorded(&settings).await?;
    let refused = refused.unwrap_err();
    let said =
        "the cluster does not serve endpoints.submariner.io, serviceexports.multicluster.x-k8s.io";
    assert_eq!(refused.to_string(), said);
    let hint = "ask the offering admin, who installs them with `subctl deploy axon-cp`";
    assert_eq!(refused.hint().as_deref(), Some(hint));
    assert_eq!(record.writes(), []);
    Ok(())
}

#[tokio::test]
async fn r58_tenant_does_not_recreate_its_namespace() -> anyhow::Result<()> {
    let scene = Scene::axon().await?;
    let partial = scene.tenant("acme").await?;
    // A user who may read namespaces but not create them.
    scene.put("clusterroles", json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "looks"},
        "rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}],
    })).await?;
    scene.put("clusterrolebindings", json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "looks"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "looks"},
        "subjects": [{"kind": "ServiceAccount", "name": "submariner-k8s-broker-admin", "namespace": NAMESPACE}],
    })).await?;
    let mut elsewhere = partial.clone();
    elsewhere.namespace = None;
    let data = elsewhere
        .client_token
        .as_mut()
        .unwrap()
        .data
        .as_mut()
        .unwrap();
    data.remove("namespace");
    let settings = BrokerSettings {
        namespace: Some("absent".to_owned()),
        ..scene.with_file("broker-info.subm", &elsewhere)?
    };
    let (refused, record) = recorded(&settings).await?;
    assert_eq!(
        refused.unwrap_err().to_string(),
        "namespace absent does not exist, and this user may not create it"
    );
    assert_eq!(record.writes(), []);
    Ok(())
}
