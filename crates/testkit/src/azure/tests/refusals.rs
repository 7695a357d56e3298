//! Requests that ARM refuses.

use http::Method;
use serde_json::json;

use super::{Bench, GROUP, caller, versioned, within};

fn refusal(bench: &mut Bench, method: Method, url: &str) -> (u16, String) {
    let response = bench.send(method, url, Some(json!({"location": "westus2"})));
    (response.status, response.code())
}

#[test]
fn version_of_the_api_is_required() {
    let mut bench = Bench::new();
    let missing = (400, "MissingApiVersionParameter".to_owned());
    assert_eq!(refusal(&mut bench, Method::GET, GROUP), missing);
    let invalid = (400, "InvalidApiVersionParameter".to_owned());
    let url = format!("{GROUP}?api-version=latest");
    assert_eq!(refusal(&mut bench, Method::GET, &url), invalid);
}

#[test]
fn missing_groups_parents_and_resources_have_codes_of_their_own() {
    let mut bench = Bench::new();
    let network = within("Microsoft.Network/virtualNetworks/v");
    let elsewhere = network.replace("/G/", "/H/");
    for method in [Method::PUT, Method::GET, Method::DELETE] {
        let refused = refusal(&mut bench, method.clone(), &versioned(&elsewhere));
        assert_eq!(refused, (404, "ResourceGroupNotFound".to_owned()));
        let child = format!("{network}/subnets/s");
        let refused = refusal(&mut bench, method, &versioned(&child));
        assert_eq!(refused, (404, "ParentResourceNotFound".to_owned()));
    }
    for method in [Method::GET, Method::DELETE, Method::PATCH] {
        let refused = refusal(&mut bench, method, &versioned(&network));
        assert_eq!(refused, (404, "ResourceNotFound".to_owned()));
    }
    assert_eq!(
        bench.get("/subscriptions/S/resourceGroups/H").code(),
        "ResourceGroupNotFound"
    );
    let response = bench.send(Method::HEAD, &versioned(&network), None);
    assert_eq!(response.status, 404);
    let response = bench.send(Method::HEAD, &versioned(GROUP), None);
    assert_eq!(response.status, 204);
}

#[test]
fn subscription_accepts_only_its_tenant_and_its_clients() {
    let mut bench = Bench::new();
    bench.caller = caller("red");
    let refused = bench.get(GROUP);
    assert_eq!(
        (refused.status, refused.code()),
        (403, "AuthorizationFailed".to_owned())
    );
    let message = refused.value()["error"]["message"].to_string();
    assert!(
        message.contains("'red' with object id 'red-principal'"),
        "{message}"
    );
    assert!(
        message.contains("Microsoft.Resources/resourceGroups/read"),
        "{message}"
    );
    bench.arm.subscriptions.grant("RED", GROUP);
    assert_eq!(bench.get(GROUP).status, 200);
    let other = "/subscriptions/S/resourceGroups/other";
    assert_eq!(bench.put(other, json!({"location": "westus2"})).status, 403);
    bench.caller.tenant = "elsewhere".to_owned();
    assert_eq!(bench.get(GROUP).code(), "InvalidAuthenticationTokenTenant");
    assert_eq!(
        bench.get("/subscriptions/R/resourceGroups/G").code(),
        "SubscriptionNotFound"
    );
}

#[test]
fn role_assignment_gives_a_principal_access_to_its_scope() {
    let mut bench = Bench::new();
    let assignment = within("Microsoft.Authorization/roleAssignments/r");
    let body = json!({"properties": {"principalId": "red-principal"}});
    let created = bench.put(&assignment, body);
    assert_eq!(created.status, 201);
    assert!(created.headers.is_empty(), "{created:?}");
    assert_eq!(
        created.value()["properties"]["provisioningState"],
        json!(null)
    );
    bench.caller = caller("red");
    assert_eq!(bench.get(GROUP).status, 200);
    assert_eq!(bench.get("/subscriptions/S").status, 403);
}

#[test]
fn provider_must_be_registered() {
    let mut bench = Bench::new();
    bench.arm.subscriptions.unregister("S", "Microsoft.Storage");
    bench.arm.subscriptions.registration_takes = 1;
    let account = within("Microsoft.Storage/storageAccounts/a");
    let put = |bench: &mut Bench| bench.put(&account, json!({"location": "westus2"}));
    let refused = put(&mut bench);
    assert_eq!(
        (refused.status, refused.code()),
        (409, "MissingSubscriptionRegistration".to_owned())
    );
    let target = refused.value()["error"]["details"][0]["target"].clone();
    assert_eq!(target, "Microsoft.Storage");
    let registering = bench.post("/subscriptions/S/providers/Microsoft.Storage/register");
    assert_eq!(registering.value()["registrationState"], "Registering");
    assert_eq!(put(&mut bench).status, 409);
    assert_eq!(put(&mut bench).status, 202);
    let provider = bench.get("/subscriptions/S/providers/microsoft.storage");
    assert_eq!(provider.value()["registrationState"], "Registered");
}

#[test]
fn location_is_required_and_does_not_change() {
    let mut bench = Bench::new();
    let vault = within("Microsoft.KeyVault/vaults/v");
    assert_eq!(bench.put(&vault, json!({})).code(), "LocationRequired");
    bench.create(&vault, json!({"location": "UK South"}));
    assert_eq!(
        bench.put(&vault, json!({"location": "uksouth"})).status,
        200
    );
    assert_eq!(
        bench.put(&vault, json!({"location": "westus2"})).code(),
        "InvalidResourceLocation"
    );
    let moved = bench.put(GROUP, json!({"location": "uksouth"}));
    assert_eq!(
        (moved.status, moved.code()),
        (409, "InvalidResourceGroupLocation".to_owned())
    );
    let garbage = bench.send(Method::PUT, &versioned(&vault), None);
    assert_eq!(
        (garbage.status, garbage.code()),
        (400, "InvalidRequestContent".to_owned())
    );
}
