//! Webhook calls: what is sent, which responses are accepted, and which destinations are refused.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use insula_admission::webhook::{Client, Endpoint};
use insula_apiserver::egress::{
    Backend, Call, CallError, Egress, InProcessServices, MAX_RESPONSE_BYTES, Services, Settings,
};
use insula_core::Space;
use insula_testkit::webhook::{FakeWebhook, Reply};
use serde_json::json;
use tokio::net::TcpListener;

/// A space with a single service.
struct SingleService(Backend);

impl Services for SingleService {
    fn resolve(&self, _: &Space, _: &str, name: &str, _: u16) -> Result<Backend, String> {
        match name {
            "svc" => Ok(self.0.clone()),
            _ => Err(format!("service \"{name}\" not found")),
        }
    }
}

fn services(client_for: SocketAddr) -> SingleService {
    SingleService(Backend::Host(
        client_for.ip().to_string(),
        client_for.port(),
    ))
}

const SERVER_ADDRESS: &str = "127.0.0.1:1";

fn egress(allow: &[&str]) -> Egress {
    let settings = Settings {
        allow: allow.iter().map(|block| block.parse().unwrap()).collect(),
        ..Settings::default()
    };
    Egress::new(settings, SERVER_ADDRESS.parse().unwrap())
}

fn tenant(name: &str) -> Space {
    Space::parse(name).unwrap()
}

fn client_for(url: &str, ca: Option<&str>) -> Client {
    Client {
        endpoint: Endpoint::Url(url.to_owned()),
        ca_bundle: ca.map(str::to_owned),
    }
}

fn service(name: &str, ca: &str) -> Client {
    Client {
        endpoint: Endpoint::Service {
            namespace: "ns".to_owned(),
            name: name.to_owned(),
            path: "/p".to_owned(),
            port: 443,
        },
        ca_bundle: Some(ca.to_owned()),
    }
}

fn call<'a>(space: &'a Space, client: &'a Client) -> Call<'a> {
    Call {
        space,
        object_space: None,
        client,
        body: Bytes::from_static(b"{\"a\":1}"),
        timeout: Duration::from_secs(10),
        max_bytes: MAX_RESPONSE_BYTES,
    }
}

async fn post(egress: &Egress, space: &Space, client: &Client) -> Result<Bytes, CallError> {
    let services = services(SERVER_ADDRESS.parse().unwrap());
    egress.post(&services, call(space, client)).await
}

#[tokio::test]
async fn webhooks_receive_json_without_credentials() {
    let webhook = FakeWebhook::start(Reply::Json(json!({"b": 2})))
        .await
        .unwrap();
    let client = client_for(&webhook.url("/x"), Some(webhook.ca_pem()));
    let answer = post(&egress(&["127.0.0.1"]), &tenant("t1"), &client).await;
    assert_eq!(answer.unwrap(), r#"{"b":2}"#);
    let heard = webhook.requests().remove(0);
    assert_eq!(heard.path, "/x?timeout=10s");
    assert_eq!(heard.body, json!({"a": 1}));
    let mut headers: Vec<_> = heard.headers.iter().collect();
    headers.sort_by_key(|(name, _)| name.as_str());
    let host = webhook.address().to_string();
    let expected = [
        ("accept", "application/json, */*"),
        ("content-length", "7"),
        ("content-type", "application/json"),
        ("host", host.as_str()),
        ("user-agent", "kube-apiserver-admission"),
    ];
    let headers: Vec<_> = headers
        .into_iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect();
    assert_eq!(headers, expected);
}

#[tokio::test]
async fn services_are_verified_by_their_dns_name() {
    let webhook = FakeWebhook::named(&["svc.ns.svc"], Reply::Json(json!({}))).await;
    let webhook = webhook.unwrap();
    let (egress, space) = (egress(&["127.0.0.1"]), tenant("t1"));
    let services = services(webhook.address());
    let client = service("svc", webhook.ca_pem());
    let answer = egress.post(&services, call(&space, &client)).await;
    assert_eq!(answer.unwrap(), "{}");
    let heard = webhook.requests().remove(0);
    assert_eq!(heard.headers["host"], "svc.ns.svc:443");
    let client = service("nosvc", webhook.ca_pem());
    let answer = egress.post(&services, call(&space, &client)).await;
    let why = "failed to call webhook: Post \"https://nosvc.ns.svc:443/p?timeout=10s\": service \"nosvc\" not found";
    assert_eq!(answer.unwrap_err().to_string(), why);
    let impostor = FakeWebhook::start(Reply::Json(json!({}))).await.unwrap();
    let client = service("svc", impostor.ca_pem());
    let services = self::services(impostor.address());
    let answer = egress.post(&services, call(&space, &client));
    let why = "failed to call webhook: Post \"https://svc.ns.svc:443/p?timeout=10s\": tls: failed to verify certificate: x509: certificate is valid for localhost, not svc.ns.svc";
    assert_eq!(answer.await.unwrap_err().to_string(), why);
    assert_eq!(impostor.calls(), 0);
}

#[tokio::test]
async fn self_signed_ca_certificate_is_accepted_as_its_own_bundle() {
    let start = || FakeWebhook::self_signed(&["svc.ns.svc"], Reply::Json(json!({})));
    let (webhook, other) = (start().await.unwrap(), start().await.unwrap());
    let (egress, space) = (egress(&["127.0.0.1"]), tenant("t1"));
    let services = services(webhook.address());
    let accepted = service("svc", webhook.ca_pem());
    let answer = egress.post(&services, call(&space, &accepted)).await;
    assert_eq!(answer.unwrap(), "{}");
    // One with the same names is another certificate.
    let foreign = service("svc", other.ca_pem());
    let other_name = client_for(&webhook.url("/x"), Some(webhook.ca_pem()));
    for (client, why) in [
        (foreign, "certificate signed by unknown authority"),
        (
            other_name,
            "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
    ] {
        let refused = egress.post(&services, call(&space, &client)).await;
        let refused = refused.unwrap_err().to_string();
        let why = format!("tls: failed to verify certificate: x509: {why}");
        assert!(refused.ends_with(&why), "{refused}");
    }
    assert_eq!(webhook.calls(), 1);
}

#[tokio::test]
async fn connections_are_reused_per_space_and_ca_only() {
    let webhook = FakeWebhook::start(Reply::Json(json!({}))).await.unwrap();
    let egress = egress(&["127.0.0.1"]);
    let client = client_for(&webhook.url("/x"), Some(webhook.ca_pem()));
    for _ in 0..3 {
        post(&egress, &tenant("t1"), &client).await.unwrap();
    }
    assert_eq!((webhook.calls(), webhook.connections()), (3, 1));
    post(&egress, &tenant("t2"), &client).await.unwrap();
    assert_eq!((webhook.calls(), webhook.connections()), (4, 2));
    let other = FakeWebhook::start(Reply::Allow).await.unwrap();
    let client = client_for(&webhook.url("/x"), Some(other.ca_pem()));
    let refused = post(&egress, &tenant("t1"), &client).await.unwrap_err();
    let url = webhook.url("/x?timeout=10s");
    let why = format!(
        "failed to call webhook: Post \"{url}\": tls: failed to verify certificate: x509: certificate signed by unknown authority"
    );
    assert_eq!(refused.to_string(), why);
    assert_eq!(webhook.calls(), 4);
}

#[tokio::test]
async fn closed_idle_connections_are_replaced() {
    let webhook = FakeWebhook::start(Reply::HangUp).await.unwrap();
    let (egress, space) = (egress(&["127.0.0.1"]), tenant("t1"));
    let client = client_for(&webhook.url("/x"), Some(webhook.ca_pem()));
    let refused = post(&egress, &space, &client).await.unwrap_err();
    let url = webhook.url("/x?timeout=10s");
    assert_eq!(refused.why(), format!("Post \"{url}\": EOF"));
    assert_eq!(webhook.calls(), 1, "who heard it is not asked again");
    webhook.answer(Reply::Json(json!({})));
    post(&egress, &space, &client).await.unwrap();
    webhook.script(|_| Reply::HangUp);
    let refused = post(&egress, &space, &client).await.unwrap_err();
    assert_eq!(refused.why(), format!("Post \"{url}\": EOF"));
    webhook.answer(Reply::Json(json!({})));
    post(&egress, &space, &client).await.unwrap();
}

#[tokio::test]
async fn tenants_cannot_reach_the_servers_network_by_address_or_name() {
    let webhook = FakeWebhook::start(Reply::Json(json!({}))).await.unwrap();
    let port = webhook.address().port();
    let closed = egress(&[]);
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"] {
        let url = format!("https://{host}:{port}/x");
        let client = client_for(&url, Some(webhook.ca_pem()));
        let refused = post(&closed, &tenant("t1"), &client).await.unwrap_err();
        let why = match host {
            "localhost" => {
                "dial tcp: lookup localhost: no such host, or its address is not allowed".to_owned()
            }
            _ => {
                let host = host.trim_matches(['[', ']']);
                format!("dial tcp: {host}:{port}: address is not allowed")
            }
        };
        assert_eq!(refused.why(), format!("Post \"{url}?timeout=10s\": {why}"));
    }
    let service = service("svc", webhook.ca_pem());
    let space = tenant("t1");
    let services = services(webhook.address());
    let refused = closed.post(&services, call(&space, &service)).await;
    assert!(
        refused
            .unwrap_err()
            .why()
            .ends_with("address is not allowed")
    );
    assert_eq!(webhook.connections(), 0);
    let client = client_for(&webhook.url("/x"), Some(webhook.ca_pem()));
    post(&closed, &Space::System, &client).await.unwrap();
    assert_eq!(webhook.calls(), 1);
}

#[tokio::test]
async fn service_without_endpoints_says_where_a_webhook_can_run() {
    let cluster_ip = SingleService(Backend::ClusterIp("10.0.0.9".to_owned(), 443));
    let (egress, space) = (egress(&[]), tenant("t1"));
    let webhook = FakeWebhook::start(Reply::Allow).await.unwrap();
    let client = service("svc", webhook.ca_pem());
    let refused = egress.post(&cluster_ip, call(&space, &client)).await;
    let why = "Post \"https://svc.ns.svc:443/p?timeout=10s\": dial tcp: 10.0.0.9:443: address \
               is not allowed (no endpoints available for service \"svc\": nothing runs pods \
               here, so give the service an EndpointSlice with the address of a webhook that \
               runs elsewhere, or the webhook a url)";
    assert_eq!(refused.unwrap_err().why(), why);
    // An address that someone chose is refused for what it is.
    let chosen = services("10.0.0.9:443".parse().unwrap());
    let refused = egress.post(&chosen, call(&space, &client)).await;
    let why = "Post \"https://svc.ns.svc:443/p?timeout=10s\": dial tcp: 10.0.0.9:443: address \
               is not allowed";
    assert_eq!(refused.unwrap_err().why(), why);
}

#[tokio::test]
async fn server_address_is_refused_even_in_an_allowed_network() {
    let webhook = FakeWebhook::start(Reply::Json(json!({}))).await.unwrap();
    let settings = Settings {
        allow: vec!["0.0.0.0/0".parse().unwrap()],
        ..Settings::default()
    };
    // A server that listens on all addresses does not know them.
    let own = SocketAddr::from(([0, 0, 0, 0], webhook.address().port()));
    let egress = Egress::new(settings, own);
    let client = client_for(&webhook.url("/x"), Some(webhook.ca_pem()));
    let refused = post(&egress, &tenant("t1"), &client).await.unwrap_err();
    assert!(
        refused.why().ends_with("address is not allowed"),
        "{refused}"
    );
    assert_eq!(webhook.calls(), 0);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = FakeWebhook::start(Reply::Json(json!({}))).await.unwrap();
    let webhook = FakeWebhook::start(Reply::Redirect(elsewhere.url("/y"))).await;
    let webhook = webhook.unwrap();
    let client = client_for(&webhook.url("/x"), Some(webhook.ca_pem()));
    let refused = post(&egress(&["127.0.0.1"]), &tenant("t1"), &client).await;
    let why = "failed to call webhook: the server responded with the status code 307 but did not return more information";
    assert_eq!(refused.unwrap_err().to_string(), why);
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn http_errors_use_client_go_messages() {
    let webhook = FakeWebhook::start(Reply::Code(500)).await.unwrap();
    let (egress, space) = (egress(&["127.0.0.1"]), tenant("t1"));
    let client = client_for(&webhook.url("/x"), Some(webhook.ca_pem()));
    let refused = post(&egress, &space, &client).await.unwrap_err();
    let why = "failed to call webhook: an error on the server (\"unknown\") has prevented the request from succeeding";
    assert_eq!(refused.to_string(), why);
    webhook.answer(Reply::Text(502, "bad gateway\n".to_owned()));
    let refused = post(&egress, &space, &client).await.unwrap_err();
    let why = "an error on the server (\"bad gateway\") has prevented the request from succeeding";
    assert_eq!(refused.why(), why);
}

#[tokio::test]
async fn response_size_is_limited() {
    let webhook = FakeWebhook::start(Reply::Text(200, "x".repeat(MAX_RESPONSE_BYTES + 1))).await;
    let webhook = webhook.unwrap();
    let (egress, space) = (egress(&["127.0.0.1"]), tenant("t1"));
    let client = client_for(&webhook.url("/x"), Some(webhook.ca_pem()));
    let refused = post(&egress, &space, &client).await.unwrap_err();
    let url = webhook.url("/x?timeout=10s");
    let why = format!("Post \"{url}\": the answer is longer than 1048576 bytes");
    assert_eq!(refused.why(), why);
    webhook.answer(Reply::Text(200, "x".repeat(MAX_RESPONSE_BYTES)));
    let answer = post(&egress, &space, &client).await.unwrap();
    assert_eq!(answer.len(), MAX_RESPONSE_BYTES);
}

#[tokio::test]
async fn calls_time_out() {
    let webhook = FakeWebhook::start(Reply::Silence).await.unwrap();
    let (egress, space) = (egress(&["127.0.0.1"]), tenant("t1"));
    let client = client_for(&webhook.url("/x"), Some(webhook.ca_pem()));
    let services = services(SERVER_ADDRESS.parse().unwrap());
    let mut call = call(&space, &client);
    call.timeout = Duration::from_millis(300);
    let refused = egress.post(&services, call).await.unwrap_err();
    let url = webhook.url("/x?timeout=1s");
    let why = format!("Post \"{url}\": context deadline exceeded");
    assert_eq!(refused.why(), why);
}

#[tokio::test]
async fn connection_and_tls_errors_are_distinguished() {
    let (egress, space) = (egress(&["127.0.0.1"]), tenant("t1"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = client_for(&format!("https://{address}/x"), None);
    let refused = post(&egress, &space, &client).await.unwrap_err();
    let why = format!(
        "failed to call webhook: Post \"https://{address}/x?timeout=10s\": dial tcp {address}: connect: connection refused"
    );
    assert_eq!(refused.to_string(), why);
    let client = client_for("https://nowhere.invalid/x", None);
    let refused = post(&egress, &Space::System, &client).await.unwrap_err();
    let why = "Post \"https://nowhere.invalid/x?timeout=10s\": dial tcp: lookup nowhere.invalid: no such host";
    assert_eq!(refused.why(), why);
    // A tenant does not learn whether the name exists in the server's network.
    let refused = post(&egress, &space, &client).await.unwrap_err();
    assert_eq!(
        refused.why(),
        format!("{why}, or its address is not allowed")
    );
    let client = client_for("https://127.0.0.1:9/x", Some("no PEM"));
    let refused = post(&egress, &space, &client).await.unwrap_err();
    let why = "could not get REST client: unable to load root certificates: unable to parse bytes as PEM block";
    assert_eq!(refused.to_string(), why);
}

#[tokio::test]
async fn concurrent_calls_per_space_are_limited() {
    let webhook = FakeWebhook::start(Reply::Silence).await.unwrap();
    let settings = Settings {
        allow: vec!["127.0.0.1".parse().unwrap()],
        each: 2,
        ..Settings::default()
    };
    let egress = Egress::new(settings, SERVER_ADDRESS.parse().unwrap());
    let client = client_for(&webhook.url("/x"), Some(webhook.ca_pem()));
    let (one, other) = (tenant("t1"), tenant("t2"));
    let calls = async {
        tokio::join!(
            post(&egress, &one, &client),
            post(&egress, &one, &client),
            post(&egress, &one, &client),
            post(&egress, &other, &client),
        )
    };
    tokio::select! {
        _ = calls => panic!("the webhook must not answer"),
        heard = webhook.called(3) => assert_eq!(heard.unwrap().len(), 3),
    }
    assert_eq!(webhook.connections(), 3);
}

/// An egress with a handler for the service `ns/operator`.
fn in_process(
    each: usize,
    handler: impl Fn(http::Request<Bytes>) -> BoxFuture<'static, http::Response<Bytes>>
    + Send
    + Sync
    + 'static,
) -> Egress {
    let mut services = InProcessServices::default();
    services.register("ns", "operator", Arc::new(handler));
    let settings = Settings {
        each,
        in_process: services,
        ..Settings::default()
    };
    Egress::new(settings, SERVER_ADDRESS.parse().unwrap())
}

#[tokio::test]
async fn service_in_process_is_called_for_the_system_only() {
    let egress = in_process(64, |request| {
        let space = request.extensions().get::<Space>().cloned();
        let seen = json!({
            "method": request.method().as_str(), "uri": request.uri().to_string(),
            "type": request.headers()["content-type"].to_str().unwrap(),
            "body": serde_json::from_slice::<serde_json::Value>(request.body()).unwrap(),
            "space": space.map(|space| space.to_string()),
        });
        let response = http::Response::new(Bytes::from(seen.to_string()));
        Box::pin(async { response })
    });
    let (own, other) = (service("operator", "no PEM"), service("other", "no PEM"));
    let nowhere = services(SERVER_ADDRESS.parse().unwrap());
    let t1 = tenant("t1");
    for (object_space, expected) in [
        (None, json!(null)),
        (Some(&Space::System), json!("system")),
        (Some(&t1), json!("t1")),
    ] {
        let call = Call {
            object_space,
            ..call(&Space::System, &own)
        };
        let answer = egress.post(&nowhere, call).await.unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        let expected = json!({
            "method": "POST", "uri": "/p?timeout=10s", "type": "application/json",
            "body": {"a": 1}, "space": expected,
        });
        assert_eq!(answer, expected);
    }
    // Other services, tenants and URLs with the same name go to the network.
    let url = client_for("https://operator.ns.svc:443/p", None);
    for (space, client) in [
        (&Space::System, &other),
        (&t1, &own),
        (&t1, &url),
        (&Space::System, &url),
    ] {
        let refused = post(&egress, space, client).await.unwrap_err();
        let why = refused.why();
        assert!(
            why.contains("not found") || why.contains("no such host"),
            "{why}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn service_in_process_is_bound_by_the_limits_of_calls() {
    let own = service("operator", "");
    for (path, expected) in [
        ("panic", "handler panicked"),
        ("hang", "context deadline exceeded"),
        ("long", "the answer is longer than 1048576 bytes"),
    ] {
        let egress = in_process(64, move |_| match path {
            "panic" => panic!("this is about panics"),
            "hang" => Box::pin(std::future::pending()),
            _ => Box::pin(async { http::Response::new(vec![0; MAX_RESPONSE_BYTES + 1].into()) }),
        });
        let refused = post(&egress, &Space::System, &own).await.unwrap_err();
        let expected = format!("Post \"https://operator.ns.svc:443/p?timeout=10s\": {expected}");
        assert_eq!(refused.why(), expected);
    }
    let egress = in_process(64, |_| {
        let response = http::Response::builder()
            .status(503)
            .header("content-type", "text/plain");
        let response = response.body(Bytes::from_static(b"busy")).unwrap();
        Box::pin(async { response })
    });
    let refused = post(&egress, &Space::System, &own).await.unwrap_err();
    let expected = "the server is currently unable to handle the request";
    assert_eq!(refused.why(), expected);
    // Calls beyond the limit of the space wait.
    let running = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&running);
    let egress = in_process(2, move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::pending())
    });
    let calls = async {
        tokio::join!(
            post(&egress, &Space::System, &own),
            post(&egress, &Space::System, &own),
            post(&egress, &Space::System, &own),
        )
    };
    let waited = tokio::time::timeout(Duration::from_secs(5), calls).await;
    assert!(waited.is_err(), "the handler must not answer");
    assert_eq!(running.load(Ordering::Relaxed), 2);
}
