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
