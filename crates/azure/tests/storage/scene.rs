//! A server with virtual networks, stored in an older version at first.

#![allow(dead_code, reason = "each test program uses what it needs of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::{StreamExt, TryStreamExt, stream};
use http::{Method, Request};
use insula_apiserver::egress::{self, InProcessServices};
use insula_azure::crds;
use insula_azure::storage::{Migrated, Migration, Outcome, Records, Settings};
use insula_azure::upgrade::{Definition, definitions};
use insula_azure::versions::{self, Definitions};
use insula_operator::webhook::Router;
use insula_testkit::server::{Client as Plain, DEFINITIONS, Setup, TestServer};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceConversion;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::{BoxError, service_fn};

pub const NAME: &str = "virtualnetworks.network.azure.com";
pub const OLD_API: &str = "v1api20240301";
pub const OLD: &str = "v1api20240301storage";
pub const NEW: &str = "v20250301storage";
/// The namespace of the records.
pub const NAMESPACE: &str = "azureoperator-system";
/// The webhooks' Service.
const SERVICE: &str = "azureoperator-webhook-service";
/// The number of concurrent requests of a test.
const CONCURRENCY: usize = 16;

/// A server with the definition of virtual networks, and the conversion of its versions.
pub struct Scene {
    pub server: TestServer,
    pub plain: Plain,
    pub client: Client,
    converted: Arc<Definitions>,
}

impl Scene {
    /// Starts one. Objects are stored in the older version.
    pub async fn start() -> anyhow::Result<Self> {
        let converted = Arc::new(Definitions::new());
        let server = TestServer::start_with(Setup {
            egress: egress::Settings {
                in_process: conversion_service(&converted),
                ..egress::Settings::default()
            },
            ..Setup::with_controllers()
        })
        .await?;
        let plain = server.system().await?;
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        let made = plain.post("/api/v1/namespaces", &namespace).await?;
        anyhow::ensure!(made.status == 201, "{}", made.text());
        let definition = definition()?;
        converted
            .insert(&definition)
            .map_err(|error| anyhow::anyhow!(error))?;
        plain.define(&definition).await?;
        let client = client(&server).await?;
        Ok(Self {
            server,
            plain,
            client,
            converted,
        })
    }

    /// Creates objects in the older API version.
    pub async fn create(&self, count: usize) -> anyhow::Result<()> {
        let created = stream::iter(0..count).map(|number| self.create_one(number));
        created.buffer_unordered(CONCURRENCY).try_collect().await
    }

    pub async fn create_one(&self, number: usize) -> anyhow::Result<()> {
        let made = self.plain.post(&objects(OLD_API), &network(number)).await?;
        anyhow::ensure!(made.status == 201, "{}", made.text());
        Ok(())
    }

    /// Makes another version the storage version.
    pub async fn store_in(&self, version: &str) -> anyhow::Result<()> {
        let mut patch = Vec::new();
        for (index, name) in self.versions().await?.iter().enumerate() {
            let path = format!("/spec/versions/{index}/storage");
            patch.push(json!({"op": "replace", "path": path, "value": name == version}));
        }
        let changed = self.patch_definition(&json!(patch)).await?;
        anyhow::ensure!(changed.0 == 200, "{}", changed.1);
        Ok(())
    }

    /// Returns a new connection. The server closes idle ones, and a migration takes minutes.
    pub async fn connect(&self) -> anyhow::Result<Plain> {
        self.server.system().await
    }

    /// Tries to remove a version, and returns status and message.
    pub async fn remove_version(&self, version: &str) -> anyhow::Result<(u16, String)> {
        let versions = self.versions().await?;
        let index = versions.iter().position(|name| name == version);
        let index = index.context("the version exists")?;
        let path = format!("/spec/versions/{index}");
        self.patch_definition(&json!([{"op": "remove", "path": path}]))
            .await
    }

    pub async fn patch_definition(&self, patch: &Value) -> anyhow::Result<(u16, String)> {
        let path = format!("{DEFINITIONS}/{NAME}");
        let changed = self.connect().await?.patch(&path, "json", patch).await?;
        Ok((changed.status, changed.text()))
    }

    async fn versions(&self) -> anyhow::Result<Vec<String>> {
        let plain = self.connect().await?;
        let found = plain.get(&format!("{DEFINITIONS}/{NAME}")).await?.json();
        let versions = found["spec"]["versions"].as_array().cloned();
        let names = versions.into_iter().flatten();
        Ok(names
            .filter_map(|version| Some(version["name"].as_str()?.to_owned()))
            .collect())
    }

    /// Returns the definition as the program sees it.
    pub async fn definition(&self) -> anyhow::Result<Definition> {
        Ok(definitions::read(&self.client, NAME).await?)
    }

    pub fn records(&self) -> Records {
        Records::new(self.client.clone(), NAMESPACE)
    }

    /// Migrates with a client, and returns the outcome.
    pub async fn migrate_with(
        &self,
        client: &Client,
        settings: Settings,
    ) -> anyhow::Result<Outcome> {
        let records = Records::new(client.clone(), NAMESPACE);
        let migration = Migration::new(client.clone(), records, settings, &|_| {});
        let migrated = migration.run(&[self.definition().await?]).await?;
        let [Migrated { outcome, .. }] = &migrated[..] else {
            anyhow::bail!("{migrated:?}");
        };
        Ok(outcome.clone())
    }

    pub async fn migrate(&self) -> anyhow::Result<Outcome> {
        self.migrate_with(&self.client, settings()).await
    }

    /// Returns the stored objects.
    pub async fn stored(&self) -> anyhow::Result<Vec<Value>> {
        let keys = insula_store::KeyRange::prefix(b"/registry/network.azure.com/".to_vec());
        let store = self.server.registry().store();
        let found = store.range(&keys, insula_store::At::Latest, None).await?;
        let values = found.entries.iter().map(|entry| &entry.value);
        Ok(values
            .map(|value| serde_json::from_slice(value))
            .collect::<Result<_, _>>()?)
    }

    /// Returns how many objects are stored in a version.
    pub async fn stored_in(&self, version: &str) -> anyhow::Result<usize> {
        let version = format!("network.azure.com/{version}");
        let stored = self.stored().await?;
        let of = stored
            .iter()
            .filter(|object| object["apiVersion"] == version);
        Ok(of.count())
    }
}

/// Returns the name of an object.
pub fn name(number: usize) -> String {
    format!("network-{number:05}")
}

/// Returns an object in the older API version.
pub fn network(number: usize) -> Value {
    json!({
        "apiVersion": format!("network.azure.com/{OLD_API}"),
        "kind": "VirtualNetwork",
        "metadata": {"name": name(number)},
        "spec": {
            "azureName": name(number),
            "location": "westus",
            "owner": {"name": "group"},
            "addressSpace": {"addressPrefixes": ["10.0.0.0/16"]},
        },
    })
}

/// Returns the path of objects in a version.
pub fn objects(version: &str) -> String {
    format!("/apis/network.azure.com/{version}/namespaces/default/virtualnetworks")
}

/// Returns settings without a rate.
pub fn settings() -> Settings {
    Settings {
        rate: None,
        ..Settings::default()
    }
}

/// A count of writes, after some of which a client hangs.
#[derive(Default)]
pub struct Writes {
    count: AtomicUsize,
    pub stopped: Notify,
}

impl Writes {
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

/// Returns a client that counts writes of objects, and hangs after a number of them.
pub fn counting(client: &Client, limit: usize, writes: &Arc<Writes>) -> Client {
    let (client, writes) = (client.clone(), Arc::clone(writes));
    let service = service_fn(move |request: Request<Body>| {
        let (client, writes) = (client.clone(), Arc::clone(&writes));
        let is_write = *request.method() == Method::PUT;
        async move {
            let number = match is_write {
                true => writes.count.fetch_add(1, Ordering::SeqCst) + 1,
                false => 0,
            };
            if number > limit {
                writes.stopped.notify_one();
                std::future::pending::<()>().await;
            }
            Ok::<_, BoxError>(client.send(request).await?)
        }
    });
    Client::new(service, "default")
}

/// Returns the definition with the older version of storage besides that of today, and the older
/// one as storage version.
fn definition() -> anyhow::Result<Value> {
    let conversion: CustomResourceConversion = serde_json::from_value(json!({
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"service": {
                "namespace": NAMESPACE, "name": SERVICE, "path": versions::PATH,
            }},
        },
    }))?;
    let mut all = crds::all(&conversion).into_iter();
    let found = all.find(|it| it.metadata.name.as_deref() == Some(NAME));
    let mut definition = serde_json::to_value(found.context("the definition exists")?)?;
    let versions = definition["spec"]["versions"].as_array_mut();
    let versions = versions.context("it has versions")?;
    let mut older = versions.last().context("it has a storage version")?.clone();
    for version in versions.iter_mut() {
        version["storage"] = false.into();
    }
    older["name"] = OLD.into();
    versions.push(older);
    Ok(definition)
}

fn conversion_service(definitions: &Arc<Definitions>) -> InProcessServices {
    let router = Arc::new(versions::route(Router::default(), Arc::clone(definitions)));
    let mut services = InProcessServices::default();
    services.register(
        NAMESPACE,
        SERVICE,
        Arc::new(move |request| {
            let router = Arc::clone(&router);
            Box::pin(async move { router.handle(request, None).await })
        }),
    );
    services
}

/// Returns a client of a user of the server.
pub async fn client_of(server: &TestServer, token: &str) -> anyhow::Result<Client> {
    let authority = BASE64_STANDARD.encode(server.authority().certificate_pem());
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "server", "cluster": {
            "server": server.url(), "certificate-authority-data": authority,
        }}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "server", "user": "test"}}],
    }))?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(Client::try_from(config)?)
}

async fn client(server: &TestServer) -> anyhow::Result<Client> {
    client_of(server, "system").await
}
