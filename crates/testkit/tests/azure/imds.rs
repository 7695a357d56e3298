//! The instance metadata service.

use http::Method;
use insula_testkit::azure::{FakeAzure, Proof};
use serde_json::{Value, json};

use crate::{CLIENT, GROUP, TENANT, arm, azure, send};

async fn request(azure: &FakeAzure, headers: &[(&str, &str)], client: &str) -> (u16, Value) {
    let resource = "https%3A%2F%2Fmanagement.core.windows.net%2F";
    let client = if client.is_empty() {
        String::new()
    } else {
        format!("&client_id={client}")
    };
    let url = format!(
        "{}/metadata/identity/oauth2/token?api-version=2018-02-01&resource={resource}{client}",
        azure.imds_endpoint()
    );
    let answer = send("", Method::GET, &url, headers, String::new())
        .await
        .unwrap();
    (answer.status, answer.json())
}

const METADATA: [(&str, &str); 1] = [("Metadata", "true")];

#[tokio::test]
async fn machine_gets_tokens_of_its_identities_with_strings_as_values() {
    let azure = azure().await;
    let (status, body) = request(&azure, &METADATA, "").await;
    assert_eq!(
        (status, &body["error_description"]),
        (400, &json!("Identity not found"))
    );
    azure.assign_identity(TENANT, CLIENT);
    let (status, _) = request(&azure, &[], "").await;
    assert_eq!(status, 400);
    let forwarded = [METADATA[0], ("X-Forwarded-For", "10.0.0.1")];
    assert_eq!(request(&azure, &forwarded, "").await.0, 400);
    let (status, body) = request(&azure, &METADATA, "").await;
    assert_eq!(status, 200);
    assert_eq!(
        (&body["expires_in"], &body["client_id"]),
        (&json!("3599"), &json!(CLIENT))
    );
    assert!(body["expires_on"].is_string());
    let token = body["access_token"].as_str().unwrap().to_owned();
    arm(&azure, &token, Method::GET, GROUP, &Value::Null)
        .await
        .unwrap();
    let caller = azure.requests()[0].caller.clone().unwrap();
    assert_eq!(
        (caller.client.as_str(), caller.proof),
        (CLIENT, Proof::ManagedIdentity)
    );
}

#[tokio::test]
async fn client_id_chooses_among_the_identities_of_a_machine() {
    let azure = azure().await;
    azure.assign_identity(TENANT, CLIENT);
    azure.assign_identity(TENANT, "second");
    assert_eq!(request(&azure, &METADATA, "").await.0, 400);
    assert_eq!(
        request(&azure, &METADATA, "second").await.1["client_id"],
        "second"
    );
    assert_eq!(request(&azure, &METADATA, "third").await.0, 400);
    let calls = azure.token_requests();
    assert_eq!(
        calls.iter().map(|call| call.error).collect::<Vec<_>>(),
        [Some(400), None, Some(400)]
    );
}
