//! The audit log: one event per request, and no secret in any of them.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use http::Method;
use insula_testkit::server::{Answer, Audit, AuditLog, Client, TestServer};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const JSON: (&str, &str) = ("content-type", "application/json");

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(20);

async fn audited() -> anyhow::Result<(TestServer, AuditLog)> {
    let log = AuditLog::default();
    let server = TestServer::audited(Audit::Memory(log.clone())).await?;
    Ok((server, log))
}

/// The line without the values that differ in every run.
fn without_timestamps(line: &str) -> String {
    let mut text = line.to_owned();
    for name in ["requestReceivedTimestamp", "stageTimestamp"] {
        let before = format!("\"{name}\":\"");
        let begin = text.find(&before).map_or(0, |at| at + before.len());
        let end = begin + "2026-11-16T00:00:00.000000Z".len();
        assert_eq!(&text[end - 1..=end], "Z\"", "{name} in {line}");
        text.replace_range(begin..end, "…");
    }
    text
}

async fn event(log: &AuditLog, answer: &Answer) -> anyhow::Result<Value> {
    let line = log.event(answer.header("audit-id")).await?;
    Ok(serde_json::from_str(&line)?)
}

/// The first and last fields of an event of a tenant's administrator, around the fields under test.
fn expected(id: &str, middle: &str, status: &str, annotations: &str) -> String {
    format!(
        r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"{id}",{middle},"responseStatus":{{"metadata":{{}},{status}}},"requestReceivedTimestamp":"…","stageTimestamp":"…","annotations":{{{annotations}}}}}"#
    )
}

#[tokio::test]
async fn events_record_user_object_and_outcome() -> anyhow::Result<()> {
    let (server, log) = audited().await?;
    let tenant = server.tenant("t1").await?;
    let stranger = server.client("").await?;
    let admin = r#""user":{"username":"admin","uid":"1","groups":["system:authenticated"]},"sourceIPs":["127.0.0.1"]"#;
    let allowed = r#""authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by ClusterRoleBinding \"admin-role-binding\" of ClusterRole \"admin-role\" to User \"admin\"","insula.dev/space":"t1","insula.dev/tenant":"t1""#;
    let walled = r#""authorization.k8s.io/decision":"forbid","authorization.k8s.io/reason":"pods \"p\" is forbidden: User \"admin\" cannot get resource \"pods\" in API group \"\" in the tenant \"t2\"","insula.dev/space":"t2","insula.dev/tenant":"t1""#;
    let message = r#""status":"Failure","message":"pods \"p\" is forbidden: User \"admin\" cannot get resource \"pods\" in API group \"\" in the tenant \"t2\"","reason":"Forbidden","code":403"#;
    for (id, client, method, path, agent, body, wanted) in [
        (
            "made",
            &tenant,
            Method::POST,
            "/api/v1/namespaces/default/configmaps?fieldManager=x".to_owned(),
            "kubectl/v1.36.0",
            r#"{"metadata":{"generateName":"a","name":"a1"},"data":{"k":"v"}}"#,
            expected(
                "made",
                &format!(
                    r#""stage":"ResponseComplete","requestURI":"{MAPS}?fieldManager=x","verb":"create",{admin},"userAgent":"kubectl/v1.36.0","objectRef":{{"resource":"configmaps","namespace":"default","name":"a1","apiVersion":"v1"}}"#
                ),
                r#""code":201"#,
                allowed,
            ),
        ),
        (
            "document",
            &tenant,
            Method::GET,
            "/apis?access_token=s3cret".to_owned(),
            "",
            "",
            expected(
                "document",
                &format!(
                    r#""stage":"ResponseComplete","requestURI":"/apis?access_token=****","verb":"get",{admin}"#
                ),
                r#""code":200"#,
                allowed,
            ),
        ),
        (
            "wall",
            &tenant,
            Method::GET,
            "/api/v1/tenants/t2/namespaces/default/pods/p".to_owned(),
            "",
            "",
            expected(
                "wall",
                &format!(
                    r#""stage":"ResponseComplete","requestURI":"/api/v1/tenants/t2/namespaces/default/pods/p","verb":"get",{admin},"objectRef":{{"resource":"pods","namespace":"default","name":"p","apiVersion":"v1"}}"#
                ),
                message,
                walled,
            ),
        ),
        (
            "stranger",
            &stranger,
            Method::DELETE,
            "/tenants/t2/apis/apps/v1/namespaces/default/deployments".to_owned(),
            "",
            "",
            expected(
                "stranger",
                r#""stage":"ResponseComplete","requestURI":"/tenants/t2/apis/apps/v1/namespaces/default/deployments","verb":"deletecollection","user":{},"sourceIPs":["127.0.0.1"],"objectRef":{"resource":"deployments","namespace":"default","apiGroup":"apps","apiVersion":"v1"}"#,
                r#""status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401"#,
                r#""insula.dev/space":"t2""#,
            ),
        ),
    ] {
        let mut headers = vec![("audit-id", id), JSON];
        if !agent.is_empty() {
            headers.push(("user-agent", agent));
        }
        let answer = client.send(method, &path, &headers, body).await?;
        assert_eq!(answer.header("audit-id"), id);
        assert_eq!(without_timestamps(&log.event(id).await?), wanted);
    }
    Ok(())
}

/// Requests with every sort of outcome: method, path, body, content type and expected code.
fn outcomes() -> Vec<(Method, String, String, &'static str, u16)> {
    let json = "application/json";
    let merge = "application/merge-patch+json";
    let map = r#"{"metadata":{"name":"a"}}"#;
    let stale = r#"{"metadata":{"name":"a","resourceVersion":"1"}}"#;
    let a = format!("{MAPS}/a");
    let pod = r#"{"metadata":{"name":"p","labels":{"a":"b"}},"spec":{"nodeName":"n",
        "containers":[{"name":"c","image":"i"}]}}"#;
    let budget = r#"{"metadata":{"name":"b"},"spec":{"selector":{"matchLabels":{"a":"b"}}}}"#;
    let running = r#"{"status":{"phase":"Running"}}"#;
    let (status, eviction) = (format!("{PODS}/p/status"), format!("{PODS}/p/eviction"));
    [
        (Method::POST, MAPS, map, json, 201),
        (Method::POST, MAPS, map, json, 409),
        (Method::GET, MAPS, "", json, 200),
        (Method::GET, &a, "", json, 200),
        (Method::PUT, &a, stale, json, 409),
        (Method::PUT, &a, map, json, 200),
        (Method::PATCH, &a, r#"{"data":{"k":"v"}}"#, merge, 200),
        (Method::PATCH, &a, "{}", "application/unknown", 415),
        (Method::POST, MAPS, map, "application/unknown", 415),
        (Method::POST, MAPS, "{", json, 400),
        (
            Method::POST,
            MAPS,
            r#"{"metadata":{"name":"A"}}"#,
            json,
            422,
        ),
        (Method::PUT, MAPS, "", json, 405),
        (Method::OPTIONS, MAPS, "", json, 405),
        (Method::GET, "/nowhere", "", json, 404),
        (Method::GET, "/api/v1/nothings", "", json, 404),
        (Method::GET, "/api//v1", "", json, 404),
        (Method::GET, "/api/v1/namespaces/%FF/pods", "", json, 400),
        (Method::GET, "/api/v1/pods?timeout=soon", "", json, 400),
        (Method::GET, "/api/v1/pods?limit=x", "", json, 400),
        (Method::GET, "/metrics", "", json, 404),
        (Method::GET, "/tenants/t2/api/v1/pods", "", json, 403),
        (Method::GET, "/api/v1/tenants/all/pods", "", json, 403),
        (Method::GET, "/api/v1/tenants", "", json, 403),
        (Method::GET, "/openapi/v2", "", json, 200),
        (
            Method::POST,
            &format!("{PODS}/p/exec?command=s3cret"),
            "{}",
            json,
            501,
        ),
        (Method::POST, PODS, pod, json, 201),
        (Method::PATCH, &status, running, merge, 200),
        (Method::POST, BUDGETS, budget, json, 201),
        (
            Method::POST,
            &eviction,
            r#"{"metadata":{"name":"p"}}"#,
            json,
            429,
        ),
        (Method::DELETE, &a, "", json, 200),
        (Method::DELETE, &a, "", json, 404),
        (Method::DELETE, MAPS, "", json, 200),
    ]
    .map(|(method, path, body, media, code)| {
        (method, path.to_owned(), body.to_owned(), media, code)
    })
    .into()
}

#[tokio::test]
async fn every_request_has_exactly_one_event() -> anyhow::Result<()> {
    let (mut server, log) = audited().await?;
    let tenant = server.tenant("t1").await?;
    let mut ids = BTreeSet::new();
    for (method, path, body, media, code) in outcomes() {
        let what = format!("{method} {path} {body}");
        let headers = [("content-type", media)];
        let answer = tenant.send(method, &path, &headers, body).await?;
        let event = event(&log, &answer).await?;
        let status = &event["responseStatus"];
        assert_eq!(answer.status, code, "{what}: {}", answer.text());
        assert_eq!(status["code"], code, "{what}");
        let reason = answer.json()["reason"].clone();
        if code >= 400 && !reason.is_null() {
            assert_eq!(status["reason"], reason, "{what}");
        }
        // Before authentication the event has no user.
        let known = !path.contains("timeout=");
        assert_eq!(event["user"]["username"] == "admin", known, "{what}");
        let decided = &event["annotations"]["authorization.k8s.io/decision"];
        let expected = match code {
            403 => "forbid",
            _ if event.get("objectRef").is_some() && known => "allow",
            _ => decided.as_str().unwrap_or(""),
        };
        assert_eq!(decided.as_str().unwrap_or(""), expected, "{what}");
        assert!(ids.insert(answer.header("audit-id").to_owned()), "{what}");
    }
    for token in ["", "wrong", "stray"] {
        let client = server.client(token).await?;
        let answer = client.get("/api/v1/pods").await?;
        let event = event(&log, &answer).await?;
        let code = if token == "stray" { 403 } else { 401 };
        assert_eq!(event["responseStatus"]["code"], code);
        assert_eq!(event["user"], json!({}), "{event}");
        ids.insert(answer.header("audit-id").to_owned());
    }
    let impersonating = [("impersonate-user", "system:admin")];
    let answer = tenant.send(Method::GET, "/api", &impersonating, "").await?;
    let refused = event(&log, &answer).await?;
    assert_eq!(refused["responseStatus"]["code"], 403);
    assert_eq!(refused["user"]["username"], "admin");
    assert_eq!(refused["annotations"]["insula.dev/tenant"], "t1");
    ids.insert(answer.header("audit-id").to_owned());
    server.stop().await;
    let mut counted = BTreeSet::new();
    for event in log.events()? {
        let id = event["auditID"].as_str().unwrap_or_default().to_owned();
        assert!(counted.insert(id), "twice: {event}");
    }
    // Plus the event of creating the tenant, which the test server did.
    assert_eq!(counted.difference(&ids).count(), 1);
    assert!(ids.is_subset(&counted));
    Ok(())
}

#[tokio::test]
async fn health_probes_are_not_logged() -> anyhow::Result<()> {
    let (mut server, log) = audited().await?;
    for token in ["", "system"] {
        let client = server.client(token).await?;
        for path in ["/livez", "/readyz?verbose", "/healthz/ping", "/version"] {
            assert_eq!(client.get(path).await?.status, 200, "{path}");
        }
    }
    server.stop().await;
    assert_eq!(log.text(), "");
    Ok(())
}

#[tokio::test]
async fn watches_are_logged_when_they_start() -> anyhow::Result<()> {
    let (mut server, log) = audited().await?;
    let tenant = server.tenant("t1").await?;
    for path in [format!("{MAPS}?watch=1"), "/api/v1/watch/pods".to_owned()] {
        let watch = tenant.watch(&path).await?;
        let id = watch.headers["audit-id"].to_str()?.to_owned();
        let event: Value = serde_json::from_str(&log.event(&id).await?)?;
        assert_eq!(event["stage"], "ResponseStarted", "{event}");
        assert_eq!(event["verb"], "watch");
        assert_eq!(
            event["responseStatus"],
            json!({"metadata": {}, "code": 200})
        );
    }
    let refused = tenant
        .get(&format!("{MAPS}?watch=1&resourceVersion=x"))
        .await?;
    let event = event(&log, &refused).await?;
    assert_eq!(event["stage"], "ResponseComplete");
    assert_eq!(event["verb"], "watch");
    server.stop().await;
    let watches = log.events()?;
    let watches = watches.iter().filter(|event| event["verb"] == "watch");
    assert_eq!(watches.count(), 3);
    Ok(())
}

#[tokio::test]
async fn events_record_the_users_space_and_the_requested_space() -> anyhow::Result<()> {
    let (server, log) = audited().await?;
    let tenant = server.tenant("t1").await?;
    let system = server.system().await?;
    for (client, path, home, space) in [
        (&system, "/api/v1/pods", "system", "system"),
        (&system, "/api/v1/tenants/t1/pods", "system", "t1"),
        (&system, "/tenants/t1/api/v1/pods", "system", "t1"),
        (&system, "/tenants/t1/apis", "system", "t1"),
        (&system, "/api/v1/tenants/missing/pods", "system", "missing"),
        (&system, "/api/v1/tenants/all/pods", "system", "all"),
        (&tenant, "/api/v1/pods", "t1", "t1"),
        (&tenant, "/api/v1/tenants/t1/pods", "t1", "t1"),
        (&tenant, "/api/v1/tenants/t2/pods", "t1", "t2"),
        (&tenant, "/api/v1/tenants/system/pods", "t1", "system"),
        (&tenant, "/api/v1/tenants/all/pods", "t1", "all"),
    ] {
        let event = event(&log, &client.get(path).await?).await?;
        let message = &event["annotations"];
        assert_eq!(message["insula.dev/tenant"], home, "{path}");
        assert_eq!(message["insula.dev/space"], space, "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn valid_client_audit_ids_are_kept() -> anyhow::Result<()> {
    let (server, log) = audited().await?;
    let tenant = server.tenant("t1").await?;
    let long = "x".repeat(65);
    for (given, honoured) in [
        ("My-Id-1", true),
        (&long, false),
        ("a b", false),
        ("", false),
    ] {
        let headers = [("audit-id", given)];
        for path in ["/api", "/nowhere", "/api/v1/tenants/t2/pods"] {
            let answer = tenant.send(Method::GET, path, &headers, "").await?;
            let id = answer.header("audit-id");
            assert_eq!(id == given, honoured, "{given:?} became {id:?}");
            let line = log.event(id).await?;
            assert!(line.contains(&format!("\"auditID\":\"{id}\"")), "{line}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn cancelled_requests_are_logged() -> anyhow::Result<()> {
    let (server, log) = audited().await?;
    let tenant = server.tenant("t1").await?;
    let deadline = Instant::now() + TIMEOUT;
    for attempt in 0.. {
        anyhow::ensure!(Instant::now() < deadline, "no event in {}", log.text());
        // The request waits for a distant revision; the client gives up first.
        let id = format!("left-{attempt}");
        let headers = [("audit-id", id.as_str())];
        let path = format!("{MAPS}?resourceVersion=999999999");
        let asked = tenant.send(Method::GET, &path, &headers, "");
        let left = tokio::time::timeout(Duration::from_millis(200), asked).await;
        assert!(left.is_err(), "{left:?}");
        // Frames arrive in order: once this request is answered, the server has seen the reset.
        tenant.get("/api").await?;
        let events = log.events()?;
        let Some(event) = events.iter().find(|event| event["auditID"] == *id) else {
            continue;
        };
        assert_eq!(event["responseStatus"]["code"], 499, "{event}");
        assert_eq!(event["annotations"]["insula.dev/tenant"], "t1");
        break;
    }
    Ok(())
}

/// A request with an event of about 17 KB: the path appears three times in the event, escaped.
async fn send_long_request(client: &Client) -> anyhow::Result<Answer> {
    let name = "%01".repeat(1500);
    client
        .get(&format!("/api/v1/namespaces/{name}/pods/{name}"))
        .await
}

#[tokio::test]
async fn requests_wait_while_the_log_is_blocked_and_no_event_is_lost() -> anyhow::Result<()> {
    let (mut server, log) = audited().await?;
    let tenant = server.tenant("t1").await?;
    let before = tenant.get("/api").await?;
    log.event(before.header("audit-id")).await?;
    log.hold();
    let mut ids = BTreeSet::new();
    let soon = Duration::from_secs(2);
    while let Ok(answer) = tokio::time::timeout(soon, send_long_request(&tenant)).await {
        ids.insert(answer?.header("audit-id").to_owned());
        assert!(ids.len() < 5000, "requests do not wait");
    }
    let fill = ids.len();
    assert!(fill > 100, "requests wait after {fill}");
    // Liveness probes are still answered.
    assert_eq!(tenant.get("/livez").await?.status, 200);
    let waiting = tokio::spawn({
        let tenant = tenant.clone();
        async move { send_long_request(&tenant).await }
    });
    log.release();
    ids.insert(waiting.await??.header("audit-id").to_owned());
    let system = server.system().await?;
    let metrics = system.get("/metrics").await?.text();
    assert!(
        metrics.contains("\ninsula_audit_lost_total 0\n"),
        "{metrics}"
    );
    assert!(metrics.contains("\ninsula_audit_errors_total 0\n"));
    server.stop().await;
    let text = log.text();
    for id in ids {
        assert_eq!(text.matches(&format!("\"auditID\":\"{id}\"")).count(), 1);
    }
    Ok(())
}

#[tokio::test]
async fn queued_events_are_written_on_shutdown() -> anyhow::Result<()> {
    for dropped in [false, true] {
        let (mut server, log) = audited().await?;
        let tenant = server.tenant("t1").await?;
        log.hold();
        let mut ids = Vec::new();
        for _ in 0..20 {
            let answer = tenant.get("/api").await?;
            ids.push(answer.header("audit-id").to_owned());
        }
        drop(tenant);
        assert!(log.events()?.len() < ids.len());
        let release = {
            let log = log.clone();
            std::thread::spawn(move || log.release())
        };
        match dropped {
            true => drop(server),
            false => {
                server.stop().await;
                assert_eq!(log.events()?.len(), ids.len() + 1, "with the tenant's own");
            }
        }
        for id in &ids {
            log.event(id).await?;
        }
        release.join().ok();
    }
    Ok(())
}

#[tokio::test]
async fn log_file_is_private_and_can_be_rotated() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (path, moved) = (folder.path().join("audit.log"), folder.path().join("a.1"));
    let mut server = TestServer::audited(Audit::File(path.clone())).await?;
    let tenant = server.tenant("t1").await?;
    assert_eq!(path.metadata()?.permissions().mode() & 0o777, 0o600);
    let mut ids = vec![tenant.get("/api").await?.header("audit-id").to_owned()];
    std::fs::rename(&path, &moved)?;
    let deadline = Instant::now() + TIMEOUT;
    while !path.exists() {
        anyhow::ensure!(Instant::now() < deadline, "no new file");
        ids.push(tenant.get("/api").await?.header("audit-id").to_owned());
    }
    assert_eq!(path.metadata()?.permissions().mode() & 0o777, 0o600);
    server.stop().await;
    let read = |path: &Path| std::fs::read_to_string(path);
    let (old, new) = (read(&moved)?, read(&path)?);
    assert!(old.ends_with("}\n") && new.ends_with("}\n"));
    let both = format!("{old}{new}");
    for line in both.lines() {
        serde_json::from_str::<Value>(line)?;
    }
    for id in ids {
        assert_eq!(both.matches(&format!("\"auditID\":\"{id}\"")).count(), 1);
    }
    Ok(())
}

#[tokio::test]
async fn write_errors_are_counted_and_do_not_block_requests() -> anyhow::Result<()> {
    if !Path::new("/dev/full").exists() {
        #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
        {
            eprintln!("SKIPPED: there is no /dev/full");
        }
        return Ok(());
    }
    let server = TestServer::audited(Audit::File("/dev/full".into())).await?;
    let system = server.system().await?;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let metrics = system.get("/metrics").await?.text();
        let lost = metrics
            .lines()
            .find_map(|line| line.strip_prefix("insula_audit_lost_total "));
        if lost.is_some_and(|lost| lost != "0") {
            assert!(
                metrics.contains("\ninsula_audit_events_total 0\n"),
                "{metrics}"
            );
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < deadline, "{metrics}");
    }
}

/// The events that a client gets at `/audit`.
async fn read_events(client: &Client, path: &str) -> anyhow::Result<Vec<Value>> {
    let answer = client.get(path).await?;
    anyhow::ensure!(answer.status == 200, "{path}: {answer:?}");
    let list = answer.json();
    assert_eq!(list["kind"], "EventList");
    assert_eq!(list["apiVersion"], "audit.k8s.io/v1");
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

/// Waits for an event that a client gets at `/audit`.
async fn found_event(client: &Client, path: &str, id: &str) -> anyhow::Result<Value> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let mut events = read_events(client, path).await?.into_iter();
        if let Some(event) = events.find(|event| event["auditID"] == id) {
            return Ok(event);
        }
        anyhow::ensure!(Instant::now() < deadline, "no event {id} at {path}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn tenant_reads_its_own_events_and_the_system_those_of_all() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("audit.log");
    let server = TestServer::audited(Audit::File(log)).await?;
    let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    // Events of the first second may be those of an earlier tenant of the same name.
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let own = one.get(MAPS).await?;
    let walled = two.get("/api/v1/tenants/t1/pods").await?;
    assert_eq!(walled.status, 403);
    let operated = system
        .get("/api/v1/tenants/t1/pods?labelSelector=a")
        .await?;
    let (own, walled) = (own.header("audit-id"), walled.header("audit-id"));
    let operated = operated.header("audit-id");
    let event = found_event(&one, "/audit", own).await?;
    assert_eq!(event["user"]["username"], "admin");
    assert_eq!(event["sourceIPs"], json!(["127.0.0.1"]));
    let event = found_event(&one, "/audit?verb=list&user=system", operated).await?;
    assert_eq!(event["user"], json!({"username": "system"}));
    assert_eq!(event["requestURI"], "/api/v1/tenants/t1/pods");
    assert_eq!(event.get("sourceIPs"), None, "{event}");
    for path in ["/tenants/t1/audit", "/audit?space=t1"] {
        for id in [own, walled, operated] {
            found_event(&system, path, id).await?;
        }
        let event = found_event(&system, path, operated).await?;
        assert_eq!(event["user"]["username"], "admin");
    }
    // Neither what others attempted, nor what was before.
    let seen = read_events(&one, "/audit?limit=5000").await?;
    let theirs = |event: &Value| {
        let annotations = &event["annotations"];
        let by = annotations["insula.dev/tenant"].as_str();
        by == Some("t1") || (by == Some("system") && annotations["insula.dev/space"] == "t1")
    };
    assert!(seen.iter().all(theirs), "{seen:?}");
    let ids = |events: &[Value]| -> Vec<String> {
        let id = |event: &Value| event["auditID"].as_str().unwrap_or_default().to_owned();
        events.iter().map(id).collect()
    };
    assert!(!ids(&seen).contains(&walled.to_owned()));
    found_event(&two, "/audit", walled).await?;
    // A tenant cannot name another space.
    let same = read_events(&one, "/audit?space=t2").await?;
    assert!(same.iter().all(theirs), "{same:?}");
    for path in ["/tenants/t2/audit", "/tenants/system/audit"] {
        assert_eq!(one.get(path).await?.status, 403, "{path}");
    }
    let newest = read_events(&one, "/audit?limit=1").await?;
    assert_eq!(newest.len(), 1);
    let partial = one.get("/audit?limit=1").await?;
    assert!(
        partial
            .header("warning")
            .contains("only the newest 1 events are shown"),
        "{partial:?}"
    );
    for wrong in ["limit=0", "limit=x", "sinceSeconds=-1", "sinceTime=now"] {
        assert_eq!(
            one.get(&format!("/audit?{wrong}")).await?.status,
            400,
            "{wrong}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn events_of_an_earlier_tenant_of_the_same_name_are_not_shown() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("audit.log");
    let earlier = concat!(
        r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"earlier","verb":"get","#,
        r#""user":{"username":"admin"},"stageTimestamp":"2026-01-01T00:00:00.000000Z","#,
        r#""annotations":{"insula.dev/space":"t1","insula.dev/tenant":"t1"}}"#,
        "\n"
    );
    std::fs::write(&log, earlier)?;
    let server = TestServer::audited(Audit::File(log)).await?;
    let tenant = server.tenant("t1").await?;
    let seen = read_events(&tenant, "/audit").await?;
    assert!(
        seen.iter().all(|event| event["auditID"] != "earlier"),
        "{seen:?}"
    );
    let system = server.system().await?;
    found_event(&system, "/tenants/t1/audit", "earlier").await?;
    Ok(())
}

#[tokio::test]
async fn without_a_log_file_the_answer_says_so() -> anyhow::Result<()> {
    let (server, _) = audited().await?;
    let tenant = server.tenant("t1").await?;
    let answer = tenant.get("/audit").await?;
    assert_eq!(answer.status, 404);
    let message = answer.json()["message"].clone();
    let message = message.as_str().unwrap_or_default();
    assert!(message.contains("--audit-log-path"), "{message}");
    Ok(())
}
