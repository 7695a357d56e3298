//! Where an owner may be: in the same namespace or in none, and in the same space.

use insula_testkit::server::{Client, TestServer};
use serde_json::{Value, json};

use super::{
    MAPS, create, delete, free, held, names, owned, owners, reference, servers, settle, tenant,
    until, until_gone,
};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// Where events are about references that lead into another namespace.
fn strays(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/events?fieldSelector=reason%3DOwnerRefInvalidNamespace")
}

/// The events about a reference that leads into another namespace.
async fn events(client: &Client, namespace: &str) -> anyhow::Result<Vec<Value>> {
    let found = until(client, &strays(namespace), |answer| {
        let items = answer.json()["items"].as_array().map_or(0, Vec::len);
        items > 0
    })
    .await?
    .json();
    Ok(found["items"].as_array().cloned().unwrap_or_default())
}

#[tokio::test]
async fn an_owner_in_another_namespace_is_none_and_whoever_says_so_is_told() -> anyhow::Result<()> {
    for server in servers().await? {
        let client = server.tenant("t1").await?;
        create(&client, "/api/v1/namespaces", free("n1")).await?;
        let owner = create(&client, MAPS, free("owner")).await?;
        let there = "/api/v1/namespaces/n1/configmaps";
        let stray = owned("stray", &[reference(&owner, true)]);
        let stray = create(&client, there, stray).await?;
        until_gone(&client, &format!("{there}/stray")).await?;
        let told = events(&client, "n1").await?;
        assert_eq!(told.len(), 1);
        let uid = owner["metadata"]["uid"].as_str().unwrap_or("");
        assert_eq!(
            told[0]["message"],
            format!(
                "ownerRef [v1/ConfigMap, namespace: n1, name: owner, uid: {uid}] does not exist \
                 in namespace \"n1\""
            )
        );
        assert_eq!(told[0]["type"], "Warning");
        assert_eq!(told[0]["count"], 1);
        let component = "garbage-collector-controller";
        assert_eq!(told[0]["source"]["component"], component);
        assert_eq!(told[0]["reportingComponent"], component);
        assert_eq!(
            told[0]["involvedObject"],
            json!({"kind": "ConfigMap", "apiVersion": "v1", "namespace": "n1", "name": "stray",
                "uid": stray["metadata"]["uid"]})
        );
        // Nor does it go, or wait, because of it.
        assert_eq!(names(&client, MAPS).await?, ["owner"]);
    }
    Ok(())
}

#[tokio::test]
async fn what_is_in_no_namespace_is_never_owned_by_what_is_in_one() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    let owner = create(&client, MAPS, free("owner")).await?;
    let solid = create(&client, ROLES, free("solid")).await?;
    let both = [reference(&owner, true), reference(&solid, true)];
    create(&client, ROLES, owned("misplaced", &both)).await?;
    let told = events(&client, "default").await?;
    let uid = owner["metadata"]["uid"].as_str().unwrap_or("");
    assert_eq!(
        told[0]["message"],
        format!(
            "ownerRef [v1/ConfigMap, namespace: , name: owner, uid: {uid}] does not exist in \
             namespace \"\""
        )
    );
    assert_eq!(told[0]["involvedObject"]["name"], "misplaced");
    assert_eq!(told[0]["involvedObject"]["namespace"], Value::Null);
    // It does not keep its supposed owner waiting, and does not go with it.
    delete(&client, &format!("{MAPS}/owner"), "Foreground").await?;
    until_gone(&client, &format!("{MAPS}/owner")).await?;
    settle(&client).await?;
    let path = format!("{ROLES}/misplaced");
    assert_eq!(owners(&client, &path).await?, ["owner", "solid"]);
    Ok(())
}

#[tokio::test]
async fn an_owner_in_no_namespace_has_dependents_everywhere() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    create(&client, "/api/v1/namespaces", free("n1")).await?;
    let there = "/api/v1/namespaces/n1/configmaps";
    for policy in ["Background", "Foreground"] {
        let owner = create(&client, ROLES, free("owner")).await?;
        let of_owner = [reference(&owner, true)];
        for path in [MAPS, there, ROLES] {
            create(&client, path, owned("d", &of_owner)).await?;
        }
        settle(&client).await?;
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
async fn a_kind_that_nobody_knows_keeps_its_dependents() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    let solid = create(&client, MAPS, free("solid")).await?;
    let of = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "name": "x", "uid": "x"});
    for (name, version, kind) in [
        ("kind", "v1", "Nothing"),
        ("version", "apps/v1beta9", "Deployment"),
        ("group", "ex.io/v1", "Foo"),
        ("no-get", "authentication.k8s.io/v1", "TokenReview"),
        // There are tenants, but not in tenants.
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
    settle(&client).await?;
    assert_eq!(names(&client, MAPS).await?.len(), 11);
    let kept = owners(&client, &format!("{MAPS}/group-too")).await?;
    assert_eq!(kept, ["x", "x", "solid"]);
    Ok(())
}

/// The same names in two tenants; the second names UIDs of the first.
#[tokio::test]
async fn a_uid_of_another_space_means_nothing() -> anyhow::Result<()> {
    for server in servers().await? {
        let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
        let system = server.system().await?;
        let owner = create(&one, MAPS, free("owner")).await?;
        create(&two, MAPS, free("owner")).await?;
        create(&system, MAPS, free("owner")).await?;
        let of_one = [reference(&owner, true)];
        create(&one, MAPS, owned("d", &of_one)).await?;
        // Elsewhere nobody has this UID: what names it goes, and it stays.
        for other in [&two, &system] {
            create(other, MAPS, owned("d", &of_one)).await?;
            until_gone(other, &format!("{MAPS}/d")).await?;
            create(other, MAPS, held("held", &of_one)).await?;
        }
        settle(&one).await?;
        assert_eq!(names(&one, MAPS).await?, ["d", "owner"]);
        // Nor does it wait for what names it elsewhere, or take anything along there.
        delete(&one, &format!("{MAPS}/owner"), "Foreground").await?;
        until_gone(&one, &format!("{MAPS}/owner")).await?;
        assert_eq!(names(&one, MAPS).await?, [""; 0]);
        for other in [&two, &system] {
            settle(other).await?;
            assert_eq!(names(other, MAPS).await?, ["held", "owner"]);
            let told = other.get(&strays("default")).await?.json();
            assert_eq!(told["items"], json!([]));
        }
    }
    Ok(())
}

#[tokio::test]
async fn letting_go_in_one_space_changes_nothing_in_another() -> anyhow::Result<()> {
    let server = TestServer::start_whole().await?;
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
