//! Writing custom objects.

use http::Method;
use insula_testkit::server::TestServer;
use serde_json::{Value, json};

use super::samples::{create, foo_path, warnings};
use super::{FOOS, foo, foos};

/// A definition that exercises defaulting, pruning, nullable and preserved fields.
fn various_fields_crd() -> Value {
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer", "default": 3},
        "color": {"type": "string"},
        "maybe": {"type": "string", "nullable": true, "default": "d"},
        "list": {"type": "array", "items": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "integer", "default": 7}},
        "deep": {"type": "object", "default": {}, "properties": {
            "a": {"type": "string", "default": "x"},
        }},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "inner": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true},
    }});
    insula_testkit::server::definition("ex.io", "foos", "Foo", spec)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schema_applies_defaults_nulls_and_pruning() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    client.define(&various_fields_crd()).await?;
    for (number, (sent, stored, reported)) in [
        (
            json!({}),
            json!({"deep": {"a": "x"}, "maybe": "d", "size": 3}),
            vec![],
        ),
        (
            json!({"size": null, "maybe": null, "color": null}),
            json!({"deep": {"a": "x"}, "maybe": null, "size": 3}),
            vec![],
        ),
        (
            json!({"map": {"a": null, "b": 2}}),
            json!({"deep": {"a": "x"}, "map": {"a": 7, "b": 2}, "maybe": "d", "size": 3}),
            vec![],
        ),
        (
            json!({"zz": 1, "deep": {"b": 2, "a": "y"}, "free": {"b": [null, {"c": 1}]}}),
            json!({"deep": {"a": "y"}, "free": {"b": [null, {"c": 1}]}, "maybe": "d", "size": 3}),
            vec![
                r#"299 - "unknown field \"spec.deep.b\"""#,
                r#"299 - "unknown field \"spec.zz\"""#,
            ],
        ),
        (
            json!({"size": 2.0}),
            json!({"deep": {"a": "x"}, "maybe": "d", "size": 2}),
            vec![],
        ),
        (
            json!({"inner": {
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "a", "zz": 1, "labels": {"a": "b"}}, "data": {"x": "y"},
            }}),
            json!({
                "deep": {"a": "x"},
                "inner": {
                    "apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "y"},
                    "metadata": {"name": "a", "labels": {"a": "b"}},
                },
                "maybe": "d", "size": 3,
            }),
            vec![r#"299 - "unknown field \"spec.inner.metadata.zz\"""#],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("n{number}");
        let created = client.post(FOOS, &foo(&name, sent.clone())).await?;
        assert_eq!(created.status, 201, "{sent}: {}", created.text());
        assert_eq!(created.json()["spec"], stored, "{sent}");
        assert_eq!(warnings(&created), reported, "{sent}");
        let read = client.get(&foo_path(&name)).await?.json();
        assert_eq!(read, created.json(), "{sent}");
    }
    let refused = client
        .post(FOOS, &foo("x", json!({"list": [null]})))
        .await?;
    assert_eq!(refused.status, 422);
    assert_eq!(
        refused.message(),
        "Foo.ex.io \"x\" is invalid: spec.list[0]: Invalid value: \"null\": spec.list[0] in body \
         must be of type string: \"null\""
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn field_validation_modes_apply() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    client.define(&foos()).await?;
    let body = r#"{"apiVersion":"ex.io/v1","kind":"Foo","metadata":{"name":"a","zz":1},
        "spec":{"color":"a","color":"b","zz":1},"more":1}"#;
    let headers = [("content-type", "application/json")];
    let send = |query: &'static str| {
        let path = format!("{FOOS}?dryRun=All{query}");
        let client = &client;
        async move { client.send(Method::POST, &path, &headers, body).await }
    };
    for query in ["", "&fieldValidation=Warn"] {
        let created = send(query).await?;
        assert_eq!(created.status, 201, "{}", created.text());
        assert_eq!(created.json()["spec"], json!({"color": "b", "size": 3}));
        assert_eq!(
            warnings(&created),
            [
                r#"299 - "duplicate field \"spec.color\"""#,
                r#"299 - "unknown field \"metadata.zz\"""#,
                r#"299 - "unknown field \"more\"""#,
                r#"299 - "unknown field \"spec.zz\"""#,
            ]
        );
    }
    let created = send("&fieldValidation=Ignore").await?;
    assert_eq!((created.status, warnings(&created)), (201, vec![]));
    let refused = send("&fieldValidation=Strict").await?;
    assert_eq!((refused.status, warnings(&refused)), (400, vec![]));
    assert_eq!(
        refused.message(),
        "Foo in version \"v1\" cannot be handled as a Foo: strict decoding error: duplicate field \
         \"spec.color\", unknown field \"metadata.zz\", unknown field \"more\", unknown field \
         \"spec.zz\""
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn body_type_must_match_the_path() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    client.define(&foos()).await?;
    for (body, code, message) in [
        (
            r#"{"apiVersion":"ex.io/v1","metadata":{"name":"x"}}"#,
            400,
            "the object provided is unrecognized (must be of type Foo): Object 'Kind' is missing \
             in '{\"apiVersion\":\"ex.io/v1\",\"metadata\":{\"name\":\"x\"}}' \
             ({\"apiVersion\":\"ex.io/v1\",\"meta ...)",
        ),
        (
            r#"{"kind":"Foo","metadata":{"name":"x"}}"#,
            400,
            "the object provided is unrecognized (must be of type Foo): Object 'apiVersion' is \
             missing in '{\"kind\":\"Foo\",\"metadata\":{\"name\":\"x\"}}' \
             ({\"kind\":\"Foo\",\"metadata\":{\"nam ...)",
        ),
        (
            r#"{"apiVersion":"ex.io/v2","kind":"Foo","metadata":{"name":"x"}}"#,
            400,
            "the API version in the data (ex.io/v2) does not match the expected API version \
             (ex.io/v1)",
        ),
        (
            r#"{"apiVersion":"ex.io/v1","kind":"Bar","metadata":{"name":"x"}}"#,
            422,
            "Bar.ex.io \"x\" is invalid: kind: Invalid value: \"Bar\": must be Foo",
        ),
        (
            r#"{"apiVersion":"ex.io/v1","kind":"Foo","metadata":{"name":"x","labels":{"a":1}}}"#,
            400,
            "Foo in version \"v1\" cannot be handled as a Foo: json: cannot unmarshal number into \
             Go struct field ObjectMeta.labels of type string",
        ),
        (
            r#"{"apiVersion":"ex.io/v1","kind":"Foo","metadata":{"name":"X_"}}"#,
            422,
            "Foo.ex.io \"X_\" is invalid: metadata.name: Invalid value: \"X_\": a lowercase RFC \
             1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
             must start and end with an alphanumeric character (e.g. 'example.com', regex used \
             for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ),
        (
            r#"{"apiVersion":"ex.io/v1","kind":"Foo","metadata":{"name":"x","namespace":"y"}}"#,
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            r#"{"apiVersion":"ex.io/v1","kind":"Foo","metadata":{"name":"x","resourceVersion":"5"}}"#,
            500,
            "resourceVersion should not be set on objects to be created",
        ),
    ] {
        let headers = [("content-type", "application/json")];
        let answer = client.send(Method::POST, FOOS, &headers, body).await?;
        assert_eq!(answer.message(), message, "{body}");
        assert_eq!(answer.status, code, "{body}");
    }
    for body in ["", "[]", "null", "1", "{", "\"a\"", "{\"metadata\":[]}"] {
        let headers = [("content-type", "application/json")];
        let answer = client.send(Method::POST, FOOS, &headers, body).await?;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_can_be_json_yaml_or_cbor_only() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    client.define(&foos()).await?;
    let yaml = "apiVersion: ex.io/v1\nkind: Foo\nmetadata: {name: why}\nspec:\n  color: red\n  \
                size: 0x10\n";
    let headers = [
        ("content-type", "application/yaml"),
        ("accept", "application/yaml"),
    ];
    let created = client.send(Method::POST, FOOS, &headers, yaml).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!(created.header("content-type"), "application/yaml");
    assert!(
        created.text().contains("spec:\n  color: red\n  size: 16\n"),
        "{}",
        created.text()
    );
    let known = "the body of the request was in an unknown format - accepted media types include: \
                 application/json, application/yaml, application/cbor";
    let all = known.replace("yaml,", "yaml, application/vnd.kubernetes.protobuf,");
    for (media, message) in [
        ("application/vnd.kubernetes.protobuf", known),
        ("application/cbor-seq", &all),
        ("text/plain", &all),
    ] {
        let headers = [("content-type", media), ("accept", "application/json")];
        let refused = client.send(Method::POST, FOOS, &headers, "k8s\0").await?;
        assert_eq!(refused.status, 415, "{media}: {}", refused.text());
        assert_eq!(refused.message(), message, "{media}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patches_can_be_json_or_merge_patches_only() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    client.define(&foos()).await?;
    create(&client, FOOS, &foo("a", json!({"color": "red"}))).await?;
    let patched = client
        .patch(
            &foo_path("a"),
            "merge",
            &json!({"spec": {"color": null, "size": 5, "zz": 1}}),
        )
        .await?;
    assert_eq!(patched.status, 200, "{}", patched.text());
    assert_eq!(patched.json()["spec"], json!({"size": 5}));
    assert_eq!(warnings(&patched), [r#"299 - "unknown field \"spec.zz\"""#]);
    let replace = json!([{"op": "replace", "path": "/spec/size", "value": 6}]);
    let patched = client.patch(&foo_path("a"), "json", &replace).await?;
    assert_eq!(patched.json()["spec"], json!({"size": 6}));
    assert_eq!(patched.json()["metadata"]["generation"], 3);
    let refused = client
        .patch(
            &foo_path("a"),
            "strategic-merge",
            &json!({"spec": {"size": 7}}),
        )
        .await?;
    assert_eq!(refused.status, 415);
    assert_eq!(
        refused.message(),
        "the body of the request was in an unknown format - accepted media types include: \
         application/json-patch+json, application/merge-patch+json, \
         application/apply-patch+yaml, application/apply-patch+cbor"
    );
    let strict = format!("{}?fieldValidation=Strict", foo_path("a"));
    let refused = client
        .patch(&strict, "merge", &json!({"spec": {"zz": 1}}))
        .await?;
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(
        refused
            .message()
            .contains("strict decoding error: unknown field \"spec.zz\""),
        "{}",
        refused.message()
    );
    for (patch, code, message) in [
        (
            json!({"spec": {"size": "x"}}),
            422,
            "Foo.ex.io \"a\" is invalid: spec.size: Invalid value: \"string\": spec.size in body \
             must be of type integer: \"string\"",
        ),
        (
            json!({"metadata": {"name": "b"}}),
            400,
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            json!({"metadata": {"uid": "b"}}),
            422,
            "Foo.ex.io \"a\" is invalid: metadata.uid: Invalid value: \"b\": field is immutable",
        ),
        (
            json!({"metadata": {"resourceVersion": "1"}}),
            409,
            "Operation cannot be fulfilled on foos.ex.io \"a\": the object has been modified; \
             please apply your changes to the latest version and try again",
        ),
        (
            json!({"kind": "Bar"}),
            422,
            "Bar.ex.io \"a\" is invalid: kind: Invalid value: \"Bar\": must be Foo",
        ),
        (json!({"kind": null}), 422, ""),
        (json!({"apiVersion": "ex.io/v9"}), 422, ""),
    ] {
        let refused = client.patch(&foo_path("a"), "merge", &patch).await?;
        assert_eq!(refused.status, code, "{patch}: {}", refused.text());
        if !message.is_empty() {
            assert_eq!(refused.message(), message, "{patch}");
        }
    }
    let refused = client.patch(&foo_path("b"), "merge", &json!({})).await?;
    assert_eq!(refused.message(), "foos.ex.io \"b\" not found");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_needs_an_existing_object_and_its_resource_version() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    client.define(&foos()).await?;
    let created = create(&client, FOOS, &foo("a", json!({}))).await?;
    let refused = client
        .put(&foo_path("a"), &foo("a", json!({"size": 4})))
        .await?;
    assert_eq!(refused.status, 422);
    assert_eq!(
        refused.message(),
        "foos.ex.io \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be \
         specified for an update"
    );
    let absent = client.put(&foo_path("b"), &foo("b", json!({}))).await?;
    assert_eq!(
        (absent.status, absent.message()),
        (404, "foos.ex.io \"b\" not found".into())
    );
    let mut next = created.clone();
    next["spec"]["size"] = 4.into();
    next["metadata"]["generation"] = 77.into();
    let put = client.put(&foo_path("a"), &next).await?;
    assert_eq!(put.status, 200, "{}", put.text());
    assert_eq!(put.json()["metadata"]["generation"], 2);
    let again = client.put(&foo_path("a"), &next).await?;
    assert_eq!(again.status, 409, "{}", again.text());
    let mut other = put.json();
    other["metadata"]["uid"] = "x".into();
    let refused = client.put(&foo_path("a"), &other).await?;
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert!(
        refused.message().starts_with(
            "Operation cannot be fulfilled on foos.ex.io \"a\": StorageError: invalid object, \
             Code: 4, Key: /registry/ex.io/foos/t1/default/a, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: UID in precondition: x"
        ),
        "{}",
        refused.message()
    );
    // A no-op update stores nothing.
    let same = client.put(&foo_path("a"), &put.json()).await?;
    assert_eq!(same.json(), put.json());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generation_counts_changes_outside_metadata() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    client.define(&foos()).await?;
    let mut sent = foo("a", json!({}));
    sent["metadata"]["generation"] = 9.into();
    sent["status"] = json!({"phase": "x"});
    let created = create(&client, FOOS, &sent).await?;
    assert_eq!(created["metadata"]["generation"], 1);
    // Without the subresource, the status counts like any other field.
    assert_eq!(created["status"], json!({"phase": "x"}));
    for (patch, generation) in [
        (json!({"metadata": {"labels": {"a": "b"}}}), 1),
        (json!({"status": {"phase": "y"}}), 2),
        (json!({"spec": {"size": 4}}), 3),
        (json!({"spec": {"size": 4}}), 3),
        (json!({"metadata": {"generation": 50}}), 3),
        (json!({"metadata": {"finalizers": ["ex.io/hold"]}}), 3),
    ] {
        let patched = client.patch(&foo_path("a"), "merge", &patch).await?;
        assert_eq!(patched.status, 200, "{}", patched.text());
        assert_eq!(
            patched.json()["metadata"]["generation"],
            generation,
            "{patch}"
        );
    }
    let deleted = client.delete(&foo_path("a")).await?.json();
    assert_eq!(deleted["metadata"]["generation"], 4);
    assert_eq!(deleted["metadata"]["deletionGracePeriodSeconds"], 0);
    let again = client.delete(&foo_path("a")).await?.json();
    assert_eq!(again, deleted);
    let freed = client
        .patch(
            &foo_path("a"),
            "merge",
            &json!({"metadata": {"finalizers": null}}),
        )
        .await?;
    assert_eq!(freed.status, 200);
    assert_eq!(client.get(&foo_path("a")).await?.status, 404);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delete_collection_honours_selectors_and_finalizers() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    client.define(&foos()).await?;
    for name in ["a", "b", "c", "d"] {
        let mut sent = foo(name, json!({}));
        sent["metadata"]["labels"] = json!({"even": (name == "b" || name == "d").to_string()});
        if name == "d" {
            sent["metadata"]["finalizers"] = json!(["ex.io/hold"]);
        }
        create(&client, FOOS, &sent).await?;
    }
    let gone = client.delete(&foo_path("a")).await?;
    assert_eq!(gone.status, 200);
    assert_eq!(gone.json()["kind"], "Status");
    assert_eq!(gone.json()["details"]["kind"], "foos");
    assert_eq!(gone.json()["details"]["group"], "ex.io");
    let chosen = client
        .delete(&format!("{FOOS}?labelSelector=even%3Dtrue"))
        .await?;
    assert_eq!(chosen.json()["kind"], "FooList", "{}", chosen.text());
    assert_eq!(super::samples::names(&chosen.json()), ["b", "d"]);
    let left = client.get(FOOS).await?.json();
    assert_eq!(super::samples::names(&left), ["c", "d"]);
    assert!(left["items"][1]["metadata"]["deletionTimestamp"].is_string());
    let refused = client
        .patch(
            &foo_path("d"),
            "merge",
            &json!({"metadata": {"finalizers": ["ex.io/hold", "ex.io/b"]}}),
        )
        .await?;
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert_eq!(
        refused.message(),
        "Foo.ex.io \"d\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be \
         added if the object is being deleted, found new finalizers []string{\"ex.io/b\"}"
    );
    let gone = client
        .patch(
            &foo_path("d"),
            "json",
            &json!([{"op": "remove", "path": "/metadata/finalizers"}]),
        )
        .await?;
    assert_eq!(gone.status, 200, "{}", gone.text());
    assert_eq!(client.get(&foo_path("d")).await?.status, 404);
    Ok(())
}

/// Only namespaces and tenants wait for `spec.finalizers`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spec_finalizers_do_not_delay_deletion() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let mut definition = foos();
    let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["properties"]["finalizers"] =
        json!({"type": "array", "items": {"type": "string"}});
    client.define(&definition).await?;
    let mut sent = foo("a", json!({"finalizers": ["x"]}));
    sent["metadata"]["finalizers"] = json!(["ex.io/hold"]);
    create(&client, FOOS, &sent).await?;
    assert_eq!(client.delete(&foo_path("a")).await?.status, 200);
    let freed = client
        .patch(
            &foo_path("a"),
            "merge",
            &json!({"metadata": {"finalizers": null}}),
        )
        .await?;
    assert_eq!(freed.status, 200, "{}", freed.text());
    assert_eq!(client.get(&foo_path("a")).await?.status, 404);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_can_be_generated_and_are_unique() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    client.define(&foos()).await?;
    let mut sent = foo("x", json!({}));
    sent["metadata"] = json!({"generateName": "foo-"});
    let (one, other) = (
        create(&client, FOOS, &sent).await?,
        create(&client, FOOS, &sent).await?,
    );
    let name = one["metadata"]["name"].as_str().unwrap_or("");
    assert!(name.starts_with("foo-") && name.len() == 9, "{name}");
    assert_ne!(one["metadata"]["name"], other["metadata"]["name"]);
    let refused = client.post(FOOS, &foo(name, json!({}))).await?;
    assert_eq!(refused.status, 409);
    assert_eq!(
        refused.message(),
        format!("foos.ex.io \"{name}\" already exists")
    );
    let mut nameless = foo("x", json!({}));
    nameless["metadata"] = json!({});
    let refused = client.post(FOOS, &nameless).await?;
    assert_eq!(
        refused.message(),
        "Foo.ex.io \"\" is invalid: metadata.name: Required value: name or generateName is required"
    );
    Ok(())
}

/// Owner references, as operators set them on created objects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn custom_objects_can_be_owners() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    client.define(&foos()).await?;
    let owner = create(&client, FOOS, &foo("a", json!({}))).await?;
    let reference = json!([{
        "apiVersion": "ex.io/v1", "kind": "Foo", "name": "a", "uid": owner["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }]);
    let map = json!({"metadata": {"name": "m", "ownerReferences": reference}});
    let created = client
        .post("/api/v1/namespaces/default/configmaps", &map)
        .await?;
    assert_eq!(created.status, 201, "{}", created.text());
    let mut owned = foo("b", json!({}));
    owned["metadata"]["ownerReferences"] = reference.clone();
    let created = create(&client, FOOS, &owned).await?;
    assert_eq!(created["metadata"]["ownerReferences"], reference);
    let mut wrong = foo("c", json!({}));
    wrong["metadata"]["ownerReferences"] = json!([{"apiVersion": "ex.io/v1", "kind": "Foo"}]);
    let refused = client.post(FOOS, &wrong).await?;
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert_eq!(
        refused.message(),
        "Foo.ex.io \"c\" is invalid: [metadata.ownerReferences.name: Invalid value: \"\": must \
         not be empty, metadata.ownerReferences.uid: Invalid value: \"\": must not be empty]"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_finalizer_names_warn_when_added() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    client.define(&foos()).await?;
    let mut sent = foo("a", json!({}));
    sent["metadata"]["finalizers"] = json!(["orphan", "ex.io/fine", "ex.io", "bare"]);
    let created = client.post(FOOS, &sent).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    let bare = "prefer a domain-qualified finalizer name to avoid accidental conflicts with other \
                finalizer writers";
    let path = "prefer a domain-qualified finalizer name including a path (/) to avoid accidental \
                conflicts with other finalizer writers";
    assert_eq!(
        warnings(&created),
        [
            format!(r#"299 - "metadata.finalizers: \"bare\": {bare}""#),
            format!(r#"299 - "metadata.finalizers: \"ex.io\": {path}""#),
        ]
    );
    let patch = json!({"metadata": {"finalizers": ["bare", "other"]}});
    let patched = client.patch(&foo_path("a"), "merge", &patch).await?;
    assert_eq!(
        warnings(&patched),
        [format!(r#"299 - "metadata.finalizers: \"other\": {bare}""#)]
    );
    Ok(())
}

/// The nesting depth is limited, so that every stored object can be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nesting_depth_is_limited_on_every_verb() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    client.define(&various_fields_crd()).await?;
    let deep = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    let body = |depth: usize| {
        let (free, head) = (deep(depth), r#"{"apiVersion":"ex.io/v1","kind":"Foo""#);
        format!(r#"{head},"metadata":{{"name":"d{depth}"}},"spec":{{"free":{free}}}}}"#)
    };
    let json = [("content-type", "application/json")];
    for (media, depth, code) in [
        ("json", 100, 201),
        ("json", 1000, 400),
        ("json", 100_000, 400),
        ("yaml", 50, 201),
        ("yaml", 1000, 400),
        ("yaml", 100_000, 400),
    ] {
        let media = format!("application/{media}");
        let headers = [("content-type", media.as_str())];
        let path = format!("{FOOS}?dryRun=All");
        let created = client
            .send(Method::POST, &path, &headers, body(depth))
            .await?;
        assert_eq!(created.status, code, "{depth} {media}: {}", created.text());
    }
    let created = client.send(Method::POST, FOOS, &json, body(100)).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    // Nested one level at a time by patches.
    let mut end = format!("/spec/free{}", "/a".repeat(100));
    for _ in 0..4 {
        let value: Value = serde_json::from_str(&deep(60))?;
        let patch = json!([{"op": "replace", "path": end, "value": value}]);
        client.patch(&foo_path("d100"), "json", &patch).await?;
        end.push_str(&"/a".repeat(60));
    }
    let read = client.get(&foo_path("d100")).await?.json();
    assert_eq!(read["spec"]["size"], 3);
    assert_eq!(read["metadata"]["name"], "d100");
    Ok(())
}
