//! Small objects of the kinds with a definition.

use serde_json::{Value, json};

/// Returns a spec with the required fields of a kind and a few others.
pub fn minimal(kind: &str, version: &str) -> Value {
    let mut spec = fields(kind, version);
    if kind != "ResourceGroup" && kind != "RoleAssignment" {
        spec["owner"] = json!({"name": "parent"});
    }
    spec
}

fn fields(kind: &str, version: &str) -> Value {
    let location = "northeurope";
    match kind {
        "ResourceGroup" => json!({"location": location, "tags": {"team": "a"}}),
        "RoleAssignment" => json!({
            "owner": {"group": "resources.azure.com", "kind": "ResourceGroup", "name": "team"},
            "principalIdFromConfig": {"name": "identity", "key": "principal"},
            "roleDefinitionReference": {"wellKnownName": "Reader"},
        }),
        "Redis" => json!({
            "location": location,
            "sku": {"family": "C", "name": "Basic", "capacity": 0},
            "operatorSpec": {"secrets": {"primaryKey": {"name": "redis", "key": "password"}}},
        }),
        "ManagedCluster" => json!({
            "location": location,
            "dnsPrefix": "team",
            "identity": {"type": "SystemAssigned"},
            "agentPoolProfiles": [{"name": "system", "count": 1, "mode": "System", "vmSize": "Standard_B4ms"}],
        }),
        "ManagedClustersAgentPool" => json!({
            "count": 2, "mode": "User", "vmSize": "Standard_B4ms", "nodeLabels": {"role": "worker"},
        }),
        "FlexibleServer" => json!({
            "location": location,
            "administratorLogin": "team",
            "administratorLoginPassword": {"name": "postgres", "key": "password"},
            "sku": {"name": "Standard_B1ms", "tier": "Burstable"},
            "storage": {"storageSizeGB": 32},
        }),
        "FlexibleServersDatabase" => json!({"charset": "utf8"}),
        "FlexibleServersFirewallRule" => {
            json!({"startIpAddress": "192.0.2.1", "endIpAddress": "192.0.2.9"})
        }
        "Vault" => json!({
            "location": location,
            "properties": {
                "tenantId": "11111111-2222-3333-4444-555555555555",
                "sku": {"family": "A", "name": "standard"},
            },
        }),
        "FederatedIdentityCredential" => json!({
            "audiences": ["api://AzureADTokenExchange"],
            "issuer": "https://issuer.example.com",
            "subject": "system:serviceaccount:team:default",
        }),
        "UserAssignedIdentity" | "NetworkSecurityGroup" => json!({"location": location}),
        "NetworkSecurityGroupsSecurityRule" => json!({
            "access": "Allow", "direction": "Inbound", "priority": 200, "protocol": "Tcp",
            "sourceAddressPrefix": "*", "sourcePortRange": "*",
            "destinationAddressPrefix": "*", "destinationPortRange": "443",
        }),
        "PublicIPAddress" => json!({
            "location": location, "sku": {"name": "Standard"}, "publicIPAllocationMethod": "Static",
        }),
        "VirtualNetwork" => json!({
            "location": location, "addressSpace": {"addressPrefixes": ["10.0.0.0/8"]},
        }),
        "VirtualNetworksSubnet" => json!({
            "addressPrefix": "10.1.0.0/16",
            "natGateway": {"reference": {"armId": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/natGateways/n"}},
        }),
        "StorageAccount" => json!({
            "location": location, "kind": "StorageV2", "sku": {"name": "Standard_LRS"}, "accessTier": "Hot",
        }),
        "StorageAccountsBlobService" => {
            json!({"deleteRetentionPolicy": {"enabled": true, "days": 7}})
        }
        "StorageAccountsBlobServicesContainer" => json!({"publicAccess": "None"}),
        other => panic!("there is no object of {other} in {version}"),
    }
}

/// Returns specs that are refused, with a part of the message.
pub fn invalid() -> Vec<(&'static str, &'static str, Value, &'static str)> {
    let storage = json!({
        "owner": {"name": "g"}, "location": "northeurope", "kind": "StorageV2",
        "sku": {"name": "Standard_LRS"},
    });
    let with = |key: &str, value: Value| {
        let mut spec = storage.clone();
        spec[key] = value;
        spec
    };
    vec![
        (
            "StorageAccount",
            "v20250601",
            with("azureName", json!("Upper-Case")),
            "spec.azureName",
        ),
        (
            "StorageAccount",
            "v20250601",
            with("kind", json!("Other")),
            "spec.kind",
        ),
        (
            "StorageAccount",
            "v20250601",
            with("unknown", json!(1)),
            "unknown",
        ),
        (
            "StorageAccount",
            "v20250601",
            with("owner", json!({"armId": "nothing"})),
            "spec.owner.armId",
        ),
        ("ResourceGroup", "v1api20200601", json!({}), "spec.location"),
        (
            "VirtualNetwork",
            "v20250301",
            json!({"location": "x"}),
            "spec.owner",
        ),
        (
            "Redis",
            "v1api20241101",
            json!({
                "owner": {"name": "g"}, "location": "x",
                "sku": {"family": "C", "name": "Basic", "capacity": 0},
                "operatorSpec": {"secrets": {"primaryKey": {"name": "x"}}},
            }),
            "key",
        ),
    ]
}
