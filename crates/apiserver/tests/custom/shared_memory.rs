//! Equal parts of large definitions are stored in memory once, invisibly to tenants.

use insula_core::Space;
use insula_testkit::server::{DEFINITIONS, TestServer, definition};
use serde_json::{Map, Value, json};

const NAME: &str = "bigs.ex.io";

/// A definition of about 60 KB, half of it in an annotation.
fn bigs() -> Value {
    let fields = (0..300).map(|n| {
        let field = json!({"type": "string", "description": format!("field {n} of {}", n * 7919)});
        (format!("field{n:03}"), field)
    });
    let spec = json!({"type": "object", "properties": Map::from_iter(fields)});
    let mut bigs = definition("ex.io", "bigs", "Big", spec);
    bigs["metadata"]["labels"] = json!({"size": "large"});
    bigs["metadata"]["annotations"] = json!({"copy": bigs.to_string()});
    bigs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_definitions_of_two_tenants_share_memory() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    for name in ["t1", "t2"] {
        let tenant = server.tenant(name).await?;
        tenant.define(&bigs()).await?;
    }
    let weights = ["t1", "t2"].map(|name| {
        let of = server
            .registry()
            .cache()
            .find(insula_cache::definitions(), &Space::parse(name).unwrap());
        let held = of.and_then(|of| of.get(NAME)).unwrap();
        assert!(held.is_shared());
        assert!(held.body().len() > 40_000);
        held.weight()
    });
    assert!(weights.iter().all(|weight| *weight < 12_000), "{weights:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_definitions_are_served_unchanged() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (one, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let mut watch = other.watch(&format!("{DEFINITIONS}?watch=true")).await?;
    one.define(&bigs()).await?;
    other.define(&bigs()).await?;
    let path = format!("{DEFINITIONS}/{NAME}");
    let read = other.get(&path).await?.json();
    assert_eq!(read["metadata"]["tenant"], "t2");
    assert_eq!(
        read["metadata"]["annotations"],
        bigs()["metadata"]["annotations"]
    );
    let (schema, sent) = (&read["spec"]["versions"][0]["schema"], bigs());
    assert_eq!(*schema, sent["spec"]["versions"][0]["schema"]);
    let own = one.get(&path).await?.json();
    assert_ne!(own["metadata"]["uid"], read["metadata"]["uid"]);

    let listed = other
        .get(&format!("{DEFINITIONS}?labelSelector=size%3Dlarge"))
        .await?
        .json();
    let mut item = read.clone();
    item.as_object_mut()
        .unwrap()
        .retain(|name, _| !["kind", "apiVersion"].contains(&name.as_str()));
    assert_eq!(listed["items"], json!([item]));
    let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let partial = other.accept(&path, partial).await?.json();
    assert_eq!(partial["metadata"], read["metadata"]);

    let added = watch.next().await?.unwrap();
    assert_eq!(
        (&added["type"], &added["object"]["spec"]),
        (&json!("ADDED"), &read["spec"])
    );
    let patch = json!({"metadata": {"labels": {"size": "huge"}}});
    let patched = other.patch(&path, "merge", &patch).await?.json();
    assert_eq!(patched["spec"], read["spec"]);
    assert_eq!(other.delete(&path).await?.status, 200);
    other.until_gone(&path).await?;
    let last = loop {
        let event = watch.next().await?.unwrap();
        if event["type"] == "DELETED" {
            break event["object"].clone();
        }
    };
    assert_eq!(
        (&last["spec"], &last["metadata"]["uid"]),
        (&read["spec"], &read["metadata"]["uid"])
    );
    assert_eq!(last["metadata"]["labels"]["size"], "huge");
    assert_eq!(one.get(&path).await?.json(), own);
    Ok(())
}
