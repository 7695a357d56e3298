//! Spaces: how credentials and URLs select one, and the tenant field of objects.

use http::Method;
use insula_access::Subject;
use insula_core::Space;
use insula_kinds::{kinds, protobuf};
use insula_testkit::server::{Answer, Client, Engine, Setup, TestServer};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const FULL: &str = "/api/v1/tenants/t1/namespaces/default/configmaps";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn map(name: &str, tenant: Option<&str>) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
    });
    if let Some(tenant) = tenant {
        object["metadata"]["tenant"] = tenant.into();
    }
    object
}

#[tokio::test]
async fn missing_tenant_is_filled_in_and_an_equal_one_accepted() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let user = server.tenant("t1").await?;
    for (name, tenant) in [("a", None), ("b", Some("t1")), ("c", Some(""))] {
        let strict = format!("{MAPS}?fieldValidation=Strict");
        let created = user.post(&strict, &map(name, tenant)).await?;
        assert_eq!(created.status, 201, "{}", created.text());
        assert_eq!(created.json()["metadata"]["tenant"], "t1");
        let path = format!("{MAPS}/{name}");
        // As from a typed client that drops the field or sends it back unchanged.
        for tenant in [None, Some("t1")] {
            let updated = user.put(&path, &map(name, tenant)).await?;
            assert_eq!(updated.status, 200, "{}", updated.text());
            assert_eq!(updated.json()["metadata"]["tenant"], "t1");
        }
        for patch in [
            json!({"metadata": {"tenant": "t1"}}),
            json!({"metadata": {"tenant": null}}),
        ] {
            let patched = user.patch(&path, "merge", &patch).await?;
            assert_eq!(patched.status, 200, "{}", patched.text());
            assert_eq!(patched.json()["metadata"]["tenant"], "t1");
        }
    }
    Ok(())
}

async fn apply(client: &Client, path: &str, config: &Value) -> anyhow::Result<Answer> {
    let headers = [("content-type", "application/apply-patch+yaml")];
    let body = config.to_string();
    client.send(Method::PATCH, path, &headers, body).await
}

/// The warning about a tenant that was dropped, as a header.
fn dropped(tenant: &str, space: Option<&str>) -> String {
    let belongs = match space {
        Some(space) => format!("tenant \\\"{space}\\\""),
        None => "no tenant".to_owned(),
    };
    format!(
        "299 - \"metadata.tenant: dropped \\\"{tenant}\\\", since the object belongs to {belongs}\""
    )
}

#[tokio::test]
async fn different_tenant_is_dropped_with_a_warning_on_every_verb() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (system, user) = (server.system().await?, server.tenant("t1").await?);
    server.tenant("t2").await?;
    assert_eq!(user.post(MAPS, &map("one", None)).await?.status, 201);
    assert_eq!(system.post(MAPS, &map("one", None)).await?.status, 201);
    for (client, base, space, tenants) in [
        (&user, MAPS, Some("t1"), ["t2", "system", "ghost", "all"]),
        (&user, FULL, Some("t1"), ["t2", "system", "ghost", "all"]),
        (&system, FULL, Some("t1"), ["t2", "system", "ghost", "all"]),
        (&system, MAPS, None, ["t1", "t2", "ghost", "all"]),
    ] {
        let path = format!("{base}/one");
        let before = client.get(&path).await?;
        for tenant in tenants {
            let patch = json!({"metadata": {"tenant": tenant}});
            let add = json!([{"op": "add", "path": "/metadata/tenant", "value": tenant}]);
            let strict = format!("{base}?fieldValidation=Strict");
            let dry = format!("{base}?dryRun=All");
            let applied = format!("{path}?fieldManager=m&dryRun=All");
            let config = map("one", Some(tenant));
            for accepted in [
                client.post(&strict, &map("two", Some(tenant))).await?,
                client.post(&dry, &map("three", Some(tenant))).await?,
                client.put(&path, &map("one", Some(tenant))).await?,
                client.patch(&path, "merge", &patch).await?,
                client.patch(&path, "strategic-merge", &patch).await?,
                client.patch(&path, "json", &add).await?,
                apply(client, &applied, &config).await?,
            ] {
                let code = accepted.status;
                assert!([200, 201].contains(&code), "{base}: {}", accepted.text());
                assert_eq!(accepted.header("warning"), dropped(tenant, space), "{base}");
                let metadata = &accepted.json()["metadata"];
                assert_eq!(metadata["tenant"].as_str(), space, "{metadata}");
                let link = metadata["selfLink"].as_str().unwrap_or_default();
                assert_eq!(link.contains("/tenants/"), space.is_some(), "{metadata}");
            }
            assert_eq!(client.delete(&format!("{base}/two")).await?.status, 200);
        }
        let after = client.get(&path).await?;
        assert_eq!(after.body, before.body, "nothing was changed");
    }
    Ok(())
}

#[tokio::test]
async fn applied_tenant_belongs_to_no_manager() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let user = server.tenant("t1").await?;
    let path = format!("{MAPS}/one?fieldManager=m");
    let mut config = map("one", Some("t2"));
    config["metadata"]["selfLink"] = "/api/v1/namespaces/other/configmaps/one".into();
    config["data"] = json!({"a": "b"});
    for status in [201, 200] {
        let applied = apply(&user, &path, &config).await?;
        assert_eq!(applied.status, status, "{}", applied.text());
        assert_eq!(applied.header("warning"), dropped("t2", Some("t1")));
        let metadata = &applied.json()["metadata"];
        assert_eq!(metadata["tenant"], "t1");
        assert_eq!(metadata["selfLink"], format!("{FULL}/one"));
        let owned = json!({"f:data": {"f:a": {}}});
        assert_eq!(metadata["managedFields"][0]["fieldsV1"], owned);
    }
    Ok(())
}

/// As `kubectl get -o yaml | sed … | kubectl create -f -` does, between namespaces and between
/// tenants.
#[tokio::test]
async fn exported_object_can_be_created_elsewhere() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let there = json!({"metadata": {"name": "there"}});
    assert_eq!(one.post("/api/v1/namespaces", &there).await?.status, 201);
    let mut object = map("one", None);
    object["data"] = json!({"a": "b"});
    let created = one.post(MAPS, &object).await?;
    let mut exported = created.json();
    exported["metadata"]["resourceVersion"] = "".into();
    let moved = other.post(MAPS, &exported).await?;
    assert_eq!(moved.status, 201, "{}", moved.text());
    assert_eq!(moved.header("warning"), dropped("t1", Some("t2")));
    exported["metadata"]["namespace"] = "there".into();
    let maps = "/api/v1/namespaces/there/configmaps";
    let copied = one.post(maps, &exported).await?;
    assert_eq!((copied.status, copied.header("warning")), (201, ""));
    for (copy, path) in [
        (
            moved,
            "/api/v1/tenants/t2/namespaces/default/configmaps/one",
        ),
        (copied, "/api/v1/tenants/t1/namespaces/there/configmaps/one"),
    ] {
        let copy = copy.json();
        assert_eq!(copy["metadata"]["selfLink"], path);
        assert_eq!(copy["data"], exported["data"]);
        assert_ne!(copy["metadata"]["uid"], exported["metadata"]["uid"]);
    }
    Ok(())
}

#[tokio::test]
async fn objects_of_the_system_space_have_no_tenant() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let system = server.system().await?;
    for (name, tenant) in [("a", None), ("b", Some("system")), ("c", Some(""))] {
        let created = system.post(MAPS, &map(name, tenant)).await?;
        assert_eq!(created.status, 201, "{}", created.text());
        assert!(!created.text().contains("\"tenant\""), "{}", created.text());
    }
    let list = system.get("/api/v1/configmaps").await?;
    assert!(!list.text().contains("\"tenant\""), "{}", list.text());
    Ok(())
}

#[tokio::test]
async fn protobuf_responses_carry_the_tenant() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let user = server.tenant("t1").await?;
    let kind = kinds()
        .find("", "v1", "configmaps")
        .map(|id| kinds().get(id));
    let of = kind.expect("it is served").type_id();
    let object = map("one", None);
    let object = object.as_object().expect("an object").clone();
    let mut raw = Vec::new();
    protobuf::encode(of, &object, &mut raw);
    let media = "application/vnd.kubernetes.protobuf";
    let headers = [("content-type", media), ("accept", media)];
    let body = protobuf::seal("v1", "ConfigMap", &raw);
    let created = user.send(Method::POST, MAPS, &headers, body).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    let envelope = protobuf::open(&created.body)?;
    let shown = protobuf::decode(of, envelope.raw)?;
    assert_eq!(shown["metadata"]["tenant"], "t1");
    assert_eq!(shown["metadata"]["selfLink"], format!("{FULL}/one"));
    Ok(())
}

#[tokio::test]
async fn objects_can_be_selected_by_tenant() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let system = server.system().await?;
    for tenant in ["t1", "t2"] {
        let user = server.tenant(tenant).await?;
        user.post(MAPS, &map(&format!("of-{tenant}"), None)).await?;
    }
    system.post(MAPS, &map("of-system", None)).await?;
    let user = server.client("t1").await?;
    let all = "/api/v1/tenants/all/configmaps";
    for (client, path, selector, expected) in [
        (
            &user,
            "/api/v1/configmaps",
            "metadata.tenant=t1",
            &["of-t1"][..],
        ),
        (&user, "/api/v1/configmaps", "metadata.tenant=t2", &[]),
        (&user, "/api/v1/configmaps", "metadata.tenant!=t1", &[]),
        (&system, all, "metadata.tenant=t2", &["of-t2"]),
        (&system, all, "metadata.tenant!=t2", &["of-system", "of-t1"]),
        (&system, all, "metadata.tenant=", &["of-system"]),
        (&system, all, "", &["of-system", "of-t1", "of-t2"]),
        (&system, "/api/v1/configmaps", "metadata.tenant=t1", &[]),
    ] {
        let selector = selector.replace('=', "%3D").replace('!', "%21");
        let list = client
            .get(&format!("{path}?fieldSelector={selector}"))
            .await?;
        assert_eq!(list.status, 200, "{}", list.text());
        let list = list.json();
        let items = list["items"].as_array().into_iter().flatten();
        let names: Vec<&Value> = items.map(|item| &item["metadata"]["name"]).collect();
        assert_eq!(names, expected, "{path} {selector}");
    }
    Ok(())
}

#[tokio::test]
async fn url_takes_precedence_over_the_credentials_space() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let system = server.system().await?;
    for tenant in ["t1", "t2"] {
        let user = server.tenant(tenant).await?;
        user.post(MAPS, &map(&format!("of-{tenant}"), None)).await?;
    }
    system.post(MAPS, &map("of-system", None)).await?;
    let list = "configmaps";
    for (token, expected) in [
        ("t1", ["of-t1", "of-t1", "403", "403", "403", "403"]),
        ("t2", ["of-t2", "403", "of-t2", "403", "403", "403"]),
        ("ghost", ["403", "403", "403", "403", "403", "403"]),
        (
            "system",
            [
                "of-system",
                "of-t1",
                "of-t2",
                "of-system",
                "of-system,of-t1,of-t2",
                "404",
            ],
        ),
    ] {
        let client = server.client(token).await?;
        let places = [
            None,
            Some("t1"),
            Some("t2"),
            Some("system"),
            Some("all"),
            Some("missing"),
        ];
        for (place, expected) in places.into_iter().zip(expected) {
            let full = place.map(|place| format!("/api/v1/tenants/{place}/{list}"));
            let below = place.filter(|place| *place != "all");
            let below = below.map(|place| format!("/tenants/{place}/api/v1/{list}"));
            let short = place.is_none().then(|| format!("/api/v1/{list}"));
            for path in [full, below, short].into_iter().flatten() {
                let found = client.get(&path).await?;
                let found = match found.status {
                    200 => {
                        let list = found.json();
                        let items = list["items"].as_array().into_iter().flatten();
                        let names = items.filter_map(|item| item["metadata"]["name"].as_str());
                        names.collect::<Vec<_>>().join(",")
                    }
                    other => other.to_string(),
                };
                assert_eq!(found, expected, "{token} {path}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn credentials_without_a_tenant_are_refused() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let why = "forbidden: the credential names no tenant, and this server has no default tenant";
    let stray = server.client("stray").await?;
    let anonymous = Subject {
        user: "system:kube-scheduler".to_owned(),
        groups: vec!["system:masters".to_owned()],
        tenant: None,
        tenant_uid: None,
    };
    let certified = server.client_with_certificate(&anonymous, "").await?;
    for client in [&stray, &certified] {
        for path in [
            "/api/v1/pods",
            "/api/v1/tenants/t1/pods",
            "/api",
            "/tenants/t1/apis",
            "/metrics",
        ] {
            let refused = client.get(path).await?;
            let found = (refused.status, refused.message());
            assert_eq!(found, (403, why.to_owned()), "{path}");
        }
        assert_eq!(client.get("/healthz").await?.status, 200);
    }
    Ok(())
}

#[tokio::test]
async fn certificate_determines_user_and_tenant() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    server.tenant("t1").await?;
    let everybody = "system:authenticated";
    for (groups, tenant, space, expected) in [
        (&[][..], "t1", "t1", vec![everybody]),
        (&["dev"], "t1", "t1", vec!["dev", everybody]),
        // Server-assigned groups on a tenant's certificate have no effect.
        (&["system:masters"], "t1", "t1", vec![everybody]),
        (&["system:nodes", "dev"], "t1", "t1", vec!["dev", everybody]),
        (
            &["system:masters"],
            "system",
            "system",
            vec!["system:masters", everybody],
        ),
    ] {
        let subject = Subject {
            user: "t2:admin".to_owned(),
            groups: groups
                .iter()
                .map(|group: &&str| (*group).to_owned())
                .collect(),
            tenant: Some(Space::parse(tenant)?),
            tenant_uid: None,
        };
        // The certificate takes precedence over the token.
        for token in ["", "t2", "system", "nonsense"] {
            let client = server.client_with_certificate(&subject, token).await?;
            let user = client.post(WHO, &json!({})).await?;
            assert_eq!(user.status, 201, "{}", user.text());
            let user = &user.json()["status"]["userInfo"];
            assert_eq!(user["username"], "t2:admin");
            assert_eq!(user["groups"], json!(expected));
            assert_eq!(user["extra"]["insula.dev/tenant"], json!([space]));
            let system = client.get("/api/v1/tenants").await?;
            assert_eq!(system.status, if space == "system" { 200 } else { 403 });
        }
    }
    Ok(())
}

#[tokio::test]
async fn unknown_credentials_are_unauthorized() -> anyhow::Result<()> {
    let setup = Setup {
        default_tenant: Some(Space::System),
        ..Setup::default()
    };
    let server = TestServer::start_on(Engine::Memory, setup).await?;
    let server = server.expect("memory is always there");
    let anonymous = server.client("").await?;
    for authorization in [
        &[][..],
        &["Bearer "],
        &["Bearer"],
        &[""],
        &["Bearer nonsense"],
        &["Bearer SYSTEM"],
        &["Basic c3lzdGVtOnN5c3RlbQ=="],
        &["system"],
        &["Bearer t1", "Bearer system"],
        &["Bearer system", "Bearer system"],
        &["Bearer system, Bearer t1"],
    ] {
        let headers: Vec<_> = authorization
            .iter()
            .map(|of| ("authorization", *of))
            .collect();
        for path in [
            "/api/v1/pods",
            "/api",
            "/apis",
            "/openapi/v2",
            "/metrics",
            "/",
            "/nothing",
        ] {
            let refused = anonymous.send(Method::GET, path, &headers, "").await?;
            let found = (refused.status, refused.message());
            assert_eq!(
                found,
                (401, "Unauthorized".to_owned()),
                "{authorization:?} {path}"
            );
        }
    }
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(anonymous.get(path).await?.status, 200, "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn no_request_header_changes_the_user() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let user = server.tenant("t1").await?;
    for name in [
        "x-remote-user",
        "x-remote-group",
        "x-remote-extra-tenant",
        "x-tenant",
    ] {
        let header = [(name, "system:masters")];
        let list = user
            .send(Method::GET, "/api/v1/tenants", &header, "")
            .await?;
        assert_eq!(list.status, 403, "{name}");
        let list = user
            .send(Method::GET, "/api/v1/namespaces", &header, "")
            .await?;
        assert_eq!(
            list.json()["items"][0]["metadata"]["tenant"],
            "t1",
            "{name}"
        );
    }
    Ok(())
}
