//! The shipped definitions on a whole server, with their webhooks.

use std::sync::Arc;

use insula_apiserver::egress::{self, InProcessServices};
use insula_azure::versions::{self, ANNOTATION};
use insula_azure::webhooks::{self, Reach, Reviewed};
use insula_azure::{crds, table};
use insula_operator::webhook::Router;
use insula_testkit::server::{Answer, Client, Setup, TestServer};
use serde_json::{Value, json};

use super::{installed, shipped};

/// Annotation of definitions that are served in all tenants.
const PUBLISHED: &str = "multi-tenancy.k8s.io/published";

/// Starts a server with definitions and webhooks, and returns clients of the system and a tenant.
async fn start() -> anyhow::Result<(TestServer, [Client; 2])> {
    let conversion = webhooks::service().conversion(versions::PATH);
    let kinds: Vec<_> = crds::all(&conversion)
        .iter()
        .filter_map(|it| table::find(&it.spec.group, &it.spec.names.kind))
        .map(Reviewed::all)
        .collect();
    let mut definitions = shipped();
    let router = versions::route(Router::new(), Arc::new(installed(&definitions)));
    let router = Arc::new(webhooks::route(router, &kinds, None));
    let service = webhooks::service();
    let mut services = InProcessServices::default();
    services.register(
        &service.namespace,
        &service.name,
        Arc::new(move |request| {
            let router = Arc::clone(&router);
            Box::pin(async move { router.handle(request, None).await })
        }),
    );
    let server = TestServer::start_with(Setup {
        tokens: "acme,admin,1,\"tenant:acme\"\n".to_owned(),
        egress: egress::Settings {
            in_process: services,
            ..egress::Settings::default()
        },
        ..Setup::with_controllers()
    })
    .await?;
    let system = server.system().await?;
    let acme = server.tenant("acme").await?;
    for definition in &mut definitions {
        definition["metadata"]["annotations"] = json!({ PUBLISHED: "true" });
    }
    definitions.extend(webhooks::configurations(&service, &kinds, Reach::Tenants));
    system.install(&definitions).await?;
    Ok((server, [system, acme]))
}

fn path(version: &str) -> String {
    format!("/apis/network.azure.com/{version}/namespaces/default/virtualnetworks")
}

fn network(version: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("network.azure.com/{version}"), "kind": "VirtualNetwork",
        "metadata": {"name": "net"}, "spec": spec,
    })
}

fn success(answer: &Answer) -> Value {
    assert!([200, 201].contains(&answer.status), "{}", answer.text());
    answer.json()
}

const OLDER: &str = "v1api20240301";
const NEWER: &str = "v20250301";
const STORED: &str = "v20250301storage";

#[tokio::test]
async fn objects_keep_fields_and_original_version_in_every_space() -> anyhow::Result<()> {
    let (_server, clients) = start().await?;
    for client in &clients {
        let spec = json!({
            "owner": {"name": "g"}, "location": "x",
            "addressSpace": {"addressPrefixes": ["10.0.0.0/16"]},
        });
        let created = client.post(&path(OLDER), &network(OLDER, &spec)).await?;
        // The webhook sets the name in Azure.
        assert_eq!(success(&created)["spec"]["azureName"], "net");
        let named = |version: &str| format!("{}/net", path(version));
        let stored = success(&client.get(&named(STORED)).await?);
        assert_eq!(stored["spec"]["originalVersion"], OLDER);

        // A client of the newer version sets a field that the older one does not have.
        let patch = json!({"spec": {"addressSpace": {"ipamPoolPrefixAllocations": [
            {"numberOfIpAddresses": "8"},
        ]}}});
        let newer = client.patch(&named(NEWER), "merge", &patch).await?;
        success(&newer);
        let older = success(&client.get(&named(OLDER)).await?);
        assert_eq!(older["spec"]["addressSpace"], spec["addressSpace"]);
        assert!(older["metadata"]["annotations"][ANNOTATION].is_string());

        // A client of the older version changes another one.
        let patch = json!({"spec": {"location": "y"}});
        success(&client.patch(&named(OLDER), "merge", &patch).await?);
        let stored = success(&client.get(&named(STORED)).await?);
        assert_eq!(stored["spec"]["location"], "y");
        assert_eq!(stored["spec"]["originalVersion"], OLDER);
        assert_eq!(
            stored["spec"]["addressSpace"]["ipamPoolPrefixAllocations"][0]["numberOfIpAddresses"],
            "8"
        );
        assert_eq!(stored["metadata"].get("annotations"), None);
    }
    Ok(())
}

#[tokio::test]
async fn invalid_objects_are_refused_in_every_space() -> anyhow::Result<()> {
    let (_server, clients) = start().await?;
    for client in &clients {
        let spec = json!({"location": "x", "owner": {"armId": "/subscriptions/s"}});
        let answer = client.post(&path(NEWER), &network(NEWER, &spec)).await?;
        assert_eq!(answer.status, 422, "{}", answer.text());
        let message = answer.message();
        assert!(
            message.contains("expected the id of a Microsoft.Resources/resourceGroups"),
            "{message}"
        );
    }
    Ok(())
}
