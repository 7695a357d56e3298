//! The conversion of the shipped definitions, and of reviews of any group.

mod released;
mod server;

use std::sync::Arc;

use http::Request;
use insula_azure::versions::{self, ANNOTATION, Definitions};
use insula_azure::{crds, webhooks};
use insula_operator::webhook::Router;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// The greatest depth of random objects.
const MAX_DEPTH: usize = 6;

/// Returns the shipped definitions.
fn shipped() -> Vec<Value> {
    let conversion = webhooks::service().conversion(versions::PATH);
    let definitions = crds::all(&conversion);
    definitions.iter().map(|it| json!(it)).collect()
}

fn installed(definitions: &[Value]) -> Definitions {
    let installed = Definitions::new();
    for definition in definitions {
        installed.insert(definition).expect("a valid definition");
    }
    installed
}

/// A source of choices.
struct Choices(u64);

impl Choices {
    /// Returns a number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// Returns a value of a schema.
    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        match schema["type"].as_str().unwrap_or_default() {
            "string" => match schema["enum"].as_array() {
                Some(legal) if !legal.is_empty() => {
                    let index = self.below(legal.len() as u64);
                    legal[usize::try_from(index).unwrap_or_default()].clone()
                }
                _ => format!("text-{}", self.below(9)).into(),
            },
            "integer" => self.below(100).into(),
            "number" => (0.5 + f64::from(u8::try_from(self.below(100)).unwrap_or(0))).into(),
            "boolean" => (self.below(2) == 0).into(),
            "array" => {
                let count = self.below(3);
                (0..count)
                    .map(|_| self.value(&schema["items"], depth + 1))
                    .collect()
            }
            "object" => self.object(schema, depth),
            _ => json!({"any": self.below(9)}),
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let mut object = Map::new();
        if let Some(fields) = schema["properties"].as_object() {
            for (name, field) in fields {
                if depth < MAX_DEPTH && self.below(2) == 0 {
                    object.insert(name.clone(), self.value(field, depth + 1));
                }
            }
        } else if schema["additionalProperties"].is_object() {
            for key in 0..self.below(3) {
                let value = self.value(&schema["additionalProperties"], depth + 1);
                object.insert(format!("key-{key}"), value);
            }
        }
        object.into()
    }
}

/// Returns the names of the versions of a definition, and the storage version.
fn names(definition: &Value) -> (Vec<String>, String) {
    let versions = definition["spec"]["versions"].as_array();
    let (mut api, mut storage) = (Vec::new(), String::new());
    for version in versions.into_iter().flatten() {
        let name = version["name"].as_str().unwrap_or_default().to_owned();
        match version["storage"] == true {
            true => storage = name,
            false => api.push(name),
        }
    }
    (api, storage)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn objects_of_shipped_kinds_survive_all_versions(seed in any::<u64>()) {
        let definitions = shipped();
        let installed = installed(&definitions);
        for definition in &definitions {
            let (api, storage) = names(definition);
            let group = definition["spec"]["group"].as_str().unwrap();
            for (index, version) in api.iter().enumerate() {
                let schema = &definition["spec"]["versions"][index]["schema"]["openAPIV3Schema"];
                let mut choices = Choices(seed);
                let given = json!({
                    "apiVersion": format!("{group}/{version}"),
                    "kind": definition["spec"]["names"]["kind"],
                    "metadata": {"name": "a"},
                    "spec": choices.value(&schema["properties"]["spec"], 0),
                    "status": choices.value(&schema["properties"]["status"], 0),
                });
                let others = api.iter().filter(|other| *other != version);
                let others: Vec<_> = others.collect();
                let mut route = vec![&storage];
                for other in others {
                    route.extend([other, &storage]);
                }
                route.push(version);
                let mut converted = given.clone();
                for version in route {
                    let desired = format!("{group}/{version}");
                    converted = installed.convert(converted, &desired).unwrap();
                }
                prop_assert_eq!(converted, given);
            }
        }
    }
}

#[test]
fn stored_objects_have_the_layout_of_azure_service_operator() {
    let definitions = shipped();
    let installed = installed(&definitions);
    for definition in &definitions {
        let (api, storage) = names(definition);
        let group = definition["spec"]["group"].as_str().unwrap();
        // Fields that the stored version does not have are in its property bags.
        let given = json!({
            "apiVersion": format!("{group}/{}", api[0]),
            "kind": definition["spec"]["names"]["kind"],
            "metadata": {"name": "a"},
            "spec": {"notInAnyVersion": 1},
        });
        let desired = format!("{group}/{storage}");
        let stored = installed.convert(given, &desired).unwrap();
        assert_eq!(
            stored["spec"],
            json!({"$propertyBag": {"NotInAnyVersion": "1"}, "originalVersion": api[0]}),
            "{desired}"
        );
    }
}

async fn review(router: &Router, desired: &str, objects: &[Value]) -> Value {
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": desired, "objects": objects},
    });
    let request = Request::post(versions::PATH)
        .header("content-type", "application/json")
        .body(review.to_string().into())
        .expect("a request");
    let response = router.handle(request, None).await;
    serde_json::from_slice(response.body()).expect("a review")
}

#[tokio::test]
async fn reviews_convert_objects_of_any_group() {
    let definitions = Arc::new(installed(&shipped()));
    let router = versions::route(Router::new(), Arc::clone(&definitions));
    let (api, storage) = names(&shipped()[0]);
    let definition = &shipped()[0];
    let group = definition["spec"]["group"].as_str().unwrap();
    let kind = &definition["spec"]["names"]["kind"];
    let object = |name: &str| {
        json!({
            "apiVersion": format!("{group}/{}", api[0]), "kind": kind,
            "metadata": {"name": name, "uid": "1"}, "spec": {"azureName": name},
        })
    };
    let desired = format!("{group}/{storage}");
    let answer = review(&router, &desired, &[object("a"), object("b")]).await;
    assert_eq!(answer["response"]["result"], json!({"status": "Success"}));
    let converted = &answer["response"]["convertedObjects"];
    assert_eq!(converted[1]["apiVersion"], desired);
    assert_eq!(converted[1]["metadata"], json!({"name": "b", "uid": "1"}));
    assert_eq!(
        converted[1]["spec"],
        json!({"azureName": "b", "originalVersion": api[0]})
    );
    definitions.remove(group, kind.as_str().unwrap());
    let answer = review(&router, &desired, &[object("a")]).await;
    assert_eq!(answer["response"]["result"]["status"], "Failure");
}

#[test]
fn leftovers_of_api_versions_are_in_an_annotation_and_restored() {
    let field = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}});
    let version = |name: &str, spec: Value| {
        json!({"name": name, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": spec},
        }}})
    };
    let installed = Definitions::new();
    installed
        .insert(&json!({"spec": {
            "group": "any.example.com", "names": {"kind": "Thing"},
            "versions": [version("v1", field("old")), version("v2", field("new"))],
        }}))
        .unwrap();
    let given = json!({
        "apiVersion": "any.example.com/v1", "kind": "Thing",
        "metadata": {"name": "a"}, "spec": {"old": "x"},
    });
    let mut newer = installed
        .convert(given.clone(), "any.example.com/v2")
        .unwrap();
    assert_eq!(newer["spec"], json!({}));
    assert!(newer["metadata"]["annotations"][ANNOTATION].is_string());
    newer["spec"]["new"] = "y".into();
    let older = installed.convert(newer, "any.example.com/v1").unwrap();
    assert_eq!(older["spec"], json!({"old": "x"}));
    let newest = installed.convert(older, "any.example.com/v2").unwrap();
    assert_eq!(newest["spec"], json!({"new": "y"}));
}
