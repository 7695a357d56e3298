//! Recovery of a lost file.

use std::path::Path;

use insula_broker::info::BrokerInfo;
use insula_broker::join::join;
use insula_broker::recover::{Context, RecoverSettings, recover};
use insula_broker::report::Silent;
use insula_broker::{Error, component};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

use super::cut::Line;
use super::stage::*;

fn connect(info: &BrokerInfo) -> Result<Client, Error> {
    let config = insula_broker::connect::from_file(info)?;
    Client::try_from(config).map_err(Error::when("connect"))
}

fn to(folder: &Path) -> RecoverSettings {
    RecoverSettings {
        namespace: None,
        broker_url: None,
        output: folder.join("broker-info.subm"),
    }
}

fn context(client: Client, stage: &Stage) -> Context {
    Context {
        client,
        url: stage.server.url(),
    }
}

/// Decodes a file, without the label that records the use of a token.
fn comparable(info: &BrokerInfo) -> String {
    let mut info = info.clone();
    if let Some(token) = &mut info.client_token {
        token.metadata.labels = None;
    }
    info.encode()
}

#[tokio::test(flavor = "multi_thread")]
async fn member_can_recover_the_file() -> anyhow::Result<()> {
    let (stage, folder) = (Stage::start().await?, tempfile::tempdir()?);
    let wanted = Wanted {
        domains: vec!["a.example".to_owned()],
        ..Wanted::default()
    };
    let info = stage.deploy("n", wanted).await?;
    stage.deploy("m", Wanted::default()).await?;
    let both = stage.both(&info, "c0").await?;
    join(&both, &settings(&info, "east"), &Silent).await?;
    let member = Context {
        client: both.joining.clone(),
        url: "https://elsewhere.example".to_owned(),
    };
    let recovered = recover(&member, &connect, &to(folder.path()), &Silent).await?;
    let read = BrokerInfo::read(&folder.path().join("broker-info.subm"))?;
    assert_eq!(comparable(&read), comparable(&info));
    assert_eq!(recovered.saved.backup, None);

    // Memberships from before Secrets: everything is in the object itself.
    let secrets: Api<Secret> = Api::namespaced(both.joining.clone(), "submariner-operator");
    for name in ["submariner-broker-secret", "submariner-ipsec-psk"] {
        secrets.delete(name, &Default::default()).await?;
    }
    let again = recover(&member, &connect, &to(folder.path()), &Silent).await?;
    assert_eq!(comparable(&again.info), comparable(&info));
    assert_eq!(BrokerInfo::read(&again.saved.backup.unwrap())?, read);

    let mut other = to(folder.path());
    other.namespace = Some("m".to_owned());
    let (refused, _) = error_and_hint(recover(&member, &connect, &other, &Silent).await);
    assert_eq!(
        refused,
        "this cluster has joined the broker in namespace n, not in m"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn broker_cluster_can_recover_the_file_if_it_has_the_key() -> anyhow::Result<()> {
    let (stage, folder) = (Stage::start().await?, tempfile::tempdir()?);
    let info = stage.deploy("n", Wanted::default()).await?;
    let (broker, settings) = (context(stage.system()?, &stage), to(folder.path()));
    let (refused, hint) = error_and_hint(recover(&broker, &connect, &settings, &Silent).await);
    assert_eq!(refused, "the IPsec PSK is not known to this cluster");
    assert_eq!(hint, "use the context of a cluster that has joined");
    assert!(!settings.output.exists());

    let secrets: Api<Secret> = Api::namespaced(stage.system()?, "n");
    let key = info.ipsec_psk.clone().unwrap();
    secrets.create(&PostParams::default(), &key).await?;
    let recovered = recover(&broker, &connect, &settings, &Silent).await?;
    assert_eq!(comparable(&recovered.info), comparable(&info));

    let wanted = Wanted {
        components: [component::SERVICE_DISCOVERY.to_owned()].into(),
        ..Wanted::default()
    };
    let other = stage.deploy("m", wanted).await?;
    let (refused, hint) = error_and_hint(recover(&broker, &connect, &settings, &Silent).await);
    assert_eq!(refused, "there are 2 brokers on this cluster");
    assert_eq!(
        hint,
        "--namespace says which; `subctl show brokers` shows them"
    );
    // As its own administrator, who reads no other namespace. No key is needed.
    let mut own = to(folder.path());
    own.namespace = Some("m".to_owned());
    own.broker_url = Some("https://public.example".to_owned());
    let tenant = context(stage.broker(&other)?, &stage);
    let recovered = recover(&tenant, &connect, &own, &Silent).await?;
    assert_eq!(recovered.info.url, "https://public.example");
    assert_eq!(recovered.info.ipsec_psk, None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_parts_cannot_be_recovered() -> anyhow::Result<()> {
    let (stage, folder) = (Stage::start().await?, tempfile::tempdir()?);
    let nothing = context(stage.cluster("c0").await?, &stage);
    let (refused, hint) =
        error_and_hint(recover(&nothing, &connect, &to(folder.path()), &Silent).await);
    assert_eq!(refused, "this cluster has joined no broker and has none");
    assert_eq!(
        hint,
        "use the context of a cluster that has joined, or of the broker"
    );
    // Values of a member's spec never become part of a path.
    let info = stage.deploy("n", Wanted::default()).await?;
    let both = stage.both(&info, "c1").await?;
    join(&both, &settings(&info, "east"), &Silent).await?;
    let kind = kube::core::GroupVersionKind::gvk("submariner.io", "v1alpha1", "Submariner");
    let kind = kube::core::ApiResource::from_gvk(&kind);
    let api: Api<kube::core::DynamicObject> =
        Api::namespaced_with(both.joining.clone(), "submariner-operator", &kind);
    let amend = async |spec: serde_json::Value| {
        let patch = kube::api::Patch::Merge(json!({ "spec": spec }));
        api.patch("submariner", &Default::default(), &patch).await
    };
    let line = Line::default();
    let member = context(line.through(&both.joining), &stage);
    amend(json!({"brokerK8sSecret": "../../default/secrets/theirs"})).await?;
    recover(&member, &connect, &to(folder.path()), &Silent).await?;
    let sent = line.sent.lock().unwrap().clone();
    assert!(
        !sent.is_empty() && !sent.concat().contains(".."),
        "{sent:?}"
    );
    amend(json!({"brokerK8sRemoteNamespace": "../../default"})).await?;
    let (refused, _) =
        error_and_hint(recover(&member, &connect, &to(folder.path()), &Silent).await);
    assert_eq!(
        refused,
        "broker info file is invalid: its namespace is not a valid name"
    );
    Ok(())
}
