//! Clients of API servers.

use std::time::Duration;

use futures_util::StreamExt;
use insula_dialer::AddressRules;
use insula_identity::endpoint::AllowedEndpoints;
use insula_identity::reason::Reason;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, WatchParams};
use kube::{Api, Client, Config};

use super::server::{Reply, Server, response};
use crate::outbound::{HttpClients, kubernetes_login_error};

const TIMEOUT: Duration = Duration::from_secs(5);

fn config(server: &Server) -> Config {
    let url = format!("https://{}", server.endpoint);
    let mut config = Config::new(url.parse().unwrap());
    config.root_cert = Some(vec![server.certificate.clone()]);
    config.auth_info.token = Some("s3cret".to_owned().into());
    config.auth_info.impersonate = Some("robot".to_owned());
    config
}

/// Returns a client that may connect to this machine.
fn client(config: &Config, limit: Duration) -> Client {
    let clients = HttpClients::new(Vec::new())
        .restricted(AddressRules::default(), AllowedEndpoints::Anywhere);
    clients.kubernetes(config, limit).unwrap()
}

/// Returns the reason and the message of a failed list.
async fn failure(client: Client, server: &Server) -> (Reason, String) {
    let maps: Api<ConfigMap> = Api::namespaced(client, "n");
    let error = maps.list(&ListParams::default()).await.unwrap_err();
    let error = kubernetes_login_error(&error, &server.endpoint);
    (error.reason, error.message)
}

#[tokio::test]
async fn client_sends_the_account_and_reads_lists_and_watches() {
    let server = Server::start(|count| {
        let list = r#"{"kind":"List","apiVersion":"v1","metadata":{},"items":[]}"#;
        let event = r#"{"type":"ADDED","object":{"metadata":{"name":"m"}}}"#;
        let body = [list, event][count.min(1)];
        Reply::Send(response(
            "200 OK",
            "content-type: application/json\r\n",
            body,
        ))
    })
    .await;
    let maps: Api<ConfigMap> = Api::namespaced(client(&config(&server), TIMEOUT), "n");
    assert!(
        maps.list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    let events = maps.watch(&WatchParams::default(), "1").await.unwrap();
    let events: Vec<_> = events.map(Result::unwrap).collect().await;
    assert_eq!(events.len(), 1);
    let requests = server.requests();
    assert!(
        requests[0].starts_with("GET /api/v1/namespaces/n/configmaps?"),
        "{}",
        requests[0]
    );
    for header in ["authorization: Bearer s3cret", "impersonate-user: robot"] {
        assert!(requests[0].contains(header), "{}", requests[0]);
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn o03_address_that_is_not_allowed_is_not_connected_to() {
    let server = Server::replying("200 OK", "", "{}").await;
    let clients =
        HttpClients::new(Vec::new()).restricted(AddressRules::default(), AllowedEndpoints::Nowhere);
    let client = clients.kubernetes(&config(&server), TIMEOUT).unwrap();
    let (reason, message) = failure(client, &server).await;
    assert_eq!(reason, Reason::Unreachable);
    assert!(
        message.ends_with("cannot connect (address is not allowed)"),
        "{message}"
    );
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn failures_are_told_apart_and_repeat_nothing_of_the_answer() {
    let body = r#"{"kind":"Status","status":"Failure","code":401,"message":"s3cret"}"#;
    for (status, reason, end) in [
        (
            "401 Unauthorized",
            Reason::InvalidCredentials,
            "does not accept the credential",
        ),
        (
            "403 Forbidden",
            Reason::Forbidden,
            "does not permit the request",
        ),
        ("404 Not Found", Reason::NotServed, "does not serve the API"),
        (
            "500 Internal Server Error",
            Reason::Unreachable,
            "it answers HTTP 500",
        ),
    ] {
        let body = body.replace("401", &status[..3]);
        let server = Server::replying(status, "", &body).await;
        let found = failure(client(&config(&server), TIMEOUT), &server).await;
        assert_eq!(found.0, reason, "{}", found.1);
        assert!(found.1.ends_with(end), "{}", found.1);
        assert!(!found.1.contains("s3cret"), "{}", found.1);
    }
    let server = Server::replying("200 OK", "", "{}").await;
    let mut other = config(&server);
    other.root_cert = Some(vec![
        Server::replying("200 OK", "", "").await.certificate.clone(),
    ]);
    let found = failure(client(&other, TIMEOUT), &server).await;
    assert_eq!(found.0, Reason::CertificateNotTrusted, "{}", found.1);
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn response_that_is_too_large_or_late_is_not_read() {
    let whole = response("200 OK", "", &"x".repeat((8 << 20) + 1));
    let server = Server::start(move |_| Reply::Send(whole.clone())).await;
    let found = failure(client(&config(&server), TIMEOUT), &server).await;
    assert!(
        found.1.ends_with("the response has more than 8 MiB"),
        "{}",
        found.1
    );

    // A watch may send more, but no event may be as large.
    let event = format!(
        "{}\n",
        r#"{"type":"ADDED","object":{"metadata":{"name":"m"}}}"#
    );
    let many = event.repeat((9 << 20) / event.len());
    for (body, expected) in [(many, None), ("x".repeat((8 << 20) + 1), Some(()))] {
        let reply = response("200 OK", "", &body);
        let server = Server::start(move |_| Reply::Send(reply.clone())).await;
        let maps: Api<ConfigMap> = Api::namespaced(client(&config(&server), TIMEOUT), "n");
        let events = maps.watch(&WatchParams::default(), "1").await.unwrap();
        let failed = events.filter_map(async |event| event.err().map(drop));
        assert_eq!(std::pin::pin!(failed).next().await, expected);
    }

    let server = Server::start(|_| Reply::Send(Vec::new())).await;
    let short = Duration::from_millis(200);
    let found = failure(client(&config(&server), short), &server).await;
    assert!(found.1.ends_with("no answer within 0.2s"), "{}", found.1);
}

#[tokio::test]
async fn response_that_does_not_end_is_given_up() {
    let part = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{";
    let server = Server::start(|_| Reply::Send(part.into())).await;
    let short = Duration::from_millis(200);
    let failed = failure(client(&config(&server), short), &server);
    let found = tokio::time::timeout(TIMEOUT, failed).await.unwrap();
    assert!(found.1.ends_with("no answer within 0.2s"), "{}", found.1);
}

#[tokio::test]
async fn response_that_needs_much_memory_is_not_parsed() {
    let item = r#"{"metadata":{}},"#;
    let items = item.repeat((3 << 20) / item.len());
    let list = format!(r#"{{"metadata":{{}},"items":[{items}{{"metadata":{{}}}}]}}"#);
    let server = Server::replying("200 OK", "", &list).await;
    let found = failure(client(&config(&server), TIMEOUT), &server).await;
    assert!(
        found.1.ends_with("the response has too many values"),
        "{}",
        found.1
    );
}

#[tokio::test]
async fn error_of_a_watch_is_bounded_as_a_whole() {
    let lines = "an error without end\n".repeat((9 << 20) / 21);
    let server = Server::replying("500 Internal Server Error", "", &lines).await;
    let maps: Api<ConfigMap> = Api::namespaced(client(&config(&server), TIMEOUT), "n");
    let Err(error) = maps.watch(&WatchParams::default(), "1").await else {
        panic!("a watch");
    };
    let error = kubernetes_login_error(&error, &server.endpoint);
    assert!(
        error.message.ends_with("the response has more than 8 MiB"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn certificate_for_other_names_is_described_without_them() {
    let server = Server::replying("200 OK", "", "{}").await;
    let mut other = config(&server);
    other.tls_server_name = Some("hosts.example".to_owned());
    let found = failure(client(&other, TIMEOUT), &server).await;
    let message = format!(
        "the certificate of {} is not trusted: it is for another name",
        server.endpoint
    );
    assert_eq!(found, (Reason::CertificateNotTrusted, message));
}

#[tokio::test]
async fn server_with_an_unexpected_status_counts_as_reachable() {
    for status in ["400 Bad Request", "429 Too Many Requests", "503 Overloaded"] {
        let server = Server::replying(status, "", "{}").await;
        let maps: Api<ConfigMap> = Api::namespaced(client(&config(&server), TIMEOUT), "n");
        let error = maps.list(&ListParams::default()).await.unwrap_err();
        let error = kubernetes_login_error(&error, &server.endpoint);
        assert!(error.answered, "{}", error.message);
    }
}
