//! A server with the kinds and the operator's rights, vCenters, and teams with clusters.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::Context as _;
use insula_dialer::AddressRules;
use insula_operator::provider;
use insula_testkit::server::TestServer;
use insula_testkit::vcenter::FakeVCenter;
use insula_vsphere::crds;
use insula_vsphere::kinds::{VSphereMachine, VSphereVM};
use insula_vsphere::operator::{Intervals, Settings};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::shared::client;
pub use crate::shared::{Running, eventually};

const OURS: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const CAPI: &str = "cluster.x-k8s.io/v1beta2";

/// A server with the kinds.
pub struct World {
    _server: TestServer,
    pub admin: Client,
}

impl World {
    pub async fn new() -> anyhow::Result<Self> {
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_test_writer()
            .try_init()
            .ok();
        let server = TestServer::start_with_controllers().await?;
        let admin = client(&server, "system").await?;
        let mut definitions = crds::all();
        definitions.push(definition("Cluster", "clusters")?);
        definitions.push(definition("Machine", "machines")?);
        let api: Api<CustomResourceDefinition> = Api::all(admin.clone());
        for definition in &definitions {
            api.create(&PostParams::default(), definition).await?;
        }
        let served = |definition: &CustomResourceDefinition| {
            let conditions = definition.status.as_ref()?.conditions.as_ref()?;
            let served = conditions.iter().find(|one| one.type_ == "Established")?;
            (served.status == "True").then_some(())
        };
        for definition in &definitions {
            let name = definition.name_any();
            eventually(async || Ok(served(&api.get(&name).await?))).await?;
        }
        let world = Self {
            _server: server,
            admin,
        };
        world.put(&json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "capv-system"}})).await?;
        Ok(world)
    }

    /// Creates an object.
    pub async fn put(&self, object: &Value) -> anyhow::Result<DynamicObject> {
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        let made = self
            .api_of(&object)?
            .create(&PostParams::default(), &object)
            .await;
        made.with_context(|| format!("{object:?}"))
    }

    /// Reads the object that this one names.
    pub async fn get(&self, object: &Value) -> anyhow::Result<DynamicObject> {
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        let api = self.api_of(&object)?;
        let mut found = api.get(&object.name_any()).await?;
        found.types = object.types;
        Ok(found)
    }

    /// Patches an object.
    pub async fn patch(&self, object: &DynamicObject, patch: Value) -> anyhow::Result<()> {
        let api = self.api_of(object)?;
        let patch = Patch::Merge(patch);
        api.patch(&object.name_any(), &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Writes the status of an object.
    pub async fn write_status(&self, object: &DynamicObject, status: Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({"status": status}));
        let name = object.name_any();
        let api = self.api_of(object)?;
        api.patch_status(&name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Patches an object by name.
    pub async fn change<K>(&self, namespace: &str, name: &str, patch: Value) -> anyhow::Result<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
        K: Clone + Debug + DeserializeOwned,
    {
        let api = self.api::<K>(namespace);
        let patched = api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.with_context(|| name.to_owned())
    }

    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.admin.clone(), namespace)
    }

    fn api_of(&self, object: &DynamicObject) -> anyhow::Result<Api<DynamicObject>> {
        let types = object.types.as_ref().context("it has no kind")?;
        let kind = types.kind.to_lowercase();
        let plural = match kind.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None => format!("{kind}s"),
        };
        let (group, version) = types.api_version.rsplit_once('/').unwrap_or(("", "v1"));
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: types.api_version.clone(),
            kind: types.kind.clone(),
            plural,
        };
        Ok(match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(self.admin.clone(), namespace, &resource),
            None => Api::all_with(self.admin.clone(), &resource),
        })
    }

    /// Creates a namespace with a Secret.
    pub async fn account(&self, namespace: &str, account: (&str, &str)) -> anyhow::Result<()> {
        self.put(&json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
        }))
        .await?;
        self.put(&json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "account", "namespace": namespace},
            "stringData": {"username": account.0, "password": account.1},
        }))
        .await?;
        Ok(())
    }

    /// Creates a team: a namespace with a Secret for a vCenter and a ready cluster, both named
    /// `prod`.
    pub async fn team(
        &self,
        namespace: &str,
        vcenter: &FakeVCenter,
        account: (&str, &str),
    ) -> anyhow::Result<()> {
        self.account(namespace, account).await?;
        let reference = json!({"kind": "Secret", "name": "account"});
        self.cluster(
            namespace,
            "prod",
            &vcenter.address(),
            &vcenter.thumbprint_sha256(),
            reference,
        )
        .await
    }

    /// Creates a ready cluster.
    pub async fn cluster(
        &self,
        namespace: &str,
        name: &str,
        server: &str,
        thumbprint: &str,
        identity: Value,
    ) -> anyhow::Result<()> {
        let cluster = json!({
            "apiVersion": CAPI, "kind": "Cluster",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "VSphereCluster",
                "name": name,
            }},
        });
        let cluster = self.put(&cluster).await?;
        let done = json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true});
        self.write_status(&cluster, json!({"initialization": done}))
            .await?;
        let owner = json!({
            "apiVersion": CAPI, "kind": "Cluster", "name": name, "uid": cluster.uid(),
        });
        self.put(&json!({
            "apiVersion": OURS, "kind": "VSphereCluster",
            "metadata": {
                "name": name, "namespace": namespace, "ownerReferences": [owner],
                "labels": {"cluster.x-k8s.io/cluster-name": name},
            },
            "spec": {"server": server, "thumbprint": thumbprint, "identityRef": identity},
        }))
        .await?;
        Ok(())
    }

    /// Creates a Machine, and a VSphereMachine of the same name.
    pub async fn machine(&self, namespace: &str, name: &str, spec: Value) -> anyhow::Result<()> {
        self.machine_of(namespace, "prod", name, spec).await
    }

    pub async fn machine_of(
        &self,
        namespace: &str,
        cluster: &str,
        name: &str,
        spec: Value,
    ) -> anyhow::Result<()> {
        self.put(&json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("{name}-data"), "namespace": namespace},
            "stringData": {"value": "#cloud-config\n", "format": "cloud-config"},
        }))
        .await?;
        let labels = json!({"cluster.x-k8s.io/cluster-name": cluster});
        let machine = self
            .put(&json!({
                "apiVersion": CAPI, "kind": "Machine",
                "metadata": {"name": name, "namespace": namespace, "labels": labels},
                "spec": {
                    "clusterName": cluster,
                    "bootstrap": {"dataSecretName": format!("{name}-data")},
                },
            }))
            .await?;
        let mut whole = json!({
            "template": "ubuntu",
            "network": {"devices": [{"networkName": "VM Network", "dhcp4": true}]},
        });
        merge(&mut whole, spec);
        self.put(&json!({
            "apiVersion": OURS, "kind": "VSphereMachine",
            "metadata": {
                "name": name, "namespace": namespace, "labels": labels,
                "ownerReferences": [{
                    "apiVersion": CAPI, "kind": "Machine", "name": name, "uid": machine.uid(),
                }],
            },
            "spec": whole,
        }))
        .await?;
        Ok(())
    }

    /// Waits until a machine is ready.
    pub async fn wait_until_ready(
        &self,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<VSphereMachine> {
        let is_ready = |machine: &VSphereMachine| {
            let status = machine.status.as_ref();
            status.is_some_and(|status| status.ready == Some(true))
        };
        self.wait_until(namespace, name, is_ready).await
    }

    /// Waits until an object has a condition with this reason.
    pub async fn wait_for_reason<K>(
        &self,
        namespace: &str,
        name: &str,
        kind: &str,
        expected: (&str, &str, &str),
    ) -> anyhow::Result<()>
    where
        K: HasConditions,
    {
        let so = |object: &K| {
            let told = object
                .conditions()
                .into_iter()
                .find(|told| told.type_ == kind);
            told.is_some_and(|told| {
                (
                    told.status.as_str(),
                    told.reason.as_str(),
                    told.message.as_str(),
                ) == expected
            })
        };
        self.wait_until(namespace, name, so).await.map(drop)
    }

    /// Waits until a predicate holds for an object.
    pub async fn wait_until<K>(
        &self,
        namespace: &str,
        name: &str,
        is_so: impl Fn(&K) -> bool,
    ) -> anyhow::Result<K>
    where
        K: HasConditions,
    {
        let api = self.api::<K>(namespace);
        let mut last = None;
        let found = eventually(async || {
            let object = api.get_opt(name).await?;
            last.clone_from(&object);
            Ok(object.filter(&is_so))
        });
        let found = found.await;
        found.with_context(|| format!("{namespace}/{name} is {last:#?}"))
    }

    pub async fn delete<K>(&self, namespace: &str, name: &str) -> anyhow::Result<()>
    where
        K: HasConditions,
    {
        self.api::<K>(namespace)
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// Waits until an object is gone.
    pub async fn wait_until_gone<K>(&self, namespace: &str, name: &str) -> anyhow::Result<()>
    where
        K: HasConditions,
    {
        let api = self.api::<K>(namespace);
        let mut last = None;
        let gone = eventually(async || {
            last = api.get_opt(name).await?;
            Ok(last.is_none().then_some(()))
        });
        let gone = gone.await;
        gone.with_context(|| format!("{namespace}/{name} is {last:#?}"))
    }

    /// Runs the operator for these namespaces only.
    pub fn start(&self, namespaces: &[&str]) -> Running {
        Running::new(self.admin.clone(), settings(namespaces))
    }
}

/// A kind with conditions.
pub trait HasConditions:
    Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
    + Clone
    + Debug
    + DeserializeOwned
{
    fn conditions(&self) -> Vec<Condition>;
}

impl HasConditions for VSphereMachine {
    fn conditions(&self) -> Vec<Condition> {
        let status = self.status.clone().unwrap_or_default();
        status.conditions
    }
}

impl HasConditions for VSphereVM {
    fn conditions(&self) -> Vec<Condition> {
        let status = self.status.clone().unwrap_or_default();
        status.conditions
    }
}

/// Returns settings with short intervals.
pub fn settings(namespaces: &[&str]) -> Settings {
    let (_, static_credentials) = watch::channel(None);
    let short = Duration::from_millis(20);
    let timeout = Duration::from_secs(10);
    let mut kept = provider::Settings::new("test", "", timeout).sessions;
    kept.unreachable_backoff = (short, short * 5);
    kept.refused_backoff = Duration::from_millis(200);
    let defaults = Settings::new("test", static_credentials);
    Settings {
        shell: provider::Settings {
            leader_elect: false,
            request_timeout: timeout,
            sessions: kept,
            namespaces: namespaces
                .iter()
                .map(|&name| name.to_owned())
                .collect::<BTreeSet<_>>(),
            ..defaults.shell
        },
        intervals: Intervals {
            tasks: short,
            addresses: (short, short * 2),
            retry: short * 5,
            // Timestamps have a resolution of one second.
            lost_clone: Duration::from_millis(1500),
        },
        addresses: AddressRules {
            allow: vec!["127.0.0.0/8".parse().expect("a block")],
            ..AddressRules::default()
        },
        ..defaults
    }
}

/// Returns a minimal definition of one of Cluster API's kinds.
fn definition(kind: &str, plural: &str) -> anyhow::Result<CustomResourceDefinition> {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    Ok(serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.cluster.x-k8s.io")},
        "spec": {
            "group": "cluster.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [{
                "name": "v1beta2", "served": true, "storage": true,
                "subresources": {"status": {}}, "schema": {"openAPIV3Schema": any},
            }],
        },
    }))?)
}

/// Merges one object into the other.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
