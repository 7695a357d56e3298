//! Ids in all scopes.

use proptest::prelude::*;

use super::*;

const GROUP: &str = "/subscriptions/s-1/resourceGroups/g";
const NETWORK: &str =
    "/subscriptions/s-1/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v";

fn id(text: &str) -> ResourceId {
    text.parse().unwrap()
}

fn kind(text: &str) -> ResourceType {
    text.parse().unwrap()
}

#[test]
fn ids_of_all_scopes_are_parsed() {
    type Row<'a> = (&'a str, Option<&'a str>, Option<&'a str>, &'a str, &'a str);
    let table: [Row<'_>; 9] = [
        (
            "/subscriptions/s-1",
            Some("s-1"),
            None,
            "Microsoft.Resources/subscriptions",
            "s-1",
        ),
        (
            GROUP,
            Some("s-1"),
            Some("g"),
            "Microsoft.Resources/resourceGroups",
            "g",
        ),
        (
            "/subscriptions/S/resourcegroups/G/providers/microsoft.network/virtualNetworks/V",
            Some("S"),
            Some("G"),
            "microsoft.network/virtualNetworks",
            "V",
        ),
        (
            "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/n",
            Some("s"),
            Some("g"),
            "Microsoft.Network/virtualNetworks/subnets",
            "n",
        ),
        (
            "/subscriptions/s/providers/Microsoft.KeyVault/locations/westus/deletedVaults/v",
            Some("s"),
            None,
            "Microsoft.KeyVault/locations/deletedVaults",
            "v",
        ),
        (
            "/subscriptions/s/resourceGroups/g/providers/A.B/c/d/providers/Microsoft.Authorization/roleAssignments/r",
            Some("s"),
            Some("g"),
            "Microsoft.Authorization/roleAssignments",
            "r",
        ),
        (
            "/providers/Microsoft.Management/managementGroups/m/",
            None,
            None,
            "Microsoft.Management/managementGroups",
            "m",
        ),
        (
            "/subscriptions/s/providers/Microsoft.Subscription/aliases/a b",
            Some("s"),
            None,
            "Microsoft.Subscription/aliases",
            "a b",
        ),
        (
            "/subscriptions/s/providers/A.B/c/providers/providers/C.D/e/f",
            Some("s"),
            None,
            "C.D/e",
            "f",
        ),
    ];
    for (text, subscription, group, resource_type, name) in table {
        let id = id(text);
        assert_eq!(id.subscription(), subscription, "{text}");
        assert_eq!(id.resource_group(), group, "{text}");
        assert_eq!(id.resource_type(), resource_type, "{text}");
        assert_eq!(id.name(), name, "{text}");
    }
}

#[test]
fn other_texts_are_not_ids() {
    for text in [
        "",
        "/",
        "subscriptions/s",
        "/subscriptions",
        "/subscriptions/",
        "/subscriptions//resourceGroups/g",
        "/subscriptions/s/resourceGroups",
        "/subscriptions/s/resourceGroups/g/x/y",
        "/subscriptions/s/resourceGroups/g/providers",
        "/subscriptions/s/resourceGroups/g/providers/A.B",
        "/subscriptions/s/resourceGroups/g/providers/A.B/c",
        "/subscriptions/s/resourceGroups/g/providers/A.B/c/d/e",
        "/subscriptions/s/resourceGroups/../providers/A.B/c/d",
        "/subscriptions/s/resourceGroups/g?x/providers/A.B/c/d",
        "/subscriptions/s/resourceGroups/%2e%2e/providers/A.B/c/d",
        "/tenants/t",
        "https://management.azure.com/subscriptions/s",
    ] {
        let parsed = text.parse::<ResourceId>();
        assert_eq!(parsed, Err(InvalidId::Malformed(text.to_owned())));
    }
    let long = format!("/subscriptions/{}", "s".repeat(MAX_ID_BYTES));
    assert!(long.parse::<ResourceId>().is_err());
}

#[test]
fn ids_are_composed_in_all_scopes() {
    let network = kind("Microsoft.Network/virtualNetworks");
    let assignment = kind("Microsoft.Authorization/roleAssignments");
    let group = ResourceId::of_resource_group("s-1", "g").unwrap();
    assert_eq!(group.as_str(), GROUP);
    let vnet = group.extension(&network, &["v"]).unwrap();
    assert_eq!(vnet.as_str(), NETWORK);
    assert_eq!(
        vnet.child("subnets", "n").unwrap().as_str(),
        format!("{NETWORK}/subnets/n")
    );
    let assigned = vnet.extension(&assignment, &["r"]).unwrap();
    let expected = format!("{NETWORK}/providers/Microsoft.Authorization/roleAssignments/r");
    assert_eq!(assigned.as_str(), expected);
    let subnets = kind("Microsoft.Network/virtualNetworks/subnets");
    let subnet = group.extension(&subnets, &["v", "n"]).unwrap();
    assert_eq!(subnet.as_str(), format!("{NETWORK}/subnets/n"));
    let of_tenant = ResourceId::of_tenant(&kind("Microsoft.Subscription/aliases"), &["a"]);
    assert_eq!(
        of_tenant.unwrap().as_str(),
        "/providers/Microsoft.Subscription/aliases/a"
    );
    let subscription = ResourceId::of_subscription("s-1").unwrap();
    assert!(vnet.is_within(&subscription) && vnet.is_within(&group) && vnet.is_within(&vnet));
    assert!(!vnet.is_within(&ResourceId::of_resource_group("s-1", "g2").unwrap()));
    assert!(!group.is_within(&ResourceId::of_subscription("s-").unwrap()));
}

#[test]
fn owner_that_is_named_by_id_is_a_prefix() {
    let subnets = kind("Microsoft.Network/virtualNetworks/subnets");
    let network = kind("Microsoft.Network/virtualNetworks");
    for (owner, kind, names, expected) in [
        (GROUP, &network, &["v"][..], NETWORK.to_owned()),
        (NETWORK, &subnets, &["n"], format!("{NETWORK}/subnets/n")),
        (
            "/subscriptions/s/resourcegroups/g/providers/microsoft.network/virtualnetworks/v",
            &subnets,
            &["n"],
            "/subscriptions/s/resourcegroups/g/providers/microsoft.network/virtualnetworks/v\
             /subnets/n"
                .to_owned(),
        ),
        (
            "/subscriptions/s",
            &network,
            &["v"],
            "/subscriptions/s/providers/Microsoft.Network/virtualNetworks/v".to_owned(),
        ),
        (GROUP, &subnets, &["v", "n"], format!("{NETWORK}/subnets/n")),
    ] {
        let id_below = ResourceId::below_owner(&id(owner), kind, names).unwrap();
        assert_eq!(id_below.as_str(), expected);
    }
    let many = ResourceId::below_owner(&id(GROUP), &network, &["a", "b"]).unwrap_err();
    let message = "the type Microsoft.Network/virtualNetworks needs 1 names, and there are 2";
    assert_eq!(many.to_string(), message);
}

#[test]
fn name_that_addresses_another_resource_is_refused() {
    let network = kind("Microsoft.Network/virtualNetworks");
    for name in [
        "", " ", ".", "..", "...", "a/b", "a\\b", "a?b", "a#b", "a%2fb", "a\nb",
    ] {
        let group = ResourceId::of_resource_group("s", name);
        assert_eq!(group, Err(InvalidId::Name(name.to_owned())));
        let vnet = id(GROUP).extension(&network, &[name]);
        assert_eq!(vnet, Err(InvalidId::Name(name.to_owned())));
        assert!(id(NETWORK).child("subnets", name).is_err());
    }
    for text in [
        "",
        "Microsoft.Network",
        "Microsoft.Network/",
        "/a",
        "a/../b",
        "a/b c",
    ] {
        let parsed = text.parse::<ResourceType>();
        assert_eq!(parsed, Err(InvalidId::Type(text.to_owned())));
    }
}

#[test]
fn ids_are_equal_without_regard_to_case() {
    let upper = id("/subscriptions/S-1/resourceGroups/G");
    assert_eq!(id(GROUP), upper);
    assert_ne!(id(GROUP), id("/subscriptions/s-1/resourceGroups/h"));
    let known = std::collections::HashSet::from([id(GROUP)]);
    assert!(known.contains(&upper));
}

#[test]
fn segments_are_encoded_in_urls() {
    let path = id("/subscriptions/s/resourceGroups/g (1)/providers/A.B/c_d/UK South@ü").url_path();
    let expected = "/subscriptions/s/resourceGroups/g%20(1)/providers/A.B/c_d/UK%20South@%C3%BC";
    assert_eq!(path, expected);
}

proptest! {
    #[test]
    fn composed_ids_round_trip(group in "[a-zA-Z0-9._() -]{1,20}", name in ".{1,20}") {
        let Ok(group) = ResourceId::of_resource_group("s", &group) else {
            return Ok(());
        };
        let vnet = group.extension(&kind("Microsoft.Network/virtualNetworks"), &[&name]);
        if let Ok(vnet) = vnet {
            prop_assert_eq!(vnet.name(), &name);
            prop_assert_eq!(&id(vnet.as_str()), &vnet);
            prop_assert!(vnet.is_within(&group));
            let path = vnet.url_path();
            prop_assert!(path.parse::<http::Uri>().is_ok(), "{}", path);
            prop_assert_eq!(path.matches('/').count(), 8);
        }
    }
}
