//! Less common output formats of get and explain.

use insula_e2e::kubectl::{Kubectl, squeezed};
use insula_e2e::two_tenants::TwoTenants;

/// A custom resource with columns and subresources.
const BOATS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.sea.example}
spec:
  group: sea.example
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, shortNames: [bo]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.masts, statusReplicasPath: .status.masts}
    additionalPrinterColumns: [{name: Masts, type: integer, jsonPath: .spec.masts}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: What it is built of.
            required: [masts]
            properties: {masts: {type: integer, description: How many carry sails.}}
          status: {type: object, properties: {masts: {type: integer}}}
"#;

const BOAT: &str =
    "apiVersion: sea.example/v1\nkind: Boat\nmetadata: {name: argo}\nspec: {masts: 1}\n";

fn boats(tenant: &Kubectl) {
    tenant.given(BOATS).get("apply -f -");
    tenant.get("wait --for=condition=Established crd/boats.sea.example --timeout=20s");
    tenant
        .given(BOAT)
        .prints("apply -f -", "boat.sea.example/argo created");
}

#[test]
fn templates_and_columns_can_come_from_files() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        for (name, replicas) in [("one", 3), ("two", 1)] {
            tenant.get(&format!(
                "create deployment {name} --image=x --replicas={replicas}"
            ));
        }
        tenant.write("template", "{{range .items}}{{.metadata.name}} {{end}}");
        tenant.write("path", "{.items[*].metadata.name}");
        tenant.write("columns", "NAME REPLICAS\n.metadata.name .spec.replicas\n");
        tenant.prints("get deploy -o go-template-file=template", "one two");
        tenant.prints("get deploy -o template --template='{{len .items}}'", "2");
        tenant.prints("get deploy -o jsonpath-file=path", "one two");
        tenant.shows(
            "get deploy -o custom-columns-file=columns",
            &["NAME REPLICAS", "one 3", "two 1"],
        );
        let listed = tenant.get("get deploy -o jsonpath-as-json='{.items[*].spec.replicas}'");
        assert_eq!(squeezed(&listed), "[ 3, 1 ]");
        tenant.shows(
            "get deploy --sort-by=.spec.replicas",
            &["NAME READY", "two 0/1", "one 0/3"],
        );
        tenant.prints(
            "get deploy --sort-by=.spec.replicas -o name",
            "deployment.apps/two\ndeployment.apps/one",
        );
        tenant.shows(
            "get deploy -o wide --no-headers --label-columns=app",
            &["one 0/3 0 0", "two 0/1 0 0"],
        );
        tenant.prints(
            "get deploy,sts,ds -o name --ignore-not-found",
            "deployment.apps/one\ndeployment.apps/two",
        );
        tenant.prints("get deploy none --ignore-not-found", "");
        tenant.refuses("get deploy -o nonsense", "unable to match a printer");
    });
}

#[test]
fn subresources_can_be_shown() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        tenant.get("create deployment web --image=x --replicas=2");
        boats(tenant);
        tenant.shows(
            "get deploy web --subresource=scale",
            &["NAME DESIRED AVAILABLE AGE", "web 2 0"],
        );
        tenant.shows("get deploy web --subresource=status", &["NAME READY UP-TO-DATE", "web 0/2"]);
        tenant.prints("get boat argo --subresource=scale -o jsonpath='{.kind} {.spec.replicas}'", "Scale 1");
        tenant.shows("get boat argo --subresource=scale", &["NAME DESIRED AVAILABLE AGE", "argo 1 0"]);
        tenant.prints("scale boat argo --replicas=3", "boat.sea.example/argo scaled");
        tenant.shows("get boats", &["NAME MASTS", "argo 3"]);
        tenant.prints(
            r#"patch boat argo --subresource=status --type=merge -p '{"status":{"masts":2},"spec":{"masts":9}}'"#,
            "boat.sea.example/argo patched",
        );
        tenant.prints("get boat argo -o jsonpath='{.spec.masts} {.status.masts}'", "3 2");
        // Older versions of kubectl check the list of subresources themselves.
        tenant.refuses("get boat argo --subresource=nonsense", "");
    });
}

#[test]
fn custom_kinds_and_older_versions_can_be_explained() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        boats(tenant);
        tenant.shows(
            "explain boat.spec",
            &[
                "GROUP: sea.example",
                "KIND: Boat",
                "VERSION: v1",
                "What it is built of.",
                "masts <integer> -required-",
                "How many carry sails.",
            ],
        );
        tenant.shows(
            "explain boat --recursive",
            &["spec <Object>", "masts <integer> -required-"],
        );
        tenant.shows(
            "explain hpa.spec --api-version=autoscaling/v1",
            &["VERSION: v1", "targetCPUUtilizationPercentage <integer>"],
        );
        tenant.shows(
            "explain hpa.spec --api-version=autoscaling/v2",
            &["VERSION: v2", "metrics <[]MetricSpec>"],
        );
        // As older versions of kubectl explain, from OpenAPI v2 in protobuf.
        tenant.shows(
            "explain boat.spec --output=plaintext-openapiv2",
            &[
                "KIND: Boat",
                "What it is built of.",
                "masts <integer> -required-",
            ],
        );
        tenant.refuses(
            "explain nonsense",
            "the server doesn't have a resource type \"nonsense\"",
        );
        tenant.refuses("explain boat --api-version=sea.example/v9", "v9");
    });
}
