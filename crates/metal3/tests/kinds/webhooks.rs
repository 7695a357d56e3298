//! The validating webhook, in the system's space and in a tenant's.

use insula_testkit::server::Answer;
use serde_json::{Value, json};

use crate::scene::{MERGE, Scene, create, object, path, refused, success};

const BOTH: [&str; 2] = ["v1beta1", "v1beta2"];

const FIRST_USE: &str = "once it is used, the provider cannot be downgraded to a version without \
    this field, which would look for the hosts in the namespace of the object";

/// Returns the texts of the warnings.
fn warnings(answer: &Answer) -> Vec<String> {
    let all = answer.headers.get_all("warning").iter();
    let texts = all.map(|value| value.to_str().unwrap());
    let texts = texts.map(|text| text.trim_start_matches("299 - \"").trim_end_matches('"'));
    texts.map(|text| text.replace("\\\"", "\"")).collect()
}

/// Returns the warning of the older version.
fn deprecated(version: &str, kind: &str) -> Option<String> {
    let group = "infrastructure.cluster.x-k8s.io";
    let text = format!("{group}/v1beta1 {kind} is deprecated; use {group}/v1beta2");
    (version == "v1beta1").then_some(text)
}

#[tokio::test]
async fn first_use_of_an_identity_and_a_reserved_name_are_warned_of() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for (space, client) in scene.spaces() {
        for version in BOTH {
            let name = &format!("c-{version}");
            let secret = format!("{name}-kubeconfig");
            let spec = json!({"identityRef": {"name": secret}});
            let made = create(client, version, "metal3clusters", name, &spec).await?;
            assert_eq!(made.status, 201, "{}", made.text());
            let reserved = format!(
                "spec.identityRef.name: Cluster API reserves the Secret \"{secret}\" for the \
                 kubeconfig of the workload cluster; store the kubeconfig for the hosts under \
                 another name"
            );
            let mut expected = vec![format!("spec.identityRef: {FIRST_USE}"), reserved];
            expected.extend(deprecated(version, "Metal3Cluster"));
            let mut found = warnings(&made);
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{space}");
            // A change of something else is not warned of again.
            let one = format!("{}/{name}", path(version, "metal3clusters"));
            let label = json!({"metadata": {"labels": {"a": "b"}}});
            let changed = client.patch(&one, MERGE, &label).await?;
            assert_eq!(changed.status, 200, "{}", changed.text());
            let expected: Vec<_> = deprecated(version, "Metal3Cluster").into_iter().collect();
            assert_eq!(warnings(&changed), expected, "{space}");

            let plural = "metal3machinetemplates";
            let spec = json!({"template": {"spec": {}}});
            let made = create(client, version, plural, name, &spec).await?;
            let quiet: Vec<_> = deprecated(version, "Metal3MachineTemplate")
                .into_iter()
                .collect();
            assert_eq!(warnings(&made), quiet, "{space}");
            let one = format!("{}/{name}", path(version, plural));
            let identity = json!({"spec": {"template": {"spec": {"identityRef": {"name": "s"}}}}});
            let changed = client.patch(&one, MERGE, &identity).await?;
            let mut expected = vec![format!("spec.template.spec.identityRef: {FIRST_USE}")];
            expected.extend(quiet);
            let mut found = warnings(&changed);
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{space}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn references_to_other_namespaces_are_refused() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let foreign = json!({"name": "s", "namespace": "kube-system"});
    let cases: [(&str, Value, &str); 4] = [
        (
            "metal3machines",
            json!({"userData": foreign}),
            "spec.userData",
        ),
        (
            "metal3machinetemplates",
            json!({"template": {"spec": {"dataTemplate": foreign}}}),
            "spec.template.spec.dataTemplate",
        ),
        (
            "metal3dataclaims",
            json!({"template": foreign}),
            "spec.template",
        ),
        ("metal3datas", json!({"claim": foreign}), "spec.claim"),
    ];
    for (space, client) in scene.spaces() {
        let denied = |group: &str, field: &str| {
            format!(
                "admission webhook \"validation.{group}\" denied the request: {field}.namespace: \
                 only the namespace of the object itself is allowed"
            )
        };
        for version in BOTH {
            for (plural, spec, field) in &cases {
                let message = refused(create(client, version, plural, "x", spec).await?);
                let expected = denied("infrastructure.cluster.x-k8s.io", field);
                assert_eq!(message, expected, "{space} {version}");
            }
        }
        let spec = json!({"pool": foreign});
        let message = refused(create(client, "v1alpha1", "ipclaims", "x", &spec).await?);
        assert_eq!(message, denied("ipam.metal3.io", "spec.pool"), "{space}");
        let mut claim = object("v1alpha1", "ipclaims", "x", &json!({"pool": {"name": "p"}}));
        claim["metadata"]["annotations"] = json!({"ipAddress": "?"});
        let message = refused(client.post(&path("v1alpha1", "ipclaims"), &claim).await?);
        assert!(
            message.ends_with("metadata.annotations.ipAddress: must be an IP address"),
            "{message}"
        );
        claim["metadata"]["annotations"] = json!({"ipAddress": "192.0.2.7"});
        success(client.post(&path("v1alpha1", "ipclaims"), &claim).await?);
    }
    Ok(())
}

#[tokio::test]
async fn addresses_in_use_stay_in_the_ranges_of_their_pool() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for (space, client) in scene.spaces() {
        let pools = json!([{"start": "192.0.2.10", "end": "192.0.2.20"}]);
        let spec = json!({"namePrefix": "p", "pools": pools});
        success(create(client, "v1alpha1", "ippools", "x", &spec).await?);
        let one = format!("{}/x", path("v1alpha1", "ippools"));
        let used = json!({"status": {"indexes": {"c": "192.0.2.15"}}});
        success(client.patch(&format!("{one}/status"), MERGE, &used).await?);
        let smaller = json!({"spec": {"pools": [{"start": "192.0.2.10", "end": "192.0.2.14"}]}});
        let message = refused(client.patch(&one, MERGE, &smaller).await?);
        assert_eq!(
            message,
            "admission webhook \"validation.ipam.metal3.io\" denied the request: spec.pools: \
             192.0.2.15 is used by c and would be in none of them",
            "{space}"
        );
        let larger = json!({"spec": {"pools": [{"subnet": "192.0.2.0/24"}]}});
        success(client.patch(&one, MERGE, &larger).await?);
    }
    Ok(())
}
