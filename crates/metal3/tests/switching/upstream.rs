//! What Metal3's own provider leaves of a cluster with one provisioned machine.

use insula_metal3::kinds::host::BareMetalHost;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::world::{Management, Workload};

pub const NAMESPACE: &str = "team-a";
const CAPI: &str = "cluster.x-k8s.io/v1beta2";
const IPAM: &str = "ipam.metal3.io/v1alpha1";
const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";
const SUFFIX: &str = "infrastructure.cluster.x-k8s.io";
const NOW: &str = "2026-01-02T03:04:05Z";

/// The form of a provider ID.
#[derive(Clone, Copy)]
pub enum IdForm {
    /// `metal3://NAMESPACE/HOST/MACHINE`.
    Names,
    /// `metal3://UID`, with the UID of the host.
    Uid,
}

/// A cluster with one machine. Everything else is named after the cluster.
#[derive(Clone, Copy)]
pub struct Cluster {
    pub name: &'static str,
    pub machine: &'static str,
    pub host: &'static str,
    /// The version that the objects are stored in.
    pub version: &'static str,
    pub id: IdForm,
    /// The last number of the machine's address.
    pub address: u8,
}

impl Cluster {
    /// Returns the group and version of the infrastructure objects.
    fn api_version(&self) -> String {
        format!("{SUFFIX}/{}", self.version)
    }

    fn is_former(&self) -> bool {
        self.version == "v1beta1"
    }

    pub fn template(&self) -> String {
        format!("{}-nodes", self.name)
    }

    pub fn data(&self) -> String {
        format!("{}-nodes-0", self.name)
    }

    pub fn pool(&self) -> String {
        format!("{}-net", self.name)
    }

    pub fn claim(&self) -> String {
        format!("{}-nodes-0-{}-net", self.name, self.name)
    }

    pub fn address_name(&self) -> String {
        format!("{}-net-10-0-0-{}", self.name, self.address)
    }

    pub fn secrets(&self) -> [String; 3] {
        ["metadata", "networkdata", "bootstrap"].map(|kind| format!("{}-{kind}", self.machine))
    }

    /// Creates everything, and waits until the host is provisioned.
    pub async fn leave(&self, management: &Management, workload: &Workload) -> anyhow::Result<()> {
        management.host(NAMESPACE, self.host, json!({})).await?;
        let host: BareMetalHost = management.api(NAMESPACE).get(self.host).await?;
        let id = match self.id {
            IdForm::Names => format!("metal3://{NAMESPACE}/{}/{}", self.host, self.machine),
            IdForm::Uid => format!("metal3://{}", host.uid().unwrap()),
        };
        let cluster = self.leave_cluster(management, workload).await?;
        let machine = self.leave_machine(management, &id).await?;
        self.leave_data(management, &cluster, &machine).await?;
        self.provision(management, &machine).await?;
        let node = json!({
            "metadata": {"name": self.machine, "labels": {"metal3.io/uuid": host.metadata.uid}},
            "spec": {"providerID": id},
        });
        let made = workload.plain.post("/api/v1/nodes", &node).await?;
        anyhow::ensure!(made.status == 201, "{}", made.text());
        Ok(())
    }

    async fn leave_cluster(
        &self,
        management: &Management,
        workload: &Workload,
    ) -> anyhow::Result<DynamicObject> {
        management.workload(NAMESPACE, self.name, workload).await?;
        let cluster = management
            .put(&json!({
                "apiVersion": CAPI, "kind": "Cluster",
                "metadata": {
                    "name": self.name, "namespace": NAMESPACE,
                    "finalizers": ["cluster.cluster.x-k8s.io"],
                },
                "spec": {"infrastructureRef": {
                    "apiGroup": SUFFIX, "kind": "Metal3Cluster", "name": self.name,
                }},
            }))
            .await?;
        let provisioned = json!({"initialization": {"infrastructureProvisioned": true}});
        let path = format!("/apis/{CAPI}/namespaces/{NAMESPACE}/clusters/{}", self.name);
        status(management, &path, provisioned).await?;
        let mut metadata = self.metadata(self.name, &["metal3cluster"]);
        metadata["ownerReferences"] = json!([owner(&cluster, true)]);
        let mut spec = json!({"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}});
        let state = match self.is_former() {
            true => {
                spec["noCloudProvider"] = true.into();
                spec["failureDomains"] = json!({"rack": {"controlPlane": true}});
                json!({"ready": true, "conditions": former_conditions(&["Ready"])})
            }
            false => {
                spec["failureDomains"] = json!([{"name": "rack", "controlPlane": true}]);
                json!({"initialization": {"provisioned": true}})
            }
        };
        self.put("metal3clusters", "Metal3Cluster", metadata, spec, state)
            .create_in(management)
            .await?;
        Ok(cluster)
    }

    async fn leave_machine(
        &self,
        management: &Management,
        id: &str,
    ) -> anyhow::Result<DynamicObject> {
        let [_, _, bootstrap] = self.secrets();
        management
            .secret(NAMESPACE, &bootstrap, &[("value", "#cloud-config\n")])
            .await?;
        let machine = management
            .put(&json!({
                "apiVersion": CAPI, "kind": "Machine",
                "metadata": {
                    "name": self.machine, "namespace": NAMESPACE,
                    "labels": {CLUSTER_LABEL: self.name},
                    "finalizers": ["machine.cluster.x-k8s.io"],
                },
                "spec": {
                    "clusterName": self.name, "providerID": id,
                    "bootstrap": {"dataSecretName": bootstrap},
                    "infrastructureRef": {
                        "apiGroup": SUFFIX, "kind": "Metal3Machine", "name": self.machine,
                    },
                },
            }))
            .await?;
        let mut metadata = self.metadata(self.machine, &["metal3machine"]);
        metadata["ownerReferences"] = json!([owner(&machine, true)]);
        metadata["annotations"] = json!({
            "metal3.io/BareMetalHost": format!("{NAMESPACE}/{}", self.host),
            "cluster.x-k8s.io/cloned-from-name": "workers",
            "cluster.x-k8s.io/cloned-from-groupkind": format!("Metal3MachineTemplate.{SUFFIX}"),
        });
        let format = if self.is_former() {
            "format"
        } else {
            "diskFormat"
        };
        let mut image = image();
        image[format] = image.as_object_mut().unwrap().remove("format").unwrap();
        let spec = json!({
            "providerID": id, "image": image, "automatedCleaningMode": "metadata",
            "dataTemplate": {"name": self.template(), "namespace": NAMESPACE},
        });
        let [metadata_secret, network, bootstrap] = self.secrets();
        let mut state = json!({
            "userData": beside(&bootstrap), "metaData": beside(&metadata_secret),
            "networkData": beside(&network), "renderedData": beside(&self.data()),
            "lastUpdated": NOW,
        });
        match self.is_former() {
            true => {
                state["ready"] = true.into();
                let all = [
                    "Ready",
                    "AssociateBMH",
                    "KubernetesNodeReady",
                    "Metal3DataReady",
                ];
                state["conditions"] = former_conditions(&all);
            }
            false => state["initialization"] = json!({"provisioned": true}),
        }
        self.put("metal3machines", "Metal3Machine", metadata, spec, state)
            .create_in(management)
            .await
    }

    /// Creates rendered data and its address.
    async fn leave_data(
        &self,
        management: &Management,
        cluster: &DynamicObject,
        machine: &DynamicObject,
    ) -> anyhow::Result<()> {
        let mut metadata = self.metadata(&self.template(), &["metal3datatemplate"]);
        metadata["ownerReferences"] = json!([owner(cluster, false)]);
        let from_pool = json!([{
            "key": "ip", "name": self.pool(), "apiGroup": "ipam.metal3.io", "kind": "IPPool",
        }]);
        let (field, indexes) = match self.is_former() {
            true => ("ipAddressesFromIPPool", json!({self.machine: 0})),
            false => (
                "ipAddressesFromPool",
                json!([{"name": self.machine, "index": 0}]),
            ),
        };
        let spec = json!({
            "clusterName": self.name, "metaData": {field: from_pool},
            "networkData": {"services": {"dns": ["10.0.0.53"]}},
        });
        let state = json!({"indexes": indexes, "lastUpdated": NOW});
        let template = self
            .put(
                "metal3datatemplates",
                "Metal3DataTemplate",
                metadata,
                spec,
                state,
            )
            .create_in(management)
            .await?;
        let finalizers = ["metal3machine", "metal3dataclaim"];
        let mut metadata = self.metadata(self.machine, &finalizers);
        metadata["ownerReferences"] = json!([owner(machine, true)]);
        let spec = json!({"template": beside(&self.template())});
        let state = json!({"renderedData": beside(&self.data())});
        let claim = self
            .put("metal3dataclaims", "Metal3DataClaim", metadata, spec, state)
            .create_in(management)
            .await?;
        let mut metadata = self.metadata(&self.data(), &["metal3dataclaim", "metal3data"]);
        metadata["ownerReferences"] = json!([
            owner(&template, true),
            owner(&claim, false),
            owner(machine, false),
        ]);
        let [metadata_secret, network, _] = self.secrets();
        let spec = json!({
            "index": 0, "template": beside(&self.template()), "claim": beside(self.machine),
            "metaData": beside(&metadata_secret), "networkData": beside(&network),
        });
        let data = self
            .put(
                "metal3datas",
                "Metal3Data",
                metadata,
                spec,
                json!({"ready": true}),
            )
            .create_in(management)
            .await?;
        let address = format!("10.0.0.{}", self.address);
        let texts = [
            (metadata_secret, "metaData", format!("ip: {address}\n")),
            (network, "networkData", "services: []\n".to_owned()),
        ];
        for (name, key, text) in texts {
            management
                .put(&json!({
                    "apiVersion": "v1", "kind": "Secret", "type": format!("{SUFFIX}/secret"),
                    "metadata": {
                        "name": name, "namespace": NAMESPACE,
                        // The provider takes it from a label of the template, which may lack it.
                        "labels": {CLUSTER_LABEL: ""}, "ownerReferences": [owner(&data, true)],
                    },
                    "stringData": {key: text},
                }))
                .await?;
        }
        self.leave_address(management, &data, &address).await
    }

    async fn leave_address(
        &self,
        management: &Management,
        data: &DynamicObject,
        address: &str,
    ) -> anyhow::Result<()> {
        let mut metadata = self.metadata(&self.pool(), &[]);
        metadata["finalizers"] = json!(["ippool.ipam.metal3.io"]);
        let spec = json!({
            "clusterName": self.name, "namePrefix": self.pool(), "prefix": 24,
            "pools": [{"start": "10.0.0.1", "end": "10.0.0.99"}],
        });
        let state = json!({"indexes": {self.claim(): address}, "lastUpdated": NOW});
        let pool = Put::of(IPAM, "ippools", "IPPool", metadata, spec, state);
        let pool = pool.create_in(management).await?;
        let mut metadata = self.metadata(&self.claim(), &["metal3data"]);
        let finalizers = metadata["finalizers"].as_array_mut().unwrap();
        finalizers.push("ipclaim.ipam.metal3.io".into());
        metadata["ownerReferences"] = json!([owner(data, true)]);
        let spec = json!({"pool": beside(&self.pool())});
        let state = json!({"address": beside(&self.address_name())});
        let claim = Put::of(IPAM, "ipclaims", "IPClaim", metadata, spec, state);
        let claim = claim.create_in(management).await?;
        let mut metadata = self.metadata(&self.address_name(), &[]);
        metadata["finalizers"] = json!(["ipaddress.ipam.metal3.io"]);
        metadata["ownerReferences"] = json!([owner(&pool, true), owner(&claim, false)]);
        management
            .put(&json!({
                "apiVersion": IPAM, "kind": "IPAddress", "metadata": metadata,
                "spec": {
                    "pool": beside(&self.pool()), "claim": beside(&self.claim()),
                    "prefix": 24, "address": address,
                },
            }))
            .await?;
        Ok(())
    }

    /// Gives the machine its host. Up to 1.13, the machine owns it too.
    async fn provision(
        &self,
        management: &Management,
        machine: &DynamicObject,
    ) -> anyhow::Result<()> {
        let [metadata, network, bootstrap] = self.secrets();
        let change = json!({
            "metadata": {
                "labels": {CLUSTER_LABEL: self.name}, "ownerReferences": [owner(machine, true)],
            },
            "spec": {
                "consumerRef": {
                    "apiVersion": self.api_version(), "kind": "Metal3Machine",
                    "namespace": NAMESPACE, "name": self.machine,
                },
                "online": true, "image": image(), "automatedCleaningMode": "metadata",
                "userData": beside(&bootstrap), "metaData": beside(&metadata),
                "networkData": beside(&network),
            },
        });
        let host = management.patch::<BareMetalHost>(NAMESPACE, self.host, change);
        host.await?;
        management
            .wait_for_host(NAMESPACE, self.host, "provisioned")
            .await?;
        Ok(())
    }

    fn metadata(&self, name: &str, finalizers: &[&str]) -> Value {
        let finalizers = finalizers.iter().map(|kind| format!("{kind}.{SUFFIX}"));
        json!({
            "name": name, "namespace": NAMESPACE, "labels": {CLUSTER_LABEL: self.name},
            "finalizers": finalizers.collect::<Vec<_>>(),
        })
    }

    fn put(
        &self,
        plural: &'static str,
        kind: &str,
        metadata: Value,
        spec: Value,
        status: Value,
    ) -> Put {
        Put::of(&self.api_version(), plural, kind, metadata, spec, status)
    }
}

/// An object with a status.
struct Put {
    plural: &'static str,
    object: Value,
    status: Value,
}

impl Put {
    fn of(
        api_version: &str,
        plural: &'static str,
        kind: &str,
        metadata: Value,
        spec: Value,
        status: Value,
    ) -> Self {
        let object = json!({
            "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec,
        });
        Self {
            plural,
            object,
            status,
        }
    }

    /// Creates it.
    async fn create_in(self, management: &Management) -> anyhow::Result<DynamicObject> {
        let made = management.put(&self.object).await?;
        let version = self.object["apiVersion"].as_str().unwrap();
        let (plural, name) = (self.plural, made.name_any());
        let path = format!("/apis/{version}/namespaces/{NAMESPACE}/{plural}/{name}");
        status(management, &path, self.status).await?;
        Ok(made)
    }
}

async fn status(management: &Management, path: &str, status: Value) -> anyhow::Result<()> {
    let path = format!("{path}/status");
    let patch = json!({ "status": status });
    let patched = management.plain.patch(&path, "merge", &patch).await?;
    anyhow::ensure!(patched.status == 200, "{path}: {}", patched.text());
    Ok(())
}

fn owner(object: &DynamicObject, is_controller: bool) -> Value {
    let types = object.types.as_ref().unwrap();
    let mut owner = json!({
        "apiVersion": types.api_version, "kind": types.kind, "name": object.name_any(),
        "uid": object.metadata.uid,
    });
    if is_controller {
        owner["controller"] = true.into();
    }
    owner
}

fn beside(name: &str) -> Value {
    json!({"name": name, "namespace": NAMESPACE})
}

fn image() -> Value {
    json!({
        "url": "http://images.test/node.qcow2", "checksum": "sum", "checksumType": "sha256",
        "format": "qcow2",
    })
}

fn former_conditions(types: &[&str]) -> Value {
    let conditions = types
        .iter()
        .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": NOW}));
    conditions.collect()
}
