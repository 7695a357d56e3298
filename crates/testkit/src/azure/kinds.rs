//! What the resource providers of well-known types add to a resource, and their actions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::path::ArmId;

/// Rules of a type that are not about operations.
#[derive(Clone, Copy, Debug)]
pub(super) struct KindFacts {
    pub needs_location: bool,
    pub state: StateField,
    /// Properties that are never answered.
    pub write_only: &'static [&'static str],
    /// Types of children that are properties of the resource too, and that a PUT replaces.
    pub embedded: &'static [&'static str],
    pub etag: bool,
    /// The type in answers, if it differs from the one in paths.
    pub shown_type: Option<&'static str>,
}

/// The property that holds the state of a resource.
#[derive(Clone, Copy, Debug)]
pub(super) enum StateField {
    ProvisioningState,
    /// Another property, and its value when the resource is ready.
    Other(&'static str, &'static str),
}

const USUAL: KindFacts = KindFacts {
    needs_location: false,
    state: StateField::ProvisioningState,
    write_only: &["administratorLoginPassword", "adminPassword", "createMode"],
    embedded: &[],
    etag: false,
    shown_type: None,
};

/// The rules of a type.
pub(super) fn facts(resource_type: &str) -> KindFacts {
    let tracked = KindFacts {
        needs_location: true,
        ..USUAL
    };
    match resource_type.to_ascii_lowercase().as_str() {
        "microsoft.network/virtualnetworks" => KindFacts {
            embedded: &["subnets", "virtualNetworkPeerings"],
            etag: true,
            ..tracked
        },
        "microsoft.network/routetables" => KindFacts {
            embedded: &["routes"],
            etag: true,
            ..tracked
        },
        "microsoft.network/networksecuritygroups" => KindFacts {
            embedded: &["securityRules"],
            etag: true,
            ..tracked
        },
        other if other.starts_with("microsoft.network/") => KindFacts {
            etag: true,
            ..USUAL
        },
        "microsoft.containerservice/managedclusters" => KindFacts {
            shown_type: Some("Microsoft.ContainerService/ManagedClusters"),
            ..tracked
        },
        "microsoft.dbforpostgresql/flexibleservers" => KindFacts {
            state: StateField::Other("state", "Ready"),
            ..tracked
        },
        "microsoft.resources/resourcegroups"
        | "microsoft.storage/storageaccounts"
        | "microsoft.managedidentity/userassignedidentities"
        | "microsoft.keyvault/vaults" => tracked,
        _ => USUAL,
    }
}

/// The properties that the service adds to a new resource. Those that the client writes win.
pub(super) fn service_properties(id: &ArmId, location: &str, tenant: &str) -> Map<String, Value> {
    let name = id.name().to_ascii_lowercase();
    let properties = match id.resource_type().to_ascii_lowercase().as_str() {
        "microsoft.network/virtualnetworks" => json!({
            "resourceGuid": random_id(), "enableDdosProtection": false,
        }),
        "microsoft.network/virtualnetworks/subnets" => json!({
            "delegations": [], "privateEndpointNetworkPolicies": "Disabled",
            "privateLinkServiceNetworkPolicies": "Enabled",
        }),
        "microsoft.storage/storageaccounts" => storage_account(&name, location),
        "microsoft.managedidentity/userassignedidentities" => json!({
            "tenantId": tenant, "principalId": random_id(), "clientId": random_id(),
        }),
        "microsoft.keyvault/vaults" => json!({
            "vaultUri": format!("https://{name}.vault.azure.net/"),
            "enableSoftDelete": true, "softDeleteRetentionInDays": 90,
        }),
        "microsoft.containerservice/managedclusters" => managed_cluster(id, location, tenant),
        "microsoft.dbforpostgresql/flexibleservers" => json!({
            "fullyQualifiedDomainName": format!("{name}.postgres.database.azure.com"),
            "minorVersion": "1", "availabilityZone": "1",
        }),
        "microsoft.authorization/roleassignments" => {
            let subscription = format!("/subscriptions/{}", id.subscription);
            let scope = id.parent().map(|parent| parent.text());
            json!({"scope": scope.unwrap_or(subscription)})
        }
        // A new subscription, which the alias is the name of.
        "microsoft.subscription/aliases" => json!({"subscriptionId": random_id()}),
        "microsoft.cache/redis" => json!({
            "hostName": format!("{name}.redis.cache.windows.net"), "port": 6379, "sslPort": 6380,
        }),
        _ => json!({}),
    };
    match properties {
        Value::Object(properties) => properties,
        _ => Map::new(),
    }
}

fn random_id() -> String {
    Uuid::new_v4().to_string()
}

fn storage_account(name: &str, location: &str) -> Value {
    let endpoints: Map<_, _> = ["blob", "queue", "table", "file", "web", "dfs"]
        .into_iter()
        .map(|service| {
            let zone = if service == "web" { "z5.web" } else { service };
            let url = format!("https://{name}.{zone}.core.windows.net/");
            (service.to_owned(), json!(url))
        })
        .collect();
    json!({
        "primaryEndpoints": endpoints, "primaryLocation": location, "statusOfPrimary": "available",
        "supportsHttpsTrafficOnly": true, "privateEndpointConnections": [],
    })
}

fn managed_cluster(id: &ArmId, location: &str, tenant: &str) -> Value {
    let name = id.name();
    let group = id.group.as_deref().unwrap_or_default();
    let host = name.to_ascii_lowercase();
    json!({
        "fqdn": format!("{host}.hcp.{location}.azmk8s.io"),
        "nodeResourceGroup": format!("MC_{group}_{name}_{location}"),
        "powerState": {"code": "Running"},
        "oidcIssuerProfile": {
            "enabled": true,
            "issuerURL": format!("https://{location}.oic.prod-aks.azure.com/{tenant}/{}/", random_id()),
        },
    })
}

/// The usual answer to a POST of an action. Keys depend on the resource and are always the same.
pub(super) fn action(id: &ArmId, action: &str) -> Option<Value> {
    let kind = id.resource_type().to_ascii_lowercase();
    let action = action.to_ascii_lowercase();
    let key = |which: &str| key(id, which);
    let answer = match (kind.as_str(), action.as_str()) {
        ("microsoft.storage/storageaccounts", "listkeys") => json!({"keys": [
            {"keyName": "key1", "value": key("key1"), "permissions": "FULL"},
            {"keyName": "key2", "value": key("key2"), "permissions": "FULL"},
        ]}),
        (
            "microsoft.containerservice/managedclusters",
            "listclusteradmincredential" | "listclusterusercredential",
        ) => kubeconfig(id, &action),
        ("microsoft.documentdb/databaseaccounts", "listkeys") => json!({
            "primaryMasterKey": key("primary"), "secondaryMasterKey": key("secondary"),
            "primaryReadonlyMasterKey": key("primary-readonly"),
            "secondaryReadonlyMasterKey": key("secondary-readonly"),
        }),
        ("microsoft.batch/batchaccounts", "listkeys") => {
            json!({"accountName": id.name(), "primary": key("primary"), "secondary": key("secondary")})
        }
        (
            "microsoft.cognitiveservices/accounts"
            | "microsoft.eventgrid/topics"
            | "microsoft.eventgrid/domains",
            "listkeys",
        ) => {
            json!({"key1": key("key1"), "key2": key("key2")})
        }
        ("microsoft.devices/iothubs", "listkeys") => json!({"value": [{
            "keyName": "iothubowner", "primaryKey": key("primary"), "secondaryKey": key("secondary"),
        }]}),
        ("microsoft.appconfiguration/configurationstores", "listkeys") => json!({"value": [
            {"id": "primary", "name": "Primary", "value": key("primary"), "readOnly": false},
            {"id": "secondary", "name": "Secondary", "value": key("secondary"), "readOnly": false},
        ]}),
        ("microsoft.containerregistry/registries", "listcredentials") => json!({
            "username": id.name(), "passwords": [
                {"name": "password", "value": key("password")},
                {"name": "password2", "value": key("password2")},
            ],
        }),
        (_, "listkeys" | "listadminkeys") => json!({
            "primaryKey": key("primary"), "secondaryKey": key("secondary"),
            "primaryConnectionString": format!("AccessKey={}", key("primary")),
            "secondaryConnectionString": format!("AccessKey={}", key("secondary")),
        }),
        _ => return None,
    };
    Some(answer)
}

fn key(id: &ArmId, which: &str) -> String {
    let seed = format!("{} {which}", id.key());
    STANDARD.encode(ring::digest::digest(&ring::digest::SHA512, seed.as_bytes()))
}

fn kubeconfig(id: &ArmId, action: &str) -> Value {
    let name = id.name();
    let user = if action.contains("admin") {
        "clusterAdmin"
    } else {
        "clusterUser"
    };
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: {name}\n\
         clusters: [{{name: {name}, cluster: {{server: 'https://{name}.invalid:443'}}}}]\n\
         contexts: [{{name: {name}, context: {{cluster: {name}, user: {user}}}}}]\n\
         users: [{{name: {user}, user: {{token: '{}'}}}}]\n",
        key(id, user)
    );
    json!({"kubeconfigs": [{"name": user, "value": STANDARD.encode(text)}]})
}
