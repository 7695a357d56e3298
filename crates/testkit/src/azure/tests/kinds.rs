//! Types with manners of their own.

use http::Method;
use serde_json::{Value, json};

use super::{Bench, versioned, within};

#[test]
fn put_of_a_network_without_subnets_deletes_them() {
    let mut bench = Bench::new();
    let network = within("Microsoft.Network/virtualNetworks/v");
    bench.create(&network, json!({"location": "westus2"}));
    let subnet = format!("{network}/subnets/s");
    let shown = bench.create(
        &subnet,
        json!({"properties": {"addressPrefix": "10.0.0.0/24"}}),
    );
    assert_eq!(
        shown["properties"]["privateLinkServiceNetworkPolicies"],
        "Enabled"
    );
    let shown = bench.get(&network).value();
    assert_eq!(
        shown["properties"]["subnets"][0]["properties"]["addressPrefix"],
        "10.0.0.0/24"
    );
    let subnets = json!({"subnets": shown["properties"]["subnets"]});
    bench.create(
        &network,
        json!({"location": "westus2", "properties": subnets}),
    );
    assert_eq!(bench.get(&subnet).status, 200);
    let listed = bench.get(&format!("{network}/subnets")).value();
    assert_eq!(listed["value"].as_array().unwrap().len(), 1);
    bench.create(&network, json!({"location": "westus2"}));
    assert_eq!(bench.get(&subnet).code(), "ResourceNotFound");
    let shown = bench.get(&network);
    assert_eq!(shown.value()["properties"]["subnets"], json!([]));
    assert_eq!(
        shown.header("ETag").map(Value::from),
        Some(shown.value()["etag"].clone())
    );
}

#[test]
fn identity_answers_with_a_relative_location_and_lower_case_groups() {
    let mut bench = Bench::new();
    let identity = within("Microsoft.ManagedIdentity/userAssignedIdentities/i");
    let created = bench.put(&identity, json!({"location": "westus2"}));
    assert_eq!(created.status, 201);
    assert_eq!(
        created.header("Location").as_deref(),
        Some(identity.as_str())
    );
    let body = created.value();
    assert_eq!(
        body["id"],
        identity.replace("resourceGroups", "resourcegroups")
    );
    assert_eq!(body["properties"]["tenantId"], "T");
    assert!(body["properties"]["clientId"].is_string());
    assert_eq!(body["properties"]["provisioningState"], Value::Null);
    let again = bench.put(&identity.to_uppercase(), json!({"location": "westus2"}));
    assert_eq!((again.status, again.header("Location")), (200, None));
    assert_eq!(again.value()["properties"], body["properties"]);
}

#[test]
fn managed_cluster_refuses_a_put_while_it_is_provisioned() {
    let mut bench = Bench::new();
    bench.arm.manners.polls = 4;
    let cluster = within("Microsoft.ContainerService/managedClusters/c");
    let body = json!({"location": "westus2", "identity": {"type": "SystemAssigned"}});
    let missing = bench.get(&cluster).value();
    assert_eq!(missing["code"], "NotFound", "{missing}");
    let created = bench.put(&cluster, body.clone());
    assert_eq!(created.status, 201);
    let url = created.header("Azure-AsyncOperation").unwrap();
    let poll = bench.poll(&url).value();
    assert_eq!(poll["error"]["code"], "NotLatestOperation");
    assert_eq!(poll["status"], "InProgress");
    let busy = bench.put(&cluster, body.clone());
    assert_eq!(
        (busy.status, busy.code()),
        (409, "OperationNotAllowed".to_owned())
    );
    let pool = bench.put(&format!("{cluster}/agentPools/p"), json!({}));
    assert_eq!(
        (pool.status, pool.code()),
        (409, "OperationNotAllowed".to_owned())
    );
    assert_eq!(
        bench.poll(&url).value()["status"],
        "CreatingAgentPool: 0/1 nodes completed"
    );
    assert_eq!(bench.poll(&url).value()["status"], "Succeeded");
    let shown = bench.get(&cluster).value();
    assert_eq!(shown["type"], "Microsoft.ContainerService/ManagedClusters");
    assert!(shown["identity"]["principalId"].is_string(), "{shown}");
    assert_eq!(bench.put(&cluster, body).status, 200);
    let updated = (0..5).map(|_| bench.get(&cluster).value()).last().unwrap();
    assert_eq!(updated["properties"]["provisioningState"], "Succeeded");
    let credential = bench
        .post(&format!("{cluster}/listClusterAdminCredential"))
        .value();
    assert!(credential["kubeconfigs"][0]["value"].is_string());
}

#[test]
fn postgresql_server_answers_with_an_operation_and_is_ready() {
    let mut bench = Bench::new();
    let server = within("Microsoft.DBforPostgreSQL/flexibleServers/s");
    let body = json!({
        "location": "uksouth",
        "properties": {"administratorLogin": "root", "administratorLoginPassword": "hidden"},
    });
    let accepted = bench.put(&server, body);
    assert_eq!(accepted.status, 202);
    assert!(accepted.value()["operation"].is_string());
    assert_eq!(accepted.value()["id"], Value::Null);
    let url = accepted.header("Azure-AsyncOperation").unwrap();
    assert!(
        url.contains("/locations/uksouth/azureAsyncOperation/"),
        "{url}"
    );
    bench.poll(&url);
    assert_eq!(bench.poll(&url).value()["status"], "Succeeded");
    let shown = bench.get(&server).value();
    assert_eq!(shown["properties"]["state"], "Ready");
    assert_eq!(shown["properties"]["provisioningState"], Value::Null);
    assert_eq!(shown["properties"]["administratorLogin"], "root");
    assert_eq!(
        shown["properties"]["administratorLoginPassword"],
        Value::Null
    );
    let configuration = format!("{server}/configurations/pgaudit.log");
    bench.create(&configuration, json!({"properties": {"value": "READ"}}));
    let refused = bench.delete(&configuration);
    assert_eq!(refused.status, 405);
    assert!(refused.value()["Message"].is_string());
}

#[test]
fn deleted_vault_is_recovered_or_purged() {
    let mut bench = Bench::new();
    let vault = within("Microsoft.KeyVault/vaults/v");
    let body = |mode: &str| json!({"location": "westus2", "properties": {"createMode": mode}});
    let created = bench.put(&vault, body("default"));
    assert_eq!(created.status, 200);
    assert_eq!(
        created.value()["properties"]["provisioningState"],
        "RegisteringDns"
    );
    assert_eq!(
        bench.get(&vault).value()["properties"]["provisioningState"],
        "RegisteringDns"
    );
    assert_eq!(
        bench.get(&vault).value()["properties"]["provisioningState"],
        "Succeeded"
    );
    let deleted = "/subscriptions/S/providers/Microsoft.KeyVault/locations/westus2/deletedVaults/v";
    assert_eq!(bench.get(deleted).code(), "DeletedVaultNotFound");
    assert_eq!(bench.delete(&vault).status, 200);
    assert_eq!(bench.get(deleted).value()["properties"]["vaultId"], vault);
    let refused = bench.put(&vault, body("default"));
    assert_eq!(
        (refused.status, refused.code()),
        (409, "ConflictError".to_owned())
    );
    assert_eq!(bench.put(&vault, body("recover")).status, 200);
    bench.delete(&vault);
    let purging = bench.post(&format!("{deleted}/purge"));
    assert_eq!(purging.status, 202);
    let url = purging.header("Location").unwrap();
    assert_eq!(bench.poll(&url).status, 202);
    assert_eq!(bench.poll(&url).status, 200);
    assert_eq!(bench.get(deleted).status, 404);
    assert_eq!(
        bench.put(&vault, body("recover")).code(),
        "DeletedVaultNotFound"
    );
}

#[test]
fn patch_merges_and_null_removes() {
    let mut bench = Bench::new();
    let vault = within("Microsoft.KeyVault/vaults/v");
    bench.create(
        &vault,
        json!({"location": "westus2", "tags": {"a": "1", "b": "2"}}),
    );
    let patch = json!({"tags": {"a": null, "c": "3"}});
    let patched = bench.send(Method::PATCH, &versioned(&vault), Some(patch));
    assert_eq!(patched.status, 200);
    assert_eq!(patched.value()["tags"], json!({"b": "2", "c": "3"}));
}

#[test]
fn chosen_answer_of_an_action_wins() {
    let mut bench = Bench::new();
    let cache = within("Microsoft.Cache/redis/r");
    bench.create(&cache, json!({"location": "West US 2"}));
    let keys = bench.post(&format!("{cache}/listKeys")).value();
    assert!(keys["primaryKey"].is_string());
    assert_eq!(
        bench.post(&format!("{cache}/listNothing")).code(),
        "InvalidResourceType"
    );
    let key = ("microsoft.cache/redis".to_owned(), "listnothing".to_owned());
    bench.arm.answers.insert(key, json!({"nothing": true}));
    let chosen = bench.post(&format!("{cache}/listNothing")).value();
    assert_eq!(chosen, json!({"nothing": true}));
}

#[test]
fn names_of_storage_accounts_are_unique_in_all_of_azure() {
    let mut bench = Bench::new();
    let account = within("Microsoft.Storage/storageAccounts/taken");
    bench.create(&account, json!({"location": "westus2"}));
    bench.create(
        "/subscriptions/S/resourceGroups/H",
        json!({"location": "westus2"}),
    );
    let other = account.replace("/G/", "/H/");
    let refused = bench.put(&other, json!({"location": "westus2"}));
    assert_eq!(
        (refused.status, refused.code()),
        (409, "StorageAccountAlreadyTaken".to_owned())
    );
}
