//! Attempts to address objects outside the caller's space, all refused.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use insula_kinds::{Kind, kinds};
use insula_testkit::server::{Client, TestServer};
use serde_json::{Value, json};

use crate::fixtures::{named, names};
use crate::samples::{api, sample};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn collection(kind: &Kind) -> String {
    match kind.namespaced() {
        true => format!("{}/namespaces/default/{}", api(kind), kind.resource),
        false => format!("{}/{}", api(kind), kind.resource),
    }
}

/// Every entry in the store outside the attacker's space.
async fn entries_of_other_spaces(server: &TestServer) -> anyhow::Result<Vec<insula_store::Entry>> {
    let all = insula_store::KeyRange::all();
    let store = server.registry().store();
    let page = store.range(&all, insula_store::At::Latest, None).await?;
    let own = |entry: &insula_store::Entry| {
        let key = String::from_utf8_lossy(&entry.key);
        key.split('/').any(|segment| segment == "t1")
    };
    Ok(page.entries.into_iter().filter(|one| !own(one)).collect())
}

/// Two tenants, with a secret in the second and one in the system space.
async fn start() -> anyhow::Result<(TestServer, Client, Client, Client)> {
    let server = TestServer::start().await?;
    let (system, one, other) = (
        server.system().await?,
        server.tenant("t1").await?,
        server.tenant("t2").await?,
    );
    for client in [&system, &other] {
        let new = client.post(MAPS, &named("canary")).await?;
        anyhow::ensure!(new.status == 201, "{}", new.text());
    }
    Ok((server, system, one, other))
}

#[tokio::test]
async fn object_names_cannot_escape_their_path() -> anyhow::Result<()> {
    let (server, _, one, _) = start().await?;
    let before = server.keys().await?;
    let tricks = [
        "../t2/default/canary",
        "..",
        ".",
        "a/b",
        "/",
        "t2/default/x",
        "a%2Fb",
        "%2e%2e",
        "a\u{0}b/c",
    ];
    for (_, kind) in kinds().iter() {
        if !kind.supports("create") || !kind.supports("get") || kind.system_only {
            continue;
        }
        let (path, object) = (collection(kind), sample(kind)?);
        for trick in tricks {
            let mut named = object.clone();
            named["metadata"]["name"] = trick.into();
            let refused = one.post(&path, &named).await?;
            assert_eq!(refused.status, 422, "{path} {trick:?}: {}", refused.text());
            let mut generated = object.clone();
            generated["metadata"] = json!({"generateName": trick});
            let refused = one.post(&path, &generated).await?;
            // With its suffix, a generated name of dots is valid for kinds that accept any segment.
            let harmless = refused.status == 201 && !trick.contains(['/', '%']);
            assert!(
                refused.status == 422 || harmless,
                "{path} {trick:?}: {}",
                refused.text()
            );
            if harmless {
                let link = refused.json()["metadata"]["selfLink"].clone();
                assert_eq!(one.delete(link.as_str().unwrap_or("")).await?.status, 200);
            }
            if kind.supports("update") && !trick.contains('\u{0}') {
                let encoded = trick.replace('%', "%25").replace('/', "%2F");
                let refused = one.put(&format!("{path}/{encoded}"), &named).await?;
                let statuses = [404, 422];
                assert!(
                    statuses.contains(&refused.status),
                    "{path} {trick}: {}",
                    refused.text()
                );
            }
        }
    }
    assert_eq!(server.keys().await?, before);
    Ok(())
}

#[tokio::test]
async fn namespace_names_cannot_escape_their_path() -> anyhow::Result<()> {
    let (server, _, one, _) = start().await?;
    let before = server.keys().await?;
    for namespace in [
        "t2",
        "system",
        "nothing",
        "t2%00",
        "%252e%252e",
        "def",
        "default%00",
        "*",
        "%20",
    ] {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let list = one.get(&path).await?;
        assert_eq!(
            (list.status, names(&list.json()).len()),
            (200, 0),
            "{namespace}"
        );
        assert_eq!(
            one.get(&format!("{path}/canary")).await?.status,
            404,
            "{namespace}"
        );
        let refused = one.post(&path, &named("x")).await?;
        assert_eq!(refused.status, 404, "{namespace}: {}", refused.text());
        assert!(
            refused.message().starts_with("namespaces "),
            "{}",
            refused.message()
        );
        assert_eq!(one.delete(&path).await?.status, 200, "{namespace}");
    }
    for path in [
        "/api/v1/namespaces/t2%2Fdefault/configmaps/canary",
        "/api/v1/namespaces/default/configmaps/..%2F..%2Ft2%2Fdefault%2Fcanary",
        "/api/v1/namespaces/../tenants/t2/namespaces/default/configmaps/canary",
        "/api/v1/namespaces/default/../../tenants/t2/configmaps",
        "/tenants/t1/../t2/api/v1/configmaps",
        "/tenants/t1/%2e%2e/t2/api/v1/configmaps",
        "/api/v1/tenants/t1/tenants/t2/configmaps",
        "/tenants/t1/tenants/t2/api/v1/configmaps",
        "/tenants/all/api/v1/configmaps",
        "/api/v1/persistentvolumes/t2%2Fpv",
    ] {
        let refused = one.get(path).await?;
        assert_eq!(refused.status, 404, "{path}: {}", refused.text());
        assert!(!refused.text().contains("\"canary\""), "{path}");
    }
    for space in ["t2", "all"] {
        let path = format!("/tenants/t1/api/v1/tenants/{space}/configmaps");
        let refused = one.get(&path).await?;
        assert_eq!(refused.status, 403, "{path}: {}", refused.text());
    }
    assert_eq!(server.keys().await?, before);
    Ok(())
}

#[tokio::test]
async fn namespace_named_like_a_tenant_stays_a_namespace() -> anyhow::Result<()> {
    let (server, system, one, other) = start().await?;
    for name in [
        "t2",
        "t1",
        "system",
        "all",
        "tenants",
        "namespaces",
        "configmaps",
        "registry",
    ] {
        let new = one.post("/api/v1/namespaces", &named(name)).await?;
        assert_eq!(new.status, 201, "{name}: {}", new.text());
        let path = format!("/api/v1/namespaces/{name}/configmaps");
        assert_eq!(one.post(&path, &named("canary")).await?.status, 201);
        let key = format!("/registry/configmaps/t1/{name}/canary");
        assert!(server.keys().await?.contains(&key), "{key}");
        assert_eq!(names(&other.get(&path).await?.json()).len(), 0, "{name}");
        assert_eq!(names(&system.get(&path).await?.json()).len(), 0, "{name}");
    }
    let list = other.get("/api/v1/configmaps").await?.json();
    assert_eq!(names(&list), ["canary"]);
    assert_eq!(list["items"][0]["metadata"]["tenant"], "t2");
    Ok(())
}

#[tokio::test]
async fn historic_lists_cover_one_space() -> anyhow::Result<()> {
    let (server, system, one, _) = start().await?;
    one.post(MAPS, &named("mine")).await?;
    let revision = server.registry().store().revision().await?;
    // Further writes, so that the cache has moved past that revision.
    for client in [&system, &one] {
        assert_eq!(client.post(MAPS, &named("later")).await?.status, 201);
        let role = json!({"metadata": {"name": "later"}, "rules": []});
        let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        assert_eq!(client.post(roles, &role).await?.status, 201);
    }
    let exact = format!("resourceVersion={revision}&resourceVersionMatch=Exact");
    for (client, path, expected) in [
        (&one, "/api/v1/configmaps", &["mine"][..]),
        (&system, "/api/v1/configmaps", &["canary"]),
        // The keys below this prefix belong to a tenant, which the system's namespaces do not
        // contain.
        (&system, "/api/v1/namespaces/t2/configmaps", &[]),
        (&system, "/api/v1/namespaces/t1/configmaps", &[]),
        (&system, "/api/v1/tenants/t2/configmaps", &["canary"]),
        (
            &system,
            "/api/v1/tenants/all/configmaps",
            &["canary", "mine", "canary"],
        ),
        (
            &system,
            "/api/v1/tenants/all/namespaces/default/configmaps",
            &["canary", "mine", "canary"],
        ),
        (
            &system,
            "/apis/rbac.authorization.k8s.io/v1/clusterroles?labelSelector=%21kubernetes.io/bootstrapping",
            &[],
        ),
        (
            &one,
            "/apis/rbac.authorization.k8s.io/v1/clusterroles?labelSelector=%21kubernetes.io/bootstrapping",
            &["admin-role"],
        ),
    ] {
        let sign = if path.contains('?') { '&' } else { '?' };
        let list = client.get(&format!("{path}{sign}{exact}")).await?;
        assert_eq!(list.status, 200, "{path}: {}", list.text());
        assert_eq!(names(&list.json()), expected, "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn continue_tokens_are_bound_to_their_list() -> anyhow::Result<()> {
    let (_server, system, one, other) = start().await?;
    for client in [&one, &other] {
        for name in ["a", "b", "c"] {
            client.post(MAPS, &named(name)).await?;
        }
    }
    let token = async |client: &Client, path: &str| -> anyhow::Result<String> {
        let page = client.get(&format!("{path}?limit=1")).await?.json();
        let token = page["metadata"]["continue"].as_str().unwrap_or("");
        anyhow::ensure!(!token.is_empty(), "{page}");
        Ok(token.to_owned())
    };
    let (mine, everywhere) = (
        token(&one, MAPS).await?,
        token(&one, "/api/v1/configmaps").await?,
    );
    let all = token(&system, "/api/v1/tenants/all/configmaps").await?;
    let mut forged = Vec::new();
    let bytes = URL_SAFE_NO_PAD.decode(&mine)?;
    for (member, value) in [
        ("start", json!("/../t2/default/a\u{0}")),
        ("start", json!("")),
        ("start", json!("t2//default/a")),
        ("rv", json!(1)),
        ("rv", json!(-1)),
        ("seal", json!("")),
    ] {
        let mut wire: Value = serde_json::from_slice(&bytes)?;
        wire[member] = value;
        forged.push((member, URL_SAFE_NO_PAD.encode(wire.to_string())));
    }
    for (member, token) in &forged {
        let refused = one.get(&format!("{MAPS}?limit=1&continue={token}")).await?;
        assert_eq!(refused.status, 400, "{member}: {}", refused.text());
    }
    for (client, path, token) in [
        (&other, MAPS, &mine),
        (&system, MAPS, &mine),
        (
            &system,
            "/api/v1/tenants/t2/namespaces/default/configmaps",
            &mine,
        ),
        (&system, "/api/v1/tenants/all/configmaps", &everywhere),
        (
            &system,
            "/api/v1/tenants/all/namespaces/default/configmaps",
            &mine,
        ),
        (&one, "/api/v1/configmaps", &mine),
        (&one, "/api/v1/configmaps", &all),
        (&one, "/api/v1/namespaces/default/secrets", &mine),
        (&one, "/api/v1/namespaces/other/configmaps", &mine),
    ] {
        let refused = client
            .get(&format!("{path}?limit=1&continue={token}"))
            .await?;
        assert_eq!(refused.status, 400, "{path}: {}", refused.text());
        assert!(refused.message().starts_with("invalid continue token"));
    }
    let rest = one.get(&format!("{MAPS}?continue={mine}")).await?;
    assert_eq!(names(&rest.json()), ["b", "c"]);
    let rest = system
        .get(&format!("/tenants/t1{MAPS}?continue={mine}"))
        .await?;
    assert_eq!(
        names(&rest.json()),
        ["b", "c"],
        "the same list by another path"
    );
    Ok(())
}

#[tokio::test]
async fn namespace_tenant_and_link_of_a_body_lead_nowhere_else() -> anyhow::Result<()> {
    let (server, _, one, _) = start().await?;
    one.post("/api/v1/namespaces", &named("mine")).await?;
    one.post(MAPS, &named("own")).await?;
    let before = entries_of_other_spaces(&server).await?;
    for (member, value, is_refused) in [
        ("namespace", "mine", true),
        ("namespace", "../t2/default", true),
        ("tenant", "t2", false),
        ("tenant", "../t2", false),
        (
            "selfLink",
            "/api/v1/tenants/t2/namespaces/default/configmaps/own",
            false,
        ),
        (
            "selfLink",
            "/api/v1/namespaces/default/configmaps/own",
            false,
        ),
    ] {
        let mut object = named("own");
        object["metadata"][member] = value.into();
        let path = format!("{MAPS}/own");
        let mut patch = json!({"metadata": {}});
        patch["metadata"][member] = value.into();
        let mut created = object.clone();
        created["metadata"]["name"] = "new".into();
        for (code, answer) in [
            (201, one.post(MAPS, &created).await?),
            (200, one.put(&path, &object).await?),
            (200, one.patch(&path, "merge", &patch).await?),
            (200, one.patch(&path, "strategic-merge", &patch).await?),
        ] {
            let code = if is_refused { 400 } else { code };
            assert_eq!(answer.status, code, "{member}={value}: {}", answer.text());
            if !is_refused {
                let metadata = &answer.json()["metadata"];
                assert_eq!(metadata["tenant"], "t1", "{member}={value}");
                let link = metadata["selfLink"].as_str().unwrap_or_default();
                let own = "/api/v1/tenants/t1/namespaces/default/configmaps/";
                assert!(link.starts_with(own), "{member}={value}: {link}");
            }
        }
        one.delete(&format!("{MAPS}/new")).await?;
    }
    let shown = one.get(&format!("{MAPS}/own")).await?.json();
    let link = "/api/v1/tenants/t1/namespaces/default/configmaps/own";
    assert_eq!(shown["metadata"]["selfLink"], link);
    // A client cannot choose an object's UID either.
    let mut object = named("uid");
    object["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000".into();
    let new = one.post(MAPS, &object).await?.json();
    assert_ne!(new["metadata"]["uid"], object["metadata"]["uid"]);
    assert_eq!(entries_of_other_spaces(&server).await?, before);
    Ok(())
}

#[tokio::test]
async fn pod_and_service_account_subresources_stay_in_their_space() -> anyhow::Result<()> {
    let (server, _, one, other) = start().await?;
    let pod = json!({
        "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(other.post(pods, &pod).await?.status, 201);
    let before = entries_of_other_spaces(&server).await?;
    for name in ["p", "../../t2/default/p", "../t2/default/p", "t2/default/p"] {
        for (tenant, namespace) in [("", ""), ("t2", ""), ("t2", "default"), ("", "t2")] {
            let metadata = json!({"name": name, "namespace": namespace, "tenant": tenant});
            let target = json!({"kind": "Node", "name": "n"});
            let binding = json!({"metadata": metadata, "target": target});
            let eviction = json!({"metadata": metadata});
            for answer in [
                one.post("/api/v1/namespaces/default/bindings", &binding)
                    .await?,
                one.post(&format!("{pods}/p/binding"), &binding).await?,
                one.post(&format!("{pods}/p/eviction"), &eviction).await?,
            ] {
                let refused = [400, 404, 422].contains(&answer.status);
                assert!(refused, "{name} {tenant}: {}", answer.text());
            }
        }
    }
    let token = "/api/v1/namespaces/default/serviceaccounts/missing/token";
    assert_eq!(one.post(token, &json!({"spec": {}})).await?.status, 404);
    assert_eq!(entries_of_other_spaces(&server).await?, before);
    Ok(())
}

#[tokio::test]
async fn selectors_only_filter_the_addressed_collection() -> anyhow::Result<()> {
    let (server, system, one, _) = start().await?;
    one.post("/api/v1/namespaces", &named("mine")).await?;
    one.post("/api/v1/namespaces/mine/configmaps", &named("own"))
        .await?;
    for selector in [
        "metadata.namespace=default",
        "metadata.namespace=t2",
        "metadata.namespace=../t2/default",
        "metadata.name=../t2/default/canary",
        "metadata.name=canary",
        "metadata.tenant=t2",
        "metadata.tenant!=t1",
    ] {
        let encoded = selector
            .replace('!', "%21")
            .replace('=', "%3D")
            .replace('/', "%2F");
        for path in ["/api/v1/configmaps", "/api/v1/namespaces/mine/configmaps"] {
            let list = one.get(&format!("{path}?fieldSelector={encoded}")).await?;
            assert_eq!(
                (list.status, names(&list.json()).len()),
                (200, 0),
                "{selector}"
            );
        }
    }
    // Delete-collection affects the caller's own objects only, for the system as for a tenant.
    let before = entries_of_other_spaces(&server).await?;
    let everything = "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Dcanary";
    assert_eq!(names(&one.delete(everything).await?.json()).len(), 0);
    assert_eq!(one.delete(MAPS).await?.status, 200);
    assert_eq!(entries_of_other_spaces(&server).await?, before);
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    assert_eq!(system.delete(roles).await?.status, 200);
    assert_eq!(system.delete(MAPS).await?.status, 200);
    let left = system.get("/api/v1/tenants/all/configmaps").await?.json();
    assert_eq!(names(&left), ["own", "canary"]);
    let left = one.get(&format!("{roles}/admin-role")).await?;
    assert_eq!(left.status, 200);
    Ok(())
}

#[tokio::test]
async fn refusals_do_not_close_the_connection() -> anyhow::Result<()> {
    let (_server, _, one, _) = start().await?;
    let mut watch = one.watch(&format!("{MAPS}?watch=true")).await?;
    let headers = [("content-type", "application/json")];
    let foreign = "/api/v1/tenants/t2/namespaces/default/configmaps";
    for number in 0..1200 {
        // These bodies are never read, since the requests are refused first.
        let refused = one.send(Method::POST, foreign, &headers, "{").await?;
        assert_eq!(refused.status, 403, "{number}");
    }
    one.post(MAPS, &named("own")).await?;
    let event = watch.next().await?.unwrap_or_default();
    assert_eq!(event["object"]["metadata"]["name"], "own");
    Ok(())
}
