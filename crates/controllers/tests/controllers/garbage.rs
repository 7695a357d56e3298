//! The garbage collector.

mod custom;
mod foreground;
mod graphs;
mod many;
mod places;
mod races;
mod restart;

use insula_testkit::server::{Client, TestServer};
use serde_json::{Value, json};

use super::{count, create, release, servers, until, until_gone};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// An owner reference, with or without `blockOwnerDeletion`.
fn reference(owner: &Value, blocks: bool) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": blocks,
    })
}

/// An object with these owners.
fn owned(name: &str, owners: &[Value]) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": owners}})
}

/// An object with these owners and a finalizer.
fn held(name: &str, owners: &[Value]) -> Value {
    let mut object = owned(name, owners);
    object["metadata"]["finalizers"] = json!(["x.io/y"]);
    object
}

fn free(name: &str) -> Value {
    owned(name, &[])
}

async fn delete(client: &Client, path: &str, policy: &str) -> anyhow::Result<()> {
    let deleted = client
        .delete(&format!("{path}?propagationPolicy={policy}"))
        .await?;
    anyhow::ensure!(deleted.status == 200, "{path}: {}", deleted.text());
    Ok(())
}

/// The names of the listed objects.
async fn names(client: &Client, path: &str) -> anyhow::Result<Vec<String>> {
    let list = client.get(path).await?;
    anyhow::ensure!(list.status == 200, "{path}: {}", list.text());
    let list = list.json();
    let items = list["items"].as_array().into_iter().flatten();
    let names = items.filter_map(|item| item["metadata"]["name"].as_str());
    let names = names.filter(|name| *name != "kube-root-ca.crt");
    Ok(names.map(str::to_owned).collect())
}

/// The owners that an object names.
async fn owners(client: &Client, path: &str) -> anyhow::Result<Vec<String>> {
    let object = client.get(path).await?;
    anyhow::ensure!(object.status == 200, "{path}: {}", object.text());
    let object = object.json();
    let owners = object["metadata"]["ownerReferences"].as_array();
    let owners = owners.into_iter().flatten();
    Ok(owners
        .filter_map(|owner| owner["name"].as_str())
        .map(str::to_owned)
        .collect())
}

/// Waits until the collector has processed everything that happened before.
async fn await_collector(client: &Client) -> anyhow::Result<()> {
    let missing = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "missing", "uid": "no"});
    for round in [
        "await-collector-1",
        "await-collector-2",
        "await-collector-3",
    ] {
        create(client, MAPS, owned(round, std::slice::from_ref(&missing))).await?;
        until_gone(client, &format!("{MAPS}/{round}")).await?;
    }
    Ok(())
}

async fn tenant() -> anyhow::Result<(TestServer, Client)> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    Ok((server, client))
}

#[tokio::test]
async fn only_dependents_without_remaining_owners_are_deleted() -> anyhow::Result<()> {
    for server in servers().await? {
        for client in [server.system().await?, server.tenant("t1").await?] {
            let one = create(&client, MAPS, free("one")).await?;
            let two = create(&client, MAPS, free("two")).await?;
            let (of_one, of_two) = (reference(&one, false), reference(&two, true));
            let child = create(
                &client,
                SECRETS,
                owned("child", std::slice::from_ref(&of_one)),
            )
            .await?;
            let grandchild = owned("grandchild", &[reference(&child, false)]);
            create(&client, MAPS, grandchild).await?;
            let both = [of_one, of_two];
            create(&client, MAPS, owned("both", &both)).await?;
            create(&client, MAPS, free("nobodys")).await?;
            delete(&client, &format!("{MAPS}/one"), "Background").await?;
            until_gone(&client, &format!("{SECRETS}/child")).await?;
            until_gone(&client, &format!("{MAPS}/grandchild")).await?;
            until(&client, &format!("{MAPS}/both"), |answer| {
                let owners = &answer.json()["metadata"]["ownerReferences"];
                *owners == json!([reference(&two, true)])
            })
            .await?;
            await_collector(&client).await?;
            assert_eq!(names(&client, MAPS).await?, ["both", "nobodys", "two"]);
            delete(&client, &format!("{MAPS}/two"), "Background").await?;
            until_gone(&client, &format!("{MAPS}/both")).await?;
            await_collector(&client).await?;
            assert_eq!(names(&client, MAPS).await?, ["nobodys"]);
        }
    }
    Ok(())
}

#[tokio::test]
async fn delete_without_policy_uses_the_default_of_the_kind() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let pod = json!({"spec": {"restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i"}]}});
    for (name, query, stays) in [
        ("usual", "", true),
        ("asked", "?propagationPolicy=Background", false),
        ("old", "?orphanDependents=false", false),
        ("old-true", "?orphanDependents=true", true),
    ] {
        let job = json!({"metadata": {"name": name}, "spec": {"template": pod}});
        let job = create(&client, jobs, job).await?;
        create(&client, MAPS, owned(name, &[reference(&job, true)])).await?;
        let deleted = client.delete(&format!("{jobs}/{name}{query}")).await?;
        assert_eq!(deleted.status, 200, "{}", deleted.text());
        let warning = match query {
            "" => {
                "299 - \"child pods are preserved by default when jobs are deleted; set \
                   propagationPolicy=Background to remove them or set propagationPolicy=Orphan \
                   to suppress this warning\""
            }
            _ => "",
        };
        assert_eq!(deleted.header("warning"), warning, "{name}");
        until_gone(&client, &format!("{jobs}/{name}")).await?;
        let map = format!("{MAPS}/{name}");
        match stays {
            true => assert_eq!(owners(&client, &map).await?, [""; 0], "{name}"),
            false => until_gone(&client, &map).await?,
        }
    }
    Ok(())
}

#[tokio::test]
async fn object_with_missing_owner_is_deleted() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    let owner = create(&client, MAPS, free("owner")).await?;
    let right = reference(&owner, false);
    let wrong = |member: &str, value: &str| {
        let mut wrong = right.clone();
        wrong[member] = value.into();
        wrong
    };
    for (name, owner) in [
        ("never", wrong("name", "never")),
        ("other-uid", wrong("uid", "other")),
        ("other-kind", wrong("kind", "Secret")),
    ] {
        let created = client.post(MAPS, &owned(name, &[owner])).await?;
        assert_eq!(created.status, 201, "{}", created.text());
        until_gone(&client, &format!("{MAPS}/{name}")).await?;
    }
    // Only after the object was evaluated with the missing owner.
    create(&client, MAPS, owned("right", std::slice::from_ref(&right))).await?;
    await_collector(&client).await?;
    assert_eq!(names(&client, MAPS).await?, ["owner", "right"]);
    let patch = json!({"metadata": {"ownerReferences": [wrong("uid", "other")]}});
    let patched = client
        .patch(&format!("{MAPS}/right"), "merge", &patch)
        .await?;
    assert_eq!(patched.status, 200, "{}", patched.text());
    until_gone(&client, &format!("{MAPS}/right")).await?;
    Ok(())
}

#[tokio::test]
async fn recreated_owner_with_new_uid_does_not_keep_dependents() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    let owner = create(&client, MAPS, free("owner")).await?;
    let dependent = held("dependent", &[reference(&owner, false)]);
    create(&client, MAPS, dependent).await?;
    delete(&client, &format!("{MAPS}/owner"), "Background").await?;
    create(&client, MAPS, free("owner")).await?;
    let path = format!("{MAPS}/dependent");
    until(&client, &path, |answer| {
        answer.json()["metadata"]["deletionTimestamp"].is_string()
    })
    .await?;
    release(&client, &path).await?;
    until_gone(&client, &path).await?;
    assert_eq!(names(&client, MAPS).await?, ["owner"]);
    Ok(())
}

#[tokio::test]
async fn orphaned_dependents_stay_without_owner_references() -> anyhow::Result<()> {
    for server in servers().await? {
        let client = server.tenant("t1").await?;
        let owner = create(&client, MAPS, free("owner")).await?;
        let other = create(&client, MAPS, free("other")).await?;
        let (of_owner, of_other) = (reference(&owner, true), reference(&other, false));
        create(
            &client,
            MAPS,
            owned("only", std::slice::from_ref(&of_owner)),
        )
        .await?;
        create(
            &client,
            SECRETS,
            owned("only", std::slice::from_ref(&of_owner)),
        )
        .await?;
        create(&client, MAPS, owned("shared", &[of_owner, of_other])).await?;
        delete(&client, &format!("{MAPS}/owner"), "Orphan").await?;
        until_gone(&client, &format!("{MAPS}/owner")).await?;
        await_collector(&client).await?;
        for path in [format!("{MAPS}/only"), format!("{SECRETS}/only")] {
            let left = client.get(&path).await?.json();
            assert_eq!(left["metadata"]["ownerReferences"], Value::Null, "{left}");
        }
        assert_eq!(owners(&client, &format!("{MAPS}/shared")).await?, ["other"]);
    }
    Ok(())
}

#[tokio::test]
async fn built_in_objects_stay_whatever_owner_they_name() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    let missing = json!({"apiVersion": "v1", "kind": "Node", "name": "missing", "uid": "no"});
    let patch = json!({"metadata": {"ownerReferences": [missing]}});
    for path in [
        "/api/v1/namespaces/default",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/edit",
    ] {
        let patched = client.patch(path, "merge", &patch).await?;
        assert_eq!(patched.status, 200, "{}", patched.text());
        await_collector(&client).await?;
        let kept = client.get(path).await?.json();
        assert_eq!(kept["metadata"]["name"], patched.json()["metadata"]["name"]);
        assert_eq!(kept["metadata"]["deletionTimestamp"], Value::Null);
    }
    Ok(())
}

#[tokio::test]
async fn namespace_deletion_does_not_wait_for_owners_or_dependents() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    create(&client, "/api/v1/namespaces", free("n1")).await?;
    let maps = "/api/v1/namespaces/n1/configmaps";
    let owner = create(&client, maps, free("owner")).await?;
    let blocking = held("blocking", &[reference(&owner, true)]);
    create(&client, maps, blocking).await?;
    delete(&client, &format!("{maps}/owner"), "Foreground").await?;
    let jobs = "/apis/batch/v1/namespaces/n1/jobs";
    let pod = json!({"spec": {"restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i"}]}});
    let mut job = json!({"metadata": {"name": "j"}, "spec": {"template": pod}});
    job["metadata"]["finalizers"] = json!(["x.io/y"]);
    create(&client, jobs, job).await?;
    delete(&client, "/api/v1/namespaces/n1", "Background").await?;
    // The owner is gone before the dependent that it waited for.
    until_gone(&client, &format!("{maps}/owner")).await?;
    let job = until(&client, &format!("{jobs}/j"), |answer| {
        answer.json()["metadata"]["deletionTimestamp"].is_string()
    })
    .await?;
    assert_eq!(job.json()["metadata"]["finalizers"], json!(["x.io/y"]));
    release(&client, &format!("{jobs}/j")).await?;
    release(&client, &format!("{maps}/blocking")).await?;
    until_gone(&client, "/api/v1/namespaces/n1").await
}
