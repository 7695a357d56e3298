//! Custom objects as owners and as dependents.

use insula_testkit::server::{Client, DEFINITIONS, TestServer, definition};
use serde_json::{Value, json};

use super::{
    MAPS, await_collector, create, delete, free, names, owned, owners, reference, release, tenant,
    until, until_gone,
};

const FOOS: &str = "/apis/ex.io/v1/namespaces/default/foos";

fn foos() -> Value {
    definition("ex.io", "foos", "Foo", json!({"type": "object"}))
}

fn foo(mut object: Value) -> Value {
    object["apiVersion"] = "ex.io/v1".into();
    object["kind"] = "Foo".into();
    object
}

async fn define(client: &Client) -> anyhow::Result<()> {
    client.define(&foos()).await?;
    until(client, FOOS, |answer| answer.status == 200).await?;
    Ok(())
}

#[tokio::test]
async fn custom_objects_can_be_owners_and_dependents() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    define(&client).await?;
    for policy in ["Background", "Foreground"] {
        let owner = create(&client, FOOS, foo(free("owner"))).await?;
        let child = foo(owned("child", &[reference(&owner, true)]));
        let child = create(&client, FOOS, child).await?;
        create(&client, MAPS, owned("d", &[reference(&child, true)])).await?;
        await_collector(&client).await?;
        assert_eq!(names(&client, FOOS).await?, ["child", "owner"]);
        delete(&client, &format!("{FOOS}/owner"), policy).await?;
        for path in [format!("{FOOS}/child"), format!("{MAPS}/d")] {
            until_gone(&client, &path).await?;
        }
        until_gone(&client, &format!("{FOOS}/owner")).await?;
    }
    let owner = create(&client, MAPS, free("owner")).await?;
    let child = foo(owned("child", &[reference(&owner, true)]));
    create(&client, FOOS, child).await?;
    delete(&client, &format!("{MAPS}/owner"), "Orphan").await?;
    until_gone(&client, &format!("{MAPS}/owner")).await?;
    assert_eq!(owners(&client, &format!("{FOOS}/child")).await?, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn deleting_a_definition_deletes_its_objects_and_their_dependents() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    define(&client).await?;
    let owner = create(&client, FOOS, foo(free("owner"))).await?;
    let mut other = foo(free("held"));
    other["metadata"]["finalizers"] = json!(["x.io/y"]);
    let other = create(&client, FOOS, other).await?;
    create(&client, MAPS, owned("d", &[reference(&owner, true)])).await?;
    create(&client, MAPS, owned("d-held", &[reference(&other, true)])).await?;
    delete(&client, &format!("{DEFINITIONS}/foos.ex.io"), "Background").await?;
    until_gone(&client, &format!("{MAPS}/d")).await?;
    await_collector(&client).await?;
    // Its owner has a finalizer.
    assert_eq!(names(&client, MAPS).await?, ["d-held"]);
    release(&client, &format!("{FOOS}/held")).await?;
    until_gone(&client, &format!("{DEFINITIONS}/foos.ex.io")).await?;
    // The deletion of the owner was observed, although its kind is gone too.
    until_gone(&client, &format!("{MAPS}/d-held")).await
}

#[tokio::test]
async fn dependents_of_an_unknown_kind_are_evaluated_once_it_is_served() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let owner = json!({"apiVersion": "ex.io/v1", "kind": "Foo", "name": "owner", "uid": "x"});
    for client in [&one, &two] {
        create(client, MAPS, owned("d", std::slice::from_ref(&owner))).await?;
        await_collector(client).await?;
        assert_eq!(names(client, MAPS).await?, ["d"]);
    }
    define(&one).await?;
    until_gone(&one, &format!("{MAPS}/d")).await?;
    await_collector(&two).await?;
    assert_eq!(names(&two, MAPS).await?, ["d"]);
    // Published definitions are served in every space.
    let system = server.system().await?;
    let mut published = foos();
    published["metadata"]["annotations"] = json!({"multi-tenancy.k8s.io/published": "true"});
    system.define(&published).await?;
    until_gone(&two, &format!("{MAPS}/d")).await
}

#[tokio::test]
async fn published_definition_can_be_an_owner_in_every_tenant() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, client) = (server.system().await?, server.tenant("t1").await?);
    let mut published = foos();
    published["metadata"]["annotations"] = json!({"multi-tenancy.k8s.io/published": "true"});
    system.define(&published).await?;
    let path = format!("{DEFINITIONS}/foos.ex.io");
    let seen = until(&client, &path, |answer| answer.status == 200).await?;
    create(&client, MAPS, owned("d", &[reference(&seen.json(), false)])).await?;
    await_collector(&client).await?;
    assert_eq!(names(&client, MAPS).await?, ["d"]);
    delete(&system, &path, "Background").await?;
    until_gone(&client, &format!("{MAPS}/d")).await
}
