//! Shapes of errors, and their classes.

use http::HeaderValue;
use serde_json::json;

use super::*;

fn read(status: u16, body: &str) -> ArmError {
    let headers = HeaderMap::from_iter([(
        http::HeaderName::from_static(REQUEST_ID),
        HeaderValue::from_static("r-1"),
    )]);
    ArmError::of_response(
        StatusCode::from_u16(status).unwrap(),
        &headers,
        body.as_bytes(),
    )
}

#[test]
fn all_shapes_of_bodies_are_read() {
    let nested = json!({"error": {"code": "A", "message": "m", "target": "t",
        "details": [{"code": "B", "message": "n", "target": "u"}]}});
    let capitalised = json!({"Code": "A", "Message": "m", "Target": "t",
        "Details": [{"Code": "B", "Message": "n", "Target": "u"}], "Innererror": null});
    let top = json!({"code": "A", "message": "m", "target": "t",
        "details": [{"code": "B", "message": "n", "target": "u"}]});
    for body in [nested, capitalised, top] {
        let error = read(409, &body.to_string());
        assert_eq!(
            (error.code.as_str(), error.message.as_str()),
            ("A", "m"),
            "{body}"
        );
        assert_eq!(error.target.as_deref(), Some("t"));
        let detail = Detail {
            code: "B".to_owned(),
            message: "n".to_owned(),
            target: Some("u".to_owned()),
        };
        assert_eq!(error.details, [detail]);
        assert_eq!(error.to_string(), "A: m; n (request r-1)");
    }
    let problem = r#"{"type": "https://x", "title": "Not found", "status": 404, "traceId": "1"}"#;
    for (status, body, code, message, display) in [
        (
            404,
            r#"{"code": "NotFound", "details": null}"#,
            "NotFound",
            "",
            "NotFound (request r-1)",
        ),
        (405, r#"{"Message": "no"}"#, "", "no", "no (request r-1)"),
        (404, problem, "", "Not found", "Not found (request r-1)"),
        (500, "", "", "", "Azure answers HTTP 500 (request r-1)"),
        (
            502,
            "<html>Bad gateway</html>",
            "",
            "",
            "Azure answers HTTP 502 (request r-1)",
        ),
        (400, "[]", "", "", "Azure answers HTTP 400 (request r-1)"),
        (
            400,
            r#"{"error": "text"}"#,
            "",
            "",
            "Azure answers HTTP 400 (request r-1)",
        ),
        (400, r#"{"error": {"code": 7}}"#, "7", "", "7 (request r-1)"),
        (
            400,
            r#"{"error": {"code": "X", "message": "a\nb"}}"#,
            "X",
            "a b",
            "X: a b (request r-1)",
        ),
    ] {
        let error = read(status, body);
        assert_eq!(
            (error.code.as_str(), error.message.as_str()),
            (code, message),
            "{body}"
        );
        assert_eq!(error.to_string(), display);
    }
}

#[test]
fn texts_of_errors_are_bounded() {
    let details = vec![json!({"message": "d"}); 1000];
    let body = json!({"error": {"message": "m".repeat(10_000), "details": details}});
    let error = read(400, &body.to_string());
    assert_eq!(
        (error.message.len(), error.details.len()),
        (MAX_TEXT, MAX_DETAILS)
    );
}

#[test]
fn retries_follow_code_and_status() {
    for (status, code, expected) in [
        (409, "AnotherOperationInProgress", Retry::Fast),
        (404, "ResourceGroupNotFound", Retry::Fast),
        (409, "MissingSubscriptionRegistration", Retry::Fast),
        (403, "AuthorizationFailed", Retry::Slow),
        (403, "RequestDisallowedByPolicy", Retry::Slow),
        (409, "ResourceQuotaExceeded", Retry::Slow),
        (400, "BadRequest", Retry::VerySlow),
        (404, "SubscriptionNotFound", Retry::VerySlow),
        (409, "ScopeLocked", Retry::VerySlow),
        (400, "LocationRequired", Retry::Never),
        (409, "PropertyChangeNotAllowed", Retry::Never),
        (400, "SomethingElse", Retry::VerySlow),
        (409, "SomethingElse", Retry::Slow),
        (400, "", Retry::Slow),
        (503, "", Retry::Slow),
    ] {
        let error = ArmError::new(StatusCode::from_u16(status).unwrap(), code, "");
        assert_eq!(
            error.retry(Request::CreateOrUpdate),
            expected,
            "{status} {code}"
        );
        let of_delete = error.retry(Request::Delete);
        assert!(of_delete <= Retry::Slow, "{status} {code}");
    }
    assert_eq!(Retry::Fast.max_backoff().map(|max| max.as_secs()), Some(30));
    assert_eq!(
        Retry::Slow.max_backoff().map(|max| max.as_secs()),
        Some(180)
    );
    assert_eq!(
        (Retry::VerySlow.max_backoff(), Retry::Never.max_backoff()),
        (None, None)
    );
}

#[test]
fn missing_registration_names_the_provider() {
    let body = |code: &str, target: &str| {
        json!({"error": {"code": code, "details": [{"target": target}]}}).to_string()
    };
    let missing = "MissingSubscriptionRegistration";
    for (status, body, expected) in [
        (
            409,
            body(missing, "Microsoft.Cache"),
            Some("Microsoft.Cache"),
        ),
        (404, body(missing, "Microsoft.Cache"), None),
        (409, body("Conflict", "Microsoft.Cache"), None),
        (409, body(missing, "../../x"), None),
        (409, body(missing, ""), None),
        (409, json!({"error": {"code": missing}}).to_string(), None),
    ] {
        assert_eq!(
            read(status, &body).missing_provider(),
            expected,
            "{status} {body}"
        );
    }
}

#[test]
fn repeated_secret_is_redacted() {
    let body = json!({"error": {"code": "X", "message": "token s3cret-token", "target": "s3cret-token",
        "details": [{"message": "s3cret-token"}]}});
    let error = read(401, &body.to_string()).without("s3cret-token");
    let text = format!("{error} {error:?}");
    assert!(!text.contains("s3cret-token"), "{text}");
    assert_eq!(error.message, "token ****");
}

#[test]
fn refused_tokens_are_recognized() {
    for (status, code, expected) in [
        (401, "ExpiredAuthenticationToken", true),
        (401, "InvalidAuthenticationToken", true),
        (401, "AuthenticationFailed", false),
        (403, "ExpiredAuthenticationToken", false),
    ] {
        let error = ArmError::new(StatusCode::from_u16(status).unwrap(), code, "");
        assert_eq!(error.is_token_refused(), expected, "{status} {code}");
    }
}
