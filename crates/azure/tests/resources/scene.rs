//! A namespace with the credential of a team, an operator, and resources of the team.

use std::time::{Duration, Instant};

use insula_testkit::azure::ArmCall;
use serde_json::{Value, json};

use crate::world::{Running, World};

pub const NAMESPACE: &str = "red";
pub const SUBSCRIPTION: &str = "/subscriptions/sub-red";
pub const GROUP: &str = "/subscriptions/sub-red/resourceGroups/shop";
pub const OPERATOR: &str = "azureoperator-system";

/// The team `red` with a namespace, and an operator.
pub struct Scene {
    pub world: World,
    operator: Option<Running>,
}

impl std::ops::Deref for Scene {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Scene {
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with(&[]).await
    }

    /// Starts with these settings of the operator.
    pub async fn start_with(settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let world = World::start().await?;
        world.team("red");
        world.namespace_of(NAMESPACE, "red").await?;
        let operator = Some(world.run(OPERATOR, settings).await?);
        Ok(Self { world, operator })
    }

    /// Starts with definitions of further kinds, each in one version and in the stored one.
    pub async fn start_with_kinds(kinds: &[(&str, &str, &str)]) -> anyhow::Result<Self> {
        let world = World::start().await?;
        let definitions: Vec<_> = kinds.iter().map(|kind| definition(*kind)).collect();
        world.plain.install(&definitions).await?;
        world.team("red");
        world.namespace_of(NAMESPACE, "red").await?;
        let operator = Some(world.run(OPERATOR, &[]).await?);
        Ok(Self { world, operator })
    }

    /// Stops the operator, and starts another one.
    pub async fn restart(&mut self, settings: &[(&str, &str)]) -> anyhow::Result<()> {
        if let Some(running) = self.operator.take() {
            running.stop().await?;
        }
        self.operator = Some(self.world.run(OPERATOR, settings).await?);
        Ok(())
    }

    /// Creates an object, and waits until its resource is ready.
    pub async fn make(&self, object: &Value) -> anyhow::Result<Value> {
        self.create(object).await?;
        self.await_ready(object, "True", "Succeeded").await
    }

    /// Creates the resource group `shop`.
    pub async fn group(&self) -> anyhow::Result<Value> {
        let group = group("shop");
        self.make(&group).await?;
        Ok(group)
    }

    /// Waits until an object has `Ready` with this severity and reason, and returns its message.
    pub async fn problem(
        &self,
        object: &Value,
        severity: &str,
        reason: &str,
    ) -> anyhow::Result<String> {
        let found = self.await_ready(object, "False", reason).await?;
        let ready = crate::world::ready(&found).unwrap();
        assert_eq!(ready[1], severity, "{reason}");
        Ok(ready[3].to_owned())
    }

    /// Makes the operator reconcile an object that is in order, and waits until it did: a label of
    /// another object in the same queue is written, and that one is reconciled afterwards.
    pub async fn poke(&self, object: &Value, label: &str) -> anyhow::Result<()> {
        let patch = json!({"metadata": {"labels": {"poked": label}}});
        self.patch(object, patch).await?;
        let marker = group(&format!("marker-{label}"));
        self.make(&marker).await.map(drop)
    }

    /// The requests that were sent for one resource or below it.
    pub fn calls(&self, id: &str) -> Vec<ArmCall> {
        let id = id.to_ascii_lowercase();
        let mut calls = self.azure.requests();
        calls.retain(|call| call.path.to_ascii_lowercase().starts_with(&id));
        calls
    }
}

/// The definition of a kind of the table that is not one of the operator's own.
fn definition((group, kind, version): (&str, &str, &str)) -> Value {
    let known = insula_azure::table::find(group, kind).unwrap();
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let of = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": any, "status": any},
            }},
        })
    };
    let plural = known.plural();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {
                "plural": plural, "singular": kind.to_lowercase(), "kind": kind,
                "listKind": format!("{kind}List"),
            },
            "versions": [of(version, false), of(known.storage_version(), true)],
        },
    })
}

/// An object of the namespace.
pub fn resource(api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec,
    })
}

pub fn group(name: &str) -> Value {
    let spec = json!({"location": "westus2"});
    resource(
        "resources.azure.com/v1api20200601",
        "ResourceGroup",
        name,
        spec,
    )
}

pub fn network(name: &str) -> Value {
    let spec = json!({
        "location": "westus2", "owner": {"name": "shop"},
        "addressSpace": {"addressPrefixes": ["10.0.0.0/16"]},
    });
    resource("network.azure.com/v20250301", "VirtualNetwork", name, spec)
}

pub fn subnet(network: &str, name: &str, prefix: &str) -> Value {
    let spec = json!({"owner": {"name": network}, "addressPrefix": prefix});
    resource(
        "network.azure.com/v20250301",
        "VirtualNetworksSubnet",
        name,
        spec,
    )
}

pub fn account(name: &str) -> Value {
    let spec = json!({
        "location": "westus2", "owner": {"name": "shop"}, "kind": "StorageV2",
        "sku": {"name": "Standard_LRS"},
    });
    resource("storage.azure.com/v20250601", "StorageAccount", name, spec)
}

pub fn identity(name: &str) -> Value {
    let spec = json!({"location": "westus2", "owner": {"name": "shop"}});
    resource(
        "managedidentity.azure.com/v1api20230131",
        "UserAssignedIdentity",
        name,
        spec,
    )
}

pub fn cluster(name: &str) -> Value {
    let spec = json!({
        "location": "westus2", "owner": {"name": "shop"}, "dnsPrefix": name,
        "identity": {"type": "SystemAssigned"},
        "agentPoolProfiles": [
            {"name": "system", "count": 1, "vmSize": "Standard_D2s_v5", "osType": "Linux", "mode": "System"},
        ],
    });
    resource(
        "containerservice.azure.com/v1api20250801",
        "ManagedCluster",
        name,
        spec,
    )
}

pub fn server(name: &str) -> Value {
    let spec = json!({
        "location": "westus2", "owner": {"name": "shop"}, "version": "17",
        "administratorLogin": "admin",
        "administratorLoginPassword": {"name": "database", "key": "password"},
        "sku": {"name": "Standard_B1ms", "tier": "Burstable"}, "storage": {"storageSizeGB": 32},
    });
    resource(
        "dbforpostgresql.azure.com/v20250801",
        "FlexibleServer",
        name,
        spec,
    )
}

pub fn vault(name: &str, mode: Option<&str>) -> Value {
    let mut spec = json!({
        "location": "westus2", "owner": {"name": "shop"},
        "properties": {
            "tenantId": "6f0c9d0e-0000-4000-8000-000000000005",
            "sku": {"family": "A", "name": "standard"}, "accessPolicies": [],
        },
    });
    if let Some(mode) = mode {
        spec["properties"]["createMode"] = mode.into();
    }
    resource("keyvault.azure.com/v1api20230701", "Vault", name, spec)
}

/// The id of a resource in the group `shop`.
pub fn id(path: &str) -> String {
    format!("{GROUP}/providers/{path}")
}

/// Returns the time between two requests.
pub fn between(earlier: &ArmCall, later: &ArmCall) -> Duration {
    let (earlier, later): (Instant, Instant) = (earlier.at, later.at);
    later.duration_since(earlier)
}
