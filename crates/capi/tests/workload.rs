//! Clients of workload clusters, with a server that plays both clusters.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_capi::workload::{self, Unavailable};
use insula_testkit::server::TestServer;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

fn kubeconfig(server: &TestServer) -> Value {
    let ca = STANDARD.encode(server.authority().certificate_pem());
    let cluster = json!({"server": server.url(), "certificate-authority-data": ca});
    json!({
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"token": "system"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    })
}

#[tokio::test]
async fn client_of_a_workload_cluster_is_made_from_its_secret() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let options = KubeConfigOptions::default();
    let management: Kubeconfig = serde_json::from_value(kubeconfig(&server))?;
    let management = Config::from_custom_kubeconfig(management, &options).await?;
    let secrets: Api<Secret> = Api::namespaced(Client::try_from(management)?, "default");
    let connect = || workload::client(&secrets, "c", "test", Client::try_from);

    let missing = connect().await.err().map(|error| error.to_string());
    let expected = "there is no Secret \"c-kubeconfig\" yet";
    assert_eq!(missing.as_deref(), Some(expected));

    let secret = json!({
        "metadata": {"name": workload::secret_name("c")},
        "stringData": {"value": kubeconfig(&server).to_string()},
    });
    let secret = serde_json::from_value(secret)?;
    secrets.create(&PostParams::default(), &secret).await?;
    let namespaces: Api<Namespace> = Api::all(connect().await?);
    assert!(
        !namespaces
            .list(&ListParams::default())
            .await?
            .items
            .is_empty()
    );

    let broken = json!({"data": {"value": STANDARD.encode("sesame: [")}});
    let broken = kube::api::Patch::Merge(broken);
    let parameters = kube::api::PatchParams::default();
    secrets.patch("c-kubeconfig", &parameters, &broken).await?;
    let error = connect().await.err();
    assert!(matches!(error, Some(Unavailable::Invalid { .. })));
    let text = error.map(|error| error.to_string());
    let expected = "Secret \"c-kubeconfig\" has no valid kubeconfig";
    assert_eq!(text.as_deref(), Some(expected));
    Ok(())
}
