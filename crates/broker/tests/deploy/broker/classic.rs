//! A broker on a cluster without tenants.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use base64::Engine;
use insula_broker::Error;
use insula_broker::deploy::broker::{BrokerSettings, Mode, PskSource};
use insula_broker::info::BrokerInfo;
use insula_broker::report::Silent;
use insula_testkit::server::TestServer;
use serde_json::{Value, json};

use super::fixture::{Scene, psk};
use crate::scene::{Told, client, inventory};

const NAMESPACE: &str = "submariner-k8s-broker";

#[tokio::test]
async fn r2_r6_r58_r59_r62_r64_r65_classic_broker_matches_submariners() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let before = inventory(&scene.admin).await?;
    let deployed = scene.deploy(&scene.settings(), &Silent).await?;
    assert_eq!(
        (deployed.mode, deployed.namespace.as_str()),
        (Mode::Classic, NAMESPACE)
    );
    let made: Vec<String> = inventory(&scene.admin)
        .await?
        .into_keys()
        .filter(|key| !before.contains_key(key))
        // The server chooses its name.
        .map(|key| match key.starts_with("secrets ") {
            true => key[..key.len() - 5].to_owned(),
            false => key,
        })
        .collect();
    let expected = [
        "brokers submariner-k8s-broker/submariner-broker",
        "configmaps submariner-k8s-broker/submariner-clustersetip-info",
        "configmaps submariner-k8s-broker/submariner-globalnet-info",
        "customresourcedefinitions /brokers.submariner.io",
        "customresourcedefinitions /clusters.submariner.io",
        "customresourcedefinitions /endpoints.submariner.io",
        "customresourcedefinitions /serviceexports.multicluster.x-k8s.io",
        "customresourcedefinitions /serviceimports.multicluster.x-k8s.io",
        "namespaces /submariner-k8s-broker",
        "rolebindings submariner-k8s-broker/submariner-k8s-broker-admin",
        "rolebindings submariner-k8s-broker/submariner-k8s-broker-client-submariner-k8s-broker-cluster",
        "roles submariner-k8s-broker/submariner-k8s-broker-admin",
        "roles submariner-k8s-broker/submariner-k8s-broker-cluster",
        "secrets submariner-k8s-broker/submariner-k8s-broker-admin-token-",
        "serviceaccounts submariner-k8s-broker/submariner-k8s-broker-admin",
        "serviceaccounts submariner-k8s-broker/submariner-k8s-broker-client",
    ];
    assert_eq!(made, expected);
    let broker = scene.get("brokers", NAMESPACE, "submariner-broker").await?;
    let spec = json!({
        "components": ["connectivity", "service-discovery"],
        "globalnetCIDRRange": "242.0.0.0/8", "defaultGlobalnetClusterSize": 65536,
        "clustersetIPCIDRRange": "243.0.0.0/8",
    });
    assert_eq!(broker["spec"], spec);
    let role = scene
        .get("roles", NAMESPACE, "submariner-k8s-broker-admin")
        .await?;
    assert_eq!(
        role["rules"],
        serde_json::to_value(insula_broker::roles::admin())?
    );
    let role = scene
        .get("roles", NAMESPACE, "submariner-k8s-broker-cluster")
        .await?;
    assert_eq!(
        role["rules"],
        serde_json::to_value(insula_broker::roles::cluster())?
    );
    let bound = scene
        .get(
            "rolebindings",
            NAMESPACE,
            "submariner-k8s-broker-client-submariner-k8s-broker-cluster",
        )
        .await?;
    let subject = json!([{"kind": "ServiceAccount", "name": "submariner-k8s-broker-client", "namespace": NAMESPACE}]);
    assert_eq!(
        (&bound["subjects"], &bound["roleRef"]["name"]),
        (&subject, &json!("submariner-k8s-broker-cluster"))
    );
    Ok(())
}

#[tokio::test]
async fn r1_all_objects_are_in_the_given_namespace() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let before = inventory(&scene.admin).await?;
    let settings = BrokerSettings {
        namespace: Some("foo".to_owned()),
        ..scene.settings()
    };
    let deployed = scene.deploy(&settings, &Silent).await?;
    assert_eq!(deployed.namespace, "foo");
    for made in inventory(&scene.admin)
        .await?
        .into_keys()
        .filter(|key| !before.contains_key(key))
    {
        let right = made.contains(" foo/")
            || made == "namespaces /foo"
            || made.starts_with("customresourcedefinitions ");
        assert!(right, "{made}");
    }
    Ok(())
}

#[tokio::test]
async fn r35_r68_r69_r71_r72_r77_file_is_complete_and_its_token_works() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let settings = BrokerSettings {
        custom_domains: vec!["b.example".to_owned(), "a.example".to_owned()],
        ..scene.settings()
    };
    let deployed = scene.deploy(&settings, &Silent).await?;
    assert_eq!(
        (deployed.psk, &deployed.backup),
        (PskSource::Generated, &None)
    );
    assert_eq!(deployed.url, scene.server.url());
    assert_eq!(
        std::fs::metadata(&deployed.file)?.permissions().mode() & 0o777,
        0o600
    );
    let info = BrokerInfo::read(&deployed.file)?;
    let join = info.for_join(&deployed.file)?;
    assert_eq!(
        (join.url.as_str(), join.namespace.as_str()),
        (scene.server.url().as_str(), NAMESPACE)
    );
    assert_eq!(
        join.components.iter().collect::<Vec<_>>(),
        ["connectivity", "service-discovery"]
    );
    assert_eq!(join.custom_domains, ["b.example", "a.example"]);
    assert_eq!(join.psk().map(<[u8]>::len), Some(48));
    let secret = info.client_token.as_ref().unwrap();
    let data = secret.data.as_ref().unwrap();
    assert_eq!(data["namespace"].0, NAMESPACE.as_bytes());
    assert_eq!(info.namespace.as_deref(), Some(NAMESPACE));
    // With the file alone, and the CA in it.
    let config = insula_broker::connect::from_file(&info)?;
    let client = kube::Client::try_from(config)?;
    let own =
        kube::Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(client.clone(), NAMESPACE);
    own.get("submariner-globalnet-info").await?;
    let other = kube::Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(client, "default");
    let refused = other.get("any").await.unwrap_err();
    let kube::Error::Api(status) = refused else {
        panic!("{refused}")
    };
    let who = "system:serviceaccount:submariner-k8s-broker:submariner-k8s-broker-admin";
    assert!(
        status.code == 403 && status.message.contains(who),
        "{}",
        status.message
    );
    Ok(())
}

#[tokio::test]
async fn r66_second_deployment_replaces_the_broker_spec_in_place() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    scene.deploy(&scene.settings(), &Silent).await?;
    let first = scene.get("brokers", NAMESPACE, "submariner-broker").await?;
    let told = Told::default();
    scene.deploy(&scene.settings(), &told).await?;
    assert!(
        told.all()
            .contains(&"done: The broker is unchanged".to_owned())
    );
    assert_eq!(
        scene.get("brokers", NAMESPACE, "submariner-broker").await?,
        first
    );
    // The object has fields that our types lack.
    scene
        .edit(("brokers", NAMESPACE, "submariner-broker"), |broker| {
            broker["spec"]["defaultGlobalnetClusterSize"] = json!(-1);
            broker["metadata"]["labels"] = json!({"of": "others"});
        })
        .await?;
    let settings = BrokerSettings {
        components: ["connectivity".to_owned()].into(),
        custom_domains: vec!["a.example".to_owned()],
        ..scene.settings()
    };
    scene.deploy(&settings, &Silent).await?;
    let second = scene.get("brokers", NAMESPACE, "submariner-broker").await?;
    let spec = json!({
        "components": ["connectivity"], "defaultCustomDomains": ["a.example"],
        "globalnetCIDRRange": "242.0.0.0/8", "defaultGlobalnetClusterSize": 65536,
        "clustersetIPCIDRRange": "243.0.0.0/8",
    });
    assert_eq!(second["spec"], spec);
    assert_eq!(second["metadata"]["uid"], first["metadata"]["uid"]);
    assert_eq!(second["metadata"]["labels"], json!({"of": "others"}));
    Ok(())
}

#[tokio::test]
async fn r76_second_deployment_changes_only_the_file() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    scene.deploy(&scene.settings(), &Silent).await?;
    let first = inventory(&scene.admin).await?;
    let (deployed, record) = scene.deploy_disturbed(&scene.settings(), None).await?;
    assert_eq!(deployed?.psk, PskSource::Kept);
    assert_eq!(record.writes(), []);
    assert_eq!(inventory(&scene.admin).await?, first);
    Ok(())
}

#[tokio::test]
async fn r59_r60_administrator_repairs_drift() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    scene.deploy(&scene.settings(), &Silent).await?;
    let rules = |role: &Value| role["rules"].clone();
    for name in [
        "submariner-k8s-broker-admin",
        "submariner-k8s-broker-cluster",
    ] {
        let whole = rules(&scene.get("roles", NAMESPACE, name).await?);
        scene
            .edit(("roles", NAMESPACE, name), |role| {
                role["rules"].as_array_mut().unwrap().pop();
            })
            .await?;
        let told = Told::default();
        scene.deploy(&scene.settings(), &told).await?;
        assert_eq!(rules(&scene.get("roles", NAMESPACE, name).await?), whole);
        assert!(told.all().contains(&format!("done: Updated role {name}")));
        // Additional rules are kept.
        scene
            .edit(("roles", NAMESPACE, name), |role| {
                let more = json!({"apiGroups": [""], "resources": ["events"], "verbs": ["list"]});
                role["rules"].as_array_mut().unwrap().push(more);
            })
            .await?;
        let wider = scene.get("roles", NAMESPACE, name).await?;
        scene.deploy(&scene.settings(), &Silent).await?;
        assert_eq!(scene.get("roles", NAMESPACE, name).await?, wider);
    }
    let binding = ("rolebindings", NAMESPACE, "submariner-k8s-broker-admin");
    scene
        .edit(binding, |binding| binding["subjects"] = json!([]))
        .await?;
    scene.deploy(&scene.settings(), &Silent).await?;
    let bound = scene.get(binding.0, binding.1, binding.2).await?;
    assert_eq!(bound["subjects"][0]["name"], "submariner-k8s-broker-admin");
    for (plural, name) in [
        ("serviceaccounts", "submariner-k8s-broker-admin"),
        ("roles", "submariner-k8s-broker-cluster"),
        ("rolebindings", "submariner-k8s-broker-admin"),
    ] {
        scene
            .api(plural, NAMESPACE)
            .delete(name, &Default::default())
            .await?;
        scene.deploy(&scene.settings(), &Silent).await?;
        assert_ne!(
            scene.get(plural, NAMESPACE, name).await?,
            Value::Null,
            "{name}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn r68_recreated_account_gets_its_own_token() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let admin = "submariner-k8s-broker-admin";
    for _ in 0..3 {
        scene.deploy(&scene.settings(), &Silent).await?;
        let info = BrokerInfo::read(&scene.settings().output)?;
        let account = scene.get("serviceaccounts", NAMESPACE, admin).await?;
        let secret = info.client_token.as_ref().unwrap();
        let named =
            &secret.metadata.annotations.as_ref().unwrap()["kubernetes.io/service-account.uid"];
        assert_eq!(*named, account["metadata"]["uid"]);
        let client = kube::Client::try_from(insula_broker::connect::from_file(&info)?)?;
        client.apiserver_version().await?;
        // Its old token lingers for a moment.
        let accounts = scene.api("serviceaccounts", NAMESPACE);
        accounts.delete(admin, &Default::default()).await?;
    }
    Ok(())
}

#[tokio::test]
async fn r65_served_kinds_need_no_permission_to_install() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    scene
        .put(
            "namespaces",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "foo"}}),
        )
        .await?;
    scene.put("serviceaccounts", json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "owner", "namespace": "foo"}})).await?;
    scene.put("rolebindings", json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "owner", "namespace": "foo"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "owner", "namespace": "foo"}],
    })).await?;
    let secrets = kube::Api::namespaced(scene.admin.clone(), "foo");
    let secret = insula_broker::token::ensure(&secrets, "owner", Duration::from_secs(20)).await?;
    let token = String::from_utf8(insula_broker::token::of(&secret).unwrap().to_vec())?;
    let settings = BrokerSettings {
        namespace: Some("foo".to_owned()),
        ..scene.settings()
    };
    let deploy = async || {
        let context = crate::scene::config(&scene.server, &token);
        let context = context.map_err(|error| Error::invalid(error.to_string()));
        insula_broker::deploy::broker::deploy(context, &settings, &Silent).await
    };
    let refused = deploy().await.unwrap_err();
    assert!(refused.is_forbidden(), "{refused}");
    let said = "cannot read the definition of brokers.submariner.io: ";
    assert!(refused.to_string().starts_with(said), "{refused}");
    insula_broker::crds::ensure(&scene.admin, &insula_broker::crds::broker_kinds(), &Silent)
        .await?;
    assert_eq!(deploy().await?.mode, Mode::Classic);
    Ok(())
}

#[tokio::test]
async fn r63_missing_token_times_out() -> anyhow::Result<()> {
    // Without controllers no tokens are issued.
    let server = TestServer::start().await?;
    let folder = tempfile::TempDir::new()?;
    let admin = client(&server, "system")?;
    let scene = Scene {
        server,
        admin,
        folder,
    };
    let settings = BrokerSettings {
        token_timeout: Duration::from_millis(200),
        ..scene.settings()
    };
    let missed = scene.deploy(&settings, &Silent).await.unwrap_err();
    assert!(matches!(missed, Error::NoToken { .. }), "{missed}");
    assert!(missed.to_string().starts_with(
        "the token was not generated for secret \"submariner-k8s-broker-admin-token-"
    ));
    assert!(!settings.output.exists());
    Ok(())
}

#[tokio::test]
async fn invalid_settings_are_refused_before_any_request() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let usual = scene.settings();
    let with = |edit: fn(&mut BrokerSettings)| {
        let mut settings = usual.clone();
        edit(&mut settings);
        settings
    };
    for (settings, problem) in [
        (
            with(|it| it.components.clear()),
            "invalid components parameter: at least one component must be provided for deployment",
        ),
        (
            with(|it| it.components = ["x".to_owned()].into()),
            "invalid components parameter: unknown component: x",
        ),
        (
            with(|it| it.namespace = Some("A_b".to_owned())),
            "\"A_b\" is not a valid namespace name",
        ),
        (
            with(|it| it.broker_url = Some("http://a".to_owned())),
            "\"http://a\" is not a broker URL: it is not https",
        ),
    ] {
        let refused = scene.deploy(&settings, &Silent).await.unwrap_err();
        assert_eq!(refused.to_string(), problem);
    }
    let absent = scene.get("namespaces", "", NAMESPACE).await?;
    assert_eq!(absent, Value::Null);
    Ok(())
}

#[tokio::test]
async fn r67_r69_r70_old_file_is_backed_up_with_key_reused_and_url_as_given() -> anyhow::Result<()>
{
    let scene = Scene::empty().await?;
    let first = scene.deploy(&scene.settings(), &Silent).await?;
    let old = std::fs::read(&first.file)?;
    let key = psk(&first.file)?;
    let settings = BrokerSettings {
        info_from: Some(first.file.clone()),
        broker_url: Some("https://broker.example:6443/".to_owned()),
        ..scene.settings()
    };
    let told = Told::default();
    let second = scene.deploy(&settings, &told).await?;
    assert_eq!(
        (second.psk, second.url.as_str()),
        (PskSource::Given, "https://broker.example:6443")
    );
    assert_eq!(psk(&second.file)?, key);
    assert_eq!(
        BrokerInfo::read(&second.file)?.url,
        "https://broker.example:6443"
    );
    assert_eq!(std::fs::read(second.backup.unwrap())?, old);
    Ok(())
}

#[tokio::test]
async fn r7_old_file_provides_its_key_although_its_user_may_not_deploy() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let first = scene.deploy(&scene.settings(), &Silent).await?;
    let mut classic = BrokerInfo::read(&first.file)?;
    // In Submariner's format.
    classic.namespace = None;
    let key = psk(&first.file)?;
    let settings = scene.with_file("old.subm", &classic)?;
    let told = Told::default();
    let second = scene.deploy(&settings, &told).await?;
    assert_eq!((second.psk, psk(&second.file)?), (PskSource::Given, key));
    let said = "The user of the broker info file may not deploy a broker: continuing as the user of the kube context, which is of the same cluster";
    assert_eq!(told.warnings(), [said]);
    // Without a context, or with one of another cluster, there is no other user.
    let missing = "missing permissions: create/update brokers.submariner.io in namespace submariner-k8s-broker";
    let alone = scene
        .deploy_without_context(&settings, &Silent)
        .await
        .unwrap_err();
    assert_eq!(alone.to_string(), missing);
    let secret = classic.client_token.as_mut().unwrap();
    let of_another = (
        "kubernetes.io/service-account.uid".to_owned(),
        "other".to_owned(),
    );
    secret
        .metadata
        .annotations
        .as_mut()
        .unwrap()
        .extend([of_another]);
    let settings = scene.with_file("other.subm", &classic)?;
    let other = scene.deploy(&settings, &Silent).await.unwrap_err();
    assert_eq!(other.to_string(), missing);
    Ok(())
}

#[tokio::test]
async fn terminating_broker_namespace_is_refused() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    scene
        .put(
            "namespaces",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        )
        .await?;
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "namespace": NAMESPACE, "finalizers": ["example.com/held"]}});
    scene.put("configmaps", held).await?;
    scene
        .api("namespaces", "")
        .delete(NAMESPACE, &Default::default())
        .await?;
    let refused = scene.deploy(&scene.settings(), &Silent).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "namespace submariner-k8s-broker is being deleted"
    );
    Ok(())
}

#[tokio::test]
async fn r81_reports_and_errors_have_no_secrets() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let told = Told::default();
    let first = scene.deploy(&scene.settings(), &told).await?;
    let again = BrokerSettings {
        info_from: Some(first.file.clone()),
        ..scene.settings()
    };
    let second = scene.deploy(&again, &told).await?;
    let refused = scene
        .deploy_without_context(&again, &told)
        .await
        .unwrap_err();
    let said = format!(
        "{:?} {first:?} {second:?} {refused:?} {refused}",
        told.all()
    );
    let info = BrokerInfo::read(&second.file)?;
    let token = super::fixture::token_of(&info)?;
    let key = base64::engine::general_purpose::STANDARD.encode(psk(&second.file)?);
    for secret in [
        token.as_str(),
        key.as_str(),
        &format!("{:?}", psk(&second.file)?),
    ] {
        assert!(!said.contains(secret));
    }
    Ok(())
}
