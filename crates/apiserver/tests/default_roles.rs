//! The default roles and bindings: present in every space, stored only once a space changes one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use insula_access::rbac::{RbacKind, bootstrap};
use insula_kinds::{kinds, protobuf};
use insula_store::Store;
use insula_store::memory::Memory;
use insula_testkit::server::{
    CLUSTER_BINDINGS, CLUSTER_ROLES, Client, Setup, TestServer, bindings, roles, rule,
};
use serde_json::{Value, json};

const GROUP: &str = "/apis/rbac.authorization.k8s.io/v1";

/// The RBAC kinds and their cluster-wide collections.
const KINDS: [(RbacKind, &str); 4] = [
    (RbacKind::ClusterRole, "clusterroles"),
    (RbacKind::ClusterRoleBinding, "clusterrolebindings"),
    (RbacKind::Role, "roles"),
    (RbacKind::RoleBinding, "rolebindings"),
];

/// The role and binding that a new tenant stores in addition.
const TENANT_ADMIN: [&str; 2] = ["admin-role", "admin-role-binding"];

async fn items(client: &Client, path: &str) -> anyhow::Result<Vec<Value>> {
    let answer = client.get(path).await?;
    anyhow::ensure!(answer.status == 200, "{path}: {}", answer.text());
    Ok(answer.json()["items"]
        .as_array()
        .cloned()
        .unwrap_or_default())
}

async fn item(client: &Client, path: &str) -> anyhow::Result<Value> {
    let answer = client.get(path).await?;
    anyhow::ensure!(answer.status == 200, "{path}: {}", answer.text());
    Ok(answer.json())
}

fn key(object: &Value) -> String {
    let of = |member: &str| object["metadata"][member].as_str().unwrap_or("");
    match of("namespace") {
        "" => of("name").to_owned(),
        namespace => format!("{namespace}/{}", of("name")),
    }
}

fn keys(objects: &[Value]) -> Vec<String> {
    objects.iter().map(key).collect()
}

fn revision(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The keys of the default objects, plus those that a tenant has in addition.
fn expected(kind: RbacKind, tenant: bool) -> Vec<String> {
    let table = bootstrap::objects(kind).iter();
    let mut keys: Vec<_> = table.map(|one| one.key().to_owned()).collect();
    if tenant {
        match kind {
            RbacKind::ClusterRole => keys.push(TENANT_ADMIN[0].to_owned()),
            RbacKind::ClusterRoleBinding => keys.push(TENANT_ADMIN[1].to_owned()),
            RbacKind::Role | RbacKind::RoleBinding => {}
        }
    }
    keys.sort();
    keys
}

/// The keys of roles and bindings in the store.
async fn stored(server: &TestServer) -> anyhow::Result<Vec<String>> {
    let keys = server.keys().await?.into_iter();
    Ok(keys
        .filter(|key| key.contains("/rbac.authorization.k8s.io/"))
        .collect())
}

fn annotation_patch(key: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

#[tokio::test]
async fn every_space_shows_default_roles_without_storing_them() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let system = server.system().await?;
    let clients = [
        ("t1", server.tenant("t1").await?),
        ("t2", server.tenant("t2").await?),
        ("system", system.clone()),
    ];
    let mut uids = BTreeSet::new();
    let mut count = 0;
    for (space, client) in &clients {
        let tenant = item(&system, &format!("/api/v1/tenants/{space}")).await?;
        let tenant = &tenant["metadata"];
        for (kind, resource) in KINDS {
            let path = format!("{GROUP}/{resource}");
            let objects = items(client, &path).await?;
            let wanted = expected(kind, *space != "system");
            assert_eq!(keys(&objects), wanted, "{space} {resource}");
            for object in &objects {
                count += 1;
                let metadata = &object["metadata"];
                uids.insert(metadata["uid"].to_string());
                assert_eq!(metadata["creationTimestamp"], tenant["creationTimestamp"]);
                let own = match *space {
                    "system" => Value::Null,
                    space => space.into(),
                };
                assert_eq!(metadata["tenant"], own, "{object}");
                // Reading an object by its selfLink returns the same object.
                let link = metadata["selfLink"].as_str().unwrap_or("");
                let mut again = item(client, link).await?;
                if let Some(again) = again.as_object_mut() {
                    again.retain(|member, _| member != "kind" && member != "apiVersion");
                }
                assert_eq!(again, *object, "{link}");
            }
            assert_eq!(items(client, &path).await?, objects);
        }
    }
    assert_eq!(uids.len(), count, "every object has a UID of its own");
    let shown = stored(&server).await?;
    let wanted: Vec<_> = ["t1", "t2"]
        .iter()
        .flat_map(|tenant| {
            KINDS[..2]
                .iter()
                .zip(TENANT_ADMIN)
                .map(move |((_, of), name)| {
                    format!("/registry/rbac.authorization.k8s.io/{of}/{tenant}/{name}")
                })
        })
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    assert_eq!(shown, wanted);
    Ok(())
}

#[tokio::test]
async fn namespaced_defaults_are_in_their_namespace() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    let mut all = 0;
    for namespace in ["default", "kube-public", "kube-system", "nosuch"] {
        for (kind, path) in [
            (RbacKind::Role, roles(namespace)),
            (RbacKind::RoleBinding, bindings(namespace)),
        ] {
            let shown = keys(&items(&tenant, &path).await?);
            let inside = format!("{namespace}/");
            let wanted = expected(kind, true).into_iter();
            let wanted: Vec<_> = wanted.filter(|key| key.starts_with(&inside)).collect();
            assert_eq!(shown, wanted, "{path}");
            all += shown.len();
        }
    }
    assert_eq!(all, 14);
    // A changed role stays in its namespace.
    let path = format!(
        "{}/extension-apiserver-authentication-reader",
        roles("kube-system")
    );
    let changed = tenant
        .patch(&path, "merge", &annotation_patch("a", "b"))
        .await?;
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert_eq!(items(&tenant, &roles("kube-system")).await?.len(), 6);
    let wrong = path.replace("kube-system", "kube-public");
    assert_eq!(tenant.get(&wrong).await?.status, 404);
    assert_eq!(tenant.delete(&path).await?.status, 403);
    Ok(())
}

#[tokio::test]
async fn defaults_are_unchanged_after_a_restart() -> anyhow::Result<()> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let mut server = TestServer::start_on_store(Arc::clone(&store), Setup::default()).await?;
    server.tenant("t1").await?;
    // Later changes of the Tenant object do not change the creation time.
    let system = server.system().await?;
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    let changed = system
        .patch("/api/v1/tenants/t1", "merge", &labelled)
        .await?;
    assert_eq!(changed.status, 200, "{}", changed.text());
    let shadow = format!("{CLUSTER_ROLES}/view");
    let tenant = server.tenant("t1").await?;
    let changed = tenant
        .patch(&shadow, "merge", &annotation_patch("a", "b"))
        .await?;
    assert_eq!(changed.status, 200);
    let mut before = Vec::new();
    for token in ["t1", "system"] {
        let client = server.client(token).await?;
        for (_, resource) in KINDS {
            before.push(items(&client, &format!("{GROUP}/{resource}")).await?);
        }
    }
    server.stop().await;
    let server = TestServer::start_on_store(store, Setup::default()).await?;
    let mut after = Vec::new();
    for token in ["t1", "system"] {
        let client = server.client(token).await?;
        for (_, resource) in KINDS {
            after.push(items(&client, &format!("{GROUP}/{resource}")).await?);
        }
    }
    assert_eq!(after, before);
    let tenant = server.client("t1").await?;
    let view = item(&tenant, &shadow).await?;
    assert_eq!(view["metadata"]["annotations"]["a"], "b");
    Ok(())
}

#[tokio::test]
async fn recreated_tenant_gets_new_defaults() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (tenant, system) = (server.tenant("t1").await?, server.system().await?);
    let view = format!("{CLUSTER_ROLES}/view");
    let reader = format!(
        "{}/system::extension-apiserver-authentication-reader",
        bindings("kube-system")
    );
    let mut before = BTreeMap::new();
    for path in [&view, &reader] {
        let changed = tenant
            .patch(path, "merge", &annotation_patch("a", "b"))
            .await?;
        assert_eq!(changed.status, 200, "{}", changed.text());
        before.insert(path.clone(), changed.json());
    }
    assert_eq!(system.delete("/api/v1/tenants/t1").await?.status, 200);
    let deadline = Instant::now() + Duration::from_secs(20);
    while system.get("/api/v1/tenants/t1").await?.status != 404 {
        anyhow::ensure!(Instant::now() < deadline, "the tenant did not go in time");
        tokio::task::yield_now().await;
    }
    let left = server.keys().await?;
    let left: Vec<_> = left.iter().filter(|key| key.contains("/t1/")).collect();
    assert_eq!(left, Vec::<&String>::new());
    assert_eq!(tenant.get(&view).await?.status, 403);
    let inside = view.replace("/v1/", "/v1/tenants/t1/");
    assert_eq!(system.get(&inside).await?.status, 404);
    server.tenant("t1").await?;
    for (path, was) in before {
        let is = item(&tenant, &path).await?;
        assert_ne!(is["metadata"]["uid"], was["metadata"]["uid"], "{path}");
        assert!(is["metadata"]["annotations"]["a"].is_null(), "{is}");
        assert!(revision(&is) > revision(&was), "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn selectors_apply_to_defaults() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    let all = expected(RbacKind::ClusterRole, true);
    let edit = "rbac.authorization.k8s.io/aggregate-to-edit=true";
    for (query, wanted) in [
        (
            "labelSelector=kubernetes.io/bootstrapping%3Drbac-defaults".to_owned(),
            all.iter()
                .filter(|name| *name != TENANT_ADMIN[0])
                .cloned()
                .collect(),
        ),
        (
            "labelSelector=!kubernetes.io/bootstrapping".to_owned(),
            vec![TENANT_ADMIN[0].to_owned()],
        ),
        (
            format!("labelSelector={}", edit.replace('=', "%3D")),
            vec!["system:aggregate-to-edit".to_owned(), "view".to_owned()],
        ),
        (
            "fieldSelector=metadata.name%3Dview".to_owned(),
            vec!["view".to_owned()],
        ),
        (
            "fieldSelector=metadata.name%3Dview&labelSelector=a%3Db".to_owned(),
            vec![],
        ),
        ("fieldSelector=metadata.name%3Dnosuch".to_owned(), vec![]),
        ("resourceVersion=0".to_owned(), all.clone()),
    ] {
        let mut shown = keys(&items(&tenant, &format!("{CLUSTER_ROLES}?{query}")).await?);
        let mut wanted: Vec<String> = wanted;
        wanted.sort();
        shown.sort();
        assert_eq!(shown, wanted, "{query}");
    }
    let path = format!(
        "{}?fieldSelector=metadata.namespace%3Dkube-public",
        "/apis/rbac.authorization.k8s.io/v1/roles"
    );
    assert_eq!(
        keys(&items(&tenant, &path).await?),
        ["kube-public/system:controller:bootstrap-signer"]
    );
    Ok(())
}

#[tokio::test]
async fn defaults_are_served_in_every_format() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    let all = expected(RbacKind::ClusterRole, true);
    let table = tenant
        .accept(
            CLUSTER_ROLES,
            "application/json;as=Table;v=v1;g=meta.k8s.io",
        )
        .await?
        .json();
    let rows = table["rows"].as_array().cloned().unwrap_or_default();
    let names: Vec<_> = rows
        .iter()
        .filter_map(|row| row["cells"][0].as_str())
        .collect();
    assert_eq!(names, all);
    let partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let partial = tenant.accept(CLUSTER_ROLES, partial).await?.json();
    let partial = partial["items"].as_array().cloned().unwrap_or_default();
    assert_eq!(keys(&partial), all);
    let whole = items(&tenant, CLUSTER_ROLES).await?;
    for (part, whole) in partial.iter().zip(&whole) {
        assert_eq!(part["metadata"], whole["metadata"]);
        assert!(part["rules"].is_null(), "{part}");
    }
    let media = "application/vnd.kubernetes.protobuf";
    let view = format!("{CLUSTER_ROLES}/view");
    let answer = tenant.accept(&view, media).await?;
    assert_eq!(answer.header("content-type"), media);
    let envelope = protobuf::open(&answer.body)?;
    let kind = kinds().find("rbac.authorization.k8s.io", "v1", "clusterroles");
    let kind = kinds().get(kind.unwrap_or_else(|| panic!("it is served")));
    let decoded = Value::Object(protobuf::decode(kind.type_id(), envelope.raw)?);
    let plain = item(&tenant, &view).await?;
    assert_eq!(decoded["metadata"]["uid"], plain["metadata"]["uid"]);
    assert_eq!(decoded["rules"], plain["rules"]);
    assert_eq!(decoded["aggregationRule"], plain["aggregationRule"]);
    let yaml = tenant.accept(&view, "application/yaml").await?;
    assert!(yaml.text().contains("name: view\n"), "{}", yaml.text());
    Ok(())
}

/// Reads a list page by page and runs an action after the first page.
async fn paged(
    client: &Client,
    path: &str,
    limit: usize,
    meanwhile: impl AsyncFnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<(Vec<Value>, BTreeSet<String>)> {
    let (mut objects, mut revisions) = (Vec::new(), BTreeSet::new());
    let mut meanwhile = Some(meanwhile);
    let mut token = String::new();
    loop {
        let query = match token.as_str() {
            "" => format!("{path}?limit={limit}"),
            token => format!("{path}?limit={limit}&continue={token}"),
        };
        let page = item(client, &query).await?;
        let found = page["items"].as_array().cloned().unwrap_or_default();
        let (got, metadata) = (found.len(), &page["metadata"]);
        objects.extend(found);
        revisions.insert(metadata["resourceVersion"].to_string());
        token = metadata["continue"].as_str().unwrap_or("").to_owned();
        if token.is_empty() {
            assert!(metadata["remainingItemCount"].is_null(), "{metadata}");
            return Ok((objects, revisions));
        }
        assert_eq!(got, limit, "{query}");
        if let Some(meanwhile) = meanwhile.take() {
            meanwhile().await?;
        }
    }
}

#[tokio::test]
async fn paged_lists_show_each_default_once_at_one_revision() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    for (kind, resource) in KINDS {
        let path = format!("{GROUP}/{resource}");
        for limit in [1, 2, 5, 7, 200] {
            let whole = items(&tenant, &path).await?;
            let (pages, revisions) = paged(&tenant, &path, limit, async || Ok(())).await?;
            assert_eq!(pages, whole, "{resource} by {limit}");
            assert_eq!(revisions.len(), 1);
            assert_eq!(keys(&pages), expected(kind, true));
        }
    }
    // Objects changed between pages are shown as of the start of the list.
    for (round, name) in ["view", "system:discovery", "cluster-admin"]
        .iter()
        .enumerate()
    {
        let before = items(&tenant, CLUSTER_ROLES).await?;
        let (pages, revisions) = paged(&tenant, CLUSTER_ROLES, 1, async || {
            let own = json!({"metadata": {"name": format!("b-own{round}")}, "rules": []});
            assert_eq!(tenant.post(CLUSTER_ROLES, &own).await?.status, 201);
            let path = format!("{CLUSTER_ROLES}/{name}");
            let changed = tenant
                .patch(&path, "merge", &annotation_patch("a", name))
                .await?;
            assert_eq!(changed.status, 200);
            Ok(())
        })
        .await?;
        assert_eq!(pages, before, "{name}");
        assert_eq!(revisions.len(), 1);
        assert_ne!(items(&tenant, CLUSTER_ROLES).await?, before, "{name}");
    }
    let first = item(&tenant, &format!("{CLUSTER_ROLES}?limit=10")).await?;
    let count = expected(RbacKind::ClusterRole, true).len() + 3;
    assert_eq!(first["metadata"]["remainingItemCount"], count - 10);
    Ok(())
}

#[tokio::test]
async fn historic_lists_show_past_defaults() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    let view = format!("{CLUSTER_ROLES}/view");
    let mut past = Vec::new();
    for round in 0..4 {
        let list = item(&tenant, CLUSTER_ROLES).await?;
        for object in list["items"].as_array().into_iter().flatten() {
            assert!(revision(object) <= revision(&list), "{object}");
        }
        past.push(list);
        let changed = tenant
            .patch(
                &view,
                "merge",
                &annotation_patch("round", &round.to_string()),
            )
            .await?;
        assert_eq!(changed.status, 200);
    }
    for list in past {
        let at = revision(&list);
        let path = format!("{CLUSTER_ROLES}?resourceVersion={at}&resourceVersionMatch=Exact");
        let again = item(&tenant, &path).await?;
        assert_eq!(again["items"], list["items"], "{at}");
        assert_eq!(revision(&again), at);
    }
    Ok(())
}

#[tokio::test]
async fn first_change_stores_the_object_and_keeps_its_uid() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (tenant, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    let before = stored(&server).await?;
    for (_, resource) in KINDS {
        let path = format!("{GROUP}/{resource}");
        let elsewhere = items(&other, &path).await?;
        let all = items(&tenant, &path).await?;
        // The first and the last of each kind, by patch and by update.
        for (object, replaces) in [(all.last(), false), (all.first(), true)] {
            let object = object.cloned().unwrap_or_default();
            if TENANT_ADMIN.contains(&key(&object).as_str()) {
                continue;
            }
            let link = object["metadata"]["selfLink"]
                .as_str()
                .unwrap_or("")
                .to_owned();
            let answer = match replaces {
                false => {
                    tenant
                        .patch(&link, "merge", &annotation_patch("a", "b"))
                        .await?
                }
                true => {
                    let mut new = object.clone();
                    new["metadata"]["annotations"]["a"] = "b".into();
                    tenant.put(&link, &new).await?
                }
            };
            assert_eq!(answer.status, 200, "{link}: {}", answer.text());
            let changed = answer.json();
            let mut wanted = object.clone();
            wanted["metadata"]["annotations"]["a"] = "b".into();
            wanted["metadata"]["resourceVersion"] = changed["metadata"]["resourceVersion"].clone();
            wanted["kind"] = changed["kind"].clone();
            wanted["apiVersion"] = changed["apiVersion"].clone();
            assert_eq!(changed, wanted);
            assert!(revision(&changed) > revision(&object));
            assert_eq!(item(&tenant, &link).await?, changed);
        }
        assert_eq!(keys(&items(&tenant, &path).await?), keys(&all));
        assert_eq!(items(&other, &path).await?, elsewhere);
        // A list over all spaces contains only stored objects.
        let everywhere = path.replace("/v1/", "/v1/tenants/all/");
        let shown = items(&system, &everywhere).await?;
        let of_the_kind = format!("/{resource}/");
        let kept = stored(&server).await?.into_iter();
        let kept = kept.filter(|key| key.contains(&of_the_kind)).count();
        assert_eq!(shown.len(), kept, "{resource}");
    }
    let after = stored(&server).await?;
    assert!(before.iter().all(|key| after.contains(key)));
    assert!(after.len() > before.len() && after.len() <= before.len() + 8);
    assert!(
        after
            .iter()
            .all(|key| before.contains(key) || key.contains("/t1/"))
    );
    Ok(())
}

#[tokio::test]
async fn concurrent_first_changes_are_not_lost() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    let path = format!("{CLUSTER_ROLES}/edit");
    let original = item(&tenant, &path).await?;
    // An update based on the version before the first change conflicts.
    let mut mine = original.clone();
    mine["metadata"]["annotations"]["mine"] = "1".into();
    let mut theirs = original.clone();
    theirs["metadata"]["annotations"]["theirs"] = "1".into();
    assert_eq!(tenant.put(&path, &mine).await?.status, 200);
    let lost = tenant.put(&path, &theirs).await?;
    assert_eq!(lost.status, 409, "{}", lost.text());
    assert_eq!(lost.json()["reason"], "Conflict");
    let mut stale =
        json!({"metadata": {"resourceVersion": original["metadata"]["resourceVersion"]}});
    stale["metadata"]["annotations"] = json!({"x": "y"});
    assert_eq!(tenant.patch(&path, "merge", &stale).await?.status, 409);
    let mut other = item(&tenant, &path).await?;
    other["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000".into();
    assert_eq!(tenant.put(&path, &other).await?.status, 409);
    // Concurrent first changes are all kept.
    let path = format!("{CLUSTER_ROLES}/admin");
    let uid = item(&tenant, &path).await?["metadata"]["uid"].clone();
    let patches = (0..20).map(|n| {
        let (tenant, path) = (tenant.clone(), path.clone());
        async move {
            let name = format!("n{n}");
            tenant
                .patch(&path, "merge", &annotation_patch(&name, "x"))
                .await
        }
    });
    for answer in futures_util::future::join_all(patches).await {
        let answer = answer?;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let all = item(&tenant, &path).await?;
    let notes = all["metadata"]["annotations"].as_object().cloned();
    let notes = notes.unwrap_or_default();
    assert_eq!(
        notes.keys().filter(|name| name.starts_with('n')).count(),
        20
    );
    assert_eq!(all["metadata"]["uid"], uid);
    Ok(())
}

#[tokio::test]
async fn dry_runs_and_no_op_updates_store_nothing() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    let before = server.keys().await?;
    let path = format!("{CLUSTER_ROLES}/view");
    let original = item(&tenant, &path).await?;
    let dry = format!("{path}?dryRun=All");
    let tried = tenant
        .patch(&dry, "merge", &annotation_patch("a", "b"))
        .await?;
    assert_eq!(tried.status, 200, "{}", tried.text());
    assert_eq!(tried.json()["metadata"]["annotations"]["a"], "b");
    assert_eq!(tried.json()["metadata"]["uid"], original["metadata"]["uid"]);
    let same = tenant.put(&path, &original).await?;
    assert_eq!((same.status, same.json()), (200, original.clone()));
    let same = tenant.patch(&path, "merge", &json!({})).await?;
    assert_eq!((same.status, same.json()), (200, original.clone()));
    assert_eq!(tenant.delete(&dry).await?.status, 403);
    assert_eq!(server.keys().await?, before);
    assert_eq!(item(&tenant, &path).await?, original);
    Ok(())
}

#[tokio::test]
async fn defaults_cannot_be_created_or_deleted() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (tenant, system) = (server.tenant("t1").await?, server.system().await?);
    for (client, below) in [(&tenant, ""), (&system, ""), (&system, "tenants/t1/")] {
        for (_, resource) in KINDS {
            let path = format!("{GROUP}/{below}{resource}");
            let object = items(client, &path).await?;
            let built_in = |one: &&Value| !TENANT_ADMIN.contains(&key(one).as_str());
            let object = object.iter().find(built_in).cloned().unwrap_or_default();
            let name = object["metadata"]["name"].as_str().unwrap_or("");
            let link = object["metadata"]["selfLink"].as_str().unwrap_or("");
            let collection = link.strip_suffix(&format!("/{name}")).unwrap_or("");
            let mut new = object.clone();
            new["metadata"] = json!({"name": name});
            let again = client.post(collection, &new).await?;
            assert_eq!(again.status, 409, "{link}: {}", again.text());
            let message = again.json();
            assert_eq!(message["reason"], "AlreadyExists");
            let reported =
                format!("{resource}.rbac.authorization.k8s.io \"{name}\" already exists");
            assert_eq!(message["message"], reported);
            for stored in [false, true] {
                if stored {
                    let changed = client
                        .patch(link, "merge", &annotation_patch("a", "b"))
                        .await?;
                    assert_eq!(changed.status, 200, "{}", changed.text());
                }
                let deleted = client.delete(link).await?;
                assert_eq!(deleted.status, 403, "{link}: {}", deleted.text());
                let reported = format!(
                    "{resource}.rbac.authorization.k8s.io \"{name}\" is forbidden: every space \
                     has it, so it may not be deleted; it may be changed"
                );
                assert_eq!(deleted.message(), reported);
                assert_eq!(client.get(link).await?.status, 200);
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn delete_collection_skips_defaults() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (tenant, system) = (server.tenant("t1").await?, server.system().await?);
    tenant
        .grant("own", "User:x", &[rule("get", "", "pods")])
        .await?;
    let view = format!("{CLUSTER_ROLES}/view");
    assert_eq!(
        tenant
            .patch(&view, "merge", &annotation_patch("a", "b"))
            .await?
            .status,
        200
    );
    for (kind, resource) in &KINDS[..2] {
        let path = format!("{GROUP}/tenants/t1/{resource}");
        let deleted = system.delete(&path).await?;
        assert_eq!(deleted.status, 200, "{}", deleted.text());
        let gone = deleted.json()["items"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        assert_eq!(gone.len(), 2, "{}", deleted.text());
        let left = items(&system, &path).await?;
        assert_eq!(keys(&left), expected(*kind, false));
    }
    let kept = item(&system, &view.replace("/v1/", "/v1/tenants/t1/")).await?;
    assert_eq!(kept["metadata"]["annotations"]["a"], "b");
    // The caller is no longer an administrator.
    assert_eq!(tenant.get(CLUSTER_ROLES).await?.status, 403);
    Ok(())
}

#[tokio::test]
async fn watch_delivers_the_first_change_as_modified() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    let all = items(&tenant, CLUSTER_ROLES).await?;
    let list = item(&tenant, CLUSTER_ROLES).await?;
    let mut whole = tenant.watch(&format!("{CLUSTER_ROLES}?watch=1")).await?;
    for object in &all {
        let event = whole.next().await?.unwrap_or_default();
        assert_eq!(event["type"], "ADDED");
        assert_eq!(key(&event["object"]), key(object));
        assert_eq!(event["object"]["metadata"], object["metadata"]);
    }
    let at = revision(&list);
    let mut later = tenant
        .watch(&format!("{CLUSTER_ROLES}?watch=1&resourceVersion={at}"))
        .await?;
    let marked = "kubernetes.io/bootstrapping%3Drbac-defaults";
    let since = format!("watch=1&resourceVersion={at}");
    let mut labelled = tenant
        .watch(&format!("{CLUSTER_ROLES}?{since}&labelSelector={marked}"))
        .await?;
    let mut special = tenant
        .watch(&format!(
            "{CLUSTER_ROLES}?{since}&labelSelector=special%3Dyes"
        ))
        .await?;
    let mut one = tenant
        .watch(&format!(
            "{CLUSTER_ROLES}?{since}&fieldSelector=metadata.name%3Dview"
        ))
        .await?;
    let view = format!("{CLUSTER_ROLES}/view");
    let before = item(&tenant, &view).await?;
    let relabelled = json!({"metadata": {"labels": {"kubernetes.io/bootstrapping": null,
        "special": "yes"}}});
    let changed = tenant.patch(&view, "merge", &relabelled).await?;
    assert_eq!(changed.status, 200, "{}", changed.text());
    let changed = changed.json();
    for (watch, change) in [
        (&mut whole, "MODIFIED"),
        (&mut later, "MODIFIED"),
        (&mut one, "MODIFIED"),
        (&mut labelled, "DELETED"),
        (&mut special, "ADDED"),
    ] {
        let event = watch.next().await?.unwrap_or_default();
        assert_eq!(event["type"], change, "{event}");
        let object = &event["object"];
        assert_eq!(object["metadata"]["uid"], before["metadata"]["uid"]);
        assert_eq!(revision(object), revision(&changed), "{change}");
        let special = &object["metadata"]["labels"]["special"];
        assert_eq!(special == "yes", change != "DELETED", "{event}");
    }
    // The second change is delivered like the first.
    let back = json!({"metadata": {"labels": {"kubernetes.io/bootstrapping": "rbac-defaults",
        "special": null}}});
    assert_eq!(tenant.patch(&view, "merge", &back).await?.status, 200);
    for (watch, change) in [
        (&mut whole, "MODIFIED"),
        (&mut labelled, "ADDED"),
        (&mut special, "DELETED"),
    ] {
        let event = watch.next().await?.unwrap_or_default();
        assert_eq!(event["type"], change, "{event}");
    }
    // A watch that starts between the two changes receives both.
    let mut replay = tenant
        .watch(&format!("{CLUSTER_ROLES}?{since}&labelSelector={marked}"))
        .await?;
    for change in ["DELETED", "ADDED"] {
        let event = replay.next().await?.unwrap_or_default();
        assert_eq!(event["type"], change, "{event}");
    }
    Ok(())
}

#[tokio::test]
async fn watch_over_all_spaces_delivers_the_first_change_as_added() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (tenant, system) = (server.tenant("t1").await?, server.system().await?);
    let everywhere = CLUSTER_ROLES.replace("/v1/", "/v1/tenants/all/");
    let list = item(&system, &everywhere).await?;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    let at = revision(&list);
    let mut watch = system
        .watch(&format!("{everywhere}?watch=1&resourceVersion={at}"))
        .await?;
    let marked = "labelSelector=kubernetes.io/bootstrapping%3Drbac-defaults";
    let mut labelled = system
        .watch(&format!(
            "{everywhere}?watch=1&resourceVersion={at}&{marked}"
        ))
        .await?;
    let view = format!("{CLUSTER_ROLES}/view");
    for change in ["ADDED", "MODIFIED"] {
        let changed = tenant
            .patch(&view, "merge", &annotation_patch("a", change))
            .await?;
        assert_eq!(changed.status, 200);
        for watch in [&mut watch, &mut labelled] {
            let event = watch.next().await?.unwrap_or_default();
            assert_eq!(event["type"], change, "{event}");
            assert_eq!(event["object"]["metadata"]["name"], "view");
        }
    }
    Ok(())
}

/// A default role changed in one space is unchanged in the others.
#[tokio::test]
async fn changes_affect_one_space_only() -> anyhow::Result<()> {
    let people = "a1,alice,1,\"tenant:t1\"\na2,alice,1,\"tenant:t2\"\n\
                  a0,alice,1,\"tenant:system\"\n";
    let server = TestServer::with_tokens(people).await?;
    let (one, _other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let mut alices = Vec::new();
    for token in ["a1", "a2", "a0"] {
        alices.push(server.client(token).await?);
    }
    let codes = async |path: &str| -> anyhow::Result<Vec<u16>> {
        let mut codes = Vec::new();
        for alice in &alices {
            codes.push(alice.get(path).await?.status);
        }
        Ok(codes)
    };
    assert_eq!(codes("/api").await?, [200, 200, 200]);
    let binding = format!("{CLUSTER_BINDINGS}/system:discovery");
    let anonymous = json!({"subjects": null});
    let answer = one.patch(&binding, "merge", &anonymous).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(codes("/api").await?, [403, 200, 200]);
    // The role itself may also be extended in one space.
    let role = format!("{CLUSTER_ROLES}/system:basic-user");
    let more = json!([{"op": "add", "path": "/rules/-", "value": rule("list", "", "pods")}]);
    let answer = one.patch(&role, "json", &more).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(codes("/api/v1/pods").await?, [200, 403, 403]);
    // The roleRef of a binding is immutable, as in Kubernetes.
    let other = json!({"roleRef": {"name": "cluster-admin"}});
    let answer = one.patch(&binding, "merge", &other).await?;
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert!(
        answer.message().contains("cannot change roleRef"),
        "{}",
        answer.message()
    );
    Ok(())
}

/// The first change needs the same permissions as any other.
#[tokio::test]
async fn first_change_needs_the_usual_permissions() -> anyhow::Result<()> {
    let server = TestServer::with_tokens("alice,alice,7,\"dev,tenant:t1\"\n").await?;
    let (admin, alice) = (server.tenant("t1").await?, server.client("alice").await?);
    let view = format!("{CLUSTER_ROLES}/view");
    assert_eq!(alice.get(&view).await?.status, 403);
    assert_eq!(
        alice
            .patch(&view, "merge", &annotation_patch("a", "b"))
            .await?
            .status,
        403
    );
    let writes = rule(
        "get,patch,update",
        "rbac.authorization.k8s.io",
        "clusterroles,clusterrolebindings",
    );
    admin.grant("writes", "User:alice", &[writes]).await?;
    let rules = json!({"rules": [rule("*", "*", "*")]});
    for (path, patch) in [
        (format!("{CLUSTER_ROLES}/system:basic-user"), rules.clone()),
        (view.clone(), rules),
        (
            format!("{CLUSTER_BINDINGS}/cluster-admin"),
            json!({"subjects": [{"kind": "User", "name": "alice",
                "apiGroup": "rbac.authorization.k8s.io"}]}),
        ),
    ] {
        let answer = alice.patch(&path, "merge", &patch).await?;
        assert_eq!(answer.status, 403, "{path}: {}", answer.text());
    }
    assert_eq!(
        alice
            .patch(&view, "merge", &annotation_patch("a", "b"))
            .await?
            .status,
        200
    );
    let headers = [("content-type", "application/json")];
    let answer = alice.send(Method::DELETE, &view, &headers, "{}").await?;
    assert_eq!(answer.status, 403);
    Ok(())
}
