//! Machines with hosts, played by the test.

use insula_metal3::kinds::data::Metal3Data;
use insula_metal3::kinds::data_claim::Metal3DataClaim;
use insula_metal3::kinds::host::BareMetalHost;
use insula_metal3::kinds::machine::Metal3Machine;
use insula_testkit::bare_metal::FakeBareMetalOperator;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::world::{Management, Space};

pub const OURS: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
/// Group and version of Cluster API's kinds of addresses.
pub const CAPI_IPAM: &str = "ipam.cluster.x-k8s.io/v1beta2";
pub const IPAM: &str = "ipam.metal3.io/v1alpha1";
const CAPI: &str = "cluster.x-k8s.io/v1beta2";
const MACHINE_FINALIZER: &str = "metal3machine.infrastructure.cluster.x-k8s.io";

/// A machine that has a host.
#[derive(Clone, Copy)]
pub struct Machine<'a> {
    pub namespace: &'a str,
    pub cluster: &'a str,
    pub name: &'a str,
    pub template: &'a str,
    /// The namespace and name of its host.
    pub host: (&'a str, &'a str),
    pub identity: Option<&'a str>,
}

impl Machine<'_> {
    /// Creates the machine, lets its host refer to it, and claims data for it.
    pub async fn create(&self, management: &Management, hosts: &Space) -> anyhow::Result<()> {
        let Self {
            namespace, name, ..
        } = *self;
        let (host_namespace, host) = self.host;
        let consumer = json!({
            "apiVersion": OURS, "kind": "Metal3Machine", "namespace": namespace, "name": name,
        });
        let claimed = json!({"spec": {"consumerRef": consumer}});
        hosts
            .patch::<BareMetalHost>(host_namespace, host, claimed)
            .await?;
        let labels = json!({"cluster.x-k8s.io/cluster-name": self.cluster});
        let machine = json!({
            "apiVersion": CAPI, "kind": "Machine",
            "metadata": {"name": format!("{name}-machine"), "namespace": namespace, "labels": labels},
            "spec": {"clusterName": self.cluster, "bootstrap": {"dataSecretName": "b"}},
        });
        let machine = management.put(&machine).await?;
        let identity = self.identity.map(|name| json!({"name": name}));
        let mut metal3_machine = json!({
            "apiVersion": OURS, "kind": "Metal3Machine",
            "metadata": {
                "name": name, "namespace": namespace, "labels": labels,
                "annotations": {
                    "cluster.x-k8s.io/paused": "",
                    "metal3.io/BareMetalHost": format!("{host_namespace}/{host}"),
                },
                "ownerReferences": [{
                    "apiVersion": CAPI, "kind": "Machine", "name": machine.name_any(),
                    "uid": machine.uid(), "controller": true,
                }],
            },
            "spec": {
                "image": {"url": "http://images.test/i", "checksum": "c", "checksumType": "md5"},
                "dataTemplate": {"name": self.template},
            },
        });
        if let Some(identity) = identity {
            metal3_machine["spec"]["identityRef"] = identity;
        }
        management.put(&metal3_machine).await?;
        self.claim(management).await
    }

    /// Claims data for the machine.
    pub async fn claim(&self, management: &Management) -> anyhow::Result<()> {
        let machines = management.api::<Metal3Machine>(self.namespace);
        let machine = machines.get(self.name).await?;
        let claim = json!({
            "apiVersion": OURS, "kind": "Metal3DataClaim",
            "metadata": {
                "name": self.name, "namespace": self.namespace, "labels": machine.labels(),
                "finalizers": [MACHINE_FINALIZER],
                "ownerReferences": [{
                    "apiVersion": OURS, "kind": "Metal3Machine", "name": self.name,
                    "uid": machine.uid(), "controller": true,
                }],
            },
            "spec": {"template": {"name": self.template}},
        });
        management.put(&claim).await.map(drop)
    }

    /// Deletes the claim, as the machine does when it is deleted.
    pub async fn release(&self, management: &Management) -> anyhow::Result<()> {
        let claims = management.api::<Metal3DataClaim>(self.namespace);
        claims.delete(self.name, &DeleteParams::default()).await?;
        loop {
            let Some(claim) = claims.get_opt(self.name).await? else {
                return Ok(());
            };
            let mut finalizers = claim.finalizers().to_vec();
            finalizers.retain(|one| one != MACHINE_FINALIZER);
            let metadata =
                json!({"finalizers": finalizers, "resourceVersion": claim.resource_version()});
            let patch = json!({ "metadata": metadata });
            let patched = management
                .patch::<Metal3DataClaim>(self.namespace, self.name, patch)
                .await;
            // The operator may have changed it meanwhile.
            if patched.is_ok() {
                return Ok(());
            }
        }
    }

    /// Waits until the claim has data that is ready, and returns that.
    pub async fn ready(&self, management: &Management) -> anyhow::Result<Metal3Data> {
        let data = self.data(management).await?;
        management
            .wait_until(self.namespace, &data, |data: &Metal3Data| {
                let status = data.status.as_ref();
                status.is_some_and(|status| status.ready == Some(true))
            })
            .await
    }

    /// Waits until the claim has data, and returns the name of that.
    pub async fn data(&self, management: &Management) -> anyhow::Result<String> {
        let claim: Metal3DataClaim = management
            .wait_until(self.namespace, self.name, |claim: &Metal3DataClaim| {
                rendered(claim).is_some()
            })
            .await?;
        Ok(rendered(&claim).unwrap_or_default())
    }

    /// Waits until the data has this error.
    pub async fn problem(&self, management: &Management, message: &str) -> anyhow::Result<()> {
        let data = self.data(management).await?;
        let is_so = |data: &Metal3Data| {
            let status = data.status.as_ref();
            status.is_some_and(|status| status.error_message.as_deref() == Some(message))
        };
        management
            .wait_until(self.namespace, &data, is_so)
            .await
            .map(drop)
    }
}

/// Returns the name of the data that a claim has.
pub fn rendered(claim: &Metal3DataClaim) -> Option<String> {
    let data = claim.status.as_ref()?.rendered_data.as_ref()?;
    Some(data.name.clone())
}

/// Creates a data template.
pub async fn data_template(
    management: &Management,
    namespace: &str,
    name: &str,
    spec: Value,
) -> anyhow::Result<()> {
    let metadata = json!({"name": name, "namespace": namespace});
    let template = json!({
        "apiVersion": OURS, "kind": "Metal3DataTemplate", "metadata": metadata, "spec": spec,
    });
    management.put(&template).await.map(drop)
}

/// Creates a pool of addresses from 10.0.0.1 to 10.0.0.`last`.
pub async fn pool(
    management: &Management,
    namespace: &str,
    name: &str,
    last: u8,
    more: Value,
) -> anyhow::Result<()> {
    let mut spec = json!({
        "namePrefix": name, "prefix": 24, "gateway": "10.0.0.254", "dnsServers": ["10.0.0.53"],
        "pools": [{"start": "10.0.0.1", "end": format!("10.0.0.{last}")}],
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let metadata = json!({"name": name, "namespace": namespace});
    let pool = json!({"apiVersion": IPAM, "kind": "IPPool", "metadata": metadata, "spec": spec});
    management.put(&pool).await.map(drop)
}

/// Returns the definitions of Cluster API's kinds of addresses, without validation.
pub fn address_kinds() -> [Value; 2] {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": anything, "status": anything}});
    let definition = |plural: &str, kind: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{plural}.ipam.cluster.x-k8s.io"),
                "annotations": {"api-approved.kubernetes.io": "unapproved, only for tests"},
            },
            "spec": {
                "group": "ipam.cluster.x-k8s.io", "scope": "Namespaced",
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
                "versions": [{
                    "name": "v1beta2", "served": true, "storage": true,
                    "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema},
                }],
            },
        })
    };
    [
        definition("ipaddressclaims", "IPAddressClaim"),
        definition("ipaddresses", "IPAddress"),
    ]
}

/// Returns the spec of a template with metadata and network data.
pub fn spec() -> Value {
    json!({
        "metaData": {
            "strings": [{"key": "role", "value": "node"}],
            "indexes": [{"key": "index"}],
            "namespaces": [{"key": "namespace"}],
            "objectNames": [
                {"key": "machine", "object": "machine"},
                {"key": "local-hostname", "object": "metal3machine"},
                {"key": "host", "object": "baremetalhost"},
            ],
            "ipAddressesFromPool": [{"key": "ip", "name": "net"}],
            "fromHostInterfaces": [{"key": "mac", "interface": "eth0"}],
        },
        "networkData": {
            "links": {"ethernets": [
                {"type": "phy", "id": "eth0", "macAddress": {"fromHostInterface": "eth0"}},
            ]},
            "networks": {"ipv4": [
                {"id": "main", "link": "eth0", "ipAddressFromIPPool": "net"},
            ]},
            "services": {"dnsFromIPPool": "net"},
        },
    })
}

/// Returns the metadata of [`spec`] for a machine.
pub fn metadata(machine: &Machine<'_>, index: u32, ip: &str, mac: &str) -> String {
    let Machine {
        namespace,
        name,
        host: (_, host),
        ..
    } = machine;
    let mac = scalar(mac);
    format!(
        "host: {host}\nindex: \"{index}\"\nip: {ip}\nlocal-hostname: {name}\nmac: {mac}\n\
         machine: {name}-machine\nnamespace: {namespace}\n\
         providerid: {namespace}/{host}/{name}\nrole: node\n"
    )
}

/// Returns the network data of [`spec`].
pub fn network_data(ip: &str, mac: &str) -> String {
    let mac = scalar(mac);
    format!(
        "links:\n- ethernet_mac_address: {mac}\n  id: eth0\n  mtu: 1500\n  type: phy\n\
         networks:\n- id: main\n  ip_address: {ip}\n  link: eth0\n  netmask: 255.255.255.0\n  \
         routes: []\n  type: ipv4\nservices:\n- address: 10.0.0.53\n  type: dns\n"
    )
}

/// Returns a MAC address as YAML. One without letters could be read as a number.
fn scalar(mac: &str) -> String {
    match mac.bytes().any(|one| one.is_ascii_alphabetic()) {
        true => mac.to_owned(),
        false => format!("\"{mac}\""),
    }
}

/// Returns the text of a Secret's only key.
pub fn content(secret: &Secret) -> (String, String) {
    let data = secret.data.clone().unwrap_or_default();
    assert_eq!(data.len(), 1);
    let (key, value) = data.into_iter().next().unwrap();
    (key, String::from_utf8(value.0).unwrap())
}

/// Returns the MAC address of the first interface of a host.
pub async fn mac(hosts: &Space, namespace: &str, name: &str) -> anyhow::Result<String> {
    let host: BareMetalHost = hosts.api(namespace).get(name).await?;
    let interfaces = host.interfaces();
    let first = interfaces.iter().find(|one| one.name == "eth0");
    Ok(first.map(|one| one.mac.clone()).unwrap_or_default())
}

/// Lets a management cluster have hosts of its own.
pub async fn serve_hosts(management: &Management) -> anyhow::Result<FakeBareMetalOperator> {
    management.serve_hosts().await
}

/// Waits until the garbage collector has worked through a namespace: a Secret whose owner does not
/// exist is deleted.
pub async fn garbage_collected(space: &Space, namespace: &str) -> anyhow::Result<()> {
    let dangling = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": "dangling", "namespace": namespace,
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "ConfigMap", "name": "none",
                "uid": "00000000-0000-0000-0000-000000000000",
            }],
        },
    });
    space.put(&dangling).await?;
    space.wait_until_gone::<Secret>(namespace, "dangling").await
}

/// Returns the names of the Secrets of a namespace that are not of service accounts or hosts.
pub async fn secrets(space: &Space, namespace: &str) -> anyhow::Result<Vec<String>> {
    let secrets = space.api::<Secret>(namespace);
    let listed = secrets.list(&ListParams::default()).await?;
    let names = listed.items.iter().map(ResourceExt::name_any);
    let is_other = |name: &String| !name.ends_with("-bmc") && name != "hosts";
    Ok(names.filter(is_other).collect())
}
