//! Error messages for malformed bodies.

use crate::fixtures::start_tenant;
use http::Method;
use insula_testkit::server::{Answer, Client};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

async fn post(client: &Client, path: &str, media: &str, body: &str) -> anyhow::Result<Answer> {
    let headers = [("content-type", media)];
    client
        .send(Method::POST, path, &headers, body.to_owned())
        .await
}

#[tokio::test]
async fn decode_errors_match_go() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let map = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: ";
    let unrecognized = "the object provided is unrecognized (must be of type ConfigMap): couldn't \
                        get version/kind; json parse error: ";
    for (path, body, message) in [
        (
            MAPS,
            "",
            format!("{unrecognized}unexpected end of JSON input (<empty>)"),
        ),
        (
            MAPS,
            r#"{"a":"#,
            format!("{unrecognized}unexpected end of JSON input ({{\"a\":)"),
        ),
        (
            MAPS,
            r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"}}"#,
            "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to \
             (core.ConfigMap): unknown conversion"
                .to_owned(),
        ),
        (
            MAPS,
            r#"{"kind":"Foo","apiVersion":"v1"}"#,
            "Foo in version \"v1\" cannot be handled as a ConfigMap: no kind \"Foo\" is registered \
             for version \"v1\" in scheme \"pkg/api/legacyscheme/scheme.go:30\""
                .to_owned(),
        ),
        (
            DEPLOYMENTS,
            r#"{"kind":"Deployment","apiVersion":"extensions/v1beta1"}"#,
            "the API version in the data (extensions/v1beta1) does not match the expected API \
             version (apps/v1)"
                .to_owned(),
        ),
        (
            MAPS,
            r#"{"data":{"a":1}}"#,
            format!(
                "{map}json: cannot unmarshal number into Go struct field ConfigMap.data of type \
                 string"
            ),
        ),
        (
            DEPLOYMENTS,
            r#"{"spec":{"replicas":1.5}}"#,
            "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot \
             unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32"
                .to_owned(),
        ),
        (
            DEPLOYMENTS,
            r#"{"spec":{"replicas":"1"}}"#,
            "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot \
             unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
                .to_owned(),
        ),
        (
            PODS,
            r#"{"spec":{"containers":[{"resources":{"limits":{"cpu":"much"}}}]}}"#,
            "Pod in version \"v1\" cannot be handled as a Pod: quantities must match the regular \
             expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                .to_owned(),
        ),
        (
            MAPS,
            r#"{"metadata":{"creationTimestamp":"yesterday"}}"#,
            format!(
                "{map}parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \
                 \"yesterday\" as \"2006\""
            ),
        ),
        (
            SECRETS,
            r#"{"data":{"a":"!"}}"#,
            "Secret in version \"v1\" cannot be handled as a Secret: illegal base64 data at input \
             byte 0"
                .to_owned(),
        ),
    ] {
        let answer = post(&client, path, "application/json", body).await?;
        assert_eq!(answer.message(), message);
        assert_eq!(answer.status, 400);
        assert_eq!(answer.json()["reason"], "BadRequest");
        assert_eq!(answer.json()["details"], Value::Null);
    }
    let list = client.get(MAPS).await?.json();
    assert_eq!(list["items"], json!([]));
    Ok(())
}

#[tokio::test]
async fn null_fields_are_absent_and_null_map_values_are_empty() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let body = r#"{"metadata":{"name":"a","labels":null},"data":{"k":null},"binaryData":null}"#;
    let answer = post(&client, MAPS, "", body).await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.json()["data"], json!({"k": ""}));
    assert_eq!(answer.json()["metadata"]["labels"], Value::Null);
    Ok(())
}

#[tokio::test]
async fn unknown_content_types_are_refused() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    for media in ["text/plain", "application/xml", "application/cbor-seq"] {
        let answer = post(&client, MAPS, media, "{}").await?;
        assert_eq!(answer.status, 415);
        assert_eq!(answer.json()["reason"], "UnsupportedMediaType");
        assert_eq!(
            answer.message(),
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml, application/vnd.kubernetes.protobuf, \
             application/cbor"
        );
    }
    Ok(())
}

const DUPLICATE_AND_UNKNOWN: &str =
    r#"{"metadata":{"name":"a","bogus":1},"data":{"a":"1","a":"2"},"spec":{}}"#;

#[tokio::test]
async fn strict_field_validation_reports_all_problems_in_document_order() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let strict = format!("{MAPS}?fieldValidation=Strict");
    let answer = post(&client, &strict, "application/json", DUPLICATE_AND_UNKNOWN).await?;
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.message(),
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
         unknown field \"metadata.bogus\", duplicate field \"data.a\", unknown field \"spec\""
    );
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "image": "i", "foo": 1}]}, "Metadata": {}});
    let strict = format!("{PODS}?fieldValidation=Strict");
    let answer = client.post(&strict, &pod).await?;
    assert!(
        answer
            .message()
            .contains("unknown field \"spec.containers[0].foo\"")
            && answer.message().contains("unknown field \"Metadata\""),
        "{}",
        answer.message()
    );
    Ok(())
}

#[tokio::test]
async fn warn_is_the_default_with_one_header_per_problem() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let wanted = [
        r#"299 - "unknown field \"metadata.bogus\"""#,
        r#"299 - "duplicate field \"data.a\"""#,
        r#"299 - "unknown field \"spec\"""#,
    ];
    for path in [format!("{MAPS}?fieldValidation=Warn"), MAPS.to_owned()] {
        let answer = post(&client, &path, "application/json", DUPLICATE_AND_UNKNOWN).await?;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let found: Vec<_> = answer.headers.get_all("warning").iter().collect();
        assert_eq!(found, wanted);
        assert_eq!(answer.json()["data"], json!({"a": "2"}));
        assert_eq!(answer.json()["spec"], Value::Null);
        client.delete(&format!("{MAPS}/a")).await?;
    }
    let ignore = format!("{MAPS}?fieldValidation=Ignore");
    let answer = post(&client, &ignore, "application/json", DUPLICATE_AND_UNKNOWN).await?;
    assert_eq!((answer.status, answer.header("warning")), (201, ""));
    Ok(())
}

#[tokio::test]
async fn warnings_are_escaped_and_truncated_for_headers() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let mut object = json!({"metadata": {"name": "a"}});
    for number in 0..90 {
        object[format!("{number}-{}", "é".repeat(10_000))] = 1.into();
    }
    let answer = client.post(MAPS, &object).await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let sizes = answer.headers.get_all("warning").iter().map(|v| v.len());
    let sizes: Vec<usize> = sizes.collect();
    assert!(sizes.len() >= 10, "{sizes:?}");
    assert!(sizes.iter().sum::<usize>() < 8 << 10, "{sizes:?}");
    Ok(())
}

#[tokio::test]
async fn yaml_errors_name_the_line() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let yaml = "application/yaml";
    let body =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  a: one\n  z: \"5\"\n";
    let answer = post(&client, MAPS, yaml, body).await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.json()["data"], json!({"a": "one", "z": "5"}));
    let strict = format!("{MAPS}?fieldValidation=Strict");
    let twice =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\ndata:\n  a: one\n  a: two\n";
    let answer = post(&client, &strict, yaml, twice).await?;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(
        answer
            .message()
            .contains("line 7: key \"a\" already set in map"),
        "{}",
        answer.message()
    );
    for broken in ["a: [", "\t- x: :", "{", "- 1\n- 2\n", "just text", "5"] {
        let answer = post(&client, MAPS, yaml, broken).await?;
        assert_eq!(answer.status, 400, "{broken}: {}", answer.text());
        assert_eq!(answer.json()["reason"], "BadRequest");
    }
    Ok(())
}

#[tokio::test]
async fn errors_are_sent_in_the_accepted_format() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let path = format!("{MAPS}/none");
    let answer = client.accept(&path, "application/yaml").await?;
    assert_eq!(answer.status, 404);
    assert_eq!(answer.header("content-type"), "application/yaml");
    assert!(
        answer
            .text()
            .contains("message: configmaps \"none\" not found"),
        "{}",
        answer.text()
    );
    let protobuf = "application/vnd.kubernetes.protobuf";
    let answer = client.accept(&path, protobuf).await?;
    assert_eq!(answer.status, 404);
    assert_eq!(answer.header("content-type"), protobuf);
    assert!(answer.body.starts_with(b"k8s\0"));
    Ok(())
}

#[tokio::test]
async fn every_validation_error_is_a_cause() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let answer = client
        .post(DEPLOYMENTS, &json!({"metadata": {"name": "k"}}))
        .await?;
    assert_eq!(answer.status, 422);
    assert_eq!(
        answer.message(),
        "Deployment.apps \"k\" is invalid: [spec.selector: Required value, \
         spec.template.metadata.labels: Invalid value: null: `selector` does not match template \
         `labels`, spec.template.spec.containers: Required value]"
    );
    let details = answer.json()["details"].clone();
    assert_eq!(
        (&details["name"], &details["group"], &details["kind"]),
        (&json!("k"), &json!("apps"), &json!("Deployment"))
    );
    assert_eq!(details["causes"].as_array().map(Vec::len), Some(3));
    assert_eq!(
        details["causes"][0],
        json!({"reason": "FieldValueRequired", "message": "Required value",
            "field": "spec.selector"})
    );
    Ok(())
}
