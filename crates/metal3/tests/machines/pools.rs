//! Separate and shared pools of hosts.

use std::collections::BTreeSet;

use insula_capi::Machine;
use insula_metal3::kinds::host::BareMetalHost;
use insula_metal3::kinds::machine::Metal3Machine;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::scene::{HOST, META_DATA, Scene, host_secrets, identity, secrets};
use crate::world::{condition, eventually};

#[tokio::test]
async fn s01_r01_r11_r15_each_team_gets_exactly_the_hosts_of_its_own_pool() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let hosts = &scene.world.hosts;
    hosts.hosts("pool-a", &["h0", "h1"]).await?;
    hosts.hosts("pool-b", &["h0", "h1"]).await?;
    for (team, user, pool) in [
        ("team-a", "user-a", "pool-a"),
        ("team-b", "user-b", "pool-b"),
    ] {
        scene.cluster_on(team, (user, pool)).await?;
        scene.machines(team, &["m0", "m1", "m2"]).await?;
    }
    for (team, pool) in [("team-a", "pool-a"), ("team-b", "pool-b")] {
        let machines: Api<Metal3Machine> = scene.management().api(team);
        let waiting = eventually(async || {
            let all = machines.list(&kube::api::ListParams::default()).await?;
            let all = all.items.into_iter();
            let (done, others): (Vec<_>, Vec<_>) = all.partition(crate::scene::is_provisioned);
            Ok((done.len() == 2).then(|| others[0].name_any()))
        })
        .await?;
        let message = scene
            .host_problem(team, &waiting, "AssociateBareMetalHostFailed")
            .await?;
        let expected = format!("no available host: of 2 hosts in namespace {pool}, 2 in use");
        assert_eq!(message, expected);
        let consumers = hosts.consumers(pool).await?;
        let names: BTreeSet<_> = consumers.values().cloned().collect();
        let mut expected: BTreeSet<_> = ["m0", "m1", "m2"].map(str::to_owned).into();
        expected.remove(&waiting);
        let expected: BTreeSet<_> = expected
            .iter()
            .map(|name| format!("Metal3Machine {team}/{name}"))
            .collect();
        assert_eq!(names, expected);
        scene
            .management()
            .event(team, &waiting, "AssociateBareMetalHostFailed")
            .await?;
    }
    // r11, r15: each pool is accessed by its own user alone.
    for (user, pool) in [("user-a", "pool-a"), ("user-b", "pool-b")] {
        let requests = hosts.requests()?.into_iter();
        let users = requests.filter(|request| {
            request.namespace == pool
                && ["baremetalhosts", "secrets"].contains(&request.resource.as_str())
        });
        let mut users: BTreeSet<_> = users.map(|request| request.user).collect();
        users.retain(|user| user != "admin" && user != "bare-metal-operator");
        assert_eq!(users, [hosts.user_name(user)].into());
    }
    Ok(())
}

#[tokio::test]
async fn s01_user_of_one_pool_cannot_use_another() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let hosts = &scene.world.hosts;
    hosts.hosts("pool-b", &["h0"]).await?;
    let before = hosts.wait_for_host("pool-b", "h0", "available").await?;
    scene
        .world
        .identity("team-a", "wrong", ("user-a", "pool-b"))
        .await?;
    scene
        .cluster("team-a", "c", json!({}), identity("wrong"))
        .await?;
    scene.machines("team-a", &["m0"]).await?;
    let message = scene
        .host_problem("team-a", "m0", "IdentityForbidden")
        .await?;
    assert!(
        message.contains("may not list baremetalhosts in namespace pool-b"),
        "{message}"
    );
    let after = hosts.wait_for_host("pool-b", "h0", "available").await?;
    assert_eq!(after.resource_version(), before.resource_version());
    // The machine never had hosts to use, so nothing keeps it.
    scene.management().delete::<Machine>("team-a", "m0").await?;
    scene
        .management()
        .wait_until_gone::<Metal3Machine>("team-a", "m0")
        .await
}

#[tokio::test]
async fn s02_hosts_of_a_shared_pool_have_one_owner_each() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let hosts = &scene.world.hosts;
    let names = ["h0", "h1", "h2", "h3"];
    hosts.hosts("shared", &names).await?;
    let of_a = ["a0", "a1", "a2"];
    let of_b = ["b0", "b1", "b2"];
    scene.cluster_on("team-a", ("user-s1", "shared")).await?;
    scene.cluster_on("team-b", ("user-s2", "shared")).await?;
    tokio::try_join!(
        scene.machines("team-a", &of_a),
        scene.machines("team-b", &of_b)
    )?;
    let owners = eventually(async || {
        let consumers = hosts.consumers("shared").await?;
        Ok(consumers
            .values()
            .all(|consumer| !consumer.is_empty())
            .then_some(consumers))
    })
    .await?;
    let distinct: BTreeSet<_> = owners.values().collect();
    assert_eq!((owners.len(), distinct.len()), (4, 4), "{owners:?}");
    // The machines that wait take over the hosts of the others.
    for name in of_a {
        scene.management().delete::<Machine>("team-a", name).await?;
    }
    for name in of_a {
        let machines = scene.management();
        machines
            .wait_until_gone::<Metal3Machine>("team-a", name)
            .await?;
    }
    for name in of_b {
        scene.provisioned("team-b", name).await?;
    }
    let owners = hosts.consumers("shared").await?;
    let mut owners: Vec<_> = owners.into_values().collect();
    owners.sort();
    let expected = [
        "",
        "Metal3Machine team-b/b0",
        "Metal3Machine team-b/b1",
        "Metal3Machine team-b/b2",
    ];
    assert_eq!(owners, expected);
    Ok(())
}

#[tokio::test]
async fn s02_machines_of_one_name_do_not_share_secrets() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let hosts = &scene.world.hosts;
    hosts.hosts("shared", &["h0", "h1"]).await?;
    scene.cluster_on("team-a", ("user-s1", "shared")).await?;
    scene.machines("team-a", &["m0"]).await?;
    scene.provisioned("team-a", "m0").await?;
    scene.cluster_on("team-b", ("user-s2", "shared")).await?;
    scene.machines("team-b", &["m0"]).await?;
    let machine: Metal3Machine = scene
        .management()
        .wait_for_condition("team-b", "m0", META_DATA, ("False", "SecretConflict"))
        .await?;
    let message = "Secret \"m0-userdata\" exists next to the host and does not belong to this \
                   machine: delete it there, or give the machine another name";
    assert_eq!(condition(&machine, META_DATA).unwrap()[2], message);
    assert_eq!(condition(&machine, HOST).unwrap()[0], "True");
    let owners: BTreeSet<_> = hosts.consumers("shared").await?.into_values().collect();
    let expected = ["Metal3Machine team-a/m0", "Metal3Machine team-b/m0"];
    assert_eq!(owners, expected.map(str::to_owned).into());
    // Its host is claimed, and has got nothing of the other team.
    let host = scene.host_of("team-b", "m0").await?;
    let name = host.strip_prefix("shared/").unwrap();
    let host = hosts.wait_for_host("shared", name, "available").await?;
    assert_eq!(host_secrets(&host), [None, None, None]);

    // Its deletion leaves the Secret of the other machine alone.
    scene.management().delete::<Machine>("team-b", "m0").await?;
    scene
        .management()
        .wait_until_gone::<Metal3Machine>("team-b", "m0")
        .await?;
    let secret = hosts.api::<Secret>("shared").get("m0-userdata").await?;
    let owner = &secret.annotations()["infrastructure.cluster.x-k8s.io/owner"];
    assert_eq!(owner, "Metal3Machine/team-a/m0");
    assert_eq!(secrets(hosts, "shared").await?, ["m0-userdata"]);
    let free: Vec<_> = hosts.consumers("shared").await?.into_values().collect();
    assert_eq!(free.iter().filter(|owner| owner.is_empty()).count(), 1);
    Ok(())
}

#[tokio::test]
async fn s02_claim_of_a_second_operator_process_is_respected() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let hosts = &scene.world.hosts;
    hosts.hosts("shared", &["h0", "h1", "h2"]).await?;
    // Another management cluster, with an operator of its own.
    let other = Scene::start().await?;
    let kubeconfig = hosts.kubeconfig("user-s2", "shared")?;
    scene.cluster_on("team-a", ("user-s1", "shared")).await?;
    let management = other.management();
    management.identity("team-b", "hosts", &kubeconfig).await?;
    other
        .cluster("team-b", "c", identity("hosts"), json!({}))
        .await?;
    tokio::try_join!(
        scene.machines("team-a", &["a0", "a1"]),
        other.machines("team-b", &["b0", "b1"])
    )?;
    let owners = eventually(async || {
        let consumers = hosts.consumers("shared").await?;
        Ok(consumers
            .values()
            .all(|consumer| !consumer.is_empty())
            .then_some(consumers))
    })
    .await?;
    let distinct: BTreeSet<_> = owners.values().collect();
    assert_eq!(distinct.len(), 3, "{owners:?}");
    // Each machine with a host is the consumer of that host.
    for (scene, team, names) in [
        (&scene, "team-a", ["a0", "a1"]),
        (&other, "team-b", ["b0", "b1"]),
    ] {
        for name in names {
            let host = scene.host_of(team, name).await?;
            let Some(host) = host.strip_prefix("shared/") else {
                continue;
            };
            assert_eq!(owners[host], format!("Metal3Machine {team}/{name}"));
            hosts
                .wait_until("shared", host, |host: &BareMetalHost| {
                    host.spec.user_data.is_some()
                })
                .await?;
        }
    }
    Ok(())
}
