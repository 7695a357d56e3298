//! Where an owner may be: in the same namespace or cluster-scoped, and in the same space.

use insula_testkit::server::{Client, TestServer};
use serde_json::{Value, json};

use super::{
    MAPS, await_collector, create, delete, free, held, names, owned, owners, reference, servers,
    tenant, until, until_gone,
};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// The path of events about references into another namespace.
fn events_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/events?fieldSelector=reason%3DOwnerRefInvalidNamespace")
}

/// The events about references into another namespace.
async fn events(client: &Client, namespace: &str) -> anyhow::Result<Vec<Value>> {
    let found = until(client, &events_path(namespace), |answer| {
        let items = answer.json()["items"].as_array().map_or(0, Vec::len);
        items > 0
    })
    .await?
    .json();
    Ok(found["items"].as_array().cloned().unwrap_or_default())
}

#[tokio::test]
async fn owner_in_another_namespace_is_ignored_and_reported() -> anyhow::Result<()> {
    for server in servers().await? {
        let client = server.tenant("t1").await?;
        create(&client, "/api/v1/namespaces", free("n1")).await?;
        let owner = create(&client, MAPS, free("owner")).await?;
        let there = "/api/v1/namespaces/n1/configmaps";
        let stray = owned("stray", &[reference(&owner, true)]);
        let stray = create(&client, there, stray).await?;
        until_gone(&client, &format!("{there}/stray")).await?;
        let events_found = events(&client, "n1").await?;
        assert_eq!(events_found.len(), 1);
        let uid = owner["metadata"]["uid"].as_str().unwrap_or("");
        assert_eq!(
            events_found[0]["message"],
            format!(
                "ownerRef [v1/ConfigMap, namespace: n1, name: owner, uid: {uid}] does not exist \
                 in namespace \"n1\""
            )
        );
        assert_eq!(events_found[0]["type"], "Warning");
        assert_eq!(events_found[0]["count"], 1);
        let component = "garbage-collector-controller";
        assert_eq!(events_found[0]["source"]["component"], component);
        assert_eq!(events_found[0]["reportingComponent"], component);
        assert_eq!(
            events_found[0]["involvedObject"],
            json!({"kind": "ConfigMap", "apiVersion": "v1", "namespace": "n1", "name": "stray",
                "uid": stray["metadata"]["uid"]})
        );
        // Nor is it deleted, or kept waiting, because of it.
        assert_eq!(names(&client, MAPS).await?, ["owner"]);
    }
    Ok(())
}

#[tokio::test]
async fn cluster_scoped_object_cannot_have_a_namespaced_owner() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    let owner = create(&client, MAPS, free("owner")).await?;
    let solid = create(&client, ROLES, free("solid")).await?;
    let both = [reference(&owner, true), reference(&solid, true)];
    create(&client, ROLES, owned("misplaced", &both)).await?;
    let events_found = events(&client, "default").await?;
    let uid = owner["metadata"]["uid"].as_str().unwrap_or("");
    assert_eq!(
        events_found[0]["message"],
        format!(
            "ownerRef [v1/ConfigMap, namespace: , name: owner, uid: {uid}] does not exist in \
             namespace \"\""
        )
    );
    assert_eq!(events_found[0]["involvedObject"]["name"], "misplaced");
    assert_eq!(events_found[0]["involvedObject"]["namespace"], Value::Null);
    // It does not block its supposed owner, and is not deleted with it.
    delete(&client, &format!("{MAPS}/owner"), "Foreground").await?;
    until_gone(&client, &format!("{MAPS}/owner")).await?;
    await_collector(&client).await?;
    let path = format!("{ROLES}/misplaced");
    assert_eq!(owners(&client, &path).await?, ["owner", "solid"]);
    Ok(())
}

#[tokio::test]
async fn cluster_scoped_owner_has_dependents_in_every_namespace() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    create(&client, "/api/v1/namespaces", free("n1")).await?;
    let there = "/api/v1/namespaces/n1/configmaps";
    for policy in ["Background", "Foreground"] {
        let owner = create(&client, ROLES, free("owner")).await?;
        let of_owner = [reference(&owner, true)];
        for path in [MAPS, there, ROLES] {
            create(&client, path, owned("d", &of_owner)).await?;
        }
        await_collector(&client).await?;
        assert_eq!(names(&client, MAPS).await?, ["d"]);
        delete(&client, &format!("{ROLES}/owner"), policy).await?;
        for path in [MAPS, there, ROLES] {
            until_gone(&client, &format!("{path}/d")).await?;
        }
        until_gone(&client, &format!("{ROLES}/owner")).await?;
    }
    Ok(())
}

#[tokio::test]
async fn dependents_of_an_unknown_kind_are_kept() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    let solid = create(&client, MAPS, free("solid")).await?;
    let of = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "name": "x", "uid": "x"});
    for (name, version, kind) in [
        ("kind", "v1", "Nothing"),
        ("version", "apps/v1beta9", "Deployment"),
        ("group", "ex.io/v1", "Foo"),
        ("no-get", "authentication.k8s.io/v1", "TokenReview"),
        // The system space has tenants, tenants do not.
        ("tenant", "v1", "Tenant"),
    ] {
        create(&client, MAPS, owned(name, &[of(version, kind)])).await?;
        let both = [
            of("v1", "Secret"),
            of(version, kind),
            reference(&solid, false),
        ];
        let unchanged = json!({"metadata": {"name": format!("{name}-too"), "ownerReferences": [
            {"apiVersion": "v1", "kind": "Secret", "name": "x", "uid": "y"}, both[1], both[2]]}});
        create(&client, MAPS, unchanged).await?;
    }
    await_collector(&client).await?;
    assert_eq!(names(&client, MAPS).await?.len(), 11);
    let kept = owners(&client, &format!("{MAPS}/group-too")).await?;
    assert_eq!(kept, ["x", "x", "solid"]);
    Ok(())
}

/// The same names in two tenants; the second names UIDs of the first.
#[tokio::test]
async fn owner_uid_of_another_space_is_ignored() -> anyhow::Result<()> {
    for server in servers().await? {
        let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
        let system = server.system().await?;
        let owner = create(&one, MAPS, free("owner")).await?;
        create(&two, MAPS, free("owner")).await?;
        create(&system, MAPS, free("owner")).await?;
        let of_one = [reference(&owner, true)];
        create(&one, MAPS, owned("d", &of_one)).await?;
        // No object of the second tenant has this UID: the dependent is deleted, and the owner
        // stays.
        for other in [&two, &system] {
            create(other, MAPS, owned("d", &of_one)).await?;
            until_gone(other, &format!("{MAPS}/d")).await?;
            create(other, MAPS, held("held", &of_one)).await?;
        }
        await_collector(&one).await?;
        assert_eq!(names(&one, MAPS).await?, ["d", "owner"]);
        // Nor does the owner wait for the dependent in the other tenant, or delete anything there.
        delete(&one, &format!("{MAPS}/owner"), "Foreground").await?;
        until_gone(&one, &format!("{MAPS}/owner")).await?;
        assert_eq!(names(&one, MAPS).await?, [""; 0]);
        for other in [&two, &system] {
            await_collector(other).await?;
            assert_eq!(names(other, MAPS).await?, ["held", "owner"]);
            let events_found = other.get(&events_path("default")).await?.json();
            assert_eq!(events_found["items"], json!([]));
        }
    }
    Ok(())
}

#[tokio::test]
async fn orphaning_in_one_space_changes_nothing_in_another() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let owner = create(&one, MAPS, free("owner")).await?;
    create(&two, MAPS, held("d", &[reference(&owner, true)])).await?;
    create(&one, MAPS, owned("d", &[reference(&owner, true)])).await?;
    delete(&one, &format!("{MAPS}/owner"), "Orphan").await?;
    until_gone(&one, &format!("{MAPS}/owner")).await?;
    assert_eq!(owners(&one, &format!("{MAPS}/d")).await?, [""; 0]);
    assert_eq!(owners(&two, &format!("{MAPS}/d")).await?, ["owner"]);
    Ok(())
}
