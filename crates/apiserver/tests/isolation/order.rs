//! The order of the request stages: authentication, then the space, then authorization, and only
//! then the body.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use insula_apiserver::pipeline::route::Document;
use insula_testkit::server::TestServer;

use super::routes::{DocumentPath, NamespacedName, Operation};

const OBJECT: NamespacedName<'static> = NamespacedName {
    namespace: "default",
    name: "default",
};

/// Concurrent requests; fewer than the stream limit of a connection.
const CONCURRENCY: usize = 64;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i29_every_route_authenticates_first() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    server.tenant("t1").await?;
    let before = server.registry().store().revision().await?;
    for token in ["", "nonsense"] {
        let anonymous = server.client(token).await?;
        for operation in Operation::all() {
            let named = operation.all_spellings("t1", OBJECT);
            for path in operation.relative_paths(OBJECT).into_iter().chain(named) {
                let refused = operation.send(&anonymous, &path).await?;
                let found = (refused.status, refused.message());
                assert_eq!(found, (401, "Unauthorized".to_owned()), "{path}");
            }
        }
    }
    let after = server.registry().store().revision().await?;
    assert_eq!(before, after, "nothing was written");
    Ok(())
}

#[tokio::test]
async fn i30_anonymous_callers_read_public_documents_only() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    server.tenant("t1").await?;
    let anonymous = server.client("").await?;
    let mut open = Vec::new();
    for page in DocumentPath::all() {
        for prefix in ["", "/tenants/t1", "/tenants/ghost", "/tenants/system"] {
            let answer = anonymous.get(&format!("{prefix}{}", page.path)).await?;
            let in_system = matches!(prefix, "" | "/tenants/system");
            let expected = match &page.document {
                Document::Issuer if in_system => 200,
                document if !document.is_open() => 401,
                // No tenant has the UID of the path.
                Document::TenantIssuer { .. } | Document::TenantKeys { .. } => 404,
                _ => 200,
            };
            assert_eq!(answer.status, expected, "{prefix}{}", page.path);
        }
        if page.document.is_open() {
            open.push(page.pattern);
        }
    }
    let documents = [
        "/version",
        "/healthz",
        "/livez",
        "/readyz",
        "/openid/v1/jwks",
        "/issuers/{uid}/.well-known/openid-configuration",
        "/issuers/{uid}/openid/v1/jwks",
    ];
    assert_eq!(open, documents);
    for path in ["/debug/pprof", "/logs", "/nothing", "/api/v2", "/tenants"] {
        assert_eq!(anonymous.get(path).await?.status, 401, "{path}");
    }
    Ok(())
}

/// The body never arrives: a server that read it before refusing would wait for a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i29_refusals_do_not_wait_for_the_body() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    server.tenant("t1").await?;
    let (anonymous, other) = (server.client("").await?, server.tenant("t2").await?);
    for (client, expected) in [(&anonymous, 401), (&other, 403)] {
        let writes = Operation::all().into_iter().filter(Operation::writes);
        let sent = stream::iter(writes).map(|operation| async move {
            let path = operation.full_paths("t1", OBJECT).swap_remove(0);
            let headers = [("content-type", "application/json")];
            let refused = client
                .send_endless(operation.method(), &path, &headers)
                .await?;
            assert_eq!(refused.status, expected, "{path}: {}", refused.text());
            anyhow::Ok(())
        });
        let sent: Vec<()> = sent.buffer_unordered(CONCURRENCY).try_collect().await?;
        assert!(sent.len() > 300, "{}", sent.len());
    }
    Ok(())
}
