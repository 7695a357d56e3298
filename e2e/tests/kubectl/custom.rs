//! Custom resources: the same name in both tenants, with different definitions.

use insula_e2e::kubectl::Kubectl;
use insula_e2e::two_tenants::TwoTenants;

/// A CRD `backups.ops.example.com` with this version and these `spec` properties, in YAML.
fn definition(version: &str, properties: &str, columns: &str) -> String {
    format!(
        "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: backups.ops.example.com
spec:
  group: ops.example.com
  scope: Namespaced
  names:
    plural: backups
    singular: backup
    kind: Backup
    shortNames: [bk]
    categories: [all, ops]
  versions:
  - name: {version}
    served: true
    storage: true
    subresources:
      status: {{}}
      scale:
        specReplicasPath: .spec.copies
        statusReplicasPath: .status.copies
    additionalPrinterColumns:
{columns}
    schema:
      openAPIV3Schema:
        description: Keeps things safe.
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            description: What is wanted.
            properties:
{properties}
          status:
            type: object
            properties:
              copies:
                type: integer
"
    )
}

const PROPERTIES: &str = "              copies:
                type: integer
                default: 1
                minimum: 0
                description: How many are kept.
              target:
                type: object
                description: Where it goes.
                properties:
                  bucket:
                    type: string
                    maxLength: 8
                    description: The bucket that takes it.";

const COLUMNS: &str = "    - name: Copies
      type: integer
      jsonPath: .spec.copies
    - name: Bucket
      type: string
      jsonPath: .spec.target.bucket
      priority: 1";

fn backup(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: ops.example.com/v1\nkind: Backup\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    )
}

/// Creates the definition and waits until it is served.
#[track_caller]
fn define(tenant: &Kubectl, text: &str) {
    let name = "customresourcedefinition.apiextensions.k8s.io/backups.ops.example.com";
    tenant.write("backups.yaml", text);
    tenant.prints("apply -f backups.yaml", &format!("{name} created"));
    tenant.prints(
        "wait --for=condition=Established crd/backups.ops.example.com --timeout=20s",
        &format!("{name} condition met"),
    );
    tenant.prints("apply -f backups.yaml", &format!("{name} unchanged"));
}

#[test]
fn custom_kind_can_be_defined_explained_used_and_deleted() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        define(tenant, &definition("v1", PROPERTIES, COLUMNS));
        tenant.shows(
            "api-resources --api-group=ops.example.com",
            &[
                "NAME SHORTNAMES APIVERSION NAMESPACED KIND",
                "backups bk ops.example.com/v1 true Backup",
            ],
        );
        explains(tenant);
        tenant.write("nightly.yaml", &backup("nightly", "{target: {bucket: b1}}"));
        tenant.prints(
            "apply -f nightly.yaml",
            "backup.ops.example.com/nightly created",
        );
        tenant.prints(
            "apply -f nightly.yaml",
            "backup.ops.example.com/nightly unchanged",
        );
        tenant.shows("get backups", &["NAME COPIES", "nightly 1"]);
        tenant.shows("get bk -o wide", &["NAME COPIES BUCKET", "nightly 1 b1"]);
        tenant.prints(
            "get backup nightly -o name",
            "backup.ops.example.com/nightly",
        );
        tenant.shows("get ops", &["NAME COPIES", "nightly 1"]);
        tenant.shows(
            "get all",
            &["NAME COPIES", "backup.ops.example.com/nightly 1"],
        );
        tenant.shows(
            "get backups.v1.ops.example.com nightly -o yaml",
            &[
                "apiVersion: ops.example.com/v1",
                "kind: Backup",
                "generation: 1",
                "copies: 1",
                "bucket: b1",
            ],
        );
        tenant.shows(
            "describe bk nightly",
            &[
                "Name: nightly",
                "API Version: ops.example.com/v1",
                "Bucket: b1",
            ],
        );
        changes(tenant);
        tenant.shows(
            "delete bk nightly",
            &["backup.ops.example.com \"nightly\" deleted"],
        );
        tenant.prints("get backups", "");
        tenant.prints(
            "delete crd backups.ops.example.com",
            "customresourcedefinition.apiextensions.k8s.io \"backups.ops.example.com\" deleted",
        );
        // kubectl's discovery cache may be outdated.
        tenant.refuses(
            "get backups",
            "the server could not find the requested resource",
        );
        tenant.get("api-resources --cached=false");
        tenant.refuses(
            "get backups",
            "the server doesn't have a resource type \"backups\"",
        );
        tenant.refuses(
            "apply -f nightly.yaml",
            "no matches for kind \"Backup\" in version \"ops.example.com/v1\"",
        );
    });
}

#[track_caller]
fn explains(tenant: &Kubectl) {
    tenant.shows(
        "explain backup",
        &[
            "GROUP: ops.example.com",
            "KIND: Backup",
            "VERSION: v1",
            "Keeps things safe.",
            "spec <Object> -required-",
            "What is wanted.",
        ],
    );
    tenant.shows(
        "explain backup.spec.target.bucket",
        &["FIELD: bucket <string>", "The bucket that takes it."],
    );
    tenant.shows(
        "explain bk --recursive",
        &[
            "spec <Object> -required-",
            "copies <integer>",
            "target <Object>",
            "bucket <string>",
        ],
    );
    tenant.refuses(
        "explain backup.spec.nothing",
        "field \"nothing\" does not exist",
    );
}

#[track_caller]
fn changes(tenant: &Kubectl) {
    tenant.prints(
        "scale backup nightly --replicas=3",
        "backup.ops.example.com/nightly scaled",
    );
    tenant.prints("get bk nightly -o jsonpath={.spec.copies}", "3");
    tenant.prints(
        "patch bk nightly --type=merge -p {\"spec\":{\"copies\":4}}",
        "backup.ops.example.com/nightly patched",
    );
    tenant.prints(
        "patch bk nightly --subresource=status --type=merge -p {\"status\":{\"copies\":2}}",
        "backup.ops.example.com/nightly patched",
    );
    tenant.prints(
        "get bk nightly -o jsonpath='{.spec.copies} {.status.copies} {.metadata.generation}'",
        "4 2 3",
    );
    // Anchored, since a UID may contain `b1`.
    let editing = tenant.editing("sed -i 's/bucket: b1/bucket: b2/'");
    editing.prints("edit bk nightly", "backup.ops.example.com/nightly edited");
    tenant.prints("get bk nightly -o jsonpath={.spec.target.bucket}", "b2");
    tenant.prints(
        "label bk nightly tier=gold",
        "backup.ops.example.com/nightly labeled",
    );
    tenant.prints(
        "annotate bk nightly a=b",
        "backup.ops.example.com/nightly annotated",
    );
    tenant.prints(
        "get bk -l tier=gold -o name",
        "backup.ops.example.com/nightly",
    );
    tenant.prints(
        "wait --for=jsonpath={.status.copies}=2 bk/nightly --timeout=20s",
        "backup.ops.example.com/nightly condition met",
    );
}

#[test]
fn kubectl_shows_validation_errors() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        define(tenant, &definition("v1", PROPERTIES, COLUMNS));
        for (file, spec, why) in [
            (
                "long",
                "{target: {bucket: far-too-long}}",
                "The Backup \"long\" is invalid: spec.target.bucket: Too long: may not be more than 8 bytes",
            ),
            (
                "low",
                "{copies: -1}",
                "spec.copies: Invalid value: -1: spec.copies in body should be greater than or equal to 0",
            ),
            (
                "kind",
                "{copies: many}",
                "* spec.copies: Invalid value: \"string\": spec.copies in body must be of type integer: \"string\"",
            ),
            (
                "stray",
                "{copies: 1, stray: 2}",
                "Backup in version \"v1\" cannot be handled as a Backup: strict decoding error: unknown field \"spec.stray\"",
            ),
        ] {
            tenant.write("bad.yaml", &backup(file, spec));
            tenant.refuses("create -f bad.yaml", why);
        }
        let said = tenant.run("create -f bad.yaml --validate=warn");
        assert_eq!(said.code, Some(0), "{said}");
        assert!(said.to_string().contains("Warning: unknown field \"spec.stray\""), "{said}");
        tenant.refuses("get bk nothing", "Error from server (NotFound): backups.ops.example.com \"nothing\" not found");
        tenant.refuses(
            "patch bk stray --type=strategic -p {}",
            "application/json-patch+json, application/merge-patch+json",
        );
        let wrong = definition("v1", PROPERTIES, COLUMNS).replace("scope: Namespaced", "scope: Everywhere");
        tenant.write("wrong.yaml", &wrong);
        tenant.refuses(
            "replace -f wrong.yaml",
            "spec.scope: Unsupported value: \"Everywhere\": supported values: \"Cluster\", \"Namespaced\"",
        );
    });
}

#[test]
fn two_tenants_can_define_one_name_in_different_versions() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    let [one, other] = &two_tenants.tenants;
    define(one, &definition("v1", PROPERTIES, COLUMNS));
    let properties = PROPERTIES
        .replace("bucket", "shelf")
        .replace("The shelf that", "The shelf which");
    let columns = COLUMNS
        .replace("bucket", "shelf")
        .replace("Bucket", "Shelf");
    let cluster = definition("v2alpha1", &properties, &columns)
        .replace("scope: Namespaced", "scope: Cluster");
    define(other, &cluster);
    one.write("b.yaml", &backup("same", "{target: {bucket: b1}}"));
    one.prints("apply -f b.yaml", "backup.ops.example.com/same created");
    let text = backup("same", "{target: {shelf: s1}}").replace("/v1", "/v2alpha1");
    other.write("b.yaml", &text);
    other.prints("apply -f b.yaml", "backup.ops.example.com/same created");
    one.shows("get bk -o wide", &["NAME COPIES BUCKET", "same 1 b1"]);
    other.shows("get bk -o wide", &["NAME COPIES SHELF", "same 1 s1"]);
    one.shows(
        "explain bk.spec.target",
        &["VERSION: v1", "bucket <string>"],
    );
    other.shows(
        "explain bk.spec.target",
        &["VERSION: v2alpha1", "shelf <string>"],
    );
    one.refuses(
        "explain bk.spec.target.shelf",
        "field \"shelf\" does not exist",
    );
    one.shows(
        "api-resources --api-group=ops.example.com",
        &["backups bk ops.example.com/v1 true Backup"],
    );
    other.shows(
        "api-resources --api-group=ops.example.com",
        &["backups bk ops.example.com/v2alpha1 false Backup"],
    );
    two_tenants
        .system
        .refuses("get bk", "the server doesn't have a resource type \"bk\"");
    one.get("delete crd backups.ops.example.com");
    one.refuses("get bk", "the server could not find the requested resource");
    other.prints("get bk -o name", "backup.ops.example.com/same");
}
