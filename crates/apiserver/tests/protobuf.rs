//! Protobuf bodies as kubectl and client-go send and accept them.

use crate::fixtures::start_tenant;
use bytes::Bytes;
use http::Method;
use insula_kinds::{Kind, Object, kinds, protobuf};
use insula_testkit::server::{Answer, Client};
use serde_json::{Value, json};

const MEDIA: &str = "application/vnd.kubernetes.protobuf";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn kind(group: &str, version: &str, resource: &str) -> &'static Kind {
    let id = kinds().find(group, version, resource);
    kinds().get(id.expect("it is in the table"))
}

fn encode_envelope(kind: &Kind, object: Value) -> Bytes {
    let Value::Object(object) = object else {
        return Bytes::new();
    };
    let mut raw = Vec::new();
    protobuf::encode(kind.type_id(), &object, &mut raw);
    protobuf::seal(kind.api_version(), &kind.kind, &raw).into()
}

fn decode_envelope(kind: &Kind, answer: &Answer) -> anyhow::Result<Object> {
    assert_eq!(answer.header("content-type"), MEDIA, "{}", answer.text());
    let envelope = protobuf::open(&answer.body)?;
    assert_eq!(envelope.api_version, kind.api_version());
    assert_eq!(envelope.kind, kind.kind);
    Ok(protobuf::decode(kind.type_id(), envelope.raw)?)
}

async fn send(client: &Client, method: Method, path: &str, body: Bytes) -> anyhow::Result<Answer> {
    let accept = format!("{MEDIA},application/json");
    let headers = [("content-type", MEDIA), ("accept", accept.as_str())];
    client.send(method, path, &headers, body).await
}

#[tokio::test]
async fn objects_can_be_created_updated_and_deleted_in_protobuf() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let maps = kind("", "v1", "configmaps");
    let sent = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let answer = send(&client, Method::POST, MAPS, encode_envelope(maps, sent)).await?;
    assert_eq!(answer.status, 201);
    let mut object = decode_envelope(maps, &answer)?;
    let item = format!("{MAPS}/a");
    let read = client.get(&item).await?.json();
    assert_eq!(read["data"], json!({"k": "v"}));
    assert_eq!(
        object["metadata"]["resourceVersion"],
        read["metadata"]["resourceVersion"]
    );
    // The tenant and selfLink are encoded in protobuf too.
    assert_eq!(object["metadata"]["tenant"], "t1");
    assert_eq!(object["metadata"]["selfLink"], read["metadata"]["selfLink"]);
    object.insert("data".to_owned(), json!({"k": "w"}));
    let body = encode_envelope(maps, Value::Object(object));
    let answer = send(&client, Method::PUT, &item, body.clone()).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(decode_envelope(maps, &answer)?["data"], json!({"k": "w"}));
    let stale = send(&client, Method::PUT, &item, body).await?;
    assert_eq!(stale.status, 409);
    let envelope = protobuf::open(&stale.body)?;
    assert_eq!((envelope.api_version, envelope.kind), ("v1", "Status"));
    let answer = send(&client, Method::DELETE, &item, Bytes::new()).await?;
    assert_eq!(answer.status, 200);
    assert_eq!(client.get(&item).await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn protobuf_and_json_creates_are_equivalent() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let deployments = kind("apps", "v1", "deployments");
    let path = "/apis/apps/v1/namespaces/default/deployments?dryRun=All";
    let sent = json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [
            {"name": "c", "image": "i:1", "ports": [{"containerPort": 80}],
             "resources": {"limits": {"memory": "1.5Gi"}}}]}}}});
    let json = client.post(path, &sent).await?.json();
    let body = encode_envelope(deployments, sent);
    let answer = send(&client, Method::POST, path, body).await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let created = Value::Object(decode_envelope(deployments, &answer)?);
    assert_eq!(created["spec"], json["spec"]);
    Ok(())
}

#[tokio::test]
async fn protobuf_bodies_of_another_kind_are_refused() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let secrets = kind("", "v1", "secrets");
    let body = encode_envelope(secrets, json!({"metadata": {"name": "a"}}));
    let headers = [("content-type", MEDIA)];
    let answer = client.send(Method::POST, MAPS, &headers, body).await?;
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.message(),
        "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to \
         (core.ConfigMap): unknown conversion"
    );
    let garbage = client.send(Method::POST, MAPS, &headers, "{}").await?;
    assert_eq!(garbage.status, 400);
    assert_eq!(
        garbage.message(),
        "the object provided is unrecognized (must be of type ConfigMap): provided data does not \
         appear to be a protobuf message, expected prefix [107 56 115 0] ({})"
    );
    Ok(())
}

#[tokio::test]
async fn delete_options_can_be_protobuf() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    client
        .post(MAPS, &json!({"metadata": {"name": "a"}}))
        .await?;
    let of = insula_kinds::types()
        .find("apimachinery.pkg.apis.meta.v1.DeleteOptions")
        .expect("it is in the table");
    let mut options = Object::new();
    options.insert("dryRun".to_owned(), json!(["All"]));
    let item = format!("{MAPS}/a");
    for kind in ["DeleteOptions", "Foo"] {
        let mut raw = Vec::new();
        protobuf::encode(of, &options, &mut raw);
        let body = protobuf::seal("v1", kind, &raw).into();
        let answer = send(&client, Method::DELETE, &item, body).await?;
        let wanted = if kind == "Foo" { 400 } else { 200 };
        assert_eq!(answer.status, wanted, "{kind}");
        assert_eq!(client.get(&item).await?.status, 200, "it was a dry run");
    }
    Ok(())
}
