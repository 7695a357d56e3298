//! The order of the request stages: authentication, then the space, then authorization, and only
//! then the body.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use insula_testkit::server::TestServer;

use super::routes::{Ask, Page, Place};

const PLACE: Place<'static> = Place {
    namespace: "default",
    name: "default",
};

/// Concurrent requests; fewer than the stream limit of a connection.
const AT_ONCE: usize = 64;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i29_no_route_answers_before_it_knows_who_asks() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    server.tenant("t1").await?;
    let before = server.registry().store().revision().await?;
    for token in ["", "nonsense"] {
        let nobody = server.client(token).await?;
        for ask in Ask::every() {
            let named = ask.spellings("t1", PLACE);
            for path in ask.short(PLACE).into_iter().chain(named) {
                let refused = ask.send(&nobody, &path).await?;
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
async fn i30_nobody_reads_a_document_that_is_not_open() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    server.tenant("t1").await?;
    let nobody = server.client("").await?;
    let mut open = Vec::new();
    for page in Page::every() {
        for prefix in ["", "/tenants/t1", "/tenants/ghost", "/tenants/system"] {
            let answer = nobody.get(&format!("{prefix}{}", page.path)).await?;
            let expected = if page.document.is_open() { 200 } else { 401 };
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
        "/.well-known/openid-configuration",
        "/openid/v1/jwks",
    ];
    assert_eq!(open, documents);
    for path in ["/debug/pprof", "/logs", "/nothing", "/api/v2", "/tenants"] {
        assert_eq!(nobody.get(path).await?.status, 401, "{path}");
    }
    Ok(())
}

/// The body never arrives: a server that read it before refusing would wait for a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i29_a_refusal_does_not_wait_for_the_body() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    server.tenant("t1").await?;
    let (nobody, other) = (server.client("").await?, server.tenant("t2").await?);
    for (client, expected) in [(&nobody, 401), (&other, 403)] {
        let writes = Ask::every().into_iter().filter(Ask::writes);
        let sent = stream::iter(writes).map(|ask| async move {
            let path = ask.full("t1", PLACE).swap_remove(0);
            let headers = [("content-type", "application/json")];
            let refused = client.send_endless(ask.method(), &path, &headers).await?;
            assert_eq!(refused.status, expected, "{path}: {}", refused.text());
            anyhow::Ok(())
        });
        let sent: Vec<()> = sent.buffer_unordered(AT_ONCE).try_collect().await?;
        assert!(sent.len() > 300, "{}", sent.len());
    }
    Ok(())
}
