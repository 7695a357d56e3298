//! Authorization of custom resources.

use insula_testkit::server::{Audit, AuditLog, Client, DEFINITIONS, Setup, TestServer, rule};
use serde_json::{Value, json};

use super::samples::{create, foo_path, foos_with_all, names};
use super::{FOOS, foo};

/// A server with Foos in `t1`, its administrator, and a user without permissions.
async fn start() -> anyhow::Result<(TestServer, Client, Client)> {
    let setup = Setup {
        tokens: "alice,alice,7,\"dev,tenant:t1\"\n".to_owned(),
        ..Setup::with_controllers()
    };
    let server = TestServer::start_with(setup).await?;
    let admin = server.tenant("t1").await?;
    admin.define(&foos_with_all()).await?;
    for name in ["a", "b"] {
        create(&admin, FOOS, &foo(name, json!({"replicas": 1}))).await?;
    }
    let alice = server.client("alice").await?;
    Ok((server, admin, alice))
}

fn named(mut rule: Value, name: &str) -> Value {
    rule["resourceNames"] = json!([name]);
    rule
}

/// Asserts the status code of each request.
async fn expect(client: &Client, rows: &[(&str, &str, u16)]) -> anyhow::Result<()> {
    for (method, path, code) in rows {
        let (content_type, body) = match *method {
            "PATCH" => ("application/merge-patch+json", "{}".to_owned()),
            "POST" => ("application/json", foo("new", json!({})).to_string()),
            _ => ("application/json", String::new()),
        };
        let headers = [("content-type", content_type)];
        let answer = client.send(method.parse()?, path, &headers, body).await?;
        assert_eq!(answer.status, *code, "{method} {path}: {}", answer.text());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unauthorized_users_learn_nothing_of_a_kind() -> anyhow::Result<()> {
    let (_server, _admin, alice) = start().await?;
    let refused = alice.get(FOOS).await?;
    assert_eq!(refused.status, 403);
    assert_eq!(
        refused.message(),
        "foos.ex.io is forbidden: User \"alice\" cannot list resource \"foos\" in API group \
         \"ex.io\" in the namespace \"default\""
    );
    // Unauthorized callers cannot distinguish existing from missing objects.
    for path in [
        "/apis/ex.io/v1/namespaces/default/bars",
        "/apis/ex.io/v9/namespaces/default/bars",
    ] {
        let other = alice.get(path).await?;
        let seen = other.text().replace("bars", "foos");
        assert_eq!((other.status, seen), (403, refused.text()), "{path}");
    }
    expect(
        &alice,
        &[
            ("GET", &foo_path("a"), 403),
            ("GET", &foo_path("none"), 403),
            ("POST", FOOS, 403),
            ("DELETE", FOOS, 403),
            ("PATCH", &format!("{}/status", foo_path("a")), 403),
            ("GET", &format!("{}/scale", foo_path("a")), 403),
            ("GET", &format!("{FOOS}?watch=true"), 403),
            ("GET", DEFINITIONS, 403),
        ],
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_cover_named_objects_and_subresources() -> anyhow::Result<()> {
    let (_server, admin, alice) = start().await?;
    let one = named(rule("get,patch,delete,list,watch", "ex.io", "foos"), "a");
    admin
        .grant_in("default", "one", "User:alice", &[one])
        .await?;
    let (status, scale) = (
        format!("{}/status", foo_path("a")),
        format!("{}/scale", foo_path("a")),
    );
    let (only, other) = (
        format!("{FOOS}?fieldSelector=metadata.name%3Da"),
        format!("{FOOS}?fieldSelector=metadata.name%3Db"),
    );
    expect(
        &alice,
        &[
            ("GET", &foo_path("a"), 200),
            ("PATCH", &foo_path("a"), 200),
            ("GET", &foo_path("b"), 403),
            ("GET", FOOS, 403),
            ("GET", &only, 200),
            ("GET", &other, 403),
            ("GET", &status, 403),
            ("PATCH", &status, 403),
            ("GET", &scale, 403),
            ("POST", FOOS, 403),
        ],
    )
    .await?;
    let below = [rule("get,patch", "ex.io", "foos/status,foos/scale")];
    admin
        .grant_in("default", "below", "User:alice", &below)
        .await?;
    expect(
        &alice,
        &[
            ("PATCH", &status, 200),
            ("PATCH", &scale, 200),
            ("GET", &format!("{}/scale", foo_path("b")), 200),
            ("GET", &foo_path("b"), 403),
            ("PATCH", &foo_path("b"), 403),
            ("PUT", &scale, 403),
        ],
    )
    .await?;
    let all = [rule("*", "ex.io", "*")];
    admin.grant_in("default", "all", "User:alice", &all).await?;
    expect(
        &alice,
        &[
            ("GET", FOOS, 200),
            ("POST", FOOS, 201),
            ("GET", "/apis/ex.io/v1/foos", 403),
            ("GET", "/apis/ex.io/v1/namespaces/kube-system/foos", 403),
            ("GET", "/apis/ex.io/v1/namespaces/default/bars", 404),
            ("DELETE", FOOS, 200),
        ],
    )
    .await?;
    assert_eq!(names(&admin.get(FOOS).await?.json()), Vec::<&str>::new());
    Ok(())
}

/// Setting `blockOwnerDeletion` needs permission to update the owner's finalizers, for custom
/// owners too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_a_custom_owners_deletion_needs_permission() -> anyhow::Result<()> {
    let (_server, admin, alice) = start().await?;
    let owner = admin.get(&foo_path("a")).await?.json();
    admin
        .grant_in(
            "default",
            "maps",
            "User:alice",
            &[rule("*", "", "configmaps")],
        )
        .await?;
    let reference = json!([{
        "apiVersion": "ex.io/v1", "kind": "Foo", "name": "a", "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": true,
    }]);
    let map = json!({"metadata": {"name": "m", "ownerReferences": reference}});
    let maps = "/api/v1/namespaces/default/configmaps";
    let refused = alice.post(maps, &map).await?;
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(
        refused.message().ends_with("you can't set finalizers on"),
        "{}",
        refused.message()
    );
    let finalizers = [rule("update", "ex.io", "foos/finalizers")];
    admin
        .grant_in("default", "finalizers", "User:alice", &finalizers)
        .await?;
    let created = alice.post(maps, &map).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    // A kind that is not served.
    let mut stray = map;
    stray["metadata"]["name"] = "n".into();
    stray["metadata"]["ownerReferences"][0]["kind"] = "Bar".into();
    assert_eq!(alice.post(maps, &stray).await?.status, 403);
    Ok(())
}

/// The default roles do not cover custom kinds; aggregated roles include labelled ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labelled_roles_for_custom_kinds_are_aggregated() -> anyhow::Result<()> {
    let (_server, admin, alice) = start().await?;
    admin.bind("viewer", "User:alice", "view").await?;
    assert_eq!(alice.get(FOOS).await?.status, 403);
    let role = json!({
        "metadata": {
            "name": "foos-view",
            "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"},
        },
        "rules": [rule("get,list,watch", "ex.io", "foos")],
    });
    create(
        &admin,
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        &role,
    )
    .await?;
    expect(
        &alice,
        &[
            ("GET", FOOS, 200),
            ("GET", &foo_path("a"), 200),
            ("POST", FOOS, 403),
        ],
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_for_custom_objects_are_audited() -> anyhow::Result<()> {
    let log = AuditLog::default();
    let setup = Setup {
        audit: Some(Audit::Memory(log.clone())),
        ..Setup::with_controllers()
    };
    let server = TestServer::start_with(setup).await?;
    let admin = server.tenant("t1").await?;
    admin.define(&foos_with_all()).await?;
    let about = |name: Option<&str>, below: Option<&str>| {
        let mut about = json!({
            "resource": "foos", "namespace": "default", "apiGroup": "ex.io", "apiVersion": "v1",
        });
        for (member, value) in [("name", name), ("subresource", below)] {
            if let Some(value) = value {
                about[member] = value.into();
            }
        }
        about
    };
    let scale = format!("{}/scale", foo_path("a"));
    let patch = json!({"spec": {"replicas": 2}});
    for (answer, verb, wanted) in [
        (
            admin.post(FOOS, &foo("a", json!({"replicas": 1}))).await?,
            "create",
            about(Some("a"), None),
        ),
        (admin.get(FOOS).await?, "list", about(None, None)),
        (
            admin.patch(&scale, "merge", &patch).await?,
            "patch",
            about(Some("a"), Some("scale")),
        ),
        (
            admin.get(&foo_path("none")).await?,
            "get",
            about(Some("none"), None),
        ),
        (
            admin.delete(FOOS).await?,
            "deletecollection",
            about(None, None),
        ),
    ] {
        let event = log.event(answer.header("audit-id")).await?;
        let event: Value = serde_json::from_str(&event)?;
        assert_eq!(
            (&event["verb"], &event["objectRef"]),
            (&json!(verb), &wanted),
            "{event}"
        );
        assert_eq!(event["annotations"]["insula.dev/space"], "t1");
    }
    Ok(())
}
