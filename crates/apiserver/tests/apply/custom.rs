//! Server-side apply on custom resources.

use insula_testkit::server::{TestServer, definition};

use super::*;

const WIDGETS: &str = "/apis/ex.io/v1/namespaces/default/widgets";
const WIDGET: &str = "/apis/ex.io/v1/namespaces/default/widgets/w";

async fn with_widgets(schema: Value) -> anyhow::Result<(TestServer, Client)> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let mut widgets = definition("ex.io", "widgets", "Widget", schema);
    widgets["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    client.define(&widgets).await?;
    Ok((server, client))
}

fn widget(spec: &Value) -> Value {
    json!({"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
}

#[tokio::test]
async fn lists_are_merged_by_schema() -> anyhow::Result<()> {
    let (_server, client) = with_widgets(json!({"type": "object", "properties": {
        "map": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {
                "k": {"type": "integer"}, "v": {"type": "string"}, "w": {"type": "string"}}},
        },
        "set": {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "items": {"type": "string"},
        },
        "atomic": {"type": "array", "items": {"type": "string"}},
    }}))
    .await?;
    let first = widget(&json!({"map": [{"k": 1, "v": "a"}], "set": ["x"], "atomic": ["p"]}));
    let answer = apply(&client, WIDGET, "one", &first).await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let second = widget(&json!({"map": [{"k": 1, "w": "b"}, {"k": 2}], "set": ["y"]}));
    let answer = apply(&client, WIDGET, "two", &second).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let object = answer.json();
    assert_eq!(
        object["spec"],
        json!({"map": [{"k": 1, "v": "a", "w": "b"}, {"k": 2}], "set": ["x", "y"],
            "atomic": ["p"]})
    );
    assert_eq!(
        owners(&object)[0].1,
        json!({"f:spec": {
            "f:atomic": {},
            "f:map": {"k:{\"k\":1}": {".": {}, "f:k": {}, "f:v": {}}},
            "f:set": {"v:\"x\"": {}},
        }})
    );
    // Of the shared list item, the fields of the second manager stay.
    let answer = apply(&client, WIDGET, "one", &widget(&json!({"atomic": ["p"]}))).await?;
    assert_eq!(
        answer.json()["spec"],
        json!({"map": [{"k": 1, "w": "b"}, {"k": 2}], "set": ["y"], "atomic": ["p"]})
    );
    Ok(())
}

#[tokio::test]
async fn null_is_refused_where_a_value_may_not_be_null() -> anyhow::Result<()> {
    let (_server, client) = with_widgets(json!({"type": "object", "properties": {
        "object": {"type": "object", "properties": {"a": {"type": "string"}}},
        "text": {"type": "string"},
        "nullable": {"type": "string", "nullable": true},
        "defaulted": {"type": "string", "default": "d"},
    }}))
    .await?;
    let allowed = json!({"nullable": null, "defaulted": null});
    // The same for the apply that creates and for one that changes.
    for status in [201, 200] {
        for (field, of_type) in [("object", "object"), ("text", "string")] {
            let mut spec = allowed.clone();
            spec[field] = Value::Null;
            let answer = apply(&client, WIDGET, "one", &widget(&spec)).await?;
            let message = format!(
                "Widget.ex.io \"w\" is invalid: spec.{field}: Invalid value: \"null\": \
                 spec.{field} in body must be of type {of_type}: \"null\""
            );
            assert_refused(&answer, 422, "Invalid", &message);
        }
        let answer = apply(&client, WIDGET, "one", &widget(&allowed)).await?;
        assert_eq!(answer.status, status, "{}", answer.text());
        let shown = json!({"nullable": null, "defaulted": "d"});
        assert_eq!(answer.json()["spec"], shown);
    }
    // What is left of an object without fields is no null of the client's.
    for object in [json!({"a": "x"}), json!({})] {
        let mut spec = json!({"defaulted": "d"});
        spec["object"] = object;
        let answer = apply(&client, WIDGET, "one", &widget(&spec)).await?;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    // In a body that is decoded, such a null counts as absent.
    let spec = json!({"object": null, "text": null});
    let mut other = widget(&spec);
    other["metadata"]["name"] = "other".into();
    let answer = client.post(WIDGETS, &other).await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.json()["spec"], json!({"defaulted": "d"}));
    Ok(())
}

#[tokio::test]
async fn unknown_fields_are_refused() -> anyhow::Result<()> {
    let (_server, client) =
        with_widgets(json!({"type": "object", "properties": {"a": {"type": "string"}}})).await?;
    let answer = apply(&client, WIDGET, "one", &widget(&json!({"b": 1}))).await?;
    assert_refused(
        &answer,
        500,
        "",
        "failed to create typed patch object (/w; ex.io/v1, Kind=Widget): .spec.b: field not \
         declared in schema",
    );
    Ok(())
}

#[tokio::test]
async fn creator_owns_all_fields_and_status_is_separate() -> anyhow::Result<()> {
    let (_server, client) =
        with_widgets(json!({"type": "object", "properties": {"a": {"type": "string"}}})).await?;
    let path = format!("{WIDGETS}?fieldManager=me");
    let answer = client.post(&path, &widget(&json!({"a": "1"}))).await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let all = json!({"f:spec": {".": {}, "f:a": {}}});
    assert_eq!(owners(&answer.json()), [("me Update".to_owned(), all)]);
    let status = json!({"status": {"ready": true}});
    let path = format!("{WIDGET}/status?fieldManager=ctl");
    let answer = client.patch(&path, "merge", &status).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let own = json!({"f:status": {".": {}, "f:ready": {}}});
    assert_eq!(
        owners(&answer.json())[0],
        ("ctl Update status".to_owned(), own)
    );
    Ok(())
}
