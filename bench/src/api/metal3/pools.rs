//! An API server with pools of available hosts.

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::super::client::Client;
use super::super::kinds;
use super::super::server::{Program, Server};
use super::Size;

/// All hosts.
pub const HOSTS: &str = "/apis/metal3.io/v1alpha1/baremetalhosts";
/// The account that `--host-access` prints.
const ACCOUNT: &str = "capm3-host-access";

/// Creates the pools, and returns a kubeconfig for each.
pub async fn create(
    program: &Program,
    server: &Server,
    client: &Client,
    size: Size,
) -> Result<Vec<String>> {
    let definition = kinds::open("metal3.io", "v1alpha1", "baremetalhosts", "BareMetalHost");
    kinds::install(client, &[definition]).await?;
    let namespaces = (0..size.pools).map(|pool| kinds::namespace(&name(pool)));
    kinds::create(server, client, namespaces).await?;
    let hosts = (0..size.machines).map(|n| host(n, size.pools));
    kinds::create(server, client, hosts).await?;
    let statuses = (0..size.machines).map(|n| available(n, size.pools));
    kinds::patch(server, client, statuses).await?;
    let mut kubeconfigs = Vec::new();
    for pool in 0..size.pools {
        let access = printed_access(program, &name(pool))?;
        for (path, object) in access {
            kinds::create(server, client, [(path, object)]).await?;
        }
        kubeconfigs.push(kubeconfig(server, client, &name(pool)).await?);
    }
    Ok(kubeconfigs)
}

fn name(pool: usize) -> String {
    format!("pool-{pool}")
}

/// Returns the objects that give access to a pool, each with the path of its collection.
fn printed_access(program: &Program, pool: &str) -> Result<Vec<(String, Value)>> {
    let arguments = ["operator", "metal3", "manifests", "--host-access", pool];
    let printed = kinds::printed(program, &arguments)?;
    let objects = printed.into_iter().filter_map(|object| {
        let collection = match object["kind"].as_str()? {
            "ServiceAccount" => format!("/api/v1/namespaces/{pool}/serviceaccounts"),
            "Role" => format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{pool}/roles"),
            "RoleBinding" => {
                format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{pool}/rolebindings")
            }
            _ => return None,
        };
        Some((collection, object))
    });
    Ok(objects.collect())
}

/// Returns a kubeconfig of the account of a pool.
async fn kubeconfig(server: &Server, client: &Client, pool: &str) -> Result<String> {
    let path = format!("/api/v1/namespaces/{pool}/serviceaccounts/{ACCOUNT}/token");
    let body =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let issued = client
        .call(Method::POST, &path, Some(Bytes::from(body.to_string())))
        .await?;
    issued.expect(StatusCode::CREATED)?;
    let issued: Value = serde_json::from_slice(&issued.head)?;
    let token = issued["status"]["token"].as_str().context("no token")?;
    let admin = std::fs::read_to_string(server.kubeconfig())?;
    let admin: Value = serde_saphyr::from_str(&admin)?;
    let cluster = &admin["clusters"][0]["cluster"];
    Ok(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "hosts",
        "clusters": [{"name": "hosts", "cluster": cluster}],
        "users": [{"name": "hosts", "user": {"token": token}}],
        "contexts": [{
            "name": "hosts",
            "context": {"cluster": "hosts", "user": "hosts", "namespace": pool},
        }],
    })
    .to_string())
}

fn host_path(n: usize, pools: usize) -> String {
    format!(
        "/apis/metal3.io/v1alpha1/namespaces/{}/baremetalhosts",
        name(n % pools)
    )
}

/// Returns a host, with the path of its collection.
fn host(n: usize, pools: usize) -> (String, Value) {
    let bmc =
        json!({"address": format!("ipmi://10.0.0.{n}"), "credentialsName": format!("h{n:04}")});
    let host = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": format!("h{n:04}"), "labels": {"rack": format!("r{}", n % 20)}},
        "spec": {"online": false, "bootMACAddress": mac(n, 0), "bmc": bmc},
    });
    (host_path(n, pools), host)
}

/// Returns a patch that makes a host available, with the path of its status. The hardware is about
/// as long as that of a server with two processors.
fn available(n: usize, pools: usize) -> (String, Value) {
    let nics = (0..6).map(|nic| {
        json!({
            "name": format!("eno{nic}"), "mac": mac(n, nic), "ip": format!("10.1.{nic}.{}", n % 250),
            "model": "0x8086 0x1572", "speedGbps": 25, "vlanId": 0, "pxe": nic == 0,
        })
    });
    let disks = (0..8).map(|disk| {
        json!({
            "name": format!("/dev/disk/by-path/pci-0000:00:1f.2-ata-{disk}"), "type": "SSD",
            "sizeBytes": 1_920_383_410_176_u64, "vendor": "ATA", "model": "MZ7LH1T9HMLT0D3",
            "serialNumber": format!("S455NY0M{n:04}{disk}"), "rotational": false,
        })
    });
    let flags: Vec<_> = (0..130).map(|flag| format!("feature_{flag}")).collect();
    let status = json!({
        "operationalStatus": "OK", "errorMessage": "", "poweredOn": false, "errorCount": 0,
        "provisioning": {"state": "available", "ID": BASE64_STANDARD.encode(mac(n, 0))},
        "hardware": {
            "hostname": format!("h{n:04}"), "ramMebibytes": 393_216,
            "cpu": {"arch": "x86_64", "model": "Xeon", "clockMegahertz": 2600, "count": 64, "flags": flags},
            "nics": nics.collect::<Vec<_>>(), "storage": disks.collect::<Vec<_>>(),
        },
    });
    let path = format!("{}/h{n:04}/status", host_path(n, pools));
    (path, json!({"status": status}))
}

fn mac(host: usize, nic: usize) -> String {
    format!("52:54:00:{nic:02x}:{:02x}:{:02x}", host / 256, host % 256)
}
