//! Namespaces with accounts, and their clusters on two vCenters.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Method, StatusCode};
use insula_testkit::vcenter::FakeVCenter;
use serde_json::{Value, json};

use super::super::client::{Answer, Client};
use super::super::load::{Shape, load};
use super::super::server::{Program, Server};
use super::Size;

pub const PASSWORD: &str = "measured";
/// The namespace of the Secrets of identities.
const HOME: &str = "capv-system";
const GROUP: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

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
        define(program, client).await?;
        let mut first = vec![("/api/v1/namespaces".to_owned(), namespace(HOME))];
        let mut rest = Vec::new();
        for team in 0..self.size.identities {
            first.push(("/api/v1/namespaces".to_owned(), namespace(&account(team))));
            let secrets = format!("/api/v1/namespaces/{HOME}/secrets");
            rest.push((secrets, secret(team)));
            let identities = format!("/apis/{GROUP}/vsphereclusteridentities");
            rest.push((identities, self.identity(team)));
        }
        for cluster in &self.clusters {
            rest.push((cluster.collection(), cluster.object()));
        }
        for all in [first, rest] {
            let requests = all.into_iter().map(|(path, body)| {
                let body = Bytes::from(body.to_string());
                client.prepare(Method::POST, &path, Some(body))
            });
            let requests: Result<Vec<_>> = requests.collect();
            let judge = |answer: &Answer| answer.expect(StatusCode::CREATED);
            load(&server.subject, client, Shape::REQUESTS, requests?, judge).await?;
        }
        Ok(())
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

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn secret(team: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": account(team)},
        "stringData": {"username": account(team), "password": PASSWORD},
    })
}

/// Defines the kinds of the operator, and those of Cluster API that it reads.
async fn define(program: &Program, client: &Client) -> Result<()> {
    let printed = Command::new(&program.path)
        .args(["operator", "vsphere", "crds"])
        .output()
        .context("cannot ask for the kinds")?;
    let said = String::from_utf8_lossy(&printed.stderr);
    ensure!(printed.status.success(), "operator vsphere crds: {said}");
    let text = String::from_utf8(printed.stdout)?;
    let mut definitions: Vec<Value> = serde_saphyr::from_multiple(&text)?;
    definitions.extend([
        foreign("clusters", "Cluster"),
        foreign("machines", "Machine"),
    ]);
    for definition in &definitions {
        let body = Bytes::from(definition.to_string());
        let made = client.call(Method::POST, DEFINITIONS, Some(body)).await?;
        made.expect(StatusCode::CREATED)?;
    }
    for definition in &definitions {
        let name = definition["metadata"]["name"].as_str().context("a name")?;
        super::states::established(client, name).await?;
    }
    Ok(())
}

/// Returns the definition of a kind of Cluster API, of which there are no objects.
fn foreign(plural: &str, kind: &str) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": open, "status": open}});
    let approved = json!({"api-approved.kubernetes.io": "unapproved, only to measure"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.cluster.x-k8s.io"), "annotations": approved},
        "spec": {
            "group": "cluster.x-k8s.io", "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
            "versions": [{
                "name": "v1beta2", "served": true, "storage": true,
                "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}
