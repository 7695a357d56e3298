//! CBOR in every request and response that clients can send and get.

use bytes::Bytes;
use http::Method;
use insula_kinds::cbor;
use insula_testkit::server::{Answer, Client, Lines};
use serde_json::{Value, json};

use super::{FOOS, MAPS, start};

const CBOR: &str = "application/cbor";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn encode(object: &Value) -> Bytes {
    cbor::self_described(None, object.to_string().as_bytes()).into()
}

fn decode(document: &[u8]) -> anyhow::Result<Value> {
    anyhow::ensure!(document.starts_with(&cbor::SELF_DESCRIBED), "no tag");
    Ok(serde_json::from_slice(&cbor::to_json(document)?)?)
}

/// Sends a document, and returns the response with its object. Both are CBOR.
async fn send(
    client: &Client,
    method: Method,
    path: &str,
    media: &str,
    body: Bytes,
) -> anyhow::Result<(Answer, Value)> {
    let headers = [("content-type", media), ("accept", CBOR)];
    let answer = client.send(method, path, &headers, body).await?;
    assert_eq!(answer.header("content-type"), CBOR, "{path}");
    let object = decode(&answer.body)?;
    Ok((answer, object))
}

async fn next_event(watch: &mut Lines) -> anyhow::Result<Value> {
    let item = watch.frame_of(cbor::first_length).await?;
    decode(&item.unwrap_or_default())
}

#[tokio::test]
async fn objects_are_written_in_cbor() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    for (path, version, kind, part) in [
        (MAPS, "v1", "ConfigMap", "data"),
        (FOOS, "ex.io/v1", "Foo", "spec"),
    ] {
        let object = |data: Value| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "b"}, part: data});
        let one = format!("{path}/b");
        let body = encode(&object(json!({"k": "1", "l": "é\n"})));
        let (answer, created) = send(&client, Method::POST, path, CBOR, body).await?;
        assert_eq!(answer.status, 201, "{created}");
        assert_eq!(created[part], json!({"k": "1", "l": "é\n"}));
        assert_eq!(created, client.get(&one).await?.json());

        let mut changed = created;
        changed[part] = json!({"k": "2"});
        let body = encode(&changed);
        let (answer, updated) = send(&client, Method::PUT, &one, CBOR, body).await?;
        assert_eq!((answer.status, &updated[part]), (200, &json!({"k": "2"})));

        let apply = "application/apply-patch+cbor";
        let managed = format!("{one}?fieldManager=m&force=true");
        let body = encode(&object(json!({"k": "3", "l": "4"})));
        let (answer, applied) = send(&client, Method::PATCH, &managed, apply, body).await?;
        assert_eq!(answer.status, 200, "{applied}");
        assert_eq!(applied[part], json!({"k": "3", "l": "4"}));
        let managers = applied["metadata"]["managedFields"].as_array();
        let is_apply = |of: &Value| of["operation"] == "Apply" && of["manager"] == "m";
        assert!(managers.is_some_and(|managers| managers.iter().any(is_apply)));

        // Other patches are JSON, and answered in CBOR.
        let merge = "application/merge-patch+json";
        let body = Bytes::from(json!({part: {"k": null}}).to_string());
        let (_, patched) = send(&client, Method::PATCH, &one, merge, body).await?;
        assert_eq!(patched[part], json!({"l": "4"}));

        let options = |uid: &str| encode(&json!({"preconditions": {"uid": uid}}));
        let (answer, refused) = send(&client, Method::DELETE, &one, CBOR, options("x")).await?;
        assert_eq!(
            (answer.status, &refused["reason"]),
            (409, &json!("Conflict"))
        );
        let uid = patched["metadata"]["uid"].as_str().unwrap_or_default();
        let (answer, deleted) = send(&client, Method::DELETE, &one, CBOR, options(uid)).await?;
        assert_eq!(
            (answer.status, &deleted["status"]),
            (200, &json!("Success"))
        );
    }
    Ok(())
}

#[tokio::test]
async fn responses_in_cbor_have_the_json_of_others() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let deployment = json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [
            {"name": "c", "image": "i:1", "resources": {"limits": {"cpu": "1500m"}},
             "ports": [{"containerPort": 80}]}]}}}});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    assert_eq!(client.post(deployments, &deployment).await?.status, 201);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for path in [
        format!("{MAPS}/a"),
        format!("{MAPS}/none"),
        MAPS.to_owned(),
        format!("{MAPS}?labelSelector=a%3Db"),
        format!("{MAPS}?limit=1"),
        format!("{FOOS}/a"),
        FOOS.to_owned(),
        "/apis/ex.io/v1/foos?limit=1".to_owned(),
        format!("{deployments}/d"),
        format!("{deployments}/d/scale"),
        definitions.to_owned(),
        "/api/v1/nonsense".to_owned(),
    ] {
        for form in [
            "",
            "Table",
            "PartialObjectMetadata",
            "PartialObjectMetadataList",
        ] {
            let form = match form {
                "" => String::new(),
                form => format!(";as={form};g=meta.k8s.io;v=v1"),
            };
            let json = client
                .accept(&path, &format!("application/json{form}"))
                .await?;
            let answer = client.accept(&path, &format!("{CBOR}{form}")).await?;
            assert_eq!(answer.status, json.status, "{path}{form}");
            if json.header("content-type") == "application/json" && json.text().contains("\n  ") {
                // An error whose form is not accepted.
                assert_eq!(answer.header("content-type"), "application/json");
                continue;
            }
            assert_eq!(answer.header("content-type"), CBOR, "{path}{form}");
            let mut objects = [decode(&answer.body)?, json.json()];
            for object in &mut objects {
                // A list of nothing has no such member, and a token is sealed anew.
                if let Some(token) = object.pointer_mut("/metadata/continue") {
                    *token = Value::from(token.as_str().map(str::len));
                }
            }
            let [found, wanted] = objects;
            assert_eq!(found, wanted, "{path}{form}");
        }
    }
    Ok(())
}

/// client-go's discovery client cannot read it, not even where others prefer CBOR.
#[tokio::test]
async fn discovery_is_not_served_in_cbor() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    for path in ["/api", "/api/v1", "/apis", "/apis/ex.io/v1"] {
        let answer = client.accept(path, "application/cbor, */*").await?;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, "application/json")
        );
        let answer = client.accept(path, CBOR).await?;
        assert_eq!(answer.status, 406);
        assert_eq!(
            decode(&answer.body)?["message"],
            "only the following media types are accepted: application/json, application/yaml, \
             application/vnd.kubernetes.protobuf"
        );
    }
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let answer = client
        .accept("/apis", &format!("application/cbor, {aggregated}"))
        .await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["kind"], "APIGroupDiscoveryList");
    Ok(())
}

#[tokio::test]
async fn bytes_are_sent_as_bytes_and_accepted_as_bytes_or_base64() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let base64 = encode(&json!({"metadata": {"name": "a"}, "data": {"k": "aGk="}}));
    // The same with a byte string, which has tag 22.
    let text = b"\xa1AkDaGk=".as_slice();
    let at = base64.windows(text.len()).position(|of| of == text);
    let at = at.ok_or_else(|| anyhow::anyhow!("no data"))?;
    let tagged = [&base64[..at], b"\xa1Ak\xd6Bhi", &base64[at + text.len()..]].concat();
    for body in [base64, tagged.into()] {
        let (answer, secret) = send(&client, Method::POST, SECRETS, CBOR, body).await?;
        assert_eq!(
            (answer.status, &secret["data"]),
            (201, &json!({"k": "aGk="}))
        );
        let one = format!("{SECRETS}/a");
        for path in [
            one.clone(),
            format!("{SECRETS}?fieldSelector=metadata.name%3Da"),
        ] {
            let answer = client.accept(&path, CBOR).await?;
            let is_tagged = answer.body.windows(4).any(|of| of == b"\xd6Bhi");
            assert!(is_tagged, "{path}");
        }
        let json = client.get(&one).await?.json();
        assert_eq!(json["data"], json!({"k": "aGk="}));
        client.delete(&one).await?;
    }
    Ok(())
}

#[tokio::test]
async fn watches_are_sequences_of_events() -> anyhow::Result<()> {
    const STREAM: &str = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true\
                          &resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name%3Da";
    let (_server, client) = start().await?;
    for (path, kind) in [(MAPS, "ConfigMap"), (FOOS, "Foo")] {
        for (form, shown) in [
            ("", kind),
            (";stream=watch", kind),
            (";as=Table;g=meta.k8s.io;v=v1", "Table"),
            (
                ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                "PartialObjectMetadata",
            ),
        ] {
            let url = format!("{path}?{STREAM}");
            let mut watch = client.watch_as(&url, &format!("{CBOR}{form}")).await?;
            assert_eq!(watch.headers["content-type"], "application/cbor-seq");
            let mut lines = client
                .watch_as(&url, &format!("application/json{form}"))
                .await?;
            for expected in ["ADDED", "BOOKMARK"] {
                let event = next_event(&mut watch).await?;
                assert_eq!(event["type"], expected, "{event}");
                assert_eq!(event["object"]["kind"], shown);
                assert_eq!(event, lines.next().await?.unwrap_or_default());
            }
            let patch = json!({"metadata": {"annotations": {"form": form}}});
            client.patch(&format!("{path}/a"), "merge", &patch).await?;
            let event = next_event(&mut watch).await?;
            assert_eq!(event["type"], "MODIFIED");
            assert_eq!(event, lines.next().await?.unwrap_or_default());
        }
    }
    Ok(())
}

#[tokio::test]
async fn watch_that_is_too_old_ends_with_an_error_in_cbor() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let url = format!("{MAPS}?watch=true&resourceVersion=1");
    let mut watch = client.watch_as(&url, CBOR).await?;
    let event = next_event(&mut watch).await?;
    assert_eq!(event["type"], "ERROR", "{event}");
    assert_eq!(event["object"]["code"], 410);
    Ok(())
}

#[tokio::test]
async fn long_lists_are_streamed() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    for number in 0..40 {
        let map = json!({"metadata": {"name": format!("m{number}")},
            "data": {"k": format!("{}\n", "x".repeat(1000))}});
        assert_eq!(client.post(MAPS, &map).await?.status, 201);
    }
    let json = client.get(MAPS).await?.json();
    let answer = client.accept(MAPS, CBOR).await?;
    assert_eq!(
        answer.header("content-length"),
        "",
        "its length is not known"
    );
    assert!(answer.body.len() > 40_000);
    assert_eq!(decode(&answer.body)?, json);
    Ok(())
}

#[tokio::test]
async fn reviews_and_tokens_work_in_cbor() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let attributes = json!({"resourceAttributes": {"verb": "list", "resource": "pods"}});
    for (path, kind, spec, found) in [
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
            attributes,
            "/status/allowed",
        ),
        (
            "/api/v1/namespaces/default/serviceaccounts/default/token",
            "TokenRequest",
            json!({"expirationSeconds": 600}),
            "/status/token",
        ),
    ] {
        let body = encode(&json!({"spec": spec}));
        let (answer, object) = send(&client, Method::POST, path, CBOR, body).await?;
        assert_eq!((answer.status, &object["kind"]), (201, &json!(kind)));
        assert!(
            object.pointer(found).is_some_and(|of| *of != json!(false)),
            "{object}"
        );
    }
    Ok(())
}

/// The messages are Kubernetes', recorded from its decoder, up to the place that they are found at.
#[tokio::test]
async fn documents_that_are_no_objects_are_refused() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let unrecognized = "the object provided is unrecognized (must be of type ConfigMap): unable \
                        to determine group/version/kind:";
    let unhandled = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap:";
    for (body, message) in [
        (&b"{}"[..], format!("{unrecognized} unexpected EOF ({{}})")),
        (b"", format!("{unrecognized} EOF (<empty>)")),
        (
            b"\xd9\xd9\xf7\xa1",
            format!("{unrecognized} unexpected EOF (d9d9f7a1)"),
        ),
        (
            b"\xa0\xa0",
            format!("{unrecognized} cbor: 1 bytes of extraneous data starting at index 1 (a0a0)"),
        ),
        (
            b"\xa1Aa\xc2A\x01",
            format!(
                "{unrecognized} cbor: data item of cbor type tag is not accepted by protocol: \
                 bignum (a14161c24101)"
            ),
        ),
        (
            b"\xa1Ddata\xa2Aa@Aa@",
            format!("{unhandled} cbor: found duplicate map key \"a\" at map element index 1"),
        ),
        (
            b"\xa1Ddata\xa1Aaa\xff",
            format!("{unhandled} cbor: invalid UTF-8 string"),
        ),
        (
            b"\xa1Ddata\xa1Aa\x1b\xff\xff\xff\xff\xff\xff\xff\xff",
            format!(
                "{unhandled} cbor: cannot unmarshal positive integer into Go value of type int64 \
                 (18446744073709551615 overflows Go's int64)"
            ),
        ),
    ] {
        let body = Bytes::copy_from_slice(body);
        let (answer, status) = send(&client, Method::POST, MAPS, CBOR, body).await?;
        assert_eq!(
            (answer.status, &status["reason"]),
            (400, &json!("BadRequest"))
        );
        assert_eq!(status["message"], message);
    }
    // The type of a value is checked like that of JSON.
    let body = encode(&json!({"metadata": {"name": "x"}, "data": {"a": 1}}));
    let (answer, status) = send(&client, Method::POST, MAPS, CBOR, body).await?;
    assert_eq!(answer.status, 400, "{status}");
    let apply = "application/apply-patch+cbor";
    let path = format!("{MAPS}/x?fieldManager=m");
    let body = Bytes::from_static(b"{}");
    let (answer, status) = send(&client, Method::PATCH, &path, apply, body).await?;
    assert_eq!(answer.status, 400);
    assert_eq!(status["message"], "error decoding YAML: unexpected EOF");
    Ok(())
}

#[tokio::test]
async fn fields_are_validated_like_those_of_json() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    for path in [MAPS, FOOS] {
        let mut object = client.get(&format!("{path}/a")).await?.json();
        object["metadata"] = json!({"name": "s", "bogus": 1});
        let strict = format!("{path}?fieldValidation=Strict");
        let (answer, status) = send(&client, Method::POST, &strict, CBOR, encode(&object)).await?;
        assert_eq!(answer.status, 400, "{status}");
        let message = status["message"].as_str().unwrap_or_default();
        assert!(
            message.ends_with("unknown field \"metadata.bogus\""),
            "{message}"
        );
        let (answer, _) = send(&client, Method::POST, path, CBOR, encode(&object)).await?;
        assert_eq!(answer.status, 201);
        assert!(answer.header("warning").contains("metadata.bogus"));
    }
    Ok(())
}

#[tokio::test]
async fn decoded_size_is_bounded() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let maps = [&b"\xa1Aa\x9a\x00\x01\xd4\xc1"[..], &vec![0xa0; 120_001]].concat();
    let (answer, status) = send(&client, Method::POST, MAPS, CBOR, maps.into()).await?;
    assert_eq!(answer.status, 413, "{status}");
    for nested in [&b"\x81"[..], b"\xa1@", b"\xd8\x64", b"\x9f"] {
        let body = Bytes::from(nested.repeat(100_000));
        let (answer, status) = send(&client, Method::POST, MAPS, CBOR, body).await?;
        assert_eq!(answer.status, 400, "{status}");
    }
    Ok(())
}
