use crate::table;

use super::*;

fn none() -> CustomResourceConversion {
    CustomResourceConversion {
        strategy: "None".to_owned(),
        webhook: None,
    }
}

#[test]
fn definitions_are_those_of_the_kinds_that_people_begin_with() {
    let definitions = all(&none());
    let names: Vec<_> = definitions
        .iter()
        .map(|definition| definition.metadata.name.clone().unwrap_or_default())
        .collect();
    let expected = [
        "roleassignments.authorization.azure.com",
        "redis.cache.azure.com",
        "managedclusters.containerservice.azure.com",
        "managedclustersagentpools.containerservice.azure.com",
        "flexibleservers.dbforpostgresql.azure.com",
        "flexibleserversdatabases.dbforpostgresql.azure.com",
        "flexibleserversfirewallrules.dbforpostgresql.azure.com",
        "vaults.keyvault.azure.com",
        "federatedidentitycredentials.managedidentity.azure.com",
        "userassignedidentities.managedidentity.azure.com",
        "networksecuritygroups.network.azure.com",
        "networksecuritygroupssecurityrules.network.azure.com",
        "publicipaddresses.network.azure.com",
        "virtualnetworks.network.azure.com",
        "virtualnetworkssubnets.network.azure.com",
        "resourcegroups.resources.azure.com",
        "storageaccounts.storage.azure.com",
        "storageaccountsblobservices.storage.azure.com",
        "storageaccountsblobservicescontainers.storage.azure.com",
    ];
    assert_eq!(names, expected);
}

#[test]
fn definitions_and_table_have_the_same_names() {
    for definition in all(&none()) {
        let spec = &definition.spec;
        let kind = table::find(&spec.group, &spec.names.kind).unwrap();
        assert_eq!(kind.plural(), spec.names.plural);
        for version in &spec.versions {
            assert!(kind.version(&version.name).is_some(), "{}", version.name);
            let stored = version.name == kind.storage_version();
            assert_eq!((version.served, version.storage), (true, stored));
        }
    }
}

#[test]
fn every_definition_has_an_older_version_unless_there_is_none() {
    for definition in all(&none()) {
        let spec = &definition.spec;
        let kind = table::find(&spec.group, &spec.names.kind).unwrap();
        let expected = if kind.versions().len() == 1 { 1 } else { 2 };
        let mut dates: Vec<_> = spec
            .versions
            .iter()
            .filter_map(|version| table::api_version(&version.name))
            .collect();
        dates.sort();
        dates.dedup();
        assert_eq!(dates.len(), expected, "{}", spec.names.kind);
    }
}

#[test]
fn definitions_have_no_descriptions() {
    let text = serde_json::to_string(&all(&none())).unwrap();
    assert!(!text.contains(r#""description":""#));
}

#[test]
fn schemas_have_the_limits_of_the_fields() {
    let definitions = all(&none());
    let found = definitions
        .iter()
        .find(|definition| definition.spec.names.kind == "StorageAccount");
    let version = &found.unwrap().spec.versions[0];
    assert_eq!(version.name, "v20250601");
    let schema = serde_json::to_value(version.schema.as_ref().unwrap()).unwrap();
    let spec = &schema["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(
        spec["required"],
        json!(["kind", "location", "owner", "sku"])
    );
    let name = &spec["properties"]["azureName"];
    assert_eq!(
        *name,
        json!({"type": "string", "minLength": 3, "maxLength": 24, "pattern": "^[a-z0-9]+$"})
    );
    assert_eq!(
        spec["properties"]["owner"]["properties"]["name"],
        json!({"type": "string"})
    );
}
