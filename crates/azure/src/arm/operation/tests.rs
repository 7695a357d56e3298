//! First responses, polls and resume tokens, as measured in recordings of Azure.

use http::{HeaderName, HeaderValue};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::entra::base_url::Cleartext;

const RESOURCE: &str = "/subscriptions/s/resourceGroups/g?api-version=1";
const OPERATION: &str = "/subscriptions/s/operations/o?t=1&c=2&s=3&h=4";

fn server() -> BaseUrl {
    BaseUrl::parse("https://management.azure.com", Cleartext::Refused).unwrap()
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pairs = pairs.iter().map(|(name, value)| {
        let value = value.replace('~', "https://management.azure.com");
        (
            HeaderName::from_static(name),
            HeaderValue::from_str(&value).unwrap(),
        )
    });
    pairs.collect()
}

/// Calls a function with a response. `~` in headers is the server's URL.
fn with<T>(
    status: u16,
    pairs: &[(&'static str, &str)],
    body: &Value,
    call: impl FnOnce(Answer<'_>) -> T,
) -> T {
    let headers = headers(pairs);
    call(Answer {
        status: StatusCode::from_u16(status).unwrap(),
        headers: &headers,
        body,
        received: Timestamp::UNIX_EPOCH,
    })
}

/// Describes progress: `done`, `done with resource`, the style and path of a poll, or an error.
fn describe(progress: Result<Progress, OperationError>) -> String {
    match progress {
        Ok(Progress::Done { resource: None }) => "done".to_owned(),
        Ok(Progress::Done { resource: Some(_) }) => "done with resource".to_owned(),
        Ok(Progress::InProgress { token, .. }) => format!("{:?} {}", token.style, token.poll),
        Err(error) => error.to_string(),
    }
}

fn begun(method: Method, status: u16, pairs: &[(&'static str, &str)], body: &Value) -> String {
    with(status, pairs, body, |answer| {
        describe(begin(&server(), method, RESOURCE, answer))
    })
}

fn resource(state: Option<&str>) -> Value {
    match state {
        Some(state) => json!({"id": "/x", "properties": {"provisioningState": state}}),
        None => json!({"id": "/x", "properties": {}}),
    }
}

#[test]
fn first_response_to_a_put_decides_how_it_is_polled() {
    let url = format!("~{OPERATION}");
    let is_async = [("azure-asyncoperation", url.as_str()), ("location", "~/l")];
    let operation = [("operation-location", url.as_str()), ("location", "~/l")];
    let location = [("location", url.as_str())];
    let relative = [("location", "/subscriptions/s/x")];
    let polls_async = format!("AsyncOperation {OPERATION}");
    let polls_location = format!("Location {OPERATION}");
    let polls_resource = format!("Body {RESOURCE}");
    let polls_operation = format!("OperationLocation {OPERATION}");
    type Row<'a> = (u16, &'a [(&'static str, &'a str)], Value, &'a str);
    let table: [Row<'_>; 26] = [
        (201, &is_async, resource(Some("Creating")), &polls_async),
        (202, &is_async, Value::Null, &polls_async),
        (201, &[], resource(Some("Succeeded")), "done with resource"),
        (200, &[], resource(None), "done with resource"),
        (201, &[], resource(None), &polls_resource),
        (200, &[], resource(Some("Succeeded")), "done with resource"),
        (200, &is_async, resource(None), &polls_async),
        (202, &location, Value::Null, &polls_location),
        (201, &relative, resource(None), "done with resource"),
        // The rest is rare.
        (201, &relative, resource(Some("Creating")), &polls_resource),
        (201, &relative, json!({}), "Location /subscriptions/s/x"),
        (200, &is_async, resource(Some("succeeded")), "done"),
        (200, &[], resource(Some("SUCCEEDED")), "done with resource"),
        (200, &[], resource(Some("Updating")), &polls_resource),
        (201, &[], Value::Null, &polls_resource),
        (202, &[], Value::Null, &polls_resource),
        (202, &[], json!({"operation": "Create"}), &polls_resource),
        (204, &[], Value::Null, "done"),
        (
            202,
            &operation,
            json!({"status": "Running"}),
            &polls_operation,
        ),
        (200, &operation, json!({"status": "Succeeded"}), "done"),
        (
            200,
            &[],
            resource(Some("Failed")),
            "the operation ended as Failed",
        ),
        // The state may be that of an earlier operation.
        (201, &is_async, resource(Some("Canceled")), &polls_async),
        (202, &is_async, resource(Some("Succeeded")), &polls_async),
        (202, &location, resource(Some("Failed")), &polls_location),
        (200, &[], json!({}), "done"),
        (
            409,
            &is_async,
            json!({"error": {"code": "Conflict", "message": "busy"}}),
            "Conflict: busy",
        ),
    ];
    for (status, headers, body, expected) in table {
        let progress = begun(Method::CreateOrUpdate, status, headers, &body);
        assert_eq!(progress, expected, "{status} {headers:?} {body}");
    }
}

#[test]
fn first_response_to_a_delete_decides_how_it_is_polled() {
    let url = format!("~{OPERATION}");
    let is_async = [("azure-asyncoperation", url.as_str())];
    let location = [("location", url.as_str())];
    let without_url = "Azure's answer is invalid: an operation was accepted without a URL to poll";
    type Row<'a> = (u16, &'a [(&'static str, &'a str)], Value, &'a str);
    let table: [Row<'_>; 11] = [
        // Seen at firewall policies: the state is that before the request.
        (
            202,
            &is_async,
            resource(Some("Succeeded")),
            &format!("AsyncOperation {OPERATION}"),
        ),
        (
            202,
            &location,
            Value::Null,
            &format!("Location {OPERATION}"),
        ),
        (
            202,
            &is_async,
            Value::Null,
            &format!("AsyncOperation {OPERATION}"),
        ),
        (200, &[], Value::Null, "done"),
        (200, &[], resource(Some("Failed")), "done"),
        (204, &[], Value::Null, "done"),
        (
            404,
            &[],
            json!({"error": {"code": "ParentResourceNotFound"}}),
            "done",
        ),
        (202, &[("location", "/l")], Value::Null, "Location /l"),
        (202, &[], Value::Null, without_url),
        (
            403,
            &[],
            json!({"error": {"code": "AuthorizationFailed"}}),
            "AuthorizationFailed",
        ),
        (201, &location, Value::Null, "Azure answers HTTP 201"),
    ];
    for (status, headers, body, expected) in table {
        let progress = begun(Method::Delete, status, headers, &body);
        assert_eq!(progress, expected, "{status} {headers:?} {body}");
    }
}

#[test]
fn url_of_another_server_is_never_polled() {
    let foreign = [
        "https://evil.example/o",
        "http://management.azure.com/o",
        "https://management.azure.com:8443/o",
        "https://management.azure.com@evil.example/o",
        "https://management.azure.com.evil.example/o",
        "//evil.example/o",
        "/\\evil.example/o",
        "https://evil.example\\@management.azure.com/o",
        "ftp://management.azure.com/o",
        "o",
    ];
    let body = resource(Some("Creating"));
    for url in foreign {
        for header in ["azure-asyncoperation", "operation-location", "location"] {
            // A PUT can be followed at the resource itself.
            let put = begun(Method::CreateOrUpdate, 201, &[(header, url)], &body);
            assert_eq!(put, format!("Body {RESOURCE}"), "{header} {url}");
            let delete = begun(Method::Delete, 202, &[(header, url)], &Value::Null);
            assert!(
                delete.contains("without a URL to poll"),
                "{header} {url}: {delete}"
            );
        }
        let both = [("azure-asyncoperation", url), ("location", "~/l")];
        let put = begun(Method::CreateOrUpdate, 202, &both, &Value::Null);
        assert_eq!(put, "Location /l", "{url}");
        // Nor is a poll moved to it.
        let moved = polled(Style::Location, 202, &[("location", url)], &Value::Null);
        assert_eq!(moved, format!("Location {OPERATION}"), "{url}");
        // Nor does an edited annotation lead to it.
        for key in ["asyncURL", "oplocURL"] {
            let text = json!({"type": "GenericResource", "token": {key: url}}).to_string();
            let parsed = parse(Method::CreateOrUpdate, &text);
            assert!(parsed.is_err(), "{url}");
        }
        for kind in ["loc", "body"] {
            let token = json!({"type": kind, "pollURL": url});
            let text = json!({"type": "GenericDeleteResponse", "token": token}).to_string();
            assert!(parse(Method::Delete, &text).is_err(), "{url}");
        }
    }
}

fn parse(
    method: Method,
    text: &str,
) -> Result<ResumeToken, super::super::resume_token::InvalidToken> {
    ResumeToken::parse(method.poller_id(), text, &server())
}

fn token(style: Style) -> ResumeToken {
    ResumeToken {
        method: Method::CreateOrUpdate,
        style,
        poll: OPERATION.to_owned(),
        original: Some(RESOURCE.to_owned()),
        state: IN_PROGRESS.to_owned(),
    }
}

fn polled(style: Style, status: u16, pairs: &[(&'static str, &str)], body: &Value) -> String {
    with(status, pairs, body, |answer| {
        describe(advance(&server(), token(style), answer))
    })
}

#[test]
fn polls_end_in_terminal_states_only() {
    let (asynchronous, location, body) = (Style::AsyncOperation, Style::Location, Style::Body);
    let again = |style: Style| format!("{style:?} {OPERATION}");
    let error = json!({"code": "X", "message": "m"});
    let no_status = "Azure's answer is invalid: the operation has no status";
    for (style, status, answer, expected) in [
        (
            asynchronous,
            200,
            json!({"status": "Succeeded"}),
            "done".to_owned(),
        ),
        (
            asynchronous,
            200,
            json!({"status": "succeeded"}),
            "done".to_owned(),
        ),
        (
            asynchronous,
            200,
            json!({"status": "Inprogress"}),
            again(asynchronous),
        ),
        (
            asynchronous,
            200,
            json!({"status": "Dequeued"}),
            again(asynchronous),
        ),
        (
            asynchronous,
            200,
            json!({"status": "CreatingAgentPool: 0/1 nodes completed"}),
            again(asynchronous),
        ),
        (asynchronous, 202, Value::Null, again(asynchronous)),
        (asynchronous, 204, Value::Null, "done".to_owned()),
        (
            asynchronous,
            200,
            resource(Some("Succeeded")),
            "done".to_owned(),
        ),
        (asynchronous, 200, json!({}), no_status.to_owned()),
        (
            asynchronous,
            200,
            json!({"status": "InProgress", "error": error}),
            again(asynchronous),
        ),
        (
            asynchronous,
            200,
            json!({"status": "Succeeded", "error": error}),
            "done".to_owned(),
        ),
        (
            asynchronous,
            200,
            json!({"status": "Failed", "error": error}),
            "X: m".to_owned(),
        ),
        (
            asynchronous,
            200,
            json!({"status": "canceled", "error": error}),
            "X: m".to_owned(),
        ),
        (
            asynchronous,
            200,
            json!({"status": "Failed", "error": null, "properties": {"error": error}}),
            "X: m".to_owned(),
        ),
        (
            asynchronous,
            200,
            json!({"status": "Canceled"}),
            "the operation ended as Canceled".into(),
        ),
        (
            asynchronous,
            404,
            json!({"error": {"code": "NotFound"}}),
            "NotFound".to_owned(),
        ),
        (
            Style::OperationLocation,
            200,
            json!({"status": "Succeeded"}),
            "done".to_owned(),
        ),
        (location, 202, Value::Null, again(location)),
        (location, 200, Value::Null, "done".to_owned()),
        (location, 201, json!({"id": "/x"}), "done".to_owned()),
        (location, 204, Value::Null, "done".to_owned()),
        (location, 200, resource(Some("Deleting")), again(location)),
        // Seen at Service Bus: the namespace still exists.
        (location, 202, resource(Some("Succeeded")), again(location)),
        (
            location,
            200,
            resource(Some("Failed")),
            "the operation ended as Failed".to_owned(),
        ),
        (
            location,
            404,
            Value::Null,
            "Azure answers HTTP 404".to_owned(),
        ),
        (location, 400, json!({"error": error}), "X: m".to_owned()),
        (body, 200, resource(None), "done with resource".to_owned()),
        (
            body,
            200,
            resource(Some("Succeeded")),
            "done with resource".to_owned(),
        ),
        (body, 200, resource(Some("RegisteringDns")), again(body)),
        (body, 202, Value::Null, again(body)),
        (body, 204, Value::Null, "done".to_owned()),
        (
            body,
            200,
            resource(Some("Failed")),
            "the operation ended as Failed".to_owned(),
        ),
        // Seen at API Management: the resource can be written and not be read.
        (body, 405, json!({"Message": "no"}), "done".to_owned()),
        (body, 404, json!({"error": error}), "X: m".to_owned()),
    ] {
        assert_eq!(
            polled(style, status, &[], &answer),
            expected,
            "{style:?} {status} {answer}"
        );
    }
}

#[test]
fn overload_does_not_end_an_operation() {
    for style in [
        Style::AsyncOperation,
        Style::OperationLocation,
        Style::Location,
        Style::Body,
    ] {
        for status in [408, 429, 500, 502, 503, 504] {
            let body = json!({"error": {"code": "X"}, "status": "Failed"});
            let progress = with(status, &[("retry-after", "7")], &body, |answer| {
                advance(&server(), token(style), answer)
            });
            let expected = Progress::InProgress {
                token: token(style),
                retry_after: Some(Duration::from_secs(7)),
            };
            assert_eq!(progress, Ok(expected), "{style:?} {status}");
        }
    }
}

#[test]
fn new_location_is_polled_next() {
    let signed = [("location", "~/l?t=2"), ("retry-after", "15")];
    let moved = polled(Style::Location, 202, &signed, &Value::Null);
    assert_eq!(moved, "Location /l?t=2");
    let relative = polled(Style::Location, 202, &[("location", "/m")], &Value::Null);
    assert_eq!(relative, "Location /m");
    // Other styles keep their URL.
    let body = json!({"status": "Running"});
    let kept = polled(Style::AsyncOperation, 200, &signed, &body);
    assert_eq!(kept, format!("AsyncOperation {OPERATION}"));
}

#[test]
fn resume_token_is_that_of_the_sdk_for_go() {
    let text = token(Style::AsyncOperation).to_text(&server());
    let expected = json!({"type": "GenericResource", "token": {
        "asyncURL": format!("https://management.azure.com{OPERATION}"),
        "locURL": "",
        "origURL": format!("https://management.azure.com{RESOURCE}"),
        "method": "PUT",
        "finalState": "",
        "state": "InProgress",
    }});
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
    let text = r#"{"type":"GenericDeleteResponse","token":{"type":"loc",
        "pollURL":"https://management.azure.com/l?s=1","state":"InProgress"}}"#;
    let parsed = ResumeToken::parse("GenericClient.DeleteByID", text, &server()).unwrap();
    let expected = ResumeToken {
        method: Method::Delete,
        style: Style::Location,
        poll: "/l?s=1".to_owned(),
        original: None,
        state: "InProgress".to_owned(),
    };
    assert_eq!(parsed, expected);
}

#[test]
fn resume_token_of_another_method_is_refused() {
    let text = token(Style::Body).to_text(&server());
    assert!(parse(Method::CreateOrUpdate, &text).is_ok());
    let long = format!("https://management.azure.com/{}", "x".repeat(MAX_URL_BYTES));
    let long = json!({"type": "GenericResource", "token": {"asyncURL": long}}).to_string();
    for (poller_id, text) in [
        ("GenericClient.DeleteByID", text.as_str()),
        ("Other", &text),
        ("GenericClient.CreateOrUpdateByID", "{}"),
        ("GenericClient.CreateOrUpdateByID", "text"),
        (
            "GenericClient.CreateOrUpdateByID",
            r#"{"type":"GenericResource","token":{}}"#,
        ),
        ("GenericClient.CreateOrUpdateByID", &long),
    ] {
        assert!(
            ResumeToken::parse(poller_id, text, &server()).is_err(),
            "{poller_id}"
        );
    }
}

#[test]
fn signed_urls_are_redacted_in_debug() {
    let text = format!("{:?}", token(Style::Location));
    assert!(
        !text.contains("operations") && !text.contains("h=4"),
        "{text}"
    );
    let progress = Progress::InProgress {
        token: token(Style::Location),
        retry_after: None,
    };
    assert!(!format!("{progress:?}").contains("h=4"));
}

proptest! {
    #[test]
    fn resume_tokens_round_trip(path in "/[a-zA-Z0-9/?=&%-]{0,40}", state in "[a-zA-Z: ]{0,20}", style in 0..4usize, delete in any::<bool>()) {
        let styles = [Style::AsyncOperation, Style::OperationLocation, Style::Location, Style::Body];
        let style = styles[style];
        let method = if delete { Method::Delete } else { Method::CreateOrUpdate };
        let original = matches!(style, Style::AsyncOperation | Style::OperationLocation)
            .then(|| RESOURCE.to_owned());
        let token = ResumeToken { method, style, poll: path, original, state };
        prop_assert_eq!(parse(method, &token.to_text(&server())), Ok(token));
    }

    #[test]
    fn any_response_is_handled(status in 100..600u16, state in ".{0,12}", location in "[ -~]{0,40}") {
        let body = json!({"id": "/x", "status": state, "properties": {"provisioningState": state}});
        let pairs = [("location", location.as_str()), ("azure-asyncoperation", location.as_str())];
        for method in Method::ALL {
            begun(method, status, &pairs, &body);
        }
        for style in [Style::AsyncOperation, Style::Location, Style::Body] {
            polled(style, status, &pairs, &body);
        }
    }
}
