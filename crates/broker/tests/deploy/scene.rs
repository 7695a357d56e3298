//! A server, and clients with recorded and disturbed requests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use http::{Method, Request};
use insula_broker::report::Report;
use insula_testkit::server::TestServer;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::client::Body;
use kube::{Api, Client, Config, ResourceExt};
use tower::{BoxError, service_fn};

/// The client configuration with this token.
pub fn config(server: &TestServer, token: &str) -> anyhow::Result<Config> {
    let mut config = Config::new(server.url().parse()?);
    let ca = pem::parse(server.authority().certificate_pem())?;
    config.root_cert = Some(vec![ca.into_contents()]);
    config.auth_info = serde_json::from_value(serde_json::json!({"token": token}))?;
    Ok(config)
}

/// A client with this token.
pub fn client(server: &TestServer, token: &str) -> anyhow::Result<Client> {
    Ok(Client::try_from(config(server, token)?)?)
}

/// The sent requests: method and path.
#[derive(Clone, Default)]
pub struct Record {
    sent: Arc<Mutex<Vec<(Method, String)>>>,
    answered: Arc<AtomicUsize>,
}

impl Record {
    pub fn all(&self) -> Vec<(Method, String)> {
        self.sent.lock().expect("no test panics with it").clone()
    }

    /// The number of answered requests.
    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::SeqCst)
    }

    /// The requests that may change something; access reviews do not.
    pub fn writes(&self) -> Vec<(Method, String)> {
        let mut all = self.all();
        all.retain(|(method, path)| {
            method != Method::GET && !path.contains("selfsubjectaccessreviews")
        });
        all
    }
}

/// The disturbance of the n-th request, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request does not arrive.
    Before(usize),
    /// The request arrives, and its response is lost.
    After(usize),
    /// The same for the n-th request that may change something.
    AfterWrite(usize),
}

/// Wraps a client that records its requests and is disturbed like this.
pub fn watched(client: &Client, fault: Option<Fault>) -> (Client, Record) {
    let (client, record) = (client.clone(), Record::default());
    let kept = record.clone();
    let service = service_fn(move |request: Request<Body>| {
        let (client, record) = (client.clone(), kept.clone());
        async move {
            let path = request.uri().path().to_owned();
            let number = {
                let mut sent = record.sent.lock().expect("no test panics with it");
                sent.push((request.method().clone(), path));
                sent.len()
            };
            if matches!(fault, Some(Fault::Before(at)) if number >= at) {
                return Err(BoxError::from("the connection was cut"));
            }
            let answer = client.send(request).await?;
            let lost = match fault {
                Some(Fault::After(at)) => number >= at,
                Some(Fault::AfterWrite(at)) => record.writes().len() >= at,
                _ => false,
            };
            if lost {
                return Err(BoxError::from("the connection was cut"));
            }
            record.answered.fetch_add(1, Ordering::SeqCst);
            Ok(answer)
        }
    });
    (Client::new(service, "default"), record)
}

/// Waits until a condition holds.
pub async fn until(mut is_so: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(20), async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.expect("it is so within twenty seconds");
}

/// All reports.
#[derive(Default)]
pub struct Told(Mutex<Vec<String>>);

impl Told {
    pub fn all(&self) -> Vec<String> {
        self.0.lock().expect("no test panics with it").clone()
    }

    pub fn warnings(&self) -> Vec<String> {
        let all = self.all().into_iter();
        all.filter_map(|line| Some(line.strip_prefix("warning: ")?.to_owned()))
            .collect()
    }

    fn record(&self, line: String) {
        self.0.lock().expect("no test panics with it").push(line);
    }
}

impl Report for Told {
    fn begin(&self, what: &str) {
        self.record(format!("begin: {what}"));
    }

    fn done(&self, what: &str) {
        self.record(format!("done: {what}"));
    }

    fn warn(&self, what: &str) {
        self.record(format!("warning: {what}"));
    }
}

/// Group, version, kind and plural of the inspected objects.
const KINDS: [(&str, &str, &str, &str); 15] = [
    ("", "v1", "Namespace", "namespaces"),
    ("", "v1", "ServiceAccount", "serviceaccounts"),
    ("", "v1", "Secret", "secrets"),
    ("", "v1", "ConfigMap", "configmaps"),
    ("apps", "v1", "Deployment", "deployments"),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles"),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "RoleBinding",
        "rolebindings",
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRole",
        "clusterroles",
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    ),
    ("submariner.io", "v1alpha1", "Tenant", "tenants"),
    ("submariner.io", "v1alpha1", "Broker", "brokers"),
    ("submariner.io", "v1", "Cluster", "clusters"),
    ("submariner.io", "v1", "Endpoint", "endpoints"),
    (
        "multicluster.x-k8s.io",
        "v1alpha1",
        "ServiceImport",
        "serviceimports",
    ),
];

/// Returns the kind of this plural.
pub fn kind(plural: &str) -> ApiResource {
    let mut kinds = KINDS.iter();
    let found = kinds.find(|(.., name)| *name == plural);
    let (group, version, kind, plural) = found.expect("a kind of the table");
    ApiResource {
        group: (*group).to_owned(),
        version: (*version).to_owned(),
        api_version: format!("{group}/{version}")
            .trim_start_matches('/')
            .to_owned(),
        kind: (*kind).to_owned(),
        plural: (*plural).to_owned(),
    }
}

/// Returns every object of these kinds with its resourceVersion. Objects that servers create
/// by themselves are left out.
pub async fn inventory(client: &Client) -> anyhow::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for (.., plural) in KINDS {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind(plural));
        let listed = match api.list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            listed => listed.context(plural)?,
        };
        for object in listed {
            let name = object.name_any();
            let namespace = object.namespace().unwrap_or_default();
            let built_in = ["default", "kube-root-ca.crt"].contains(&name.as_str())
                || name.starts_with("system:")
                || namespace.starts_with("kube-")
                || name.starts_with("kube-");
            if !built_in {
                let version = object.resource_version().unwrap_or_default();
                found.insert(format!("{plural} {namespace}/{name}"), version);
            }
        }
    }
    Ok(found)
}
