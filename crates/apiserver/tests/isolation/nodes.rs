//! Nodes and other kinds that belong to the machines of a cluster: every space has its own.

use insula_testkit::server::{Client, TestServer};
use serde_json::{Value, json};

use super::fixtures::{create, named, names};
use super::principals::subject;

/// The kinds that describe the machines and the server of a cluster.
fn kinds() -> [(&'static str, &'static str, Value); 4] {
    let flow = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let schema = json!({
        "metadata": {"name": "x"},
        "spec": {"priorityLevelConfiguration": {"name": "x"}},
    });
    let level = json!({
        "metadata": {"name": "x"},
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
    });
    [
        ("nodes", "/api/v1/nodes", named("x")),
        (
            "csinodes.storage.k8s.io",
            "/apis/storage.k8s.io/v1/csinodes",
            json!({"metadata": {"name": "x"}, "spec": {"drivers": []}}),
        ),
        (
            "flowschemas.flowcontrol.apiserver.k8s.io",
            const_path(flow, "flowschemas"),
            schema,
        ),
        (
            "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
            const_path(flow, "prioritylevelconfigurations"),
            level,
        ),
    ]
}

fn const_path(group: &str, resource: &str) -> &'static str {
    format!("{group}/{resource}").leak()
}

async fn node(server: &TestServer, space: &str, name: &str) -> anyhow::Result<Client> {
    let user = format!("system:node:{name}");
    let subject = subject(&user, &["system:nodes"], space)?;
    server.client_with_certificate(&subject, "").await
}

#[tokio::test]
async fn i47_machines_of_another_space_do_not_exist() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    for (resource, collection, object) in kinds() {
        let path = format!("{collection}/x");
        let mut watch = one.watch(&format!("{collection}?watch=true")).await?;
        for owner in [&two, &system] {
            let created = create(owner, collection, &object).await?;
            let before = owner.get(&path).await?.body;
            let missing = one.get(&path).await?;
            let why = format!("{resource} \"x\" not found");
            assert_eq!((missing.status, missing.message()), (404, why));
            let none: [&str; 0] = [];
            assert_eq!(
                names(&one.get(collection).await?.json()),
                none,
                "{collection}"
            );
            let patch = json!({"metadata": {"labels": {"by": "t1"}}});
            assert_eq!(one.patch(&path, "merge", &patch).await?.status, 404);
            assert_eq!(one.delete(&path).await?.status, 404);
            assert_eq!(one.delete(collection).await?.status, 200);
            assert_eq!(owner.get(&path).await?.body, before, "{created}");
        }
        // The same name is free, and the watch has seen no other object.
        let own = create(&one, collection, &object).await?;
        assert_eq!(own["metadata"]["tenant"], "t1");
        let event = watch.next().await?.unwrap_or_default();
        assert_eq!(event["object"]["metadata"]["uid"], own["metadata"]["uid"]);
        let (group, plural) = collection.rsplit_once('/').unwrap_or_default();
        let all = system.get(&format!("{group}/tenants/all/{plural}")).await?;
        assert_eq!(all.status, 200, "{}", all.text());
        let all = all.json();
        let items = all["items"].as_array().into_iter().flatten();
        let tenants: Vec<&Value> = items.map(|item| &item["metadata"]["tenant"]).collect();
        assert_eq!(tenants.len(), 3, "{all}");
        for tenant in [json!("t1"), json!("t2"), Value::Null] {
            assert!(tenants.contains(&&tenant), "{all}");
        }
    }
    let keys = server.keys().await?;
    for key in [
        "/registry/nodes/x",
        "/registry/nodes/t1/x",
        "/registry/nodes/t2/x",
    ] {
        assert!(keys.iter().any(|found| found == key), "{key}");
    }
    Ok(())
}

#[tokio::test]
async fn i47_node_of_one_tenant_has_no_rights_in_another() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let pods = "/api/v1/namespaces/default/pods";
    let secrets = "/api/v1/namespaces/default/secrets";
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "a", "secret": {"secretName": "s"}}],
        },
    });
    // The same names in every space, and a pod that refers to the secret in `t2` and `system` only.
    for (space, has_pod) in [("t1", false), ("t2", true), ("system", true)] {
        let admin = match space {
            "system" => server.system().await?,
            tenant => server.tenant(tenant).await?,
        };
        create(&admin, "/api/v1/nodes", named("n1")).await?;
        create(&admin, secrets, named("s")).await?;
        if has_pod {
            create(&admin, pods, &pod).await?;
        }
    }
    let first = node(&server, "t1", "n1").await?;
    let second = node(&server, "t2", "n1").await?;
    let of_system = node(&server, "system", "n1").await?;
    assert_eq!(second.get(&format!("{secrets}/s")).await?.status, 200);
    assert_eq!(of_system.get(&format!("{secrets}/s")).await?.status, 200);
    // Another space's pod makes no relation, even where all names are equal.
    let refused = first.get(&format!("{secrets}/s")).await?;
    assert_eq!(refused.status, 403);
    let own = first
        .get("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1")
        .await?;
    let none: [&str; 0] = [];
    assert_eq!(names(&own.json()), none);
    for client in [&first, &of_system] {
        for path in [
            "/tenants/t2/api/v1/nodes/n1",
            "/tenants/t2/api/v1/namespaces/default/secrets/s",
            "/api/v1/tenants/t2/pods?fieldSelector=spec.nodeName%3Dn1",
            "/api/v1/tenants/all/pods?fieldSelector=spec.nodeName%3Dn1",
            "/api/v1/tenants/all/nodes?fieldSelector=metadata.name%3Dn1",
        ] {
            let refused = client.get(path).await?;
            assert_eq!(refused.status, 403, "{path}: {}", refused.text());
        }
        let path = "/tenants/t2/api/v1/nodes/n1/status";
        let patch = json!({"status": {"phase": "Running"}});
        assert_eq!(client.patch(path, "merge", &patch).await?.status, 403);
    }
    Ok(())
}

#[tokio::test]
async fn i47_only_certificates_of_the_signer_make_nodes() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let admin = server.tenant("t1").await?;
    create(&admin, "/api/v1/nodes", named("n1")).await?;
    for (user, groups) in [
        ("system:node:n1", &[][..]),
        ("system:node:n1", &["system:nodes", "dev"]),
        ("system:node:", &["system:nodes"]),
        ("n1", &["system:nodes"]),
        ("mallory", &["system:nodes"]),
    ] {
        let client = server
            .client_with_certificate(&subject(user, groups, "t1")?, "")
            .await?;
        let refused = client.get("/api/v1/nodes/n1").await?;
        assert_eq!(refused.status, 403, "{user} {groups:?}");
    }
    let client = node(&server, "t1", "n1").await?;
    assert_eq!(client.get("/api/v1/nodes/n1").await?.status, 200);
    // Nor does impersonation, whoever asks for it.
    for impersonator in [admin, server.system().await?] {
        let headers = [
            ("impersonate-user", "system:node:n1"),
            ("impersonate-group", "system:nodes"),
            ("impersonate-group", "tenant:t1"),
        ];
        let sent = impersonator
            .send(http::Method::GET, "/api/v1/nodes/n1", &headers, "")
            .await?;
        assert_eq!(sent.status, 403, "{}", sent.text());
    }
    Ok(())
}
