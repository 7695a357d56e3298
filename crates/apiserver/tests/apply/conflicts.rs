//! Conflicts between field managers.

use super::*;

#[tokio::test]
async fn fields_of_other_managers_need_force() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let first = map(&json!({"k": "1", "own": "a"}));
    assert_eq!(apply(&client, MAP, "one", &first).await?.status, 201);
    // An equal value is shared ownership.
    let shared = map(&json!({"k": "1"}));
    assert_eq!(apply(&client, MAP, "two", &shared).await?.status, 200);
    let changed = map(&json!({"k": "2"}));
    let answer = apply(&client, MAP, "two", &changed).await?;
    assert_refused(
        &answer,
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"one\": .data.k",
    );
    assert_eq!(
        answer.json()["details"],
        json!({"causes": [{
            "reason": "FieldManagerConflict",
            "message": "conflict with \"one\"",
            "field": ".data.k",
        }]})
    );
    let answer = apply(&client, MAP, "two&force=true", &changed).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let object = answer.json();
    assert_eq!(object["data"], json!({"k": "2", "own": "a"}));
    assert_eq!(
        owners(&object),
        [
            ("one Apply".to_owned(), json!({"f:data": {"f:own": {}}})),
            ("two Apply".to_owned(), json!({"f:data": {"f:k": {}}})),
        ]
    );
    Ok(())
}

#[tokio::test]
async fn conflicts_list_all_fields_by_manager() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let mut first = minimal_deployment();
    first["replicas"] = 1.into();
    first["template"]["spec"]["containers"][0]["ports"] =
        json!([{"containerPort": 80, "name": "http"}]);
    let first = deployment(&first);
    assert_eq!(apply(&client, DEPLOYMENT, "m1", &first).await?.status, 201);
    let labels = json!({"metadata": {"labels": {"z": "1"}}});
    let labelled = format!("{DEPLOYMENT}?fieldManager=lab");
    assert_eq!(client.patch(&labelled, "merge", &labels).await?.status, 200);
    let scale = json!({"spec": {"replicas": 3}});
    let scaled = format!("{DEPLOYMENT}/scale?fieldManager=scaler");
    assert_eq!(client.patch(&scaled, "merge", &scale).await?.status, 200);
    let mut wanted = minimal_deployment();
    wanted["replicas"] = 5.into();
    wanted["selector"]["matchLabels"] = json!({"app": "y"});
    wanted["template"]["spec"]["containers"][0]["ports"] =
        json!([{"containerPort": 80, "name": "web"}]);
    let mut wanted = deployment(&wanted);
    wanted["metadata"]["labels"] = json!({"z": "2"});
    let answer = apply(&client, DEPLOYMENT, "m2", &wanted).await?;
    assert_refused(
        &answer,
        409,
        "Conflict",
        "Apply failed with 4 conflicts: conflicts with \"lab\" using apps/v1:\n\
         - .metadata.labels.z\n\
         conflicts with \"m1\":\n\
         - .spec.selector\n\
         - .spec.template.spec.containers[name=\"c\"].ports[containerPort=80,protocol=\"TCP\"]\
         .name\n\
         conflicts with \"scaler\" with subresource \"scale\" using apps/v1:\n\
         - .spec.replicas",
    );
    Ok(())
}

#[tokio::test]
async fn fields_without_a_manager_are_removed() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let first = map(&json!({"mine": "1", "ours": "1"}));
    assert_eq!(apply(&client, MAP, "one", &first).await?.status, 201);
    let second = map(&json!({"ours": "1"}));
    assert_eq!(apply(&client, MAP, "two", &second).await?.status, 200);
    let put = json!({"data": {"theirs": "1"}});
    let path = format!("{MAP}?fieldManager=three");
    assert_eq!(client.patch(&path, "merge", &put).await?.status, 200);
    let answer = apply(&client, MAP, "one", &map(&json!({"new": "1"}))).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let data = json!({"new": "1", "ours": "1", "theirs": "1"});
    assert_eq!(answer.json()["data"], data);
    Ok(())
}

#[tokio::test]
async fn updates_take_ownership_of_changed_fields_only() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let first = map(&json!({"a": "1", "b": "1"}));
    let created = apply(&client, MAP, "one", &first).await?.json();
    let mut changed = created.clone();
    changed["data"]["a"] = "2".into();
    let answer = client
        .put(&format!("{MAP}?fieldManager=one"), &changed)
        .await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        owners(&answer.json()),
        [
            ("one Apply".to_owned(), json!({"f:data": {"f:b": {}}})),
            ("one Update".to_owned(), json!({"f:data": {"f:a": {}}})),
        ]
    );
    // Applying the same again changes nothing, not even the resource version.
    let again = client
        .put(&format!("{MAP}?fieldManager=two"), &answer.json())
        .await?;
    assert_eq!(again.json(), answer.json());
    Ok(())
}

#[tokio::test]
async fn fields_before_the_first_apply_belong_to_before_first_apply() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let created = client.post(MAPS, &map(&json!({"a": "1"}))).await?.json();
    assert_eq!(
        created["metadata"]["managedFields"][0]["operation"],
        "Update"
    );
    // The client resets managedFields.
    let mut forgotten = created.clone();
    forgotten["metadata"]["managedFields"] = json!([{}]);
    let answer = client.put(MAP, &forgotten).await?;
    assert_eq!(answer.json()["metadata"].get("managedFields"), None);
    let mut plain = answer.json();
    plain["data"]["a"] = "2".into();
    let answer = client.put(MAP, &plain).await?;
    assert_eq!(answer.json()["metadata"].get("managedFields"), None);
    let answer = apply(&client, MAP, "one", &map(&json!({"a": "3"}))).await?;
    assert_refused(
        &answer,
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.a",
    );
    Ok(())
}

#[tokio::test]
async fn client_side_apply_migrates_without_conflicts() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let mut first = map(&json!({"a": "1", "b": "1"}));
    let message = first.to_string();
    first["metadata"]["annotations"] = json!({annotation: message});
    let created = format!("{MAPS}?fieldManager=kubectl-client-side-apply");
    assert_eq!(client.post(&created, &first).await?.status, 201);
    let wanted = map(&json!({"a": "2"}));
    // Other managers still conflict.
    let answer = apply(&client, MAP, "other", &wanted).await?;
    assert_eq!(answer.status, 409, "{}", answer.text());
    let answer = apply(&client, MAP, "kubectl", &wanted).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let object = answer.json();
    assert_eq!(object["data"]["a"], "2");
    assert_eq!(
        object["metadata"]["annotations"][annotation],
        "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"2\"},\"kind\":\"ConfigMap\",\
         \"metadata\":{\"name\":\"m\"}}\n"
    );
    Ok(())
}
