//! Published definitions in tenants: readable and immutable.

use std::sync::Arc;

use insula_store::Store;
use insula_store::memory::Memory;
use insula_testkit::server::{DEFINITIONS, Setup, TestServer, definition};
use serde_json::{Value, json};

use super::{FOOS, PUBLISHED, create_foos, foo, foos, names, own, path, published};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

fn bars() -> Value {
    definition("ex.io", "bars", "Bar", json!({"type": "object"}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_definition_is_visible_in_every_tenant() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    system.define(&bars()).await?;
    assert_eq!(tenant.get(&path("bars.ex.io")).await?.status, 404);
    let defined = system.define(&published(foos())).await?;
    let seen = tenant.get(&path("foos.ex.io")).await?.json();
    let mut wanted = defined.clone();
    wanted["metadata"]["tenant"] = "t1".into();
    wanted["metadata"]["selfLink"] =
        "/apis/apiextensions.k8s.io/v1/tenants/t1/customresourcedefinitions/foos.ex.io".into();
    assert_eq!(seen, wanted);
    let listed = tenant.get(DEFINITIONS).await?.json();
    assert_eq!(names(&listed), ["foos.ex.io"]);
    let mut item = listed["items"][0].clone();
    item["kind"] = wanted["kind"].clone();
    item["apiVersion"] = wanted["apiVersion"].clone();
    assert_eq!(item, wanted);
    let status = tenant
        .get(&format!("{}/status", path("foos.ex.io")))
        .await?;
    assert_eq!(status.json(), wanted);
    let table = tenant.accept(DEFINITIONS, TABLE).await?.json();
    assert_eq!(table["rows"][0]["cells"][0], "foos.ex.io");
    assert_eq!(table["rows"][0]["object"]["metadata"]["tenant"], "t1");
    let metadata = tenant.accept(DEFINITIONS, METADATA).await?.json();
    assert_eq!(metadata["items"][0]["metadata"], wanted["metadata"]);
    // The system sees the definition itself, and a list over all spaces contains each definition
    // once.
    assert_eq!(system.get(&path("foos.ex.io")).await?.json(), defined);
    let all = "/apis/apiextensions.k8s.io/v1/tenants/all/customresourcedefinitions";
    let all = system.get(all).await?.json();
    assert_eq!(names(&all), ["bars.ex.io", "foos.ex.io"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definition_lists_support_pages_selectors_and_exact_revisions() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    tenant.define(&bars()).await?;
    let mut labelled = published(foos());
    labelled["metadata"]["labels"] = json!({"a": "1"});
    system.define(&labelled).await?;
    for plural in ["ants", "zoos"] {
        let kind = plural.to_uppercase();
        system
            .define(&published(definition(
                "ex.io",
                plural,
                &kind,
                json!({"type": "object"}),
            )))
            .await?;
    }
    let first = tenant.get(&format!("{DEFINITIONS}?limit=3")).await?.json();
    assert_eq!(names(&first), ["ants.ex.io", "bars.ex.io", "foos.ex.io"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    let (revision, token) = (
        &first["metadata"]["resourceVersion"],
        &first["metadata"]["continue"],
    );
    let (revision, token) = (revision.as_str().unwrap(), token.as_str().unwrap());
    // Changes between two pages appear on neither, nor at past revisions.
    let gone = system.delete(&path("zoos.ex.io")).await?;
    assert_eq!(gone.status, 200);
    tenant.until_gone(&path("zoos.ex.io")).await?;
    let second = tenant
        .get(&format!("{DEFINITIONS}?limit=3&continue={token}"))
        .await?
        .json();
    assert_eq!(names(&second), ["zoos.ex.io"]);
    assert_eq!(second["metadata"]["resourceVersion"], revision);
    let exact = format!("{DEFINITIONS}?resourceVersion={revision}&resourceVersionMatch=Exact");
    let exact = tenant.get(&exact).await?.json();
    assert_eq!(
        names(&exact),
        ["ants.ex.io", "bars.ex.io", "foos.ex.io", "zoos.ex.io"]
    );
    assert_eq!(exact["metadata"]["resourceVersion"], revision);
    for (query, wanted) in [
        ("", vec!["ants.ex.io", "bars.ex.io", "foos.ex.io"]),
        (
            "resourceVersion=0",
            vec!["ants.ex.io", "bars.ex.io", "foos.ex.io"],
        ),
        ("labelSelector=a%3D1", vec!["foos.ex.io"]),
        ("labelSelector=!a", vec!["ants.ex.io", "bars.ex.io"]),
        (
            "fieldSelector=metadata.name%3Dfoos.ex.io",
            vec!["foos.ex.io"],
        ),
        ("fieldSelector=metadata.name%3Dfoos", vec![]),
    ] {
        let list = tenant.get(&format!("{DEFINITIONS}?{query}")).await?.json();
        assert_eq!(names(&list), wanted, "{query}");
    }
    // Revisions before the server started watching are unknown.
    let old = format!("{DEFINITIONS}?resourceVersion=1&resourceVersionMatch=Exact");
    assert_eq!(tenant.get(&old).await?.status, 410);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_own_definition_hides_the_published_one() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let other = server.tenant("t2").await?;
    system.define(&published(foos())).await?;
    let mine = tenant.define(&own(foos(), "mine")).await?;
    assert_eq!(tenant.get(&path("foos.ex.io")).await?.json(), mine);
    assert_eq!(
        names(&tenant.get(DEFINITIONS).await?.json()),
        ["foos.ex.io"]
    );
    let listed = tenant.get(DEFINITIONS).await?.json();
    assert_eq!(
        listed["items"][0]["metadata"]["uid"],
        mine["metadata"]["uid"]
    );
    let created = tenant
        .post(FOOS, &foo("a", json!({"mine": "x"})))
        .await?
        .json();
    assert_eq!(created["spec"]["mine"], "x");
    let created = other
        .post(FOOS, &foo("a", json!({"mine": "x"})))
        .await?
        .json();
    assert_eq!(created["spec"], json!({"size": 3}));
    // The tenant can change its own definition, and delete it to get the published one back.
    let labels = json!({"metadata": {"labels": {"a": "1"}}});
    let changed = tenant.patch(&path("foos.ex.io"), "merge", &labels).await?;
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert_eq!(tenant.delete(&path("foos.ex.io")).await?.status, 200);
    let theirs = system.get(&path("foos.ex.io")).await?.json();
    let begun = std::time::Instant::now();
    loop {
        let seen = tenant.get(&path("foos.ex.io")).await?.json();
        if seen["metadata"]["uid"] == theirs["metadata"]["uid"] {
            break;
        }
        anyhow::ensure!(begun.elapsed().as_secs() < 20, "{seen}");
    }
    let list = tenant.get(FOOS).await?.json();
    assert_eq!(names(&list), Vec::<String>::new());
    create_foos(&tenant, &["b"]).await?;
    assert_eq!(names(&other.get(FOOS).await?.json()), ["a"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_cannot_change_or_delete_published_definitions() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    system.define(&published(foos())).await?;
    tenant.define(&bars()).await?;
    let (foos_path, status) = (path("foos.ex.io"), format!("{}/status", path("foos.ex.io")));
    let seen = tenant.get(&foos_path).await?.json();
    let mut stripped = seen.clone();
    stripped["metadata"]["annotations"] = json!({});
    let labels = json!({"metadata": {"labels": {"a": "1"}}});
    let overwritten = "customresourcedefinitions.apiextensions.k8s.io \"foos.ex.io\" is forbidden: \
                       it is a system CRD, you cannot overwrite it; create a definition of this \
                       name to have one of your own, which is then served in its place";
    let answers = [
        tenant.put(&foos_path, &seen).await?,
        tenant.put(&foos_path, &stripped).await?,
        tenant
            .put(&format!("{foos_path}?dryRun=All"), &seen)
            .await?,
        tenant.put(&status, &seen).await?,
        tenant.patch(&foos_path, "merge", &labels).await?,
        tenant.patch(&foos_path, "strategic-merge", &labels).await?,
        tenant
            .patch(&status, "merge", &json!({"status": {"conditions": []}}))
            .await?,
    ];
    for (at, answer) in answers.iter().enumerate() {
        assert_eq!(
            (answer.status, answer.message()),
            (403, overwritten.to_owned()),
            "{at}"
        );
        assert_eq!(answer.json()["reason"], "Forbidden");
        assert_eq!(answer.json()["details"]["name"], "foos.ex.io");
    }
    let kept = "customresourcedefinitions.apiextensions.k8s.io \"foos.ex.io\" is forbidden: it is \
                a system CRD, it can only be deleted by a cluster admin";
    for query in ["", "?dryRun=All"] {
        let answer = tenant.delete(&format!("{foos_path}{query}")).await?;
        assert_eq!((answer.status, answer.message()), (403, kept.to_owned()));
    }
    // A missing definition is still not found.
    assert_eq!(tenant.delete(&path("zoos.ex.io")).await?.status, 404);
    assert_eq!(
        tenant
            .patch(&path("zoos.ex.io"), "merge", &labels)
            .await?
            .status,
        404
    );
    // Delete-collection affects the tenant's own definitions only.
    let deleted = tenant.delete(DEFINITIONS).await?;
    assert_eq!(
        (deleted.status, names(&deleted.json())),
        (200, vec!["bars.ex.io".to_owned()])
    );
    tenant.until_gone(&path("bars.ex.io")).await?;
    assert_eq!(tenant.get(&foos_path).await?.json(), seen);
    create_foos(&tenant, &["a"]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_with_objects_of_a_published_kind_cannot_define_its_own() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    system.define(&published(foos())).await?;
    create_foos(&server.tenant("t2").await?, &["x", "y"]).await?;
    for (names, count) in [(vec!["a"], "1 object"), (vec!["b"], "2 objects")] {
        create_foos(&tenant, &names).await?;
        let wanted = format!(
            "customresourcedefinitions.apiextensions.k8s.io \"foos.ex.io\" is forbidden: this \
             tenant has {count} of the system CRD of this name: delete these first, then create \
             your own"
        );
        for query in ["", "?dryRun=All"] {
            let refused = tenant
                .post(&format!("{DEFINITIONS}{query}"), &own(foos(), "mine"))
                .await?;
            assert_eq!((refused.status, refused.message()), (403, wanted.clone()));
        }
    }
    assert_eq!(tenant.delete(FOOS).await?.status, 200);
    tenant.define(&own(foos(), "mine")).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_object_and_own_definition_leave_one_kind_of_objects() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    system.define(&published(foos())).await?;
    for round in 0..10 {
        let name = format!("a{round}");
        let (object, definition) = (foo(&name, json!({"mine": "x"})), own(foos(), "mine"));
        let (created, defined) = tokio::join!(
            tenant.post(FOOS, &object),
            tenant.post(DEFINITIONS, &definition)
        );
        let (created, defined) = (created?, defined?);
        assert!(
            [201, 403, 409].contains(&created.status),
            "{}",
            created.text()
        );
        assert!([201, 403].contains(&defined.status), "{}", defined.text());
        if created.status == 201
            && created.json()["spec"]["mine"].is_null()
            && defined.status == 201
        {
            // Both succeeded: the definition waits, and no object is created in the meantime.
            let waits = tenant
                .until_defined("foos.ex.io", "Established", "False")
                .await?;
            assert!(
                waits.to_string().contains("InstancesOfPublished"),
                "{waits}"
            );
            let refused = tenant.post(FOOS, &foo("late", json!({}))).await?;
            assert_eq!(refused.status, 403, "{}", refused.text());
        }
        if defined.status == 201 {
            tenant.delete(FOOS).await?;
            tenant
                .until_defined("foos.ex.io", "Established", "True")
                .await?;
            tenant.delete(&path("foos.ex.io")).await?;
            let begun = std::time::Instant::now();
            while tenant.get(&path("foos.ex.io")).await?.json()["metadata"]["annotations"]
                [PUBLISHED]
                != "true"
            {
                anyhow::ensure!(begun.elapsed().as_secs() < 20);
            }
        } else {
            tenant.delete(FOOS).await?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn built_in_groups_cannot_be_defined() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    for client in [server.tenant("t1").await?, server.system().await?] {
        for group in [
            "rbac.authorization.k8s.io",
            "multi-tenancy.k8s.io",
            "x.insula.io",
        ] {
            let mut foos = definition(group, "foos", "Foo", json!({"type": "object"}));
            foos["metadata"]["annotations"]["api-approved.kubernetes.io"] = "https://x.io/1".into();
            let refused = client.post(DEFINITIONS, &foos).await?;
            let wanted = format!(
                "customresourcedefinitions.apiextensions.k8s.io \"foos.{group}\" is forbidden: the \
                 group {group} is the server's own: define kinds in another"
            );
            assert_eq!((refused.status, refused.message()), (403, wanted));
        }
        // Other community groups only need the approval annotation.
        let mut foos = definition(
            "gateway.networking.k8s.io",
            "foos",
            "Foo",
            json!({"type": "object"}),
        );
        assert_eq!(client.post(DEFINITIONS, &foos).await?.status, 422);
        foos["metadata"]["annotations"]["api-approved.kubernetes.io"] = "https://x.io/1".into();
        client.define(&foos).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_definitions_survive_a_restart() -> anyhow::Result<()> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let mut server =
        TestServer::start_on_store(Arc::clone(&store), Setup::with_controllers()).await?;
    let (system, one, two) = (
        server.system().await?,
        server.tenant("t1").await?,
        server.tenant("t2").await?,
    );
    system.define(&published(foos())).await?;
    two.define(&own(foos(), "mine")).await?;
    create_foos(&one, &["a"]).await?;
    create_foos(&two, &["b"]).await?;
    let all = "/apis/ex.io/v1/tenants/all/foos";
    let mut before = Vec::new();
    for client in [&system, &one, &two] {
        before.push(client.get(DEFINITIONS).await?.json()["items"].clone());
        before.push(client.get(FOOS).await?.json()["items"].clone());
    }
    before.push(system.get(all).await?.json()["items"].clone());
    server.stop().await;
    let server = TestServer::start_on_store(store, Setup::with_controllers()).await?;
    let (system, one, two) = (
        server.system().await?,
        server.client("t1").await?,
        server.client("t2").await?,
    );
    let mut after = Vec::new();
    for client in [&system, &one, &two] {
        after.push(client.get(DEFINITIONS).await?.json()["items"].clone());
        after.push(client.get(FOOS).await?.json()["items"].clone());
    }
    after.push(system.get(all).await?.json()["items"].clone());
    assert_eq!(before, after);
    assert_eq!(before[6].as_array().map(Vec::len), Some(1));
    let refused = one.delete(&path("foos.ex.io")).await?;
    assert_eq!(refused.status, 403);
    let withdrawn = json!({"metadata": {"annotations": {PUBLISHED: null}}});
    let refused = system
        .patch(&path("foos.ex.io"), "merge", &withdrawn)
        .await?;
    assert_eq!(refused.status, 422, "{}", refused.text());
    Ok(())
}
