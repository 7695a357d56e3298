//! Namespaces with accounts, and their clusters on two vCenters.

use anyhow::Result;
use bytes::Bytes;
use insula_testkit::vcenter::FakeVCenter;
use serde_json::{Value, json};

use super::super::client::Client;
use super::super::kinds;
use super::super::server::{Program, Server};
use super::Size;

pub const PASSWORD: &str = "measured";
/// The namespace of the Secrets of identities.
const HOME: &str = "capv-system";
const GROUP: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

/// Everything that is created before the operator starts.
pub struct Teams {
    size: Size,
    clusters: Vec<Cluster>,
    /// The `allowedServers` of the identities, with thumbprints.
    servers: Vec<Value>,
}

/// A cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub name: String,
    team: usize,
    /// Two addresses of its vCenter, used alternately.
    servers: [String; 2],
}

impl Teams {
    pub fn new(size: Size, vcenters: &[FakeVCenter; 2]) -> Self {
        let cluster = |n: usize| {
            // All accounts are used on both.
            let vcenter = &vcenters[n / size.identities % vcenters.len()];
            Cluster {
                name: format!("c{n:04}"),
                team: n % size.identities,
                servers: [vcenter.address(), vcenter.other_address()],
            }
        };
        let allowed = |vcenter: &FakeVCenter| {
            [vcenter.address(), vcenter.other_address()]
                .map(|address| json!({"address": address, "thumbprint": vcenter.thumbprint_sha1()}))
        };
        Self {
            size,
            clusters: (0..size.clusters).map(cluster).collect(),
            servers: vcenters.iter().flat_map(allowed).collect(),
        }
    }

    /// Returns the clusters of a vCenter.
    pub fn at(&self, vcenter: &FakeVCenter) -> Vec<Cluster> {
        let server = vcenter.address();
        let all = self.clusters.iter();
        all.filter(|cluster| cluster.servers[0] == server)
            .cloned()
            .collect()
    }

    /// Creates the kinds, the accounts and the clusters.
    pub async fn create(&self, program: &Program, server: &Server, client: &Client) -> Result<()> {
        let mut definitions = kinds::of_operator(program, "vsphere")?;
        definitions.extend(kinds::of_cluster_api());
        kinds::install(client, &definitions).await?;
        let teams = (0..self.size.identities).map(account);
        let namespaces = teams.chain([HOME.to_owned()]);
        let namespaces = namespaces.map(|name| kinds::namespace(&name));
        kinds::create(server, client, namespaces).await?;
        let mut objects = Vec::new();
        for team in 0..self.size.identities {
            let texts = json!({"username": account(team), "password": PASSWORD});
            objects.push(kinds::secret(HOME, &account(team), &texts));
            let identities = format!("/apis/{GROUP}/vsphereclusteridentities");
            objects.push((identities, self.identity(team)));
        }
        for cluster in &self.clusters {
            objects.push((cluster.collection(), cluster.object()));
        }
        kinds::create(server, client, objects).await
    }

    /// Returns an identity that one namespace may use, on all vCenters.
    fn identity(&self, team: usize) -> Value {
        let only = json!({"matchLabels": {"kubernetes.io/metadata.name": account(team)}});
        json!({
            "apiVersion": GROUP, "kind": "VSphereClusterIdentity",
            "metadata": {"name": account(team)},
            "spec": {
                "secretName": account(team),
                "allowedNamespaces": {"selector": only},
                "allowedServers": self.servers,
            },
        })
    }
}

impl Cluster {
    pub fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }

    fn collection(&self) -> String {
        let namespace = account(self.team);
        format!("/apis/{GROUP}/namespaces/{namespace}/vsphereclusters")
    }

    fn object(&self) -> Value {
        json!({
            "apiVersion": GROUP, "kind": "VSphereCluster",
            "metadata": {"name": self.name},
            "spec": {
                "server": self.servers[0],
                "identityRef": {"kind": "VSphereClusterIdentity", "name": account(self.team)},
                "controlPlaneEndpoint": {"host": "new", "port": 6443},
            },
        })
    }

    /// Returns a patch with a stamp, which also changes the session if asked to.
    pub fn touched(&self, stamp: &str, anew: bool) -> Bytes {
        let spec = json!({
            "controlPlaneEndpoint": {"host": stamp, "port": 6443},
            "server": self.servers[usize::from(anew)],
        });
        Bytes::from(json!({"spec": spec}).to_string())
    }
}

/// Returns the name of an account, its identity, its Secret and its namespace.
pub fn account(team: usize) -> String {
    format!("team-{team}")
}
