//! Malformed bodies: each is refused quickly with a clear message and leaves nothing behind.

use std::time::{Duration, Instant};

use crate::fixtures::start_tenant;
use bytes::Bytes;
use http::Method;
use insula_testkit::server::{Answer, Client};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MERGE: &str = "application/merge-patch+json";

async fn send(
    client: &Client,
    method: Method,
    path: &str,
    media: &str,
    body: impl Into<Bytes>,
) -> anyhow::Result<Answer> {
    let body = body.into();
    let headers = [("content-type", media)];
    let mut took = Duration::MAX;
    // Retried, since another process may have delayed the first attempts.
    for _ in 0..3 {
        let began = Instant::now();
        let answer = client
            .send(method.clone(), path, &headers, body.clone())
            .await?;
        took = began.elapsed();
        if took < Duration::from_secs(1) {
            return Ok(answer);
        }
    }
    anyhow::bail!("it took {took:?}")
}

async fn count(client: &Client) -> anyhow::Result<usize> {
    let list = client.get(MAPS).await?.json();
    Ok(list["items"].as_array().map_or(usize::MAX, Vec::len))
}

fn nested(open: &str, middle: &str, close: &str, depth: usize) -> String {
    format!("{}{middle}{}", open.repeat(depth), close.repeat(depth))
}

/// Nine levels of ten aliases each: a billion elements when expanded.
fn alias_bomb() -> String {
    let mut text = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..9 {
        let inner = format!("*a{}", level - 1);
        let items = vec![inner; 10].join(",");
        text.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    format!("metadata:\n  name: a\n{text}")
}

#[tokio::test]
async fn malformed_bodies_are_refused_quickly() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let long = "x".repeat(2 << 20);
    let bodies: Vec<(&str, Vec<u8>)> = vec![
        (JSON, br#"{"metadata":{"name":"a""#.to_vec()),
        (JSON, nested("{\"a\":", "1", "}", 100_000).into()),
        (JSON, nested("[", "", "]", 100_000).into()),
        (
            JSON,
            format!("{{\"data\":{}}}", nested("{\"a\":", "1", "}", 100_000)).into(),
        ),
        (JSON, "[".repeat(1 << 20).into()),
        (JSON, b"{\"metadata\":{\"name\":\"\xff\xfe\"}}".to_vec()),
        (JSON, b"\xef\xbb\xbf{}".to_vec()),
        (JSON, b"[]".to_vec()),
        (JSON, b"5".to_vec()),
        (JSON, b"\"text\"".to_vec()),
        (JSON, b"true".to_vec()),
        (JSON, b"{}{}".to_vec()),
        (JSON, b"{\"metadata\":{\"name\":\"a\"}} trailing".to_vec()),
        (JSON, br#"{"metadata":[]}"#.to_vec()),
        (JSON, br#"{"metadata":5}"#.to_vec()),
        (JSON, br#"{"metadata":{"name":5}}"#.to_vec()),
        (JSON, br#"{"metadata":{"name":["a"]}}"#.to_vec()),
        (
            JSON,
            br#"{"metadata":{"name":"a","generation":1e400}}"#.to_vec(),
        ),
        (
            JSON,
            br#"{"metadata":{"name":"a","generation":99999999999999999999}}"#.to_vec(),
        ),
        (
            JSON,
            format!(
                r#"{{"metadata":{{"name":"a","generation":{}}}}}"#,
                "9".repeat(100_000)
            )
            .into(),
        ),
        (JSON, br#"{"metadata":{"name":"a\u0000b"}}"#.to_vec()),
        (JSON, br#"{"metadata":{"name":"../../b"}}"#.to_vec()),
        (
            JSON,
            br#"{"metadata":{"name":"a","labels":{"":""}}}"#.to_vec(),
        ),
        (
            JSON,
            br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}"#.to_vec(),
        ),
        (
            JSON,
            br#"{"kind":"ConfigMap","apiVersion":"v9","metadata":{"name":"a"}}"#.to_vec(),
        ),
        (
            JSON,
            br#"{"kind":5,"apiVersion":{},"metadata":{"name":"a"}}"#.to_vec(),
        ),
        (JSON, format!("{{\"{long}").into()),
        (JSON, b"k8s\0\x0a\x02v1".to_vec()),
        (YAML, alias_bomb().into()),
        (YAML, "[".repeat(100_000).into()),
        (YAML, "- ".repeat(100_000).into()),
        (YAML, "{a: ".repeat(100_000).into()),
        (YAML, b"a: *unknown".to_vec()),
        (YAML, b"a: !!binary \xff".to_vec()),
        (YAML, b"a: &a [*a]".to_vec()),
        (YAML, b"%YAML 9.9\n---\na: b\n...\n---\n".to_vec()),
        (PROTOBUF, Vec::new()),
        (PROTOBUF, b"{}".to_vec()),
        (PROTOBUF, b"k8s\0".to_vec()),
        (
            PROTOBUF,
            b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
        ),
        (PROTOBUF, b"k8s\0\x12\xff\xff\xff\xff\x0f".to_vec()),
        (
            PROTOBUF,
            [b"k8s\0\x12\x80\x80\x40".as_slice(), &vec![0x0a; 1 << 20]].concat(),
        ),
    ];
    for (media, body) in bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let answer = send(&client, Method::POST, MAPS, media, body).await?;
        assert!(
            matches!(answer.status, 400 | 413 | 422),
            "{media} {shown}: {} {}",
            answer.status,
            answer.text()
        );
        let message = answer.message();
        assert!(!message.is_empty(), "{media} {shown}");
    }
    assert_eq!(count(&client).await?, 0);
    Ok(())
}

#[tokio::test]
async fn empty_and_null_bodies_lack_a_name() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    for body in ["{}", "null", r#"{"metadata":null}"#, " {} \n"] {
        let answer = send(&client, Method::POST, MAPS, JSON, body).await?;
        assert_eq!(answer.status, 422, "{body}: {}", answer.text());
        assert!(answer.message().contains("metadata.name: Required value"));
    }
    Ok(())
}

#[tokio::test]
async fn body_size_limit_is_exact_on_every_verb() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let item = format!("{MAPS}/a");
    let body = Bytes::from(vec![b' '; (3 << 20) + 1]);
    for (method, path, media) in [
        (Method::POST, MAPS, JSON),
        (Method::PUT, item.as_str(), JSON),
        (Method::PATCH, item.as_str(), MERGE),
        (Method::DELETE, item.as_str(), JSON),
        (Method::DELETE, MAPS, JSON),
    ] {
        let answer = send(&client, method, path, media, body.clone()).await?;
        assert_eq!(answer.status, 413, "{}", answer.text());
        assert_eq!(
            answer.message(),
            "Request entity too large: limit is 3145728"
        );
        let fits = body.slice(1..);
        let answer = send(&client, Method::POST, MAPS, JSON, fits).await?;
        assert_eq!(answer.status, 400, "{}", answer.text());
    }
    Ok(())
}

#[tokio::test]
async fn malformed_patches_are_refused_quickly() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let item = format!("{MAPS}/a");
    let map = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let before = client.post(MAPS, &map).await?.json();
    let json_patch = "application/json-patch+json";
    let strategic = "application/strategic-merge-patch+json";
    let bodies: Vec<(&str, Vec<u8>)> = vec![
        (MERGE, Vec::new()),
        (MERGE, b"null".to_vec()),
        (MERGE, b"5".to_vec()),
        (MERGE, b"[]".to_vec()),
        (MERGE, b"{".to_vec()),
        (MERGE, b"\xff".to_vec()),
        (MERGE, nested("{\"data\":", "1", "}", 100_000).into()),
        (MERGE, br#"{"metadata":null}"#.to_vec()),
        (MERGE, br#"{"metadata":[]}"#.to_vec()),
        (MERGE, br#"{"data":"text"}"#.to_vec()),
        (strategic, Vec::new()),
        (strategic, b"[]".to_vec()),
        (strategic, nested("{\"data\":", "1", "}", 100_000).into()),
        (strategic, br#"{"$patch":"delete"}"#.to_vec()),
        (strategic, br#"{"data":[]}"#.to_vec()),
        (strategic, br#"{"$retainKeys":5}"#.to_vec()),
        (json_patch, Vec::new()),
        (json_patch, b"{}".to_vec()),
        (json_patch, br#"[{"op":"add"}]"#.to_vec()),
        (json_patch, br#"[{"op":"replace","path":""}]"#.to_vec()),
        (
            json_patch,
            br#"[{"op":"replace","path":"","value":[]}]"#.to_vec(),
        ),
        (
            json_patch,
            br#"[{"op":"remove","path":"/metadata"}]"#.to_vec(),
        ),
        (
            json_patch,
            br#"[{"op":"add","path":"/data/99999999999999999999","value":{}}]"#.to_vec(),
        ),
        (json_patch, nested("[", "", "]", 100_000).into()),
    ];
    for (media, body) in bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let answer = send(&client, Method::PATCH, &item, media, body).await?;
        assert!(
            matches!(answer.status, 400 | 413 | 422),
            "{media} {shown}: {} {}",
            answer.status,
            answer.text()
        );
        assert_eq!(client.get(&item).await?.json(), before, "{media} {shown}");
    }
    Ok(())
}

#[tokio::test]
async fn too_many_headers_are_refused_without_stopping_the_server() -> anyhow::Result<()> {
    let (server, client) = start_tenant().await?;
    let names: Vec<String> = (0..2000)
        .map(|number| format!("x-flood-{number}"))
        .collect();
    let value = "v".repeat(100);
    let headers: Vec<(&str, &str)> = names
        .iter()
        .map(|name| (name.as_str(), value.as_str()))
        .collect();
    let answer = client.send(Method::GET, MAPS, &headers, "").await;
    // Either side may close: the client does so if it has seen the server's limit.
    if let Ok(answer) = answer {
        assert_eq!(answer.status, 431, "{}", answer.text());
    }
    let other = server.client("t1").await?;
    assert_eq!(other.get(MAPS).await?.status, 200);
    Ok(())
}

fn samples() -> Vec<(&'static str, Value)> {
    vec![
        (
            MAPS,
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m",
                "labels": {"a": "b"}, "finalizers": []}, "data": {"k": "v"}}),
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"metadata": {"name": "m"}, "spec": {"replicas": 2,
                "selector": {"matchLabels": {"app": "d"}},
                "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [
                    {"name": "c", "image": "i:1", "ports": [{"containerPort": 80}],
                     "resources": {"limits": {"cpu": "100m", "memory": "1Gi"}}}]}}}}),
        ),
        (
            "/api/v1/namespaces/default/services",
            json!({"metadata": {"name": "m"}, "spec": {"type": "NodePort",
                "ports": [{"port": 80, "targetPort": "http", "nodePort": 30080}],
                "selector": {"app": "d"}}}),
        ),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            json!({"metadata": {"name": "m"}, "spec": {"schedule": "*/5 * * * *",
                "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "i"}]}}}}}}),
        ),
        (
            "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
            json!({"metadata": {"name": "m", "annotations":
                    {"autoscaling.alpha.kubernetes.io/metrics": "[{\"type\":\"Pods\"}]"}},
                "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50,
                    "scaleTargetRef": {"kind": "Deployment", "name": "d"}}}),
        ),
        (
            "/apis/events.k8s.io/v1/namespaces/default/events",
            json!({"metadata": {"name": "m"}, "eventTime": "2026-01-01T00:00:00.000000Z",
                "reportingController": "x.io/c", "reportingInstance": "i", "action": "a",
                "reason": "r", "type": "Normal", "regarding": {"namespace": "default"}}),
        ),
    ]
}

/// Values that mutations insert.
fn odd_values() -> Vec<Value> {
    vec![
        Value::Null,
        json!(0),
        json!(-1),
        json!(i64::MAX),
        json!(1e300),
        json!(""),
        json!("\u{0}"),
        json!("é/../%2f"),
        json!("9223372036854775808"),
        json!([]),
        json!({}),
        json!([null]),
        json!([{}]),
        json!({"": ""}),
        json!(true),
        json!("x".repeat(5000)),
    ]
}

/// JSON pointers to all values in a tree.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                pointers(member, &format!("{at}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointers(item, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// A mutation of bytes or values, described by plain numbers so that it shrinks well.
#[derive(Clone, Debug)]
struct Mutation {
    sample: usize,
    values: Vec<(usize, usize)>,
    bytes: Vec<(usize, u8)>,
    cut: Option<usize>,
    verb: usize,
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let values = prop::collection::vec((any::<usize>(), any::<usize>()), 0..3);
    let bytes = prop::collection::vec((any::<usize>(), any::<u8>()), 0..3);
    let cut = prop::option::weighted(0.2, any::<usize>());
    (any::<usize>(), values, bytes, cut, 0..4_usize).prop_map(
        |(sample, values, bytes, cut, verb)| Mutation {
            sample,
            values,
            bytes,
            cut,
            verb,
        },
    )
}

fn mutated(mutation: &Mutation) -> (&'static str, Vec<u8>) {
    let samples = samples();
    let (path, mut object) = samples[mutation.sample % samples.len()].clone();
    let odd = odd_values();
    for (place, value) in &mutation.values {
        let mut found = Vec::new();
        pointers(&object, "", &mut found);
        if let Some(slot) = object.pointer_mut(&found[place % found.len()]) {
            *slot = odd[value % odd.len()].clone();
        }
    }
    let mut bytes = object.to_string().into_bytes();
    for (place, byte) in &mutation.bytes {
        let length = bytes.len();
        bytes[place % length] = *byte;
    }
    if let Some(cut) = mutation.cut {
        bytes.truncate(cut % bytes.len());
    }
    (path, bytes)
}

/// Messages that Kubernetes also answers with 500.
const KNOWN_INTERNAL_ERRORS: [&str; 2] = [
    "resourceVersion should not be set on objects to be created",
    "strconv.ParseUint: parsing",
];

#[test]
fn mutated_bodies_never_cause_internal_errors() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (_server, client) = runtime.block_on(start_tenant())?;
    let config = Config {
        cases: 1500,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..Config::default()
    };
    let ran = TestRunner::new(config).run(&mutation(), |mutation| {
        let (path, body) = mutated(&mutation);
        let item = format!("{path}/m");
        let (method, path, media) = match mutation.verb {
            0 | 1 => (Method::POST, path, JSON),
            2 => (Method::PUT, item.as_str(), JSON),
            _ => (
                Method::PATCH,
                item.as_str(),
                "application/strategic-merge-patch+json",
            ),
        };
        let answer = runtime.block_on(send(&client, method, path, media, body.clone()));
        let answer = answer.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let known = KNOWN_INTERNAL_ERRORS
            .iter()
            .any(|text| answer.message().contains(text))
            || media.contains("strategic") && answer.json()["reason"] == Value::Null;
        prop_assert!(
            answer.status < 500 || known,
            "{} {}: {}",
            answer.status,
            answer.text(),
            String::from_utf8_lossy(&body)
        );
        Ok(())
    });
    ran.map_err(|error| anyhow::anyhow!("{error}"))?;
    let alive = runtime.block_on(client.get(MAPS))?;
    assert_eq!(alive.status, 200);
    Ok(())
}
