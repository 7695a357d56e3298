use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use super::*;

/// A line of the log at this second.
fn line(second: i64, by: &str, space: &str, user: &str) -> String {
    let time = Time {
        seconds: 1_000_000_000 + second,
        nanos: 0,
    };
    let event = json!({
        "auditID": second.to_string(),
        "requestURI": "/api/v1/pods?labelSelector=x",
        "verb": "list",
        "user": {"username": user, "groups": ["g"]},
        "sourceIPs": ["192.0.2.1"],
        "userAgent": "kubectl",
        "requestObject": {"insula.dev/space": "acme"},
        "responseStatus": {"code": 403, "message": "User \"root\" cannot"},
        "requestReceivedTimestamp": time.print(Precision::Micros),
        "stageTimestamp": time.print(Precision::Micros),
        "annotations": {
            "authorization.k8s.io/reason": "RBAC: allowed by ClusterRoleBinding \"x\"",
            "insula.dev/space": space,
            "insula.dev/tenant": by,
        },
    });
    format!("{event}\n")
}

fn query(space: &str, is_own: bool) -> EventQuery {
    EventQuery {
        space: Space::parse(space).unwrap(),
        is_own,
        since: None,
        until: None,
        received_since: None,
        user: None,
        verb: None,
        limit: 100,
    }
}

fn ids(found: &FoundEvents) -> Vec<&str> {
    let id = |event: &'_ Value| event["auditID"].as_str().unwrap().to_owned().leak() as &str;
    found.events.iter().map(id).collect()
}

/// A log with two old files, one of them compressed, and one event a second.
fn rotated_log(folder: &Path) -> PathBuf {
    let lines = |seconds: std::ops::Range<i64>| -> String {
        seconds.map(|at| line(at, "acme", "acme", "ann")).collect()
    };
    let log = folder.join("audit.log");
    std::fs::write(&log, lines(20..30)).unwrap();
    let old = folder.join("audit-2001-09-09T01-47-00.000.log");
    std::fs::write(&old, lines(10..20)).unwrap();
    let oldest = File::create(folder.join("audit-2001-09-09T01-46-50.000.log.gz")).unwrap();
    let mut oldest = GzEncoder::new(oldest, Compression::default());
    oldest.write_all(lines(0..10).as_bytes()).unwrap();
    oldest.finish().unwrap();
    log
}

#[test]
fn newest_events_are_found_across_rotated_and_compressed_files() {
    let folder = tempfile::tempdir().unwrap();
    let log = rotated_log(folder.path());
    let all = read(&log, &query("acme", false)).unwrap();
    let expected: Vec<String> = (0..30).map(|id| id.to_string()).collect();
    assert_eq!(ids(&all), expected);
    assert!(!all.is_partial);
    for (limit, first) in [(5, 25), (15, 15), (25, 5), (30, 0)] {
        let query = EventQuery {
            limit,
            ..query("acme", false)
        };
        let found = read(&log, &query).unwrap();
        assert_eq!(found.events.len(), limit);
        assert_eq!(ids(&found)[0], first.to_string());
        assert_eq!(found.is_partial, limit < 30, "{limit}");
    }
    for since in [0, 5, 12, 29] {
        let query = EventQuery {
            since: Some(Time {
                seconds: 1_000_000_000 + since,
                nanos: 0,
            }),
            ..query("acme", false)
        };
        let found = read(&log, &query).unwrap();
        assert_eq!(ids(&found), expected[usize::try_from(since).unwrap()..]);
        assert!(!found.is_partial);
    }
    assert_eq!(read(&log, &query("globex", false)).unwrap().events.len(), 0);
}

#[test]
fn events_are_selected_by_user_and_verb() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let lines = [
        line(1, "acme", "acme", "ann"),
        line(2, "acme", "acme", "bob"),
    ];
    std::fs::write(&log, lines.concat()).unwrap();
    for (user, verb, expected) in [
        (Some("ann"), None, &["1"][..]),
        (Some("bob"), Some("list"), &["2"]),
        (None, Some("list"), &["1", "2"]),
        (None, Some("get"), &[]),
        (Some("eve"), None, &[]),
    ] {
        let query = EventQuery {
            user: user.map(str::to_owned),
            verb: verb.map(str::to_owned),
            ..query("acme", false)
        };
        assert_eq!(ids(&read(&log, &query).unwrap()), expected);
    }
}

#[test]
fn tenant_sees_its_own_users_and_only_that_the_system_acted() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let lines = [
        line(1, "acme", "acme", "ann"),
        line(2, "acme", "globex", "ann"),
        line(3, "system", "acme", "root"),
        line(4, "globex", "acme", "spy"),
        line(5, "globex", "globex", "gil"),
        line(6, "system", "all", "root"),
        line(7, "system", "system", "root"),
        // A body that looks like an annotation is no annotation.
        line(8, "initech", "initech", "eve"),
    ];
    std::fs::write(&log, lines.concat()).unwrap();
    for (space, is_own, expected) in [
        ("acme", false, &["1", "2", "3", "4"][..]),
        ("acme", true, &["1", "2", "3"]),
        ("globex", false, &["2", "4", "5"]),
        ("globex", true, &["4", "5"]),
        ("system", false, &["3", "6", "7"]),
    ] {
        let found = read(&log, &query(space, is_own)).unwrap();
        assert_eq!(ids(&found), expected, "{space} {is_own}");
    }
    let found = read(&log, &query("acme", true)).unwrap();
    assert_eq!(found.events[0]["sourceIPs"], json!(["192.0.2.1"]));
    assert_eq!(
        found.events[2],
        json!({
            "auditID": "3",
            "requestURI": "/api/v1/pods",
            "verb": "list",
            "user": {"username": "system"},
            "responseStatus": {"code": 403},
            "requestReceivedTimestamp": "2001-09-09T01:46:43.000000Z",
            "stageTimestamp": "2001-09-09T01:46:43.000000Z",
            "annotations": {"insula.dev/space": "acme", "insula.dev/tenant": "system"},
        })
    );
}

#[test]
fn lines_that_are_no_events_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let torn = "{\"annotations\":{\"insula.dev/space\":\"acme\"\n";
    let lines = [torn, &line(1, "acme", "acme", "ann"), "\n", "text\n"].concat();
    std::fs::write(&log, lines).unwrap();
    let found = read(&log, &query("acme", false)).unwrap();
    assert_eq!(ids(&found), ["1"]);
    // The torn line may have been an event of the space.
    assert!(found.is_partial);
    assert!(!read(&log, &query("globex", false)).unwrap().is_partial);
    let missing = read(&folder.path().join("missing"), &query("acme", false));
    assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn large_events_are_shown_without_their_bodies() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let body = json!({"k": "x".repeat(MAX_EVENT_BYTES)});
    let annotations = json!({"insula.dev/space": "acme", "insula.dev/tenant": "acme"});
    let large = json!({"auditID": "1", "requestObject": body, "annotations": annotations});
    let lines = format!("{large}\n{}", line(2, "acme", "acme", "ann"));
    std::fs::write(&log, lines).unwrap();
    let found = read(&log, &query("acme", false)).unwrap();
    assert_eq!(ids(&found), ["1", "2"]);
    assert_eq!(found.events[0].get("requestObject"), None);
    let annotations = &found.events[0]["annotations"];
    assert_eq!(annotations["audit.k8s.io/truncated"], "true");
    assert!(found.events[1]["requestObject"].is_object());
}

#[test]
fn question_of_a_tenant_reads_less_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let first = line(1, "acme", "acme", "ann");
    let others = line(2, "globex", "globex", "gus").repeat(1000);
    let many = MAX_OWN_READ_BYTES as usize / others.len() + 1;
    std::fs::write(&log, first + &others.repeat(many)).unwrap();
    let own = read(&log, &query("acme", true)).unwrap();
    assert!(own.is_partial && own.events.is_empty());
    let system = read(&log, &query("acme", false)).unwrap();
    assert_eq!(ids(&system), ["1"]);
    assert!(!system.is_partial);
}

#[test]
fn body_that_no_parser_takes_hides_no_event() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let bodies = ["1e999", r#""\ud800""#, deep.as_str()];
    let lines: String = (1..)
        .zip(bodies)
        .map(|(at, body)| {
            let plain = line(at, "acme", "acme", "ann");
            plain.replace(
                r#"{"insula.dev/space":"acme"},"#,
                &format!(r#"{{"zz":{body}}},"#),
            )
        })
        .collect();
    assert!(
        lines.contains("1e999") && lines.contains("ud800"),
        "{lines}"
    );
    std::fs::write(&log, lines).unwrap();
    for is_own in [false, true] {
        let found = read(&log, &query("acme", is_own)).unwrap();
        assert_eq!(ids(&found), ["1", "2", "3"]);
        assert!(!found.is_partial);
        assert_eq!(found.events[0]["user"]["username"], "ann");
    }
}

#[test]
fn compressed_file_beyond_the_limit_leaves_no_gap() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    std::fs::write(&log, line(9, "acme", "acme", "ann")).unwrap();
    let old = File::create(folder.path().join("audit-2001-09-09T01-46-48.000.log.gz")).unwrap();
    let mut old = GzEncoder::new(old, Compression::default());
    old.write_all(line(1, "acme", "acme", "ann").as_bytes())
        .unwrap();
    let others = line(2, "globex", "globex", "gus").repeat(1000);
    for _ in 0..=usize::try_from(MAX_OWN_READ_BYTES).unwrap() / others.len() {
        old.write_all(others.as_bytes()).unwrap();
    }
    old.write_all(line(8, "acme", "acme", "ann").as_bytes())
        .unwrap();
    old.finish().unwrap();
    let own = read(&log, &query("acme", true)).unwrap();
    // Without event 8, event 1 would seem to be the one before event 9.
    assert_eq!(ids(&own), ["9"]);
    assert!(own.is_partial);
}

#[test]
fn tenant_does_not_see_why_the_system_was_refused() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let mut event: Value = serde_json::from_str(&line(1, "system", "acme", "root")).unwrap();
    event["responseStatus"] = json!({
        "code": 422, "reason": "Invalid", "status": "Failure", "metadata": {},
        "details": {"causes": [{"message": "secret"}]},
    });
    event["annotations"]["hook.example/k"] = "secret".into();
    event["annotations"]["authorization.k8s.io/decision"] = "allow".into();
    std::fs::write(&log, format!("{event}\n")).unwrap();
    let found = read(&log, &query("acme", true)).unwrap();
    let shown = &found.events[0];
    assert!(!shown.to_string().contains("secret"), "{shown}");
    assert_eq!(
        shown["responseStatus"],
        json!({"code": 422, "reason": "Invalid", "status": "Failure"})
    );
    assert_eq!(
        shown["annotations"]["authorization.k8s.io/decision"],
        "allow"
    );
}

#[test]
fn log_that_is_rotated_meanwhile_is_read_once_and_in_whole() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    std::fs::write(&log, line(1, "acme", "acme", "ann")).unwrap();
    let rotated = folder.path().join("audit-2001-09-09T01-47-00.000.log");
    let opened = File::open(&log).unwrap();
    std::fs::rename(&log, &rotated).unwrap();
    std::fs::write(&log, line(2, "acme", "acme", "ann")).unwrap();
    // Opened before the rotation, listed after it.
    let query = query("acme", false);
    let found = read_from(opened, &log, &query).unwrap();
    assert_eq!(ids(&found), ["1"]);
    assert_eq!(ids(&read(&log, &query).unwrap()), ["1", "2"]);
    // Between the two steps of a rotation there is no log.
    std::fs::remove_file(&log).unwrap();
    assert_eq!(ids(&read(&log, &query).unwrap()), ["1"]);
}

fn at(second: i64) -> Option<Time> {
    Some(Time {
        seconds: 1_000_000_000 + second,
        nanos: 0,
    })
}

#[test]
fn questions_read_on_from_where_the_last_one_ended() {
    let folder = tempfile::tempdir().unwrap();
    let log = rotated_log(folder.path());
    let mut query = EventQuery {
        limit: 7,
        ..query("acme", true)
    };
    let mut seen = Vec::new();
    loop {
        let found = read(&log, &query).unwrap();
        let ids: Vec<String> = ids(&found).iter().map(|id| (*id).to_owned()).collect();
        seen.splice(0..0, ids);
        let Some(next) = found.read_back_to else {
            break;
        };
        query.until = insula_kinds::time::parse(&next, Precision::Seconds).ok();
    }
    let expected: Vec<String> = (0..30).map(|id| id.to_string()).collect();
    assert_eq!(seen, expected);
}

#[test]
fn events_behind_those_of_a_neighbour_are_in_reach() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let first = line(1, "acme", "acme", "ann");
    let others = line(200, "globex", "globex", "gus").repeat(1000);
    let many = usize::try_from(MAX_OWN_READ_BYTES).unwrap() / others.len() + 1;
    std::fs::write(&log, first + &others.repeat(many)).unwrap();
    let own = read(&log, &query("acme", true)).unwrap();
    assert!(own.is_partial && own.events.is_empty());
    assert_eq!(
        own.read_back_to.unwrap(),
        at(200).unwrap().print(Precision::Micros)
    );
    let query = EventQuery {
        until: at(100),
        ..query("acme", true)
    };
    let own = read(&log, &query).unwrap();
    assert_eq!(ids(&own), ["1"]);
    assert!(!own.is_partial);
}

#[test]
fn request_of_an_earlier_tenant_that_ends_later_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let mut event: Value = serde_json::from_str(&line(1, "acme", "acme", "old")).unwrap();
    event["stageTimestamp"] = at(20).unwrap().print(Precision::Micros).into();
    let lines = format!("{}{event}\n", line(11, "acme", "acme", "ann"));
    std::fs::write(&log, lines).unwrap();
    let query = EventQuery {
        since: at(10),
        received_since: at(10),
        ..query("acme", true)
    };
    assert_eq!(ids(&read(&log, &query).unwrap()), ["11"]);
}

#[test]
fn tenant_does_not_see_annotations_of_the_systems_webhooks() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let mut event: Value = serde_json::from_str(&line(1, "acme", "acme", "ann")).unwrap();
    event["annotations"]["s.ex.io/k"] = "systems".into();
    event["annotations"]["w.ex.io/k"] = "own".into();
    event["annotations"]["insula.dev/system-annotations"] = r#"["s.ex.io/k"]"#.into();
    std::fs::write(&log, format!("{event}\n")).unwrap();
    let found = read(&log, &query("acme", true)).unwrap();
    let own = &found.events[0]["annotations"];
    assert_eq!(own["w.ex.io/k"], "own");
    assert!(!own.to_string().contains("s.ex.io"), "{own}");
    let found = read(&log, &query("acme", false)).unwrap();
    assert_eq!(found.events[0], event);
}
