use std::collections::{BTreeMap, BTreeSet};

use insula_identity::credential::Hidden;
use serde_json::json;

use super::export::cel::Cel;
use super::export::limits::CostBudget;
use super::export::{Evaluated, ExportError, Expressions, PlannedCall, Target, calls, objects};
use super::needs::{KeyReference, is_arm_id};
use super::*;
use crate::names::RESOURCE_ID;
use crate::table;

const GROUP_ID: &str = "/subscriptions/s/resourceGroups/g";

fn kind(group: &str, kind: &str) -> (&'static Kind, &'static Version) {
    let kind = table::find(&format!("{group}.azure.com"), kind).unwrap();
    (kind, kind.versions().last().unwrap())
}

fn mapped(group: &str, name: &str, spec: Value, resolved: &Resolved) -> Result<Value, String> {
    let (kind, version) = kind(group, name);
    let object = json!({"metadata": {"name": "a"}, "spec": spec});
    body(kind, version, &object, resolved).map_err(|error| error.to_string())
}

#[test]
fn parent_is_sent_if_a_field_below_it_is_set() {
    let none = Resolved::default();
    let network = |spec| mapped("network", "VirtualNetwork", spec, &none).unwrap();
    assert_eq!(
        network(json!({"azureName": "v", "tags": {}})),
        json!({"name": "v"})
    );
    assert_eq!(
        network(json!({"azureName": "v", "flowTimeoutInMinutes": null})),
        json!({"name": "v"})
    );
    assert_eq!(
        network(json!({"azureName": "v", "ipAllocations": []})),
        json!({"name": "v", "properties": {}})
    );
    assert_eq!(
        network(json!({"azureName": "v", "dhcpOptions": {}})),
        json!({"name": "v", "properties": {"dhcpOptions": {}}})
    );
}

#[test]
fn whole_numbers_have_no_fraction() {
    let spec = json!({"azureName": "v", "flowTimeoutInMinutes": 4.0});
    let body = mapped("network", "VirtualNetwork", spec, &Resolved::default()).unwrap();
    assert_eq!(
        body.to_string(),
        r#"{"name":"v","properties":{"flowTimeoutInMinutes":4}}"#
    );
}

#[test]
fn member_of_a_union_stands_in_its_place() {
    let spec = json!({
        "azureName": "d",
        "readWriteDatabase": {"kind": "ReadWrite", "location": "x", "softDeletePeriod": "P1D"},
    });
    let body = mapped("kusto", "Database", spec, &Resolved::default()).unwrap();
    let expected = json!({
        "name": "d", "kind": "ReadWrite", "location": "x",
        "properties": {"softDeletePeriod": "P1D"},
    });
    assert_eq!(body, expected);
    let (kind, version) = kind("kusto", "Database");
    let status = status(kind, version, &expected);
    assert_eq!(status.keys().collect::<Vec<_>>(), ["readWrite"]);
    assert_eq!(status["readWrite"]["softDeletePeriod"], "P1D");
}

#[test]
fn missing_objects_are_named_with_the_field() {
    let spec = json!({
        "azureName": "s", "administratorLoginPassword": {"name": "db", "key": "password"},
        "sourceServerResourceReference": {
            "group": "dbforpostgresql.azure.com", "kind": "FlexibleServer", "name": "old",
        },
    });
    let (kind, version) = kind("dbforpostgresql", "FlexibleServer");
    let reference = ObjectReference {
        group: "dbforpostgresql.azure.com".to_owned(),
        kind: "FlexibleServer".to_owned(),
        name: "old".to_owned(),
    };
    let password = KeyReference {
        name: "db".to_owned(),
        key: "password".to_owned(),
    };
    let needed = needs(kind, version, &json!({ "spec": spec })).unwrap();
    assert_eq!(
        needed,
        Needs {
            references: BTreeSet::from([reference.clone()]),
            secrets: BTreeSet::from([password]),
            ..Needs::default()
        }
    );
    let mut resolved = Resolved::default();
    let send =
        |resolved: &Resolved| mapped("dbforpostgresql", "FlexibleServer", spec.clone(), resolved);
    assert_eq!(
        send(&resolved).unwrap_err(),
        "spec.administratorLoginPassword: the Secret \"db\" does not exist"
    );
    resolved.secrets.insert("db".to_owned(), BTreeMap::new());
    assert_eq!(
        send(&resolved).unwrap_err(),
        "spec.administratorLoginPassword: the Secret \"db\" has no text with the key \"password\""
    );
    let data = BTreeMap::from([("password".to_owned(), Hidden::new("p"))]);
    resolved.secrets.insert("db".to_owned(), data);
    assert_eq!(
        send(&resolved).unwrap_err(),
        "spec.sourceServerResourceReference: FlexibleServer.dbforpostgresql.azure.com \"old\" \
         does not exist or has no ARM id yet"
    );
    resolved.ids.insert(reference, "/id".to_owned());
    assert_eq!(
        send(&resolved).unwrap()["properties"],
        json!({"administratorLoginPassword": "p", "sourceServerResourceId": "/id"})
    );
}

#[test]
fn needs_and_the_size_of_values_are_limited() {
    let (kind, version) = kind("app", "ContainerApp");
    let app = |count: usize, names: usize| {
        let secret = |n: usize| {
            let value = json!({"name": format!("s{}", n % names), "key": "k"});
            json!({"name": format!("n{n}"), "value": value})
        };
        let secrets: Vec<_> = (0..count).map(secret).collect();
        json!({"spec": {"azureName": "a", "configuration": {"secrets": secrets}}})
    };
    let needed = needs(kind, version, &app(1024, 256)).unwrap();
    assert_eq!(needed.secrets.len(), 256);
    let error = needs(kind, version, &app(1024, 257)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "spec: it refers to more than 256 other objects and keys"
    );
    let too_large = "spec: the values of Secrets and ConfigMaps that it refers to have more than \
                     8 MiB";
    let mebibyte = || Hidden::new(vec![b'x'; 1 << 20]);
    let mut resolved = Resolved::default();
    for n in 0..9 {
        // Only the key that is needed counts, and is kept.
        let data = ["k", "other"].map(|key| (key.to_owned(), mebibyte()));
        let added = resolved.add_secret(&needed, &format!("s{n}"), data);
        let message = added.err().map(|error| error.to_string());
        let expected = (n > 6).then(|| too_large.to_owned());
        assert_eq!(message, expected, "{n}");
        assert!(!resolved.secrets[&format!("s{n}")].contains_key("other"));
    }
    // One value may be in the body many times.
    let mut resolved = Resolved::default();
    let data = [("k".to_owned(), mebibyte())];
    resolved.add_secret(&needed, "s0", data).unwrap();
    assert!(body(kind, version, &app(7, 1), &resolved).is_ok());
    let error = body(kind, version, &app(8, 1), &resolved).unwrap_err();
    assert_eq!(error.to_string(), too_large);
}

#[test]
fn name_in_azure_may_come_from_a_config_map() {
    let spec = json!({"azureNameFromConfig": {"name": "c", "key": "k"}});
    let mut resolved = Resolved::default();
    let send = |resolved: &Resolved| {
        mapped(
            "dbforpostgresql",
            "FlexibleServersAdministrator",
            spec.clone(),
            resolved,
        )
    };
    assert_eq!(
        send(&resolved).unwrap_err(),
        "spec.azureNameFromConfig: the ConfigMap \"c\" does not exist or has no key \"k\""
    );
    let data = BTreeMap::from([("k".to_owned(), "admin".to_owned())]);
    resolved.config_maps.insert("c".to_owned(), data);
    assert_eq!(send(&resolved).unwrap(), json!({"name": "admin"}));
    assert_eq!(
        mapped("network", "VirtualNetwork", json!({}), &resolved).unwrap_err(),
        "spec.azureName: the name in Azure is empty: the webhook sets it"
    );
}

#[test]
fn owners_are_named_or_have_ids() {
    let (subnet, _) = kind("network", "VirtualNetworksSubnet");
    let owner = |owner: Value| super::owner(subnet, &json!({"spec": {"owner": owner}}));
    assert_eq!(
        owner(json!({"name": "v"})),
        Ok(Some(Reference::Object(ObjectReference {
            group: "network.azure.com".to_owned(),
            kind: "VirtualNetwork".to_owned(),
            name: "v".to_owned(),
        })))
    );
    assert_eq!(
        owner(json!({"armId": GROUP_ID})),
        Ok(Some(Reference::Id(GROUP_ID.to_owned())))
    );
    assert!(owner(json!({"name": "v", "armId": GROUP_ID})).is_err());
    assert!(owner(Value::Null).is_err());
    let (group, _) = kind("resources", "ResourceGroup");
    assert_eq!(super::owner(group, &json!({"spec": {}})), Ok(None));
}

#[test]
fn arm_ids_have_pairs_of_types_and_names() {
    for id in [
        "/subscriptions/s",
        "/SUBSCRIPTIONS/s/resourcegroups/g",
        "/subscriptions/s/providers/P/t/n",
        "/subscriptions/s/resourceGroups/g/providers/P/t/n/u/m",
        "/subscriptions/s/resourceGroups/g/providers/P/t/n/providers/Q/u/m",
        "/providers/P/t/n",
    ] {
        assert!(is_arm_id(id), "{id}");
    }
    for text in [
        "",
        "/",
        "x",
        "/subscriptions",
        "/subscriptions/",
        "/resourceGroups/g",
        "/subscriptions/s/resourceGroups",
        "/subscriptions/s/providers/P",
        "/subscriptions/s/providers/P/t",
        "/subscriptions/s/x/y",
        "subscriptions/s",
        "/subscriptions//resourceGroups/g",
    ] {
        assert!(!is_arm_id(text), "{text}");
    }
}

/// Expressions of the form `secret.FIELD`, `{FIELD}` for a map with it, or any other text.
struct Simple;

impl Expressions for Simple {
    fn secrets_used(&self, expression: &str) -> Result<BTreeSet<String>, String> {
        let field = expression.trim_matches(['{', '}']).strip_prefix("secret.");
        match expression {
            "" => Err("it is empty".to_owned()),
            _ => Ok(field.map(str::to_owned).into_iter().collect()),
        }
    }

    fn evaluate(
        &self,
        expression: &str,
        object: &Value,
        secrets: &BTreeMap<String, Hidden>,
        _: &mut CostBudget,
    ) -> Result<Evaluated, String> {
        let field = expression.trim_matches(['{', '}']);
        let name = field.strip_prefix("secret.");
        let value = match name {
            Some(name) => secrets.get(name).cloned().ok_or("no such secret")?,
            None => Hidden::new(object["metadata"]["name"].as_str().unwrap()),
        };
        Ok(match expression.starts_with('{') {
            true => Evaluated::Texts(BTreeMap::from([("k".to_owned(), value)])),
            false => Evaluated::Text(value),
        })
    }
}

fn account(operator: Value) -> Value {
    let id = format!("{GROUP_ID}/providers/Microsoft.Storage/storageAccounts/a");
    json!({
        "metadata": {"name": "a", "annotations": {RESOURCE_ID: id}},
        "spec": {"operatorSpec": operator},
        "status": {"primaryEndpoints": {"blob": "https://b"}},
    })
}

#[test]
fn calls_are_made_for_values_that_only_they_have() {
    let (kind, _) = kind("storage", "StorageAccount");
    let planned = |operator: Value| calls(kind, &account(operator), &Simple).unwrap();
    let destination = json!({"name": "s", "key": "k"});
    assert_eq!(planned(json!({})), []);
    assert_eq!(
        planned(json!({"secrets": {"blobEndpoint": destination}})),
        []
    );
    let id = format!("{GROUP_ID}/providers/Microsoft.Storage/storageAccounts/a");
    let keys = [PlannedCall {
        index: 0,
        post: true,
        id,
        suffix: "listKeys".to_owned(),
        api_version: kind.exports().calls[0].api_version.clone(),
    }];
    assert_eq!(planned(json!({"secrets": {"key1": destination}})), keys);
    let expression = json!({"name": "s", "key": "k", "value": "secret.key2"});
    assert_eq!(planned(json!({"secretExpressions": [expression]})), keys);
    let mut unclaimed = account(json!({"secrets": {"key1": destination}}));
    unclaimed["metadata"] = json!({});
    assert_eq!(calls(kind, &unclaimed, &Simple), Err(ExportError::NoId));
}

#[test]
fn exports_to_one_object_are_merged() {
    let (kind, _) = kind("storage", "StorageAccount");
    let object = account(json!({
        "secrets": {
            "key1": {"name": "s", "key": "key", "labels": {"a": "b"}},
            "blobEndpoint": {"name": "s", "key": "endpoint"},
            "dfsEndpoint": {"name": "s", "key": "absent"},
        },
        "secretExpressions": [
            {"name": "s", "value": "{secret.key2}", "annotations": {"n": "name"}},
        ],
        "configMapExpressions": [{"name": "c", "key": "n", "value": "name"}],
    }));
    let keys = json!({"keys": [
        {"keyName": "key1", "value": "one"}, {"keyName": "key2", "value": "two"},
    ]});
    let responses = BTreeMap::from([(0, keys)]);
    let exported = objects(kind, &object, &responses, &Simple).unwrap();
    let summary: Vec<_> = exported
        .iter()
        .map(|it| (it.target, it.name.as_str(), json!({
            "data": it.data.iter().map(|(key, value)| (key.clone(), value.text().unwrap().into()))
                .collect::<Map<_, _>>(),
            "labels": it.labels, "annotations": it.annotations,
        })))
        .collect();
    assert_eq!(
        summary,
        [
            (
                Target::Secret,
                "s",
                json!({
                    "data": {"key": "one", "endpoint": "https://b", "k": "two"},
                    "labels": {"a": "b"}, "annotations": {"n": "a"},
                })
            ),
            (
                Target::ConfigMap,
                "c",
                json!({"data": {"n": "a"}, "labels": {}, "annotations": {}})
            ),
        ]
    );
    assert!(!format!("{exported:?}").contains("two"));
}

#[test]
fn two_exports_under_one_key_are_refused() {
    let (kind, _) = kind("storage", "StorageAccount");
    let object = account(json!({
        "secrets": {"blobEndpoint": {"name": "s", "key": "k"}},
        "secretExpressions": [{"name": "s", "value": "{name}"}],
    }));
    let error = objects(kind, &object, &BTreeMap::new(), &Simple).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Secret \"s\" gets the key \"k\" from two exports"
    );
}

#[test]
fn secrets_are_not_visible_to_expressions_of_config_maps() {
    let (kind, _) = kind("storage", "StorageAccount");
    let object = account(json!({
        "secrets": {"blobEndpoint": {"name": "s", "key": "k"}},
        "configMapExpressions": [{"name": "c", "key": "k", "value": "secret.blobEndpoint"}],
    }));
    let error = objects(kind, &object, &BTreeMap::new(), &Simple).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the expression \"secret.blobEndpoint\" failed: no such secret"
    );
}

#[test]
fn exports_are_limited_in_number_and_size() {
    let (kind, _) = kind("storage", "StorageAccount");
    let refused = |count: usize, name: fn(usize) -> String, text: usize| {
        let entry = |number| json!({"name": name(number), "key": format!("k{number}"), "value": "self.metadata.annotations"});
        let entries: Vec<_> = (0..count).map(entry).collect();
        let mut object = account(json!({ "configMapExpressions": entries }));
        object["metadata"]["annotations"]["x"] = "x".repeat(text).into();
        let exported = objects(kind, &object, &BTreeMap::new(), &Cel);
        exported
            .map(|it| it.len())
            .map_err(|error| error.to_string())
    };
    let separate: fn(usize) -> String = |number| format!("a{number}");
    let many = "spec.operatorSpec has 20000 expressions, and 256 are allowed";
    assert_eq!(refused(20_000, separate, 250_000), Err(many.to_owned()));
    let total = "the exported objects would have more than 8388608 bytes together";
    assert_eq!(refused(100, separate, 250_000), Err(total.to_owned()));
    assert_eq!(refused(20, separate, 250_000), Ok(20));
    let target = "ConfigMap \"one\" would have more than 1048576 bytes";
    let mut object = account(json!({"configMapExpressions": []}));
    let entry = |number: usize| json!({"name": "one", "key": format!("k{number}"), "value": "self.spec.text"});
    object["spec"]["operatorSpec"]["configMapExpressions"] = (0..6).map(entry).collect();
    object["spec"]["text"] = "x".repeat(200_000).into();
    let error = objects(kind, &object, &BTreeMap::new(), &Cel).unwrap_err();
    assert_eq!(error.to_string(), target);
    let long = json!([{"name": "a", "key": "k", "value": format!("'{}'", "x".repeat(16 << 10))}]);
    let object = account(json!({ "secretExpressions": long }));
    let error = calls(kind, &object, &Cel).unwrap_err();
    assert_eq!(error, ExportError::LongExpression);
}

#[test]
fn encoded_values_are_decoded() {
    let (kind, _) = kind("containerservice", "ManagedCluster");
    let mut object = account(json!({
        "secrets": {"adminCredentials": {"name": "s", "key": "k"}},
    }));
    object["status"] = json!({});
    let response = |text: &str| BTreeMap::from([(0, json!({"kubeconfigs": [{"value": text}]}))]);
    let exported = objects(kind, &object, &response("a3ViZQ=="), &Simple).unwrap();
    assert_eq!(exported[0].data["k"].text(), Some("kube"));
    let error = objects(kind, &object, &response("?"), &Simple).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the value of adminCredentials is not base64"
    );
}

#[test]
fn imports_have_names_owners_and_fields_of_the_schema() {
    let (kind, version) = kind("network", "VirtualNetworksSubnet");
    let network = format!("{GROUP_ID}/providers/Microsoft.Network/virtualNetworks/Shop_Net");
    let response = json!({
        "id": format!("{network}/subnets/Front"), "name": "Front", "etag": "x",
        "type": "Microsoft.Network/virtualNetworks/subnets",
        "properties": {
            "addressPrefix": "10.0.0.0/24", "provisioningState": "Succeeded", "delegations": [],
            "natGateway": {"id": "/nat"},
        },
    });
    let reference = json!({"type": "object", "properties": {"armId": {}}});
    let schema = json!({"type": "object", "properties": {
        "azureName": {}, "owner": {}, "addressPrefix": {}, "delegations": {},
        "natGateway": {"type": "object", "properties": {"reference": reference}},
    }});
    assert_eq!(
        import(kind, version, &response, Some(&schema)),
        json!({
            "apiVersion": format!("network.azure.com/{}", version.name()),
            "kind": "VirtualNetworksSubnet",
            "metadata": {"name": "shop-net-front"},
            "spec": {
                "azureName": "Front", "owner": {"armId": network},
                "addressPrefix": "10.0.0.0/24", "natGateway": {"reference": {"armId": "/nat"}},
            },
        })
    );
    let (kind, version) = super::tests::kind("network", "VirtualNetwork");
    let imported = import(kind, version, &json!({"id": network}), None);
    assert_eq!(imported["spec"]["owner"]["armId"], GROUP_ID);
    let (kind, version) = super::tests::kind("resources", "ResourceGroup");
    let imported = import(
        kind,
        version,
        &json!({"id": GROUP_ID, "location": "x"}),
        None,
    );
    assert_eq!(imported["spec"], json!({"azureName": "g", "location": "x"}));
}

#[test]
fn names_of_imports_are_valid_and_enumerations_are_spelled_as_the_schema_has_them() {
    let (kind, version) = kind("network", "VirtualNetwork");
    let long = "x".repeat(250);
    for (name, expected) in [
        ("@", "virtualnetwork"),
        ("-Net.One_", "net-one"),
        ("größe", "gr--e"),
        (&format!("{long}.-.y"), &long),
    ] {
        let id = format!("{GROUP_ID}/providers/Microsoft.Network/virtualNetworks/{name}");
        let imported = import(kind, version, &json!({"id": id}), None);
        assert_eq!(imported["metadata"]["name"], expected, "{name}");
        assert_eq!(imported["spec"]["azureName"], name);
    }
    let distinct = import::distinct_name(&"x".repeat(253), "/ID");
    assert_eq!(distinct.len(), 253);
    assert_eq!(distinct, import::distinct_name(&"x".repeat(253), "/id"));
    assert_ne!(distinct, import::distinct_name(&"x".repeat(253), "/other"));
    let schema = json!({"properties": {
        "flowTimeoutInMinutes": {}, "privateEndpointVNetPolicies": {"enum": ["Basic", "Disabled"]},
    }});
    let id = format!("{GROUP_ID}/providers/Microsoft.Network/virtualNetworks/n");
    let response = json!({"id": id, "properties": {"privateEndpointVNetPolicies": "basic"}});
    let imported = import(kind, version, &response, Some(&schema));
    assert_eq!(
        imported["spec"],
        json!({"privateEndpointVNetPolicies": "Basic"})
    );
}

#[test]
fn resources_that_azure_creates_for_itself_are_not_useful() {
    let (database, version) = kind("dbforpostgresql", "FlexibleServersDatabase");
    let server = format!("{GROUP_ID}/providers/Microsoft.DBforPostgreSQL/flexibleServers/s");
    let imported = |name: &str| {
        let response = json!({"id": format!("{server}/databases/{name}")});
        import(database, version, &response, None)
    };
    assert!(import::is_useful(database, &imported("orders")));
    assert!(!import::is_useful(database, &imported("azure_sys")));
    let text = import::yaml(&imported("orders")).unwrap();
    assert!(text.contains("azureName: orders\n"), "{text}");
}
