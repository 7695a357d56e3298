//! OpenAPI documents.

use std::io::Read;

use http::Method;
use insula_kinds::openapi;
use insula_testkit::server::{Client, Setup, TestServer, definition};
use serde_json::{Value, json};

const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

async fn index(client: &Client) -> anyhow::Result<Value> {
    let answer = client.get("/openapi/v3").await?;
    anyhow::ensure!(answer.status == 200, "{}", answer.text());
    Ok(answer.json())
}

fn url<'a>(index: &'a Value, path: &str) -> &'a str {
    index["paths"][path]["serverRelativeURL"]
        .as_str()
        .unwrap_or("")
}

#[tokio::test]
async fn documents_are_addressed_by_hash_and_cacheable() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let answer = client.get("/openapi/v3").await?;
    assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    let index = answer.json();
    let right = url(&index, "apis/apps/v1");
    let (path, hash) = right.split_once("?hash=").unwrap_or_default();
    assert_eq!((path, hash.len()), ("/openapi/v3/apis/apps/v1", 128));
    let part = client.get(right).await?;
    assert_eq!(part.status, 200);
    assert_eq!(part.header("content-type"), "application/json");
    assert_eq!(part.header("cache-control"), "public, immutable");
    assert_eq!(part.header("etag"), format!("\"{hash}\""));
    assert!(
        part.header("expires").ends_with(" GMT"),
        "{:?}",
        part.headers
    );
    assert!(
        part.header("last-modified").ends_with(" GMT"),
        "{:?}",
        part.headers
    );
    let document = part.json();
    assert_eq!(document["openapi"], "3.0.0");
    let deployment = &document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(
        deployment["x-kubernetes-group-version-kind"][0]["kind"],
        "Deployment"
    );
    let plain = client.get(path).await?;
    assert_eq!((plain.status, plain.body), (200, part.body));
    assert_eq!(plain.headers["cache-control"], "no-cache, private");
    let wrong = client.get(&format!("{path}?hash=0000")).await?;
    assert_eq!((wrong.status, wrong.body.len()), (301, 0));
    assert_eq!(wrong.header("location"), right);
    for path in ["/openapi/v3/apis/none/v1", "/openapi/v3/x?hash=1"] {
        let missing = client.get(path).await?;
        assert_eq!((missing.status, missing.body.len()), (404, 0), "{path}");
    }
    let headers = [("if-none-match", &*format!("\"{hash}\""))];
    let same = client.send(Method::GET, path, &headers, "").await?;
    assert_eq!((same.status, same.body.len()), (304, 0));
    Ok(())
}

/// Some clients request these URLs in place of the whole path of their server's URL, others append
/// them to it if they do not begin with it.
#[tokio::test]
async fn index_below_a_server_prefix_has_urls_with_the_prefix() -> anyhow::Result<()> {
    let server = TestServer::start_with(Setup::with_controllers()).await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let definition = definition("ex.io", "foos", "Foo", json!({"type": "object"}));
    tenant.define(&definition).await?;
    let plain = index(&tenant).await?;
    for (client, prefix) in [(&tenant, "/tenants/t1"), (&system, "/tenants/t1")] {
        let answer = client.get(&format!("{prefix}/openapi/v3")).await?;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let below = answer.json();
        for path in ["api/v1", "apis/apps/v1", "apis/ex.io/v1"] {
            let expected = format!("{prefix}{}", url(&plain, path));
            assert_eq!(url(&below, path), expected);
            let part = client.get(&expected).await?;
            assert_eq!(part.status, 200, "{expected}");
            assert_eq!(
                part.body,
                tenant.get(url(&plain, path)).await?.body,
                "{path}"
            );
        }
        let all = below["paths"].as_object().map_or(0, |paths| paths.len());
        assert_eq!(
            Some(all),
            plain["paths"].as_object().map(|paths| paths.len())
        );
        let stale = format!("{prefix}/openapi/v3/apis/apps/v1?hash=0000");
        let moved = client.get(&stale).await?;
        assert_eq!(
            (moved.status, moved.header("location")),
            (301, url(&below, "apis/apps/v1"))
        );
        let headers = [("accept-encoding", "gzip")];
        let path = format!("{prefix}/openapi/v3");
        let zipped = client.send(Method::GET, &path, &headers, "").await?;
        assert_eq!(zipped.header("content-encoding"), "gzip");
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(&*zipped.body).read_to_end(&mut text)?;
        assert_eq!(text, answer.body);
        let etag = answer.header("etag").to_owned();
        let headers = [("if-none-match", &*etag)];
        let same = client.send(Method::GET, &path, &headers, "").await?;
        assert_eq!((same.status, same.body.len()), (304, 0));
    }
    Ok(())
}

#[tokio::test]
async fn every_indexed_document_is_served() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.system().await?;
    let index = index(&client).await?;
    let paths = index["paths"].as_object().cloned().unwrap_or_default();
    assert!(paths.len() > 20, "{}", paths.len());
    for path in paths.keys() {
        let part = client.get(url(&index, path)).await?;
        assert_eq!(part.status, 200, "{path}");
        assert_eq!(part.json()["openapi"], "3.0.0", "{path}");
    }
    assert!(paths.contains_key("api/v1") && paths.contains_key("apis/batch/v1"));
    Ok(())
}

#[tokio::test]
async fn system_only_kinds_are_absent_from_tenant_schemas() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (tenant, system) = (server.tenant("t1").await?, server.system().await?);
    for (client, there) in [(&tenant, false), (&system, true)] {
        let index = index(client).await?;
        assert!(!url(&index, "apis/flowcontrol.apiserver.k8s.io/v1").is_empty());
        let core = client.get(url(&index, "api/v1")).await?.json();
        let whole = client.get("/openapi/v2").await?.json();
        for paths in [&core["paths"], &whole["paths"]] {
            assert_eq!(paths.get("/api/v1/tenants").is_some(), there);
            assert!(paths.get("/api/v1/nodes").is_some());
        }
    }
    Ok(())
}

#[tokio::test]
async fn openapi_v2_is_served_as_json_or_protobuf() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.system().await?;
    for accept in [
        "",
        "*/*",
        "application/json",
        "application/*",
        "text/html, */*;q=0.1",
    ] {
        let answer = client.accept("/openapi/v2", accept).await?;
        assert_eq!(answer.status, 200, "{accept}");
        assert_eq!(
            answer.header("content-type"),
            "application/json",
            "{accept}"
        );
        assert_eq!(answer.header("cache-control"), "no-cache, private");
        assert_eq!(answer.json()["swagger"], "2.0", "{accept}");
    }
    let wanted = openapi::v2_protobuf(&|_| true);
    let at = PROTOBUF.replace("v2.v1.0", "v2@v1.0");
    for accept in [PROTOBUF, &at, &format!("{at}, application/json")] {
        let answer = client.accept("/openapi/v2", accept).await?;
        assert_eq!(answer.status, 200, "{accept}");
        assert_eq!(answer.header("content-type"), PROTOBUF, "{accept}");
        assert_eq!(answer.body, wanted, "{accept}");
        assert_eq!(answer.header("etag").len(), 130);
    }
    for accept in ["application/yaml", "text/html"] {
        let refused = client.accept("/openapi/v2", accept).await?;
        assert_eq!((refused.status, refused.body.len()), (406, 0), "{accept}");
    }
    Ok(())
}

#[tokio::test]
async fn documents_are_compressed_and_have_etags() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    for path in ["/openapi/v2", "/openapi/v3/api/v1"] {
        let plain = client.get(path).await?;
        let headers = [("accept-encoding", "gzip")];
        let small = client.send(Method::GET, path, &headers, "").await?;
        assert_eq!(small.header("content-encoding"), "gzip");
        assert_eq!(small.header("etag"), plain.header("etag"));
        let mut body = Vec::new();
        flate2::read::GzDecoder::new(&small.body[..]).read_to_end(&mut body)?;
        assert_eq!(body, plain.body, "{path}");
        let headers = [("if-none-match", plain.header("etag"))];
        let same = client.send(Method::GET, path, &headers, "").await?;
        assert_eq!((same.status, same.body.len()), (304, 0), "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn documents_can_be_built_concurrently() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    server.tenant("t1").await?;
    let mut readers = tokio::task::JoinSet::new();
    for reader in 0..8 {
        let client = server.client(["t1", "system"][reader % 2]).await?;
        readers.spawn(async move {
            let index = index(&client).await?;
            let part = client.get(url(&index, "api/v1")).await?;
            anyhow::ensure!(part.status == 200);
            Ok(part.body.len())
        });
    }
    let mut sizes = std::collections::BTreeSet::new();
    while let Some(read) = readers.join_next().await {
        sizes.insert(read??);
    }
    assert_eq!(sizes.len(), 2, "{sizes:?}");
    Ok(())
}

const DESCRIPTIONS: &str = r#"{
    "io.k8s.api.core.v1.ConfigMap": {
        "description": "Holds small settings.",
        "properties": {"data": "The settings themselves."}
    }
}"#;

#[tokio::test]
async fn supplied_descriptions_are_in_every_document() -> anyhow::Result<()> {
    let setup = Setup {
        descriptions: Some(DESCRIPTIONS.to_owned()),
        ..Setup::default()
    };
    let server = TestServer::start_with(setup).await?;
    let client = server.tenant("t1").await?;
    let index = index(&client).await?;
    // The hash of the index is that of the document with descriptions.
    let part = client.get(url(&index, "api/v1")).await?;
    assert_eq!(part.status, 200);
    let version_2 = client.get("/openapi/v2").await?.json();
    for schemas in [
        &part.json()["components"]["schemas"],
        &version_2["definitions"],
    ] {
        let config_map = &schemas["io.k8s.api.core.v1.ConfigMap"];
        assert_eq!(config_map["description"], "Holds small settings.");
        let data = &config_map["properties"]["data"];
        assert_eq!(data["description"], "The settings themselves.");
        assert_eq!(data["type"], "object");
    }
    for (path, accept) in [
        ("/openapi/v2", PROTOBUF),
        (
            "/openapi/v3/api/v1",
            &PROTOBUF.replace("v2.v1.0", "v3.v1.0"),
        ),
    ] {
        let sealed = client.accept(path, accept).await?;
        assert_eq!(sealed.status, 200, "{path}");
        let described = b"The settings themselves.";
        let found = sealed.body.windows(described.len());
        assert!(found.into_iter().any(|part| part == described), "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn documents_have_no_other_descriptions_than_those_supplied() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let part = client.get("/openapi/v3/api/v1").await?.json();
    let config_map = &part["components"]["schemas"]["io.k8s.api.core.v1.ConfigMap"];
    assert_eq!(
        config_map["description"],
        "ConfigMap of the core group, version v1."
    );
    assert!(config_map["properties"]["data"]["description"].is_null());
    Ok(())
}
