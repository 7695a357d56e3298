use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use insula_admission::review::{Answer, Mode, Review};
use insula_admission::webhook::{Failure, Webhook};
use insula_admission::{Operation, Refusal, UserInfo, VersionedObjects};
use insula_kinds::Value;
use serde_json::json;

use super::{hook, object, request, target};

fn asked(hook: &Webhook, mode: Mode) -> Review {
    let user = UserInfo::default();
    let of = target("", "v1", "configmaps", "ConfigMap");
    let request = request(&user, Operation::Create, of.clone());
    Review::new(
        hook,
        mode,
        &request,
        &of,
        VersionedObjects::default(),
        "u1".to_owned(),
    )
    .unwrap()
}

fn answered(mode: Mode, version: &str, answer: Value) -> Result<Answer, Failure> {
    let hook = hook(json!({"admissionReviewVersions": ["v9", version]}));
    asked(&hook, mode).read(&hook, answer.to_string().as_bytes())
}

/// A `v1` response with these fields.
fn v1(response: Value) -> Value {
    let mut whole = json!({"uid": "u1"});
    for (member, value) in object(response) {
        whole[member] = value;
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": whole})
}

fn failed(why: &str) -> Failure {
    let why = format!("failed calling webhook \"v1.ex.io\": {why}");
    Failure::Refused(Refusal::internal(&why))
}

#[test]
fn review_is_serialized_as_in_kubernetes() {
    let user = UserInfo {
        username: "alice".to_owned(),
        uid: String::new(),
        groups: vec!["g".to_owned()],
        extra: object(json!({"k": ["v"]})),
    };
    let of = target("autoscaling", "v1", "horizontalpodautoscalers", "HPA");
    let matched = target("autoscaling", "v2", "horizontalpodautoscalers", "HPA");
    let options = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"});
    let mut request = request(&user, Operation::Update, of);
    request.subresource = "status";
    request.dry_run = true;
    request.options = Some(&options);
    let object = object(json!({"metadata": {"name": "z"}}));
    let subject = VersionedObjects {
        object: Some(&object),
        old: None,
    };
    let hook = hook(json!({"admissionReviewVersions": ["v1beta1", "v1"]}));
    let review = Review::new(
        &hook,
        Mode::Validating,
        &request,
        &matched,
        subject,
        "u1".to_owned(),
    );
    let kind = |version| format!(r#"{{"group":"autoscaling","version":"{version}","kind":"HPA"}}"#);
    let resource = |version| {
        format!(
            r#"{{"group":"autoscaling","version":"{version}","resource":"horizontalpodautoscalers"}}"#
        )
    };
    let expected = format!(
        concat!(
            r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{{"#,
            r#""uid":"u1","kind":{},"resource":{},"subResource":"status","requestKind":{},"#,
            r#""requestResource":{},"requestSubResource":"status","name":"z","namespace":"n1","#,
            r#""operation":"UPDATE","userInfo":{{"username":"alice","groups":["g"],"#,
            r#""extra":{{"k":["v"]}}}},"object":{{"metadata":{{"name":"z"}}}},"oldObject":null,"#,
            r#""dryRun":true,"options":{{"apiVersion":"meta.k8s.io/v1","kind":"UpdateOptions"}}}}}}"#,
        ),
        kind("v2"),
        resource("v2"),
        kind("v1"),
        resource("v1"),
    );
    let body = String::from_utf8(review.unwrap().body).unwrap();
    assert_eq!(body, expected);
}

#[test]
fn webhook_without_a_known_review_version_fails() {
    let hook = hook(json!({"admissionReviewVersions": ["v9"]}));
    let user = UserInfo::default();
    let of = target("", "v1", "configmaps", "ConfigMap");
    let request = request(&user, Operation::Create, of.clone());
    let made = Review::new(
        &hook,
        Mode::Mutating,
        &request,
        &of,
        VersionedObjects::default(),
        "u".to_owned(),
    );
    let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
    assert_eq!(made.unwrap_err(), failed(why));
}

#[test]
fn denial_uses_the_status_of_the_webhook() {
    for (status, code, reason, message) in [
        (
            json!({"message": "nope because", "reason": "Conflict", "code": 409}),
            409,
            "Conflict",
            "admission webhook \"v1.ex.io\" denied the request: nope because",
        ),
        (
            json!({"reason": "Gone", "code": 200}),
            400,
            "Gone",
            "admission webhook \"v1.ex.io\" denied the request: Gone",
        ),
        (
            Value::Null,
            400,
            "",
            "admission webhook \"v1.ex.io\" denied the request without explanation",
        ),
    ] {
        for version in ["v1", "v1beta1"] {
            let mut answer = v1(json!({"allowed": false, "status": status}));
            answer["apiVersion"] = format!("admission.k8s.io/{version}").into();
            let found = answered(Mode::Validating, version, answer).unwrap();
            let refusal = found.refusal.unwrap();
            assert_eq!(refusal.code, code);
            assert_eq!(refusal.reason, reason);
            assert_eq!(refusal.message, message);
        }
    }
}

#[test]
fn warnings_and_annotations_are_kept_on_denial() {
    for allowed in [true, false] {
        let answer = v1(json!({
            "allowed": allowed, "warnings": ["w one", "w two"], "auditAnnotations": {"k": "v"},
        }));
        let found = answered(Mode::Mutating, "v1", answer).unwrap();
        assert_eq!(found.refusal.is_none(), allowed);
        assert_eq!(found.warnings, ["w one", "w two"]);
        let expected = ("v1.ex.io/k".to_owned(), "v".to_owned());
        assert_eq!(found.annotations, [expected]);
    }
}

#[test]
fn invalid_response_is_reported_in_kubernetes_wording() {
    let patch = STANDARD.encode("[]");
    let invalid = |why: &str| format!("received invalid webhook response: {why}");
    let call = |why: &str| format!("failed to call webhook: {why}");
    let review = |version: &str| json!({"apiVersion": version, "kind": "AdmissionReview"});
    for (mode, answer, why) in [
        (
            Mode::Validating,
            review("admission.k8s.io/v1"),
            invalid("webhook response was absent"),
        ),
        (
            Mode::Validating,
            v1(json!({"uid": "zz"})),
            invalid("expected response.uid=\"u1\", got \"zz\""),
        ),
        (
            Mode::Validating,
            json!({"response": {"uid": "u1", "allowed": true}}),
            invalid(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
            ),
        ),
        (
            Mode::Validating,
            review("admission.k8s.io/v9"),
            call(
                "no kind \"AdmissionReview\" is registered for version \"admission.k8s.io/v9\" in scheme \"k8s.io/apiserver/pkg/util/webhook/client.go:71\"",
            ),
        ),
        (
            Mode::Validating,
            review("admission.k8s.io/v1beta1"),
            call(
                "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
            ),
        ),
        (
            Mode::Validating,
            v1(json!({"patch": patch})),
            invalid("validating webhook may not return response.patch"),
        ),
        (
            Mode::Validating,
            v1(json!({"patchType": ""})),
            invalid("validating webhook may not return response.patchType"),
        ),
        (
            Mode::Mutating,
            v1(json!({"patch": patch})),
            invalid("webhook returned response.patch but not response.patchType"),
        ),
        (
            Mode::Mutating,
            v1(json!({"patchType": "JSONPatch"})),
            invalid("webhook returned response.patchType but not response.patch"),
        ),
        (
            Mode::Mutating,
            v1(json!({"patch": patch, "patchType": ""})),
            invalid("webhook returned invalid response.patchType of \"\""),
        ),
        (
            Mode::Mutating,
            v1(json!({"allowed": true, "patch": patch, "patchType": "Merge"})),
            "unsupported patch type \"Merge\"".to_owned(),
        ),
        (
            Mode::Mutating,
            v1(json!({"allowed": "yes"})),
            call(
                "json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type bool",
            ),
        ),
        (
            Mode::Mutating,
            v1(json!({"patch": "a*=="})),
            call("illegal base64 data at input byte 1"),
        ),
    ] {
        let said = answer.to_string();
        assert_eq!(answered(mode, "v1", answer), Err(failed(&why)), "{said}");
    }
}

#[test]
fn malformed_json_is_reported_in_gos_wording() {
    let hook = hook(json!({}));
    let review = asked(&hook, Mode::Validating);
    for (body, why) in [
        ("", "unexpected end of JSON input"),
        (
            "nope",
            "invalid character 'o' in literal null (expecting 'u')",
        ),
    ] {
        let why =
            format!("failed to call webhook: couldn't get version/kind; json parse error: {why}");
        assert_eq!(review.read(&hook, body.as_bytes()), Err(failed(&why)));
    }
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(
        review
            .read(&hook, deep.as_bytes())
            .is_err_and(|why| why != failed(""))
    );
}

#[test]
fn v1beta1_responses_have_no_requirements() {
    let patch = STANDARD.encode(r#"[{"op":"add","path":"/a","value":1}]"#);
    let answer = json!({"response": {"allowed": true, "patch": patch}});
    let mutating = answered(Mode::Mutating, "v1beta1", answer.clone()).unwrap();
    let validating = answered(Mode::Validating, "v1beta1", answer).unwrap();
    assert!(mutating.patch.is_some());
    assert_eq!(validating, Answer::default());
}

#[test]
fn call_failures_can_be_ignored_but_inapplicable_patches_cannot() {
    let hook = hook(json!({"failurePolicy": "Ignore"}));
    let review = asked(&hook, Mode::Mutating);
    let ignored = review.read(&hook, b"{}").unwrap_err();
    let why = "failed calling webhook \"v1.ex.io\": received invalid webhook response: webhook response was absent";
    assert_eq!(ignored, Failure::Ignored(why.to_owned()));
    let patch = |patch: &str| {
        let patch = STANDARD.encode(patch);
        let answer = v1(json!({"allowed": true, "patch": patch, "patchType": "JSONPatch"}));
        let answer = review.read(&hook, answer.to_string().as_bytes()).unwrap();
        answer.patch.unwrap()
    };
    let mut object = Some(json!({"data": {}}));
    let remove = patch(r#"[{"op":"remove","path":"/nope"}]"#);
    let why =
        "error in remove for path: '/nope': Unable to remove nonexistent key: nope: missing value";
    let refused = Failure::Refused(Refusal::internal(why));
    assert_eq!(remove.apply(&hook, &mut object), Err(refused));
    let why = "failed calling webhook \"v1.ex.io\": received undecodable patch in webhook response: json: cannot unmarshal object into Go value of type jsonpatch.Patch";
    let ignored = Failure::Ignored(why.to_owned());
    assert_eq!(patch("{}").apply(&hook, &mut object), Err(ignored));
    assert_eq!(patch("[]").apply(&hook, &mut None), Ok(false));
    let why = "admission webhook \"v1.ex.io\" attempted to modify the object, which is not supported for this operation";
    let refused = Failure::Refused(Refusal::internal(why));
    assert_eq!(remove.apply(&hook, &mut None), Err(refused));
    let add = patch(r#"[{"op":"add","path":"/data/a","value":"b"}]"#);
    assert_eq!(add.apply(&hook, &mut object), Ok(true));
    assert_eq!(object, Some(json!({"data": {"a": "b"}})));
}

#[test]
fn dry_run_is_rejected_by_webhooks_with_side_effects() {
    let user = UserInfo::default();
    let of = target("", "v1", "configmaps", "ConfigMap");
    let mut request = request(&user, Operation::Create, of);
    for effects in [json!("Some"), json!("Unknown"), Value::Null] {
        assert_eq!(
            hook(json!({"sideEffects": effects})).check_dry_run(&request),
            Ok(())
        );
    }
    request.dry_run = true;
    for effects in ["None", "NoneOnDryRun"] {
        assert_eq!(
            hook(json!({"sideEffects": effects})).check_dry_run(&request),
            Ok(())
        );
    }
    let refused = hook(json!({"sideEffects": "Some"})).check_dry_run(&request);
    let why = "admission webhook \"v1.ex.io\" does not support dry run".to_owned();
    assert_eq!(refused, Err(Failure::Refused(Refusal::bad_request(why))));
    let refused = hook(json!({"sideEffects": null})).check_dry_run(&request);
    assert_eq!(refused, Err(failed("Webhook SideEffects is nil")));
}
