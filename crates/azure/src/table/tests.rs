use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

fn kind(group: &str, name: &str) -> &'static Kind {
    find(group, name).unwrap()
}

fn count(of: impl Fn(&Kind) -> bool) -> usize {
    let kinds = kinds().iter().filter(|kind| of(kind));
    kinds.map(|kind| kind.versions().len()).sum()
}

#[test]
fn table_has_every_kind_and_version_of_arm() {
    assert_eq!(kinds().len(), 279);
    assert_eq!(count(|_| true), 535);
    let names: usize = kinds()
        .iter()
        .flat_map(Kind::versions)
        .map(|version| version.names().count())
        .sum();
    // Each of the 660 versions of the module has one for storage.
    assert_eq!(names, 2 * 660);
}

#[test]
fn kind_versions_by_operations_scope_and_owner_are_as_many_as_measured() {
    assert_eq!(count(|kind| !kind.can_delete()), 53);
    assert_eq!(count(Kind::has_head), 42);
    let scopes = [
        (Scope::ResourceGroup, 521),
        (Scope::Extension, 12),
        (Scope::Location, 1),
        (Scope::Tenant, 1),
    ];
    for (scope, number) in scopes {
        assert_eq!(count(|kind| kind.scope() == scope), number, "{scope:?}");
    }
    assert_eq!(count(|kind| *kind.owner() == Owner::Any), 12);
    assert_eq!(count(|kind| *kind.owner() == Owner::None), 2);
}

#[test]
fn exports_and_behaviours_are_as_many_as_measured() {
    let secrets = || kinds().iter().map(|kind| &kind.exports().secrets);
    let config_maps = || kinds().iter().map(|kind| &kind.exports().config_maps);
    assert_eq!(secrets().filter(|fields| !fields.is_empty()).count(), 30);
    assert_eq!(secrets().map(|fields| fields.len()).sum::<usize>(), 116);
    assert_eq!(
        config_maps().filter(|fields| !fields.is_empty()).count(),
        19
    );
    assert_eq!(config_maps().map(|fields| fields.len()).sum::<usize>(), 33);
    let calls = |kind: &&Kind| !kind.exports().calls.is_empty();
    assert_eq!(kinds().iter().filter(calls).count(), 26);
    let behaves = |kind: &&Kind| !kind.behaviours().is_empty();
    assert_eq!(kinds().iter().filter(behaves).count(), 25);
}

#[test]
fn owners_are_kinds_of_the_table_and_parents_in_arm() {
    for kind in kinds() {
        let Owner::Kind { group, kind: owner } = kind.owner() else {
            continue;
        };
        let owner = find(group, owner).unwrap_or_else(|| panic!("{group}/{owner}"));
        let (parent, _) = kind.arm_type().rsplit_once('/').unwrap();
        let in_group = owner.arm_type() == "Microsoft.Resources/resourceGroups";
        let top_level = kind.arm_type().matches('/').count() == 1;
        let is_parent = owner.arm_type().eq_ignore_ascii_case(parent);
        assert_eq!((is_parent, in_group), (!top_level, top_level), "{kind:?}");
    }
}

#[test]
fn versions_are_found_by_every_name() {
    let accounts = kind("storage.azure.com", "StorageAccount");
    let names = [
        "v20230101",
        "v1api20230101",
        "v20230101storage",
        "v1api20230101storage",
    ];
    for name in names {
        let version = accounts.version(name).unwrap();
        assert_eq!(version.name(), "v20230101", "{name}");
        assert_eq!(version.api_version(), "2023-01-01", "{name}");
    }
    assert_eq!(accounts.storage_version(), "v20250601storage");
    assert!(accounts.version("v20230102").is_none());
    for kind in kinds() {
        let stored = kind.version(kind.storage_version());
        assert!(stored.is_some(), "{}", kind.kind());
        for version in kind.versions() {
            assert!(version.api_version().len() >= 10, "{}", kind.kind());
        }
    }
}

#[test]
fn api_versions_follow_from_names() {
    let cases = [
        ("v20230101", Some("2023-01-01")),
        ("v1api20230101preview", Some("2023-01-01-preview")),
        ("v20230101previewstorage", Some("2023-01-01-preview")),
        ("v1", None),
        ("v1beta1", None),
        ("v2023010", None),
        ("v1apiééééé", None),
    ];
    for (name, expected) in cases {
        assert_eq!(api_version(name).as_deref(), expected, "{name}");
    }
}

#[test]
fn arm_types_are_found_without_regard_to_case() {
    let found = |arm_type| by_arm_type(arm_type).map(Kind::kind).collect::<Vec<_>>();
    assert_eq!(
        found("microsoft.network/VIRTUALNETWORKS/subnets"),
        ["VirtualNetworksSubnet"]
    );
    assert_eq!(found("Microsoft.Network/nothing"), [""; 0]);
    let all: usize = kinds()
        .iter()
        .map(|kind| found(kind.arm_type()).len())
        .sum();
    assert_eq!(all, kinds().len());
}

#[test]
fn fields_stand_where_the_shape_says() {
    let redis = kind("cache.azure.com", "Redis");
    let spec = redis.spec(redis.version("v1api20241101").unwrap());
    assert_eq!(spec.place("sku"), Place::Under("properties"));
    assert_eq!(spec.place("tags"), Place::Beside);
    assert_eq!(spec.place("shardCount"), Place::Under("properties"));
    assert!(matches!(
        spec.rule("subnetReference"),
        Rule::Reference("subnetId")
    ));

    let vault = kind("keyvault.azure.com", "Vault");
    let spec = vault.spec(vault.version("v1api20230701").unwrap());
    assert_eq!(spec.place("properties"), Place::Beside);

    let balancer = kind("network.azure.com", "LoadBalancer");
    let spec = balancer.spec(balancer.version("v1api20240301").unwrap());
    let Rule::Object(frontend) = spec.rule("frontendIPConfigurations") else {
        panic!("frontends have a shape");
    };
    assert_eq!(frontend.place("name"), Place::Beside);
    assert_eq!(frontend.place("subnet"), Place::Under("properties"));
    assert_eq!(frontend.flattened().collect::<Vec<_>>(), ["properties"]);
}

#[test]
fn rules_of_managed_clusters_are_known() {
    let clusters = kind("containerservice.azure.com", "ManagedCluster");
    let spec = clusters.spec(clusters.version("v1api20250801storage").unwrap());
    assert!(matches!(spec.rule("tags"), Rule::KeepEmptyMap));
    assert!(matches!(spec.rule("dnsPrefix"), Rule::Plain));
    let Rule::Object(identity) = spec.rule("identity") else {
        panic!("identities have a shape");
    };
    assert!(matches!(
        identity.rule("userAssignedIdentities"),
        Rule::Identities
    ));
    let Rule::Object(windows) = spec.rule("windowsProfile") else {
        panic!("the profile of Windows has a shape");
    };
    assert!(matches!(
        windows.rule("adminPassword"),
        Rule::Secret("adminPassword")
    ));
    assert!(spec.nulls().any(|name| name == "agentPoolProfiles"));
    let [Call { post, .. }, _] = &clusters.exports().calls[..] else {
        panic!("there are two calls");
    };
    assert_eq!(post.as_deref(), Some("listClusterAdminCredential"));
}

#[test]
fn elements_from_azure_lose_what_only_azure_writes() {
    let networks = kind("network.azure.com", "VirtualNetwork");
    let [
        Behaviour::KeepFromAzure {
            path,
            merge,
            fields,
        },
    ] = networks.behaviours()
    else {
        panic!("networks keep their subnets");
    };
    assert_eq!(path.members(), Some(vec!["properties", "subnets"]));
    assert_eq!(*merge, Merge::Replace);
    let mut subnets = json!([{
        "id": "/s", "name": "s", "etag": "W/1", "properties": {
            "addressPrefix": "10.0.0.0/16", "provisioningState": "Succeeded",
            "natGateway": {"id": "/n"}, "purpose": "x",
        },
    }]);
    fields.retain(&mut subnets);
    let expected = json!([{
        "id": "/s", "name": "s",
        "properties": {"addressPrefix": "10.0.0.0/16", "natGateway": {"id": "/n"}},
    }]);
    assert_eq!(subnets, expected);
}

#[test]
fn unions_have_a_discriminator() {
    let policies = kind("dataprotection.azure.com", "BackupVaultsBackupPolicy");
    let spec = policies.spec(&policies.versions()[0]);
    let Rule::Object(properties) = spec.rule("properties") else {
        panic!("properties are a union");
    };
    let union = properties.one_of().unwrap();
    assert_eq!(union.by, "objectType");
    assert_eq!(union.member("BackupPolicy"), Some("backupPolicy"));
    assert_eq!(union.member("Other"), None);
}

#[test]
fn exported_values_come_from_a_call_of_the_kind() {
    for kind in kinds() {
        let exports = kind.exports();
        let sources = exports.secrets.values().chain(exports.config_maps.values());
        for source in sources {
            if let Source::Call { call, .. } = source {
                assert!(*call < exports.calls.len(), "{}", kind.kind());
            }
        }
    }
}

#[test]
fn errors_are_recognised_by_code_and_message() {
    let records = kind("network.azure.com", "DnsZonesARecord");
    let [rule] = records.errors() else {
        panic!("there is one rule");
    };
    assert!(rule.applies("BadRequest", "the referenced resource X was not found."));
    assert!(!rule.applies("BadRequest", "other"));
    assert!(!rule.applies("Conflict", "The referenced resource X was not found."));
    assert!(!rule.fatal);
}

/// The kinds for which Azure Service Operator has code for names, before or after requests, or for deletions.
#[test]
fn r31_every_kind_with_behaviour_in_the_original_has_it() {
    use Behaviour as B;
    let name = |behaviour: &B| match behaviour {
        B::WaitForState { .. } => "waitForState",
        B::WaitWhileState { .. } => "waitWhileState",
        B::WaitForOwnerState { .. } => "waitForOwnerState",
        B::KeepFromAzure { .. } => "keepFromAzure",
        B::RequireState { .. } => "requireState",
        B::RequireEach { .. } => "requireEach",
        B::DropLargeStatus { .. } => "dropLargeStatus",
        B::RecoverDeletedVault { .. } => "recoverDeletedVault",
        B::ResolveBuiltInRole { .. } => "resolveBuiltInRole",
        B::DeleteWith { .. } => "deleteWith",
        B::CancelSubscription { .. } => "cancelSubscription",
        B::ChildIdFromSubscription { .. } => "childIdFromSubscription",
        // Webhooks decide about names.
        B::NameByUuid { .. } => "nameByUuid",
        B::RequireName { .. } => "requireName",
        B::RequireNameAt { .. } => "requireNameAt",
    };
    let found = kinds().iter().filter_map(|kind| {
        let names: Vec<_> = kind.behaviours().iter().map(name).collect();
        let group = kind.group().split('.').next()?;
        (!names.is_empty()).then(|| format!("{group} {} {}", kind.kind(), names.join(" ")))
    });
    let expected = [
        "apimanagement Product deleteWith",
        "authorization RoleAssignment resolveBuiltInRole nameByUuid",
        "authorization RoleDefinition nameByUuid",
        "communication Domain requireName",
        "communication SenderUsername requireNameAt",
        "compute VirtualMachineScaleSet keepFromAzure",
        "containerservice ManagedCluster waitForState",
        "containerservice ManagedClustersAgentPool waitForState waitForOwnerState",
        "dataprotection BackupVaultsBackupInstance requireState",
        "dbforpostgresql FlexibleServer waitForState",
        "dbforpostgresql FlexibleServersDatabase waitForOwnerState",
        "dbforpostgresql FlexibleServersFirewallRule waitForOwnerState",
        "documentdb CassandraDataCenter waitForOwnerState",
        "documentdb DatabaseAccount waitWhileState",
        "documentdb SqlRoleAssignment nameByUuid",
        "keyvault Vault recoverDeletedVault",
        "kusto Cluster waitForState",
        "kusto Database waitForOwnerState",
        "network LoadBalancer keepFromAzure",
        "network NetworkSecurityGroup keepFromAzure",
        "network PrivateEndpoint requireEach",
        "network RouteTable keepFromAzure",
        "network VirtualNetwork keepFromAzure",
        "network VirtualNetworksSubnet dropLargeStatus",
        "subscription Alias cancelSubscription childIdFromSubscription",
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn table_has_no_sentences_of_the_module() {
    let table: Value = serde_json::from_str(TEXT).unwrap();
    let mut long = BTreeSet::new();
    collect_long_texts(&table, &mut long);
    // Only messages of ARM that errors are recognised by have several words.
    let expected = long.iter().all(|text| text.split(' ').count() <= 8);
    assert!(expected, "{long:?}");
}

fn collect_long_texts(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if text.split(' ').count() > 4 => {
            into.insert(text.clone());
        }
        Value::Array(elements) => elements
            .iter()
            .for_each(|value| collect_long_texts(value, into)),
        Value::Object(members) => members
            .values()
            .for_each(|value| collect_long_texts(value, into)),
        _ => {}
    }
}
