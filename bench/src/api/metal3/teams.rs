//! A management cluster with one team for each pool of hosts.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::client::Client;
use super::super::kinds;
use super::super::server::{Program, Server};
use super::Size;

const CLUSTER_API: &str = "cluster.x-k8s.io/v1beta2";
const GROUP: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
/// The namespace of the operator's Lease.
const HOME: &str = "capm3-system";
/// The name of each team's cluster, and of its kubeconfig for hosts.
const CLUSTER: &str = "prod";
const IDENTITY: &str = "hosts";

/// Creates the kinds, and a cluster with machines for each kubeconfig.
pub async fn create(
    program: &Program,
    server: &Server,
    client: &Client,
    size: Size,
    kubeconfigs: &[String],
) -> Result<()> {
    let mut definitions = kinds::of_operator(program, "metal3")?;
    definitions.extend(kinds::of_cluster_api());
    kinds::install(client, &definitions).await?;
    let teams = 0..kubeconfigs.len();
    let namespaces = teams.clone().map(name).chain([HOME.to_owned()]);
    let namespaces = namespaces.map(|name| kinds::namespace(&name));
    kinds::create(server, client, namespaces).await?;
    for (team, kubeconfig) in kubeconfigs.iter().enumerate() {
        let texts = json!({"kubeconfig": kubeconfig});
        kinds::create(
            server,
            client,
            [kinds::secret(&name(team), IDENTITY, &texts)],
        )
        .await?;
    }
    let clusters = teams.clone().map(cluster);
    kinds::create(server, client, clusters).await?;
    let provisioned = teams.clone().map(provisioned);
    kinds::patch(server, client, provisioned).await?;
    let mut uids = Vec::new();
    for team in teams {
        let path = format!("{}/{CLUSTER}", collection(CLUSTER_API, team, "clusters"));
        uids.push(uid(&client.body(&path).await?)?);
    }
    let infrastructure = uids.iter().enumerate();
    let infrastructure = infrastructure.map(|(team, uid)| metal3_cluster(team, uid));
    kinds::create(server, client, infrastructure).await?;
    create_machines(server, client, size).await
}

async fn create_machines(server: &Server, client: &Client, size: Size) -> Result<()> {
    let machines = 0..size.machines;
    let bootstrap = machines.clone().map(|n| {
        let texts = json!({"value": "#cloud-config\n", "format": "cloud-config"});
        kinds::secret(&name(n % size.pools), &machine_name(n), &texts)
    });
    kinds::create(server, client, bootstrap).await?;
    let owners = machines.clone().map(|n| machine(n, size.pools));
    kinds::create(server, client, owners).await?;
    let mut owned = Vec::new();
    for n in machines {
        let team = n % size.pools;
        let path = format!(
            "{}/{}",
            collection(CLUSTER_API, team, "machines"),
            machine_name(n)
        );
        owned.push(metal3_machine(n, team, &uid(&client.body(&path).await?)?));
    }
    kinds::create(server, client, owned).await
}

fn name(team: usize) -> String {
    format!("team-{team}")
}

fn machine_name(n: usize) -> String {
    format!("m{n:04}")
}

fn collection(group: &str, team: usize, plural: &str) -> String {
    format!("/apis/{group}/namespaces/{}/{plural}", name(team))
}

fn uid(object: &[u8]) -> Result<Value> {
    let mut object: Value = serde_json::from_slice(object)?;
    Ok(object["metadata"]["uid"].take())
}

fn owner(kind: &str, name: &str, uid: &Value) -> Value {
    json!([{
        "apiVersion": CLUSTER_API, "kind": kind, "name": name, "uid": uid, "controller": true,
    }])
}

fn labels() -> Value {
    json!({"cluster.x-k8s.io/cluster-name": CLUSTER})
}

fn cluster(team: usize) -> (String, Value) {
    let group = "infrastructure.cluster.x-k8s.io";
    let infrastructure = json!({"apiGroup": group, "kind": "Metal3Cluster", "name": CLUSTER});
    let object = json!({
        "apiVersion": CLUSTER_API, "kind": "Cluster", "metadata": {"name": CLUSTER},
        "spec": {"infrastructureRef": infrastructure},
    });
    (collection(CLUSTER_API, team, "clusters"), object)
}

/// Returns the status that Cluster API gives a cluster with infrastructure.
fn provisioned(team: usize) -> (String, Value) {
    let status = json!({"initialization": {"infrastructureProvisioned": true}});
    let path = format!(
        "{}/{CLUSTER}/status",
        collection(CLUSTER_API, team, "clusters")
    );
    (path, json!({"status": status}))
}

fn metal3_cluster(team: usize, uid: &Value) -> (String, Value) {
    let object = json!({
        "apiVersion": GROUP, "kind": "Metal3Cluster",
        "metadata": {
            "name": CLUSTER, "labels": labels(),
            "ownerReferences": owner("Cluster", CLUSTER, uid),
        },
        "spec": {
            "controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443},
            "identityRef": {"name": IDENTITY},
        },
    });
    (collection(GROUP, team, "metal3clusters"), object)
}

fn machine(n: usize, pools: usize) -> (String, Value) {
    let group = "infrastructure.cluster.x-k8s.io";
    let name = machine_name(n);
    let infrastructure = json!({"apiGroup": group, "kind": "Metal3Machine", "name": name});
    let object = json!({
        "apiVersion": CLUSTER_API, "kind": "Machine",
        "metadata": {"name": name, "labels": labels()},
        "spec": {
            "clusterName": CLUSTER, "bootstrap": {"dataSecretName": name},
            "infrastructureRef": infrastructure,
        },
    });
    (collection(CLUSTER_API, n % pools, "machines"), object)
}

fn metal3_machine(n: usize, team: usize, uid: &Value) -> (String, Value) {
    let name = machine_name(n);
    let image = json!({
        "url": "http://10.0.0.2/node.qcow2", "checksum": "http://10.0.0.2/node.sha256",
        "checksumType": "sha256", "diskFormat": "qcow2",
    });
    let object = json!({
        "apiVersion": GROUP, "kind": "Metal3Machine",
        "metadata": {
            "name": name, "labels": labels(), "ownerReferences": owner("Machine", &name, uid),
        },
        "spec": {"image": image},
    });
    (collection(GROUP, team, "metal3machines"), object)
}
