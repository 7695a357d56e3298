//! Limits of requests, and failures of all kinds.

use std::net::Ipv4Addr;
use std::time::Duration;

use http::Request;
use http::header::{ACCEPT, AUTHORIZATION, HOST};
use insula_dialer::AddressRules;
use insula_identity::endpoint::{AllowedEndpoints, Endpoint, Trust};
use insula_identity::reason::Reason;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::server::{Reply, Server, response};
use crate::outbound::{
    HttpClient, HttpClients, HttpResponse, RequestError, RequestOptions, authority,
};

/// The timeout where a response is expected.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The timeout where none is.
const SHORT_TIMEOUT: Duration = Duration::from_millis(200);

fn client(server: &Server) -> HttpClient {
    let clients = HttpClients::new(Vec::new());
    clients
        .client(&server.endpoint, &Trust::AnyCertificate)
        .unwrap()
}

async fn get(client: &HttpClient, options: RequestOptions) -> Result<HttpResponse, RequestError> {
    let request = Request::get("/v1/zones?all").body("").unwrap();
    client.send(request, options).await
}

fn invalid(why: &str) -> RequestError {
    RequestError::InvalidResponse(why.to_owned())
}

fn unreachable(why: &str) -> RequestError {
    RequestError::Unreachable(why.to_owned())
}

#[tokio::test]
async fn requests_go_to_the_endpoint_and_share_a_connection() {
    let server = Server::replying("201 Created", "etag: \"1\"\r\n", "{\"name\": \"a\"}").await;
    let client = client(&server);
    // Neither the host of the URI nor the header decides where the request goes.
    let request = Request::post("https://other.example/v1/zones?dry")
        .header(HOST, "other.example")
        .header(ACCEPT, "application/json")
        .body("{}")
        .unwrap();
    let options = RequestOptions::new(TIMEOUT);
    let response = client.send(request, options).await.unwrap();
    assert_eq!(response.status, 201);
    assert_eq!(response.headers["etag"], "\"1\"");
    let parsed: Value = response.success().unwrap().json().unwrap();
    assert_eq!(parsed, json!({"name": "a"}));
    get(&client, options).await.unwrap();
    let place = authority(&server.endpoint);
    let first = format!(
        "POST /v1/zones?dry HTTP/1.1\r\nhost: {place}\r\naccept: application/json\r\n\
         content-length: 2\r\n\r\n{{}}"
    );
    let second = format!("GET /v1/zones?all HTTP/1.1\r\nhost: {place}\r\n\r\n");
    assert_eq!(server.requests(), [first, second]);
    assert_eq!(server.connections(), 1);
}

#[test]
fn client_is_not_made_for_authorities_that_only_the_credential_has() {
    let endpoint = Endpoint::parse("a.example", 443).unwrap();
    let trust = Trust::AsCredential("digest".to_owned());
    let client = HttpClients::new(Vec::new()).client(&endpoint, &trust);
    let expected = "unexpected error: the authorities of the credential are not known";
    assert_eq!(
        client.err(),
        Some(RequestError::Unreachable(expected.to_owned()))
    );
}

#[tokio::test]
async fn untrusted_certificate_is_told_from_an_unreachable_server() {
    let server = Server::replying("200 OK", "", "").await;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let closed = listener.local_addr().unwrap().to_string();
    drop(listener);
    let closed = Endpoint::parse(&closed, 443).unwrap();
    let options = RequestOptions::new(TIMEOUT);
    let clients = HttpClients::new(Vec::new());
    let send = async |clients: &HttpClients, endpoint: &Endpoint, trust: &Trust| {
        get(&clients.client(endpoint, trust).unwrap(), options).await
    };
    let untrusted = send(&clients, &server.endpoint, &Trust::Verified).await;
    let untrusted = untrusted.unwrap_err();
    assert!(
        matches!(untrusted, RequestError::UntrustedCertificate(_)),
        "{untrusted}"
    );
    assert_eq!((server.connections(), server.requests().len()), (1, 0));
    let login_error = untrusted.into_login_error(&server.endpoint);
    assert_eq!(login_error.reason, Reason::CertificateNotTrusted);
    // The message has the fingerprint that a user needs to pin the certificate.
    let fingerprint = login_error.message.split(" (SHA-256)").next().unwrap();
    let fingerprint = fingerprint.rsplit(' ').next().unwrap();
    let pinned = Trust::pinned(fingerprint).unwrap();
    let with_root = HttpClients::new(vec![server.certificate.clone()]);
    for (clients, trust) in [
        (&clients, pinned),
        (&clients, Trust::AnyCertificate),
        (&with_root, Trust::Verified),
    ] {
        let response = send(clients, &server.endpoint, &trust).await.unwrap();
        assert_eq!(response.status, 200);
    }
    let refused = send(&clients, &closed, &Trust::AnyCertificate).await;
    let refused = refused.unwrap_err();
    assert!(refused.to_string().starts_with("cannot connect ("));
    let login_error = refused.into_login_error(&closed);
    assert_eq!(login_error.reason, Reason::Unreachable);
}

#[tokio::test]
async fn servers_of_tenants_have_only_allowed_addresses() {
    let server = Server::replying("200 OK", "", "").await;
    let clients = |trusted| {
        let clients = HttpClients::new(Vec::new());
        clients.restricted(AddressRules::default(), trusted)
    };
    let port = server.endpoint.port();
    let options = RequestOptions::new(TIMEOUT);
    for (host, why) in [
        ("127.0.0.1", "address is not allowed"),
        ("localhost", "no such host, or its address is not allowed"),
    ] {
        let endpoint = Endpoint::parse(host, port).unwrap();
        let client = clients(AllowedEndpoints::Nowhere).client(&endpoint, &Trust::AnyCertificate);
        let refused = get(&client.unwrap(), options).await.unwrap_err();
        assert_eq!(refused, RequestError::AddressNotAllowed(why.to_owned()));
    }
    assert_eq!(server.connections(), 0);
    let trusted = AllowedEndpoints::Only(vec![(server.endpoint.clone(), None)]);
    let client = clients(trusted).client(&server.endpoint, &Trust::AnyCertificate);
    assert_eq!(get(&client.unwrap(), options).await.unwrap().status, 200);
}

#[tokio::test]
async fn oversized_response_is_refused() {
    let options = |max_response_kib| RequestOptions {
        max_response_kib,
        ..RequestOptions::new(TIMEOUT)
    };
    for (kib, max_kib, is_accepted) in [
        (1, 1, true),
        (2, 1, false),
        (256, 256, true),
        (300, 256, false),
        (300, 300, true),
        (301, 300, false),
    ] {
        let server = Server::replying("200 OK", "", &" ".repeat(kib << 10)).await;
        let response = get(&client(&server), options(max_kib)).await;
        let expected = match is_accepted {
            true => Ok(kib << 10),
            false => Err(invalid(&format!("it is larger than {max_kib} KiB"))),
        };
        assert_eq!(response.map(|response| response.body.len()), expected);
    }
}

#[tokio::test]
async fn large_responses_are_held_a_few_at_a_time() {
    let server = Server::replying("200 OK", "", &" ".repeat(300 << 10)).await;
    let client = client(&server);
    let options = |timeout| RequestOptions {
        max_response_kib: 512,
        ..RequestOptions::new(timeout)
    };
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(get(&client, options(TIMEOUT)).await.unwrap());
    }
    let refused = get(&client, options(SHORT_TIMEOUT)).await.unwrap_err();
    assert_eq!(refused, unreachable("no answer within 0.2 s"));
    held.pop();
    get(&client, options(TIMEOUT)).await.unwrap();
}

#[tokio::test]
async fn slow_response_times_out() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n";
    for part in ["", "HTTP/1.1", head, &format!("{head}12345")] {
        let bytes = part.as_bytes().to_vec();
        let server = Server::start(move |_| Reply::Send(bytes.clone())).await;
        let options = RequestOptions::new(SHORT_TIMEOUT);
        let refused = get(&client(&server), options).await.unwrap_err();
        assert_eq!(refused, unreachable("no answer within 0.2 s"), "{part:?}");
    }
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let other = Server::replying("200 OK", "", "").await;
    let location = format!("location: https://{}/\r\n", other.endpoint);
    let server = Server::replying("307 Temporary Redirect", &location, "").await;
    let response = get(&client(&server), RequestOptions::new(TIMEOUT)).await;
    let response = response.unwrap();
    assert_eq!(response.status, 307);
    let refused = response.success().unwrap_err();
    assert_eq!(refused.to_string(), "it answers HTTP 307");
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn invalid_response_is_reported_without_its_content() {
    let truncated = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\ns3cret\r\n";
    for (bytes, expected) in [
        (b"SSH-2.0-s3cret\r\n\r\n".to_vec(), "it is no HTTP"),
        (truncated.as_bytes().to_vec(), "the answer ends early"),
        (response("200 OK", "", "[\"s3cret\"]"), "(at 1:9)"),
    ] {
        let server = Server::start(move |_| Reply::Send(bytes.clone())).await;
        let response = get(&client(&server), RequestOptions::new(TIMEOUT)).await;
        assert!(!format!("{response:?}").contains("s3cret"));
        let refused = response.and_then(|response| response.json::<Vec<u32>>());
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
        assert!(!refused.contains("s3cret"), "{refused}");
    }
}

#[tokio::test]
async fn status_of_a_login_decides_its_reason() {
    for (status, reason, answered) in [
        ("401 Unauthorized", Reason::InvalidCredentials, true),
        ("403 Forbidden", Reason::Forbidden, true),
        ("404 Not Found", Reason::Unreachable, false),
        ("503 Service Unavailable", Reason::Unreachable, false),
    ] {
        let server = Server::replying(status, "", "").await;
        let response = get(&client(&server), RequestOptions::new(TIMEOUT)).await;
        let error = response.unwrap().success().unwrap_err();
        let error = error.into_login_error(&server.endpoint);
        assert_eq!((error.reason, error.answered), (reason, answered));
        assert!(error.message.contains(&authority(&server.endpoint)));
    }
}

#[tokio::test]
async fn closed_connection_is_replaced_for_idempotent_requests_only() {
    // Every second request finds its connection closed.
    let server = Server::start(|count| match count % 2 {
        0 => Reply::Send(response("200 OK", "", "")),
        _ => Reply::HangUp,
    })
    .await;
    let client = client(&server);
    let send = async |method: &str, is_idempotent| {
        let request = Request::builder().method(method).uri("/").body("");
        let options = RequestOptions {
            is_idempotent,
            ..RequestOptions::new(TIMEOUT)
        };
        client.send(request.unwrap(), options).await.map(|_| ())
    };
    // The replaced request is the first one on the new connection, and the third one at all.
    send("GET", false).await.unwrap();
    send("GET", false).await.unwrap();
    send("POST", true).await.unwrap();
    assert_eq!((server.requests().len(), server.connections()), (5, 3));
    let lost = send("POST", false).await.unwrap_err();
    assert!(lost.to_string().starts_with("the connection broke"));
    assert_eq!((server.requests().len(), server.connections()), (6, 3));
}

#[test]
fn credential_that_cannot_be_sent_is_invalid() {
    let request = Request::get("/").header(AUTHORIZATION, "Bearer a\nb");
    let error = RequestError::from(request.body("").unwrap_err());
    assert_eq!(error, RequestError::InvalidRequest);
    let endpoint = Endpoint::parse("server.example", 443).unwrap();
    let error = error.into_login_error(&endpoint);
    assert_eq!(error.reason, Reason::InvalidCredentials);
}

#[test]
fn default_port_is_left_out_of_the_authority() {
    for (text, expected) in [
        ("vc.example", "vc.example"),
        ("vc.example:8443", "vc.example:8443"),
        ("[fd00::1]:443", "[fd00::1]"),
        ("[fd00::1]:1443", "[fd00::1]:1443"),
        ("[fd00::443]:80", "[fd00::443]:80"),
    ] {
        let endpoint = Endpoint::parse(text, 443).unwrap();
        assert_eq!(authority(&endpoint), expected);
    }
}

#[tokio::test]
async fn cleartext_client_uses_no_tls_and_any_address() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = vec![0; 1024];
        let length = stream.read(&mut buffer).await.unwrap();
        let reply = response("200 OK", "", "plain");
        stream.write_all(&reply).await.unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    });
    // The rules are for servers that tenants choose.
    let clients = HttpClients::new(Vec::new());
    let clients = clients.restricted(AddressRules::default(), AllowedEndpoints::Nowhere);
    let client = clients.cleartext_client(&Endpoint::parse(&address, 80).unwrap());
    let response = get(&client, RequestOptions::new(TIMEOUT)).await.unwrap();
    assert_eq!(response.text(), Ok("plain"));
    let expected = format!("GET /v1/zones?all HTTP/1.1\r\nhost: {address}\r\n\r\n");
    assert_eq!(served.await.unwrap(), expected);
}
