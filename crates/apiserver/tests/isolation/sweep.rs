//! Every route and verb in every spelling, called by each sort of tenant credential, on another
//! tenant and on the system.

use futures_util::future::try_join_all;
use insula_apiserver::pipeline::route::Document;
use insula_testkit::server::{Answer, Client, TestServer};
use serde_json::json;

use super::golden::assert_golden;
use super::principals::{bind, server_with, service_account, service_account_token, user};
use super::routes::{DocumentPath, NamespacedName, Operation, UNKNOWN_UID};
use super::{MAPS, body_without, create_all_kinds, named};

/// An administrator, a service account and a user of `t1`, each with all permissions in that
/// tenant.
async fn attackers(server: &TestServer) -> anyhow::Result<Vec<Client>> {
    let admin = server.tenant("t1").await?;
    let token = service_account_token(&admin, "default", "robot").await?;
    let robot = service_account("default", "robot");
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
fn observable(answer: &Answer, names: &[&str]) -> String {
    let mut headers: Vec<String> = answer
        .headers
        .iter()
        .filter(|(name, _)| !["audit-id", "date", "content-length"].contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {value:?}"))
        .collect();
    headers.sort();
    let body = body_without(answer, names);
    format!("{} {} {body}", answer.status, headers.join("; "))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i19_refusals_do_not_reveal_whether_a_space_or_object_exists() -> anyhow::Result<()> {
    let server = server_with(&["t1/alice"], false).await?;
    let attackers = attackers(&server).await?;
    // The same names in every space, so that each path has an object in each space.
    let created = create_all_kinds(&server.tenant("t2").await?, false).await?;
    create_all_kinds(&server.system().await?, true).await?;
    create_all_kinds(&attackers[0], false).await?;
    let operations = Operation::all();
    assert!(operations.len() > 600, "{}", operations.len());
    let before = server.registry().store().revision().await?;
    for (number, attacker) in attackers.iter().enumerate() {
        for operation in &operations {
            let there = created
                .iter()
                .find(|(kind, _)| std::ptr::eq(*kind, operation.kind));
            let name = there.and_then(|(_, path)| path.rsplit('/').next());
            let name = name.unwrap_or("canary");
            // Existing and missing objects in each space; for the other spaces, one of each.
            let objects = [
                ("default", name),
                ("nothing", "nothing"),
                ("default", "nothing"),
            ];
            let many = if number == 0 { 3 } else { 1 };
            assert_refused_alike(operation, attacker, &objects[..many]).await?;
        }
    }
    let after = server.registry().store().revision().await?;
    assert_eq!(before, after, "nothing was written");
    Ok(())
}

/// Asserts equal responses for existing and missing spaces, namespaces and names, and for the
/// system's.
async fn assert_refused_alike(
    operation: &Operation,
    attacker: &Client,
    objects: &[(&str, &str)],
) -> anyhow::Result<()> {
    let mut tries = Vec::new();
    for space in ["t2", "ghost", "system"] {
        for &(namespace, name) in objects {
            let paths = operation.all_spellings(space, NamespacedName { namespace, name });
            tries.extend(paths.into_iter().map(|path| (space, name, path)));
        }
    }
    let sent = tries
        .iter()
        .map(|(_, _, path)| operation.send(attacker, path));
    let refused = try_join_all(sent).await?;
    // Whether the path names an object is the caller's choice and may differ.
    let mut expected = [None, None];
    for ((space, name, path), refused) in tries.iter().zip(&refused) {
        assert_eq!(
            refused.status,
            403,
            "{operation:?} {path}: {}",
            refused.text()
        );
        let message = refused.message();
        let end = format!("in the tenant \"{space}\"");
        assert!(message.ends_with(&end), "{path}: {message}");
        let found = observable(refused, &[space, name]);
        let named = path.ends_with(&format!("/{name}"));
        let expected = &mut expected[usize::from(named)];
        match expected {
            None => *expected = Some(found),
            Some(expected) => assert_eq!(found, *expected, "{} {path}", operation.method()),
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i12_only_the_system_can_list_all_spaces() -> anyhow::Result<()> {
    let server = server_with(&["t1/alice"], false).await?;
    let attackers = attackers(&server).await?;
    let other = server.tenant("t2").await?;
    assert_eq!(other.post(MAPS, &named("canary")).await?.status, 201);
    let (system, anonymous) = (server.system().await?, server.client("").await?);
    let forms = [
        "application/json",
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    ];
    for operation in Operation::all() {
        let object = NamespacedName {
            namespace: "default",
            name: "canary",
        };
        for path in operation.full_paths("all", object) {
            // A single object belongs to one space, so there is no path for all spaces.
            let is_collection = operation.is_collection() && !path.ends_with("/canary");
            let answer = operation.send(&system, &path).await?;
            let expected = if is_collection { 200 } else { 405 };
            assert_eq!(answer.status, expected, "{path}: {}", answer.text());
            let answer = operation.send(&anonymous, &path).await?;
            assert_eq!(answer.status, 401, "{path}: {}", answer.text());
            for attacker in &attackers {
                let answer = operation.send(attacker, &path).await?;
                let expected = if is_collection {
                    [403, 403]
                } else {
                    [403, 405]
                };
                let refused = expected.contains(&answer.status);
                assert!(refused, "{path}: {}", answer.text());
                assert!(!answer.text().contains("\"t2\""), "{}", answer.text());
                assert!(!is_collection || answer.message().ends_with("in all tenants"));
            }
        }
        if operation.verb != "list" {
            continue;
        }
        for form in forms {
            let path = &operation.full_paths("all", object)[0];
            let answer = attackers[0].accept(path, form).await?;
            assert_eq!(answer.status, 403, "{path} {form}");
            assert_eq!(answer.json()["kind"], "Status", "{path} {form}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn i18_documents_of_another_space_are_refused_alike() -> anyhow::Result<()> {
    let server = server_with(&["t1/alice"], false).await?;
    let attackers = attackers(&server).await?;
    server.tenant("t2").await?;
    for page in DocumentPath::all() {
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
            // This server has no audit log.
            let unavailable = ["/metrics", "/audit"].contains(&page.path.as_str());
            let absent = unavailable || page.path.contains(UNKNOWN_UID);
            let expected = if absent { 404 } else { 200 };
            assert_eq!(own.status, expected, "{}: {}", page.path, own.text());
        }
    }
    Ok(())
}

#[tokio::test]
async fn i19_unsupported_methods_are_refused_alike() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let attacker = server.tenant("t1").await?;
    let other = server.tenant("t2").await?;
    assert_eq!(other.post(MAPS, &named("canary")).await?.status, 201);
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
                let observable = observable(&answer, &[space]);
                answers.push(observable.replace(&format!("/tenants/{space}/"), "/tenants/@/"));
            }
            let first = answers.first().cloned().unwrap_or_default();
            assert!(first.starts_with("40"), "{method} {below}: {first}");
            assert_eq!(answers, vec![first; 3], "{method} {spelling}{below}");
        }
    }
    Ok(())
}

#[test]
fn i29_the_sweep_covers_every_document() {
    let mut numbers: Vec<usize> = DocumentPath::all()
        .iter()
        .map(DocumentPath::number)
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    let all: Vec<usize> = (0..16).collect();
    assert_eq!(numbers, all);
}

/// Every route, one line per resource. A new route has to be covered by the sweep and by the access
/// table before it is added to this file.
#[test]
fn i29_routes_match_the_reviewed_list() -> anyhow::Result<()> {
    let mut lines: Vec<String> = DocumentPath::all()
        .iter()
        .map(|page| match (&page.document, page.document.is_open()) {
            (Document::Issuer, _) => format!("{} get, open in the system space", page.pattern),
            (_, true) => format!("{} get, open to all", page.pattern),
            (_, false) => format!("{} get", page.pattern),
        })
        .collect();
    let mut label = String::new();
    let operations = Operation::all();
    for operation in operations
        .iter()
        .filter(|operation| !operation.all_namespaces)
    {
        if operation.label() != label {
            label = operation.label();
            let scope = match (operation.kind.system_only, operation.kind.namespaced()) {
                (true, _) => "the system's",
                (false, true) => "in namespaces",
                (false, false) => "in the space",
            };
            lines.push(format!("{label} ({scope}):"));
        }
        let line = lines.last_mut().expect("it was pushed");
        line.push(' ');
        line.push_str(operation.verb);
    }
    lines.push(format!(
        "{} routes",
        operations.len() + DocumentPath::all().len()
    ));
    assert_golden("routes.txt", &(lines.join("\n") + "\n"))
}

#[tokio::test]
async fn i45_refusals_contain_no_secret_of_another_tenant() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (attacker, victim) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let path = "/api/v1/namespaces/default/secrets";
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"key": "canary-4711"}});
    assert_eq!(victim.post(path, &secret).await?.status, 201);
    for operation in Operation::all() {
        let object = NamespacedName {
            namespace: "default",
            name: "s",
        };
        if operation.kind.resource != "secrets" {
            continue;
        }
        for path in operation.all_spellings("t2", object) {
            let refused = operation.send(&attacker, &path).await?;
            assert!(!refused.text().contains("canary"), "{}", refused.text());
            assert!(!refused.text().contains("Y2FuYXJ5"), "{}", refused.text());
        }
    }
    Ok(())
}
