//! The CustomResourceDefinitions. They are data, in `data/crds`; schemas that several of them share
//! are in `data/parts`.

use insula_operator::crds::{Definitions, with_conversion};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::webhooks;

const DEFINITIONS: Definitions = Definitions {
    kinds: &KINDS,
    parts: PARTS,
};

const KINDS: [&str; 8] = [
    include_str!("../data/crds/vsphereclusteridentities.yaml"),
    include_str!("../data/crds/vsphereclusters.yaml"),
    include_str!("../data/crds/vsphereclustertemplates.yaml"),
    include_str!("../data/crds/vspheremachines.yaml"),
    include_str!("../data/crds/vspheremachinetemplates.yaml"),
    include_str!("../data/crds/vspherevms.yaml"),
    include_str!("../data/crds/vspheredeploymentzones.yaml"),
    include_str!("../data/crds/vspherefailuredomains.yaml"),
];

const PARTS: &[(&str, &str)] = insula_operator::embed!(
    "../data/parts",
    "addresses",
    "cards",
    "clone",
    "clusterspec",
    "clusterspec-v1beta1",
    "conditions-v1beta1",
    "deprecated",
    "device",
    "domain",
    "domainspec",
    "identityspec",
    "initialization",
    "machinespec",
    "machinespec-v1beta1",
    "name",
    "newer-conditions",
    "overrides",
    "pools",
    "routes",
    "template",
    "virtualmachine",
    "virtualmachine-status",
    "virtualmachine-v1beta1",
    "words",
    "zonespec",
);

/// Returns all definitions, identities first.
pub fn all() -> Vec<CustomResourceDefinition> {
    with_conversion(DEFINITIONS.all(), &webhooks::conversion())
}

/// Returns all definitions, published to every tenant of an Insula.
pub fn published() -> Vec<CustomResourceDefinition> {
    with_conversion(DEFINITIONS.published(), &webhooks::conversion())
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a1_kinds_are_defined_with_scope_and_columns() {
        let found: Vec<_> = all()
            .iter()
            .map(|definition| {
                let [version, older] = definition.spec.versions.as_slice() else {
                    panic!("{}: two versions are served", definition.name_any());
                };
                assert!(version.served && version.storage && version.name == "v1beta2");
                assert!(older.served && !older.storage && older.name == "v1beta1");
                assert_eq!(version.deprecated, None);
                assert_eq!(older.deprecated, Some(true));
                assert_eq!(version.subresources, older.subresources);
                let names = &definition.spec.names;
                let group = "infrastructure.cluster.x-k8s.io";
                assert_eq!(definition.name_any(), format!("{}.{group}", names.plural));
                assert_eq!(names.list_kind, Some(format!("{}List", names.kind)));
                assert_eq!(names.categories, Some(vec!["cluster-api".to_owned()]));
                let columns = version.additional_printer_columns.iter().flatten();
                let columns: Vec<_> = columns.map(|column| column.name.as_str()).collect();
                let status = version.subresources.is_some();
                let (scope, columns) = (&definition.spec.scope, columns.join(", "));
                format!(
                    "{} {} {scope} status={status}: {columns}",
                    names.kind, names.plural
                )
            })
            .collect();
        let expected = [
            "VSphereClusterIdentity vsphereclusteridentities Cluster status=true: Ready, Reason, Users, Secret, Age",
            "VSphereCluster vsphereclusters Namespaced status=true: Cluster, Server, ControlPlane Endpoint, Identity, Paused, Provisioned, Reason, Age",
            "VSphereClusterTemplate vsphereclustertemplates Namespaced status=false: Server, Age",
            "VSphereMachine vspheremachines Namespaced status=true: Cluster, Machine, ProviderID, Paused, Provisioned, Reason, Age",
            "VSphereMachineTemplate vspheremachinetemplates Namespaced status=false: Template, Age",
            "VSphereVM vspherevms Namespaced status=true: Cluster, Server, Ready, Address, VCenter, Reason, Age",
            "VSphereDeploymentZone vspheredeploymentzones Cluster status=true: Server, Failure Domain, Ready, Reason, Age",
            "VSphereFailureDomain vspherefailuredomains Cluster status=false: Region, Zone, Datacenter, Age",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn m1_every_kind_is_labelled_for_clusterctl_move() {
        for definition in all() {
            let name = definition.name_any();
            let label = |key: &str| definition.labels().get(key).map(String::as_str);
            assert_eq!(label("cluster.x-k8s.io/v1beta2"), Some("v1beta2"), "{name}");
            assert_eq!(label("cluster.x-k8s.io/v1beta1"), Some("v1beta1"), "{name}");
            let provider = label("cluster.x-k8s.io/provider");
            assert_eq!(provider, Some("infrastructure-vsphere"), "{name}");
            assert_eq!(label("clusterctl.cluster.x-k8s.io"), Some(""), "{name}");
            let hierarchy = label("clusterctl.cluster.x-k8s.io/move-hierarchy");
            let identity = definition.spec.names.kind == "VSphereClusterIdentity";
            assert_eq!(hierarchy, identity.then_some(""), "{name}");
        }
    }

    #[test]
    fn versions_are_converted_by_the_webhook_of_the_operator() {
        for definition in all().iter().chain(&published()) {
            let conversion = serde_json::to_value(&definition.spec.conversion).unwrap();
            let expected = json!({"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"service": {
                    "namespace": "capv-system", "name": "capv-webhook-service",
                    "path": "/convert", "port": 443,
                }},
            }});
            assert_eq!(conversion, expected, "{}", definition.name_any());
        }
    }

    #[test]
    fn o01_no_schema_field_names_a_namespace() {
        for (kind, schema) in schemas() {
            each(&kind, &schema, &mut |path, _| {
                let last = path.rsplit('.').next().unwrap().to_lowercase();
                assert!(!last.ends_with("namespace"), "{path}");
            });
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
    fn every_field_of_a_machine_is_immutable_or_listed_as_mutable() {
        let common = "bootstrapRef guestSoftPowerOffTimeout guestSoftPowerOffTimeoutSeconds network powerOffMode thumbprint";
        for (kind, changeable) in [
            ("VSphereMachine v1beta2", "providerID"),
            ("VSphereMachine v1beta1", "providerID"),
            ("VSphereVM v1beta2", ""),
            ("VSphereVM v1beta1", ""),
        ] {
            let schema = schemas().into_iter().find(|(of, _)| of == kind).unwrap().1;
            let spec = &schema["properties"]["spec"];
            let rules = spec["x-kubernetes-validations"].to_string();
            for field in spec["properties"].as_object().unwrap().keys() {
                let ruled = rules.contains(&format!("\"{field} cannot be changed"));
                let named = |list: &str| list.split(' ').any(|word| word == field);
                assert!(
                    ruled != (named(common) || named(changeable)),
                    "{kind}: {field}"
                );
            }
            for path in ["network.routes", "network.preferredAPIServerCidr"] {
                assert!(
                    rules.contains(&format!("\"{path} cannot be changed\"")),
                    "{path}"
                );
            }
        }
    }
}
