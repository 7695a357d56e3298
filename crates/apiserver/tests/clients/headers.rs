//! `Accept` headers of real clients and the responses to them.

use http::Method;
use insula_kinds::cbor;
use insula_testkit::server::Answer;

use super::{FOOS, MAPS, PROTOBUF, envelope_type, start};

/// A client's header and the expected responses: for a built-in object and list, for a custom
/// object and list, and for an error. `j`, `y`, `p` and `c` are JSON, YAML, protobuf and CBOR.
struct Row {
    client: &'static str,
    accept: &'static str,
    object: &'static str,
    list: &'static str,
    own: &'static str,
    own_list: &'static str,
    missing: &'static str,
}

const fn row(client: &'static str, accept: &'static str, answers: [&'static str; 5]) -> Row {
    let [object, list, own, own_list, missing] = answers;
    Row {
        client,
        accept,
        object,
        list,
        own,
        own_list,
        missing,
    }
}

const JSON: [&str; 5] = [
    "j ConfigMap",
    "j ConfigMapList",
    "j Foo",
    "j FooList",
    "j Status",
];

/// Protobuf, and JSON for resources without protobuf.
const PROTOBUF_OR_JSON: [&str; 5] = [
    "p ConfigMap",
    "p ConfigMapList",
    "j Foo",
    "j FooList",
    "p Status",
];

const TABLES: [&str; 5] = ["j Table", "j Table", "j Table", "j Table", "j Status"];

const CBOR: [&str; 5] = [
    "c ConfigMap",
    "c ConfigMapList",
    "c Foo",
    "c FooList",
    "c Status",
];

/// Neither the format nor the form is served.
const NONE: [&str; 5] = ["406 j Status"; 5];

const ROWS: [Row; 26] = [
    row("curl, Go's http, node-fetch", "*/*", JSON),
    row("a client that says nothing", "", JSON),
    row(
        "client-go typed, 1.28 to 1.35, and controller-runtime for own kinds",
        "application/json, */*",
        JSON,
    ),
    row(
        "client-go typed since 1.36, kube-controller-manager, kubelet, kubectl create",
        "application/vnd.kubernetes.protobuf,application/json",
        PROTOBUF_OR_JSON,
    ),
    row(
        "controller-runtime for built-in kinds",
        "application/vnd.kubernetes.protobuf, */*",
        PROTOBUF_OR_JSON,
    ),
    row(
        "client-go with protobuf only",
        "application/vnd.kubernetes.protobuf",
        [
            "p ConfigMap",
            "p ConfigMapList",
            "406 p Status",
            "406 p Status",
            "p Status",
        ],
    ),
    row(
        "client-go dynamic, kube-rs, Python",
        "application/json",
        JSON,
    ),
    row(
        "client-go dynamic that allows CBOR",
        "application/json;q=0.9,application/cbor;q=1",
        CBOR,
    ),
    row(
        "client-go typed that allows CBOR",
        "application/cbor, application/vnd.kubernetes.protobuf, application/json",
        CBOR,
    ),
    row("CBOR and nothing else", "application/cbor", CBOR),
    row(
        "a CBOR stream and nothing else",
        "application/cbor-seq",
        NONE,
    ),
    row("JavaScript 1.x", "application/json, */*;q=0.8", JSON),
    row(
        "JavaScript 0.x",
        "application/json, application/yaml, application/vnd.kubernetes.protobuf",
        JSON,
    ),
    row(
        "Python, where it says all that it knows",
        "application/json, application/yaml, application/vnd.kubernetes.protobuf, \
         application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
        JSON,
    ),
    row(
        "Java's HttpURLConnection",
        "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2",
        JSON,
    ),
    row(
        "a browser",
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8",
        JSON,
    ),
    row(
        "kubectl get, 1.30 to 1.36",
        "application/json;as=Table;v=v1;g=meta.k8s.io,\
         application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
        TABLES,
    ),
    row(
        "a table and nothing else",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        TABLES,
    ),
    row(
        "client-go metadata, one object",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
         application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
        [
            "p PartialObjectMetadata",
            "406 j Status",
            "p PartialObjectMetadata",
            "406 j Status",
            "j Status",
        ],
    ),
    row(
        "client-go metadata, a list",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
         application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
        [
            "406 j Status",
            "p PartialObjectMetadataList",
            "406 j Status",
            "p PartialObjectMetadataList",
            "j Status",
        ],
    ),
    row(
        "kube-rs metadata, one object",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        [
            "j PartialObjectMetadata",
            "406 j Status",
            "j PartialObjectMetadata",
            "406 j Status",
            "j Status",
        ],
    ),
    row(
        "kube-rs metadata, a list",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        [
            "406 j Status",
            "j PartialObjectMetadataList",
            "406 j Status",
            "j PartialObjectMetadataList",
            "j Status",
        ],
    ),
    row(
        "a table in protobuf, which there is not, or a plain object",
        "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,\
         application/vnd.kubernetes.protobuf",
        [
            "p ConfigMap",
            "p ConfigMapList",
            "406 p Status",
            "406 p Status",
            "p Status",
        ],
    ),
    row(
        "any of one sort, after a format that the router knows",
        "application/*, application/yaml;q=0.5",
        JSON,
    ),
    row(
        "half a form is none",
        "application/json;v=v1;g=meta.k8s.io, application/yaml",
        [
            "y ConfigMap",
            "y ConfigMapList",
            "y Foo",
            "y FooList",
            "y Status",
        ],
    ),
    row(
        "a stream that there is not, a version of the server that there is not",
        "application/json;stream=other, application/json;sv=v2, application/yaml;stream=watch, \
         application/json",
        JSON,
    ),
];

fn summary(answer: &Answer) -> anyhow::Result<String> {
    let (letter, kind) = match answer.header("content-type") {
        "application/json" => ("j", answer.json()["kind"].as_str().unwrap_or("").to_owned()),
        PROTOBUF => ("p", envelope_type(&answer.body)?.1),
        "application/cbor" => {
            let json: serde_json::Value = serde_json::from_slice(&cbor::to_json(&answer.body)?)?;
            ("c", json["kind"].as_str().unwrap_or("").to_owned())
        }
        "application/yaml" => {
            let text = answer.text();
            let kind = text.lines().find_map(|line| line.strip_prefix("kind: "));
            ("y", kind.unwrap_or("").to_owned())
        }
        other => anyhow::bail!("{other}"),
    };
    Ok(match answer.status {
        406 => format!("406 {letter} {kind}"),
        _ => format!("{letter} {kind}"),
    })
}

#[tokio::test]
async fn every_client_gets_an_accepted_format() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    for row in &ROWS {
        let none = format!("{MAPS}/none");
        let missing = if row.missing.starts_with("406") {
            406
        } else {
            404
        };
        for (path, wanted, status) in [
            (format!("{MAPS}/a"), row.object, 200),
            (MAPS.to_owned(), row.list, 200),
            (format!("{FOOS}/a"), row.own, 200),
            (FOOS.to_owned(), row.own_list, 200),
            (none, row.missing, missing),
        ] {
            let answer = client.accept(&path, row.accept).await?;
            let status = if wanted.starts_with("406") {
                406
            } else {
                status
            };
            assert_eq!(
                (answer.status, summary(&answer)?.as_str()),
                (status, wanted),
                "{}: {path}",
                row.client
            );
        }
    }
    Ok(())
}

/// Content types of writes and the responses to them.
#[tokio::test]
async fn content_types_are_accepted_or_the_supported_ones_listed() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let unknown = "the body of the request was in an unknown format - accepted media types \
                   include: application/json, application/yaml, \
                   application/vnd.kubernetes.protobuf, application/cbor";
    let json = r#"{"metadata":{"name":"NAME"}}"#;
    for (index, (content_type, body, status, message)) in [
        ("application/json", json, 201, ""),
        ("application/json; charset=utf-8", json, 201, ""),
        ("", json, 201, ""),
        ("application/yaml", "metadata: {name: NAME}", 201, ""),
        ("application/msgpack", json, 415, unknown),
        ("application/cbor-seq", json, 415, unknown),
        ("text/plain", json, 415, unknown),
        ("application/x-www-form-urlencoded", json, 415, unknown),
    ]
    .into_iter()
    .enumerate()
    {
        let body = body.replace("NAME", &format!("b{index}"));
        let headers = [("content-type", content_type)];
        let answer = client.send(Method::POST, MAPS, &headers, body).await?;
        let said = if status == 201 {
            String::new()
        } else {
            assert_eq!(answer.json()["reason"], "UnsupportedMediaType");
            answer.message()
        };
        assert_eq!(
            (answer.status, said.as_str()),
            (status, message),
            "{content_type}"
        );
    }
    for path in [format!("{MAPS}/a"), format!("{FOOS}/a")] {
        let headers = [("content-type", "application/apply-patch+json")];
        let answer = client.send(Method::PATCH, &path, &headers, "{}").await?;
        assert_eq!(answer.status, 415, "{path}: {}", answer.text());
        assert_eq!(answer.json()["reason"], "UnsupportedMediaType");
    }
    Ok(())
}

/// Clients that accept no served format still need a readable error.
#[tokio::test]
async fn not_acceptable_errors_are_indented_json() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    for (accept, path, status) in [
        ("application/cbor-seq", format!("{MAPS}/a"), 406),
        ("text/html", "/apis".to_owned(), 406),
        (
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            format!("{MAPS}/none"),
            404,
        ),
        (
            "application/json;as=Table;v=v1;g=meta.k8s.io",
            "/apis".to_owned(),
            406,
        ),
    ] {
        let answer = client.accept(&path, accept).await?;
        assert_eq!(answer.status, status, "{accept}");
        assert_eq!(answer.header("content-type"), "application/json");
        let text = answer.text();
        assert!(text.starts_with("{\n  \"kind\": \"Status\",\n"), "{text}");
        assert!(text.ends_with("\n}"), "{text}");
    }
    Ok(())
}

const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const BETA: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// How clients request discovery, and the content type they recognise it by.
#[tokio::test]
async fn every_client_can_discover() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let whole = ("APIGroupDiscoveryList", V2);
    let groups = ("APIGroupList", "application/json");
    for (who, accept, (kind, content_type)) in [
        (
            "client-go 1.30 to 1.36",
            format!("{V2},{BETA},application/json"),
            whole,
        ),
        (
            "client-go 1.36 behind an aggregator",
            format!("{V2};profile=nopeer,{BETA},application/json"),
            whole,
        ),
        (
            "client-go 1.26 to 1.29",
            format!("{BETA},application/json"),
            groups,
        ),
        ("kube-rs", V2.to_owned(), whole),
        ("kube-rs, older", "application/json".to_owned(), groups),
        ("Python, JavaScript", "application/json".to_owned(), groups),
        (
            "client-go 1.28 with protobuf",
            "application/vnd.kubernetes.protobuf,application/json".to_owned(),
            ("APIGroupList", PROTOBUF),
        ),
        ("curl", "*/*".to_owned(), groups),
    ] {
        let answer = client.accept("/apis", &accept).await?;
        assert_eq!(answer.header("content-type"), content_type, "{who}");
        let found = match content_type {
            PROTOBUF => envelope_type(&answer.body)?.1,
            _ => answer.json()["kind"].as_str().unwrap_or("").to_owned(),
        };
        assert_eq!(found, kind, "{who}");
    }
    Ok(())
}
