//! Requests to a server of the test.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures_util::future::{BoxFuture, join_all};
use insula_identity::endpoint::Trust;
use serde_json::json;

use super::*;
use crate::arm::test_server::{self, Reply, Server};
use crate::entra::tokens::Fetch;

const TIMEOUT: Duration = Duration::from_secs(20);
const ASYNC_OPERATION: &str = "azure-asyncoperation";

/// Tokens with these texts, one after the other.
struct Texts(Arc<Mutex<VecDeque<&'static str>>>);

impl Fetch for Texts {
    fn fetch(&self) -> BoxFuture<'_, Result<Token, TokenError>> {
        let text = self.0.lock().unwrap().pop_front();
        let token = text.and_then(|text| Token::new(text, Duration::from_secs(3600)));
        let none = TokenError::Unreachable {
            server: "authority".to_owned(),
            why: "no token left".to_owned(),
        };
        Box::pin(async move { token.ok_or(none) })
    }

    fn server(&self) -> String {
        "authority".to_owned()
    }
}

fn tokens(texts: &[&'static str]) -> Tokens {
    let texts = texts.iter().copied().collect();
    Tokens::new(Texts(Arc::new(Mutex::new(texts))), TIMEOUT)
}

fn client(server: &Server, texts: &[&'static str], timeout: Duration) -> Client {
    let http = server
        .url
        .client(&Server::clients(&[server]), &Trust::Verified);
    Client {
        server: server.url.clone(),
        http: http.unwrap(),
        tokens: tokens(texts),
        auxiliary: Vec::new(),
        user_agent: user_agent("my-suffix").unwrap(),
        timeout,
        limits: LimitNames::default(),
        observer: Arc::new(()),
        is_accepted: AtomicBool::new(false),
    }
}

fn group() -> ResourceId {
    ResourceId::of_resource_group("s", "my group").unwrap()
}

#[tokio::test]
async fn requests_have_the_headers_that_arm_expects() {
    let server = Server::start_tls(|_, _| test_server::json(200, json!({"id": "/x"}))).await;
    let mut client = client(&server, &["t0"], TIMEOUT);
    client.auxiliary = vec![tokens(&["t1"]), tokens(&["t2"])];
    let body = json!({"location": "westus", "b": 1});
    let put = client.put(&group(), "2020-06-01", &body).await.unwrap();
    let resource = Some(json!({"id": "/x"}));
    assert_eq!(put.progress, Progress::Done { resource });
    client.get(&group(), "2020-06-01").await.unwrap();
    let posted = client
        .post(&group(), "listKeys", "2024-01-01", None)
        .await
        .unwrap();
    assert_eq!(
        (posted.status, posted.body),
        (StatusCode::OK, json!({"id": "/x"}))
    );
    client
        .register_provider("s", "Microsoft.Cache")
        .await
        .unwrap();
    client.delete(&group(), "2020-06-01").await.unwrap();
    let requests = server.requests();
    let lines: Vec<&str> = requests
        .iter()
        .map(|request| request.line.as_str())
        .collect();
    let path = "/subscriptions/s/resourceGroups/my%20group";
    let expected = [
        format!("PUT {path}?api-version=2020-06-01"),
        format!("GET {path}?api-version=2020-06-01"),
        format!("POST {path}/listKeys?api-version=2024-01-01"),
        "POST /subscriptions/s/providers/Microsoft.Cache/register?api-version=2019-05-01"
            .to_owned(),
        format!("DELETE {path}?api-version=2020-06-01"),
    ];
    assert_eq!(lines, expected);
    let agent = concat!("insula-azure/", env!("CARGO_PKG_VERSION"), " my-suffix");
    for request in &requests {
        assert_eq!(request.header("authorization"), Some("Bearer t0"));
        assert_eq!(request.header(AUXILIARY), Some("Bearer t1, Bearer t2"));
        assert_eq!(request.header("user-agent"), Some(agent));
        assert_eq!(request.header("accept"), Some("application/json"));
    }
    assert_eq!(requests[0].header("content-type"), Some("application/json"));
    assert_eq!(requests[0].body, r#"{"b":1,"location":"westus"}"#);
    assert_eq!(requests[1].header("content-type"), None);
}

#[tokio::test]
async fn action_may_have_several_segments_and_a_deletion_parameters_and_a_condition() {
    let server = Server::start(|_, _| test_server::json(200, json!({}))).await;
    let client = client(&server, &["t0"], TIMEOUT);
    let action = "authorizationRules/Root Key/listKeys";
    client.post(&group(), action, "1", None).await.unwrap();
    let query = [("deleteSubscriptions", "true"), ("a", "b&c")];
    client.delete_with(&group(), "2", query, "*").await.unwrap();
    let requests = server.requests();
    let path = "/subscriptions/s/resourceGroups/my%20group";
    assert_eq!(
        requests[0].line,
        format!("POST {path}/authorizationRules/Root%20Key/listKeys?api-version=1")
    );
    assert_eq!(
        requests[1].line,
        format!("DELETE {path}?api-version=2&deleteSubscriptions=true&a=b%26c")
    );
    let conditions = requests.iter().map(|request| request.header("if-match"));
    assert_eq!(conditions.collect::<Vec<_>>(), [None, Some("*")]);
}

#[tokio::test]
async fn list_is_read_page_by_page_and_from_its_own_server_only() {
    let server = Server::start(|earlier, request| {
        let host = request.header("host").unwrap_or_default();
        let next = match earlier {
            0 => format!("http://{host}/next?page=2"),
            1 => String::new(),
            _ => "https://example.com/next".to_owned(),
        };
        test_server::json(200, json!({"value": [{"id": earlier}], "nextLink": next}))
    })
    .await;
    let client = client(&server, &["t0"], TIMEOUT);
    let filter = Some("roleName eq 'a'");
    let all = client
        .list(&group(), "providers/P/kinds", "1", filter)
        .await;
    assert_eq!(all, Ok(vec![json!({"id": 0}), json!({"id": 1})]));
    let lines: Vec<_> = server.requests().into_iter().map(|it| it.line).collect();
    let path = "/subscriptions/s/resourceGroups/my%20group/providers/P/kinds";
    let expected = [
        format!("GET {path}?api-version=1&$filter=roleName%20eq%20%27a%27"),
        "GET /next?page=2".to_owned(),
    ];
    assert_eq!(lines, expected);
    let why = "the next page of a list is on another server";
    let foreign = client.list(&group(), "kinds", "1", None).await;
    assert_eq!(foreign, Err(RequestFailure::InvalidAnswer(why)));
}

#[tokio::test]
async fn answers_that_take_too_much_memory_are_refused() {
    let server = Server::start(|earlier, request| {
        let host = request.header("host").unwrap_or_default();
        let next = format!("http://{host}/next?page={earlier}");
        let body = match earlier {
            0 => format!("[{}0]", r#"{"":0},"#.repeat(220_000)),
            _ => {
                let elements = "{},".repeat(150_000);
                format!(r#"{{"value":[{elements}0],"nextLink":"{next}"}}"#)
            }
        };
        Reply::Http(200, String::new(), body)
    })
    .await;
    let client = client(&server, &["t0"], TIMEOUT);
    let why = "it has too many elements";
    let read = client.get(&group(), "1").await;
    assert_eq!(read, Err(RequestFailure::InvalidAnswer(why)));
    let listed = client.list(&group(), "kinds", "1", None).await;
    let why = "a list is too large";
    assert_eq!(listed, Err(RequestFailure::InvalidAnswer(why)));
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn failure_is_shown_without_values_of_secrets() {
    let error = ArmError::new(StatusCode::CONFLICT, "Conflict", "no pa55-word, and no abc");
    let failure = RequestFailure::Refused {
        error: Box::new(error),
        limits: Limits::default(),
    };
    let secrets = ["pa55-word", "abc", ""].map(Hidden::new);
    let shown = failure.without(&secrets).to_string();
    assert_eq!(shown, "Conflict: no ****, and no abc");
}

#[tokio::test]
async fn refused_token_is_replaced_once() {
    let expired =
        json!({"error": {"code": "ExpiredAuthenticationToken", "message": "old token t0"}});
    let server = Server::start(move |_, request| match request.header("authorization") {
        Some("Bearer good") => test_server::json(200, json!({})),
        _ => test_server::json(401, expired.clone()),
    })
    .await;
    let recovered = client(&server, &["t0", "good"], TIMEOUT);
    recovered.get(&group(), "1").await.unwrap();
    recovered.get(&group(), "1").await.unwrap();
    assert_eq!(server.requests().len(), 3);
    // Another refusal is the result.
    let refused = client(&server, &["t0", "t0", "t0"], TIMEOUT)
        .get(&group(), "1")
        .await;
    let message = refused.unwrap_err().to_string();
    assert_eq!(message, "ExpiredAuthenticationToken: old token ****");
    assert_eq!(server.requests().len(), 5);
    let forbidden = Server::start(|_, _| {
        test_server::json(401, json!({"error": {"code": "AuthenticationFailed"}}))
    })
    .await;
    let refused = client(&forbidden, &["t0", "t1"], TIMEOUT)
        .get(&group(), "1")
        .await;
    assert!(refused.is_err());
    assert_eq!(forbidden.requests().len(), 1);
}

#[tokio::test]
async fn refused_token_of_a_further_tenant_is_replaced() {
    let expired = json!({"error": {"code": "InvalidAuthenticationToken", "message": "for a0"}});
    let server = Server::start(move |_, request| match request.header(AUXILIARY) {
        Some("Bearer a1") => test_server::json(200, json!({})),
        _ => test_server::json(401, expired.clone()),
    })
    .await;
    let mut client = client(&server, &["t0", "t1"], TIMEOUT);
    client.auxiliary = vec![tokens(&["a0", "a1"])];
    client.get(&group(), "1").await.unwrap();
    client.tokens = tokens(&["t0", "t1"]);
    client.auxiliary = vec![tokens(&["a0", "a0"])];
    let refused = client.get(&group(), "1").await.unwrap_err();
    assert_eq!(refused.to_string(), "InvalidAuthenticationToken: for ****");
}

#[tokio::test]
async fn revoked_token_is_replaced_once_for_all_requests() {
    let expired = json!({"error": {"code": "InvalidAuthenticationToken"}});
    let server = Server::start(move |_, request| match request.header("authorization") {
        Some("Bearer good") => test_server::json(200, json!({})),
        _ => test_server::json(401, expired.clone()),
    })
    .await;
    // There is no third token.
    let client = client(&server, &["t0", "good"], TIMEOUT);
    let id = group();
    let all = join_all((0..20).map(|_| client.get(&id, "1"))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
}

#[tokio::test]
async fn operation_is_polled_to_its_end() {
    let server = Server::start(|count, request| {
        let host = request.header("host").unwrap();
        let headers =
            format!("{ASYNC_OPERATION}: http://{host}/operations/o?t=1\r\nretry-after: 3\r\n");
        match count {
            0 => Reply::Http(201, headers, json!({"id": "/x"}).to_string()),
            1 => Reply::Http(429, "retry-after: 7\r\n".to_owned(), String::new()),
            2 => test_server::json(200, json!({"status": "InProgress", "error": {"code": "X"}})),
            _ => test_server::json(200, json!({"status": "Succeeded"})),
        }
    })
    .await;
    let client = client(&server, &["t0"], TIMEOUT);
    let mut operated = client.put(&group(), "1", &json!({})).await.unwrap();
    let mut delays = Vec::new();
    while let Progress::InProgress { token, retry_after } = operated.progress {
        delays.push(retry_after.map(|delay| delay.as_secs()));
        // The operation is resumed from its annotation, as after a crash.
        let text = token.to_text(client.server());
        let resumed = ResumeToken::parse(token.method().poller_id(), &text, client.server());
        assert_eq!(resumed.as_ref(), Ok(&token));
        operated = client.poll(resumed.unwrap()).await.unwrap();
    }
    assert_eq!(delays, [Some(3), Some(7), None]);
    assert_eq!(operated.progress, Progress::Done { resource: None });
    assert_eq!(server.requests()[3].line, "GET /operations/o?t=1");
}

#[tokio::test]
async fn token_never_reaches_another_server() {
    let other = Server::start(|_, _| test_server::json(200, json!({"status": "Succeeded"}))).await;
    let url = other.url.to_string();
    let server = Server::start(move |count, _| {
        let location = format!("location: {url}/l\r\n{ASYNC_OPERATION}: {url}/o\r\n");
        match count {
            0 => Reply::Http(202, location, String::new()),
            1 => Reply::Http(307, location, String::new()),
            _ => Reply::Http(202, location, String::new()),
        }
    })
    .await;
    let client = client(&server, &["t0"], TIMEOUT);
    let put = client.put(&group(), "1", &json!({})).await.unwrap();
    let Progress::InProgress { token, .. } = put.progress else {
        panic!("the operation is in progress");
    };
    // A redirect is not followed either.
    client.poll(token.clone()).await.unwrap_err();
    client.poll(token).await.unwrap();
    let deleted = client.delete(&group(), "1").await.unwrap_err();
    assert!(
        deleted.to_string().contains("without a URL to poll"),
        "{deleted}"
    );
    assert_eq!(other.requests().len(), 0);
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn existence_is_a_head_request() {
    let server = Server::start(|count, _| match count {
        0 => Reply::Http(204, String::new(), String::new()),
        1 => Reply::Http(404, String::new(), String::new()),
        _ => Reply::Http(403, String::new(), String::new()),
    })
    .await;
    let client = client(&server, &["t0"], TIMEOUT);
    assert_eq!(client.exists(&group(), "1").await, Ok(true));
    assert_eq!(client.exists(&group(), "1").await, Ok(false));
    assert!(client.exists(&group(), "1").await.is_err());
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.line.starts_with("HEAD "))
    );
}

#[tokio::test]
async fn limits_of_the_subscription_are_reported() {
    let server = Server::start(|count, _| {
        let reads = "x-ms-ratelimit-remaining-subscription-reads: 11\r\n\
                     x-ms-ratelimit-remaining-subscription-global-reads: 9\r\n\
                     x-ms-ratelimit-remaining-subscription-writes: 1\r\n";
        match count {
            0 => Reply::Http(200, reads.to_owned(), "{}".to_owned()),
            _ => Reply::Http(429, "retry-after: 17\r\n".to_owned(), String::new()),
        }
    })
    .await;
    let client = client(&server, &["t0"], TIMEOUT);
    let read = client.get(&group(), "1").await.unwrap();
    let limits = Limits {
        remaining: Some(11),
        shared_remaining: Some(9),
        retry_after: None,
    };
    assert_eq!(read.limits, limits);
    let refused = client.put(&group(), "1", &json!({})).await.unwrap_err();
    assert_eq!(refused.limits().retry_after, Some(Duration::from_secs(17)));
}

/// A recipient that keeps everything.
#[derive(Default)]
struct Observations(Mutex<Vec<Observation>>);

impl ObserveLimits for Observations {
    fn observe(&self, _: &LimitNames, observation: Observation) {
        self.0.lock().unwrap().push(observation);
    }
}

/// Anyone can name a subscription: what it says to a stranger does not count for those who use it.
#[tokio::test]
async fn limits_of_all_applications_count_once_the_subscription_has_accepted_a_request() {
    let none_left = "x-ms-ratelimit-remaining-subscription-global-writes: 0\r\n\
                     x-ms-ratelimit-remaining-subscription-global-reads: 0\r\n";
    let server = Server::start(move |count, _| {
        let status = [403, 404, 429, 200, 429][count];
        Reply::Http(status, none_left.to_owned(), "{}".to_owned())
    })
    .await;
    let observer = Arc::new(Observations::default());
    let client = Client {
        observer: observer.clone(),
        ..client(&server, &["t0"], TIMEOUT)
    };
    for _ in 0..3 {
        client.put(&group(), "1", &json!({})).await.unwrap_err();
    }
    client.get(&group(), "1").await.unwrap();
    client.put(&group(), "1", &json!({})).await.unwrap_err();
    let seen = std::mem::take(&mut *observer.0.lock().unwrap());
    let seen: Vec<_> = seen
        .iter()
        .map(|seen| (seen.requests, seen.is_refused, seen.shared_remaining))
        .collect();
    let (reads, writes) = (Requests::Reads, Requests::Writes);
    assert_eq!(
        seen,
        [
            (writes, false, None),
            (writes, false, None),
            (writes, true, None),
            (reads, false, Some(0)),
            (writes, true, Some(0)),
        ]
    );
}

#[tokio::test]
async fn failures_are_told_apart() {
    let silent = Server::start(|_, _| Reply::Hang).await;
    let short = Duration::from_millis(200);
    let failed = client(&silent, &["t0"], short)
        .get(&group(), "1")
        .await
        .unwrap_err();
    let message = "Azure Resource Manager cannot be used: no answer within 0.2 s";
    assert_eq!(failed.to_string(), message);
    let failed = client(&silent, &[], TIMEOUT)
        .get(&group(), "1")
        .await
        .unwrap_err();
    assert_eq!(
        failed.to_string(),
        "authority cannot be used: no token left"
    );
    let missing = Server::start(|_, _| {
        let body = json!({"code": "NotFound", "message": "none"});
        Reply::Http(404, "x-ms-request-id: r-1\r\n".to_owned(), body.to_string())
    })
    .await;
    let failed = client(&missing, &["t0"], TIMEOUT)
        .get(&group(), "1")
        .await
        .unwrap_err();
    assert!(failed.is_not_found());
    assert_eq!(failed.to_string(), "NotFound: none (request r-1)");
    let large = Server::start(|_, _| {
        Reply::Http(
            200,
            String::new(),
            " ".repeat((Bounds::of(true).response_kib << 10) + 1),
        )
    })
    .await;
    let failed = client(&large, &["t0"], TIMEOUT)
        .get(&group(), "1")
        .await
        .unwrap_err();
    assert!(
        failed.to_string().contains("larger than 8192 KiB"),
        "{failed}"
    );
}

#[test]
fn user_agent_has_the_suffix() {
    let own = concat!("insula-azure/", env!("CARGO_PKG_VERSION"));
    assert_eq!(user_agent("").unwrap(), own);
    assert_eq!(user_agent(" x ").unwrap(), format!("{own} x"));
    assert!(user_agent("a\nb").is_err());
}
