//! Killed operators and failing servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::try_join_all;
use http::Method;
use insula_broker::names::{ADMIN, ADMIN_TOKEN, CLUSTER, MANAGED_BY};
use insula_broker::operator::Settings;
use insula_broker::tenant::{Isolation, Phase, TenantSpec};
use insula_broker::token;
use insula_operator::spaces::client_for;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};

use crate::network::{Chaos, Fate, Wire};
use crate::world::{
    Running, Spaces, World, client, config, eventually, named, namespace, phase_of, put, settings,
};

/// An operator without a lease.
fn alone() -> Settings {
    Settings {
        leader_elect: false,
        ..settings("alone")
    }
}

/// Checks that a tenant is provisioned, with exactly one object of each kind.
async fn assert_whole(world: &World, id: &str) -> anyhow::Result<()> {
    assert_whole_in(world, world.admin.clone(), id).await
}

/// The same with this client.
async fn assert_whole_in(world: &World, ground: Client, id: &str) -> anyhow::Result<()> {
    let (all, home) = (ListParams::default(), namespace(id));
    let accounts: Api<ServiceAccount> = Api::namespaced(ground.clone(), &home);
    assert_eq!(
        names(&accounts.list(&all).await?.items),
        ["default", ADMIN],
        "{id}"
    );
    let roles: Api<Role> = Api::namespaced(ground.clone(), &home);
    assert_eq!(
        names(&roles.list(&all).await?.items),
        [ADMIN, CLUSTER],
        "{id}"
    );
    let bindings: Api<RoleBinding> = Api::namespaced(ground.clone(), &home);
    assert_eq!(names(&bindings.list(&all).await?.items), [ADMIN], "{id}");
    let secrets: Api<Secret> = Api::namespaced(ground, &home);
    let secrets = secrets.list(&all).await?.items;
    assert_eq!(names(&secrets), [ADMIN_TOKEN], "{id}");
    let token = token::of(&secrets[0]).context("there is no token")?;
    let mine = client(&world.server, std::str::from_utf8(token)?).await?;
    let secrets: Api<Secret> = Api::namespaced(mine, &home);
    assert!(token::of(&secrets.get(ADMIN_TOKEN).await?).is_some());
    Ok(())
}

fn names<K: ResourceExt>(objects: &[K]) -> Vec<String> {
    let mut names: Vec<_> = objects.iter().map(ResourceExt::name_any).collect();
    names.sort();
    names
}

/// Kills the operator at its n-th write while it works towards `done`; returns whether it was
/// done before.
async fn kill(
    world: &World,
    n: u64,
    fate: Fate,
    done: impl AsyncFn() -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    let chaos = Chaos::of_writes(move |count, _| if count == n { fate } else { Fate::Pass });
    let running = Running::new(chaos.around(&world.operator), alone());
    tokio::select! {
        () = chaos.killed() => return Ok(true),
        finished = done() => finished?,
    }
    // Events follow the writes they are about.
    tokio::select! {
        () = chaos.killed() => Ok(true),
        stopped = running.stop() => {
            stopped?;
            Ok(chaos.is_dead())
        }
    }
}

/// Returns `otherwise`, or with `INSULA_OPERATOR_KILLS=all` (`make kills`) `all`.
fn selected<T>(all: T, otherwise: T) -> T {
    match std::env::var("INSULA_OPERATOR_KILLS").as_deref() {
        Ok("all") => all,
        _ => otherwise,
    }
}

/// Kills the operator at every `step`-th write of provisioning and deleting a tenant; returns
/// the numbers of the last ones.
async fn kill_everywhere(
    world: &World,
    spec: &TenantSpec,
    (fate, step): (Fate, usize),
    assert_whole: impl AsyncFn(&str) -> anyhow::Result<()>,
) -> anyhow::Result<(u64, u64)> {
    let (mut makes, mut removes) = (0, 0);
    for n in (1..).step_by(step) {
        let id = format!("k{n}");
        world.create_with(&id, spec.clone()).await?;
        let made = async || world.phase(&id, Phase::Provisioned).await.map(drop);
        if !kill(world, n, fate, made).await? {
            break;
        }
        makes = n;
        let running = Running::new(world.operator.clone(), alone());
        world.phase(&id, Phase::Provisioned).await?;
        assert_whole(&id).await?;
        running.stop().await?;
    }
    for n in (1..=makes).step_by(step) {
        let id = format!("k{n}");
        world.delete(&id).await?;
        let gone = async || world.gone(&id).await;
        let killed = kill(world, n, fate, gone).await?;
        let running = Running::new(world.operator.clone(), alone());
        world.gone(&id).await?;
        assert!(world.namespaces().get_opt(&namespace(&id)).await?.is_none());
        running.stop().await?;
        if !killed {
            break;
        }
        removes = n;
    }
    Ok((makes, removes))
}

#[tokio::test]
async fn r80_operator_killed_between_any_two_writes_converges() -> anyhow::Result<()> {
    // Killed before every second write and after every second one, the operator leaves each of the
    // states between two writes once.
    let step = selected(1, 2);
    for fate in [Fate::KillBefore, Fate::KillAfter] {
        let world = World::new().await?;
        let whole = async |id: &str| assert_whole(&world, id).await;
        let spec = TenantSpec::default();
        let writes = kill_everywhere(&world, &spec, (fate, step), whole).await?;
        // Finalizer, status, event, namespace, account, two roles, binding, token, status,
        // event; status, event, token, account, namespace, finalizer. More if the token takes
        // long.
        let least = (12 - step as u64, 7 - step as u64);
        assert!(
            writes.0 >= least.0 && writes.1 >= least.1,
            "{fate:?}: {writes:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn r80_operator_killed_between_any_two_writes_converges_with_a_space() -> anyhow::Result<()> {
    let world = World::with(Spaces::Allowed).await?;
    let spec = TenantSpec {
        isolation: Some(Isolation::Space),
        ..TenantSpec::default()
    };
    let whole = async |id: &str| {
        let inside = client_for(&world.admin, &namespace(id));
        assert_whole_in(&world, inside, id).await
    };
    let step = selected(1, 2);
    let writes = kill_everywhere(&world, &spec, (Fate::KillAfter, step), whole).await?;
    // Additionally the space and its five kinds.
    let least = (18 - step as u64, 7 - step as u64);
    assert!(writes.0 >= least.0 && writes.1 >= least.1, "{writes:?}");
    Ok(())
}

/// Provisions and deletes a tenant while its n-th request has this outcome; returns the number
/// of requests.
async fn survive(world: &World, id: &str, n: u64, fate: Fate) -> anyhow::Result<u64> {
    let chaos = Chaos::new(move |count, _| if count == n { fate } else { Fate::Pass });
    let hasty = Settings {
        timeout: Duration::from_secs(1),
        ..alone()
    };
    let running = Running::new(chaos.around(&world.operator), hasty);
    world.create(id).await?;
    world.phase(id, Phase::Provisioned).await?;
    assert_whole(world, id).await?;
    world.delete(id).await?;
    world.gone(id).await?;
    running.stop().await?;
    Ok(chaos.requests.load(Ordering::SeqCst))
}

#[tokio::test]
async fn r33_r80_any_failed_request_is_survived_during_creation_and_deletion() -> anyhow::Result<()>
{
    let fates = [
        Fate::Refuse(500),
        Fate::Refuse(409),
        Fate::Refuse(410),
        Fate::Lose,
        Fate::Cut,
        Fate::Hang,
    ];
    let everywhere = fates.into_iter().enumerate().map(|(at, fate)| async move {
        let world = World::new().await?;
        let all = survive(&world, "calm", 0, Fate::Pass).await?;
        assert!(all > 40, "{all} requests");
        // Every request meets one of the six outcomes, or all of them.
        let step = selected(1, fates.len() as u64);
        for n in (1..=all).filter(|n| (n + at as u64).is_multiple_of(step)) {
            let survived = survive(&world, &format!("f{n}"), n, fate).await;
            survived.with_context(|| format!("request {n}: {fate:?}"))?;
        }
        anyhow::Ok(())
    });
    try_join_all(everywhere).await?;
    Ok(())
}

#[tokio::test]
async fn r33_persistent_server_errors_are_reported_and_cleared() -> anyhow::Result<()> {
    let world = World::new().await?;
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = Arc::clone(&broken);
    let chaos = Chaos::new(move |_, request| {
        let makes = request.method() == Method::POST;
        let roles = request.uri().path().ends_with("/roles");
        match makes && roles && is_broken.load(Ordering::SeqCst) {
            true => Fate::Refuse(500),
            false => Fate::Pass,
        }
    });
    let _running = Running::new(chaos.around(&world.operator), alone());
    world.create("acme").await?;
    let tenant = world.phase("acme", Phase::Failed).await?;
    assert_eq!(
        crate::world::ready(&tenant),
        Some((
            "False",
            "ServerUnavailable",
            "the server is unavailable: cannot create role submariner-k8s-broker-admin: \
             so it was decided"
        ))
    );
    broken.store(false, Ordering::SeqCst);
    world.phase("acme", Phase::Provisioned).await?;
    assert_whole(&world, "acme").await
}

#[tokio::test]
async fn r80_outage_beyond_the_watch_history_misses_nothing() -> anyhow::Result<()> {
    let world = World::new().await?;
    let secrets: Api<Secret> = Api::namespaced(world.admin.clone(), "axon-operator");
    let listed = secrets.list(&ListParams::default()).await?;
    let secret = listed.iter().find_map(token::of).expect("the operator's");
    let wire = Wire::to(world.server.address()).await?;
    let config = config(&world.server, std::str::from_utf8(secret)?).await?;
    let _running = Running::new(wire.through(config)?, alone());
    for id in ["kept", "going"] {
        world.create(id).await?;
        world.phase(id, Phase::Provisioned).await?;
    }

    wire.cut();
    world.create("new").await?;
    world.delete("going").await?;
    let delete = DeleteParams::default();
    world
        .inside::<Role>("kept")
        .delete(CLUSTER, &delete)
        .await?;
    // More than the watch history of a kind.
    let roles: Api<Role> = Api::namespaced(world.admin.clone(), "default");
    let mut noise = named::<Role>("noise");
    let (label, value) = MANAGED_BY;
    noise.metadata.labels = Some([(label.to_owned(), value.to_owned())].into());
    for _ in 0..600 {
        put(&roles, &noise).await?;
        roles.delete("noise", &delete).await?;
    }
    assert_eq!(phase_of(&world.tenants().get("new").await?), None);

    wire.mend();
    world.phase("new", Phase::Provisioned).await?;
    world.gone("going").await?;
    eventually(async || Ok(world.inside::<Role>("kept").get_opt(CLUSTER).await?)).await?;
    assert_whole(&world, "kept").await
}
