use std::sync::Mutex;

use http::header::CONTENT_TYPE;
use k8s_openapi::ByteString;
use serde_json::json;

use super::*;
use crate::webhook::Operation;

fn request(method: &str, path: &str, content_type: &str, body: &str) -> Request<Bytes> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(CONTENT_TYPE, content_type)
        .body(Bytes::from(body.to_owned()))
        .expect("a request")
}

fn post(path: &str, body: &Value) -> Request<Bytes> {
    request("POST", path, "application/json", &body.to_string())
}

async fn respond(router: &Router, request: Request<Bytes>) -> (u16, Value) {
    let response = router.handle(request, None).await;
    let status = response.status().as_u16();
    let text = String::from_utf8(response.body().to_vec()).expect("text");
    let value = serde_json::from_str(&text).unwrap_or_else(|_| json!(text));
    (status, value)
}

fn review(request: Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
}

fn create(name: &str, object: Value) -> Value {
    review(json!({
        "uid": "u-1", "operation": "CREATE", "name": name, "namespace": "default",
        "kind": {"group": "ex.io", "version": "v1", "kind": "Foo"},
        "resource": {"group": "ex.io", "version": "v1", "resource": "foos"},
        "userInfo": {"username": "alice", "groups": ["dev"], "extra": {"t": ["t1"]}},
        "object": object, "oldObject": null, "dryRun": true,
        "options": {"kind": "CreateOptions", "fieldManager": "kubectl"},
    }))
}

fn conversion(version: &str, objects: Value) -> Value {
    let request = json!({"uid": "u-2", "desiredAPIVersion": version, "objects": objects});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request,
    })
}

/// Converts `color` of `v1` to `hue` of `v2` and back.
fn convert(mut object: Value, desired: &str) -> Result<Value, String> {
    let (from, to) = match desired {
        "ex.io/v2" => ("color", "hue"),
        "ex.io/v1" => ("hue", "color"),
        other => return Err(format!("there is no version {other}")),
    };
    let spec = object["spec"].as_object_mut().ok_or("there is no spec")?;
    let value = spec.remove(from).ok_or(format!("there is no {from}"))?;
    spec.insert(to.to_owned(), value);
    object["apiVersion"] = desired.into();
    // What a careless handler does.
    object["metadata"]["uid"] = "other".into();
    object["metadata"]["labels"]["converted"] = desired.replace('/', "-").into();
    Ok(object)
}

fn router() -> Router {
    Router::new()
        .validating("/validate", |request| async move {
            match request.name.as_str() {
                "bad" => AdmissionResponse::deny_with(422, "Invalid", "spec.size: too large")
                    .with_warning("spec.size is deprecated"),
                "panic" => panic!("this is about panics"),
                "patch" => AdmissionResponse::allow_with_patch(vec![json!({"op": "test"})]),
                _ => AdmissionResponse::allow().with_audit_annotation("checked", "yes"),
            }
        })
        .mutating("/mutate", |request| async move {
            let mut object = request.object.clone().unwrap_or_default();
            object["spec"]["size"] = 3.into();
            AdmissionResponse::allow_changed(&request, &object)
        })
        .conversion("/convert", convert)
        .conversion("/panic", |_, _| panic!("this is about panics"))
        .conversion("/wrong", |mut object, _| {
            object["kind"] = "Bar".into();
            object["apiVersion"] = "ex.io/v2".into();
            Ok(object)
        })
        .conversion("/same", |object, _| Ok(object))
        .conversion("/bare", |object, desired| {
            Ok(json!({"apiVersion": desired, "kind": object["kind"]}))
        })
}

#[tokio::test]
async fn admission_reviews_are_answered() {
    let response = |response: Value| {
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        })
    };
    let patch = json!([
        {"op": "replace", "path": "/spec/size", "value": 3},
    ]);
    let patch = json!(ByteString(patch.to_string().into_bytes()));
    for (path, name, object, expected) in [
        (
            "/validate",
            "good",
            json!({"spec": {}}),
            json!({"uid": "u-1", "allowed": true, "auditAnnotations": {"checked": "yes"}}),
        ),
        (
            "/validate",
            "bad",
            json!({"spec": {}}),
            json!({
                "uid": "u-1", "allowed": false,
                "status": {
                    "status": "Failure", "code": 422, "reason": "Invalid",
                    "message": "spec.size: too large",
                },
                "warnings": ["spec.size is deprecated"],
            }),
        ),
        (
            "/mutate",
            "a",
            json!({"spec": {"size": 1}}),
            json!({"uid": "u-1", "allowed": true, "patchType": "JSONPatch", "patch": patch}),
        ),
        (
            "/mutate",
            "unchanged",
            json!({"spec": {"size": 3}}),
            json!({"uid": "u-1", "allowed": true}),
        ),
    ] {
        let found = respond(&router(), post(path, &create(name, object))).await;
        assert_eq!(found, (200, response(expected)), "{path} {name}");
    }
}

#[tokio::test]
async fn handler_gets_the_whole_request_and_the_space() {
    let seen: Arc<Mutex<Vec<AdmissionRequest>>> = Arc::default();
    let record = Arc::clone(&seen);
    let router = Router::new().validating("/v", move |request| {
        record.lock().expect("no panic").push(request);
        async { AdmissionResponse::allow() }
    });
    let body = create("a", json!({"spec": {"size": 1}}));
    let space = Some(ObjectSpace::Tenant("t1".to_owned()));
    router.handle(post("/v?timeout=10s", &body), space).await;
    let deletion = review(json!({
        "uid": "u-3", "operation": "DELETE", "name": "a", "subResource": "status",
        "kind": {"group": "", "version": "v1", "kind": "Node"},
        "resource": {"group": "", "version": "v1", "resource": "nodes"},
        "oldObject": {"kind": "Node"},
    }));
    router.handle(post("/v", &deletion), None).await;
    let seen = seen.lock().expect("no panic");
    let [first, second] = &seen[..] else {
        panic!("{seen:?}");
    };
    assert_eq!(first.operation, Operation::Create);
    assert_eq!((&*first.namespace, &*first.name), ("default", "a"));
    assert_eq!(first.kind.kind, "Foo");
    assert_eq!(first.resource.resource, "foos");
    assert_eq!(first.user_info.username.as_deref(), Some("alice"));
    assert_eq!(first.user_info.extra.as_ref().expect("it")["t"], ["t1"]);
    assert_eq!(first.object, Some(json!({"spec": {"size": 1}})));
    assert_eq!(first.old_object, None);
    assert!(first.dry_run);
    assert_eq!(
        first.options.as_ref().expect("it")["fieldManager"],
        "kubectl"
    );
    assert_eq!(first.space, Some(ObjectSpace::Tenant("t1".to_owned())));
    assert_eq!(second.operation, Operation::Delete);
    assert_eq!(second.sub_resource, "status");
    assert_eq!((&*second.namespace, second.dry_run), ("", false));
    assert_eq!(second.object, None);
    assert_eq!(second.old_object, Some(json!({"kind": "Node"})));
    assert_eq!(second.space, None);
}

#[tokio::test]
async fn unusable_requests_get_a_status_and_a_text() {
    let json = "application/json";
    let wrong_kind = conversion("ex.io/v2", json!([])).to_string();
    let v1beta1 = r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}"#;
    let empty = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#;
    let no_uid = create("a", json!({})).to_string().replace("u-1", "");
    let no_version = conversion("", json!([])).to_string();
    let panic = create("panic", json!({})).to_string();
    let patch = create("patch", json!({})).to_string();
    let foo = json!([{"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "a"}}]);
    let foo = conversion("ex.io/v2", foo).to_string();
    for (method, path, content_type, body, status, text) in [
        (
            "POST",
            "/other",
            json,
            empty,
            404,
            "no webhook has this path",
        ),
        ("GET", "/validate", json, empty, 405, "only POST is allowed"),
        ("POST", "/healthz", json, empty, 405, "only GET is allowed"),
        ("GET", "/healthz", "text/plain", "", 200, "ok"),
        (
            "POST",
            "/validate",
            "text/plain",
            empty,
            415,
            "the content type must be application/json",
        ),
        (
            "POST",
            "/validate",
            json,
            "{",
            400,
            "the body is no AdmissionReview: EOF while parsing an object at line 1 column 1",
        ),
        (
            "POST",
            "/validate",
            json,
            &wrong_kind,
            400,
            "expected admission.k8s.io/v1, Kind=AdmissionReview, \
             got \"apiextensions.k8s.io/v1\", Kind=\"ConversionReview\"",
        ),
        (
            "POST",
            "/validate",
            json,
            v1beta1,
            400,
            "expected admission.k8s.io/v1, Kind=AdmissionReview, \
             got \"admission.k8s.io/v1beta1\", Kind=\"AdmissionReview\"",
        ),
        (
            "POST",
            "/validate",
            json,
            empty,
            400,
            "the AdmissionReview has no request",
        ),
        (
            "POST",
            "/validate",
            "application/json; charset=utf-8",
            &no_uid,
            400,
            "the request of the AdmissionReview has no uid",
        ),
        (
            "POST",
            "/convert",
            json,
            &no_version,
            400,
            "the request of the ConversionReview has no desiredAPIVersion",
        ),
        (
            "POST",
            "/validate",
            json,
            &panic,
            500,
            "the handler panicked",
        ),
        ("POST", "/panic", json, &foo, 500, "the handler panicked"),
        (
            "POST",
            "/validate",
            json,
            &patch,
            500,
            "the handler of a validating webhook returned a patch",
        ),
    ] {
        let found = respond(&router(), request(method, path, content_type, body)).await;
        let expected = (status, json!(format!("{text}\n")));
        assert_eq!(found, expected, "{method} {path} {body}");
    }
    let refused = router()
        .handle(request("PUT", "/convert", json, ""), None)
        .await;
    assert_eq!(refused.headers()[ALLOW], "POST");
}

fn foo(name: &str, version: &str, spec: Value) -> Value {
    json!({
        "apiVersion": version, "kind": "Foo", "spec": spec,
        "metadata": {
            "name": name, "namespace": "default", "uid": "u", "labels": {"a": "b"},
            "annotations": {"c": "d"}, "ownerReferences": [{"uid": "o"}],
        },
    })
}

async fn converted(path: &str, objects: Value) -> Value {
    let review = conversion("ex.io/v2", objects);
    let (status, review) = respond(&router(), post(path, &review)).await;
    assert_eq!(status, 200, "{review}");
    assert_eq!(review["apiVersion"], "apiextensions.k8s.io/v1");
    assert_eq!(review["kind"], "ConversionReview");
    assert_eq!(review["response"]["uid"], "u-2");
    review["response"].clone()
}

#[tokio::test]
async fn objects_are_converted_in_order_with_their_metadata() {
    let objects = json!([
        foo("a", "ex.io/v1", json!({"color": "red"})),
        foo("b", "ex.io/v2", json!({"hue": "blue"})),
        foo("c", "ex.io/v1", json!({"color": "green"})),
    ]);
    let response = converted("/convert", objects).await;
    assert_eq!(response["result"], json!({"status": "Success"}));
    let mut expected = [
        foo("a", "ex.io/v2", json!({"hue": "red"})),
        // It has the desired version already.
        foo("b", "ex.io/v2", json!({"hue": "blue"})),
        foo("c", "ex.io/v2", json!({"hue": "green"})),
    ];
    for changed in [0, 2] {
        expected[changed]["metadata"]["labels"]["converted"] = "ex.io-v2".into();
    }
    assert_eq!(response["convertedObjects"], json!(expected));
    // A handler that builds a new object loses no metadata.
    let objects = json!([foo("a", "ex.io/v1", json!({}))]);
    let response = converted("/bare", objects.clone()).await;
    let metadata = &response["convertedObjects"][0]["metadata"];
    assert_eq!(metadata, &objects[0]["metadata"]);
}

#[tokio::test]
async fn review_fails_as_a_whole_and_names_the_object() {
    let good = foo("good", "ex.io/v1", json!({"color": "red"}));
    let bad = foo("bad", "ex.io/v1", json!({"size": 1}));
    for (path, objects, message) in [
        (
            "/convert",
            json!([good, bad]),
            "Foo default/bad of ex.io/v1 not converted to ex.io/v2: there is no color",
        ),
        (
            "/wrong",
            json!([good]),
            "Foo default/good of ex.io/v1 not converted to ex.io/v2: \
             the handler returned the kind \"Bar\"",
        ),
        (
            "/same",
            json!([good]),
            "Foo default/good of ex.io/v1 not converted to ex.io/v2: \
             the handler returned the version \"ex.io/v1\"",
        ),
        (
            "/convert",
            json!([1]),
            "  of  not converted to ex.io/v2: it is not an object",
        ),
    ] {
        let response = converted(path, objects).await;
        let expected = json!({
            "uid": "u-2", "convertedObjects": [],
            "result": {"status": "Failure", "message": message},
        });
        assert_eq!(response, expected);
    }
}

/// The runtime of the test has one thread: the message could not be sent if the handler blocked it.
#[tokio::test]
async fn large_reviews_are_handled_off_the_threads_of_the_runtime() {
    let text = "x".repeat(MAX_INLINE_BYTES);
    let object = foo("a", "ex.io/v1", json!({ "color": text }));
    let conversion = conversion("ex.io/v2", json!([object]));
    for (path, body) in [("/convert", conversion), ("/admit", create("a", object))] {
        let (send, receive) = std::sync::mpsc::channel();
        let receive = Arc::new(Mutex::new(receive));
        let wait = move || {
            let receive = receive.lock().expect("no panic");
            let received = receive.recv_timeout(std::time::Duration::from_secs(30));
            received.map_err(|error| error.to_string())
        };
        let waits = wait.clone();
        let router = Router::new()
            .conversion("/convert", move |object, desired| {
                wait()?;
                convert(object, desired)
            })
            .validating("/admit", move |_| {
                let waited = waits();
                async move {
                    waited.map_or_else(AdmissionResponse::deny, |()| AdmissionResponse::allow())
                }
            });
        let responded = tokio::spawn(async move { respond(&router, post(path, &body)).await });
        let sent = tokio::spawn(async move { send.send(()) });
        assert_eq!(sent.await.expect("no panic"), Ok(()));
        let (status, review) = responded.await.expect("no panic");
        assert_eq!(status, 200, "{review}");
        let response = &review["response"];
        let is_allowed = response["allowed"] == true;
        assert!(
            is_allowed || response["result"]["status"] == "Success",
            "{response}"
        );
    }
}
