//! Long-running operations.

use serde_json::json;

use super::{Bench, GROUP, within};

#[test]
fn async_operation_has_a_signed_url_and_ends_after_its_polls() {
    let mut bench = Bench::new();
    bench.arm.manners.polls = 2;
    bench.arm.manners.retry_after = Some(7);
    let network = within("Microsoft.Network/virtualNetworks/v");
    let created = bench.put(&network, json!({"location": "UK South"}));
    assert_eq!(created.status, 201);
    assert_eq!(
        created.value()["properties"]["provisioningState"],
        "Updating"
    );
    assert_eq!(created.header("Retry-After").as_deref(), Some("7"));
    let url = created.header("Azure-AsyncOperation").unwrap();
    assert!(url.contains("/locations/UK%20South/operations/"), "{url}");
    assert!(url.len() > 2000, "{url}");
    for _ in 0..2 {
        let poll = bench.poll(&url);
        assert_eq!(
            (poll.status, &poll.value()["status"]),
            (200, &json!("InProgress"))
        );
        assert_eq!(poll.header("Retry-After").as_deref(), Some("7"));
    }
    assert_eq!(bench.poll(&url).value()["status"], "Succeeded");
    let shown = bench.get(&network).value();
    assert_eq!(shown["properties"]["provisioningState"], "Succeeded");
    let (unsigned, _) = url.split_once("&t=").unwrap();
    assert_eq!(bench.poll(unsigned).code(), "InvalidOperationSignature");
    bench.arm.forget_operations();
    assert_eq!(bench.poll(&url).status, 404);
}

#[test]
fn location_changes_its_signature_and_every_url_stays_valid() {
    let mut bench = Bench::new();
    bench.arm.manners.polls = 3;
    let account = within("Microsoft.Storage/storageAccounts/a");
    let body = json!({"location": "westus2", "sku": {"name": "Standard_LRS"}});
    let accepted = bench.put(&account, body.clone());
    assert_eq!((accepted.status, accepted.value()), (202, json!(null)));
    let first = accepted.header("Location").unwrap();
    assert_eq!(
        bench.post(&format!("{account}/listKeys")).code(),
        "StorageAccountIsNotProvisioned"
    );
    let poll = bench.poll(&first);
    assert_eq!(poll.status, 202);
    let second = poll.header("Location").unwrap();
    assert_ne!(first, second);
    assert_eq!(bench.poll(&first).status, 202);
    let done = bench.poll(&second);
    assert_eq!(done.status, 200);
    let blob = &done.value()["properties"]["primaryEndpoints"]["blob"];
    assert_eq!(*blob, "https://a.blob.core.windows.net/");
    assert_eq!(bench.poll(&first).status, 200);
    let again = bench.put(&account, body);
    assert_eq!((again.status, again.headers.len()), (200, 0));
    let keys = bench.post(&format!("{account}/listKeys")).value();
    assert_eq!(keys["keys"][0]["keyName"], "key1");
}

#[test]
fn group_is_deleted_over_several_polls_with_everything_in_it() {
    let mut bench = Bench::new();
    bench.arm.manners.polls = 2;
    let network = within("Microsoft.Network/virtualNetworks/v");
    bench.create(&network, json!({"location": "westus2"}));
    bench.create(&format!("{network}/subnets/s"), json!({}));
    bench.create(
        &within("Microsoft.Network/routeTables/r"),
        json!({"location": "westus2"}),
    );
    let accepted = bench.delete(GROUP);
    assert_eq!(accepted.status, 202);
    assert_eq!(accepted.header("Azure-AsyncOperation"), None);
    let url = accepted.header("Location").unwrap();
    assert!(url.contains("/subscriptions/S/operationresults/"), "{url}");
    let late = bench.put(&network, json!({"location": "westus2"}));
    assert_eq!(
        (late.status, late.code()),
        (409, "ResourceGroupBeingDeleted".to_owned())
    );
    assert_eq!(bench.arm.resources.len(), 4);
    let mut left = Vec::new();
    for status in [202, 202, 200] {
        assert_eq!(bench.poll(&url).status, status);
        left.push(bench.arm.resources.len());
    }
    assert_eq!(left, [2, 1, 0]);
    assert_eq!(bench.delete(GROUP).code(), "ResourceGroupNotFound");
    assert_eq!(bench.delete(&network).code(), "ResourceGroupNotFound");
}

#[test]
fn failed_operation_has_its_error_and_the_resource_its_state() {
    let mut bench = Bench::new();
    let error = json!({"code": "SkuNotAvailable", "message": "none"});
    let failure = (
        "microsoft.network/virtualnetworks".to_owned(),
        error.clone(),
    );
    bench.arm.failures.push_back(failure);
    let network = within("Microsoft.Network/virtualNetworks/v");
    let url = bench.put(&network, json!({"location": "westus2"}));
    let url = url.header("Azure-AsyncOperation").unwrap();
    bench.poll(&url);
    let failed = bench.poll(&url);
    assert_eq!(
        (failed.status, &failed.value()["status"]),
        (200, &json!("Failed"))
    );
    assert_eq!(failed.value()["error"], error);
    assert_eq!(
        bench.get(&network).value()["properties"]["provisioningState"],
        "Failed"
    );
    bench.create(&network, json!({"location": "westus2"}));
    assert_eq!(
        bench.get(&network).value()["properties"]["provisioningState"],
        "Succeeded"
    );
}

#[test]
fn put_during_an_operation_supersedes_it() {
    let mut bench = Bench::new();
    let network = within("Microsoft.Network/virtualNetworks/v");
    let first = bench.put(&network, json!({"location": "westus2"}));
    let second = bench.put(&network, json!({"location": "westus2", "tags": {"a": "b"}}));
    assert_eq!(second.status, 200);
    let canceled = bench
        .poll(&first.header("Azure-AsyncOperation").unwrap())
        .value();
    assert_eq!(canceled["status"], "Canceled");
    assert_eq!(
        canceled["error"]["code"],
        "CanceledAndSupersededDueToAnotherOperation"
    );
    let url = second.header("Azure-AsyncOperation").unwrap();
    bench.poll(&url);
    assert_eq!(bench.poll(&url).value()["status"], "Succeeded");
}

#[test]
fn delete_answers_in_the_manner_of_its_type() {
    let mut bench = Bench::new();
    let network = within("Microsoft.Network/virtualNetworks/v");
    bench.create(&network, json!({"location": "westus2"}));
    let accepted = bench.delete(&network);
    assert_eq!(accepted.status, 202);
    assert_eq!(
        bench.get(&network).value()["properties"]["provisioningState"],
        "Deleting"
    );
    let url = accepted.header("Azure-AsyncOperation").unwrap();
    assert_eq!(bench.poll(&url).value()["status"], "Succeeded");
    assert_eq!(bench.get(&network).code(), "ResourceNotFound");
    let result = accepted.header("Location").unwrap();
    assert_eq!(bench.poll(&result).status, 204);
    let account = within("Microsoft.Storage/storageAccounts/a");
    bench.create(&account, json!({"location": "westus2"}));
    assert_eq!(bench.delete(&account).status, 200);
    assert_eq!(bench.delete(&account).status, 404);
}

#[test]
fn operation_with_forgotten_urls_is_observed_by_reading_the_resource() {
    let mut bench = Bench::new();
    let network = within("Microsoft.Network/virtualNetworks/v");
    let url = bench.put(&network, json!({"location": "westus2"}));
    let url = url.header("Azure-AsyncOperation").unwrap();
    bench.arm.forget_operations();
    assert_eq!(bench.poll(&url).status, 404);
    let states: Vec<_> = (0..2)
        .map(|_| bench.get(&network).value()["properties"]["provisioningState"].clone())
        .collect();
    assert_eq!(states, ["Updating", "Succeeded"]);
    let accepted = bench.delete(GROUP).header("Location").unwrap();
    bench.arm.forget_operations();
    assert_eq!(bench.poll(&accepted).status, 404);
}

#[test]
fn error_object_appears_beside_progress_and_success() {
    let mut bench = Bench::new();
    let profile = within("Microsoft.Cdn/profiles/p");
    let url = bench.put(&profile, json!({"location": "global"}));
    let url = url.header("Azure-AsyncOperation").unwrap();
    for status in ["InProgress", "Succeeded"] {
        let document = bench.poll(&url).value();
        assert_eq!(document["status"], status);
        assert_eq!(document["error"]["code"], "None");
    }
}
