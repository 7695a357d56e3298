//! Fields are stored as they are, with their defaults.

use super::*;

#[tokio::test]
async fn every_field_is_stored_unchanged() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for (space, client) in scene.spaces() {
        for (plural, spec) in whole() {
            let strict = format!("{}?fieldValidation=Strict", path(plural));
            let made = client.post(&strict, &object(plural, "x", &spec)).await?;
            assert_eq!(made.status, 201, "{space} {plural}: {}", made.text());
            assert_eq!(made.json()["spec"], spec, "{space} {plural}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a3_missing_and_empty_selectors_stay_distinct() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let plural = "vsphereclusteridentities";
    for (space, client) in scene.spaces() {
        for (name, allowed) in [
            ("null", json!(null)),
            ("all", json!({})),
            ("selector", json!({"selector": {}})),
            ("labels", json!({"selector": {"matchLabels": {}}})),
            ("expressions", json!({"selector": {"matchExpressions": []}})),
            (
                "one",
                json!({"selector": {"matchLabels": {"kubernetes.io/metadata.name": "foo"}}}),
            ),
        ] {
            let spec = json!({"secretName": "s", "allowedNamespaces": allowed});
            let made = client
                .post(&path(plural), &object(plural, name, &spec))
                .await?;
            assert_eq!(made.status, 201, "{space} {name}: {}", made.text());
            let one = format!("{}/{name}", path(plural));
            let found = client.get(&one).await?.json();
            assert_eq!(
                found["spec"]["allowedNamespaces"], allowed,
                "{space} {name}"
            );
            // It is unchanged after a write of another field.
            let label = json!({"metadata": {"labels": {"a": "b"}}});
            client.patch(&one, MERGE, &label).await?;
            let found = client.get(&one).await?.json();
            assert_eq!(
                found["spec"]["allowedNamespaces"], allowed,
                "{space} {name}"
            );
        }
        let spec = json!({"secretName": "s"});
        client
            .post(&path(plural), &object(plural, "missing", &spec))
            .await?;
        let found = client
            .get(&format!("{}/missing", path(plural)))
            .await?
            .json();
        assert_eq!(found["spec"], spec, "{space}");
    }
    Ok(())
}

#[tokio::test]
async fn machine_defaults_are_any_datacenter_and_hard_power_off() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let spec = json!({"template": "t", "network": {"devices": []}});
    for (plural, expected) in [
        (
            "vspheremachines",
            json!({"datacenter": "*", "powerOffMode": "hard"}),
        ),
        ("vspherevms", json!({"powerOffMode": "hard"})),
    ] {
        let made = scene
            .acme
            .post(&path(plural), &object(plural, "x", &spec))
            .await?;
        assert_eq!(
            made.json()["spec"],
            with(spec.clone(), expected),
            "{plural}"
        );
    }
    Ok(())
}
