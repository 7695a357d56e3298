//! What Kubernetes clients send and expect on the wire: their headers, protobuf and CBOR in every
//! response, and streamed lists in every format.

mod cbor;
mod headers;
mod protobuf_responses;
mod streams;
mod websocket;

use insula_kinds::{Kind, Object, TypeId, kinds, protobuf, types};
use insula_testkit::server::{Client, TestServer, definition};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const FOOS: &str = "/apis/ex.io/v1/namespaces/default/foos";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A tenant with a ConfigMap and a custom object, both named `a`.
async fn start() -> anyhow::Result<(TestServer, Client)> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    client
        .define(&definition("ex.io", "foos", "Foo", spec))
        .await?;
    let own = json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "a"}});
    let map = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    for (path, object) in [(MAPS, &map), (FOOS, &own)] {
        let created = client.post(path, object).await?;
        anyhow::ensure!(created.status == 201, "{}", created.text());
    }
    Ok((server, client))
}

fn kind(group: &str, version: &str, resource: &str) -> &'static Kind {
    let id = kinds().find(group, version, resource);
    kinds().get(id.expect("it is in the table"))
}

fn meta(name: &str) -> TypeId {
    let name = format!("apimachinery.pkg.apis.meta.v1.{name}");
    types().find(&name).expect("it is in the table")
}

/// The apiVersion and kind of a protobuf envelope.
fn envelope_type(body: &[u8]) -> anyhow::Result<(String, String)> {
    let envelope = protobuf::open(body)?;
    Ok((envelope.api_version.to_owned(), envelope.kind.to_owned()))
}

/// Decodes the object in a protobuf envelope.
fn decode_object(of: TypeId, body: &[u8]) -> anyhow::Result<Value> {
    let envelope = protobuf::open(body)?;
    Ok(Value::Object(protobuf::decode(of, envelope.raw)?))
}

fn encode_envelope(version: &str, kind: &str, of: TypeId, object: &Value) -> Vec<u8> {
    let none = Object::new();
    let mut raw = Vec::new();
    protobuf::encode(of, object.as_object().unwrap_or(&none), &mut raw);
    protobuf::seal(version, kind, &raw)
}

/// The type of a protobuf watch event and the enveloped object, which is its last field.
fn event(frame: &[u8]) -> anyhow::Result<(String, Vec<u8>)> {
    let [0x0a, length, rest @ ..] = frame else {
        anyhow::bail!("an event begins with its type");
    };
    let kind = String::from_utf8(rest[..usize::from(*length)].to_vec())?;
    let begins = |bytes: &[u8]| bytes == b"k8s\0";
    let at = rest.windows(4).position(begins);
    let at = at.ok_or_else(|| anyhow::anyhow!("no object"))?;
    Ok((kind, rest[at..].to_vec()))
}
