//! OpenAPI documents are consistent and contain what clients look for.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use insula_kinds::openapi::{v2_document, v2_protobuf, v3_document, v3_paths};
use insula_kinds::{Kind, Value, kinds};
use serde_json::json;

const ALL: &dyn Fn(&Kind) -> bool = &|_| true;
/// Some kinds of a space: without tenants, and without a whole group.
const SOME_KINDS: &dyn Fn(&Kind) -> bool =
    &|kind| !kind.system_only && kind.group != "flowcontrol.apiserver.k8s.io";

/// All version 3 documents, shared by the tests.
static V3: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let document = |path: String| {
        let bytes = v3_document(&path, ALL).unwrap();
        (path, serde_json::from_slice(&bytes).unwrap())
    };
    v3_paths(ALL).into_iter().map(document).collect()
});

fn v3(path: &str) -> &'static Value {
    &V3[path]
}

fn v2() -> Value {
    serde_json::from_slice(&v2_document(ALL)).unwrap()
}

fn schema(document: &Value, name: &str) -> Value {
    let schema = &document["components"]["schemas"][format!("io.k8s.{name}")];
    assert!(schema.is_object(), "{name}");
    schema.clone()
}

fn path_of(kind: &Kind) -> String {
    match kind.group.as_str() {
        "" => format!("api/{}", kind.version),
        group => format!("apis/{group}/{}", kind.version),
    }
}

/// Collects all values of the member at any depth.
fn collect<'a>(value: &'a Value, member: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                if name == member {
                    found.push(value);
                }
                collect(value, member, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, member, found)),
        _ => {}
    }
}

fn references(document: &Value, prefix: &str) -> BTreeSet<String> {
    let mut found = Vec::new();
    collect(document, "$ref", &mut found);
    // One type has a property with this name.
    let found = found.into_iter().filter_map(Value::as_str);
    let names = found.map(|text| text.strip_prefix(prefix).unwrap().to_owned());
    names.collect()
}

fn names(members: &Value) -> BTreeSet<String> {
    members.as_object().unwrap().keys().cloned().collect()
}

fn parameters(operation: &Value) -> BTreeSet<&str> {
    let parameters = operation["parameters"].as_array().unwrap().iter();
    parameters
        .map(|found| found["name"].as_str().unwrap())
        .collect()
}

#[test]
fn every_path_has_a_document() {
    let paths = v3_paths(ALL);
    for wanted in [
        "api",
        "api/v1",
        "apis",
        "apis/apps",
        "apis/apps/v1",
        "version",
    ] {
        assert!(paths.iter().any(|path| path == wanted), "{wanted}");
    }
    for path in paths {
        let document = v3(&path);
        assert_eq!(document["openapi"], "3.0.0");
        assert_eq!(document["info"]["version"], "1.36");
        assert!(!document["paths"].as_object().unwrap().is_empty(), "{path}");
    }
    for path in ["", "apis/", "apis/nope", "apis/apps/v2", "api/v2"] {
        assert!(v3_document(path, ALL).is_none(), "{path}");
    }
}

#[test]
fn references_and_schemas_match_exactly() {
    for path in v3_paths(ALL) {
        let document = v3(&path);
        let wanted = references(document, "#/components/schemas/");
        assert_eq!(names(&document["components"]["schemas"]), wanted, "{path}");
    }
    let document = v2();
    let wanted = references(&document, "#/definitions/");
    assert_eq!(names(&document["definitions"]), wanted);
}

#[test]
fn operation_ids_are_unique() {
    let document = v2();
    let mut found = Vec::new();
    collect(&document["paths"], "operationId", &mut found);
    let unique: BTreeSet<_> = found.iter().map(|id| id.as_str().unwrap()).collect();
    assert_eq!(unique.len(), found.len());
}

#[test]
fn every_kind_has_a_schema_that_names_it() {
    for (_, kind) in kinds().iter() {
        let document = v3(&path_of(kind));
        let wanted = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let named = schemas.values().find(|schema| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            kinds.is_some_and(|kinds| kinds.contains(&wanted))
        });
        let schema = named.unwrap_or_else(|| panic!("no schema for {wanted}"));
        assert_eq!(schema["properties"]["kind"]["type"], "string");
        assert!(
            schema["description"]
                .as_str()
                .unwrap()
                .starts_with(&kind.kind)
        );
    }
}

#[test]
fn patch_operations_accept_all_patch_types() {
    let mut patched = 0;
    for (_, kind) in kinds().iter().filter(|(_, kind)| kind.supports("patch")) {
        let document = v3(&path_of(kind));
        let wanted = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        for item in document["paths"].as_object().unwrap().values() {
            let patch = &item["patch"];
            if patch["x-kubernetes-group-version-kind"] != wanted {
                continue;
            }
            let found = parameters(patch);
            for parameter in ["dryRun", "fieldManager", "fieldValidation", "force"] {
                assert!(found.contains(parameter), "{wanted} {parameter}");
            }
            patched += 1;
        }
    }
    assert!(patched >= 59);
}

#[test]
fn namespaced_kind_has_all_paths() {
    let document = v3("apis/apps/v1");
    let paths = &document["paths"];
    let actions = |path: &str| {
        let item = paths[format!("/apis/apps/v1/{path}")].as_object().unwrap();
        let operations = item.iter().filter(|(name, _)| *name != "parameters");
        let action = |operation: &Value| {
            operation["x-kubernetes-action"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        operations
            .map(|(method, operation)| format!("{method}:{}", action(operation)))
            .collect::<Vec<_>>()
    };
    assert_eq!(actions("deployments"), ["get:list"]);
    let item = "namespaces/{namespace}/deployments/{name}";
    assert_eq!(
        actions("namespaces/{namespace}/deployments"),
        ["delete:deletecollection", "get:list", "post:post"]
    );
    assert_eq!(
        actions(item),
        ["delete:delete", "get:get", "patch:patch", "put:put"]
    );
    assert_eq!(
        actions(&format!("{item}/scale")),
        ["get:get", "patch:patch", "put:put"]
    );
    assert_eq!(actions(&format!("watch/{item}")), ["get:watch"]);
    assert_eq!(actions("watch/deployments"), ["get:watchlist"]);
    let item = &paths[format!("/apis/apps/v1/{item}")];
    assert_eq!(
        parameters(item),
        BTreeSet::from(["name", "namespace", "pretty"])
    );
    assert_eq!(item["get"]["operationId"], "readAppsV1NamespacedDeployment");
    assert_eq!(item["get"]["tags"], json!(["apps_v1"]));
    let formats = names(&item["patch"]["requestBody"]["content"]);
    assert!(formats.contains("application/apply-patch+yaml"));
    assert!(formats.contains("application/strategic-merge-patch+json"));
    let scale = &paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]["get"];
    assert_eq!(scale["x-kubernetes-group-version-kind"]["kind"], "Scale");
}

#[test]
fn subresources_use_their_own_kind() {
    let document = v3("api/v1");
    let below = |resource: &str, sub: &str| {
        document["paths"][format!("/api/v1/namespaces/{{namespace}}/{resource}/{{name}}/{sub}")]
            .clone()
    };
    let eviction = &below("pods", "eviction")["post"];
    let wanted = "#/components/schemas/io.k8s.api.policy.v1.Eviction";
    assert_eq!(
        eviction["requestBody"]["content"]["*/*"]["schema"]["$ref"],
        wanted
    );
    let exec = &below("pods", "exec")["get"];
    assert_eq!(exec["x-kubernetes-action"], "connect");
    assert!(parameters(exec).contains("command"));
    assert!(parameters(&below("pods", "log")["get"]).contains("tailLines"));
    let below_path = &below("services", "proxy/{path}")["get"];
    assert_eq!(
        below_path["operationId"],
        "connectCoreV1GetNamespacedServiceProxyWithPath"
    );
    let token = &below("serviceaccounts", "token")["post"];
    assert_eq!(
        token["x-kubernetes-group-version-kind"]["group"],
        "authentication.k8s.io"
    );
}

#[test]
fn schema_fields_state_their_merge_strategy() {
    let apps = v3("apis/apps/v1");
    let strategy = &schema(apps, "api.apps.v1.DeploymentSpec")["properties"]["strategy"];
    let wanted = json!({
        "allOf": [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentStrategy"}],
        "default": {},
        "x-kubernetes-patch-strategy": "retainKeys",
    });
    assert_eq!(*strategy, wanted);
    let containers = &schema(apps, "api.core.v1.PodSpec")["properties"]["containers"];
    let wanted = json!({
        "type": "array",
        "items": {
            "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}],
            "default": {},
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-patch-strategy": "merge",
        "x-kubernetes-patch-merge-key": "name",
    });
    assert_eq!(*containers, wanted);
    let ports = &schema(apps, "api.core.v1.Container")["properties"]["ports"];
    assert_eq!(
        ports["x-kubernetes-list-map-keys"],
        json!(["containerPort", "protocol"])
    );
    let volumes = &schema(apps, "api.core.v1.PodSpec")["properties"]["volumes"];
    assert_eq!(volumes["x-kubernetes-patch-strategy"], "merge,retainKeys");
    let selector = &schema(apps, "api.core.v1.PodSpec")["properties"]["nodeSelector"];
    assert_eq!(selector["x-kubernetes-map-type"], "atomic");
    let selector = schema(apps, "apimachinery.pkg.apis.meta.v1.LabelSelector");
    assert_eq!(selector["x-kubernetes-map-type"], "atomic");
    let volume = schema(v3("api/v1"), "api.core.v1.PersistentVolumeSpec");
    let claim = &volume["properties"]["claimRef"];
    assert_eq!(claim["x-kubernetes-map-type"], "granular");
}

#[test]
fn schema_fields_have_type_default_and_required() {
    let core = v3("api/v1");
    let port = schema(core, "api.core.v1.ContainerPort");
    assert_eq!(port["required"], json!(["containerPort"]));
    let wanted = json!({"type": "integer", "format": "int32", "default": 0});
    assert_eq!(port["properties"]["containerPort"], wanted);
    assert_eq!(port["properties"]["protocol"]["default"], "TCP");
    let secret = &schema(core, "api.core.v1.Secret")["properties"];
    let wanted = json!({"type": "string", "format": "byte"});
    assert_eq!(secret["data"]["additionalProperties"], wanted);
    let meta = &schema(core, "apimachinery.pkg.apis.meta.v1.ObjectMeta")["properties"];
    assert_eq!(meta["generation"]["format"], "int64");
    assert_eq!(meta["tenant"], json!({"type": "string"}));
    let wanted = json!({"type": "string", "format": "date-time"});
    assert_eq!(schema(core, "apimachinery.pkg.apis.meta.v1.Time"), wanted);
    let int_or_string = schema(core, "apimachinery.pkg.util.intstr.IntOrString");
    assert_eq!(int_or_string["format"], "int-or-string");
    let limits = &schema(core, "api.core.v1.ResourceRequirements")["properties"]["limits"];
    let wanted = "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity";
    assert_eq!(limits["additionalProperties"]["$ref"], wanted);
    let review = v3("apis/authorization.k8s.io/v1");
    let review = schema(review, "api.authorization.v1.SubjectAccessReviewSpec");
    let wanted = json!({"type": "array", "items": {"type": "string", "default": ""}});
    assert_eq!(
        review["properties"]["extra"]["additionalProperties"],
        wanted
    );
}

#[test]
fn json_unions_have_empty_schemas() {
    let document = v3("apis/apiextensions.k8s.io/v1");
    let prefix = "apiextensions-apiserver.pkg.apis.apiextensions.v1";
    for name in ["JSON", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrArray"] {
        assert_eq!(
            schema(document, &format!("{prefix}.{name}")),
            json!({}),
            "{name}"
        );
    }
    let props = schema(document, &format!("{prefix}.JSONSchemaProps"));
    assert_eq!(props["properties"]["$ref"], json!({"type": "string"}));
    assert_eq!(props["properties"]["maximum"]["format"], "double");
}

#[test]
fn documents_omit_kinds_the_space_does_not_serve() {
    let core = v3_document("api/v1", SOME_KINDS).unwrap();
    let core: Value = serde_json::from_slice(&core).unwrap();
    let paths = names(&core["paths"]);
    assert!(!paths.iter().any(|path| path.contains("/tenants")));
    assert!(paths.contains("/api/v1/namespaces/{namespace}/pods"));
    assert!(paths.contains("/api/v1/nodes/{name}"));
    assert!(
        core["components"]["schemas"]
            .get("io.k8s.api.core.v1.Tenant")
            .is_none()
    );
    let gone = "apis/flowcontrol.apiserver.k8s.io/v1";
    assert!(v3_document(gone, SOME_KINDS).is_none());
    assert!(!v3_paths(SOME_KINDS).iter().any(|path| path == gone));
    let all: Value = serde_json::from_slice(&v2_document(SOME_KINDS)).unwrap();
    assert!(
        !names(&all["paths"])
            .iter()
            .any(|path| path.contains("flowcontrol"))
    );
}

#[test]
fn v2_has_everything_in_one_document() {
    let document = v2();
    assert_eq!(document["swagger"], "2.0");
    let paths = names(&document["paths"]);
    for path in [
        "/api/",
        "/apis/",
        "/version/",
        "/apis/apps/",
        "/apis/apps/v1/",
    ] {
        assert!(paths.contains(path), "{path}");
    }
    let deployments = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments"];
    let body = &deployments["post"]["parameters"][0];
    let wanted = json!({
        "name": "body", "in": "body", "required": true,
        "schema": {"$ref": "#/definitions/io.k8s.api.apps.v1.Deployment"},
    });
    assert_eq!(*body, wanted);
    let spec = &document["definitions"]["io.k8s.api.apps.v1.DeploymentSpec"]["properties"];
    let wanted = json!({
        "$ref": "#/definitions/io.k8s.api.apps.v1.DeploymentStrategy",
        "x-kubernetes-patch-strategy": "retainKeys",
    });
    assert_eq!(spec["strategy"], wanted);
    let quantity = &document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"];
    assert_eq!(*quantity, json!({"type": "string"}));
    let mut defaults = Vec::new();
    collect(
        &document["definitions"]["io.k8s.api.core.v1.PodSpec"],
        "default",
        &mut defaults,
    );
    assert_eq!(defaults, Vec::<&Value>::new());
}

/// Returns the length-delimited fields of a message that have the number.
fn fields(mut message: &[u8], number: u64) -> Vec<&[u8]> {
    fn varint(message: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (first, rest) = message.split_first().unwrap();
            *message = rest;
            value |= u64::from(first & 0x7f) << shift;
            if *first < 0x80 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let length = varint(&mut message);
        match key & 7 {
            0 => {}
            2 => {
                let (field, rest) = message.split_at(length as usize);
                message = rest;
                if key >> 3 == number {
                    found.push(field);
                }
            }
            other => panic!("nothing here has wire type {other}"),
        }
    }
    found
}

#[test]
fn v2_protobuf_has_the_same_paths_and_definitions() {
    let document = v2();
    let protobuf = v2_protobuf(ALL);
    let named = |outer: u64, inner: u64| {
        let entries = fields(fields(&protobuf, outer)[0], inner);
        let names = entries.iter().map(|entry| fields(entry, 1)[0]);
        let names = names.map(|name| std::str::from_utf8(name).unwrap().to_owned());
        names.collect::<BTreeSet<_>>()
    };
    assert_eq!(named(8, 2), names(&document["paths"]));
    assert_eq!(named(9, 1), names(&document["definitions"]));
    assert_eq!(fields(&protobuf, 1), [b"2.0"]);
}
