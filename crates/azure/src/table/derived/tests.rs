use serde_json::json;

use super::*;
use crate::table::{Place, Rule};

fn definition() -> Value {
    let text = json!({"type": "string"});
    let reference = json!({"type": "object", "properties":
        {"armId": text, "group": text, "kind": text, "name": text}});
    let key = json!({"type": "object", "required": ["key", "name"],
        "properties": {"key": text, "name": text}});
    let schema = json!({
        "description": "Generator information:\n- Generated from: /x.json\n- ARM URI: /subscriptions/{subscriptionId}/resourceGroups/{resourceGroupName}/providers/Microsoft.New/things/{thingName}/parts/{partName}",
        "properties": {
            "spec": {"properties": {
                "azureName": text,
                "location": text,
                "owner": {
                    "description": "Owner is expected to be a\nreference to a new.azure.com/Thing resource",
                    "properties": {"armId": text, "name": text},
                },
                "diskReference": reference,
                "subnetReference": reference,
                "password": key,
                "tenantId": text,
                "tenantIdFromConfig": key,
                "identity": {"properties": {"userAssignedIdentities": {"type": "array",
                    "items": {"properties": {"reference": reference}}}}},
                "rules": {"type": "array", "items": {"properties": {"target":
                    {"properties": {"reference": reference}}}}},
                "labels": {"type": "object", "additionalProperties": text},
                "settings": {"x-kubernetes-preserve-unknown-fields": true},
            }},
            "status": {"properties": {"subnet": text, "diskId": text}},
        },
    });
    let version = |name: &str, storage: bool| json!({"name": name, "storage": storage, "schema": {"openAPIV3Schema": schema}});
    json!({"spec": {
        "group": "new.azure.com",
        "names": {"kind": "ThingsPart", "plural": "thingsparts"},
        "versions": [
            version("v20300101", false),
            version("v20300101storage", true),
            version("v20310101preview", false),
        ],
    }})
}

#[test]
fn kind_of_a_newer_release_is_derived_from_its_definition() {
    let kind = derive(&definition()).unwrap();
    assert_eq!((kind.group(), kind.kind()), ("new.azure.com", "ThingsPart"));
    assert_eq!(kind.arm_type(), "Microsoft.New/things/parts");
    assert_eq!(kind.scope(), Scope::ResourceGroup);
    assert_eq!(kind.fixed_name(), None);
    assert_eq!(kind.storage_version(), "v20300101storage");
    let owner = Owner::Kind {
        group: "new.azure.com".to_owned(),
        kind: "Thing".to_owned(),
    };
    assert_eq!(*kind.owner(), owner);
    let versions: Vec<_> = kind.versions().iter().map(Version::api_version).collect();
    assert_eq!(versions, ["2030-01-01", "2031-01-01-preview"]);
}

#[test]
fn rules_of_fields_are_derived_from_their_schemas() {
    let kind = derive(&definition()).unwrap();
    let spec = kind.spec(kind.version("v20300101").unwrap());
    assert!(matches!(
        spec.rule("diskReference"),
        Rule::Reference("diskId")
    ));
    assert!(matches!(
        spec.rule("subnetReference"),
        Rule::Reference("subnet")
    ));
    assert!(matches!(spec.rule("password"), Rule::Secret("password")));
    assert!(matches!(
        spec.rule("tenantIdFromConfig"),
        Rule::Config("tenantId")
    ));
    assert!(matches!(spec.rule("labels"), Rule::Map(None)));
    assert!(matches!(spec.rule("settings"), Rule::Json));
    assert!(matches!(spec.rule("tenantId"), Rule::Plain));
    assert_eq!(spec.place("tenantId"), Place::Under("properties"));
    assert_eq!(spec.place("location"), Place::Beside);
    let Rule::Object(identity) = spec.rule("identity") else {
        panic!("the identity has a shape");
    };
    assert!(matches!(
        identity.rule("userAssignedIdentities"),
        Rule::Identities
    ));
    let Rule::Object(rules) = spec.rule("rules") else {
        panic!("rules have a shape");
    };
    let Rule::Object(target) = rules.rule("target") else {
        panic!("targets have a shape");
    };
    assert!(matches!(target.rule("reference"), Rule::Reference("id")));
}

#[test]
fn definition_without_a_uri_gives_no_kind() {
    let mut stripped = definition();
    for version in stripped["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"]["openAPIV3Schema"]["description"] = json!("A thing.");
    }
    assert!(derive(&stripped).is_none());
    assert!(derive(&json!({})).is_none());
}

#[test]
fn scopes_and_fixed_names_follow_from_the_uri() {
    let uri = |uri: &str| {
        let uri = Uri::parse(&format!("- ARM URI: {uri}")).unwrap();
        (uri.arm_type, uri.scope, uri.fixed_name)
    };
    let group = "/subscriptions/{subscriptionId}/resourceGroups/{resourceGroupName}";
    assert_eq!(
        uri(&format!(
            "{group}/providers/Microsoft.Storage/storageAccounts/{{a}}/blobServices/default"
        )),
        (
            "Microsoft.Storage/storageAccounts/blobServices".to_owned(),
            Scope::ResourceGroup,
            Some("default".to_owned())
        )
    );
    assert_eq!(
        uri("/{scope}/providers/Microsoft.Authorization/roleAssignments/{n}").1,
        Scope::Extension
    );
    assert_eq!(
        uri("/providers/Microsoft.Subscription/aliases/{n}").1,
        Scope::Tenant
    );
    assert_eq!(uri(group).0, "Microsoft.Resources/resourceGroups");
}
