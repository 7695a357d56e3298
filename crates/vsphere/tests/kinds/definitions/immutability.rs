//! Which fields can be changed.

use super::*;

/// Returns another value of the same type.
fn other(value: &Value) -> Value {
    match value {
        Value::Bool(one) => json!(!one),
        Value::Number(one) => json!(one.as_i64().unwrap() + 1),
        Value::String(one) if one == "Linux" => json!("Windows"),
        Value::String(one) if one == "linkedClone" => json!("fullClone"),
        Value::String(one) if one == "Thin" => json!("Thick"),
        Value::String(one) if one == "trySoft" => json!("soft"),
        Value::String(one) if one.starts_with("vmx") => json!("vmx-20"),
        Value::String(one) => json!(format!("{one}1")),
        Value::Array(elements) => json!(
            elements
                .iter()
                .chain(elements)
                .map(other)
                .take(1)
                .collect::<Vec<_>>()
        ),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| (key.clone(), other(value)))
            .collect(),
        Value::Null => json!(null),
    }
}

#[tokio::test]
async fn clone_source_is_immutable_and_other_fields_are_not() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let changeable = [
        (
            "vspheremachines",
            "providerID powerOffMode guestSoftPowerOffTimeoutSeconds thumbprint network",
        ),
        (
            "vspherevms",
            "bootstrapRef powerOffMode guestSoftPowerOffTimeoutSeconds thumbprint network",
        ),
    ];
    for (space, client) in scene.spaces() {
        for (plural, changeable) in changeable {
            let spec = whole().into_iter().find(|(of, _)| *of == plural).unwrap().1;
            client
                .post(&path(plural), &object(plural, "x", &spec))
                .await?;
            let one = format!("{}/x", path(plural));
            for (field, value) in spec.as_object().unwrap() {
                let patch = json!({"spec": {field: match field.as_str() {
                    "network" => json!({"devices": other(&value["devices"])}),
                    _ => other(value),
                }}});
                let answer = client.patch(&one, MERGE, &patch).await?;
                if changeable.split(' ').any(|word| word == field) {
                    assert_eq!(answer.status, 200, "{space} {field}: {}", answer.text());
                    continue;
                }
                assert_eq!(answer.status, 422, "{space} {field}: {}", answer.text());
                let once = plural == "vspherevms" && ["os", "biosUUID"].contains(&field.as_str());
                let rule = if once { " once it is set" } else { "" };
                let said = answer.message();
                assert!(
                    said.ends_with(&format!(": {field} cannot be changed{rule}")),
                    "{said}"
                );
                // The field cannot be removed either.
                let answer = client
                    .patch(&one, MERGE, &json!({"spec": {field: null}}))
                    .await?;
                assert_eq!(answer.status, 422, "{space} {field}: {}", answer.text());
            }
            for field in ["routes", "preferredAPIServerCidr"] {
                let patch = json!({"spec": {"network": {field: null}}});
                let said = client.patch(&one, MERGE, &patch).await?.message();
                assert!(
                    said.ends_with(&format!(": network.{field} cannot be changed")),
                    "{said}"
                );
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn late_fields_can_be_set_once() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let (plural, client) = ("vspherevms", &scene.acme);
    let spec = json!({"template": "t", "network": {"devices": []}});
    client
        .post(&path(plural), &object(plural, "x", &spec))
        .await?;
    let one = format!("{}/x", path(plural));
    for (field, first, second) in [("biosUUID", "u", "v"), ("os", "Linux", "Windows")] {
        let set = async |value: &str| {
            client
                .patch(&one, MERGE, &json!({"spec": {field: value}}))
                .await
        };
        assert_eq!(set(first).await?.status, 200);
        assert_eq!(set(first).await?.status, 200, "the same again");
        assert_eq!(set(second).await?.status, 422);
    }
    // A missing field cannot be added later.
    let answer = client
        .patch(&one, MERGE, &json!({"spec": {"folder": "f"}}))
        .await?;
    assert!(
        answer.message().ends_with(": folder cannot be changed"),
        "{}",
        answer.message()
    );
    Ok(())
}

#[tokio::test]
async fn cluster_template_is_immutable() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let (plural, client) = ("vsphereclustertemplates", &scene.acme);
    let spec = json!({"template": {"spec": {"server": "v"}}});
    client
        .post(&path(plural), &object(plural, "x", &spec))
        .await?;
    let one = format!("{}/x", path(plural));
    let patch = json!({"spec": {"template": {"spec": {"server": "w"}}}});
    let answer = client.patch(&one, MERGE, &patch).await?;
    assert_eq!(answer.status, 422);
    let said = answer.message();
    assert!(
        said.ends_with(": a template cannot be changed, create another one"),
        "{said}"
    );
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(client.patch(&one, MERGE, &label).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn a6_c7_identity_reference_is_optional_and_mutable() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let (plural, client) = ("vsphereclusters", &scene.acme);
    client
        .post(&path(plural), &object(plural, "x", &json!({"server": "v"})))
        .await?;
    let one = format!("{}/x", path(plural));
    for reference in [
        json!({"kind": "Secret", "name": "a"}),
        json!({"kind": "VSphereClusterIdentity", "name": "b"}),
        json!(null),
        json!({"kind": "Secret", "name": "c"}),
    ] {
        let patch = json!({"spec": {"identityRef": reference}});
        let answer = client.patch(&one, MERGE, &patch).await?;
        assert_eq!(
            answer.json()["spec"]["identityRef"],
            reference,
            "{}",
            answer.text()
        );
    }
    Ok(())
}
