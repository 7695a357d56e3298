//! What the definitions admit, default and refuse, in the system's space and in a tenant's.

use insula_testkit::server::Client;
use serde_json::{Value, json};

use crate::objects::{addresses, infrastructure};
use crate::scene::{MERGE, Scene, create, path, refused, success};

const BOTH: [&str; 2] = ["v1beta1", "v1beta2"];

#[tokio::test]
async fn every_field_of_address_pools_is_stored_unchanged() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for (space, client) in scene.spaces() {
        for (plural, spec) in addresses() {
            let made = success(create(client, "v1alpha1", plural, "x", &spec).await?);
            assert_eq!(made["spec"], spec, "{space} {plural}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn missing_fields_get_defaults_in_both_versions() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let ethernet = json!({"id": "e", "type": "phy", "macAddress": {"fromHostInterface": "a"}});
    let pool = json!({"key": "k", "name": "p"});
    for version in BOTH {
        let old = version == "v1beta1";
        let prefixes = if old {
            "prefixesFromIPPool"
        } else {
            "prefixesFromPool"
        };
        let timeout = match old {
            true => json!({"type": "Reboot", "retryLimit": 1, "timeout": "10m0s"}),
            false => json!({"type": "Reboot", "retryLimit": 1, "timeoutSeconds": 600}),
        };
        for (plural, spec, expected) in [
            (
                "metal3clusters",
                json!({"controlPlaneEndpoint": {"host": "h"}}),
                json!({"controlPlaneEndpoint": {"host": "h", "port": 6443}}),
            ),
            (
                "metal3machinetemplates",
                json!({"template": {"spec": {}}}),
                json!({"template": {"spec": {}}, "nodeReuse": false}),
            ),
            (
                "metal3datatemplates",
                json!({
                    "metaData": {"indexes": [{"key": "i"}], prefixes: [pool]},
                    "networkData": {"links": {"ethernets": [ethernet]}},
                }),
                json!({
                    "metaData": {
                        "indexes": [{"key": "i", "step": 1}],
                        prefixes: [{"key": "k", "name": "p", "apiGroup": "ipam.metal3.io",
                            "kind": "IPPool"}],
                    },
                    "networkData": {"links": {"ethernets": [{
                        "id": "e", "type": "phy", "macAddress": {"fromHostInterface": "a"},
                        "mtu": 1500,
                    }]}},
                }),
            ),
            (
                "metal3remediations",
                json!({"strategy": {}}),
                json!({"strategy": timeout}),
            ),
        ] {
            let made = create(&scene.acme, version, plural, version, &spec).await?;
            assert_eq!(success(made)["spec"], expected, "{version} {plural}");
        }
        let data = json!({"template": {"name": version}});
        let name = format!("{version}-0");
        let made = create(&scene.acme, version, "metal3datas", &name, &data).await?;
        assert_eq!(success(made)["spec"]["index"], 0, "{version}");
    }
    let made = create(
        &scene.acme,
        "v1alpha1",
        "ippools",
        "x",
        &json!({"namePrefix": "p"}),
    )
    .await?;
    assert_eq!(
        success(made)["spec"],
        json!({"namePrefix": "p", "allocationStrategy": "sequential"})
    );
    Ok(())
}

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

/// Creates an object that must be refused, and returns the message without the kind and name.
async fn problem(
    client: &Client,
    version: &str,
    plural: &str,
    spec: &Value,
) -> anyhow::Result<String> {
    let message = refused(create(client, version, plural, "x", spec).await?);
    let (_, problem) = message.split_once(" is invalid: ").unwrap();
    // Rules are not evaluated if the object has not the form of the schema.
    let others = ", <nil>: Invalid value: null: some validation rules were not checked because \
        the object was invalid; correct the existing errors to complete validation]";
    let first = problem
        .strip_suffix(others)
        .map(|it| it.replacen('[', "", 1));
    Ok(first.unwrap_or_else(|| problem.to_owned()))
}

#[tokio::test]
async fn images_need_a_url_and_a_checksum() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for version in BOTH {
        let format = if version == "v1beta1" {
            "format"
        } else {
            "diskFormat"
        };
        let url = "http://h/i";
        for (image, field, why) in [
            (
                json!({"url": url}),
                "checksum",
                "is required unless the image is a live ISO or an OCI artifact",
            ),
            (
                json!({"url": url, "checksum": ""}),
                "checksum",
                "is required unless the image is a live ISO or an OCI artifact",
            ),
            (
                json!({"url": "i.qcow2", "checksum": "c"}),
                "url",
                "must be a URL",
            ),
            (
                json!({"url": "oci://h/i", "checksum": "c"}),
                "checksum",
                "an OCI artifact has no checksum and no checksumType",
            ),
            (
                json!({"url": "oci://h/i", "checksumType": "md5"}),
                "checksum",
                "an OCI artifact has no checksum and no checksumType",
            ),
            (
                json!({"url": url, "checksum": "http://[h"}),
                "checksum",
                "must be a URL if it begins like one",
            ),
        ] {
            let spec = json!({"image": image});
            let found = problem(&scene.acme, version, "metal3machines", &spec).await?;
            assert!(
                found.starts_with(&format!("spec.image.{field}: ")),
                "{found}"
            );
            assert!(found.ends_with(&format!(": {why}")), "{found}");
            let spec = json!({"template": {"spec": spec}});
            let found = problem(&scene.acme, version, "metal3machinetemplates", &spec).await?;
            assert!(found.ends_with(&format!(": {why}")), "{found}");
        }
        let live = json!({"url": url, format: "live-iso"});
        for (name, spec) in [
            ("a", json!({"image": live})),
            ("b", json!({"image": {"url": "oci://h/i"}})),
            ("c", json!({"image": {"url": url, "checksum": "abc"}})),
            (
                "d",
                json!({"image": {"url": url}, "customDeploy": {"method": "m"}}),
            ),
            ("e", json!({})),
        ] {
            let name = format!("{version}-{name}");
            success(create(&scene.acme, version, "metal3machines", &name, &spec).await?);
        }
    }
    Ok(())
}

#[tokio::test]
async fn invalid_objects_are_refused_with_the_field_and_a_reason() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for version in BOTH {
        let timeout = match version {
            "v1beta1" => (
                json!({"timeout": "99s"}),
                "timeout",
                "must be at least 100 seconds",
            ),
            _ => (
                json!({"timeoutSeconds": 99}),
                "timeoutSeconds",
                "should be greater than or equal to 100",
            ),
        };
        let domain = |name: &str| match version {
            "v1beta1" => json!({name: {}}),
            _ => json!([{"name": name}]),
        };
        for (plural, spec, field, why) in [
            (
                "metal3dataclaims",
                json!({"template": {"namespace": "default"}}),
                "spec.template.name",
                "is required",
            ),
            (
                "metal3dataclaims",
                json!({}),
                "spec.template",
                "Required value",
            ),
            (
                "metal3datas",
                json!({"index": 1, "template": {"name": "t"}}),
                "",
                "the name must be that of the template, a dash, and the index",
            ),
            (
                "metal3datas",
                json!({"index": -1}),
                "spec.index",
                "should be greater than or equal to 0",
            ),
            (
                "metal3datatemplates",
                json!({"metaData": {"fromHostInterfaces": [{"key": "k"}]}}),
                "spec.metaData.fromHostInterfaces[0]",
                "either interface or fromBootMAC is required",
            ),
            (
                "metal3datatemplates",
                json!({"metaData": {"fromHostInterfaces":
                    [{"key": "k", "interface": "i", "fromBootMAC": true}]}}),
                "spec.metaData.fromHostInterfaces[0]",
                "either interface or fromBootMAC is required",
            ),
            (
                "metal3datatemplates",
                json!({"networkData": {"networks": {"ipv4": [{"id": "i", "link": "l"}]}}}),
                "spec.networkData.networks.ipv4[0]",
                "fromPoolRef, fromPoolAnnotation or ipAddressFromIPPool is required",
            ),
            (
                "metal3datatemplates",
                json!({"networkData": {"services": {"dns": ["192.0.2"]}}}),
                "spec.networkData.services.dns[0]",
                "must be an IP address",
            ),
            (
                "metal3datatemplates",
                json!({"networkData": {"networks": {"ipv4DHCP": [{"id": "i", "link": "l",
                    "routes": [{"network": "2001:db8::", "gateway": {}}]}]}}}),
                "spec.networkData.networks.ipv4DHCP[0].routes[0].network",
                "must be of type ipv4: \"2001:db8::\"",
            ),
            (
                "metal3remediations",
                json!({"strategy": timeout.0}),
                &format!("spec.strategy.{}", timeout.1),
                timeout.2,
            ),
            (
                "metal3remediations",
                json!({"strategy": {"retryLimit": -1}}),
                "spec.strategy.retryLimit",
                if version == "v1beta1" {
                    "should be greater than or equal to 0"
                } else {
                    "should be greater than or equal to 1"
                },
            ),
            (
                "metal3clusters",
                json!({"controlPlaneEndpoint": {"host": "h", "port": 65536}}),
                "spec.controlPlaneEndpoint.port",
                "should be less than or equal to 65535",
            ),
            (
                "metal3clusters",
                json!({"failureDomains": domain("")}),
                if version == "v1beta1" {
                    "spec.failureDomains"
                } else {
                    "spec.failureDomains[0].name"
                },
                if version == "v1beta1" {
                    "names of failure domains have 1 to 256 characters"
                } else {
                    "should be at least 1 chars long"
                },
            ),
        ] {
            let found = problem(&scene.acme, version, plural, &spec).await?;
            assert!(found.starts_with(field), "{version} {plural}: {found}");
            assert!(found.ends_with(why), "{version} {plural}: {found}");
        }
    }
    for (plural, spec, field, why) in [
        ("ippools", json!({}), "spec.namePrefix", "Required value"),
        (
            "ippools",
            json!({"namePrefix": "p", "pools": [{"start": "192.0.2"}]}),
            "spec.pools[0].start",
            "must be an IP address",
        ),
        (
            "ippools",
            json!({"namePrefix": "p", "pools": [{"end": "192.0.2.9"}]}),
            "spec.pools[0]",
            "start or subnet is required",
        ),
        (
            "ippools",
            json!({"namePrefix": "p", "pools": [{"subnet": "192.0.2.0"}]}),
            "spec.pools[0].subnet",
            "must be a subnet in CIDR notation",
        ),
        (
            "ippools",
            json!({"namePrefix": "p", "preAllocations": {"c": "a"}}),
            "spec.preAllocations[c]",
            "must be an IP address",
        ),
        (
            "ipclaims",
            json!({"pool": {}}),
            "spec.pool.name",
            "is required",
        ),
        (
            "ipaddresses",
            json!({"pool": {"name": "p"}, "claim": {"name": ""}, "address": "192.0.2.1"}),
            "spec.claim.name",
            "is required",
        ),
    ] {
        let found = problem(&scene.acme, "v1alpha1", plural, &spec).await?;
        assert!(found.starts_with(field), "{plural}: {found}");
        assert!(found.ends_with(why), "{plural}: {found}");
    }
    Ok(())
}

#[tokio::test]
async fn fields_that_decide_about_other_objects_are_immutable() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for (space, client) in scene.spaces() {
        for version in BOTH {
            for it in infrastructure() {
                let spec = if version == "v1beta1" {
                    &it.old
                } else {
                    &it.new
                };
                let name = match it.plural {
                    "metal3datas" => "t-3".to_owned(),
                    _ => version.to_owned(),
                };
                // The name of data is fixed, so that of both versions is the same object.
                if version == "v1beta1" || it.plural != "metal3datas" {
                    success(create(client, version, it.plural, &name, spec).await?);
                }
                let one = format!("{}/{name}", path(version, it.plural));
                let bonds = spec.pointer("/networkData/links/bonds").cloned();
                let text = bonds.unwrap_or_default().to_string();
                let bonds: Value = serde_json::from_str(&text.replace("fast", "slow"))?;
                let changes = match it.plural {
                    "metal3dataclaims" => vec![("template", json!({"template": {"name": "u"}}))],
                    "metal3datas" => vec![
                        ("index", json!({"index": 4})),
                        ("template", json!({"template": {"name": "u"}})),
                        ("claim", json!({"claim": null})),
                    ],
                    "metal3datatemplates" => vec![
                        ("metaData", json!({"metaData": {"strings": []}})),
                        ("networkData", json!({"networkData": null})),
                        (
                            "networkData",
                            json!({"networkData": {"links": {"bonds": bonds}}}),
                        ),
                    ],
                    _ => vec![],
                };
                for (field, change) in changes {
                    let patch = json!({"spec": change});
                    let message = refused(client.patch(&one, MERGE, &patch).await?);
                    let expected = format!("{field} cannot be changed");
                    assert!(
                        message.contains(&expected),
                        "{space} {}: {message}",
                        it.plural
                    );
                }
            }
        }
        for (plural, spec) in addresses() {
            success(create(client, "v1alpha1", plural, "x", &spec).await?);
            let one = format!("{}/x", path("v1alpha1", plural));
            let changes = match plural {
                "ippools" => vec![
                    ("namePrefix", json!("q")),
                    ("allocationStrategy", json!("sequential")),
                ],
                "ipclaims" => vec![("pool", json!({"name": "q"}))],
                _ => vec![
                    ("pool", json!({"name": "q"})),
                    ("claim", json!({"name": "q"})),
                    ("address", json!("192.0.2.13")),
                ],
            };
            for (field, value) in changes {
                let patch = json!({"spec": {field: value}});
                let message = refused(client.patch(&one, MERGE, &patch).await?);
                let expected = format!("{field} cannot be changed");
                assert!(message.ends_with(&expected), "{space} {plural}: {message}");
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
