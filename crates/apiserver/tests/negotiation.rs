//! Content negotiation: the formats in which objects are served.

use std::io::Read;

use http::Method;
use insula_kinds::{Object, kinds, protobuf, types};
use insula_testkit::server::{Answer, Client, TestServer};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const META: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const META_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

async fn start() -> anyhow::Result<(TestServer, Client, Value)> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let object = json!({
        "metadata": {"name": "a", "labels": {"l": "1"}, "annotations": {"x": "<&>"}},
        "data": {"b": "2", "a": "1"},
    });
    let created = client.post(MAPS, &object).await?;
    anyhow::ensure!(created.status == 201, "{}", created.text());
    Ok((server, client, created.json()))
}

/// Decodes a protobuf envelope into apiVersion, kind and object.
fn decode_envelope(body: &[u8]) -> anyhow::Result<(String, String, Object)> {
    let envelope = protobuf::open(body)?;
    let of = match envelope.kind {
        "Status" | "PartialObjectMetadata" | "PartialObjectMetadataList" => {
            types().find(&format!("apimachinery.pkg.apis.meta.v1.{}", envelope.kind))
        }
        "ConfigMap" => kinds()
            .find_by_kind("", "v1", "ConfigMap")
            .map(|id| kinds().get(id).type_id()),
        "ConfigMapList" => types().find("api.core.v1.ConfigMapList"),
        _ => None,
    };
    let of = of.ok_or_else(|| anyhow::anyhow!("no type for {}", envelope.kind))?;
    let tree = protobuf::decode(of, envelope.raw)?;
    Ok((
        envelope.api_version.to_string(),
        envelope.kind.to_string(),
        tree,
    ))
}

/// The object without apiVersion and kind.
fn without_type_meta(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        members.remove("kind");
        members.remove("apiVersion");
    }
    object
}

fn content_type(answer: &Answer) -> &str {
    answer.header("content-type")
}

#[tokio::test]
async fn most_preferred_supported_media_type_is_sent() -> anyhow::Result<()> {
    let (_server, client, _) = start().await?;
    let (json, yaml) = ("application/json", "application/yaml");
    for (accept, wanted) in [
        ("", json),
        ("*/*", json),
        ("application/json", json),
        ("application/json;charset=utf-8;foo=bar", json),
        ("application/yaml", yaml),
        (PROTOBUF, PROTOBUF),
        ("application/json;q=0.1,application/yaml;q=0.9", yaml),
        ("application/json;q=0.9,application/yaml;q=0.9", json),
        ("text/plain,application/json", json),
        ("text/html;q=1,application/yaml;q=0.1", yaml),
        (
            "application/json;as=Foo;v=v1;g=meta.k8s.io,application/yaml",
            yaml,
        ),
        ("application/json;as=Table;v=v1,application/yaml", yaml),
        (
            "application/vnd.kubernetes.protobuf,application/json",
            PROTOBUF,
        ),
    ] {
        for path in [format!("{MAPS}/a"), MAPS.to_owned()] {
            let answer = client.accept(&path, accept).await?;
            assert_eq!(
                (answer.status, content_type(&answer)),
                (200, wanted),
                "{accept} {path}"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn unsupported_accept_headers_and_forms_are_refused() -> anyhow::Result<()> {
    let (_server, client, _) = start().await?;
    let router = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "406: Not Acceptable\n\nAvailable representations: application/json, \
                    application/yaml, application/vnd.kubernetes.protobuf, application/cbor",
        "reason": "NotAcceptable", "details": {}, "code": 406,
    });
    let transform = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "only the following media types are accepted: application/json, \
                    application/yaml, application/vnd.kubernetes.protobuf, application/cbor",
        "reason": "NotAcceptable", "code": 406,
    });
    for (accept, wanted) in [
        ("application/*", &router),
        ("text/html", &router),
        ("garbage", &router),
        (
            "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
            &transform,
        ),
        ("application/json;as=Table;v=v2;g=meta.k8s.io", &transform),
        ("application/json;as=Table;v=v1", &transform),
        ("application/json;as=Foo;v=v1;g=meta.k8s.io", &transform),
    ] {
        // Also for a missing object.
        for path in [format!("{MAPS}/a"), MAPS.to_owned(), format!("{MAPS}/none")] {
            let answer = client.accept(&path, accept).await?;
            assert_eq!((answer.status, &answer.json()), (406, wanted), "{accept}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn yaml_and_json_are_equivalent() -> anyhow::Result<()> {
    let (_server, client, created) = start().await?;
    let answer = client
        .accept(&format!("{MAPS}/a"), "application/yaml")
        .await?;
    let revision = created["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or("");
    let text = answer.text();
    assert!(
        text.starts_with("apiVersion: v1\ndata:\n  a: \"1\"\n  b: \"2\"\nkind: ConfigMap\n"),
        "{text}"
    );
    assert!(
        text.contains(&format!("  resourceVersion: \"{revision}\"\n")),
        "{text}"
    );
    let missing = client
        .accept(&format!("{MAPS}/b"), "application/yaml")
        .await?;
    assert_eq!(
        (missing.status, content_type(&missing)),
        (404, "application/yaml")
    );
    assert!(
        missing
            .text()
            .contains("message: configmaps \"b\" not found\n"),
        "{}",
        missing.text()
    );
    let watch = client
        .accept(&format!("{MAPS}?watch=1"), "application/yaml")
        .await?;
    assert_eq!(watch.status, 406);
    assert!(
        watch.text().contains(
            "only the following media types are accepted: application/json;stream=watch, \
         application/vnd.kubernetes.protobuf;stream=watch, application/cbor-seq"
        ),
        "{}",
        watch.text()
    );
    Ok(())
}

#[tokio::test]
async fn protobuf_and_json_are_equivalent() -> anyhow::Result<()> {
    let (_server, client, created) = start().await?;
    let answer = client.accept(&format!("{MAPS}/a"), PROTOBUF).await?;
    assert_eq!(content_type(&answer), PROTOBUF);
    let (version, kind, tree) = decode_envelope(&answer.body)?;
    assert_eq!((version.as_str(), kind.as_str()), ("v1", "ConfigMap"));
    assert_eq!(Value::Object(tree), without_type_meta(&created));
    let answer = client.accept(&format!("{MAPS}?limit=1"), PROTOBUF).await?;
    let list = client.get(&format!("{MAPS}?limit=1")).await?.json();
    let (version, kind, tree) = decode_envelope(&answer.body)?;
    assert_eq!((version.as_str(), kind.as_str()), ("v1", "ConfigMapList"));
    assert_eq!(Value::Object(tree), without_type_meta(&list));
    let missing = client.accept(&format!("{MAPS}/b"), PROTOBUF).await?;
    assert_eq!((missing.status, content_type(&missing)), (404, PROTOBUF));
    let (_, kind, status) = decode_envelope(&missing.body)?;
    assert_eq!(kind, "Status");
    assert_eq!(status["message"], "configmaps \"b\" not found");
    Ok(())
}

/// Decodes a watch frame into the event type and the enveloped object.
fn event(frame: &[u8]) -> anyhow::Result<(String, Vec<u8>)> {
    // WatchEvent{1: type, 2: RawExtension{1: raw}}
    let field = |message: &[u8], wanted: u64| -> anyhow::Result<Vec<u8>> {
        let mut at = 0;
        let number = |at: &mut usize| {
            let (mut value, mut shift) = (0u64, 0);
            loop {
                let byte = message[*at];
                *at += 1;
                value |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    return value;
                }
            }
        };
        while at < message.len() {
            let tag = number(&mut at);
            let length = number(&mut at) as usize;
            if tag >> 3 == wanted {
                return Ok(message[at..at + length].to_vec());
            }
            at += length;
        }
        anyhow::bail!("no field {wanted}")
    };
    let kind = String::from_utf8(field(frame, 1)?)?;
    Ok((kind, field(&field(frame, 2)?, 1)?))
}

#[tokio::test]
async fn protobuf_watches_are_length_delimited() -> anyhow::Result<()> {
    let (_server, client, created) = start().await?;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                 &allowWatchBookmarks=true";
    let path = format!("{MAPS}?{query}");
    for accept in [PROTOBUF, "application/vnd.kubernetes.protobuf;stream=watch"] {
        let mut watch = client.watch_as(&path, accept).await?;
        let of = "application/vnd.kubernetes.protobuf;stream=watch";
        assert_eq!(watch.headers["content-type"], of);
        let (kind, object) = event(&watch.frame().await?.unwrap_or_default())?;
        assert_eq!(kind, "ADDED");
        assert_eq!(
            Value::Object(decode_envelope(&object)?.2),
            without_type_meta(&created)
        );
        let (kind, object) = event(&watch.frame().await?.unwrap_or_default())?;
        assert_eq!(kind, "BOOKMARK");
        let (_, _, tree) = decode_envelope(&object)?;
        assert_eq!(
            tree["metadata"]["annotations"]["k8s.io/initial-events-end"],
            "true"
        );
    }
    let mut watch = client
        .watch_as(&format!("{MAPS}?watch=1&resourceVersion=1"), PROTOBUF)
        .await?;
    let (kind, object) = event(&watch.frame().await?.unwrap_or_default())?;
    assert_eq!(kind, "ERROR");
    assert_eq!(decode_envelope(&object)?.2["code"], 410);
    assert_eq!(watch.frame().await?, None);
    Ok(())
}

#[tokio::test]
async fn partial_object_metadata_can_be_read_listed_and_watched() -> anyhow::Result<()> {
    let (_server, client, created) = start().await?;
    let wanted = json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": created["metadata"],
    });
    let answer = client.accept(&format!("{MAPS}/a"), META).await?;
    assert_eq!(
        (content_type(&answer), answer.json()),
        ("application/json", wanted.clone())
    );
    let older = META.replace("v=v1", "v=v1beta1");
    let answer = client.accept(&format!("{MAPS}/a"), &older).await?;
    assert_eq!(answer.json()["apiVersion"], "meta.k8s.io/v1beta1");
    let list = client.accept(MAPS, META_LIST).await?.json();
    let revision = &created["metadata"]["resourceVersion"];
    let whole = json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": revision},
        "items": [wanted],
    });
    assert_eq!(list, whole);
    let protobuf = META_LIST.replace("application/json", PROTOBUF);
    let answer = client.accept(MAPS, &protobuf).await?;
    let (_, kind, tree) = decode_envelope(&answer.body)?;
    assert_eq!(kind, "PartialObjectMetadataList");
    assert_eq!(tree["items"][0]["metadata"], created["metadata"]);
    let protobuf = META.replace("application/json", PROTOBUF);
    let answer = client.accept(&format!("{MAPS}/a"), &protobuf).await?;
    let (version, kind, tree) = decode_envelope(&answer.body)?;
    assert_eq!(
        (version.as_str(), kind.as_str()),
        ("meta.k8s.io/v1", "PartialObjectMetadata")
    );
    assert_eq!(Value::Object(tree), without_type_meta(&wanted));
    let mut watch = client.watch_as(&format!("{MAPS}?watch=1"), META).await?;
    let event = watch.next().await?;
    assert_eq!(event, Some(json!({"type": "ADDED", "object": wanted})));
    Ok(())
}

#[tokio::test]
async fn object_and_list_forms_are_not_interchangeable() -> anyhow::Result<()> {
    let (_server, client, _) = start().await?;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    for (path, accept, message) in [
        (
            format!("{MAPS}/a"),
            META_LIST,
            "you requested PartialObjectMetadataList, but the requested object is not a list \
             (*core.ConfigMap)",
        ),
        (
            MAPS.to_owned(),
            META,
            "you requested PartialObjectMetadata, but the requested object is a list \
             (*core.ConfigMapList)",
        ),
        (
            deployments.to_owned(),
            META,
            "you requested PartialObjectMetadata, but the requested object is a list \
             (*apps.DeploymentList)",
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/roles".to_owned(),
            META,
            "you requested PartialObjectMetadata, but the requested object is a list \
             (*rbac.RoleList)",
        ),
    ] {
        let answer = client.accept(&path, accept).await?;
        assert_eq!((answer.status, answer.message().as_str()), (406, message));
        assert_eq!(answer.json()["reason"], "NotAcceptable");
    }
    Ok(())
}

#[tokio::test]
async fn pretty_printing_is_for_browsers_and_on_request() -> anyhow::Result<()> {
    let (_server, client, created) = start().await?;
    let compact = client.get(&format!("{MAPS}/a")).await?;
    assert!(compact.text().starts_with(
        "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\","
    ));
    assert!(compact.text().ends_with("}\n"));
    assert!(compact.text().contains(r#""x":"\u003c\u0026\u003e""#));
    for (agent, query, pretty) in [
        ("kubectl/v1.36", "", false),
        ("kubectl/v1.36", "?pretty=true", true),
        ("kubectl/v1.36", "?pretty=1", true),
        ("kubectl/v1.36", "?pretty=0", false),
        ("curl/8", "", true),
        ("Wget/1.21", "", true),
        ("Mozilla/5.0 (X11)", "", true),
        ("curl/8", "?pretty=false", false),
    ] {
        for path in [format!("{MAPS}/a{query}"), format!("{MAPS}{query}")] {
            let headers = [("user-agent", agent)];
            let answer = client.send(Method::GET, &path, &headers, "").await?;
            let text = answer.text();
            assert_eq!(
                text.starts_with("{\n  \"kind\": "),
                pretty,
                "{agent} {path}"
            );
            assert_eq!(text.ends_with('\n'), !pretty, "{agent} {path}");
        }
    }
    let answer = client
        .accept(&format!("{MAPS}/a"), "application/json;pretty=1")
        .await?;
    assert!(answer.text().starts_with("{\n  \"kind\": \"ConfigMap\",\n"));
    assert_eq!(answer.json(), created);
    Ok(())
}

#[tokio::test]
async fn only_large_responses_are_compressed() -> anyhow::Result<()> {
    let (_server, client, _) = start().await?;
    let large = json!({"metadata": {"name": "l"}, "data": {"k": "x".repeat(140_000)}});
    assert_eq!(client.post(MAPS, &large).await?.status, 201);
    for (path, encoding, compressed) in [
        (format!("{MAPS}/a"), "gzip", false),
        (format!("{MAPS}/l"), "gzip", true),
        (format!("{MAPS}/l"), "deflate, gzip", true),
        (MAPS.to_owned(), "gzip", true),
        (format!("{MAPS}/l"), "gzip;q=1", false),
        (format!("{MAPS}/l"), "", false),
    ] {
        let headers = [("accept-encoding", encoding)];
        let answer = client.send(Method::GET, &path, &headers, "").await?;
        let plain = client.get(&path).await?;
        let found = answer.header("content-encoding");
        assert_eq!(
            found,
            if compressed { "gzip" } else { "" },
            "{path} {encoding}"
        );
        if !compressed {
            assert_eq!(answer.body, plain.body);
            continue;
        }
        assert_eq!(answer.header("vary"), "Accept-Encoding");
        let mut body = Vec::new();
        flate2::read::GzDecoder::new(&answer.body[..]).read_to_end(&mut body)?;
        assert_eq!(body, plain.body, "{path}");
    }
    let path = format!("{MAPS}/l");
    let headers = [
        ("accept-encoding", "gzip"),
        ("content-type", "application/merge-patch+json"),
    ];
    let patched = client.send(Method::PATCH, &path, &headers, "{}").await?;
    assert_eq!(patched.header("content-encoding"), "gzip");
    Ok(())
}

#[tokio::test]
async fn every_response_has_an_audit_id_and_no_cache_header() -> anyhow::Result<()> {
    let (_server, client, _) = start().await?;
    for path in [
        MAPS.to_owned(),
        format!("{MAPS}/none"),
        "/version".to_owned(),
    ] {
        let own = client.get(&path).await?;
        assert_eq!(own.header("audit-id").len(), 36, "{path}");
        assert_eq!(own.header("cache-control"), "no-cache, private", "{path}");
        assert!(!own.header("date").is_empty(), "{path}");
        assert_eq!(
            own.header("content-length"),
            own.body.len().to_string(),
            "{path}"
        );
        let headers = [("audit-id", "mine-1")];
        let echoed = client.send(Method::GET, &path, &headers, "").await?;
        assert_eq!(echoed.header("audit-id"), "mine-1", "{path}");
    }
    Ok(())
}
