//! The manifests as they are printed.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

fn printed(arguments: &[&str]) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_insula"));
    let output = command.args(["operator", "azure"]).args(arguments).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let documents = text.split("---\n").filter(|text| text.contains("kind:"));
    documents
        .map(|text| serde_saphyr::from_str(text).unwrap())
        .collect()
}

fn counted(objects: &[Value]) -> String {
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for object in objects {
        *counts.entry(object["kind"].as_str().unwrap()).or_default() += 1;
    }
    let counts: Vec<_> = counts
        .iter()
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect();
    counts.join(", ")
}

#[test]
fn r09_part_of_a_tenant_has_no_cluster_scoped_object_but_its_namespace() {
    let tenant = ["manifests", "--tenant", "acme", "--namespaces", "a,b"];
    let objects = printed(&tenant);
    assert_eq!(
        counted(&objects),
        "Deployment 1, Namespace 1, Role 1, RoleBinding 3, ServiceAccount 1"
    );
    let identity = ["--managed-identity", "c:/subscriptions/s/resourceGroups/g"];
    assert_eq!(
        counted(&printed(&[&tenant[..], &identity].concat())),
        "AzureIdentity 1, AzureIdentityBinding 1, Deployment 1, Namespace 1, Role 1, \
         RoleBinding 3, ServiceAccount 1"
    );
}

#[test]
fn r10_all_webhooks_point_at_the_service_which_may_be_another_one() {
    for (arguments, namespace, name) in [
        (
            &["manifests"][..],
            "azureoperator-system",
            "azureoperator-webhook-service",
        ),
        (
            &[
                "manifests",
                "--all-kinds",
                "--namespace",
                "azureserviceoperator-system",
                "--webhook-service",
                "azureserviceoperator-webhook-service",
            ],
            "azureserviceoperator-system",
            "azureserviceoperator-webhook-service",
        ),
    ] {
        let objects = printed(arguments);
        let admission = objects.iter().flat_map(|object| {
            let webhooks = object["webhooks"].as_array().into_iter().flatten();
            webhooks.map(|webhook| &webhook["clientConfig"])
        });
        let definitions = objects.iter().map(|object| {
            let conversion = &object["spec"]["conversion"];
            &conversion["webhook"]["clientConfig"]
        });
        let configs: Vec<_> = admission
            .chain(definitions.filter(|config| config.is_object()))
            .collect();
        assert!(configs.len() > 50, "{}", configs.len());
        for config in configs {
            assert_eq!(config["service"]["namespace"], namespace);
            assert_eq!(config["service"]["name"], name);
        }
    }
}

#[test]
fn definitions_are_those_of_the_manifests() {
    let definitions = printed(&["crds"]);
    let of_manifests = printed(&["manifests"]);
    let is_definition = |object: &Value| object["kind"] == "CustomResourceDefinition";
    let of_manifests: Vec<_> = of_manifests.into_iter().filter(is_definition).collect();
    assert_eq!(definitions, of_manifests);
    let published = "multi-tenancy.k8s.io/published";
    let everywhere = printed(&["manifests", "--tenants", "--without-deployment"]);
    let is_published = |object: &&Value| object["metadata"]["annotations"][published] == "true";
    assert_eq!(
        everywhere.iter().filter(is_published).count(),
        definitions.len()
    );
    assert!(
        everywhere
            .iter()
            .all(|object| object["kind"] != "Deployment")
    );
}
