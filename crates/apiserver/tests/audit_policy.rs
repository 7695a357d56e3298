//! The audit policy: levels, stages and bodies of real requests.

use http::Method;
use insula_kinds::{core_kind, kinds, protobuf};
use insula_testkit::server::{Answer, Audit, AuditLog, Client, TestServer};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Rules as in a policy file, one a line.
async fn audited(rules: &str) -> anyhow::Result<(TestServer, AuditLog)> {
    let log = AuditLog::default();
    let policy = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n{rules}\n");
    let server = TestServer::audited(Audit::Policy(log.clone(), policy)).await?;
    Ok((server, log))
}

/// Waits for the last event of a request.
async fn completed(log: &AuditLog, answer: &Answer) -> anyhow::Result<Value> {
    log.event_at(answer.header("audit-id"), "ResponseComplete")
        .await
}

async fn send(
    client: &Client,
    method: Method,
    path: &str,
    media: &str,
    body: impl Into<bytes::Bytes> + Send,
) -> anyhow::Result<Answer> {
    client
        .send(method, path, &[("content-type", media)], body)
        .await
}

const JSON: &str = "application/json";

#[tokio::test]
async fn first_matching_rule_decides_the_level() -> anyhow::Result<()> {
    let rules = "- {level: None, verbs: [get, list, watch]}\n\
                 - {level: Metadata, resources: [{group: '', resources: [secrets]}]}\n\
                 - {level: Request, userGroups: ['tenant:t1']}\n\
                 - {level: RequestResponse, userGroups: ['tenant:t2']}";
    let (mut server, log) = audited(rules).await?;
    let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let map = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let secret = json!({"metadata": {"name": "a"}, "stringData": {"k": "v"}});
    for (client, path, body, level, bodies) in [
        (&one, MAPS, &map, "Request", [true, false]),
        (&two, MAPS, &map, "RequestResponse", [true, true]),
        (&two, SECRETS, &secret, "Metadata", [false, false]),
    ] {
        let event = completed(&log, &client.post(path, body).await?).await?;
        assert_eq!(event["level"], level, "{event}");
        let has = |member: &str| event.get(member).is_some();
        assert_eq!(
            [has("requestObject"), has("responseObject")],
            bodies,
            "{event}"
        );
    }
    let unseen = one.get(MAPS).await?;
    let system = server.system().await?;
    // No rule matches: not recorded.
    let namespace = json!({"metadata": {"name": "n"}});
    let unmatched = system.post("/api/v1/namespaces", &namespace).await?;
    server.stop().await;
    for answer in [unseen, unmatched] {
        let id = answer.header("audit-id");
        assert!(answer.status < 300, "{answer:?}");
        assert!(!log.text().contains(id), "{}", log.text());
    }
    Ok(())
}

#[tokio::test]
async fn stages_are_those_of_kubernetes() -> anyhow::Result<()> {
    let (mut server, log) = audited("- level: Metadata").await?;
    let tenant = server.tenant("t1").await?;
    let read = tenant.get(MAPS).await?;
    let watch = tenant.watch(&format!("{MAPS}?watch=1")).await?;
    let watch_id = watch.headers["audit-id"].to_str()?.to_owned();
    log.event_at(&watch_id, "ResponseStarted").await?;
    let refused = tenant.get("/api/v1/tenants/t2/pods?watch=1").await?;
    let stranger = server.client("wrong").await?.get(MAPS).await?;
    drop(watch);
    let ended = log.event_at(&watch_id, "ResponseComplete").await?;
    assert_eq!(ended["responseStatus"]["code"], 200);
    assert!(ended["stageTimestamp"].as_str() > ended["requestReceivedTimestamp"].as_str());
    server.stop().await;
    let events = log.events()?;
    let stages = |id: &str| -> Vec<(String, Option<u64>)> {
        let of = events.iter().filter(|event| event["auditID"] == id);
        let stage = |event: &Value| {
            let code = event["responseStatus"]["code"].as_u64();
            (event["stage"].as_str().unwrap_or_default().to_owned(), code)
        };
        of.map(stage).collect()
    };
    let at = |stage: &str, code| (stage.to_owned(), code);
    let received = at("RequestReceived", None);
    let started = |code| at("ResponseStarted", Some(code));
    let complete = |code| at("ResponseComplete", Some(code));
    let id = |answer: &Answer| answer.header("audit-id").to_owned();
    assert_eq!(stages(&id(&read)), [received.clone(), complete(200)]);
    assert_eq!(
        stages(&watch_id),
        [received.clone(), started(200), complete(200)]
    );
    assert_eq!(
        stages(&id(&refused)),
        [received, started(403), complete(403)]
    );
    assert_eq!(stages(&id(&stranger)), [started(401)]);
    Ok(())
}

/// A ConfigMap in protobuf.
fn sealed(tree: &Value) -> Vec<u8> {
    let kind = kinds().get(core_kind("configmaps"));
    let mut raw = Vec::new();
    let object = tree.as_object().expect("an object");
    protobuf::encode(kind.type_id(), object, &mut raw);
    protobuf::seal("v1", "ConfigMap", &raw)
}

#[tokio::test]
async fn client_cannot_keep_its_body_out_of_the_event() -> anyhow::Result<()> {
    let (server, log) = audited("- {level: Request, omitManagedFields: true}").await?;
    let tenant = server.tenant("t1").await?;
    let kind = kinds().get(core_kind("configmaps"));
    let (mut raw, mut account) = (Vec::new(), Vec::new());
    let map = json!({"metadata": {"name": "proto"}, "data": {"k": "marker"}});
    protobuf::encode(kind.type_id(), map.as_object().unwrap(), &mut raw);
    let kind = kinds().get(core_kind("serviceaccounts"));
    let tree = json!({"metadata": {"name": "marker"}});
    protobuf::encode(kind.type_id(), tree.as_object().unwrap(), &mut account);
    let with = |name: &str, hidden: &str| {
        let meta = format!(r#"{{"name":"{name}","managedFields":[]}}"#);
        format!(r#"{{"metadata":{meta},"data":{{"k":"marker"}},"zz":{hidden}}}"#).into_bytes()
    };
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let protobuf = "application/vnd.kubernetes.protobuf";
    for (path, media, body) in [
        (MAPS, protobuf, protobuf::seal("", "", &raw)),
        (accounts, protobuf, protobuf::seal("", "", &account)),
        (MAPS, JSON, with("number", "1e999")),
        (MAPS, JSON, with("surrogate", r#""\ud800""#)),
        (MAPS, JSON, with("deep", &deep)),
    ] {
        let answer = send(&tenant, Method::POST, path, media, body).await?;
        assert_eq!(answer.status, 201, "{answer:?}");
        let event = completed(&log, &answer).await?;
        let sent = event["requestObject"].to_string();
        assert!(sent.contains("marker"), "{event}");
    }
    Ok(())
}

#[tokio::test]
async fn bodies_are_json_in_whatever_format_they_are_sent() -> anyhow::Result<()> {
    let (server, log) = audited("- level: RequestResponse").await?;
    let tenant = server.tenant("t1").await?;
    let json = b"{\n  \"metadata\": {\"name\": \"a\"},\n  \"data\": {\"k\": \"x y\"}\n}".to_vec();
    let yaml = b"metadata: {name: b}\ndata:\n  k: x y\n".to_vec();
    let proto = sealed(&json!({"metadata": {"name": "c"}, "data": {"k": "x y"}}));
    for (media, body, name) in [
        (JSON, json, "a"),
        ("application/yaml", yaml, "b"),
        ("application/vnd.kubernetes.protobuf", proto, "c"),
    ] {
        let accept = [("content-type", media), ("accept", media)];
        let answer = tenant.send(Method::POST, MAPS, &accept, body).await?;
        assert_eq!(answer.status, 201, "{media}");
        let event = completed(&log, &answer).await?;
        for object in ["requestObject", "responseObject"] {
            assert_eq!(event[object]["metadata"]["name"], name, "{media} {event}");
            assert_eq!(
                event[object]["data"],
                json!({"k": "x y"}),
                "{media} {event}"
            );
        }
        assert_eq!(event["responseObject"]["kind"], "ConfigMap", "{event}");
        assert!(event["responseObject"]["metadata"]["uid"].is_string());
    }
    let list = [("accept", "application/vnd.kubernetes.protobuf")];
    let answer = tenant.send(Method::GET, MAPS, &list, "").await?;
    let event = completed(&log, &answer).await?;
    let names: Vec<_> = event["responseObject"]["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|item| item["metadata"]["name"].clone())
        .collect();
    assert_eq!(names.get(..3), Some(&["a", "b", "c"].map(Value::from)[..]));
    assert_eq!(event["responseObject"]["kind"], "ConfigMapList");
    Ok(())
}

#[tokio::test]
async fn patches_options_and_errors_are_bodies_too() -> anyhow::Result<()> {
    let (server, log) = audited("- level: RequestResponse").await?;
    let tenant = server.tenant("t1").await?;
    let map = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    tenant.post(MAPS, &map).await?;
    let path = format!("{MAPS}/a");
    let patch = "[{\"op\": \"replace\", \"path\": \"/data/k\", \"value\": \"w\"}]";
    let media = "application/json-patch+json";
    let patched = send(&tenant, Method::PATCH, &path, media, patch).await?;
    let event = completed(&log, &patched).await?;
    assert_eq!(
        event["requestObject"],
        json!([{"op": "replace", "path": "/data/k", "value": "w"}])
    );
    assert_eq!(event["responseObject"]["data"], json!({"k": "w"}));
    let apply = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: w}\n";
    let media = "application/apply-patch+yaml";
    let applied = format!("{path}?fieldManager=m&force=true");
    let applied = send(&tenant, Method::PATCH, &applied, media, apply).await?;
    let event = completed(&log, &applied).await?;
    assert_eq!(event["requestObject"]["data"], json!({"k": "w"}), "{event}");
    let invalid = json!({"metadata": {"name": "A"}});
    let event = completed(&log, &tenant.post(MAPS, &invalid).await?).await?;
    assert_eq!(event["requestObject"], invalid);
    assert_eq!(event["responseStatus"]["code"], 422);
    assert_eq!(
        event["responseStatus"]["details"]["kind"], "ConfigMap",
        "{event}"
    );
    let message = event["responseStatus"]["message"].as_str().unwrap_or("");
    assert!(message.starts_with("ConfigMap \"A\" is invalid"), "{event}");
    assert_eq!(event["responseObject"]["kind"], "Status");
    assert_eq!(event["responseObject"]["code"], 422);
    let options = "{\"propagationPolicy\": \"Background\"}";
    let deleted = send(&tenant, Method::DELETE, &path, JSON, options).await?;
    let event = completed(&log, &deleted).await?;
    assert_eq!(
        event["requestObject"],
        json!({"propagationPolicy": "Background"})
    );
    assert_eq!(event["responseObject"]["status"], "Success", "{event}");
    let unreadable = send(&tenant, Method::POST, MAPS, JSON, "{").await?;
    let event = completed(&log, &unreadable).await?;
    // What is no JSON is recorded as a text.
    assert_eq!(event["requestObject"], "{", "{event}");
    Ok(())
}

#[tokio::test]
async fn managed_fields_are_omitted_where_the_policy_says_so() -> anyhow::Result<()> {
    let rules = "- {level: RequestResponse, verbs: [create]}\n\
                 - {level: RequestResponse, omitManagedFields: true}";
    let (server, log) = audited(rules).await?;
    let tenant = server.tenant("t1").await?;
    let map = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let created = tenant.post(&format!("{MAPS}?fieldManager=m"), &map).await?;
    let event = completed(&log, &created).await?;
    assert!(
        event["responseObject"]["metadata"]["managedFields"].is_array(),
        "{event}"
    );
    for path in [format!("{MAPS}/a"), MAPS.to_owned()] {
        let answer = tenant.get(&path).await?;
        assert!(answer.text().contains("managedFields"), "{path}");
        let event = completed(&log, &answer).await?;
        assert!(event["responseObject"].is_object());
        assert!(!event.to_string().contains("managedFields"), "{event}");
    }
    Ok(())
}

#[tokio::test]
async fn large_responses_are_left_out_and_compressed_ones_are_not() -> anyhow::Result<()> {
    let (server, log) = audited("- {level: RequestResponse, verbs: [list]}").await?;
    let tenant = server.tenant("t1").await?;
    let value = "x".repeat(900 << 10);
    for name in ["a", "b", "c", "d"] {
        let map = json!({"metadata": {"name": name}, "data": {"k": value}});
        assert_eq!(tenant.post(MAPS, &map).await?.status, 201);
    }
    let some = format!("{MAPS}?limit=2");
    let zipped = [("accept-encoding", "gzip")];
    let answer = tenant.send(Method::GET, &some, &zipped, "").await?;
    assert_eq!(answer.header("content-encoding"), "gzip");
    assert!(answer.body.len() < 100 << 10, "{}", answer.body.len());
    let event = completed(&log, &answer).await?;
    assert_eq!(
        event["responseObject"]["items"][1]["data"]["k"],
        value.as_str()
    );
    let answer = tenant.get(MAPS).await?;
    assert!(answer.body.len() > 3 << 20);
    let event = completed(&log, &answer).await?;
    assert_eq!(event.get("responseObject"), None);
    assert_eq!(event["annotations"]["audit.k8s.io/truncated"], "true");
    Ok(())
}

#[tokio::test]
async fn rules_match_paths_below_a_prefix_and_unserved_resources() -> anyhow::Result<()> {
    let rules = "- {level: None, nonResourceURLs: [/api, /openapi*]}\n\
                 - {level: None, resources: [{group: example.com, resources: [widgets]}]}\n\
                 - level: Metadata";
    let (mut server, log) = audited(rules).await?;
    let tenant = server.tenant("t1").await?;
    let system = server.system().await?;
    let mut unseen = Vec::new();
    for (client, path) in [
        (&tenant, "/api"),
        (&system, "/tenants/t1/api"),
        (&tenant, "/openapi/v3"),
        (&tenant, "/apis/example.com/v1/namespaces/default/widgets/w"),
    ] {
        unseen.push(client.get(path).await?.header("audit-id").to_owned());
    }
    let seen = tenant.get("/apis").await?;
    completed(&log, &seen).await?;
    let seen = tenant.get("/apis/example.com/v1/gadgets").await?;
    completed(&log, &seen).await?;
    server.stop().await;
    for id in unseen {
        assert!(!log.text().contains(&id), "{}", log.text());
    }
    Ok(())
}

#[tokio::test]
async fn spelling_of_a_request_does_not_decide_which_rule_matches() -> anyhow::Result<()> {
    let rules = "- {level: Metadata, nonResourceURLs: [/apis, /metrics]}\n\
                 - {level: Metadata, resources: [{group: '', resources: [configmaps], \
                    resourceNames: [a]}]}\n\
                 - level: None";
    let (server, log) = audited(rules).await?;
    let tenant = server.tenant("t1").await?;
    for path in [
        "/apis",
        "/apis/",
        "/%61pis",
        "/tenants/t1/%61pis",
        "/%74enants/t1/apis",
        "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Da",
        "/api/v1/namespaces/default/configmaps?%66ieldSelector=metadata.name%3Da",
    ] {
        let answer = tenant.get(path).await?;
        let found = completed(&log, &answer).await;
        found.map_err(|error| error.context(format!("{path}: {answer:?}")))?;
    }
    Ok(())
}
