//! Protobuf in every response that clients can get.

use bytes::Bytes;
use http::Method;
use insula_kinds::{openapi, types};
use insula_testkit::server::{Answer, Client, definition};
use serde_json::{Value, json};

use super::{
    FOOS, MAPS, PROTOBUF, decode_object, encode_envelope, envelope_type, kind, meta, start,
};

const BOTH: &str = "application/vnd.kubernetes.protobuf,application/json";

async fn send(
    client: &Client,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> anyhow::Result<Answer> {
    let headers = [("content-type", PROTOBUF), ("accept", BOTH)];
    let answer = client
        .send(method, path, &headers, Bytes::from(body))
        .await?;
    assert_eq!(answer.header("content-type"), PROTOBUF, "{path}");
    Ok(answer)
}

#[tokio::test]
async fn reviews_work_in_protobuf() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let access = |verb: &str| json!({"resourceAttributes": {"verb": verb, "resource": "pods"}});
    let someone = json!({"user": "u", "resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}});
    for (group, resource, spec, path, wanted) in [
        (
            "authentication.k8s.io",
            "selfsubjectreviews",
            json!({}),
            "/status/userInfo/groups/0",
            json!("system:authenticated"),
        ),
        (
            "authentication.k8s.io",
            "tokenreviews",
            json!({"token": "unknown"}),
            "/status/error",
            json!("invalid bearer token"),
        ),
        (
            "authorization.k8s.io",
            "selfsubjectaccessreviews",
            access("list"),
            "/status/allowed",
            json!(true),
        ),
        (
            "authorization.k8s.io",
            "selfsubjectrulesreviews",
            json!({"namespace": "default"}),
            "/status/incomplete",
            json!(false),
        ),
        (
            "authorization.k8s.io",
            "subjectaccessreviews",
            someone.clone(),
            "/status/allowed",
            json!(false),
        ),
        (
            "authorization.k8s.io",
            "localsubjectaccessreviews",
            someone,
            "/status/allowed",
            json!(false),
        ),
    ] {
        let of = kind(group, "v1", resource);
        let place = match resource {
            "localsubjectaccessreviews" => "namespaces/default/",
            _ => "",
        };
        let body = encode_envelope(
            of.api_version(),
            &of.kind,
            of.type_id(),
            &json!({"spec": spec}),
        );
        let url = format!("/apis/{group}/v1/{place}{resource}");
        let answer = send(&client, Method::POST, &url, body).await?;
        assert_eq!(answer.status, 201, "{resource}: {}", answer.text());
        assert_eq!(
            envelope_type(&answer.body)?,
            (of.api_version().to_owned(), of.kind.clone())
        );
        let review = decode_object(of.type_id(), &answer.body)?;
        let found = review.pointer(path);
        assert!(found == Some(&wanted), "{resource}: {review}");
    }
    Ok(())
}

#[tokio::test]
async fn subresources_work_in_protobuf() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({"metadata": {"name": "d"}, "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [
            {"name": "c", "image": "i:1"}]}}}});
    assert_eq!(client.post(deployments, &deployment).await?.status, 201);
    let of = types()
        .find("api.autoscaling.v1.Scale")
        .expect("it is in the table");
    let url = format!("{deployments}/d/scale");
    let answer = client.accept(&url, BOTH).await?;
    let mut scale = decode_object(of, &answer.body)?;
    assert_eq!(
        (&scale["spec"]["replicas"], &scale["status"]["selector"]),
        (&json!(2), &json!("app=d"))
    );
    scale["spec"]["replicas"] = 5.into();
    let answer = send(
        &client,
        Method::PUT,
        &url,
        encode_envelope("autoscaling/v1", "Scale", of, &scale),
    )
    .await?;
    assert_eq!(envelope_type(&answer.body)?.1, "Scale");
    assert_eq!(decode_object(of, &answer.body)?["spec"]["replicas"], 5);
    let pods = "/api/v1/namespaces/default/pods";
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    assert_eq!(client.post(pods, &pod).await?.status, 201);
    for (sub, version, kind, name, object) in [
        (
            "binding",
            "v1",
            "Binding",
            "api.core.v1.Binding",
            json!({"metadata": {"name": "p"}, "target": {"name": "n1"}}),
        ),
        (
            "eviction",
            "policy/v1",
            "Eviction",
            "api.policy.v1.Eviction",
            json!({"metadata": {"name": "p"}}),
        ),
    ] {
        let of = types().find(name).expect("it is in the table");
        let body = encode_envelope(version, kind, of, &object);
        let answer = send(&client, Method::POST, &format!("{pods}/p/{sub}"), body).await?;
        assert_eq!(
            (answer.status, envelope_type(&answer.body)?.1.as_str()),
            (201, "Status"),
            "{sub}"
        );
        assert_eq!(
            decode_object(meta("Status"), &answer.body)?["status"],
            "Success"
        );
    }
    let of = types()
        .find("api.authentication.v1.TokenRequest")
        .expect("it is in the table");
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let body = encode_envelope(
        "authentication.k8s.io/v1",
        "TokenRequest",
        of,
        &json!({"spec": {"expirationSeconds": 600}}),
    );
    let answer = send(
        &client,
        Method::POST,
        &format!("{accounts}/default/token"),
        body,
    )
    .await?;
    let token = decode_object(of, &answer.body)?;
    assert_eq!(answer.status, 201, "{token}");
    assert_eq!(
        token["status"]["token"]
            .as_str()
            .map(|text| text.split('.').count()),
        Some(3)
    );
    Ok(())
}

/// Every error code that a client is likely to meet.
#[tokio::test]
async fn errors_are_protobuf_statuses() -> anyhow::Result<()> {
    let (server, client) = start().await?;
    let stranger = server.client("stranger").await?;
    let large = "x".repeat((3 << 20) + 1);
    let maps = kind("", "v1", "configmaps");
    let map = |object: Value| encode_envelope("v1", "ConfigMap", maps.type_id(), &object);
    let a = format!("{MAPS}/a");
    for (who, method, path, body, code, reason) in [
        (
            &client,
            Method::GET,
            format!("{MAPS}/none"),
            vec![],
            404,
            "NotFound",
        ),
        (
            &client,
            Method::GET,
            "/api/v1/nonsense".to_owned(),
            vec![],
            404,
            "NotFound",
        ),
        (
            &client,
            Method::GET,
            format!("{MAPS}?labelSelector=a%20in"),
            vec![],
            400,
            "BadRequest",
        ),
        (
            &client,
            Method::GET,
            format!("{MAPS}?resourceVersion=99999999&resourceVersionMatch=Exact"),
            vec![],
            504,
            "Timeout",
        ),
        (
            &client,
            Method::GET,
            format!("{MAPS}?sendInitialEvents=true"),
            vec![],
            422,
            "Invalid",
        ),
        (
            &client,
            Method::POST,
            MAPS.to_owned(),
            map(json!({"metadata": {"name": "a"}})),
            409,
            "AlreadyExists",
        ),
        (
            &client,
            Method::POST,
            MAPS.to_owned(),
            map(json!({"metadata": {"name": "B_"}})),
            422,
            "Invalid",
        ),
        (
            &client,
            Method::POST,
            MAPS.to_owned(),
            b"k8s\0garbage".to_vec(),
            400,
            "BadRequest",
        ),
        (
            &client,
            Method::POST,
            MAPS.to_owned(),
            large.into_bytes(),
            413,
            "RequestEntityTooLarge",
        ),
        (
            &client,
            Method::PUT,
            a.clone(),
            map(json!({"metadata": {"name": "a", "resourceVersion": "1"}})),
            409,
            "Conflict",
        ),
        (
            &client,
            Method::PATCH,
            a.clone(),
            vec![],
            415,
            "UnsupportedMediaType",
        ),
        (
            &client,
            Method::PUT,
            MAPS.to_owned(),
            vec![],
            405,
            "MethodNotAllowed",
        ),
        (
            &client,
            Method::GET,
            "/api/v1/tenants/other/configmaps".to_owned(),
            vec![],
            403,
            "Forbidden",
        ),
        (
            &client,
            Method::GET,
            format!("{FOOS}/none"),
            vec![],
            404,
            "NotFound",
        ),
        (
            &stranger,
            Method::GET,
            a.clone(),
            vec![],
            401,
            "Unauthorized",
        ),
    ] {
        let answer = send(who, method.clone(), &path, body).await?;
        let status = decode_object(meta("Status"), &answer.body)?;
        assert_eq!(
            envelope_type(&answer.body)?,
            ("v1".to_owned(), "Status".to_owned())
        );
        assert_eq!(
            (answer.status, &status["code"], &status["reason"]),
            (code, &json!(code), &json!(reason)),
            "{method} {path}: {status}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn deletions_and_empty_lists_are_protobuf() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    // Without the ConfigMap that is recreated in every namespace after deletion.
    let maps = format!("{MAPS}?fieldSelector=metadata.name!=kube-root-ca.crt");
    let of = types()
        .find("api.core.v1.ConfigMapList")
        .expect("it is in the table");
    let options = encode_envelope(
        "v1",
        "DeleteOptions",
        meta("DeleteOptions"),
        &json!({"propagationPolicy": "Background"}),
    );
    let answer = send(&client, Method::DELETE, &maps, options.clone()).await?;
    assert_eq!(envelope_type(&answer.body)?.1, "ConfigMapList");
    assert_eq!(
        decode_object(of, &answer.body)?["items"][0]["metadata"]["name"],
        "a"
    );
    let answer = client.accept(&maps, BOTH).await?;
    let list = decode_object(of, &answer.body)?;
    assert!(list["metadata"]["resourceVersion"].is_string(), "{list}");
    assert_eq!(list["items"].as_array().map_or(0, Vec::len), 0);
    let json = client.get(&maps).await?.text();
    assert!(json.ends_with("\"items\":[]}\n"), "never null: {json}");
    let answer = client
        .accept(
            MAPS,
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        )
        .await?;
    assert_eq!(envelope_type(&answer.body)?.1, "PartialObjectMetadataList");
    client
        .post(MAPS, &json!({"metadata": {"name": "b"}}))
        .await?;
    let answer = send(
        &client,
        Method::DELETE,
        &format!("{MAPS}/b"),
        options.clone(),
    )
    .await?;
    let status = decode_object(meta("Status"), &answer.body)?;
    assert_eq!(
        (&status["status"], &status["details"]["kind"]),
        (&json!("Success"), &json!("configmaps"))
    );
    // Delete options may be protobuf even where objects may not.
    let headers = [("content-type", PROTOBUF), ("accept", BOTH)];
    let own = format!("{FOOS}/a");
    let answer = client.send(Method::DELETE, &own, &headers, options).await?;
    assert_eq!(
        (answer.status, &answer.json()["status"]),
        (200, &json!("Success"))
    );
    Ok(())
}

#[tokio::test]
async fn scales_have_table_rows_and_reviews_do_not() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let controllers = "/api/v1/namespaces/default/replicationcontrollers";
    let controller = json!({"metadata": {"name": "r"}, "spec": {"replicas": 3, "selector": {"a": "b"},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}}});
    assert_eq!(client.post(controllers, &controller).await?.status, 201);
    let answer = client
        .accept(&format!("{controllers}/r/scale"), table)
        .await?;
    let found = answer.json();
    assert_eq!(
        (&found["kind"], &found["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    let names: Vec<&Value> = found["columnDefinitions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|of| &of["name"])
        .collect();
    assert_eq!(names, ["Name", "Desired", "Available", "Age"]);
    let cells = found["rows"][0]["cells"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    assert_eq!(cells[..3], [json!("r"), json!(3), json!(0)]);
    assert_eq!(found["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(found["rows"][0]["object"]["metadata"]["name"], "r");
    let partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let answer = client
        .accept(&format!("{controllers}/r/scale"), partial)
        .await?;
    assert_eq!(answer.json()["metadata"]["name"], "r");
    assert_eq!(answer.json()["spec"], Value::Null);
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    for (accept, status, of) in [
        (table.to_owned(), 406, "Status"),
        (
            format!("{table},application/json"),
            201,
            "SelfSubjectReview",
        ),
    ] {
        let headers = [("accept", accept.as_str())];
        let answer = client.send(Method::POST, review, &headers, "{}").await?;
        assert_eq!(
            (answer.status, &answer.json()["kind"]),
            (status, &json!(of)),
            "{accept}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn openapi_v3_is_served_as_json_or_protobuf() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let dotted = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
    let at = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
    let index = client.get("/openapi/v3").await?.json();
    for path in ["api/v1", "apis/ex.io/v1"] {
        let url = index["paths"][path]["serverRelativeURL"]
            .as_str()
            .unwrap_or("")
            .to_owned();
        let plain = client.get(&url).await?;
        assert_eq!(plain.header("content-type"), "application/json");
        let wanted = openapi::v3_protobuf(&plain.body);
        assert!(wanted.len() > 1000, "{path}");
        for accept in [dotted, at, &format!("{at}, application/json;q=0.5")] {
            let answer = client.accept(&url, accept).await?;
            assert_eq!(
                (answer.status, answer.header("content-type")),
                (200, dotted),
                "{path}"
            );
            assert!(answer.body == wanted, "{path} {accept}");
            assert_eq!(answer.header("cache-control"), "public, immutable");
            let moved = client
                .accept(&format!("/openapi/v3/{path}?hash=0"), accept)
                .await?;
            assert_eq!(
                (moved.status, moved.header("location")),
                (301, url.as_str())
            );
        }
        let v2 = at.replace("v3@", "v2@");
        for accept in ["application/yaml", v2.as_str()] {
            let refused = client.accept(&url, accept).await?;
            assert_eq!((refused.status, refused.body.len()), (406, 0), "{accept}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn large_discovery_is_compressed() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    // A single definition with many short names.
    let mut named = definition(
        "names.example.com",
        "things",
        "Thing",
        json!({"type": "object"}),
    );
    let name = |index: usize| format!("{}{index}", "n".repeat(50));
    named["spec"]["names"]["shortNames"] = (0..4000).map(name).collect();
    client.define(&named).await?;
    let plain = client.accept("/apis", accept).await?;
    assert!(plain.body.len() > 128 << 10, "{}", plain.body.len());
    let headers = [("accept", accept), ("accept-encoding", "gzip")];
    let small = client.send(Method::GET, "/apis", &headers, "").await?;
    assert_eq!(small.header("content-encoding"), "gzip");
    assert_eq!(small.header("content-type"), accept);
    assert_eq!(small.header("etag"), plain.header("etag"));
    assert!(small.body.len() < plain.body.len() / 4);
    let api = client.send(Method::GET, "/api", &headers, "").await?;
    assert_eq!(api.header("content-encoding"), "", "it is small");
    Ok(())
}
