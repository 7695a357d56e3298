//! Roles by the names of built-in ones.

use serde_json::{Value, json};

use crate::scene::{GROUP, SUBSCRIPTION, Scene, resource};

fn assignment(version: &str, name: &str, role: &str) -> Value {
    let spec = json!({
        "owner": {"group": "resources.azure.com", "kind": "ResourceGroup", "name": "shop"},
        "principalId": "11111111-1111-4111-8111-111111111111",
        "roleDefinitionReference": {"wellKnownName": role},
    });
    let api_version = format!("authorization.azure.com/{version}");
    resource(&api_version, "RoleAssignment", name, spec)
}

#[tokio::test]
async fn r31_name_of_a_built_in_role_becomes_its_id_and_an_unknown_one_is_reported()
-> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    check_known(&scene).await?;
    scene.azure.clear_journal();
    check_unknown(&scene).await
}

async fn check_known(scene: &Scene) -> anyhow::Result<()> {
    let reader = "acdd72a7-3385-48ef-bd42-f606fba81ae7";
    // Azure does not regard case either.
    for (version, name, role) in [
        ("v1api20220401", "one", "Reader"),
        ("v1api20200801preview", "two", "reader"),
    ] {
        let made = scene.make(&assignment(version, name, role)).await?;
        let name = made["spec"]["azureName"].as_str().unwrap();
        let id = format!("{GROUP}/providers/Microsoft.Authorization/roleAssignments/{name}");
        let sent = scene.azure.requests_for("PUT", &id);
        let expected =
            format!("{SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/{reader}");
        assert_eq!(sent[0].body["properties"]["roleDefinitionId"], expected);
        assert_eq!(made["status"]["roleDefinitionId"], expected);
        // The object keeps what its user wrote.
        let reference = &made["spec"]["roleDefinitionReference"];
        assert_eq!(*reference, json!({"wellKnownName": role}));
    }
    let path = format!("{GROUP}/providers/Microsoft.Authorization/roleDefinitions");
    let lists = scene.azure.requests_for("GET", &path);
    let lists: Vec<_> = lists.iter().map(|call| call.query.as_str()).collect();
    let query = |role: &str| format!("api-version=2022-04-01&$filter=roleName%20eq%20%27{role}%27");
    assert_eq!(lists, [query("Reader"), query("reader")]);
    Ok(())
}

/// Nothing is sent until the name is corrected.
async fn check_unknown(scene: &Scene) -> anyhow::Result<()> {
    let wrong = assignment("v1api20220401", "wrong", "Raeder's role");
    scene.create(&wrong).await?;
    let message = scene
        .problem(&wrong, "Warning", "RoleDefinitionDoesNotExist")
        .await?;
    assert!(
        message.contains("there is no built-in role \"Raeder's role\""),
        "{message}"
    );
    let calls = scene.calls(&format!("{GROUP}/providers/Microsoft.Authorization"));
    assert!(calls.iter().all(|call| call.method == "GET"), "{calls:?}");
    let reference = json!({"wellKnownName": "Key Vault Secrets User"});
    scene
        .patch(
            &wrong,
            json!({"spec": {"roleDefinitionReference": reference}}),
        )
        .await?;
    scene.await_ready(&wrong, "True", "Succeeded").await?;
    Ok(())
}
