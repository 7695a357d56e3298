//! Invalid fields are refused.

use super::*;

/// Returns the message with which a creation is refused.
async fn refused(client: &Client, plural: &str, spec: &Value) -> anyhow::Result<String> {
    let made = client
        .post(&path(plural), &object(plural, "x", spec))
        .await?;
    anyhow::ensure!(
        made.status == 422,
        "{spec}: {} {}",
        made.status,
        made.text()
    );
    let told = made.message();
    Ok(told
        .split_once(" is invalid: ")
        .map_or(told.clone(), |(_, why)| why.to_owned()))
}

#[tokio::test]
async fn a4_a5_invalid_fields_are_refused_by_name() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let clusters = |reference: Value| {
        (
            "vsphereclusters",
            json!({"server": "v", "identityRef": reference}),
        )
    };
    let zones = |reference: Value| {
        let spec = json!({"server": "v", "failureDomain": "f", "identityRef": reference});
        ("vspheredeploymentzones", spec)
    };
    let selector = |expression: Value| {
        let allowed = json!({"selector": {"matchExpressions": [expression]}});
        (
            "vsphereclusteridentities",
            json!({"secretName": "s", "allowedNamespaces": allowed}),
        )
    };
    let server = |server: Value| {
        (
            "vsphereclusteridentities",
            json!({"secretName": "s", "allowedServers": [server]}),
        )
    };
    let values = "In and NotIn need values, Exists and DoesNotExist have none";
    let cases = [
        (
            clusters(json!({"kind": "ConfigMap", "name": "n"})),
            r#"spec.identityRef.kind: Unsupported value: "ConfigMap": supported values: "VSphereClusterIdentity", "Secret""#,
        ),
        (
            clusters(json!({"kind": "Secret", "name": ""})),
            r#"spec.identityRef.name: Invalid value: "": spec.identityRef.name in body should be at least 1 chars long"#,
        ),
        (
            clusters(json!({"kind": "VSphereClusterIdentity", "name": "shared/status"})),
            "spec.identityRef.name in body should match",
        ),
        (
            clusters(json!({"kind": "Secret", "name": "%73hared"})),
            "spec.identityRef.name in body should match",
        ),
        (
            zones(json!({"kind": "VSphereClusterIdentity", "name": "shared?x"})),
            "spec.identityRef.name in body should match",
        ),
        (
            (
                "vspheredeploymentzones",
                json!({"server": "v", "failureDomain": "../x"}),
            ),
            "spec.failureDomain in body should match",
        ),
        (
            ("vsphereclusteridentities", json!({"secretName": "a/b"})),
            "spec.secretName in body should match",
        ),
        (
            (
                "vspheremachines",
                json!({
                    "template": "t", "failureDomain": "a/b",
                    "network": {"devices": [{"networkName": "n"}]},
                }),
            ),
            "spec.failureDomain in body should match",
        ),
        (
            clusters(json!({"name": "n"})),
            "spec.identityRef.kind: Required value",
        ),
        (
            clusters(json!({"kind": "Secret"})),
            "spec.identityRef.name: Required value",
        ),
        (
            ("vsphereclusters", json!({"server": ""})),
            r#"spec.server: Invalid value: "": spec.server in body should be at least 1 chars long"#,
        ),
        (
            zones(json!({"kind": "Secret", "name": "n"})),
            r#"spec.identityRef.kind: Unsupported value: "Secret": supported values: "VSphereClusterIdentity""#,
        ),
        (
            ("vsphereclusteridentities", json!({"secretName": ""})),
            r#"spec.secretName: Invalid value: "": spec.secretName in body should be at least 1 chars long"#,
        ),
        (
            ("vsphereclusteridentities", json!({})),
            "spec.secretName: Required value",
        ),
        (
            selector(json!({"key": "k", "operator": "Contains", "values": ["v"]})),
            r#"spec.allowedNamespaces.selector.matchExpressions[0].operator: Unsupported value: "Contains": supported values: "In", "NotIn", "Exists", "DoesNotExist""#,
        ),
        (selector(json!({"key": "k", "operator": "In"})), values),
        (
            selector(json!({"key": "k", "operator": "NotIn", "values": []})),
            values,
        ),
        (
            selector(json!({"key": "k", "operator": "Exists", "values": ["v"]})),
            values,
        ),
        (
            server(json!({"address": "https://v"})),
            r"spec.allowedServers[0].address in body should match '^[^\s/@,]+$'",
        ),
        (
            server(json!({"address": "v", "thumbprint": "AA:BB"})),
            "spec.allowedServers[0].thumbprint in body should match",
        ),
        (
            server(
                json!({"address": "v", "thumbprint": "ab".repeat(20), "insecureSkipVerify": true}),
            ),
            "thumbprint and insecureSkipVerify exclude each other",
        ),
        (
            ("vspheremachines", json!({"template": "t"})),
            "spec.network: Required value",
        ),
        (
            (
                "vspherevms",
                json!({"template": "t", "network": {"devices": [{}]}}),
            ),
            "spec.network.devices[0].networkName: Required value",
        ),
    ];
    for (space, client) in scene.spaces() {
        for ((plural, spec), expected) in &cases {
            let why = refused(client, plural, spec).await?;
            assert!(why.contains(expected), "{space} {spec}: {why}");
        }
    }
    Ok(())
}
