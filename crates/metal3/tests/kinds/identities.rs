//! The field `identityRef`, in the system's space and in a tenant's.

use serde_json::{Value, json};

use crate::scene::{MERGE, Scene, create, path, refused, success};

const BOTH: [&str; 2] = ["v1beta1", "v1beta2"];

/// The field, from the root of an object of each kind that has it.
fn identities(identity: &Value) -> [(&'static str, &'static str, Value); 4] {
    let spec = json!({"identityRef": identity});
    let template = json!({"template": {"spec": spec}});
    [
        ("metal3clusters", "spec.identityRef", spec.clone()),
        (
            "metal3clustertemplates",
            "spec.template.spec.identityRef",
            template.clone(),
        ),
        ("metal3machines", "spec.identityRef", spec),
        (
            "metal3machinetemplates",
            "spec.template.spec.identityRef",
            template,
        ),
    ]
}

#[tokio::test]
async fn r02_r08_identity_is_stored_with_name_and_optional_context() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for (space, client) in scene.spaces() {
        for version in BOTH {
            for (name, identity) in [
                ("a", json!({"name": "hosts"})),
                ("b", json!({"name": "hosts", "context": "admin@pool-a"})),
            ] {
                for (plural, field, spec) in identities(&identity) {
                    let name = format!("{version}-{name}");
                    success(create(client, version, plural, &name, &spec).await?);
                    for version in BOTH {
                        let one = format!("{}/{name}", path(version, plural));
                        let read = success(client.get(&one).await?);
                        let pointer = format!("/{}", field.replace('.', "/"));
                        let found = read.pointer(&pointer);
                        assert_eq!(found, Some(&identity), "{space} {version} {plural}");
                    }
                }
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn r03_identity_without_a_name_is_refused() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let long = "a".repeat(254);
    for version in BOTH {
        for (identity, problem) in [
            (json!({"context": "c"}), ".name: Required value".to_owned()),
            (
                json!({"name": ""}),
                ".name: Invalid value: \"\": spec.identityRef.name in body should be at least 1 chars long".to_owned(),
            ),
            (
                json!({"name": long}),
                ".name: Too long: may not be more than 253 bytes".to_owned(),
            ),
            (
                json!({"name": "../../kube-system/secrets/s"}),
                ".name: Invalid value: \"../../kube-system/secrets/s\": spec.identityRef.name in body should match ".to_owned(),
            ),
            (
                json!({"name": "s", "context": ""}),
                ".context: Invalid value: \"\": spec.identityRef.context in body should be at least 1 chars long".to_owned(),
            ),
        ] {
            for (plural, field, spec) in identities(&identity) {
                let problem = problem.replace("spec.identityRef", field);
                let message = refused(create(&scene.acme, version, plural, "x", &spec).await?);
                let expected = format!("{field}{problem}");
                assert!(message.contains(&expected), "{expected}: {message}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn r43_identity_has_no_kind() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let identity = json!({"kind": "ServiceAccount", "namespace": "n", "name": "s"});
    for version in BOTH {
        for (plural, field, spec) in identities(&identity) {
            let answer = create(&scene.acme, version, plural, "x", &spec).await?;
            assert_eq!(answer.status, 400, "{}", answer.text());
            for name in ["kind", "namespace"] {
                let expected = format!("unknown field \"{field}.{name}\"");
                assert!(answer.message().contains(&expected), "{}", answer.message());
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn identity_of_a_machine_is_immutable_once_it_is_set() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for (space, client) in scene.spaces() {
        for version in BOTH {
            let plural = "metal3machines";
            success(create(client, version, plural, version, &json!({})).await?);
            let one = format!("{}/{version}", path(version, plural));
            let change = async |identity: Value| {
                let patch = json!({"spec": {"identityRef": identity}});
                client.patch(&one, MERGE, &patch).await
            };
            success(change(json!({"name": "a"})).await?);
            for identity in [json!({"name": "b"}), json!({"context": "c"}), Value::Null] {
                let message = refused(change(identity).await?);
                let expected = ": identityRef cannot be changed once it is set";
                assert!(message.contains("spec.identityRef: "), "{space}: {message}");
                assert!(message.ends_with(expected), "{space}: {message}");
            }
            // Other fields can be changed, such as the provider ID.
            let patch = json!({"spec": {"providerID": "metal3://a/b/c"}});
            success(client.patch(&one, MERGE, &patch).await?);
        }
        // The identity of a cluster, or of new machines, can be changed.
        for (plural, _, spec) in identities(&json!({"name": "a"})) {
            if plural != "metal3machines" {
                success(create(client, "v1beta2", plural, "x", &spec).await?);
                let one = format!("{}/x", path("v1beta2", plural));
                let text = spec.to_string().replace("\"a\"", "\"b\"");
                let patch = json!({"spec": serde_json::from_str::<Value>(&text)?});
                let changed = success(client.patch(&one, MERGE, &patch).await?);
                assert_eq!(
                    changed["spec"].to_string().matches("\"b\"").count(),
                    1,
                    "{space} {plural}"
                );
            }
        }
    }
    Ok(())
}

/// The manifests of the design document.
const DOCUMENT: [&str; 2] = [
    "
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3Cluster
metadata:
  name: cluster-1
spec:
  identityRef:
    name: cluster-1-kubeconfig
    context: cluster-1-context
",
    "
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3MachineTemplate
metadata:
  name: cluster-1-controlplane-template
spec:
  template:
    spec:
      identityRef:
        name: control-plane-bmh-kubeconfig
        context: default
",
];

#[tokio::test]
async fn r02_r08_manifests_of_the_design_document_apply() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for (space, client) in scene.spaces() {
        for (plural, text, expected) in [
            (
                "metal3clusters",
                DOCUMENT[0],
                json!({"identityRef":
                    {"name": "cluster-1-kubeconfig", "context": "cluster-1-context"}}),
            ),
            (
                "metal3machinetemplates",
                DOCUMENT[1],
                json!({
                    "nodeReuse": false,
                    "template": {"spec": {"identityRef":
                        {"name": "control-plane-bmh-kubeconfig", "context": "default"}}},
                }),
            ),
        ] {
            let object: Value = serde_saphyr::from_str(text)?;
            let name = object["metadata"]["name"].as_str().unwrap();
            let strict = format!("{}?fieldValidation=Strict", path("v1beta1", plural));
            let made = success(client.post(&strict, &object).await?);
            assert_eq!(made["spec"], expected, "{space}");
            for version in BOTH {
                let one = format!("{}/{name}", path(version, plural));
                let read = success(client.get(&one).await?);
                assert_eq!(read["spec"], expected, "{space} {version}");
            }
        }
    }
    Ok(())
}

/// Returns the fields of a status.
fn status_fields(kind: &str, version: &str) -> Vec<String> {
    let definitions = insula_metal3::crds::all();
    let mut definitions = definitions.iter();
    let found = definitions.find(|definition| definition.spec.names.kind == kind);
    let mut versions = found.unwrap().spec.versions.iter();
    let found = versions.find(|found| found.name == version).unwrap();
    let schema = serde_json::to_value(&found.schema).unwrap();
    let status = &schema["openAPIV3Schema"]["properties"]["status"]["properties"];
    let fields = status.as_object().unwrap().keys();
    let mut fields: Vec<_> = fields.cloned().collect();
    fields.sort();
    fields
}

#[test]
fn r23_r24_status_of_a_machine_has_no_new_fields() {
    let expected = [
        "addresses",
        "conditions",
        "failureMessage",
        "failureReason",
        "lastUpdated",
        "metaData",
        "networkData",
        "phase",
        "ready",
        "renderedData",
        "userData",
        "v1beta2",
    ];
    assert_eq!(status_fields("Metal3Machine", "v1beta1"), expected);
    let expected = [
        "addresses",
        "conditions",
        "deprecated",
        "initialization",
        "lastUpdated",
        "metaData",
        "networkData",
        "renderedData",
        "userData",
    ];
    assert_eq!(status_fields("Metal3Machine", "v1beta2"), expected);
}

#[test]
fn r26_status_of_a_cluster_has_no_new_fields() {
    let expected = [
        "conditions",
        "failureDomains",
        "failureMessage",
        "failureReason",
        "lastUpdated",
        "ready",
        "v1beta2",
    ];
    assert_eq!(status_fields("Metal3Cluster", "v1beta1"), expected);
    let expected = [
        "conditions",
        "deprecated",
        "failureDomains",
        "initialization",
        "lastUpdated",
    ];
    assert_eq!(status_fields("Metal3Cluster", "v1beta2"), expected);
}
