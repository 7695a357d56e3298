//! Two servers with Cluster API's kinds, and helpers for tests of moves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_operator::report::Report;
use insula_relocate::{Error, Moved, Settings, relocate};
use insula_testkit::capi;
use insula_testkit::server::TestServer;
use insula_vsphere::inspect::VSphere;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};
use serde_json::{Value, json};

pub const CAPI: &str = "cluster.x-k8s.io/v1beta2";
pub const INFRA: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
pub const HELD: &str = "vspherecluster/infrastructure.cluster.x-k8s.io";

/// Two servers.
pub struct Scene {
    pub source: Side,
    pub target: Side,
}

impl Scene {
    pub async fn new() -> anyhow::Result<Self> {
        Ok(Self {
            source: Side::new().await?,
            target: Side::new().await?,
        })
    }

    /// A scene with one cluster `c` in namespace `a` of the source.
    pub async fn with_cluster() -> anyhow::Result<Self> {
        let scene = Self::new().await?;
        scene.source.namespace("a", json!({})).await?;
        cluster(&scene.source, "a", "c", Login::Secret).await?;
        Ok(scene)
    }

    /// Moves everything of namespace `a`.
    pub async fn relocate(&self) -> Result<(Moved, Lines), Error> {
        self.relocate_with(&settings()).await
    }

    pub async fn relocate_with(&self, settings: &Settings) -> Result<(Moved, Lines), Error> {
        let lines = Lines::default();
        let moved = relocate(&self.source.client, &self.target.client, settings, &lines).await?;
        Ok((moved, lines))
    }
}

pub fn settings() -> Settings {
    Settings {
        timeout: Duration::from_secs(20),
        poll_interval: Duration::from_millis(10),
        ..Settings::new("a", &[&VSphere])
    }
}

/// One server, or one space of it. It runs as long as this value lives.
pub struct Side {
    pub server: Arc<TestServer>,
    pub client: Client,
}

impl Side {
    pub async fn new() -> anyhow::Result<Self> {
        let server = TestServer::start_with_controllers().await?;
        let system = server.system().await?;
        for definition in capi::definitions() {
            system.define(&definition).await?;
        }
        for (plural, kind, scope) in [
            ("vsphereclusters", "VSphereCluster", "Namespaced"),
            ("vspheremachines", "VSphereMachine", "Namespaced"),
            ("vspherevms", "VSphereVM", "Namespaced"),
            (
                "vsphereclusteridentities",
                "VSphereClusterIdentity",
                "Cluster",
            ),
            ("vspheredeploymentzones", "VSphereDeploymentZone", "Cluster"),
            ("vspherefailuredomains", "VSphereFailureDomain", "Cluster"),
        ] {
            system.define(&infrastructure(plural, kind, scope)).await?;
        }
        let client = client(&server, "system").await?;
        let server = Arc::new(server);
        Ok(Self { server, client })
    }

    /// The space of a tenant of the same server.
    pub async fn tenant(&self, name: &str) -> anyhow::Result<Self> {
        self.server.tenant(name).await?;
        let client = client(&self.server, name).await?;
        let server = Arc::clone(&self.server);
        Ok(Self { server, client })
    }

    /// Returns a client for objects of a kind; without a namespace, for those of all.
    pub fn api(&self, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let plural = match kind {
            "VSphereClusterIdentity" => "vsphereclusteridentities".to_owned(),
            "ClusterClass" => "clusterclasses".to_owned(),
            other => format!("{}s", other.to_lowercase()),
        };
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            plural,
        };
        match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }
    }

    /// Creates an object with its status, and returns it.
    pub async fn put(&self, object: Value) -> anyhow::Result<DynamicObject> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let namespace = text(&object["metadata"]["namespace"]);
        let api = self.api(&version, &kind, &namespace);
        let made: DynamicObject = serde_json::from_value(object.clone())?;
        let made = api.create(&PostParams::default(), &made).await?;
        if object["status"].is_null() {
            return Ok(made);
        }
        let status = Patch::Merge(json!({"status": object["status"]}));
        let name = made.name_any();
        Ok(api
            .patch_status(&name, &PatchParams::default(), &status)
            .await?)
    }

    pub async fn namespace(&self, name: &str, labels: Value) -> anyhow::Result<()> {
        let metadata = json!({"name": name, "labels": labels});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        self.put(namespace).await.map(drop)
    }

    pub async fn get(
        &self,
        api_version: &str,
        kind: &str,
        at: (&str, &str),
    ) -> anyhow::Result<Option<DynamicObject>> {
        Ok(self.api(api_version, kind, at.0).get_opt(at.1).await?)
    }

    /// Returns every object that a move could be about, as kind, namespace and name.
    pub async fn inventory(&self) -> anyhow::Result<Vec<String>> {
        let mut names = Vec::new();
        for (version, kind) in KINDS {
            let all = self
                .api(version, kind, "")
                .list(&ListParams::default())
                .await?;
            for one in all {
                match one.namespace() {
                    Some(namespace) => names.push(format!("{kind} {namespace}/{}", one.name_any())),
                    None => names.push(format!("{kind} {}", one.name_any())),
                }
            }
        }
        names.sort();
        Ok(names)
    }
}

pub const KINDS: [(&str, &str); 7] = [
    (CAPI, "Cluster"),
    (CAPI, "Machine"),
    (INFRA, "VSphereCluster"),
    (INFRA, "VSphereMachine"),
    (INFRA, "VSphereVM"),
    (INFRA, "VSphereClusterIdentity"),
    ("v1", "Secret"),
];

/// The credentials that a cluster uses.
#[derive(Clone, Copy)]
pub enum Login<'a> {
    /// A Secret of its own, `NAME-login`.
    Secret,
    /// An identity of this name, with a Secret `NAME-login`.
    Identity(&'a str),
}

/// Creates a cluster with a machine, in the state that its controllers leave.
pub async fn cluster(
    side: &Side,
    namespace: &str,
    name: &str,
    login: Login<'_>,
) -> anyhow::Result<()> {
    let ready = json!({
        "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
    });
    let cluster = side
        .put(json!({
            "apiVersion": CAPI, "kind": "Cluster",
            "metadata": {"name": name, "namespace": namespace, "finalizers": ["cluster.cluster.x-k8s.io"]},
            "spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "VSphereCluster", "name": name}},
            "status": ready,
        }))
        .await?;
    let reference = match login {
        Login::Secret => json!({"kind": "Secret", "name": format!("{name}-login")}),
        Login::Identity(identity) => json!({"kind": "VSphereClusterIdentity", "name": identity}),
    };
    let infra = side
        .put(json!({
            "apiVersion": INFRA, "kind": "VSphereCluster",
            "metadata": {
                "name": name, "namespace": namespace,
                "finalizers": ["vspherecluster.infrastructure.cluster.x-k8s.io"],
                "ownerReferences": [owner(&cluster, CAPI, "Cluster")],
            },
            "spec": {"server": "vcenter.test", "identityRef": reference},
            "status": {"initialization": {"provisioned": true}},
        }))
        .await?;
    if let Login::Secret = login {
        let owner = owner(&infra, INFRA, "VSphereCluster");
        side.put(secret(namespace, &format!("{name}-login"), &[owner]))
            .await?;
    }
    side.put(secret(namespace, &format!("{name}-kubeconfig"), &[]))
        .await?;
    machine(side, &cluster, namespace, &format!("{name}-m")).await
}

async fn machine(
    side: &Side,
    cluster: &DynamicObject,
    namespace: &str,
    name: &str,
) -> anyhow::Result<()> {
    let metadata = |finalizer: &str, owner: Value| {
        json!({
            "name": name, "namespace": namespace, "finalizers": [finalizer],
            "ownerReferences": [owner],
            "labels": {"cluster.x-k8s.io/cluster-name": cluster.name_any()},
        })
    };
    let machine = side
        .put(json!({
            "apiVersion": CAPI, "kind": "Machine",
            "metadata": metadata("machine.cluster.x-k8s.io", owner(cluster, CAPI, "Cluster")),
            "spec": {"clusterName": cluster.name_any()},
            "status": {"nodeRef": {"name": name}},
        }))
        .await?;
    let infra = side
        .put(json!({
            "apiVersion": INFRA, "kind": "VSphereMachine",
            "metadata": metadata(
                "vspheremachine.infrastructure.cluster.x-k8s.io", owner(&machine, CAPI, "Machine")),
            "spec": {"providerID": "vsphere://4210"},
        }))
        .await?;
    side.put(json!({
        "apiVersion": INFRA, "kind": "VSphereVM",
        "metadata": metadata(
            "vspherevm.infrastructure.cluster.x-k8s.io", owner(&infra, INFRA, "VSphereMachine")),
        "spec": {"biosUUID": "4210"},
    }))
    .await
    .map(drop)
}

/// Creates an identity for every namespace with this label, and its Secret.
pub async fn identity(side: &Side, name: &str, label: &str) -> anyhow::Result<DynamicObject> {
    let secret_name = format!("{name}-login");
    let made = side
        .put(json!({
            "apiVersion": INFRA, "kind": "VSphereClusterIdentity",
            "metadata": {
                "name": name,
                "finalizers": ["vsphereclusteridentity/infrastructure.cluster.x-k8s.io"],
            },
            "spec": {
                "secretName": secret_name,
                "allowedNamespaces": {"selector": {"matchLabels": {"team": label}}},
            },
            "status": {"ready": true},
        }))
        .await?;
    if side
        .get("v1", "Namespace", ("", "capv-system"))
        .await?
        .is_none()
    {
        side.namespace("capv-system", json!({})).await?;
    }
    let owner = owner(&made, INFRA, "VSphereClusterIdentity");
    side.put(secret("capv-system", &secret_name, &[owner]))
        .await?;
    Ok(made)
}

pub fn secret(namespace: &str, name: &str, owners: &[Value]) -> Value {
    let held: &[&str] = if owners.is_empty() { &[] } else { &[HELD] };
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "name": name, "namespace": namespace,
            "ownerReferences": owners, "finalizers": held,
        },
        "data": {"username": STANDARD.encode(name), "password": STANDARD.encode("pass")},
    })
}

pub fn owner(object: &DynamicObject, api_version: &str, kind: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind,
        "name": object.name_any(), "uid": object.uid(),
    })
}

/// The lines that a move reported.
#[derive(Default)]
pub struct Lines(Mutex<Vec<String>>);

impl Lines {
    pub fn all(&self) -> Vec<String> {
        self.0.lock().expect("no panic").clone()
    }

    /// Returns the warnings.
    pub fn warnings(&self) -> Vec<String> {
        let all = self.all();
        let warnings = all.iter().filter_map(|line| line.strip_prefix("! "));
        warnings.map(str::to_owned).collect()
    }

    fn add(&self, sign: &str, what: &str) {
        let line = format!("{sign} {what}");
        self.0.lock().expect("no panic").push(line);
    }
}

impl Report for Lines {
    fn begin(&self, what: &str) {
        self.add("-", what);
    }
    fn done(&self, what: &str) {
        self.add("+", what);
    }
    fn warn(&self, what: &str) {
        self.add("!", what);
    }
}

fn infrastructure(plural: &str, kind: &str, scope: &str) -> Value {
    let mut definition = capi::clusters();
    definition["metadata"]["name"] = json!(format!("{plural}.infrastructure.cluster.x-k8s.io"));
    definition["metadata"]["labels"]["cluster.x-k8s.io/provider"] = json!("infrastructure-vsphere");
    definition["spec"]["group"] = json!("infrastructure.cluster.x-k8s.io");
    definition["spec"]["scope"] = json!(scope);
    definition["spec"]["names"] = json!({"plural": plural, "kind": kind});
    definition
}

pub async fn client(server: &TestServer, token: &str) -> anyhow::Result<Client> {
    let ca = STANDARD.encode(server.authority().certificate_pem());
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {
            "server": server.url(), "certificate-authority-data": ca,
        }}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }))?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(Client::try_from(config)?)
}
