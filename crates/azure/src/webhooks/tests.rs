use insula_operator::webhook::Operation;
use insula_operator::webhook::admission::{GroupVersionKind, GroupVersionResource};

use super::*;
use crate::mapping::export::cel::Cel;
use crate::names::RESOURCE_ID;
use crate::table;

fn kind(group: &str, kind: &str) -> &'static Kind {
    table::find(&format!("{group}.azure.com"), kind).unwrap()
}

fn request(kind: &Kind, old: Option<Value>, new: Value) -> AdmissionRequest {
    let (group, version) = (
        kind.group().to_owned(),
        kind.versions()[0].name().to_owned(),
    );
    AdmissionRequest {
        uid: "u".to_owned(),
        operation: match old {
            Some(_) => Operation::Update,
            None => Operation::Create,
        },
        kind: GroupVersionKind {
            group: group.clone(),
            version: version.clone(),
            kind: kind.kind().to_owned(),
        },
        resource: GroupVersionResource {
            group,
            version,
            resource: kind.plural().to_owned(),
        },
        sub_resource: String::new(),
        request_kind: None,
        request_resource: None,
        namespace: "team-a".to_owned(),
        name: "a".to_owned(),
        user_info: Default::default(),
        object: Some(new),
        old_object: old,
        dry_run: false,
        options: None,
        space: None,
    }
}

fn object(spec: Value) -> Value {
    json!({"metadata": {"name": "a", "namespace": "team-a"}, "spec": spec})
}

fn created(spec: Value) -> Value {
    let mut object = object(spec);
    object["metadata"]["annotations"] = json!({RESOURCE_ID: "/subscriptions/s/resourceGroups/a"});
    object
}

fn check(kind: &Kind, old: Option<Value>, new: Value) -> AdmissionResponse {
    validate(kind, &request(kind, old, new), None)
}

fn denied(message: &str) -> AdmissionResponse {
    AdmissionResponse::deny_with(422, "Invalid", message)
}

fn patched(kind: &Kind, object: Value) -> AdmissionResponse {
    mutate(kind, &request(kind, None, object))
}

fn named(name: &str) -> AdmissionResponse {
    let patch = json!({"op": "add", "path": "/spec/azureName", "value": name});
    AdmissionResponse::allow_with_patch(vec![patch])
}

#[test]
fn azure_name_defaults_to_the_name() {
    let group = kind("resources", "ResourceGroup");
    assert_eq!(patched(group, object(json!({}))), named("a"));
    let given = object(json!({"azureName": "b"}));
    assert_eq!(patched(group, given), AdmissionResponse::allow());
    let mut deleted = object(json!({}));
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(patched(group, deleted), AdmissionResponse::allow());
    let fixed = kind("storage", "StorageAccountsBlobService");
    assert_eq!(
        patched(fixed, object(json!({}))),
        AdmissionResponse::allow()
    );
    let from_config = kind("dbforpostgresql", "FlexibleServersAdministrator");
    let given = object(json!({"azureNameFromConfig": {"name": "c", "key": "k"}}));
    assert_eq!(patched(from_config, given), AdmissionResponse::allow());
}

#[test]
fn names_of_role_assignments_are_stable_uuids() {
    let assignment = kind("authorization", "RoleAssignment");
    let owner = json!({"group": "resources.azure.com", "kind": "ResourceGroup", "name": "rg"});
    let mut given = object(json!({"owner": owner}));
    // UUID version 5 in the namespace of Azure Service Operator, computed with Python's uuid5.
    assert_eq!(
        patched(assignment, given.clone()),
        named("95d4e597-3294-5e63-bc69-4e8ff8e89a38")
    );
    let uuid = "2f6b1a3c-9c5e-4c9c-8a53-1f5f0b6c7d8e";
    given["metadata"]["name"] = uuid.into();
    assert_eq!(patched(assignment, given.clone()), named(uuid));
    given["spec"] = json!({});
    assert_eq!(patched(assignment, given), AdmissionResponse::allow());
    let definition = kind("authorization", "RoleDefinition");
    let given = object(json!({"owner": {"armId": "/subscriptions/s"}}));
    assert_eq!(
        patched(definition, given),
        named("1b97573e-9628-500e-87d5-e803e0b96bbe")
    );
}

#[test]
fn r31_name_that_another_field_decides_is_set_and_no_other_is_accepted() {
    let wrong = |required: &str, given: &str| {
        denied(&format!(
            "spec.azureName: must be {required:?} here, but is {given:?}"
        ))
    };
    let owned = |mut spec: Value, name: &str| {
        spec["owner"] = json!({"name": "mail"});
        if !name.is_empty() {
            spec["azureName"] = name.into();
        }
        object(spec)
    };
    let allow = AdmissionResponse::allow();
    let domain = kind("communication", "Domain");
    let managed = |name: &str| owned(json!({"domainManagement": "AzureManaged"}), name);
    assert_eq!(patched(domain, managed("")), named("AzureManagedDomain"));
    assert_eq!(check(domain, None, managed("azuremanageddomain")), allow);
    let expected = wrong("AzureManagedDomain", "shop.example");
    assert_eq!(check(domain, None, managed("shop.example")), expected);
    let own = |name: &str| owned(json!({"domainManagement": "CustomerManaged"}), name);
    assert_eq!(patched(domain, own("")), named("a"));
    assert_eq!(check(domain, None, own("shop.example")), allow);
    let sender = kind("communication", "SenderUsername");
    let with = |name: &str| owned(json!({"username": "DoNotReply"}), name);
    assert_eq!(patched(sender, with("")), named("DoNotReply"));
    assert_eq!(check(sender, None, with("donotreply")), allow);
    assert_eq!(
        check(sender, None, with("info")),
        wrong("DoNotReply", "info")
    );
}

#[test]
fn references_are_either_ids_or_names() {
    let subnet = kind("network", "VirtualNetworksSubnet");
    let with = |reference: Value| {
        let spec = json!({
            "owner": {"name": "vnet"}, "natGateway": {"reference": reference},
        });
        check(subnet, None, object(spec))
    };
    let group = "network.azure.com";
    let id = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/natGateways/n";
    assert_eq!(with(json!({"armId": id})), AdmissionResponse::allow());
    assert_eq!(
        with(json!({"group": group, "kind": "NatGateway", "name": "n"})),
        AdmissionResponse::allow()
    );
    for (reference, message) in [
        (
            json!({}),
            "a reference needs either armId, or group, kind and name",
        ),
        (
            json!({"group": group, "name": "n"}),
            "a reference to a custom resource needs group, kind and name",
        ),
        (
            json!({"armId": id, "name": "n"}),
            "a reference has either armId, or group, kind and name",
        ),
        (json!({"armId": "natGateways/n"}), "armId is no ARM id"),
    ] {
        let message = format!("spec.natGateway.reference: {message}");
        assert_eq!(with(reference), denied(&message));
    }
}

#[test]
fn owners_by_id_have_the_type_of_the_parent() {
    let subnet = kind("network", "VirtualNetworksSubnet");
    let with = |kind: &Kind, owner: Value| check(kind, None, object(json!({"owner": owner})));
    let group = "/subscriptions/s/resourceGroups/g";
    let vnet = format!("{group}/providers/microsoft.network/VirtualNetworks/v");
    assert_eq!(
        with(subnet, json!({"armId": vnet})),
        AdmissionResponse::allow()
    );
    assert_eq!(
        with(subnet, json!({"armId": group})),
        denied(
            "spec.owner.armId: expected the id of a Microsoft.Network/virtualNetworks, but it is \
             one of a Microsoft.Resources/resourceGroups"
        )
    );
    assert_eq!(
        with(subnet, json!({"armId": "/x"})),
        denied("spec.owner.armId: \"/x\" is no ARM id")
    );
    assert_eq!(
        with(subnet, json!({})),
        denied("spec.owner: the owner needs either name or armId")
    );
    let network = kind("network", "VirtualNetwork");
    assert_eq!(
        with(network, json!({"armId": group})),
        AdmissionResponse::allow()
    );
    assert_eq!(
        with(network, json!({"armId": "/subscriptions/s"})),
        denied(
            "spec.owner.armId: expected the id of a Microsoft.Resources/resourceGroups, but it is \
             one of a Microsoft.Resources/subscriptions"
        )
    );
    let assignment = kind("authorization", "RoleAssignment");
    assert_eq!(
        with(assignment, json!({"armId": vnet})),
        AdmissionResponse::allow()
    );
}

#[test]
fn identity_of_a_created_resource_cannot_change() {
    let network = kind("network", "VirtualNetwork");
    let old = json!({"azureName": "v", "owner": {"name": "g"}, "location": "x"});
    let new = json!({"azureName": "w", "owner": {"name": "h"}, "location": "y"});
    let message = "spec.azureName: cannot change after the resource was created; \
                   spec.owner.name: cannot change after the resource was created";
    let update = |old: Value, new: Value| check(network, Some(old), new);
    assert_eq!(
        update(created(old.clone()), created(new.clone())),
        denied(message)
    );
    // Without the annotation in the new object, too.
    assert_eq!(
        update(created(old.clone()), object(new.clone())),
        denied(message)
    );
    assert_eq!(
        update(object(old.clone()), object(new.clone())),
        AdmissionResponse::allow()
    );
    let unnamed = json!({"owner": {"name": "g"}});
    assert_eq!(
        update(created(unnamed), created(old.clone())),
        AdmissionResponse::allow()
    );
    let mut deleted = created(new);
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(update(created(old), deleted), AdmissionResponse::allow());
}

#[test]
fn objects_older_than_a_rule_can_be_released() {
    let network = kind("network", "VirtualNetwork");
    let invalid = json!({"owner": {"armId": "/x"}});
    let mut labelled = object(invalid.clone());
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(
        check(network, Some(object(invalid)), labelled),
        AdmissionResponse::allow()
    );
}

#[test]
fn destinations_of_exports_do_not_collide() {
    let account = kind("storage", "StorageAccount");
    let destination = |name: &str, key: &str| json!({"name": name, "key": key});
    let with = |operator: Value| {
        let spec = json!({"owner": {"name": "g"}, "operatorSpec": operator});
        check(account, None, object(spec))
    };
    assert_eq!(
        with(json!({
            "secrets": {"key1": destination("s", "a"), "key2": destination("s", "b")},
            "configMaps": {"blobEndpoint": destination("s", "a")},
        })),
        AdmissionResponse::allow()
    );
    assert_eq!(
        with(json!({
            "secrets": {"key1": destination("s", "a")},
            "secretExpressions": [{"name": "s", "key": "a", "value": "secret.key1"}],
        })),
        denied("spec.operatorSpec: two values have the key \"a\" of the Secret \"s\"")
    );
}

#[test]
fn value_and_its_config_map_exclude_each_other() {
    let credential = kind("managedidentity", "FederatedIdentityCredential");
    let spec = json!({
        "owner": {"name": "i"}, "issuer": "https://x",
        "issuerFromConfig": {"name": "c", "key": "k"},
    });
    assert_eq!(
        check(credential, None, object(spec)),
        denied("spec.issuerFromConfig: the value is given twice, here and in another field")
    );
}

#[test]
fn configurations_have_a_webhook_for_each_version_of_a_kind() {
    let kinds = [
        Reviewed::all(kind("storage", "StorageAccount")),
        Reviewed {
            kind: Arc::new(kind("resources", "ResourceGroup").clone()),
            versions: vec!["v1api20200601".to_owned()],
        },
    ];
    let configurations = configurations(&service(), &kinds, Reach::Space);
    let names: Vec<_> = configurations
        .iter()
        .map(|it| it["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "azureoperator-resources.azure.com-mwh",
            "azureoperator-resources.azure.com-vwh",
            "azureoperator-storage.azure.com-mwh",
            "azureoperator-storage.azure.com-vwh",
        ]
    );
    assert_eq!(
        configurations[1]["webhooks"],
        json!([{
            "name": "validate.v1api20200601.resourcegroups.resources.azure.com",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {
                "namespace": "azureoperator-system", "name": "azureoperator-webhook-service",
                "path": "/validate-resources-azure-com-v1api20200601-resourcegroup", "port": 443,
            }},
            "rules": [{
                "apiGroups": ["resources.azure.com"], "apiVersions": ["v1api20200601"],
                "resources": ["resourcegroups"], "operations": ["CREATE", "UPDATE"], "scope": "*",
            }],
            "failurePolicy": "Fail", "matchPolicy": "Exact", "sideEffects": "None",
            "timeoutSeconds": 10,
        }])
    );
    assert_eq!(configurations[1]["metadata"].get("annotations"), None);
    let of_tenants = super::configurations(&service(), &kinds, Reach::Tenants);
    assert_eq!(
        of_tenants[1]["metadata"]["annotations"],
        json!({"multi-tenancy.k8s.io/admit-tenants": "true"})
    );
    let accounts = &configurations[2]["webhooks"];
    assert_eq!(
        accounts[0]["name"],
        format!(
            "default.{}.storageaccounts.storage.azure.com",
            kinds[0].versions[0]
        )
    );
    assert_eq!(accounts.as_array().unwrap().len(), kinds[0].versions.len());
    let targets: Vec<_> = targets(&kinds).iter().map(ToString::to_string).collect();
    assert_eq!(
        targets[0],
        "mutatingwebhookconfigurations/azureoperator-resources.azure.com-mwh"
    );
    let router = format!("{:?}", route(Router::new(), &kinds, None));
    assert!(router.contains("/mutate-resources-azure-com-v1api20200601-resourcegroup"));
}

#[test]
fn expressions_are_validated() {
    let account = kind("storage", "StorageAccount");
    let with = |operator: Value| {
        let spec = json!({"owner": {"name": "g"}, "operatorSpec": operator});
        let request = request(account, None, object(spec));
        validate(account, &request, Some(&Cel))
    };
    let entry = |value: &str| json!([{"name": "o", "key": "k", "value": value}]);
    assert_eq!(
        with(json!({
            "secretExpressions": entry("secret.key1"),
            "configMapExpressions": entry("self.status.id"),
        })),
        AdmissionResponse::allow()
    );
    assert_eq!(
        with(json!({"configMapExpressions": entry("secret.key1")})),
        denied(
            "spec.operatorSpec.configMapExpressions: \"secret.key1\": a ConfigMap cannot have \
             secrets"
        )
    );
    let many: Vec<_> = (0..257).map(|_| entry("secret.key1")[0].clone()).collect();
    assert_eq!(
        with(json!({ "secretExpressions": many })),
        denied("spec.operatorSpec has 257 expressions, and 256 are allowed")
    );
    let invalid = with(json!({"secretExpressions": entry("other.key1")}));
    assert!(format!("{invalid:?}").contains("undeclared reference to 'other'"));
}

#[test]
fn number_of_references_is_limited() {
    let app = kind("app", "ContainerApp");
    let with = |count: usize| {
        let secrets = (0..count).map(|n| json!({"value": {"name": format!("s{n}"), "key": "k"}}));
        let secrets: Vec<_> = secrets.collect();
        object(json!({"owner": {"name": "g"}, "configuration": {"secrets": secrets}}))
    };
    assert_eq!(check(app, None, with(256)), AdmissionResponse::allow());
    let message = "spec: it refers to more than 256 other objects and keys";
    assert_eq!(check(app, None, with(257)), denied(message));
}
