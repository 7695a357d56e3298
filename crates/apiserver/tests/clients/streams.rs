//! Streamed lists and bookmarks in every watch format.

use http::Method;
use serde_json::{Value, json};

use super::{FOOS, MAPS, PROTOBUF, decode_object, envelope_type, event, kind, meta, start};

/// As client-go informers (since 1.35) and `kubectl wait` send it.
const STREAM: &str = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true\
                      &resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name!=kube-root-ca.crt";

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,\
                     application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
const META: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                    application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

fn bookmark_annotations(object: &Value) -> &Value {
    &object["metadata"]["annotations"]["k8s.io/initial-events-end"]
}

#[tokio::test]
async fn lists_are_streamed_in_json() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    for (path, of) in [(MAPS, "ConfigMap"), (FOOS, "Foo")] {
        for accept in ["application/json", "application/json;stream=watch", "*/*"] {
            let list = client.get(path).await?.json();
            let mut watch = client.watch_as(&format!("{path}?{STREAM}"), accept).await?;
            assert_eq!(watch.headers["content-type"], "application/json");
            let first = watch.next().await?.unwrap_or_default();
            assert_eq!(first["type"], "ADDED", "{first}");
            assert_eq!(
                first["object"]["kind"], of,
                "items of streams say what they are"
            );
            let second = watch.next().await?.unwrap_or_default();
            let version = &list["metadata"]["resourceVersion"];
            assert_eq!(
                second,
                json!({"type": "BOOKMARK", "object": {
                    "kind": of,
                    "apiVersion": first["object"]["apiVersion"],
                    "metadata": {
                        "resourceVersion": version,
                        "annotations": {"k8s.io/initial-events-end": "true"},
                    },
                }})
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn lists_are_streamed_in_protobuf() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let of = kind("", "v1", "configmaps").type_id();
    for accept in [
        "application/vnd.kubernetes.protobuf,application/json",
        "application/vnd.kubernetes.protobuf;stream=watch",
        "application/vnd.kubernetes.protobuf, */*",
    ] {
        let mut watch = client.watch_as(&format!("{MAPS}?{STREAM}"), accept).await?;
        assert_eq!(
            watch.headers["content-type"],
            "application/vnd.kubernetes.protobuf;stream=watch"
        );
        let (kind, object) = event(&watch.frame().await?.unwrap_or_default())?;
        assert_eq!(
            (kind.as_str(), envelope_type(&object)?.1.as_str()),
            ("ADDED", "ConfigMap")
        );
        assert_eq!(decode_object(of, &object)?["data"], json!({"k": "v"}));
        let (kind, object) = event(&watch.frame().await?.unwrap_or_default())?;
        assert_eq!(
            (kind.as_str(), envelope_type(&object)?.1.as_str()),
            ("BOOKMARK", "ConfigMap")
        );
        assert_eq!(bookmark_annotations(&decode_object(of, &object)?), "true");
        // Later events come in the same format.
        client
            .post(MAPS, &json!({"metadata": {"generateName": "x-"}}))
            .await?;
        let (kind, object) = event(&watch.frame().await?.unwrap_or_default())?;
        assert_eq!(
            (kind.as_str(), envelope_type(&object)?.1.as_str()),
            ("ADDED", "ConfigMap")
        );
        client
            .delete(&format!("{MAPS}?labelSelector=!none"))
            .await?;
        client
            .post(
                MAPS,
                &json!({"metadata": {"name": "a"}, "data": {"k": "v"}}),
            )
            .await?;
    }
    // Custom resources have no protobuf: clients that accept both get JSON.
    let accept = "application/vnd.kubernetes.protobuf,application/json";
    let mut watch = client.watch_as(&format!("{FOOS}?{STREAM}"), accept).await?;
    assert_eq!(watch.headers["content-type"], "application/json");
    assert_eq!(watch.next().await?.unwrap_or_default()["type"], "ADDED");
    Ok(())
}

#[tokio::test]
async fn metadata_lists_are_streamed() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let of = meta("PartialObjectMetadata");
    for path in [MAPS, FOOS] {
        let mut watch = client.watch_as(&format!("{path}?{STREAM}"), META).await?;
        for wanted in ["ADDED", "BOOKMARK"] {
            let (kind, object) = event(&watch.frame().await?.unwrap_or_default())?;
            assert_eq!(kind, wanted, "{path}");
            let (version, named) = envelope_type(&object)?;
            assert_eq!(
                (version.as_str(), named.as_str()),
                ("meta.k8s.io/v1", "PartialObjectMetadata")
            );
            let tree = decode_object(of, &object)?;
            match wanted {
                "ADDED" => assert_eq!(tree["metadata"]["name"], "a", "{path}"),
                _ => assert_eq!(bookmark_annotations(&tree), "true", "{path}"),
            }
        }
        let json = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let mut watch = client.watch_as(&format!("{path}?{STREAM}"), json).await?;
        let first = watch.next().await?.unwrap_or_default();
        assert_eq!(first["object"]["kind"], "PartialObjectMetadata");
        assert_eq!(first["object"]["metadata"]["name"], "a");
        let second = watch.next().await?.unwrap_or_default();
        assert_eq!(
            (&second["type"], bookmark_annotations(&second["object"])),
            (&json!("BOOKMARK"), &json!("true"))
        );
        assert_eq!(second["object"]["kind"], "PartialObjectMetadata");
    }
    Ok(())
}

#[tokio::test]
async fn lists_are_streamed_as_tables() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    for path in [MAPS, FOOS] {
        for (include, carries) in [("", true), ("&includeObject=None", false)] {
            let mut watch = client
                .watch_as(&format!("{path}?{STREAM}{include}"), TABLE)
                .await?;
            let first = watch.next().await?.unwrap_or_default();
            assert_eq!(
                (&first["type"], &first["object"]["kind"]),
                (&json!("ADDED"), &json!("Table"))
            );
            let columns = first["object"]["columnDefinitions"].as_array();
            assert!(columns.is_some_and(|columns| columns.len() > 1), "{first}");
            assert_eq!(first["object"]["rows"][0]["object"].is_object(), carries);
            let second = watch.next().await?.unwrap_or_default();
            assert_eq!(second["type"], "BOOKMARK");
            assert_eq!(second["object"]["columnDefinitions"], Value::Null);
            // Without objects in the rows, the end of the initial events is still marked.
            assert_eq!(
                bookmark_annotations(&second["object"]["rows"][0]["object"]),
                "true",
                "{second}"
            );
            assert!(second["object"]["metadata"]["resourceVersion"].is_string());
        }
    }
    Ok(())
}

#[tokio::test]
async fn first_event_carries_the_columns_even_if_it_is_a_bookmark() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let path = format!("{MAPS}?{STREAM}&labelSelector=none");
    let mut watch = client.watch_as(&path, TABLE).await?;
    let first = watch.next().await?.unwrap_or_default();
    assert_eq!(first["type"], "BOOKMARK", "{first}");
    let columns = first["object"]["columnDefinitions"].as_array();
    let names: Vec<&Value> = columns
        .into_iter()
        .flatten()
        .map(|of| &of["name"])
        .collect();
    assert_eq!(names, ["Name", "Data", "Age"]);
    client
        .post(
            MAPS,
            &json!({"metadata": {"name": "l", "labels": {"none": ""}}}),
        )
        .await?;
    let second = watch.next().await?.unwrap_or_default();
    assert_eq!(second["type"], "ADDED");
    assert_eq!(second["object"]["columnDefinitions"], Value::Null);
    Ok(())
}

#[tokio::test]
async fn one_object_can_be_awaited_like_kubectl_wait() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    for path in [MAPS, FOOS] {
        // A field selector on one name.
        let query = STREAM.replace("name!=kube-root-ca.crt", "name%3Da");
        let path = format!("{path}?{query}&timeoutSeconds=435");
        let mut watch = client.watch_as(&path, "application/json").await?;
        let first = watch.next().await?.unwrap_or_default();
        assert_eq!(first["object"]["metadata"]["name"], "a");
        let second = watch.next().await?.unwrap_or_default();
        assert_eq!(bookmark_annotations(&second["object"]), "true");
    }
    Ok(())
}

/// Events must arrive at once, so their frames must not be buffered by compression.
#[tokio::test]
async fn watches_are_never_compressed() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let large = json!({"metadata": {"name": "l"}, "data": {"k": "x".repeat(200_000)}});
    assert_eq!(client.post(MAPS, &large).await?.status, 201);
    let headers = [("accept-encoding", "gzip")];
    let path = format!("{MAPS}?watch=true&timeoutSeconds=1");
    let answer = client.send(Method::GET, &path, &headers, "").await?;
    assert_eq!(answer.header("content-encoding"), "");
    assert!(answer.body.len() > 200_000);
    let headers = [("accept-encoding", "gzip"), ("accept", PROTOBUF)];
    let answer = client.send(Method::GET, MAPS, &headers, "").await?;
    assert_eq!(
        (
            answer.header("content-encoding"),
            answer.header("content-type")
        ),
        ("gzip", PROTOBUF),
        "protobuf lists are compressed like others"
    );
    Ok(())
}
