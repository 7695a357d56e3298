use kube::ResourceExt;
use serde_json::{Value, json};

use super::*;

/// Visits every value of a schema with its path.
fn each(path: &str, value: &Value, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, value);
    match value {
        Value::Object(members) => members
            .iter()
            .for_each(|(key, value)| each(&format!("{path}.{key}"), value, visit)),
        Value::Array(elements) => elements.iter().for_each(|value| each(path, value, visit)),
        _ => {}
    }
}

/// Returns the schemas of all versions, as kind and version.
fn schemas() -> Vec<(String, Value)> {
    let mut schemas = Vec::new();
    for definition in all() {
        for version in definition.spec.versions {
            let schema = version.schema.unwrap().open_api_v3_schema;
            let name = format!("{} {}", definition.spec.names.kind, version.name);
            schemas.push((name, serde_json::to_value(schema).unwrap()));
        }
    }
    schemas
}

/// Describes a version: its columns, and whether it has a status.
fn describe(definition: &CustomResourceDefinition, name: &str) -> String {
    let mut versions = definition.spec.versions.iter();
    let found = versions.find(|version| version.name == name);
    let version = found.unwrap();
    let columns = version.additional_printer_columns.iter().flatten();
    let columns: Vec<_> = columns.map(|column| column.name.as_str()).collect();
    let status = match version.subresources.is_some() {
        true => " with status",
        false => "",
    };
    format!("{name}{status}: {}", columns.join(", "))
}

#[test]
fn kinds_are_defined_with_names_and_columns() {
    let mut found = Vec::new();
    for definition in all() {
        let names = &definition.spec.names;
        assert_eq!(definition.spec.scope, "Namespaced");
        let group = &definition.spec.group;
        assert_eq!(definition.name_any(), format!("{}.{group}", names.plural));
        assert_eq!(names.list_kind, Some(format!("{}List", names.kind)));
        let short = names.short_names.clone().unwrap().join(" ");
        let categories = names.categories.clone().unwrap().join(" ");
        found.push(format!(
            "{} {} ({short}) [{categories}]",
            names.kind, names.plural
        ));
        for version in &definition.spec.versions {
            found.push(describe(&definition, &version.name));
        }
    }
    let expected = [
        "Metal3Cluster metal3clusters (m3c m3cluster m3clusters metal3c metal3cluster) [cluster-api]",
        "v1beta2 with status: Age, Provisioned, Error, Cluster, Endpoint",
        "v1beta1 with status: Age, Ready, Error, Cluster, Endpoint",
        "Metal3ClusterTemplate metal3clustertemplates (m3ct) [cluster-api]",
        "v1beta2: ",
        "v1beta1: ",
        "Metal3Machine metal3machines (m3m m3machine m3machines metal3m metal3machine) [cluster-api]",
        "v1beta2 with status: Age, ProviderID, Provisioned, Cluster",
        "v1beta1 with status: Age, ProviderID, Ready, Cluster, Phase",
        "Metal3MachineTemplate metal3machinetemplates (m3mt m3machinetemplate m3machinetemplates metal3mt metal3machinetemplate) [cluster-api]",
        "v1beta2: Age",
        "v1beta1: Age",
        "Metal3DataTemplate metal3datatemplates (m3dt m3datatemplate m3datatemplates metal3dt metal3datatemplate) [cluster-api]",
        "v1beta2 with status: Cluster, Age",
        "v1beta1 with status: Cluster, Age",
        "Metal3DataClaim metal3dataclaims (m3dc m3dataclaim m3dataclaims metal3dc metal3dataclaim) [cluster-api]",
        "v1beta2 with status: Age",
        "v1beta1 with status: Age",
        "Metal3Data metal3datas (m3d m3data m3datas metal3d metal3data) [cluster-api]",
        "v1beta2 with status: Age",
        "v1beta1 with status: Age",
        "Metal3Remediation metal3remediations (m3r m3remediation) [cluster-api]",
        "v1beta2 with status: Retry limit, Retry count, Last Remediated, Strategy, Phase",
        "v1beta1 with status: Retry limit, Retry count, Last Remediated, Strategy, Phase",
        "Metal3RemediationTemplate metal3remediationtemplates (m3rt m3remediationtemplate m3remediationtemplates metal3rt metal3remediationtemplate) [cluster-api]",
        "v1beta2 with status: ",
        "v1beta1 with status: ",
        "IPPool ippools (ipp ippool m3ipp m3ippool m3ippools metal3ipp metal3ippool metal3ippools) [cluster-api]",
        "v1alpha1 with status: Cluster, Age",
        "IPClaim ipclaims (ipc ipclaim m3ipc m3ipclaim m3ipclaims metal3ipc metal3ipclaim metal3ipclaims) [cluster-api]",
        "v1alpha1 with status: Age",
        "IPAddress ipaddresses (ipa ipaddress m3ipa m3ipaddress m3ipaddresses metal3ipa metal3ipaddress metal3ipaddresses) [metal3]",
        "v1alpha1: Age",
    ];
    assert_eq!(found, expected);
}

#[test]
fn every_kind_is_labelled_for_cluster_api_and_clusterctl() {
    for definition in all() {
        let name = definition.name_any();
        let label = |key: &str| definition.labels().get(key).map(String::as_str);
        let (provider, older, newer) = match definition.spec.group == GROUP {
            true => ("infrastructure-metal3", "v1beta1", "v1beta2"),
            false => ("ipam-metal3", "v1alpha1", "v1alpha1"),
        };
        assert_eq!(label("cluster.x-k8s.io/provider"), Some(provider), "{name}");
        assert_eq!(label("cluster.x-k8s.io/v1beta1"), Some(older), "{name}");
        assert_eq!(label("cluster.x-k8s.io/v1beta2"), Some(newer), "{name}");
        assert_eq!(label("clusterctl.cluster.x-k8s.io"), Some(""), "{name}");
        let annotations = json!(definition.annotations());
        let expected = match definition.spec.names.plural.as_str() {
            "metal3datas" => {
                json!({"clusterctl.cluster.x-k8s.io/skip-crd-name-preflight-check": ""})
            }
            _ => json!({}),
        };
        assert_eq!(annotations, expected, "{name}");
    }
}

#[test]
fn older_version_is_served_deprecated_and_converted() {
    for definition in all().iter().chain(&published()) {
        let name = definition.name_any();
        let conversion = json!(definition.spec.conversion);
        let [version, older] = definition.spec.versions.as_slice() else {
            assert_eq!(definition.spec.group, "ipam.metal3.io", "{name}");
            assert_eq!(conversion, Value::Null, "{name}");
            continue;
        };
        assert!(version.served && version.storage && version.name == "v1beta2");
        assert!(older.served && !older.storage && older.name == "v1beta1");
        assert_eq!(version.deprecated, None);
        assert_eq!(older.deprecated, Some(true));
        let kind = &definition.spec.names.kind;
        assert_eq!(
            older.deprecation_warning,
            Some(format!(
                "infrastructure.cluster.x-k8s.io/v1beta1 {kind} is deprecated; \
                 use infrastructure.cluster.x-k8s.io/v1beta2"
            ))
        );
        assert_eq!(version.subresources, older.subresources);
        let expected = json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"service": {
                "namespace": "capm3-system", "name": "capm3-webhook-service",
                "path": "/convert", "port": 443,
            }},
        }});
        assert_eq!(conversion, expected, "{name}");
    }
}

#[test]
fn every_text_list_and_map_of_a_schema_is_bounded() {
    for (kind, schema) in schemas() {
        each(&kind, &schema, &mut |path, value| {
            let root = path.matches('.').count() <= 2;
            let has = |key: &str| value.get(key).is_some();
            match value["type"].as_str() {
                Some("string") if !root => assert!(
                    has("maxLength") || has("enum") || value["format"] == "date-time",
                    "{path}"
                ),
                Some("array") => assert!(has("maxItems"), "{path}"),
                Some("object") if has("additionalProperties") => {
                    assert!(has("maxProperties"), "{path}");
                }
                _ => {}
            }
        });
    }
}

#[test]
fn short_forms_are_expanded_completely() {
    for (kind, schema) in schemas() {
        each(&kind, &schema, &mut |path, _| {
            let last = path.rsplit('.').next().unwrap();
            assert!(
                !last.starts_with("x-") || last.starts_with("x-kubernetes-"),
                "{path}"
            );
        });
    }
}

#[test]
fn every_part_is_used() {
    let texts: Vec<&str> = KINDS
        .into_iter()
        .chain(PARTS.iter().map(|part| part.1))
        .collect();
    for (name, _) in PARTS {
        let used = format!("x-part: {name}\n");
        assert!(texts.iter().any(|text| text.contains(&used)), "{name}");
    }
}

/// Names of objects become parts of URLs, so each has the pattern of a name.
#[test]
fn names_of_referenced_objects_have_a_pattern() {
    let mut found = 0;
    for (kind, schema) in schemas() {
        each(&kind, &schema, &mut |path, value| {
            let fields = [
                "name",
                "namespace",
                "ipAddressFromIPPool",
                "fromIPPool",
                "dnsFromIPPool",
            ];
            let last = path.rsplit('.').next().unwrap();
            let interface = path.contains(".links.") || path.contains(".parameters.");
            let own = [".metadata.", "ailureDomains", ".indexes."];
            let own = own.iter().any(|it| path.contains(it)) || interface;
            if fields.contains(&last) && value["type"] == "string" && !own {
                assert!(value.get("pattern").is_some(), "{path}");
                found += 1;
            }
        });
    }
    assert!(found > 50, "{found}");
}

#[test]
fn r37_definitions_are_labelled_for_moves_as_documented() {
    let labelled = super::all().into_iter().filter(|definition| {
        let labels = definition.metadata.labels.clone().unwrap_or_default();
        labels.contains_key("clusterctl.cluster.x-k8s.io/move")
    });
    let kinds: Vec<_> = labelled.map(|one| one.spec.names.kind).collect();
    // No Cluster owns them: templates and pools are shared, and claims may be those of users.
    let expected = [
        "Metal3DataTemplate",
        "Metal3RemediationTemplate",
        "IPPool",
        "IPClaim",
        "IPAddress",
    ];
    assert_eq!(kinds, expected);
    let page = include_str!("../../../../docs/metal3.md");
    let start = page.find("## Moving").expect("a section about moves");
    let section = &page[start..];
    for name in [
        crate::names::BLOCK_MOVE,
        crate::names::HOST_PAUSED,
        crate::names::HOST_STATUS,
        crate::names::CLAIM_ANNOTATION,
        "kubectl label secret prod-bmh-identity -n team-a clusterctl.cluster.x-k8s.io/move=",
        "kubectl label crd baremetalhosts.metal3.io",
        // What clusterctl does not protect.
        "**Do not use it for a namespace whose hosts others reach with a kubeconfig.**",
        crate::names::CLAIM_DIGEST,
        "**the target's Bare Metal Operator provisions them again while they are in use.**",
        "**Stop the Bare Metal Operator of the source first**",
        "the free hosts of their pool go with it",
    ] {
        assert!(section.contains(name), "{name}");
    }
}
