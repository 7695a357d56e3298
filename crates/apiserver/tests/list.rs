//! LIST: which revision a list shows, and its metadata.

use crate::fixtures::{assert_refused, names, revision};
use anyhow::Context;
use insula_kinds::{protobuf, types};
use insula_store::{At, KeyRange, Revision, Transaction};
use insula_testkit::server::{Client, Engine, Setup, TestServer};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn create_map(client: &Client, name: &str) -> anyhow::Result<u64> {
    let object = json!({"metadata": {"name": name}, "data": {"of": name}});
    let created = client.post(MAPS, &object).await?;
    anyhow::ensure!(created.status == 201, "{}", created.text());
    Ok(revision(&created.json()))
}

/// A server with three ConfigMaps, created at the returned revisions.
async fn three_maps() -> anyhow::Result<(TestServer, Client, [u64; 3])> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let created = [
        create_map(&client, "a").await?,
        create_map(&client, "b").await?,
        create_map(&client, "c").await?,
    ];
    Ok((server, client, created))
}

#[tokio::test]
async fn items_are_in_key_order_without_kinds() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    for name in ["b", "a.b", "a", "a-b", "c"] {
        create_map(&client, name).await?;
    }
    let answer = client.get(MAPS).await?;
    assert_eq!(answer.status, 200);
    let list = answer.json();
    assert_eq!(names(&list), ["a", "a-b", "a.b", "b", "c"]);
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(list["apiVersion"], "v1");
    for item in list["items"].as_array().into_iter().flatten() {
        assert_eq!((item.get("kind"), item.get("apiVersion")), (None, None));
        assert_eq!(item["metadata"]["tenant"], "t1");
    }
    let begin = format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{}"}},"items":[{{"metadata":{{"name":"a","#,
        revision(&list)
    );
    assert!(answer.text().starts_with(&begin), "{}", answer.text());
    assert!(answer.text().ends_with("}]}\n"));
    Ok(())
}

#[tokio::test]
async fn large_lists_are_complete_in_every_format() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    for number in 0..60 {
        let value = "x".repeat(100 * number);
        let object = json!({"metadata": {"name": format!("m{number:02}")}, "data": {"k": value}});
        assert_eq!(client.post(MAPS, &object).await?.status, 201);
    }
    let whole = client.get(MAPS).await?.json();
    let count = whole["items"].as_array().map_or(0, Vec::len);
    let meta = "g=meta.k8s.io;v=v1";
    for (accept, member, has_length) in [
        ("application/json".to_owned(), "items", true),
        ("application/json;pretty=1".to_owned(), "items", false),
        (format!("application/json;as=Table;{meta}"), "rows", false),
        (
            format!("application/json;as=PartialObjectMetadataList;{meta}"),
            "items",
            false,
        ),
    ] {
        let answer = client.accept(MAPS, &accept).await?;
        let items = answer.json()[member].as_array().map_or(0, Vec::len);
        assert_eq!((answer.status, items), (200, count), "{accept}");
        let length = answer.header("content-length");
        assert_eq!(!length.is_empty(), has_length, "{accept}: {length}");
    }
    let pretty = client.accept(MAPS, "application/json;pretty=1").await?;
    assert_eq!(pretty.json(), whole);
    let yaml = client.accept(MAPS, "application/yaml").await?.text();
    assert_eq!(yaml.matches("\n    name: m").count(), count, "{yaml}");
    let protobuf = "application/vnd.kubernetes.protobuf";
    // The first list measures the objects, and the second knows their lengths.
    let lists = [
        client.accept(MAPS, protobuf).await?,
        client.accept(MAPS, protobuf).await?,
    ];
    for list in &lists {
        assert_eq!(list.header("content-length"), list.body.len().to_string());
        let envelope = protobuf::open(&list.body)?;
        let of = types().find("api.core.v1.ConfigMapList");
        let of = of.context("the type is known")?;
        let tree = protobuf::decode(of, envelope.raw)?;
        assert_eq!(tree["items"], whole["items"]);
    }
    Ok(())
}

#[tokio::test]
async fn items_of_all_namespaces_are_in_key_order() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    for namespace in ["n", "n-1", "n1"] {
        let object = json!({"metadata": {"name": namespace}});
        client.post("/api/v1/namespaces", &object).await?;
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let object = json!({"metadata": {"name": "m"}});
        assert_eq!(client.post(&path, &object).await?.status, 201);
    }
    let list = client.get("/api/v1/configmaps").await?.json();
    let items = list["items"].as_array().into_iter().flatten();
    let spaces: Vec<_> = items.map(|item| &item["metadata"]["namespace"]).collect();
    // In the order of etcd: `n-1/m` < `n/m` < `n1/m`.
    assert_eq!(spaces, ["n-1", "n", "n1"]);
    Ok(())
}

#[tokio::test]
async fn missing_namespaces_list_as_empty() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    for path in [MAPS, "/api/v1/namespaces/nons/configmaps"] {
        let answer = client.get(path).await?;
        assert_eq!(answer.status, 200);
        let rest = format!(
            r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{}"}},"items":[]}}"#,
            revision(&answer.json())
        );
        assert_eq!(answer.text().trim_end(), rest);
        assert!(revision(&answer.json()) > 0);
    }
    Ok(())
}

#[tokio::test]
async fn resource_version_selects_the_listed_state() -> anyhow::Result<()> {
    let (_server, client, [a, b, c]) = three_maps().await?;
    client.delete(&format!("{MAPS}/a")).await?;
    let get = async |query: String| {
        let answer = client.get(&format!("{MAPS}?{query}")).await?;
        anyhow::ensure!(answer.status == 200, "{query}: {}", answer.text());
        Ok(answer.json())
    };
    let now = ["b", "c"];
    for query in [
        String::new(),
        "resourceVersion=".to_owned(),
        format!("resourceVersion={b}"),
        format!("resourceVersion={b}&resourceVersionMatch=NotOlderThan"),
        "resourceVersion=0&resourceVersionMatch=NotOlderThan".to_owned(),
        "resourceVersion=0".to_owned(),
        "resourceVersion=0&limit=1".to_owned(),
        "limit=0".to_owned(),
        "limit=-5".to_owned(),
        "allowWatchBookmarks=true".to_owned(),
        "timeoutSeconds=1".to_owned(),
    ] {
        let list: Value = get(query.clone()).await?;
        assert_eq!(names(&list), now, "{query}");
        assert_eq!(list["metadata"].get("continue"), None, "{query}");
        assert_eq!(list["metadata"].get("remainingItemCount"), None, "{query}");
        assert_eq!(revision(&list), c + 1, "{query}");
    }
    for (at, wanted) in [
        (a - 1, &[][..]),
        (a, &["a"]),
        (b, &["a", "b"]),
        (c, &["a", "b", "c"]),
        (c + 1, &["b", "c"]),
    ] {
        let list = get(format!("resourceVersion={at}&resourceVersionMatch=Exact")).await?;
        assert_eq!((names(&list).as_slice(), revision(&list)), (wanted, at));
        // A limit with a resource version implies `Exact`, as before `resourceVersionMatch`
        // existed.
        let list = get(format!("resourceVersion={at}&limit=500")).await?;
        assert_eq!((names(&list).as_slice(), revision(&list)), (wanted, at));
    }
    let list = get(format!(
        "resourceVersion={a}&resourceVersionMatch=NotOlderThan&limit=1"
    ))
    .await?;
    assert_eq!((names(&list), revision(&list)), (vec!["b"], c + 1));
    assert_eq!(list["metadata"]["remainingItemCount"], 1);
    Ok(())
}

#[tokio::test]
async fn contradictory_parameters_are_refused() -> anyhow::Result<()> {
    let (_server, client, [a, ..]) = three_maps().await?;
    let page = client.get(&format!("{MAPS}?limit=1")).await?.json();
    let token = page["metadata"]["continue"].as_str().unwrap_or("none");
    let invalid = |what: &str| format!("ListOptions.meta.k8s.io \"\" is invalid: {what}");
    let forbidden = |why: &str| format!("resourceVersionMatch: Forbidden: {why}");
    let unless = forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided");
    let during = forbidden("resourceVersionMatch is forbidden when continue is provided");
    for (query, what) in [
        ("resourceVersionMatch=Exact".to_owned(), unless.clone()),
        (
            "resourceVersionMatch=NotOlderThan&limit=1".to_owned(),
            unless.clone(),
        ),
        (
            "resourceVersion=0&resourceVersionMatch=Exact".to_owned(),
            forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""),
        ),
        (
            format!("resourceVersion={a}&resourceVersionMatch=Foo"),
            "resourceVersionMatch: Unsupported value: \"Foo\": supported values: \"Exact\", \
             \"NotOlderThan\", \"\""
                .to_owned(),
        ),
        (
            format!("resourceVersion=0&resourceVersionMatch=NotOlderThan&continue={token}"),
            during.clone(),
        ),
        (
            format!("resourceVersionMatch=NotOlderThan&continue={token}"),
            format!("[{unless}, {during}]"),
        ),
        (
            "sendInitialEvents=false".to_owned(),
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list".to_owned(),
        ),
    ] {
        let answer = client.get(&format!("{MAPS}?{query}")).await?;
        assert_refused(&answer, 422, "Invalid", &invalid(&what));
    }
    let answer = client
        .get(&format!("{MAPS}?sendInitialEvents=true"))
        .await?;
    let wanted = json!({
        "group": "meta.k8s.io",
        "kind": "ListOptions",
        "causes": [{
            "reason": "FieldValueForbidden",
            "message": "Forbidden: sendInitialEvents is forbidden for list",
            "field": "sendInitialEvents",
        }],
    });
    assert_eq!(answer.json()["details"], wanted);
    for (query, message) in [
        (
            format!("resourceVersion={a}&continue={token}"),
            "specifying resource version is not allowed when using continue",
        ),
        (
            "resourceVersion=abc".to_owned(),
            "invalid resource version: resourceVersion: Invalid value: \"abc\": \
             strconv.ParseUint: parsing \"abc\": invalid syntax",
        ),
        (
            "limit=abc".to_owned(),
            "strconv.ParseInt: parsing \"abc\": invalid syntax",
        ),
        (
            "limit=9223372036854775808".to_owned(),
            "strconv.ParseInt: parsing \"9223372036854775808\": value out of range",
        ),
        (
            "timeout=abc".to_owned(),
            "invalid timeout specified in the request URL - time: invalid duration \"abc\"",
        ),
    ] {
        let answer = client.get(&format!("{MAPS}?{query}")).await?;
        assert_refused(&answer, 400, "BadRequest", message);
        assert_eq!(answer.json().get("details"), None);
    }
    Ok(())
}

#[tokio::test]
async fn future_resource_versions_time_out() -> anyhow::Result<()> {
    let (_server, client, [.., now]) = three_maps().await?;
    let asked = now + 100;
    let message = format!("Timeout: Too large resource version: {asked}, current: {now}");
    let path = format!("{MAPS}?resourceVersion={asked}");
    let (exact, paged) = (
        format!("{path}&resourceVersionMatch=Exact"),
        format!("{path}&limit=1"),
    );
    let (plain, exact, paged) =
        tokio::join!(client.get(&path), client.get(&exact), client.get(&paged));
    for answer in [plain?, exact?, paged?] {
        assert_refused(&answer, 504, "Timeout", &message);
        assert_eq!(answer.header("retry-after"), "1");
    }
    Ok(())
}

#[tokio::test]
async fn compacted_revisions_are_answered_with_410() -> anyhow::Result<()> {
    for engine in [Engine::Memory, Engine::Embedded, Engine::Etcd] {
        let Some(server) = TestServer::start_on(engine, Setup::default()).await? else {
            // The test kit has printed that the engine is skipped.
            continue;
        };
        let client = server.tenant("t1").await?;
        let first = create_map(&client, "a").await?;
        let last = create_map(&client, "b").await?;
        server
            .registry()
            .store()
            .compact(Revision::new(last))
            .await?;
        for query in [
            format!("resourceVersion={first}&resourceVersionMatch=Exact"),
            format!("resourceVersion={first}&limit=1"),
        ] {
            let answer = client.get(&format!("{MAPS}?{query}")).await?;
            let message = "The resourceVersion for the provided list is too old.";
            assert_refused(&answer, 410, "Expired", message);
            assert_eq!(answer.json().get("details"), None);
        }
        let answer = client
            .get(&format!("{MAPS}?resourceVersion={first}"))
            .await?;
        assert_eq!(names(&answer.json()), ["a", "b"], "{engine:?}");
    }
    Ok(())
}

#[tokio::test]
async fn recreated_tenant_cannot_read_its_predecessors_history() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let of_the_first = create_map(&client, "secret").await?;
    let mut watch = client.watch(&format!("{MAPS}?watch=1")).await?;
    remove_tenant(&server, "t1").await?;
    // A watch on the first tenant ends with its deletion and sees nothing of the second.
    let kinds: Vec<_> = watch
        .rest()
        .await?
        .iter()
        .map(|event| event["type"].clone())
        .collect();
    assert_eq!(kinds.last(), Some(&json!("ERROR")), "{kinds:?}");
    let second = server.tenant("t1").await?;
    for query in [
        format!("resourceVersion={of_the_first}&resourceVersionMatch=Exact"),
        format!("resourceVersion={of_the_first}&limit=5"),
    ] {
        let answer = second.get(&format!("{MAPS}?{query}")).await?;
        let message = "The resourceVersion for the provided list is too old.";
        assert_refused(&answer, 410, "Expired", message);
    }
    let mut watch = second
        .watch(&format!("{MAPS}?watch=1&resourceVersion={of_the_first}"))
        .await?;
    let event = watch.next().await?.unwrap_or_default();
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    Ok(())
}

#[tokio::test]
async fn list_over_all_tenants_is_one_list() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let system = server.system().await?;
    let mut last = 0;
    for tenant in ["t2", "t1", "tenant-a"] {
        let client = server.tenant(tenant).await?;
        for name in ["b", "a"] {
            last = create_map(&client, name).await?;
        }
    }
    let own = json!({"metadata": {"name": "z"}});
    assert_eq!(system.post(MAPS, &own).await?.status, 201);
    last += 1;
    let place = |item: &Value| {
        let metadata = &item["metadata"];
        let text = |member: &str| metadata[member].as_str().unwrap_or("-").to_owned();
        format!("{}:{}", text("tenant"), text("name"))
    };
    let places = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().into_iter().flatten();
        items.map(place).collect()
    };
    let path = "/api/v1/tenants/all/namespaces/default/configmaps";
    let list = system.get(path).await?.json();
    let all = [
        "-:z",
        "t1:a",
        "t1:b",
        "t2:a",
        "t2:b",
        "tenant-a:a",
        "tenant-a:b",
    ];
    assert_eq!(places(&list), all);
    assert_eq!(revision(&list), last);
    let everything = system.get("/api/v1/tenants/all/configmaps").await?.json();
    assert_eq!(places(&everything), all);
    // The same page by page, although writes happen in between.
    let (mut found, mut token) = (Vec::new(), String::new());
    loop {
        let page = system
            .get(&format!("{path}?limit=2&continue={token}"))
            .await?
            .json();
        assert_eq!(revision(&page), last);
        found.extend(places(&page));
        let client = server.tenant("t2").await?;
        client
            .post(MAPS, &json!({"metadata": {"generateName": "x"}}))
            .await?;
        client.delete(&format!("{MAPS}/b")).await?;
        let left = page["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        assert_eq!(found.len() as u64 + left, all.len() as u64);
        match page["metadata"]["continue"].as_str() {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(found, all);
    let refused = server.client("t1").await?.get(path).await?;
    assert_eq!(refused.status, 403);
    Ok(())
}

/// Removes a tenant and everything in its space from the store in one transaction.
async fn remove_tenant(server: &TestServer, tenant: &str) -> anyhow::Result<()> {
    let store = server.registry().store();
    let everything = store.range(&KeyRange::all(), At::Latest, None).await?;
    let own = format!("/registry/tenants/{tenant}");
    let inside = format!("/{tenant}/");
    let mut transaction = Transaction::new();
    for entry in everything.entries {
        let key = String::from_utf8_lossy(&entry.key);
        if key == own || key.contains(&inside) {
            transaction = transaction.delete(entry.key.clone());
        }
    }
    store.commit(transaction).await?;
    Ok(())
}
