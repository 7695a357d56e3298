//! Collections.

use serde_json::{Value, json};

use super::{Bench, GROUP, within};

/// The names of the elements of all pages.
fn names(bench: &mut Bench, collection: &str) -> Vec<Value> {
    let mut page = bench.get(collection).value();
    let mut names = Vec::new();
    loop {
        let elements = page["value"].as_array().unwrap();
        names.extend(elements.iter().map(|element| element["name"].clone()));
        let Some(next) = page["nextLink"].as_str().map(str::to_owned) else {
            return names;
        };
        page = bench.poll(&next).value();
    }
}

#[test]
fn collection_has_the_direct_children_in_pages() {
    let mut bench = Bench::new();
    let network = within("Microsoft.Network/virtualNetworks/v");
    bench.create(&network, json!({"location": "westus2"}));
    for name in ["a", "b", "c"] {
        bench.create(&format!("{network}/subnets/{name}"), json!({}));
    }
    bench.arm.page_size = Some(2);
    let subnets = format!("{network}/subnets");
    assert_eq!(bench.get(&subnets).value()["value"][1]["name"], "b");
    assert_eq!(names(&mut bench, &subnets), ["a", "b", "c"]);
    let networks = within("Microsoft.Network/virtualNetworks");
    assert_eq!(names(&mut bench, &networks), ["v"]);
    // The resources of a group are those with a location, without properties.
    let all = bench.get(&format!("{GROUP}/resources")).value();
    assert_eq!(
        all["value"],
        json!([{
            "id": network, "name": "v", "type": "Microsoft.Network/virtualNetworks",
            "location": "westus2",
        }])
    );
}

#[test]
fn roles_are_filtered_by_name_and_assignments_are_inherited() {
    let mut bench = Bench::new();
    let roles = "/subscriptions/S/providers/Microsoft.Authorization/roleDefinitions";
    let filtered = |filter: &str| format!("{roles}?api-version=2022-04-01&$filter={filter}");
    let found = bench.poll(&filtered("roleName%20eq%20'reader'")).value();
    assert_eq!(found["value"][0]["properties"]["type"], "BuiltInRole");
    assert_eq!(found["value"].as_array().unwrap().len(), 1);
    let refused = bench.poll(&filtered("name%20lt%20'a'"));
    assert_eq!(refused.status, 400);
    let of_group = format!("{GROUP}/providers/Microsoft.Authorization/roleAssignments");
    bench.create(&format!("{of_group}/one"), json!({"properties": {}}));
    let identity = within("Microsoft.ManagedIdentity/userAssignedIdentities/i");
    bench.create(&identity, json!({"location": "westus2"}));
    let of_identity = format!("{identity}/providers/Microsoft.Authorization/roleAssignments");
    bench.create(&format!("{of_identity}/two"), json!({"properties": {}}));
    assert_eq!(names(&mut bench, &of_identity), ["one", "two"]);
    let at_scope = format!("{of_group}?api-version=2022-04-01&$filter=atScope()");
    let found = bench.poll(&at_scope).value();
    assert_eq!(found["value"].as_array().unwrap().len(), 1);
    assert_eq!(found["value"][0]["properties"]["scope"], GROUP);
}
