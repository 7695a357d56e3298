use std::sync::Arc;

use http::{HeaderValue, Method, Request};
use insula_core::{CredentialRef, Proof, TenantBinding};
use serde_json::Value;

use super::*;
use crate::pipeline::authenticate::Peer;
use crate::pipeline::route::route;

fn principal(user: &str, home: &str) -> Arc<Principal> {
    Arc::new(Principal {
        user: user.to_owned(),
        uid: None,
        groups: vec!["people".to_owned()],
        extra: Extra::from([("example.com/a".to_owned(), vec!["b".to_owned()])]),
        home: Space::parse(home).unwrap(),
        tenant_binding: TenantBinding::Name,
        proof: Proof::StaticToken,
        credential: CredentialRef::default(),
        impersonator: None,
    })
}

/// The line about a GET of this path.
fn line(path: &str, agent: &[u8], note: impl FnOnce(&mut Notes), ending: &Ending) -> String {
    let request = Request::builder().uri(path);
    let request = request.header(USER_AGENT, HeaderValue::from_bytes(agent).unwrap());
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let mut notes = Notes::of(&route(&Method::GET, parts.uri.path(), false));
    note(&mut notes);
    let id = HeaderValue::from_static("id-1");
    let moment = |micros: u32| Time {
        seconds: 1_000_000_000,
        nanos: micros * 1000,
    };
    let request = ReceivedRequest {
        id: &id,
        parts: &parts,
        peer: &Peer::default().at("192.0.2.7".parse().unwrap()),
        received: moment(1),
    };
    let options = EventOptions {
        stage: match ending {
            Ending::Panicked => Stage::Panic,
            _ => Stage::ResponseComplete,
        },
        level: Level::Metadata,
        ending: Some(*ending),
        bodies: Bodies::default(),
        now: moment(250_000),
    };
    let line = Event::new(&request, &notes, &options).line();
    String::from_utf8(line).unwrap()
}

#[test]
fn an_event_has_everything_in_the_order_of_kubernetes() {
    let note = |notes: &mut Notes| {
        notes.principal = Some(principal("alice", "system"));
        notes.impersonated = Some(principal("bob", "t1"));
        notes.constraint = Some("impersonate:user-info");
        notes.decision = Some(Decision::Allow {
            reason: "RBAC: allowed".into(),
        });
    };
    let path = "/tenants/t1/apis/apps/v1/namespaces/n/deployments/d/scale?pretty=1&token=x";
    let expected = concat!(
        r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","#,
        r#""auditID":"id-1","stage":"ResponseComplete","#,
        r#""requestURI":"/tenants/t1/apis/apps/v1/namespaces/n/deployments/d/scale"#,
        r#"?pretty=1&token=****","verb":"get","#,
        r#""user":{"username":"alice","groups":["people"],"extra":{"example.com/a":["b"]}},"#,
        r#""impersonatedUser":{"username":"bob","groups":["people"],"#,
        r#""extra":{"example.com/a":["b"]}},"#,
        r#""authenticationMetadata":{"impersonationConstraint":"impersonate:user-info"},"#,
        r#""sourceIPs":["192.0.2.7"],"userAgent":"kubectl/v1.36.0","#,
        r#""objectRef":{"resource":"deployments","namespace":"n","name":"d","#,
        r#""apiGroup":"apps","apiVersion":"v1","subresource":"scale"},"#,
        r#""responseStatus":{"metadata":{},"code":200},"#,
        r#""requestReceivedTimestamp":"2001-09-09T01:46:40.000001Z","#,
        r#""stageTimestamp":"2001-09-09T01:46:40.250000Z","#,
        r#""annotations":{"authorization.k8s.io/decision":"allow","#,
        r#""authorization.k8s.io/reason":"RBAC: allowed","#,
        r#""insula.dev/space":"t1","insula.dev/tenant":"system"}}"#,
        "\n",
    );
    assert_eq!(
        line(path, b"kubectl/v1.36.0", note, &Ending::Done(200)),
        expected
    );
}

#[test]
fn whatever_a_client_sends_the_event_is_one_line_of_bounded_json() {
    let long = "n".repeat(20_000);
    let paths = [
        "/nowhere".to_owned(),
        "/api/v1/namespaces/a%0Ab%22%7D/pods/%00".to_owned(),
        format!("/api/v1/namespaces/{long}/pods/{long}?labelSelector={long}"),
        format!("/{long}"),
    ];
    let wide = "ä".repeat(5000);
    let forged = br#"","annotations":{"insula.dev/tenant":"acme"}}"#;
    let agents: [&[u8]; 4] = [b"a\"}\t{\xff\xfe", wide.as_bytes(), forged, b""];
    for path in &paths {
        for agent in agents {
            let said = line(path, agent, |_| {}, &Ending::Done(200));
            assert_eq!(said.matches('\n').count(), 1, "{said}");
            assert!(said.ends_with("}\n") && said.len() < 16 << 10, "{said}");
            let event: Value = serde_json::from_str(&said).unwrap();
            assert_eq!(event["user"], serde_json::json!({}));
            // A client cannot put words into the log that a search takes for the server's.
            assert!(!said.contains(r#""insula.dev/tenant":"#), "{said}");
            let cut = event["userAgent"].as_str().unwrap_or("").ends_with(CUT);
            assert_eq!(cut, agent.len() > MAX_TEXT_BYTES);
        }
    }
}

#[test]
fn a_message_is_told_unless_it_may_repeat_what_was_sent() {
    let unread = |_: &mut Notes| {};
    let read = |notes: &mut Notes| notes.body_read = true;
    let bad = StatusError::bad_request("canary");
    let invalid = StatusError::invalid_patch(&[]);
    let missing = StatusError::no_such_resource();
    for (error, note, loggable_message) in [
        (&missing, unread as fn(&mut Notes), true),
        (&missing, read, false),
        (&bad, unread, false),
        (&bad, read, false),
        (&invalid, unread, false),
    ] {
        let said = line("/api/v1/pods", b"", note, &Ending::Refused(error));
        let event: Value = serde_json::from_str(&said).unwrap();
        let status = &event["responseStatus"];
        assert_eq!(status["code"], error.code);
        assert_eq!(status["status"], "Failure");
        assert_eq!(status["reason"], error.reason());
        let expected = loggable_message.then(|| error.message());
        assert_eq!(status["message"].as_str(), expected, "{error:?}");
    }
}

#[test]
fn every_ending_has_its_stage_and_code() {
    for (ending, stage, code) in [
        (Ending::Done(201), "ResponseComplete", 201),
        (Ending::Abandoned, "ResponseComplete", 499),
        (Ending::Panicked, "Panic", 500),
    ] {
        let said = line("/api/v1/pods", b"", |_| {}, &ending);
        let event: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(event["stage"], stage);
        assert_eq!(event["responseStatus"]["code"], code);
    }
}

#[test]
fn event_of_a_user_with_any_number_of_groups_is_bounded() {
    let note = |notes: &mut Notes| {
        let mut many = (*principal("alice", "t1")).clone();
        many.groups = (0..100_000).map(|index| format!("group-{index}")).collect();
        many.extra = (0..100_000)
            .map(|index| (format!("example.com/{index}"), vec!["v".repeat(5000)]))
            .collect();
        notes.principal = Some(many.into());
        notes.decision = Some(Decision::Forbid {
            reason: "x".repeat(1 << 20).into(),
        });
    };
    let said = line("/api/v1/pods", b"", note, &Ending::Done(200));
    assert!(said.len() < 100 << 10, "{} bytes", said.len());
    let event: Value = serde_json::from_str(&said).unwrap();
    let groups = event["user"]["groups"].as_array().unwrap();
    assert_eq!(groups[0], "group-0");
    assert_eq!(groups.last().unwrap(), CUT);
    let reason = &event["annotations"]["authorization.k8s.io/reason"];
    assert!(reason.as_str().unwrap().ends_with(CUT));
}
