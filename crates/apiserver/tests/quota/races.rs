//! Concurrent creates for few remaining places.

use std::sync::Arc;

use insula_store::Store;
use insula_store::etcd::{self, Etcd};
use insula_store::memory::Memory;
use insula_testkit::etcd::EtcdServer;
use insula_testkit::server::{Engine, Setup, TestServer};
use serde_json::{Value, json};

use crate::{ADVICE, MAPS, create, create_quota, map, race, used};

/// Concurrent creates for the last place.
const MANY: usize = 64;

fn maps() -> Vec<Value> {
    (0..MANY).map(|n| map(&format!("c{n}"))).collect()
}

/// Two servers over one store; the caller keeps both alive.
async fn two_servers() -> anyhow::Result<(TestServer, TestServer)> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let first = TestServer::start_on_store(Arc::clone(&store), Setup::default()).await?;
    let second = TestServer::start_on_store(store, Setup::default()).await?;
    Ok((first, second))
}

#[tokio::test(flavor = "multi_thread")]
async fn last_place_in_a_namespace_has_one_winner() -> anyhow::Result<()> {
    for engine in [Engine::Memory, Engine::Embedded] {
        let server = TestServer::start_on(engine, Setup::default()).await?;
        let server = server.unwrap();
        let client = server.tenant("t1").await?;
        create(&client, MAPS, &map("first")).await?;
        create_quota(
            &client,
            "q1",
            json!({"configmaps": "2", "count/configmaps": "2"}),
        )
        .await?;
        let refusal = "exceeded quota: q1, requested: configmaps=1,count/configmaps=1, used: \
                       configmaps=2,count/configmaps=2, limited: \
                       configmaps=2,count/configmaps=2";
        assert_eq!(race(&[&client], MAPS, &maps(), refusal).await?, 1);
        let both = json!({"configmaps": "2", "count/configmaps": "2"});
        assert_eq!(used(&client, "q1").await?, both);
        assert!(server.registry().namespace_locks().is_empty());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn last_places_are_shared_between_servers() -> anyhow::Result<()> {
    let (first, second) = two_servers().await?;
    let one = first.tenant("t1").await?;
    let other = second.client("t1").await?;
    create_quota(&one, "q1", json!({"configmaps": "10"})).await?;
    // The other server counts once it has seen the quota.
    assert_eq!(used(&other, "q1").await?, json!(null));
    let refusal = "exceeded quota: q1, requested: configmaps=1, used: configmaps=10, limited: \
                   configmaps=10";
    assert_eq!(race(&[&one, &other], MAPS, &maps(), refusal).await?, 10);
    assert_eq!(used(&other, "q1").await?, json!({"configmaps": "10"}));
    let list = one.get(MAPS).await?.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 10);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn last_places_have_exact_winners_over_etcd() -> anyhow::Result<()> {
    let Some(etcd) = EtcdServer::start() else {
        return Ok(());
    };
    let start = || async {
        let store = Etcd::connect(etcd::Options::new(vec![etcd.endpoint()])).await?;
        TestServer::start_on_store(Arc::new(store), Setup::default()).await
    };
    let (first, second) = (start().await?, start().await?);
    let one = first.tenant("t1").await?;
    let other = second.client("t1").await?;
    create_quota(&one, "q1", json!({"configmaps": "5"})).await?;
    assert_eq!(used(&other, "q1").await?, json!(null));
    let refusal = "used: configmaps=5, limited: configmaps=5";
    assert_eq!(race(&[&one, &other], MAPS, &maps(), refusal).await?, 5);
    // The tenant's quota, in a namespace without its own.
    let list = one.get("/api/v1/namespaces").await?.json();
    let there = list["items"].as_array().map_or(0, Vec::len);
    let quota = json!({"spec": {"quota": {"namespaces": there + 3}}});
    let tenant = first.system().await?;
    let tenant = tenant.patch("/api/v1/tenants/t1", "merge", &quota).await?;
    assert_eq!(tenant.status, 200, "{}", tenant.text());
    let namespaces = (0..MANY).map(|n| json!({"metadata": {"name": format!("n{n}")}}));
    let namespaces: Vec<Value> = namespaces.collect();
    let refusal = format!("limited: namespaces={}{ADVICE}", there + 3);
    let path = "/api/v1/namespaces";
    let created = race(&[&one, &other], path, &namespaces, &refusal).await?;
    assert_eq!(created, 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_and_deletes_never_exceed_the_quota() -> anyhow::Result<()> {
    let (first, second) = two_servers().await?;
    let one = first.tenant("t1").await?;
    let other = second.client("t1").await?;
    create_quota(&one, "q1", json!({"configmaps": "4"})).await?;
    assert_eq!(used(&other, "q1").await?, json!(null));
    let work = |client: insula_testkit::server::Client, who: usize| async move {
        for n in 0..60 {
            let name = format!("c{who}-{n}");
            let created = client.post(MAPS, &map(&name)).await?;
            anyhow::ensure!(matches!(created.status, 201 | 403), "{}", created.text());
            let list = client.get(MAPS).await?.json();
            let there = list["items"].as_array().map_or(0, Vec::len);
            anyhow::ensure!(there <= 4, "{there} are there");
            if created.status == 201 && n % 3 != 0 {
                client.delete(&format!("{MAPS}/{name}")).await?;
            }
        }
        anyhow::Ok(())
    };
    let mut workers = tokio::task::JoinSet::new();
    for who in 0..4 {
        let server = if who % 2 == 0 { &first } else { &second };
        workers.spawn(work(server.client("t1").await?, who));
    }
    while let Some(done) = workers.join_next().await {
        done??;
    }
    Ok(())
}
