//! Every route and verb in every spelling, called by each sort of tenant credential, on another
//! tenant and on the system.

use futures_util::future::try_join_all;
use insula_testkit::server::{Answer, Client, TestServer};
use serde_json::json;

use super::cast::{account, bind, server_with, token_of, user};
use super::golden::assert_golden;
use super::routes::{Ask, Page, Place};
use super::{MAPS, called, fill, without};

/// An administrator, a service account and a user of `t1`, each with all permissions in that
/// tenant.
async fn attackers(server: &TestServer) -> anyhow::Result<Vec<Client>> {
    let admin = server.tenant("t1").await?;
    let token = token_of(&admin, "default", "robot").await?;
    let robot = account("default", "robot");
    bind(&admin, None, "robot", "cluster-admin", robot).await?;
    bind(&admin, None, "alice", "cluster-admin", user("alice")).await?;
    let (robot, alice) = (
        server.client(&token).await?,
        server.client("t1/alice").await?,
    );
    for client in [&admin, &robot, &alice] {
        assert_eq!(client.get("/api/v1/secrets").await?.status, 200);
    }
    Ok(vec![admin, robot, alice])
}

/// Everything that a caller can observe of a response, without per-response values and names that
/// the caller itself sent.
fn seen(answer: &Answer, names: &[&str]) -> String {
    let mut headers: Vec<String> = answer
        .headers
        .iter()
        .filter(|(name, _)| !["audit-id", "date", "content-length"].contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {value:?}"))
        .collect();
    headers.sort();
    let body = without(answer, names);
    format!("{} {} {body}", answer.status, headers.join("; "))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i19_another_space_is_refused_alike_whether_or_not_it_or_anything_in_it_is_there()
-> anyhow::Result<()> {
    let server = server_with(&["t1/alice"], false).await?;
    let attackers = attackers(&server).await?;
    // The same names in every space, so that each path has an object in each space.
    let made = fill(&server.tenant("t2").await?, false).await?;
    fill(&server.system().await?, true).await?;
    fill(&attackers[0], false).await?;
    let asks = Ask::every();
    assert!(asks.len() > 600, "{}", asks.len());
    let before = server.registry().store().revision().await?;
    for (number, attacker) in attackers.iter().enumerate() {
        for ask in &asks {
            let there = made.iter().find(|(kind, _)| std::ptr::eq(*kind, ask.kind));
            let name = there.and_then(|(_, path)| path.rsplit('/').next());
            let name = name.unwrap_or("canary");
            // Existing and missing objects in each space; for the other spaces, one of each.
            let places = [
                ("default", name),
                ("nothing", "nothing"),
                ("default", "nothing"),
            ];
            let many = if number == 0 { 3 } else { 1 };
            refused_alike(ask, attacker, &places[..many]).await?;
        }
    }
    let after = server.registry().store().revision().await?;
    assert_eq!(before, after, "nothing was written");
    Ok(())
}

/// Asserts equal responses for existing and missing spaces, namespaces and names, and for the
/// system's.
async fn refused_alike(
    ask: &Ask,
    attacker: &Client,
    places: &[(&str, &str)],
) -> anyhow::Result<()> {
    let mut tries = Vec::new();
    for space in ["t2", "ghost", "system"] {
        for &(namespace, name) in places {
            let paths = ask.spellings(space, Place { namespace, name });
            tries.extend(paths.into_iter().map(|path| (space, name, path)));
        }
    }
    let sent = tries.iter().map(|(_, _, path)| ask.send(attacker, path));
    let refused = try_join_all(sent).await?;
    // Whether the path names an object is the caller's choice and may differ.
    let mut expected = [None, None];
    for ((space, name, path), refused) in tries.iter().zip(&refused) {
        assert_eq!(refused.status, 403, "{ask:?} {path}: {}", refused.text());
        let message = refused.message();
        let end = format!("in the tenant \"{space}\"");
        assert!(message.ends_with(&end), "{path}: {message}");
        let found = seen(refused, &[space, name]);
        let named = path.ends_with(&format!("/{name}"));
        let expected = &mut expected[usize::from(named)];
        match expected {
            None => *expected = Some(found),
            Some(expected) => assert_eq!(found, *expected, "{} {path}", ask.method()),
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i12_all_spaces_at_once_are_the_systems_to_look_at() -> anyhow::Result<()> {
    let server = server_with(&["t1/alice"], false).await?;
    let attackers = attackers(&server).await?;
    let other = server.tenant("t2").await?;
    assert_eq!(other.post(MAPS, &called("canary")).await?.status, 201);
    let (system, nobody) = (server.system().await?, server.client("").await?);
    let forms = [
        "application/json",
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    ];
    for ask in Ask::every() {
        let place = Place {
            namespace: "default",
            name: "canary",
        };
        for path in ask.full("all", place) {
            // A single object belongs to one space, so there is no path for all spaces.
            let of_many = ask.of_many() && !path.ends_with("/canary");
            let answer = ask.send(&system, &path).await?;
            let expected = if of_many { 200 } else { 405 };
            assert_eq!(answer.status, expected, "{path}: {}", answer.text());
            let answer = ask.send(&nobody, &path).await?;
            assert_eq!(answer.status, 401, "{path}: {}", answer.text());
            for attacker in &attackers {
                let answer = ask.send(attacker, &path).await?;
                let expected = if of_many { [403, 403] } else { [403, 405] };
                let refused = expected.contains(&answer.status);
                assert!(refused, "{path}: {}", answer.text());
                assert!(!answer.text().contains("\"t2\""), "{}", answer.text());
                assert!(!of_many || answer.message().ends_with("in all tenants"));
            }
        }
        if ask.verb != "list" {
            continue;
        }
        for form in forms {
            let path = &ask.full("all", place)[0];
            let answer = attackers[0].accept(path, form).await?;
            assert_eq!(answer.status, 403, "{path} {form}");
            assert_eq!(answer.json()["kind"], "Status", "{path} {form}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn i18_what_describes_another_space_is_refused_alike() -> anyhow::Result<()> {
    let server = server_with(&["t1/alice"], false).await?;
    let attackers = attackers(&server).await?;
    server.tenant("t2").await?;
    for page in Page::every() {
        for attacker in &attackers {
            for space in ["t2", "ghost", "system"] {
                let path = format!("/tenants/{space}{}", page.path);
                let answer = attacker.get(&path).await?;
                if page.document.is_open() {
                    // The document is the server's and equal under every path.
                    let plain = attacker.get(&page.path).await?;
                    assert_eq!(answer.body, plain.body, "{path}");
                    continue;
                }
                assert_eq!(answer.status, 403, "{path}: {}", answer.text());
                let why = format!("cannot get path \"{path}\"");
                assert!(answer.message().ends_with(&why), "{}", answer.message());
            }
            let own = attacker.get(&format!("/tenants/t1{}", page.path)).await?;
            let expected = if page.path == "/metrics" { 404 } else { 200 };
            assert_eq!(own.status, expected, "{}: {}", page.path, own.text());
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_method_that_a_path_does_not_have_is_told_alike() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let attacker = server.tenant("t1").await?;
    let other = server.tenant("t2").await?;
    assert_eq!(other.post(MAPS, &called("canary")).await?.status, 201);
    let within = "namespaces/default/configmaps";
    for (method, below) in [
        ("PUT", within.to_owned()),
        ("PATCH", within.to_owned()),
        ("POST", format!("{within}/canary")),
        ("OPTIONS", within.to_owned()),
        ("HEAD", within.to_owned()),
        ("HEAD", format!("{within}/canary")),
        ("TRACE", within.to_owned()),
        ("POST", "configmaps".to_owned()),
        ("GET", format!("{within}/canary/status")),
        ("GET", format!("{within}/canary/a/b")),
        ("GET", "unknowns".to_owned()),
        ("GET", "namespaces/default/unknowns/x".to_owned()),
        ("GET", "namespaces/default/persistentvolumes/x".to_owned()),
    ] {
        for spelling in ["/api/v1/tenants/@/", "/tenants/@/api/v1/"] {
            let mut answers = Vec::new();
            for space in ["t2", "ghost", "system"] {
                let path = format!("{spelling}{below}").replace('@', space);
                let answer = attacker.send(method.parse()?, &path, &[], "{").await?;
                let seen = seen(&answer, &[space]);
                answers.push(seen.replace(&format!("/tenants/{space}/"), "/tenants/@/"));
            }
            let first = answers.first().cloned().unwrap_or_default();
            assert!(first.starts_with("40"), "{method} {below}: {first}");
            assert_eq!(answers, vec![first; 3], "{method} {spelling}{below}");
        }
    }
    Ok(())
}

#[test]
fn every_document_has_a_path_that_the_sweep_takes() {
    let mut numbers: Vec<usize> = Page::every().iter().map(Page::number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let all: Vec<usize> = (0..13).collect();
    assert_eq!(numbers, all);
}

/// Every route, one line per resource. A new route has to be covered by the sweep and by the access
/// table before it is added to this file.
#[test]
fn the_routes_are_those_that_were_reviewed() -> anyhow::Result<()> {
    let mut lines: Vec<String> = Page::every()
        .iter()
        .map(|page| match page.document.is_open() {
            true => format!("{} get, open to all", page.pattern),
            false => format!("{} get", page.pattern),
        })
        .collect();
    let mut label = String::new();
    let asks = Ask::every();
    for ask in asks.iter().filter(|ask| !ask.everywhere) {
        if ask.label() != label {
            label = ask.label();
            let scope = match (ask.kind.system_only, ask.kind.namespaced()) {
                (true, _) => "the system's",
                (false, true) => "in namespaces",
                (false, false) => "in the space",
            };
            lines.push(format!("{label} ({scope}):"));
        }
        let line = lines.last_mut().expect("it was pushed");
        line.push(' ');
        line.push_str(ask.verb);
    }
    lines.push(format!("{} routes", asks.len() + Page::every().len()));
    assert_golden("routes.txt", &(lines.join("\n") + "\n"))
}

#[tokio::test]
async fn a_secret_of_another_tenant_is_not_in_any_refusal() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (attacker, victim) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let path = "/api/v1/namespaces/default/secrets";
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"key": "canary-4711"}});
    assert_eq!(victim.post(path, &secret).await?.status, 201);
    for ask in Ask::every() {
        let place = Place {
            namespace: "default",
            name: "s",
        };
        if ask.kind.resource != "secrets" {
            continue;
        }
        for path in ask.spellings("t2", place) {
            let refused = ask.send(&attacker, &path).await?;
            assert!(!refused.text().contains("canary"), "{}", refused.text());
            assert!(!refused.text().contains("Y2FuYXJ5"), "{}", refused.text());
        }
    }
    Ok(())
}
