//! Refused joins and their messages.

use insula_broker::join::{JoinClients, join};
use insula_broker::names::OPERATOR_NAMESPACE;
use insula_broker::report::Silent;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::json;

use super::stage::*;

/// Nothing was written to the joining cluster.
async fn is_untouched(joining: &Client) -> anyhow::Result<bool> {
    let namespaces: Api<Namespace> = Api::all(joining.clone());
    Ok(namespaces.get_opt(OPERATOR_NAMESPACE).await?.is_none())
}

#[tokio::test(flavor = "multi_thread")]
async fn id_of_another_cluster_is_refused() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let first = stage.both(&info, "c0").await?;
    join(&first, &settings(&info, "east"), &Silent).await?;
    let second = stage.both(&info, "c1").await?;
    let (refused, hint) = error_and_hint(join(&second, &settings(&info, "east"), &Silent).await);
    assert_eq!(
        refused,
        "cluster ID not unique: another cluster of this ClusterSet is called east"
    );
    assert_eq!(
        hint,
        "choose another with --clusterid; if that cluster is gone, `subctl unjoin FILE --broker-only --clusterid east` removes it from the broker"
    );
    assert!(is_untouched(&second.joining).await?);
    join(&second, &settings(&info, "west"), &Silent).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn id_of_a_cluster_joined_by_another_program_is_refused() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let kind = GroupVersionKind::gvk("submariner.io", "v1", "Cluster");
    let kind = ApiResource::from_gvk_with_plural(&kind, "clusters");
    let clusters: Api<DynamicObject> = Api::namespaced_with(stage.system()?, "n", &kind);
    let theirs = DynamicObject::new("east", &kind);
    clusters.create(&PostParams::default(), &theirs).await?;
    // The account has no annotation.
    let accounts: Api<ServiceAccount> = Api::namespaced(stage.system()?, "n");
    let account = ServiceAccount {
        metadata: named("cluster-east"),
        ..ServiceAccount::default()
    };
    accounts.create(&PostParams::default(), &account).await?;
    let both = stage.both(&info, "c0").await?;
    let (refused, _) = error_and_hint(join(&both, &settings(&info, "east"), &Silent).await);
    assert_eq!(
        refused,
        "cluster ID not unique: another cluster of this ClusterSet is called east"
    );
    assert!(is_untouched(&both.joining).await?);
    // The same by its addresses.
    clusters.delete("east", &Default::default()).await?;
    let maps: Api<ConfigMap> = Api::namespaced(stage.system()?, "n");
    let allocations = async |text: &str| {
        let patch = json!({"data": {"clusterinfo": text}});
        let patch = kube::api::Patch::Merge(patch);
        maps.patch("submariner-globalnet-info", &Default::default(), &patch)
            .await
    };
    allocations(r#"[{"cluster_id":"east","global_cidr":["242.7.0.0/16"]}]"#).await?;
    let (refused, _) = error_and_hint(join(&both, &settings(&info, "east"), &Silent).await);
    assert_eq!(
        refused,
        "cluster ID not unique: another cluster of this ClusterSet is called east"
    );
    assert!(is_untouched(&both.joining).await?);
    // Once that cluster is gone, its account is taken over.
    allocations("[]").await?;
    join(&both, &settings(&info, "east"), &Silent).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_concurrent_joins_with_one_id_is_refused() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    for round in 0..5 {
        let namespace = format!("n{round}");
        let info = stage.deploy(&namespace, Wanted::default()).await?;
        let (one, other) = (2 * round, 2 * round + 1);
        let one = stage.both(&info, &format!("c{one}")).await?;
        let other = stage.both(&info, &format!("c{other}")).await?;
        let settings = settings(&info, "east");
        let (one, other) = tokio::join!(
            join(&one, &settings, &Silent),
            join(&other, &settings, &Silent)
        );
        let refused = match (one, other) {
            (Ok(_), Err(refused)) | (Err(refused), Ok(_)) => refused,
            both => anyhow::bail!("{both:?}"),
        };
        assert_eq!(
            refused.to_string(),
            "cluster ID not unique: another cluster of this ClusterSet is called east"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn r8_cluster_is_in_one_clusterset_under_one_id() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let (info, other) = (
        stage.deploy("n", Wanted::default()).await?,
        stage.deploy("m", Wanted::default()).await?,
    );
    let both = stage.both(&info, "c0").await?;
    join(&both, &settings(&info, "east"), &Silent).await?;
    let elsewhere = stage.both(&other, "c0").await?;
    for (both, settings) in [
        (&both, settings(&info, "west")),
        (&elsewhere, settings(&other, "east")),
    ] {
        let (refused, hint) = error_and_hint(join(both, &settings, &Silent).await);
        assert_eq!(
            refused,
            "this cluster has joined as east already, through namespace n"
        );
        assert_eq!(
            hint,
            "join with the same --clusterid and file, or remove the cluster from its ClusterSet first with `subctl unjoin`"
        );
    }
    let maps: Api<ConfigMap> = Api::namespaced(stage.system()?, "m");
    for map in maps.list(&ListParams::default()).await?.items {
        assert!(!map.data.unwrap_or_default().contains_key("clusterinfo"));
    }
    Ok(())
}

/// Makes the cluster's membership name another broker.
async fn lead(joining: &Client, server: &str, token: Option<&str>) -> anyhow::Result<()> {
    let kind = GroupVersionKind::gvk("submariner.io", "v1alpha1", "Submariner");
    let kind = ApiResource::from_gvk_with_plural(&kind, "submariners");
    let objects: Api<DynamicObject> =
        Api::namespaced_with(joining.clone(), OPERATOR_NAMESPACE, &kind);
    let mut spec = json!({"brokerK8sApiServer": server});
    if let Some(token) = token {
        spec["brokerK8sApiServerToken"] = token.into();
    }
    let patch = kube::api::Patch::Merge(json!({ "spec": spec }));
    objects
        .patch("submariner", &Default::default(), &patch)
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn r8_cluster_cannot_join_the_broker_of_another_server() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let both = stage.both(&info, "c0").await?;
    let settings = settings(&info, "east");
    join(&both, &settings, &Silent).await?;
    // The same broker under another address: its account is that of the cluster's token.
    lead(&both.joining, "other.example:6443", None).await?;
    let moved = Told::default();
    join(&both, &settings, &moved).await?;
    let address = stage.server.address();
    assert_eq!(
        moved.warnings(),
        [format!(
            "The cluster has joined through other.example:6443; from now on it uses {address}"
        )]
    );
    // Another broker with the same namespace and ID: the token is of an account there.
    let token = "e30.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6bjpjbHVzdGVyLWVhc3QiLCJrdWJlcm5ldGVzLmlvL3NlcnZpY2VhY2NvdW50L3NlcnZpY2UtYWNjb3VudC51aWQiOiJvZi1hbm90aGVyIn0.c2ln";
    lead(&both.joining, "other.example:6443", Some(token)).await?;
    let (refused, hint) = error_and_hint(join(&both, &settings, &Silent).await);
    assert_eq!(
        refused,
        "this cluster has joined as east already, through the broker at other.example:6443"
    );
    assert_eq!(
        hint,
        "a cluster does not move from one ClusterSet to another: `subctl unjoin` with the file of the first, then join again"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn r8_member_of_another_broker_cannot_take_an_id() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let both = stage.both(&info, "c0").await?;
    let settings = settings(&info, "east");
    join(&both, &settings, &Silent).await?;
    // A cluster joined by another program at another broker; its object differs only in the
    // server.
    let other = stage.both(&info, "c1").await?;
    let submariner = object(&both.joining, SUBMARINER, OPERATOR_NAMESPACE, "submariner").await?;
    let mut copied = submariner.unwrap()["spec"].clone();
    copied["brokerK8sApiServer"] = "other.example".into();
    copied["brokerK8sApiServerToken"] = "of.that.broker".into();
    join(&other, &super::stage::settings(&info, "west"), &Silent).await?;
    let kind = GroupVersionKind::gvk("submariner.io", "v1alpha1", "Submariner");
    let kind = ApiResource::from_gvk_with_plural(&kind, "submariners");
    let objects: Api<DynamicObject> =
        Api::namespaced_with(other.joining.clone(), OPERATOR_NAMESPACE, &kind);
    let patch = kube::api::Patch::Merge(json!({ "spec": copied }));
    objects
        .patch("submariner", &Default::default(), &patch)
        .await?;
    let (refused, _) = error_and_hint(join(&other, &settings, &Silent).await);
    assert_eq!(
        refused,
        "cluster ID not unique: another cluster of this ClusterSet is called east"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn incomplete_broker_is_reported_with_its_missing_objects() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let both = stage.both(&info, "c0").await?;
    let settings = settings(&info, "east");
    let roles: Api<Role> = Api::namespaced(stage.system()?, "n");
    roles
        .delete("submariner-k8s-broker-cluster", &Default::default())
        .await?;
    let expected = |missing: &str| {
        let error = format!("the broker in namespace n is not deployed: it has no {missing}");
        (error, "run `subctl deploy broker` first".to_owned())
    };
    let refused = error_and_hint(join(&both, &settings, &Silent).await);
    assert_eq!(refused, expected("Role submariner-k8s-broker-cluster"));
    let maps: Api<ConfigMap> = Api::namespaced(stage.system()?, "n");
    for name in ["submariner-clustersetip-info", "submariner-globalnet-info"] {
        maps.delete(name, &Default::default()).await?;
        let refused = error_and_hint(join(&both, &settings, &Silent).await);
        assert_eq!(refused, expected(&format!("ConfigMap {name}")));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_token_is_reported() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let joining = stage.cluster("c0").await?;
    let url = stage.server.url();
    let stranger = JoinClients {
        broker: stage.client("nobody-knows-this-token")?,
        joining: joining.clone(),
    };
    let (refused, hint) = error_and_hint(join(&stranger, &settings(&info, "east"), &Silent).await);
    assert_eq!(
        refused,
        format!("cannot use the broker at {url}: Unauthorized")
    );
    assert_eq!(
        hint,
        "the credential is not known to this server, or has expired"
    );
    // A valid token without its binding.
    let bindings: Api<RoleBinding> = Api::namespaced(stage.system()?, "n");
    bindings
        .delete("submariner-k8s-broker-admin", &Default::default())
        .await?;
    let both = JoinClients {
        broker: stage.broker(&info)?,
        joining: joining.clone(),
    };
    let (refused, hint) = error_and_hint(join(&both, &settings(&info, "east"), &Silent).await);
    assert!(
        refused.contains("forbidden") && refused.contains("clusters"),
        "{refused}"
    );
    assert!(hint.contains("names the missing permission"), "{hint}");
    assert!(is_untouched(&joining).await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_broker_is_reported() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let mut info = stage.deploy("n", Wanted::default()).await?;
    let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    info.url = format!("https://{free}");
    let both = JoinClients {
        broker: Client::try_from(kube::Config::new(info.url.parse()?))?,
        joining: stage.cluster("c0").await?,
    };
    let (refused, hint) = error_and_hint(join(&both, &settings(&info, "east"), &Silent).await);
    assert!(
        refused.starts_with(&format!("cannot use the broker at {}: ", info.url)),
        "{refused}"
    );
    assert_eq!(hint, "is the server running, and is this its address?");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn token_of_a_deleted_account_is_not_used() -> anyhow::Result<()> {
    // No controller issues tokens here, nor deletes those of deleted accounts.
    let bare = insula_testkit::server::TestServer::start().await?;
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let both = JoinClients {
        broker: connect(&bare, "system")?,
        joining: stage.cluster("c0").await?,
    };
    let namespaces: Api<Namespace> = Api::all(both.broker.clone());
    let namespace = Namespace {
        metadata: named("n"),
        ..Namespace::default()
    };
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    let maps: Api<ConfigMap> = Api::namespaced(both.broker.clone(), "n");
    let wanted = Wanted::default();
    for map in [
        wanted.globalnet.config_map("n"),
        wanted.clusterset.config_map("n"),
    ] {
        maps.create(&PostParams::default(), &map).await?;
    }
    let roles: Api<Role> = Api::namespaced(both.broker.clone(), "n");
    let role = Role {
        metadata: named("submariner-k8s-broker-cluster"),
        ..Role::default()
    };
    roles.create(&PostParams::default(), &role).await?;
    let secrets: Api<Secret> = Api::namespaced(both.broker.clone(), "n");
    let stale = serde_json::from_value(json!({
        "metadata": {"name": "old", "annotations": {
            "kubernetes.io/service-account.name": "cluster-east",
            "kubernetes.io/service-account.uid": "of-an-account-that-is-gone",
        }},
        "type": "kubernetes.io/service-account-token",
        "data": {"token": "c3RhbGU="},
    }))?;
    secrets.create(&PostParams::default(), &stale).await?;
    let mut settings = settings(&info, "east");
    settings.token_timeout = std::time::Duration::from_millis(50);
    let (refused, _) = error_and_hint(join(&both, &settings, &Silent).await);
    let asked =
        refused.strip_prefix("the token was not generated for secret \"cluster-east-token-");
    assert!(asked.is_some(), "{refused}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn r81_validation_messages_with_secrets_are_withheld() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let both = stage.both(&info, "c0").await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(both.joining.clone());
    let never = json!({"type": "string", "pattern": "^never$"});
    let theirs = serde_json::from_value(json!({
        "metadata": {"name": "submariners.submariner.io"},
        "spec": {
            "group": "submariner.io", "scope": "Namespaced",
            "names": {"plural": "submariners", "kind": "Submariner"},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "object",
                    "properties": {"brokerK8sApiServerToken": never, "ceIPSecPSK": never},
                    "x-kubernetes-preserve-unknown-fields": true,
                }}}},
            }],
        },
    }))?;
    definitions.create(&PostParams::default(), &theirs).await?;
    let (refused, _) = error_and_hint(join(&both, &settings(&info, "east"), &Silent).await);
    assert_eq!(
        refused,
        "cannot store Submariner submariner in namespace submariner-operator: the server does not accept spec.brokerK8sApiServerToken, spec.ceIPSecPSK"
    );
    Ok(())
}
